"""Calls of a function of arrays that were answered before, found by exact facts.

A known call of a kernel is found by `quick`; this is the same for a function that prepares such a
call. What an answer may depend on is its key:

- of an array what its library names as its facts (type, shape, strides, device, lazy negation),
  what autograd and lazy conjugation say of it, whether it may be written, and `address % 16`;
- of a run-time number what the function says that matters;
- of anything else its type and value, or its identity if it can never change.

What depends on addresses, contents or the moment is not in the key: an answer asks that each time.
For the types of a call there is one function, made as a tree when such a call is first kept.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from functools import lru_cache
from math import copysign

from cute_py.calls.arrays import LIBRARIES, LINE, READERS, bare
from cute_py.calls.frozen import is_frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any

    # (all arguments, the addresses of the arrays and the numbers among them) -> the result, or None
    # to look closer
    Answer = Callable[[tuple[Any, ...], tuple[int, ...], tuple[float, ...]], Any]
    from cute_py.calls.quick import Calls

    Launch = tuple[Callable[[], bool], Callable[[Sequence[Any]], None]]
    Known = dict[Hashable, tuple[Answer, tuple[Any, ...]]]

MOST = 1024  # calls that are kept; all are dropped when there are more
_PLAIN = frozenset({int, bool, str, bytes})
_FLAGS = {"torch": ("x.requires_grad", "x.is_conj()")}  # a launch depends on neither
# how the address v of NumPy's array x is read, and its facts
_NUMPY = (
    "v = x.__array_interface__['data'][0]",
    ("x.dtype", "x.shape", "x.strides", "x.flags.writeable"),
)


class Memo:
    """The answers of a function by the facts of its arguments, which are given by position.

    `again(*arguments)` returns the result of a known call, None where the call is not known.
    """

    __slots__ = ("again", "arrays", "count", "kept", "numbers")

    def __init__(self, arrays: int, numbers: Mapping[int, str]) -> None:
        """Know no call.

        Args:
            arrays: so many arguments come first that are arrays, or None.
            numbers: place of a run-time number -> what matters of it, an expression of x.

        """
        self.arrays = arrays
        self.numbers = {place: _tree(text) for place, text in numbers.items()}
        self.clear()

    def clear(self) -> None:
        """Forget all calls."""
        self.kept: dict[tuple[type, ...], tuple[Callable[..., Any], Callable[..., Any], Known]] = {}
        self.count = 0
        self.again: Callable[..., Any] = self.other  # what the last call was found by

    def other(self, *args: Any) -> Any:  # noqa: ANN401
        """Answer a known call of other types than those of the call before."""
        found = self.kept.get(self._types(args))
        if found is None:
            return None
        self.again = found[0]
        return found[0](*args)

    def keep(self, args: tuple[Any, ...], answer: Answer) -> None:
        """Keep the answer to calls like this one, unless a key leaves out what it depends on."""
        if not all(self._is_exact(place, x) for place, x in enumerate(args)):
            return
        if self.count >= MOST:
            self.clear()
        types = self._types(args)
        if types not in self.kept:
            known: Known = {}
            self.kept[types] = *_functions(types, self, known), known
        again, key_of, known = self.kept[types]
        key = key_of(*args)
        self.count += key not in known
        known[key] = answer, args[self.arrays :]  # what is known by identity stays alive
        again.__globals__["recent"] = None, None

    def _types(self, args: tuple[Any, ...]) -> tuple[type, ...]:
        """Return the types that a function is made for; every number counts as a float."""
        return tuple([float if i in self.numbers else type(x) for i, x in enumerate(args)])

    def _is_exact(self, place: int, x: Any) -> bool:  # noqa: ANN401
        if place in self.numbers:
            return type(x) in (int, float)
        if place < self.arrays and x is not None:
            return _is_numpy(type(x)) or (type(x) in READERS and type(bare(x)) in LIBRARIES)
        return is_frozen(x)


def _is_numpy(kind: type) -> bool:
    return (kind.__module__, kind.__name__) == ("numpy", "ndarray")


def launch_of(calls: Calls, args: tuple[Any, ...]) -> Launch | None:
    """Return (whether it still holds, the launch) of a kernel's call, if the kernel knows it."""
    alike = calls.kept.get(tuple(map(type, args)))
    if alike is None:
        return None
    _again, key_of, known = alike
    found = known.get(key_of(args))
    return None if found is None else found[:2]


def address_reader(kind: type) -> Callable[[Any], int]:
    """Return the function that gives the address of a library's array."""
    address, _facts = _array(kind)
    body = [*_statements(address), ast.Return(_tree("v"))]
    made: Callable[[Any], int] = _compiled({"read": (["x"], body)}, {})["read"]
    return made


# -- the functions, as trees

_FIND = """
last, found = recent
if key != last:
    found = known.get(key)
    if found is None:
        return None
    recent = key, found
"""


def _functions(
    types: tuple[type, ...], memo: Memo, known: Known
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the function that answers calls of these types, and the one that gives their key.

    The call before is remembered: comparing two keys costs a sixth of hashing one.
    """
    scope: dict[str, Any] = {"copysign": copysign, "known": known, "other": memo.other}
    scope["recent"] = None, None
    names = [f"x{i}" for i in range(len(types))]
    tests: list[ast.expr] = []
    reads: list[ast.stmt] = []
    key: list[ast.expr] = []
    addresses: list[ast.expr] = []
    for i, (x, kind) in enumerate(zip(names, types, strict=True)):
        if i in memo.numbers:
            reads += _statements(
                "if x.__class__ is not float and x.__class__ is not int: return", x=x
            )
            key.append(_renamed(memo.numbers[i], x=x))
            continue
        if kind is type(None):
            tests.append(_tree("x is not None", x=x))
            continue
        scope[f"Type{i}"] = kind
        tests.append(_tree("x.__class__ is not Type", x=x, Type=f"Type{i}"))
        if i >= memo.arrays:
            key.append(_tree(_static(kind), x=x))
            continue
        scope[f"read{i}"] = READERS.get(kind)
        address, facts = _array(kind)
        names_of = {"x": x, "v": f"v{i}", "f": f"f{i}", "read": f"read{i}"}
        reads += _statements(address, **names_of)
        key += [_tree(text, **names_of) for text in (*facts, f"v % {LINE}")]
        addresses.append(_tree("v", **names_of))
    given = [_tree("x", x=x) for x in names]
    unlike = ast.If(
        ast.BoolOp(ast.Or(), [*tests, ast.Constant(False)]),
        [ast.Return(ast.Call(_tree("other"), given, []))],
        [],
    )
    parts = ast.Tuple(key, ast.Load())
    found = ast.Assign([ast.Name("key", ast.Store())], parts)
    numbers = [given[i] for i in memo.numbers]
    parts_of: list[ast.expr] = [ast.Tuple(x, ast.Load()) for x in (given, addresses, numbers)]
    answer = ast.Return(ast.Call(_tree("found[0]"), parts_of, []))
    again = [ast.Global(["recent"]), unlike, *reads, found, *_statements(_FIND), answer]
    bodies = {"again": (names, again), "key": (names, [*reads, ast.Return(parts)])}
    _compiled(bodies, scope)
    return scope["again"], scope["key"]


def _array(kind: type) -> tuple[str, tuple[str, ...]]:
    """Return how the address v of an array x is read, and its facts, as Python's notation."""
    if _is_numpy(kind):
        return _NUMPY
    library = LIBRARIES.get(kind)
    if library is None:  # to be read as another type
        return "f, v = read(x)", ("f",)
    return f"v = {library.address}", (*library.facts, *_FLAGS.get(library.name, ()))


def _static(kind: type) -> str:
    """Return what tells a value of a type from others."""
    if kind is float:
        return "(x, copysign(1.0, x))"
    return "x" if kind in _PLAIN else "id(x)"


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _statements(text: str, **names: str) -> list[ast.stmt]:
    """Return the trees of fixed text, with other names for those in it."""
    return [_renamed(x, **names) for x in _parsed(text).body]


def _tree(text: str, **names: str) -> ast.expr:
    """Return the tree of an expression, with other names for those in it."""
    (found,) = _statements(text, **names)
    assert isinstance(found, ast.Expr)
    return found.value


def _renamed(tree: Any, **names: str) -> Any:  # noqa: ANN401  (a node of any kind)
    made = deepcopy(tree)
    for node in ast.walk(made):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return made


def _compiled(
    bodies: dict[str, tuple[list[str], list[ast.stmt]]], scope: dict[str, Any]
) -> dict[str, Any]:
    """Define functions (name, parameters, body) in a scope, and return it."""
    module = ast.Module([], [])
    for name, (parameters, body) in bodies.items():
        given = ast.arguments([], [ast.arg(x) for x in parameters], None, [], [], None, [])
        made = ast.FunctionDef(name, given, body, [], None, None)
        if hasattr(made, "type_params"):  # since Python 3.12
            made.type_params = []
        module.body.append(made)
    exec(compile(ast.fix_missing_locations(module), "<known calls>", "exec"), scope)
    return scope
