"""The table of instructions: each row assembles, and no other module holds text in PTX."""

import ast
import re
import subprocess
from itertools import count
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py import codegen
from cute_py.atoms.arch import number
from cute_py.codegen import instructions
from cute_py.codegen.instructions import OLDEST, TABLE, of_atom, text_of, texts, types
from tests.compile_only.programs import tool
from tests.sampling import each

FOLDER = Path(codegen.__file__).parent
SOURCES = sorted(FOLDER.rglob("*.py"))


def chosen(row):
    """Each word of each mode, with the first word of the others."""
    first = {mode: words[0][0] if words else 32 for mode, words in row.modes}
    yield first
    for mode, words in row.modes:
        yield from (first | {mode: word} for word, _text in words[1:])


def function(row, modes, name, guard=""):
    """Return a kernel of one instruction, with registers of the kinds that the row tells."""
    numbers, lines, registers = count(), [], {}
    for slot, many, kind in types((*row.results, *row.operands), modes):
        registers[slot.name] = [f"%r{next(numbers)}" for _ in range(many)]
        lines += [f".reg .{kind} {register};" for register in registers[slot.name]]
    lines += [f".reg .b32 {guard};"] if guard else []
    text = text_of(row, registers, modes, guard, uid="1")
    body = "\n  ".join([*lines, text, "ret;"])
    return f".visible .entry {name}() .maxntid 128 {{\n  {body}\n}}\n"


def complaints(arch, functions, folder):
    source = folder / "rows.ptx"
    head = f".version 9.0\n.target {arch}\n.address_size 64\n"
    source.write_text(head + "".join(functions), encoding="utf-8")
    command = [tool("ptxas"), f"-arch={arch}", str(source), "-o", str(folder / "rows.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def every_form(rows):
    return [
        function(row, texts(row, modes), f"k_{i}_{j}", guard)
        for i, row in enumerate(rows)
        for j, (modes, guard) in enumerate(
            [(modes, "") for modes in chosen(row)] + [(next(chosen(row)), "%guard")]
        )
        if not (guard and row.name in UNGUARDED)
    ]


# no single instruction that a predicate could stand before
UNGUARDED = (
    "opaque", "held", "vote", "vote.ballot", "wait_until", "wait_until.float", "barrier.cluster",
    "elect.sync", "wgmma.after", "atom.min.f32",
    "atom.min.f32.peer", "atom.add.pair.peer",
    "mbarrier.try_wait", "mbarrier.arrive.cluster", "mbarrier.arrive.expect_tx.cluster",
)  # fmt: skip


@pytest.mark.parametrize("arch", sorted({row.first for row in TABLE.values()}))
def test_rows_assemble_for_their_first_architecture(arch, tmp_path):
    rows = [row for row in TABLE.values() if row.first == arch]
    functions = every_form(rows)
    assert len(functions) > len(rows)
    assert complaints(arch, functions, tmp_path) == ""


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if row.first != OLDEST])
def test_no_older_architecture_has_them(name, tmp_path):
    row = TABLE[name]
    older = [a for a in ("sm_75", "sm_80", "sm_86", "sm_89") if number(a) < number(row.first)][-1]
    text = function(row, texts(row, next(chosen(row))), "k")
    assert "sm_" in complaints(older, [text], tmp_path)


def test_rows_are_told_apart_and_complete():
    assert len(TABLE) > 40
    for name, row in TABLE.items():
        assert row.name == name
        assert row.source
        assert row.effects in ("none", "memory", "order")
        assert hash(row)


def test_the_oldest_architecture_is_that_of_the_compilers():
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")
    from cute_py.codegen.instructions import TARGETS

    assert TARGETS[0] == OLDEST


def test_atoms_have_the_same_form():
    for atom in cute.atoms.rows():
        if atom.ptx is None or len(atom.registers) > 4 or "{scale_d}" in atom.ptx:
            continue
        row, registers = of_atom(atom), {}
        for slot, many, _kind in types((*row.results, *row.operands), {}):
            registers[slot.name] = [f"{slot.name}{i}" for i in range(many)]
        assert text_of(row, registers, {}) == atom.instruction(*registers.values())
        assert row.first == atom.min_arch


# -- one place


def literals(path):
    """The texts of a module, but for docstrings; of f-strings, all parts with holes between."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(getattr(x, "value", "0")) for x in node.values)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
        ):
            yield node.value


MNEMONICS = {
    word
    for row in TABLE.values()
    for word in re.findall(r"(?:^|[;:}] |p )([a-z]\w+)[.;]", row.template)
} | {
    "mma",
    "wgmma",
    "ldmatrix",
    "stmatrix",
    "cp",
    "red",
    "mov",
    "setp",
    "selp",
    "mbarrier",
    "membar",
}
PTX = re.compile(
    rf"\b(?:{'|'.join(sorted(MNEMONICS))})(?:\.[\w:]+)*\.\w+(?:\s+(?:[\[{{$%]|\w+[,;])|;)"
    r"|\$\d|^\.reg\b|@!?p\b|\btrap;|%(?:tid|ctaid)\b"
)


def test_the_scan_finds_ptx():
    assert {"ld", "bar", "cvt", "fma", "fence", "mov"} <= MNEMONICS
    for text in (
        "ld.global.b32 %r, [%a]",
        "bar.sync 0;",
        "@p trap;",
        "fence.acq_rel.gpu;",
        "abs.f32 a, b",
    ):
        assert PTX.search(text)
    for text in ("cvt.bf16.f32", "vote.sync over the lanes"):  # the name of a row, and words
        assert not PTX.search(text)


@each(SOURCES)
def test_no_other_module_holds_text_in_ptx(path):
    found = [text for text in literals(path) if PTX.search(text)]
    letters = [text for text in literals(path) if re.fullmatch(r"=[rlhfd]|~\{memory\}", text)]
    if path.name == "instructions.py":
        assert found
    else:
        assert found == []
    assert letters == (["~{memory}"] if path.name == "emit.py" else [])


def test_instructions_need_no_compiler():
    """Another backend can read the table."""
    text = Path(instructions.__file__).read_text(encoding="utf-8")
    assert not re.search(r"^\s*(?:from|import) (?:llvmlite|numba)", text, re.MULTILINE)


def test_names_of_rows_in_the_rules_are_in_the_table():
    names = [
        node.args[0].value
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) in ("emit", "_one", "_of_row")
        and node.args
        and isinstance(node.args[0], ast.Constant)
    ]
    assert len(names) > 30
    assert set(names) <= set(TABLE)


# -- what a row does not have


def test_a_word_that_a_row_lacks_is_refused():
    for modes in ({"scope": "warp"}, {}, {"scope": "gpu", "kind": "sync"}):
        with pytest.raises(cute.CuteError) as caught:
            texts(TABLE["fence"], modes)
        assert caught.value.code == "codegen-op"
        assert "fence with" in str(caught.value)
    with pytest.raises(cute.CuteError):
        texts(TABLE["cp.async.wait_group"], {"n": "1"})


def test_atomic_sums_of_bf16_are_refused_by_name_where_they_are_not():
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

    @cute.kernel
    def total(x):
        cute.launch(grid=1, block=32)
        cute.atomic("add", cute.local_tile(x, (1,), (cute.thread_idx(),)), 1.0)

    plan = cute.trace(total, np.zeros(32, cute.dtype("bf16").numpy))
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(plan, "sm_80")
    assert caught.value.code == "codegen-lacks"
    assert "atom.add.noftz.bf16" in str(caught.value)
    assert "atom.global.add.noftz.bf16" in cute.compile(plan, "sm_90a").ptx


def test_operands_that_a_row_does_not_take_are_refused():
    pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")
    from llvmlite import ir

    from cute_py.codegen.emit import Emit

    function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
    e = Emit(ir.IRBuilder(function.append_basic_block()), {}, {}, {})
    short, wide = (ir.Constant(ir.IntType(n), 0) for n in (32, 64))
    for values in ((short,), (short, wide), (short, [short, short])):
        with pytest.raises(cute.CuteError) as caught:
            e.emit("shfl", *values, kind="idx", clamp=31)
        assert caught.value.code == "codegen-op"
    assert len(e.emit("shfl", short, short, kind="idx", clamp=31)) == 1
