"""SM90 warpgroup instructions: m64nNk of 128 threads, B and often A read from shared memory.

One function makes any row from its name: accumulator and input types, N, SS (A from shared memory)
or RS (A from registers). D is C: the instruction accumulates in place, or with {scale_d} false
overwrites. Source: PTX ISA, "Asynchronous Multiply-and-Accumulate Instruction:
wgmma.mma_async"; cutlass include/cute/arch/mma_sm90_gmma.hpp, mma_sm90_gmma_ext.hpp.
"""

from __future__ import annotations

from cute_py.atoms.fragments import WARPGROUP, adjacent_values, fragment, operands, type_code
from cute_py.atoms.mma import MMA_Atom, Operand
from cute_py.dtypes.table import NAMES as DTYPES
from cute_py.errors import refusal
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
_SOURCE = (
    "PTX ISA, Asynchronous Multiply-and-Accumulate Instruction: wgmma.mma_async; "
    "cute/arch/mma_sm90_gmma.hpp"
)


def _names() -> dict[str, tuple[str, int, bool, bool]]:
    """Return name -> (types, N, whether A is in registers, saturating)."""
    table = {}
    for types in _TYPES:
        dtypes = [DTYPES[name] for name in types.split()]
        depth = 256 // dtypes[1].bits
        code = "".join(type_code(dtype) for dtype in dtypes)
        form = "" if dtypes[1].bits == 16 else "_TN"  # only 16-bit types are templates over majors
        integer = dtypes[1].is_integer
        for n in _N_OF_BYTES if integer else _N:
            for source in ("SS", "RS"):
                for saturate in (False, True) if integer else (False,):
                    name = f"SM90_64x{n}x{depth}_{code}_{source}{form}{'_SATURATE' * saturate}"
                    table[name] = (types, n, source == "RS", saturate)
    return table


_ROWS = _names()
NAMES = tuple(_ROWS)


def parameters(name: str) -> tuple[str, ...]:
    """Return the template parameters of a row, in CuTe's order.

    >>> parameters("SM90_64x8x16_F32F16F16_SS"), parameters("SM90_64x8x32_S32S8S8_SS_TN")
    (('tnspA', 'tnspB', 'scaleA', 'scaleB'), ())
    """
    types = _ROWS[name][0]
    if types in _BYTES:
        return ()
    scales = ("scaleA", "scaleB")
    return scales if name.endswith("_TN") else ("tnspA", "tnspB", *scales)


def row(
    name: str, *, tnspA: str = "K", tnspB: str = "K", scaleA: int = 1, scaleB: int = 1
) -> MMA_Atom:
    """Return the row of a warpgroup instruction.

    Args:
        name: CuTe's name.
        tnspA: the contiguous mode of A in shared memory, "K" or "MN"; A in registers is "K".
        tnspB: that of B.
        scaleA: 1, or -1 to negate A.
        scaleB: 1, or -1 to negate B.

    Raises:
        LayoutError: an argument that the instruction does not have.

    >>> atom = row("SM90_64x8x16_F32F16F16_SS", tnspB="MN")
    >>> atom.ptx.partition(" ")[2]
    '{d}, {a}, {b}, {scale_d}, 1, 1, 0, 1;'
    """
    types, n, in_registers, saturate = _ROWS[name]
    d, a, b = (DTYPES[each] for each in types.split())
    given: dict[str, str | int] = {"tnspA": tnspA, "tnspB": tnspB}
    given |= {"scaleA": scaleA, "scaleB": scaleB}
    _check(name, given, in_registers)
    depth = 256 // a.bits
    modifier = ".satfinite" * saturate
    return MMA_Atom(
        name,
        (64, n, depth),
        WARPGROUP,
        (
            fragment(64, depth, adjacent_values(a), warps=4) if in_registers else _tile(64, depth),
            _tile(n, depth),
            Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512))),
        ),
        (d, a, b, d),
        ptx=f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{d.ptx}.{a.ptx}.{b.ptx}{modifier} "
        f"{{d}}, {{a}}, {{b}}, {', '.join(_tail(name, given, in_registers))};",
        registers=_registers(n, d, in_registers),
        args=_arguments(name, given),
        min_arch="sm_90a",
        source=_SOURCE,
        saturate=saturate,
        memories=("rmem" if in_registers else "smem", "smem", "rmem"),
        majors=("" if in_registers else tnspA, tnspB),
        scales=(scaleA, scaleB),
    )


def _tile(rows: int, depth: int) -> Layout:
    """Return (thread, value) -> row + rows k where each thread sees the whole tile."""
    return Layout((128, (rows, depth)), (0, (1, rows)))


def _registers(n: int, d: Dtype, in_registers: bool) -> tuple[Operand, ...]:
    """Return D (64 N values over 128 threads, f16 in pairs), A (256 bits of each row) and B."""
    (accumulator,) = operands(str(n // 4 if d.bits == 16 else n // 2), (d,))
    descriptor = Operand(1, "b64", vector=False)
    a = Operand(4, "b32") if in_registers else descriptor
    return accumulator, a, descriptor, accumulator


def _check(name: str, given: dict[str, str | int], in_registers: bool) -> None:
    """Refuse what the instruction does not have."""
    for parameter, value in given.items():
        allowed: tuple[str | int, ...] = ("K", "MN") if parameter.startswith("tnsp") else (1, -1)
        if parameter == "tnspA" and in_registers:
            allowed = ("K",)
        if value not in allowed:
            raise refusal(
                "atom-argument",
                operation=name,
                parameter=parameter,
                value=value,
                allowed=" or ".join(str(each) for each in allowed),
            )


def _tail(name: str, given: dict[str, str | int], in_registers: bool) -> list[str]:
    """Return what follows the operands: scale-d, then the immediates that the form has."""
    flags = [given[each] for each in ("scaleA", "scaleB") if each in parameters(name)]
    if "tnspB" in parameters(name):
        majors = ("tnspB",) if in_registers else ("tnspA", "tnspB")
        flags += [int(given[each] == "MN") for each in majors]
    return ["{scale_d}", *(str(flag) for flag in flags)]


def _arguments(name: str, given: dict[str, str | int]) -> tuple[str | int, ...]:
    """Return the template arguments as far as they are not the default."""
    arguments = [given[each] for each in parameters(name)]
    majors = len(arguments) - 2
    scaled = any(value == -1 for value in arguments)
    return tuple(arguments if scaled else arguments[:majors] if "MN" in arguments else ())
