"""`softmax`: along one mode of an array, of any strides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.kernels.softmax import row_softmax, softmax_columns
from cute_py.kernels.softmax import softmax as softmax_rows
from cute_py.ops.family import BlockConfig
from cute_py.ops.operator import operator
from cute_py.ops.problem import FLOATS
from cute_py.ops.reductions import reduce
from cute_py.ops.rows import Rows, families

if TYPE_CHECKING:
    from cute_py.ops.libraries import Library


def _reference(x: Any, dim: int = -1, **_named: Any) -> Any:
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def _gradient(request: Any, g: Any, out: Any) -> dict[str, Any]:
    """Return out * (g - sum(g * out)), in f32 at least."""
    wide = [x.float() if x.element_size() < 4 else x for x in (g, out)]
    product = wide[0] * wide[1]
    return {"x": product - wide[1] * reduce(product, "add", request.dim, keepdim=True)}


class Softmax(Rows):
    """The array as the kernels read it; the result has all of its modes."""

    types, keeps, autocast, whole = FLOATS, ("out",), "f32", True
    reference, gradient = staticmethod(_reference), staticmethod(_gradient)
    families = families(row_softmax, softmax_columns, softmax_rows)

    def __init__(self, request: Any, library: Library) -> None:
        """Read the array."""
        super().__init__(request, library)
        self.x, kind = self.read("x", FLOATS, 1, "(..., N)")
        self.dims = self.modes("dim", request.dim, len(self.x.shape), single=True)
        self.form = tuple(self.x.shape)
        self.gives(self.form, kind)


@operator(Softmax, arrays=("x", "out"), configs=BlockConfig)
def softmax(
    x: Any,
    dim: int = -1,
    *,
    out: Any = None,
    backend: str = "auto",
    config: BlockConfig | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return exp(x - m) / sum(exp(x - m)) along one mode, where m is its maximum.

    Args:
        x: an array of any strides, of floats of 8 to 64 bits.
        dim: the mode; negative numbers count from the end.
        out: where the result goes; None: a new array. It may be `x`.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what cute.ops.softmax.explain shows, or text: "family=rows".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    The result has the type of x. It is computed in f32 (f64 in f64), and rounded once. NaN anywhere
    along the mode makes all of it NaN. For gradients see docs/torch.md. Raises CuteError.

    >>> softmax([[0.0, 0.0, 0.0, 0.0]])
    array([[0.25, 0.25, 0.25, 0.25]])
    """
