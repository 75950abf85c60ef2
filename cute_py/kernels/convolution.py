"""What kernels of convolutions share: the problem, which pixel a tap reads, and the formulas.

A convolution is a product of matrices whose operands are gathered: a row of the output is a pixel
(n,p,q), and a step of K is a tap, a filter position with a channel (r,s,c). `Lines` says along H,
or along W, which line of the input that is. dgrad of a stride s falls into s residue classes of
lines, each of which is a convolution of stride 1 with some of the taps.

Sources: cutlass include/cutlass/conv/conv2d_problem_size.h (extents, the implicit product);
Chetlur et al., cuDNN (2014), arXiv 1410.0759 (convolutions as products that are not stored).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import cute_py as cute
from cute_py.errors import refusal
from cute_py.kernels.arrays import require
from cute_py.layout.tuples import ceil_div

if TYPE_CHECKING:
    from collections.abc import Sequence

    Pair = tuple[int, int]

KINDS = FPROP, DGRAD, WGRAD = "fprop", "dgrad", "wgrad"


class Lines(NamedTuple):
    """Along H or W, which line of the input tap t of output line i reads: i * stride + start + t *
    dilation.

    Attributes:
        taps: how many positions of the filter there are.
        stride: lines of the input between lines of the output.
        start: of output line 0 and tap 0; below 0 in the padding.
        dilation: lines of the input between taps.
        first: the position of the filter that is tap 0.
        step: positions of the filter between taps.
        behind: lines of zeros behind the input, where `stride` is that of the convolution.
    """

    taps: int
    stride: int
    start: int
    dilation: int
    first: int = 0
    step: int = 1
    behind: int = 0


class Sizes(NamedTuple):
    """Images, their lines and columns, their channels, and filters."""

    N: int
    H: int
    W: int
    C: int
    K: int


@dataclass(frozen=True)
class ConvProblem:
    """A convolution of images (N,H,W,C) with filters (K,R,S,C/groups). Fields are (along H, along
    W).

    Attributes:
        filter: R and S.
        padding: rows and columns of zeros around the images, each a number or (before, behind).
        stride: between output positions.
        dilation: between filter positions.
        groups: of channels and of filters, which are convolved apart.
        flip: whether the filter is turned around: a convolution proper, no cross-correlation.
        sizes: N, H, W, C and K; None where they are those of arrays.

    >>> print(ConvProblem((3, 3), (1, 1), sizes=Sizes(32, 56, 56, 64, 64)))
    (32,56,56,64) * (64,3,3,64) = (32,56,56,64), padding (1,1)
      fprop 100352x64x576, dgrad 100352x64x576, wgrad 64x576x100352; 7.40 GFLOP
    """

    filter: Pair
    padding: tuple[int | Pair, int | Pair] = (0, 0)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    groups: int = 1
    flip: bool = False
    sizes: Sizes | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that no convolution has."""
        whole = [*self.filter, *self.stride, *self.dilation, self.groups]
        rules = {
            "a filter, strides, dilations and groups of at least 1": min(whole) >= 1,
            "padding of at least 0": min(map(min, self.pads)) >= 0,
        }
        for rule, holds in rules.items():
            if not holds:
                raise refusal("conv-problem", operation="ConvProblem", problem=self, rule=rule)

    @property
    def pads(self) -> tuple[Pair, Pair]:
        """The padding as ((top, bottom), (left, right))."""
        first, second = [(x, x) if isinstance(x, int) else x for x in self.padding]
        return first, second

    @property
    def without_sizes(self) -> ConvProblem:
        """The same for images of any size: what a kernel is compiled for."""
        return replace(self, sizes=None)

    def extents(self, H: Any, W: Any) -> tuple[Any, Any]:
        """Return P and Q, the extents of the output, for those of the activations."""
        parts = zip((H, W), self.filter, self.pads, self.stride, self.dilation, strict=True)
        p, q = [(n + sum(pad) - d * (f - 1) - 1) // step + 1 for n, f, pad, step, d in parts]
        return p, q

    def assume_output(self, X: Any, Y: Any) -> None:
        """State that the output (N,P,Q,K) has the extents that follow from X (N,H,W,C)."""
        P, Q = self.extents(*X.shape[1:3])
        cute.assume((Y.shape[1] == P) & (Y.shape[2] == Q))

    # -- which lines are read

    def lines(self) -> tuple[Lines, Lines]:
        """Return those of the images that the output reads, along H and along W."""
        first, second = [
            Lines(self.filter[i], self.stride[i], -pad, d, behind=self.pads[i][1])
            for i, (pad, d) in enumerate(map(self._turned, range(2)))
        ]
        return first, second

    def classes(self) -> tuple[tuple[Lines, ...], tuple[Lines, ...]]:
        """Return those of the gradient of the output that lines of the images read in dgrad, along
        H and along W: for each residue of a line by the stride. Tap t of line i of a class a, which
        is line a + i * stride, is position first + t * step of the filter.
        """
        found: list[tuple[Lines, ...]] = []
        for i in range(2):
            (pad, d), (R, s) = self._turned(i), (self.filter[i], self.stride[i])
            step = s // gcd(d, s)
            of_axis = []
            for a in range(s):
                first = next((r for r in range(step) if (a + pad - r * d) % s == 0), R)
                taps = len(range(first, R, step))
                start, between = (a + pad - first * d) // s, d * step // s
                behind = abs(d) * (R - 1) - self.pads[i][1] if s == 1 else 0
                of_axis.append(Lines(taps, 1, start, -between, first, step, behind))
            found.append(tuple(of_axis))
        return found[0], found[1]

    def _turned(self, i: int) -> Pair:
        """Return padding and dilation of an axis; with `flip`, as seen from position 0."""
        (pad, _behind), d = self.pads[i], self.dilation[i]
        return (pad - d * (self.filter[i] - 1), -d) if self.flip else (pad, d)

    # -- what follows from the sizes

    @cached_property
    def _known(self) -> Sizes:
        if self.sizes is None:
            raise ValueError("a problem without sizes")
        return self.sizes

    @property
    def P(self) -> int:
        """Lines of the output."""
        return self.extents(*self._known[1:3])[0]  # type: ignore[no-any-return]

    @property
    def Q(self) -> int:
        """Columns of the output."""
        return self.extents(*self._known[1:3])[1]  # type: ignore[no-any-return]

    def implicit(self, kind: str = FPROP) -> tuple[int, int, int]:
        """Return M, N and K of the product of one group, by the kind of the convolution."""
        N, H, W, C, K = self._known
        C, K, taps = C // self.groups, K // self.groups, self.filter[0] * self.filter[1]
        pixels = N * self.P * self.Q
        if kind == FPROP:
            return pixels, K, taps * C
        return (N * H * W, C, taps * K) if kind == DGRAD else (K, taps * C, pixels)

    def k_iterations(self, depth: int, kind: str = FPROP) -> int:
        """Return how many tiles of K there are of a depth, each of one position of the filter."""
        _M, _N, K = self.implicit(kind)
        taps = 1 if kind == WGRAD else self.filter[0] * self.filter[1]
        return taps * ceil_div(K // taps, depth)

    @property
    def flops(self) -> int:
        """Multiplications and additions, of all taps, also those in the padding."""
        M, N, K = self.implicit()
        return 2 * M * N * K * self.groups

    def least_bytes(self, bits: Sequence[int] = (16, 16, 16)) -> int:
        """Return the bytes of images, filters and output, each read or written once; `bits`: of an
        element of each.
        """
        N, H, W, C, K = self._known
        taps = self.filter[0] * self.filter[1]
        counts = N * H * W * C, K * taps * C // self.groups, N * self.P * self.Q * K
        return sum(n * b for n, b in zip(counts, bits, strict=True)) // 8

    def __str__(self) -> str:
        usual = ConvProblem(self.filter)
        parts = [
            f"{name} {_shown(value) if isinstance(value, tuple) else value}"
            for name in ("padding", "stride", "dilation", "groups")
            if (value := getattr(self, name)) != getattr(usual, name)
        ]
        more = ", ".join([*parts, *(["flipped"] if self.flip else [])])
        if self.sizes is None:
            return ", ".join(filter(None, [f"filter {_shown(self.filter)}", more]))
        N, H, W, C, K = self.sizes
        shapes = (N, H, W, C), (K, *self.filter, C // self.groups), (N, self.P, self.Q, K)
        x, f, y = map(_shown, shapes)
        products = [f"{kind} {'x'.join(map(str, self.implicit(kind)))}" for kind in KINDS]
        first = ", ".join(filter(None, [f"{x} * {f} = {y}", more]))
        return f"{first}\n  {', '.join(products)}; {self.flops / 1e9:.2f} GFLOP"


def _shown(x: Any) -> str:
    return f"({','.join(map(_shown, x))})" if isinstance(x, tuple) else str(x)


def require_one_group(operation: str, conv: ConvProblem) -> None:
    """Refuse groups, which a kernel does not have."""
    require(conv.groups == 1, operation, "conv", conv, "a convolution of one group")


# -- the formulas


def reference(x: Any, f: Any, conv: ConvProblem) -> Any:
    """Return the convolution of x (N,H,W,C) with f (K,R,S,C/groups) in float64."""
    f = _by_group(_turned(f, conv), 0, conv)
    found = np.einsum("npqgcrs,gkrsc->npqgk", _windows(x, conv), f, optimize=True)
    return found.reshape((*found.shape[:3], -1))


def reference_dgrad(dy: Any, f: Any, x_shape: tuple[int, ...], conv: ConvProblem) -> Any:
    """Return the gradient of x (N,H,W,C) for that of the output (N,P,Q,K), in float64: the adjoint
    of the convolution as a map of x.
    """
    f, dy = _by_group(_turned(f, conv), 0, conv), _by_group(dy, 3, conv)
    room = [n + sum(pad) for n, pad in zip(x_shape[1:3], conv.pads, strict=True)]
    padded = np.zeros((x_shape[0], *room, conv.groups, x_shape[3] // conv.groups))
    (P, Q), (sh, sw), (dh, dw) = dy.shape[1:3], conv.stride, conv.dilation
    for r in range(conv.filter[0]):
        for s in range(conv.filter[1]):
            part = padded[:, r * dh : r * dh + P * sh : sh, s * dw : s * dw + Q * sw : sw]
            part += np.einsum("npqgk,gkc->npqgc", dy, f[:, :, r, s])
    (top, _below), (left, _right) = conv.pads
    found = padded[:, top : top + x_shape[1], left : left + x_shape[2]]
    return found.reshape(x_shape)


def reference_wgrad(dy: Any, x: Any, conv: ConvProblem) -> Any:
    """Return the gradient of the filter (K,R,S,C/groups) in float64: the adjoint of the convolution
    as a map of the filter.
    """
    windows, dy = _windows(x, conv), _by_group(dy, 3, conv)
    found = np.einsum("npqgcrs,npqgk->gkrsc", windows, dy, optimize=True)
    found = found.reshape((-1, *found.shape[2:]))
    return _turned(found, conv)


def _turned(f: Any, conv: ConvProblem) -> Any:
    return f[:, ::-1, ::-1] if conv.flip else f


def _by_group(x: Any, mode: int, conv: ConvProblem) -> Any:
    """Return an array with the channels of each group apart, in float64."""
    x = np.asarray(x, np.float64)
    shape = (*x.shape[:mode], conv.groups, x.shape[mode] // conv.groups, *x.shape[mode + 1 :])
    return x.reshape(shape)


def _windows(x: Any, conv: ConvProblem) -> Any:
    """Return what each output pixel reads of x (N,H,W,C): (N,P,Q,groups,C/groups,R,S)."""
    padded = np.pad(np.asarray(x, np.float64), ((0, 0), *conv.pads, (0, 0)))
    (R, S), (sh, sw), (dh, dw) = conv.filter, conv.stride, conv.dilation
    window = (R - 1) * dh + 1, (S - 1) * dw + 1
    found = np.lib.stride_tricks.sliding_window_view(padded, window, axis=(1, 2))
    return _by_group(found[:, ::sh, ::sw, :, ::dh, ::dw], 3, conv)
