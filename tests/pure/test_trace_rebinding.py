"""A block that gives a name another value of the kernel: an integer, a condition, memory.

The plan has one value after the block, whatever threads took it, so it must be the one before.
"""

import types
from collections import deque
from functools import partial

import cute_py as cute
from tests.kernel_refusals import raised, traced
from tests.sampling import each, in_turn

T = cute.thread_idx

# of each kind: how the value is made, and how another one is
VALUES = {
    "number": (lambda _x: 0, lambda _x: T() * 2),
    "thread": (lambda _x: T(), lambda _x: T() * 2),
    "extent": (lambda x: x.shape[0], lambda x: x.shape[0] - 1),
    "decided": (lambda _x: T() + 1, lambda _x: T() // 32),
    "shift": (lambda _x: 1 << T() % 8, lambda _x: 1 << T() % 4),
    "element": (lambda x: cute.as_int(x[0]), lambda x: cute.as_int(x[1])),
    "condition": (lambda _x: T() < 4, lambda _x: T() < 5),
    "decided condition": (lambda _x: False, lambda _x: T() < 5),
    "shape": (lambda x: x.shape, lambda x: (x.shape[0] - 1,)),
    "layout": (lambda _x: cute.Layout(4, T()), lambda _x: cute.Layout(4, T() + 1)),
    "pointer": (lambda x: x.data + T(), lambda x: x.data + 1),
    "tile": (
        lambda x: cute.local_tile(x, (4,), (0,)),
        lambda x: cute.local_tile(x, (4,), (T() // 16,)),
    ),
    "type": (lambda x: x, lambda x: cute.recast(x, "u32")),
    "register": (lambda x: x[0], lambda x: x[1]),
    "table": (
        lambda x: cute.make_table([1, x.shape[0]]),
        lambda x: cute.make_table([2, x.shape[0]]),
    ),
    "mbarriers": (lambda _x: cute.mbarriers(1), lambda _x: cute.mbarriers(1)),
}
# where a value is: what makes the place, and what puts another value there
PLACES = {
    "list": (lambda v: [v], lambda held, v: held.__setitem__(0, v)),
    "dict": (lambda v: {"a": v}, lambda held, v: held.update(a=v)),
    "object": (lambda v: types.SimpleNamespace(v=v), lambda held, v: setattr(held, "v", v)),
    "deque": (lambda v: deque([v]), lambda held, v: (held.pop(), held.append(v))),
    "nested": (lambda v: ([{"a": v}],), lambda held, v: held[0][0].update(a=v)),
    "default": (
        lambda v: types.FunctionType((lambda a: a).__code__, {}, "f", (v,)),
        lambda held, v: setattr(held, "__defaults__", (v,)),
    ),
}


def when(x, put):
    with cute.when(T() < 16):
        put()


def otherwise(x, put):
    with cute.when(T() < 16):
        x[T()] = 1
    with cute.otherwise():
        put()


def loop(x, put):
    for _k in cute.range(x.shape[0] // 40):
        put()


def while_(x, put):
    count = cute.var(0)
    with cute.while_(lambda: count.get() < 3):
        count.set(count.get() + 1)
        put()


BLOCKS = (when, otherwise, loop, while_)


def rebinding(value, block):
    """Return a kernel that binds a name to another value in a block, and uses it after that."""
    make, other = VALUES[value]

    def body(x):
        v, w = make(x), other(x)

        def put():
            nonlocal v
            v = w

        block(x, put)
        repr(v)

    return body


@each(in_turn(VALUES, [*BLOCKS, when]))
def test_a_name_that_a_block_binds_to_another_value_may_not_be_used_after_it(value, block):
    assert raised(lambda: traced(rebinding(value, block))).code == "trace-rebound"


@each(in_turn([*PLACES] * 3, VALUES, BLOCKS))
def test_another_value_in_a_container_may_not_be_used_after_the_block(place, value, block):
    (hold, change), (make, other) = PLACES[place], VALUES[value]

    def body(x):
        held, w = hold(make(x)), other(x)
        block(x, lambda: change(held, w))
        repr(held)

    assert raised(lambda: traced(body)).code == "trace-rebound"


def test_an_integer_that_a_loop_moves_is_refused():
    def counts(x):
        v = T()
        for _k in cute.range(4):
            v = v + 1
        x[0] = v

    def swaps(x):
        v, w = T(), T() + 1
        for _k in cute.range(4):
            v, w = w, v
        x[0] = v

    def advances(x):
        seen = types.SimpleNamespace(v=T())
        for _k in cute.range(4):
            seen.v += x.shape[0]

    for body in (counts, swaps, advances):
        assert raised(lambda body=body: traced(body)).code == "trace-carried"


def same_value(x, block):
    held, v = [T() + T()], T() * 2

    def put():
        nonlocal v
        v, held[0] = T() + T(), 2 * T()

    block(x, put)
    x[0] = v + held[0]


def own_names(x, block):
    v = T()

    def put():
        w = v * 2
        w, u = w + 1, [w]
        u.append(w)
        x[u[0]] = w

    block(x, put)
    x[0] = v


def bound_again(x, block):
    v = T()
    with cute.when(T() < 16):
        v = T() * 2
        x[v] = 1
    v = T() + 1
    x[0] = v


def kept_for_the_body(x, block):
    seen = types.SimpleNamespace(tile=T())
    for k in cute.range(x.shape[0]):
        seen.tile = k * 2
        x[seen.tile // 2] = 1


def a_variable(x, block):
    v, held = cute.var(T()), partial(cute.min_, T())
    block(x, lambda: v.set(held(3)))
    x[0] = v.get()


@each((same_value, own_names, bound_again, kept_for_the_body, a_variable), BLOCKS)
def test_what_is_the_same_after_a_block_or_not_used_then_is_no_reason_to_refuse(body, block):
    assert traced(lambda x: body(x, block)).body
