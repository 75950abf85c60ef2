"""The classical layouts of CUTLASS 2.x as constructors: matrices, interleaved and affine ones, image tensors, attention.

Each returns a plain `Layout`; the letters in a name are its arguments in that order. Strides are kept as CUTLASS defines
them, also in modes of extent 1, so that `capacity` is CUTLASS's. Inverse: idx2crd(left_inverse(layout)(offset), shape).
Shared-memory operands of tensor cores are in `tensorop`.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.layout import ints, tuples
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.modes import rank, select
from cute_py.layout.swizzle import Swizzle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MATRIX = ("rows", "columns")


# -- matrices


def row_major(shape: Any, ldm: Any = None) -> Layout:
    """Return (R,C):(ldm,1), the rows one after the other.

    Args:
        shape: (rows, columns) in elements.
        ldm: elements from row to row, at least the columns (default); 0 repeats one row (a bias vector).

    Law: offset(r, c) == r*ldm + c; capacity is rows*ldm. Raises LayoutError for another rank or a smaller ldm.
    Source: cutlass/layout/matrix.h `RowMajor`.

    >>> print(row_major((3, 4), ldm=5), row_major((3, 4), ldm=5)(2, 3))
    (3,4):(5,1) 13
    """
    rows, columns = _extents("row_major", shape, _MATRIX)
    return Layout((rows, columns), (_pitch("row_major", "ldm", ldm, columns), 1))


def column_major(shape: Any, ldm: Any = None) -> Layout:
    """Return (R,C):(1,ldm), the columns one after the other; ldm is the leading dimension of BLAS.

    Args:
        shape: (rows, columns) in elements.
        ldm: elements from column to column, at least the rows (default); 0 repeats one column.

    Law: offset(r, c) == c*ldm + r; capacity is columns*ldm. Raises LayoutError for another rank or a smaller ldm.
    Source: cutlass/layout/matrix.h `ColumnMajor`.

    >>> print(column_major((16, 9)), column_major((16, 9))(9, 5))
    (16,9):(1,16) 89
    """
    rows, columns = _extents("column_major", shape, _MATRIX)
    return Layout((rows, columns), (1, _pitch("column_major", "ldm", ldm, rows)))


def row_major_interleaved(shape: Any, interleave: Any, ldm: Any = None) -> Layout:
    """Return ((I,R/I),C):((1,ldm),I): row-major groups of I rows, each a run of columns of I elements.

    Args:
        shape: (rows, columns) in elements; the rows are rounded up to a multiple of I, the rest is padding.
        interleave: I, rows in a group.
        ldm: elements from group to group, at least columns*I (default).

    Law: offset(r, c) == (r//I)*ldm + c*I + r%I; capacity is ceil_div(rows, I)*ldm. Raises LayoutError as `row_major`.
    Source: cutlass/layout/matrix.h `RowMajorInterleaved`.

    >>> print(row_major_interleaved((4, 8), 2), row_major_interleaved((4, 8), 2)(2, 0))
    ((2,2),8):((1,16),2) 16
    """
    name = "row_major_interleaved"
    rows, columns = _extents(name, shape, _MATRIX)
    count, groups, ldm = _interleaved(name, interleave, rows, columns, ldm)
    return Layout(((count, groups), columns), ((1, ldm), count))


def column_major_interleaved(shape: Any, interleave: Any, ldm: Any = None) -> Layout:
    """Return (R,(I,C/I)):(I,(1,ldm)): column-major groups of I columns, each a run of rows of I elements.

    Args:
        shape: (rows, columns) in elements; the columns are rounded up to a multiple of I, the rest is padding.
        interleave: I, columns in a group.
        ldm: elements from group to group, at least rows*I (default).

    Law: offset(r, c) == (c//I)*ldm + r*I + c%I; capacity is ceil_div(columns, I)*ldm. Raises LayoutError as
    `column_major`. Source: cutlass/layout/matrix.h `ColumnMajorInterleaved`.

    >>> print(column_major_interleaved((2, 3), 2), capacity(column_major_interleaved((2, 3), 2)))
    (2,(2,2)):(2,(1,4)) 8
    """
    name = "column_major_interleaved"
    rows, columns = _extents(name, shape, _MATRIX)
    count, groups, ldm = _interleaved(name, interleave, columns, rows, ldm)
    return Layout((rows, (count, groups)), (count, (1, ldm)))


def _interleaved(name: str, interleave: Any, split: Any, whole: Any, ldm: Any) -> tuple[Any, ...]:
    """Return I, the number of groups, and the stride between groups."""
    count = ints.normalize(interleave, name)
    if ints.less(count, 1):
        raise refusal("extent-not-positive", operation=name, value=count, mode="interleave")
    groups = ints.ceil_div(split, count)
    return count, groups, _pitch(name, "ldm", ldm, ints.mul(whole, count))


def pitch_linear(shape: Any, ldm: Any = None) -> Layout:
    """Return (C,S):(1,ldm), the contiguous mode first.

    Args:
        shape: (contiguous, strided) in elements.
        ldm: elements from line to line, at least the contiguous extent (default); 0 repeats one line.

    Law: offset(c, s) == c + s*ldm; capacity is strided*ldm. Raises LayoutError for another rank or a smaller ldm.
    Source: cutlass/layout/pitch_linear.h `PitchLinear`.

    >>> pitch_linear((8, 4), ldm=10)(5, 3)
    35
    """
    contiguous, strided = _extents("pitch_linear", shape, ("contiguous", "strided"))
    pitch = _pitch("pitch_linear", "ldm", ldm, contiguous)
    return Layout((contiguous, strided), (1, pitch))


def pitched(shape: Any, padding: Any = 0) -> Layout:
    """Return pitch-linear memory whose lines are followed by `padding` elements that no coordinate reaches.

    Args:
        shape: (columns, rows) in elements.
        padding: unused elements after each row.

    Raises LayoutError for another rank or a negative padding. Source: cudaMallocPitch, in elements.

    >>> print(pitched((100, 8), padding=28))
    (100,8):(1,128)
    """
    columns, rows = _extents("pitched", shape, ("columns", "rows"))
    pitch = ints.add(columns, ints.normalize(padding, "pitched"))
    return Layout((columns, rows), (1, _pitch("pitched", "columns + padding", pitch, columns)))


def affine_rank_n(shape: Any, strides: Any = None) -> Layout:
    """Return shape:strides of any rank, as given; left out, the packed strides with the last mode contiguous.

    Law: offset(c) == sum of c[i]*strides[i]. Raises LayoutError when the ranks differ or a mode nests.
    Source: cutlass/layout/matrix.h `AffineRankN`.

    >>> print(affine_rank_n((4, 3, 2)), affine_rank_n((4, 5), (5, 2))(3, 4))
    (4,3,2):(6,2,1) 23
    """
    extents = _extents("affine_rank_n", shape)
    if strides is None:
        return _last_contiguous("affine_rank_n", extents, None)
    return Layout(extents, tuples.canonical(strides, "affine_rank_n"))


def affine_rank_2(shape: Any, strides: Any = None) -> Layout:
    """Return (M,N):(sm,sn), a matrix with a stride for its rows and one for its columns; packed: row-major.

    Raises LayoutError for another rank. Source: cutlass/layout/matrix.h `AffineRank2RowMajor`, `AffineRank2ColumnMajor`.

    >>> print(affine_rank_2((4, 3), (5, 2)), capacity(affine_rank_2((4, 3), (5, 2))))
    (4,3):(5,2) 20
    """
    return affine_rank_n(_extents("affine_rank_2", shape, _MATRIX), strides)


# -- image tensors and filters


def tensor_nhwc(N: Any, H: Any, W: Any, C: Any, strides: Any = None) -> Layout:
    """Return (N,H,W,C):(s2,s1,s0,1), images with the channels contiguous.

    Args:
        N: images.
        H: rows of an image.
        W: columns of an image.
        C: channels.
        strides: (s0, s1, s2), elements from column to column, row to row, image to image, as CUTLASS orders them;
            each at least what the modes below it take up (default), or 0 to repeat them.

    Law: offset(n, h, w, c) == c + s0*w + s1*h + s2*n; capacity is N*s2. Raises LayoutError for smaller strides.
    Source: cutlass/layout/tensor.h `TensorNHWC`.

    >>> print(tensor_nhwc(1, 2, 3, 4), tensor_nhwc(1, 2, 3, 4)(0, 1, 2, 3))
    (1,2,3,4):(24,12,4,1) 23
    """
    return _last_contiguous("tensor_nhwc", (N, H, W, C), strides)


def tensor_ndhwc(N: Any, D: Any, H: Any, W: Any, C: Any, strides: Any = None) -> Layout:
    """Return (N,D,H,W,C):(s3,s2,s1,s0,1), volumes with the channels contiguous; strides as in `tensor_nhwc`.

    Raises LayoutError for strides that let modes overlap. Source: cutlass/layout/tensor.h `TensorNDHWC`.

    >>> print(tensor_ndhwc(1, 2, 3, 4, 5))
    (1,2,3,4,5):(120,60,20,5,1)
    """
    return _last_contiguous("tensor_ndhwc", (N, D, H, W, C), strides)


def filter_krsc(K: Any, R: Any, S: Any, C: Any, strides: Any = None) -> Layout:
    """Return (K,R,S,C):(R*S*C,S*C,C,1), K filters of R by S taps over C channels; strides as in `tensor_nhwc`.

    Law: packed, offset(k, r, s, c) == c + C*(s + S*(r + R*k)). Raises LayoutError for strides that let modes overlap.
    Source: cutlass/conv/conv2d_problem_size.h, filters as `TensorNHWC` with extent (K, R, S, C).

    >>> filter_krsc(2, 3, 3, 4)(1, 2, 2, 3)
    71
    """
    return _last_contiguous("filter_krsc", (K, R, S, C), strides)


def _last_contiguous(name: str, extents: tuple[Any, ...], strides: Any) -> Layout:
    """Return the layout whose modes grow from the last to the first; `strides` has the others, the smallest first."""
    extents = _extents(name, extents)
    names = tuple([f"s{i}" for i in range(len(extents) - 1)])
    given = (None,) * len(names) if strides is None else _extents(name, strides, names)
    steps: list[Any] = [1]
    for what, extent, step in zip(names, reversed(extents[1:]), given, strict=True):
        steps.append(_pitch(name, what, step, ints.mul(steps[-1], extent)))
    return Layout(extents, tuple(reversed(steps)))


# -- attention


def tensor_dmhb(D: Any, M: Any, H: Any, B: Any, strides: Any) -> Layout:
    """Return (D,M,H,B):(1,sM,sH,sB), queries, keys or values of attention by the strides of their modes.

    Args:
        D: elements of a head, contiguous.
        M: queries or keys of a sequence.
        H: heads.
        B: sequences in the batch.
        strides: (sM, sH, sB) in elements, in any order of size; 0 shares a mode (one head of keys for all queries).

    Law: offset(d, m, h, b) == d + sM*m + sH*h + sB*b. Raises LayoutError unless there are three strides.
    Source: cutlass/examples/41_fused_multi_head_attention/kernel_forward.h (q_strideM, q_strideH, q_strideB).

    >>> print(tensor_dmhb(64, 128, 8, 2, (512, 64, 65536)))
    (64,128,8,2):(1,512,64,65536)
    """
    steps = _extents("tensor_dmhb", strides, ("sM", "sH", "sB"))
    return Layout((D, M, H, B), (1, *steps))


def tensor_bmhk(B: Any, M: Any, H: Any, K: Any) -> Layout:
    """Return `tensor_dmhb` over packed memory [B][M][H][K], the heads of one query side by side.

    >>> print(tensor_bmhk(2, 128, 8, 64))
    (64,128,8,2):(1,512,64,65536)
    """
    batch, length, heads, head = _extents("tensor_bmhk", (B, M, H, K), tuple("BMHK"))
    row = ints.mul(heads, head)
    return tensor_dmhb(head, length, heads, batch, (row, head, ints.mul(length, row)))


def tensor_bhmk(B: Any, H: Any, M: Any, K: Any) -> Layout:
    """Return `tensor_dmhb` over packed memory [B][H][M][K], the queries of one head side by side.

    >>> print(tensor_bhmk(2, 8, 128, 64))
    (64,128,8,2):(1,64,8192,65536)
    """
    batch, heads, length, head = _extents("tensor_bhmk", (B, H, M, K), tuple("BHMK"))
    plane = ints.mul(length, head)
    return tensor_dmhb(head, length, heads, batch, (head, plane, ints.mul(heads, plane)))


# -- any layout


def permuted(layout: Any, order: Any) -> Any:
    """Return the layout with mode order[i] as mode i, what numpy.transpose does to an array.

    Storing through it fuses a permutation into the store: CUTLASS's permute layouts are this on a matrix whose modes
    are split. Law: permuted(L, order) is composition(L, P) with P = select(Layout(L.shape), order).
    Raises LayoutError unless order names every mode once. Source: cutlass/layout/permute.h.

    >>> print(permuted(row_major((3, 4)), (1, 0)))
    (4,3):(1,4)
    """
    order = tuple(order) if order.__class__ is list else order
    chosen = tuples.wrap(tuples.canonical(order, "permuted"))
    if len(chosen) != rank(layout) or set(chosen) != set(range(len(chosen))):
        raise refusal(
            "permutation",
            operation="permuted",
            order=tuples.show(chosen),
            layout=layout,
            last=rank(layout) - 1,
        )
    return select(layout, chosen)


def capacity(layout: Any) -> Any:
    """Return how many elements CUTLASS allots to a layout: extent times stride of the mode with the largest stride.

    The padding after the last line counts, which `cosize` leaves out: row_major((3, 4), ldm=5) has capacity 15 and cosize
    14. The two agree for packed layouts, and capacity >= cosize where modes do not overlap. A swizzle of whole lines
    changes neither. Raises LayoutError for negative or coordinate strides and for other composed layouts.
    Source: `capacity` in cutlass/layout/matrix.h (`AffineRankN`), pitch_linear.h, tensor.h.

    >>> capacity(row_major((3, 4), ldm=5)), row_major((3, 4), ldm=5).cosize()
    (15, 14)
    """
    plain, run = layout, 1
    if layout.__class__ is ComposedLayout and ints.is_zero(layout.offset) is True:
        if (
            layout.outer.__class__ is Swizzle
        ):  # it moves elements only inside of runs below its highest Z bit
            plain, run = layout.inner, 1 << layout.outer.zzz_msk.bit_length()
    result = _plain_capacity(plain)
    if result is None or not (run == 1 or ints.settle(ints.divides, run, result, "capacity")):
        raise refusal("capacity", operation="capacity", layout=layout)
    return result


def _plain_capacity(layout: Any) -> Any:
    if layout.__class__ is not Layout:
        return None
    outer = 1, 1
    for leaf in zip(layout._s, layout._d, strict=True):
        if hasattr(leaf[1], "path") or ints.less(leaf[1], 0):
            return None
        if _is_outer(leaf, outer):
            outer = leaf
    return ints.mul(*outer)


def _is_outer(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    """Return whether leaf a has the larger stride, or as large a stride and the larger extent."""
    if ints.same(a[1], b[1]):
        return ints.settle(ints.leq, b[0], a[0], "capacity")
    if ints.leq(b[1], a[1]) is None and ints.leq(a[1], b[1]):
        return False
    return ints.settle(ints.leq, b[1], a[1], "capacity")


# -- what the constructors require


def _extents(name: str, shape: Any, names: tuple[str, ...] | None = None) -> tuple[Any, ...]:
    """Return a flat tuple of integers, one for each of `names` if they are given."""
    flat = tuples.wrap(tuples.canonical(shape, name))
    wrong = names is not None and len(flat) != len(names)
    if wrong or any(leaf.__class__ is tuple for leaf in flat):
        wanted = tuples.show(names or ("extent", "..."))
        raise refusal("classical-shape", operation=name, shape=tuples.show(flat), names=wanted)
    return flat


def _pitch(name: str, what: str, given: Any, least: Any) -> Any:
    """Return the stride `given`, `least` if it is left out; refuse one that lets lines overlap."""
    if given is None:
        return least
    stride = ints.normalize(given, name, ", or None")
    if ints.less(stride, least) and not ints.is_zero(stride):
        raise refusal("pitch", operation=name, what=what, value=stride, least=least)
    return stride
