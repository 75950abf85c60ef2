"""`activation`: what may follow a product, alone, and its derivative: element by element."""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import address_of, dtype_of
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.elementwise import THREADS, elementwise, function_of, tile_copy_of
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call
from cute_py.ops.operator import operator
from cute_py.ops.problem import FLOATS, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.ops.libraries import Library


def _reference(x: Any, name: str, g: Any = None, **_named: Any) -> Any:
    row = ACTIVATIONS[name]
    if g is None:
        return row.model(x)
    return np.vectorize(row.derivative.number, "d")(x, x, g)


def _gradient(request: Any, g: Any, x: Any = None, out: Any = None) -> dict[str, Any]:
    return {"x": activation(out if x is None else x, request.name, g)}


class Activated(Problem):
    """Arrays of the same shape as the kernel reads them: (1,N)."""

    types = FLOATS
    reference, gradient = staticmethod(_reference), staticmethod(_gradient)

    def __init__(self, request: Any, library: Library) -> None:
        """Read the arrays."""
        super().__init__(request, library)
        self.x, kind = self.read("x", FLOATS)
        self.g = None
        if request.g is not None:
            self.g, kind = self.read("g", FLOATS)
            if tuple(self.g.shape) != tuple(self.x.shape):
                raise self.wrong_shape("g", tuple(self.g.shape), tuple(self.x.shape))
        self.gives(tuple(self.x.shape), kind)

    @classmethod
    def is_differentiable(cls, request: Any) -> bool:
        """Return whether the derivative is known: not that of a derivative."""
        return request.g is None

    @classmethod
    def keeping(cls, request: Any) -> Sequence[str]:
        """Return what the derivative reads: the input or the result."""
        return ("x",) if ACTIVATIONS[request.name].keeps_input else ("out",)

    @cached_property
    def sides(self) -> Any:
        """X, G and the output, as runs of memory."""
        X, G = self.run_of(self.x)[None], None if self.g is None else self.run_of(self.g)[None]
        output = self.writes_run((X, G))
        return X, G, output._replace(array=output.array[None])

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of the kernel, by what was chosen before, if given."""
        X, G, output = self.sides
        arrays = [x for x in (X, G, output.array) if x is not None]
        kinds = [dtype_of(x) for x in arrays]
        places = [gcd(16, address_of(x)) for x in arrays]
        function = function_of(ACTIVATIONS[self.request.name], G is not None, kinds)
        copy = tile_copy_of(tuple(kinds), tuple(places), gcd(16, X.shape[1]))
        return Call(
            elementwise,
            self.library,
            (X, G),
            (output,),
            statics=(function, copy),
            choice=(None,),
            blocks=ceil_div(X.shape[1], THREADS),
            block_bytes=1 << 14,
            inputs=self,
        )


@operator(Activated, arrays=("x", "g", "out"), choices={"name": lambda: tuple(ACTIVATIONS)})
def activation(
    x: Any,
    name: str,
    g: Any = None,
    *,
    out: Any = None,
    backend: str = "auto",
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return an activation of each element; or, with the gradient of the result, that of the input.

    Args:
        x: an array of any strides, of floats. With g: the input of the activation, or its result
            where the derivative follows from that (`Activation.keeps_input`).
        name: "relu", "gelu" (with erf) ...; the error lists all.
        g: of the shape of x; None: the activation itself.
        out: where the result goes; None: a new array. It may be an operand.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    The result has the type of g, or of x. It is computed in f32 (f64 with f64), and rounded once,
    to the largest number of 8 bits where it is too large for those. For gradients see
    docs/torch.md. Raises CuteError.

    >>> activation([-1.0, 2.0], "relu")
    array([0., 2.])
    """
