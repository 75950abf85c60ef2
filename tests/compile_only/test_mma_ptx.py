"""Every instruction text assembles from its `min_arch` on, and is in SASS what the row says.

ptxas checks mnemonic, operand count and register types. The SASS tells native from emulated: one
matrix instruction, or several, or none.
"""

import re
import subprocess
from collections import defaultdict
from functools import cache

import pytest

from cute_py.atoms import rows
from cute_py.atoms.arch import number
from cute_py.codegen.toolchain import disassembled
from tests.compile_only.programs import tool

WITH_TEXT = [atom for atom in rows() if atom.ptx is not None]
WARP_ROWS = [atom for atom in WITH_TEXT if atom.ptx.startswith("mma.")]
OLDEST = 75  # the oldest target that ptxas 13.0 knows
MATRIX = re.compile(r"\b((?:[HIBDQ]|HG|IG|QG)MMA)\.(\S+)")


def kernel(name, atom, store=True):
    """Return a PTX kernel with the one instruction between loads and stores."""
    lines = [f".visible .entry {name}(.param .u64 io) {{", ".reg .b64 q;", ".reg .pred p;"]
    lines += ["ld.param.u64 q, [io];", "setp.ne.u64 p, q, 0;"]
    operands = {}
    for letter, operand in zip("dabce", atom.registers, strict=False):
        names = [f"%{letter}{i}" for i in range(operand.count)]
        kind = operand.ptx_type
        lines += [f".reg .{kind} {register};" for register in names]
        if store and letter != "d":
            lines += [
                f"ld.global.{kind} {register}, [q+{8 * i}];" for i, register in enumerate(names)
            ]
            lines.append("add.u64 q, q, 4096;")
        operands[letter] = names
    if "wgmma" in atom.ptx:
        operands["c"] = operands["d"]
    lines.append(atom.instruction(**operands))
    if store:
        kind = atom.registers[0].ptx_type
        lines += [f"st.global.{kind} [q+{8 * i}], {d};" for i, d in enumerate(operands["d"])]
    return [*lines, "ret;", "}"]


def module(atoms, target, store=True, version="9.0"):
    lines = [f".version {version}", f".target {target}", ".address_size 64"]
    for i, atom in enumerate(atoms):
        lines += kernel(f"k{i}", atom, store)
    return lines


def assemble(lines, target, folder, *options):
    source, cubin = folder / "k.ptx", folder / "k.cubin"
    source.write_text("\n".join(lines))
    command = [tool("ptxas"), *options, "-arch", target, str(source), "-o", str(cubin)]
    return subprocess.run(command, capture_output=True, text=True, check=False), cubin


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_89", "sm_90"])
def test_every_warp_instruction_assembles_from_its_min_arch_on(target, tmp_path):
    atoms = [atom for atom in WITH_TEXT if atom.support(target)]
    assert len(atoms) > 10
    result, _ = assemble(module(atoms, target), target, tmp_path)
    assert result.returncode == 0, result.stderr[:2000]


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("source", ["SS", "RS"])
@pytest.mark.parametrize("inputs", ["f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"])
def test_every_warpgroup_instruction_assembles(inputs, source, step, tmp_path):
    """With the largest N and each `step`-th one below it."""
    atoms = [
        atom
        for atom in WITH_TEXT
        if "wgmma" in atom.ptx and atom.a_type.name == inputs and f"_{source}" in atom.name
    ]
    columns = {atom.shape_mnk[1] for atom in atoms}
    assert len(columns) == (18 if inputs in ("s8", "u8") else 32)
    taken = sorted(columns, reverse=True)[::step]
    atoms = [atom for atom in atoms if atom.shape_mnk[1] in taken]
    result, _ = assemble(module(atoms, "sm_90a", store=False), "sm_90a", tmp_path, "-O0")
    assert result.returncode == 0, result.stderr[:2000]


def test_integer_warpgroup_instructions_have_no_other_n(tmp_path):
    """PTX ISA: N is 8, 16, 24 or a multiple of 16 for integers."""
    (atom,) = [atom for atom in WITH_TEXT if atom.name == "SM90_64x48x32_S32S8S8_SS_TN"]
    lines = module([atom], "sm_90a", store=False)
    lines = [line.replace("m64n48k32", "m64n40k32") for line in lines]
    result, _ = assemble(lines, "sm_90a", tmp_path)
    assert result.returncode != 0


def test_every_major_and_scale_assembles(tmp_path):
    signs = (1, -1)
    atoms = [
        atom(a, b, scale_a, scale_b)
        for atom in WITH_TEXT
        if re.fullmatch(r"SM90_(SPARSE_)?64x8x\d+_F\d+B?F16B?F16_[SR]S", atom.name)
        for a in (("K", "MN") if atom.name.endswith("SS") else ("K",))
        for b in ("K", "MN")
        for scale_a in signs
        for scale_b in signs
    ]
    assert len(atoms) == 2 * 3 * 4 * (4 + 2)
    result, _ = assemble(module(atoms, "sm_90a", store=False), "sm_90a", tmp_path)
    assert result.returncode == 0, result.stderr[:2000]


# -- sparse: the selector of the lanes that give metadata, and the spelling


def sparse(name, selectors):
    """Return the kernel of a sparse row with each of these selectors in its text."""
    (atom,) = [atom for atom in WITH_TEXT if atom.name == name]
    lines = "\n".join(module([atom], "sm_90a", store=False))
    mark = "%e0, 0"
    assert lines.count(mark) == 1
    return [lines.replace(mark, f"%e0, {selector}").splitlines() for selector in selectors]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("SM80_SPARSE_16x8x16_F32F16F16F32_TN", 4),
        ("SM80_SPARSE_16x8x32_F32BF16BF16F32_TN", 2),
        ("SM80_SPARSE_16x8x8_F32TF32TF32F32_TN", 4),
        ("SM80_SPARSE_16x8x16_F32TF32TF32F32_TN", 2),
        ("SM80_SPARSE_16x8x32_S32S8S8S32_TN", 2),
        ("SM80_SPARSE_16x8x64_S32U8S8S32_TN", 1),
        ("SM80_SPARSE_16x8x64_S32S4S4S32_TN", 2),
        ("SM80_SPARSE_16x8x128_S32U4U4S32_TN", 1),
        ("SM90_SPARSE_64x8x32_F16F16F16_SS", 2),
        ("SM90_SPARSE_64x8x16_F32TF32TF32_RS_TN", 2),
        ("SM90_SPARSE_64x8x64_S32S8S8_SS_TN", 1),
        ("SM90_SPARSE_64x8x64_F32E4M3E5M2_RS_TN", 1),
    ],
)
def test_ptxas_takes_the_selectors_of_the_row_and_no_others(name, count, tmp_path):
    taken = [
        assemble(lines, "sm_90a", tmp_path)[0].returncode == 0 for lines in sparse(name, range(5))
    ]
    assert taken == [selector < count for selector in range(5)]


def test_ordered_metadata_is_of_ptx_8_5(tmp_path):
    atoms = [atom for atom in WARP_ROWS if atom.sparse]
    assert len(atoms) == 40
    old, new = (module(atoms, "sm_80", version=version) for version in ("8.4", "8.5"))
    plain = [line.replace("::ordered_metadata", "") for line in old]
    codes = [assemble(lines, "sm_80", tmp_path)[0].returncode == 0 for lines in (old, plain, new)]
    assert codes == [False, True, True]


# -- dot products


def test_dp2a_names_a_half_of_b_and_cutes_text_does_not(tmp_path):
    """PTX ISA, dp2a: two 16-bit values of A by the two lower or upper of four bytes of B."""
    (dp4a,) = [atom for atom in WITH_TEXT if atom.name == "SM61_DP4A"]
    lines = module([dp4a], "sm_75")
    assert sum("dp4a.s32.s32" in line for line in lines) == 1
    modes = (".lo", ".hi", "")
    texts = [[line.replace("dp4a", f"dp2a{mode}") for line in lines] for mode in modes]
    taken = [assemble(text, "sm_75", tmp_path)[0].returncode == 0 for text in texts]
    assert taken == [True, True, False]


# -- the oldest architecture


def test_ptxas_names_min_arch_as_what_an_instruction_requires(tmp_path):
    """On the oldest target, each instruction beyond it is refused with the row's own min_arch."""
    atoms = [atom for atom in WARP_ROWS if number(atom.min_arch) > OLDEST]
    lines = module(atoms, f"sm_{OLDEST}")
    result, _ = assemble(lines, f"sm_{OLDEST}", tmp_path)
    required = defaultdict(set)
    for line, arch in re.findall(
        r"line (\d+); error\s*:.*requires \.target (sm_\d+)", result.stderr
    ):
        required[lines[int(line) - 1]].add(arch)
    for i, atom in enumerate(atoms):
        text = next(line for line in kernel(f"k{i}", atom) if line.startswith("mma"))
        assert max(required[text], key=number, default=None) == atom.min_arch, atom


# -- SASS


@cache
def forms():
    """Return one row for each form that hardware may treat on its own."""
    return {atom.ptx.partition(" ")[0]: atom for atom in WARP_ROWS}


NEWER = ("sm_89", "sm_100", "sm_120")


@pytest.mark.parametrize(
    "target",
    ["sm_75", "sm_80", "sm_90", *(pytest.param(x, marks=pytest.mark.slow) for x in NEWER)],
)
def test_sass_has_one_matrix_instruction_where_the_row_is_native(target, tmp_path):
    atoms = [atom for atom in forms().values() if atom.support(target)]
    tool("nvdisasm")  # or skip
    result, cubin = assemble(module(atoms, target), target, tmp_path)
    assert result.returncode == 0, result.stderr[:2000]
    seen, current = defaultdict(list), None
    for line in disassembled(cubin.read_bytes()).splitlines():
        section = re.match(r"\.section\s+\.text\.k(\d+)\b|\s*\.section\s+\.text\.k(\d+),", line)
        if section:
            current = int(section[1] or section[2])
        elif current is not None and (match := MATRIX.search(line)):
            seen[current].append(match.group(0))
    for i, atom in enumerate(atoms):
        # Volta's instruction is a fixed sequence of steps.
        single = len(seen[i]) == 1 or (seen[i] != [] and all(".STEP" in each for each in seen[i]))
        assert ("native" if single else "emulated") == atom.support(target), (str(atom), seen[i])
