"""Wordings: swizzles and composed layouts."""

from __future__ import annotations

from cute_py.errors import LayoutError, LeafTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "swizzle-parameters": (
        LayoutError,
        "Swizzle({bits}, {base}, {shift})",
        "B >= 0, M >= 0 and |S| >= B, so that the bits read and the bits changed do not overlap",
        "use fewer bits, or a larger shift",
    ),
    "swizzle-masks": (
        LayoutError,
        "Y mask {y} and Z mask {z}",
        "two runs of equally many bits that do not overlap",
        "give each mask as one run of 1 bits",
    ),
    "swizzle-factor": (
        LayoutError,
        "{swizzle} by {n}",
        "a power of two as factor",
        "recast by a power of two, or take the swizzle off first",
    ),
    "swizzle-through": (
        LayoutError,
        "layout {layout} after {swizzle}",
        "a layout that carries the Y and Z bits of the swizzle to two such runs of bits",
        "make the modes powers of two that hold whole runs of swizzled bits, or keep the offsets "
        "as an array",
    ),
    "upcast-swizzle": (
        LayoutError,
        "{swizzle} by {n}: bits below an element would drive bits that stay",
        "a factor of at most {largest} for a swizzle of negative shift",
        "upcast by at most {largest}",
    ),
    "upcast-offset": (
        LayoutError,
        "offset {offset} by {n}",
        "an offset that {n} divides",
        "move the origin to a whole element first",
    ),
    "composed-outer": (
        LeafTypeError,
        "{value!r} ({type}) as outer map",
        "a Swizzle, a Layout or an F2 map",
        "build one with Swizzle(B, M, S)",
    ),
    "no-stride": (
        LayoutError,
        "{layout}",
        "a plain layout: outer o offset o inner is not linear and has no strides",
        "take layout.inner.stride, or layout.offsets()",
    ),
    "composition-offset": (
        LayoutError,
        "a={a} and b={b}",
        "a swizzle without offset in b",
        "fold the offset into the address: b(c) = outer(offset + inner(c))",
    ),
    "complement-swizzle": (
        LayoutError,
        "{layout}, whose swizzle moves offsets into the gaps of its inner layout",
        "a swizzle that permutes what the inner layout fills",
        "take the complement of layout.inner, or tile to whole swizzle periods first",
    ),
    "inverse-offset": (
        LayoutError,
        "{layout}",
        "a swizzle, with offset 0",
        "invert outer and inner one by one",
    ),
    "too-large": (
        LayoutError,
        "{layout}",
        "at most {limit} elements, each of which must be tried",
        "ask about a smaller tile",
    ),
    "explain-subject": (
        LeafTypeError,
        "{value!r}",
        "an operation of cute_py with its operands, a layout, or a caught CuteError",
        'call explain("composition", a, b), explain(layout) or explain(error)',
    ),
    "size-mismatch": (
        LayoutError,
        "{a} of size {left} and {b} of size {right}",
        "layouts of the same size",
        "repeat the smaller one with a stride-0 mode",
    ),
    "layout-add": (
        LayoutError,
        "{a} and {b}: at index {index} the sum is {got}, but the layout that fits before it "
        "gives {fitted}",
        "a sum that some layout computes",
        "regroup both to a common shape, or add the offsets as arrays",
    ),
    "composition-cancels": (
        LayoutError,
        "a step of {step} in b through digits ({digits}) of a, whose carries cancel for more than "
        "{limit} coordinates",
        "carries that can be judged one by one",
        "compose smaller parts, or keep the pair with make_composed_layout",
    ),
    "composition-codomain": (
        LayoutError,
        "a={a} and b={b}: coordinate stride {stride} names mode {mode}",
        "coordinate strides that name modes of a",
        "use strides E(i) with i < {rank}, or append modes to a",
    ),
}
