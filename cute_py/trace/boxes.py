"""The boxes of a tile: the copies by TMA that fill it as its layout says.

A tensor map describes one box: its elements follow each other in shared memory, from a multiple of
8 rows of the swizzle on. A tile whose rows are wider than the swizzle, or longer than a box may be,
is cut into several. Source: cutlass include/cute/atom/copy_traits_sm90_tma.hpp; PTX ISA, "Tensor
Copies", "Swizzling Modes".
"""

from __future__ import annotations

from math import gcd, prod

from cute_py.atoms.gmma import byte_swizzle, is_standard
from cute_py.atoms.tensor_map import MOST_BOX, MOST_DIMENSIONS, SWIZZLE_MODES, Step, box_of
from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.integers.symbols import terms_of
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.modes import get
from cute_py.layout.queries import rank, size
from cute_py.layout.tuples import flatten, show
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Logic
from cute_py.plan.ops import Box
from cute_py.trace.engines import Guarded, SharedMemory
from cute_py.trace.lower import require_own, surely
from cute_py.trace.runtime_integers import Condition, bare, compare
from cute_py.trace.state import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from cute_py.layout.types import AnyLayout, Leaf
    from cute_py.plan.conditions import Cond, Scalar
    from cute_py.tensor.tensor import Tensor
    from cute_py.trace.engines import GlobalMemory

NEVER = Compare("lt", 1, 0)
FIXES = {
    "rank": "give the tensor fewer modes, for example by merging those that are contiguous",
    "major": "lay the tile out along the contiguous mode of the tensor, or copy the tensor",
    "row": "make the tile wider along that mode",
    "apart": "build the tile with the contiguous mode last, for example "
    "cute.tile_to_shape(atom, shape, order=(2, 1, 3)) for an MN-major atom",
    "swizzle": "use a layout of cute.atoms.gmma_layout_atom, or a plain one",
    "start": "cut tiles of whole atoms: a multiple of 8 rows of the swizzle",
}


def is_whole(memory: GlobalMemory, layout: Any) -> bool:
    """Tell whether a tensor is an argument with all of its elements, as it was given."""
    if layout.__class__ is ComposedLayout:
        return False
    param = current().params.get(memory.name)
    if param is None:  # of a pointer
        return False
    modes = [tuple(map(bare, flatten((x,)))) for x in (layout.shape, layout.stride)]
    alike = memory.dtype.bits == param.dtype.bits and ints.is_zero(memory.offset) is True
    return alike and modes == [param.shape, param.stride]


def refuse_part(tensor: Tensor, operation: str) -> NoReturn:
    """Refuse a part of an argument, or another view of it: a tensor map describes all of it."""
    raise refusal_here(
        "kernel-space",
        operation=operation,
        tensor=tensor,
        wanted="global memory: an argument of the kernel with all of its elements",
        how="cut the part from the tensor of coordinates, cute.tma_tensor(x)[2, _, _], or pass it "
        "as an argument",
    )


class Boxes:
    """The copies of a tile of a `tma_tensor` to or from shared memory.

    Law: together they put element c of the tile where the layout of shared memory has it. Raises
    LayoutError if boxes do not, or for a tile of a part of an array: a tensor map describes an
    argument as it was given.

    Attributes:
        engine: the tensor in coordinates.
        shared, memory: the tile in shared memory, and its storage.
        modes: those of the tile that have more than one element.
        axes: the mode of the tensor that each of these walks along.
        inner: the contiguous mode of the tensor.
        swizzle: the span of the swizzle (bytes), or 0.
    """

    def __init__(self, tile: Tensor, shared: Tensor, operation: str) -> None:
        """Accept a tile and shared memory of the same shape; refuse others."""
        self.operation, self.shared = operation, shared
        engine: Any = getattr(tile, "engine", None)
        is_shared = isinstance(getattr(shared, "engine", None), SharedMemory)
        if not isinstance(engine, Guarded) or not is_shared:
            raise refusal_here("tma-kernel-tile", operation=operation, a=tile, b=shared)
        if not is_whole(engine.memory, engine):
            refuse_part(tile, operation)
        layout = tile.layout
        require_own(shared, operation, "load it to several blocks: cute.tma_load(..., multicast=)")
        if tile.dtype is not shared.dtype:
            raise refusal_here("kernel-types", operation=operation, a=tile.dtype, b=shared.dtype)
        extents: list[Any] = [size(layout, k) for k in range(rank(layout))]
        if any(extent.__class__ is not int for extent in extents):  # no tile, but the tensor
            raise refusal_here("tma-kernel-tile", operation=operation, a=tile, b=shared)
        self.shape: list[int] = extents
        self.modes = [k for k, extent in enumerate(self.shape) if extent > 1]
        flat = len(layout._d) == len(self.shape)
        steps = [layout._d[k] for k in self.modes] if flat else []
        self.axes = [getattr(d, "path", (-1,))[0] for d in steps]
        plain = flat and all(getattr(d, "value", 0) == 1 for d in steps)
        if not plain or len(set(self.axes)) < len(self.axes):
            raise refusal_here("tma-kernel-tile", operation=operation, a=tile, b=shared)
        held = [int(size(shared.layout, k)) for k in range(rank(shared.layout))]
        if held != self.shape:
            raise refusal_here(
                "kernel-shapes", operation=operation, a=tile.shape, b=shared.layout.shape
            )
        self.engine: Guarded = engine
        self.memory: Any = shared.engine  # of SharedMemory
        self.start = [bare(x) for x in flatten(engine.offset)]
        if len(self.start) > MOST_DIMENSIONS:
            self.refuse(f"a tensor of {len(self.start)} modes", "rank")
        strides = flatten(engine.stride)
        inner = next((i for i, d in enumerate(strides) if d.__class__ is int and d == 1), None)
        if inner is None:
            self.refuse(f"a tensor without a contiguous mode, strides {show(strides)}", "major")
        self.inner: int = inner
        self.swizzle = self._span()

    def refuse(self, found: str, fix: str) -> NoReturn:
        """Refuse what no box can fill."""
        raise refusal_here(
            "tma-kernel-box",
            operation=self.operation,
            found=found,
            tile=show(tuple(self.shape)),
            layout=self.shared.layout,
            how=FIXES[fix],
        )

    def _span(self) -> int:
        """Return the span of the swizzle of shared memory (bytes)."""
        layout: Any = self.shared.layout
        found = byte_swizzle(layout, self.shared.dtype.bits)
        if not is_standard(found):
            self.refuse(f"the swizzle {found} of byte addresses", "swizzle")
        return SWIZZLE_MODES[found.num_bits][1]

    def parts(self) -> Iterator[tuple[tuple[Scalar, ...], Box]]:
        """Yield the coordinate and box of each copy."""
        box, rest = _cut(self, self.steps())
        order = _order(self, box)
        extents = {step.mode: step.extent for step in box}
        shape = tuple([extents.get((mode,), 1) for mode in order])
        for coord, offset in _places(self, rest):
            yield coord, _at(self, offset, order, shape)

    def reaches(self, coord: tuple[Scalar, ...], box: Box) -> Cond | None:
        """Return the condition that a box is not wholly outside of the tensor, None if always."""
        tests: list[Cond] = []
        for mode, extent in zip(box.modes, box.extents, strict=True):
            start, most = coord[mode], flatten(self.engine.shape)[mode]
            for test in (compare("lt", 0, ints.add(start, extent)), compare("lt", start, most)):
                if not surely(test):
                    tests.append(test.cond if isinstance(test, Condition) else NEVER)
        if len(tests) < 2:
            return tests[0] if tests else None
        return Logic("and", tuple(tests))

    def steps(self) -> list[Step]:
        """Return the steps through shared memory along each of `modes`."""
        layout: AnyLayout = self.shared.layout
        plain = layout.inner if layout.__class__ is ComposedLayout else layout
        if plain.__class__ is not Layout or any(d.__class__ is not int for d in plain._d):
            self.refuse("strides that are not static", "apart")
        steps = []
        for k, axis in zip(self.modes, self.axes, strict=True):
            mode, unit = coalesce(get(plain, k)), 1
            for extent, stride in zip(mode._s, mode._d, strict=True):
                if extent != 1:
                    steps.append(Step((axis,), unit, int(extent), int(stride)))
                unit *= extent
        return steps


def _cut(tile: Boxes, steps: list[Step]) -> tuple[list[Step], list[Step]]:
    """Return the steps of a box, and those from box to box, which are along the contiguous mode
    alone, or where a mode is longer than a box.
    """
    box, rest = box_of(steps, MOST_BOX)
    inner, size = (tile.inner,), tile.shared.dtype.bits // 8
    along = {mode: [step for step in steps if step.mode == mode] for mode, *_ in steps}
    if not box or box[0].mode != inner:
        said = f"mode {tile.inner} of the tensor, the contiguous one"
        if inner not in along:
            tile.refuse(f"one element ({size} bytes) along {said}", "row")
        tile.refuse(f"elements that do not follow each other along {said}", "major")
    held = [step.mode for step in box]
    for mode in sorted(along, key=lambda mode: along[mode][0].stride):
        if mode not in held or (len(along[mode]) > 1 and mode != inner):
            walks = ", ".join(f"{step.extent} times {step.stride}" for step in along[mode])
            tile.refuse(
                "a box of elements that do not follow each other: mode "
                f"{tile.axes.index(mode[0])} steps {walks}",
                "apart",
            )
    row = box[0].extent * size
    if tile.swizzle and row != tile.swizzle:
        tile.refuse(f"rows of {row} bytes, with a swizzle of {tile.swizzle} bytes", "swizzle")
    if row % 16:
        tile.refuse(f"rows of {row} bytes", "row")
    return box, sorted(rest, key=lambda step: (held.index(step.mode), step.unit))


def _order(tile: Boxes, box: list[Step]) -> tuple[int, ...]:
    """Return the modes of the tensor in the order of the box: the contiguous mode, those with
    several elements by their stride in shared memory, the others.
    """
    strides = {step.mode[0]: step.stride for step in box if step.extent > 1}
    rest = [i for i in range(len(tile.start)) if i != tile.inner]
    return (tile.inner, *sorted(rest, key=lambda i: (i not in strides, strides.get(i, 0), -i)))


def _places(tile: Boxes, rest: list[Step]) -> Iterator[tuple[tuple[Scalar, ...], int]]:
    """Yield the coordinate of each box, and its first element in shared memory."""
    for index in range(prod(step.extent for step in rest)):
        coord: list[Any] = list(tile.start)
        offset = 0
        for (axis,), unit, extent, stride in rest:
            digit, index = index % extent, index // extent
            coord[axis] = ints.add(coord[axis], digit * unit)
            offset += digit * stride
        yield tuple([bare(x) for x in coord]), offset


def _at(tile: Boxes, offset: int, order: tuple[int, ...], extents: tuple[int, ...]) -> Box:
    """Return a box at an offset (elements) of the tile in shared memory."""
    engine, layout = tile.memory, tile.shared.layout
    engine.scope.require_open(tile.shared)
    start = engine.offset
    if layout.__class__ is ComposedLayout:
        start = ints.add(start, layout.offset)
    start = bare(ints.add(start, offset))
    access = Access("smem", engine.name, engine.dtype, (start,), ((0, 0),), prod(extents))
    box = Box(access, order, extents, tile.swizzle)
    unit = box.period * 8 // engine.dtype.bits
    if _divisor(start) % unit:
        tile.refuse(
            f"a box that does not start at a multiple of {unit} elements ({box.period} bytes) of "
            f"{engine.name}, but at {start}",
            "start",
        )
    return box


def _divisor(x: Leaf) -> int:
    """Return a divisor of all values of an integer."""
    return abs(x) if isinstance(x, int) else gcd(*terms_of(x).values())
