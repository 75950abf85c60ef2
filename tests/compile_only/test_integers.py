"""Integers in 32 bits wherever their bounds allow it: the same values, in fewer instructions."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.integers import ints
from cute_py.integers.symbols import sym
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Reg
from cute_py.plan.launch import Launch
from cute_py.plan.params import Registers, ScalarParam, TensorParam, multiplier
from cute_py.plan.plan import Plan

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from tests.compile_only import host
from tests.compile_only.ladder import main_loop, plan_of
from tests.compile_only.on_host import law, prepared
from tests.sampling import fewer

END = 1 << 31


# -- division by multipliers


@given(st.integers(1, END), st.integers(0, END - 1))
def test_a_multiplier_divides(d, n):
    for d_, n_ in ((d, n), (d, n // d * d), (d, max(n // d * d - 1, 0)), (d, END - 1)):
        packed = multiplier(d_)
        m, s = packed % 2**32, packed >> 32
        assert 0 <= s < 32
        assert packed < 2**63
        assert n_ * m >> 31 + s == n_ // d_
        assert multiplier(-d_) == packed


@cute.kernel
def quotients(out, n: cute.s32(min=1), m: cute.s32, k: cute.s32):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    for row, x in enumerate((t, t - 16, k, k - t, -k)):
        out[row, 0, t], out[row, 1, t] = x // n, x % n
        out[row, 2, t], out[row, 3, t] = x // m, x % m


NEAR = (1, 2, 3, 7, 64, 1000, END // 2, END - 1)


@pytest.mark.parametrize("n", NEAR)
def test_quotients_by_run_time_numbers_are_those_of_the_emulator(n):
    out = np.zeros((5, 4, 32), np.int64)
    plan = cute.trace(quotients, out, 1, 1, 1)
    assert len(plan.launch.divisors) == 2
    code = host.compiled(plan)
    for m in (*NEAR, -1, -3, -END, 0):
        for k in (0, 5, -5, END - 1, -END):
            emulated, emitted = out.copy(), out.copy()
            cute.emulate(plan, emulated, n, m, k)
            host.run(plan, emitted, n, m, k, code=code)
            assert (emulated == emitted).all()
            assert emulated[2, 0, 0] == k // n
            assert emulated[2, 2, 0] == (k // m if m else 0)


@cute.kernel
def divided(given, out, m: cute.s32, k: cute.s32):
    cute.launch(grid=1, block=2)
    t, x = cute.thread_idx(), cute.as_int(given[0])
    long, above = cute.as_int(given[1]), cute.as_int(given[1], 1)
    quotients = [k // d for d in (x, x - 3, long, above, 40 - m, m * m, cute.min_(m, x))]
    for row, q in enumerate((*quotients, x // m, x // k, t // above, t // (m * m), x // 7)):
        out[row, t] = q


ENDS = (0, 1, -1, 7, 40, END - 1, 1 - END, -END)


@pytest.mark.parametrize("m", ENDS)
def test_32_bits_are_divided_without_a_call_whatever_the_divisor_is(m):
    out, given = np.zeros((12, 2), np.int64), np.zeros(2, np.int64)
    plan = cute.trace(divided, given.astype(np.int32), out, 1, 1)
    with_s32 = cute.compile(plan, "sm_90a")
    assert with_s32.resources.instructions["CALL"] == 0
    assert not re.search(r"\b(div|rem)\.[su]64", with_s32.ptx)
    code = host.compiled(plan)
    for k in ENDS:
        for x in ENDS:
            arrays = np.array([x, max(x, 1)], np.int32), out.copy(), out.copy()
            cute.emulate(plan, arrays[0], arrays[1], m, k)
            host.run(plan, arrays[0], arrays[2], m, k, code=code)
            assert (arrays[1] == arrays[2]).all()
            assert arrays[1][0, 0] == (k // x if x else 0)
            assert arrays[1][5, 0] == (k // (m * m) if m else 0)


@cute.kernel
def scheduled(x, y, out, n: cute.s32(min=1)):
    """A persistent kernel that finds its tiles by division."""
    cute.launch(grid=132, block=64)
    across = cute.ceil_div(y.shape[0], 128)
    for tile in cute.range(cute.block_idx(), cute.ceil_div(x.shape[0], 128) * across, 132):
        out[tile // across * 128, tile % across * 128] = tile // n


def test_a_scheduler_divides_without_div():
    x, out = np.zeros(1000, np.int32), np.zeros((1024, 1024), np.int32)
    compiled = cute.compile(cute.trace(scheduled, x, x, out, 3), "sm_90a")
    assert not re.search(r"\b(div|rem|call)\b", compiled.ptx)
    assert "mul.hi.u32" in compiled.ptx or "mul.wide.u32" in compiled.ptx
    assert compiled.resources.instructions["CALL"] == 0


# -- tables that the host computes


@cute.kernel
def gathered(x, out, n: cute.s32):
    cute.launch(grid=4, block=64)
    t, b = cute.thread_idx(), cute.block_idx()
    far = cute.make_table([k * x.stride[0] + 8 * k for k in range(9)])
    near = cute.make_table([n % (k + 2) for k in range(4)])
    for j in cute.range(cute.min_(x.shape[0], 9)):
        out[t] += x[0, 0] + (far[j] + far[t % 9] + near[b]).to("s32")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_an_entry_is_one_load_from_the_constant_bank(arch):
    plan = cute.trace(gathered, np.zeros((5, 24), np.int32), np.zeros(64, np.int32), 1)
    compiled = cute.compile(plan, arch)
    head = re.search(r"\.entry \w+\((.*?)\n\)", compiled.ptx, re.DOTALL)[1]
    assert re.findall(r"\.align 8 \.b8 \w+\[(\d+)\]", head) == ["72", "32"]
    assert compiled.ptx.count("ld.param.b64") == 2
    assert compiled.ptx.count("ld.param.b32") == 1  # its entries fit
    used = compiled.resources
    assert (used.spill_bytes, used.stack_bytes) == (0, 0)
    assert not {"LDL", "STL", "CALL"} & used.instructions.keys()
    indexed = re.findall(r"U?LDC(?:\.64)? \w+, c\[0x0\]\[\w*R\w+\+0x\w+\]", compiled.sass)
    assert len(indexed) >= 3
    assert "trap" not in compiled.ptx  # all indices are known to be inside


@cute.kernel
def picked(x, out, count):
    cute.launch(grid=1, block=32)
    table = cute.make_table([x.shape[0] + k for k in range(4)])
    out[cute.thread_idx()] = table[cute.as_int(x[0]) % count].to("s32")


@pytest.mark.parametrize("count", [4, 5])
def test_an_index_that_may_be_outside_of_a_table_traps_there(count):
    """The emulator refuses it: see tests/emulated/test_tables.py."""
    x = np.zeros(64, np.int32)
    compiled = cute.compile(cute.trace(picked, x, x, count), "sm_90a")
    assert ("BPT" in compiled.sass) == ("trap;" in compiled.ptx) == (count > 4)


# -- narrow and wide plans agree


TID = sym("tid", min=0, max=31)
A, B, C = (sym(n, min=-END, max=END - 1) for n in "abc")
LONG = sym("long", min=None)
WIDE = tuple(sym(n, min=None) for n in ("tid", "a", "b", "c", "long"))
NARROW = (TID, A, B, C, LONG)
ends = st.sampled_from((0, 1, -1, 7, END - 1, END - 2, -END, 1 - END, END // 2, 12345))


@st.composite
def trees(draw, depth=3):
    """Draw an expression as a function of the symbols: the same for both declarations."""
    if not depth or draw(st.integers(0, 3)) == 0:
        i = draw(st.integers(0, 4))
        return lambda s: s[i]
    rule = draw(st.sampled_from((ints.add, ints.sub, ints.min_, "mul", "div", "mod")))
    left = draw(trees(depth - 1))
    if isinstance(rule, str):
        n = draw(st.sampled_from((2, 3, 64, 5, 2**20)))
        return lambda s: getattr(ints, rule)(left(s), n)
    right = draw(trees(depth - 1))
    return lambda s: rule(left(s), right(s))


def plan_with(symbols, tree, other):
    """Return a plan that stores an expression, and whether it is less than another one."""
    x, y = tree(symbols), other(symbols)
    held, flag = Registers("R", cute.s64, 1), Registers("F", cute.s64, 1)
    r, f = Reg("R", cute.s64, (0,)), Reg("F", cute.s64, (0,))
    array = TensorParam("out", cute.s64, (64,), (1,), 16)
    at = [Access("gmem", "out", cute.s64, (ints.mul(symbols[0], 2),), ((0, k),)) for k in (0, 1)]
    body = (
        ops.Map("copy", r, (x,), cute.s64),
        ops.Fill(f, 0),
        ops.If(Compare("lt", x, y), (ops.Fill(f, 1),), (), "thread"),
        ops.Store(at[0], r),
        ops.Store(at[1], f),
    )
    numbers = tuple(ScalarParam(name, cute.s64) for name in ("a", "b", "c", "long"))
    launch = Launch((1, 1, 1), (32, 1, 1))
    return Plan("kernel", (array, *numbers), launch, (), (held, flag), body)


@fewer(2)
@given(trees(), trees(), st.lists(st.tuples(ends, ends, ends, ends), min_size=1, max_size=3))
def test_narrow_and_wide_plans_agree_near_the_ends_of_32_bits(tree, other, rows):
    """Both are those of the emulator, whose integers have 64 bits."""
    plans = [plan_with(symbols, tree, other) for symbols in (NARROW, WIDE)]
    for a, b, c, long in rows:
        found = []
        for plan in plans:
            for run in (cute.emulate, host.run):
                out = np.zeros(64, np.int64)
                run(plan, out, a, b, c, long * 2)
                found.append(out)
        assert all((x == found[0]).all() for x in found)


# -- arrays whose offsets fit 32 bits

K = sym("k1", min=0, max=9)
ROWS = sym("A_shape0", min=1, max=END - 1)
STRIDE = sym("A_stride0", min=0, max=END // 4)
NUMBER = sym("n", min=-END, max=END - 1)
REACH = END // 4 - 1


@st.composite
def small_plans(draw):
    """Draw loads of a small array in a loop, with offsets that may leave it."""
    array = TensorParam("A", cute.f32, (ROWS, 8), (STRIDE, 1), 16, small=True)
    some = st.sampled_from((TID, K, STRIDE, NUMBER, ints.mul(K, STRIDE), ints.mul(TID, STRIDE)))
    factors = st.sampled_from((1, 4, -1, 32))
    body = []
    for _op in range(draw(st.integers(1, 3))):
        terms = draw(st.lists(st.tuples(some, factors), min_size=1, max_size=3))
        base = draw(st.integers(-40, 40))
        for x, c in terms:
            base = ints.add(base, ints.mul(x, c))
        more = draw(st.sampled_from((0, STRIDE, 4)))
        bases = (base, ints.add(base, more))
        table = tuple((i % 2, draw(st.integers(0, 300))) for i in range(3))
        x = Access("gmem", "A", cute.f32, bases, table)
        body.append(ops.Load(Reg("R", cute.f32, (0, 1, 2)), x))
    loop = ops.Loop("k1", 0, 10, 1, tuple(body))
    launch = Launch((1, 1, 1), (32, 1, 1))
    params = (array, ScalarParam("n", cute.s32))
    return Plan("kernel", params, launch, (), (Registers("R", cute.f32, 3),), (loop,))


@fewer(2)
@given(small_plans(), st.sampled_from((0, 1, 3, 2**20, REACH)), ends, st.integers(0, 31))
def test_offsets_in_32_bits_reach_every_element_of_an_array(plan, stride, n, tid):
    env = dict.fromkeys(("bid_x", "bid_y", "bid_z", "smem"), 0)
    env |= {"A": 1 << 40, "A_shape0": 5, "A_stride0": stride, "n": n, "tid": tid}
    rows = iter(prepared(plan)(env))
    (loop,) = plan.body
    for k in range(10):
        for op in loop.body:
            for _space, address, _guard in law(op.src, env | {"k1": k}, env["A"]):
                found = next(rows)[1]
                if 0 <= address - env["A"] <= 4 * REACH:
                    assert found == address


def test_an_array_of_2_gb_takes_64_bits():
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4, 8), (0, 4))
    far = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4, 8), (2**30, 4))
    plans = [cute.trace(first, a) for a in (x, far)]
    assert [plan.params[0].small for plan in plans] == [True, False]


@cute.kernel
def first(x):
    cute.launch(grid=1, block=32)
    x[cute.thread_idx() % 4, 0] = 1.0


# -- figures


@pytest.mark.parametrize(("arch", "most"), [("sm_90a", 135), ("sm_80", 136)])
def test_the_loop_of_the_flagship(arch, most):
    _before, loop = main_loop(cute.compile(plan_of("gemm_07_multistage"), arch).sass)
    assert (loop["HMMA"], loop["LDSM"], loop["LDGSTS"]) == (64, 16, 8)
    assert sum(loop.values()) <= most


@cute.kernel
def guarded(x, out):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        out[i] = x[i]


def test_a_comparison_is_one_instruction():
    x = np.zeros(1000, np.float32)
    found = cute.compile(cute.trace(guarded, x, x), "sm_90a").resources.instructions
    assert found["ISETP"] == 1


@cute.kernel
def ragged(sizes, x, out):
    """A loop with barriers whose bound comes from memory."""
    cute.launch(grid=sizes.shape[0], block=64)
    b, t, held = cute.block_idx(), cute.thread_idx(), cute.smem("f32", 64)
    for k in cute.range(cute.as_int(sizes[b], 0, 8, uniform="block")):
        held[t] = x[b, k * 64 + t]
        cute.syncthreads()
        out[b, k * 64 + t] = held[63 - t]
        cute.syncthreads()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_uniform_bound_from_memory_compiles(arch):
    sizes, x = np.zeros(3, np.int32), np.zeros((3, 512), np.float32)
    plan = cute.trace(ragged, sizes, x, x)
    assert [op.scope for op in plan.ops if isinstance(op, ops.Loop)] == ["block"]
    found = cute.compile(plan, arch).resources.instructions
    assert found["BAR"] >= 2
