"""Python inside of kernels: each thread gets what plain Python would give it, or the kernel is
refused. Blocks are entered from other frames, and state is reached in every way that Python has.
"""

import array
import collections
import contextlib
import contextvars
import copy
import ctypes
import decimal
import functools
import io
import itertools
import json
import random
import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.errors import CuteError
from tests.sampling import fewer

N = 64
INDEX = np.arange(N)
MODULE = types.ModuleType("state")
STATE = [1.0]


def run(kernel, right=None):
    """Run a kernel on out[N]; return None if it is right, else its refusal. `right` is what plain
    Python gives each thread.
    """
    out = np.full(N, -1, np.float32)
    try:
        cute.kernel(kernel)(out)
    except CuteError as error:
        return error
    assert right is not None, f"it ran: {out[:5]}"
    np.testing.assert_array_equal(out, np.broadcast_to(np.asarray(right, np.float32), N))
    return None


def index():
    cute.launch(grid=1, block=N)
    return cute.thread_idx()


# -- state: how it is made, how a body changes it, how it is read afterwards


class Slots:
    __slots__ = ("v",)

    def __init__(self):
        self.v = 1.0


class Plain:
    v = 1.0


class Counter:
    def __init__(self):
        self.v = 1.0

    def bump(self):
        self.v += 1.0


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_float))


class Numbers(array.array):
    """State that a class written in C keeps for one of the user's."""


class Bytes(bytearray):
    __slots__ = ()


class Dice(random.Random):
    pass


class Record:
    """Attributes by `__getattr__`, which knows no AttributeError."""

    def __init__(self):
        self.__dict__["held"] = {"v": 1.0}

    def __getattr__(self, name):
        return self.held[name]

    def __setattr__(self, name, value):
        self.held[name] = value


@functools.cache
def table(n):
    return n + 1.0


def bump_default(held=[1.0]):  # noqa: B006
    held[0] += 1.0
    return held[0]


def bump_module_list():
    STATE[0] += 1.0


def attribute(x, name="v"):
    return lambda: setattr(x, name, getattr(x, name) + 1.0)


def function_state():
    def f():
        return f.v

    f.v = 1.0
    return f


def closure_state():
    v = 1.0

    def bump():
        nonlocal v
        v += 1.0

    return bump, lambda: v


def generator():
    yield from (1.0, 2.0, 3.0, 4.0, 5.0)


def module_state():
    MODULE.v = 1.0
    return MODULE


def list_state():
    STATE[0] = 1.0
    return bump_module_list


# name -> (make, change, read): of one state
STATES = {
    "list": (lambda: [1.0], lambda s: s.append(1.0), len),
    "dict": (lambda: {"v": 1.0}, lambda s: s.update(v=2.0), lambda s: s["v"]),
    "set": (lambda: {1}, lambda s: s.add(2), len),
    "deque": (lambda: collections.deque([1.0]), lambda s: s.append(1.0), len),
    "array.array": (lambda: array.array("d", [1]), lambda s: s.append(1.0), len),
    "bytearray": (lambda: bytearray(b"a"), lambda s: s.append(1), len),
    "ctypes": (
        lambda: ctypes.c_double(1),
        lambda s: setattr(s, "value", 2.0),
        lambda s: s.value,
    ),
    "ndarray": (lambda: np.ones(1), lambda s: s.__iadd__(1), lambda s: float(s[0])),
    "large ndarray": (
        lambda: np.ones(1 << 16),
        lambda s: s.__setitem__(0, 2.0),
        lambda s: float(s[0]),
    ),
    "view of an ndarray": (
        lambda: np.ones(4)[1:],
        lambda s: s.__setitem__(0, 2.0),
        lambda s: float(s[0]),
    ),
    "slots": (Slots, lambda s: attribute(s)(), lambda s: s.v),
    "attribute of a class": (Plain, lambda s: attribute(s)(), lambda s: s.v),
    "object in a list": (
        lambda: [[Plain()]],
        lambda s: attribute(s[0][0])(),
        lambda s: s[0][0].v,
    ),
    "object in a namespace": (
        lambda: types.SimpleNamespace(x=Plain()),
        lambda s: attribute(s.x)(),
        lambda s: s.x.v,
    ),
    "iterator": (lambda: iter([float(n) for n in range(9)]), next, next),
    "map": (lambda: map(float, range(9)), next, next),
    "zip": (lambda: zip(range(9)), next, lambda s: next(s)[0]),
    "enumerate": (lambda: enumerate(range(9)), next, lambda s: next(s)[0]),
    "chain": (lambda: itertools.chain(range(9)), next, next),
    "count": (itertools.count, next, next),
    "cycle": (lambda: itertools.cycle(range(9)), next, next),
    "generator": (generator, next, next),
    "generator expression": (lambda: (float(i) for i in range(9)), next, next),
    "random.Random": (lambda: random.Random(1), lambda s: s.random(), lambda s: s.random()),
    "random state of NumPy": (
        lambda: np.random.RandomState(1),
        lambda s: s.rand(),
        lambda s: s.rand(),
    ),
    "random generator of NumPy": (
        lambda: np.random.default_rng(1),
        lambda s: s.random(),
        lambda s: s.random(),
    ),
    "bound method": (lambda: Counter().bump, lambda s: s(), lambda s: s.__self__.v),
    "partial": (
        lambda: functools.partial(Counter.bump, Counter()),
        lambda s: s(),
        lambda s: s.args[0].v,
    ),
    "attribute of a function": (function_state, lambda s: attribute(s)(), lambda s: s()),
    "closure": (closure_state, lambda s: s[0](), lambda s: s[1]()),
    "mutable default": (lambda: bump_default, lambda s: s(), lambda s: s()),
    "attribute of a module": (module_state, lambda s: setattr(MODULE, "v", 2.0), lambda s: s.v),
    "list of a module": (list_state, lambda s: s(), lambda s: STATE[0]),
    "counter": (collections.Counter, lambda s: s.update("a"), len),
    "text in memory": (io.StringIO, lambda s: s.write("a"), lambda s: len(s.getvalue())),
    "bytes in memory": (io.BytesIO, lambda s: s.write(b"a"), lambda s: len(s.getvalue())),
    "context variable": (
        lambda: contextvars.ContextVar("v", default=1.0),
        lambda s: s.set(s.get() + 1.0),
        lambda s: s.get(),
    ),
    "structure of ctypes": (lambda: Pair(1, 2), lambda s: attribute(s, "b")(), lambda s: s.b),
    "array of ctypes": (
        lambda: (ctypes.c_float * 2)(1, 1),
        lambda s: s.__setitem__(0, s[0] + 1),
        lambda s: s[0],
    ),
    "subclass of array": (lambda: Numbers("d", [1.0]), lambda s: s.append(2.0), len),
    "subclass of bytearray": (lambda: Bytes(b"a"), lambda s: s.append(2), len),
    "subclass of Random": (lambda: Dice(1), lambda s: s.random(), lambda s: s.random()),
    "attributes by __getattr__": (Record, lambda s: attribute(s)(), lambda s: s.v),
    "ordered dict": (
        lambda: collections.OrderedDict(a=1, b=2),
        lambda s: s.move_to_end("a"),
        lambda s: {"a": 1.0, "b": 2.0}[next(iter(s))],
    ),
}

BLOCKS = ("when", "otherwise", "range", "while", "decorated")


def with_state(name, block, entered, changes):
    """Return a kernel that changes a state in a block, or only reads it, and uses it afterwards."""
    make, change, read = STATES[name]

    def body(s):
        if changes:
            change(s)

    def kernel(out):
        i, s = index(), make()
        before = read(copy.deepcopy(s)) if not changes and name in REPEATABLE else None
        enter(block, entered, i, lambda: body(s))
        out[i] = float(read(s)) if before is None else float(before)

    return kernel


REPEATABLE = ("list", "dict", "set", "deque", "slots", "ndarray")


def enter(block, entered, i, body):
    """Enter a run-time block, from this frame, a callback, a context manager or a generator."""
    if block == "range":
        if entered == "generator":
            for _k in each(4):
                body()
        elif entered == "callback":
            repeat(4, body)
        else:
            for _k in cute.range(4):
                body()
    elif block == "while":
        n = cute.var(0)
        with cute.while_(lambda: n.get() < 3):
            body()
            n.set(n.get() + 1)
    elif block == "decorated":
        cute.when(i < 3)(body)
    elif block == "otherwise":
        with cute.when(i >= 3):
            pass
        with cute.otherwise():
            body()
    elif entered == "manager":
        with first(i):
            body()
    elif entered == "class":
        with First(i):
            body()
    elif entered == "stack":
        with contextlib.ExitStack() as stack:
            stack.enter_context(cute.when(i < 3))
            body()
    elif entered == "callback":
        only(i < 3, body)
    else:
        with cute.when(i < 3):
            body()


def each(n):
    for k in cute.range(n):  # noqa: UP028
        yield k


def repeat(n, body):
    for _k in cute.range(n):
        body()


def only(condition, body):
    with cute.when(condition):
        body()


@contextlib.contextmanager
def first(i):
    with cute.when(i < 3):
        yield


class First:
    def __init__(self, i):
        self.block = cute.when(i < 3)

    def __enter__(self):
        return self.block.__enter__()

    def __exit__(self, *error):
        return self.block.__exit__(*error)


WAYS = {
    "when": ("here", "callback", "manager", "class", "stack"),
    "range": ("here", "callback", "generator"),
}


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", STATES)
def test_state_that_a_block_changes_is_refused(name, block):
    for entered in WAYS.get(block, ("here",)):
        error = run(with_state(name, block, entered, changes=True), plain(name, block))
        assert error is None or error.code in REFUSALS, entered


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("name", REPEATABLE)
def test_state_that_a_block_only_reads_is_accepted(name, block):
    make, _change, read = STATES[name]
    for entered in WAYS.get(block, ("here",)):
        assert run(with_state(name, block, entered, changes=False), read(make())) is None, entered


REFUSALS = ("trace-rebound", "trace-carried", "trace-unreadable")


def plain(name, block):
    """Return what Python gives after a loop that surely runs, as the only block for all threads."""
    if block != "range":
        return None
    make, change, read = STATES[name]
    state = make()
    for _k in range(4):
        change(state)
    return float(read(state))


def test_a_cache_of_functools_may_fill_inside_of_a_block():
    def kernel(out):
        i = index()
        with cute.when(i < 3):
            table(3)
        out[i] = table(3)

    assert run(kernel, 4.0) is None


# -- wrappers around blocks: names, return


def rebinds(entered):
    def kernel(out):
        i, v = index(), 1.0
        if entered == "manager":
            with first(i):
                v = 2.0
        elif entered == "class":
            with First(i):
                v = 2.0
        else:
            with contextlib.ExitStack() as stack:
                stack.enter_context(cute.when(i < 3))
                v = 2.0
        out[i] = v

    return kernel


def returns(entered):
    def kernel(out):
        i = index()
        if entered == "manager":
            with first(i):
                out[i] = 1.0
                return
        elif entered == "class":
            with First(i):
                out[i] = 1.0
                return
        elif entered == "stack":
            with contextlib.ExitStack() as stack:
                stack.enter_context(cute.when(i < 3))
                out[i] = 1.0
                return
        out[i] = 2.0

    return kernel


@pytest.mark.parametrize("entered", ["manager", "class", "stack"])
def test_a_wrapper_around_a_branch_hides_neither_names_nor_a_return(entered):
    assert run(rebinds(entered)).code == "trace-rebound"
    assert run(returns(entered)).code == "trace-leaves"


@pytest.mark.parametrize("entered", ["manager", "class", "stack", "callback"])
def test_a_wrapper_around_a_branch_is_accepted(entered):
    def kernel(out):
        i = index()
        out[i] = 2.0
        enter("when", entered, i, lambda: out.__setitem__(i, 1.0))

    assert run(kernel, np.where(INDEX < 3, 1, 2)) is None


def test_a_generator_around_a_loop_carries_no_name():
    def kernel(out):
        i, n = index(), 0
        for _k in each(4):
            n += 1
        out[i] = float(n)

    assert run(kernel).code == "trace-carried"


def test_a_generator_around_a_loop_is_accepted():
    def kernel(out):
        i, total = index(), cute.rmem("f32", 1)
        total.fill(0)
        for k in each(4):
            total += k.to("f32")
        out[i] = total

    assert run(kernel, 6) is None


# -- names of closures and comprehensions


def variable_of_a_branch(out):
    i = index()
    out[i] = -1.0
    with cute.when(i < 16):
        n = cute.var(0)
        with cute.while_(lambda: n.get() < 3):
            n.set(n.get() + 1)
        out[i] = n.get().to("f32")


def number_in_a_comprehension(out):
    i = index()
    out[i] = -1.0
    with cute.when(i < 16):
        n = 4
        a, _b = (cute.rmem("f32", n) for _ in range(2))
        a.fill(3.0)
        out[i] = a[0]


def name_of_both_branches(out):
    i = index()
    with cute.when(i < 16):
        t = 3.0
        out[i] = t
    with cute.otherwise():
        t = -1.0
        out[i] = t


@pytest.mark.parametrize(
    "kernel", [variable_of_a_branch, number_in_a_comprehension, name_of_both_branches]
)
def test_names_that_are_written_before_they_are_read_are_accepted(kernel):
    assert run(kernel, np.where(INDEX < 16, 3, -1)) is None


def test_a_closure_may_take_a_view_that_moves_with_a_loop():
    def kernel(A, out):
        cute.launch(grid=1, block=32)
        for g in cute.range(A.shape[0]):
            part = A[g, cute._]

            def put(j, g=g, part=part):
                out[g, j] = part[j]

            put(cute.thread_idx())

    a, b = np.arange(64, dtype=np.float32).reshape(2, 32), np.zeros((2, 32), np.float32)
    cute.kernel(kernel)(a, b)
    np.testing.assert_array_equal(a, b)


def test_a_closure_made_before_reads_the_name_that_a_branch_rebinds():
    def kernel(out):
        i, v = index(), 1.0

        def value():
            return v

        with cute.when(i < 3):
            v = 2.0
        out[i] = value()

    assert run(kernel).code == "trace-rebound"


# -- values that Python cannot know

USES = {
    "in a set": lambda i, r: i in {1, 2},
    "in a dict": lambda i, r: {3: 2.0}.get(i, 1.0),
    "key of a dict": lambda i, r: {3: 1.0}[i],
    "condition in a dict": lambda i, r: {True: 1.0}.get(i < 3),
    "tuple in a set": lambda i, r: (i, 1) in {(0, 1)},
    "register in a set": lambda i, r: r in {1.0},
    "extent in a set": lambda i, r: (i + 1) in frozenset({1}),
    "hash": lambda i, r: hash(i),
    "cache": lambda i, r: table(i),
    "format": lambda i, r: f"{i:d}",
    "format of a condition": lambda i, r: f"{i < 3:d}",
    "format of a register": lambda i, r: f"{r:.2f}",
    "percent": lambda i, r: "%d" % i,  # noqa: UP031
    "percent of a condition": lambda i, r: "%d" % (i < 3),  # noqa: UP031
    "int": lambda i, r: int(i),
    "float": lambda i, r: float(i),
    "where": lambda i, r: np.where(i < 3, 1.0, 2.0),
    "NumPy index": lambda i, r: np.arange(64.0)[i],
    "list index": lambda i, r: [1.0, 2.0][i],
    "text": lambda i, r: str(i),
    "text of a condition": lambda i, r: str(i < 3),
    "text of a register": lambda i, r: str(r),
    "f-string": lambda i, r: f"{i}",
    "f-string of a register": lambda i, r: f"{r}",
    "percent s": lambda i, r: "%s" % i,  # noqa: UP031
    "join": lambda i, r: " ".join(map(str, [i])),
    "print": lambda i, r: print(i),
    "print of a list": lambda i, r: cute.print(f"{[i]}"),
    "print of a shape": lambda i, r: cute.print(f"{(i, r)}"),
    "bits": lambda i, r: i.bit_length(),
    "ones": lambda i, r: i.bit_count(),
    "bytes": lambda i, r: i.to_bytes(4, "little"),
    "round to tens": lambda i, r: round(i, -1),
    "to of a condition": lambda i, r: (i < 3).to("f32"),
    "to of a number": lambda i, r: (5).to("f32"),
    "list index of a register": lambda i, r: [1.0, 2.0][r],
    "length": lambda i, r: len(r),
    "in": lambda i, r: 1.0 in r,
    "reversed": lambda i, r: list(reversed(r)),
    "huge number": lambda i, r: r + 10**400,
    "hexadecimal": lambda i, r: "%x" % i,  # noqa: UP031
    "number of bytes": lambda i, r: bytes(i),
    "end of islice": lambda i, r: list(itertools.islice("abc", i)),
    "json": lambda i, r: json.dumps(i),
    "Decimal": lambda i, r: decimal.Decimal(i),
    "name of an attribute": lambda i, r: getattr(r, i),
    "ufunc": lambda i, r: np.sin(i),
    "ufunc of two": lambda i, r: np.maximum(i, 3),
    "power modulo": lambda i, r: pow(i, 2, 3),
}


@pytest.mark.parametrize("use", USES)
def test_a_run_time_value_where_python_needs_one_is_refused(use):
    def kernel(out):
        i, r = index(), cute.rmem("f32", 1)
        r.fill(1)
        out[i] = 1.0
        USES[use](i, r)

    assert isinstance(run(kernel), CuteError)


def test_an_error_of_the_kernel_itself_stays_one():
    def kernel(out):
        i = index()
        with contextlib.suppress(CuteError):
            cute.Layout((4, -1))
        out[i] = len(3)

    with pytest.raises(TypeError, match="has no len"):
        run(kernel)


def test_a_copy_of_a_run_time_integer_is_the_integer():
    def kernel(out):
        i = index()
        out[copy.copy(i)] = copy.deepcopy(i).to("f32")

    assert run(kernel, INDEX) is None


def test_a_refusal_that_the_kernel_swallows_ends_the_trace():
    def swallows(out):
        i = index()
        try:
            out[i] = 1.0 if i < 3 else 2.0
        except Exception:
            out[i] = 3.0

    def suppresses(out):
        i = index()
        with contextlib.suppress(CuteError):
            hash(i)
        out[i] = 3.0

    assert run(swallows).code == "trace-python"
    assert run(suppresses).code == "trace-python"


def test_an_access_that_the_kernel_swallows_ends_the_trace():
    """Also one that the layout or the type of the tensor refuses: it would be left out unseen."""

    def rank(out):
        i = index()
        with contextlib.suppress(Exception):
            out[i, 0] = 1.0

    def number(out):
        i = index()
        with contextlib.suppress(Exception):
            out[i] = "text"

    def copied(out):
        index()
        with contextlib.suppress(Exception):
            cute.copy(out, cute.rmem("f16", 3))

    codes = [run(kernel).code for kernel in (rank, number, copied)]
    assert codes == ["coordinate-profile", "kernel-number", "kernel-types"]


def test_a_kernel_may_try_a_layout_and_take_another():
    def kernel(out):
        i = index()
        try:
            tiles = cute.logical_divide(cute.Layout((6, 6), (6, 1)), cute.Layout(4))
        except cute.LayoutError:
            tiles = cute.Layout(7)
        out[i] = float(cute.size(tiles))

    assert run(kernel, 7) is None


GLOBAL = 1.0


BY_TEXT = [
    "eval('GLOBAL')",
    "globals()['GLO' + 'BAL']",
    "index.__globals__['GLOBAL']",
    "__import__('sys').modules[__name__].GLOBAL",
    "__import__('importlib').import_module(__name__).GLOBAL",
    "[getattr(module, name) for name in ('GLOBAL', '__name__')][0]",
]


@pytest.mark.parametrize("text", BY_TEXT)
def test_globals_read_by_text_are_read_at_each_call(text, monkeypatch):
    module = types.ModuleType("of_a_user")
    monkeypatch.setitem(sys.modules, "of_a_user", module)
    scope = vars(module)
    scope.update(cute=cute, GLOBAL=1.0, module=module)
    helper = f"def index():\n    cute.launch(grid=1, block={N})\n    return cute.thread_idx()\n"
    source = f"def kernel(out):\n    i = index()\n    out[i] = {text}\n"
    exec(helper + source, scope)
    kernel, out = cute.kernel(scope["kernel"]), np.zeros(N, np.float32)
    for number in (1.0, 2.0):
        scope["GLOBAL"] = number
        kernel(out)
        assert (out == number).all()


# -- random state in random blocks


@st.composite
def nested(draw, depth=3):
    """A state inside of random containers, and the path to it."""
    name = draw(st.sampled_from(sorted(set(STATES) - {"mutable default", "list of a module"})))
    wraps = draw(st.lists(st.sampled_from(("list", "dict", "object", "closure")), max_size=depth))
    return name, wraps


def wrapped(state, wraps):
    for wrap in wraps:
        inner = state
        if wrap == "list":
            state = [inner]
        elif wrap == "dict":
            state = {"x": inner}
        elif wrap == "object":
            state = types.SimpleNamespace(x=inner)
        else:
            state = functools.partial(lambda held: held, inner)
    return state


def unwrapped(state, wraps):
    for wrap in reversed(wraps):
        if wrap == "list":
            state = state[0]
        elif wrap == "dict":
            state = state["x"]
        elif wrap == "object":
            state = state.x
        else:
            state = state()
    return state


@fewer(2)
@given(nested(), st.sampled_from(BLOCKS), st.integers(0, 4))
def test_any_state_that_a_block_changes_is_refused(state, block, way):
    (name, wraps), ways = state, WAYS.get(block, ("here",))
    make, change, read = STATES[name]

    def kernel(out):
        i, s = index(), wrapped(make(), wraps)
        enter(block, ways[way % len(ways)], i, lambda: change(unwrapped(s, wraps)))
        out[i] = float(read(unwrapped(s, wraps)))

    error = run(kernel, plain(name, block))
    assert error is None or error.code in REFUSALS


# -- random wrappers around branches and loops


@contextlib.contextmanager
def managed(block):
    with block:
        yield


@contextlib.contextmanager
def guarded(block):
    try:
        with block:
            yield
    finally:
        pass


class Managed:
    def __init__(self, block):
        self.block = block

    def __enter__(self):
        return self.block.__enter__()

    def __exit__(self, *error):
        return self.block.__exit__(*error)


@contextlib.contextmanager
def stacked(block):
    with contextlib.ExitStack() as stack:
        stack.enter_context(block)
        yield


AROUND_BRANCHES = (managed, guarded, Managed, stacked)
BRANCH_BODIES = ("rebinds", "appends", "returns", "reads")


@fewer(2)
@given(st.lists(st.sampled_from(AROUND_BRANCHES), max_size=4), st.sampled_from(BRANCH_BODIES))
def test_any_wrapper_around_a_branch_hides_nothing(wrappers, body):
    def branch(i):
        block = cute.when(i < 3)
        for wrapper in wrappers:
            block = wrapper(block)
        return block

    def changes(out):
        i, n, held = index(), 1.0, [1.0]
        out[i] = 0.0
        with branch(i):
            if body == "rebinds":
                n = 2.0
            elif body == "appends":
                held.append(2.0)
            else:
                out[i] = n + held[0]
        if body != "reads":
            out[i] = n + len(held)

    def leaves(out):
        i = index()
        with branch(i):
            out[i] = 5.0
            return
        out[i] = 1.0

    kernel = leaves if body == "returns" else changes
    error = run(kernel, np.where(INDEX < 3, 2, 0) if body == "reads" else None)
    codes = {"rebinds": "trace-rebound", "appends": "trace-rebound", "returns": "trace-leaves"}
    assert getattr(error, "code", None) == codes.get(body)


def passed_on(loop):
    yield from loop


def counted(loop):
    n = 0.0
    for k in loop:
        n += 1.0
        yield k


def one_by_one(loop):
    for k in loop:  # noqa: UP028
        yield k


AROUND_LOOPS = (passed_on, one_by_one)


@fewer(2)
@given(
    st.lists(st.sampled_from((*AROUND_LOOPS, counted)), max_size=4),
    st.sampled_from(("counts", "appends", "reads")),
)
def test_any_generator_around_a_loop_hides_nothing(wrappers, body):
    def kernel(out):
        i, n, held = index(), 0.0, []
        out[i] = 0.0
        loop = cute.range(4)
        for wrapper in wrappers:
            loop = wrapper(loop)
        for k in loop:
            if body == "counts":
                n += 1.0
            elif body == "appends":
                held.append(k)
            else:
                out[i] = out[i] + 1.0
        if body != "reads":
            out[i] = n + len(held)

    error = run(kernel, 4 if body == "reads" and counted not in wrappers else None)
    carried = body != "reads" or counted in wrappers
    assert getattr(error, "code", None) == ("trace-carried" if carried else None)


def test_a_refusal_inside_of_numpy_names_the_line_of_the_kernel():
    def kernel(out):
        index()
        np.sum(out)

    line = kernel.__code__.co_firstlineno + 2
    assert str(run(kernel)).endswith(f"(test_trace_python.py:{line})")
