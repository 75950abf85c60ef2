"""`Copy_Op`, one row for each copy instruction, and `Copy_Atom`, a row with a value type.

A row maps (thread, value) to the bits that one instruction moves: `src_tv` for the source, `dst_tv`
for the destination. The order of the bits is arbitrary, but the same on both sides: a source bit
and a destination bit with the same number hold the same data. Source: cutlass
include/cute/atom/copy_traits.hpp, copy_atom.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.atoms.arch import holds, since
from cute_py.atoms.mma import Operand
from cute_py.dtypes.table import Dtype, dtype, int_type
from cute_py.errors import LayoutError, refusal
from cute_py.layout.algebra.recast import recast_layout
from cute_py.layout.layout import Layout
from cute_py.layout.offsets import offset_grid
from cute_py.layout.queries import size
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cute_py.atoms.mma import Array
    from cute_py.dtypes.table import DtypeLike

ONE_THREAD = Layout(1, 0)
WARP = Layout(32, 1)

ADDRESS_32 = Operand(1, "b32", vector=False)  # of shared memory
ADDRESS_64 = Operand(1, "b64", vector=False)  # of global memory, or of a tensor map
NUMBER_32 = Operand(1, "b32", vector=False)


@dataclass(frozen=True, slots=True, repr=False)
class Copy_Op:
    """One copy instruction.

    Attributes:
        name: CuTe's name.
        args: CuTe's template arguments, in bits; () if there are none.
        thr_id: logical thread -> thread index.
        src_tv: (thread, value) -> bit of the source. A stride 0 in the thread mode means that
            several threads have the same bits, or that their part is not read (ldmatrix .x1 takes
            its row addresses from threads 0 to 7 only).
        dst_tv: (thread, value) -> bit of the destination.
        ref_tv: (thread, value) -> bit of the side that defines the order of a TiledCopy (CuTe's
            RefLayout).
        src_space: memory of the source: gmem, smem, rmem, tmem, or any.
        dst_space: memory of the destination.
        alignment_bits: alignment of a thread's address in memory; rmem has no addresses.
        min_arch: the oldest architecture that has the instruction.
        source: the source of the row.
        ptx: the instruction, with fields for its operands; None if there is no single
            instruction (`UniversalCopy` before its memories are known).
        operands: the name of each field and its registers. In memory, `src` and `dst` are
            addresses: 32 bits in shared memory, 64 in global memory.
        completion: how to wait for the data: "immediate", "cp_async" (its groups), "mbarrier",
            "bulk_group", "tcgen05".
        runnable: False for rows that are data for exploration.
        note: a remark for the reader, or "".

    >>> from cute_py.atoms import get_copy
    >>> op = get_copy("SM75_U32x4_LDSM_N")
    >>> print(op, op.src_tv, op.dst_tv)
    SM75_U32x4_LDSM_N (32,128):(128,1) (32,(32,4)):(32,(1,1024))
    """

    name: str
    thr_id: Layout
    src_tv: Layout
    dst_tv: Layout
    ref_tv: Layout
    src_space: str
    dst_space: str
    alignment_bits: int
    min_arch: str
    source: str
    args: tuple[int, ...] = ()
    ptx: str | None = None
    operands: tuple[tuple[str, Operand], ...] = ()
    completion: str = "immediate"
    runnable: bool = True
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name}<{','.join(map(str, self.args))}>" if self.args else self.name

    def __repr__(self) -> str:
        from cute_py.atoms.registry import registered

        if registered(self):
            return f"cute.atoms.get_copy({str(self)!r})"
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"Copy_Op({values})"

    @property
    def num_threads(self) -> int:
        """The number of threads that execute one instruction together."""
        return int(size(self.thr_id))

    @property
    def adapts(self) -> bool:
        """Whether its width is chosen from the tensors (auto-vectorizing)."""
        return bool(self.src_tv.stride == (0, 0))

    @property
    def src_bits(self) -> int:
        """The number of bits of a thread's part of the source."""
        return int(size(self.src_tv, 1))

    @property
    def dst_bits(self) -> int:
        """The number of bits of a thread's part of the destination."""
        return int(size(self.dst_tv, 1))

    def table(self, side: str) -> Array:
        """Return the bits of each thread on one side, as a NumPy array.

        Args:
            side: "src", "dst" or "ref".

        Law: table("src")[thread, bit] == src_tv(thread, bit); the bits are numbered through the
        whole copy, in the same order on all sides.

        >>> from cute_py.atoms import get_copy
        >>> get_copy("SM75_U32x1_LDSM_N").table("dst")[5, ::16].tolist()
        [160, 176]
        """
        return offset_grid(getattr(self, f"{side}_tv")).reshape(self.num_threads, -1)

    @property
    def native(self) -> tuple[str, ...]:
        """The architectures that have the instruction; no copy is emulated."""
        return since(self.min_arch)

    @property
    def written(self) -> tuple[str, ...]:
        """The operands that the instruction writes: the destination, if it is registers."""
        names = (name for name, _ in self.operands if name.startswith("dst"))
        return tuple(names) if self.dst_space == "rmem" else ()

    def support(self, arch: str) -> str:
        """Return "native" or "" (absent) for an architecture.

        >>> from cute_py.atoms import get_copy
        >>> op = get_copy("SM90_U32x4_STSM_N")
        >>> op.support("sm_90a"), op.support("sm_80")
        ('native', '')
        """
        return "native" if holds(self.native, arch) else ""

    def instruction(self, **operands: Sequence[str]) -> str:
        """Return the PTX instruction with these operands, each a list of registers or placeholders.

        Args:
            operands: one for each entry of `operands`; also `guard`, one 32-bit register, to
                predicate the instruction: if it is 0, nothing is read or written.

        Raises LayoutError if the row has no single instruction, or if the operands do not match the
        row.

        >>> from cute_py.atoms.copy_sm80 import SM80_CP_ASYNC_CACHEGLOBAL
        >>> SM80_CP_ASYNC_CACHEGLOBAL().instruction(dst=["%r1"], src=["%rd1"])
        'cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;'
        >>> SM80_CP_ASYNC_CACHEGLOBAL().instruction(dst=["s"], src=["g"], guard=["n"])
        '{ .reg .pred p; setp.ne.b32 p, n, 0; @p cp.async.cg.shared.global.L2::128B [s], [g], 16; }'
        """
        if self.ptx is None:
            raise refusal("copy-no-ptx", operation="Copy_Op.instruction", op=self)
        guard = operands.pop("guard", None)
        wanted = {name: operand.count for name, operand in self.operands}
        if {name: len(names) for name, names in operands.items()} != wanted:
            given = {name: len(names) for name, names in operands.items()}
            raise refusal(
                "copy-operands",
                operation="Copy_Op.instruction",
                op=self,
                given=_counted(given),
                wanted=_counted(wanted),
            )
        text = self.ptx.format(**{name: o.text(operands[name]) for name, o in self.operands})
        return text if guard is None else guarded(text, guard[0])


def guarded(text: str, flag: str, unless: bool = False) -> str:
    """Return an instruction under a predicate.

    Args:
        text: the instruction.
        flag: a 32-bit register; the instruction runs if it is not 0.
        unless: negate the predicate.

    >>> guarded("trap;", "%r1", unless=True)
    '{ .reg .pred p; setp.eq.b32 p, %r1, 0; @p trap; }'
    """
    return f"{{ .reg .pred p; setp.{'eq' if unless else 'ne'}.b32 p, {flag}, 0; @p {text} }}"


def _counted(operands: dict[str, int]) -> str:
    return ", ".join(f"{name} of {count}" for name, count in operands.items()) or "none"


class Copy_Atom(Value):
    """A copy instruction and the type of the values that it moves.

    Args:
        op: a `Copy_Op`, or its name as text.
        dtype: the value type, or a width in bits (an unsigned type of that width).

    Attributes:
        src_tv: (thread, value) -> value of the source: `op.src_tv` in units of the value type
            (CuTe's ValLayoutSrc; also as `val_src_tv`).
        dst_tv: the same for the destination (ValLayoutDst; `val_dst_tv`).
        ref_tv: the same for the reference side (ValLayoutRef; `val_ref_tv`).

    Law: src_tv(t, v) == op.src_tv(t, v * bits) // bits for whole values. Raises LayoutError if a
    value would be split over several threads. Source: cutlass copy_atom.hpp `Copy_Atom`.

    >>> from cute_py.dtypes import f16
    >>> atom = Copy_Atom("SM75_U32x4_LDSM_N", f16)
    >>> print(atom, atom.src_tv, atom.dst_tv)
    Copy_Atom(SM75_U32x4_LDSM_N, f16) (32,8):(8,1) (32,(2,4)):(2,(1,64))
    """

    __slots__ = ("dst_tv", "dtype", "op", "ref_tv", "src_tv")
    __match_args__ = ("op", "dtype")
    op: Copy_Op
    dtype: Dtype
    src_tv: Layout
    dst_tv: Layout
    ref_tv: Layout

    def __init__(self, op: Copy_Op | str, dtype: DtypeLike | int) -> None:
        """Look up names, check, and convert the bit layouts to values."""
        if isinstance(op, str):
            from cute_py.atoms.registry import get_copy

            op = get_copy(op)
        if not isinstance(op, Copy_Op):
            raise refusal("copy-op", operation="Copy_Atom", value=op)
        value = value_type(dtype, "Copy_Atom")
        self.op = op
        self.dtype = value
        self.src_tv = _in_values(op, "src_tv", value)
        self.dst_tv = _in_values(op, "dst_tv", value)
        self.ref_tv = _in_values(op, "ref_tv", value)

    def __str__(self) -> str:
        return f"Copy_Atom({self.op}, {self.dtype})"

    def __repr__(self) -> str:
        from cute_py.atoms.registry import registered

        op = str(self.op) if registered(self.op) else self.op
        return f"Copy_Atom({op!r}, {self.dtype!r})"

    @property
    def thr_id(self) -> Layout:
        """Logical thread -> thread index."""
        return self.op.thr_id

    @property
    def val_src_tv(self) -> Layout:
        """The same as `src_tv`."""
        return self.src_tv

    @property
    def val_dst_tv(self) -> Layout:
        """The same as `dst_tv`."""
        return self.dst_tv

    @property
    def val_ref_tv(self) -> Layout:
        """The same as `ref_tv`."""
        return self.ref_tv

    @property
    def num_threads(self) -> int:
        """The number of threads that execute one instruction together."""
        return self.op.num_threads

    @property
    def num_values(self) -> int:
        """The number of values of a thread on the reference side."""
        return int(size(self.ref_tv, 1))

    @property
    def num_val_src(self) -> int:
        """The number of values of a thread in the source."""
        return int(size(self.src_tv, 1))

    @property
    def num_val_dst(self) -> int:
        """The number of values of a thread in the destination."""
        return int(size(self.dst_tv, 1))

    def require_whole_values(self, operation: str = "Copy_Atom") -> None:
        """Refuse an atom whose instruction does not move a whole number of values.

        CuTe builds this atom and fails when it is called, so building it is not an error here
        either; code that executes an atom calls this first. Raises LayoutError.

        >>> Copy_Atom("UniversalCopy<32>", "f16").require_whole_values()
        """
        bits = self.dtype.bits
        for side, moved in (("source", self.op.src_bits), ("destination", self.op.dst_bits)):
            if moved % bits and not self.op.adapts:
                raise refusal(
                    "copy-value-bits",
                    operation=operation,
                    op=self.op,
                    side=side,
                    moved=moved,
                    dtype=self.dtype,
                    bits=bits,
                )


def value_type(x: DtypeLike | int, operation: str) -> Dtype:
    """Return the dtype that x names; for an int, the unsigned integer of x bits.

    Raises DtypeError if there is none, and for void.

    >>> value_type(16, "Copy_Atom"), value_type("half_t", "Copy_Atom")
    (cute.u16, cute.f16)
    """
    found = int_type(x, signed=False) if type(x) is int else dtype(x)  # type: ignore[arg-type]
    if found.bits == 0:
        raise refusal("dtype-void", operation=operation)
    return found


def _in_values(op: Copy_Op, side: str, value: Dtype) -> Layout:
    """Return a bit layout of the row in values; refuse values that span threads."""
    bit_tv = getattr(op, side)
    try:
        layout: Layout = recast_layout(bit_tv, 1, value.bits)
    except LayoutError as error:
        raise _spread(op, side, value) from error
    if size(layout, 0) != op.num_threads:
        raise _spread(op, side, value)
    return layout


def _spread(op: Copy_Op, side: str, value: Dtype) -> Exception:
    return refusal(
        "copy-value-type",
        operation="Copy_Atom",
        op=op,
        side={"src_tv": "source", "dst_tv": "destination", "ref_tv": "reference"}[side],
        layout=getattr(op, side),
        dtype=value,
        bits=value.bits,
        most=_widest(getattr(op, side), op.num_threads),
    )


def _widest(bit_tv: Layout, threads: int) -> int:
    """Return the most bits (a power of two) that always stay in one thread and one value."""
    bits = 1
    while bits < 128:
        try:
            wider = recast_layout(bit_tv, 1, 2 * bits)
        except LayoutError:
            break
        if size(wider, 0) != threads:
            break
        bits *= 2
    return bits


def require_width(name: str, bits: object, widths: tuple[int, ...]) -> None:
    """Refuse a width that the instruction does not have."""
    if type(bits) is not int or bits not in widths:
        raise refusal("copy-width", operation=name, bits=bits, widths=" or ".join(map(str, widths)))


# -- rows of one kind


def of_one_thread(
    name: str, bits: int, spaces: tuple[str, str], min_arch: str, source: str, **more: Any
) -> Copy_Op:
    """Return the row of an instruction with which one thread moves contiguous bits from one memory
    to another; `more`: the other fields.
    """
    tv = Layout((1, bits), (0, 1))
    given = {"args": (bits,), "alignment_bits": bits, **more}
    return Copy_Op(name, ONE_THREAD, tv, tv, tv, *spaces, min_arch=min_arch, source=source, **given)


def between(registers: Operand, address: Operand, load: bool) -> tuple[tuple[str, Operand], ...]:
    """Return the operands of a load from memory to registers, or of a store."""
    return (
        ("dst", registers if load else address),
        ("src", address if load else registers),
    )
