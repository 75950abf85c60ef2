"""What laws are made of: each part raises `Wrong` with the first place where it fails."""

import ast
import re
from inspect import getsource
from itertools import product
from textwrap import dedent
from traceback import extract_tb
from types import FunctionType

import numpy as np

import cute_py as cute

LAWS = {}  # exercise -> the function that raises Wrong, or what the library raises


class Wrong(Exception):
    """An answer breaks the law of its exercise: the text is the witness, `picture` may show it."""

    def __init__(self, witness, picture=None):
        super().__init__(witness)
        self.picture = picture


def exercise(name):
    """Make a function the law of an exercise."""
    return lambda law: LAWS.setdefault(name, law)


# -- answers


def unanswered(answer, seen=()):
    """Return whether an answer is `...`, or a function with `...` in it or in what it calls."""
    if answer is ... or answer is None:
        return True
    function = getattr(answer, "function", answer)  # that of a kernel
    if not isinstance(function, FunctionType) or function in seen:
        return False
    try:
        nodes = list(ast.walk(ast.parse(dedent(getsource(function)))))
    except (OSError, SyntaxError):
        return False
    places = [x.value for x in nodes if isinstance(x, ast.Expr | ast.Assign | ast.Return)]
    places += [x for place in places if isinstance(place, ast.Tuple) for x in place.elts]
    if any(isinstance(x, ast.Constant) and x.value is ... for x in places):
        return True
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    read = [function.__globals__[name] for name in names if name in function.__globals__]
    own = [each for each in read if each is ... or isinstance(each, FunctionType)]
    return any(unanswered(each, (*seen, function)) for each in own)


# what an error says -> what it means to somebody who meets it for the first time
MEANINGS = {
    r"'Tiled(MMA|Copy)' object has no attribute": "A tiled operation is for all threads: "
    "its get_slice(t) is the view of thread t.",
    r"'Thr(MMA|Copy)' object has no attribute": "The slice of an MMA has partition_A, _B and _C; "
    "that of a tiled copy has partition_S for its source, partition_D for its destination.",
    r"'Copy_Atom' object has no attribute": "An atom is one instruction: make_tiled_copy, "
    "make_tiled_copy_A and the like spread it over threads.",
    r"'NoneType' object|given None": "A function returns nothing here: is a `return` missing?",
    r"given a write of element .* which nothing orders with the write by": "Two threads write one "
    "element: does what a thread writes depend on the thread, and has each element one owner?",
    r"no attribute 'relu'": "cute.maximum(x, 0) is this function.",
}


def said(error, hidden=False):
    """Return what an error says, and what it means; `hidden` leaves out the fix."""
    text = f"{type(error).__name__}: {error}"
    if hidden and "; fix: " in text:
        shown, _, fix = text.partition("; fix: ")
        line = re.search(r" \([^()]*:\d+\)$", fix)
        return f"{shown}{line[0] if line else ''}\nFor a fix, write check(..., hint=True)."
    if not isinstance(error, cute.CuteError):  # which would name the line
        frames = extract_tb(error.__traceback__)
        lines = [x.line for x in frames if not re.search(r"\b(checks|cute_py)\b", x.filename)]
        text += f", in: {lines[-1]}" if lines else ""
    meant = [meaning for pattern, meaning in MEANINGS.items() if re.search(pattern, text)]
    return "\n".join([text, *meant])


def required(x, kind, name):
    """Return an answer of the right kind."""
    if not isinstance(x, kind) or isinstance(x, bool):
        raise Wrong(f"given {str(x)[:80]!r}, of type {type(x).__name__}; required: {name}")
    return x


def a_layout(x):
    """Return an answer that is a layout of numbers."""
    layout = required(x, cute.Layout | cute.ComposedLayout, "a layout")
    if not cute.is_static(layout):
        raise Wrong(f"{layout} has symbols; required: a layout of integers")
    return layout


def numbers(x):
    """Return an answer that is a list of integers: a list, a tuple, a range or an array."""
    values = list(required(x, list | tuple | range | np.ndarray, "a list, a range or an array"))
    for value in values:
        required(value, int | np.integer, "integers in the list")
    return [int(value) for value in values]


def sizes(layout):
    """Return the sizes of a layout's modes."""
    return tuple(cute.size(layout, i) for i in range(cute.rank(layout)))


def offsets(layout, shape, law):
    """Return whether an answer is a layout with the offsets of a law, coordinate by coordinate."""
    try:
        agree(layout, shape, law)
    except Wrong:
        return False
    return True


def agree(layout, shape, law, what="element"):
    """Compare a layout with a function of the coordinates of a shape, coordinate by coordinate."""
    if cute.size(a_layout(layout)) != cute.size(shape):
        raise Wrong(f"{layout} has {cute.size(layout)} elements, not {cute.size(shape)}", layout)
    if len(shape) > 1 and sizes(layout) != shape:
        raise Wrong(f"{layout} has modes of the sizes {sizes(layout)}, not {shape}", layout)
    for reversed_ in product(*map(range, reversed(shape))):
        c = tuple(reversed(reversed_))
        if layout(*c) != law(*c):
            found = f"{what} {c if len(c) > 1 else c[0]} is at {layout(*c)}, and should be at"
            raise Wrong(f"{layout}: {found} {law(*c)}", layout)


def once(layout, count):
    """Require that a layout uses each of `count` offsets once."""
    if cute.size(layout) != count:
        raise Wrong(f"{layout} has {cute.size(layout)} elements, not {count}")
    first = {}
    for i in range(count):
        if layout(i) in first:
            witness = f"indices {first[layout(i)]} and {i} are both at offset {layout(i)}"
            raise Wrong(f"{layout}: {witness}", layout)
        first[layout(i)] = i
    missing = sorted(set(range(count)) - set(first))
    if missing:
        raise Wrong(f"{layout}: no index is at offset {missing[0]}", layout)


def a_tile(layout, shape):
    """Return a layout of a shape in which no two elements share an offset."""
    extents = sizes(a_layout(layout))
    if extents != shape:
        raise Wrong(f"{layout} has the extents {extents}; required: {shape}")
    if not cute.is_injective(layout):
        raise Wrong(f"{layout}: two elements share an offset", layout)
    return layout


def free_of_conflicts(layout, *accesses):
    """Require one wavefront per phase for each access; the picture names the lanes that wait."""
    for access in accesses:
        found = cute.analysis.bank_conflicts(access, a_layout(layout))
        if not found.conflict_free:
            raise Wrong(f"{found}", cute.show(found))


def exact(tiled, shape):
    """Require that all threads together cover a shape, each element once by each group."""
    found = cute.coverage(tiled, shape)
    if not found.exact:
        raise Wrong(f"{found}", tiled)


# orders of the threads, any of which a GPU may take, as `cute.emulate` and as a sentence names them
ORDERS = {
    "forward": "from the first to the last",
    "reversed": "from the last to the first",
    0: "in a shuffled order",
}


def computes(kernel, arguments, out, expected, known=None):
    """Run a kernel on the emulator in three orders, and compare `out` with NumPy's answer; `known`
    says what other answers mean.
    """
    required(kernel, cute.Kernel, "a function below @cute.kernel")
    for order, words in ORDERS.items():
        out[...] = unwritten = np.nan if out.dtype.kind == "f" else -1
        cute.emulate(kernel, *arguments, order=order)
        wrong = np.argwhere(out != expected)
        if len(wrong) == 0:
            continue
        at = tuple(int(i) for i in wrong[0])
        place = f"element {at if len(at) > 1 else at[0]}"
        found = f"{place} is {out[at]:g}, and should be {expected[at]:g}"
        if np.array_equal(out[at], unwritten, equal_nan=True):
            found = f"nothing is written to {place}"
        if order != "forward":
            found = f"right with threads {ORDERS['forward']}, but {words} {found}"
        meant = [f". {what}" for what, other in (known or {}).items() if np.array_equal(out, other)]
        raise Wrong(f"{kernel.__name__}: {found}{''.join(meant[:1])}")


def ramp(*shape):
    """Return an array of f32 whose elements are 0, 1, 2 and so on."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
