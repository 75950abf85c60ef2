"""Shared memory: races, unwritten reads, cp.async, ldmatrix, mma; broken kernels, mended twins."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import atoms
from cute_py.atoms.registry import get_copy
from cute_py.emulate import emulate
from tests.coverage import covers, refuses
from tests.emulated.plans import (
    Maker,
    at,
    bid_x,
    less,
    ops,
    part,
    read_as,
    tid,
    var,
)
from tests.emulated.test_threads import ORDERS, refused

CP16 = get_copy("SM80_CP_ASYNC_CACHEALWAYS<128>")


def transpose(barrier=True, again=False, padded=32):
    """32x32 tiles through shared memory by 128 threads; with `again`, twice."""
    m = Maker("transpose", grid=(4, 1, 1), threads=128)
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S = m.smem("S", "f32", 32 * padded)
    a = m.reg("a", "f32", 8)
    lane, row = tid % 32, tid // 32
    base = bid_x * 1024
    body = [
        m.op(ops.Load, a, at(A, base + row * 32 + lane, step=(8, 128))),
        m.op(ops.Store, at(S, row * padded + lane, step=(8, 4 * padded)), a),
        *([m.op(ops.Barrier)] if barrier else []),
        m.op(ops.Load, a, at(S, lane * padded + row, step=(8, 4))),
        m.op(ops.Store, at(B, base + row * 32 + lane, step=(8, 128)), a),
    ]
    if again:
        body += [*([m.op(ops.Barrier)] if again == "mended" else []), body[1]]
    return m.plan(*body)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("checks", [True, False])
def test_transpose_through_shared_memory(checks, order):
    A = np.arange(4096, dtype=np.float32).reshape(4, 32, 32)
    B = np.zeros_like(A)
    emulate(transpose(), A.reshape(-1), B.reshape(-1), checks=checks, order=order)
    assert np.array_equal(B, A.swapaxes(1, 2))


def test_missing_barrier_after_a_write_is_a_race():
    A = np.zeros(4096, np.float32)
    error = refused("emulate-race", transpose(barrier=False), A, A.copy())
    assert "after a write by warp" in str(error)
    assert error.facts["access"] == "read"
    assert error.facts["line"] == ("kernel.py", 3)


def test_missing_barrier_before_the_next_write_is_a_race():
    A = np.zeros(4096, np.float32)
    error = refused("emulate-race", transpose(again=True), A, A.copy())
    assert "after a read by warp" in str(error)
    emulate(transpose(again="mended"), A, A.copy())


def handed_over(*synchronised):
    """Lanes write, read what another lane wrote, and write again; syncwarp where it is said."""
    m = Maker(threads=32)
    S = m.smem("S", "s32", 32)
    a = m.reg("a", "s32")
    meet = [[m.op(ops.Barrier, "warp")] if k in synchronised else [] for k in range(2)]
    return m.plan(
        m.op(ops.Fill, a, 1),
        m.op(ops.Store, at(S, tid), a),
        *meet[0],
        m.op(ops.Load, a, at(S, 31 - tid)),
        *meet[1],
        m.op(ops.Store, at(S, tid), a),
    )


def test_lanes_of_one_warp_are_ordered_by_syncwarp_alone():
    emulate(handed_over(0, 1))
    error = refused("emulate-race", handed_over(1))
    assert "after a write by warp 0, lane 31 (kernel.py:" in str(error)
    assert "put cute.syncwarp() between the two" in str(error)
    error = refused("emulate-race", handed_over(0))
    assert "after a read by warp 0, lane 31 (kernel.py:" in str(error)


@covers(ops.Store)
def test_each_lane_is_in_program_order():
    m = Maker(threads=32)
    S = m.smem("S", "s32", 32)
    a = m.reg("a", "s32")
    store, load = m.op(ops.Store, at(S, tid), a), m.op(ops.Load, a, at(S, tid))
    emulate(m.plan(m.op(ops.Fill, a, 1), store, load, store, load))


def test_warps_that_write_to_one_address_at_once_race():
    m = Maker(threads=64)
    S = m.smem("S", "s32", 32)
    a = m.reg("a", "s32")
    plan = m.plan(m.op(ops.Fill, a, 1), m.op(ops.Store, at(S, tid % 32), a))
    error = refused("emulate-race", plan)
    assert "a write of element 0 of S" in str(error)


@refuses(ops.Store)
def test_lanes_that_write_different_values_to_one_address_are_refused():
    m = Maker(threads=32)
    S = m.smem("S", "s32", 32)
    a = m.reg("a", "s32")
    value = m.op(ops.Map, "copy", a, (tid,), cute.s32)
    broken = m.plan(value, m.op(ops.Store, at(S, tid // 2), a))
    error = refused("emulate-lanes", broken)
    assert {error.facts["lane"], error.facts["other"]} == {0, 1}
    emulate(m.plan(m.op(ops.Fill, a, 3), m.op(ops.Store, at(S, tid // 2), a)))
    emulate(broken, checks=False)


def test_reading_shared_memory_that_nothing_wrote_is_refused():
    m = Maker(threads=64)
    S = m.smem("S", "s32", 64)
    a = m.reg("a", "s32")
    store = m.op(ops.Store, at(S, tid, guards=(less(tid, 50),)), a)
    plan = m.plan(
        m.op(ops.Fill, a, 1), store, m.op(ops.Barrier), m.op(ops.Load, a, at(S, 63 - tid))
    )
    error = refused("emulate-smem-unwritten", plan)
    assert "element 63 of S, which nothing has written" in str(error)


def test_shared_storages_are_bounded_one_by_one():
    m = Maker(threads=32)
    S = m.smem("S", "s32", 31)
    m.smem("T", "s32", 64)
    a = m.reg("a", "s32")
    plan = m.plan(m.op(ops.Fill, a, 1), m.op(ops.Store, at(S, tid), a))
    error = refused("emulate-bounds", plan, checks=False)
    assert "smem storage S" in str(error)


# -- barriers


@refuses(ops.If)
def test_barrier_under_a_condition_of_threads_is_divergent():
    m = Maker(threads=64)
    broken = m.plan(m.op(ops.If, less(tid, 40), (m.op(ops.Barrier),), (), "thread"))
    error = refused("emulate-barrier-divergent", broken)
    assert "others of the warp took another branch" in str(error)


def test_barrier_that_only_some_warps_reach_is_divergent():
    m = Maker(threads=64)
    inside = m.op(ops.Barrier)
    broken = m.plan(m.op(ops.If, less(tid // 32, 1), (inside,), (), "warp"))
    error = refused("emulate-barrier-divergent", broken)
    assert "warp 1 had ended" in str(error)
    mended = m.plan(m.op(ops.If, less(tid // 32, 1), (), (), "warp"), inside)
    emulate(mended)


def test_warps_at_different_barriers_of_the_block_are_divergent():
    m = Maker(threads=64)
    plan = m.plan(
        m.op(ops.If, less(tid // 32, 1), (m.op(ops.Barrier),), (m.op(ops.Barrier),), "warp")
    )
    error = refused("emulate-barrier-divergent", plan)
    assert "wait at kernel.py:" in str(error)


def handoff(full_threads=128, release=True, rounds=4):
    """Warp 0 produces tiles for warps 1 to 3 through named barriers 1 (full) and 2 (empty)."""
    m = Maker("handoff", threads=128, grid=(2, 1, 1))
    A, B = m.tensor("A", "s32"), m.tensor("B", "s32")
    S = m.smem("S", "s32", 32)
    a = m.reg("a", "s32")
    k = var("k")

    def named(kind, n):
        return m.op(ops.Barrier, "named", kind, n, full_threads)

    producer = m.op(
        ops.Loop,
        "k",
        0,
        rounds,
        1,
        (
            named("sync", 2),
            m.op(ops.Load, a, at(A, (bid_x * rounds + k) * 32 + tid)),
            m.op(ops.Store, at(S, tid), a),
            named("arrive", 1),
        ),
    )
    consumer = (
        named("arrive", 2),
        m.op(
            ops.Loop,
            "k",
            0,
            rounds,
            1,
            (
                named("sync", 1),
                m.op(ops.Load, a, at(S, tid % 32)),
                m.op(
                    ops.If,
                    less(k, rounds - 1),
                    (named("arrive", 2),) if release else (),
                    (),
                    "block",
                ),
                m.op(ops.Store, at(B, (bid_x * rounds + k) * 96 + tid - 32), a),
            ),
        ),
    )
    return m.plan(m.op(ops.If, less(tid // 32, 1), (producer,), consumer, "warp"))


@pytest.mark.parametrize("order", ORDERS)
def test_producer_and_consumers_meet_at_named_barriers(order):
    A = np.arange(256, dtype=np.int32)
    B = np.zeros(768, np.int32)
    emulate(handoff(), A, B, order=order)
    assert np.array_equal(B.reshape(8, 3, 32), np.repeat(A.reshape(8, 1, 32), 3, axis=1))


def test_missing_release_of_a_stage_is_a_deadlock():
    A, B = np.zeros(256, np.int32), np.zeros(768, np.int32)
    error = refused("emulate-deadlock", handoff(release=False), A, B)
    assert "barrier 2, where 32 of 128 threads have arrived" in str(error)
    assert "barrier 1" in str(error)


def test_too_many_threads_at_a_named_barrier():
    A, B = np.zeros(256, np.int32), np.zeros(768, np.int32)
    error = refused("emulate-barrier-count", handoff(full_threads=64), A, B)
    assert "exactly 64 threads" in str(error)


def test_stage_that_is_overwritten_before_its_release_races():
    m = Maker(threads=64)
    S = m.smem("S", "s32", 32)
    a = m.reg("a", "s32")
    one = m.op(ops.Barrier, "named", "arrive", 1, 64)
    plan = m.plan(
        m.op(ops.Fill, a, 1),
        m.op(
            ops.If,
            less(tid // 32, 1),
            (m.op(ops.Store, at(S, tid), a), one, m.op(ops.Store, at(S, tid), a)),
            (m.op(ops.Barrier, "named", "sync", 1, 64), m.op(ops.Load, a, at(S, tid - 32))),
            "warp",
        ),
    )
    error = refused("emulate-race", plan)
    assert error.facts["line"] in (("kernel.py", 4), ("kernel.py", 6))


# -- cp.async


def two_stages(wait=1, barrier=True, commit=True, release=True, tiles=4):
    """128 threads copy tiles of 512 f32 with cp.async, two in flight, and add them up."""
    m = Maker("two_stages", threads=128, grid=(2, 1, 1))
    A, B = m.tensor("A", "f32"), m.tensor("B", "f32")
    S = m.smem("S", "f32", 1024)
    a, total = m.reg("a", "f32", 4), m.reg("total", "f32", 4)
    k = var("k")

    def fetch(tile, guards=()):
        source = at(A, (bid_x * tiles + tile) * 512 + tid * 4, width=4, guards=guards, fill=None)
        target = at(S, tile % 2 * 512 + tid * 4, width=4)
        done = [m.op(ops.CpCommit)] if commit else []
        return [m.op(ops.CpAsync, CP16, target, source), *done]

    body = (
        m.op(ops.CpWait, wait),
        *([m.op(ops.Barrier)] if barrier else []),
        m.op(ops.Load, a, at(S, k % 2 * 512 + (tid + 32) % 128 * 4, width=4)),
        m.op(ops.Map, "add", total, (total, a), cute.f32),
        *([m.op(ops.Barrier)] if release else []),
        *fetch(k + 2, guards=(less(k + 2, tiles),)),
    )
    return m.plan(
        m.op(ops.Fill, total, 0),
        *fetch(0),
        *fetch(1),
        m.op(ops.Loop, "k", 0, tiles, 1, body),
        m.op(ops.Store, at(B, bid_x * 512 + tid * 4, width=4), total),
    )


@covers(ops.CpAsync, ops.CpCommit, ops.CpWait)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("checks", [True, False])
def test_two_stages_of_cp_async(checks, order):
    A = np.random.default_rng(0).integers(-9, 9, (2, 4, 128, 4)).astype(np.float32)
    B = np.zeros((2, 128, 4), np.float32)
    emulate(two_stages(), A.reshape(-1), B.reshape(-1), checks=checks, order=order)
    assert np.array_equal(B, np.roll(A.sum(1), -32, axis=1))


@refuses(ops.CpAsync, ops.CpCommit, ops.CpWait)
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wait": 2}, "wait with cute.cp_async_wait(1) before this line"),
        ({"commit": False}, "close the group with cute.cp_async_fence()"),
        ({"barrier": False}, "put a barrier between cute.cp_async_wait of warp"),
    ],
)
def test_cp_async_data_is_used_too_early(changes, words):
    A, B = np.zeros(4096, np.float32), np.zeros(1024, np.float32)
    error = refused("emulate-copy-pending", two_stages(**changes), A, B)
    assert words in str(error)
    assert error.facts["access"] == "read"


def test_stage_overwritten_by_cp_async_before_all_have_read_it():
    A, B = np.zeros(4096, np.float32), np.zeros(1024, np.float32)
    error = refused("emulate-race", two_stages(release=False), A, B)
    assert "after a read by warp" in str(error)


# -- matrices


def one_warp_mma(kind="bf16", swizzle=None, transposed=False):
    """D (16x8, f32) = A (16x16) B (8x16): ldmatrix and one instruction."""
    m = Maker("mma", threads=32)
    A, B, D = m.tensor("A", kind), m.tensor("B", kind), m.tensor("D", "f32")
    SA, SB = m.smem("SA", kind, 256), m.smem("SB", kind, 128)
    a, b = m.reg("a", kind, 8), m.reg("b", kind, 4)
    d = m.reg("d", "f32", 4)
    name = f"SM80_16x8x16_F32{kind.upper()}{kind.upper()}F32_TN"
    row = tid % 16 * 16 + tid // 16 * 8
    x4, x2 = get_copy("SM75_U32x4_LDSM_N"), get_copy("SM75_U32x2_LDSM_N")
    rows = {"swizzle": swizzle, "inner": row} if swizzle else {}
    load_a = at(SA, *(() if swizzle else (row,)), width=8)
    store_a = at(SA, *(() if swizzle else (tid * 8,)), width=8)
    if swizzle:
        from dataclasses import replace

        load_a = replace(at(SA, 0, width=8), **rows)
        store_a = replace(at(SA, 0, width=8), swizzle=swizzle, inner=tid * 8)
    return m.plan(
        m.op(ops.Load, a, at(A, tid * 8, width=8)),
        m.op(ops.Store, store_a, a),
        m.op(ops.Load, b, at(B, tid * 4, width=4)),
        m.op(ops.Store, at(SB, tid * 4, width=4), b),
        m.op(ops.Barrier, "warp"),
        m.op(ops.LdMatrix, x4, a, load_a),
        m.op(ops.LdMatrix, x2, b, at(SB, tid % 8 * 16 + tid // 8 % 2 * 8, width=8)),
        m.op(ops.Fill, d, 0),
        m.op(ops.Mma, atoms.get(name), d, a, b, ((0, 0, 0),)),
        m.op(ops.Store, at(D, tid // 4 * 8 + tid % 4 * 2, width=2), part(d, 0, 1)),
        m.op(ops.Store, at(D, tid // 4 * 8 + tid % 4 * 2 + 64, width=2), part(d, 2, 3)),
    )


@covers(ops.Mma)
@pytest.mark.parametrize("swizzle", [None, (1, 3, 1)])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("checks", [True, False])
def test_one_warp_mma_with_ldmatrix(kind, swizzle, checks):
    rng = np.random.default_rng(1)
    A, B = (rng.integers(-8, 9, (n, 16)).astype(cute.dtype(kind).numpy) for n in (16, 8))
    D = np.zeros((16, 8), np.float32)
    plan = one_warp_mma(kind, swizzle)
    emulate(plan, A.reshape(-1), B.reshape(-1), D.reshape(-1), checks=checks)
    assert np.array_equal(D, A.astype(np.float32) @ B.astype(np.float32).T)


@covers(ops.LdMatrix)
@pytest.mark.parametrize(
    "name", ["SM75_U32x1_LDSM_N", "SM75_U32x4_LDSM_N", "SM75_U16x2_LDSM_T", "SM75_U16x8_LDSM_T"]
)
def test_ldmatrix_reads_what_its_tv_layouts_say(name):
    atom = get_copy(name)
    n = atom.dst_bits // 16
    m = Maker(threads=32)
    B = m.tensor("B", "u16")
    S = m.smem("S", "u16", 256)
    a, out = m.reg("a", "u16", 8), m.reg("out", "u16", n)
    fill = [m.op(ops.Map, "copy", part(a, i), (tid * 8 + i,), cute.u16) for i in range(8)]
    plan = m.plan(
        *fill,
        m.op(ops.Store, at(S, tid * 8, width=8), a),
        m.op(ops.Barrier, "warp"),
        m.op(ops.LdMatrix, atom, out, at(S, tid * 8, width=8)),
        m.op(ops.Store, at(B, tid * n, step=(n, 1)), out),
    )
    B = np.zeros((32, n), np.uint16)
    emulate(plan, B.reshape(-1))
    expected = [[atom.dst_tv(lane, v * 16) // 16 for v in range(n)] for lane in range(32)]
    assert np.array_equal(B, expected)


@covers(ops.StMatrix)
@pytest.mark.parametrize("name", ["SM90_U32x4_STSM_N", "SM90_U16x8_STSM_T", "SM90_U32x2_STSM_N"])
def test_stmatrix_writes_what_its_tv_layouts_say(name):
    atom = get_copy(name)
    n = atom.src_bits // 16
    m = Maker(threads=32)
    B = m.tensor("B", "u16")
    S = m.smem("S", "u16", 256)
    a = m.reg("a", "u16", n)
    out = m.reg("out", "u16", n)
    values = [m.op(ops.Map, "copy", part(a, v), (tid * n + v,), cute.u16) for v in range(n)]
    plan = m.plan(
        *values,
        m.op(ops.StMatrix, atom, at(S, tid * 8, width=8), a),
        m.op(ops.Barrier, "warp"),
        m.op(ops.Load, out, at(S, tid * n, step=(n, 1))),
        m.op(ops.Store, at(B, tid * n, step=(n, 1)), out),
    )
    B = np.zeros(32 * n, np.uint16)
    emulate(plan, B)
    for lane in range(32):
        for v in range(n):
            assert B[atom.src_tv(lane, v * 16) // 16] == lane * n + v


@refuses(ops.LdMatrix)
def test_rows_of_ldmatrix_are_aligned():
    m = Maker(threads=32)
    S = m.smem("S", "u16", 512)
    a = m.reg("a", "u16", 8)
    plan = m.plan(m.op(ops.LdMatrix, get_copy("SM75_U32x4_LDSM_N"), a, at(S, tid * 12, width=8)))
    error = refused("emulate-alignment", plan)
    assert "multiples of 16 bytes" in str(error)


@refuses(ops.Mma)
def test_mma_needs_all_lanes():
    m = Maker(threads=32)
    a, b, d = m.reg("a", "f16", 8), m.reg("b", "f16", 4), m.reg("d", "f32", 4)
    atom = atoms.get("SM80_16x8x16_F32F16F16F32_TN")
    fills = [m.op(ops.Fill, r, 0) for r in (a, b, d)]
    inside = m.op(ops.Mma, atom, d, a, b, ((0, 0, 0),))
    plan = m.plan(*fills, m.op(ops.If, less(tid, 16), (inside,), (), "thread"))
    error = refused("emulate-warp-divergent", plan)
    assert "cute.gemm that block (0, 0, 0), warp 0, lane 16" in str(error)


def test_fragment_that_is_read_before_it_is_loaded():
    """A slice of a double-buffered fragment is used one step too early."""
    m = Maker(threads=32)
    a, b, d = m.reg("a", "f16", 16), m.reg("b", "f16", 8), m.reg("d", "f32", 4)
    atom = atoms.get("SM80_16x8x16_F32F16F16F32_TN")
    half = [m.op(ops.Fill, part(r, *range(len(r) // 2)), 0) for r in (a, b)]
    rest = [m.op(ops.Fill, part(r, *range(len(r) // 2, len(r))), 0) for r in (a, b)]
    uses = m.op(ops.Mma, atom, d, part(a, *range(8, 16)), part(b, *range(4, 8)), ((0, 0, 0),))
    broken = m.plan(m.op(ops.Fill, d, 0), *half, uses, *rest)
    error = refused("emulate-register-unwritten", broken)
    assert "register a[8]" in str(error)
    emulate(m.plan(m.op(ops.Fill, d, 0), *half, *rest, uses))


def test_registers_may_be_read_as_another_type():
    m = Maker(threads=32)
    A, B = m.tensor("A", "f32"), m.tensor("B", "u32")
    a, n = m.reg("a", "f32", 2), m.reg("n", "s4", 16)
    plan = m.plan(
        m.op(ops.Load, a, at(A, tid * 2, width=2)),
        m.op(ops.Store, at(B, tid * 4, width=2), read_as(a, "u32", 2)),
        *[m.op(ops.Fill, part(n, i), i - 8) for i in range(16)],
        m.op(ops.Store, at(B, tid * 4 + 2, width=2), read_as(n, "u32", 2)),
    )
    A, B = np.arange(64, dtype=np.float32), np.zeros((32, 4), np.uint32)
    emulate(plan, A, B.reshape(-1))
    assert np.array_equal(B[:, :2], A.view(np.uint32).reshape(32, 2))
    assert [hex(x) for x in B[5, 2:]] == ["0xfedcba98", "0x76543210"]
