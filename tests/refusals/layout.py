"""Refusals of integers, the layout algebra, texts and expressions."""

import numpy as np

import cute_py as cute
from cute_py import (
    ComposedLayout,
    E,
    F2Layout,
    F2Map,
    Layout,
    Swizzle,
    composition,
    make_composed_layout,
    make_identity_layout,
    sym,
)
from cute_py.expression import evaluate
from cute_py.integers import ints
from cute_py.integers.symbols import subs
from cute_py.layout.bits.swizzle import compose_swizzles
from tests.opaque import Opaque

ROW = Layout((4, 8), (8, 1))
K = sym("K", multiple_of=4, min=4)
M, z = sym("M", multiple_of=8, max=4096), sym("z", min=None)


def nested(levels):
    shape = 2
    for _ in range(levels):
        shape = (shape,)
    return shape


def symbolic():
    return Layout((sym("M"), 4))


ROWS = """
leaf-slice: a slice or dots are given as an index
    - ROW(slice(None), 0)
    - ROW(slice(1, 3), 0)  # given 1:3
    - ROW(..., 0)  # given ...
    + ROW(cute._, 0)
leaf-type: a leaf, index or number is a bool, a float, text or anything else that is not an integer
    - Layout(4.0)
    - sym("M", multiple_of=2.0)  # sym: given 2.0 (float)
    - sym("M", max=True)  # sym: given True (bool)
    - subs(M, {"M": 8.0})  # subs: given 8.0 (float)
    - M + 0.5  # given 0.5 (float)
    - M * True  # given True (bool)
    - M < "4"  # comparison: given '4' (str)
    + Layout(4)
leaf-operands: the operands are leaves of two unrelated classes
    - ints.divides(Opaque(2), sym("M"))
    + ints.divides(2, sym("M"))
undecided: symbols leave a question open; the fix names an assumption that decides it
    - abs(z)
    + abs(sym("z", min=0))
symbol-name: the name of a symbol or of memory is not an identifier
    - sym("M-1")
    - sym("2x")  # sym: given the name '2x'; required: a Python identifier; fix: use letters, digits
    - sym(3)  # sym: given the name 3;
    + sym("M_1")
symbol-multiple: `multiple_of` is not positive
    - sym("M", multiple_of=0)
    + sym("M", multiple_of=1)
symbol-range: no value satisfies the declaration of a symbol
    - sym("M", multiple_of=8, min=1, max=7)
    - sym("M", multiple_of=8, max=7)  # given M with multiple_of=8, min=1 and max=7; required: at
        least one multiple of 8 from min to max; fix: lower min, raise max or weaken multiple_of
    + sym("M", multiple_of=8, min=1, max=8)
symbol-conflict: one name is declared in two ways
    - sym("M") + sym("M", multiple_of=8)
    - ints.same(sym("M"), sym("M", min=2))  # in one expression
    - ints.less(sym("N", max=4) // 3, sym("N") * M)  # in one expression
    + sym("M") + sym("M")
symbol-value: a symbol is given a value that its declaration excludes
    - subs(M, {"M": 12})
    - subs(sym("N"), {"N": 0})  # fix: use an integer from 1, or declare N
    + subs(M, {"M": 16})
symbol-true-division: symbols are divided with `/`
    - 8 / M
    - M / 8  # given M / 8; required: integer division; fix: use // to round down, ceil_div to round
    + M // 8
divide-by-zero: a divisor is 0
    - cute.shape_div(8, 0)
    - M // 0  # div: given M // 0; required: a divisor other than 0; fix: check the extent or stride
    + cute.shape_div(8, 2)
extent-not-positive: an extent, target, tile or factor is 0 or negative
    - Layout((4, 0))
    + Layout((4, 1))
layout-text: a text is given where a layout is built
    - Layout("(4,8):(8,1)")
    + cute.parse_layout("(4,8):(8,1)")
layout-list: a list is given where a tuple is required
    - Layout([4, 8])
    + Layout((4, 8))
not-congruent: shape and stride have different profiles
    - Layout((4, 8), (1,))
    + Layout((4, 8), (1, 4))
too-deep: a tuple nests deeper than 64 levels
    - Layout(nested(65))
    + Layout(nested(64))
not-a-layout: a layout is required, and something else is given
    - cute.complement(5)
    + cute.complement(Layout(5))
wrong-argument: a function, a mapping or an order is required, and something else is given
    - cute.transform_leaf(4, (1, 2))
    + cute.transform_leaf(abs, (1, 2))
basis-path: `E` is called with something other than mode indices
    - E(-1)
    + E(1)
mixed-strides: integer and coordinate strides are mixed in one layout
    - Layout((4, 8), (1, E(1)))(1, 1)
    + Layout((4, 8), (E(0), E(1)))(1, 1)
profile-mismatch: two int tuples that must match have different profiles
    - cute.inner_product((1, 2), 3)
    + cute.inner_product((1, 2), (3, 4))
not-divisible: neither of two integers divides the other, and one must
    - cute.shape_div(6, 4)
    + cute.shape_div(8, 4)
coordinate-profile: a coordinate nests finer than, or across, the shape
    - ROW(1, 2, 3)
    + ROW(1, 2)
coordinate-range: a coordinate or index is negative or outside the shape
    - ROW(4, 0)
    - ROW(-1, 0)  # n - 1 is the last entry
    + ROW(3, 0)
mode-range: an index names a mode that the layout does not have
    - cute.get(ROW, 2)
    + cute.get(ROW, 1)
mode-list: something other than a list of modes is given
    - cute.select(Layout((2, 3)), 1.5)
    + cute.select(Layout((2, 3)), [1])
mode-interval: an interval of modes is empty or out of range
    - cute.take(ROW, 1, 1)
    + cute.take(ROW, 0, 1)
rank-target: a layout would have to lose modes to reach a rank
    - cute.append(Layout((2, 3, 4)), Layout(1, 0), 2)
    + cute.append(Layout((2, 3, 4)), Layout(1, 0), 4)
profile-rank: a target profile has more modes than the layout
    - cute.coalesce(ROW, (1, 1, 1))
    + cute.coalesce(ROW, (1, 1))
tiler-rank: a by-mode tiler has more entries than the layout has modes
    - cute.logical_divide(ROW, (2, 2, 2))
    + cute.logical_divide(ROW, (2, 2))
tiler-type: a tiler is neither layout nor integer nor `_` nor a tuple of these
    - composition(ROW, "4:1")
    + composition(ROW, Layout(4, 1))
composition-departs: no layout whose shape refines b's computes a(b(c)); the first one that departs
        is named
    - composition(Layout((4, 6), (1, 5)), Layout(3, 3))
    + composition(Layout((5, 6), (1, 5)), Layout(3, 3))
composition-too-large: a composition could only be decided by trying too many coordinates
    - composition(Layout((4, 4), (1, 5)), Layout((2**13, 2**13), (1, -1)))
    + composition(Layout((4, 4), (1, 5)), Layout((4, 2), (1, 4)))
composition-diagonal: one step of a composition would move along several modes of the codomain
    - composition(make_identity_layout((2, 2)), Layout(2, 3))
    + composition(make_identity_layout((2, 2)), Layout(2, 2))
composition-symbols: it is unknown whether extents and strides with symbols divide
    - composition(Layout((6, sym("M")), (1, 10)), Layout(4, 4))
    + composition(Layout((6, sym("M")), (1, 10)), Layout(4, 6))
composition-carry: with symbols, modes of b may carry in a digit of a
    - composition(Layout((K, 8), (1, 100)), Layout((2, K), (1, 1)))
    + composition(Layout((K, 8), (1, 100)), Layout(K, 1))
complement-overlap: two indices of the layout have the same offset, so it has no complement
    - cute.complement(Layout((4, 2), (1, 2)), 16)
    + cute.complement(Layout((4, 2), (1, 4)), 16)
complement-gap: a tile has a gap between its modes that is not a multiple of the modes below, so
        that a divide would leave elements in no tile
    - cute.logical_divide(Layout((2, 3, 2, 8), (2, 10, 8, 8)), Layout((2, 1, 2), (6, 12, 2)))
    + cute.logical_divide(Layout((2, 3, 2, 8), (2, 10, 8, 8)), Layout(2))
coordinate-strides: a run of contiguous elements or a proof of bijectivity is requested for a layout
        that yields coordinates
    - cute.max_common_vector(make_identity_layout((4, 8)), Layout(32))
    + cute.max_common_vector(Layout((4, 8)), Layout(32))
left-inverse: strides overlap, or no layout gives the index of every offset
    - cute.left_inverse(Layout((3, 3), (2, 3)))
    + cute.left_inverse(Layout((3, 3), (2, 6)))
tile-to-shape: the block does not divide the shape
    - cute.tile_to_shape(Layout((4, 4)), (10, 8))
    + cute.tile_to_shape(Layout((4, 4)), (12, 8))
not-compact: the coordinate of an offset does not follow by dividing by the strides
    - cute.get_hier_coord(Layout((4, 2), (1, 8)), 5)
    + cute.get_hier_coord(Layout((4, 2), (1, 4)), 5)
upcast-stride: a stride neither divides the factor nor is a multiple of it
    - cute.upcast(Layout((4, 2), (1, 6)), 4)
    + cute.upcast(Layout((4, 2), (1, 8)), 4)
upcast-overlap: several modes overlap within a larger element
    - cute.upcast(Layout((2, 2), (1, 1)), 2)
    + cute.upcast(Layout((2, 2), (1, 2)), 2)
downcast-unit: no mode, or more than one, has stride 1 and can be split
    - cute.downcast(Layout(4, 2), 2)
    + cute.downcast(Layout(4), 2)
swizzle-parameters: the bits of a swizzle overlap, or their numbers are negative
    - Swizzle(3, 0, 2)
    + Swizzle(3, 0, 3)
swizzle-masks: two masks are not runs of equally many bits
    - cute.make_swizzle(0b101, 0b10)
    + cute.make_swizzle(0b100, 0b1)
swizzle-factor: a swizzle is recast by a factor that is not a power of two
    - cute.upcast(Swizzle(1, 3, 1), 3)
    + cute.upcast(Swizzle(1, 3, 1), 4)
swizzle-through: a swizzle of positions does not move blocks as a unit
    - cute.logical_product(Layout(3), make_composed_layout(Swizzle(1, 0, 1), 0, Layout(4)))
    + cute.logical_product(Layout(4), Layout(4))
upcast-swizzle: bits of a swizzle of negative shift would fall below an element
    - cute.upcast(Swizzle(3, 2, -3), 32)
    + cute.upcast(Swizzle(3, 2, -3), 4)
upcast-offset: the offset of a composed layout is not a whole number of larger elements
    - cute.upcast(make_composed_layout(Swizzle(1, 3, 3), 3, Layout(8)), 2)
    + cute.upcast(make_composed_layout(Swizzle(1, 3, 3), 4, Layout(8)), 2)
composed-outer: the outer part of a composed layout is not a map of offsets
    - make_composed_layout("Sw", 0, Layout(4))
    + make_composed_layout(Swizzle(1, 0, 1), 0, Layout(4))
no-stride: strides of a swizzled layout are requested
    - make_composed_layout(Swizzle(1, 0, 1), 0, Layout(4)).stride
    + Layout(4).stride
complement-swizzle: a swizzle moves offsets to where the complement of the inner layout is
    - cute.complement(make_composed_layout(Swizzle(1, 0, 1), 0, Layout(2, 2)), 8)
    + cute.complement(Layout(2, 2), 8)
inverse-offset: a composed layout with an offset, or an outer map that is not one-to-one, is
        inverted
    - cute.right_inverse(make_composed_layout(Swizzle(1, 0, 1), 3, Layout(4)))
    + cute.right_inverse(make_composed_layout(Swizzle(1, 0, 1), 0, Layout(4)))
explain-subject: `explain` is called with something that has no derivation
    - cute.explain(42)
    + cute.explain(Layout(4))
size-mismatch: layouts that are added have different sizes
    - cute.layout_add(Layout(4), Layout(6))
    + cute.layout_add(Layout(4), Layout(4, 2))
tv-map: threads and values share elements of the tile, or leave some out
    - cute.make_layout_tv(Layout((2, 4), (1, 0)), Layout(2))
    + cute.make_layout_tv(Layout((2, 4), (1, 2)), Layout(2))
layout-add: no layout computes the sum of two layouts
    - cute.layout_add(Layout((2, 3), (1, 5)), Layout((3, 2), (1, 7)))
    + cute.layout_add(Layout((2, 3), (1, 5)), Layout((2, 3), (1, 7)))
composition-cancels: carries that cancel in the sum would have to be tried one by one
    - composition(Layout((2**20, 2**20, 4), (1, 2**20 + 1, 2**40 + 2**20 - 1)), Layout(2**22, 2**20
        + 1))
    + composition(Layout((4, 4, 4), (1, 5, 19)), Layout(4, 1))
composition-codomain: b yields coordinates of modes that a does not have
    - composition(Layout((4, 8)), Layout(2, E(3)))
    + composition(make_identity_layout((4, 8)), Layout(2, 3))
classical-shape: a classical layout is given a nested shape
    - cute.row_major((3, 4, 5))
    + cute.row_major((3, 4))
pitch: the distance between lines is too small
    - cute.row_major((3, 4), ldm=3)
    + cute.row_major((3, 4), ldm=4)
permutation: an order does not name every mode once
    - cute.permuted(Layout((2, 3)), (0, 0))
    + cute.permuted(Layout((2, 3)), (0, 1))
capacity: the allocation of a layout has no simple bound
    - cute.capacity(Layout(4, -1))
    + cute.capacity(Layout(4))
tensor-op-bits: no tensor-op layout exists for that element width
    - cute.tensor_op_swizzle(64, 16)
    + cute.tensor_op_swizzle(32, 32)
tensor-op-crosswise: no tensor-op layout exists for that `crosswise`
    - cute.tensor_op_multiplicand(16, 48, 48, 8)
    + cute.tensor_op_multiplicand(16, 64, 64, 8)
tensor-op-tile: a tensor-op tile does not consist of whole lines
    - cute.tensor_op_multiplicand(16, 32, 40, 8)
    + cute.tensor_op_multiplicand(16, 32, 64, 8)
tensor-op-tiles: the number of tensor-op tiles side by side is not a power of two
    - cute.tensor_op_multiplicand_congruous(32, 32, 96, 8)
    + cute.tensor_op_multiplicand_congruous(32, 32, 64, 8)
tensor-op-period: stacked tensor-op tiles would be swizzled differently
    - cute.tensor_op_multiplicand(16, 32, 32, 4, stages=2)
    + cute.tensor_op_multiplicand(16, 32, 32, 8, stages=2)
text-type: something other than a str is parsed
    - cute.parse_layout(Layout(4))
    + cute.parse_layout("4:1")
text-too-long: a text is too long to be a layout
    - cute.parse_layout("4:1" + " " * 65536)
    + cute.parse_layout("4:1" + " " * 60000)
text-unexpected: a text has a syntax error; its position is marked
    - cute.parse_layout("oceil_div(4, 2):1")
    + cute.parse_layout("ceil_div(4, 2):1")
text-unclosed: a bracket is not closed; its position is marked
    - cute.parse_layout("(4,8):(8,1")
    + cute.parse_layout("(4,8):(8,1)")
text-too-deep: a text nests deeper than 64 levels
    - cute.parse_layout("(" * 1000)
    + cute.parse_layout("(((4))):(((1)))")
text-number: a number has more digits than any integer of CuTe
    - cute.parse_layout("9" * 5000 + ":1")
    + cute.parse_layout("9:1")
text-symbol: a text names a symbol that was not declared
    - cute.parse_layout("(M,8):(8,1)")
    + cute.parse_layout("(M,8):(8,1)", {"M": sym("M")})
text-arguments: a text gives an object the wrong arguments
    - evaluate("local_partition(4:1)")
    + evaluate("local_partition(4:1, 4:1, 0)")
text-operands: a text applies a function to operands that it does not take
    - cute.parse_layout("Layout(min(), 2)")
    + cute.parse_layout("Layout(min(2, 3), 2)")
text-pointer-width: a pointer in a text does not give the width of its elements
    - cute.parse_layout("Sw<3,4,3>_smem_ptr(0x400) o (_8,_64):(_64,_1)")
    + cute.parse_layout("Sw<3,4,3>_smem_ptr[16b](0x400) o (_8,_64):(_64,_1)")
text-pointer-address: a pointer in a text does not determine how a swizzle applies to it
    - cute.parse_layout("ptr<f16, smem, S<3,4,3>> o (_8,_64):(_64,_1)")
    + cute.parse_layout("ptr<f16, smem, S<3,4,3>, align<1024>> o (_8,_64):(_64,_1)")
fit-no-form: no known form computes the table; the first index that departs is named
    - cute.fit([0, 1, 2, 3, 8, 9])
    - cute.fit([3, 4, 5, 6, 7, 8, 9, 11])  # which match 3 + 7:1 up to index 7, where the table has
        11 and that layout has 10; ...; over F2, index 3 has 6 where the XOR of its bits is 2); fix:
        only that entry differs: put 10 there
    - cute.fit([[0, 1, 2], [4, 5, 9]])  # which match (2,3):(4,1) up to index 5, ... fix: only that
        entry differs: put 6
    - cute.fit([[0, 1, 2], [4, 8, 9]])  # which match (2,3):(4,1) up to index 3, where the table has
        8 and that layout has 5; ... fix: fit the modes one at a time to see which one is not
        linear, or keep
    - cute.fit([0, 9, -2, 5, 7, 3, 1, 1])  # ; F2 needs offsets of at least 0
    + cute.fit([0, 1, 2, 3])
fit-function: a function is fitted without a shape
    - cute.fit(abs)
    + cute.fit(abs, shape=4)
fit-empty: an empty table is fitted
    - cute.fit([])
    - cute.fit({})  # fit: given a table without entries
    - cute.fit(7)  # fit: given a table without entries
    + cute.fit([0])
fit-ragged: rows of different lengths are fitted
    - cute.fit([[0, 1], [2]])
    + cute.fit([[0, 1], [2, 3]])
fit-key: the coordinates of a table have different profiles
    - cute.fit({(0, 0): 0, 1: 1})
    - cute.fit({0: 0, -1: 1})  # fit: given coordinate -1 together with 0
    + cute.fit({(0, 0): 0, (1, 0): 1})
fit-incomplete: a coordinate of a table is missing
    - cute.fit({(0, 0): 0, (1, 1): 1})
    + cute.fit({(0, 0): 0, (1, 0): 1})
table-offsets: a text to fit has other words than offsets, or several tables
    - cute.fit("four eight")
    - cute.fit("")  # given a text with 0 tables of offsets: ''
    - cute.fit(str(cute.show(ROW, Layout((4, 8)))))  # given a text with 2 tables of offsets
    + cute.fit("0 1 2")
table-title: a printed table has another offset than the layout above it
    - cute.parse_layout(str(cute.to_text(ROW)).replace(" 9 ", "99 "))
    + cute.parse_layout(str(cute.to_text(ROW)))
fit-shape: table and shape have different sizes
    - cute.fit([0, 1, 2], shape=(2, 2))
    + cute.fit([0, 1, 2, 3], shape=(2, 2))
fit-coordinates: a table contains coordinates, and their shape is not given
    - cute.fit(lambda i: (i, 0), shape=4)
    + cute.fit(lambda i: (i, 0), shape=4, coshape=(4, 1))
fit-entry: an entry is outside the given shape
    - cute.fit([(0, 0), (4, 0)], coshape=(4, 4))
    - cute.fit([0, 1], coshape=(4, 4))  # fit: given entry 0 for coshape (4,4)
    - cute.fit([(0, 0, 0)], coshape=(4, 4))  # given entry (0,0,0) for coshape
    + cute.fit([(0, 0), (3, 0)], coshape=(4, 4))
fit-size: a table is too large
    - cute.fit(np.broadcast_to(np.int8(0), 1 << 28))
    + cute.fit(np.broadcast_to(np.int8(0), 4))
fit-range: an entry is too large
    - cute.fit([0, 1 << 61])
    - cute.fit([0, -(1 << 80)])  # fit: given entry -1208925819614629174706176
    - cute.fit(np.array([0, 1 << 63], dtype="uint64"))  # entry 9223372036854775808
    + cute.fit([0, 1 << 60])
tools-symbols: offsets that depend on symbols are tabulated or drawn
    - cute.offsets(symbolic())
    - cute.offsets(ComposedLayout(Swizzle(1, 0, 1), cute.sym("M"), Layout(4)))  # offsets: given
        Sw<1,0,1> o M o 4:1, whose offsets depend on symbols
    - cute.is_injective(symbolic())  # is_injective: given ... depend on symbols
    - cute.is_surjective(symbolic(), 3)  # is_surjective: given ... depend on symbols
    - cute.contains(symbolic(), Layout(4))  # contains: given ... depend on symbols
    - cute.equivalent(symbolic(), Layout((cute.sym("M"), 4), (4, 1)))  # equivalent: given
        (M,4):(1,M) and (M,4):(4,1), ...; fix: put numbers in
    + cute.offsets(Layout((3, 4)))
tools-size: too many offsets would be tabulated or tried
    - cute.cosize(make_composed_layout(Swizzle(1, 0, 1), 1, Layout(2**25, -3)))
    - cute.offsets(Layout(1 << 40))  # offsets: given 1099511627776:1, for which 1099511627776
        offsets would have to be tabulated; required: at most 134217728; fix: take a mode or a
        tile of it
    - cute.holes(Layout(2, 1 << 40))  # holes: given 2:1099511627776, for which
    - cute.is_injective(Layout((1024, 1024, 1024), (2097143, 2097131, 2097133)))  # is_injective:
        given ..., for which 1073741824 offsets
    + cute.cosize(make_composed_layout(Swizzle(1, 0, 1), 0, Layout(2**25)))
tools-range: offsets exceed 64 bits
    - cute.offsets(Layout(4, 1 << 62))
    - cute.offsets(ComposedLayout(Swizzle(1, 0, 1), 1 << 63, Layout(4)))  # which reaches
        9223372036854775811
    + cute.offsets(Layout(4, 1 << 60))
tools-basis: an operation on offsets is applied to a layout that yields coordinates
    - cute.holes(cute.make_identity_layout((4, 2)))
    - cute.is_surjective(cute.make_identity_layout((4, 2)), 8)  # yields coordinates
    - cute.overlaps(Layout(4), Layout(4, cute.E(0)))  # yields coordinates
    + cute.holes(Layout((4, 2)))
f2-negative: a bit map is applied to a negative offset
    - F2Map((1, -2))
    - cute.to_f2(Layout(4, -1))  # to_f2: given the image -1
    + F2Map((1, 2))
f2-wide: a bit map of more than 63 bits is applied to an array
    - F2Map([2] * 64)(np.arange(4))
    + F2Map([2] * 4)(np.arange(4))
f2-singular: a bit map that is not one-to-one is inverted
    - F2Map((1, 1)).inverse()
    + F2Map((1, 2)).inverse()
f2-no-map: something that is not a map of bits is composed with one
    - compose_swizzles(Layout(4), cute.Swizzle(1, 0, 1))
    + compose_swizzles(cute.Swizzle(1, 0, 1), cute.Swizzle(1, 0, 1))
f2-bases: an F2 layout is given the wrong number of bases
    - F2Layout((2, 2), (1,))
    + F2Layout((2, 2), (1, 2))
f2-extent: an extent is not a power of two
    - F2Layout((2, 3), (1,))
    - cute.to_f2(Layout(6))  # to_f2: given extent 6 in shape 6
    - cute.to_f2(Layout(cute.sym("M")))  # to_f2: given extent M in shape M
    - cute.from_linear_bases({0: [(1, 0)]}, coshape=(3, 4))  # extent 3 in shape
    + F2Layout((2, 4), (1, 2, 4))
f2-origin: an F2 layout that does not reach offset 0 is inverted
    - F2Layout(2, (1,), 2).right_inverse()
    + F2Layout(2, (1,)).right_inverse()
f2-not-onto: an F2 layout that is not a bijection is inverted
    - F2Layout(2, (2,)).inverse()
    + F2Layout(2, (1,)).inverse()
f2-not-linear: a layout is not linear over F2; the first index that departs is named
    - cute.to_f2(Layout((4, 4), (1, 2)))
    + cute.to_f2(Layout((4, 4), (1, 4)))
f2-strides: a layout with symbols or coordinate strides is converted to a bit map
    - cute.to_f2(cute.make_identity_layout((4, 2)))
    + cute.to_f2(Layout((4, 2)))
f2-reach: an F2 layout is composed with offsets that it has no index for
    - F2Layout(4, (1, 2)).compose(Layout(8))
    + F2Layout(4, (1, 2)).compose(Layout(4))
f2-affine: the matrix of an F2 layout with an offset is requested
    - cute.f2_matrix(F2Layout(2, (1,), 4))
    + cute.f2_matrix(F2Layout(2, (1,)))
f2-matrix: a bit matrix holds something other than zeros and ones
    - cute.from_f2_matrix([0, 1])
    - cute.from_f2_matrix([[0, 2]])  # from_f2_matrix: given entries such as ...2...; required: rows
        of zeros and ones; fix:
    + cute.from_f2_matrix([[0, 1]])
f2-names: bases are named with the wrong number of names
    - cute.to_linear_bases(Layout((2, 4)), names=("lane",))
    + cute.to_linear_bases(Layout((2, 4)), names=("lane", "warp"))
f2-coshape: a codomain shape is too small
    - cute.to_linear_bases(Layout(8), coshape=(2, 2))
    + cute.to_linear_bases(Layout(8), coshape=(2, 4))
f2-points: images of bases are coordinates of different shapes
    - cute.from_linear_bases({0: [(1, 0), (1, 0, 1)]})
    - cute.from_linear_bases({0: [16]}, coshape=(4, 4))  # given the images 16; required
    + cute.from_linear_bases({0: [(1, 0), (0, 1)]})
expression-name: an expression names a function that the language does not have
    - evaluate("f16")
    + evaluate("size(4:1)")
expression-limit: an expression would take too long to answer
    - evaluate("4:1 o 18446744073709551616:1")
    + evaluate("4:1 o 4:1")
"""
