"""A plan is compiled once for the emulator: what is kept serves any run, in several threads."""

import gc
import subprocess
import sys
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate.program import KEPT, Program, _compiled, program_of
from cute_py.errors import EmulationError
from cute_py.kernels.gemm_02_shared import gemm_shared
from tests.emulated.plans import Maker, at, bid_x, less, ops, size, tid


def scaled(n_line=1):
    """A plan that doubles a vector through shared memory, reading the next thread's element."""
    m = Maker("scaled", grid=((size("A") + 63) // 64, 1, 1), threads=64)
    for _ in range(n_line - 1):
        next(m.lines)
    A, S = m.tensor("A", "f32"), m.smem("S", "f32", 64)
    a = m.reg("a", "f32")
    i = bid_x * 64 + tid
    guard = (less(i, size("A")),)
    return m.plan(
        m.op(ops.Load, a, at(A, i, guards=guard)),
        m.op(ops.Store, at(S, tid), a),
        m.op(ops.Barrier),
        m.op(ops.Load, a, at(S, (tid + 1) % 64)),
        m.op(ops.Map, "add", a, (a, a), cute.f32),
        m.op(ops.Store, at(A, i, guards=guard), a),
    )


def expected(x):
    whole = np.zeros(-(-len(x) // 64) * 64, np.float32)
    whole[: len(x)] = x
    return 2 * np.roll(whole.reshape(-1, 64), -1, axis=1).reshape(-1)[: len(x)]


def test_a_plan_is_compiled_once_for_each_choice():
    plan = scaled()
    kept = [program_of(plan, checks, counted) for checks in (True, False) for counted in (0, 1)]
    assert len(set(map(id, kept))) == 4
    assert all(program_of(plan, p.checks, p.counted) is p for p in kept)


def test_a_known_plan_runs_without_compiling(monkeypatch):
    plan, x = scaled(), np.arange(100, dtype=np.float32)
    first = x.copy()
    cute.emulate(plan, first)
    monkeypatch.setattr(Program, "block", None)
    second = x[:70].copy()
    cute.emulate(plan, second)
    assert np.array_equal(first, expected(x))
    assert np.array_equal(second, expected(x[:70]))


def test_equal_plans_from_other_lines_name_their_own_lines():
    early, late = scaled(), scaled(50)
    assert early == late
    for plan, line in ((early, 3), (late, 52)):
        body = (*plan.body[:2], *plan.body[3:])
        with pytest.raises(EmulationError, match=rf"kernel.py:{line + 1}\b"):
            cute.emulate(replace(plan, body=body), np.zeros(64, np.float32))


def test_a_refused_run_leaves_nothing_behind():
    plan = scaled()
    fixed = np.arange(64, dtype=np.float32)
    fixed.flags.writeable = False
    with pytest.raises(EmulationError, match="read-only"):
        cute.emulate(plan, fixed)
    x = np.arange(64, dtype=np.float32)
    cute.emulate(plan, x)
    assert np.array_equal(x, expected(fixed))


def test_programs_kept_are_bounded():
    for _ in range(KEPT + 5):
        cute.emulate(scaled(), np.zeros(64, np.float32))
    assert _compiled.cache_info().currsize <= KEPT


def test_a_program_keeps_no_array_and_a_run_leaves_no_cycle():
    plan, x = scaled(), np.arange(100, dtype=np.float32)
    cute.emulate(plan, x)
    gc.collect()
    gc.disable()
    try:
        cute.emulate(plan, x)
        seen = weakref.ref(x)
        del x
        assert seen() is None
    finally:
        gc.enable()


def test_two_threads_run_one_plan_at_once():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    plan = cute.trace(gemm_shared, a, b, np.zeros((32, 32), np.float32))
    wrong, start = [], threading.Barrier(4)

    def work(n):
        own = np.random.default_rng(n)
        start.wait()
        for k in range(6):
            M, N, K = (16 * int(own.integers(1, 4)) for _ in range(3))
            x, y = (own.integers(-4, 5, (rows, K)).astype(np.float32) for rows in (M, N))
            z = np.full((M, N), np.nan, np.float32)
            try:
                order = ("forward", "reversed", n)[k % 3]
                cute.emulate(plan, x, y, z, order=order, checks=n % 2 == 0)
                if not np.array_equal(z, x @ y.T):
                    wrong.append((n, M, N, K))
            except cute.CuteError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_saved_plan_is_emulated_without_the_tracer(tmp_path):
    scaled().save(tmp_path / "scaled.plan")
    code = """
import sys
import numpy as np
from cute_py.emulate import emulate
from cute_py.plan.plan import Plan

x = np.arange(64, dtype=np.float32)
emulate(Plan.load(sys.argv[1]), x)
assert x.tolist() == [*range(2, 128, 2), 0], x
above = [name for name in sys.modules if name.startswith(("cute_py.trace", "cute_py.tiled"))]
assert not above, above
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "scaled.plan"], check=True)
