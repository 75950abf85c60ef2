"""The kernel that `cute.ops.gemm` would run, found without a GPU or arrays from their outlines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from cute_py.atoms.arch import CHIPS, DEVICES, number
from cute_py.calls.arguments import typed
from cute_py.calls.arrays import dtype_of, unwrapped
from cute_py.codegen.arch import require_known
from cute_py.dtypes.table import Dtype, f32, from_numpy
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.ops.libraries import Gpu, Library
from cute_py.ops.product import GEMM, Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cute_py.dtypes.table import DtypeLike
    from cute_py.kernels.config import GemmConfig
    from cute_py.ops.call import Call
    from cute_py.ops.operator import Operator


@dataclass(frozen=True, slots=True)
class Outline:
    """What plans depend on of an array.

    Attributes:
        kind: type of the elements.
        shape: extents.
        steps: strides (elements).
        address: of the first element (bytes).

    >>> from cute_py.dtypes.table import f16
    >>> x = Outline.matrix(3, 8, f16, "K")
    >>> x.shape, x.strides, x.swapaxes(-1, -2).strides, Outline.matrix(3, 8, f16, "MN").strides
    ((3, 8), (16, 2), (2, 16), (2, 6))
    """

    kind: Dtype
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    address: int = 0

    is_cuda = True

    @classmethod
    def compact(cls, shape: tuple[int, ...], kind: Dtype) -> Outline:
        """Return an outline whose last mode is contiguous."""
        return cls(kind, shape, tuple(prod(shape[i + 1 :]) for i in range(len(shape))))

    @classmethod
    def matrix(cls, rows: int, columns: int, kind: Dtype, major: str) -> Outline:
        """Return an outline with contiguous columns' index, "K", or rows' index, "MN"."""
        if major == "K":
            return cls.compact((rows, columns), kind)
        return cls.compact((columns, rows), kind).swapaxes(0, 1)

    @property
    def dtype(self) -> Any:  # a NumPy dtype
        """The type, as NumPy holds it."""
        return self.kind.numpy

    @property
    def itemsize(self) -> int:
        """Size of an element (bytes)."""
        return int(self.dtype.itemsize)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides (bytes)."""
        return tuple(step * self.itemsize for step in self.steps)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        data = self.address, False
        return {"data": data, "shape": self.shape, "strides": self.strides, "version": 3}

    def transpose(self, order: Sequence[int]) -> Outline:
        """Return a view with the modes in another order."""
        shape, steps = (tuple(x[i] for i in order) for x in (self.shape, self.steps))
        return replace(self, shape=shape, steps=steps)

    def swapaxes(self, first: int, second: int) -> Outline:
        """Return a view with two modes exchanged."""
        order = list(range(len(self.shape)))
        order[first], order[second] = order[second], order[first]
        return self.transpose(order)

    def reshape(self, shape: tuple[int, ...]) -> Outline:
        """Return the outline in another shape: of a view where that is possible, else of a copy."""
        if not 2 <= len(shape) <= 3 or shape[-2:] != self.shape[-2:]:
            return self._regrouped(shape)
        batch = [x for x in zip(self.shape[:-2], self.steps[:-2], strict=True) if x[0] != 1]
        if any(step != n * inner for (_, step), (n, inner) in pairwise(batch)):
            return Outline.compact(shape, self.kind)
        rows, columns = shape[-2:]
        by_batch, by_row, by_column = batch[-1][1] if batch else 0, *self.steps[-2:]
        if len(self.shape) != len(shape):  # NumPy gives modes of one element new strides
            by_row = by_row if rows > 1 else columns * by_column if columns > 1 else by_batch
            by_column = by_column if columns > 1 else by_row
        return replace(self, shape=shape, steps=(by_batch, by_row, by_column)[-len(shape) :])

    def _regrouped(self, shape: tuple[int, ...]) -> Outline:
        """Return the outline where runs of modes become others of as many elements."""
        old = [x for x in zip(self.shape, self.steps, strict=True) if x[0] != 1]
        steps: list[int] = []
        left = [n for n in shape if n != 1]
        while left:
            wanted, run = [left.pop()], [old.pop()]
            while prod(wanted) != prod(n for n, _ in run):
                if prod(wanted) < prod(n for n, _ in run):
                    wanted.insert(0, left.pop())
                else:
                    run.insert(0, old.pop())
            if any(step != n * inner for (_, step), (n, inner) in pairwise(run)):
                return Outline.compact(shape, self.kind)
            steps = [run[-1][1] * prod(wanted[i + 1 :]) for i in range(len(wanted))] + steps
        found = iter(steps)
        return replace(self, shape=shape, steps=tuple(1 if n == 1 else next(found) for n in shape))

    def astype(self, dtype: Any) -> Outline:
        """Return the outline of a copy in the type of NumPy that is given."""
        return Outline.compact(self.shape, from_numpy(dtype))

    def __getitem__(self, index: Any) -> Outline:
        if index is None:
            return replace(self, shape=(1, *self.shape), steps=(0, *self.steps))
        if index == (..., None):
            return replace(self, shape=(*self.shape, 1), steps=(*self.steps, 0))
        if isinstance(index, tuple):  # the first columns of each row
            return replace(self, shape=(*self.shape[:-1], index[1].stop))
        if isinstance(index, slice):  # the first matrix, as a batch of one
            return replace(self, shape=(1, *self.shape[1:]))
        assert index == 0
        return replace(self, shape=self.shape[1:], steps=self.steps[1:])

    def __setitem__(self, index: object, value: object) -> None:
        """Leave it: there is nothing to write to."""


class Outlines(Library):
    """Outlines as a library of arrays, on a GPU with given facts, or (None) on the host; or tensors
    of torch without memory, of which only shapes and types are asked.
    """

    has_memory = False

    def __init__(
        self,
        operator: Operator,
        gpu: Gpu | None,
        on_host: bool | None = None,
        converts: bool | None = None,
    ) -> None:
        """Take outlines for an operator.

        Args:
            operator: which one.
            gpu: what the GPU has; None: there is none.
            on_host: whether calls are for the emulator; None: without a GPU.
            converts: whether `read` takes any type for another, as the host does; None: there.

        """
        super().__init__(operator.name, operator.words)
        self.facts, self.on_host = gpu, gpu is None if on_host is None else on_host
        self.converts = self.on_host if converts is None else converts

    def gpu(self, x: Outline) -> Gpu | None:
        """Return what the GPU has."""
        return self.facts

    def read(self, x: Any, name: str, dtype: DtypeLike | None = None) -> tuple[Any, Dtype]:
        """Return an outline, and the type that its elements are to be read as."""
        if not self.converts:
            return super().read(x, name, dtype)
        return unwrapped(x), dtype_of(x) if dtype is None else as_dtype(dtype)

    def converted(self, x: Outline, kind: Dtype) -> Outline:
        """Return the outline of what is converted, which keeps its order in memory; on the host
        also to tf32.
        """
        if not self.converts or not isinstance(x, Outline):
            return x
        if x.kind is kind and kind.name != "tf32":
            return x
        if not self.on_host and x.kind.numpy == kind.numpy:
            return x
        held = f32 if kind.name == "tf32" else kind
        if len(x.shape) > 1 and x.steps[-2] < x.steps[-1]:
            return Outline.compact(x.swapaxes(-1, -2).shape, held).swapaxes(-1, -2)
        return Outline.compact(x.shape, held)

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with modes of size 1 repeated."""
        if not isinstance(x, Outline):
            return x.expand(shape)
        more = len(shape) - len(x.shape)
        sides = zip(x.shape, shape[more:], x.steps, strict=True)
        least = 1 if self.on_host else 0  # NumPy gives modes of one element the stride 0
        steps = tuple([step if n == m > least else 0 for n, m, step in sides])
        return replace(x, shape=shape, steps=(0,) * more + steps)

    def seen_as(self, x: Outline, kind: Dtype) -> Outline:
        """Return the outline of bytes as elements of a type."""
        return replace(x, kind=kind)

    def contiguous(self, x: Outline) -> Outline:
        """Return an outline whose last mode is contiguous."""
        return Outline.compact(x.shape, x.kind)

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Outline:
        """Return a new outline."""
        return Outline.compact(shape, kind)

    def assign(self, target: Outline, x: Outline) -> None:
        """Leave it: there is nothing to copy."""


def gpu_of(arch: str, multiprocessors: int | None = None, operation: str = "gpu_of") -> Gpu:
    """Return the facts of the GPUs of an architecture that the choice of a tile depends on.

    Args:
        arch: "sm_80", "sm_90a", ...
        multiprocessors: how many; None: those of the usual GPU, a row of `CHIPS`.
        operation: the operator, for error messages.

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


def outlined(operator: Operator, request: Any, gpu: Gpu | None) -> Call:
    """Return the call that an operator would make for outlines on a GPU, or (None) on the host.

    >>> from cute_py.dtypes.table import bf16
    >>> from cute_py.ops import softmax
    >>> x = Outline.compact((4096, 1024), bf16)
    >>> print(outlined(softmax.operator, softmax.operator.bound(x, 1), gpu_of("sm_90a")).config)
    family=registers
    """
    return operator.problem(request, Outlines(operator, gpu)).call()


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
    fast_accum: bool = False,
) -> Call:
    """Return the call that `cute.ops.gemm` would make for such arrays on a GPU.

    Args:
        gpu: where.
        problem: (M, N, K), all at least 1.
        dtype: of A (M, K) and B (K, N), stored without gaps.
        majors: which mode of A and of B is contiguous: "K", or "MN".
        factors: alpha and beta; C (M, N), of f32, is read where beta is not 0.
        has_bias: whether there is one, of f32.
        activation: as `gemm` takes it, and so are the other two.
        out_dtype: type of the result.
        config: the configuration, or changes to the chosen one.
        fast_accum: as `gemm` takes it.

    >>> print(call_on(gpu_of("sm_80"), (4096, 4096, 4096), "bf16").config)
    SM80_16x8x16_F32BF16BF16F32_TN tile=128x256x64 warps=2x4 stages=3 A=Kx8 B=MNx8 cp.async ...
    >>> print(call_on(gpu_of("sm_90a"), (4096, 4096, 4096), "bf16").config)
    SM90_64x256x16_F32BF16BF16_SS tile=128x256x64 warps=8x1 stages=3 A=Kx8 B=MNx8 TMA ...
    """
    (M, N, K), kind = problem, as_dtype(dtype)
    held = f32 if kind.name == "tf32" else kind
    a = Outline.matrix(M, K, held, majors[0])
    b = Outline.matrix(N, K, held, majors[1]).swapaxes(0, 1)
    c = Outline.compact((M, N), f32)
    bias = Outline.compact((N,), f32) if has_bias else None
    sides = typed(a, kind), typed(b, kind)
    alpha, beta = factors
    request = Request(
        *sides, c, bias, None, alpha, beta, activation, out_dtype, "gpu", config,
        fast_accum=fast_accum,
    )  # fmt: skip
    return outlined(GEMM, request, gpu)
