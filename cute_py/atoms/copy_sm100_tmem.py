"""SM100 (Blackwell) copies between tensor memory and the registers of a warp: tcgen05.ld and .st.

Rows of data for exploration, not runnable. In CuTe's layouts every thread names the whole tensor
memory that the instruction covers (stride 0), and its own part of the registers. Source: PTX ISA,
"tcgen05.ld", "tcgen05.st"; cutlass include/cute/arch/copy_sm100.hpp, atom/copy_traits_sm100.hpp.
"""

from __future__ import annotations

from cute_py.atoms.copy import ADDRESS_32, WARP, Copy_Op
from cute_py.atoms.copy_sm100 import SOURCE
from cute_py.atoms.mma import Operand
from cute_py.layout.layout import Layout, make_layout
from cute_py.layout.modes import append

# shape -> (PTX shape, 32-bit registers per repetition, most repetitions)
_SHAPES = {
    "16dp256b": ("16x256b", 4, 32),
    "16dp128b": ("16x128b", 2, 64),
    "16dp64b": ("16x64b", 1, 128),
    "16dp32b": ("16x32bx2", 1, 128),
    "32dp32b": ("32x32b", 1, 128),
}


def _register_tv(shape: str, times: int) -> Layout:
    """Return (lane, bit of its registers) -> bit, in the order of tensor memory."""
    r = times
    if shape == "32dp32b":
        return Layout((32, 32 * r), (32 * r, 1))
    if shape == "16dp32b":  # two halves of the lanes take two runs of columns
        return Layout(((16, 2), 32 * r), ((64 * r, 32 * r), 1))
    if shape == "16dp64b":
        return _repeated(Layout((2, 2, 8), (512 * r, 32, 64 * r)), Layout(32), Layout(r, 64))
    if shape == "16dp128b":
        value = Layout((32, 2), (1, 1024 * r))
        return _repeated(Layout((4, 8), (32, 128 * r)), value, Layout(r, 128))
    value = Layout((64, 2), (1, 2048 * r))
    return _repeated(Layout((4, 8), (64, 256 * r)), value, Layout(r, 256))


def _repeated(threads: Layout, value: Layout, repetitions: Layout) -> Layout:
    if repetitions.size() > 1:
        value = append(value, repetitions)
    return make_layout(threads, value)


def _tensor_memory(kind: str, shape: str, times: int, halves: bool) -> Copy_Op:
    """Return the row of a load or a store of `times` repetitions of a shape."""
    ptx_shape, per_repetition, _ = _SHAPES[shape]
    register_tv = _register_tv(shape, times)
    memory_tv = Layout((32, 32 * register_tv[1].size()), (0, 1))
    load = kind != "STORE"
    return Copy_Op(
        name=f"SM100_TMEM_{kind}_{shape}{times}x{'_16b' if halves else ''}",
        thr_id=WARP,
        src_tv=memory_tv if load else register_tv,
        dst_tv=register_tv if load else memory_tv,
        ref_tv=memory_tv,
        src_space="tmem" if load else "rmem",
        dst_space="rmem" if load else "tmem",
        alignment_bits=32,
        min_arch="sm_100a",
        source=SOURCE.format(f"PTX ISA, tcgen05.{'ld' if load else 'st'}"),
        ptx=None if kind == "LOAD_STAT" else _ptx(load, ptx_shape, times, halves),
        operands=() if kind == "LOAD_STAT" else _operands(load, per_repetition * times),
        completion="tcgen05",
        runnable=False,
        note="16-bit values, two to a register" if halves else "",
    )


def _ptx(load: bool, shape: str, times: int, halves: bool) -> str:
    # 16x32bx2 names the distance of its two halves (columns); CuTe puts them side by side
    columns = 2 * times if halves else times
    apart = f", {columns}" if shape == "16x32bx2" else ""
    if load:
        packing = ".pack::16b" if halves else ""
        return f"tcgen05.ld.sync.aligned.{shape}.x{times}{packing}.b32 {{dst}}, [{{src}}]{apart};"
    packing = ".unpack::16b" if halves else ""
    return f"tcgen05.st.sync.aligned.{shape}.x{times}{packing}.b32 [{{dst}}]{apart}, {{src}};"


def _operands(load: bool, count: int) -> tuple[tuple[str, Operand], ...]:
    registers = Operand(count, "b32")
    return ("dst", registers if load else ADDRESS_32), ("src", ADDRESS_32 if load else registers)


def _repetitions(shape: str) -> list[int]:
    return [1 << i for i in range(8) if 1 << i <= _SHAPES[shape][2]]


ROWS = {
    row.name: row
    for row in (
        *(
            _tensor_memory(kind, shape, times, halves)
            for kind in ("LOAD", "STORE")
            for shape in _SHAPES
            for times in _repetitions(shape)
            for halves in (False, True)
        ),
        # loads that also reduce over the columns, of later headers
        *(
            _tensor_memory("LOAD_STAT", "32dp32b", times, False)
            for times in (2, 4, 8, 16, 32, 64, 128)
        ),
    )
}
