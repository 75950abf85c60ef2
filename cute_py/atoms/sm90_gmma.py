"""SM90 warpgroup instructions: m64nNk of 128 threads, B and often A read from shared memory.

One function builds any row from its name: accumulator and input types, N, SS (A from shared memory)
or RS (A from registers). D is C: the instruction accumulates in place, or overwrites if {scale_d}
is false. The sparse rows (CuTe's SM90::GMMA::SPARSE::GMMA_64x64x32_F16F16F16_SS is
SM90_SPARSE_64x64x32_F16F16F16_SS) are data: not runnable; their A in shared memory is the stored
half. Source: PTX ISA, "Asynchronous Multiply-and-Accumulate Instruction: wgmma.mma_async" and
"... wgmma.mma_async.sp"; cutlass include/cute/arch/mma_sm90_gmma.hpp, mma_sm90_gmma_ext.hpp,
mma_sm90_gmma_sparse.hpp, atom/mma_traits_sm90_gmma_sparse.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import WARPGROUP, adjacent_values, fragment, operands, type_code
from cute_py.atoms.mma import MMA_Atom, Operand, require_argument
from cute_py.atoms.sparse import METADATA, metadata, selectors, stored, whole
from cute_py.dtypes.table import NAMES as DTYPES
from cute_py.layout.layout import Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype

_FP8 = tuple(
    f"{d} {a} {b}" for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")
)
_BYTES = tuple(f"s32 {a} {b}" for a in ("s8", "u8") for b in ("s8", "u8"))
# types of D, A and B
_TYPES = ("f16 f16 f16", "f32 f16 f16", "f32 bf16 bf16", "f32 tf32 tf32", *_FP8, *_BYTES)
_N = tuple(range(8, 257, 8))
_N_OF_BYTES = (8, 16, 24, *range(32, 257, 16))
_SOURCE = "PTX ISA, Asynchronous Multiply-and-Accumulate Instruction: wgmma.mma_async"
_SOURCES = (
    f"{_SOURCE}; cute/arch/mma_sm90_gmma.hpp",
    f"{_SOURCE}.sp; cute/arch/mma_sm90_gmma_sparse.hpp",
)


def _names() -> dict[str, tuple[str, int, int, bool, bool, bool]]:
    """Return name -> (types, N, K, whether A is in registers, whether it is sparse, saturating)."""
    table = {}
    for sparse, types in ((sparse, types) for sparse in (False, True) for types in _TYPES):
        dtypes = [DTYPES[name] for name in types.split()]
        depth = (512 if sparse else 256) // dtypes[1].bits
        code = "".join(type_code(dtype) for dtype in dtypes)
        form = "" if dtypes[1].bits == 16 else "_TN"  # only 16-bit types are templates over majors
        integer = dtypes[1].is_integer
        for n in _N_OF_BYTES if integer else _N:
            for source in ("SS", "RS"):
                for saturate in (False, True) if integer else (False,):
                    name = (
                        f"SM90_{'SPARSE_' * sparse}64x{n}x{depth}_{code}_{source}{form}"
                        f"{'_SATURATE' * saturate}"
                    )
                    table[name] = (types, n, depth, source == "RS", sparse, saturate)
    return table


_ROWS = _names()
NAMES = tuple(_ROWS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("SM90_64x8x16_F32F16F16_SS"), parameters("SM90_64x8x32_S32S8S8_SS_TN")
    (('tnspA', 'tnspB', 'scaleA', 'scaleB'), ())
    >>> parameters("SM90_SPARSE_64x8x64_S32S8S8_SS_TN")
    ('spsel',)
    """
    return tuple(parameter for group in _groups(name) for parameter in group)


def _groups(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the parameters in groups: majors, scales, sparsity selector."""
    types, *_, sparse, _ = _ROWS[name]
    selector = (("spsel",),) if sparse else ()
    if types in _BYTES:
        return selector
    majors = () if name.endswith("_TN") else (("tnspA", "tnspB"),)
    return (*majors, ("scaleA", "scaleB"), *selector)


def row(
    name: str,
    *,
    tnspA: str = "K",
    tnspB: str = "K",
    scaleA: int = 1,
    scaleB: int = 1,
    spsel: int = 0,
) -> MMA_Atom:
    """Return the row of a warpgroup instruction.

    Args:
        name: CuTe's name.
        tnspA: the contiguous mode of A in shared memory, "K" or "MN"; A in registers is "K".
        tnspB: that of B.
        scaleA: 1, or -1 to negate A.
        scaleB: 1, or -1 to negate B.
        spsel: for a sparse A, the pair of lanes of four that provides the metadata.

    Raises:
        LayoutError: an argument that the instruction does not have.

    >>> atom = row("SM90_64x8x16_F32F16F16_SS", tnspB="MN")
    >>> atom.ptx.partition(" ")[2]
    '{d}, {a}, {b}, {scale_d}, 1, 1, 0, 1;'
    >>> row("SM90_SPARSE_64x8x64_S32S8S8_SS_TN").ptx.partition(" ")[2]
    '{d}, {a}, {b}, {e}, 0, {scale_d};'
    """
    types, n, depth, in_registers, sparse, saturate = _ROWS[name]
    d, a, b = (DTYPES[each] for each in types.split())
    given: dict[str, str | int] = {"tnspA": tnspA, "tnspB": tnspB}
    given |= {"scaleA": scaleA, "scaleB": scaleB, "spsel": spsel}
    _check(name, given, in_registers, selectors(depth, a) if sparse else (0,))
    instruction = f"wgmma.mma_async{'.sp' * sparse}.sync.aligned.m64n{n}k{depth}"
    modifier = ".satfinite" * saturate
    return MMA_Atom(
        name,
        (64, n, depth),
        WARPGROUP,
        (
            _a_tv(depth, a, sparse) if in_registers else _tile(64, depth),
            _tile(n, depth),
            Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512))),
        ),
        (d, a, b, d),
        ptx=f"{instruction}.{d.ptx}.{a.ptx}.{b.ptx}{modifier} "
        f"{{d}}, {{a}}, {{b}}, {', '.join(_tail(name, given, in_registers))};",
        registers=(*_registers(n, d, in_registers), *((METADATA,) if sparse else ())),
        args=_arguments(name, given),
        min_arch="sm_90a",
        source=_SOURCES[sparse],
        runnable=not sparse,
        saturate=saturate,
        memories=("rmem" if in_registers else "smem", "smem", "rmem"),
        majors=("" if in_registers else tnspA, tnspB),
        scales=(scaleA, scaleB),
        extra=_extra(depth, a, in_registers) if sparse else (),
    )


def _a_tv(depth: int, a: Dtype, sparse: bool) -> Layout:
    """Return the layout of A in registers."""
    if sparse:
        return whole(64, depth, a, warps=4)
    return fragment(64, depth, adjacent_values(a), warps=4)


def _extra(depth: int, a: Dtype, in_registers: bool) -> tuple[tuple[str, Layout], ...]:
    """Return the layouts of the metadata and of the stored half of a sparse A."""
    half = stored(64, depth, a, warps=4) if in_registers else _tile(64, depth // 2)
    return ("e_tv", metadata(64, depth, a, warps=4)), ("stored_tv", half)


def _tile(rows: int, depth: int) -> Layout:
    """Return (thread, value) -> row + rows k, with the whole tile in each thread."""
    return Layout((128, (rows, depth)), (0, (1, rows)))


def _registers(n: int, d: Dtype, in_registers: bool) -> tuple[Operand, ...]:
    """Return D (64 N values over 128 threads, f16 in pairs), A (256 bits of each row) and B."""
    (accumulator,) = operands(str(n // 4 if d.bits == 16 else n // 2), (d,))
    descriptor = Operand(1, "b64", vector=False)
    a = Operand(4, "b32") if in_registers else descriptor
    return accumulator, a, descriptor, accumulator


def _check(
    name: str, given: dict[str, str | int], in_registers: bool, selectors: tuple[int, ...]
) -> None:
    """Refuse arguments that the instruction does not have."""
    for parameter, value in given.items():
        allowed: tuple[str | int, ...] = ("K", "MN") if parameter.startswith("tnsp") else (1, -1)
        if parameter == "tnspA" and in_registers:
            allowed = ("K",)
        require_argument(name, parameter, value, selectors if parameter == "spsel" else allowed)


def _tail(name: str, given: dict[str, str | int], in_registers: bool) -> list[str]:
    """Return the text after the operands: metadata, scale-d, the immediates of the form."""
    known = parameters(name)
    flags = [given[each] for each in ("scaleA", "scaleB") if each in known]
    if "tnspB" in known:
        majors = ("tnspB",) if in_registers else ("tnspA", "tnspB")
        flags += [int(given[each] == "MN") for each in majors]
    metadata = ["{e}", str(given["spsel"])] if "spsel" in known else []
    return [*metadata, "{scale_d}", *(str(flag) for flag in flags)]


def _arguments(name: str, given: dict[str, str | int]) -> tuple[str | int, ...]:
    """Return the template arguments up to the last group with a non-default."""
    usual = {"tnspA": "K", "tnspB": "K", "scaleA": 1, "scaleB": 1, "spsel": 0}
    groups = list(_groups(name))
    while groups and all(given[each] == usual[each] for each in groups[-1]):
        groups.pop()
    return tuple(given[each] for group in groups for each in group)
