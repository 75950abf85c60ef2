"""`MMA_Atom`: one matrix instruction as a frozen row, the only place that knows its lane maps.

A row has the thread-value layouts, the value types, the PTX text and the operand registers. The
emulator, the code generator, pictures and docs read them here. Source: cutlass
include/cute/atom/mma_traits.hpp (the members of `MMA_Traits`); PTX ISA for the instructions.
"""

from __future__ import annotations

from cute_py.atoms.arch import holds, since
from cute_py.errors import refusal
from cute_py.layout.offsets import offset_grid
from cute_py.layout.queries import size
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from cute_py.dtypes.table import Dtype
    from cute_py.layout.layout import Layout

    Argument: TypeAlias = "str | int"
    Array: TypeAlias = Any  # a NumPy array


class Operand(Value):
    """The registers that each thread passes for one operand of an instruction.

    Attributes:
        count: number of registers.
        ptx_type: their PTX type: "b32", "f32", "s32", "f64", or "b64" for a shared-memory
            descriptor.
        vector: whether PTX writes them as a list in braces.

    >>> Operand(2, "b32").text(["%r1", "%r2"]), Operand(1, "b64", vector=False).text(["%rd1"])
    ('{%r1, %r2}', '%rd1')
    """

    __slots__ = ("count", "ptx_type", "vector")
    __match_args__ = ("count", "ptx_type", "vector")
    count: int
    ptx_type: str
    vector: bool

    def __init__(self, count: int, ptx_type: str, vector: bool = True) -> None:
        self.count = count
        self.ptx_type = ptx_type
        self.vector = vector

    def __repr__(self) -> str:
        form = "" if self.vector else ", vector=False"
        return f"Operand({self.count}, {self.ptx_type!r}{form})"

    @property
    def bits(self) -> int:
        """The width of all registers together (bits)."""
        return self.count * int(self.ptx_type[1:])

    @property
    def is_descriptor(self) -> bool:
        """Whether the operand is the descriptor of a tile in shared memory."""
        return self.ptx_type == "b64"

    def text(self, names: Sequence[str]) -> str:
        """Return the operand as PTX writes it.

        Args:
            names: one register (or placeholder) each.

        Raises:
            LayoutError: the number of names is not the number of registers.

        """
        if len(names) != self.count:
            raise refusal(
                "atom-operand",
                operation="MMA_Atom.instruction",
                given=len(names),
                count=self.count,
                ptx_type=self.ptx_type,
            )
        return "{" + ", ".join(names) + "}" if self.vector else names[0]


class MMA_Atom(Value):
    """One matrix multiply-accumulate, D = A B + C on a tile of M x N x K, by `thr_id`'s threads.

    Attributes:
        name: CuTe's name; with `args`, the name of its template.
        args: template arguments, such as the majors of a warpgroup instruction; () if all are
            defaults.
        shape_mnk: (M, N, K) of one instruction (elements).
        thr_id: logical thread -> thread of the warp or warpgroup (of the pair of CTAs, from SM100).
        a_tv: (thread, value) -> m + M k.
        b_tv: (thread, value) -> n + N k.
        c_tv: (thread, value) -> m + M n, for C and D.
        d_type, a_type, b_type, c_type: the value types.
        ptx: the instruction, with fields {d} {a} {b} {c} (and {scale_d}, {e}) for its operands;
            None if the backend uses arithmetic, or if the row is data without PTX.
        registers: the `Operand`s of D, A, B and C, for a sparse A also E; () without `ptx`.
        min_arch: the first architecture with the instruction; with suffix `a` also the only one.
        native: the architectures that have it in hardware.
        emulated: the architectures where ptxas replaces it with several slower instructions.
        source: the section of the PTX ISA, and CuTe's header.
        runnable: whether the emulator and the code generator may use it; if not, the row is data.
        operation: "fma", or "xor.popc" or "and.popc" for one-bit values.
        saturate: whether an integer result is clamped to the range of D instead of wrapping.
        a_memory, b_memory, c_memory: "rmem", "smem" (through a descriptor) or "tmem". In shared
            memory all threads have the whole tile: thread stride 0.
        major_a, major_b: the contiguous mode of a tile in shared memory, "K" or "MN"; "" for
            operands in registers.
        scale_a, scale_b: 1, or -1 to negate the operand.
        extra: further layouts by name: ("sfa_tv", ...), ("sfb_tv", ...); for a sparse A ("e_tv",
            ...), the elements that metadata describes, and ("stored_tv", ...), its stored half.

    Law: a_tv, b_tv and c_tv each cover every element of their tile, once unless threads share it
    (`atoms/lint.py`). Source: cutlass mma_traits.hpp.

    >>> import cute_py.atoms
    >>> atom = cute_py.atoms.SM80_16x8x16_F32BF16BF16F32_TN
    >>> print(atom.shape_mnk, atom.c_tv, atom.min_arch)
    (16, 8, 16) ((4,8),(2,2)):((32,1),(16,8)) sm_80
    >>> eval(repr(atom), {"cute": cute_py}) is atom
    True
    """

    name: str
    args: tuple[Argument, ...]
    shape_mnk: tuple[int, int, int]
    thr_id: Layout
    a_tv: Layout
    b_tv: Layout
    c_tv: Layout
    d_type: Dtype
    a_type: Dtype
    b_type: Dtype
    c_type: Dtype
    ptx: str | None
    registers: tuple[Operand, ...]
    min_arch: str
    native: tuple[str, ...]
    emulated: tuple[str, ...]
    source: str
    runnable: bool
    operation: str
    saturate: bool
    a_memory: str
    b_memory: str
    c_memory: str
    major_a: str
    major_b: str
    scale_a: int
    scale_b: int
    extra: tuple[tuple[str, Layout], ...]
    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        name: str,
        shape_mnk: tuple[int, int, int],
        thr_id: Layout,
        tv: tuple[Layout, Layout, Layout],
        types: tuple[Dtype, Dtype, Dtype, Dtype],
        *,
        min_arch: str,
        source: str,
        native: tuple[str, ...] | None = None,
        ptx: str | None = None,
        registers: tuple[Operand, ...] = (),
        args: tuple[Argument, ...] = (),
        runnable: bool = True,
        operation: str = "fma",
        saturate: bool = False,
        memories: tuple[str, str, str] = ("rmem", "rmem", "rmem"),
        majors: tuple[str, str] = ("", ""),
        scales: tuple[int, int] = (1, 1),
        extra: tuple[tuple[str, Layout], ...] = (),
    ) -> None:
        """Freeze a row.

        Args:
            name: CuTe's name; see the attributes of the class for details.
            shape_mnk: (M, N, K).
            thr_id: the thread layout.
            tv: the layouts of A, B and C.
            types: the value types of D, A, B and C, in PTX's order.
            min_arch: the first architecture.
            source: the source of the row.
            native: the architectures that have it in hardware; None: all from `min_arch` on.
            ptx: the instruction.
            registers: the registers of D, A, B and C.
            args: template arguments.
            runnable: False for a row of data.
            operation: the operation on a and b.
            saturate: clamp instead of wrapping.
            memories: the memories of A, B and C.
            majors: the majors of A and B.
            scales: the scales of A and B.
            extra: further layouts by name.

        """
        present = since(min_arch)
        native = present if native is None else native
        self.name, self.args, self.source = name, args, source
        self.shape_mnk, self.thr_id, self.extra = shape_mnk, thr_id, extra
        self.a_tv, self.b_tv, self.c_tv = tv
        self.d_type, self.a_type, self.b_type, self.c_type = types
        self.ptx, self.registers = ptx, registers
        self.min_arch, self.native, self.runnable = min_arch, native, runnable
        self.emulated = tuple([arch for arch in present if arch not in native])
        self.operation, self.saturate = operation, saturate
        self.a_memory, self.b_memory, self.c_memory = memories
        self.major_a, self.major_b = majors
        self.scale_a, self.scale_b = scales

    def _key(self) -> tuple[object, ...]:
        return tuple([getattr(self, field) for field in MMA_Atom.__slots__])

    def __hash__(self) -> int:
        return hash((self.name, self.args, self.shape_mnk))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy a row of the registry by name, any other row by its fields."""
        from cute_py.atoms.registry import get, registered

        if registered(self):
            return get, (str(self),)
        return _restore, ({field: getattr(self, field) for field in MMA_Atom.__slots__},)

    def __str__(self) -> str:
        """Return CuTe's name, with the template arguments that are not defaults."""
        return self.name + (f"<{','.join(str(arg) for arg in self.args)}>" if self.args else "")

    def __repr__(self) -> str:
        """Return text that evaluates to this row after `import cute_py as cute`."""
        return f"cute.atoms.get({str(self)!r})" if self.args else f"cute.atoms.{self.name}"

    def __call__(self, *args: Argument | Dtype, **named: Argument | Dtype) -> MMA_Atom:
        """Return the variant of a template with these arguments, in CuTe's order or by name.

        Raises:
            LayoutError: the atom is not a template, or the instruction does not allow the argument.

        >>> import cute_py.atoms
        >>> atom = cute_py.atoms.SM90_64x128x16_F32BF16BF16_SS(tnspB="MN")
        >>> print(atom, atom.major_a, atom.major_b)
        SM90_64x128x16_F32BF16BF16_SS<K,MN> K MN
        """
        from cute_py.atoms.registry import variant

        return variant(self.name, args, named)

    @property
    def num_threads(self) -> int:
        """The number of threads that execute it together."""
        return int(self.thr_id.size())

    @property
    def threads(self) -> tuple[int, ...]:
        """The thread of the warp or warpgroup for each logical thread, in order."""
        return tuple(self.thr_id(t) for t in range(self.num_threads))

    @property
    def values(self) -> tuple[int, int, int]:
        """The number of values of A, B and C per thread.

        >>> import cute_py.atoms
        >>> cute_py.atoms.SM80_16x8x16_F32BF16BF16F32_TN.values
        (8, 4, 4)
        """
        a, b, c = (int(size(tv, 1)) for tv in (self.a_tv, self.b_tv, self.c_tv))
        return a, b, c

    def table(self, operand: str) -> Array:
        """Return the elements of a tile that each thread has, as a NumPy array.

        Args:
            operand: "a", "b" or "c".

        Law: table("a")[thread, value] == a_tv(thread, value), that is m + M k; n + N k for B, and
        m + M n for C.

        >>> import cute_py.atoms
        >>> cute_py.atoms.SM80_16x8x8_F32F16F16F32_TN.table("b")[5].tolist()
        [17, 25]
        """
        return offset_grid(getattr(self, f"{operand}_tv")).reshape(self.num_threads, -1)

    @property
    def sparse(self) -> bool:
        """Whether A is sparse (`atoms/sparse.py`): the instruction takes half of it, and E."""
        return any(name == "e_tv" for name, _ in self.extra)

    def support(self, arch: str) -> str:
        """Return "native", "emulated" or "" (absent) for an architecture.

        Args:
            arch: "sm_80", "sm_90a", ...

        >>> import cute_py.atoms
        >>> fp8 = cute_py.atoms.SM89_16x8x32_F32E4M3E4M3F32_TN
        >>> fp8.support("sm_89"), fp8.support("sm_90a"), fp8.support("sm_80")
        ('native', 'emulated', '')
        """
        if holds(self.native, arch):
            return "native"
        return "emulated" if holds(self.emulated, arch) else ""

    def instruction(
        self,
        d: Sequence[str],
        a: Sequence[str],
        b: Sequence[str],
        c: Sequence[str] | None = None,
        scale_d: str = "p",
        e: Sequence[str] = (),
    ) -> str:
        """Return the PTX instruction with these operands, each a register or a placeholder.

        Args:
            d: the registers of D, as many as `registers[0].count`.
            a: the registers of A, or its descriptor.
            b: the registers of B, or its descriptor.
            c: the registers of C; None: those of D, the only choice for a warpgroup instruction.
            scale_d: for warpgroup instructions, the predicate for adding C.
            e: for a sparse A, the register of metadata.

        Raises:
            LayoutError: the row has no PTX text, or the number of registers is wrong.

        >>> import cute_py.atoms
        >>> cute_py.atoms.SM61_DP4A.instruction(["%r4"], ["%r1"], ["%r2"], ["%r3"])
        'dp4a.s32.s32 %r4, %r1, %r2, %r3;'
        """
        if self.ptx is None:
            raise refusal("atom-no-ptx", operation="MMA_Atom.instruction", atom=self)
        operands = (d, a, b, d if c is None else c, e)[: len(self.registers)]
        texts = [slot.text(names) for slot, names in zip(self.registers, operands, strict=True)]
        return self.ptx.format(**dict(zip("dabce", texts, strict=False)), scale_d=scale_d)


def require_argument(name: str, parameter: str, value: object, allowed: Sequence[Argument]) -> None:
    """Refuse a template argument that an atom does not allow.

    Raises:
        LayoutError: value is not in allowed.

    """
    if value not in allowed:
        raise refusal(
            "atom-argument",
            operation=name,
            parameter=parameter,
            value=value,
            allowed=" or ".join(str(each) for each in allowed),
        )


def _restore(fields: dict[str, object]) -> MMA_Atom:
    atom = MMA_Atom.__new__(MMA_Atom)
    for field, value in fields.items():
        setattr(atom, field, value)
    return atom
