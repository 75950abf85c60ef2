"""Two kernels that differ in one place: one runs, and its broken twin is refused for that place.

Those of other ops stand with the tests of what they do; `tests/pure/test_op_coverage.py` lists all.
"""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms import get_copy
from cute_py.plan.ops.registers import Emulation
from cute_py.plan.walk import rebuilt
from tests.coverage import covers, refuses
from tests.emulated.plans import Maker, at, less, ops, part, tid, var
from tests.emulated.test_threads import refused
from tests.hopper_kernels import CASES

UNWRITTEN = "emulate-register-unwritten"


def lanes(broken, whole=32):
    """A condition of all lanes of the warp, or of half of them."""
    return less(tid, whole // 2 if broken else whole)


@covers(ops.Fill)
@refuses(ops.Fill)
def fill(m, broken):
    a, b = m.reg("a", "f32", 2), m.reg("b", "f32", 2)
    yield m.op(ops.Fill, part(a, 0) if broken else a, 1.5)
    yield m.op(ops.Map, "neg", b, (a,), cute.f32)


@covers(ops.Map)
@refuses(ops.Map)
def map_(m, broken):
    a, b, c = m.reg("a", "f32"), m.reg("b", "f32"), m.reg("c", "f32")
    yield m.op(ops.Fill, a, 1.5)
    yield m.op(ops.Map, "add", b, (a, c if broken else a), cute.f32)


@refuses(ops.Convert)
def convert(m, broken):
    a, b = m.reg("a", "f32", 2), m.reg("b", "f16", 2)
    yield m.op(ops.Fill, part(a, 0) if broken else a, 1.5)
    yield m.op(ops.Convert, b, a)


@refuses(ops.Reduce)
def reduce(m, broken):
    a, b = m.reg("a", "f32", 4), m.reg("b", "f32")
    yield m.op(ops.Fill, part(a, 0, 1, 2) if broken else a, 1.5)
    yield m.op(ops.Reduce, "add", b, a)


@refuses(ops.Vote)
def vote(m, broken):
    p, q = m.reg("p", "b1"), m.reg("q", "b1")
    yield m.op(ops.Fill, p, True)
    yield m.op(ops.If, lanes(broken), (m.op(ops.Vote, "any", q, p),), (), "thread")


@refuses(ops.Shuffle)
def shuffle(m, broken):
    """Within groups of 16 lanes, as many as come: the others are waited for all the same."""
    a = m.reg("a", "s32")
    yield m.op(ops.Fill, a, 1)
    yield m.op(ops.If, lanes(broken), (m.op(ops.Shuffle, "bfly", a, a, 3, 16),), (), "thread")


@refuses(ops.Redux)
def redux(m, broken):
    a = m.reg("a", "s32")
    yield m.op(ops.Fill, a, 1)
    yield m.op(ops.If, lanes(broken), (m.op(ops.Redux, "add", a, a),), (), "thread")


@refuses(ops.InlinePtx)
def inline_ptx(m, broken):
    """A shuffle of all lanes, and of half of them."""
    a, text = m.reg("a", "s32"), "shfl.sync.bfly.b32 %0, %1, 1, 31, -1;"
    inlined = m.op(ops.InlinePtx, text, (a,), (a,), Emulation("swap", "", lambda x: x))
    yield m.op(ops.Fill, a, 1)
    yield m.op(ops.If, lanes(broken), (inlined,), (), "thread")


@refuses(ops.Barrier)
def barrier(m, broken):
    yield m.op(ops.If, lanes(broken), (m.op(ops.Barrier, "warp"),), (), "thread")


@covers(ops.SharedAddress)
@refuses(ops.SharedAddress)
def shared_address(m, broken):
    S, a = m.smem("s0", "u16", 64), m.reg("a", "u32")
    yield m.op(ops.SharedAddress, a, at(S, tid * 2 + (2 if broken else 0)))


@refuses(ops.StMatrix)
def stmatrix(m, broken):
    atom, a = get_copy("SM90_U32x1_STSM_N"), m.reg("a", "f16", 2)
    rows = at(m.smem("S", "f16", 8 * 40), tid % 8 * (36 if broken else 40), width=8)
    yield m.op(ops.Fill, a, 0)
    yield m.op(ops.StMatrix, atom, rows, a)


@covers(ops.MbarInval)
@refuses(ops.MbarInval)
def mbar_inval(m, broken):
    """An mbarrier that is initialised again, after its end or without one."""
    bar = at(m.smem("bar", "u64", 1), 0)
    ended = () if broken else (m.op(ops.MbarInval, bar),)
    steps = m.op(ops.MbarInit, bar, 1), *ended, m.op(ops.MbarInit, bar, 2)
    yield m.op(ops.If, less(tid, 1), steps, (), "thread")


@covers(ops.SetMaxNReg)
@refuses(ops.SetMaxNReg)
def set_max_nreg(m, broken):
    yield m.op(ops.If, lanes(broken), (m.op(ops.SetMaxNReg, 40, "dec"),), (), "thread")


@covers(ops.MakePtr)
@refuses(ops.MakePtr)
def pointer(m, broken):
    """An address that is in no array: nobody may read there."""
    held, guard = m.reg("a", "f32"), less(tid, 32 if broken else 0)
    yield m.op(ops.MakePtr, "there", 4096, cute.f32, 16)
    yield m.op(ops.Load, held, at(("there", cute.f32, "gmem"), tid, guards=(guard,)))


@refuses(ops.Print)
def print_(m, broken):
    a = m.reg("a", "f32", 2)
    yield m.op(ops.Fill, part(a, 0) if broken else a, 1.5)
    yield m.op(ops.Print, "{}", (a,))


@covers(ops.Let)
@refuses(ops.Let)
def let(m, broken):
    """A promise that an integer is below 4."""
    a = m.reg("a", "s32")
    n = cute.sym("n", min=0, max=3)
    yield m.op(ops.Fill, a, 4 if broken else 3)
    yield m.op(ops.Let, "n", "reg", (a,))
    yield m.op(ops.Map, "copy", a, (n,), cute.s32)


@covers(ops.Set)
@refuses(ops.Set)
def set_(m, broken):
    """A variable that names an element of 4."""
    a, storage = m.reg("a", "s32"), m.smem("S", "s32", 4)
    yield m.op(ops.Fill, a, 1)
    yield m.op(ops.Set, "v", 4 if broken else 3)
    yield m.op(ops.Let, "n", "var", ("v",))
    yield m.op(ops.Store, at(storage, var("n")), a)


@covers(ops.Promise)
@refuses(ops.Promise)
def promise(m, broken):
    """A thread index that is the same in all threads of a block, or of no block."""
    value = tid if broken else var("bid_x")
    yield m.op(ops.Promise, value, "block")


@covers(ops.While)
@refuses(ops.While)
def while_(m, broken):
    """A loop with a barrier: as often for all threads, or as their number says."""
    body = (
        m.op(ops.Barrier),
        m.op(ops.Let, "n1", "var", ("v",)),
        m.op(ops.Set, "v", var("n1") - 1),
    )
    yield m.op(ops.Set, "v", tid if broken else 3)
    test = (m.op(ops.Let, "n", "var", ("v",)),)
    yield m.op(ops.While, test, less(0, var("n")), body, "block")


@refuses(ops.Loop)
def loop(m, broken):
    """A loop with a barrier, by lanes that may count to different numbers."""
    yield m.op(ops.Loop, "k0", 0, tid if broken else 3, 1, (m.op(ops.Barrier),), "thread")


@refuses(ops.Leave)
def leave(m, broken):
    """Lanes that leave a loop do not reach its barrier; those that have returned need not."""
    target = "loop" if broken else "kernel"
    leaves = m.op(ops.Leave, less(tid, 7), target, "thread")
    yield m.op(ops.Loop, "k0", 0, 2, 1, (leaves, m.op(ops.Barrier)), "block")


DIVERGENT = "emulate-warp-divergent"
TWINS = [
    (fill, UNWRITTEN),
    (map_, UNWRITTEN),
    (convert, UNWRITTEN),
    (reduce, UNWRITTEN),
    (print_, UNWRITTEN),
    (vote, DIVERGENT),
    (shuffle, DIVERGENT),
    (redux, DIVERGENT),
    (inline_ptx, DIVERGENT),
    (barrier, DIVERGENT),
    (set_max_nreg, DIVERGENT),
    (mbar_inval, "emulate-mbarrier-again"),
    (stmatrix, "emulate-alignment"),
    (shared_address, "emulate-bounds"),
    (let, "emulate-promise"),
    (pointer, "emulate-pointer"),
    (set_, "emulate-bounds"),
    (promise, "emulate-uniform"),
    (loop, "emulate-barrier-divergent"),
    (while_, "emulate-barrier-divergent"),
    (leave, "emulate-barrier-divergent"),
]


@pytest.mark.parametrize(("body", "code"), TWINS, ids=[body.__name__ for body, _code in TWINS])
def test_a_kernel_runs_and_its_broken_twin_is_refused(body, code):
    right, wrong = Maker(), Maker()
    cute.emulate(right.plan(*body(right, False)))
    refused(code, wrong.plan(*body(wrong, True)))


# -- all synchronization of Hopper kernels: what nobody needs may go, the rest is refused

PARTS = (
    *(ops.Barrier, ops.Fence, ops.MbarInit, ops.MbarArrive, ops.MbarWait),
    *(ops.BulkCommit, ops.BulkWait, ops.WgFence, ops.WgCommit, ops.WgWait),
)


def changed(op):
    """Yield what an op of synchronization is replaced by: nothing, or one that is slightly off."""
    yield ()
    if isinstance(op, ops.MbarWait):
        yield (replace(op, phase=1 - op.phase),)
    elif isinstance(op, ops.MbarInit):
        yield (replace(op, count=op.count + 1),)
    elif isinstance(op, ops.MbarArrive):
        yield op, op
        if op.bytes:
            yield (replace(op, bytes=op.bytes - 16),)
    elif isinstance(op, (ops.WgWait, ops.BulkWait)):
        yield (replace(op, n=op.n + 1),)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("tma_copy", 0),
        ("tma_add", 0),
        ("cluster", 0),
        *[
            pytest.param(name, number, marks=pytest.mark.slow)
            for name, number in {"starts": 0, "by_columns": 0}.items()
        ],
        *[pytest.param(f"gemm_{n}", 1, marks=pytest.mark.slow) for n in ("09", "10", "11", "12")],
    ],
)
def test_a_kernel_without_a_part_of_its_synchronization_is_refused_or_right(name, case):
    kernel, inputs, output, expected, options = [*CASES[name]()][case]
    plan, begun, refusals = cute.trace(kernel, *inputs, output, **options), output.copy(), 0
    numbers = [options[param.name] for param in plan.params if param.name in options]
    parts = [(op, new) for op in plan.ops if isinstance(op, PARTS) for new in changed(op)]
    for number, (left, new) in enumerate(parts):
        body = rebuilt(plan.body, lambda op, left=left, new=new: new if op is left else (op,))
        output[...] = begun
        try:
            order = ("forward", "reversed", 0)[number % 3]
            cute.emulate(replace(plan, body=body), *inputs, output, *numbers, order=order)
        except cute.CuteError:
            refusals += 1
            continue
        assert np.array_equal(output, expected), f"{left}  {left.where}"
    assert refusals > len(parts) // 2


def test_lanes_that_have_ended_are_not_waited_for():
    """A vote of those that are left, of a warp of 20 lanes."""
    m = Maker(threads=20)
    p, q, A = m.reg("p", "b1"), m.reg("q", "b1"), m.tensor("A", "u8")
    out = m.reg("out", "u8")
    plan = m.plan(
        m.op(ops.Map, "ge", p, (tid, 7), cute.s32),
        m.op(ops.Leave, less(tid, 7), "kernel", "thread"),
        m.op(ops.Vote, "all", q, p),
        m.op(ops.Map, "where", out, (q, 1, 0), cute.u8),
        m.op(ops.Store, at(A, tid), out),
    )
    found = np.full(20, 9, np.uint8)
    cute.emulate(plan, found)
    assert found.tolist() == [9] * 7 + [1] * 13
