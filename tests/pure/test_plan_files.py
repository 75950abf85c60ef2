"""Plans are verified op by op, printed, saved and read back."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import HANDLERS
from cute_py.kernels import transpose
from cute_py.kernels.config import flagship
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.plan import ops
from cute_py.plan.serial import dumps, loads
from tests.hopper_family import HALVES, arguments, call_of, trace


@cute.kernel
def scale(x, y, alpha: cute.f32):
    cute.launch(grid=cute.ceil_div(x.shape[0], 64), block=64)
    held = cute.smem("f32", 64)
    tid = cute.thread_idx()
    i = cute.block_idx() * 64 + tid
    with cute.when(i < x.shape[0]):
        held[tid] = x[i] * alpha
        for _k in cute.range(3):
            held[tid] = held[tid] * 2.0
        y[i] = held[tid]


def scale_plan():
    x = np.zeros(100, np.float32)
    return cute.trace(scale, x, x, 2.0)


def hopper_plan():
    a = np.zeros((128, 64), np.float16)
    return cute.trace(gemm_tma, a, a, np.zeros((128, 128), np.float32))


PLANS = {"scale": scale_plan, "tma": hopper_plan}


def test_every_op_has_a_word_a_purpose_a_text_and_an_emulation():
    assert len(ops.OPS) == len(set(ops.OPS)) >= 40
    assert set(HANDLERS) == set(ops.OPS)
    words = [kind.word for kind in ops.OPS]
    assert all(words)
    assert all(kind.purpose for kind in ops.OPS)
    assert len(set(words)) == len(words)
    for name in PLANS:
        for op in PLANS[name]().ops:
            assert str(op)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_read_back_as_it_was(name):
    plan = PLANS[name]()
    text = dumps(plan)
    again = loads(text)
    assert again == plan
    assert hash(again) == hash(plan)
    assert dumps(again) == text
    assert json.loads(text)["cute_py plan"] == 6
    assert [op.line for op in again.ops] == [op.line for op in plan.ops]


def test_a_plan_is_saved_to_a_file(tmp_path):
    plan = scale_plan()
    plan.save(tmp_path / "plan.json")
    again = cute.Plan.load(tmp_path / "plan.json")
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    cute.emulate(again, x, y, 0.5)
    np.testing.assert_array_equal(y, x * 4)


def test_text_that_is_no_plan_is_refused():
    for text in ("", "[]", "{}", '{"name": "x"}'):
        with pytest.raises(cute.CuteError) as caught:
            loads(text)
        assert caught.value.code == "plan-text"


def test_a_plan_of_another_version_is_refused():
    text = dumps(scale_plan()).replace('"cute_py plan": 6', '"cute_py plan": 999')
    with pytest.raises(cute.CuteError) as caught:
        loads(text)
    assert caught.value.code == "plan-version"


def changed(plan, kind, /, **fields):
    """Return the text of a plan whose first op of a kind has other fields."""

    def each(block):
        done = False
        for op in block:
            if type(op) is kind and not done:
                done = True
                yield dataclasses.replace(op, **fields)
            elif isinstance(op, ops.If):
                parts = {"then": tuple(each(op.then)), "other": tuple(each(op.other))}
                yield dataclasses.replace(op, **parts)
            elif isinstance(op, ops.Loop):
                yield dataclasses.replace(op, body=tuple(each(op.body)))
            else:
                yield op

    return dumps(dataclasses.replace(plan, body=tuple(each(plan.body))))


def first(plan, kind):
    return next(op for op in plan.ops if type(op) is kind)


def narrow(box):
    """Return the fields of a box of twice as many rows, of half the width."""
    inner, rows, *rest = box.extents
    return {"extents": (inner // 2, rows * 2, *rest)}


def registers_plan():
    @cute.kernel
    def run(x):
        cute.launch(grid=1, block=128)
        cute.setmaxnreg(40, "dec")
        x[0] = 1

    return cute.trace(run, np.zeros(4, np.int32))


def wrong_plans():
    plan = scale_plan()
    load, store = first(plan, ops.Load), first(plan, ops.Store)
    other = dataclasses.replace(load.src, storage="nowhere")
    outside = dataclasses.replace(load.dst, index=(7,))
    packed = dataclasses.replace(load.src, dtype=cute.s4)
    longer = dataclasses.replace(store.src, index=(0, 0))
    yield "another storage", changed(plan, ops.Load, src=other)
    yield "packed elements of an array", changed(plan, ops.Load, src=packed)
    yield "a register outside", changed(plan, ops.Load, dst=outside)
    yield "too many registers", changed(plan, ops.Store, src=longer)
    yield "a function without sources", changed(plan, ops.Map, sources=())
    yield "an unknown function", changed(plan, ops.Map, fn="pow")
    filled = dataclasses.replace(load.src, dtype=cute.s32, fill=float("-inf"))
    yield "a fill of another type", changed(plan, ops.Load, src=filled)
    yield "a step of 0", changed(plan, ops.Loop, step=0)
    yield "an unknown scope", changed(plan, ops.If, scope="grid")
    hopper = hopper_plan()
    box = first(hopper, ops.TmaLoad).box
    for what, wrong in (
        ("another size", {"extents": (8, 8)}),
        ("a mode twice", {"modes": (1, 1)}),
        ("rows wider than the swizzle", {"swizzle": 32}),
        ("an unknown swizzle", {"swizzle": 256}),
    ):
        yield what, changed(hopper, ops.TmaLoad, box=dataclasses.replace(box, **wrong))
    for what, wrong in (("nowhere", {"tensor": "nowhere"}), ("a mode less", {"coord": (0, 0)[:1]})):
        yield f"a box of {what}", changed(hopper, ops.TmaLoad, **wrong)
    wide = dataclasses.replace(box.tile, dtype=cute.f32)
    yield (
        "rows narrower than the swizzle",
        changed(hopper, ops.TmaLoad, box=dataclasses.replace(box, **narrow(box))),
    )
    yield (
        "a box of wider elements",
        changed(hopper, ops.TmaLoad, box=dataclasses.replace(box, tile=wide)),
    )
    b = first(hopper, ops.Wgmma).b
    other = dataclasses.replace(b.access, dtype=cute.bf16)
    yield (
        "an operand of another type",
        changed(hopper, ops.Wgmma, b=dataclasses.replace(b, access=other)),
    )
    yield "an unknown mode", changed(hopper, ops.Wgmma, b=dataclasses.replace(b, mode="SW16"))
    for step in ((99, 0, 0), (0, 99, 0), (0, 0, 99), (0, -1, 0)):
        yield f"a step outside: {step}", changed(hopper, ops.Wgmma, steps=(step,))
    yield "a barrier of the block by number", changed(hopper, ops.Barrier, id=1 << 20)
    yield "a parity of 2", changed(hopper, ops.MbarWait, phase=2)
    yield "registers the other way", changed(registers_plan(), ops.SetMaxNReg, kind="up")
    yield "groups below 0", changed(hopper, ops.WgWait, n=-1)
    yield "an unknown fence", changed(hopper, ops.Fence, kind="all")


def test_a_plan_with_a_wrong_op_is_refused():
    for what, text in wrong_plans():
        with pytest.raises(cute.CuteError) as caught:
            loads(text)
        assert caught.value.code == "plan-op", what
        assert ".py:" in str(caught.value)


def test_registers_are_counted_while_they_live():
    @cute.kernel
    def two(x):
        cute.launch(grid=1, block=32)
        a = cute.rmem("f32", 64)
        a.fill(0)
        x[0] = cute.reduce("add", a)
        b = cute.rmem("f16", 64)
        b.fill(0)
        x[1] = cute.reduce("add", b).to("f32")

    plan = cute.trace(two, np.zeros(8, np.float32))
    assert 64 + 24 <= plan.registers < 64 + 24 + 8


GOLDEN = Path(__file__).parents[1] / "golden" / "plans"


@pytest.mark.parametrize("name", ["transpose", "multistage"])
def test_text_and_file_of_a_plan_are_stable(name, request):
    if name == "transpose":
        a = np.zeros((70, 45), np.float32)
        plan = cute.trace(transpose.transpose_shared, a, a.T.copy(), transpose.SWIZZLED)
    else:
        a, c = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32)
        plan = cute.trace(gemm_multistage, a, a, c, flagship())
    without_lines = re.sub(r"  # line \d+", "", str(plan)) + "\n"
    saved = re.sub(r'"line": \["[^"]*", \d+\]', '"line": ["", 0]', dumps(plan))
    for ending, text in ((".txt", without_lines), (".json", saved)):
        path = GOLDEN / (name + ending)
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text
    assert loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")) == plan


@pytest.mark.parametrize("name", ["128x256", "pp-128x192"])
def test_text_of_the_plans_for_hopper_is_stable(name, request):
    """The flagships of the cooperative kernel and of the one with two tiles."""
    config = HALVES[name]
    arrays, _exact = arguments(config, (64, 64, 64), "bf16")
    plan = trace(config, *call_of(config, arrays, LinearCombination()))
    text = re.sub(r"  # line \d+", "", str(plan)) + "\n"
    path = GOLDEN / f"hopper-{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
    assert str(loads(dumps(plan))) == str(plan)
