"""Wordings: classical layouts."""

from __future__ import annotations

from cute_py.errors import LayoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "classical-shape": (
        LayoutError,
        "{shape}",
        "one integer for each of {names}",
        "give whole extents, and split modes afterwards with zipped_divide or with_shape",
    ),
    "pitch": (
        LayoutError,
        "{what} = {value}, where one step holds {least} elements",
        "at least {least}, so that lines do not overlap, or 0 to repeat one line",
        "leave it out for the packed layout, or pass {least} plus the padding",
    ),
    "permutation": (
        LayoutError,
        "order {order} for {layout}",
        "each mode of 0 to {last} once",
        "name every mode, or use select to keep some of them",
    ),
    "capacity": (
        LayoutError,
        "{layout}",
        "strides of 0 or more, alone or under a swizzle of whole lines",
        "use cosize, the reach of the offsets",
    ),
    "tensor-op-bits": (
        LayoutError,
        "elements of {bits} bits",
        "a power of two of at most 32 bits",
        "f64 and complex operands have layouts of their own in CUTLASS: build one with Swizzle and "
        "ComposedLayout",
    ),
    "tensor-op-crosswise": (
        LayoutError,
        "crosswise {crosswise} for elements of {bits} bits",
        "{choices}: a line of 128 bytes, a half or a quarter of it",
        "cut the tile along its contiguous mode, or widen it to a line",
    ),
    "tensor-op-tile": (
        LayoutError,
        "{contiguous} x {strided} elements with ld {ld}",
        "contiguous and ld multiples of crosswise {crosswise}, strided one of the {rows} rows in a "
        "line, ld at least contiguous",
        "pad the tile to whole lines, or choose a smaller crosswise",
    ),
    "tensor-op-tiles": (
        LayoutError,
        "{tiles} tiles of {crosswise} elements side by side",
        "a power of two: at {tiles} the XOR needs the row, which is no field of the offset's bits, "
        "so no Swizzle fits",
        "put the tiles outermost (contiguous={crosswise}, stages={tiles}){also}",
    ),
    "tensor-op-period": (
        LayoutError,
        "strided extent {strided}",
        "a multiple of {period}, the rows after which the XOR starts anew, so that stacked tiles "
        "are swizzled alike",
        "pad it to {padded}",
    ),
}
