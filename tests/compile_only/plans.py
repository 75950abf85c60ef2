"""Strategies for plans made by hand: scalars, accesses, and values for all their names."""

from random import Random

from hypothesis import strategies as st

import cute_py as cute
from cute_py.codegen.build import lowered
from cute_py.integers import ints
from cute_py.integers.symbols import sym, terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg
from cute_py.plan.launch import Launch
from cute_py.plan.params import Registers, ScalarParam, Shared, TensorParam
from cute_py.plan.plan import Plan
from tests.compile_only.on_host import prepared, wanted

# -- a kernel's integers

TID = sym("tid", min=0, max=127)
BID = sym("bid_x", min=0)
ROWS = sym("A_shape0", min=1)
COLUMNS = sym("A_shape1", multiple_of=8)
STRIDE = sym("A_stride0", multiple_of=4, min=0)
X = sym("x", min=-(2**31), max=2**31 - 1)
Y = sym("y", min=None)
K0 = sym("k0", min=0)  # a number with the name of a loop's variable: chains take it for one
FEW = sym("few", min=-3, max=6)
FIXED = (TID, BID, ROWS, COLUMNS, STRIDE, X, Y, FEW)
ALL = (*FIXED, K0)
FREE = ("x", "y", "k0", "few")


ENDS = (1, 2**31, 2**32, 2**40)


def environment(chosen):
    """Return random values of all names, many at the ends of 32 bits: sizes, indices, addresses."""
    env = {"smem": 1024 * chosen.randint(0, 64), "bid_y": 0, "bid_z": 0}
    env |= {name: 1024 * chosen.randint(0, 2**40) for name in "AB"}
    for s in ALL:
        ((atom,),) = terms_of(s)
        low = -(2**33) if atom.lo is None else atom.lo
        high = 2**41 if atom.hi is None else atom.hi
        near = chosen.choice((1, -1)) * chosen.choice(ENDS) + chosen.randint(-3, 3)
        found = chosen.choice((near, chosen.randint(low, high), low))
        env[str(s)] = atom.multiple_of * min(max(found, low), high)
    return env


def of_seed(seed):
    chosen = Random(seed)
    return [environment(chosen) for _env in range(5)]


environments = st.integers(0, 2**32).map(of_seed)
near = st.builds(
    lambda end, sign, more: sign * end + more,
    st.sampled_from(ENDS),
    st.sampled_from((1, -1)),
    st.integers(-3, 3),
)


def plan_of(body, dtype=cute.f32):
    """Return a plan over arrays A and B, a storage S of shared memory and registers R."""
    a = TensorParam("A", dtype, (ROWS, COLUMNS), (STRIDE, 1), 16)
    b = TensorParam("B", dtype, (1024,), (1,), 16)
    numbers = tuple(ScalarParam(name, cute.s64) for name in FREE)
    storages = (Registers("R", cute.f32, 32),)
    shared = (Shared("S", dtype, 1024, 2048, 1024),)
    grid = Launch((1, 1, 1), (128, 1, 1))
    return Plan("kernel", (a, b, *numbers), grid, shared, storages, tuple(body))


def load(x):
    return ops.Load(Reg("R", x.dtype, tuple(range(x.count * x.width))), x)


def once(*body):
    """Return a plan with a loop of one pass: chains are looked for inside of loops and branches."""
    return plan_of([ops.Loop("k1", 0, 1, 1, body)])


def check(plan, environments):
    """Compare the printed kernel with the law, for some values of its names."""
    run = prepared(lowered(plan))
    for env in environments:
        assert run(env) == wanted(plan, env)


# -- scalars

atoms = st.sampled_from(ALL)
numbers = st.integers(-20, 20) | st.sampled_from((64, 2**20, -(2**20)))
divisors = st.sampled_from((2, 3, 7, 16, ROWS, COLUMNS))


def joined(leaves):
    pairs = st.tuples(leaves, leaves)
    return st.one_of(
        pairs.map(lambda ab: ints.add(*ab)),
        pairs.map(lambda ab: ints.sub(*ab)),
        pairs.map(lambda ab: ints.min_(*ab)),
        st.tuples(leaves, st.sampled_from((2, -3, 8, 64))).map(lambda ab: ints.mul(*ab)),
        st.tuples(leaves, divisors).map(lambda ab: ints.div(*ab)),
        st.tuples(leaves, divisors).map(lambda ab: ints.mod(*ab)),
    )


scalars = st.recursive(atoms | numbers, joined, max_leaves=4)


# -- accesses


DTYPES = (cute.s8, cute.f16, cute.f32, cute.f64)


@st.composite
def accesses(draw, space, guards=(), dtypes=DTYPES, scalars=scalars):
    """Draw an access: any width, rows of bases, maybe swizzled."""
    dtype = draw(st.sampled_from(dtypes))
    width = draw(st.sampled_from([w for w in (1, 2, 4, 8, 16) if 8 <= w * dtype.bits <= 128]))
    far = st.sampled_from((2**32 + 3, -(2**33), 2**35)) if space == "gmem" else st.just(7)
    offsets = st.integers(-9, 300) | far
    unit = width

    def whole(x):
        return ints.mul(x, unit)

    more = {}
    if draw(st.booleans()):
        bits, shift = draw(st.integers(1, 3)), draw(st.integers(0, 3))
        base = draw(st.integers(width.bit_length() - 1, 4))
        shift = (bits + shift) * draw(st.sampled_from((1, -1)))
        more = {"swizzle": (bits, base, shift), "inner": whole(draw(st.just(0) | scalars))}
        unit = max(width, 1 << (bits + base + abs(shift)))
    bases = [whole(draw(scalars))]
    for step in draw(st.lists(scalars, max_size=3)):
        bases.append(ints.add(draw(st.sampled_from(bases)), whole(step)))
    rows = st.tuples(st.integers(0, len(bases) - 1), offsets.map(lambda x: x * width))
    table = tuple(draw(st.lists(rows, min_size=1, max_size=6)))
    if draw(st.booleans()) and guards:
        more["masks"] = tuple(
            draw(st.sets(st.integers(0, len(guards) - 1)).map(sorted).map(tuple)) for _row in table
        )
        more["guards"] = guards
    storage = "A" if space == "gmem" else "S"
    return Access(space, storage, dtype, tuple(bases), table, width, **more)
