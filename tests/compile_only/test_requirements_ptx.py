"""The acceptance examples of the feature inventory that speak of emitted text, one test a row."""

import re

import numpy as np
import pytest

import cute_py as cute
from cute_py.host.random_numbers import RULES
from cute_py.kernels.fill import _fill_random, _fill_value
from cute_py.plan.ops import Loop
from tests.sampling import quick

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")


@cute.kernel
def copy(A, B, loads, stores):
    cute.launch(grid=1, block=32)
    held, tid = cute.rmem("f32", 4), cute.thread_idx()
    cute.copy(cute.local_tile(A, (4,), (tid,)), held, cache=loads)
    cute.copy(held, cute.local_tile(B, (4,), (tid,)), cache=stores)


@pytest.mark.parametrize(
    ("loads", "stores"), [("ca", "wb"), ("cg", "cg"), ("cs", "cs"), ("lu", "wt"), ("cv", "wb")]
)
def test_f03_the_cache_operator_is_in_the_instruction(loads, stores):
    a = np.zeros(128, np.float32)
    compiled = cute.compile(cute.trace(copy, a, a.copy(), loads, stores), "sm_80")
    assert re.search(rf"ld\.global\.{loads}\.v4\.b32", compiled.ptx)
    assert re.search(rf"st\.global\.{stores}\.v4\.b32", compiled.ptx)
    assert compiled.cubin[:4] == b"\x7fELF"


def test_e04_a_static_range_leaves_no_loop():
    @cute.kernel
    def add(A, B):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        for k in range(4):
            B[tid, k] = B[tid, k] + A[tid, k]

    a = np.zeros((32, 4), np.float32)
    plan = cute.trace(add, a, a.copy())
    assert not any(isinstance(op, Loop) for op in plan.ops)
    kernel = cute.source(plan).rpartition('"""')[2]
    assert "def add(" in kernel
    assert "for " not in kernel
    assert "while " not in kernel


@pytest.mark.parametrize("order", ["acquire", "release"])
def test_f17_locks_are_read_and_written_in_order(order):
    @cute.kernel
    def wait(turn):
        cute.launch(grid=1, block=32)
        mine = cute.local_tile(turn, (1,), (0,))
        if order == "acquire":
            cute.wait_until(mine, "eq", 1)
        else:
            cute.store_release(mine, 1)

    text = cute.compile(cute.trace(wait, np.zeros(1, np.int32)), "sm_80").ptx
    assert re.search(
        r"ld\.acquire\.gpu\.global" if order == "acquire" else r"st\.release\.gpu", text
    )


def test_f01_f11_the_multiprocessor_and_addresses_are_read():
    @cute.kernel
    def here(out):
        cute.launch(grid=1, block=32)
        tid, held = cute.thread_idx(), cute.smem("f32", 64)
        out[tid, 0] = cute.sm_idx()
        out[tid, 1] = cute.smem_address(cute.local_tile(held, (1,), (tid,)))

    compiled = cute.compile(cute.trace(here, np.zeros((32, 2), np.uint32)), "sm_80")
    assert re.search(r"mov\.u32 \w+, %smid;", compiled.ptx)
    assert compiled.cubin[:4] == b"\x7fELF"


def test_f05_a_load_prefetches_128_bytes_into_l2():
    a = np.zeros(128, np.float32)
    compiled = cute.compile(cute.trace(copy, a, a.copy(), "L2::128B", "wb"), "sm_80")
    assert re.search(r"ld\.global\.L2::128B\.v4\.b32", compiled.ptx)
    b = np.zeros(128, np.float32)
    copy(a + 1, b, "L2::128B", "wb")
    assert (b == 1).all()


@pytest.mark.parametrize("rule", ["d07", *RULES])
def test_d07_d08_d09_fills_compile_without_contractions(rule):
    """One rounding each: the host's values are those of separate products and sums."""
    x = np.zeros((5, 7), np.float16)
    if rule == "d07":
        plan = cute.trace(_fill_value, x, 1.5, 0)
    else:
        plan = cute.trace(_fill_random, x, rule, 1, 2, 0.5, 2.0, None)
    compiled = cute.compile(plan, "sm_80")
    assert compiled.cubin[:4] == b"\x7fELF"
    assert "fma.rn.f64" not in compiled.ptx


def test_e06_a_semaphore_is_an_acquire_and_a_release():
    @cute.kernel
    def turns(turn, out):
        cute.launch(grid=4, block=64)
        lock = cute.Semaphore(turn)
        lock.wait(cute.block_idx())
        out[cute.thread_idx()] = lock.fetch()
        lock.release(cute.block_idx() + 1)

    arrays = np.zeros(1, np.int32), np.zeros(64, np.int32)
    compiled = cute.compile(cute.trace(turns, *arrays), "sm_80")
    assert len(re.findall(r"ld\.acquire\.gpu", compiled.ptx)) == 2
    assert len(re.findall(r"st\.release\.gpu", compiled.ptx)) == 1
    assert compiled.resources.instructions["BAR"] == 2


@pytest.mark.parametrize(
    "shape", quick([((16, 16, 16),)], [(16, 16, 16), (32, 8, 16), (8, 32, 16)]), ids=str
)
def test_f29_wmma_instructions_are_those_of_the_shape(shape):
    (m, n, k), w = shape, cute.Wmma(shape, "f16")

    @cute.kernel
    def run(out):
        cute.launch(grid=1, block=32)
        a, b = (cute.smem("f16", cute.Layout((rows, k), (k, 1))) for rows in (m, n))
        c = cute.smem("f16", cute.Layout((m, n)))
        w.store(w.mma(w.load("A", a), w.load("B", b), w.load("C", c)), c)
        cute.syncthreads()
        out[cute.thread_idx()] = c[cute.thread_idx() % m, 0]

    compiled = cute.compile(cute.trace(run, np.zeros(32, np.float16)), "sm_80")
    found = set(re.findall(r"wmma\.[\w.]+", compiled.ptx))
    name = f"m{m}n{n}k{k}"
    assert found == {
        f"wmma.load.a.sync.aligned.row.{name}.shared.f16",
        f"wmma.load.b.sync.aligned.col.{name}.shared.f16",
        f"wmma.load.c.sync.aligned.col.{name}.shared.f16",
        f"wmma.mma.sync.aligned.row.col.{name}.f16.f16",
        f"wmma.store.d.sync.aligned.col.{name}.shared.f16",
    }
    assert compiled.resources.instructions["HMMA"] > 0
