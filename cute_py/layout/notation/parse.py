"""`parse_layout`: the layout that a text describes, in any library's notation.

    chain   := infix ("o" infix)*          Sw<3,4,3> o 0 o (8,64):(64,1); ptr[16b](0x7f00) o (_4,_8)
    infix   := operand (sign operand)*     binding from loose to tight:  :   @   + -   * // %
    operand := number | "_8" | "_" | "?" | name | tuple | call | Sw<b,m,s> | pointer | C++ type
    tuple   := "(" chain ("," chain)* ")"  also in [ ] or < >, also with ";": tilers

This module reads the notation and Python's repr; `parse_types` reads the names of C++ types,
`parse_pointers` what tensors print before their layout. Sources: the print functions of cutlass
include/cute (layout, layout_composed, swizzle, int_tuple, numeric/integral_constant,
numeric/arithmetic_tuple, pointer*, tensor_impl); the outputs shown in the documentation of CuTe DSL
(framework_integration, dsl_dynamic_layout, notebooks/tensor.ipynb); pycute layout.py, swizzle.py.
"""

from __future__ import annotations

from functools import reduce

from cute_py.errors import CuteError, shorten
from cute_py.integers import ints
from cute_py.integers.symbols import SymInt, sym, terms_of
from cute_py.layout.basis import E, ScaledBasis
from cute_py.layout.bits.f2 import F2Map
from cute_py.layout.bits.f2_layout import F2Layout
from cute_py.layout.bits.swizzle import Swizzle
from cute_py.layout.composed import ComposedLayout, make_composed_layout
from cute_py.layout.layout import Layout
from cute_py.layout.notation.parse_pointers import (
    Pointer,
    is_pointer_name,
    read_ir,
    read_pointer,
    read_tensor,
    swizzled,
)
from cute_py.layout.notation.parse_tokens import MAX_NESTING, MAX_TEXT, Reader, Token, number
from cute_py.layout.notation.parse_types import (
    read_f2_layout,
    read_f2_map,
    read_pycute_swizzle,
    read_swizzle,
    read_type,
    static_int,
)
from cute_py.layout.notation.tables import is_table, require_same
from cute_py.layout.tuples import MAX_DEPTH, _, leaves, show, wrong_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cute_py.layout.notation.parse_tokens import Value
    from cute_py.layout.types import Alike, Leaf

MAX_TERMS = 256  # of a symbolic sum

_SHAPE, _BASIS = 1, 2
_BINDING = {":": _SHAPE, "@": _BASIS, "+": 3, "-": 3, "*": 4, "//": 4, "%": 4}
_ARITHMETIC = {"+": ints.add, "-": ints.sub, "*": ints.mul, "//": ints.div, "%": ints.mod}


def parse_layout(text: str, symbols: Mapping[str, Leaf] | None = None) -> Alike:
    """Return the layout that `text` describes.

    Args:
        text: what CuTe C++, CuTe DSL, pycute or this project print: `(4,8):(8,1)`,
            `Layout((4, 8), (8, 1))`, `Layout<Shape<_4,_8>, Stride<_8,_1>>`,
            `Sw<3,4,3> o 0 o (8,64):(64,1)`, `tensor<ptr<f32, gmem> o (?,8):(8,1)>`. A printed table
            may follow the layout; `fit` reads a table without one.
        symbols: the values of the names in the text, `{"M": sym("M")}`.

    Returns:
        A Layout, ComposedLayout or F2Layout, or the map of `Sw<3,4,3>` alone. Of a tensor the
        layout is kept, and its pointer or first coordinate is dropped. `_8` is 8. Each `?` is a new
        symbol s0, s1, ..., a multiple of 8 for `?{div=8}`, at least 1 in a shape and at least 0
        in a stride. A swizzle of a pointer acts on byte addresses; it is returned as the swizzle of
        offsets in elements that has the same effect, which needs the width (`ptr[16b]`) and the
        address.

    Law: parse_layout(str(x)) == x == parse_layout(repr(x)), of layouts with symbols where these are
    given. Raises ParseError with `facts["position"]` where the text cannot be read; LayoutError
    where it is not a valid layout, such as (4,8):1, or where the table below it says otherwise.

    >>> print(parse_layout("((_2,_4),_8):((_1,_16),_2)"), parse_layout("(?{div=8},4):(1@1,1@0)"))
    ((2,4),8):((1,16),2) (s0,4):(1@1,1@0)
    >>> print(parse_layout("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)"))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    >>> parse_layout("(4,8):(8,1")
    Traceback (most recent call last):
    ...
    cute_py.errors.ParseError: parse_layout: given the end of the text at position 10, ...
    """
    if symbols is not None and not hasattr(symbols, "keys"):
        wanted = "a dict from names to sizes or symbols"
        raise wrong_argument("parse_layout", symbols, wanted, 'write {"M": sym("M")}')
    notation = Notation(text, "parse_layout", symbols)
    value = notation.whole()
    if _is_int_tuple(value):
        raise notation.fail("':' and a stride")
    if not callable(value):
        raise notation.fail("one layout", notation.first)
    return value


def parse(text: str, symbols: Mapping[str, Leaf] | None = None) -> Value:
    """Return what `text` describes: a layout as `parse_layout` reads it, an int tuple, a coordinate
    with `_`, or a tiler, which is a tuple of these.

    >>> parse("(2,(3,_))"), parse("[4:1;8:1]")
    ((2, (3, _)), (Layout(4, 1), Layout(8, 1)))
    """
    return Notation(text, "parse", symbols).whole()


class Notation(Reader):
    """The recursive descent over the grammar above; every method returns the value that it read."""

    __slots__ = ("first", "least", "symbols", "tensor", "unknown")

    def __init__(
        self,
        text: str,
        operation: str,
        symbols: Mapping[str, Leaf] | None = None,
        limit: int = MAX_TEXT,
    ) -> None:
        super().__init__(text, operation, limit)
        given = symbols or {}
        self.symbols = {name: ints.normalize(given[name], operation) for name in given}
        self.first = self.token
        self.least = 1  # of a `?` here: 1 in shapes, 0 in strides and offsets
        self.unknown = 0  # how many `?` were read
        self.tensor = False  # whether a pointer was read: its data may follow

    def whole(self) -> Value:
        """Read the whole text."""
        try:
            value = self.chain()
        except CuteError as error:
            shorten(error)  # of nested text, the traceback would be hundreds of lines
            raise
        if any(leaf.__class__ in (Pointer, str) for leaf in leaves(value)):
            raise self.fail("'o' and a layout")
        if self.token.kind == "end" or (self.tensor and self.token.kind in (":", "=")):
            return value
        if callable(value) and _is_table(rest := self.text[self.last.end :]):
            require_same(value, rest)
            return value
        raise self.fail("the end of the text")

    # -- chains: A o offset o B

    def chain(self) -> Value:
        """Read infix expressions joined by `o`."""
        parts, starts = [self.infix(_SHAPE)], [self.last]
        while self.token.kind == "name" and self.token.text == "o":
            if len(parts) > MAX_NESTING:
                raise self.refuse("text-too-deep", self.token, limit=MAX_NESTING)
            starts.append(self.advance())
            parts.append(self.infix(_SHAPE))
        return self.composed(parts, starts[-1]) if len(parts) > 1 else parts[0]

    def composed(self, parts: list[Value], last: Token) -> Value:
        """Return the map of `A o offset o ... o B`, read from the right; `last` is the last `o`."""
        engine = None
        if len(parts) % 2 == 0 and self.is_engine(parts[0]):
            engine = parts.pop(0)
            self.tensor = True
        result = parts.pop()
        if not callable(result):
            raise self.fail("a layout after it", last)
        while parts:
            part = parts.pop()
            if (ints.is_leaf(part) or _is_int_tuple(part)) and parts:
                result = make_composed_layout(parts.pop(), part, result)
            elif part.__class__ is Pointer and parts:
                result = swizzled(self, part, parts.pop(), result)
            else:
                result = self.applied(part, result, last)
        if engine.__class__ is Pointer and engine.swizzle is not None:
            result = swizzled(self, engine, engine.swizzle, result)
        return result

    def is_engine(self, part: Value) -> bool:
        """Return whether `part` is the pointer or coordinate before a tensor's layout."""
        if part.__class__ is Pointer:
            return True
        return _is_int_tuple(part) and (self.tensor or part.__class__ is tuple)

    def applied(self, outer: Value, inner: Value, sign: Token) -> Value:
        """Return `outer o inner` without an offset."""
        if not isinstance(outer, F2Map):
            raise self.fail("an offset: outer o offset o layout", sign)
        return make_composed_layout(outer, 0, inner)

    # -- infix expressions

    def infix(self, loosest: int, grouped: bool = False) -> Value:
        """Read operands joined by signs that bind at least as tightly as `loosest`."""
        left = self.operand(grouped)
        while _BINDING.get(self.token.kind, 0) >= loosest:
            if self.token.kind == ":" and callable(left):
                break  # the data of a tensor follows
            left = self.joined(left, self.advance())
        return left

    def joined(self, left: Value, sign: Token) -> Value:
        """Read the right operand of a sign, and return the value of the operation."""
        if sign.kind == ":":
            if self.token.text == "F2" and _is_int_tuple(left):
                return read_f2_layout(self, left)
            right = self.stride()
            if not (_is_int_tuple(left) and _is_int_tuple(right)):
                raise self.fail("integers, nested alike, on both sides of ':'", sign)
            return Layout(left, right)
        if sign.kind == "@":
            return self.basis(left, sign)
        right = self.infix(_BINDING[sign.kind] + 1, grouped=True)
        if not (ints.is_leaf(left) and ints.is_leaf(right)):
            raise self.fail(f"integers on both sides of {sign.kind!r}", sign)
        if sign.kind in ("//", "%") and ints.is_zero(right):
            raise self.fail("a divisor other than 0 after it", sign)
        value = _ARITHMETIC[sign.kind](left, right)
        if value.__class__ is SymInt and len(terms_of(value)) > MAX_TERMS:
            raise self.fail(f"a sum of at most {MAX_TERMS} terms", sign)
        return value

    def stride(self) -> Value:
        """Read an int tuple in which a `?` may be 0."""
        least, self.least = self.least, 0
        value = self.infix(_BASIS)
        self.least = least
        return value

    def basis(self, left: Value, sign: Token) -> ScaledBasis:
        """Read the mode of `v@j@i`, of which the last is the outermost."""
        mode = number(self.expect("number", "the number of a mode"))
        if not ints.is_leaf(left):
            raise self.fail("an integer before '@'", sign)
        path = left.path if left.__class__ is ScaledBasis else ()
        if len(path) == MAX_DEPTH:
            raise self.refuse("text-too-deep", sign, limit=MAX_DEPTH)
        return ScaledBasis(getattr(left, "value", left), (mode, *path))

    # -- operands

    def operand(self, grouped: bool = False) -> Value:
        """Read an operand and its minus signs; `grouped`: (x) is x here, not a rank-1 tuple."""
        sign, negative = self.token, False
        while self.accept("-"):
            negative = not negative
        kind = self.token.kind
        if kind == "number":
            value: Value = self.number()
        elif kind in ("(", "[", "<"):
            value = self.brackets(grouped or sign.kind == "-")
        elif kind == "name":
            value = self.named()
        elif kind == "?":
            value = self.dynamic()
        elif kind in ("string", '"'):
            value = self.quoted()
        elif kind == "!":
            value = read_ir(self)
        else:
            raise self.fail("a number, a tuple or a layout")
        value = self.postfix(value)
        if sign.kind == "-":
            if not ints.is_leaf(value):
                raise self.fail("a number after it", sign)
            value = ints.neg(value) if negative else value
        return value

    def quoted(self) -> str:
        """Read a text, in quotes of either kind: a token only where IR has no layouts in them."""
        opening = self.advance()
        if opening.kind == "string":
            return opening.text[1:-1]
        while self.token.kind not in ('"', "end"):
            self.advance()
        closing = self.expect('"', "a closing quote")
        return self.text[opening.end : closing.start]

    def number(self) -> int:
        """Read a number."""
        return number(self.advance())

    def postfix(self, value: Value) -> Value:
        """Read what follows an operand; nothing, in the notation."""
        return value

    def brackets(self, grouped: bool) -> Value:
        """Read a tuple, or an expression in parentheses."""
        opening = self.open()
        modes, comma = self.items(opening)
        self.close("',' or '{}'".format({"(": ")", "[": "]"}.get(opening.kind, ">")))
        if opening.kind == "(" and len(modes) == 1 and not comma:
            (mode,) = modes
            if grouped or self.groups(mode):
                return mode
        return tuple(modes)

    def items(self, opening: Token) -> tuple[list[Value], bool]:
        """Read the items between brackets, and return whether they end with a comma."""
        modes: list[Value] = []
        while self.token.kind not in (")", "]", ">"):
            modes.append(self.chain())
            if not (self.accept(",") or (opening.kind != "(" and self.accept(";"))):
                return modes, False
        return modes, bool(modes)

    def groups(self, value: Value) -> bool:
        """Return whether parentheses around `value` only group, which the next token decides."""
        if callable(value):
            return self.token.text == "o" or (self.adjacent() and self.token.kind in ("(", "["))
        return _BINDING.get(self.token.kind, 0) > _SHAPE

    def dynamic(self) -> Leaf:
        """Read `?`, `?{div=8}` or `?{i64 div=8}`: an integer that the text does not give."""
        self.advance()
        multiple = 1
        if self.token.kind == "{" and self.adjacent():
            self.open()
            while self.token.kind == "name":
                if self.advance().text == "div":
                    self.expect("=")
                    multiple = number(self.expect("number", "a number"))
            self.close("a width, 'div=' and a number, or '}'")
        return self.fresh(multiple)

    def fresh(self, multiple: int = 1) -> Leaf:
        """Return a new symbol for an integer that the text does not give."""
        while (name := f"s{self.unknown}") in self.symbols:
            self.unknown += 1
        self.unknown += 1
        offset = self.token.text == "o"
        return sym(name, multiple_of=multiple, min=0 if offset else self.least)

    # -- names

    def named(self) -> Value:
        """Read what begins with a name."""
        name, follower = self.token, self._scan(self.token.end)
        text, opens = name.text, follower.kind
        if text in self.symbols and opens not in ("(", "[", "<", "::"):
            return self.symbols[self.advance().text]
        if text in ("_", "None"):
            self.advance()
            return _ if text == "_" else None
        if (value := static_int(text)) is not None:
            self.advance()
            return value
        if text in ("Sw", "S") and opens == "<":
            return self.swizzle()
        if text.startswith("SW_"):
            return read_pycute_swizzle(self)
        if text == "F2" and opens == "[":
            return read_f2_map(self)
        if text == "tensor" and opens in ("<", "("):
            return read_tensor(self)
        if is_pointer_name(text, opens):
            return self.pointer()
        if opens in ("<", "::") or text in ("struct", "class", "const"):
            return read_type(self)
        return self.reference(self.advance())

    def reference(self, name: Token) -> Value:
        """Read the arguments of a call, or return the value of a name."""
        if self.token.kind != "(":
            raise self.refuse("text-symbol", name, name=name.text)
        function = _CALLS.get(name.text)
        if function is None:
            raise self.fail(f"a layout, or one of the calls {', '.join(_CALLS)}", name)
        return self.call(name, function)

    def swizzle(self) -> Value:
        """Read `Sw<3,4,3>`, which may be the swizzle of a pointer."""
        value = read_swizzle(self)
        if self.token.kind == "name" and self.adjacent():
            return self.pointer(value)
        return value

    def pointer(self, swizzle: Swizzle | None = None) -> Pointer:
        """Read a pointer; the data of a tensor may follow its layout."""
        self.tensor = True
        return read_pointer(self, swizzle)

    # -- calls

    def call(self, name: Token, function: Callable[..., Value]) -> Value:
        """Read the arguments of `function` and return its value."""
        args, named = self.arguments(function)
        self.bind(name, function, args, named)
        return self.apply(name, function, args, named)

    def arguments(self, function: object) -> tuple[list[Value], dict[str, Value]]:
        """Read `(x, y, key=z)`."""
        self.open()
        args: list[Value] = []
        named: dict[str, Value] = {}
        least = self.least
        while self.token.kind != ")":
            self.least = 0 if function is Layout and args else least
            if self.token.kind == "name" and self._scan(self.token.end).kind == "=":
                key = self.advance().text
                self.advance()
                named[key] = self.chain()
            else:
                args.append(self.chain())
            if not self.accept(","):
                break
        self.least = least
        self.close("',' or ')'")
        return args, named

    def bind(
        self,
        name: Token,
        function: Callable[..., Value],
        args: list[Value],
        named: dict[str, Value],
    ) -> dict[str, Value]:
        """Return the arguments by parameter; refuse arguments that do not fit."""
        from inspect import signature

        try:
            return signature(function).bind(*args, **named).arguments
        except TypeError as problem:
            form = _parameters(function)
            raise self.refuse(
                "text-arguments", name, name=name.text, problem=problem, form=form
            ) from None

    def apply(
        self,
        name: Token,
        function: Callable[..., Value],
        args: list[Value],
        named: dict[str, Value],
    ) -> Value:
        """Return the value of a call; operands of the wrong kind are refused at the name."""
        try:
            return function(*args, **named)
        except (CuteError, ImportError):  # a package is missing: the operands are right
            raise
        except Exception as problem:
            raise self.refuse(
                "text-operands",
                name,
                name=name.text,
                operands=", ".join([show(x) for x in (*args, *named.values())]),
                form=name.text + _parameters(function),
            ) from problem


def _parameters(function: Callable[..., Value]) -> str:
    """Return the parameters of a function as Python writes them, without types."""
    from inspect import signature

    accepted = signature(function)
    bare = [p.replace(annotation=p.empty) for p in accepted.parameters.values()]
    return str(accepted.replace(parameters=bare, return_annotation=accepted.empty))


def _minimum(*values: Leaf) -> Leaf:
    return reduce(ints.min_, values)


_CALLS: dict[str, Callable[..., Value]] = {
    "Layout": Layout,
    "ComposedLayout": ComposedLayout,
    "Swizzle": Swizzle,
    "F2Map": F2Map,
    "F2Layout": F2Layout,
    "E": E,
    "ScaledBasis": ScaledBasis,
    "sym": sym,
    "ceil_div": ints.ceil_div,
    "min": _minimum,
    "min_": ints.min_,
}


def _is_int_tuple(x: Value) -> bool:
    return all(ints.is_leaf(leaf) for leaf in leaves(x))


def _is_table(rest: str) -> bool:
    """Return whether `rest` is what print functions put below a layout: a table of its offsets, or
    of the threads and values of a tile.
    """
    return rest.lstrip(" ").startswith(("\n", "over (", ": each cell")) and is_table(rest)
