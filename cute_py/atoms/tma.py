"""`TmaAtom`: the static part of a tensor map for one TMA instruction, derived from both layouts.

The right inverse of the shared memory layout lists the tile's elements in the order of their
addresses; of these steps `box_of` takes those of the box. The address and the extents are known at
run time, in the tensor map. Source: cutlass include/cute/atom/copy_traits_sm90_tma.hpp
`make_tma_copy`, copy_traits_sm90_tma_swizzle.hpp; CUDA driver API, `cuTensorMapEncodeTiled`, for
the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cute_py.atoms import copy_sm90
from cute_py.atoms.copy import Copy_Atom, Copy_Op, value_type
from cute_py.atoms.gmma import byte_swizzle, is_standard
from cute_py.atoms.tensor_map import MOST_BOX, MOST_DIMENSIONS, SWIZZLE_MODES, Step, box_of
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout.algebra.coalesce import coalesce
from cute_py.layout.algebra.composition import composition
from cute_py.layout.algebra.inverse import right_inverse
from cute_py.layout.basis import E, ScaledBasis
from cute_py.layout.build import make_identity_layout
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.queries import size
from cute_py.layout.tuples import product_each, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.layout.types import AnyLayout, IntTuple, Leaf

    Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TmaAtom:
    """One TMA instruction on a tile, without the run-time part of its tensor map.

    Attributes:
        op: the instruction; its bits are those of the box, of all CTAs together when multicast.
        dtype: the element type.
        smem_layout: the layout of the tile in shared memory (elements).
        box: extents of the box (elements), the innermost dimension first.
        swizzle_mode: "NONE", "32B", "64B" or "128B".
        modes: for each dimension of the tensor map, the path of its mode in the tensor in global
            memory.
        strides: byte strides of dimensions 1, 2, ...; that of dimension 0 is one element.
        coordinates: the shape of the tensor, with coordinate strides: element -> coordinates of the
            tensor map.
        multicast: the number of CTAs that load a part of the box each.
    """

    op: Copy_Op
    dtype: Dtype
    smem_layout: AnyLayout
    box: tuple[int, ...]
    swizzle_mode: str
    modes: tuple[Path, ...]
    strides: tuple[Leaf, ...]
    coordinates: Layout
    multicast: int = 1

    def __str__(self) -> str:
        box = ",".join(map(str, self.box))
        return f"TmaAtom({self.op}, box ({box}) of {self.dtype}, swizzle {self.swizzle_mode})"

    @property
    def rank(self) -> int:
        """The number of dimensions of the tensor map."""
        return len(self.box)

    @property
    def copy_atom(self) -> Copy_Atom:
        """The instruction in values of the element type."""
        return Copy_Atom(self.op, self.dtype)

    @property
    def smem_alignment(self) -> int:
        """The alignment of the tile in shared memory (bytes): 128, or the swizzle's period."""
        by_mode = {mode: period for mode, _, period in SWIZZLE_MODES.values()}
        return by_mode[self.swizzle_mode]


def make_tma_atom(
    op: Callable[[int, int], Copy_Op] | str,
    gmem_layout: Layout,
    smem_layout: AnyLayout,
    dtype: DtypeLike | int,
    cta_tile: IntTuple = None,
    multicast: int = 1,
) -> TmaAtom:
    """Return the TMA instruction with the largest box for a tile.

    Args:
        op: SM90_TMA_LOAD, SM90_TMA_LOAD_MULTICAST, SM90_TMA_STORE or SM90_TMA_REDUCE_ADD, or the
            name.
        gmem_layout: the layout of the tensor in global memory (elements), which may have symbols.
        smem_layout: the layout of the tile in shared memory (elements), plain or swizzled.
        dtype: the element type, or its width in bits.
        cta_tile: the tile of the tensor; default: the extents of the shared-memory layout.
        multicast: the number of CTAs of the cluster that load a part of the box each.

    Raises LayoutError if no tensor map can describe it: the two sides differ in the contiguous
    mode, a stride is not a multiple of 16 bytes, a box is longer than 256 elements, or its rows are
    longer than the swizzle's span or not a multiple of 16 bytes.

    >>> from cute_py.atoms.gmma import Layout_K_SW128_Atom
    >>> from cute_py.layout.algebra.product import tile_to_shape
    >>> smem = tile_to_shape(Layout_K_SW128_Atom("f16"), (128, 64))
    >>> atom = make_tma_atom("SM90_TMA_LOAD", Layout((512, 256), (256, 1)), smem, "f16")
    >>> print(atom, atom.coordinates, atom.strides)
    TmaAtom(SM90_TMA_LOAD_2D<131072>, box (64,128) of f16, swizzle 128B) (512,256):(1@1,1@0) (512,)
    """
    make = _factory(op)
    value = value_type(dtype, "make_tma_atom")
    mode, span = _swizzle_mode(smem_layout, value.bits)
    walked = _walked(gmem_layout, smem_layout, cta_tile)
    modes = tuple([step.mode for step in walked])
    box = tuple([step.extent for step in walked])
    missing = [path for path in _counted_modes(gmem_layout) if path not in modes]
    modes, whole = modes + tuple(missing), box + (1,) * len(missing)
    if len(modes) > MOST_DIMENSIONS:
        raise refusal("tma-rank", operation="make_tma_atom", rank=len(modes))
    strides = _byte_strides(gmem_layout, modes, value)
    _check_box(whole, value, mode, span)
    return TmaAtom(
        op=make(prod(whole) * value.bits, len(whole)),
        dtype=value,
        smem_layout=smem_layout,
        box=_spread(whole, multicast),
        swizzle_mode=mode,
        modes=modes,
        strides=strides,
        coordinates=_coordinates(gmem_layout, modes),
        multicast=multicast,
    )


def _factory(op: Callable[[int, int], Copy_Op] | str) -> Callable[[int, int], Copy_Op]:
    known = ("SM90_TMA_LOAD", "SM90_TMA_LOAD_MULTICAST", "SM90_TMA_STORE", "SM90_TMA_REDUCE_ADD")
    if isinstance(op, str) and op in known:
        return getattr(copy_sm90, op)  # type: ignore[no-any-return]
    if not callable(op):
        raise refusal("tma-op", operation="make_tma_atom", op=op, known=", ".join(known))
    return op


def _swizzle_mode(smem_layout: AnyLayout, bits: int) -> tuple[str, int]:
    """Return the swizzle mode of a shared-memory layout and its span (bytes)."""
    swizzle = byte_swizzle(smem_layout, bits)
    if not is_standard(swizzle):
        raise refusal("smem-swizzle", operation="make_tma_atom", layout=smem_layout)
    mode, span, _ = SWIZZLE_MODES[swizzle.num_bits]
    return mode, span


def _walked(gmem: Layout, smem: AnyLayout, cta_tile: IntTuple) -> list[Step]:
    """Return the steps of the box."""
    if gmem.__class__ is not Layout:
        raise refusal("not-a-layout", operation="make_tma_atom", value=gmem)
    plain = smem.inner if smem.__class__ is ComposedLayout else smem
    tile = product_each(plain.shape) if cta_tile is None else cta_tile
    to_mode = composition(make_identity_layout(gmem.shape), tile)
    if size(to_mode) != size(plain):
        raise refusal(
            "tma-tile", operation="make_tma_atom", tile=show(tile), layout=smem, size=size(plain)
        )
    order = coalesce(composition(to_mode, right_inverse(plain)))
    steps, stride = list[Step](), 1
    for extent, step in zip(order._s, order._d, strict=True):
        if step.__class__ is not ScaledBasis:
            break
        count = ints.as_int(extent, "make_tma_atom")
        steps.append(Step(step.path, step.value, count, stride))
        stride *= count
    box, _rest = box_of(steps)
    if not box:
        raise refusal(
            "tma-vector", operation="make_tma_atom", gmem=gmem, smem=smem, tile=show(tile)
        )
    return box


def _counted_modes(gmem: Layout) -> list[Path]:
    """Return the modes that have more than one element, at different addresses."""
    return [
        path
        for path, extent, step in _leaves(gmem.shape, gmem.stride)
        if not ints.is_one(extent) and not ints.is_zero(step)
    ]


def _leaves(
    shape: IntTuple, stride: IntTuple, path: Path = ()
) -> Iterator[tuple[Path, Leaf, Leaf]]:
    if shape.__class__ is tuple:
        for i, (extents, steps) in enumerate(zip(shape, stride, strict=True)):
            yield from _leaves(extents, steps, (*path, i))
    else:
        yield path, shape, stride


def _byte_strides(gmem: Layout, modes: tuple[Path, ...], value: Dtype) -> tuple[Leaf, ...]:
    """Return the byte strides of all dimensions except the first, checked."""
    steps = {path: step for path, _, step in _leaves(gmem.shape, gmem.stride)}
    inner, *outer = (steps[path] for path in modes)
    if not ints.is_one(inner):
        raise refusal(
            "tma-major", operation="make_tma_atom", gmem=gmem, mode=modes[0], stride=inner
        )
    strides = []
    for path, step in zip(modes[1:], outer, strict=True):
        bits = ints.mul(step, value.bits)
        if not ints.settle(ints.divides, 128, bits, "make_tma_atom"):
            raise refusal(
                "tma-stride",
                operation="make_tma_atom",
                gmem=gmem,
                mode=path,
                stride=step,
                dtype=value,
                multiple=128 // value.bits,
            )
        strides.append(ints.div(bits, 8))
    return tuple(strides)


def _check_box(box: tuple[int, ...], value: Dtype, mode: str, span: int) -> None:
    row = box[0] * value.bits
    shown, operation = show(box), "make_tma_atom"
    if max(box) > MOST_BOX:
        raise refusal("tma-box", operation=operation, box=shown, dtype=value, most=MOST_BOX)
    if row % 128:
        raise refusal("tma-row", operation=operation, box=shown, dtype=value, bits=row)
    if span and row > 8 * span:
        raise refusal(
            "tma-span",
            operation=operation,
            box=shown,
            dtype=value,
            bytes=row // 8,
            swizzle=mode,
            span=span,
            most=8 * span // value.bits,
        )


def _spread(box: tuple[int, ...], multicast: int) -> tuple[int, ...]:
    """Return the box of one of `multicast` CTAs; the outer dimensions are split first."""
    extents, left = list(box), multicast
    for i in reversed(range(len(extents))):
        if left <= 1:
            break
        if extents[i] % left and left % extents[i]:
            raise refusal(
                "tma-multicast", operation="make_tma_atom", box=show(box), multicast=multicast
            )
        extents[i], left = -(-extents[i] // left), -(-left // extents[i])
    if left > 1:
        raise refusal(
            "tma-multicast", operation="make_tma_atom", box=show(box), multicast=multicast
        )
    return tuple(extents)


def _coordinates(gmem: Layout, modes: tuple[Path, ...]) -> Layout:
    def strides(shape: IntTuple, path: Path) -> IntTuple:
        if shape.__class__ is tuple:
            return tuple(strides(part, (*path, i)) for i, part in enumerate(shape))
        return E(modes.index(path)) if path in modes else 0

    return Layout(gmem.shape, strides(gmem.shape, ()))
