"""Strength-reduced addresses obey the law of `Access` in every op and iteration,
on random plans (`codegen.passes.strength`).
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.atoms.copy_sm80 import SM80_CP_ASYNC_CACHEALWAYS
from cute_py.integers import ints
from cute_py.integers.symbol_decisions import bounds
from cute_py.integers.symbols import sym, terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.passes.strength import Chains
from tests.compile_only.plans import (
    FEW,
    FIXED,
    K0,
    ROWS,
    STRIDE,
    TID,
    X,
    check,
    environments,
    load,
    of_seed,
    once,
    plan_of,
)
from tests.sampling import fewer

# -- chains: from op to op

ALONG = (0, 1, 4, -2, STRIDE, 12)


@st.composite
def steps(draw):
    """Draw an offset that stays the same in all passes of a loop."""
    some = st.sampled_from(FIXED)
    return draw(
        st.integers(-50, 50)
        | st.tuples(some, st.sampled_from((1, -3, 8))).map(lambda ab: ints.mul(*ab))
        | st.tuples(some, st.sampled_from((3, ROWS))).map(lambda ab: ints.div(*ab))
        | st.tuples(some, st.integers(-9, 9)).map(lambda ab: ints.add(*ab))
    )


class Ops:
    """Draws ops whose addresses move alike, most of them."""

    def __init__(self, draw):
        self.draw, self.rates, self.reads = draw, {}, 0

    def choose(self, *options):
        return self.draw(st.sampled_from(options))

    def rate(self, storage, s):
        """Return how far an array's addresses move with a symbol."""
        return self.rates.setdefault((storage, str(s)), self.choose(*ALONG))

    def moving(self, storage, scope):
        """Return the part of an offset that the symbols in scope move."""
        total = 0
        for s in scope:
            rate = self.choose(*ALONG) if self.choose(*[0] * 9, 1) else self.rate(storage, s)
            total = ints.add(total, ints.mul(s, rate))
        if scope and self.choose(0, 0, 0, 1):
            s = self.choose(*scope)
            rule = self.choose(ints.div, ints.mod, ints.min_)
            total = ints.add(total, rule(s, self.choose(3, 2, 8, ROWS)))
        return total

    def access(self, scope):
        storage = self.choose("A", "A", "B")
        along = self.moving(storage, scope)
        bases = [ints.add(along, self.draw(steps())) for _base in range(self.choose(1, 1, 2, 3))]
        dtype = self.choose(cute.f32, cute.f32, cute.f32, cute.s32, cute.f16)
        offsets = st.tuples(st.integers(0, len(bases) - 1), st.integers(-9, 9))
        table = tuple(self.draw(st.lists(offsets, min_size=1, max_size=3)))
        return Access("gmem", storage, dtype, tuple(bases), table)

    def op(self, scope):
        x = self.access(scope)
        if x.dtype.bits == 32 and self.choose(0, 0, 1):
            table = tuple((0, i) for i in range(x.count))
            shared = Access("smem", "S", x.dtype, (TID,), table)
            return ops.CpAsync(SM80_CP_ASYNC_CACHEALWAYS(32), shared, x)
        if self.choose(0, 0, 1):
            return ops.Store(x, load(x).dst)
        return load(x)


@st.composite
def rows_of_ops(draw):
    made = Ops(draw)
    scope = draw(st.sampled_from(((K0,), (K0, X), (K0, K0))))
    return once(*[made.op(scope) for _op in range(draw(st.integers(2, 5)))])


@fewer(2)
@given(rows_of_ops(), environments)
def test_chains_from_op_to_op(plan, environments):
    check(plan, environments)


def test_a_step_may_use_symbols_that_the_op_does_not_use():
    """From A[k,t] to A[k,0] the address goes on by -tid."""

    @cute.kernel
    def differences(A, out):
        cute.launch(grid=1, block=32)
        t, total = cute.thread_idx(), cute.rmem("f32", 1)
        total.fill(0)
        for k in cute.range(A.shape[0]):
            total += A[k, t] - A[k, 0]
        out[t] = total[0]

    plan = cute.trace(differences, np.zeros((8, 32), np.float32), np.zeros(32, np.float32))
    assert "A_at = load_1(A_stride0, k0, tid, A, A_at, x1)" in cute.source(plan)
    assert cute.compile(plan, "sm_80").ptx


@pytest.mark.parametrize("narrow", [cute.f16, cute.s8])
def test_no_step_leads_to_elements_of_another_size(narrow):
    """A recast array counts its offsets in other elements."""
    wide, small = (Access("gmem", "A", kind, (K0,), ((0, 0),)) for kind in (cute.f32, narrow))
    check(once(load(wide), load(small), load(small), load(wide)), of_seed(0))


# -- induction variables: around loops


def bounds_of(x):
    return bounds(terms_of(x))


class Body(Ops):
    """Draws blocks with loops, branches, variables and ops in them."""

    def __init__(self, draw):
        super().__init__(draw)
        self.counts = {"k": 1, "n": 1}  # k0 is a number

    def name(self, stem):
        self.counts[stem] += 1
        return f"{stem}{self.counts[stem] - 1}"

    def block(self, scope, depth, in_loop=False):
        """Draw a block; `scope` are the loop variables and Lets that it may use."""
        found, scope = [], list(scope)
        for _part in range(self.choose(1, 2, 3)):
            kinds = ["op", "op", "op"] + ["loop", "branch", "let", "turn", "leave"] * (depth > 0)
            kind = self.choose(*kinds)
            found += getattr(self, f"a_{kind}")(scope, depth, in_loop)
        return tuple(found)

    def a_op(self, scope, _depth, _in_loop):
        return [self.op(scope)]

    def small(self, scope):
        number = st.integers(-4, 6)
        return self.draw(
            number | st.sampled_from((FEW, *scope)) if scope else number | st.just(FEW)
        )

    def condition(self, scope):
        tests = self.choose("lt", "le", "eq", "ne")
        return Compare(tests, self.small(scope), ints.add(self.small(scope), self.choose(0, 1, 2)))

    def a_loop(self, scope, depth, _in_loop):
        start, step = self.choose(0, 0, -2, 3, FEW, self.small(scope)), self.choose(1, 1, 2, -1, -3)
        stop = self.choose(FEW, 4, 0, self.small(scope))
        k = loop_variable(self.name("k"), start, stop, step)
        body = self.block([*scope, k], depth - 1, True)
        return [ops.Loop(str(k), start, stop, step, body)]

    def a_branch(self, scope, depth, in_loop):
        parts = [self.block(scope, depth - 1, in_loop) for _part in range(2)]
        return [ops.If(self.condition(scope), parts[0], self.choose(parts[1], ()), "thread")]

    def a_let(self, scope, _depth, _in_loop):
        n = sym(self.name("n"), min=None)
        kind = self.choose("xor", "and", "or", "var")
        operands = ("turn0",) if kind == "var" else (self.small(scope), self.small(scope))
        scope.append(n)
        return [ops.Let(str(n), kind, operands)]

    def a_turn(self, scope, _depth, _in_loop):
        return [ops.Set("turn0", self.small(scope))]

    def a_leave(self, scope, _depth, in_loop):
        target = self.choose("loop", "loop", "kernel") if in_loop else "kernel"
        return [ops.Leave(self.condition(scope), target, "thread")]


def loop_variable(name, start, stop, step):
    """Return a loop's variable with the bounds and the unit that tracing gives it."""
    (low, top), (bottom, high) = bounds_of(start), bounds_of(stop)
    if step < 0:
        low, high = (None if bottom is None else bottom + 1), None if top is None else top + 1
    last = None if high is None else high - 1
    if low is not None and last is not None and last < low:
        last = low
    unit = abs(step) if isinstance(start, int) and start % abs(step) == 0 else 1
    if last is not None:
        last += unit
    return sym(name, multiple_of=unit, min=low, max=last)


@st.composite
def bodies(draw):
    made = Body(draw)
    outer = made.a_loop([], 3, False)
    return plan_of([ops.Set("turn0", 0), *outer, *made.block([], 2)])


@fewer(4)
@given(bodies(), environments)
def test_addresses_carried_around_loops(plan, environments):
    check(plan, environments)


def in_loop(k, start, stop, step, *body):
    return plan_of([ops.Loop(str(k), start, stop, step, body)])


@pytest.mark.parametrize(("start", "stop"), [(5, 0), (FEW, 0), (0, 9)])
def test_a_loop_down_to_a_division_by_0_carries_no_address(start, stop):
    k = loop_variable("k1", start, stop, -1)
    x = Access("gmem", "A", cute.f32, (ints.add(ints.div(TID, k), k),), ((0, 0),))
    check(in_loop(k, start, stop, -1, load(x)), of_seed(0))


def test_an_induction_variable_begins_without_what_only_the_loop_knows():
    """The swizzled offset may use a `Let` of the body; the loop carries the address of a base."""
    k, n = sym("k1", min=0), sym("n1", min=None)
    inside = {"swizzle": (2, 2, 3), "inner": ints.mul(n, 4)}
    x = Access("gmem", "A", cute.f32, (ints.mul(k, 128),), ((0, 0),), 4, **inside)
    let = ops.Let("n1", "xor", (k, 1))
    (induction,) = Chains(in_loop(k, 0, X, 1, let, load(x))).inductions.popitem()[1]
    assert (induction.begin, induction.step, induction.source.inner) == (0, 128, 0)
