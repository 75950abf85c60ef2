"""What a kernel reads of objects written in C is read again at each call, wherever it is kept: an
iterator goes on, a context variable has the value of its task, a clock ticks. What cannot change
is no reason to trace again.
"""

import array
import asyncio
import collections
import contextlib
import contextvars
import copy
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import importlib
import io
import itertools
import json
import logging
import math
import mmap
import operator
import os
import pathlib
import queue
import random
import re
import struct
import sys
import threading
import types
import typing
import uuid
import weakref

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.fingerprint import dependencies, state, varying
from cute_py.calls.fingerprint.dependencies import Dependencies
from cute_py.calls.fingerprint.names import place_of
from tests.sampling import check_each, each, in_turn

FIVE = [1, 2, 3, 4, 5]
KEPT, ENTRIES, ORDERED = [], {}, collections.OrderedDict()  # see `start`


class Thing:
    n = 1

    def __init__(self, n=1):
        self.n = n

    def read(self):
        return self.n

    @staticmethod
    @functools.cache
    def kept(n):
        return n

    load = random = time = open = wait = read


class Slotted:
    __slots__ = ("__weakref__",)


class Pair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_int))


class Seeded(random.Random):
    """A class of the user over a type written in C."""


class Counter:
    """An iterator of the user over one written in C."""

    def __init__(self):
        self.inner = itertools.count(1)

    def __next__(self):
        return next(self.inner)


def after(made, *given):
    """Return an object after it was given something."""
    for x in given:
        made.put(x)
    return made


def held(value):
    """Return a context variable with a value."""
    made = contextvars.ContextVar("held")
    made.set(value)
    return made


def local(value):
    made = threading.local()
    made.n = value
    return made


def logger():
    """Return a logger whose level is that of its parent."""
    logging.getLogger("cute_py.test").setLevel(logging.DEBUG)
    return logging.getLogger("cute_py.test.part")


def mapped():
    made = mmap.mmap(-1, 16)
    made[0] = 1
    return made


def cached():
    """Return a function that keeps its results, of what the test changes."""
    number = [1]

    @functools.lru_cache
    def read():
        return number[0]

    read.number = number
    return read


def forget(f):
    f.number[0] = 2
    f.cache_clear()


@functools.lru_cache(maxsize=2)
def bounded(n):
    return n


@functools.cache
def unbounded(n, *more, by=1):
    return {"n": n * by, "more": more}


def generated():
    yield from FIVE


def bits(x):
    return x.getrandbits(30)


def first_of(x):
    return x[0]


def set_first(x):
    x[0] = 2


def set_n(x):
    x.n = 2


def set_of_things(_x):
    Thing.n = 2


def nothing(_x):
    """The read has changed it."""


# name: (how it is made, how it is read, how it is changed)
ITERATORS = {
    "list": lambda: iter(FIVE),
    "tuple": lambda: iter((1, 2, 3, 4)),
    "range": lambda: iter(range(1, 9)),
    "dict": lambda: iter(dict.fromkeys(FIVE)),
    "values": lambda: iter(dict(enumerate(FIVE)).values()),
    "set": lambda: iter({1, 2, 3, 4}),
    "bytes": lambda: iter(b"1234"),
    "array": lambda: iter(array.array("i", FIVE)),
    "deque": lambda: iter(collections.deque(FIVE)),
    "OrderedDict": lambda: iter(collections.OrderedDict.fromkeys(FIVE)),
    "memoryview": lambda: iter(memoryview(b"1234")),
    "reversed": lambda: reversed(FIVE),
    "callable": lambda: iter(functools.partial(next, itertools.count(1)), 9),
    "zip": lambda: map(first_of, zip(FIVE, FIVE, strict=True)),
    "enumerate": lambda: map(first_of, enumerate(FIVE)),
    "map": lambda: map(int, FIVE),
    "filter": lambda: filter(None, FIVE),
    "generator": generated,
    "expression": lambda: (x for x in FIVE),
    "count": lambda: itertools.count(1),
    "cycle": lambda: itertools.cycle(FIVE),
    "chain": lambda: itertools.chain(FIVE),
    "from_iterable": lambda: itertools.chain.from_iterable([FIVE]),
    "accumulate": lambda: itertools.accumulate(FIVE),
    "islice": lambda: itertools.islice(FIVE, 4),
    "takewhile": lambda: itertools.takewhile(bool, FIVE),
    "dropwhile": lambda: itertools.dropwhile(operator.not_, FIVE),
    "filterfalse": lambda: itertools.filterfalse(operator.not_, FIVE),
    "compress": lambda: itertools.compress(FIVE, FIVE),
    "starmap": lambda: itertools.starmap(max, [(1, 1), (2, 1)]),
    "tee": lambda: itertools.tee(FIVE)[0],
    "product": lambda: map(first_of, itertools.product(FIVE)),
    "permutations": lambda: map(first_of, itertools.permutations(FIVE, 1)),
    "combinations": lambda: map(first_of, itertools.combinations(FIVE, 1)),
    "pairwise": lambda: map(first_of, itertools.pairwise(FIVE)),
    "groupby": lambda: map(first_of, itertools.groupby(FIVE)),
    "zip_longest": lambda: map(first_of, itertools.zip_longest(FIVE)),
    "re": lambda: map(int, map(re.Match.group, re.finditer(r"\d", "1234"))),
    "struct": lambda: map(first_of, struct.iter_unpack("b", b"1234")),
    "flatiter": lambda: map(int, np.array(FIVE).flat),
    "nditer": lambda: map(int, np.nditer(np.array(FIVE))),
    "of the user": Counter,
}
STATES = {
    **{f"iterator of {name}": (make, next, nothing) for name, make in ITERATORS.items()},
    "tee": (lambda: itertools.tee(FIVE), lambda x: next(x[1]), nothing),
    "pop": (lambda: FIVE[:].pop, lambda x: x(), nothing),
    "send": (lambda: (x for x in FIVE), lambda x: x.send(None), nothing),
    "next of a count": (lambda: itertools.count(1).__next__, lambda x: x(), nothing),
    "partial of next": (
        lambda: functools.partial(next, itertools.count(1)),
        lambda x: x(),
        nothing,
    ),
    "repeat": (lambda: itertools.repeat(1, 5), operator.length_hint, next),
    "random.Random": (lambda: random.Random(1), bits, nothing),
    "class over random.Random": (lambda: Seeded(1), bits, nothing),
    "method of random.Random": (lambda: random.Random(1).getrandbits, lambda x: x(30), nothing),
    "Generator": (lambda: np.random.default_rng(1), lambda x: x.integers(1 << 30), nothing),
    "RandomState": (lambda: np.random.RandomState(1), lambda x: x.randint(1 << 30), nothing),
    "BitGenerator": (lambda: np.random.PCG64(1), lambda x: x.random_raw() >> 40, nothing),
    "SimpleQueue": (lambda: after(queue.SimpleQueue(), 1, 2), lambda x: x.get(), nothing),
    "size of a SimpleQueue": (queue.SimpleQueue, lambda x: x.qsize(), lambda x: x.put(1)),
    "Queue": (lambda: after(queue.Queue(), 1, 2), lambda x: x.get(), nothing),
    "PriorityQueue": (lambda: after(queue.PriorityQueue(), 1, 2), lambda x: x.get(), nothing),
    "StringIO": (lambda: io.StringIO("12"), lambda x: int(x.read(1)), nothing),
    "BytesIO": (lambda: io.BytesIO(b"12"), lambda x: x.read(1)[0], nothing),
    "ContextVar": (lambda: held(1), lambda x: x.get(), lambda x: x.set(2)),
    "ContextVar with a list": (
        lambda: held([1]),
        lambda x: x.get()[0],
        lambda x: set_first(x.get()),
    ),
    "ContextVar that is set": (
        lambda: contextvars.ContextVar("v", default=1),
        lambda x: x.get(),
        lambda x: x.set(2),
    ),
    "Context": (contextvars.copy_context, len, lambda x: x.run(held, 1)),
    "threading.local": (lambda: local(1), lambda x: x.n, set_n),
    "empty threading.local": (threading.local, lambda x: getattr(x, "n", 1), set_n),
    "Lock": (threading.Lock, lambda x: x.locked() + 1, lambda x: x.acquire()),
    "RLock": (threading.RLock, lambda x: x._is_owned() + 1, lambda x: x.acquire()),
    "Event": (threading.Event, lambda x: x.is_set() + 1, lambda x: x.set()),
    "Semaphore": (threading.Semaphore, lambda x: x._value, lambda x: x.acquire()),
    "ref": (lambda: weakref.ref(KEPT[0]), lambda x: x().n, lambda _x: set_n(KEPT[0])),
    "ref that dies": (lambda: weakref.ref(KEPT[0]), lambda x: x() is None, lambda _x: KEPT.clear()),
    "proxy": (lambda: weakref.proxy(KEPT[0]), lambda x: x.n, lambda _x: set_n(KEPT[0])),
    "WeakMethod": (
        lambda: weakref.WeakMethod(KEPT[0].read),
        lambda x: x()(),
        lambda _x: set_n(KEPT[0]),
    ),
    "WeakSet": (lambda: weakref.WeakSet(KEPT), len, lambda _x: KEPT.clear()),
    "WeakValueDictionary": (
        lambda: weakref.WeakValueDictionary({1: KEPT[0]}),
        lambda x: x[1].n,
        lambda _x: set_n(KEPT[0]),
    ),
    "WeakKeyDictionary": (
        lambda: weakref.WeakKeyDictionary({KEPT[0]: 1}),
        lambda x: x[KEPT[0]],
        lambda x: x.__setitem__(KEPT[0], 2),
    ),
    "level of a logger": (
        logger,
        lambda x: x.isEnabledFor(logging.DEBUG),
        lambda _x: logging.getLogger("cute_py.test").setLevel(logging.INFO),
    ),
    "ref of slots": (
        lambda: weakref.ref(KEPT[1]),
        lambda x: x() is None,
        lambda _x: KEPT.clear(),
    ),
    "finalize": (
        lambda: weakref.finalize(KEPT[0], int),
        lambda x: x.alive,
        lambda _x: KEPT.clear(),
    ),
    "attrgetter": (
        lambda: (operator.attrgetter("n"), Thing),
        lambda x: x[0](x[1]),
        set_of_things,
    ),
    "methodcaller": (
        lambda: (operator.methodcaller("read"), KEPT[0]),
        lambda x: x[0](x[1]),
        lambda _x: set_n(KEPT[0]),
    ),
    "itemgetter": (
        lambda: (operator.itemgetter(0), [1]),
        lambda x: x[0](x[1]),
        lambda x: set_first(x[1]),
    ),
    "method of an operator": (lambda: [1].__len__, lambda x: x(), lambda x: x.__self__.append(1)),
    "name": (
        lambda: ("n", Thing),
        lambda x: getattr(x[1], x[0]),
        lambda _x: setattr(Thing, "n", 2),
    ),
    "partial": (
        lambda: functools.partial(int, 1),
        lambda x: x(),
        lambda x: x.__setstate__((int, (2,), {}, {})),
    ),
    "lru_cache": (cached, lambda x: x(), forget),
    "result of lru_cache": (
        lambda: functools.cache(lambda: [1]),
        lambda x: x()[0],
        lambda x: set_first(x()),
    ),
    "results of lru_cache": (cached, lambda x: x.cache_info().currsize, lambda x: x()),
    "singledispatch": (
        lambda: functools.singledispatch(lambda _x: 1),
        lambda x: x(1),
        lambda x: x.register(int, lambda _x: 2),
    ),
    "frompyfunc": (
        lambda: (np.frompyfunc(lambda _x: KEPT[0].n, 1, 1),),
        lambda x: x[0](1),
        lambda _x: set_n(KEPT[0]),
    ),
    "vectorize": (
        lambda: np.vectorize(lambda _x: KEPT[0].n),
        lambda x: int(x(1)),
        lambda _x: set_n(KEPT[0]),
    ),
    "deque": (lambda: collections.deque([1]), first_of, set_first),
    "most of a deque": (lambda: collections.deque([1, 2], 2), len, lambda x: x.pop()),
    "OrderedDict": (
        lambda: collections.OrderedDict.fromkeys((1, 2)),
        lambda x: next(iter(x)),
        lambda x: x.move_to_end(1),
    ),
    "defaultdict": (
        lambda: collections.defaultdict(lambda: 1),
        lambda x: x.default_factory(),
        lambda x: setattr(x, "default_factory", lambda: 2),
    ),
    "Counter": (lambda: collections.Counter("a"), lambda x: x["a"], lambda x: x.update("a")),
    "ChainMap": (lambda: collections.ChainMap({"n": 1}), lambda x: x["n"], lambda x: x.update(n=2)),
    "UserList": (lambda: collections.UserList([1]), first_of, set_first),
    "order of a set": (
        lambda: {8, 0},
        lambda x: next(iter(x)) + 1,
        lambda x: (x.clear(), x.update((0, 8))),
    ),
    "view of a dict": (ENTRIES.items, len, lambda _x: ENTRIES.update(m=2)),
    "view of an OrderedDict": (ORDERED.keys, len, lambda _x: ORDERED.update(m=2)),
    "mappingproxy": (
        lambda: types.MappingProxyType(ENTRIES),
        len,
        lambda _x: ENTRIES.update(m=2),
    ),
    "cell": (
        lambda: types.CellType(1),
        lambda x: x.cell_contents,
        lambda x: setattr(x, "cell_contents", 2),
    ),
    "bytearray": (lambda: bytearray(b"1"), first_of, set_first),
    "memoryview": (lambda: memoryview(bytearray(b"1")), first_of, set_first),
    "memoryview of modes": (
        lambda: memoryview(bytearray(b"1111")).cast("b", (2, 2)),
        lambda x: x[0, 0],
        lambda x: x.__setitem__((0, 0), 2),
    ),
    "array": (lambda: array.array("i", [1]), first_of, set_first),
    "mmap": (mapped, first_of, set_first),
    "c_int": (lambda: ctypes.c_int(1), lambda x: x.value, lambda x: setattr(x, "value", 2)),
    "array of ctypes": (lambda: (ctypes.c_int * 2)(1, 1), first_of, set_first),
    "structure": (lambda: Pair(1, 1), lambda x: x.a, lambda x: setattr(x, "a", 2)),
    "pointer": (lambda: ctypes.pointer(ctypes.c_int(1)), first_of, set_first),
    "array of NumPy": (lambda: np.ones(3, np.int32), lambda x: int(x[0]), set_first),
    "flags": (
        lambda: np.ones(2),
        lambda x: x.flags.writeable + 1,
        lambda x: x.setflags(write=False),
    ),
    "masked array": (
        lambda: np.ma.masked_array([1, 2], [0, 0]),
        lambda x: int(x.sum()),
        lambda x: x.__setitem__(0, np.ma.masked),
    ),
    "namespace": (lambda: types.SimpleNamespace(n=1), lambda x: x.n, set_n),
    "attribute that comes up": (
        lambda: type("Slotted", (), {"__slots__": ("n",)})(),
        lambda x: getattr(x, "n", 1),
        set_n,
    ),
    "exception": (lambda: ValueError(1), lambda x: x.args[0], lambda x: setattr(x, "args", (2,))),
}


def start():
    """Set back what the rows share."""
    global HELD
    KEPT[:], Thing.n, HELD = [Thing(), Slotted()], 1, None
    for entries in (ENTRIES, ORDERED):
        entries.clear()
        entries["n"] = 1


# -- the places in which a kernel finds it

HELD = None
BOX = types.SimpleNamespace()


def of_a_global(read):
    return lambda _x, _s: read(HELD)


def of_a_closure(read, s=None):
    s = HELD
    return lambda _x, _s: read(s)


def of_an_attribute(read):
    BOX.held = HELD
    return lambda _x, _s: read(BOX.held)


def of_a_container(read):
    box = {"a": [(HELD,)]}
    return lambda _x, _s: read(box["a"][0][0])


def of_a_default(read):
    def helper(s=HELD):
        return read(s)

    return lambda _x, _s: helper()


def of_a_branch(read):
    return lambda x, _s: read(HELD) if cute.rank(x) == 1 else 0


def of_a_class(read):
    class C:
        held = HELD

    return lambda _x, _s: read(C.__dict__["held"])


def of_an_argument(read):
    return lambda _x, s: read(s)


PLACES = (
    of_a_global,
    of_a_closure,
    of_an_attribute,
    of_a_container,
    of_a_default,
    of_a_branch,
    of_a_class,
    of_an_argument,
)


def kernel_of(find):
    @cute.kernel
    def kernel(x, s):
        cute.launch(grid=1, block=32)
        x[0] = int(find(x, s))

    return kernel


def results(name, get):
    """Return what is got of a state before and after it is changed."""
    global HELD
    start()
    make, read, change = STATES[name]
    HELD = make()
    got = get(read)
    first = got()
    change(HELD)
    return first, got()


@pytest.mark.parametrize("part", range(2))
def test_a_kernel_sees_a_state_as_it_is_at_each_call(part):
    rows = in_turn(STATES, PLACES)[part::2]
    check_each(lambda row: sees(*row), rows, name=lambda x: f"{x[0]}, {x[1].__name__}")


@pytest.mark.slow
@each(STATES, PLACES, name=lambda x: f"{x[0]}, {x[1].__name__}")
def test_a_kernel_sees_a_state_wherever_it_is_kept(name, place):
    sees(name, place)


def sees(name, place):
    """Check that a kernel which reads a state gives what Python gives."""
    if place is of_an_argument and name in ("array of NumPy", "flags", "masked array"):
        return  # memory of the kernel
    if place is of_an_argument and name == "tee":  # it tells where it is: the kernel changes it
        with pytest.raises(cute.CuteError) as caught:
            kernel_of(place(STATES[name][1]))(np.zeros(32, np.int32), STATES[name][0]())
        assert caught.value.code == "argument-changed"
        return

    def emulated(read):
        kernel, x = kernel_of(place(read)), np.zeros(32, np.int32)
        given = HELD if place is of_an_argument else None

        def run():
            kernel(x, given)
            return int(x[0])

        return run

    wanted = results(name, lambda read: lambda: int(read(HELD)))
    assert wanted[0] != wanted[1]
    assert results(name, emulated) == wanted


# -- functions that give something else at each call

VARYING = {
    "time": ("time.time()", "time.time_ns()", "time.perf_counter()", "time.monotonic_ns()"),
    "random": (
        "random.random()",
        "random.randint(0, 9)",
        "random.choice([1, 2])",
        "random.Random().random()",
        "random.SystemRandom().random()",
    ),
    "numpy": (
        "numpy.random.rand()",
        "numpy.random.randint(9)",
        "numpy.random.default_rng().random()",
        "numpy.random.RandomState().rand()",
        "numpy.load('a.npy')",
    ),
    "os": (
        "os.getenv('A', 1)",
        "os.urandom(1)",
        "os.getpid()",
        "os.listdir()",
        "os.getcwd()",
        "os.path.exists('a')",
        "os.stat('a')",
    ),
    "secrets": ("secrets.randbits(9)", "secrets.token_bytes()", "secrets.choice([1])"),
    "uuid": ("uuid.uuid4()", "uuid.uuid1()"),
    "datetime": ("datetime.datetime.now()", "datetime.date.today()", "datetime.datetime.utcnow()"),
    "pathlib": (
        "pathlib.Path.read_text(pathlib.Path('a'))",
        "pathlib.Path.is_file(pathlib.Path('a'))",
        "pathlib.Path.exists(pathlib.Path('a'))",
        "pathlib.Path.cwd()",
    ),
    "threading": ("threading.get_ident()", "threading.current_thread()"),
    "builtins": ("input()", "open('a').read()", "id(HELD)", "hash(HELD)"),
    "sys": ("sys._getframe()",),
    "tempfile": ("tempfile.mkdtemp()",),
    "decimal": ("decimal.getcontext().prec",),
}
IMPORTS = (
    "import {module}\ndef f(): return {call}",
    "def f():\n    import {module}\n    return {call}",
    "import {module} as m\ndef f(): return {short}",
    "from {module} import {name}\ndef f(): return {inner}",
    "def f():\n    from {module} import {name}\n    return {inner}",
    "import {module}\nbox = [{value}]\ndef f(): return box[0]()",
)


def depends(text, module, call):
    """Return what a function depends on that calls something."""
    bare = module == "builtins"
    inner = call.removeprefix(f"{module}.")
    facts = {
        "module": module,
        "name": inner.partition("(")[0].partition(".")[0],
        "inner": inner,
        "short": f"m.{inner}",
        "call": inner if bare else call,
        "value": call.partition("(")[0],
    }
    scope = {"HELD": [1], "__name__": "of_the_user"}
    exec(text.format(**facts), scope)
    return Dependencies(scope["f"]).snapshot()


@each(
    [(t, m, x) for m, calls in VARYING.items() for x in calls for t in IMPORTS],
    name=lambda x: f"{x[2]} by {x[0]!r}",
)
def test_what_differs_from_call_to_call_is_traced_at_each(text, module, call):
    importlib.import_module(f"{module}.random" if module == "numpy" else module)
    assert not depends(text, module, call).complete


PLACE = pathlib.Path("a")


@each(("exists()", "is_file()", "is_symlink()", "resolve()", "read_text()", "stat()", "glob('a')"))
def test_what_a_path_tells_of_files_is_read_at_each_call(call):
    scope = {"PLACE": PLACE, "__name__": "of_the_user"}
    exec(f"def f(): return PLACE.{call}", scope)
    assert not Dependencies(scope["f"]).snapshot().complete


def kinds_below(kind):
    """Return a class and those that derive from it."""
    return {kind}.union(*map(kinds_below, type.__subclasses__(kind)))


RECENT = {"typing.TypeAliasType": (3, 12), "typing.Union": (3, 14)}


def test_the_rows_are_of_types_that_there_are():
    """On each version of Python, which moves them from module to module."""
    rows = {*state.READ, *state.CONSTANT} - {x for x, n in RECENT.items() if n > sys.version_info}
    rows = {x for x in rows if not x.startswith("torch.")}
    for module in {x.rpartition(".")[0] for x in rows}:
        with contextlib.suppress(ImportError):  # those of `_thread`
            importlib.import_module(module)
    assert rows <= {place_of(x) for x in kinds_below(object)}


def test_the_functions_that_vary_are_functions_that_there_are():
    recent = {"is_junction", "info", "process_cpu_count", "uuid6", "uuid7", "uuid8", "walk"}
    for module, text in varying._NAMES.items():
        if module.partition(".")[0] not in ("torch", "locale", "resource", "posix"):
            names = {*text.split()} - recent - {"*"}
            assert names <= {*dir(importlib.import_module(module))}, module
    for kind in (pathlib.Path, datetime.datetime, datetime.date):
        assert {*varying._METHODS[place_of(kind)].split()} <= {*dir(kind)} | recent


def test_a_part_of_a_module_that_is_loaded_later_is_looked_at(monkeypatch):
    """As `numpy.random` is, by the `__getattr__` of `numpy`."""
    lazy = types.ModuleType("json.lazy")  # of the standard library, by its spec
    lazy.__spec__ = json.__spec__
    lazy.__getattr__ = lambda name: vars(lazy).setdefault(name, random.Random(1))
    monkeypatch.setitem(globals(), "LAZY", lazy)

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = LAZY.numbers.getrandbits(30)  # noqa: F821

    plans = [cute.trace(kernel, np.zeros(32, np.int32)) for _ in range(3)]
    assert plans[0] != plans[1] != plans[2]


def test_the_environment_is_read_again(monkeypatch):
    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = int(os.environ["CUTE_PY_OF_A_TEST"])

    x = np.zeros(32, np.int32)
    for n in (1, 2, 2):
        monkeypatch.setenv("CUTE_PY_OF_A_TEST", str(n))
        kernel(x)
        assert x[0] == n


def test_each_task_has_its_own_context():
    var = contextvars.ContextVar("n")

    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[0] = var.get()

    async def task(n):
        var.set(n)
        await asyncio.sleep(0)
        x = np.zeros(32, np.int32)
        kernel(x)
        await asyncio.sleep(0)
        kernel(x)
        return int(x[0])

    async def tasks():
        return await asyncio.gather(*map(task, range(4)))

    assert asyncio.run(tasks()) == [0, 1, 2, 3]
    assert len(kernel.plans) == 4


# -- the note


def test_a_note_says_once_why_a_kernel_is_traced_at_each_call(monkeypatch):
    monkeypatch.setattr(dependencies, "_noted", set())
    numbers = itertools.count()

    @cute.kernel
    def counted(x):
        cute.launch(grid=1, block=32)
        x[0] = next(numbers)

    with pytest.warns(RuntimeWarning) as found:
        plans = [cute.trace(counted, np.zeros(32, np.int32)) for _ in range(2)]
    assert plans[0] != plans[1]
    assert [str(x.message) for x in found] == [
        "counted is traced anew at each call, which is slow: numbers (itertools.count) has a "
        "state that cannot be read; read it before the call, and pass the kernel the number or "
        "text that it needs"
    ]
    assert found[0].filename == __file__


# -- what cannot change, or is compared


class Color(enum.Enum):
    RED = 1


class Flag(enum.IntFlag):
    A = 1


class Point(typing.NamedTuple):
    x: int = 1


@dataclasses.dataclass(frozen=True)
class Config:
    n: int = 1
    kind: type = np.float32


@dataclasses.dataclass
class Open:
    n: int = 1
    more: list = dataclasses.field(default_factory=list)


class Hashed:
    """Has the methods of an object that name it."""

    def __init__(self, n=1):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return hash((self.n, "Hashed"))

    def __repr__(self):
        return f"<{self.n} at {id(self):x}>"


class Lazy:
    @functools.cached_property
    def n(self):
        return 1


def helper():
    return 1


T = typing.TypeVar("T")
KNOWN = {
    "module": math,
    "NumPy": np,
    "module of NumPy": np.linalg,
    "cute": cute,
    "function": helper,
    "lambda": lambda: 1,
    "closure": (lambda n: lambda: n)(1),
    "builtin": math.sqrt,
    "function of NumPy": np.sum,
    "ufunc": np.sqrt,
    "method descriptor": str.join,
    "class": Thing,
    "object": Thing(),
    "sentinel": object(),
    "enum": Color.RED,
    "flag": Flag.A,
    "named tuple": Point(),
    "frozen": Config(),
    "dataclass": Open(),
    "layout": cute.Layout((4, 8)),
    "dtype of cute": cute.f16,
    "spec": cute.spec(divisible_by=4),
    "dtype": np.dtype(np.float32),
    "structure": np.dtype([("a", np.int32)]),
    "type of NumPy": np.float32,
    "array": np.ones(3),
    "number of NumPy": np.float32(1),
    "pattern": re.compile("a"),
    "decimal": decimal.Decimal("1.0"),
    "fraction": fractions.Fraction(1, 2),
    "date": datetime.date(2020, 1, 1),
    "time": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "path": pathlib.Path("a"),
    "uuid": uuid.UUID(int=1),
    "alias": list[int],
    "union": int | None,
    "typing": typing.Optional[list[int]],  # noqa: UP045
    "type variable": T,
    "partial": functools.partial(helper),
    "cached method": Lazy(),
    "hashed": Hashed(),
    "by hash": {Hashed(): 1},
    "cache of the library": functools.lru_cache(re.escape),
    "attrgetter": operator.attrgetter("n"),
    "struct": struct.Struct("i"),
    "list": [1, [2]],
    "dict": {"a": (1, 2)},
    "set": {1, 2},
    "frozenset": frozenset((1, 2)),
    "range": range(3),
    "slice": slice(1, 2),
    "bytes": b"12",
    "bytearray": bytearray(b"12"),
    "deque": collections.deque([1]),
    "OrderedDict": collections.OrderedDict(a=1),
    "defaultdict": collections.defaultdict(list),
    "Counter": collections.Counter("a"),
    "ChainMap": collections.ChainMap({}),
    "array of Python": array.array("i", [1]),
    "ContextVar": contextvars.ContextVar("n", default=1),
    "logger": logging.getLogger("cute_py.test"),
    "lock": threading.Lock(),
    "RLock": threading.RLock(),
    "Queue": queue.Queue(),
    "ellipsis": ...,
    "property": property(helper),
    "complex": 1j,
    "named": types.SimpleNamespace(n=1),
    "exception": ValueError,
    "kernel": cute.kernel(helper),
}


def seen_by(kernel, *given):
    """Return what a call of a kernel depends on."""
    arguments = kernel.arguments(np.zeros(32, np.int32), *given)
    return kernel._with_statics(kernel.dependencies.snapshot(), arguments)


@each(KNOWN)
def test_what_cannot_change_unseen_is_replayed(name):
    global HELD
    start()
    HELD = KNOWN[name]
    for read, given in (
        (lambda _x, s: HELD is not s, None),
        (lambda _x, s: s is not None, (HELD,)),
    ):
        kernel = kernel_of(read)
        plans = [cute.trace(kernel, np.zeros(32, np.int32), given) for _ in range(3)]
        assert plans[0] is plans[1] is plans[2]
        assert seen_by(kernel, given).complete


@each(
    (
        lambda x: bounded(1) + bounded(2),
        lambda x: unbounded(3)["n"] + unbounded(1, 2, by=3)["n"],
        lambda x: Thing.kept(2) + Thing.kept(3),
    )
)
def test_a_function_that_keeps_its_results_is_no_reason_to_trace_at_each_call(read):
    for f in (bounded, unbounded):
        f.cache_clear()
    kernel = kernel_of(lambda x, _s: read(x))
    plans = []
    for _ in range(4):
        plans.append(cute.trace(kernel, np.zeros(32, np.int32), None))
        bounded(2), bounded(1), bounded(2)  # in another order
    assert plans[1] is plans[2] is plans[3]
    assert seen_by(kernel, None).complete


def test_a_function_that_keeps_many_results_is_traced_at_each_call():
    kernel = kernel_of(lambda _x, _s: unbounded(1)["n"])
    for n in range(300):
        unbounded(n)
    assert not seen_by(kernel, None).complete
    unbounded.cache_clear()


class Engine:
    """Has attributes whose state cannot be read, and one that a kernel reads."""

    def __init__(self):
        self.width, self.file, self.rng = 1, io.StringIO(), random.Random()
        self.parts = [io.StringIO(), (x for x in FIVE)]


@pytest.mark.parametrize(
    ("read", "known"),
    [
        (lambda x: x.width, True),
        (lambda x: getattr(x, "width", 2), True),
        (lambda x: x.file and 1, False),
        (lambda x: len(x.parts), False),
        (lambda x: len(vars(x)), False),
        (lambda x: len(copy.copy(x).parts), False),
        (lambda x: getattr(x, "ra"[::-1] + "ts", 1), False),
    ],
)
def test_attributes_that_no_code_names_are_no_reason_to_trace_again(read, known):
    kernel = kernel_of(lambda _x, s: read(s[0]))
    assert seen_by(kernel, (Engine(),)).complete == known


CALLS = (
    "np.float32(1) + Thing().load() + Thing().random() + Thing().time()",
    "os.sep + str(Thing().open()) + str(Thing().wait())",
    "math.sqrt(math.pi)",
    "np.float32(np.pi) + np.prod((2, 3)) + np.dtype('f4').itemsize",
    "time.sleep(0)",
    "datetime.timedelta(seconds=1).seconds",
    "os.path.join('a', 'b') + os.sep",
    "functools.reduce(operator.add, itertools.accumulate([1, 2]))",
    "[len(x) for x in zip([1], [2])] + sorted(map(abs, {1, 2}))",
    "sys.maxsize + sys.version_info[0]",
    "pathlib.Path('a').name",
    "isinstance(1, int) and getattr(Thing, 'n', 2)",
    "re.compile('a').match('a').group()",
    "dataclasses.replace(Config(), n=2)",
    "uuid.UUID(int=1).hex",
    "{Hashed(2): 1}[Hashed(2)]",
)


@each(CALLS)
def test_functions_that_give_the_same_are_no_reason_to_trace_again(call):
    scope = dict(globals())
    exec(f"def f(): return {call}", scope)
    seen = Dependencies(scope["f"]).snapshot()
    assert seen.complete, seen.reason


# -- what tracing itself changes


class Squares:
    n = 2

    @functools.cached_property
    def kept(self):
        return self.n

    @functools.cache  # noqa: B019
    def cached(self):
        return self.n

    def memo(self, kept={}):  # noqa: B006
        return kept.setdefault(self, self.n)


def again(read, forget):
    """Return what a kernel stores while the number changes, and what is kept is forgotten."""
    squares, stored, x = Squares(), [], np.zeros(32, np.int32)
    kernel = kernel_of(lambda _x, _s: read(squares))
    for _ in range(2):
        for n in (2, 3, 2):
            squares.n = n
            kernel(x, None)
            stored.append(int(x[0]))
        forget(squares)
    return stored


@pytest.mark.parametrize(
    ("read", "forget"),
    [
        (lambda s: s.kept, lambda s: vars(s).pop("kept")),
        (lambda s: s.cached(), lambda _s: Squares.cached.cache_clear()),
        (lambda s: s.memo(), lambda _s: Squares.memo.__defaults__[0].clear()),
    ],
)
def test_a_plan_whose_trace_changed_what_it_read_is_not_replayed(read, forget):
    """The first value is kept by what the trace called, until that is forgotten."""
    assert again(read, forget) == [2] * 6
