"""The commands `source` and `compile` show the kernel that `cute.ops.gemm` runs on a GPU."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms.arch import CHIPS, DEVICES
from cute_py.calls import arrays
from cute_py.cli.main import REFUSED, _parser, main
from cute_py.codegen.instructions import TARGETS
from cute_py.ops.libraries import Gpu
from cute_py.ops.product import GEMM
from cute_py.ops.without_gpu import Outline, Outlines, call_on, gpu_of
from tests.gpu_arrays import install, on_gpu, small_tiles

# as a driver tells them
GPUS = {
    "sm_80": Gpu(166912, 108, (8, 0)),  # A100
    "sm_86": Gpu(101376, 84, (8, 6)),  # A40
    "sm_90a": Gpu(232448, 132, (9, 0)),  # H200
}
SHAPE = (256, 256, 256)
CASES = [
    ("sm_90a", "bf16", SHAPE, "K,MN"),
    ("sm_80", "bf16", SHAPE, "K,MN"),
    ("sm_90a", "bf16", (4096, 4096, 4096), "K,MN"),
    ("sm_80", "bf16", (4096, 4096, 4096), "K,MN"),
    ("sm_86", "bf16", (4096, 4096, 4096), "K,K"),  # four stages do not fit
    ("sm_90a", "f16", (2048, 2048, 512), "MN,K"),
    ("sm_80", "f16", (1000, 24, 72), "MN,MN"),
    ("sm_90a", "tf32", (512, 520, 520), "K,K"),
    ("sm_80", "tf32", (96, 260, 36), "MN,MN"),
    ("sm_90a", "f32", (2048, 2048, 256), "K,MN"),
    ("sm_80", "f32", (130, 70, 50), "MN,K"),
    ("sm_90a", "f64", (512, 512, 512), "K,MN"),  # its own instruction
    ("sm_80", "f64", (512, 512, 512), "K,MN"),
    ("sm_90a", "s8", (256, 512, 128), "K,K"),
    ("sm_80", "u8", (256, 512, 128), "MN,K"),
    ("sm_90a", "e4m3", (256, 512, 128), "K,MN"),
    ("sm_90a", "bf16", (600, 600, 601), "K,K"),  # copied, so that rows are aligned
    ("sm_90a", "f16", (601, 600, 1024), "MN,MN"),
    ("sm_80", "bf16", (33, 17, 5), "K,MN"),  # rows of odd length: no cp.async
    ("sm_80", "f16", (1, 1, 1), "MN,MN"),
    ("sm_90a", "f32", (1, 64, 1), "K,K"),
]


def shown(*words):
    """Return the plan that a command shows, and what it says of the choice."""
    given = _parser().parse_args([str(word) for word in words])
    return given.plan(given)


def options(arch, kind, shape, majors):
    sizes = [f"--{name}={n}" for name, n in zip("mnk", shape, strict=True)]
    return ["gemm", "--arch", arch, "--dtype", kind, "--majors", majors, *sizes]


def operands(kind, shape, majors, host=False):
    """Return A (M, K) and B (K, N)."""
    (m, n, k), (a, b) = shape, majors.split(",")
    B = on_gpu(k, n, kind, {"K": "MN", "MN": "K"}[b], host)  # the helper calls columns K
    return on_gpu(m, k, kind, a, host), B


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_the_commands_show_what_the_operator_launches(monkeypatch, case):
    arch, *product = case
    launched = install(monkeypatch, GPUS[arch])
    result = cute.ops.gemm(*operands(*product))
    assert result.shape == product[1][:2]
    for command in ("source", "compile"):
        plan, told = shown(command, *options(*case))
        assert str(plan) == str(launched[0])
        assert plan is launched[0]
    assert len(launched) == 1
    assert list(told) == ["config", "path", "chosen for"]
    assert ("TMA" in told["path"]) is (" TMA " in told["config"])
    tile = told["config"].split("tile=")[1].split()[0].split("x")
    assert f"ceil_div(D_shape1,{tile[1]})" in str(plan)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_terms_and_changes_are_those_of_the_operator(monkeypatch, arch):
    launched = install(monkeypatch, GPUS[arch])
    small_tiles(monkeypatch)
    case = ("bf16", (264, 72, 128), "K,MN")
    a, b = operands(*case)
    c, bias = on_gpu(264, 72, "f32", "K"), on_gpu(1, 72, "f32", "K")[0]
    change = "tile=64x64x32,warps=2x2,stages=3,store=0"
    named = {"alpha": 2, "beta": 0.5, "activation": "relu", "out_dtype": "f16"}
    cute.ops.gemm(a, b, c, bias=bias, config=change, **named)
    cute.ops.gemm(a, b, c, bias=bias, **named)
    words = [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
    line = ["source", *options(arch, *case), *words, "--bias"]
    plan, told = shown(*line, "--config", change)
    assert plan is launched[0]
    assert "tile=64x64x32 warps=2x2 stages=3 " in told["config"]
    plan, told = shown(*line)
    assert plan is launched[1]
    chosen = {
        "sm_80": "tile=64x128x64 warps=2x2 stages=4 A=Kx8 B=MNx8 cp.async store=8 min_blocks=2",
        "sm_90a": "A=Kx8 B=MNx8 TMA store=64 pdl=1 schedule=cooperative",
    }
    assert chosen[arch] in told["config"]


def test_results_have_the_default_type_of_the_operator():
    for kind, result in (("s8", "s32"), ("tf32", "f32"), ("f64", "f64"), ("f16", "f16")):
        plan, _ = shown("source", *options("sm_90a", kind, SHAPE, "K,K"))
        assert {p.name: p for p in plan.params}["D"].dtype is cute.dtype(result)


def test_the_tile_follows_the_gpu():
    line = ["source", *options("sm_90a", "bf16", (1536, 1536, 4096), "K,K")]
    whole, part = shown(*line)[1], shown(*line, "--multiprocessors", 28)[1]
    tiles = [told["config"].split("tile=")[1].split("x64 ")[0] for told in (whole, part)]
    assert tiles[0] != tiles[1]
    assert whole["chosen for"] == (
        "1536x1536x4096 on sm_90a: 132 multiprocessors (H100 SXM, H200), "
        "232448 bytes shared of a block"
    )
    assert "sm_90a: 28 multiprocessors, 232448" in part["chosen for"]


def test_the_plan_of_the_command_gemm_stays_that_of_the_emulator(capsys):
    case = ("bf16", SHAPE, "K,MN")
    assert main(["plan", "gemm", "--m=256", "--n=256", "--k=256"]) == 0
    printed = capsys.readouterr().out
    a, b = operands(*case, host=True)
    chosen = cute.ops.choose_config(256, 256, 256, "bf16", ("K", "MN"))
    assert printed.startswith(f"# {chosen}\n")
    assert a.shape == b.shape == (256, 256)


# -- what is known of GPUs


@pytest.mark.parametrize("arch", GPUS)
def test_the_facts_of_an_architecture_are_those_of_its_driver(arch):
    assert gpu_of(arch) == GPUS[arch]


def test_every_target_has_a_usual_gpu_or_is_refused():
    for arch in TARGETS:
        row = "sm_" + arch[3:].rstrip("af")
        if row in CHIPS:
            assert gpu_of(arch) == gpu_of(arch, CHIPS[row].multiprocessors)
        else:
            assert gpu_of(arch, 10).multiprocessors == 10
            with pytest.raises(cute.CuteError) as caught:
                gpu_of(arch)
            assert caught.value.code == "ops-chip"
    assert set(CHIPS) < set(DEVICES)
    assert all(chip.multiprocessors > 0 and chip.name for chip in CHIPS.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("compile", "gemm", "--arch", "sm_103a"),
            "compile: given sm_103a, for which no typical GPU is known; required: the number of "
            "multiprocessors of the GPU, which decides the tile; fix: pass --multiprocessors N",
        ),
        (("source", "gemm", "--arch", "sm_12"), "given sm_12; required: sm_75 or newer"),
        (("source", "gemm", "--k", "0"), "source: given an empty product"),
        (("compile", "gemm", "--dtype", "s4"), "given operands of s4 and s4"),
        (("source", "gemm", "--out-dtype", "s64"), "given out_dtype of s64"),
    ],
)
def test_refusals_are_one_line(capsys, words, said):
    assert main([*words]) == REFUSED
    output, error = capsys.readouterr()
    assert output == ""
    assert said in error
    assert error.count("\n") == 1


# -- outlines


def test_outlines_are_read_as_arrays_are():
    def one(y):
        return Outlines(GEMM, GPUS["sm_80"]).spread(y, (1, *y.shape))[0]

    for shape in ((3, 8), (1, 5), (7, 1)):
        for kind in ("f16", "f64"):
            for major in ("K", "MN"):
                x = Outline.matrix(*shape, cute.dtype(kind), major)
                like = on_gpu(*shape, kind, major, host=True)
                views = [(x, like), (x.swapaxes(-1, -2), like.swapaxes(-1, -2))]
                views += [(one(y), z) for y, z in views]
                for y, z in views:
                    assert (y.shape, y.strides, y.itemsize) == (z.shape, z.strides, z.itemsize)
                    assert arrays.dtype_of(y) is cute.from_numpy(z.dtype)
    assert arrays.is_array(x)
    assert arrays.on_device(x)
    assert arrays.address_of(x) == 0


def test_sizes_beyond_any_memory_have_a_plan_too():
    huge = (10**6, 10**6, 10**6)
    call = call_on(gpu_of("sm_90a"), huge, "f16")
    assert 190000 < call.plan().smem_bytes <= 232448
    assert call.outputs[0].shape == huge[:2]
    assert np.prod(call.result.shape) == 10**12


@pytest.mark.parametrize(
    ("kind", "vector"), [("bf16", 8), ("f16", 8), ("tf32", 4), ("s8", 16), ("f64", 2), ("f32", 1)]
)
def test_large_operands_without_aligned_rows_are_packed_but_for_f32(kind, vector):
    for arch in ("sm_80", "sm_90a"):
        config = call_on(gpu_of(arch), (601, 603, 607), kind, ("K", "K")).config
        assert (config.a.vector, config.b.vector) == (vector, vector)
        assert config.way in ("TMA", "cp.async")


@pytest.mark.parametrize("kind", ["bf16", "tf32", "s8", "e4m3"])
def test_the_family_of_hopper_is_shown(kind):
    for majors in ("K,K", "K,MN", "MN,K"):
        plan, told = shown("source", *options("sm_90a", kind, (1024, 512, 768), majors))
        assert " TMA " in told["config"]
        assert plan.name == f"gemm_{told['config'].split('schedule=')[1].split()[0]}"
        assert " TMA " not in shown("source", *options("sm_80", kind, SHAPE, majors))[1]["config"]


def test_sums_of_8_bit_floats_are_of_two_levels_unless_they_are_to_be_fast():
    line = ["source", *options("sm_90a", "e4m3", (1024, 512, 768), "K,K")]
    assert "two_level=1" in shown(*line)[1]["config"]
    assert "two_level" not in shown(*line, "--fast-accum")[1]["config"]
