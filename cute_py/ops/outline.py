"""`Outline`: an array on a GPU without its memory, to have a plan where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from cute_py.dtypes.table import Dtype


@dataclass(frozen=True, slots=True)
class Outline:
    """What plans depend on of an array: type, shape and strides; its address is 0.

    Attributes:
        kind: type of the elements.
        shape: extents.
        steps: strides (elements).

    >>> from cute_py.dtypes.table import f16
    >>> x = Outline.matrix(3, 8, f16, "K")
    >>> x.shape, x.strides, x.swapaxes(-1, -2).strides, Outline.matrix(3, 8, f16, "MN").strides
    ((3, 8), (16, 2), (2, 16), (2, 6))
    """

    kind: Dtype
    shape: tuple[int, ...]
    steps: tuple[int, ...]

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
    def dtype(self) -> Any:  # noqa: ANN401  (a NumPy dtype)
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
        return {"data": (0, False), "shape": self.shape, "strides": self.strides, "version": 3}

    def swapaxes(self, first: int, second: int) -> Outline:
        """Return a view with two modes exchanged."""
        order = list(range(len(self.shape)))
        order[first], order[second] = order[second], order[first]
        return Outline(
            self.kind,
            tuple(self.shape[i] for i in order),
            tuple(self.steps[i] for i in order),
        )

    def reshape(self, *shape: int) -> Outline:
        """Return a view with a mode of size 1 before the others."""
        assert shape == (1, *self.shape)
        return Outline(self.kind, shape, (prod(self.shape), *self.steps))

    def __getitem__(self, index: int) -> Outline:
        assert index == 0
        return Outline(self.kind, self.shape[1:], self.steps[1:])

    def __setitem__(self, index: object, value: object) -> None:
        """Leave it: there is nothing to write to."""
