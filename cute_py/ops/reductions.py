"""`reduce`: sums, products, extremes and bits of an array along any of its modes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.reduce import (
    identity,
    reduce_columns,
    reduce_rows,
    row_reduce,
    sum_type,
    wide_type,
)
from cute_py.ops.call import Call, Output
from cute_py.ops.family import MOST_ALONG_YZ, BlockConfig
from cute_py.ops.operator import operator
from cute_py.ops.problem import FLOATS, INTEGERS
from cute_py.ops.rows import BLOCK_BYTES, Rows, families
from cute_py.plan.functions import REDUCTIONS

if TYPE_CHECKING:
    from cute_py.dtypes.table import DtypeLike
    from cute_py.ops.libraries import Library

TYPES = (*FLOATS, *INTEGERS)
PART = 4096  # elements of a row, of which a block has at least so many


def _modes(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None:
        return tuple(range(rank))
    return tuple(dim) if isinstance(dim, Sequence) else (dim,)


def _reference(
    x: Any,
    op: str = "add",
    dim: Any = None,
    keepdim: bool = False,
    out_dtype: Any = None,
    **_named: Any,
) -> Any:
    if x.dtype.kind == "f" and out_dtype is not None and as_dtype(out_dtype).is_integer:
        x = np.rint(x)  # elements are converted first, which leaves extremes as they are
    names = {"mul": "multiply", "min": "minimum", "max": "maximum"} | {
        x: f"bitwise_{x}" for x in ("and", "or", "xor")
    }
    return getattr(np, names.get(op, op)).reduce(x, _modes(dim, x.ndim), keepdims=keepdim)


def _gradient(request: Any, g: Any, x: Any = None, out: Any = None) -> dict[str, Any]:
    """Return the gradient: an extreme shares it among the elements that are it; of a product it is
    that of the other factors.
    """
    shape = tuple(request.x)
    dims = [i % len(shape) for i in _modes(request.dim, len(shape))]
    kept = [1 if i in dims else n for i, n in enumerate(shape)]
    g = g.reshape(kept)
    if request.op == "add":
        return {"x": g.expand(shape)}

    def count(same: Any) -> Any:
        return same.sum(dims, keepdim=True) if dims else same

    if request.op in ("min", "max"):
        if out.dtype != x.dtype:  # rounded, it may be none of the elements
            out = reduce(x, request.op, dims)
        same = (x == out.reshape(kept)).to(g.dtype)
        return {"x": g * same / count(same)}
    zeros = x == 0
    rest = x.masked_fill(zeros, 1)
    found, product = count(zeros.long()), reduce(rest, "mul", dims, keepdim=True)
    return {"x": g * product / rest * ((found == 0) | (zeros & (found == 1)))}


class Reduced(Rows):
    """The array as the kernels read it; the result has the modes that are kept."""

    types, autocast = TYPES, "f32"
    reference, gradient = staticmethod(_reference), staticmethod(_gradient)
    families = families(row_reduce, reduce_columns, reduce_rows)

    def __init__(self, request: Any, library: Library) -> None:
        """Read the array; refuse a reduction that its type does not have."""
        super().__init__(request, library)
        self.x, kind = self.read("x", TYPES)
        shape, op = tuple(self.x.shape), request.op
        if op in ("and", "or", "xor"):
            self.require_type("x", kind, INTEGERS)
        self.dims = dims = self.modes("dim", request.dim, len(shape))
        self.form = tuple([n for i, n in enumerate(shape) if i not in dims])
        result = sum_type(kind) if op in ("add", "mul") else kind
        result = result if request.out_dtype is None else as_dtype(request.out_dtype)
        self.require_type("out_dtype", result, TYPES)
        kept = tuple([1 if i in dims else n for i, n in enumerate(shape)])
        self.gives(kept if request.keepdim else self.form, result)
        self.wide = wide_type(result if op in ("add", "mul") else kind)
        if 0 in shape and 0 not in self.form:
            if op in ("min", "max"):
                raise refusal("ops-nothing", operation=self.operation, value=op)
            value = identity(op, result if op in ("add", "mul") else kind)
            self.value = int(np.asarray(value).astype(result.numpy)) if result.is_integer else value

    def parts_of(self, family: str) -> int:
        """Return how many blocks share a row, so that all multiprocessors have work."""
        gpu, rows = self.library.gpu(self.x), prod(self.form)
        if gpu is None or family != "rows":
            return 1
        each: int = prod(self.x.shape) // rows // PART
        return max(min(4 * gpu.multiprocessors // rows, each), 1)

    def most_parts(self, family: str) -> int:
        """Return how many blocks may share a row: each has elements, and a place in the grid."""
        return (
            min(prod(self.x.shape[i] for i in self.dims), MOST_ALONG_YZ) if family == "rows" else 1
        )

    @classmethod
    def keeping(cls, request: Any) -> Sequence[str]:
        """Return the arrays that the derivative reads."""
        return {"add": (), "mul": ("x",)}.get(request.op, ("x", "out"))

    def statics(self, family: str, kept: int) -> tuple[Any, ...]:
        """Return the operation, the type that is computed in, and how many modes are kept."""
        return self.request.op, self.wide, *[kept][: family != "registers"]

    def first(self, config: BlockConfig) -> tuple[Any, Call | None]:
        """Return the results of the parts of a row, and the call that computes them."""
        A, kept, _output = self.sides
        if config.parts == 1:
            return A, None
        form = *A.shape[:kept], config.parts
        made = self.library.empty(form, self.wide)
        how: dict[str, Any] = {
            "statics": (*self.statics("rows", kept), config.threads),
            "block_bytes": BLOCK_BYTES,
        }
        outputs = (Output(made, made, form),)
        return made, Call(reduce_rows, self.library, (A,), outputs, blocks=prod(form), **how)


@operator(Reduced, arrays=("x", "out"), choices={"op": REDUCTIONS}, configs=BlockConfig)
def reduce(
    x: Any,
    op: str = "add",
    dim: int | Sequence[int] | None = None,
    *,
    keepdim: bool = False,
    out_dtype: DtypeLike | None = None,
    out: Any = None,
    backend: str = "auto",
    config: BlockConfig | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return the elements of an array combined along some of its modes.

    Args:
        x: an array of any strides, of floats or integers of 8 to 64 bits.
        op: "add", "mul", "min", "max", or for integers "and", "or", "xor", as in `cute.reduce`.
        dim: the mode, or a sequence of several; negative numbers count from the end. None: all.
        keepdim: whether these modes stay, with one element.
        out_dtype: of the result; None: that of x, for sums and products of integers s32 or u32 at
            least.
        out: where the result goes; None: a new array.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what cute.ops.reduce.explain shows, or text: "family=rows,parts=8".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    Sums and products are computed in the type of the result, or f32, s32 or u32 if it is narrower:
    elements are converted first. Extremes and bits are computed in the type of x. The result is
    rounded once; one of integers wraps, one of floats that is too large is infinite (e4m3: NaN).
    Floats become integers rounded to the nearest and clamped, NaN as 0. The order is fixed, so that
    equal calls give equal bits. NaN makes a float result NaN. Of no elements a sum is 0, a product
    1, "and" has all bits of x, "or" and "xor" none; extremes are errors. For gradients see
    docs/torch.md. Raises CuteError.

    >>> reduce([[1.0, 2.0], [3.0, 4.0]], "max", 0)
    array([3., 4.])
    """
