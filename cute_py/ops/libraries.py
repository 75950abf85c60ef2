"""What `gemm` on a GPU needs of the library of its arrays: torch, CuPy, or outlines."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import dtype_of, strides_of
from cute_py.dtypes.table import Dtype
from cute_py.layout.tuples import ceil_div
from cute_py.ops.choose import VECTOR_BYTES
from cute_py.ops.outline import Outline

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_TORCH_NAMES = {
    "f32": "float32",
    "tf32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "u8": "uint8",
    "s32": "int32",
}


class Library:
    """What is needed of torch and of CuPy, by one name."""

    def __init__(self, array: Any) -> None:  # noqa: ANN401
        """Take the library of an array, and its device."""
        self.torch = type(array).__module__.partition(".")[0] == "torch"
        self.like = array

    def inside(self) -> AbstractContextManager[Any]:
        """Make the array's device the current one for a block: CuPy allocates and copies on that
        one, wherever the arrays are; torch goes by its arrays.
        """
        found: AbstractContextManager[Any] = nullcontext() if self.torch else self.like.device
        return found

    def written(self, x: Any) -> None:  # noqa: ANN401
        """Note that a kernel wrote to an array: torch's autograd looks for that."""
        if self.torch:
            import torch

            note = getattr(torch.autograd.graph, "increment_version", None)  # torch 2.2 and newer
            if note is not None:
                note(x)

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Any:  # noqa: ANN401
        """Return a new array whose last mode is contiguous, on the current device in CuPy."""
        if self.torch:
            import torch

            dtype = getattr(torch, _TORCH_NAMES[kind.name])
            return torch.empty(shape, dtype=dtype, device=self.like.device)
        import cupy

        return cupy.empty(shape, kind.numpy)

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:  # noqa: ANN401
        """Return a view with modes of size 1 repeated."""
        if self.torch:
            return x.expand(shape)
        import cupy

        return cupy.broadcast_to(x, shape)

    def padded(self, x: Any) -> Any:  # noqa: ANN401
        """Return [L, rows, K] in new memory, K rounded up to whole vectors by zeros."""
        whole = x.shape[0]
        if strides_of(x)[0] == 0:  # one matrix for the whole batch
            x = x[:1]
        count, rows, K = x.shape
        each = VECTOR_BYTES // (x.itemsize if hasattr(x, "itemsize") else x.element_size())
        made = self.empty((count, rows, ceil_div(K, each) * each), dtype_of(x))
        made[..., :K] = x
        made[..., K:] = 0
        return self.spread(made, (whole, *made.shape[1:]))

    def copied(self, x: Any) -> Any:  # noqa: ANN401
        """Return an array whose last mode is contiguous."""
        return x.contiguous() if self.torch else x.copy()


class Outlines(Library):
    """The same of arrays without memory; they are contiguous, and there is no batch of them."""

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Outline:
        """Return a new outline."""
        return Outline.compact(shape, kind)

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:  # noqa: ANN401
        """Return the outline, which has this shape already."""
        assert x.shape == shape
        return x

    def copied(self, x: Any) -> Outline:  # noqa: ANN401
        """Return an outline whose last mode is contiguous."""
        return Outline.compact(x.shape, dtype_of(x))


def library_for(array: Any) -> Library:  # noqa: ANN401
    """Return the library of an array on a GPU, or of an outline."""
    return (Outlines if isinstance(array, Outline) else Library)(array)
