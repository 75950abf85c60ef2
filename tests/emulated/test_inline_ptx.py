"""`cute.inline_ptx`: what the text may say, and the function that the emulator runs."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan import ops
from cute_py.plan.inline_ptx import as_llvm, problem_of
from tests.coverage import covers
from tests.kernel_refusals import traced
from tests.sampling import each

SATURATE = "add.sat.s32 %0, %1, %2;"


def add_sat(a, b):
    total = a.astype(np.int64) + b
    return np.clip(total, -(2**31), 2**31 - 1).astype(np.int32)


@cute.kernel
def saturated(out, x):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    a, b = cute.rmem("s32", (2, 1)), cute.rmem("s32", (1, 3))
    for i in range(2):
        a[i, 0] = x[t + i]
    for i in range(3):
        b[0, i] = x[t + 10 * i]
    found = cute.inline_ptx(SATURATE, "s32", (a, b), emulate=add_sat)
    for i in range(6):
        out[t, i] = found[i]


def numbers():
    return np.random.default_rng(0).integers(-(2**31), 2**31, 96).astype(np.int32)


def test_the_emulator_runs_the_function_for_each_element():
    x, out = numbers(), np.zeros((64, 6), np.int32)
    saturated(out, x)
    t = np.arange(64)
    wanted = [add_sat(x[t + i], x[t + 10 * j]) for j in range(3) for i in range(2)]
    np.testing.assert_array_equal(out, np.array(wanted).T)


@cute.kernel
def several(out, x):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    with cute.when(t < 40):
        low, high = cute.inline_ptx(
            "mov.b64 {%0, %1}, %2;",
            ("u32", "u32"),
            x[t],
            emulate=lambda x: (x.astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)),
        )
        out[t, 0], out[t, 1] = low, high


def test_several_outputs_and_a_part_of_the_lanes():
    x = np.random.default_rng(0).integers(0, 2**63, 64).astype(np.uint64)
    out = np.zeros((64, 2), np.uint32)
    several(out, x)
    np.testing.assert_array_equal(out[:40], x.view(np.uint32).reshape(-1, 2)[:40])
    assert not out[40:].any()


def rows(x):
    assert x.ndim == 2
    assert x.shape[1] == 32
    return np.roll(x, 1, axis=1)


def test_lanes_are_along_the_last_mode():
    @cute.kernel
    def kernel(out):
        cute.launch(grid=2, block=64)
        t = cute.block_idx() * 64 + cute.thread_idx()
        text = "shfl.sync.idx.b32 %0, %1, 3, 31, -1;"
        out[t] = cute.inline_ptx(text, "s32", t.to("s32"), emulate=rows)

    out = np.zeros(128, np.int32)
    kernel(out)
    np.testing.assert_array_equal(out, np.roll(np.arange(128).reshape(-1, 32), 1, axis=1).ravel())


# -- what a text may say

REFUSED = {
    "ld.global.u32 %0, [%1];": "ld.global.u32",
    "mov.u32 %0, [%1];": "[",
    "st.shared.u32 [%1], %0;": "st.shared.u32",
    "{ .shared .b32 s; mov.b32 %0, %1; }": ".shared",
    "atom.global.add.u32 %0, [%1], 1;": "atom.global.add.u32",
    "cp.async.commit_group; mov.b32 %0, %1;": "cp.async.commit_group",
    "prefetch.global.L2 [%1]; mov.b32 %0, %1;": "prefetch.global.L2",
    "L: mov.b32 %0, %1;": "L",
    "mov.b32 %0, %1; bra L;": "bra",
    "{ .reg .pred p; setp.eq.u32 p, %1, 0; @p exit; mov.b32 %0, %1; }": "exit",
    "{ .reg .pred p; setp.eq.u32 p, %1, 0; @!p ret; mov.b32 %0, %1; }": "ret",
    "mov.b32 %0, %1; trap;": "trap",
    "bar.sync 0; mov.b32 %0, %1;": "bar.sync",
    "barrier.cta.sync 0; mov.b32 %0, %1;": "barrier.cta.sync",
    "membar.gl; mov.b32 %0, %1;": "membar.gl",
    "fence.acq_rel.gpu; mov.b32 %0, %1;": "fence.acq_rel.gpu",
    "call (%0), f, (%1);": "call",
    "mbarrier.arrive.shared.b64 %0, [%1];": "mbarrier.arrive.shared.b64",
    "setmaxnreg.inc.sync.aligned.u32 40; mov.b32 %0, %1;": "setmaxnreg.inc.sync.aligned.u32",
    "wgmma.fence.sync.aligned; mov.b32 %0, %1;": "wgmma.fence.sync.aligned",
    "mov.u32 %0, smem; mov.u32 %0, %1;": "smem",
    "mov.b32 %0, %2;": "%2",
    "mov.b32 %0, 1;": "%1",
    "mov.b32 %1, %0;": "%1",
    "add.u32 %0, %0, %1;": "%0",
    "{ .reg .pred p; setp.eq.u32 p, %1, 0; @p mov.b32 %0, %1; }": "%0",
    "mov.b32 %0, %tid.x; mov.b32 %0, %1;": "%",
    "mov.b32 %0, %1": "%1",
    "{ mov.b32 %0, %1;": "{",
    "mov.b32 %0, %1; }": "}",
    '.pragma "nounroll"; mov.b32 %0, %1;': ".pragma",
    "/* ld */ st.global.u32 [%1], %1; mov.b32 %0, %1;": "st.global.u32",
    "mov.b32 %0, %1; // ; \n exit;": "exit",
    ".reg .b32 t<1U>; mov.b32 %0, %1;": "1U",
    ".reg .b32 t<123456>; mov.b32 %0, %1;": "123456",
    "mov.b32 %0, %" + "1" * 5000 + ";": "%1111",
    "mov.b32 %0, %\u0661; mov.b32 %0, %1;": "%",
    "": "%0",
}
ALLOWED = (
    "mov.b32 %0, %1;",
    "mov.b32\t%0 ,\n%1 ;; // [memory]",
    "{ .reg .b32 t<3>, u; add.u32 t0, %1, 1; mul.lo.u32 u, t0, t0; xor.b32 %0, u, 0x1F; }",
    "{ .reg .pred p, q; setp.lt.s32 p|q, %1, -3; selp.b32 %0, 1, %1, p; @!q neg.s32 %0, %1; }",
    "{ { .reg .b16 a, b; mov.b32 {a, b}, %1; mov.b32 %0, {b, a}; } }",
    "vote.sync.ballot.b32 %0, 1, 0xffffffff; add.u32 %0, %0, %1;",
    "mov.u32 %0, %%laneid; fma.rn.f32 %0, 0f3F800000, %1, 1.5;",
)


@each(REFUSED)
def test_a_text_beyond_registers_is_refused(text):
    def body(x):
        cute.inline_ptx(text, "s32", x[0], emulate=rows)

    with pytest.raises(cute.LayoutError) as caught:
        traced(body)
    assert caught.value.code == "kernel-ptx"
    assert caught.value.facts["token"] == REFUSED[text]


@pytest.mark.parametrize("text", ALLOWED)
def test_a_text_of_registers_is_accepted(text):
    assert problem_of(text, 1, 1) is None


@pytest.mark.parametrize("comment", ["/**/", "/* a */", "// a\n"])
def test_a_comment_joins_no_words(comment):
    """The text that was checked sets a predicate, and no number of registers."""
    text = f".reg .b32 maxnreg; mov.b32 %0, %1; set{comment}maxnreg.inc.sync.aligned.u32 240;"
    assert problem_of(text, 1, 1) is None
    assert "set maxnreg.inc" in as_llvm(text)


@pytest.mark.parametrize("kind", ["s8", "b1", "e4m3", "s4"])
def test_operands_have_16_bits_and_more(kind):
    def output(x):
        cute.inline_ptx("mov.b32 %0, %1;", kind, x[0], emulate=rows)

    def given(x):
        cute.inline_ptx("mov.b32 %0, %1;", "s32", x[0].to(kind), emulate=rows)

    for body in (output, given):
        with pytest.raises(cute.LeafTypeError, match="16, 32, 64 bits"):
            traced(body)


def test_inputs_are_registers_and_the_emulation_is_a_function():
    def memory(x):
        cute.inline_ptx("mov.b32 %0, %1;", "s32", cute.local_tile(x, (1,), (0,)), emulate=rows)

    def no_function(x):
        cute.inline_ptx("mov.b32 %0, %1;", "s32", x[0], emulate=np.add)

    for body, code in ((memory, "kernel-space"), (no_function, "kernel-emulate")):
        with pytest.raises(cute.CuteError) as caught:
            traced(body)
        assert caught.value.code == code


# -- what the function returns


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.astype(np.int64),
        lambda x: x[:, :16],
        lambda x: (x, x),
        lambda x: 1,
        lambda x: None,
    ],
)
def test_another_type_shape_or_number_of_results_is_refused(wrong):
    @cute.kernel
    def kernel(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        out[t] = cute.inline_ptx("mov.b32 %0, %1;", "s32", t.to("s32"), emulate=wrong)

    with pytest.raises(cute.EmulationError) as caught:
        kernel(np.zeros(32, np.int32))
    assert caught.value.code == "emulate-inline-result"


# -- keys and files


def plan_of(function, text="mov.b32 %0, %1;"):
    @cute.kernel
    def kernel(out):
        cute.launch(grid=1, block=32)
        t = cute.thread_idx()
        out[t] = cute.inline_ptx(text, "s32", t.to("s32"), emulate=function)

    return cute.trace(kernel, np.zeros(32, np.int32))


def scaled(n):
    return lambda x: x * np.int32(n)


def test_text_and_function_are_part_of_the_plan():
    assert plan_of(scaled(2)) == plan_of(scaled(2))
    assert plan_of(scaled(2)) != plan_of(scaled(3))
    assert plan_of(scaled(2)) != plan_of(lambda x: x * np.int32(2) + x)
    assert plan_of(scaled(2)) != plan_of(scaled(2), "neg.s32 %0, %1;")
    assert "inline_ptx" in str(plan_of(scaled(2)))


def test_a_function_that_changes_is_traced_again():
    factor = [2]

    @cute.kernel
    def kernel(out):
        cute.launch(grid=1, block=32)
        t, n = cute.thread_idx(), factor[0]
        text = "mul.lo.s32 %0, %1, 2;"
        out[t] = cute.inline_ptx(text, "s32", t.to("s32"), emulate=lambda x: x * np.int32(n))

    out = np.zeros(32, np.int32)
    for factor[0] in (2, 3):
        kernel(out)
        assert out.tolist() == [factor[0] * t for t in range(32)]


def test_a_saved_plan_has_no_function(tmp_path):
    plan = plan_of(scaled(2))
    plan.save(tmp_path / "plan")
    loaded = cute.Plan.load(tmp_path / "plan")
    assert loaded == plan
    with pytest.raises(cute.EmulationError, match="the PTX of <lambda>") as caught:
        cute.emulate(loaded, np.zeros(32, np.int32))
    assert caught.value.code == "emulate-inline"


def test_a_file_with_a_text_beyond_registers_is_refused(tmp_path):
    plan_of(scaled(2)).save(tmp_path / "plan")
    text = (tmp_path / "plan").read_text()
    (tmp_path / "plan").write_text(text.replace("mov.b32 %0, %1;", "ld.global.b32 %0, [%1];"))
    with pytest.raises(cute.CuteError, match=r"ld\.global\.b32"):
        cute.Plan.load(tmp_path / "plan")


@covers(ops.InlinePtx)
def test_plans_state_the_op():
    (op,) = [op for op in plan_of(scaled(2)).ops if isinstance(op, ops.InlinePtx)]
    assert op.group == "thread"
    assert op.emulation.name == "<lambda>"
