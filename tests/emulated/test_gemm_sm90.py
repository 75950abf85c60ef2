"""The GEMMs for Hopper on the emulator: exact on integers, with all checks, at ragged sizes."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.kernels.config_sm90 import warpgroup_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_sm90 import KERNELS
from cute_py.kernels.split_k import SplitK
from cute_py.ops.gemm_families import changed
from cute_py.plan import ops
from tests.hopper_family import CONFIGS, PING, arguments, call_of, result_of, row, trace
from tests.hopper_kernels import CASES
from tests.sampling import in_turn, pairwise, quick

FULL = LinearCombination(alpha=True, source=True, bias=True, activation="relu")
# those that are emulated at every run: each schedule, major, type and way of D once
OFTEN = (
    *("64x32-pdl", "pp-128x128", "nt", "tf32-direct", "u8"),
    *("e5m2-e4m3", "e4m3-to-e4m3", "direct", "pp-direct"),
)


def last_of(config, last=None):
    """Return an epilogue whose sums are of the type of the products."""
    last = last or LinearCombination()
    return replace(last, compute="s32") if "S32" in config.atom else last


def check(config, shape, result, last=None, batch=(), shared=(), **launch):
    """Emulate with all checks, and compare with exact integers."""
    last = last_of(config, last)
    arrays, exact = arguments(config, shape, result, last, batch, shared)
    C, bias, D = arrays[2:]
    factors = (2.0, 3.0) if last.alpha or last.source else (1.0, 0.0)
    order = launch.pop("order", "forward")
    call = call_of(config, arrays, last, factors=factors, **launch)
    cute.emulate(KERNELS[config.schedule], *call, checks=True, order=order)
    rows = (lambda x: np.moveaxis(x, 2, 0)) if batch else (lambda x: x)
    exact = exact * factors[0] if last.alpha else exact
    if last.source:
        exact = exact + factors[1] * rows(C).astype(float)
    if last.bias:
        exact = exact + bias.astype(float)
    if last.activation:
        exact = np.maximum(exact, 0)
    kind = cute.dtype(result)
    if kind.bits == 8:
        exact = np.clip(exact, -float(kind.max), float(kind.max))
    wanted = exact.astype(D.dtype).astype(float)
    assert (rows(D).astype(float) == wanted).all()


def slow_but(often, names):
    return [pytest.param(x, marks=() if x in often else pytest.mark.slow) for x in names]


@pytest.mark.parametrize("name", slow_but(OFTEN, CONFIGS))
def test_ragged_products_are_exact(name):
    """Tiles that reach past D along M and N, and parts of a tile of K; several tiles a block."""
    config = CONFIGS[name]
    m, n, k = config.tile
    result = result_of(name)
    unit = 1 if not config.store else 128 // cute.dtype(result).bits
    ragged = m + 8, n + 8 * unit if unit > 1 else n + 3, k + 16
    check(config, ragged, result, blocks=2 * config.cluster * config.split)


RARELY = [name for name in CONFIGS if name not in OFTEN]


@pytest.mark.parametrize("name", slow_but([x for x in RARELY if CONFIGS[x].split < 6][::2], RARELY))
def test_a_ragged_tile_is_exact(name):
    """Of the configurations whose four tiles take too long for every run."""
    config, result = CONFIGS[name], result_of(name)
    (m, n, k), unit = config.tile, 128 // cute.dtype(result).bits
    check(config, (m - 8, n - unit, k + 16), result, blocks=config.cluster * config.split)


@pytest.mark.parametrize("name", slow_but(("64x32-pdl", "pp-128x128"), CONFIGS))
@pytest.mark.parametrize("shape", ["one", "shallow", "many"])
def test_few_and_many_tiles_are_exact(name, shape):
    """Fewer tiles than blocks; fewer tiles of K than stages; more than one wave, many stages."""
    config, result = CONFIGS[name], result_of(name)
    (m, n, k), last = config.tile, 16 * 8 // cute.dtype(result).bits
    sizes = {"one": (8, last, 16), "shallow": (m, n, 16), "many": (3 * m, last, 5 * k)}
    if shape == "many" and name not in ("64x32-pdl", "pp-128x128"):
        sizes["many"] = (2 * m, n, 2 * k)
    check(config, sizes[shape], result, blocks=2 * config.split, band=1)


@pytest.mark.parametrize("order", ["reversed", 1])
@pytest.mark.parametrize("name", slow_but(("64x32-pdl",), ("64x32-pdl", "pp-128x128", "128x256")))
def test_the_order_of_warps_does_not_matter(name, order):
    config = CONFIGS[name]
    m, n, k = config.tile
    check(config, (m + 8, n + 8, 2 * k), "bf16", blocks=2, order=order)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(300, 328, 200), (300, 640, 136), (8, 160, 16)])
def test_clusters_share_tiles_of_a(shape):
    check(CONFIGS["256x160-cluster"], shape, "bf16", blocks=4)


ORDERS = ("forward", "reversed")
ODD = ([(136, 40, 72), (264, 24, 16), (130, 8, 16), (136, 32, 16)], [(), (2,)], ORDERS)


@pytest.mark.parametrize(("shape", "batch", "order"), quick(pairwise(*ODD), *ODD), ids=str)
def test_an_odd_last_column_is_in_pairs_along_m(shape, batch, order):
    """Columns of tiles: 3, 2, 1 and 2; rows of tiles: 2 and 3, so one block has none."""
    check(row("bf16", 128, 16, cluster=2), shape, "bf16", None, batch, blocks=4, order=order)


@pytest.mark.parametrize(
    ("config", "shape", "result", "batch"),
    [
        (row("bf16", 64, 16, 1), (72, 24, 16), "bf16", ()),
        (row("bf16", 128, 16, 1, PING), (72, 24, 16), "bf16", (2,)),
        (row("bf16", 64, 16, 1, store=0), (40, 19, 16), "bf16", (2,)),
        (row("f16", 64, 32, 1, result="f32"), (72, 40, 16), "f32", ()),
        (row("f16", 64, 24, 1), (72, 32, 16), "f16", ()),
        (row("s8", 64, 16, 1), (72, 20, 32), "s32", ()),
    ],
)
def test_epilogues_are_exact(config, shape, result, batch):
    check(config, shape, result, FULL, batch)


@pytest.mark.parametrize(
    ("config", "shape", "batch", "order"),
    [
        (row("bf16", 64, 16, 1, prefetch=1, pdl=1), (72, 24, 16), (2,), "forward"),  # one tile of K
        (row("bf16", 64, 72, 1, prefetch=1), (72, 80, 200), (), "reversed"),  # parts of two widths
        (row("bf16", 128, 16, prefetch=1, cluster=2), (136, 24, 16), (), "forward"),
    ],
)
def test_c_by_tma_is_exact(config, shape, batch, order):
    check(config, shape, "bf16", replace(FULL, bias=False), batch, blocks=2, order=order)


def test_c_by_tma_needs_room_for_a_tile():
    for parts in ({"store": 64}, {"schedule": PING, "groups": 1}):
        with pytest.raises(CuteError) as caught:
            row("bf16", 128, 128, prefetch=1, **parts)
        assert caught.value.code == "gemm-config"


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        (row("bf16", 64, 16, 1), {1, 0}),
        (row("bf16", 128, 16, 1, PING), {1, 0}),
        (row("e4m3", 64, 16, 1, two_level=1), {0}),
    ],
)
def test_a_product_is_in_flight_while_the_next_is_issued(config, groups):
    """Where sums have two levels, each is waited for: it is added to those of f32."""
    plan = trace(
        config, *call_of(config, arguments(config, (64, 16, 64), "bf16")[0], LinearCombination())
    )
    assert {op.n for op in plan.ops if isinstance(op, ops.WgWait)} == groups


@pytest.mark.parametrize("side", ["K", "M"])
def test_prefetches_are_of_all_blocks(side):
    """More lines than threads; tiles past the last; along K and along M or N."""
    config = row("bf16", 64, 64, 1, majors=2 * side, pdl=1)
    check(config, (136, 72, 72), "bf16", None, (2,), blocks=7)


@pytest.mark.parametrize("majors", ["MM", "MK", "KM"])
def test_boxes_wholly_outside_are_no_padding(majors):
    """A tile along M or N is several boxes, some of which are outside at the end: 2.5 times slower
    than others. So each has a guard; one along K is one box, with rows inside.
    """
    config = row("bf16", 128, 128, majors=majors)
    arrays, _exact = arguments(config, (136, 72, 64), "bf16")
    plan = trace(config, *call_of(config, arrays, last_of(config)))
    for name, major in zip("AB", majors, strict=True):
        loads = [x for x in plan.ops if isinstance(x, ops.TmaLoad) and x.tensor == name]
        assert len(loads) == (2 if major == "M" else 1)
        assert all((x.guard is not None) is (major == "M") for x in loads)


SPLITS = [
    (row("bf16", 64, 16, 1, split=2, pdl=1), (72, 24, 200), "bf16", (), FULL),
    (row("bf16", 64, 72, 1, split=3, one_pass=False), (64, 72, 72), "bf16", (), FULL),
    (row("bf16", 64, 64, 1, split=4, majors="MM"), (24, 16, 16), "bf16", (), None),
    (row("f16", 128, 16, split=2, result="f32"), (136, 16, 136), "f32", (), FULL),
    (row("bf16", 64, 16, 1, split=2, store=0), (40, 19, 136), "bf16", (2,), FULL),
    (row("s8", 64, 16, 1, split=2), (8, 24, 272), "s32", (), None),
    (row("e4m3", 64, 16, 1, split=2, two_level=1), (8, 16, 400), "bf16", (), None),
]
WIDEST = (row("bf16", 64, 64, 1, split=8, majors="MM"), (24, 16, 16), "bf16", (), None)


@pytest.mark.parametrize(
    ("split", "order"), quick(in_turn(SPLITS, ORDERS), [*SPLITS, WIDEST], ORDERS)
)
def test_blocks_of_a_cluster_share_k(split, order):
    """More waves than one, columns of two blocks, parts without a tile of K."""
    config, shape, result, batch, last = split
    check(config, shape, result, last, batch, blocks=config.split, order=order)


BROKEN = {
    "sums are read before they are there": (40, "full", "wait", {"emulate-race"}),
    "blocks end before their sums are read": (48, "empty", "wait", {"emulate-block-end"}),
    "a block does not arrive": (56, "full", "arrive", {"emulate-deadlock", "emulate-progress"}),
}


@pytest.mark.parametrize("wrong", BROKEN)
def test_a_broken_exchange_of_sums_is_refused(wrong, monkeypatch):
    n, name, what, codes = BROKEN[wrong]  # n: no other test has this plan
    begin = SplitK.__init__

    def broken(self, config, shared):
        begin(self, config, shared)
        setattr(self, name, Broken(getattr(self, name), what))

    monkeypatch.setattr(SplitK, "__init__", broken)
    config = row("bf16", 64, n, 1, split=2)
    with pytest.raises(CuteError) as caught:
        check(config, (64, n, 256), "bf16", blocks=2)
    assert caught.value.code in codes, caught.value


class Broken:
    """Mbarriers without one of their methods."""

    def __init__(self, bars, what):
        self.bars, self.what = bars, what

    def wait(self, *given):
        if self.what != "wait":
            self.bars.wait(*given)

    def arrive(self, *given):
        if self.what != "arrive":
            self.bars.arrive(*given)


@pytest.mark.parametrize(
    "parts", [{"split": 9}, {"split": 2, "cluster": 2}, {"split": 2, "stages": 3}, {"split": 0}]
)
def test_k_is_split_by_clusters_whose_stages_have_room_for_sums(parts):
    with pytest.raises(CuteError) as caught:
        row("bf16", 128, 128, **parts)
    assert caught.value.code == "gemm-config"


@pytest.mark.parametrize("rows", [1, 16, 40, 64, 104])
def test_rows_of_a_that_are_outside_are_not_loaded(rows):
    config = row("bf16", 64, 16, 1)
    check(config, (rows, 24, 72), "bf16")
    plan = trace(
        config, *call_of(config, arguments(config, (rows, 24, 72), "bf16")[0], LinearCombination())
    )
    loads = [op for op in plan.ops if isinstance(op, ops.TmaLoad) and op.tensor == "A"]
    assert [op.box.extents[1] for op in loads if op.guard is not None] == [16] * 4


@pytest.mark.parametrize("shared", ["A", "B"])
def test_a_batch_may_share_an_operand(shared):
    check(row("bf16", 64, 16, 1), (72, 24, 16), "bf16", None, (3,), shared)


def test_activations_are_those_of_the_other_kernel():
    """With erf: the numbers of gelu, column by column."""
    config, last = (
        row("f16", 64, 16, 1, result="f32"),
        LinearCombination(activation="gelu", bias=True),
    )
    arrays, exact = arguments(config, (64, 16, 16), "f32", last)
    cute.emulate(KERNELS["cooperative"], *call_of(config, arrays, last))
    x = exact + arrays[3]
    erf = np.vectorize(__import__("math").erf)
    assert np.abs(arrays[4] - x * 0.5 * (1 + erf(x / np.sqrt(2)))).max() < 1e-4


def test_weights_of_8_bits_are_operands_in_registers():
    """They are converted next to the tensor cores, and D is transposed."""
    for kernel, inputs, D, exact, options in CASES["weights"]():
        cute.emulate(kernel, *inputs, D, **options)
        assert (exact == D).all()


# -- configurations


@pytest.mark.parametrize(
    "parts",
    [
        {"tile": (128, 256, 32)},
        {"tile": (96, 256, 64)},
        {"tile": (128, 128, 64)},
        {"tile": (320, 256, 64)},
        {"warps": (2, 2)},
        {"warps": (16, 1)},
        {"schedule": "other"},
        {"schedule": "pingpong"},
        {"schedule": "multistage"},
        {"stages": 1},
        {"store": 12},
        {"store": 264},
        {"two_level": 1},
        {"pdl": 2},
        {"cluster": 3},
        {"atom": "SM80_16x8x16_F32BF16BF16F32_TN"},
    ],
)
def test_parts_that_do_not_fit_are_refused(parts):
    with pytest.raises(CuteError) as caught:
        replace(CONFIGS["128x256"], **parts)
    assert caught.value.code == "gemm-config"


def test_sums_that_no_register_holds_are_refused():
    for tile, groups, more in (((256, 256), 2, {}), ((192, 256), 3, {}), ((128, 256), 2, "two")):
        kinds = ("e4m3", "e4m3") if more else ("bf16", "bf16")
        with pytest.raises(CuteError, match="registers of a thread"):
            warpgroup_config(kinds, tile, groups, **({"two_level": 1} if more else {}))


def test_operands_of_bytes_are_along_k():
    with pytest.raises(CuteError, match="operands along K"):
        row("s8", 128, 128, majors="KM")


def test_types_without_a_warpgroup_instruction_are_refused():
    with pytest.raises(CuteError) as caught:
        row("f64", 128, 128)
    assert caught.value.code == "config-types"


def test_stages_fill_the_shared_memory():
    found = {name: CONFIGS[name].stages for name in ("128x256", "128x256-chunks", "64x32-pdl")}
    assert found == {"128x256": 3, "128x256-chunks": 4, "64x32-pdl": 16}


def test_every_configuration_explains_itself_and_is_changed_by_text():
    for config in CONFIGS.values():
        lines = config.explain().splitlines()
        assert lines[0] == str(config)
        assert "TMA" in lines[0]
        assert lines[-1].startswith("  B: Sw<3,4,3>" if "S8" in config.atom else "  B: Sw<3,")
    assert changed(CONFIGS["128x256"], "schedule=cooperative,stages=2").stages == 2


def test_one_plan_serves_all_sizes_blocks_and_bands():
    config, plans = CONFIGS["64x32-pdl"], set()
    for shape, blocks, band in (((64, 32, 64), 1, 1), ((1000, 8, 72), 5, 3), ((8, 800, 8), 7, 9)):
        arrays, _exact = arguments(config, shape, "bf16")
        plans.add(trace(config, *call_of(config, arrays, LinearCombination(), blocks, band)))
    assert len(plans) == 1
