"""Thirty broken kernels: the emulator refuses each, and a table says which tools of
compute-sanitizer report it on a GPU.

`python tests/gpu/sanitize.py --broken` runs them there and writes the table of docs/emulator.md.
All of them compile for sm_90a and end, so that nothing but a mistake is left to be found.
"""

from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from tests.emulated import test_global_memory as global_memory
from tests.emulated import test_lanes as lanes
from tests.emulated.plans import Maker, at, less, ops, tid
from tests.emulated.test_shared_memory import transpose, two_stages

PAGE = Path(__file__).parents[2] / "docs" / "emulator.md"
ORDERS = ("forward", "reversed", 0)
TOOLS = ("memcheck", "racecheck", "synccheck")
f32, s32 = np.float32, np.int32


def square(n=32):
    return np.arange(n * 64, dtype=f32).reshape(n, 64), np.full((n, 64), -1, f32)


def of_block(threads, body, grid=1):
    """A kernel of body(x, out, t)."""

    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=grid, block=threads)
        body(x, out, cute.thread_idx())

    return kernel


# -- shared memory


def other_warp(x, out, t):
    s = cute.smem("f32", 64)
    s[t] = x[t]
    out[t] = s[63 - t]


def written_again(x, out, t):
    s = cute.smem("f32", 64)
    for k in cute.range(3):
        s[(t + k) % 64] = x[t]
        cute.syncthreads()
        out[t] = s[63 - t]


def two_warps_write(x, out, t):
    s = cute.smem("f32", 32)
    s[t % 32] = x[t]
    cute.syncthreads()
    out[t] = s[t % 32]


def lanes_write(x, out, t):
    s = cute.smem("f32", 16)
    s[t // 2] = x[t]
    cute.syncwarp()
    out[t] = s[t // 2]


def added_without_atomics(x, out, t):
    s = cute.smem("s32", 8)
    with cute.when(t < 8):
        s[t] = 0
    cute.syncthreads()
    s[t // 8] = s[t // 8] + 1
    cute.syncthreads()
    out[t] = s[t // 8].to("f32")


def atomic_then_read(x, out, t):
    s = cute.smem("s32", 1)
    with cute.when(t == 0):
        s[0] = 0
    cute.syncthreads()
    cute.atomic("add", s, 1)
    out[t] = s[0].to("f32")


def never_written(x, out, t):
    s = cute.smem("f32", 64)
    with cute.when(t < 50):
        s[t] = x[t]
    cute.syncthreads()
    out[t] = s[63 - t]


def past_the_row(x, out, t):
    s = cute.smem("f32", cute.Layout((8, 8), (8, 1)))
    s[t // 8, t % 8] = x[t]
    cute.syncthreads()
    with cute.when(t < 56):
        out[t] = s[t // 8, t % 8 + 1]


# -- barriers and whole warps


def half_of_syncwarp(x, out, t):
    with cute.when(t < 16):
        cute.syncwarp()
    out[t] = x[t]


def counts_differ(x, out, t):
    with cute.when(t < 64):
        cute.named_barrier(1, 128, "arrive")
    with cute.otherwise():
        cute.named_barrier(1, 96)
    out[t] = x[t]


def half_of_a_vote(x, out, t):
    with cute.when(t < 16):
        out[t] = cute.where(cute.vote("any", x[t] > 3.0), 1.0, 0.0)


def shuffle_from_outside(x, out, t):
    with cute.when(t < 16):
        held = cute.rmem("f32", 1)
        held[0] = x[t]
        out[t] = cute.shuffle(held, 20)[0]


# -- addresses


def past_the_array(x, out, t):
    out[t] = x[t + 1]


def far_past_the_array(x, out, t):
    out[t + 4096] = x[t]


def next_row(x, out, t):
    out[0, t] = x[0, t + 40]


def odd_vectors():
    m = Maker("odd_vectors", threads=16)
    A, B, a = m.tensor("A", "f32"), m.tensor("B", "f32"), m.reg("a", "f32", 4)
    load = m.op(ops.Load, a, at(A, tid * 2, width=4))
    return m.plan(load, m.op(ops.Store, at(B, tid * 4, width=4), a))


def odd_shared_vectors():
    m = Maker("odd_shared_vectors", threads=16)
    A, S, a = m.tensor("A", "f32"), m.smem("S", "f32", 80), m.reg("a", "f32", 4)
    load = m.op(ops.Load, a, at(A, tid * 4, width=4))
    return m.plan(load, m.op(ops.Store, at(S, tid * 4 + 1, width=4), a))


def past_the_storage():
    m = Maker("past_the_storage", threads=32)
    A, S, a = m.tensor("A", "f32"), m.smem("S", "f32", 64), m.reg("a", "f32")
    return m.plan(m.op(ops.Load, a, at(A, tid)), m.op(ops.Store, at(S, tid + 4096), a))


def some_meet(n):
    """n threads of 64 come to syncthreads."""
    m = Maker("some_meet", threads=64)
    A, a = m.tensor("A", "f32"), m.reg("a", "f32")
    meet = m.op(ops.If, less(tid, n), (m.op(ops.Barrier),), (), "thread")
    return m.plan(m.op(ops.Load, a, at(A, tid)), meet, m.op(ops.Store, at(A, tid), a))


def unwritten_register():
    m = Maker("unwritten_register", threads=32)
    A, a = m.tensor("A", "f32"), m.reg("a", "f32")
    fill = m.op(ops.If, less(tid, 5), (m.op(ops.Fill, a, 1.0),), (), "thread")
    return m.plan(fill, m.op(ops.Store, at(A, tid), a))


def line(n):
    return lanes.line(n)


def one(n):
    return lambda: (np.arange(n, dtype=f32),)


def quarters():
    return np.arange(256, dtype=f32), np.zeros(256, f32), np.zeros(64, f32), np.zeros(1, s32)


def stages():
    return np.zeros(4096, f32), np.zeros(1024, f32)


def in_turn():
    return np.arange(256, dtype=f32), np.zeros(64, f32), np.zeros(1, s32)


def of_global(name):
    kernel, arrays = global_memory.CASES[name]
    return kernel(True), arrays


# what is wrong: the kernel or plan, and its arrays
BROKEN = {
    "shared: lane to lane without syncwarp": (lanes.handed(lanes.never), line(32)),
    "shared: across branches of a warp": (lanes.by_branches(lanes.never), line(32)),
    "shared: warp to warp without syncthreads": (of_block(64, other_warp), line(64)),
    "shared: written again before all have read": (of_block(64, written_again), line(64)),
    "shared: a transpose without its barrier, past its output": (transpose(barrier=False), stages),
    "shared: two warps write one element": (of_block(64, two_warps_write), line(64)),
    "shared: two lanes write one element": (of_block(32, lanes_write), line(32)),
    "shared: a sum without atomics": (of_block(64, added_without_atomics), line(64)),
    "shared: an atomic, then a plain read": (of_block(64, atomic_then_read), line(64)),
    "shared: read before it is written": (of_block(64, never_written), line(64)),
    "shared: past the storage": (past_the_storage(), one(32)),
    "shared: past the end of a row": (of_block(64, past_the_row), line(64)),
    "shared: a vector that is not aligned": (odd_shared_vectors(), one(64)),
    "cp.async: no barrier after the wait": (lanes.copied(lanes.no_barrier), line(1024)),
    "cp.async: one thread waits for all": (lanes.copied(lanes.thread_0_waits), line(1024)),
    "cp.async: waits for too few groups": (two_stages(wait=2), stages),
    "cp.async: a stage is overwritten": (two_stages(release=False), stages),
    "barrier: a part of a warp": (some_meet(40), one(64)),
    "barrier: one warp of two": (some_meet(32), one(64)),
    "barrier: syncwarp by half a warp": (of_block(32, half_of_syncwarp), line(32)),
    "barrier: counts differ": (of_block(128, counts_differ), line(128)),
    "warp: a vote by half a warp": (of_block(32, half_of_a_vote), line(32)),
    "warp: a shuffle from a lane outside": (of_block(32, shuffle_from_outside), line(32)),
    "registers: read before they are written": (unwritten_register(), one(32)),
    "global: one element past the array": (of_block(32, past_the_array), line(32)),
    "global: far past the array": (of_block(32, far_past_the_array), line(32)),
    "global: a column beyond its row": (of_block(64, next_row), square),
    "global: a vector that is not aligned": (odd_vectors(), line(64)),
    "global: two warps write one element": of_global("two_warps_store_different_values"),
    "global: no barrier between write and read": of_global(
        "through_global_memory_without_a_barrier"
    ),
    "global: blocks add without atomics": of_global("blocks_add_to_one_element"),
    "global: a flag by a plain store": (global_memory.chain("release"), in_turn),
    "global: no barrier before a release": (
        global_memory.chain("barrier before the release"),
        in_turn,
    ),
    "global: a ticket without its fence": (
        global_memory.last_block_sums("fence before"),
        quarters,
    ),
}


def traced(kernel, arrays):
    """Return the plan of a kernel, or a plan as it is, and its arrays."""
    given = arrays()
    return (cute.trace(kernel, *given) if isinstance(kernel, cute.Kernel) else kernel), given


def plan_of(name):
    """Return the plan of a broken kernel, and its arrays."""
    return traced(*BROKEN[name])


def code_of(name, order="forward"):
    """Return the code of the emulator's refusal; "" where it refuses nothing."""
    plan, given = plan_of(name)
    try:
        cute.emulate(plan, *given, order=order)
    except cute.CuteError as error:
        return error.code
    return ""


def table(said):
    """Return the table of docs/emulator.md; `said`: of each kernel what each tool says."""
    rows = [("broken kernel", "emulator", *TOOLS), ("---",) * (2 + len(TOOLS))]
    for name in BROKEN:
        word = code_of(name).removeprefix("emulate-") or "nothing"
        rows.append((name, word, *(said[name][tool] for tool in TOOLS)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_refused_in_all_orders(name):
    assert all(code_of(name, order) for order in ORDERS)


def test_the_page_says_what_the_emulator_says():
    """What the tools said is kept; `tests/gpu/sanitize.py --broken` says it again."""
    text = PAGE.read_text(encoding="utf-8").partition("| broken kernel ")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    said = {name: dict(zip(TOOLS, words, strict=True)) for name, _, *words in rows}
    assert list(said) == list(BROKEN)
    assert len(said) >= 30
    assert "| broken kernel " + text == table(said)
    assert {word for row in said.values() for word in row.values()} > {"nothing", "fails"}
