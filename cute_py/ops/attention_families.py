"""The families of kernels of `attention`: what each reads, and the tiles that it gets.

Few queries are computed by warps that have keys of their own. On Hopper, warpgroups multiply 16-bit
floats that TMA loads; on other GPUs, and where TMA cannot read the rows, warps do; what is left,
f32, is read by a warp for each query.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import VECTOR_BYTES, address_of, dtype_of, strides_of
from cute_py.errors import refusal
from cute_py.kernels.attention_decode import DecodeAttention, attention_decode
from cute_py.kernels.attention_rows import RowsAttention, attention_rows
from cute_py.kernels.attention_sm90 import attention_sm90
from cute_py.kernels.attention_varlen import (
    attention_rows_varlen,
    attention_sm90_varlen,
    flash_attention_varlen,
)
from cute_py.kernels.config_attention import WarpgroupAttention
from cute_py.kernels.flash_attention import AttentionConfig, flash_attention
from cute_py.kernels.sequences import most_blocks
from cute_py.layout.tuples import ceil_div
from cute_py.ops.attention_parts import USUAL, by_decode, by_mma, decode_configs
from cute_py.ops.family import Estimate, Family, Reads, asked_by, changed_for, choose, take
from cute_py.ops.operands import bytes_each, is_apart

if TYPE_CHECKING:
    from collections.abc import Sequence


WHOLE = Reads(False, "keys in parts, as the family decode has them alone")


def _by_warpgroups(problem: Any) -> Reads:
    if problem.parts > 1:
        return WHOLE
    if problem.gpu is not None and problem.gpu.capability != (9, 0):
        return Reads(False, "no GPU of sm_90a")
    kind = dtype_of(problem.given["q"])
    if kind.name == "f32":
        return Reads(False, "arrays of f32, which wgmma does not multiply")
    if problem.kind is not kind:
        return Reads(False, "a result of another type, for which TMA has no place")
    if not all(_is_for_tma(x) for x in problem.rows):
        return Reads(False, "rows that are not apart, or not made of vectors of 16 bytes")
    return Reads(True, "rows are made of vectors of 16 bytes")


def _by_warps(problem: Any) -> Reads:
    if problem.parts > 1:
        return WHOLE
    if dtype_of(problem.given["q"]).name == "f32":
        return Reads(False, "arrays of f32, which mma.sync does not multiply")
    return by_mma(problem)


def _by_rows(problem: Any) -> Reads:
    return WHOLE if problem.parts > 1 else Reads()


def _is_for_tma(x: Any) -> bool:
    """Return whether TMA reads and writes the rows of an array."""
    return vector_of((x,)) == 8 * VECTOR_BYTES and is_apart(x)


def _warpgroups(problem: Any) -> list[Estimate]:
    """Return the tiles that were measured, or that fit the registers."""
    rule, dim, wide = problem.rule, problem.sizes.D, problem.sizes.E
    more = rule.scaled or rule.mask is not None
    columns = next(n for n in (64, 96, 128, 192, 256) if n >= max(dim, wide))
    values = 128 if columns == 192 and wide <= 128 else columns
    named: dict[str, Any] = {"head_dim": columns, "value_dim": values}
    if columns == 64 and not (more or rule.ends or rule.begins or problem.lengths_vary):
        named |= {"groups": 3, "turns": 1, "holds": 0}
    elif columns == 64:
        named |= {"stages": 4, "turns": int(not (more and problem.lengths_vary)), "heads": 8}
    elif columns > 128:
        most = 64 if problem.lengths_vary else 80  # those of sequences take registers
        named |= {"keys": {(192, 128): 128, (192, 192): 112, (256, 256): most}[columns, values]}
        named |= {"ahead": 1}
    else:
        named |= {"buffers": 1 if more else 2, "heads": 2 if rule.ends else 1}
    if problem.lengths_vary:
        named.pop("heads", None)  # blocks of queries have another order
    return [Estimate(1.0, WarpgroupAttention(**named))]


# columns of a tile of Q or V -> (queries, keys, warps) of tiles that fit the registers, the first
# one by default: more queries read K and V less often, and fewer warps read shared memory less
TILES = {
    64: ((128, 64, 4), (128, 64, 8)),
    128: ((128, 64, 8), (128, 32, 4), (64, 64, 4)),
    256: ((64, 32, 4), (128, 32, 8)),
}
LIGHT = {64: (128, 64, 8), 128: (128, 64, 8), 256: (64, 16, 4)}  # where more is done to scores
NARROW = (64, 32, 4)  # for vectors of less than 64 bits: a thread has as many of them, or few more


def _warps(problem: Any) -> list[Estimate]:
    """Return tiles that fit the registers, and vectors of which all rows are made."""
    dims = [32 if n <= 32 else ceil_div(n, 64) * 64 for n in (problem.sizes.D, problem.sizes.E)]
    wide, vector = max(dims), vector_of(problem.rows)
    columns = next(n for n in TILES if wide <= n)
    tiles: tuple[tuple[int, int, int], ...] = TILES[columns]
    if problem.rule.scaled or problem.rule.mask is not None:
        tiles = (LIGHT[columns],)
    if vector < 64:
        tiles = (NARROW,)
    why = f"for up to {wide} columns in vectors of {vector} bits"
    named: dict[str, Any] = {"head_dim": dims[0], "value_dim": dims[1], "vector": vector}
    made = [AttentionConfig(m, n, warps=w, **named) for m, n, w in tiles]
    return [
        Estimate(1.0 + i / 64, x.because(f"{x.queries} queries by {x.keys} keys {why}"))
        for i, x in enumerate(made)
    ]


def _rows(problem: Any) -> list[Estimate]:
    return [Estimate(1.0, RowsAttention(value_dim=32 * ceil_div(problem.sizes.E, 32)))]


def _decode(problem: Any) -> list[Estimate]:
    return decode_configs(problem, vector_of(problem.rows[:3]))


def _blocks(config: WarpgroupAttention, problem: Any) -> tuple[int, ...]:
    """Return how many blocks there are: one for each multiprocessor, if all have work."""
    sizes = problem.sizes
    count = ceil_div(sizes.M, config.queries)
    if problem.rule.ends and not problem.rule.begins:
        count = ceil_div(count, 2)
    return (_at_once(problem, sizes.B * sizes.H * count),)


def _blocks_varlen(config: WarpgroupAttention, problem: Any) -> tuple[int, ...]:
    """Return the same for sequences of any lengths, which the host does not know."""
    B, H, _g, M, *_sizes = problem.sizes
    return (_at_once(problem, H * most_blocks(M, B, config.queries)),)


def _at_once(problem: Any, items: int) -> int:
    """Return how many blocks compute items of work one after the other."""
    return min(items, USUAL if problem.gpu is None else problem.gpu.multiprocessors)


FAMILIES = (
    Family(
        "decode",
        attention_decode,
        DecodeAttention,
        _decode,
        by_decode,
        "warps have keys of their own, for all heads that share them",
    ),
    Family(
        "warpgroups",
        attention_sm90,
        WarpgroupAttention,
        _warpgroups,
        _by_warpgroups,
        "warpgroups multiply tiles that TMA loads",
        _blocks,
    ),
    Family("warps", flash_attention, AttentionConfig, _warps, _by_warps, "warps multiply tiles"),
    Family("rows", attention_rows, RowsAttention, _rows, _by_rows, "a warp for each query"),
)
VARLEN = tuple(
    replace(x, kernel=kernel, numbers=numbers)
    for x, kernel, numbers in zip(
        FAMILIES[1:],
        (attention_sm90_varlen, flash_attention_varlen, attention_rows_varlen),
        (_blocks_varlen, *[x.numbers for x in FAMILIES[2:]]),
        strict=True,
    )
)  # for several sequences in one array
CONFIGS = DecodeAttention, WarpgroupAttention, AttentionConfig, RowsAttention


def vector_of(arrays: Sequence[Any]) -> int:
    """Return the bits of the vectors that all rows of arrays (B,H,rows,dim) are made of; modes of
    one element count, too, since a kernel does not know that they have one.
    """
    found = []
    for x in arrays:
        size = bytes_each(x)
        steps = [n * size for n in (x.shape[3], *strides_of(x)[:3])]
        found.append(gcd(VECTOR_BYTES, address_of(x), *steps))
    return 8 * min(found)


def configured(problem: Any) -> Any:
    """Return the configuration that a problem asks for, by its class or by text, or the one of the
    first family that takes it; refuse one that does not hold its rows.
    """
    given, families = problem.request.config, list(problem.families)
    if problem.gpu is None:  # the emulator takes longer for TMA and wgmma
        families.sort(key=lambda x: x.name == "warpgroups")
    taken = take(families, problem, asked_by(families, given))
    if not taken.reads.takes:
        why = taken.reads.why
        raise refusal("ops-family", operation=problem.operation, config=given, why=why)
    config, why = choose(taken, problem)
    config = config.because(taken.reason, *why())
    if isinstance(given, str):
        config = changed_for(taken, config, given, problem)
    elif given is not None:
        config = given
    problem.require_parts(config)
    D, E = problem.sizes.D, problem.sizes.E
    if getattr(config, "head_dim", D) < D or (config.value_dim or config.head_dim) < E:
        rule = f"dims of at least {D} and {E}"
        raise refusal("config-attention", operation=problem.operation, config=config, rule=rule)
    return config
