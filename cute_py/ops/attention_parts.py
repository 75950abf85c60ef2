"""Attention of few queries: its tiles, in how many parts keys are split, and the calls for that.

How many parts depends on shapes alone, so that a captured graph has as many when lengths change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from cute_py.calls.arrays import dtype_of
from cute_py.dtypes.table import f32
from cute_py.errors import refusal
from cute_py.kernels.attention_decode import MOST_PARTS, DecodeAttention
from cute_py.kernels.attention_merge import attention_merge, columns_of_part
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call, Output
from cute_py.ops.family import Estimate, Reads

if TYPE_CHECKING:
    from cute_py.trace.kernel import Kernel

USUAL = 132  # multiprocessors, where they are not known
SHARED = 227 << 10  # bytes of shared memory of a block, where they are not known
KEPT = 1 << 10  # bytes of shared memory that each block takes besides
FEW = 32  # rows of queries of a group, at most, for which keys are read by this family
MOST_STAGES = 4
BEGIN, MERGE = 6, 2  # steps that a block takes besides those for keys, and a merge takes
OTHER = 2.0  # the time of configurations that `cute.tune` alone measures
BLOCK_BYTES = 1 << 18  # about what the emulator keeps of a block


class Sizes(NamedTuple):
    """Batch, heads of queries and of keys, queries, keys, and columns of q and v."""

    B: int
    H: int
    G: int
    M: int
    N: int
    D: int
    E: int

    @property
    def rows(self) -> int:
        """Queries of the heads that share one of keys."""
        return self.M * (self.H // max(self.G, 1))


def by_mma(problem: Any) -> Reads:
    """Return whether a GPU has the products of 16-bit floats by warps; the emulator has."""
    old = problem.gpu is not None and problem.gpu.capability < (8, 0)
    return Reads(not old, "no GPU of sm_80 or later" if old else "16-bit floats")


def by_decode(problem: Any) -> Reads:
    """Return whether the kernel for few queries takes a problem."""
    kind = dtype_of(problem.given["q"])
    if kind.name == "f32":
        return Reads(False, "arrays of f32, which mma.sync does not multiply")
    if problem.kind is not kind:
        return Reads(False, "a result of another type")
    if not by_mma(problem).takes:
        return by_mma(problem)
    if problem.rule.score is not None or problem.rule.mask is not None:
        return Reads(False, "functions of scores, which tiles of several heads do not take")
    if problem.parts > 1:
        return Reads(True, f"keys in {problem.parts} parts")
    rows = problem.sizes.rows
    return Reads(rows <= FEW, f"{rows} queries of the heads that share one of keys")


def decode_configs(problem: Any, vector: int, page: int = 0) -> list[Estimate]:
    """Return tiles that fit the registers, with rings that fit shared memory.

    Args:
        problem: with `sizes`, `gpu`, and `parts`: 0 for the rule.
        vector: the bits of a load.
        page: rows of a page, or 0.

    """
    sizes, gpu = problem.sizes, problem.gpu
    D, E = (32 if n <= 32 else ceil_div(n, 64) * 64 for n in (sizes.D, sizes.E))
    rows = 32 if sizes.rows > 16 and max(D, E) <= 128 else 16
    free = (SHARED if gpu is None else gpu.smem) - 2 * rows * D
    config = DecodeAttention(rows, 16, D, E, page=page, vector=vector)
    while 2 * _step(config) > free and config.warps > 1:
        config = replace(config, warps=config.warps // 2)
    half = (free - KEPT) // 2 - rows * D  # for each of two blocks
    blocks, room = (2, half) if half >= 2 * _step(config) else (1, free)
    config = replace(config, stages=min(room // _step(config), MOST_STAGES))
    processors = USUAL if gpu is None else gpu.multiprocessors
    parts = problem.parts or parts_of(sizes, config, processors * blocks)
    config = replace(config, parts=parts)
    how = f"{config.stages} tiles of keys a warp, {blocks} blocks a multiprocessor"
    near = [] if problem.parts else [n for n in (parts // 2, 2 * parts) if 1 <= n <= MOST_PARTS]
    others = [replace(config, parts=n) for n in near]
    if max(D, E) <= 128:
        others += [replace(config, stages=2, keys=32), replace(config, stages=2, warps=8)]
    fits = [Estimate(OTHER, x) for x in others if x.stages * _step(x) <= free]
    return [Estimate(1.0, config.because(f"stages: {how}")), *fits]


def _step(config: DecodeAttention) -> int:
    """Return the bytes of a stage of all warps."""
    return 2 * config.width * (config.head_dim + config.value_dim)


def parts_of(sizes: Sizes, config: DecodeAttention, blocks: int) -> int:
    """Return in how many parts keys are split, so that all blocks that a GPU has at once have about
    as much work: the number with the least steps of the last one.

    >>> for batch, keys in ((1, 32768), (4, 32768), (64, 8192)):
    ...     parts_of(Sizes(batch, 64, 8, 1, keys, 128, 128), DecodeAttention(), 264)
    32
    8
    1
    """
    steps = ceil_div(sizes.N, config.width)
    count = sizes.B * sizes.G * ceil_div(sizes.rows, config.rows)

    def cost(parts: int) -> int:
        waves = ceil_div(count * parts, blocks)
        return waves * (ceil_div(steps, parts) + BEGIN) + (MERGE if parts > 1 else 0)

    return min(range(1, max(min(steps, MOST_PARTS), 1) + 1), key=cost)


def asked_parts(problem: Any, given: Any) -> int:
    """Return how many parts a call asks for; 0: as many as the rule finds. Refuse others."""
    if given is None:
        return 0
    is_whole = hasattr(given, "__index__") and not isinstance(given, bool)
    if not is_whole or not 1 <= given <= MOST_PARTS:
        facts: dict[str, Any] = {"value": given, "most": MOST_PARTS}
        raise refusal("attention-parts", operation=problem.operation, **facts)
    return int(given)


def decode_call(
    problem: Any, kernel: Kernel, config: DecodeAttention, reads: tuple[Any, ...], outputs: Any
) -> Call:
    """Return the call of a kernel for few queries, or of the one that merges what it finds for
    parts of the keys.
    """
    sizes, rule, library = problem.sizes, problem.rule, problem.library
    ends = rule.ends and (rule.top_left or sizes.M > 1)  # the last query sees all keys
    statics = config, replace(rule, ends=ends)
    no_lse = () if len(outputs) > 1 else (None,)
    count = sizes.B * sizes.G * ceil_div(sizes.rows, config.rows) * config.parts
    how: dict[str, Any] = {"block_bytes": BLOCK_BYTES, "blocks": count}
    if config.parts == 1:
        how |= {"statics": statics, "workspace": no_lse, "choice": (config,), "inputs": problem}
        return Call(kernel, library, reads, outputs, more=problem.numbers, **how)
    form = config.parts, sizes.B, sizes.H, sizes.M, columns_of_part(sizes.E)
    made = library.empty(form, f32)
    first = Call(
        kernel,
        library,
        reads,
        (Output(made, made, form),),
        more=problem.numbers,
        statics=statics,
        workspace=(None,),
        **how,
    )
    return Call(
        attention_merge,
        library,
        (made,),
        outputs,
        statics=(config.parts,),
        workspace=no_lse,
        choice=(config,),
        blocks=sizes.B * sizes.H * sizes.M,
        block_bytes=1 << 14,
        inputs=problem,
        first=first,
    )
