"""TMA in im2col mode: the activations of a convolution as rows of a matrix, one for each output.

TMA walks over the pixels of a bounding box in the order W, H, D, N, from any of them on, and adds
the offset of a filter tap to each. What is outside the tensor is zero: the padding. Source: CUDA
driver API, `cuTensorMapEncodeIm2col`; PTX ISA, "im2col mode"; cutlass
include/cute/atom/copy_traits_sm90_im2col.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import flatten, show
from cute_py.plan.ops import Im2col, TmaLoad
from cute_py.trace.boxes import Boxes
from cute_py.trace.engines import Guarded, SharedMemory
from cute_py.trace.hopper import require_mbarriers, require_policy, tma_tensor
from cute_py.trace.lower import require_own
from cute_py.trace.runtime_integers import Condition, bare, compare, operate
from cute_py.trace.state import emit
from cute_py.trace.threads import assume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import IntTuple, Leaf
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.hopper import Mbarriers

LOAD = "cute.tma_load_im2col"
MOST_PIXELS = 256  # of a box
# spatial modes -> the bits of a corner of the bounding box
CORNER_BITS = {1: 16, 2: 8, 3: 5}
MOST_STEP = 8


@dataclass(frozen=True, slots=True)
class Im2colTensor:
    """An argument of a kernel as activations of a convolution; see `tma_im2col`.

    Attributes:
        engine: the argument in coordinates (N, spatial modes, C).
        filter, padding, stride, dilation: by spatial mode; the padding in front of it.
        behind: the padding behind each spatial mode.
        outputs: the extents of the output, by spatial mode.
    """

    engine: Guarded
    filter: tuple[int, ...]
    padding: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    outputs: tuple[Leaf, ...]
    behind: tuple[int, ...]

    @property
    def pixels(self) -> Leaf:
        """The number of output pixels: rows of the matrix of the convolution."""
        total = flatten(self.engine.shape)[0]
        for extent in self.outputs:
            total = ints.mul(total, extent)
        return total

    def start(self, pixel: Leaf) -> list[Leaf]:
        """Return the coordinates in front of the filter of an output pixel: (N, spatial modes)."""
        found = []
        sides = self.outputs[::-1], self.stride[::-1], self.padding[::-1]
        for count, step, pad in zip(*sides, strict=True):
            row = operate("div", pixel, count)
            column = ints.sub(pixel, ints.mul(row, count))
            found.append(ints.sub(ints.mul(column, step), pad))
            pixel = row
        return [pixel, *found[::-1]]


def tma_im2col(
    tensor: Tensor,
    filter: IntTuple,
    padding: IntTuple = 0,
    stride: IntTuple = 1,
    dilation: IntTuple = 1,
) -> Im2colTensor:
    """Return an argument of a kernel as the activations of a convolution, for `tma_load_im2col`.

    Args:
        tensor: (N,W,C), (N,H,W,C) or (N,D,H,W,C) with C contiguous: the whole array.
        filter: the extents of the filter by spatial mode, such as (R,S).
        padding: the zeros in front of and behind each spatial mode: an integer, one for each mode,
            or (in front, behind) for each.
        stride: the pixels from one output to the next, 1 to 8.
        dilation: the pixels from one tap of the filter to the next.

    Result: has `pixels`, the number of output pixels, and `outputs`, their extents, such as (P,Q).
    Raises LayoutError for what no tensor map describes.
    """
    operation = "cute.tma_im2col"
    engine: Any = tma_tensor(tensor).engine
    spatial = len(engine.shape) - 2
    if spatial not in CORNER_BITS or ints.is_one(flatten(engine.stride)[-1]) is not True:
        found = f"a tensor of modes {show(engine.shape)} and strides {show(engine.stride)}"
        raise refusal_here("tma-im2col", operation=operation, found=found)
    taps, steps, gaps = (_each(x, spatial, operation) for x in (filter, stride, dilation))
    pads, behind = _sides(padding, spatial, operation)
    most = 1 << CORNER_BITS[spatial] - 1
    for k in range(spatial):
        upper, least = behind[k] - (taps[k] - 1) * gaps[k], min(pads[k], behind[k])
        if min(taps[k], gaps[k], steps[k]) < 1 or steps[k] > MOST_STEP or least < 0:
            found = f"a filter of {taps}, padding {padding}, stride {steps}, dilation {gaps}"
            raise refusal_here("tma-im2col", operation=operation, found=found)
        too_far = pads[k] > most or (taps[k] - 1) * gaps[k] >= 2 * most  # the reach is an offset
        if too_far or not -most <= upper < most:
            found = f"corners {-pads[k]} and {upper} of a bounding box in {spatial} dimensions"
            raise refusal_here("tma-im2col", operation=operation, found=found)
    outputs = [
        ints.add(ints.div(ints.add(extent, before + after - (tap - 1) * gap - 1), step), 1)
        for extent, tap, before, after, step, gap in zip(
            engine.shape[1:-1], taps, pads, behind, steps, gaps, strict=True
        )
    ]
    return Im2colTensor(engine, taps, pads, steps, gaps, tuple(outputs), behind)


def _sides(x: IntTuple, count: int, operation: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding in front of each spatial mode, and behind it."""
    if isinstance(x, tuple) and len(x) == count and all(isinstance(n, tuple) for n in x):
        both = [_each(n, 2, operation) for n in x]
        return tuple([n for n, _after in both]), tuple([n for _before, n in both])
    same = _each(x, count, operation)
    return same, same


def _each(x: IntTuple, count: int, operation: str) -> tuple[int, ...]:
    values = flatten(x) if isinstance(x, tuple) else (x,) * count
    if len(values) != count:
        found = f"{len(values)} numbers for {count} spatial modes"
        raise refusal_here("tma-im2col", operation=operation, found=found)
    return tuple([ints.as_int(ints.normalize(x, operation), operation) for x in values])


def _is_outside(tap: Leaf, count: int) -> bool:
    """Tell whether an entry of a tap is outside of the filter; one that is known only at run time
    is promised to be inside.
    """
    if tap.__class__ is int:
        return not 0 <= tap < count
    for test in (compare("le", 0, tap), compare("lt", tap, count)):
        if isinstance(test, Condition):
            assume(test)
    return False


class _PixelBoxes(Boxes):
    """The copies of a tile (pixels, channels)."""

    def __init__(self, source: Im2colTensor, target: Tensor, start: list[Leaf]) -> None:
        engine, self.operation, self.shared = source.engine, LOAD, target
        if not isinstance(target.engine, SharedMemory) or rank(target.layout) != 2:
            raise refusal_here("tma-kernel-tile", operation=LOAD, a=engine, b=target)
        require_own(target, LOAD, "load it to several blocks: cute.tma_load(..., multicast=)")
        if target.dtype is not engine.dtype:
            raise refusal_here("kernel-types", operation=LOAD, a=engine.dtype, b=target.dtype)
        last = len(start) - 1
        self.engine, self.memory = engine, target.engine
        self.start = [bare(x) for x in start]
        self.modes, self.axes, self.inner = [0, 1], [last - 1, last], last
        self.shape = [int(size(target.layout, k)) for k in range(2)]
        if self.shape[0] > MOST_PIXELS:
            self.refuse(f"{self.shape[0]} pixels (at most {MOST_PIXELS} in a box)", "row")
        self.swizzle = self._span()


def tma_load_im2col(
    source: Im2colTensor,
    target: Tensor,
    bars: Mbarriers,
    index: Leaf,
    pixel: Leaf,
    tap: IntTuple,
    channel: Leaf = 0,
    multicast: Leaf = 0,
    cache: str = "",
) -> None:
    """Copy pixels of a convolution to shared memory; their bytes complete on a barrier. Called by
    one thread.

    Args:
        source: a `tma_im2col`.
        target: (pixels, channels) in shared memory, channels contiguous, at most 256 pixels.
        bars: the barriers.
        index: the index of the barrier that counts the bytes.
        pixel: the output pixel of the first row, counted along the last spatial mode first.
        tap: the element of the filter, such as (r, s), which may be run-time numbers.
        channel: the first channel.
        multicast: a mask of the blocks of the cluster that get the tile; 0: this block.
        cache: a policy for L2, as for `tma_load`.

    Row i is the input that output pixel + i multiplies by that tap of the filter; zero in the
    padding, and beyond the pixels and channels.
    """
    require_policy(cache, LOAD)
    require_mbarriers(bars, LOAD)
    taps = flatten(tap) if isinstance(tap, tuple) else (tap,)
    spatial = len(source.filter)
    if len(taps) != spatial or any(map(_is_outside, taps, source.filter)):
        found = f"a tap {show(taps)} of a filter of {show(source.filter)}"
        raise refusal_here("tma-im2col", operation=LOAD, found=found)
    copies = _PixelBoxes(source, target, [*source.start(pixel), channel])
    offsets = tuple(
        [bare(ints.mul(x, gap)) for x, gap in zip(taps, source.dilation, strict=True)][::-1]
    )
    sides = list(zip(source.filter, source.behind, source.dilation, strict=True))[::-1]
    walk = Im2col(
        tuple([-pad for pad in source.padding[::-1]]),
        tuple([pad - (tap - 1) * gap for tap, pad, gap in sides]),
        source.stride[::-1],
    )
    bar, mask = bars._at(index), bare(multicast, LOAD)
    for coord, box in copies.parts():
        emit(TmaLoad, source.engine.name, coord, box, bar, mask, cache, None, walk, offsets)
