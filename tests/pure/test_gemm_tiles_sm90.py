"""The tile that a product gets on Hopper: what fits, the fewest blocks, and why it was chosen."""

import json
from dataclasses import replace
from math import gcd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from benchmarks.gpu.few_tiles import Way, facts
from benchmarks.gpu.rule import GROUPS, label, updated
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.config_sm90 import HOPPER_SMEM, store_bytes
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops import choice, gemm_tiles_sm90
from cute_py.ops.gemm_tiles_sm90 import (
    FEW,
    NARROW,
    NARROWEST,
    OTHERS,
    PDL_BELOW,
    ROWS,
    USED,
    ProductFacts,
    band_of,
    candidates,
    changed_for_hopper,
    estimate,
    for_hopper,
    grid_of,
    narrowed,
    of_width,
)
from cute_py.ops.libraries import Gpu

RESULTS_OF = Path(__file__).parents[2] / "benchmarks" / "results"
MEASURED, FEW_TILES = RESULTS_OF / "rule.json", RESULTS_OF / "few_tiles.json"
H200 = Gpu(HOPPER_SMEM, 132, (9, 0))
RESULTS = {"f16": "f16", "bf16": "bf16", "tf32": "f32", "s8": "s32", "e4m3": "bf16"}


def problem(shape, kind="bf16", **named):
    kinds = cute.dtype(kind), cute.dtype(kind)
    result = cute.dtype(named.pop("result", RESULTS[kind]))
    usual = {"batch": 1, "majors": ("K", "K"), "pitches": (128, 128), "fast_accum": False}
    more = {"epilogue": LinearCombination(), "gpu": H200} | usual | named
    return ProductFacts(shape=shape, kinds=kinds, result=result, **more)


@st.composite
def problems(draw):
    kind = draw(st.sampled_from(list(RESULTS)))
    sides = st.sampled_from(["K", "MN"] if kind in ("f16", "bf16") else ["K"])
    pitches = st.sampled_from([16, 32, 64, 128])
    terms = [draw(st.booleans()) for _ in range(3)]
    return problem(
        tuple(draw(st.integers(1, 20000)) for _ in range(3)),
        kind,
        batch=draw(st.sampled_from([1, 1, 3, 100])),
        majors=(draw(sides), draw(sides)),
        pitches=(draw(pitches), draw(pitches)),
        result=draw(st.sampled_from([RESULTS[kind], "f32"])),
        epilogue=LinearCombination("f32", *terms, draw(st.sampled_from([None, *ACTIVATIONS]))),
        fast_accum=draw(st.booleans()),
        gpu=replace(H200, multiprocessors=draw(st.sampled_from([132, 114, 78, 16, 1]))),
    )


@given(problems())
def test_a_configuration_fits_the_gpu_and_the_operands(asked):
    config = for_hopper(asked)
    m, n, k = config.tile
    bytes = config.stages * (m + n) * k * asked.kinds[0].bits // 8
    assert config.stages >= 2
    assert bytes + store_bytes(config, asked.result) < asked.gpu.smem
    assert (config.a.major, config.b.major) == asked.majors
    assert bool(config.store) is asked.by_tma
    assert config.two_level == (asked.kinds[0].name == "e4m3" and not asked.fast_accum)
    assert config.cluster == 1 or min(asked.pitches) == 16
    assert config.split == 1 or config.prefetch == 0
    assert config.cluster == 1 or asked.batch == 1 or not asked.epilogue.source
    row = of_width(m, config.schedule, n)
    assert row.holds(asked.forms, asked.weight), "its epilogue spills"
    assert config.mma_atom.a_type is asked.kinds[0]


@given(problems())
def test_the_grid_has_the_fewest_blocks_of_its_waves(asked):
    """Cooperative blocks: one less would need a wave more. All tiles of D have a block."""
    for found in candidates(asked):
        config, shape = found.config, asked.shape
        blocks, waves = grid_of(config, shape, asked.batch, asked.gpu.multiprocessors)
        m, n = (cute.ceil_div(x, y) for x, y in zip(shape, config.tile[:2], strict=False))
        units = m * n * asked.batch
        if config.cluster == 2:  # pairs along N; of an odd last column, along M
            units = (m * (n // 2) + n % 2 * cute.ceil_div(m, 2)) * asked.batch
        together = config.cluster * config.split
        clusters = blocks // together
        assert blocks % together == 0
        assert (waves - 1) * clusters < units <= waves * clusters
        used = USED.get(together, OTHERS)[0]
        most = asked.gpu.multiprocessors * used // 132 // together or 1
        assert 1 <= clusters <= most
        assert waves == cute.ceil_div(units, most)
        if config.schedule == "cooperative" and shape[0] > NARROW:
            assert clusters == 1 or waves * (clusters - 1) < units
        assert 1 <= band_of(config, shape, waves) <= cute.ceil_div(shape[0], m)


@given(problems())
def test_the_reasons_say_what_was_estimated(asked):
    config = for_hopper(asked)
    best = min(candidates(asked), key=lambda x: x.time)
    tile, pdl, *source, store = config.reasons
    assert tile.startswith(f"tile: {best}")
    for words, blocks in (("clusters of ", config.cluster), ("K in ", config.split)):
        assert (f"{words}{blocks}" in str(best)) is (words in str(best)) is (blocks > 1)
    assert config.pdl == (best.time < PDL_BELOW)
    assert f"dependent launch: {'on' if config.pdl else 'off'}" in pdl
    assert ("by TMA" in store) is bool(config.store)
    assert len(source) == asked.epilogue.source
    assert all(("by TMA" in x) is bool(config.prefetch) for x in source)


@pytest.mark.parametrize(
    ("shape", "split"),
    [
        ((512, 512, 65536), 6),
        ((256, 2048, 14336), 2),
        ((4096, 4096, 4096), 1),
        ((16, 4096, 4096), 1),
    ],
)
def test_k_is_split_where_d_has_few_tiles_and_more_rows_than_a_tile(shape, split):
    config = for_hopper(problem(shape))
    assert config.split == split
    assert (f"K in {split} parts" in config.reasons[0].partition(";")[0]) is (split > 1)


def measured_as(asked, times):
    """Return (estimate, time) of the rows that were measured, with as many stages as then."""
    rows = {(x.m, x.n, x.schedule): x for x in ROWS}
    found = []
    for x in candidates(asked):
        m, n, _k = x.config.tile
        for name, time in times.items():
            tile, _, stages = name.rpartition(" s")
            if tile == label(x.config).rpartition(" s")[0] and stages.isdigit():
                config = replace(x.config, stages=int(stages))
                row = rows[m, n, config.schedule]
                found.append((estimate(row, config, asked, asked.memory, asked.steps).time, time))
    return found


def ratios_to_the_best(products):
    """Return, of each measured product, the least time over that of the rule's choice now. Only
    rows count, none with fewer columns, and of them those that were measured.
    """
    found = []
    for record in products:
        group, (M, N, K) = GROUPS[record["group"]], record["shape"]
        sides = [K if major == "K" else n for major, n in zip(group.majors, (M, N), strict=True)]
        size = cute.dtype(group.kind).bits // 8
        named = {"result": group.result, "majors": group.majors, "epilogue": group.epilogue}
        named |= {"fast_accum": group.fast, "pitches": tuple(gcd(128, x * size) for x in sides)}
        known = measured_as(problem((M, N, K), group.kind, **named), record["us"])
        if known:
            found.append(min(time for _, time in known) / min(known)[1])
    return found


@pytest.fixture
def rows_alone(monkeypatch):
    """Estimate rows alone, as their times are known."""
    monkeypatch.setattr(gemm_tiles_sm90, "FEW", 0)


@pytest.mark.usefixtures("rows_alone")
@pytest.mark.parametrize(("name", "least"), [("fitted", 1900), ("held out", 159)])
def test_the_rule_is_near_the_fastest_of_what_was_measured(name, least):
    """Products of bf16 along K on an H200: those of the first fit, and others."""
    products = json.loads(MEASURED.read_text())[name]
    ratios = ratios_to_the_best([x for x in products if x["group"] in ("tn", "table")])
    assert len(ratios) >= least
    assert sum(ratios) / len(ratios) >= 0.98
    assert sum(ratio < 0.97 for ratio in ratios) <= len(ratios) / 6
    assert min(ratios) >= 0.77
    table = ratios_to_the_best([x for x in products if x["group"] == "table"])
    assert min(table) >= 0.965


@pytest.mark.usefixtures("rows_alone")
@pytest.mark.parametrize("seed", [7, 11, 31])
def test_the_rule_is_near_the_fastest_of_40_products_of_a_seed(seed):
    products = json.loads(MEASURED.read_text())["held out"]
    drawn = [x for x in products if x["group"] == "tn" and x["seed"] == seed]
    ratios = ratios_to_the_best(drawn)
    assert len(ratios) == 40
    assert sum(ratios) / len(ratios) >= 0.97


def test_the_rule_is_near_the_fastest_of_products_with_few_tiles():
    """51 products of bf16 along K on an H200, most of them slower than cuBLAS before the fit: tiles
    in steps of 8 columns, and K in parts that a second kernel adds up.
    """
    speeds, lost = [], []
    for record in json.loads(FEW_TILES.read_text())["products"]:
        us = {name.removesuffix(" (rule)"): time for name, time in record["us"].items()}
        chosen = choice_of(tuple(record["shape"])).label
        speeds.append(us["torch"] / us[chosen])
        lost.append(us[chosen] / min(time for name, time in us.items() if name != "torch"))
    assert len(speeds) == 51
    assert sum(speeds) / 51 >= 1.015
    assert sum(x < 0.95 for x in speeds) <= 12
    assert sum(lost) / 51 <= 1.03


def choice_of(shape):
    """Return what the rule chooses for a product of bf16 along K."""
    asked = facts(shape)
    return Way(choice._config(asked, choice._taken(asked, None), None)[0])


@given(problems())
def test_a_tile_is_as_narrow_as_its_waves_allow(asked):
    """Another row of columns less would take a wave more; products with many waves have rows."""
    (M, N, _K), most = asked.shape, asked.multiprocessors

    def waves(m, n):
        return cute.ceil_div(cute.ceil_div(M, m) * cute.ceil_div(N, n) * asked.batch, most)

    for row in ROWS:
        tile = narrowed(row, asked)
        count = waves(row.m, row.n)
        assert waves(row.m, tile.n) == count
        if not asked.by_tma or count > FEW:
            assert tile is row
            continue
        assert (tile.m, tile.warpgroups, tile.schedule) == (row.m, row.warpgroups, row.schedule)
        assert tile.n <= row.n
        assert tile is row or tile.n % asked.unit == 0
        below = tile.n - asked.unit
        assert below < NARROWEST or waves(row.m, below) > count
        assert tile is row or tile.most == of_width(row.m, row.schedule, row.n).most


def test_products_that_a_fit_has_used_are_held_out_no_more():
    known = json.loads(MEASURED.read_text())
    assert known["used"]
    more = updated(known | {"used": False}, {}, known["held out"][:1])
    assert more["fitted"] == known["fitted"]
    assert more["held out"] == known["held out"] + known["held out"][:1], "none is lost"
    new = updated(known | {"used": True}, {"torch": "3"}, known["held out"][:1])
    assert new["fitted"] == known["fitted"] + known["held out"]
    assert (new["held out"], new["used"], new["torch"]) == (known["held out"][:1], False, "3")


def test_k_is_split_in_one_wave_alone():
    """The sums are exchanged where the stages of B are: the loads of a next tile would wait."""
    asked = problem((7936, 192, 7936))
    found = candidates(asked)
    assert {x.config.split for x in found} == {1}
    assert all(x.waves == 1 for x in candidates(problem((512, 512, 8192))) if x.config.split > 1)


def test_rows_that_begin_within_sectors_are_shared_by_clusters():
    config = for_hopper(problem((5000, 5000, 5000), pitches=(16, 16)))
    assert config.cluster == 2
    assert for_hopper(problem((5000, 5000, 5000))).cluster == 1


@pytest.mark.parametrize("result", ["bf16", "f16", "f32"])
def test_tiles_whose_direct_stores_spill_are_no_candidates(result):
    """4097 columns are no whole 16 bytes, so TMA cannot write D."""
    spilling = {(x.m, x.n, x.schedule) for x in ROWS if x.most[2] < 0}
    assert {(256, 192, "cooperative"), (128, 176, "pingpong")} <= spilling
    asked = problem((4095, 4097, 4104), result=result, pitches=(16, 16))
    found = {(*x.config.tile[:2], x.config.schedule) for x in candidates(asked)}
    assert found == {(x.m, x.n, x.schedule) for x in ROWS} - spilling
    config = for_hopper(asked)
    assert config.store == 0
    assert config.reasons[-1] == f"D: direct stores of {result}: TMA writes rows of whole 16 bytes"
    assert spilling & {
        (*x.config.tile[:2], x.config.schedule)
        for x in candidates(problem((4095, 4096, 4104), result=result))
    }


def test_parts_given_as_text_keep_the_others():
    asked = problem((4096, 4096, 4096))
    chosen = for_hopper(asked)
    config = changed_for_hopper(chosen, "schedule=pingpong,tile=128x192x64", asked)
    assert (config.schedule, config.tile, config.warps) == ("pingpong", (128, 192, 64), (4, 1))
    assert config.atom == "SM90_64x192x16_F32BF16BF16_SS"
    assert config.reasons[-1] == "given: schedule=pingpong,tile=128x192x64"
    assert changed_for_hopper(chosen, "stages=3,pdl=1", asked) == replace(chosen, stages=3, pdl=1)
    assert changed_for_hopper(chosen, "tile=192x192x64", asked).warps == (12, 1)
    for stages in (2, 3):  # as given, the fewest too
        assert changed_for_hopper(chosen, f"stages={stages}", asked).stages == stages
    for text in ("tile=128x256x32", "tile=100x128x64", "tile=512x128x64", "warps=3x1", "warps=8x2"):
        with pytest.raises(cute.CuteError) as caught:
            changed_for_hopper(chosen, text, asked)
        assert caught.value.code in ("gemm-config", "atoms-name"), text


def test_a_tile_and_a_schedule_name_a_row():
    """So parts given as text keep how D leaves, and the number of warpgroups."""
    assert len({(x.m, x.n, x.schedule) for x in ROWS}) == len(ROWS)
    asked = problem((4096, 4096, 4096))
    found = candidates(asked)
    assert len(found) == len(ROWS) - 1, "two of 256 rows are as narrow"
    for made in (x.config for x in found):
        text = f"schedule={made.schedule},tile={made.tile[0]}x{made.tile[1]}x64"
        named = changed_for_hopper(for_hopper(asked), text, asked)
        assert named == replace(made, pdl=named.pdl)
        assert changed_for_hopper(named, "pdl=1", asked) == replace(named, pdl=1)


def test_blocks_of_a_cluster_given_as_text_share_tiles_of_a_or_k():
    asked = problem((1160, 1160, 520), pitches=(16, 16))
    pair = changed_for_hopper(for_hopper(asked), "tile=128x128x64,cluster=2,split=1", asked)
    assert (pair.cluster, pair.split) == (2, 1)
    parts = changed_for_hopper(pair, "split=2", asked)
    assert (parts.cluster, parts.split) == (1, 2)
    assert changed_for_hopper(pair, "split=1,stages=3", asked).cluster == 2
    again = changed_for_hopper(parts, "cluster=2", asked)
    assert (again.cluster, again.split) == (2, 1)


@pytest.mark.parametrize("row", ROWS, ids=lambda x: f"{x.schedule} {x.m}x{x.n}")
def test_split_given_as_text_is_taken_or_refused_for_its_reason(row):
    """Each block of a cluster has 64 rows a warpgroup, and the sums are in the stages of B, which
    are too many for the shared memory if the tile has 192 rows and as many columns.
    """
    asked = problem((1024, 1024, 8192))
    fits = row.schedule == "cooperative" and row.m == 64 * row.warpgroups
    for split in (2, *row.splits):
        text = f"schedule={row.schedule},tile={row.m}x{row.n}x64,split={split}"
        if fits and row.m == row.n == 192:
            with pytest.raises(cute.CuteError, match=r"stages=6, split=2, which take .* bytes"):
                changed_for_hopper(for_hopper(asked), text, asked)
        elif fits:
            config = changed_for_hopper(for_hopper(asked), text, asked)
            assert (config.tile[:2], config.split) == ((row.m, row.n), split)
            assert config.reasons[-1] == f"given: {text}"
            assert changed_for_hopper(config, "split=1", asked).split == 1
            assert changed_for_hopper(config, "pdl=1", asked) == replace(config, pdl=1)
            with pytest.raises(
                cute.CuteError, match=r"1 to 8 cooperative blocks that share K \(split\)"
            ):
                changed_for_hopper(config, "split=9", asked)
        else:
            with pytest.raises(cute.CuteError, match=r"share K|schedule has: no .*split"):
                changed_for_hopper(for_hopper(asked), text, asked)
    assert set(row.splits) <= set(range(2, 9))
    assert fits or not row.splits
