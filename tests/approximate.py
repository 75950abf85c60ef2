"""Arrays with bounds of their errors: what rounding may do to a function, by running error analysis
(Higham, Accuracy and Stability of Numerical Algorithms, section 3.3).
"""

import numpy as np

ULPS = 4  # of functions like exp


class Approximate:
    """Numbers in float64, and how far a computation with rounding may be from them.

    Attributes:
        value: the exact numbers.
        error: bounds of absolute errors.
        unit: the unit roundoff of each step.
    """

    __array_ufunc__ = None

    def __init__(self, value, error, unit):
        self.value, self.error, self.unit = np.asarray(value, float), error, unit

    def rounded(self, value, error, ulps=1):
        """Return the result of a step, whose operands cause this error."""
        return Approximate(value, error + ulps * self.unit * (abs(value) + error), self.unit)

    def _of(self, other):
        return other if isinstance(other, Approximate) else Approximate(other, 0.0, self.unit)

    def __add__(self, other):
        y = self._of(other)
        return self.rounded(self.value + y.value, self.error + y.error)

    def __sub__(self, other):
        return self + -self._of(other)

    def __mul__(self, other):
        y = self._of(other)
        error = abs(self.value) * y.error + abs(y.value) * self.error + self.error * y.error
        return self.rounded(self.value * y.value, error)

    def __truediv__(self, other):
        found = self.value / other.value
        least = abs(other.value) - other.error
        assert (least > 0).all()
        return self.rounded(found, (self.error + abs(found) * other.error) / least, ULPS)

    def __neg__(self):
        return Approximate(-self.value, self.error, self.unit)

    def __abs__(self):
        return Approximate(abs(self.value), self.error, self.unit)

    def __lt__(self, other):
        y = self._of(other)
        difference = self.value - y.value
        return difference < 0, abs(difference) <= self.error + y.error  # the latter: it may differ

    def combined(self, fn, axes):
        """Return the sum, the greatest or the least element over some axes."""
        if fn != "add":
            chosen = {"max": np.max, "min": np.min}[fn]
            return Approximate(chosen(self.value, axes), self.error.max(axes), self.unit)
        error, terms = self.error.sum(axes), self.value.size
        total = (abs(self.value) + self.error).sum(axes)
        return Approximate(self.value.sum(axes), error + terms * self.unit * total, self.unit)

    def spread(self, shape):
        """Return the same, spread over a shape."""
        value, error = (np.broadcast_to(x, shape) for x in (self.value, self.error))
        return Approximate(value, error, self.unit)

    def halves(self):
        """Return what has even, and what has odd columns."""
        both = [(self.value[..., i::2], self.error[..., i::2]) for i in (0, 1)]
        return [Approximate(*x, self.unit) for x in both]


def _smooth(name, slope=1.0):
    """Return a function whose slope is bounded."""

    def function(x):
        return x.rounded(getattr(np, name)(x.value), slope * x.error, ULPS)

    return staticmethod(function)


class approximately:
    """Functions of `Approximate`, by their names in NumPy."""

    tanh, sin = _smooth("tanh"), _smooth("sin")
    sqrt = _smooth("sqrt", 0.5)  # from 1 on

    @staticmethod
    def exp(x):
        """Return e^x."""
        found = np.exp(x.value)
        return x.rounded(found, found * np.expm1(np.minimum(x.error, 700)), ULPS)

    @staticmethod
    def maximum(x, y):
        """Return the greater of both."""
        error = np.maximum(x.error, y.error)
        return Approximate(np.maximum(x.value, y.value), error, x.unit)

    @staticmethod
    def where(condition, x, y):
        """Return x where a condition holds, else y; where it may differ, either."""
        holds, unsure = condition
        error = np.where(holds, x.error, y.error)
        either = abs(x.value - y.value) + np.maximum(x.error, y.error)
        return Approximate(
            np.where(holds, x.value, y.value), np.where(unsure, either, error), x.unit
        )
