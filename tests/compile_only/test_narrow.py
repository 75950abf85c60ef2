"""Elements below a byte: in an array each has a byte of its own, in registers and shared memory
they are packed. The emulator says so; here the emitted code does.
"""

import ctypes

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from llvmlite import ir

import cute_py as cute
from cute_py.codegen.emit import Emit
from cute_py.codegen.ops.memory import as_bytes, get_bytes, put_bytes
from cute_py.codegen.storage import I32
from cute_py.kernels.config import choose
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.plan.access import Access
from cute_py.plan.conditions import Reg

KINDS = ("b1", "s2", "u2", "s4", "u4", "e2m1")


def zeros(kind, *shape):
    kind = cute.dtype(kind)
    array = np.zeros(shape, kind.numpy)
    return array if cute.from_numpy(array.dtype) is kind else cute.typed(array, kind)


def memory(plan):
    """Return the instructions of a plan that touch memory, without operands and guards."""
    words = cute.compile(plan, "sm_80", 1 << 10).ptx.replace(";", " ").split()
    return [w for w in words if w.partition(".")[0] in ("ld", "st", "cp") and ".param" not in w]


# -- which instructions


@cute.kernel
def element(x, y):
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    y[i] = x[31 - i]


@cute.kernel
def tile(x, y):
    cute.launch(grid=1, block=8)
    here = (cute.thread_idx(),)
    cute.copy(cute.local_tile(x, (32,), here), cute.local_tile(y, (32,), here))


@pytest.mark.parametrize("kind", KINDS)
def test_one_element_is_one_byte(kind):
    x = zeros(kind, 32)
    plan = cute.trace(element, x, x)
    assert memory(plan) == ["ld.global.b8", "st.global.b8"]


@pytest.mark.parametrize(("kind", "count", "each"), [("b1", 8, "b32"), ("s4", 2, "v4.b32")])
def test_a_tile_is_moved_in_vectors_of_bytes(kind, count, each):
    """32 elements are 32 bytes, aligned as the 32 packed ones were promised to be."""
    x = zeros(kind, 256)
    moved = memory(cute.trace(tile, x, x))
    assert moved == [f"ld.global.{each}"] * count + [f"st.global.{each}"] * count


def test_a_column_of_flags_is_strided_by_bytes():
    x = zeros("b1", 32, 24)
    ptx = cute.compile(cute.trace(column, x, x), "sm_80").ptx
    assert "shr" not in ptx
    assert ptx.count("ld.global.b8") == ptx.count("st.global.b8") == 4
    offsets = [f"+{k}]" for k in range(0, 20, 5)]
    assert all(ptx.count(offset) >= 2 for offset in offsets)


@cute.kernel
def column(x, y):
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    for k in range(0, 20, 5):
        y[i, k] = x[i, k]


def test_asynchronous_copies_that_must_pack_go_through_registers():
    """cp.async moves bytes as they are; the matrix instruction wants them packed."""
    a, c = zeros("s4", 128, 128), np.zeros((128, 128), np.int32)
    plan = cute.trace(gemm_multistage, a, a, c, choose(a, a, (64, 64)))
    moved = set(memory(plan))
    assert "cp.async.cg.shared.global" not in " ".join(moved)
    assert {"ld.global.v4.b32", "st.shared.v4.b32"} <= moved


# -- which values: the emitted LLVM, run on this machine


def access(kind, width, count=1):
    table = tuple((0, width * v) for v in range(count))
    masks = tuple((v,) for v in range(count))
    return Access("gmem", "x", cute.dtype(kind), (0,), table, width, masks=masks, fill=1)


@pytest.mark.parametrize(
    ("kind", "width", "bytes_", "pieces"),
    [("b1", 128, 16, 8), ("b1", 4, 1, 4), ("s4", 32, 16, 2), ("s4", 1, 1, 1), ("u2", 16, 4, 4)],
)
def test_vectors_of_bytes_are_those_that_are_surely_aligned(kind, width, bytes_, pieces):
    x = access(kind, width, count=2)
    new = as_bytes(Emit(None, {}, {}, {}), x)
    assert (new.dtype, new.width, new.count) == (cute.u8, bytes_, 2 * pieces)
    assert [s for _b, s in new.table] == list(range(0, 2 * width, bytes_))
    assert new.masks == ((0,),) * pieces + ((1,),) * pieces


@pytest.mark.parametrize(("kind", "fill", "image"), [("b1", True, 1), ("b1", 2, 1), ("s4", -1, 15)])
def test_what_a_guarded_load_leaves_is_in_bytes_too(kind, fill, image):
    e = Emit(None, {}, {}, {})
    x = Access("gmem", "x", cute.dtype(kind), (0,), ((0, 0),), fill=fill)
    assert as_bytes(e, x).fill == image


def through(kind, count, loose=False):
    """Return a function of three addresses, of bytes that are given, packed words and bytes."""
    module = ir.Module()
    module.triple = llvm.get_default_triple()
    words = ir.PointerType(I32)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [words] * 3), "through")
    b = ir.IRBuilder(function.append_basic_block())
    given, packed, back = function.args
    dtype = cute.dtype(kind)
    n = count if loose else -(-count * dtype.bits // 32)
    e = Emit(b, {}, {"r": [ir.Constant(I32, 0)] * n}, {}, loose=frozenset(["r"] if loose else []))
    reg = Reg("r", dtype, tuple(range(count)))

    def at(pointer, k):
        return b.gep(pointer, [ir.Constant(I32, k)])

    put_bytes(e, reg, 0, count, [b.load(at(given, k)) for k in range(-(-count // 4))])
    for k, word in enumerate(e.words.words["r"]):
        b.store(word, at(packed, k))
    for k, word in enumerate(get_bytes(e, reg, 0, count)):
        b.store(word, at(back, k))
    b.ret_void()
    return module


def run(module, *arrays):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target) as engine:
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))
        kind(engine.get_function_address("through"))(*[x.ctypes.data for x in arrays])


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_packed_as_the_emulator_packs_them_and_come_back(kind):
    dtype = cute.dtype(kind)
    values = np.random.default_rng(0).integers(0, 1 << dtype.bits, 64)
    held = np.asarray(cute.decode(values, dtype)).astype(dtype.numpy)
    packed, back = np.zeros(64 * dtype.bits // 32, np.uint32), np.zeros(64, np.uint8)
    run(through(kind, 64), held.view(np.uint8), packed, back)
    digits = values.reshape(-1, 32 // dtype.bits).astype(np.uint64)
    shifts = np.arange(0, 32, dtype.bits, dtype=np.uint64)
    np.testing.assert_array_equal(packed, (digits << shifts).sum(1))
    np.testing.assert_array_equal(back, held.view(np.uint8))


def test_flags_with_words_of_their_own_are_read_from_bytes_too():
    held, back = np.array([0, 1, 255, 2, 0], np.uint8), np.zeros(8, np.uint8)
    words = np.zeros(5, np.uint32)
    run(through("b1", 5, loose=True), np.pad(held, (0, 3)), words, back)
    np.testing.assert_array_equal(words, [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(back, [0, 1, 1, 1, 0, 0, 0, 0])


def test_elements_that_no_byte_divides_into_are_refused():
    """e2m3: six bits."""
    x = np.zeros(32, ml_dtypes.float6_e2m3fn)
    with pytest.raises(cute.CuteError) as caught:
        cute.compile(cute.trace(element, x, x), "sm_80")
    assert caught.value.code == "codegen-op"
    assert "e2m3 elements in global memory" in str(caught.value)


@pytest.mark.parametrize("kind", ["e3m2", "e2m3"])
@pytest.mark.parametrize("write", [False, True], ids=["read", "written"])
def test_registers_of_six_bits_are_refused_by_name(kind, write):
    """Sixteen of them fill three words, and some straddle two."""

    @cute.kernel
    def recast(x):
        cute.launch(grid=1, block=32)
        words = cute.rmem("u32", 3)
        words.fill(1)
        held = cute.recast(words, kind)
        if write:
            held[5] = 1.0
        else:
            words = cute.recast(held.to("f32"), "u32")
        x[0] = words.to("f32")[1]

    with pytest.raises(cute.CuteError, match="a register of 6-bit elements") as caught:
        cute.compile(cute.trace(recast, np.ones(4, np.float32)), "sm_90a")
    assert caught.value.code == "codegen-op"
