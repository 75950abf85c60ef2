"""A small expression language over the layout algebra, for the command line.

    composition((6,2):(8,2), (4,3):(3,1))       functions of cute_py, by name
    zipped_divide((128,64):(64,1), (8:1, _))    tilers: tuples of layouts, integers and _
    ((4,8):(8,1))(2,3)   Sw<3,4,3>(513)         layouts and maps applied to coordinates
    coalesce((2,(1,6)):(1,(6,2)))[0]            modes
    (4,8):(8,1) o (2,2):(1,2)                   composition, as an operator
    mma(SM80_16x8x8_F32F16F16F32_TN, (2,2,1))   a TiledMMA: an atom, how many, and the tile
    copy(UniversalCopy<128>, (32,4):(4,1), (1,8), bits=16)   a TiledCopy: threads and values
    make_tiled_copy(Copy_Atom(UniversalCopy<128>, 16), (32,4):(4,1), (1,8))   the same, as in Python
    cute.composition(cute.Layout((6,2), (8,2)), 4)   any of them as Python spells it
    substitute((M,8):(8,1), M=4)                numbers for declared symbols
    tv(((4,8),2):((16,1),8), (8,8))             the picture of a thread-value layout over a tile
    bank_conflicts(copy(...), (8,64):(64,1))    the wavefronts of a TiledCopy to shared memory
    suggest_smem_layout((64,64), 16, 1, (copy(...),))   a layout without bank conflicts

Layouts are written as `parse_layout` reads them. The text is evaluated while it is read: no name
reaches Python except through the table of functions, and the limits below keep values small.
"""

from __future__ import annotations

import cute_py
from cute_py.errors import CuteError, completions, suggestion
from cute_py.layout import Mapped
from cute_py.layout.algebra.composition import composition
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.composed import ComposedLayout
from cute_py.layout.layout import Layout
from cute_py.layout.notation.parse import Notation
from cute_py.layout.tuples import _, leaves, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cute_py.layout.notation.parse_tokens import Token, Value
    from cute_py.layout.types import Leaf

MAX_EXPRESSION = 1 << 13  # characters
MAX_INTEGER = 1 << 63  # magnitude
MAX_LEAVES = 1 << 12  # of one value
MAX_RANK = 1 << 10  # modes that one call may append, and the modes that a basis may name
MAX_ELEMENTS = 1 << 24  # coordinates of an operand that is enumerated
SHOWN = 256  # entries of an array that are written out

# Names that the table leaves out, and why.
LEFT_OUT = {
    "ArrayEngine": "a class over arrays, which the language does not have",
    "Engine": "a class over arrays",
    "Memory": "a class over arrays",
    "PackedEngine": "a class over arrays",
    "Proof": "a class; prove_equal and the like make its values",
    "SymInt": "a class; sym makes its values",
    "Underscore": "a class; its only value is _",
    "coordinates": "a generator",
    "parse_layout": "takes a text; layouts are written as they are",
    "transform_leaf": "takes a Python function",
}
# The modules whose public names are functions of the language. Those of the first read extents and
# strides. Those of the second may enumerate all coordinates or take memory for them: the size of
# their operands is limited.
_CLOSED = (
    "integers.symbols layout.tuples layout.basis layout.coords layout.layout layout.build "
    "layout.queries layout.modes layout.composed layout.bits.swizzle layout.algebra.coalesce "
    "layout.algebra.common layout.algebra.complement layout.algebra.composition "
    "layout.algebra.divide layout.algebra.explain layout.algebra.inverse layout.algebra.product "
    "layout.algebra.recast layout.cutlass2.classical layout.cutlass2.tensorop"
)
_ENUMERATED = (
    "integers.ints layout.offsets layout.properties layout.algebra.fit layout.algebra.proofs "
    "layout.bits.f2 layout.bits.f2_layout layout.bits.f2_convert tensor.engine tensor.tensor "
    "tensor.views"
)


def _public(modules: str) -> frozenset[str]:
    """Return the public names of modules that the language has."""
    homes = {**cute_py._HOME, **cute_py.cutlass2._HOME}
    names = {name for module in modules.split() for name in homes[module].split()}
    return frozenset(names - {*LEFT_OUT, "_"})


# How instructions begin, and functions of them: Python spells the short ones otherwise.
_ATOMS = (*[f"SM{digit}" for digit in range(10)], "Universal", "DefaultCopy", "AutoVectorizing")
TILED = ("mma", "copy", "make_tiled_mma", "make_tiled_copy", "Copy_Atom")
OF_ATOMS = frozenset((*TILED, "tv", "bank_conflicts", "suggest_smem_layout"))
OWN = OF_ATOMS | {"substitute"}  # whose operands the language spells otherwise than Python
TEXTS = (*TILED, "sym")  # that take a text, the name of an instruction or a symbol
PACKAGES = ("analysis", "atoms", "cutlass2")  # that Python may write before a name
BY_EXTENTS = _public(_CLOSED) | {"make_fragment_like"}  # which only lays out what others fill
BY_COORDINATES = _public(_ENUMERATED) - BY_EXTENTS
CONSTANTS = ("GenColMajor", "GenRowMajor", "LayoutLeft", "LayoutRight")
_WORDS = {"true": True, "false": False}

WORDINGS = {
    "expression-name": """ParseError
        the name {name!r} at position {position}, which the language does not have
        a function, an instruction, a constant such as LayoutRight, or a declared symbol
        {hint}
        {marked}""",
    "expression-limit": """ParseError
        {given} at position {position}
        {limit}, so that the command line answers at once
        use cute_py from Python for larger ones
        {marked}""",
}


def evaluate(text: str, symbols: Mapping[str, Leaf] | None = None) -> Value:
    """Return the value of an expression.

    Args:
        text: the expression, at most 8192 characters.
        symbols: the values of further names, `{"M": sym("M")}`.

    Raises ParseError, with `facts["position"]`, for malformed text, calls with wrong arguments, and
    values beyond the limits of this module; and any error that the functions raise.

    >>> print(evaluate("composition((6,2):(8,2), (4,3):(3,1))"))
    ((2,2),3):((24,2),8)
    >>> evaluate("((4,8):(8,1))(2,3)"), evaluate("size((2,(3,4)))")
    (19, 24)
    >>> evaluate("complemnt(4:2, 64)")
    Traceback (most recent call last):
    ...
    cute_py.errors.ParseError: eval: given the name 'complemnt' at position 0, ...
    """
    return Expression(text, "eval", symbols, MAX_EXPRESSION).whole()


def functions() -> list[str]:
    """Return the names of the functions of the language, sorted.

    >>> "composition" in functions(), "coordinates" in functions()
    (True, False)
    """
    return sorted((BY_EXTENTS | BY_COORDINATES | OF_ATOMS) - set(CONSTANTS))


def show(value: Value) -> str:
    """Return a value as the command line prints it: CuTe notation, true, false and none.

    >>> show((Layout(4, 1), (2, True), None))
    '(4:1,(2,true),none)'
    """
    if value.__class__ is list and len(value) > SHOWN:
        return _shortened_list(value, len(value))
    if isinstance(value, (tuple, list)):
        return f"({','.join([show(part) for part in value])})"
    if value is None or value.__class__ is bool:
        return str(value).lower()
    if hasattr(value, "tolist"):
        return _show_array(value)
    return str(value)


def _show_array(values: Value) -> str:
    flat = values.reshape(-1)
    if flat.size <= SHOWN:
        return show(values.tolist())
    return _shortened_list(flat[:SHOWN].tolist(), flat.size)


def _shortened_list(values: list[Value], count: int) -> str:
    first = ",".join([show(entry) for entry in values[:SHOWN]])
    return f"({first},...) ({count} entries)"


# -- the table of names


def _value(name: str) -> Value:
    return globals()[f"_{name}"] if name in OWN else getattr(cute_py, name)


def _mma(atom: Value, atoms: Value = (1, 1, 1), tile: Value = (_, _, _)) -> Value:
    from cute_py.tiled.tiled_mma import make_tiled_mma

    return make_tiled_mma(atom, atoms, tile)


def _copy(op: Value, threads: Value = None, values: Value = None, bits: int = 16) -> Value:
    from cute_py.atoms.copy import Copy_Atom
    from cute_py.tiled.tiled_copy import make_tiled_copy

    atom = Copy_Atom(op, bits)
    if threads is None and values is None:
        return atom
    return make_tiled_copy(atom, *[1 if x is None else x for x in (threads, values)])


def _make_tiled_mma(
    atom: Value, atom_layout_mnk: Value = (1, 1, 1), permutation_mnk: Value = (_, _, _)
) -> Value:
    return _mma(atom, atom_layout_mnk, permutation_mnk)


def _make_tiled_copy(atom: Value, thr_layout: Value = 1, val_layout: Value = 1) -> Value:
    from cute_py.tiled.tiled_copy import make_tiled_copy

    return make_tiled_copy(atom, thr_layout, val_layout)


def _Copy_Atom(op: Value, dtype: int) -> Value:
    return _copy(op, bits=dtype)


def _tv(tv: Value, tile: Value) -> Value:
    from cute_py.viz.cells import TileTV

    return TileTV(tv, tile)


def _bank_conflicts(
    access: Value, smem_layout: Value = None, bits: Value = None, side: Value = None
) -> Value:
    from cute_py.analysis.banks import bank_conflicts

    return bank_conflicts(access, smem_layout, bits=bits, side=side)


def _substitute(x: Value, **values: Value) -> Value:
    return cute_py.substitute(x, values)


def _suggest_smem_layout(tile: Value, bits: int, major: int, accesses: Value) -> Value:
    from cute_py.analysis.solver import suggest_smem_layout

    return suggest_smem_layout(tile, bits, major, wrap(accesses)).layout


# -- the language: an extension of the notation


class Expression(Notation):
    """The notation with functions, evaluation, modes and composition."""

    __slots__ = ()

    def named(self) -> Value:
        """Read what begins with a name, `cute.` before it: also that of an instruction."""
        if self.token.text == "cute":
            self.unqualified()
        text = self.token.text
        return (
            self.atom() if text.startswith(_ATOMS) and text not in self.symbols else super().named()
        )

    def unqualified(self) -> None:
        """Step over `cute.` and `cute.atoms.`, which Python writes before a name."""
        name = self.token
        for known in (("cute",), PACKAGES):
            follower = self._scan(self.token.end)
            if self.token.text in known and follower.kind == ".":
                self.advance()
                self.advance()
        if self.token.kind != "name":
            raise self.fail("a name after 'cute.'", name)

    def atom(self) -> Value:
        """Read `SM61_DP4A` or `UniversalCopy<128>`, an MMA atom or the instruction of a copy."""
        from cute_py.atoms import registry

        name = self.advance()
        text = name.text
        if self.token.kind == "<" and self.adjacent():
            self.open()
            while self.token.kind in ("number", "name", ",", "-"):
                self.advance()
            text = self.text[name.start : self.close().end]
        if registry.has(name.text):
            return registry.get(text)
        try:
            return registry.get_copy(text)
        except CuteError as error:
            if error.code != "copy-unknown":
                raise
        raise self.unnamed(name, [*registry.names(), *registry.copy_names()], "see cute-py atoms")

    def reference(self, name: Token) -> Value:
        """Read the arguments of a function and call it, or return the value of a name."""
        calls = self.token.kind == "("
        if name.text in _WORDS and not calls:
            return _WORDS[name.text]
        if name.text in ("min", "min_") and calls:
            return super().reference(name)
        if name.text not in BY_EXTENTS | BY_COORDINATES | OF_ATOMS:
            known = [*functions(), *CONSTANTS, *_WORDS]
            raise self.unnamed(name, known, "see cute-py functions")
        if name.text in CONSTANTS:
            return _value(name.text)
        if not calls:
            raise self.fail(f"'(' and the operands of {name.text}")
        return self.call(name, _value(name.text))

    def unnamed(self, name: Token, known: list[str], other: str) -> CuteError:
        """Return the refusal of an unknown name, with similar names in its place as repairs."""
        from difflib import get_close_matches

        begun = [each for each in known if each[:4] == name.text[:4]] or known  # of a thousand
        close = get_close_matches(name.text, begun, 3, 0.5)
        repairs = tuple([self.spliced(name.start, name.end, each) for each in close])
        if name.text[0].isupper() and name.text[1:].isdecimal() | (len(name.text) == 1):
            symbol = f"sym('{name.text}')"
            repairs = (self.spliced(name.start, name.end, symbol),)
            other = f"write {symbol}, or declare it: --symbol {name.text} at the command line"
            return self.refuse(
                "expression-name", name, name=name.text, hint=other, expressions=repairs
            )
        hint = completions(name.text, known) or suggestion(name.text, close, 0.5) or other
        return self.refuse("expression-name", name, name=name.text, hint=hint, expressions=repairs)

    def spliced(self, start: int, end: int, part: str) -> str:
        """Return the text with a part in place of what is from start to end."""
        return self.text[:start] + part + self.text[end:]

    def call(self, name: Token, function: Callable[..., Value]) -> Value:
        """Read the arguments of `function` and return its value."""
        args, named = self.arguments(function)
        rank = self.bind(name, function, args, named).get("up_to_rank")
        if rank.__class__ is int and rank > MAX_RANK:
            raise self.beyond(name, f"rank {rank}", f"ranks up to {MAX_RANK}")
        for operand in (*args, *named.values()):
            self.check_operand(name, function, operand)
        try:
            return self.checked(self.apply(name, function, args, named), name)
        except CuteError as error:
            repairs: Value = error.facts.get("expressions", ())
            if error.facts.get("operation") == name.text:  # of the whole call
                place = name.start, self.last.end
                error.facts["expressions"] = tuple([self.spliced(*place, x) for x in repairs])
            raise

    def postfix(self, value: Value) -> Value:
        """Read `x(2,3)` and `x[0]`, without a space in between."""
        while self.adjacent() and (callable(value) or value.__class__ is tuple):
            opening = self.token
            if opening.kind == "[":
                path = self.brackets(grouped=False)
                value = self.apply(opening, _mode, [value, path], {})
            elif opening.kind != "(":
                break
            elif callable(value):
                args, named = self.arguments(value)
                value = self.checked(self.apply(opening, value, args, named), opening)
            else:
                raise self.fail("a layout in parentheses before its coordinate, ((4,8):(8,1))(2,3)")
        return value

    def applied(self, outer: Value, inner: Value, sign: Token) -> Value:
        """Return `outer o inner`, their composition."""
        if not callable(outer):
            raise self.fail("a layout or a map on both sides of 'o'", sign)
        return self.checked(self.apply(sign, composition, [outer, inner], {}), sign)

    def number(self) -> int:
        """Read a number of at most 64 bits."""
        token = self.token
        return int(self.checked(super().number(), token))

    def joined(self, left: Value, sign: Token) -> Value:
        """Return the result of an operator, if it is within the limits."""
        return self.checked(super().joined(left, sign), sign)

    # -- limits

    def check_operand(self, name: Token, function: Callable[..., Value], operand: Value) -> None:
        """Refuse a text, and a layout with too many coordinates to enumerate."""
        if operand.__class__ is str and name.text not in TEXTS:
            raise self.fail(f"layouts and integers as operands of {name.text}", name)
        if name.text in (*BY_EXTENTS, *TILED):
            return
        size = operand.size() if isinstance(operand, Mapped) else 0
        if size.__class__ is int and size > MAX_ELEMENTS:
            raise self.beyond(name, f"{size} elements", f"at most {MAX_ELEMENTS} elements")

    def checked(self, value: Value, token: Token) -> Value:
        """Return a value; refuse it if it is beyond the limits."""
        for count, leaf in enumerate(_leaves(value)):
            if count == MAX_LEAVES:
                raise self.beyond(token, f"over {count} leaves", f"at most {count} leaves")
            if leaf.__class__ is int and abs(leaf) > MAX_INTEGER:
                raise self.beyond(
                    token, f"the integer {_shortened(leaf)}", "magnitudes up to 2**63"
                )
            if leaf.__class__ is ScaledBasis and max(leaf.path, default=0) >= MAX_RANK:
                raise self.beyond(token, f"mode {max(leaf.path)}", f"modes below {MAX_RANK}")
        return value

    def beyond(self, token: Token, given: str, limit: str) -> CuteError:
        """Return the refusal of a value beyond the limits of the language."""
        return self.refuse("expression-limit", token, given=given, limit=limit)


def _mode(value: Value, path: tuple[Value, ...]) -> Value:
    """Return the mode at a path, of a layout or of a tuple."""
    for step in path:
        value = value[step]
    return value


def _leaves(value: Value) -> Iterator[Value]:
    """Yield the leaves of int tuples, tilers, layouts and composed layouts."""
    if value.__class__ is Layout:
        yield from value._s
        yield from value._d
    elif value.__class__ is ComposedLayout:
        yield value.offset
        yield from _leaves(value.inner)
        yield from _leaves(value.outer)
    elif value.__class__ is tuple:
        for leaf in leaves(value):
            yield from _leaves(leaf)
    else:
        yield value
        yield getattr(value, "value", None)


def _shortened(value: int) -> str:
    return f"of {value.bit_length()} bits" if value.bit_length() > 128 else str(value)
