"""What a report counts, line by line."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.emulate import Report, emulate
from tests.emulated.plans import Maker, at, less, ops, tid
from tests.emulated.test_async import ring, tiles_of
from tests.emulated.test_shared_memory import one_warp_mma, transpose


@pytest.mark.parametrize(("padded", "ways"), [(32, 32), (33, 1)])
def test_bank_conflicts_of_a_transpose(padded, ways):
    A = np.zeros(4096, np.float32)
    report = emulate(transpose(padded=padded), A, A.copy(), report=True)
    assert isinstance(report, Report)
    write, read = (report.lines["kernel.py", n] for n in (2, 4))
    warps = 4 * 4
    assert (write.instructions, write.requests, write.wavefronts) == (warps, 8 * warps, 8 * warps)
    assert read.wavefronts == ways * 8 * warps
    assert read.conflicts == (ways - 1) * 8 * warps
    assert read.bytes == 4 * 4096


def test_prediction_of_the_analysis_is_what_the_emulator_counts():
    from cute_py.analysis.banks import bank_conflicts

    for stride, width in ((1, 1), (2, 1), (3, 1), (2, 2), (4, 4), (8, 4), (12, 4)):
        m = Maker(threads=32)
        S = m.smem("S", "f32", 32 * 12)
        a = m.reg("a", "f32", width)
        plan = m.plan(m.op(ops.Fill, a, 0), m.op(ops.Store, at(S, tid * stride, width=width), a))
        counted = emulate(plan, report=True).total.wavefronts
        addresses = [4 * stride * lane for lane in range(32)]
        assert counted == sum(
            pattern.wavefronts for pattern in bank_conflicts(addresses, bits=32 * width).patterns
        )


@pytest.mark.parametrize(("stride", "sectors"), [(1, 4), (2, 8), (8, 32), (0, 1)])
def test_sectors_of_a_request(stride, sectors):
    m = Maker(threads=32)
    A = m.tensor("A", "f32")
    a = m.reg("a", "f32")
    plan = m.plan(m.op(ops.Load, a, at(A, tid * stride)))
    whole = np.zeros(256 + 8, np.float32)
    for first in (0, 4):
        report = emulate(plan, whole[first:], report=True)
        assert report.total.sectors == sectors
    assert report.total.bytes == 128


def test_lanes_behind_a_guard_do_not_count():
    m = Maker(threads=64)
    S = m.smem("S", "f32", 64)
    a = m.reg("a", "f32")
    plan = m.plan(m.op(ops.Fill, a, 0), m.op(ops.Store, at(S, tid, guards=(less(tid, 20),)), a))
    total = emulate(plan, report=True).total
    assert (total.requests, total.wavefronts, total.bytes) == (1, 1, 80)


def test_matrix_instructions_and_the_table():
    A, B, D = np.zeros(256, np.float16), np.zeros(128, np.float16), np.zeros(128, np.float32)
    report = emulate(one_warp_mma("f16"), A, B, D, report=True)
    assert report.total.mma == 1
    table = str(report).splitlines()
    assert table[0].split() == [
        *("line", "instructions", "mma", "requests", "wavefronts", "conflicts", "sectors", "bytes"),
        *("rewritten", "equal"),
    ]
    assert table[-1].startswith("total")
    assert len(table) == 2 + len(report.lines)
    assert "<td>total</td>" in report._repr_html_()


def test_without_report_nothing_is_returned():
    A = np.zeros(4096, np.float32)
    assert emulate(transpose(), A, A.copy()) is None


def test_tma_counts_bytes():
    A, B, _ = tiles_of()
    report = emulate(ring(), A, B, report=True)
    assert sum(c.bytes for c in report.lines.values()) == 10 * 256 + 2 * 10 * 256


def test_report_of_batches_is_their_sum():
    A = np.zeros(4096, np.float32)
    whole = emulate(transpose(), A, A.copy(), report=True)
    parts = emulate(transpose(), A, A.copy(), report=True, memory=1)
    assert whole.total.wavefronts == parts.total.wavefronts
    assert whole.total.instructions == parts.total.instructions


@cute.kernel
def of_two_blocks(out):
    cute.launch(grid=2, block=128)
    t = cute.thread_idx()
    with cute.when(cute.warp_idx() == 0):  # warps part
        cute.syncwarp()
    cute.named_barrier(cute.warp_idx() // 2 + 1, 64)  # at one barrier of two
    for _ in cute.range(cute.warp_idx()):  # and go round so many times
        cute.syncwarp()
    out[cute.block_idx() * 128 + t] = 1.0


@cute.kernel
def of_waits(flag, out):
    cute.launch(grid=2, block=64)
    t, block = cute.thread_idx(), cute.block_idx()
    flag = cute.local_tile(flag, (1,), (0,))
    with cute.when(block == 0):
        for i in range(2):
            with cute.when(t == 32 * i):
                cute.store_release(flag, i + 1)
            cute.syncthreads()
    with cute.otherwise():
        cute.wait_until(flag, "ge", cute.warp_idx() + 1)
    out[block * 64 + t] = 1.0


WAIT = of_waits.function.__code__.co_firstlineno + 11


@pytest.mark.parametrize("order", ["forward", "reversed", 0, 1, 2])
def test_an_op_counts_once_for_each_warp_however_warps_part(order):
    report = emulate(of_two_blocks, np.zeros(256, np.float32), report=True, order=order)
    ran = [counts.instructions for _, counts in sorted(report.lines.items())]
    assert ran == [2 * n for n in (4, 1, 4, 4, 0 + 1 + 2 + 3, 2 * 4)]


def test_how_often_a_wait_looks_is_not_counted():
    found = []
    for order in ("forward", "reversed", 0, 1, 2):
        flag, out = np.zeros(1, np.int32), np.zeros(128, np.float32)
        found.append(emulate(of_waits, flag, out, report=True, order=order))
    (wait,) = [c for (_, n), c in found[0].lines.items() if n == WAIT]
    assert (wait.instructions, wait.requests, wait.sectors, wait.bytes) == (2, 2, 2, 2 * 32 * 4)
    assert {str(each) for each in found} == {str(found[0])}


def test_a_prompt_shows_the_table(monkeypatch):
    report = emulate(of_two_blocks, np.zeros(256, np.float32), report=True)
    timeline = emulate(of_two_blocks, np.zeros(256, np.float32), report="timeline")
    assert repr(report) == str(report)
    assert repr(report).splitlines()[-1].startswith("total")
    assert repr(timeline).startswith("order, not time: ")
    assert "<table>" in report._repr_html_()
    monkeypatch.setenv("CUTE_PY_PICTURES", "0")
    assert report._repr_html_() is timeline._repr_html_() is None
