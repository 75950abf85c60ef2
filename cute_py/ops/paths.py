"""Which kernel computes a product on a GPU, what is copied for it first, and why.

Compute capability 9.0 has a family of kernels of its own, `kernels/gemm_sm90.py`, which reads by
TMA. What TMA cannot read is copied to aligned rows where that is worth it; else the kernel of all
GPUs, `kernels/gemm.py`, computes the product.
"""

from __future__ import annotations

from typing import NamedTuple

from cute_py.calls.arrays import VECTOR_BYTES
from cute_py.kernels.config import GemmConfig, parts_of
from cute_py.kernels.config_sm90 import WARPGROUP_ATOMS
from cute_py.kernels.gemm import gemm
from cute_py.kernels.gemm_sm90 import KERNELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.trace.kernel import Kernel

PACKED = 512  # from this size on, copying to aligned rows costs less than it saves
HOPPER, HOST = (9, 0), (0, 0)
ANY_MAJOR = ("f16", "bf16")  # types of which wgmma reads operands in any order


class Sides(NamedTuple):
    """What the path of a product depends on.

    Attributes:
        shape: (M, N, K).
        kinds: types of A and of B.
        majors: which mode of A and of B is contiguous: "K", or "MN".
        pitches: what divides the address and the pitches of A and of B (bytes), at most 16; 0 where
            no tensor map describes them.
        rows: what also divides the length of each row.
        capability: of the GPU; `HOST` where the product is emulated on the host.
    """

    shape: tuple[int, int, int]
    kinds: tuple[str, str]
    majors: tuple[str, str]
    pitches: tuple[int, int]
    rows: tuple[int, int]
    capability: tuple[int, int]

    @property
    def is_large(self) -> bool:
        """Tell whether copies of the operands cost little."""
        return min(self.shape) >= PACKED

    @property
    def unreadable(self) -> tuple[str, str]:
        """Why TMA and wgmma cannot read A and B, "" where they can."""
        a, b = (self._unreadable(i) for i in range(2))
        return a, b

    def _unreadable(self, i: int) -> str:
        if self.majors[i] != "K" and self.kinds[i] not in ANY_MAJOR:
            return f"{'AB'[i]} is not along K, as wgmma wants {self.kinds[i]}"
        if not self.pitches[i]:
            return f"{'AB'[i]} has matrices that overlap, or a pitch of 2^40 bytes or more"
        if self.pitches[i] % VECTOR_BYTES:
            return f"{'AB'[i]} has an address or a pitch that is no multiple of 16 bytes"
        return ""


class Path(NamedTuple):
    """How a product is computed.

    Attributes:
        tma: whether by the family of compute capability 9.0, which reads by TMA.
        copies: the contiguous mode of the copies of A and of B, "" for none.
        reason: why, in a line.
    """

    tma: bool
    copies: tuple[str, str]
    reason: str


# parts of a configuration that one of the two kernels has
MULTISTAGE = {"warps", "band", "min_blocks", "spill_bytes", "stmatrix", "prefetch"}
WARPGROUPS = {"cluster", "two_level", "split"}


def tma_wanted(config: GemmConfig | str | None) -> bool | None:
    """Return which kernel a given configuration is for: whether for the one that reads by TMA; None
    where it is for any.
    """
    if config is None:
        return None
    if isinstance(config, GemmConfig):
        return config.by_warpgroups
    parts = parts_of(config)
    if "schedule" in parts:
        return bool(parts["schedule"] != "multistage")
    if not MULTISTAGE.isdisjoint(parts):
        return False
    return None if WARPGROUPS.isdisjoint(parts) else True


def kernel_of(config: GemmConfig) -> Kernel:
    """Return the kernel of a configuration."""
    return KERNELS[config.schedule] if config.by_warpgroups else gemm


def path_of(sides: Sides, tma: bool | None = None) -> Path:
    """Return the path of a product.

    Args:
        sides: what it depends on.
        tma: whether the family computes it; None: where it can, copies that are worth it included.

    """
    wrong = sides.unreadable
    said = "; ".join(filter(None, wrong))
    if tma is None:
        tma, why = _family(sides, said)
    else:
        why = "as the configuration says"
    if not tma:
        return _multistage(sides, why)
    if not said or sides.capability == HOST:
        return Path(True, ("", ""), f"path: TMA and wgmma, {why}")
    a, b = (_copy(sides, i) if wrong[i] else "" for i in range(2))
    return Path(True, (a, b), f"path: TMA and wgmma, {why}; copied first: {said}")


def _family(sides: Sides, wrong: str) -> tuple[bool, str]:
    """Return whether the family computes a product, and why."""
    if sides.capability != HOPPER:
        return False, "the kernel of all GPUs"
    if sides.kinds not in WARPGROUP_ATOMS:
        return False, f"wgmma does not multiply {sides.kinds[0]}"
    if wrong and not sides.is_large:
        return False, f"{wrong}, and a size is below {PACKED}: a copy would cost more than it saves"
    return True, "the family of compute capability 9.0"


def _copy(sides: Sides, i: int) -> str:
    """Return the contiguous mode of a copy: along K where wgmma wants it, else as it is."""
    return sides.majors[i] if sides.kinds[i] in ANY_MAJOR else "K"


def _multistage(sides: Sides, why: str) -> Path:
    """Return the path by the kernel of all GPUs; its vectors need rows of whole ones."""
    by_threads = sides.kinds[0] == "f32"
    said = f"path: cp.async and {'FMA' if by_threads else 'mma.sync'}, {why}"
    as_it_is = by_threads or not sides.is_large or sides.capability == HOST
    if as_it_is or min(sides.rows) == VECTOR_BYTES:
        return Path(False, ("", ""), said)
    return Path(False, ("K", "K"), f"{said}; copied first: A and B, for rows of whole 16 bytes")
