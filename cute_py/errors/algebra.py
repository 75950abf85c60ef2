"""Wordings: composition, complement, inverses, divides, products and recasts."""

from __future__ import annotations

from cute_py.errors import LayoutError, LeafTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "profile-rank": (
        LayoutError,
        "profile {profile} for {layout}",
        "a profile with at most as many modes as the layout",
        "drop modes of the profile, or append modes to the layout",
    ),
    "tiler-rank": (
        LayoutError,
        "a tiler of {tiler} modes for {layout} (rank {rank})",
        "at most one tiler entry a mode",
        "drop entries, or append(layout, rank) first",
    ),
    "tiler-type": (
        LeafTypeError,
        "{value!r} ({type})",
        "a layout, an integer, _ or a tuple of these as tiler",
        "write n for n:1, or build a Layout",
    ),
    "composition-departs": (
        LayoutError,
        "a={a} and b={b}: at coordinate number {index}, {place} reaches index {visited} "
        "of a, which is {got}, but the layout that fits all coordinates before gives {fitted}",
        "a(b(c)) that some layout refining b's shape computes",
        "{repairs}",
    ),
    "composition-too-large": (
        LayoutError,
        "a={a} and b={b}, whose carries may cancel or whose strides differ in sign",
        "at most {limit} coordinates, each of which must be tried",
        "compose smaller parts, or keep the pair with make_composed_layout",
    ),
    "composition-diagonal": (
        LayoutError,
        "a={a}, composed so that one step would be {strides}",
        "steps along one mode of the codomain at a time",
        "compose mode by mode with a tuple of tilers",
    ),
    "composition-symbols": (
        LayoutError,
        "{step} and {size}, of which neither is known to divide the other",
        "extents and strides that divide",
        "declare the symbol with multiple_of=, or use numbers",
    ),
    "composition-carry": (
        LayoutError,
        "a={a} and b={b}: the modes of b add up to {used} in a digit of a of extent {size}",
        "modes of b that stay below the extent together",
        "shrink a mode of b, or use numbers, for which every carry is judged",
    ),
    "complement-overlap": (
        LayoutError,
        "{layout}: mode {mode} (stride {stride}) steps inside of the {filled} offsets that the "
        "modes of smaller stride fill",
        "modes that do not overlap",
        "give that mode stride {filled} or a multiple of it",
    ),
    "complement-gap": (
        LayoutError,
        "{layout}: mode {mode} has stride {stride}, no multiple of the {filled} offsets that the "
        "modes below it fill",
        "strides of which each is a multiple of extent*stride of the one below",
        "use stride {lower} or {upper} there, or change the extent below",
    ),
    "complement-basis": (
        LayoutError,
        "{layout} with coordinate stride {stride}",
        "integer strides",
        "take the complement mode by mode",
    ),
    "inverse-basis": (
        LayoutError,
        "{layout} with coordinate stride {stride}",
        "integer strides",
        "invert mode by mode",
    ),
    "left-inverse": (
        LayoutError,
        "{layout}: stride {stride} above a mode of stride {below} that fills {filled} offsets",
        "strides that are multiples of the stride below and reach past what is filled",
        "use a stride of {filled} or more that {below} divides, or filter the layout first",
    ),
    "tile-to-shape": (
        LayoutError,
        "block {block} for shape {shape}",
        "a shape that the block divides mode by mode",
        "pad the shape to {rounded}",
    ),
    "not-compact": (
        LayoutError,
        "{layout}, in which no coordinate has offset {index} by dividing",
        "a compact layout: every offset of 0 to size - 1 once",
        "use left_inverse, or coalesce a layout without gaps",
    ),
    "upcast-stride": (
        LayoutError,
        "{layout} by {n}: stride {stride} in mode {mode}",
        "strides that divide {n} or are multiples of it",
        "upcast by {alignment}, or pad that stride to a multiple of {n}",
    ),
    "upcast-overlap": (
        LayoutError,
        "{layout} by {n}: modes with strides below {n} together reach offset {used} inside of an "
        "element",
        "offsets below {n} from all modes that stay inside of an element",
        "coalesce the layout, or upcast by a smaller factor",
    ),
    "downcast-unit": (
        LayoutError,
        "{layout} by {n}: {count} modes have stride 1",
        "exactly one mode of more than one element with stride 1 or -1, to be split",
        "append a mode 1:1 for single elements, or coalesce first",
    ),
}
