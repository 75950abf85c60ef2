"""`ACTIVATIONS`: what may follow a product, as functions of registers: a row each.

All else follows from the function: what it costs, how many registers it takes, whether integers
have it, how steep it is, its derivative, and whether that needs the input or only the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, erf
from typing import Any

import numpy as np

from cute_py import epilogues
from cute_py.errors import CuteError
from cute_py.trace.formulas import formula

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.plan.formula import Formula

SPECIAL = 8  # the price of one instruction of the special-function unit
STEEP = 16  # no activation is steeper beyond


@dataclass(frozen=True)
class Activation:
    """An activation.

    Attributes:
        function: of a tensor in registers, of f32, f64 or s32.
        model: the same of arrays of f64, written independently.
        source: where it is defined.
    """

    function: Callable[[Any], Any]
    model: Callable[[Any], Any]
    source: str

    @cached_property
    def formula(self) -> Formula:
        """The function of f32, traced."""
        return formula(self.function)

    @cached_property
    def derivative(self) -> Formula:
        """The gradient of the input, from the input or from the result, and its gradient."""
        return self.formula.derivative()

    @cached_property
    def keeps_input(self) -> bool:
        """Whether the derivative needs the input, not the result."""
        return self.derivative.reads(0)

    @cached_property
    def is_light(self) -> bool:
        """Whether it takes less time than one special function."""
        return self.formula.price < SPECIAL

    @cached_property
    def keeps_integers(self) -> bool:
        """Whether s32 has it."""
        try:
            formula(self.function, "s32")
        except CuteError:
            return False
        return True

    @cached_property
    def slope(self) -> float:
        """Return how much it increases an error at most, rounded up to hundredths."""
        xs = [i / 64 for i in range(-64 * STEEP, 64 * STEEP + 1)]
        slopes = (self.derivative.number(x, self.formula.number(x), 1.0) for x in xs)
        return ceil(100 * max(map(abs, slopes))) / 100


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(
        epilogues.relu,
        lambda x: np.where(x < 0, 0, x),
        "torch.nn.functional.relu",
    ),
    "gelu": Activation(
        epilogues.gelu,
        lambda x: np.asarray(0.5 * x * (1 + np.vectorize(erf, "d")(x / 2**0.5))),
        "Hendrycks and Gimpel, Gaussian error linear units (arXiv:1606.08415): the one with erf",
    ),
    "silu": Activation(
        epilogues.silu,
        lambda x: x / (1 + np.exp(-x)),
        "Hendrycks and Gimpel, Gaussian error linear units (arXiv:1606.08415), section 2",
    ),
    "tanh": Activation(epilogues.tanh, np.tanh, "torch.nn.functional.tanh"),
    "sigmoid": Activation(
        epilogues.sigmoid,
        lambda x: 1 / (1 + np.exp(-x)),
        "torch.nn.functional.sigmoid",
    ),
}


def activated(x: Any, name: str | None) -> Any:  # a Tensor in registers
    """Return an activation of x, element by element."""
    return x if name is None else ACTIVATIONS[name].function(x)


def listed() -> str:
    """Return the names of all, as a sentence has them."""
    *names, last = ACTIVATIONS
    return f"{', '.join(names)} or {last}"
