"""The analytic model: the numbers of its source, laws of its formulas, and records of devices."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.analysis import DEVICES, model, wave
from cute_py.atoms import arch
from cute_py.atoms.devices import HOPPER, RATES, SECTOR, SPECS, gib, tera
from cute_py.emulate import resources
from cute_py.kernels.gemm_04_double_buffer import choose, sgemm_128x128
from cute_py.ops import gemm_tiles_sm90 as rule
from cute_py.ops.device import ROWS, Measured, Timing, rows_of, spec_of
from cute_py.ops.device_benches import SMALL, benches

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
GPUS = (model.V100, model.A100, model.H100, model.H200)
EDGES = st.integers(1, 30000)
SIDES = st.sampled_from((32, 64, 96, 128, 192, 256))
TILES = st.tuples(SIDES, SIDES)
BLOCKS = st.integers(1, 400)
HITS = st.floats(0, 1)


# -- devices


def test_o01_constants_of_the_v100():
    gpu = model.V100
    assert (gpu.l2, gpu.dram_read, gpu.dram_write, gpu.dram_copy) == (2624, 791, 836, 764)
    assert (gpu.l2_latency, gpu.l1_latency, gpu.shared_latency) == (194, 28, 19)
    assert (gpu.shared_bandwidth, gpu.dram_latency) == (115.35, (400, 440))
    assert (gpu.peak_f32, gpu.lsu_ipc, gpu.ffma_ipc) == (14, 0.25, 0.5)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_o01_every_number_of_a_gpu_has_one_source(gpu):
    named = [name for names, _ in gpu.sources for name in names.split()]
    known = [name for name in (*RATES, "fitted") if getattr(gpu, name) is not None]
    assert sorted(named) == sorted(known)
    assert all(source for _, source in gpu.sources)
    with pytest.raises(AttributeError):
        gpu.l2 = 1


def test_o01_the_h200_reads_and_copies_as_was_measured():
    rows = {row["row"]: row for row in json.loads((RESULTS / "gpu.json").read_text())["rows"]}
    for row, found in (("sum-f32", model.H200.dram_read), ("copy-1GiB", model.H200.dram_copy)):
        best = max(x["burst"]["speed"] for x in rows[row]["entries"] if x["kernel"] != "torch")
        assert found == pytest.approx(gib(best * 1e12), rel=0.01)
    assert gib(4800e9) * 0.9 < model.H200.dram_read < gib(4800e9)


def test_o22_the_h200_has_what_was_measured():
    """Those numbers whose source is device_model.json; and the page names the same."""
    found = {}
    for row in json.loads((RESULTS / "device_model.json").read_text())["rows"]:
        for name in ROWS[row["row"]].names:
            found[name] = max(row["value"], found.get(name, 0))
    taken = [
        name
        for names, source in model.H200.sources
        if source == "benchmarks/results/device_model.json"
        for name in names.split()
    ]
    assert len(taken) == 8
    for name in taken:
        value = getattr(model.H200, name)
        values = value if isinstance(value, tuple) else (value, value)
        assert values == pytest.approx((found[name],) * 2, rel=0.002), name
    page = " ".join((RESULTS.parents[1] / "docs" / "model.md").read_text("utf-8").split())
    of_data_sheet = found["dram_read"] / gib(4800e9)
    for said in (
        f"it finds {found['dram_read']:.0f} GiB/s of DRAM read, {of_data_sheet:.2f} of the data",
        f"{found['l2']:.0f} of L2 read",
        f"{found['shared_bandwidth']:.0f} bytes a cycle of shared memory",
        f"{found['ffma_rate']:.0f} FLOP a cycle of FFMA, {found['mma_rate']:.0f} of mma.sync and "
        f"{found['wgmma_rate']:.0f} of wgmma in f16, {found['ex2_rate']:.1f} ex2 a cycle",
        f"{found['barrier']:.0f} cycles for a barrier",
        f"{found['launch']:.2f} us from one launch",
        f"`measure` finds {found['l1_latency']:.1f}, {found['l2_latency']:.0f} and "
        f"{found['shared_latency']:.1f}",
    ):
        assert said in page


def test_limits_and_constants_elsewhere_are_views_of_the_records():
    assert {spec.limits.arch: spec.limits for spec in SPECS} == DEVICES
    for spec in SPECS:
        chip = arch.CHIPS.get(spec.limits.arch)
        assert (chip and chip.multiprocessors) == spec.multiprocessors
        assert spec.name in (chip.name if chip else "")
    assert model.H200.fitted is HOPPER
    assert (rule.LAUNCH, rule.LATENCY, rule.MEMORY) == (1.44, 0.893, 4.39e6)
    assert (HOPPER.launch, HOPPER.latency, HOPPER.memory) == (1.44, 0.893, 4.39e6)
    assert (model.H200.multiprocessors, dict(HOPPER.clusters)) == (rule.H200, rule.USED)
    assert rule.SECTOR == SECTOR
    assert model.H100.multiprocessors == resources.MULTIPROCESSORS


# -- what memory delivers


def test_o02_naive_ratio_and_what_l2_allows():
    assert model.naive_ratio() == pytest.approx(0.484848, abs=1e-6)
    assert model.speed_at(2624, 0.48) == pytest.approx(1.23)


def test_o03_gemm_ratio():
    ratios = [model.gemm_ratio(*tile) for tile in ((64, 64), (128, 64), (128, 128))]
    assert [round(x, 3) for x in ratios] == [16, 21.333, 32]
    assert model.gemm_ratio(128, 128, 2) == 64


@given(TILES, st.integers(1, 4096), st.sampled_from((1, 2, 4, 8)))
def test_o03_is_flop_by_bytes(tile, K, bytes):
    m, n = tile
    flop, moved = 2 * m * n * K, (m + n) * K * bytes
    assert model.gemm_ratio(m, n, bytes) == pytest.approx(flop / moved)
    assert model.gemm_ratio(n, m, bytes) == model.gemm_ratio(m, n, bytes)


def test_o04_bandwidth_that_a_speed_needs():
    assert model.bandwidth_need(14, 16) == 896
    assert round(model.load_bandwidth(model.V100, 0.1), 1) == 974.3


@given(st.floats(1, 2000), st.floats(0.1, 500))
def test_o04_speed_is_the_inverse_of_need(peak, ratio):
    assert model.speed_at(model.bandwidth_need(peak, ratio), ratio) == pytest.approx(peak)


P5 = {
    (4096, 4096): (0.7969, 0.8812, 0.8844),
    (8192, 8192): (0.5969, 0.7906, 0.7906),
    (16384, 16384): (0.1969, 0.5938, 0.5938),
    (4096, 20480): (0.3969, 0.4938, 0.4969),
}


def test_o13_requests_of_a_wave():
    found = model.requests((4096, 4096, 64), (128, 128), 160)
    assert found == (160 * 128 * 64, 160 * 128 * 64, 6 * 128 * 64, 4096 * 64)


@pytest.mark.parametrize("shape", P5, ids=str)
def test_o14_the_table_of_hit_rates(shape):
    forms = ({"literal": True}, {}, {"exact": True})
    found = [model.l2_hit_rate(*shape, (128, 128), 160, **form) for form in forms]
    assert found == pytest.approx(P5[shape], abs=5.1e-5)


@given(EDGES, EDGES, TILES, BLOCKS, st.sampled_from(("", "literal", "exact")))
def test_o14_hit_rate_is_from_0_to_1(M, N, tile, blocks, form):
    assert 0 <= model.l2_hit_rate(M, N, tile, blocks, **({form: True} if form else {})) < 1


@given(st.integers(1, 40), st.integers(1, 40), TILES, BLOCKS)
def test_o14_the_exact_form_counts_the_tiles_of_the_wave(rows, columns, tile, blocks):
    """By brute force: the rows and columns of the first blocks, along N first."""
    assume(blocks <= rows * columns)
    (m, n), first = tile, [divmod(b, columns) for b in range(blocks)]
    found = model.requests((rows * m, columns * n, 1), tile, blocks, exact=True)
    assert found.a_dram == len({row for row, _ in first}) * m
    assert found.b_dram == len({column for _, column in first}) * n
    assert (found.a_requested, found.b_requested) == (blocks * m, blocks * n)


def test_o15_speeds_of_the_v100():
    huge = (20480,) * 3
    found = [model.predict(model.V100, huge, (n, n), blocks_each=2, hit=0.1) for n in (64, 32)]
    assert [round(x.tflops, 2) for x in found] == [14, 7.61]
    assert [x.limit for x in found] == ["multiply-adds", "loads"]
    assert model.smallest_tile(model.V100, 14, hit=0.1) == (64, 64)


def test_o15_is_flagged_where_it_does_not_hold():
    small = model.predict(model.V100, (1024, 1024, 512), (128, 128), blocks_each=2)
    assert small.doubts == ("A and B fit into L2", "64 tiles are less than a wave of 160")
    assert not small.valid
    assert "not valid: A and B fit into L2" in str(small)
    assert model.predict(model.V100, (8192,) * 3, (128, 128), blocks_each=2).valid
    starved = model.predict(model.V100, (8192,) * 3, (32, 32), blocks_each=2, hit=0.5)
    assert starved.doubts == ("DRAM would deliver 854 GiB/s of its 791",)


@st.composite
def predictions(draw):
    shape = tuple(draw(EDGES) for _ in range(3))
    named = {"blocks_each": draw(st.integers(1, 4)), "bytes": draw(st.sampled_from((2, 4)))}
    return draw(st.sampled_from(GPUS)), shape, draw(TILES), named


@given(predictions(), st.none() | HITS)
def test_o15_never_beats_the_roofline(asked, hit):
    gpu, shape, tile, named = asked
    found = model.predict(gpu, shape, tile, hit=hit, **named)
    ratio = model.gemm_ratio(*tile, named["bytes"])
    assert 0 <= found.hit <= 1
    assert found.tflops <= found.peak
    assert found.tflops <= model.speed_at(gpu.l2, ratio) * (1 + 1e-9)
    assert found.need <= found.load * (1 + 1e-9)
    if found.valid and found.hit < 1:  # DRAM delivers what L2 does not have
        most = model.speed_at(gpu.dram_read, ratio / (1 - found.hit))
        assert found.tflops <= most * (1 + 1e-6)


@given(predictions(), st.floats(0.1, 1), st.sampled_from(("l2", "dram_read")))
def test_o15_falls_with_bandwidth(asked, part, what):
    gpu, *rest, named = asked
    slower = replace(gpu, **{what: getattr(gpu, what) * part})
    assert model.predict(slower, *rest, **named).tflops <= model.predict(*asked[:3], **named).tflops


@given(predictions(), HITS, HITS)
def test_o15_rises_with_the_hit_rate(asked, one, other):
    low, high = sorted((one, other))
    found = [model.predict(*asked[:3], hit=hit, **asked[3]).tflops for hit in (low, high)]
    assert found[0] <= found[1]


def test_o16_rectangular_wave_of_the_flat_case():
    assert model.rectangular_wave(128, 20480, 128, 128) == 0.496875
    assert round(model.rectangular_wave(128, 20480, 128, 128, literal=True), 5) == 0.99997
    assert model.flat_bound(128, 128) == 0.5


@given(st.integers(1, 60), st.integers(1, 60), TILES)
def test_o16_is_the_exact_form_of_whole_rows(rows, columns, tile):
    m, n = tile
    exact = model.l2_hit_rate(rows * m, columns * n, tile, rows * columns, exact=True)
    assert model.rectangular_wave(rows * m, columns * n, m, n) == pytest.approx(exact, abs=1e-12)
    assert model.rectangular_wave(m, columns * n, m, n) <= model.flat_bound(m, n)


def test_o24_hit_rates_that_tiles_need():
    gpu = model.V100
    assert round(model.required_hit_rate(gpu, 14, (64, 64), 4), 4) == 0.0573
    assert model.bandwidth_need(112, model.gemm_ratio(64, 64, 2)) == 3584
    assert model.required_hit_rate(gpu, 112, (64, 64), 2) is None
    for n, need, hit in ((96, 2389.3, 0.8719), (128, 1792, 0.5461)):
        assert round(model.bandwidth_need(112, model.gemm_ratio(n, n, 2)), 1) == need
        assert model.required_hit_rate(gpu, 112, (n, n), 2) == pytest.approx(hit, abs=1e-4)
    assert model.smallest_tile(gpu, 112, 2) == (96, 96)


@given(st.sampled_from(GPUS), st.floats(1, 1000), st.sampled_from((1, 2, 4)), HITS)
def test_o24_the_smallest_tile_is_enough_and_the_next_smaller_is_not(gpu, peak, bytes, hit):
    n, _ = model.smallest_tile(gpu, peak, bytes, hit=hit)
    enough = model.load_bandwidth(gpu, hit)
    assert model.bandwidth_need(peak, model.gemm_ratio(n, n, bytes)) <= enough * (1 + 1e-9)
    if n > 32:
        less = model.gemm_ratio(n - 32, n - 32, bytes)
        assert model.bandwidth_need(peak, less) > enough
    need = model.required_hit_rate(gpu, peak, (n, n), bytes)
    assert need is not None
    assert need <= hit + 1e-9


# -- what a thread does


def test_o05_limit_of_inner_products():
    assert model.inner_product_limit() == 3.5
    assert model.inner_product_limit(14, bandwidth=64) == 14 / 8


def test_o06_registers_of_outer_products():
    assert model.thread_tile_registers(8, 8) == 80
    assert model.thread_tile_registers(8, 8, double=True) == 96


def test_o06_the_estimate_is_that_of_the_kernel():
    """gemm_04 has two fragments of each operand, besides what it loads ahead."""
    a = np.ones((128, 128), np.float32)
    plan = cute.trace(sgemm_128x128, a, a, a, choose(a, a))
    held = [x.count for x in plan.storages]
    ahead = 2 * 128 * 8 // 256
    assert sum(held) - ahead == model.thread_tile_registers(8, 8, double=True)


def test_o07_ratio_of_multiply_adds_to_loads():
    assert [round(model.i_ratio(8, n), 3) for n in (8, 4, 16)] == [4, 2.667, 5.333]


@given(st.integers(1, 64), st.integers(1, 64), st.floats(0.1, 4))
def test_o07_both_forms_are_one(Mf, Nf, alpha):
    other = ((Mf + Nf) ** 2 - (Mf - Nf) ** 2) / (Mf + Nf) / (4 * alpha)
    assert model.i_ratio(Mf, Nf, alpha) == pytest.approx(other)


def test_o08_tiles_of_a_thread():
    assert model.thread_tile_choice() == (8, 16)
    assert model.thread_tile_choice(128) == (8, 8)
    assert model.warp_tile_latency(8, 4, shared_latency=30).both > 8 * 4  # too small
    assert model.thread_tile_registers(16, 16, double=True) > 255


def test_o09_cycles_of_fragments():
    found = [
        model.warp_tile_cycles(8, 8),
        model.warp_tile_cycles(8, 8, bandwidth=64),
        model.warp_tile_cycles(8, 8, (4, 8)),
    ]
    assert [x[:2] for x in found] == [(4, 8), (4, 16), (4, 4)]
    assert [int(x.ffma_per_cycle) for x in found] == [170, 102, 256]


def test_o17_counts_of_a_tile():
    assert model.instruction_counts((128, 128, 8), (8, 8)) == (256, 8, 8, 64, 512)


def test_o17_counts_of_the_plan_are_those_of_the_formula():
    a = np.ones((256, 64), np.float32)
    for mode in ("K", "MN"):
        b = a if mode == "K" else a.T.copy().T
        plan = cute.trace(sgemm_128x128, a, b, np.ones((256, 256), np.float32), choose(a, b))
        assert model.counts_of_plan(plan) == model.instruction_counts((128, 128, 8), (8, 8))


def test_o18_part_that_is_not_covered():
    assert round(model.beta(400 + 19, 512), 6) == 0.181641
    assert round(model.beta(400 + 19, 512, 4), 6) == 0.187984
    counts = model.instruction_counts((128, 128, 8), (8, 8))
    loads, products = model.partial_counts(counts, model.beta(419, 512))
    assert (loads, products) == (8 + 64 * 93 / 512, 93)


def test_o19_loads_for_each_multiply_add():
    found = [model.ratio_ld_ffma((128, 128, 8), (8, 8), n) for n in (419, 459)]
    assert [round(x, 6) for x in found] == [0.211022, 0.275943]
    most = model.V100.lsu_ipc / model.V100.ffma_ipc
    assert all(x <= most for x in found)


@given(TILES, st.sampled_from((8, 16, 32)), st.sampled_from(((8, 8), (8, 16), (16, 8))), st.data())
def test_o19_is_the_closed_form(tile, Kt, thread, data):
    (Mt, Nt), (Mf, Nf) = tile, thread
    assume((Mt + Nt) * Kt % (Mt * Nt // (Mf * Nf)) == 0)
    latency = data.draw(st.integers(1, Mf * Nf * Kt - 1))
    first = Mf * Nf * (1 / Mt + 1 / Nt) / (Mf * Nf - latency / Kt)
    closed = first + (Mf + Nf) / (2 * Mf * Nf)
    assert model.ratio_ld_ffma((Mt, Nt, Kt), thread, latency) == pytest.approx(closed)


def test_o20_multiply_adds_cover_latency():
    assert model.is_valid((128, 128, 8), (8, 8), 419) is True
    assert model.is_valid((128, 128, 8), (8, 4), 419) is False


def test_o23_latency_of_fragments():
    found = model.warp_tile_latency(8, 8, shared_latency=19)
    assert (found.a, found.b, found.both) == (23, 27, 31)
    assert found.products == 64 + model.V100.ffma_latency


# -- what is measured becomes a device


def test_o22_rows_become_a_device():
    """Of launches that took 1 us and 1,000 cycles: each row has its number, and they fit."""
    timed = lambda bench: Timing(np.array(0), 1.0, 1000.0)  # noqa: E731
    found = list(rows_of([replace(x, wanted=lambda _: True) for x in benches(SMALL)], timed))
    assert {row.row for row in found} == set(ROWS)
    spec = spec_of(found, model.H100)
    assert all(getattr(spec, name) for row in ROWS.values() for name in row.names)
    assert spec.lsu_ipc == spec.shared_bandwidth / 512
    assert spec.peak_f32 == tera(spec.ffma_rate * 132 * spec.clock * 1e9)
    assert spec.dram_latency[0] == spec.dram_latency[1]
    named = [name for names, _ in spec.sources for name in names.split()]
    known = [x.name for x in fields(spec) if x.name in RATES and getattr(spec, x.name) is not None]
    assert sorted(named) == sorted(known)


def test_o22_the_fastest_working_set_is_the_bandwidth_of_l2():
    rows = [Measured("l2 read", x, "GiB/s", 1 << 20) for x in (3.0, 5.0, 4.0)]
    assert spec_of(rows, model.H200).l2 == 5
    assert spec_of(rows, model.H200).fitted is None
    assert str(rows[0]) == "l2 read of 1.0 MiB: 3 GiB/s"


def test_o11_a_wave_of_the_v100():
    assert wave(model.V100.multiprocessors, 2, 4096, 128).blocks == 160
