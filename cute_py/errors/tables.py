"""Wordings: tables of offsets: whole-layout tools, F2 layouts and fit."""

from __future__ import annotations

from cute_py.errors import LayoutError, LeafTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "fit-no-form": (
        LayoutError,
        "{count} offsets, which go like {layout} up to index {index}, where the table has {got} "
        "and that layout {fitted}",
        "offsets of a Layout, of Swizzle o offset o Layout, or linear over F2 ({tried})",
        "{repair}",
    ),
    "fit-function": (
        LayoutError,
        "the function {function!r} without a shape",
        "a shape, whose coordinates it is called with",
        "pass shape=..., one argument of the function for each mode",
    ),
    "fit-empty": (
        LayoutError,
        "a table without entries",
        "at least one entry, in a list, array or dict",
        "pass a list even for a single offset",
    ),
    "fit-ragged": (
        LayoutError,
        "rows of different lengths",
        "a table that fills its shape",
        "pad the rows, or fit them one by one",
    ),
    "fit-key": (
        LayoutError,
        "coordinate {key} beside {first}",
        "coordinates of at least 0 that nest alike",
        "write all keys as int tuples of one profile",
    ),
    "fit-incomplete": (
        LayoutError,
        "{count} coordinates that span {shape}, but not {missing}",
        "an offset for every coordinate of the shape",
        "add that coordinate, or fit a part that is complete",
    ),
    "fit-shape": (
        LayoutError,
        "{count} entries for shape {shape}",
        "one entry for each coordinate",
        "pass a shape of that size",
    ),
    "fit-coordinates": (
        LayoutError,
        "entries that are coordinates, such as {entry}",
        "offsets",
        "pass coshape=..., the shape that they are coordinates of",
    ),
    "fit-entry": (
        LayoutError,
        "entry {entry} for coshape {coshape}",
        "coordinates inside of coshape",
        "pass the coshape that holds them all; with none, entries are offsets",
    ),
    "fit-size": (
        LayoutError,
        "a table of {count} entries",
        "at most {limit}",
        "fit a part of it that shows the pattern",
    ),
    "fit-range": (
        LayoutError,
        "entry {value}",
        "entries below 2**61 in magnitude",
        "subtract the first entry, or count in larger elements",
    ),
    "tools-symbols": (
        LayoutError,
        "{layout}, whose offsets depend on symbols",
        "numbers to tabulate",
        "put in numbers (subs), or ask prove_equal, prove_bijective or formula",
    ),
    "tools-size": (
        LayoutError,
        "{layout}, for which {size} offsets would have to be tabulated",
        "at most {limit}",
        "ask for a mode or a tile of it",
    ),
    "tools-range": (
        LayoutError,
        "{layout}, which reaches {reach} in magnitude",
        "offsets that int64 holds",
        "take a part of it, or evaluate index by index",
    ),
    "tools-basis": (
        LayoutError,
        "{layout}, which yields coordinates",
        "a layout that yields offsets",
        "compose a layout of the codomain with it, or ask one coordinate at a time",
    ),
    "f2-negative": (
        LayoutError,
        "the image {value}",
        "offsets of at least 0, whose bits end",
        "turn the mode around: count from its other end, and add what that moves",
    ),
    "f2-wide": (
        LayoutError,
        "{map}, which acts on {bits} bits, and an array",
        "at most {limit} bits, which int64 holds",
        "apply it to Python ints one by one",
    ),
    "f2-singular": (
        LayoutError,
        "{map}, which takes 0 and {other} to the same offset",
        "a map that is one-to-one",
        "leave out what f2_kernel lists",
    ),
    "f2-no-map": (
        LeafTypeError,
        "{value!r} ({type})",
        "a Swizzle or an F2Map",
        "turn a layout of powers of two into an F2Layout with to_f2, and use compose_f2",
    ),
    "f2-bases": (
        LayoutError,
        "{count} bases for shape {shape}",
        "one for each bit of the index: {bits}",
        "list the images of 1, 2, 4, ... mode by mode",
    ),
    "f2-extent": (
        LayoutError,
        "extent {extent} in shape {shape}",
        "extents that are powers of two",
        "pad the mode to a power of two, or stay with Layout",
    ),
    "f2-origin": (
        LayoutError,
        "{layout}, which no index takes to offset 0",
        "a layout that hits offset 0",
        "leave out the offset {offset}",
    ),
    "f2-not-onto": (
        LayoutError,
        "{layout} of size {size}, whose offsets reach below {reach}",
        "a bijection of the offsets below the size",
        "use left_inverse, or right_inverse",
    ),
    "f2-not-linear": (
        LayoutError,
        "{layout}, whose index {index} has offset {got} where the XOR of its bits' offsets is "
        "{fitted}",
        "a map that is linear over F2: modes that share no bit of the offset",
        "use strides that reach past the modes below, or stay with offsets()",
    ),
    "f2-strides": (
        LayoutError,
        "{layout} with strides {stride}",
        "integer strides",
        "put in numbers for symbols; compose a layout of the codomain with one that yields "
        "coordinates",
    ),
    "f2-reach": (
        LayoutError,
        "a={a} and b={b}, which reaches below {reach}",
        "offsets of b that are indices of a",
        "give a as many index bits as b has offset bits",
    ),
    "f2-affine": (
        LayoutError,
        "{layout}, whose index 0 has offset {offset}",
        "offset 0 there, the only one that a matrix can say",
        "take the matrix of F2Layout(shape, bases), and keep the offset beside it",
    ),
    "f2-matrix": (
        LayoutError,
        "{value}",
        "rows of zeros and ones",
        "pass one row for each offset bit and one column for each index bit, the lowest first",
    ),
    "f2-names": (
        LayoutError,
        "{count} names for {layout}",
        "one for each top-level mode: {rank}",
        "group or split modes, or leave the names out",
    ),
    "f2-coshape": (
        LayoutError,
        "{layout}, which reaches offset {offset}, and coshape {coshape}",
        "a coshape that holds every offset",
        "make its last mode larger",
    ),
    "f2-points": (
        LayoutError,
        "the images {points}",
        "coordinates of one coshape",
        "pass flat tuples of one length, or the coshape that they are coordinates of",
    ),
}
