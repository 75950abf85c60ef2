"""The classical layouts of CUTLASS 2.x: matrices, interleaved and affine ones, images, attention.

Each constructor returns a plain `Layout`; capital letters in a name are its arguments, in that
order. Strides are kept as CUTLASS defines them, also in modes of extent 1, so that `capacity` is
CUTLASS's. The inverse of any of them is idx2crd(left_inverse(layout)(offset), layout.shape).
Shared-memory operands of tensor cores are in `tensorop`.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.modes import select
from cute_py.layout.queries import rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import AnyInt, AnyLayout, IntTuple, Kind, Leaf, Nest

_MATRIX = ("rows", "columns")


# -- vectors


def packed_vector(extent: Leaf) -> Layout:
    """Return n:1, a vector of neighbours.

    Args:
        extent: n (elements).

    Law: offset(i) == i, so the layout is its own inverse; capacity is n. Source:
    cutlass/layout/vector.h `PackedVectorLayout`.

    >>> print(packed_vector(10), packed_vector(10)(7), capacity(packed_vector(10)))
    10:1 7 10
    """
    (n,) = _extents("packed_vector", extent, ("extent",))
    return Layout(n, 1)


# -- matrices


def row_major(shape: IntTuple, ldm: Leaf = None) -> Layout:
    """Return (R,C):(ldm,1), the rows one after the other.

    Args:
        shape: (rows, columns) in elements.
        ldm: elements from row to row, at least the columns (default); 0 repeats one row.

    Law: offset(r, c) == r*ldm + c; capacity is rows*ldm. Raises LayoutError for another rank, or
    for an ldm in which rows overlap. Source: cutlass/layout/matrix.h `RowMajor`.

    >>> print(row_major((3, 4), ldm=5), row_major((3, 4), ldm=5)(2, 3))
    (3,4):(5,1) 13
    """
    rows, columns = _extents("row_major", shape, _MATRIX)
    return Layout((rows, columns), (_pitch("row_major", "ldm", ldm, columns), 1))


def column_major(shape: IntTuple, ldm: Leaf = None) -> Layout:
    """Return (R,C):(1,ldm), the columns one after the other; ldm is BLAS's leading dimension.

    Args:
        shape: (rows, columns) in elements.
        ldm: elements from column to column, at least the rows (default); 0 repeats one column.

    Law: offset(r, c) == c*ldm + r; capacity is columns*ldm. Raises LayoutError for another rank, or
    for an ldm in which columns overlap. Source: cutlass/layout/matrix.h `ColumnMajor`.

    >>> print(column_major((16, 9)), column_major((16, 9))(9, 5))
    (16,9):(1,16) 89
    """
    rows, columns = _extents("column_major", shape, _MATRIX)
    return Layout((rows, columns), (1, _pitch("column_major", "ldm", ldm, rows)))


def row_major_interleaved(shape: IntTuple, interleave: Leaf, ldm: Leaf = None) -> Layout:
    """Return ((I,R/I),C):((1,ldm),I), groups of I rows, each a run of columns of I elements.

    Args:
        shape: (rows, columns) in elements. Rows are rounded up to a multiple of I: the rest of the
            last group is padding, and coordinates of the layout.
        interleave: I, the rows of a group.
        ldm: elements from group to group, at least columns*I (default).

    Law: offset(r, c) == (r//I)*ldm + c*I + r%I; capacity is ceil_div(rows, I)*ldm. Raises
    LayoutError as `row_major`. Source: cutlass/layout/matrix.h `RowMajorInterleaved`.

    >>> print(row_major_interleaved((4, 8), 2), row_major_interleaved((4, 8), 2)(2, 0))
    ((2,2),8):((1,16),2) 16
    """
    name = "row_major_interleaved"
    rows, columns = _extents(name, shape, _MATRIX)
    i, groups, ldm = _interleaved(name, interleave, rows, columns, ldm)
    return Layout(((i, groups), columns), ((1, ldm), i))


def column_major_interleaved(shape: IntTuple, interleave: Leaf, ldm: Leaf = None) -> Layout:
    """Return (R,(I,C/I)):(I,(1,ldm)), groups of I columns, each a run of rows of I elements.

    Args:
        shape: (rows, columns) in elements. Columns are rounded up to a multiple of I: the rest of
            the last group is padding, and coordinates of the layout.
        interleave: I, the columns of a group.
        ldm: elements from group to group, at least rows*I (default).

    Law: offset(r, c) == (c//I)*ldm + r*I + c%I; capacity is ceil_div(columns, I)*ldm. Raises
    LayoutError as `column_major`. Source: cutlass/layout/matrix.h `ColumnMajorInterleaved`.

    >>> print(column_major_interleaved((2, 3), 2), capacity(column_major_interleaved((2, 3), 2)))
    (2,(2,2)):(2,(1,4)) 8
    """
    name = "column_major_interleaved"
    rows, columns = _extents(name, shape, _MATRIX)
    i, groups, ldm = _interleaved(name, interleave, columns, rows, ldm)
    return Layout((rows, (i, groups)), (i, (1, ldm)))


def _interleaved(
    name: str, interleave: Leaf, split: Leaf, whole: Leaf, ldm: Leaf
) -> tuple[Leaf, Leaf, Leaf]:
    """Return I, the number of groups, and the stride from group to group."""
    i = ints.normalize(interleave, name)
    if ints.less(i, 1):
        raise refusal("extent-not-positive", operation=name, value=i, mode="interleave")
    return i, ints.ceil_div(split, i), _pitch(name, "ldm", ldm, ints.mul(whole, i))


def pitch_linear(shape: IntTuple, ldm: Leaf = None) -> Layout:
    """Return (C,S):(1,ldm), the contiguous mode first.

    Args:
        shape: (contiguous, strided) in elements.
        ldm: elements from line to line, at least the contiguous extent (default); 0 repeats one.

    Law: offset(c, s) == c + s*ldm; capacity is strided*ldm. Raises LayoutError for another rank, or
    for an ldm in which lines overlap. Source: cutlass/layout/pitch_linear.h `PitchLinear`.

    >>> pitch_linear((8, 4), ldm=10)(5, 3)
    35
    """
    contiguous, strided = _extents("pitch_linear", shape, ("contiguous", "strided"))
    pitch = _pitch("pitch_linear", "ldm", ldm, contiguous)
    return Layout((contiguous, strided), (1, pitch))


def pitched(shape: IntTuple, padding: Leaf = 0) -> Layout:
    """Return pitch-linear memory with `padding` elements after each row that no coordinate reaches.

    Args:
        shape: (columns, rows) in elements.
        padding: unused elements after each row.

    Raises LayoutError for another rank or a negative padding. Source: CUDA Runtime API,
    cudaMallocPitch, whose pitch counts bytes.

    >>> print(pitched((100, 8), padding=28))
    (100,8):(1,128)
    """
    columns, rows = _extents("pitched", shape, ("columns", "rows"))
    pitch = ints.add(columns, ints.normalize(padding, "pitched"))
    return Layout((columns, rows), (1, _pitch("pitched", "columns + padding", pitch, columns)))


def affine_rank_n(shape: IntTuple, strides: IntTuple = None) -> Layout:
    """Return shape:strides of any rank; without strides, packed with the last mode contiguous.

    Law: offset(c) == sum of c[i]*strides[i]. Raises LayoutError when the ranks differ or a mode
    nests. Source: cutlass/layout/matrix.h `AffineRankN`.

    >>> print(affine_rank_n((4, 3, 2)), affine_rank_n((4, 5), (5, 2))(3, 4))
    (4,3,2):(6,2,1) 23
    """
    extents = _extents("affine_rank_n", shape)
    if strides is None:
        return _last_contiguous("affine_rank_n", extents, None)
    return Layout(extents, tuples.wrap(tuples.canonical(strides, "affine_rank_n")))


def affine_rank_2(shape: IntTuple, strides: IntTuple = None) -> Layout:
    """Return (M,N):(sm,sn), a matrix with both strides free; without strides, row-major.

    Raises LayoutError for another rank. Source: cutlass/layout/matrix.h `AffineRank2RowMajor`,
    `AffineRank2ColumnMajor`.

    >>> print(affine_rank_2((4, 3), (5, 2)), capacity(affine_rank_2((4, 3), (5, 2))))
    (4,3):(5,2) 20
    """
    return affine_rank_n(_extents("affine_rank_2", shape, _MATRIX), strides)


# -- image tensors and filters


def tensor_nhwc(N: Leaf, H: Leaf, W: Leaf, C: Leaf, strides: IntTuple = None) -> Layout:
    """Return (N,H,W,C):(s2,s1,s0,1), images with the channels contiguous.

    Args:
        N: images.
        H: rows of an image.
        W: columns of an image.
        C: channels.
        strides: (s0, s1, s2) in CUTLASS's order: elements from column to column, row to row and
            image to image, each at least what it steps over (default), or 0 to repeat that.

    Law: offset(n, h, w, c) == c + s0*w + s1*h + s2*n; capacity is N*s2. Raises LayoutError for
    strides in which modes overlap. Source: cutlass/layout/tensor.h `TensorNHWC`.

    >>> print(tensor_nhwc(1, 2, 3, 4), tensor_nhwc(1, 2, 3, 4)(0, 1, 2, 3))
    (1,2,3,4):(24,12,4,1) 23
    """
    return _last_contiguous("tensor_nhwc", (N, H, W, C), strides)


def tensor_ndhwc(N: Leaf, D: Leaf, H: Leaf, W: Leaf, C: Leaf, strides: IntTuple = None) -> Layout:
    """Return (N,D,H,W,C):(s3,s2,s1,s0,1), volumes with the channels contiguous.

    Arguments and errors as for `tensor_nhwc`. Source: cutlass/layout/tensor.h `TensorNDHWC`.

    >>> print(tensor_ndhwc(1, 2, 3, 4, 5))
    (1,2,3,4,5):(120,60,20,5,1)
    """
    return _last_contiguous("tensor_ndhwc", (N, D, H, W, C), strides)


def filter_krsc(K: Leaf, R: Leaf, S: Leaf, C: Leaf, strides: IntTuple = None) -> Layout:
    """Return (K,R,S,C):(R*S*C,S*C,C,1), K filters of R by S taps over C channels.

    Law: packed, offset(k, r, s, c) == c + C*(s + S*(r + R*k)). Arguments and errors as for
    `tensor_nhwc`. Source: cutlass/conv/conv2d_problem_size.h `filter_extent`, as a `TensorNHWC`.

    >>> filter_krsc(2, 3, 3, 4)(1, 2, 2, 3)
    71
    """
    return _last_contiguous("filter_krsc", (K, R, S, C), strides)


def _last_contiguous(name: str, extents: IntTuple, strides: IntTuple) -> Layout:
    """Return the layout whose strides grow from the last mode, 1, to the first.

    `strides` has all but the 1, the smallest first.
    """
    extents = _extents(name, extents)
    names = tuple([f"s{i}" for i in range(len(extents) - 1)])
    given = (None,) * len(names) if strides is None else _extents(name, strides, names)
    steps: list[Leaf] = [1]
    for what, extent, step in zip(names, reversed(extents[1:]), given, strict=True):
        steps.append(_pitch(name, what, step, ints.mul(steps[-1], extent)))
    return Layout(extents, tuple(reversed(steps)))


# -- attention


def tensor_dmhb(D: Leaf, M: Leaf, H: Leaf, B: Leaf, strides: IntTuple) -> Layout:
    """Return (D,M,H,B):(1,sM,sH,sB), queries, keys or values of attention by their strides.

    Args:
        D: elements of a head, contiguous.
        M: queries or keys of a sequence.
        H: heads.
        B: sequences of the batch.
        strides: (sM, sH, sB) in elements, any of them the largest; 0 shares (one head for all).

    Law: offset(d, m, h, b) == d + sM*m + sH*h + sB*b. Raises LayoutError unless there are three
    strides. Source: cutlass examples/41_fused_multi_head_attention (q_strideM, _strideH, _strideB).

    >>> print(tensor_dmhb(64, 128, 8, 2, (512, 64, 65536)))
    (64,128,8,2):(1,512,64,65536)
    """
    extents = _extents("tensor_dmhb", (D, M, H, B))
    return Layout(extents, (1, *_extents("tensor_dmhb", strides, ("sM", "sH", "sB"))))


def tensor_bmhk(B: Leaf, M: Leaf, H: Leaf, K: Leaf) -> Layout:
    """Return `tensor_dmhb` of packed memory [B][M][H][K], the heads of a query side by side.

    >>> print(tensor_bmhk(2, 128, 8, 64))
    (64,128,8,2):(1,512,64,65536)
    """
    stride_b, stride_m, stride_h, _one = _packed("tensor_bmhk", (B, M, H, K))
    return tensor_dmhb(K, M, H, B, (stride_m, stride_h, stride_b))


def tensor_bhmk(B: Leaf, H: Leaf, M: Leaf, K: Leaf) -> Layout:
    """Return `tensor_dmhb` of packed memory [B][H][M][K], the queries of a head side by side.

    >>> print(tensor_bhmk(2, 8, 128, 64))
    (64,128,8,2):(1,64,8192,65536)
    """
    stride_b, stride_h, stride_m, _one = _packed("tensor_bhmk", (B, H, M, K))
    return tensor_dmhb(K, M, H, B, (stride_m, stride_h, stride_b))


# -- any layout


def permuted(layout: Kind | Nest, order: IntTuple) -> Kind:
    """Return the layout with mode order[i] as its mode i, as numpy.transpose does to an array.

    A store through it permutes the data: CUTLASS's permute layouts do this to a matrix whose modes
    are split. Law: permuted(L, order) computes composition(L, P), where P permutes coordinates: P =
    select(Layout(L.shape), order). Raises LayoutError unless order names every mode once. Source:
    cutlass/layout/permute.h.

    >>> print(permuted(row_major((3, 4)), (1, 0)))
    (4,3):(1,4)
    """
    order = tuple(order) if order.__class__ is list else order
    modes = tuples.wrap(tuples.canonical(order, "permuted"))
    last = rank(layout) - 1
    if len(modes) != last + 1 or set(modes) != set(range(last + 1)):
        facts: dict[str, Any] = {"order": tuples.show(modes), "layout": layout, "last": last}
        raise refusal("permutation", operation="permuted", **facts)
    return select(layout, modes)


def capacity(layout: AnyLayout) -> AnyInt:
    """Return how many elements CUTLASS allots: extent times stride of the mode of largest stride.

    It counts the padding after the last line, which `cosize` leaves out. The two agree for packed
    layouts, and capacity >= cosize where modes do not overlap; a swizzle of whole lines changes
    neither. Raises LayoutError for negative and coordinate strides, and for other composed layouts.
    Source: `capacity` in cutlass/layout/matrix.h (`AffineRankN` has it all), tensor.h.

    >>> capacity(row_major((3, 4), ldm=5)), row_major((3, 4), ldm=5).cosize()
    (15, 14)
    """
    plain, line = _without_swizzle(layout)
    total = _largest_mode(plain) if plain.__class__ is Layout else None
    if total is None or not (line == 1 or ints.settle(ints.divides, line, total, "capacity")):
        raise refusal("capacity", operation="capacity", layout=layout)
    return total


def _without_swizzle(layout: AnyLayout) -> tuple[AnyLayout | None, int]:
    """Return the layout below a swizzle, and the length of the runs in which it moves elements."""
    if layout.__class__ is not ComposedLayout or layout.outer.__class__ is not Swizzle:
        return layout, 1
    if ints.is_zero(layout.offset) is not True:
        return None, 1
    return layout.inner, 1 << layout.outer.zzz_msk.bit_length()


def _largest_mode(layout: Layout) -> Leaf:
    """Return extent*stride of the leaf of largest stride, None for strides that are not counts."""
    outer = 1, 1
    for leaf in zip(layout._s, layout._d, strict=True):
        if leaf[1].__class__ is ScaledBasis or ints.less(leaf[1], 0):
            return None
        if _is_outer(leaf, outer):
            outer = leaf
    return ints.mul(*outer)


def _is_outer(a: tuple[Leaf, Leaf], b: tuple[Leaf, Leaf]) -> bool:
    """Return whether leaf a has the larger stride, or as large a stride and the larger extent."""
    if ints.same(a[1], b[1]):
        return ints.settle(ints.leq, b[0], a[0], "capacity")
    if ints.leq(b[1], a[1]) is None and ints.leq(a[1], b[1]):
        return False
    return ints.settle(ints.leq, b[1], a[1], "capacity")


# -- what the constructors require


def _extents(name: str, shape: IntTuple, names: tuple[str, ...] | None = None) -> tuple[Leaf, ...]:
    """Return a flat tuple of integers, one for each of `names` where they are given."""
    flat = tuples.wrap(tuples.canonical(shape, name))
    wrong = names is not None and len(flat) != len(names)
    if wrong or any(leaf.__class__ is tuple for leaf in flat):
        wanted = tuples.show(names or ("extent", "..."))
        raise refusal("classical-shape", operation=name, shape=tuples.show(flat), names=wanted)
    return flat


def _pitch(name: str, what: str, given: Leaf, least: Leaf) -> Leaf:
    """Return the stride `given`, `least` by default; refuse one in which lines overlap."""
    if given is None:
        return least
    stride = ints.normalize(given, name, ", or None")
    if ints.less(stride, least) and not ints.is_zero(stride):
        raise refusal("pitch", operation=name, what=what, value=stride, least=least)
    return stride


def _packed(name: str, extents: IntTuple) -> tuple[Leaf, ...]:
    """Return the strides of packed memory whose last mode is contiguous."""
    return tuples.wrap(_last_contiguous(name, extents, None).stride)
