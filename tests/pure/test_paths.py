"""Which kernel computes a product: over a grid of problems, never one that cannot read it."""

from itertools import product

import pytest

from cute_py.errors import CuteError
from cute_py.kernels.config import choose_config
from cute_py.kernels.config_sm90 import warpgroup_config
from cute_py.ops.paths import HOPPER, HOST, PACKED, Sides, path_of, tma_wanted

KINDS = ["f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2", "f32", "f64"]
MAJORS = list(product(("K", "MN"), repeat=2))
SHAPES = [(64, 64, 64), (PACKED, PACKED, PACKED), (4096, PACKED - 1, 4096), (5000, 600, 513)]
DIVISORS = [(16, 16), (16, 2), (8, 16), (1, 4), (16, 0)]  # 0: no tensor map
CAPABILITIES = [(8, 0), (8, 9), HOPPER, (12, 0)]
GRID = [
    Sides(shape, (kind, kind), majors, pitches, rows, capability)
    for shape, kind, majors, pitches, rows, capability in product(
        SHAPES, KINDS, MAJORS, DIVISORS, DIVISORS, CAPABILITIES
    )
    if all(0 < row <= (pitch or 16) for row, pitch in zip(rows, pitches, strict=True))
]


def readable(sides, i, copy=""):
    """Tell whether TMA and wgmma read an operand, or its copy, whose rows are aligned."""
    major = copy or sides.majors[i]
    aligned = bool(copy) or sides.pitches[i] == 16
    return aligned and (major == "K" or sides.kinds[i] in ("f16", "bf16"))


def test_the_family_reads_only_what_it_can():
    assert len(GRID) > 2000
    for sides in GRID:
        path = path_of(sides)
        if not path.tma:
            continue
        assert sides.capability == HOPPER
        assert sides.kinds[0] not in ("f32", "f64")
        for i in range(2):
            assert readable(sides, i, path.copies[i]), sides
            assert bool(path.copies[i]) is not readable(sides, i), sides
        assert not any(path.copies) or min(sides.shape) >= PACKED


def test_what_the_family_could_read_it_computes():
    """No silent fall-back: the kernel of all GPUs has a reason, which names the operand."""
    for sides in GRID:
        path = path_of(sides)
        assert path.reason.startswith("path: ")
        if sides.capability != HOPPER or sides.kinds[0] in ("f32", "f64"):
            assert not path.tma
            continue
        wrong = [name for i, name in enumerate("AB") if not readable(sides, i)]
        assert path.tma is (not wrong or min(sides.shape) >= PACKED), sides
        for name, pitch in zip("AB", sides.pitches, strict=True):
            assert (f" {name} " in path.reason) is (name in wrong)
            along_k = sides.majors["AB".index(name)] == "K" or sides.kinds[0] in ("f16", "bf16")
            assert (f"{name} has matrices that overlap" in path.reason) is (along_k and not pitch)
        if not path.tma:
            assert "a copy would cost more than it saves" in path.reason


def test_copies_keep_their_order_but_where_wgmma_wants_k():
    for sides in GRID:
        path = path_of(sides)
        if path.tma:
            for kind, major, copy in zip(sides.kinds, sides.majors, path.copies, strict=True):
                assert copy in ("", "K" if kind not in ("f16", "bf16") else major)


def test_other_gpus_pack_large_operands_whose_rows_are_not_aligned():
    for sides in GRID:
        path = path_of(sides)
        if not path.tma:
            packed = sides.is_large and min(sides.rows) < 16 and sides.kinds[0] != "f32"
            assert path.copies == (("K", "K") if packed else ("", ""))


def test_nothing_is_copied_on_the_host():
    for sides in GRID[::7]:
        for tma in (None, False, True):
            path = path_of(sides._replace(capability=HOST), tma)
            assert path.copies == ("", "")
            assert path.tma is bool(tma)
            assert "copied" not in path.reason


def test_a_given_configuration_decides():
    for sides in GRID[::7]:
        assert not path_of(sides, False).tma
        if sides.kinds[0] not in ("f32", "f64"):
            path = path_of(sides, True)
            assert path.tma
            assert all(readable(sides, i, path.copies[i]) for i in range(2))


def test_mixed_types_are_those_that_wgmma_multiplies():
    for kinds, known in ((("s8", "u8"), True), (("e5m2", "e4m3"), True), (("f16", "bf16"), False)):
        sides = Sides((64, 64, 64), kinds, ("K", "K"), (16, 16), (16, 16), HOPPER)
        assert path_of(sides).tma is known


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (None, None),
        ("tile=128x128x64", None),
        ("stages=3,store=0,pdl=1", None),
        ("warps=2x2", False),
        ("tile=64x64x32,warps=2x2,stages=3", False),
        ("band=4", False),
        ("schedule=multistage", False),
        ("schedule=pingpong", True),
        ("tile=128x192x64, schedule=cooperative", True),
        ("cluster=2", True),
        ("split=2", True),
        (choose_config(512, 512, 512, "bf16"), False),
        (warpgroup_config(("bf16", "bf16"), (128, 128)), True),
    ],
)
def test_parts_that_one_kernel_has_choose_it(config, wanted):
    assert tma_wanted(config) is wanted


@pytest.mark.parametrize("text", ["schedule=fast", "tile=128", "tile", "schedule"])
def test_text_that_is_no_configuration_is_refused(text):
    with pytest.raises(CuteError) as caught:
        tma_wanted(text)
    assert caught.value.code == "gemm-config-text"
