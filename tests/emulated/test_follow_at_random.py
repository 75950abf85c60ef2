"""Random kernels: `follow` against the bits that arrive where each element has a bit of its own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from tests.sampling import fewer

BLOCKS, THREADS = 2, 32  # a block has a part of each array, with an element for each bit of u32
N = BLOCKS * THREADS

registers, distances = st.sampled_from((0, 1)), st.integers(1, THREADS - 1)


def step(kind, *more):
    return st.tuples(st.just(kind), registers, *more)


programs = st.lists(
    st.one_of(
        step("join"),
        step("shuffle", st.sampled_from(("bfly", "up", "down", "idx")), distances),
        step("exchange", distances),
        step("some store", distances),
        step("some keep", distances),
        step("padded load"),
        step("reduce"),
        step("redux"),
        step("loop", st.integers(1, 3)),
        step("integer"),
        step("variable"),
        step("through memory", distances),
        step("atomic", st.booleans()),
    ),
    max_size=8,
).map(tuple)


@cute.kernel
def program(x, y, z, steps):
    """Each step moves or joins the registers r[0] and r[1] of each thread."""
    cute.launch(grid=BLOCKS, block=THREADS)
    t, first = cute.thread_idx(), cute.block_idx() * THREADS
    s, held = cute.smem("u32", THREADS), cute.rmem("u32", 2)
    tile = cute.local_tile(x, (40,), (cute.block_idx(),))  # the second one has 24 elements
    r = [x[first + t], x[first + (t + 1) % THREADS]]
    for kind, at, *more in steps:
        value, other = r[at], r[1 - at]
        if kind == "join":
            value = value | other
        elif kind == "shuffle":
            value = cute.shuffle(value, more[1], kind=more[0])
        elif kind in ("exchange", "some store"):
            cute.syncthreads()
            s[t] = value
            cute.syncthreads()
            if kind == "some store":
                with cute.when(t < more[0]):
                    s[t] = other
                cute.syncthreads()
            value = s[(t + more[0]) % THREADS]
        elif kind == "some keep":
            held.fill(0)
            with cute.when(t >= more[0]):
                held[0] = value
            value = held[0] | 0
        elif kind == "padded load":
            value = value | tile[t]
        elif kind == "reduce":
            held[0], held[1] = value, other
            value = cute.reduce("or", held)
        elif kind == "redux":
            value = cute.redux("or", value)
        elif kind == "loop":
            held[0] = value
            for _turn in cute.range(more[0]):
                held[0] = cute.shuffle(held[0], 1, kind="up") | other
            value = held[0] | 0
        elif kind == "integer":
            value = value | cute.as_int(other)
        elif kind == "variable":
            count = cute.var(0)
            count.set(cute.as_int(other) * 1)
            value = value | count.get()
        elif kind == "through memory":
            y[first + t] = value
            cute.syncthreads()
            value = y[first + (t + more[0]) % THREADS]
            cute.syncthreads()
        elif kind == "atomic":
            target = cute.local_tile(z, (1,), (first + t,))
            old = cute.atomic("or", target, value, old=more[0])
            value = old if more[0] else value
        r[at] = value
    y[first + t] = r[0] | r[1]


@given(programs, st.data())
@fewer(4)
def test_an_element_goes_where_its_bit_arrives_and_comes_from_there(steps, data):
    x = np.uint32(1) << (np.arange(N, dtype=np.uint32) % THREADS)
    y, z = np.zeros(N, np.uint32), np.zeros(N, np.uint32)
    way = cute.follow(program, x, y, z, steps, element=("x", 0))
    assert not y.any()
    cute.emulate(program, x, y, z, steps)
    found = {"y": y, "z": z}

    def origins(name, i):
        first = i // THREADS * THREADS
        return {("x", (first + k,)) for k in range(THREADS) if found[name][i] >> k & 1}

    numbers = st.integers(0, N - 1)
    for i in data.draw(st.lists(numbers, min_size=3, max_size=3)):
        arrives = {(n, (k,)) for n in "yz" for k in range(N) if ("x", (i,)) in origins(n, k)}
        assert set(way.of(("x", i)).becomes) == arrives
    for name in "yz":
        i = data.draw(numbers)
        made_of = set(way.of((name, i)).made_of)
        assert {e for e in made_of if e[0] == "x"} == origins(name, i)
        for element in made_of:
            assert (name, (i,)) in way.of(element).becomes
