"""`cute-py source` and `cute-py compile`: the stages of each kernel, and refusals with code 2."""

import ast
import re

import numpy as np
import pytest

import cute_py as cute
from cute_py.analysis.resources import occupancy
from cute_py.cli.compile_commands import LADDER, report
from cute_py.cli.main import REFUSED, main
from cute_py.codegen import build, toolchain
from cute_py.errors import refusal
from cute_py.kernels.samples import SAMPLES, sample
from cute_py.ops.without_gpu import call_on, gpu_of
from tests.compile_only.programs import tool
from tests.sampling import quick

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

KERNELS = ("gemm", *SAMPLES)
CHOICE = ["config", "path", "chosen for"]  # of the operator
LABELS = [
    "kernel",
    "registers",
    "local",
    "shared",
    "occupancy",
    "instructions",
    "source",
    "time",
]


@pytest.fixture
def run(capsys):
    """Return `run(*arguments)`: exit code, output, error output."""

    def call(*arguments):
        code = main([str(x) for x in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def disassembler():
    """Skip where nvdisasm is missing."""
    tool("nvdisasm")


def facts(output):
    """Return the report of `compile` by label; stages follow an empty line."""
    head = output.split("\n\n")[0]
    return {line[:13].strip(): line[13:] for line in head.splitlines()}


def function_of(output):
    """Return the one function of a printed kernel, which follows a docstring."""
    head, function = ast.parse(output).body
    assert isinstance(head, ast.Expr)
    return function


def test_the_names_of_the_command_are_those_of_the_samples():
    assert list(LADDER) == list(SAMPLES)


# -- source


@pytest.mark.parametrize("kernel", quick([(x,) for x in KERNELS[::3]], KERNELS))
def test_source_prints_a_numba_kernel(run, kernel):
    code, output, error = run("source", kernel)
    assert (code, error) == (0, "")
    plan = None if kernel == "gemm" else sample(kernel, 256, 256, 256)
    name = "gemm" if plan is None else plan.name
    assert function_of(output).name == name
    assert ast.get_docstring(ast.parse(output)).startswith(f"{name}: a Numba kernel")
    if plan is not None:
        assert output == cute.source(plan)


def test_source_follows_the_options(run):
    def names(output):
        return {each.arg for each in function_of(output).args.args}

    small = ("source", "gemm", "--config", "tile=32x32x32,stages=2")
    plain = run(*small)[1]
    assert run(*small[:-1], "tile=32x32x32,stages=3")[1] != plain
    code, output, _ = run(*small, "--beta=1", "--bias", "--alpha=2")
    assert code == 0
    assert {"C", "bias", "alpha", "beta"} <= names(output)
    assert {"C", "bias"}.isdisjoint(names(plain))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_source_of_the_operator_is_that_of_its_call_on_a_gpu(run, arch):
    call = call_on(gpu_of(arch), (4096, 4096, 2048), "f16")
    sizes = ("--m=4096", "--n=4096", "--k=2048", "--dtype=f16")
    code, output, _ = run("source", "gemm", "--arch", arch, *sizes)
    config, path, reason, rest = output.split("\n", 3)
    assert code == 0
    assert config == f"# config: {call.config}"
    assert path.startswith(
        f"# path: {'TMA and wgmma' if arch == 'sm_90a' else 'cp.async and mma.sync'}, "
    )
    assert reason.startswith(f"# chosen for: 4096x4096x2048 on {arch}: ")
    assert rest == cute.source(call.plan())


@pytest.mark.parametrize("command", ["source", "compile", "plan"])
def test_help_says_whose_tile_is_shown(run, command):
    code, output, _ = run(command, "gemm", "--help")
    words = " ".join(output.split())
    assert code == 0
    assert "cute.ops.gemm" in words
    assert f"cute-py {'source' if command == 'plan' else 'plan'} gemm shows it." in words


def test_majors_are_those_of_the_arrays(run):
    for majors, a, b in (("K,K", 1, 1), ("MN,MN", 0, 0), ("k,mn", 1, 0)):
        code, output, _ = run("plan", "gemm", "--m=64", "--n=64", "--k=64", "--majors", majors)
        assert code == 0
        for name, mode in (("A", a), ("B", b)):
            strides = re.search(rf"param {name}: .*:\((.*)\),", output).group(1).split(",")
            assert strides.index("1") == mode


# -- compile


@pytest.mark.parametrize(
    "kernel", quick([("gemm",), ("gemm_02",), ("reduce",), ("splitk",)], KERNELS)
)
def test_compile_reports_on_every_kernel(run, disassembler, kernel):
    code, output, error = run("compile", kernel, "--arch", "sm_90a")
    assert (code, error) == (0, "")
    told = facts(output)
    assert list(told) == [*(CHOICE if kernel == "gemm" else []), *LABELS]
    assert " for sm_90a, " in told["kernel"]
    assert told["local"] == "0 bytes of a thread"
    assert told["registers"].endswith(" of a thread, 0 bytes spilled")
    assert re.match(r"\d+: \d+ [A-Z]", told["instructions"])
    assert told["occupancy"].startswith("sm_90a: ")


def test_report_is_that_of_the_compiled_kernel(disassembler):
    compiled = cute.compile(sample("gemm_07", 256, 256, 256), "sm_80")
    told = dict(report(compiled))
    found = compiled.resources
    assert told["registers"].split()[0] == str(found.registers)
    assert told["shared"] == f"{compiled.plan.smem_bytes} bytes of a block"
    threads = compiled.plan.launch.threads
    assert told["occupancy"] == str(occupancy("sm_80", threads, found.registers, found.smem_bytes))
    assert f"{found.instructions['HMMA']} HMMA" in told["instructions"]
    assert sum(found.instructions.values()) == int(told["instructions"].split(":")[0])
    assert told["source"] == f"{len(compiled.source.splitlines())} lines"


def test_stages_follow_the_report(run, disassembler):
    code, output, _ = run("compile", "copy", "--ptx", "--sass")
    assert code == 0
    assert output.index("kernel ") < output.index(".target sm_80") < output.rindex("EXIT")
    assert ".target" not in run("compile", "copy")[1]


def test_stages_are_written_to_files(run, disassembler, tmp_path):
    code, output, _ = run("compile", "copy", "--out", tmp_path / "new")
    assert code == 0
    files = {path.name: path for path in (tmp_path / "new").iterdir()}
    assert files.keys() == {f"copy_tiles.{end}" for end in ("py", "ptx", "cubin", "sass")}
    assert all(str(path) in output for path in files.values())
    assert files["copy_tiles.cubin"].read_bytes()[:4] == b"\x7fELF"
    assert "EXIT" in files["copy_tiles.sass"].read_text()


def test_without_a_disassembler_the_rest_is_told(run, monkeypatch):
    tool = toolchain.tool

    def without(name):
        if name == "nvdisasm":
            raise refusal("codegen-missing", operation="cute.compile", name=name)
        return tool(name)

    monkeypatch.setattr(toolchain, "tool", without)
    code, output, _ = run("compile", "transpose", "--m", 96)  # not in the cache of sass
    assert code == 0
    assert facts(output)["instructions"].startswith("not known: cute.compile: given no nvdisasm")
    code, output, error = run("compile", "transpose", "--m", 96, "--sass")
    assert (code, output) == (REFUSED, "")
    assert error.startswith("cute.compile: given no nvdisasm on this machine")


def test_an_epilogue_with_erf_compiles(run):
    code, output, _ = run("compile", "gemm", "--activation=gelu", "--config=tile=64x64x32", "--ptx")
    assert code == 0
    assert "ex2.approx.ftz.f32" in output


def test_types_of_samples(run):
    for kernel, kind in (("copy", "f64"), ("gemm_07", "bf16"), ("gemm_05", "tf32")):
        assert run("source", kernel, "--dtype", kind)[0] == 0
    assert sample("gemm_07", 64, 64, 64, "s8").params[2].dtype is cute.s32
    assert sample("gemm_05", 64, 64, 64, "tf32").params[0].dtype is cute.dtype("tf32")


# -- refusals: one line, exit code 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compile", "copy", "--arch", "90"), "cute.compile: given the architecture '90'"),
        (("compile", "copy", "--arch", "sm_70"), "given sm_70; required: sm_75 or newer"),
        (
            ("compile", "copy", "--arch", "sm_999"),
            "given the architecture 'sm_999'; required: one of sm_75, ",
        ),
        (
            ("compile", "gemm_07", "--arch", "sm_75"),
            "a copy by cp.async for sm_75, which has no cp.async",
        ),
        (("source", "gemm_07", "--dtype", "x"), "dtype: given 'x' (str)"),
        (("source", "gemm_07", "--dtype", "u16"), "given A of u16 and B of u16"),
        (("source", "gemm", "--config", "tiles=3"), "config: given 'tiles=3'"),
        (("source", "gemm", "--m", "0"), "source: given an empty product"),
        (("compile", "gemm", "--n", "0"), "compile: given an empty product"),
        (("source", "gemm", "--activation", "cube"), "activation='cube'"),
        (("compile", "copy", "--out", __file__), "--out: given the file "),
    ],
)
def test_refusals_are_one_line(run, arguments, words):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert words in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("source",),
        ("source", "nothing"),
        ("compile", "copy", "--m", "0"),
        ("compile", "gemm", "--majors", "K"),
        ("compile", "gemm", "--spill-bytes", "-1"),
    ],
)
def test_arguments_that_do_not_fit(run, arguments):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert error.startswith(f"usage: cute-py {arguments[0]}")


def test_spills_are_refused_and_allowed(run, monkeypatch):
    made = build.Resources(255, 24, 24, 0)
    monkeypatch.setattr(build.Build, "resources", property(lambda _build: made))
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    code, _, error = run("compile", "copy")
    assert code == REFUSED
    assert (
        "24 bytes per thread that spill to local memory on sm_80; required: at most 0 bytes"
        in error
    )
    assert run("compile", "copy", "--spill-bytes", 23)[0] == REFUSED
    code, output, _ = run("compile", "copy", "--spill-bytes", 24)
    assert code == 0
    assert facts(output)["registers"] == "255 of a thread, 24 bytes spilled"
    assert facts(output)["local"] == "24 bytes of a thread"


def test_without_numba_the_extra_is_named(run, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "numba", None)
    code, output, error = run("source", "copy")
    assert (code, output) == (REFUSED, "")
    assert "pip install cute-py[cuda]" in error


def test_zeros_lie_as_their_type_does():
    from cute_py.kernels.samples import zeros

    assert zeros(cute.f16, 2, 3).dtype == np.float16
    assert zeros(cute.dtype("tf32"), 2).array.dtype == np.float32
