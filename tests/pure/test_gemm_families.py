"""Which family computes a product: over a grid of problems, never one that cannot read it. What
follows from the fields of its configurations: text, refusals, explanations.
"""

from dataclasses import fields, replace
from itertools import product

import pytest

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.kernels.config import GemmConfig, MultistageConfig, choose_config
from cute_py.kernels.config_sm90 import CLASSES, WarpgroupConfig, warpgroup_config
from cute_py.kernels.configuration import parts_by_name, parts_of, still_true
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops.family import asked_by, take
from cute_py.ops.gemm_families import (
    FAMILIES,
    HOPPER,
    PACKED,
    ROWS,
    TILED,
    changed,
    is_large,
)
from cute_py.ops.gemm_tiles_sm90 import ProductFacts
from cute_py.ops.libraries import Gpu

KINDS = ["f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2", "f32", "f64"]
MAJORS = list(product(("K", "MN"), repeat=2))
SHAPES = [(64, 64, 64), (PACKED, PACKED, PACKED), (4096, PACKED - 1, 4096), (5000, 600, 513)]
DIVISORS = [(16, 16), (16, 2), (8, 16), (1, 4), (16, 0)]  # 0: no tensor map
GPUS = [Gpu(232448, 132, x) for x in ((8, 0), (8, 9), HOPPER, (12, 0))]


def problem(shape, kinds, majors=("K", "K"), addressed=(16, 16), aligned=(16, 16), gpu=GPUS[2]):
    kinds, result = (cute.dtype(kinds[0]), cute.dtype(kinds[1])), cute.f32
    facts = shape, 1, kinds, majors, (128, 128), result, LinearCombination(), False, gpu, False
    return ProductFacts(*facts, addressed, aligned)


GRID = [
    problem(shape, (kind, kind), *more)
    for shape, kind, *more in product(SHAPES, KINDS, MAJORS, DIVISORS, DIVISORS, GPUS)
    if all(0 < row <= (pitch or 16) for row, pitch in zip(more[2], more[1], strict=True))
]


def kind_of(asked):
    return asked.kinds[0].name


def of_hopper(taken):
    return {x.config for x in taken.families} == {WarpgroupConfig}


def readable(asked, i, copy=""):
    """Tell whether TMA and wgmma read an operand, or its copy, whose rows are aligned."""
    major = copy or asked.majors[i]
    aligned = bool(copy) or asked.addressed[i] == 16
    return aligned and (major == "K" or kind_of(asked) in ("f16", "bf16"))


def test_the_families_of_hopper_read_only_what_they_can():
    assert len(GRID) > 2000
    for asked in GRID:
        taken = take(ROWS, asked)
        if not of_hopper(taken):
            continue
        assert asked.gpu.capability == HOPPER
        assert kind_of(asked) not in ("f32", "f64")
        for i in range(2):
            copy = taken.reads.copies[i]
            assert readable(asked, i, copy), asked
            assert bool(copy) is not readable(asked, i), asked
        assert not any(taken.reads.copies) or min(asked.shape) >= PACKED


def test_what_the_families_of_hopper_could_read_they_compute():
    """No silent fall-back: the kernel of all GPUs has a reason, which names the operand."""
    for asked in GRID:
        taken = take(ROWS, asked)
        assert taken.reason.startswith("path: ")
        if asked.gpu.capability != HOPPER or kind_of(asked) in ("f32", "f64"):
            assert not of_hopper(taken)
            continue
        wrong = [name for i, name in enumerate("AB") if not readable(asked, i)]
        assert of_hopper(taken) is (not wrong or min(asked.shape) >= PACKED), asked
        for name, pitch in zip("AB", asked.addressed, strict=True):
            assert (f" {name} " in taken.reason) is (name in wrong)
            along_k = asked.majors["AB".index(name)] == "K" or kind_of(asked) in ("f16", "bf16")
            said = f"{name} has matrices that overlap" in taken.reason
            assert said is (along_k and not pitch)
        if not of_hopper(taken):
            assert "a copy would cost more than it saves" in taken.reason


def test_copies_keep_their_order_but_where_wgmma_wants_k():
    for asked in GRID:
        taken = take(ROWS, asked)
        if of_hopper(taken):
            for major, copy in zip(asked.majors, taken.reads.copies, strict=True):
                assert copy in ("", major if kind_of(asked) in ("f16", "bf16") else "K")


def test_other_gpus_pack_large_operands_whose_rows_are_not_aligned():
    for asked in GRID:
        taken = take(ROWS, asked)
        if not of_hopper(taken):
            packed = is_large(asked) and min(asked.aligned) < 16 and kind_of(asked) != "f32"
            assert taken.reads.copies == (("K", "K") if packed else ("", ""))
            assert taken.first.name == ("simt" if kind_of(asked) == "f32" else "multistage")


def test_nothing_is_copied_on_the_host():
    for asked in GRID[::7]:
        for kind in (None, *CLASSES):
            taken = take(ROWS, replace(asked, gpu=None), kind)
            assert taken.reads.copies == ("", "")
            assert of_hopper(taken) is (kind is WarpgroupConfig)
            assert "copied" not in taken.reason


def test_a_given_configuration_decides():
    for asked in GRID[::7]:
        assert not of_hopper(take(ROWS, asked, MultistageConfig))
        if kind_of(asked) not in ("f32", "f64"):
            taken = take(ROWS, asked, WarpgroupConfig)
            assert of_hopper(taken)
            assert all(readable(asked, i, taken.reads.copies[i]) for i in range(2))


def test_mixed_types_are_those_that_wgmma_multiplies():
    for kinds, known in ((("s8", "u8"), True), (("e5m2", "e4m3"), True), (("f16", "bf16"), False)):
        assert of_hopper(take(ROWS, problem((64, 64, 64), kinds))) is known


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (None, None),
        ("tile=128x128x64", None),
        ("stages=3,store=0,pdl=1", None),
        ("warps=2x2", MultistageConfig),
        ("tile=64x64x32,warps=2x2,stages=3", MultistageConfig),
        ("band=4", MultistageConfig),
        ("prefetch=1", MultistageConfig),
        ("band=4,split=2", MultistageConfig),
        ("schedule=multistage", MultistageConfig),
        ("schedule=pingpong", WarpgroupConfig),
        ("schedule=pingpong,prefetch=1", WarpgroupConfig),
        ("tile=128x192x64, schedule=cooperative", WarpgroupConfig),
        ("cluster=2", WarpgroupConfig),
        ("split=2", WarpgroupConfig),
        (choose_config(512, 512, 512, "bf16"), MultistageConfig),
        (warpgroup_config(("bf16", "bf16"), (128, 128)), WarpgroupConfig),
    ],
)
def test_parts_that_one_class_has_choose_it(config, wanted):
    assert asked_by(TILED, config) is wanted


@pytest.mark.parametrize(
    "text",
    ["schedule=fast", "schedule=simt", "tile=128", "tile", "schedule", "flat=1", "ldmatrix=0"],
)
def test_text_that_is_no_configuration_is_refused(text):
    with pytest.raises(CuteError) as caught:
        asked_by(ROWS, text)
    assert caught.value.code == "gemm-config-text"


# -- what follows from the fields

CONFIGS = [
    *[choose_config(512, 512, 512, kind) for kind in KINDS],
    replace(choose_config(512, 512, 512, "bf16"), band=4, store=8, pdl=1, prefetch=2, stages=3),
    warpgroup_config(("bf16", "bf16"), (128, 256)),
    warpgroup_config(("bf16", "bf16"), (128, 192), 1, "pingpong", pdl=1),
    warpgroup_config(("e4m3", "e4m3"), (128, 128), split=3, two_level=1, one_pass=False),
    warpgroup_config(("f16", "f16"), (256, 128), cluster=2, majors=("K", "MN")),
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_text_gives_the_parts_that_it_shows(config):
    words = config.words()
    assert all(word in str(config).split() for word in words)
    named = parts_of(",".join(words), CLASSES)
    assert named == {name: getattr(config, name) for name in named}
    usual = {n: x for n, x in parts_by_name(type(config)).items() if n not in named}
    assert all(getattr(config, name) == x.default for name, x in usual.items())
    assert changed(config, ",".join(words)) == config


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_part_of_the_other_class_is_refused_unless_it_is_the_default(config):
    (other,) = set(CLASSES) - {type(config)}
    numbers = {n: x for n, x in parts_by_name(other).items() if x.metadata["counts"] == (1,)}
    absent = [n for n, x in numbers.items() if n not in parts_by_name(type(config))]
    assert len(absent) >= 3
    for name in absent:
        if numbers[name].metadata["choices"]:
            continue
        assert changed(config, f"{name}={numbers[name].default}") == config
        with pytest.raises(CuteError, match=rf" {name}=7[ ;].*schedule") as caught:
            changed(config, f"{name}=7")
        assert caught.value.code == "gemm-config"


@pytest.mark.parametrize("kind", [GemmConfig, *CLASSES])
def test_every_field_has_a_line_in_the_docstring(kind):
    told = GemmConfig.__doc__ + kind.__doc__
    assert [x.name for x in fields(kind) if f"\n        {x.name}: " not in told] == []


def test_reasons_about_a_part_go_when_it_changes():
    config = CONFIGS[0].because("tile: large", "stages: many", "tile, warps, stages: fast", "A: so")
    for parts, left in (
        ({"tile": (64, 64, 32)}, ["stages: many", "A: so"]),
        ({"stages": 2}, ["tile: large", "A: so"]),
        ({"band": 4}, list(config.reasons)),
    ):
        assert still_true(config, replace(config, **parts)) == left


def test_families_are_rows():
    """Each has a configuration of its class alone, which names it."""
    assert list(FAMILIES) == ["gemv", "cooperative", "pingpong", "multistage", "simt"]
    for config in CONFIGS:
        family = FAMILIES[config.family]
        assert family.config is type(config)
        assert isinstance(config, GemmConfig)
    large, f32 = problem((4096, 4096, 4096), ("f16", "f16")), problem((64, 64, 64), ("f32", "f32"))
    assert [x.name for x in take(ROWS, large).families] == ["cooperative", "pingpong"]
    assert [x.name for x in take(ROWS, f32).families] == ["simt"]


def test_the_public_name_makes_the_configuration_of_all_gpus():
    known = CONFIGS[0]
    parts = [getattr(known, x.name) for x in fields(GemmConfig)]
    assert GemmConfig(*parts) == known
    assert type(GemmConfig(*parts)) is MultistageConfig
