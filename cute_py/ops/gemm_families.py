"""The families of kernels that compute products: what they read, and their configurations.

Compute capability 9.0 has two families of its own, `kernels/gemm_sm90.py`, which read by TMA. What
TMA cannot read is copied to aligned rows where that is worth it; else the kernel of all GPUs,
`kernels/gemm.py`, computes the product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import VECTOR_BYTES
from cute_py.errors import refusal
from cute_py.kernels import configuration
from cute_py.kernels.config import GemmConfig, MultistageConfig, choose_config
from cute_py.kernels.config_sm90 import (
    CLASSES,
    WARPGROUP_ATOMS,
    WarpgroupConfig,
    instruction_of,
    require_result,
)
from cute_py.kernels.configuration import given_as, parts_of
from cute_py.kernels.gemm import gemm as gemm_multistage
from cute_py.kernels.gemm_sm90 import gemm_cooperative, gemm_pingpong
from cute_py.kernels.gemm_split import gemm_split
from cute_py.kernels.gemm_split_sm90 import gemm_cooperative_split
from cute_py.kernels.gemv import VectorConfig, gemv
from cute_py.kernels.splits import NO_SPLIT, Split
from cute_py.layout.tuples import ceil_div
from cute_py.ops import gemm_vectors
from cute_py.ops.family import MOST_ALONG_YZ, Estimate, Family, Reads, named_by
from cute_py.ops.gemm_tiles import Asked, all_for_gpu, for_gpu
from cute_py.ops.gemm_tiles_sm90 import (
    ProductFacts,
    band_of,
    candidates,
    changed_for_hopper,
    decided,
    grid_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.ops.gemm_tiles_sm90 import Estimate as Timed
    from cute_py.trace.kernel import Kernel

PACKED = 512  # from this size on, copying to aligned rows costs less than it saves
HOPPER = (9, 0)
ANY_MAJOR = ("f16", "bf16")  # types of which wgmma reads operands in any order
SPILLED = 384  # bytes of a thread, outside of the main loop, for the schedule of a split of K
WORTH = 1.5  # times the least estimated time: slower configurations are not measured


# -- what the families read


@dataclass(frozen=True, slots=True)
class OperandReads(Reads):
    """How a family reads A and B; `copies` are the contiguous modes of copies.

    Attributes:
        whole: whether rows of a copy are of whole vectors, K rounded up by zeros.
        shares: whether a matrix that all of a batch have is passed as one.
    """

    copies: tuple[str, ...] = ("", "")
    whole: bool = False
    shares: bool = False


def is_large(problem: ProductFacts) -> bool:
    """Tell whether copies of the operands cost little."""
    return min(problem.shape) >= PACKED


def unreadable(problem: ProductFacts, i: int) -> str:
    """Return why TMA and wgmma cannot read A or B, "" where they can."""
    kind, addressed = problem.kinds[i].name, problem.addressed[i]
    if problem.majors[i] != "K" and kind not in ANY_MAJOR:
        return f"{'AB'[i]} is not along K, as wgmma wants {kind}"
    if not addressed:
        return f"{'AB'[i]} has matrices that overlap, or a pitch of 2^40 bytes or more"
    if addressed % VECTOR_BYTES:
        return f"{'AB'[i]} has an address or a pitch that is no multiple of 16 bytes"
    return ""


def by_tma(problem: ProductFacts) -> OperandReads:
    """Return how TMA reads the operands: as they are, or copied where that is worth it."""
    (a, b), gpu = problem.kinds, problem.gpu
    wrong = [unreadable(problem, i) for i in range(2)]
    said = "; ".join(filter(None, wrong))
    takes, why = False, "the kernel of all GPUs"
    if gpu is not None and gpu.capability == HOPPER:
        takes, why = True, "the family of compute capability 9.0"
        if (a.name, b.name) not in WARPGROUP_ATOMS:
            takes, why = False, f"wgmma does not multiply {a}"
        elif said and not is_large(problem):
            less = f"and a size is below {PACKED}: a copy would cost more than it saves"
            takes, why = False, f"{said}, {less}"
    if not said or gpu is None:
        return OperandReads(takes, why, shares=True)
    # along K where wgmma wants it, else as it is
    modes = [m if k.name in ANY_MAJOR else "K" for m, k in zip(problem.majors, (a, b), strict=True)]
    copies = tuple([mode if x else "" for mode, x in zip(modes, wrong, strict=True)])
    return OperandReads(takes, why, copies, said, shares=True)


def by_vectors(problem: ProductFacts) -> OperandReads:
    """Return how cp.async reads operands of matrix instructions: in rows of whole vectors, which
    large ones are copied to.
    """
    takes, is_whole = problem.kinds[0].name != "f32", min(problem.aligned) == VECTOR_BYTES
    if problem.gpu is None or is_whole or not is_large(problem):
        return OperandReads(takes, whole=True)
    said = "A and B, for rows of whole 16 bytes"
    return OperandReads(takes, copies=("K", "K"), said=said, whole=True)


def by_elements(_problem: ProductFacts) -> OperandReads:
    """Return how threads read the operands of plain multiply-adds: as they are."""
    return OperandReads(whole=True)


def by_registers(problem: ProductFacts) -> OperandReads:
    """Return how threads read a product with one row or one column: as it is."""
    if min(problem.shape[:2]) > 1:
        return OperandReads(False)
    why = gemm_vectors.why_not(problem)
    return OperandReads(not why, why or "one row or one column", shares=True)


# -- the families of warpgroups


def _rows(problem: ProductFacts) -> Sequence[Timed]:
    instruction_of(*problem.kinds)  # a part that is given may be for another kernel
    return candidates(problem)


def _grid(config: WarpgroupConfig, problem: ProductFacts) -> tuple[int, ...]:
    """Return how many blocks are launched, and how many tiles of M are a band."""
    shape = problem.shape
    if config.parts.in_memory:  # its schedule says
        return ()
    blocks, waves = grid_of(config, shape, problem.batch, problem.multiprocessors)
    return blocks, band_of(config, shape, waves)


def _fits_hopper(config: WarpgroupConfig, problem: ProductFacts) -> WarpgroupConfig:
    _require_sides(config, problem, problem.addressed)
    _require_result(config, problem)
    return config


def _require_result(config: WarpgroupConfig, problem: ProductFacts) -> None:
    """Refuse a configuration for other types, or whose kernel does not compute such a result."""
    _require_types(config, problem)
    (M, N, _K), result = problem.shape, problem.result
    # the pitch of one row does not matter
    addressable = M * problem.batch == 1 or N * result.bits % (8 * VECTOR_BYTES) == 0
    source = problem.source_by_tma if problem.epilogue.has_source else None
    require_result(config, result, addressable, source)


def _changed_on_hopper(config: Any, text: str, problem: ProductFacts) -> GemmConfig:
    if problem.gpu is None:  # the emulator has the rule of all GPUs, which is changed
        return _changed_in_place(config, text, problem)
    made = changed_for_hopper(config, text, problem)
    with given_as(text):
        _require_result(made, problem)
    return made


def _worth_it(problem: ProductFacts, config: WarpgroupConfig) -> list[WarpgroupConfig]:
    """Return those that are worth it by their estimates."""
    found = candidates(problem)
    most = WORTH * min(x.time for x in found)
    return [replace(x.config, pdl=config.pdl) for x in found if x.time <= most]


# -- the families of all GPUs


def _rule(problem: ProductFacts) -> list[Estimate]:
    """Return the configuration of the rule, which estimates no time."""
    config = choose_config(*problem.shape, problem.kinds, problem.majors, problem.aligned)
    if problem.gpu is not None:
        config = for_gpu(_asked(problem, config))
    return [Estimate(0, _placed(config, problem))]


def _asked(problem: ProductFacts, config: MultistageConfig) -> Asked:
    assert problem.gpu is not None
    (M, N, K), kind = problem.shape, problem.kinds[0]
    return Asked(M, N, K, problem.batch, config, kind, problem.result, problem.gpu)


def kernel_of(config: GemmConfig) -> Kernel:
    """Return the kernel of a configuration: its family's, or where blocks of one kernel split K the
    one that has a schedule around it.
    """
    parts: Split = config.parts  # type: ignore[attr-defined]  # all classes have it
    around: dict[type, Kernel] = {
        MultistageConfig: gemm_split,
        WarpgroupConfig: gemm_cooperative_split,
    }
    if parts.in_memory:
        return around[type(config)]
    return FAMILIES[config.family].kernel


def _placed(config: MultistageConfig, problem: ProductFacts) -> MultistageConfig:
    """Return a configuration with a grid that a GPU has, and without the empty blocks of a band
    that extends past M.
    """
    if config.parts.in_memory:
        return config
    m, n = (ceil_div(x, y) for x, y in zip(problem.shape, config.tile[:2], strict=False))
    band = config.band if config.band <= m else 0
    along_z = (config.batches or problem.batch) * (ceil_div(m, band) if band else 1)
    flat = int(max(n, along_z) > MOST_ALONG_YZ)
    known = (band, flat) == (config.band, config.flat)
    return config if known else replace(config, band=band, flat=flat)


def _fits_all(config: MultistageConfig, problem: ProductFacts) -> MultistageConfig:
    _require_sides(config, problem, problem.aligned)
    _require_types(config, problem)
    return _placed(config, problem)


def _changed_in_place(
    config: MultistageConfig, text: str, problem: ProductFacts
) -> MultistageConfig:
    split = parts_of(text, CLASSES).get("parts", NO_SPLIT)
    config = replace(config, flat=0)
    if split.in_memory:
        spills = max(config.spill_bytes, SPILLED)
        config = replace(config, band=0, prefetch=0, spill_bytes=spills)
    made: Any = changed(config, text)
    return _placed(made, problem)


def _all_tiles(problem: ProductFacts, config: MultistageConfig) -> list[MultistageConfig]:
    return [_placed(x, problem) for x in all_for_gpu(_asked(problem, config))]


# -- the family of one row or one column


def _fits_vectors(config: VectorConfig, problem: ProductFacts) -> VectorConfig:
    _require_sides(config, problem, problem.aligned)
    _require_types(config, problem)
    return config


# -- the rows

COOPERATIVE = Family(
    "cooperative",
    gemm_cooperative,
    WarpgroupConfig,
    _rows,
    by_tma,
    "TMA and wgmma",
    numbers=_grid,
    decide=decided,
    fits=_fits_hopper,
    changed=_changed_on_hopper,
    others=_worth_it,
)
MULTISTAGE = Family(
    "multistage",
    gemm_multistage,
    MultistageConfig,
    _rule,
    by_vectors,
    "cp.async and mma.sync",
    fits=_fits_all,
    changed=_changed_in_place,
    others=_all_tiles,
)
GEMV = Family(
    "gemv",
    gemv,
    VectorConfig,
    gemm_vectors.configs,
    by_registers,
    "multiply-adds from registers",
    fits=_fits_vectors,
    others=gemm_vectors.others,
)
ROWS = (
    GEMV,
    COOPERATIVE,
    replace(COOPERATIVE, name="pingpong", kernel=gemm_pingpong),
    MULTISTAGE,
    replace(MULTISTAGE, name="simt", reads=by_elements, means="cp.async and FMA"),
)
TILED = ROWS[1:]  # those of which text may change parts
FAMILIES = {row.name: row for row in ROWS}

# -- a configuration that is given


def changed(config: GemmConfig, text: str) -> GemmConfig:
    """Return a configuration with parts given as text: `tile=64x64x32,stages=3`.

    >>> print(changed(choose_config(512, 512, 512, "f16"), "tile=64x128x32,stages=3"))
    SM80_16x8x16_F32F16F16F32_TN tile=64x128x32 warps=2x2 stages=3 A=Kx8 B=Kx8 cp.async
    """
    with given_as(text):
        named = named_by(TILED, parts_of(text, CLASSES))
    return configuration.changed(config, text, CLASSES, named)  # type: ignore[no-any-return]


def _require_types(config: GemmConfig, problem: ProductFacts) -> None:
    """Refuse a configuration for other types."""
    atom, (a, b) = config.mma_atom, problem.kinds
    if (atom.a_type, atom.b_type) != (a, b):
        rule = f"an atom that multiplies {a} and {b}"
        raise refusal("gemm-config", operation="cute.ops.gemm", config=config, rule=rule)


def _require_sides(config: GemmConfig, problem: ProductFacts, aligned: tuple[int, int]) -> None:
    """Refuse a configuration that reads an operand in another order than it has in memory, or in
    larger vectors than what divides its addresses (bytes).
    """
    facts = zip((config.a, config.b), problem.majors, aligned, problem.kinds, strict=True)
    for side, major, divisor, kind in facts:
        most = max(divisor * 8 // kind.bits, 1)
        if side.major != major or side.vector > most:
            rule = f"major {major} and vectors of at most {most} elements here"
            given = f"an operand read as {side}"
            raise refusal("gemm-config", operation="cute.ops.gemm", config=given, rule=rule)
