"""ptxas assembles every PTX template of a copy row for the architecture that the row names."""

import subprocess

import pytest

from cute_py.atoms.arch import number
from cute_py.atoms.copy import NUMBER_32
from cute_py.atoms.copy_universal import move
from cute_py.atoms.registry import copy_rows, get_copy
from tests.compile_only.programs import tool

MOVES = [
    move(bits, *spaces)
    for bits in (8, 16, 32, 64, 128)
    for memory in ("gmem", "smem")
    for spaces in ((memory, "rmem"), ("rmem", memory))
]
ROWS = [op for op in copy_rows() if op.ptx is not None] + MOVES
OLDEST = 75  # ptxas 13 knows no older architecture
GUARDED = [get_copy("SM80_CP_ASYNC_CACHEALWAYS", 64), get_copy("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL")]


def assembled_for(op):
    return op.min_arch if number(op.min_arch) >= OLDEST else f"sm_{OLDEST}"


def function(op, name, guard=False):
    """Return a kernel that loads every operand, runs the instruction and stores what it wrote."""
    slots = [*op.operands, *([("guard", NUMBER_32)] if guard else [])]
    registers = {key: [f"%{key}_{i}" for i in range(slot.count)] for key, slot in slots}
    lines = [f".reg .{slot.ptx_type} {', '.join(registers[key])};" for key, slot in slots]
    stores = []
    for key, slot in slots:
        for register in registers[key]:
            if key in op.written:
                stores.append(f"st.volatile.global.{slot.ptx_type} [%memory], {register};")
            else:
                lines.append(f"ld.volatile.global.{slot.ptx_type} {register}, [%memory];")
    body = "\n    ".join([*lines, op.instruction(**registers), *stores])
    return (
        f".visible .entry {name}(.param .u64 memory)\n{{\n    .reg .b64 %memory;\n"
        f"    ld.param.u64 %memory, [memory];\n    {body}\n    ret;\n}}\n"
    )


def assemble(arch, functions, folder):
    """Return what ptxas complains about."""
    header = f".version 8.8\n.target {arch}\n.address_size 64\n"
    source = folder / f"{arch}.ptx"
    source.write_text(header + "\n".join(functions), encoding="utf-8")
    run = subprocess.run(
        [tool("ptxas"), f"-arch={arch}", "-O1", str(source), "-o", str(folder / f"{arch}.cubin")],
        capture_output=True,
        text=True,
    )
    return "" if run.returncode == 0 else run.stderr + source.read_text(encoding="utf-8")[:2000]


@pytest.mark.parametrize("arch", sorted({assembled_for(op) for op in ROWS}))
def test_templates_assemble_for_their_architecture(arch, tmp_path):
    rows = [op for op in ROWS if assembled_for(op) == arch]
    functions = [function(op, f"row_{i}") for i, op in enumerate(rows)]
    assert rows
    assert assemble(arch, functions, tmp_path) == ""


def test_guarded_templates_assemble(tmp_path):
    functions = [function(op, f"row_{i}", guard=True) for i, op in enumerate(GUARDED)]
    assert all("@p cp.async" in text for text in functions)
    assert assemble("sm_80", functions, tmp_path) == ""


@pytest.mark.parametrize(
    ("name", "older"),
    [
        ("SM80_CP_ASYNC_CACHEGLOBAL", "sm_75"),
        ("SM90_U32x4_STSM_N", "sm_80"),
        ("SM90_BULK_COPY_G2S<128>", "sm_80"),
        ("SM90_TMA_LOAD_2D<128>", "sm_80"),
        ("SM100_U8x8_LDSM_T", "sm_90"),
        ("SM100_TMEM_LOAD_32dp32b1x", "sm_90"),
    ],
)
def test_templates_are_refused_before_their_architecture(name, older, tmp_path):
    """min_arch is the oldest that has it, and the check above can fail."""
    problem = assemble(older, [function(get_copy(name), "row")], tmp_path)
    assert "or higher" in problem or "not supported on" in problem
