"""The `cute-py` command: results on the output, refusals on the error output with exit code 2."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest
from hypothesis import given

import cute_py as cute
from cute_py import E, Layout, sym
from cute_py.atoms.registry import names
from cute_py.cli import expression_commands
from cute_py.cli import main as command
from cute_py.cli.layout_command import text_grid
from cute_py.cli.main import BROKEN_PIPE, COMMANDS, INTERRUPTED, REFUSED, main
from tests import model
from tests.strategies import composed_layouts, negative_layouts


@pytest.fixture
def run(capsys):
    """Return `run(*arguments)`: exit code, output, error output."""

    def call(*arguments):
        code = main(arguments)
        return code, *capsys.readouterr()

    return call


def in_a_process(*arguments, **options):
    command = [sys.executable, "-c", "from cute_py.cli.main import main; raise SystemExit(main())"]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, **options)


# -- eval


def test_eval_prints_the_value(run):
    assert run("eval", "composition((6,2):(8,2), (4,3):(3,1))") == (0, "((2,2),3):((24,2),8)\n", "")
    assert run("eval", "compatible(4, (2,2))") == (0, "true\n", "")
    assert run("eval", "slice_and_offset((_,3), (4,8):(8,1))") == (0, "((4):(8),3)\n", "")


def test_eval_why_tells_the_derivation(run):
    code, output, _ = run("eval", "--why", "composition((6,2):(8,2), (4,3):(3,1))")
    assert code == 0
    assert output.startswith("composition((6,2):(8,2), (4,3):(3,1)) = ((2,2),3):((24,2),8)\n  ")
    assert run("eval", "--why", "size(4:1)") == (0, "4\n", "")


def test_eval_why_tells_the_derivation_of_a_refusal(run):
    code, output, error = run("eval", "--why", "composition((6,2):(1,7), (3,2):(2,3))")
    assert (code, output) == (REFUSED, "")
    assert "carries: digit 0 is used up to 4+3 of 5" in error
    assert "refused: composition: given a=(6,2):(1,7)" in error


def test_refusals_go_to_the_error_output_without_a_traceback(run):
    code, output, error = run("eval", "composition((6,2):(1,7), (3,2):(2,3))")
    assert (code, output) == (REFUSED, "")
    assert error.startswith("composition: given a=(6,2):(1,7) and b=(3,2):(2,3)")
    code, output, error = run("eval", "complemnt(4:2, 64)")
    assert (code, output) == (REFUSED, "")
    assert error.endswith(
        "did you mean complement or compatible or compose?\n    complemnt(4:2, 64)\n    ^\n"
    )


def test_eval_with_declared_symbols(run):
    assert run("eval", "coalesce((M,8):(8,1))", "--symbol", "M%8") == (0, "(M,8):(8,1)\n", "")
    assert run("eval", "M % 8", "--symbol=M%8") == (0, "0\n", "")
    assert run("eval", "M % 8", "--symbol=M") == (0, "M%8\n", "")
    code, _, error = run("eval", "M", "--symbol=8")
    assert code == REFUSED
    assert error.startswith("sym: given the name '8'; required: a Python identifier")


def test_text_is_read_from_the_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("size(\n  (4,8)\n)\n"))
    assert run("eval", "-") == (0, "32\n", "")
    monkeypatch.setattr(sys, "stdin", io.StringIO("ptr[32b](0x10) o _4:_2:\n  1.0\n"))
    code, output, _ = run("layout", "-")
    assert code == 0
    assert output.startswith("layout     4:2\n")


def test_functions_are_listed(run):
    code, output, _ = run("functions")
    assert code == 0
    assert {"composition", "complement", "Layout"} <= set(output.split())


# -- layout


def facts(output):
    """Return the lines above the table as a dict."""
    head = output.split("\n\n")[0]
    return dict(line.split(maxsplit=1) for line in head.splitlines())


@given(negative_layouts(max_leaves=3, max_size=64))
def test_layout_prints_what_the_layout_is(layout):
    output = io.StringIO()
    stdout, sys.stdout = sys.stdout, output
    try:
        assert main(["layout", str(layout)]) == 0
    finally:
        sys.stdout = stdout
    table = model.table(layout)
    injective = len(set(table)) == len(table)
    bijective = sorted(table) == list(range(len(table)))
    assert facts(output.getvalue()) == {
        "layout": str(layout),
        "size": str(len(table)),
        "cosize": str(cute.cosize(layout)),
        "rank": str(cute.rank(layout)),
        "depth": str(cute.depth(layout)),
        "coalesced": str(cute.coalesce(layout)),
        "injective": "yes" if injective else "no",
        "bijective": "yes" if bijective else "no",
    }


def test_layout_of_a_swizzled_tile(run):
    code, output, _ = run("layout", "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")
    assert code == 0
    assert facts(output)["layout"] == "Sw<3,3,3> o 0 o (8,64):(64,1)"
    assert facts(output)["bijective"] == "yes"
    assert output.endswith("(columns 0 to 15 of 64)\n")


def test_layout_of_a_large_matrix_shows_the_corner(run):
    code, output, _ = run(
        "layout", "(1048576,1048576):(1,1048576)", "--rows", "2", "--columns", "3"
    )
    assert code == 0
    assert facts(output)["coalesced"] == "1099511627776:1"
    assert output.split("\n\n")[1].splitlines() == [
        "    0       1       2",
        "  +------------------",
        " 0| 0 1048576 2097152",
        " 1| 1 1048577 2097153",
        "(rows 0 to 1 of 1048576, columns 0 to 2 of 1048576)",
    ]


def test_layout_with_symbols_tells_what_follows_from_them(run):
    code, output, _ = run("layout", "(M,8):(8,1)", "--symbol", "M")
    assert code == 0
    assert facts(output)["size"] == "8*M"
    assert facts(output)["bijective"].startswith("yes: ")
    assert output.endswith("(no table: the shape (M,8) is symbolic)\n")
    code, output, _ = run("layout", "(?,8):(?,1)")
    assert code == 0
    assert facts(output)["bijective"].startswith("no: s0=")


def test_layout_says_what_it_cannot_answer(run):
    code, output, _ = run("layout", "Sw<1,0,1> o 1 o (65536,65536):(-1,65536)", "--rows=1")
    assert code == 0
    assert facts(output)["cosize"].startswith("not known: cosize: given ")
    assert "(row 0 of 65536, columns 0 to 15 of 65536)" in output


def test_layout_of_maps(run):
    code, output, _ = run("layout", "Sw<2,4,3>")
    assert (code, facts(output)) == (
        0,
        {
            "map": "Sw<2,4,3>",
            "reads": "bits 0b110000000",
            "changes": "bits 0b110000",
            "period": "512",
        },
    )
    assert run("layout", "F2[3x3: 1,3,6]") == (0, "map        F2[3x3: 1,3,6]\n", "")


def test_layout_of_bit_images(run):
    code, output, _ = run("layout", "(2,4):F2((1),(3,6))")
    assert code == 0
    assert facts(output) == {
        "layout": "(2,4):F2((1),(3,6))",
        "size": "8",
        "cosize": "8",
        "rank": "2",
        "depth": "1",
        "injective": "yes",
        "bijective": "yes",
    }


def test_unreadable_layout_is_refused_with_the_place(run):
    code, output, error = run("layout", "(4,8):(8,1")
    assert (code, output) == (REFUSED, "")
    assert error.splitlines()[1:] == ["    (4,8):(8,1", "              ^"]


# -- the table


def cells(table):
    """Return the numbers of a printed table, row by row, without the labels."""
    rows = [line.partition("|")[2].split() for line in table.splitlines() if "|" in line]
    return [[int(cell) for cell in row] for row in rows]


@given(negative_layouts(max_leaves=4, max_size=256).filter(lambda layout: len(layout) == 2))
def test_table_of_rank_2_has_mode_0_downwards(layout):
    rows, columns = cute.size(layout[0]), cute.size(layout[1])
    table = model.table(layout)
    expected = [[table[i + rows * j] for j in range(columns)] for i in range(rows)]
    assert cells(text_grid(layout, rows, columns)) == expected


@given(composed_layouts(negative_layouts(max_leaves=1, max_size=100)))
def test_table_of_rank_1_is_broken_into_lines(composed):
    table = text_grid(composed, 100, 7)
    shown = [cell for row in cells(table) for cell in row]
    assert shown == [composed(i) for i in range(composed.size())]
    assert all(len(row) <= 7 for row in cells(table))


def test_table_is_aligned():
    table = text_grid(Layout((12, 3), (-100, 1)))
    assert len({len(line) for line in table.splitlines()}) == 1
    assert table.splitlines()[0].split() == ["0", "1", "2"]


def test_table_of_coordinates():
    table = text_grid(Layout((2, 2), (E(0), E(1))))
    assert table.splitlines()[2:] == [" 0| (0,0) (0,1)", " 1| (1,0) (1,1)"]


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout(100), "(indices 0 to 31 of 100)"),
        (Layout((9, 9)), "(rows 0 to 7 of 9, columns 0 to 3 of 9)"),
        (Layout((9, 4)), "(rows 0 to 7 of 9)"),
        (Layout((2, 2, 2)), "(no table: rank 3; group_modes to rank 2 gives one)"),
        (Layout((sym("M"), 2)), "(no table: the shape (M,2) is symbolic)"),
    ],
)
def test_table_says_what_it_leaves_out(layout, words):
    assert text_grid(layout, 8, 4).splitlines()[-1] == words


def test_table_of_rank_0_is_its_one_offset():
    assert cells(text_grid(Layout((), ()))) == [[0]]


# -- the command itself


def test_without_a_command_the_help_is_printed(run):
    assert run() == run("--help")
    code, output, error = run()
    assert (code, error) == (0, "")
    assert output.startswith("usage: cute-py [-h] [--version] COMMAND ...\n")
    listed = [line.split()[0] for line in output.splitlines() if line.startswith("    ")]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("arguments", [(), ("eval", "size(4:1)"), ("mma", "SM61"), ("nope",)])
def test_python_m_is_the_same_command(run, arguments):
    done = subprocess.run(
        [sys.executable, "-m", "cute_py", *arguments], capture_output=True, encoding="utf-8"
    )
    assert (done.returncode, done.stdout, done.stderr) == run(*arguments)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_ends_with_an_example(run, name):
    code, output, error = run(name, "--help")
    assert (code, error) == (0, "")
    head, _, examples = output.partition("\nexample:\n")
    assert head.startswith(f"usage: cute-py {name} ")
    assert examples.startswith(f"  cute-py {name}")


def parsed(example):
    """Return what the parser makes of an example, without running it."""
    words = shlex.split(example.partition(" > ")[0])
    return command._parser(words).parse_args(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_example_is_what_its_command_takes(name):
    for example in COMMANDS[name][2].splitlines():
        assert parsed(example).command == name


def test_one_command_loads_its_own_module_alone(monkeypatch):
    loaded = []
    monkeypatch.setattr(
        command, "import_module", lambda name: loaded.append(name) or import_module(name)
    )
    main(["functions"])
    assert loaded == ["cute_py.cli.expression_commands"]


# -- names: the beginning of one, and misspelled ones

BEGUN = [
    (("mma", "SM80_16x8x16"), [x for x in names() if x.startswith("SM80_16x8x16")]),
    (("tv", "sm61"), ["SM61_DP4A", "SM61_DP2A"]),
    (("copy", "SM75_U16"), ["SM75_U16x2_LDSM_T", "SM75_U16x4_LDSM_T", "SM75_U16x8_LDSM_T"]),
    (("copy", "UniversalCopy<1"), ["UniversalCopy<16>", "UniversalCopy<128>"]),
    (("atoms", "--arch", "sm_10"), ["sm_100", "sm_103"]),
    (("atoms", "--arch", "SM_10"), ["sm_100", "sm_103"]),
    (("compile", "copy", "--arch", "sm_9"), ["sm_90", "sm_90a"]),
    (("source", "copy", "--dtype", "bf"), ["bf16", "bfloat16", "bfloat16_t"]),
    (("source", "gemm_0"), [f"gemm_0{i}" for i in range(1, 10)]),
    (("co",), ["copy", "compile", "completion"]),
    (("eval", "tiled(4:1)"), ["tiled_divide", "tiled_product"]),
]


@pytest.mark.parametrize(("arguments", "wanted"), BEGUN, ids=lambda x: " ".join(x[:3]))
def test_the_beginning_of_a_name_lists_its_completions(run, arguments, wanted):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert f"one of the {len(wanted)} that begin so: {', '.join(wanted)}\n" in error


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("mma", "SM61_DP4"), "SM61_DP4A"),
        (("mma", "SM80_16x8x16_F32F16F16F32"), "SM80_16x8x16_F32F16F16F32_TN"),
        (("copy", "SM75_U32x4_LDSM_M"), "SM75_U32x4_LDSM_N"),
        (("atoms", "--arch", "sm_91"), "sm_90"),
        (("compile", "copy", "--arch", "sm_90A"), "sm_90a"),
        (("source", "gemm_7"), "gemm_07"),
        (("source", "sofmax"), "softmax"),
        (("compyle",), "compile"),
        (("tv", "SM61_DP4A", "--format", "lat"), "latex"),
        (("source", "copy", "--dtype", "bf61"), "bf16"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else x,
)
def test_a_misspelled_name_is_answered_with_what_it_may_mean(run, arguments, meant):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert meant in re.split("fix: ", error)[1]


def test_very_many_completions_are_told_by_their_next_part(run):
    _, _, error = run("mma", "SM90_64")
    count = sum(name.startswith("SM90_64") for name in names())
    assert f"one of the {count} that begin so: SM90_64x8x16_..., SM90_64x16x16_..., " in error
    assert re.search(r" and \d+ more\n", error)
    assert len(error) < 1000


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("gemm", "--bais", "x.npy"), "cute-py gemm; fix: did you mean --bias"),
        (("source", "gemm", "--archs=sm_80"), "cute-py source gemm; fix: did you mean --arch"),
        (("eval", "4:1", "4:1"), "cute-py eval; fix: cute-py eval --help lists them"),
        (("--versoin",), "cute-py; fix: did you mean --version?"),
        (("--foo", "functions"), "cute-py; fix: cute-py --help lists them"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_an_unknown_option_is_answered_by_its_command(run, arguments, meant):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert f"; required: an argument of {meant}" in error


# -- streams


def piped(arguments, **streams):
    """Run a command in a process with these streams; return its exit code and error output."""
    done = subprocess.run(
        [sys.executable, "-m", "cute_py", *arguments], stderr=subprocess.PIPE, **streams
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device of a full disk")
@pytest.mark.parametrize("arguments", [["functions"], ["--help"], [], ["eval", "4:1"]])
def test_an_output_that_is_full_is_refused_in_one_line(arguments):
    with open("/dev/full", "w") as full:
        code, error = piped(arguments, stdout=full)
    assert code == REFUSED
    assert error.startswith("cute-py: given the system error 'No space left on device'; required")
    assert error.count("\n") == 1


def test_an_input_that_is_no_text_is_refused_in_one_line():
    utf8 = os.environ | {"PYTHONIOENCODING": "utf-8"}
    code, error = piped(["eval", "-"], input=b"\xff\xfe\x80", stdout=subprocess.PIPE, env=utf8)
    assert code == REFUSED
    assert "given an input that is not text in utf-8; required: an input and an output" in error
    assert error.count("\n") == 1


def test_streams_that_are_closed_are_refused(run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert "given an input that is closed" in run("eval", "-")[2]
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["eval", "4:1"]) == REFUSED
    assert "given a standard output that is closed" in capsys.readouterr().err


def test_a_missing_package_is_refused(run, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'numpy'")

    monkeypatch.setattr(command, "import_module", missing)
    code, output, error = run("gemm", "--help")
    assert (code, output) == (REFUSED, "")
    assert "given a package that cannot be imported: No module named 'numpy'; required" in error


# -- numbers


@pytest.mark.parametrize(
    "arguments",
    [
        *[("gemm", f"--{name}", x) for name in "mnk" for x in ("-1", "3.5", "x", "", str(2**31))],
        *[("gemm", "--seed", x) for x in ("-1", "1e3", "")],
        ("gemm", "--alpha", "two"),
        ("gemm", "--beta", ""),
        ("copy", "UniversalCopy<32>", "--bits", "0"),
        ("layout", "4:1", "--columns", "9" * 5000),
        ("compile", "copy", "--spill-bytes", "-1"),
        ("source", "gemm", "--multiprocessors", "0"),
        ("plan", "gemm", "--majors", "K"),
        ("plan", "gemm", "--majors", "K,N"),
    ],
    ids=lambda x: " ".join(x)[:40],
)
def test_numbers_that_do_not_fit_are_refused_by_their_option(run, arguments):
    code, output, error = run(*arguments)
    assert (code, output) == (REFUSED, "")
    assert re.search(r"error: argument --[\w-]+: given '.*'; required: .*; fix: ", error)
    assert len(error) < 2000


def test_version_and_help(run):
    assert run("--version") == (0, f"cute-py {cute.__version__}\n", "")
    code, output, _ = run("--help")
    assert code == 0
    assert all(command in output for command in ("eval", "layout", "functions"))


@pytest.mark.parametrize(
    "arguments", [("nope",), ("eval",), ("layout",), ("layout", "4:1", "--rows", "0")]
)
def test_arguments_that_do_not_fit_exit_with_2(run, arguments):
    code, output, error = run(*arguments)
    assert (code, output) == (2, "")
    assert error.startswith("usage: cute-py")
    assert "Traceback" not in error


def test_interrupt_ends_without_a_traceback(run, monkeypatch):
    def interrupted(given):
        raise KeyboardInterrupt

    monkeypatch.setattr(expression_commands, "_eval", interrupted)
    assert run("eval", "4:1") == (INTERRUPTED, "", "")


@pytest.mark.skipif(os.name == "nt", reason="pipes close otherwise on Windows")
@pytest.mark.parametrize("arguments", [("layout", "(32,16):(16,1)"), ("--help",), ()])
def test_closed_output_ends_without_a_traceback(arguments):
    process = in_a_process(*arguments, stderr=subprocess.PIPE)
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == BROKEN_PIPE
    assert error == b""


def test_eval_loads_neither_numpy_nor_other_packages():
    code = (
        "import json, sys\n"
        "from cute_py.cli.main import main\n"
        "main(['eval', 'composition((6,2):(8,2), (4,3):(3,1))'])\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    result, modules = done.stdout.decode().splitlines()
    assert result == "((2,2),3):((24,2),8)"
    known = sys.stdlib_module_names | {"cute_py"}
    loaded = {name.partition(".")[0] for name in json.loads(modules)}
    assert not loaded & {"numpy", "sympy", "rich", "ml_dtypes"}
    assert not {name for name in loaded - known if re.match(r"[a-z]", name)} - {
        "sitecustomize",
        "usercustomize",
    }
