"""What kernels do with Python's protocols is what plain Python does with numbers, or is refused:
who asks a generator, the condition of a loop, copies, integers that are known, texts, lists.
"""

import asyncio
import collections
import contextlib
import copy
import functools
import itertools
import json
import logging
import math

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.trace import control
from tests.sampling import check_each, each, in_turn

N = 32
INDEX = np.arange(N)


def outcome(body, *more):
    """Return what a body gives each thread, or the code of its refusal."""

    def kernel(out, *given):
        cute.launch(grid=1, block=N)
        body(out, cute.thread_idx(), *given)

    out = np.full(N, -1, np.float32)
    try:
        cute.kernel(kernel)(out, *more)
    except CuteError as error:
        return error.code
    return out


def require(body, right=None, code=None):
    """Require what plain Python gives each thread, or the code of a refusal."""
    found = outcome(body)
    if code is not None:
        assert isinstance(found, str), f"it ran: {found[:4]}"
        assert found == code
    else:
        assert not isinstance(found, str), found
        np.testing.assert_array_equal(found, np.broadcast_to(np.float32(right), N))


# -- who asks a generator whose values come from inside of a run-time block


def four():
    for _k in cute.range(4):
        yield 1.0


def passed_on():
    yield from four()


def by_tile():
    yield from cute.tiles(2, 2, start=0, step=1)


def while_below():
    v = cute.var(0)
    with cute.while_(lambda: v.get() < 4):
        yield 1.0
        v.set(v.get() + 1)


def in_a_branch():
    with cute.when(cute.thread_idx() < 3):
        yield 1.0


class Iterable:
    def __iter__(self):
        yield from four()


GENERATORS = (four, passed_on, by_tile, while_below, in_a_branch, Iterable)
MADE = zip(four(), (1.0, 1.0), strict=False)  # before any kernel


async def awaited(make):
    async def values():
        for x in make():
            yield x

    return [x async for x in values()]


def unpacked(make):
    _first, *rest = make()
    return rest


def extended(make):
    held = []
    held += make()
    return held


def pulled(make):
    values = iter(make())
    held = [next(values), next(values)]
    for x in values:
        held.append(x)
    return held


ASKED = {
    "list": lambda make: list(make()),
    "tuple": lambda make: tuple(make()),
    "sum": lambda make: [sum(1 for _x in make())],
    "comprehension": lambda make: [x for x in make()],  # noqa: C416
    "set": lambda make: {1 for _x in make()},
    "nested": lambda make: [y for _x in range(2) for y in make()],
    "dict": lambda make: dict.fromkeys(make()),
    "any": lambda make: [any(x == 2 for x in make())],
    "max": lambda make: [max(make(), key=lambda x: 0)],
    "in": lambda make: [1.0 if 2.0 in make() else 0.0],
    "deque": lambda make: collections.deque(make(), maxlen=1),
    "sorted": lambda make: sorted(make(), key=lambda x: 0),
    "reduce": lambda make: [functools.reduce(lambda a, b: a, make())],
    "zip": lambda make: list(zip(make(), range(9), strict=False)),
    "pairwise": lambda make: list(itertools.pairwise(make())),
    "tee": lambda make: list(itertools.tee(make())[0]),
    "arguments": lambda make: (lambda *args: args)(*make()),
    "join": lambda make: [len("".join(map(lambda x: "a", make())))],  # noqa: C417
    "unpacked": unpacked,
    "extended": extended,
    "next": pulled,
    "async": lambda make: asyncio.run(awaited(make)),
}


def collects(make, ask):
    def body(out, t):
        out[t] = float(len(ASKED[ask](make)))

    assert isinstance(found := outcome(body), str), f"it ran: {found[:4]}"


@each(in_turn(GENERATORS, ASKED))
def test_who_collects_the_values_of_a_block_is_refused(row):
    collects(*row)


@pytest.mark.slow
@each(GENERATORS, ASKED)
def test_who_collects_the_values_of_any_block_is_refused(make, ask):
    collects(make, ask)


def counting(values):
    def body(out, t):
        out[t] = 0.0
        for _x in values():
            out[t] = out[t] + 1.0

    return body


STATEMENTS = {
    "generator": (lambda: four(), 4),
    "passed on": (lambda: passed_on(), 4),
    "iterable": (lambda: Iterable(), 4),
    "tiles": (lambda: by_tile(), 4),
    "while": (lambda: while_below(), 4),
    "branch": (lambda: in_a_branch(), np.where(INDEX < 3, 1, 0)),
    "chain": (lambda: itertools.chain(four(), four()), 8),
    "map": (lambda: map(abs, four()), 4),
    "filter": (lambda: filter(None, four()), 4),
    "enumerate": (lambda: enumerate(four()), 4),
    "expression": (lambda: (x + 1.0 for x in four()), 4),
    "nested": (lambda: (y for _x in four() for y in four()), 16),
}
STRANGERS = {
    "zip, short": lambda: zip(four(), (1.0, 1.0), strict=False),
    "zip, short first": lambda: zip((1.0, 1.0, 1.0), four(), strict=False),
    "zip of the expression": lambda: (a for a, _b in zip(four(), (1.0, 1.0), strict=False)),
    "map of two": lambda: map(lambda a, b: a, four(), (1.0, 1.0)),
    "zip_longest": lambda: itertools.zip_longest(four(), (1.0,) * 9),
    "compress": lambda: itertools.compress(four(), (1, 1)),
    "tee": lambda: itertools.chain(*itertools.tee(four())),
}


def test_a_for_statement_over_a_generator_is_part_of_its_block():
    check_each(lambda name: require(counting(STATEMENTS[name][0]), STATEMENTS[name][1]), STATEMENTS)


def test_an_iterator_that_may_ask_another_number_of_times_is_refused():
    check_each(lambda name: require(counting(STRANGERS[name]), code="trace-asked"), STRANGERS)
    assert isinstance(outcome(counting(lambda: MADE)), str)


def test_a_context_manager_around_a_branch_is_part_of_it():
    @contextlib.contextmanager
    def few(t):
        with cute.when(t < 3):
            yield 2.0

    def body(out, t):
        out[t] = 0.0
        with few(t) as x:
            out[t] = x

    require(body, np.where(INDEX < 3, 2, 0))


# -- the condition of a loop is evaluated before each iteration


class Held:
    n = 4


def changing(kind):
    """Return a limit for a counter that changes each time it is asked for."""
    numbers, held, count = [2, 3, 4], Held(), itertools.count(1)
    iterator, seen = iter([3, 2, 1, 0]), {}

    def falls():
        held.n -= 1
        return held.n

    def stays():
        held.n += 1
        return 4

    def cell():
        nonlocal numbers
        numbers = [*numbers, 1]
        return 4

    return {
        "pop": numbers.pop,
        "next": lambda: next(iterator),
        "count": lambda: next(count),
        "attribute": falls,
        "unused attribute": stays,
        "nonlocal": cell,
        "append": lambda: numbers.append(1) or 4,
        "dict": lambda: seen.setdefault(len(seen), 4),
        "walrus": lambda: (n := numbers.pop()) + n,
        "partial": functools.partial(list.pop, numbers),
    }[kind]


CHANGING = (
    *("pop", "next", "count", "attribute", "unused attribute", "nonlocal", "append", "dict"),
    *("walrus", "partial"),
)


def test_a_condition_with_side_effects_in_python_is_refused():
    def check(kind):
        def body(out, t):
            v, limit = cute.var(0), changing(kind)
            with cute.while_(lambda: v.get() < limit()):
                v.set(v.get() + 1)
            out[t] = v.get().to("f32")

        require(body, code="trace-carried")

    check_each(check, CHANGING)


def test_what_the_body_changes_of_the_condition_is_refused():
    def body(out, t):
        v, limit = cute.var(0), [4]
        with cute.while_(lambda: v.get() < limit[0]):
            v.set(v.get() + 1)
            limit[0] = 2
        out[t] = v.get().to("f32")

    require(body, code="trace-rebound")

    def lambda_alone(out, t):
        v, limit = cute.var(0), [4]
        body = cute.while_(lambda: v.get() < limit[0])
        limit = Held.lists = [limit]
        with body:
            v.set(v.get() + 1)
            Held.lists[0][0] = 2
        out[t] = v.get().to("f32")

    assert isinstance(outcome(lambda_alone), str)


def test_a_condition_may_record_side_effects_and_keep_what_it_has_computed():
    known = {}

    def limit():
        if "limit" not in known:
            known["limit"] = 4
        return known["limit"]

    def body(out, t):
        v, asked, r = cute.var(0), cute.var(0), cute.rmem("f32", 1)
        r.fill(0.0)

        def goes_on():
            asked.set(asked.get() + 1)
            r[0] = r[0] + 1.0
            return (now := v.get()) < limit() - 0 * now

        with cute.while_(goes_on):
            v.set(v.get() + 1)
        out[t] = r[0] + 10.0 * asked.get().to("f32") + 100.0 * v.get().to("f32")

    require(body, 455)


def test_a_name_that_a_branch_deletes_is_not_read_after_it():
    def body(out, t):
        a = 1.0
        with cute.when(t < 3):
            del a
        try:
            out[t] = a
        except NameError:
            out[t] = 7.0

    require(body, code="trace-rebound")


# -- a nest of blocks takes time in proportion


def nest(kind, depth, out, t):
    """Record a nest of blocks that adds 1."""
    if depth == 0:
        out[t] = out[t] + 1.0
    elif kind == "range":
        for _k in cute.range(1):
            nest(kind, depth - 1, out, t)
    elif kind == "objects":  # others in each trace, but alike

        class Local(Held):
            pass

        made, v = Local(), cute.var(1)
        made.parts, made.itself = {"depth": [depth], "v": v}, made
        for _k in cute.range(made.parts["v"].get(), 2):
            nest(kind, made.parts["depth"][0] - 1, out, t)
            v.set((lambda: made.itself.parts["v"].get())())
    elif kind == "when":
        with cute.when(t < 10 * depth):
            nest(kind, depth - 1, out, t)
    else:
        v = cute.var(0)
        with cute.while_(lambda: v.get() < 1):
            v.set(v.get() + 1)
            nest(kind, depth - 1, out, t)


@pytest.mark.parametrize("kind", ["range", "objects", "while", "when"])
def test_a_nest_of_blocks_is_entered_no_more_often_than_the_square_of_its_depth(kind, monkeypatch):
    depth, entered = 7, []

    class Counting(control.Body):
        def __init__(self, *given):
            entered.append(1)
            super().__init__(*given)

    def body(out, t):
        out[t] = 0.0
        nest(kind, depth, out, t)

    monkeypatch.setattr(control, "Body", Counting)
    require(body, np.where(INDEX < 10, 1, 0) if kind == "when" else 1)
    assert depth <= len(entered) <= depth * (depth + 3) // 2  # 2**depth without `Iterations.again`


def test_a_body_that_moves_in_the_second_trace_of_an_outer_one_is_refused():
    """One trace is enough only where the state is that of the traces before."""

    def body(out, t):
        out[t], steps = 0.0, [3.0, 3.0, 3.0, 5.0, 7.0]
        for _i in cute.range(2):
            for _j in cute.range(2):
                out[t] = out[t] + steps[0]
                steps = [*steps[1:], 0.0]

    require(body, code="trace-carried")


# -- copies


def held_twice(copied):
    def body(out, t):
        r = cute.rmem("f32", (2, 2))
        r.fill(1.0)
        twin = copied(r)
        twin[1, 0] = 5.0
        out[t] = r[1, 0] + 10.0 * twin[1, 0] + 100.0 * twin[0, 1]

    return body


def test_a_copy_of_registers_is_another_one():
    copies = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "in a list": lambda r: copy.deepcopy([r, r])[1],
        "of a copy": lambda r: copy.copy(copy.copy(r)),
    }
    check_each(lambda name: require(held_twice(copies[name]), 151), copies)


def test_a_copy_of_a_part_of_registers_is_no_part():
    def body(out, t):
        r = cute.rmem("f32", (2, 2))
        r.fill(1.0)
        row = copy.copy(r[0, None])
        row.fill(3.0)
        out[t] = r[0, 1] + 10.0 * row[1]

    require(body, 31)


def test_a_copy_of_a_variable_is_another_one():
    def body(out, t):
        v = cute.var(3)
        w = copy.copy(v)
        w.set(5)
        out[t] = (v.get() + 10 * w.get()).to("f32")

    require(body, 53)


def test_other_memory_of_a_kernel_is_not_copied_by_python():
    require(lambda out, t: copy.copy(out), code="trace-python")
    require(lambda out, t: copy.copy(cute.smem("f32", 4)), code="trace-python")


def test_a_copy_of_a_tensor_on_the_host_is_another_one():
    tensor = cute.make_tensor(np.zeros(4))
    twin = copy.copy(tensor)
    twin[0] = 1.0
    assert (tensor[0], twin[0]) == (0.0, 1.0)


# -- integers that are known while a kernel is traced are those of Python, and have `to`

KNOWN = {
    "quotient": lambda t: t // N + 5,
    "remainder": lambda t: t % 1 + 5,
    "product": lambda t: t * 0 - -5,
    "shift": lambda t: (t >> 5) | 5,
    "block": lambda t: cute.block_idx() + 5,
    "warp": lambda t: cute.warp_idx() ^ 5,
    "difference": lambda t: t + 5 - t,
    "minimum": lambda t: cute.min_(t + 5, 5),
    "maximum": lambda t: cute.max_(t, 40) - 35,
    "tiles": lambda t: cute.ceil_div(t + 129, 32),
    "multiple": lambda t: cute.round_up(t + 1, 32) % 27,
    "choice": lambda t: cute.where(t < 0, t, 5),
    "layout": lambda t: cute.make_layout((4, 8), (0, 0))((t % 4, t // 4)) + 5,
    "offset": lambda t: cute.crd2idx((t, 5), (N, 8), (0, 1)),
    "coordinate": lambda t: cute.idx2crd(t + 5 * N - t, (N, 8))[1],
    "power": lambda t: (t // N) ** 2 + 5,
    "halves": lambda t: divmod(t // N + 11, 2)[0],
}
USES = {
    "bit_length": lambda n: n.bit_length(),
    "bit_count": lambda n: n.bit_count(),
    "to_bytes": lambda n: n.to_bytes(1, "big")[0],
    "ratio": lambda n: n.as_integer_ratio()[1],
    "real": lambda n: n.real + n.imag + n.numerator + n.denominator + n.conjugate(),
    "round": lambda n: round(n) + round(n, 1) + math.floor(n) + math.ceil(n) + math.trunc(n),
    "divmod": lambda n: sum(divmod(n, 3)) + sum(divmod(17, n)),
    "power": lambda n: n**2 + 2**n,
    "half": lambda n: n / 2 + 2 / n,
    "range": lambda n: len(range(n)),
    "index": lambda n: [1, 2, 3, 4, 5, 6][n],
    "text": lambda n: len(f"{n}{n:d}{n!s}"),
    "if": lambda n: 1 if n else 2,
    "float": lambda n: float(n) + n + 0.5,
    "hash": lambda n: {5: 1}[n],
    "extremes": lambda n: max(n, 3) + min(n, 3) + abs(-n),
    "minimum": lambda n: cute.min_(n, 7) + cute.max_(n, 3) + cute.ceil_div(n, 2),
    "layout": lambda n: cute.size(cute.make_layout((n, 2))),
}


@each(KNOWN)
def test_an_integer_that_is_known_is_used_like_one_of_python(known):
    def body(out, t):
        for use, function in USES.items():
            right = {"minimum": 13, "layout": 10}.get(use) or function(5)
            assert function(KNOWN[known](t)) == right, use
        out[t] = 1.0

    require(body, 1)


def test_an_integer_that_is_known_becomes_registers():
    def check(known):
        require(lambda out, t: _store(out, t, KNOWN[known](t).to("f32") * 2.0), 10)

    check_each(check, KNOWN)


def test_an_integer_is_no_tuple():
    for function in (iter, len, lambda n: n[0], lambda n: n.x):
        require(lambda out, t, f=function: f(cute.block_idx()), code="trace-one-number")
    require(lambda out, t: t.x, code="trace-one-number")


def _store(out, t, value):
    out[t] = value


RUN_TIME = {
    "real": lambda t: t.real + t.imag + t.numerator + t.denominator - t.conjugate(),
    "ratio": lambda t: t.as_integer_ratio()[0] + 1,
    "round": lambda t: round(t) + math.floor(t) + math.ceil(t) + math.trunc(t) - 3 * t + 1,
    "divmod": lambda t: divmod(7 * t + 3, 7)[0] + divmod(t, t + 1)[0] + 1,
    "reflected": lambda t: t + divmod(3, t + 4)[1] - 2,
    "integer": lambda t: t + int(t.is_integer()),
    "extent": lambda t: t + (1 if t + 1 else 2),
}


def test_what_run_time_integers_have_of_the_protocol_is_right():
    def check(use):
        require(lambda out, t: _store(out, t, RUN_TIME[use](t).to("f32")), INDEX + 1)

    check_each(check, RUN_TIME)


# -- what a tensor is called, its length, its text


def test_messages_say_what_the_user_wrote():
    out = np.zeros(N, np.float32)
    said = {
        "r > 0.0": lambda r: bool(r > 0.0),
        "r": lambda r: float(r),
        "r * 2.0": lambda r: math.sqrt(r * 2.0),
        "sums": lambda sums: f"{sums}",
    }

    def check(text):
        def kernel(x):
            cute.launch(grid=1, block=N)
            said[text](x[cute.thread_idx()])

        with pytest.raises(CuteError) as caught:
            cute.trace(cute.kernel(kernel), out)
        assert f"given {text}, " in str(caught.value)
        assert "rmem_ptr" not in str(caught.value)

    check_each(check, said)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (json.dumps, ("a value, ",)),
        (lambda t: logging.Formatter("%(t)s").formatMessage(logging.makeLogRecord({"t": t})), ()),
        (math.sqrt, ("given tid, ", "cute.sqrt", "x.to(dtype)")),
        (float, ("given tid, ", "x.to(dtype)")),
        (np.float32, ("given tid, ", "x.to(dtype)")),
        (functools.cache(lambda t: t), ("given tid, ", "functools.cache")),
    ],
)
def test_a_refusal_has_the_line_of_the_user_and_a_fix_for_what_asked(ask, words):
    def kernel(x):
        cute.launch(grid=1, block=N)
        ask(cute.thread_idx())

    with pytest.raises(CuteError) as caught:
        cute.trace(cute.kernel(kernel), np.zeros(N, np.float32))
    assert "(test_trace_values.py:" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_the_repr_of_run_time_values_is_for_debugging():
    texts = []

    def kernel(x):
        cute.launch(grid=1, block=N)
        t = cute.thread_idx()
        texts.extend(map(repr, (t, t < 3, x[t], x)))
        texts.append(f"{t!r} {x.layout} {x}")
        x[t] = 1.0

    cute.trace(cute.kernel(kernel), np.zeros(N, np.float32))
    assert texts[0] == "<run-time integer tid>"
    assert texts[1] == "<run-time condition tid < 3>"
    assert texts[2].startswith("<run-time registers ")
    assert "x_shape0" in texts[4]


def test_the_length_of_a_tensor_is_refused_and_that_of_a_layout_is_its_rank():
    tensor = cute.make_tensor(np.zeros((4, 8)))
    for use in (len, list, lambda x: 0.0 in x, reversed):
        with pytest.raises(CuteError):
            use(tensor)
    assert len(tensor.layout) == cute.rank(tensor) == 2
    assert cute.size(tensor, 0) == 4


# -- lists, and recursion


def test_a_list_is_a_compile_time_value_and_no_array():
    def run_list(body, values=(1.0, 2.0, 3.0)):
        return outcome(body, list(values))

    def appended(out, t, values):
        values.append(4.0)
        out[t] = sum(values)

    def stored(out, t, values):
        values[0] = out[t]

    np.testing.assert_array_equal(run_list(lambda out, t, v: _store(out, t, sum(v))), np.full(N, 6))
    assert run_list(lambda out, t, v: v[t]) == "trace-python"
    assert run_list(lambda out, t, v: v[out[t]]) == "trace-python"
    assert run_list(lambda out, t, v: _store(v, t, 1.0)) == "trace-python"
    assert run_list(stored) == run_list(appended) == "argument-changed"


RECURSIONS = {
    "direct": lambda f, g, t: f(f, g, t),
    "mutual": lambda f, g, t: g(g, f, t),
    "in a call": lambda f, g, t: functools.reduce(lambda a, b: f(f, g, t), (1, 2)),
    "in a value": lambda f, g, t: cute.where(t < 3, t, f(f, g, t)),
}


def test_unbounded_recursion_is_a_refusal():
    def check(name):
        f = RECURSIONS[name]
        require(lambda out, t: f(f, f, t), code="trace-recursion")

    check_each(check, RECURSIONS)


def in_branches(t, n):
    with cute.when(t > n):
        in_branches(t, n + 1)


def test_unbounded_recursion_in_branches_is_a_refusal():
    require(lambda out, t: in_branches(t, 0), code="trace-recursion")


def test_a_recursion_that_ends_is_traced():
    def power(n):
        return 1 if n == 0 else 2 * power(n - 1)

    require(lambda out, t: _store(out, t, float(power(10))), 1024)
