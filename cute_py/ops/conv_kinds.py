"""`Fprop`, `Dgrad` and `Wgrad`: what each reads as the operands of a product, and what D is."""

from __future__ import annotations

from functools import cached_property
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import VECTOR_BYTES, strides_of
from cute_py.kernels.convolution import DGRAD, FPROP, WGRAD
from cute_py.layout.tuples import ceil_div
from cute_py.ops.conv_options import extents
from cute_py.ops.conv_problems import Convolution
from cute_py.ops.operands import bytes_each
from cute_py.ops.problem import as_run
from cute_py.ops.product import TYPES

if TYPE_CHECKING:
    from cute_py.kernels.convolution import Lines

GRADIENTS = ("f16", "bf16", "tf32", "f32", "f64")  # types that dgrad and wgrad multiply


class Fprop(Convolution):
    """Images and filters, which give the output."""

    of, reads, types = FPROP, ("x", "w"), TYPES

    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.shapes["x"], self.shapes["w"]

    def _result(self, x_shape: tuple[int, ...], w_shape: tuple[int, ...]) -> tuple[int, ...]:
        return x_shape[0], self.conv.P, self.conv.Q, w_shape[0]

    @cached_property
    def filters(self) -> Any:
        """The filters as a matrix (K,R*S*C), or where that is no view, as (K,R,S,C)."""
        w = self.given["w"]
        return w.reshape((w.shape[0], prod(w.shape[1:]))) if _is_run(w) else w

    def _sides(self) -> list[tuple[str, int]]:
        x, w = self.given["x"], self.filters
        own = x.shape[3] // self.groups
        return [("K", self._vector(x, own)), ("K", self._vector(w, w.shape[-1]))]

    @property
    def lines(self) -> tuple[tuple[Lines, Lines], ...]:
        """Which lines and columns of the images are read."""
        return (self.conv.lines(),)

    @property
    def has_matrix(self) -> bool:
        """Whether the filters are a matrix."""
        return len(self.filters.shape) == 2

    def _parts(self, seen: Any, terms: list[Any], by_tap: bool) -> list[tuple[Any, ...]]:
        x, w = self.given["x"], self.filters
        if by_tap:
            w = w.reshape((w.shape[0], prod(self.conv.filter), x.shape[3]))
        operands = self._by_group(x, 3), self._by_group(w, 0)
        return [(operands, self._rows(seen), terms, self.lines[0], (self.conv.P, self.conv.Q))]

    def _matrices(self, given: dict[str, Any]) -> tuple[Any, Any]:
        return given["x"], given["w"].swapaxes(0, 1)


class Dgrad(Convolution):
    """The gradient of the output and filters, which give the gradient of the images."""

    of, reads, types = DGRAD, ("dy", "w"), GRADIENTS

    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        x_shape = extents(self.request, "x_shape", self.operation)
        return x_shape, self.shapes["w"]

    def _result(self, x_shape: tuple[int, ...], _w_shape: tuple[int, ...]) -> tuple[int, ...]:
        self._require_output(x_shape)
        return x_shape

    @property
    def is_scattered(self) -> bool:
        """Whether lines of the result belong to several residue classes."""
        return self.conv.stride != (1, 1)

    def _sizes(self) -> tuple[int, int, int]:
        """Return those of the first class."""
        (N, H, W, C), (sh, sw) = self.whole, self.conv.stride
        taps = max(prod(max(x.taps for x in lines) for lines in self.conv.classes()), 1)
        K = self.given["dy"].shape[3] // self.groups
        return N * ceil_div(H, sh) * ceil_div(W, sw), C // self.groups, taps * K

    def _sides(self) -> list[tuple[str, int]]:
        dy, w = self.given["dy"], self.given["w"]
        own = dy.shape[3] // self.groups
        return [("K", self._vector(dy, own)), ("MN", self._vector(w, w.shape[3]))]

    @property
    def lines(self) -> tuple[tuple[Lines, Lines], ...]:
        """Which lines and columns of the gradient of the output the classes read."""
        of_h, of_w = self.conv.classes()
        return tuple([(x, y) for x in of_h for y in of_w])

    @property
    def has_matrix(self) -> bool:
        """Whether taps and channels of the filters are one mode."""
        return _is_run(self.given["w"])

    def _parts(self, seen: Any, terms: list[Any], by_tap: bool) -> list[tuple[Any, ...]]:
        dy = self._by_group(self.given["dy"], 3)
        if not self.is_scattered:
            (lines,), w = self.lines, self.given["w"]
            F = self._filters(lines)
            if by_tap:
                taps = w.reshape((w.shape[0], prod(self.conv.filter), w.shape[3]))
                F = self.library.ordered(taps, (2, 1, 0))
            return [((dy, F), self._rows(seen), terms, lines, self.whole[1:3])]
        D, found = self._by_group(seen, 3), []
        (sh, sw), rest = self.conv.stride, (slice(None),) * (len(D.shape) - 3)
        for a, lines_h in enumerate(self.conv.classes()[0]):
            for b, lines_w in enumerate(self.conv.classes()[1]):
                cut = slice(None), slice(a, None, sh), slice(b, None, sw), *rest
                part = D[cut]
                if 0 in part.shape:
                    continue
                added = [terms[0] if terms[0] is None else terms[0][cut], terms[1]]
                extents = tuple(part.shape[1:3])
                lines = lines_h, lines_w
                found.append(((dy, self._filters(lines)), part, added, lines, extents))
        return found

    def _filters(self, lines: tuple[Lines, Lines]) -> Any:
        """Return the filters that a class reads as (C,R,S,K); one position where it reads none."""
        of_h, of_w = (slice(x.first, None, x.step) if x.taps else slice(0, 1) for x in lines)
        w = self._by_group(self.given["w"][:, of_h, of_w], 0)
        return self.library.ordered(w, (3, 1, 2, 0, 4)[: len(w.shape)])

    def _matrices(self, given: dict[str, Any]) -> tuple[Any, Any]:
        return given["dy"], given["w"]


class Wgrad(Convolution):
    """The gradient of the output and images, which give the gradient of the filters."""

    of, reads, types = WGRAD, ("dy", "x"), GRADIENTS

    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        w_shape = extents(self.request, "w_shape", self.operation)
        return self.shapes["x"], w_shape

    def _result(self, x_shape: tuple[int, ...], w_shape: tuple[int, ...]) -> tuple[int, ...]:
        self._require_output(x_shape)
        return w_shape

    @cached_property
    def given(self) -> dict[str, Any]:
        """The two arrays; of no images one of zeros: alpha is 0 then."""
        if self.conv.implicit(WGRAD)[2]:
            return super().given
        pairs = zip(self.reads, self.kinds, strict=True)
        return {x: self.library.zeros((1, *self.shapes[x][1:]), kind) for x, kind in pairs}

    @cached_property
    def pixels(self) -> Any:
        """The gradient of the output as a matrix (N*P*Q,K)."""
        dy = self.given["dy"]
        found = as_run(dy, keeps_last=True)
        return as_run(self.library.contiguous(dy), keeps_last=True) if found is None else found

    def _sides(self) -> list[tuple[str, int]]:
        x, dy = self.given["x"], self.pixels
        own = dy.shape[1] // self.groups, x.shape[3] // self.groups
        return [("MN", self._vector(y, n)) for y, n in zip((dy, x), own, strict=True)]

    def _rows(self, x: Any) -> Any:
        """Return (K,R,S,C) as (K,R*S*C) or (K/G,R*S*C,G): a copy where that is no view."""
        if not _is_run(x):
            x = self.library.contiguous(x)
        return self._by_group(x.reshape((x.shape[0], prod(x.shape[1:]))), 0)

    def _takes(self, seen: Any) -> bool:
        return _is_run(seen) and self._vector(seen, prod(self.whole[1:])) >= gcd(
            VECTOR_BYTES, prod(self.whole[1:]) * bytes_each(seen)
        )

    def _parts(self, seen: Any, terms: list[Any], _by_tap: bool) -> list[tuple[Any, ...]]:
        dy = self._by_group(self.pixels, 1)
        dy = self.library.ordered(dy, (1, 0, 2)[: len(dy.shape)])
        operands = dy, self._by_group(self.given["x"], 3)
        lines, extents = self.conv.lines(), (self.conv.P, self.conv.Q)
        return [(operands, self._rows(seen), terms, lines, extents)]

    def _matrices(self, given: dict[str, Any]) -> tuple[Any, Any]:
        return given["dy"].swapaxes(0, 1), given["x"]


def _is_run(x: Any) -> bool:
    """Return whether the modes of (K,R,S,C) after the first are one run in memory."""
    run = 1
    for n, step in zip(reversed(x.shape[1:]), reversed(strides_of(x)[1:]), strict=True):
        if n > 1 and step != run:
            return False
        run *= n
    return True
