"""Refusals of memory, registers, copies and products in a kernel."""

import cute_py as cute
from cute_py import _
from tests.kernel_refusals import traced

MMA = cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
LDSM = cute.Copy_Atom("SM75_U32x4_LDSM_N", "f16")
ASYNC = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f16")


def fragments(dtype="f16"):
    """Return filled (acc, a, b) of one instruction."""
    thread = MMA.get_slice(cute.thread_idx())
    acc = thread.make_fragment_C(thread.partition_C(cute.smem("f32", (16, 8))))
    a = cute.rmem(dtype, ((2, 2, 2), 1, 1))
    b = cute.rmem("f16", ((2, 2), 1, 1))
    for tensor in (acc, a, b):
        tensor.fill(0)
    return acc, a, b


def engine_arithmetic(x):
    """arithmetic is done on memory, not on registers"""
    # right: total = x[0] + 1
    total = x + 1  # wrong
    x[0] = total


def kernel_space(f):
    """a tensor is in another memory space than the operation needs"""
    # right: held = cute.rmem("f32", 4)
    # right: cute.copy(cute.local_tile(f, (4,), (0,)), held)
    # right: f[0] = cute.reduce("add", held)
    total = cute.reduce("add", cute.local_tile(f, (4,), (0,)))  # wrong  # here
    f[0] = total  # wrong


def vector_byte(nibbles):
    """packed elements are accessed that share a byte with others"""
    # right: held = cute.rmem("s4", 2)
    # right: cute.copy(cute.local_tile(nibbles, (2,), (0,)), held)
    # right: cute.copy(held, cute.local_tile(nibbles, (2,), (cute.thread_idx(),)))
    one = cute.local_tile(nibbles, (1,), (cute.thread_idx(),))  # wrong
    cute.copy(one, cute.rmem("s4", 1))  # wrong  # here


def pointer_type(x):
    """`make_ptr` of a run-time address has a type or an alignment that no load has"""
    # right: cute.make_ptr("f32", cute.as_int(x[0]), align=8)
    cute.make_ptr("f32", cute.as_int(x[0]), align=2)  # wrong


def kernel_compare(x):
    """`cute.atomic` has compare= without cas, or cas without compare="""
    # right: cute.atomic("cas", cute.local_tile(x, (1,), (0,)), 1, compare=0)
    cute.atomic("add", cute.local_tile(x, (1,), (0,)), 1, compare=0)  # wrong


def kernel_size(f):
    """a copy or assignment of one thread has no static size"""
    # right: cute.local_tile(f, (4,), (cute.thread_idx(),)).fill(0)
    f.fill(0)  # wrong


def kernel_layout(h):
    """a layout cannot be lowered to addresses"""
    swizzle = cute.Swizzle(2, 3, 3)
    atom = cute.make_composed_layout(swizzle, 0, cute.Layout((8, 8), (8, 1)))
    rows = cute.make_composed_layout(swizzle, 0, cute.Layout((8, 8), (h.shape[0], 1)))
    tile = cute.smem("f16", atom)
    # right: tile.fill(0)
    cute.make_tensor(tile.data, rows).fill(0)  # wrong


def register_index(x):
    """a run-time index selects a register"""
    held = cute.rmem("s32", 4)
    held.fill(0)
    # right: for k in range(4):
    for k in cute.range(4):  # wrong
        x[k] = held[k]  # here


def register_count(x):
    """a storage would have a run-time number of elements"""
    # right: cute.rmem("s32", 4).fill(0)
    # right: x[0] = 1
    cute.rmem("s32", x.shape[0])  # wrong


def register_range(x):
    """a register tensor exceeds its storage"""
    held = cute.rmem("s32", 4)
    # right: held.domain_offset(0).fill(0)
    other = held.domain_offset(1)  # wrong
    other.fill(0)  # wrong  # here


def vector_count(f):
    """the elements are not a whole number of vectors"""
    # right: held = cute.rmem("f32", 8)
    held = cute.rmem("f32", 6)  # wrong
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")
    # right: cute.copy(wide, cute.local_tile(f, (8,), (0,)), held)
    cute.copy(wide, cute.local_tile(f, (6,), (0,)), held)  # wrong  # here


def vector_neighbours(a):
    """the elements of a vector are not contiguous"""
    # right: row = cute.local_tile(a, (1, 4), (0, 0))
    column = cute.local_tile(a, (4, 1), (0, 0))  # wrong
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")
    # right: cute.copy(wide, row, cute.rmem("f32", (1, 4)))
    cute.copy(wide, column, cute.rmem("f32", (4, 1)))  # wrong  # here


def swizzled(base):
    layout = cute.make_composed_layout(cute.Swizzle(2, base, 3), 0, cute.Layout((8, 8), (8, 1)))
    tile = cute.smem("f16", layout)
    tile.fill(0)
    return tile[cute.thread_idx() % 8, _]


def vector_swizzle(h):
    """a vector would cross the chunks that a swizzle moves"""
    wide = cute.Copy_Atom("UniversalCopy<128>", "f16")
    # right: cute.copy(wide, swizzled(3), cute.rmem("f16", 8))
    cute.copy(wide, swizzled(2), cute.rmem("f16", 8))  # wrong


def vector_extent(odd):
    """a vector may be only partly inside an extent"""
    row = cute.local_tile(odd, (1, 64), (0, 0))
    # right: cute.copy(row, cute.rmem("f32", (1, 64)))
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")  # wrong
    cute.copy(wide, row, cute.rmem("f32", (1, 64)))  # wrong  # here


def vector_alignment(f):
    """a vector may be misaligned"""
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")
    # right: part = cute.make_tensor(f.data.moved(4 * cute.thread_idx()), cute.Layout(4))
    part = cute.make_tensor(f.data.moved(cute.thread_idx()), cute.Layout(4))  # wrong
    cute.copy(wide, part, cute.rmem("f32", 4))  # here


def kernel_types(x, f):
    """operands have two types"""
    # right: f[0] = f[0] + x[0].to("f32")
    f[0] = f[0] + x[0]  # wrong


def kernel_fit(x):
    """an integer expression surely has values that the type does not hold"""
    t = cute.thread_idx()
    # right: x[t] = (t + 2**40).to("s32", wrap=True)
    x[t] = t + 2**40  # wrong


def kernel_wrap(x, f):
    """`wrap=True` is asked for where no integer wraps"""
    # right: x[0] = f[0].to("s32")
    x[0] = f[0].to("s32", wrap=True)  # wrong


def kernel_domain(x):
    """a function is not defined for the type"""
    # right: x[0] = x[1] // 2
    x[0] = x[1] / 2  # wrong


def kernel_lack(f):
    """an op that no architecture has: its type, rounding or cache operator"""
    held = cute.rmem("f32", 1)
    held.fill(1)
    # right: cute.copy(held, cute.local_tile(f, (1,), (0,)), cache="wb")
    cute.copy(held, cute.local_tile(f, (1,), (0,)), cache="ca")  # wrong


def kernel_number(x, f):
    """a number is out of the range of the type, or a run-time parameter is not given a number"""
    # right: f[0] = x[1].to("f32") * 0.5
    x[0] = x[1] * 0.5  # wrong


def kernel_shapes(f):
    """the shapes of operands, or of the sides of a copy, do not match"""
    # right: a, b = cute.rmem("f32", (4, 2)), cute.rmem("f32", (4, 2))
    a, b = cute.rmem("f32", (4, 2)), cute.rmem("f32", (2, 4))  # wrong
    a.fill(0)
    b.fill(0)
    a += b  # here


def kernel_element(a):
    """a copy of one element is assigned to, as in C's `a[i][j] = x`"""
    # right: a[3, 0] = 1.0
    a[3][0] = 1.0  # wrong


def kernel_as_int(x, f):
    """`cute.as_int` is given something other than one integer in a register"""
    # right: f[cute.as_int(x[0])] = 1.0
    f[cute.as_int(f[0])] = 1.0  # wrong


def table_entry(x):
    """an entry of `cute.make_table` depends on more than the host knows"""
    # right: x[cute.make_table([0, 4])[0] + cute.thread_idx()] = 1
    x[cute.make_table([cute.thread_idx(), 4])[0]] = 1  # wrong


def table_index(x):
    """an index is outside a table of `cute.make_table`"""
    # right: x[cute.make_table([x.shape[0] - 1, 4])[cute.thread_idx() % 2]] = 1
    x[cute.make_table([x.shape[0] - 1, 4])[cute.thread_idx() + 2]] = 1  # wrong


def plan_tables(x):
    """the tables of a kernel, by `cute.make_table`, have more than 2 KB"""
    # right: table = cute.make_table([x.shape[0] // (k + 1) for k in range(256)])
    table = cute.make_table([x.shape[0] // (k + 1) for k in range(257)])  # wrong
    x[table[cute.thread_idx()]] = 1  # here


def kernel_promise(x):
    """no integer satisfies the promise of `cute.as_int` or `cute.var`"""
    # right: cute.var(cute.as_int(x[0]), 4, 8)
    cute.var(cute.as_int(x[0]), 8, 4)  # wrong


def kernel_choice(x):
    """a word is not one of the choices of an operation"""
    # right: x[0] = cute.warp_reduce("add", x[1])
    x[0] = cute.warp_reduce("sum", x[1])  # wrong


def kernel_ptx(x):
    """the text of `cute.inline_ptx` does more than compute in registers"""
    # right: x[0] = cute.inline_ptx("abs.s32 %0, %1;", "s32", x[1], emulate=abs_of)
    x[0] = cute.inline_ptx("ld.global.s32 %0, [%1];", "s32", x[1], emulate=abs_of)  # wrong


def abs_of(x):
    return abs(x)


def kernel_emulate(x):
    """the emulation of `cute.inline_ptx` is not a function"""
    # right: x[0] = cute.inline_ptx("abs.s32 %0, %1;", "s32", x[1], emulate=abs_of)
    x[0] = cute.inline_ptx("abs.s32 %0, %1;", "s32", x[1], emulate=abs)  # wrong


def kernel_recast(flags):
    """an array of one byte per sub-byte element is recast, or one to 6 bits"""
    # right: held = cute.rmem("b1", 32)
    # right: cute.copy(cute.local_tile(flags, (32,), (0,)), held)
    # right: cute.copy(cute.recast(held, "u32"), cute.rmem("u32", 1))
    words = cute.recast(flags, "u32")  # wrong  # here
    cute.copy(cute.local_tile(words, (1,), (0,)), cute.rmem("u32", 1))  # wrong


def kernel_copy(f):
    """`cute.copy` is given other arguments than (src, dst) or (atom, src, dst)"""
    held = cute.rmem("f32", 4)
    # right: atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    # right: cute.copy(atom, cute.local_tile(f, (4,), (0,)), held)
    cute.copy("UniversalCopy<32>", cute.local_tile(f, (4,), (0,)), held)  # wrong


def kernel_atom(h):
    """`cute.copy` is given an instruction that it does not support"""
    # right: cute.copy(ASYNC, cute.local_tile(h, (1, 64), (0, 0)), cute.smem("f16", (1, 64)))
    atom = cute.Copy_Atom("SM90_BULK_COPY_G2S<1024>", "f16")  # wrong
    cute.copy(atom, h[0, _], cute.smem("f16", 64))  # wrong  # here


def kernel_pred(f):
    """predicates do not fit a copy"""
    # right: held, flags = cute.rmem("f32", 4), cute.rmem("b1", 4)
    held, flags = cute.rmem("f32", 4), cute.rmem("b1", 3)  # wrong
    flags.fill(True)
    # right: atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    # right: cute.copy(atom, cute.local_tile(f, (4,), (0,)), held, pred=flags)
    cute.copy(cute.local_tile(f, (4,), (0,)), held, pred=flags)  # wrong  # here


def kernel_fill(h):
    """the fill of cp.async is not zero"""
    tile = cute.local_tile(h, (1, 64), (0, 0))
    # right: cute.copy(ASYNC, tile, cute.smem("f16", (1, 64)))
    cute.copy(ASYNC, tile, cute.smem("f16", (1, 64)), fill=1.0)  # wrong


def copy_memory(h):
    """a copy is made between other memories than the instruction has"""
    # right: cute.copy(ASYNC, cute.local_tile(h, (1, 8), (0, 0)), cute.smem("f16", (1, 8)))
    cute.copy(ASYNC, cute.local_tile(h, (1, 8), (0, 0)), cute.rmem("f16", (1, 8)))  # wrong


def kernel_matrices(h):
    """registers and row addresses of ldmatrix or stmatrix do not fit"""
    tile = cute.smem("f16", cute.Layout((16, 16), (16, 1)))
    tile.fill(0)
    # right: loader = cute.make_tiled_copy_A(LDSM, MMA).get_slice(cute.thread_idx())
    # right: fragment = MMA.get_slice(cute.thread_idx()).partition_fragment_A(tile)
    # right: cute.copy(LDSM, loader.partition_S(tile), loader.retile_D(fragment))
    cute.copy(LDSM, tile[cute.thread_idx() % 16, _], cute.rmem("f16", 8))  # wrong


def tiled_kind(h):
    """another tiled operation, or an MMA, is required"""
    # right: cute.gemm(MMA, *fragments())
    cute.gemm("SM80_16x8x16_F32F16F16F32_TN", *fragments())  # wrong


def operand_order(h):
    """fragments are given to `cute.gemm` in an order that contradicts what they were made for"""
    acc, a, b = fragments()
    # right: cute.gemm(MMA, acc, a, b)
    cute.gemm(MMA, a, b, acc)  # wrong


def kernel_modes(a):
    """an array has another number of modes than a kernel states"""
    # right: cute.assume_shapes("MN", a)
    cute.assume_shapes("MNK", a)  # wrong


def kernel_none(a):
    """None is given for an array that a kernel needs"""
    # right: cute.assume_shapes("MN N?", a, None)
    cute.assume_shapes("MN N", a, None)  # wrong


def kernel_letters(x, f):
    """`cute.assume_shapes` does not have a word for each array"""
    # right: cute.assume_shapes("M M", x, f)
    cute.assume_shapes("M", x, f)  # wrong


def kernel_fragment(h):
    """`cute.gemm` is given something other than a fragment"""
    # right: cute.gemm(MMA.atom, *fragments())
    acc, a, _b = fragments()  # wrong
    cute.gemm(MMA, acc, a, 1.0)  # wrong  # here


def operand_shape(h):
    """the fragments of a product do not match each other or the atom"""
    acc, a, b = fragments()
    b = cute.make_rmem_tensor(a.layout, "f16")  # wrong
    cute.gemm(MMA, acc, a, b)  # here


def kernel_operand_type(h):
    """a fragment has another type than the atom multiplies"""
    # right: cute.gemm(MMA, *fragments("f16"))
    cute.gemm(MMA, *fragments("bf16"))  # wrong


def wmma_fragment(h):
    """wmma is asked for shapes, types or tiles that its instructions do not have"""
    # right: cute.Wmma((16, 16, 16), "f32").fill(0.0)
    cute.Wmma((16, 16, 8), "f32").fill(0.0)  # wrong


def smem_address(h):
    """the address of something outside of shared memory is asked for"""
    # right: cute.smem_address(cute.smem("f16", 8))
    cute.smem_address(h)  # wrong


def semaphore_lock(f, x):
    """a semaphore is made of a word that is no s32 of global memory"""
    # right: cute.Semaphore(x).wait(0)
    cute.Semaphore(f).wait(0)  # wrong


run = traced
ROWS = ""
