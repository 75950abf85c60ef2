"""`find`: MMA rows by dtypes and architecture. `table`: a line for each MMA and copy row.

Warpgroup rows that differ only in N share a line of the table.
"""

from __future__ import annotations

from cute_py.atoms import registry
from cute_py.atoms.arch import ARCHS
from cute_py.atoms.registry import copy_rows
from cute_py.dtypes.table import dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.dtypes.table import Dtype

    AnyDtype = Dtype | str

_HEADER = (
    *("atom", "M x N x K", "D A B C", "threads", "registers D A B"),
    *("from", "native", "emulated"),
)
_COPY_HEADER = ("copy", "source", "destination", "threads", "from", "completion")


def find(
    *,
    a: AnyDtype | None = None,
    b: AnyDtype | None = None,
    c: AnyDtype | None = None,
    shape: tuple[int, int, int] | None = None,
    arch: str | None = None,
    runnable: bool = True,
    sparse: bool = False,
) -> list[MMA_Atom]:
    """Return the MMA rows that fit, best first.

    Native before emulated, matrix instructions before UniversalFMA, more work per instruction
    first; then the wider accumulator, wrapping before saturating, A in shared memory before A in
    registers, the newer family.

    Args:
        a: dtype of A; None: any.
        b: dtype of B; None: that of A.
        c: dtype of the accumulator; None: any.
        shape: (M, N, K) of the instruction; None: any.
        arch: such as "sm_90a": only rows that run on it; None: all.
        runnable: omit rows that are data only.
        sparse: rows with a sparse A, all data so far, instead of rows with a dense A.

    >>> print(*find(a="bf16", c="f32", arch="sm_80"))
    SM80_16x8x16_F32BF16BF16F32_TN SM80_16x8x8_F32BF16BF16F32_TN UniversalFMA<f32,bf16,bf16,f32>
    >>> find(a="s8", arch="sm_90a")[0].shape_mnk
    (64, 256, 32)
    >>> print(find(a="f16", shape=(16, 8, 8))[0])
    SM80_16x8x8_F32F16F16F32_TN
    >>> print(find(a="bf16", arch="sm_80", sparse=True, runnable=False)[0])
    SM80_SPARSE_16x8x32_F32BF16BF16F32_TN
    """
    a_type, b_type, c_type = (None if each is None else dtype(each) for each in (a, b, c))
    wanted = (a_type, b_type or a_type, c_type)
    fitting = [
        atom
        for atom in _candidates(*wanted)
        if _types_fit(atom, wanted)
        and (atom.runnable or not runnable)
        and atom.sparse == sparse
        and (shape is None or atom.shape_mnk == tuple(shape))
        and (arch is None or atom.support(arch))
    ]
    return sorted(fitting, key=lambda atom: _rank(atom, arch))


def _candidates(a: Dtype | None, b: Dtype | None, c: Dtype | None) -> Iterator[MMA_Atom]:
    """Yield all rows, with UniversalFMA for these dtypes."""
    for atom in registry.rows():
        if atom.name != "UniversalFMA":
            yield atom
        elif a is not None and b is not None:
            wide = dtype("f64" if "f64" in (a.name, b.name) else "f32" if a.is_float else "s32")
            yield atom(c or wide, a, b, c or wide)


def _types_fit(atom: MMA_Atom, wanted: tuple[Dtype | None, ...]) -> bool:
    have = (atom.a_type, atom.b_type, atom.c_type)
    return all(each is None or each is own for each, own in zip(wanted, have, strict=True))


def _rank(atom: MMA_Atom, arch: str | None) -> tuple[object, ...]:
    m, n, k = atom.shape_mnk
    native = atom.support(arch) == "native" if arch else bool(atom.native)
    family = atom.name.partition("_")[0].removeprefix("SM")
    newest = -int(family) if family.isdecimal() else 0
    in_registers = atom.a_memory == "rmem"
    return not native, -m * n * k, -atom.c_type.bits, atom.saturate, in_registers, newest, atom.name


def table_rows(atoms: Iterable[MMA_Atom]) -> list[tuple[str, ...]]:
    """Return the cells of `table`, without the header; rows that differ only in N are joined.

    >>> from cute_py.atoms.registry import get
    >>> table_rows([get("SM61_DP4A")])[0][:3]
    ('SM61_DP4A', '1x1x4', 's32 s8 s8 s32')
    """
    groups: dict[str, list[MMA_Atom]] = {}
    for atom in atoms:
        groups.setdefault(_stem(atom), []).append(atom)
    return [_cells(stem, group) for stem, group in groups.items()]


def _stem(atom: MMA_Atom) -> str:
    _, n, k = atom.shape_mnk
    return str(atom).replace(f"_64x{n}x{k}_", f"_64xNx{k}_")


def _cells(stem: str, group: list[MMA_Atom]) -> tuple[str, ...]:
    atom, last = group[0], group[-1]
    m, n, k = atom.shape_mnk
    columns = f"{n}" if len(group) == 1 else f"({n}..{last.shape_mnk[1]})"
    types = (atom.d_type, atom.a_type, atom.b_type, atom.c_type)
    return (
        stem,
        f"{m}x{columns}x{k}",
        " ".join(str(each) for each in types),
        str(atom.num_threads),
        _registers(atom, last),
        atom.min_arch,
        _archs(atom.native),
        _archs(atom.emulated),
    )


def _registers(atom: MMA_Atom, last: MMA_Atom) -> str:
    if not atom.runnable:
        return "data only"
    if not atom.registers:
        return "-"
    texts = []
    for low, high in zip(atom.registers[:3], last.registers[:3], strict=True):
        counts = f"{low.count}" if low.count == high.count else f"{low.count}..{high.count}"
        texts.append("desc" if low.is_descriptor else f"{counts} {low.ptx_type}")
    return ", ".join(texts)


def _archs(archs: tuple[str, ...]) -> str:
    """Return architectures as text, such as "75-89,120"."""
    runs: list[list[str]] = []
    for arch in archs:
        follows = runs and arch in ARCHS and ARCHS.index(arch) == ARCHS.index(runs[-1][-1]) + 1
        runs[-1].append(arch) if follows else runs.append([arch])
    ends = ((run[0].removeprefix("sm_"), run[-1].removeprefix("sm_")) for run in runs)
    return ",".join(first if first == last else f"{first}-{last}" for first, last in ends) or "-"


def listed(arch: str | None = None) -> tuple[list[MMA_Atom], list[Copy_Op]]:
    """Return the MMA and the copy rows that run on an architecture, all for None.

    >>> mmas, copies = listed("sm_61")
    >>> print(*mmas, *copies[:2])
    UniversalFMA<f32,f32,f32,f32> SM61_DP4A SM61_DP2A UniversalCopy<8> UniversalCopy<16>
    """
    mmas = [atom for atom in registry.rows() if arch is None or atom.support(arch)]
    return mmas, [op for op in copy_rows() if arch is None or op.support(arch)]


def copy_cells(ops: Iterable[Copy_Op]) -> list[tuple[str, ...]]:
    """Return the cells of the copy rows, without the header.

    >>> from cute_py.atoms.registry import get_copy
    >>> copy_cells([get_copy("SM75_U32x4_LDSM_N")])
    [('SM75_U32x4_LDSM_N', 'smem', 'rmem', '32', 'sm_75', 'immediate')]
    """
    return [
        (
            *(str(op), op.src_space, op.dst_space, str(op.num_threads), op.min_arch),
            op.completion if op.runnable else "data only",
        )
        for op in ops
    ]


def table(arch: str | None = None) -> None:
    """Print all MMA and copy rows, or those that run on an architecture; on a terminal with rich.

    Args:
        arch: such as "sm_90a".

    >>> table("sm_61")  # doctest: +ELLIPSIS
    atom                           M x N x K  D A B C          threads  registers D A B ...
    UniversalFMA<f32,f32,f32,f32>  1x1x1      f32 f32 f32 f32  1        - ...
    SM61_DP4A                      1x1x4      s32 s8 s8 s32    1        1 s32, 1 b32, 1 b32 ...
    SM61_DP2A                      1x1x2      s32 s16 s16 s32  1        data only ...
    <BLANKLINE>
    copy ...
    UniversalCopy<8> ...
    """
    import sys

    if sys.stdout.isatty():
        _print_rich(*_blocks(arch))
    else:
        print(table_text(arch))


def table_text(arch: str | None = None) -> str:
    """Return the text of `table`: two blocks, columns aligned by spaces.

    >>> table_text("sm_61").splitlines()[2][:47]
    'SM61_DP4A                      1x1x4      s32 s'
    """
    return "\n\n".join(_aligned(lines) for lines in _blocks(arch))


def _blocks(arch: str | None) -> tuple[list[tuple[str, ...]], ...]:
    """Return the lines of cells of the MMA rows and of the copy rows, each under its header."""
    mmas, copies = listed(arch)
    return [_HEADER, *table_rows(mmas)], [_COPY_HEADER, *copy_cells(copies)]


def _aligned(lines: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _print_rich(*blocks: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    for header, *lines in blocks:
        grid = Table(*header, box=None)
        for line in lines:
            grid.add_row(*line)
        Console().print(grid)
