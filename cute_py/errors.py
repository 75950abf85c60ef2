"""The errors of cute_py, and every wording that they use.

A refusal says four things: what was *given*, what is *required*, how to *fix* it, and *where*. The
wordings stand in one table, `WORDINGS`, keyed by a stable code; a module raises with `raise
refusal("code", fact=value, ...)`. Each code has a test that matches its text and a line in
docs/errors.md.

>>> from cute_py.errors import refusal
>>> print(refusal("basis-path", operation="E", path=(-1,)))
E: given path (-1,); required: mode indices: ints of at least 0; fix: E(1) is mode 1, E(1, 0) is \
mode 0 of mode 1
"""

from __future__ import annotations


class CuteError(Exception):
    """Base of every error that cute_py raises on purpose.

    `code` names the wording (a key of `WORDINGS`); `facts` holds the values that were put into it.
    """

    code: str = ""

    def __init__(
        self, message: str, code: str = "", facts: dict[str, object] | None = None
    ) -> None:
        """Keep the finished message, and the code and facts that it was made from."""
        super().__init__(message)
        self.code = code
        self.facts: dict[str, object] = facts or {}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by message, code and facts."""
        return type(self), (self.args[0], self.code, self.facts)

    def inside(self, call: str) -> CuteError:
        """Return this error as it came up inside of `call`, the outermost that the user made."""
        said = str(self.facts.get("said", self.args[0]))
        return type(self)(f"{call}: {said}", self.code, {**self.facts, "said": said, "call": call})


class LayoutError(CuteError, ValueError):
    """A layout, shape, stride or tiler is malformed, or an operation on layouts has no exact
    result.
    """


class CoordinateError(CuteError, IndexError):
    """A coordinate, index or mode lies outside of what it indexes."""


class LeafTypeError(CuteError, TypeError):
    """A leaf, argument or operand has the wrong type (bool, float, str, ...)."""


class UndecidedError(LayoutError):
    """Symbols leave the question open; `facts["assumption"]` names the assumption that would settle
    it.
    """


class ParseError(CuteError, ValueError):
    """Text could not be read; `facts["position"]` is the offending column (0-based)."""


class DtypeError(CuteError, TypeError):
    """A dtype is unknown, has no NumPy equivalent, or cannot be converted as asked."""


# code -> (class, what was given, what is required, how to fix it). Fields in braces are filled from
# the facts.
WORDINGS: dict[str, tuple[type[CuteError], str, str, str]] = {
    # -- leaves and construction
    "leaf-type": (
        LeafTypeError,
        "{value!r} ({type})",
        "integers (Python or NumPy) or symbols{also}; bool and float are not sizes",
        "pass an int; if the value comes from a division, use // or ceil_div",
    ),
    "extent-not-positive": (
        LayoutError,
        "extent {value} in mode {mode}",
        "extents of at least 1",
        "drop the mode, or give it extent 1 and stride 0",
    ),
    "not-congruent": (
        LayoutError,
        "shape {shape} with stride {stride}{at}",
        "shape and stride of the same profile",
        "nest the stride like the shape, or leave the stride out for a compact layout",
    ),
    "too-deep": (
        LayoutError,
        "a nest deeper than {limit} levels",
        "at most {limit} levels",
        "flatten the tuple, or group fewer modes",
    ),
    "not-a-layout": (
        LeafTypeError,
        "{value!r} ({type})",
        "a layout here",
        "build one with Layout(shape, stride)",
    ),
    "basis-path": (
        LeafTypeError,
        "path {path!r}",
        "mode indices: ints of at least 0",
        "E(1) is mode 1, E(1, 0) is mode 0 of mode 1",
    ),
    "mixed-strides": (
        LayoutError,
        "integer stride {value} beside coordinate strides {basis}",
        "strides that all lead to the same codomain",
        "give every mode a coordinate stride, or every mode an integer",
    ),
    # -- int tuples and coordinates
    "profile-mismatch": (
        LayoutError,
        "{a} facing {b}",
        "profiles that face each other, tuple to tuple of the same rank",
        "group or flatten one of them, or append modes of extent 1",
    ),
    "not-divisible": (
        LayoutError,
        "{a} and {b}",
        "one that divides the other",
        "round up with ceil_div, or pad {a} to a multiple of {b}",
    ),
    "coordinate-profile": (
        LayoutError,
        "coordinate {coord} for shape {shape}",
        "an index, or a tuple that nests like the shape or coarser",
        "pass one entry per mode; an integer may stand for a nested mode",
    ),
    "coordinate-range": (
        CoordinateError,
        "coordinate {coord} for shape {shape}: {value} in mode {mode}",
        "0 <= entry < {size}",
        "stay inside the shape, or use crd2idx, whose last mode runs on",
    ),
    "mode-range": (
        CoordinateError,
        "mode {mode} of {layout}",
        "a mode of rank {rank}: 0 to {last}",
        "count modes from 0; group_modes and flatten change the rank",
    ),
    "mode-list": (
        LeafTypeError,
        "{value!r} ({type})",
        "a list of mode indices",
        "write [0, 2] for modes 0 and 2",
    ),
    "mode-interval": (
        CoordinateError,
        "modes {begin} to {end} of {layout} (rank {rank})",
        "0 <= begin < end <= {rank}",
        "leave at least one mode in the interval",
    ),
    "rank-target": (
        LayoutError,
        "rank {rank} for {layout}, which has rank {has}",
        "a target rank of at least {has}",
        "group modes first, or ask for a larger rank",
    ),
    # -- the algebra
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
    # -- tiled operations
    "tiled-permutation": (
        LayoutError,
        "{atom} with permutation {permutation} in {mode}",
        "a tile that is a multiple of the {atoms} elements of the atoms side by side",
        "use {atoms} or a multiple of it, or _ for exactly that",
    ),
    "tiled-holes": (
        LayoutError,
        "thread layout {layout}, which leaves out thread indices",
        "threads without holes, or holes that repeat evenly",
        "use 1, 2 or a multiple of 4 quad pairs; get_slice and partition_A work as it is",
    ),
    "tiled-overlap": (
        LayoutError,
        "atom layout {atoms}",
        "an atom layout that gives every atom its own threads",
        "leave the stride out for threads in order, or shrink the mode of stride 0",
    ),
    "tiled-rank": (
        LayoutError,
        "atom layout {layout} and permutation {permutation}",
        "at most three modes each: M, N and K",
        "group modes, or drop the ones beyond K",
    ),
    "partition-rank": (
        LayoutError,
        "{layout}",
        "at least the two modes of the operand: (M,K), (N,K) or (M,N), or the modes of the tiler",
        "append modes of extent 1, or group the others",
    ),
    "partition-divides": (
        LayoutError,
        "extent {extent} in {mode} for a tile of {tile}",
        "an extent that the tile divides",
        "pad it to {padded}, or tile it with local_tile and predicates first",
    ),
    "tiled-thread": (
        CoordinateError,
        "thread {thread} of {layout}",
        "one of the {threads} threads of the tiled operation",
        "launch as many threads as size() says, or leave the others out",
    ),
    "copy-atom": (
        LeafTypeError,
        "{value!r} ({type})",
        "a Copy_Atom: an instruction and the type of its values",
        "wrap the instruction: Copy_Atom(op, dtype)",
    ),
    "copy-threads": (
        LayoutError,
        "{threads} threads for {atom}, which needs {needed}",
        "a multiple of the threads of the copy atom",
        "use a thread layout of a multiple of {needed} threads",
    ),
    "copy-values": (
        LayoutError,
        "{values} values a thread for {atom}, which moves {needed}",
        "a multiple of the values that the copy atom moves per thread",
        "use a value layout of a multiple of {needed} values, or a narrower copy atom",
    ),
    "copy-codomain": (
        LayoutError,
        "thread-value layout {tv} and data {data}",
        "addresses that exist in the data layout",
        "shrink the thread-value layout, or extend the data layout",
    ),
    # -- swizzles and composed layouts
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
        "layouts whose carries cancel for more than {limit} coordinates",
        "carries that can be judged one by one",
        "compose smaller parts, or keep the pair with make_composed_layout",
    ),
    "composition-codomain": (
        LayoutError,
        "a={a} and b={b}: coordinate stride {stride} names mode {mode}",
        "coordinate strides that name modes of a",
        "use strides E(i) with i < {rank}, or append modes to a",
    ),
    # -- integers and symbols
    "leaf-operands": (
        LeafTypeError,
        "{a!r} and {b!r}",
        "operands whose classes know each other",
        "use one kind of symbol in one layout",
    ),
    "undecided": (
        UndecidedError,
        "symbols that leave open whether {question}",
        "one answer for every value that the symbols can take",
        "assume that {assumption}: declare it, sym(name, multiple_of=..., min=..., max=...), "
        "or put in numbers (subs)",
    ),
    "symbol-name": (
        LayoutError,
        "the name {name!r}",
        "a Python identifier",
        "use letters, digits and _, not starting with a digit",
    ),
    "symbol-multiple": (
        LayoutError,
        "multiple_of={multiple_of} for {name}",
        "a positive number",
        "leave multiple_of out if nothing is known",
    ),
    "symbol-range": (
        LayoutError,
        "{name} with multiple_of={multiple_of}, min={min} and max={max}",
        "at least one multiple of {multiple_of} from min to max",
        "lower min, raise max or weaken multiple_of",
    ),
    "symbol-conflict": (
        LayoutError,
        "{first!r} and {second!r} in one expression",
        "one declaration for each name",
        "declare {name} once and use that value, or rename one of them",
    ),
    "symbol-value": (
        LayoutError,
        "{name} = {value}",
        "a value that {symbol!r} admits",
        "choose {admissible}, or declare {name} with weaker assumptions",
    ),
    "symbol-true-division": (
        LeafTypeError,
        "{a} / {b}",
        "integer division",
        "use // for the floor, ceil_div for the ceiling",
    ),
    "divide-by-zero": (
        LayoutError,
        "{a} // {b}",
        "a divisor other than 0",
        "check the extent or stride that became 0",
    ),
    # -- dtypes
    "dtype-unknown": (
        DtypeError,
        "{value!r} ({type}) as a dtype",
        "a cute_py dtype, its name, or a NumPy or ml_dtypes dtype",
        "{fix}",
    ),
    "dtype-numpy": (
        DtypeError,
        "NumPy's {value!r}",
        "a real number type in native byte order that cute_py has",
        "convert with x.astype(...) to one that it has, such as float32 or int32",
    ),
    "dtype-width": (
        DtypeError,
        "an integer type of {bits!r} bits",
        "1 to 8, 16, 32 or 64 bits",
        "take {fix}",
    ),
    "dtype-void": (
        DtypeError,
        "void, which holds no values",
        "a dtype of at least 1 bit",
        "name the type of the elements",
    ),
    "dtype-scale": (
        DtypeError,
        "ue8m0, a block scale without sign or zero",
        "a dtype that converts value by value",
        "keep scales as decoded powers of two in f32",
    ),
    "rounding-unknown": (
        DtypeError,
        "rounding {value!r}",
        "indeterminate, toward_zero (rz), to_nearest (rn), to_nearest_satfinite, "
        "toward_infinity (rp), toward_neg_infinity (rm), half_ulp_truncate (rna) "
        "or half_ulp_trunc_dntz",
        "{fix}",
    ),
    "values-type": (
        LeafTypeError,
        "values of NumPy dtype {dtype}",
        "real numbers of a dtype that cute_py has",
        "convert with x.astype(...) to one that it has, such as float32 or int32",
    ),
    "values-ragged": (
        LeafTypeError,
        "{value!r}",
        "numbers, or lists of equal length",
        "convert the parts one by one",
    ),
    "values-mixed": (
        LeafTypeError,
        "a list in which NumPy rounds the integer {value} to float64",
        "numbers that one NumPy dtype holds exactly",
        "pass an array of int64 or uint64, or convert the numbers one by one",
    ),
    "values-shape": (
        DtypeError,
        "values of shape {shape}",
        "one dimension, in storage order",
        "put them in order with x.reshape(-1), or with order='F' for CuTe's",
    ),
    "values-scalar": (
        DtypeError,
        "values of shape {shape} for one element",
        "one number",
        "write them one by one, or pack a whole array",
    ),
    "values-not-of": (
        DtypeError,
        "{value}",
        "values that {to} holds; storing neither rounds nor clamps",
        "store convert(x, {to!r}), which says how",
    ),
    "image-type": (
        LeafTypeError,
        "bit images of NumPy dtype {dtype}",
        "integers",
        "pass x.view of an unsigned type, or encode values first",
    ),
    "image-range": (
        DtypeError,
        "the bit image {value}",
        "0 to {top}, the {bits} bits of {to}",
        "mask it with & {top:#x}",
    ),
    "word-bits": (
        DtypeError,
        "words of {value!r} bits",
        "8, 16 or 32 bits",
        "pack into 32-bit words and view them",
    ),
    "words-type": (
        DtypeError,
        "words of type {given}",
        "a one-dimensional array of uint8, uint16 or uint32",
        "use x.reshape(-1).view('uint32'), or make the words with pack",
    ),
    "words-not-whole": (
        DtypeError,
        "{words} words of {word_bits} bits",
        "a whole number of {to} elements",
        "pass the count of elements, or add words until they come out even",
    ),
    "words-too-few": (
        DtypeError,
        "{words} words of {word_bits} bits, which hold {holds} elements of {to}",
        "at least {need} words for {count} elements",
        "pass count={holds}, or all the words",
    ),
    "words-read-only": (
        DtypeError,
        "read-only words",
        "words that can be written",
        "write to a copy, words.copy()",
    ),
    "element-straddles": (
        DtypeError,
        "{to}, {bits} bits, in words of {word_bits} bits",
        "a width that divides the word's, so that no element straddles two words",
        "unpack, change and pack the whole array",
    ),
    "element-index": (
        CoordinateError,
        "element {index} of {size}",
        "an index from 0, below {size}",
        "check the offset, which counts elements and not words",
    ),
    "count-type": (
        LeafTypeError,
        "{value!r} ({type}) as a number of elements",
        "an int of at least 0",
        "pass len(x), or the size of the layout",
    ),
    "alignment": (
        DtypeError,
        "{count} elements of {dtype}, {size} bytes",
        "a power of two of bytes, as vector accesses have",
        "split the vector into powers of two",
    ),
    # -- classical layouts
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
    # -- text: layouts and expressions
    "text-type": (
        LeafTypeError,
        "{value!r} ({type})",
        "a text",
        "pass a str; decode bytes, and leave a layout as it is",
    ),
    "text-too-long": (
        ParseError,
        "a text of {count} characters",
        "at most {limit}",
        "read one layout at a time, without the data of its tensor",
    ),
    "text-unexpected": (
        ParseError,
        "{found} at position {position}",
        "{expected}",
        "mend the text at the mark\n{marked}",
    ),
    "text-unclosed": (
        ParseError,
        "{found} at position {position}, inside of the {bracket!r} at position {opened}",
        "{expected}",
        "close the bracket, or remove it\n{marked}",
    ),
    "text-too-deep": (
        ParseError,
        "a nest deeper than {limit} levels at position {position}",
        "at most {limit} levels",
        "flatten the tuple, or group fewer modes\n{marked}",
    ),
    "text-number": (
        ParseError,
        "a number of {count} digits at position {position}",
        "at most {limit} digits",
        "shorten it: CuTe's integers have 64 bits\n{marked}",
    ),
    "text-symbol": (
        ParseError,
        "the name {name!r} at position {position}, which stands for nothing here",
        "numbers, and symbols that were declared",
        "declare it, symbols={{{name!r}: sym({name!r})}}, or remove a label that is no part of "
        "the layout\n{marked}",
    ),
    "text-arguments": (
        ParseError,
        "{name} at position {position}: {problem}",
        "{name}{form}",
        "pass these arguments, in this order\n{marked}",
    ),
    "text-operands": (
        ParseError,
        "{name} at position {position} applied to {operands}: {problem}",
        "operands of the kinds that it takes",
        "compare the operands with the documentation of {name}\n{marked}",
    ),
    "text-pointer-width": (
        ParseError,
        "a pointer at position {position} that does not tell the width of its elements, under "
        "{swizzle}",
        "the width, as in smem_ptr[16b] or ptr<f16, smem>: a swizzle of a pointer maps bytes",
        "add the width, or give the layout alone and compose it with a swizzle of "
        "elements\n{marked}",
    ),
    "text-pointer-address": (
        ParseError,
        "a pointer at position {position} whose distance from a multiple of {period} bytes, the "
        "period of {swizzle}, is unknown or no whole number of elements",
        "an address such as (0x400), (unset), or align<{period}>",
        "add it, or give the layout alone and compose it with a swizzle of elements\n{marked}",
    ),
    "expression-name": (
        ParseError,
        "the name {name!r} at position {position}, which the language does not have",
        "a function of the layout algebra, a constant such as LayoutRight, or a declared symbol",
        "{hint}\n{marked}",
    ),
    "expression-limit": (
        ParseError,
        "{given} at position {position}",
        "{limit}, so that the command line answers at once",
        "use cute_py from Python for larger ones\n{marked}",
    ),
    # -- whole-layout tools, F2 layouts, fit
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
    # -- atoms: matrix instructions
    "arch-name": (
        LayoutError,
        "architecture {arch!r}",
        "sm_ and a number, such as sm_80 or sm_90a",
        "compute capability 9.0 is sm_90, its own features are sm_90a",
    ),
    "atom-unknown": (
        LayoutError,
        "{name}",
        "the name of an atom, spelled as in CuTe",
        "{hint}",
    ),
    "atom-parameters": (
        LayoutError,
        "{given}",
        "template parameters of the atom: {parameters}",
        "pass them in this order or by name, or take another atom",
    ),
    "atom-argument": (
        LayoutError,
        "{parameter}={value}",
        "{parameter} of {allowed}",
        "A in registers is K-major, as are all inputs but 16-bit ones; a scale is a sign",
    ),
    "atom-no-ptx": (
        LayoutError,
        "{atom}, which has no PTX text",
        "an atom with an instruction of its own",
        "UniversalFMA is arithmetic; rows that are not runnable are data",
    ),
    "atom-operand": (
        LayoutError,
        "{given} registers for an operand of {count}",
        "{count} registers of type {ptx_type}",
        "pass one name for each register, as MMA_Atom.registers counts them",
    ),
    # -- tensors
    "tensor-source": (
        LeafTypeError,
        "a {type}",
        "a NumPy array, an engine (Pointer, Memory, another tensor's data), or a coordinate",
        "pass numpy.asarray(x), or make_ptr(dtype, address) for a device address",
    ),
    "tensor-layout": (
        LeafTypeError,
        "{engine} alone",
        "a layout for what has no shape of its own",
        "pass a Layout, or a shape for the compact one",
    ),
    "tensor-dtype": (
        DtypeError,
        "a dtype for {engine}, which has one",
        "a dtype with NumPy arrays only",
        "use recast(tensor, dtype) to read the memory otherwise",
    ),
    "tensor-codomain": (
        LayoutError,
        "{layout}, which yields coordinates, over {engine}",
        "a layout that yields offsets",
        "use make_coord_tensor(layout), whose elements are coordinates",
    ),
    "tensor-bounds": (
        CoordinateError,
        "{layout} over {engine}: coordinate {coord} has offset {offset}",
        "offsets from {low} to {high}, where the memory has elements",
        "shrink the layout; for a tile that over-covers, test elem_less(coordinate, shape) first",
    ),
    "tensor-iteration": (
        LeafTypeError,
        "{tensor} to iterate over",
        "a coordinate or an index for each element",
        "use to_numpy(), or tensor[c] for c in coordinates(tensor.shape)",
    ),
    "tensor-product": (
        LayoutError,
        "{tensor}",
        "a layout: a product reaches further than the memory of the tensor",
        "take the product of tensor.layout, and make_tensor of it over memory that is larger",
    ),
    "tensor-shape": (
        LayoutError,
        "values of shape {given} for a tensor of {shape}",
        "one value, or an array with one axis for each top-level mode",
        "reshape the array, or group the modes of the tensor",
    ),
    "tensor-overlap": (
        LayoutError,
        "two values for offset {offset} of {layout}, which has the coordinates {a} and {b} there",
        "one value for each element of the memory",
        "write to filter_zeros(tensor), or give both coordinates the same value",
    ),
    "tensor-no-view": (
        LayoutError,
        "{tensor} without a copy",
        "a copy: elements are gathered in the order of the coordinates",
        "leave copy=False out, or take tensor.data.memory, which is shared",
    ),
    "not-a-tensor": (
        LeafTypeError,
        "{value!r} ({type})",
        "a tensor here",
        "build one with make_tensor(array, layout)",
    ),
    "coordinates-dtype": (
        DtypeError,
        "{tensor}, whose elements are coordinates",
        "a dtype for the elements of the new tensor",
        "pass dtype=, such as b1 for predicates",
    ),
    "engine-unreadable": (
        LayoutError,
        "{engine}, whose elements the host does not have",
        "elements in memory of the host to read, and no coordinates to write",
        "use make_tensor(array, layout) on the host; a kernel reads device memory",
    ),
    "memory-space": (
        LayoutError,
        "{value!r} as a memory space",
        "gmem, smem or rmem",
        "say where the elements are; memory of the host is a NumPy array",
    ),
    "memory-name": (
        LayoutError,
        "the name {value!r}",
        "a Python identifier",
        "use letters, digits and _, not starting with a digit",
    ),
    "pointer-address": (
        LayoutError,
        "the address {value} for elements of {to}",
        "a multiple of {size} bytes, at least 0",
        "align the address, or recast to a smaller type",
    ),
    "array-empty": (
        LayoutError,
        "an array of shape {shape}",
        "at least one element",
        "leave empty arrays out: a layout has no extent 0",
    ),
    "array-strides": (
        LayoutError,
        "an array with a stride of {step} bytes in axis {axis}",
        "strides that are multiples of the {size} bytes of an element",
        "copy it with numpy.ascontiguousarray(x)",
    ),
    "array-dtype": (
        DtypeError,
        "an array of {given} as {to}",
        "an array of the type that holds {to}, unsigned words of its size, or packed words for a "
        "type below a byte",
        "use make_host_tensor(shape, {to!r}, values), which converts and packs",
    ),
    "words-apart": (
        LayoutError,
        "packed words with a stride of {step} bytes",
        "words of {size} bytes side by side",
        "copy them with numpy.ascontiguousarray(words)",
    ),
    "recast-engine": (
        DtypeError,
        "{engine}, which has no bits",
        "elements in memory",
        "recast the tensor of the data, and partition coordinates by the new layout",
    ),
    "recast-unpacked": (
        DtypeError,
        "elements of {to} in bytes of their own",
        "packed elements",
        "copy them to make_host_tensor(shape, {to!r}), which packs",
    ),
    "recast-origin": (
        LayoutError,
        "{tensor}: its lowest bits begin at element {offset} of the memory",
        "a multiple of {n}, so that the new elements are aligned",
        "move the origin with domain_offset, or recast before slicing",
    ),
    "recast-backwards": (
        LayoutError,
        "{layout} by {n}: a swizzle above strides that run backwards",
        "strides of at least 0 below a swizzle",
        "reverse the mode first, or recast the tensor without the swizzle",
    ),
    "thread-range": (
        CoordinateError,
        "thread {index} of {layout}",
        "0 <= thread < {count}",
        "use thread % {count}, or a larger thread layout",
    ),
    # -- copy atoms
    "copy-op": (
        LeafTypeError,
        "{value!r} ({type})",
        "a copy instruction: a Copy_Op, or its name as text",
        'pass a row, such as SM75_U32x4_LDSM_N, or get_copy("UniversalCopy", 128)',
    ),
    "copy-unknown": (
        LayoutError,
        "{name!r}",
        "the name of a copy instruction",
        "one of {nearest}",
    ),
    "copy-arguments": (
        LayoutError,
        "{name} with arguments {given}",
        "the template arguments of the instruction, in bits",
        "write {example}, or pass the numbers after the name",
    ),
    "copy-width": (
        LayoutError,
        "{bits} bits",
        "{widths} bits",
        "copy with one of these widths, several times if need be",
    ),
    "copy-bulk-bits": (
        LayoutError,
        "{bits} bits",
        "a multiple of 128 bits (16 bytes)",
        "round the copy up, or move the rest by UniversalCopy",
    ),
    "copy-spaces": (
        LayoutError,
        "a move from {src} to {dst}",
        "registers (rmem) on one side, gmem or smem on the other",
        "go through registers, or use cp.async from gmem to smem",
    ),
    "copy-no-ptx": (
        LayoutError,
        "{op}, which is no single instruction",
        "a row with PTX text",
        "move(bits, src_space, dst_space) is a load or store; auto-vectorising copies choose one",
    ),
    "copy-operands": (
        LayoutError,
        "{op} with operands {given}",
        "{wanted}",
        "pass one list of registers for each operand, as long as it has registers",
    ),
    "copy-value-type": (
        LayoutError,
        "{op} with values of {bits} bits ({dtype}); its {side} is {layout} in bits",
        "values that stay whole in one thread: at most {most} bits",
        "copy as values of {most} bits or less, or take another instruction",
    ),
    "copy-value-bits": (
        LayoutError,
        "{op}, which moves {moved} bits of the {side}, with values of {bits} bits ({dtype})",
        "a whole number of values",
        "take a wider instruction, or narrower values",
    ),
    "gmma-atom": (
        LayoutError,
        "major {major!r} and swizzle {swizzle!r}",
        'major "K" or "MN" and swizzle "INTER", "SW32", "SW64" or "SW128"',
        "name the contiguous mode, and a row of 16, 32, 64 or 128 bytes",
    ),
    "gmma-major": (
        LayoutError,
        "major {major!r}",
        '"K" or "MN"',
        "name the mode of the tile that is contiguous in shared memory",
    ),
    "gmma-canonical": (
        LayoutError,
        "{layout} of {bits}-bit elements as {major}-major tile: {found}",
        "rows of 16, 32, 64 or 128 bytes in groups of 8, 32 bytes of K in all (MN-major: 256 / "
        "bits rows)",
        "build the tile with tile_to_shape of a Layout_{major}_..._Atom, and cut it to one "
        "instruction's (MN, K)",
    ),
    "gmma-address": (
        LayoutError,
        "address {address}",
        "a multiple of 16 bytes below 256 KiB",
        "align the tile in shared memory",
    ),
    "smem-swizzle": (
        LayoutError,
        "{layout}",
        "Sw<0,4,3>, Sw<1,4,3>, Sw<2,4,3> or Sw<3,4,3> on byte addresses",
        "build the layout from a Layout_K_..._Atom or Layout_MN_..._Atom of the element type",
    ),
    "tma-op": (
        LayoutError,
        "{op!r}",
        "one of {known}",
        "pass the function or its name, without rank",
    ),
    "tma-rank": (
        LayoutError,
        "{rank} dimensions",
        "1 to 5",
        "merge modes of the tensor that are contiguous, or fix one of them",
    ),
    "tma-tile": (
        LayoutError,
        "tile {tile} for shared memory {layout}, which has {size} elements",
        "as many elements on both sides",
        "pass cta_tile as the extents of the shared-memory layout, mode by mode",
    ),
    "tma-vector": (
        LayoutError,
        "tensor {gmem} and shared memory {smem} of tile {tile}",
        "shared memory that walks along a mode of the tensor, one element at a time",
        "let the contiguous mode of the shared-memory layout start at the beginning of a mode",
    ),
    "tma-major": (
        LayoutError,
        "tensor {gmem}, whose mode {mode} is contiguous in shared memory and has stride {stride}",
        "stride 1 in that mode",
        "make shared memory contiguous along the mode of the tensor that has stride 1",
    ),
    "tma-stride": (
        LayoutError,
        "tensor {gmem} of {dtype}, stride {stride} in mode {mode}",
        "strides that are multiples of 16 bytes, here {multiple} elements",
        "pad the rows of the tensor, or copy with cp.async",
    ),
    "tma-box": (
        LayoutError,
        "a box {box} of {dtype}",
        "at most {most} elements in each dimension",
        "take a smaller tile, or split the mode in the shared-memory layout",
    ),
    "tma-row": (
        LayoutError,
        "a box {box} of {dtype}, whose rows have {bits} bits",
        "rows of a multiple of 16 bytes",
        "widen the tile along its contiguous mode",
    ),
    "tma-span": (
        LayoutError,
        "a box {box} of {dtype}, whose rows have {bytes} bytes, with swizzle {swizzle}",
        "rows within the swizzle's span of {span} bytes, here {most} elements",
        "build the shared-memory layout from atoms of that width with tile_to_shape",
    ),
    "tma-multicast": (
        LayoutError,
        "a box {box} over {multicast} CTAs",
        "extents, from the outermost on, that the CTAs divide",
        "take a tile that is a multiple of the number of CTAs",
    ),
    # -- host utilities
    "tensor-shapes": (
        LayoutError,
        "tensors of shapes {shapes}",
        "the same shape, mode by mode",
        "group modes, or take the parts that match",
    ),
    "tensor-divisor": (
        LayoutError,
        "the integer divisor 0 at {coord}",
        "divisors other than 0",
        "divide as floats, or fill the zeros first",
    ),
    "gemm-shapes": (
        LayoutError,
        "operands of shapes {shapes}",
        "A (M,K), B (N,K), C and D (M,N)",
        "swap the modes of a (K,N) tensor with select(b, [1, 0])",
    ),
    "gemm-accumulate": (
        DtypeError,
        "{given} operands summed in {to}",
        "a floating-point type for floats",
        "pass accumulate='f32'",
    ),
    "random-range": (
        LayoutError,
        "values from {low} to {high}",
        "low < high",
        "swap the bounds: the upper one comes first, as in CUTLASS",
    ),
    "random-bits": (
        LayoutError,
        "values from {low} to {high} with {bits} fractional bits, of which there is none",
        "bounds with a multiple of 2**-{bits} between them",
        "keep more fractional bits, or widen the bounds",
    ),
    "random-stddev": (
        LayoutError,
        "the standard deviation {value}",
        "a number of at least 0",
        "pass its square root, if it is a variance",
    ),
    "fraction-bits": (
        LeafTypeError,
        "{value!r} fractional bits",
        "an int from 0 to {most}, or None for all",
        "pass None to keep all bits",
    ),
    "print-rank": (
        LayoutError,
        "{tensor}",
        "a tensor of 1 to {most} modes",
        "group modes, or print the slices",
    ),
    # -- pictures
    "viz-type": (
        LeafTypeError,
        "{value!r} ({type})",
        "a layout, a swizzle, an MMA or copy atom, or a tiled operation to draw",
        "draw a tensor by its .layout, and a thread-value layout over its tile with print_tv",
    ),
    "viz-symbols": (
        LayoutError,
        "{layout}, which has symbols",
        "sizes and strides that are numbers",
        "put numbers in for the symbols first: substitute(layout, M=128)",
    ),
    "viz-rank": (
        LayoutError,
        "{value}, of {rank} modes",
        "at most {most} modes in a picture",
        "group modes with group_modes, or draw slices",
    ),
    "viz-size": (
        LayoutError,
        "{value}, with {count} {what}",
        "at most {most} {what} in a picture",
        "draw a slice or one tile of it",
    ),
    "viz-tv": (
        LayoutError,
        "{layout}, of {rank} modes",
        "a thread-value layout: mode 0 counts threads, mode 1 values",
        "group the modes into these two",
    ),
    "viz-tile": (
        LayoutError,
        "{layout} over the tile {shape}, where value {value} of thread {thread} has index {index}",
        "indices inside of the tile",
        "pass the tile that the thread-value layout was made for",
    ),
    "viz-operand": (
        LayoutError,
        "operand {operand!r}",
        "A, B or C",
        "print_mma draws all three",
    ),
    "cli-arch": (
        LayoutError,
        "the architecture {arch}",
        "one of {known}, with or without a suffix",
        "leave out --arch to list all",
    ),
    "cli-layout": (
        LayoutError,
        "{text!r}",
        "integers and layouts, or a tuple of these",
        "write a shape such as 2,2,1 or a layout such as (32,4):(4,1)",
    ),
    "cli-output": (
        LayoutError,
        "the file {path}: {reason}",
        "a file that can be written",
        "leave out -o to write to the terminal",
    ),
    # -- coverage, thread maps, suggestions and static analysis
    "coverage-subject": (
        LeafTypeError,
        "{value!r} ({type})",
        "a TiledMMA or a TiledCopy",
        "build one with make_tiled_mma or make_tiled_copy",
    ),
    "thread-map-divides": (
        LayoutError,
        "{part} ({a}) and {whole} ({b})",
        "the first to divide the second, so that every thread makes an access and none leaves the "
        "tile",
        "use fewer threads or a larger tile, or extents that are multiples",
    ),
    "thread-map-warps": (
        LayoutError,
        "{threads} threads and {arrangement} lanes in a warp",
        "whole warps of 32 threads, and 32 lanes in a warp",
        "use a multiple of 32 threads, and an arrangement such as (8, 4)",
    ),
    "thread-map-transpose": (
        LayoutError,
        "accesses of {elements} elements",
        "accesses of one element, which stay whole when the tile is transposed",
        "transpose a map with elements=1",
    ),
    "thread-map-atom": (
        LayoutError,
        "{atom}, which moves {values} values, for accesses of {elements} elements",
        "an atom whose values fit into one access",
        "use UniversalCopy of elements * bits, or build the map with elements={values}",
    ),
    "suggest-major": (
        LayoutError,
        "major {major!r} for tile {tile}",
        'the index of a mode, "K" for the last or "MN" for the first',
        "name the mode of the tile that is contiguous in memory",
    ),
    "suggest-copy": (
        LayoutError,
        "tile {tile} of {dtype} for {threads} threads with accesses of {widths} bits",
        "as many accesses for each thread, in whole rows",
        "use fewer threads, a narrower vector_bits, or a larger tile",
    ),
    "suggest-matrices": (
        LayoutError,
        "{matrices} matrices",
        "1, 2 or 4 matrices in one ldmatrix",
        "pass matrices=4 for the widest",
    ),
    "suggest-atom": (
        LayoutError,
        "{atom}",
        "an atom of one warp whose A and B are whole 8x8 matrices of 16-bit rows in registers",
        "ldmatrix does not feed this atom; use plain loads, or descriptors",
    ),
    "suggest-dtype": (
        LayoutError,
        "{access} with elements of {own}, for a tile of {dtype}",
        "accesses with elements of the tile's width",
        "build the copies with the tile's dtype",
    ),
    "suggest-smem": (
        LayoutError,
        "tile {tile} of {dtype} with these accesses",
        "a plain, swizzled, F2 or padded layout without bank conflicts",
        "print bank_conflicts of each access to see which lanes collide, and change that copy",
    ),
    "solver-accesses": (
        LayoutError,
        "no accesses",
        "at least one TiledCopy or Access to shared memory",
        "pass the copies that write and read the tile",
    ),
    "solver-layout": (
        LeafTypeError,
        "{layout}",
        "a plain Layout to start from",
        "pass the layout without its swizzle",
    ),
    "access-subject": (
        LeafTypeError,
        "{value!r} ({type})",
        "a TiledCopy or an Access",
        "build one with make_tiled_copy, or Access(tv, bits, dtype)",
    ),
    "access-layout": (
        LayoutError,
        "{access} without a layout",
        "the layout of the tensor that is accessed",
        "pass it as the next argument",
    ),
    "access-width": (
        LayoutError,
        "{bits} bits for elements of {dtype}",
        "accesses of {widths} bits",
        "split the access: wider vectors take several accesses",
    ),
    "access-bits": (
        LayoutError,
        "addresses without the width of an access",
        "bits= of what each lane touches",
        "pass bits=32, 64 or 128",
    ),
    "access-lanes": (
        LayoutError,
        "{count} addresses",
        "at least one byte address of 0 or more, and one for each of {most} lanes at most",
        "ask about one warp at a time; None stands for a lane without part",
    ),
    "access-tile": (
        LayoutError,
        "accesses {tv} and a tile {layout}",
        "indices below the size of the tile",
        "shrink the access layout, or pass the whole tile",
    ),
    "access-vector": (
        LayoutError,
        "{layout}: an access of {count} elements by thread {thread} starts at offset {start}, and "
        "its element {value} is at offset {offset}",
        "elements of one access side by side",
        "use a narrower copy atom, a layout that is contiguous along the values, or a swizzle "
        "whose base keeps {count} elements together",
    ),
    "access-aligned": (
        LayoutError,
        "{layout}: an access of {count} elements starts at offset {start}",
        "starts that are multiples of {count}",
        "pad the strides to multiples of {count}, or use a narrower copy atom",
    ),
    "access-space": (
        LayoutError,
        "{op} for {space}",
        "an instruction whose lanes address {space}",
        "pass the copy that reads or writes it; bulk and TMA copies have no addresses of lanes",
    ),
    "vector-sizes": (
        LayoutError,
        "{layouts}",
        "layouts of one size",
        "pass the tiles that are copied onto each other",
    ),
    "vector-dtype": (
        LayoutError,
        "{layouts} without a dtype",
        "the element type",
        'pass dtype="f16", or a width in bits',
    ),
    "occupancy-arch": (
        LayoutError,
        "{arch}",
        "one of {known}",
        "add a row to DEVICES for another architecture",
    ),
    "occupancy-range": (
        LayoutError,
        "{value} {what}",
        "{least} to {most}",
        "use smaller blocks or tiles, or fewer registers",
    ),
}


def refusal(code: str, *, operation: str, where: str | None = None, **facts: object) -> CuteError:
    """Return the error of `code`, ready to raise.

    Args:
        code: a key of `WORDINGS`.
        operation: the public name that the user called, first in the message.
        where: "file.py:line" in kernels, else nothing.
        facts: the values that the wording names.

    Raises:
        KeyError: the code is not in `WORDINGS`, or a fact that its wording names is missing.

    """
    kind, given, required, fix = WORDINGS[code]
    shown = {key: format_mode(value) if key == "mode" else value for key, value in facts.items()}
    parts = (text.format(**shown) for text in (given, required, fix))
    message = "{}: given {}; required: {}; fix: {}".format(operation, *parts)
    if where is not None:
        message += f" ({where})"
    return kind(message, code, {"operation": operation, **facts})


def format_mode(path: object) -> str:
    """Return a mode path as text: `(1, 0)` is `1.0`, `()` is `the whole layout`.

    >>> format_mode((1, 0)), format_mode(2), format_mode(())
    ('1.0', '2', 'the whole layout')
    """
    if isinstance(path, tuple):
        return ".".join(str(step) for step in path) if path else "the whole layout"
    return str(path)
