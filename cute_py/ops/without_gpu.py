"""The kernel that `cute.ops.gemm` runs on a GPU, where there is none."""

from __future__ import annotations

from cute_py.atoms.arch import CHIPS, DEVICES, number
from cute_py.calls.arguments import typed
from cute_py.codegen.arch import require_known
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import f32
from cute_py.errors import refusal
from cute_py.ops.device import Call, Request, prepared
from cute_py.ops.device_config import Gpu
from cute_py.ops.outline import Outline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import DtypeLike
    from cute_py.kernels.gemm import GemmConfig


def gpu_of(arch: str, multiprocessors: int | None = None, operation: str = "gpu_of") -> Gpu:
    """Return what the choice of a tile asks of the GPUs of an architecture.

    Args:
        arch: "sm_80", "sm_90a", ...
        multiprocessors: how many; None: those of the usual GPU, a row of `CHIPS`.
        operation: who asks, for a refusal.

    Raises LayoutError for an architecture that is not known, or that has no usual GPU.

    >>> gpu_of("sm_90a")
    Gpu(smem=232448, multiprocessors=132, capability=(9, 0))
    """
    require_known(arch)
    row = f"sm_{number(arch)}"
    if multiprocessors is None and row not in CHIPS:
        raise refusal("ops-chip", operation=operation, arch=arch)
    found = CHIPS[row].multiprocessors if multiprocessors is None else multiprocessors
    major, minor = divmod(number(arch), 10)
    return Gpu(DEVICES[row].shared_block, found, (major, minor))


def call_on(
    gpu: Gpu,
    problem: tuple[int, int, int],
    dtype: DtypeLike,
    majors: tuple[str, str] = ("K", "MN"),
    *,
    factors: tuple[float, float] = (1, 0),
    has_bias: bool = False,
    activation: str | None = None,
    out_dtype: DtypeLike | None = None,
    config: GemmConfig | str | None = None,
) -> Call:
    """Return the call of the kernel by which `cute.ops.gemm` multiplies such arrays on a GPU.

    Args:
        gpu: where.
        problem: (M, N, K), all at least 1.
        dtype: of A (M, K) and B (K, N), which lie in memory without gaps.
        majors: which mode of A and of B is contiguous: "K", or "MN".
        factors: alpha and beta; C (M, N), of f32, is read where beta is not 0.
        has_bias: whether there is one, of f32.
        activation: as `gemm` takes it, and so are the other two.
        out_dtype: type of the result.
        config: the configuration, or changes to the one that is chosen.

    >>> print(call_on(gpu_of("sm_90a"), (4096, 4096, 4096), "bf16").config)
    SM80_16x8x16_F32BF16BF16F32_TN tile=128x256x64 warps=2x4 stages=4 A=Kx8 B=MNx8 cp.async ...
    """
    (M, N, K), kind = problem, as_dtype(dtype)
    held = f32 if kind.name == "tf32" else kind
    a = Outline.matrix(M, K, held, majors[0])
    b = Outline.matrix(N, K, held, majors[1]).swapaxes(0, 1)
    c = Outline.compact((M, N), f32)
    bias = Outline.compact((N,), f32) if has_bias else None
    sides = typed(a, kind), typed(b, kind)
    return prepared(Request(*sides, c, bias, None, factors, activation, out_dtype, config), gpu)
