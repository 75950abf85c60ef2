"""The law of code generation: a plan means the same on the emulator and as emitted code.

The code is run on this machine's CPU (`host`), optimized, so that a result without a meaning shows.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan import ops
from cute_py.plan.ops.control import let_bounds
from cute_py.plan.verify import verify
from cute_py.plan.walk import every

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from tests.compile_only import host  # after the skip: it needs llvmlite
from tests.compile_only.expressions import (
    INTEGERS,
    THREADS,
    integer_case,
    integers,
    register_case,
    registers,
)


def both(plan, out, *args, code=None):
    """Run a plan that writes its first array twice; return what each wrote."""
    emulated, emitted = out.copy(), out.copy()
    cute.emulate(plan, emulated, *args)
    host.run(plan, emitted, *args, code=code)
    return emulated, emitted


def require_same(emulated, emitted):
    """Bits are the same; all NaN are one."""
    assert np.array_equal(emulated, emitted, equal_nan=emulated.dtype.kind == "f")
    if emulated.dtype.kind == "f":
        numbers = ~np.isnan(emulated)
        assert np.array_equal(np.signbit(emulated)[numbers], np.signbit(emitted)[numbers])


# -- random kernels


@pytest.mark.parametrize("kind", [*INTEGERS, "f32", "f64"])
@pytest.mark.parametrize("seed", range(2))
def test_registers_mean_the_same(kind, seed):
    steps, x = register_case(kind, seed)
    out = np.zeros((len(steps), THREADS), x.dtype)
    require_same(*both(cute.trace(registers, out, x, kind, steps), out, x))


@pytest.mark.parametrize("seed", [*range(2, 12), 101064])
def test_integers_of_a_plan_mean_the_same(seed):
    steps, n, s = integer_case(seed)
    out = np.zeros((THREADS, len(steps)), np.int64)
    plan = cute.trace(integers, out, n, s, steps)
    code = host.compiled(plan)
    for numbers in ((n, s), (-1, 64), (2**31 - 1, -(2**63))):
        require_same(*both(plan, out, *numbers, code=code))


# -- division


@cute.kernel
def divided(out, x, y):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    a, b = x[t], y[t]
    out[0, t], out[1, t], out[2, t], out[3, t] = a // b, a % b, a // 0, a % 0
    out[4, t], out[5, t] = a // 3, a % 3


@pytest.mark.parametrize("kind", INTEGERS)
def test_division_of_registers_is_that_of_python_where_that_is_defined(kind):
    """By 0 it is 0; the least integer // -1 is itself, as its negation is."""
    dtype = cute.dtype(kind)
    low, high = int(dtype.min), int(dtype.max)
    few = sorted({low, low + 1, max(low, -7), max(low, -1), 0, 1, 7, high})
    pairs = [*product(few, few)]
    x, y = np.array((pairs * 64)[:64], dtype.numpy).T.copy()
    out = np.zeros((6, 64), x.dtype)
    found, emitted = both(cute.trace(divided, out, x, y), out, x, y)
    require_same(found, emitted)
    for a, b, quotient, rest in zip(x.tolist(), y.tolist(), *found[:2].tolist(), strict=True):
        if b and (a, b) != (low, -1):
            assert (quotient, rest) == divmod(a, b)
        else:
            assert (quotient, rest) == (a if b else 0, 0)
    assert not found[2:4].any()


@cute.kernel
def chosen(out, x, y):
    """A quotient that is not taken where its divisor is 0, beside another choice."""
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    large = y[t] > 5
    divisor = cute.where(large, y[t], 0)
    out[0, t] = cute.where(large, 1, 2)
    out[1, t] = cute.where(large, x[t] // divisor, 7)


def test_a_division_by_zero_changes_no_other_result():
    """LLVM takes a divisor for one that is not 0, and so `large` for true."""
    out, x = np.zeros((2, 32), np.int32), np.arange(32, dtype=np.int32)
    plan = cute.trace(chosen, out, x, x)
    assert "i32 2, i32 1" in host.compiled(plan)[0].text  # before it runs: a CPU stops at 0
    found, emitted = both(plan, out, x, x)
    assert found[0].tolist() == [2] * 6 + [1] * 26
    require_same(found, emitted)


def test_a_divisor_that_is_known_costs_nothing():
    @cute.kernel
    def known(out, x):
        cute.launch(grid=1, block=32)
        out[cute.thread_idx()] = x[cute.thread_idx()] // 10

    x = np.zeros(32, np.uint32)
    text = host.compiled(cute.trace(known, x, x))[0].text
    assert "select" not in text
    assert "icmp" not in text


@cute.kernel
def apart(out, n: cute.s32, s: cute.s64):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    found = ((t - n) // 2**40, (t - n) % 2**40, (t - n) >> 33, (s - n) // 1000, (t + 3 * n) // 4)
    for k, x in enumerate(found):
        out[t, k] = x.to("s64")


@pytest.mark.parametrize("n", [-(2**31), -5, 0, 7, 2**31 - 1])
def test_a_quotient_of_a_difference_needs_no_more_bits_than_it(n):
    """In normal form (t - n)//2**40 is (t + (2**40 - 1)*n)//2**40 - n."""
    out = np.zeros((32, 5), np.int64)
    for s in (2**61, -(2**61)):
        found, emitted = both(cute.trace(apart, out, n, s), out, n, s)
        require_same(found, emitted)
        assert found[3].tolist() == [
            *((3 - n) // 2**40, (3 - n) % 2**40, (3 - n) >> 33, (s - n) // 1000, (3 + 3 * n) // 4)
        ]


# -- shifts of integers of a plan


@cute.kernel
def shifted(out, n: cute.s64, s: cute.s64):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    found = (n << s, n >> s, (t - 9) << s, (t - 9) >> s, 1 << s, -1 >> s, n << 64, n >> 64, n << 63)
    for k, x in enumerate(found):
        out[t, k] = x.to("s64")


@pytest.mark.parametrize("s", [0, 1, 31, 32, 62, 63, 64, 65, 2**40, -1, -64, -(2**63)])
def test_shifts_of_integers_are_those_of_64_bit_registers(s):
    out = np.zeros((32, 9), np.int64)
    plan = cute.trace(shifted, out, 5, s)
    for n in (0, 5, -1, 2**62, -(2**63)):
        found, emitted = both(plan, out, n, s)
        require_same(found, emitted)
        t = np.arange(32) - 9
        with np.errstate(all="ignore"):
            assert np.array_equal(found[:, 2], np.left_shift(t, np.int64(s)))
            assert np.array_equal(found[:, 3], np.right_shift(t, np.int64(s)))
        assert (found[:, 6] == 0).all()
        assert (found[:, 7] == (-1 if n < 0 else 0)).all()


def test_bounds_of_shifts_hold_after_wrap_around():
    t = cute.sym("t", min=1, max=31)
    for count, bounds in ((3, (8, 248)), (58, (2**58, 31 << 58)), (59, (None, None))):
        assert let_bounds("shl", t, count) == bounds
    assert let_bounds("shl", 1, cute.sym("n", min=0)) == (None, None)
    assert let_bounds("shl", 1, cute.sym("n", min=0, max=2**40)) == (None, None)
    assert let_bounds("shr", t, cute.sym("n", min=0, max=2**40)) == (0, 31)


# -- what guards leave out


@cute.kernel
def filled(out, x, fill):
    cute.launch(grid=1, block=32)
    held = cute.rmem(x.dtype, 4)
    cute.copy(cute.local_tile(x, (4,), (cute.thread_idx(),)), held, fill=fill)
    for k in range(4):
        out[cute.thread_idx(), k] = held[k]


@pytest.mark.parametrize("fill", [-0.0, 0.0, 1.5, float("-inf")])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_fills_keep_their_sign(fill, kind):
    x, out = np.ones(30, kind), np.zeros((32, 4), kind)
    found, emitted = both(cute.trace(filled, out, x, fill), out, x)
    require_same(found, emitted)
    assert found.ravel()[30:].tobytes() == np.full(98, fill, kind).tobytes()


@cute.kernel
def counted(out, x):
    cute.launch(grid=1, block=32)
    ones = cute.rmem("s32", 4)
    ones.fill(1)
    old = cute.atomic("add", cute.local_tile(x, (4,), (cute.thread_idx(),)), ones, old=True)
    for k in range(4):
        out[cute.thread_idx(), k] = old[k] + 5


def test_guarded_atomics_have_old_values():
    out = np.zeros((32, 4), np.int32)
    plan = cute.trace(counted, out, np.zeros(126, np.int32))
    found = [out.copy(), np.arange(126, dtype=np.int32)]
    emitted = [x.copy() for x in found]
    cute.emulate(plan, *found)
    host.run(plan, *emitted)
    assert all(map(np.array_equal, found, emitted))
    assert found[0].ravel().tolist() == [*range(5, 131), 5, 5]
    assert found[1].tolist() == [*range(1, 127)]
    ptx = cute.compile(plan, "sm_80").ptx
    assert ptx.count("atom.global.add.s32") == 4


def test_old_values_of_guarded_atomics_are_assigned_before():
    plan = cute.trace(counted, np.zeros((32, 4), np.int32), np.zeros(126, np.int32))
    (op,) = (op for op in every(plan.body) if isinstance(op, ops.Atomic))
    kept = [x for x in plan.body if not (isinstance(x, ops.Fill) and x.dst == op.old)]
    assert len(kept) == len(plan.body) - 1
    with pytest.raises(cute.LayoutError) as caught:
        verify(replace(plan, body=tuple(kept)))
    assert caught.value.code == "plan-unassigned"
