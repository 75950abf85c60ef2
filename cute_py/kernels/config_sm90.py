"""Configurations of the GEMMs for Hopper: which tiles warpgroups can have, and their layouts.

TMA copies boxes whose rows are at most 128 bytes wide, so a tile of K has 128 bytes, and all
operands have the 128-byte swizzle. A part of D has rows of 128, 64, 32 or 16 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import cute_py as cute
from cute_py.atoms.registry import get
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.config import (
    CHUNK,
    LINE,
    OF_TILES,
    GemmConfig,
    MultistageConfig,
    Side,
)
from cute_py.kernels.configuration import configured, part, parts_by_name, told
from cute_py.kernels.splits import NO_SPLIT, Split, blocks_of_cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import AnyLayout

# types of A and B -> the types and the K of the warpgroup instruction; bytes and tf32 are along K
WARPGROUP_ATOMS = {
    ("f16", "f16"): ("F32F16F16_SS", 16),
    ("bf16", "bf16"): ("F32BF16BF16_SS", 16),
    ("tf32", "tf32"): ("F32TF32TF32_SS_TN", 8),
    **{
        (a, b): (f"S32{a.upper()}{b.upper()}_SS_TN", 32) for a in ("s8", "u8") for b in ("s8", "u8")
    },
    **{
        (a, b): (f"F32{a.upper()}{b.upper()}_SS_TN", 32)
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    },
}
SCHEDULES = ("multistage", "cooperative", "pingpong")
HOPPER_SMEM = 232448  # bytes of a block
MOST_SUMS = {1: 208, 2: 208, 3: 112}  # registers of a thread, by warpgroups that multiply
MOST_STAGES = 16
MBARRIER = 8  # bytes
ALIGNED = 1024  # bytes: what TMA copies with the widest swizzle begins at multiples
PART = 64  # columns of D that leave at a time, if not all
FEW_ROWS = 16  # rows of A that are loaded at a time where a tile of 64 has not as many


@dataclass(frozen=True, slots=True)
class WarpgroupConfig(GemmConfig):
    """How the kernels of `gemm_sm90.py` compute a product: a warp loads by TMA, and warpgroups
    multiply by wgmma. `warps` are those that share a tile, (4 * warpgroups, 1).

    Attributes:
        reasons: why each part was chosen; not compared.
        store: the columns of D that leave at a time through shared memory, by TMA; 0: straight
            from the accumulators.
        pdl: 1: blocks start while the previous kernel is still running, and wait for its results
            (programmatic dependent launch).
        prefetch: 1: TMA loads C while a tile is multiplied, to the shared memory of D. C has the
            type of D then.
        schedule: "cooperative": warpgroups share a tile of D; "pingpong": each of two has its own,
            and one stores while the other multiplies.
        cluster: blocks along N that share tiles of A by multicast.
        two_level: 1: the sums of each tile of K are added to sums in f32, as products of 8-bit
            floats have fewer bits.
        split: blocks of a cluster that share the tiles of K of a tile of D, and add their sums.
        parts: parts of K that are products of their own, whose sums a second kernel adds, or how
            blocks of one kernel split it in memory; in text "split=parallel:4", for example.
    """

    warps: tuple[int, int] | tuple[int, int, int] = field(
        metadata=told(counts=(2, 3), about=OF_TILES, asks=False)
    )
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)
    store: int = part(0, about=("C", "D"))
    pdl: int = part(0, about=("programmatic dependent launch",))
    prefetch: int = part(0, about=("C",), asks=False)
    schedule: str = part("cooperative", choices=SCHEDULES, about=("tile",), is_shown=True)
    cluster: int = part(1, about=("tile",))
    two_level: int = part(0)
    split: int = part(1, about=("tile",), reads=blocks_of_cluster)
    parts: Split = field(
        default=NO_SPLIT,
        metadata=told(text="split", reads=Split.of, takes=Split.is_among_blocks),
    )

    @property
    def family(self) -> str:
        """The name of the family of kernels that it is for."""
        return self.schedule

    @property
    def way(self) -> str:
        """How tiles get to shared memory."""
        return "TMA"

    @property
    def mma_atom(self) -> Any:  # an MMA_Atom
        """The MMA atom."""
        sides = self.a.major, self.b.major
        return get(self.atom if sides == ("K", "K") else f"{self.atom}<{sides[0]},{sides[1]}>")

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return (self.consumers + 1) * 128

    @property
    def warpgroups(self) -> int:
        """Warpgroups that share a tile of D."""
        return self.warps[0] // 4

    @property
    def consumers(self) -> int:
        """Warpgroups of a block that multiply."""
        return 2 if self.schedule == "pingpong" else self.warpgroups

    @property
    def registers(self) -> tuple[int | None, int | None]:
        """Registers of a thread that loads and of one that multiplies; None: as many for both."""
        if self.consumers == 1:
            return None, None
        if self.consumers == 3:
            return 32, 160
        return (
            (24, 240) if self.tile[0] // self.warpgroups * self.tile[1] > 128 * 128 else (40, 232)
        )

    def tiled_mma(self, along_k: bool = False) -> Any:  # a TiledMMA
        """Return the atom over the threads of the warpgroups that share a tile."""
        return cute.make_tiled_mma(self.mma_atom, (self.warpgroups, 1, 1))

    def require(self, others: Mapping[str, Any] | None = None) -> None:
        """Refuse parts that do not fit each other, or that a block has no room for."""
        GemmConfig.require(self, others)
        require_room(self)

    def rules(self, has_others: bool) -> list[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        if self.schedule not in SCHEDULES[1:] or not self.atom.startswith("SM90_64x"):
            known = f"a schedule among {', '.join(SCHEDULES)}"
            return [(f"{known}, and warpgroup instructions for the last two", True)]
        return [*_rules_of_tiles(self, has_others), *_rules_of_parts(self)]

    def details(self) -> list[str]:
        """Return the layouts of A and B, a line each."""
        return [f"{name}: {x}" for name, x in zip("AB", self.smem_layouts(), strict=True)]

    def smem_layouts(self) -> list[AnyLayout]:
        """Return the layouts of all stages of A and of B, as TMA writes and wgmma reads them. Tiles
        along M or N are boxes of 128 bytes, each contiguous: K comes first.
        """
        (m, n, k), atom = self.tile, self.mma_atom
        return [
            cute.tile_to_shape(
                getattr(cute.atoms, f"Layout_{side.major}_SW128_Atom")(dtype),
                (rows, k, self.stages),
                (1, 2, 3) if side.major == "K" else (2, 1, 3),
            )
            for rows, dtype, side in ((m, atom.a_type, self.a), (n, atom.b_type, self.b))
        ]


CLASSES = MultistageConfig, WarpgroupConfig  # those of products


def instruction_of(a: Dtype, b: Dtype) -> tuple[str, int]:
    """Return the types of the warpgroup instruction of two types, as its name has them, and its
    extent in K; refuse others.
    """
    found = WARPGROUP_ATOMS.get((a.name, b.name))
    if found is None:
        known = ", ".join([f"{x}*{y}" for x, y in WARPGROUP_ATOMS])
        raise refusal("config-types", operation="warpgroup_config", a=a, b=b, known=known)
    return found


def warpgroup_config(
    types: tuple[DtypeLike, DtypeLike],
    tile: tuple[int, int],
    warpgroups: int = 2,
    schedule: str = "cooperative",
    majors: tuple[str, str] = ("K", "K"),
    result: DtypeLike = "bf16",
    *,
    one_pass: bool = True,
    **given: Any,
) -> WarpgroupConfig:
    """Return a configuration for Hopper, with as many stages as a block has room for.

    Args:
        types: of A and B.
        tile: M and N of a tile of D.
        warpgroups: that share a tile.
        schedule: "cooperative" or "pingpong".
        majors: which mode of A and of B is contiguous, "K" or "MN".
        result: the type of D.
        one_pass: whether 64 rows of D leave at a time, all columns together; else, and if an
            element has more than 2 bytes, 64 columns.
        given: parts of the configuration that differ.

    Raises DtypeError where no warpgroup instruction multiplies these types, and LayoutError for
    parts that do not fit each other, or that a block has no room for.

    >>> print(warpgroup_config(("bf16", "bf16"), (128, 256)))
    SM90_64x256x16_F32BF16BF16_SS tile=128x256x64 warps=8x1 stages=3 A=Kx8 B=Kx8 TMA store=256 \
schedule=cooperative
    """
    a, b = (as_dtype(kind) for kind in types)
    (m, n), (names, depth), kind = tile, instruction_of(a, b), as_dtype(result)
    store = n if one_pass and kind.bits <= 16 else min(n, PART)
    sides = [Side(major, CHUNK // x.bits) for major, x in zip(majors, (a, b), strict=True)]
    atom, shape = f"SM90_64x{n}x{depth}_{names}", (m, n, LINE // a.bits)
    least = least_stages(m, given.get("split", 1))
    whole = {"atom": atom, "tile": shape, "warps": (4 * warpgroups, 1), "stages": least}
    whole |= {"a": sides[0], "b": sides[1], "store": store, "schedule": schedule, **given}
    config = configured(WarpgroupConfig, whole, CLASSES)
    require_result(config, kind)
    if "stages" not in given:
        room = HOPPER_SMEM - LINE - store_bytes(config, kind)
        most = max(least, min(room // ((m + n) * LINE // 8), MOST_STAGES))
        config = replace(config, stages=most)
    return config


# -- layouts


def row_mma(config: WarpgroupConfig, columns: int = 0) -> Any:  # a TiledMMA
    """Return the atom over the threads of one warpgroup: 64 rows of a tile, perhaps with fewer
    columns.
    """
    n = config.tile[1]
    return cute.make_tiled_mma(config.atom.replace(f"_64x{n}x", f"_64x{columns or n}x"))


def store_parts(config: WarpgroupConfig, dtype: Dtype) -> list[list[tuple[int, int, int]]]:
    """Return the columns of D that are stored at a time, in parts of at most 128 bytes that a
    swizzle has: (first column, width, which of this width).
    """
    step, found = config.store or config.tile[1], []
    for first in range(0, config.tile[1], step):
        parts: list[tuple[int, int, int]] = []
        column, end = first, min(first + step, config.tile[1])
        while column < end:
            wide = next(w for w in (128, 64, 32, 16) if w * 8 // dtype.bits <= end - column)
            width = wide * 8 // dtype.bits
            parts.append((column, width, sum(w == width for _c, w, _s in parts)))
            column += width
        found.append(parts)
    return found


def store_layouts(config: WarpgroupConfig, dtype: Dtype) -> dict[int, AnyLayout]:
    """Return, for each width of parts of D, the layout (64, width, slots, warpgroups) in shared
    memory.
    """
    if not config.store:
        return {}
    slots: dict[int, int] = {}
    for parts in store_parts(config, dtype):
        for _column, width, slot in parts:
            slots[width] = max(slots.get(width, 0), slot + 1)
    names = {128: "SW128", 64: "SW64", 32: "SW32", 16: "INTER"}
    found = {}
    for width, count in slots.items():
        atom = getattr(cute.atoms, f"Layout_K_{names[width * dtype.bits // 8]}_Atom")(dtype)
        shape = 64, width, count, config.consumers
        found[width] = cute.tile_to_shape(atom, shape)
    return found


def store_bytes(config: WarpgroupConfig, dtype: Dtype) -> int:
    """Return the shared memory that D passes through, of `store_layouts` (bytes)."""
    return int(sum(cute.cosize(x) for x in store_layouts(config, dtype).values())) * dtype.bits // 8


def shared_bytes(config: WarpgroupConfig, result: Dtype | None, loads_source: bool = False) -> int:
    """Return the shared memory that the kernel takes (bytes): the stages, mbarriers, and where D
    passes through.

    Args:
        config: the configuration.
        result: type of D; None: without D.
        loads_source: whether C comes by TMA.

    """
    (m, n, _k), split = config.tile, config.split > 1
    stage = LINE // 8 * config.stages
    top = m * stage + max(n * stage, 4 * m * n if split else 0)  # sums take the place of B
    top += MBARRIER * (2 * config.stages + (4 * config.warpgroups + 1 if split else 0))
    if result is not None:
        for layout in store_layouts(config, result).values():
            top = -(-top // ALIGNED) * ALIGNED + int(cute.cosize(layout)) * result.bits // 8
    turns = 2 if config.schedule == "pingpong" else config.consumers if loads_source else 0
    return top + MBARRIER * turns


# -- rules


def require_room(
    config: WarpgroupConfig, result: Dtype | None = None, source: bool = False
) -> None:
    """Refuse a configuration that takes more shared memory than a block has; arguments as in
    `shared_bytes`.
    """
    taken = shared_bytes(config, result, source)
    if taken <= HOPPER_SMEM:
        return
    (m, n, _k), least = config.tile, least_stages(config.tile[0], config.split)
    each = (m + n) * LINE // 8 + 2 * MBARRIER
    most = config.stages - -(-(taken - HOPPER_SMEM) // each)
    fix = "a smaller tile"
    if most >= least:
        fix = f"at most stages={most}" + (", less what D takes" if result is None else "")
    given = f"tile={'x'.join(map(str, config.tile))}, stages={config.stages}"
    if config.split > 1:
        given += f", split={config.split}"
        if most < least:
            fix += f", or split=1: the sums of {m} rows take the place of {least} stages of B"
    if result is not None and config.store:
        given += f", store={config.store} of {result}"
    facts: dict[str, Any] = {"parts": given, "bytes": taken, "most": HOPPER_SMEM, "fix": fix}
    raise refusal("config-shared", operation="GemmConfig", **facts)


def require_result(
    config: WarpgroupConfig, result: Dtype, addressable: bool = True, source: bool | None = None
) -> None:
    """Refuse a configuration whose kernel does not compute a D.

    Args:
        config: the configuration.
        result: type of D.
        addressable: whether TMA can write the rows of D.
        source: whether TMA can read C as a part of D; None: there is no C.

    """
    n, step = config.tile[1], config.store or config.tile[1]
    for rule, wrong in (
        (
            f"columns of {result} in whole 16 bytes, of a tile and of a store",
            any(columns * result.bits % CHUNK for columns in (n, step)),
        ),
        (
            "rows of D in whole 16 bytes, or store=0: TMA writes no others",
            bool(config.store) and not addressable,
        ),
        (
            f"C of {result}, in rows that TMA can address, or prefetch=0",
            bool(config.prefetch) and source is False,
        ),
    ):
        if wrong:
            raise refusal("gemm-config", operation="GemmConfig", config=config, rule=rule)
    require_room(config, result, bool(config.prefetch) and source is not None)


def least_stages(m: int, split: int) -> int:
    """Return the fewest stages of a tile of m rows: where K is split, the tiles of B have room for
    the sums.
    """
    return m // 32 if split > 1 else 2


def can_load_source(config: WarpgroupConfig) -> bool:
    """Tell whether the shared memory of D has room for all of C of a tile."""
    m, n, _k = config.tile
    cooperative = config.schedule == "cooperative" and config.split == 1
    cooperative = cooperative and not config.parts.in_memory
    return cooperative and m == 64 * config.warpgroups and config.store == n


def _rules_of_tiles(config: WarpgroupConfig, has_others: bool) -> list[tuple[str, bool]]:
    """Return rules of the tile, and whether each is broken; whether there are parts of the other
    schedule.
    """
    m, n, k = config.tile
    atom, groups = get(config.atom), config.warpgroups
    absent = [x for x in parts_by_name(MultistageConfig) if x not in parts_by_name(WarpgroupConfig)]
    return [
        (
            "1 to 3 warpgroups along M, and one for each tile of a ping-pong",
            config.warps not in [(4 * g, 1) for g in (1, 2, 3)]
            or (config.schedule == "pingpong" and groups > 1),
        ),
        (
            "64 rows a warpgroup, the columns of the instruction, and 128 bytes of K",
            m < 64
            or bool(groups and m % (64 * groups))
            or n != atom.shape_mnk[1]
            or k * atom.a_type.bits != LINE,
        ),
        (
            "boxes of at most 256 rows, or of 128 bytes along M or N",
            m > 256
            or any(
                side.major == "MN" and rows * bits % LINE
                for rows, side, bits in (
                    (m, config.a, atom.a_type.bits),
                    (n, config.b, atom.b_type.bits),
                )
            ),
        ),
        (
            "operands along K for elements that have not 16 bits",
            atom.a_type.bits != 16 and (config.a.major, config.b.major) != ("K", "K"),
        ),
        ("at least 2 stages, loaded asynchronously", config.stages < 2),
        (f"parts of a configuration that this schedule has: no {', '.join(absent)}", has_others),
    ]


def _rules_of_parts(config: WarpgroupConfig) -> list[tuple[str, bool]]:
    """Return rules of the other parts, and whether each is broken."""
    m, n, _k = config.tile
    atom, groups = get(config.atom), config.warpgroups
    sums = m // max(groups, 1) * n // 128 * (1 + config.two_level)
    return [
        (
            "a pdl, a two_level and a prefetch of 0 or 1",
            not {config.pdl, config.two_level, config.prefetch} <= {0, 1},
        ),
        config.parts.rule,
        ("parts of K that warps of a block do not share", not config.parts.is_among_blocks()),
        (
            "parts of K in memory of cooperative blocks, without a cluster or a split",
            config.parts.in_memory
            and (config.schedule != "cooperative" or config.cluster * config.split > 1),
        ),
        (
            "C by TMA (prefetch) where 64 rows a warpgroup that share a tile leave in one pass, "
            "with all of K in a block",
            bool(config.prefetch) and not can_load_source(config),
        ),
        (
            "two levels for 8-bit floats alone",
            bool(config.two_level) and not (atom.a_type.bits == 8 and atom.a_type.is_float),
        ),
        (
            "sums that the registers of a thread hold: "
            f"{MOST_SUMS[min(max(config.consumers, 1), 3)]}",
            sums > MOST_SUMS[min(max(config.consumers, 1), 3)],
        ),
        (
            "whole multiples of 8 columns that are stored at a time, at most those of the tile",
            config.store < 0 or config.store > n or config.store % 8 != 0,
        ),
        (
            "one block in a cluster, or two that share tiles of A along K",
            config.cluster not in (1, 2)
            or (
                config.cluster == 2
                and (config.schedule != "cooperative" or config.a.major != "K" or m % 128 != 0)
            ),
        ),
        (
            "1 to 8 cooperative blocks that share K (split), each with 64 rows a warpgroup, no "
            "tiles of A, and stages of B that have room for the sums",
            not 1 <= config.split <= 8
            or (
                config.split > 1
                and (
                    config.schedule != "cooperative"
                    or m != 64 * groups
                    or config.cluster > 1
                    or config.stages < least_stages(m, config.split)
                )
            ),
        ),
    ]
