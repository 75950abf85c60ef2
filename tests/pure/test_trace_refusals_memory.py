"""Bodies for every refusal of memory, registers, copies and products in a kernel, which
test_refusals.py runs; and further cases of some.
"""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.kernel_refusals import raised, traced

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
    # right: total = x[0] + 1
    total = x + 1  # wrong
    x[0] = total


def kernel_space(f):
    # right: held = cute.rmem("f32", 4)
    # right: cute.copy(cute.local_tile(f, (4,), (0,)), held)
    # right: f[0] = cute.reduce("add", held)
    total = cute.reduce("add", cute.local_tile(f, (4,), (0,)))  # wrong  # here
    f[0] = total  # wrong


def vector_byte(nibbles):
    # right: held = cute.rmem("s4", 2)
    # right: cute.copy(cute.local_tile(nibbles, (2,), (0,)), held)
    # right: cute.copy(held, cute.local_tile(nibbles, (2,), (cute.thread_idx(),)))
    one = cute.local_tile(nibbles, (1,), (cute.thread_idx(),))  # wrong
    cute.copy(one, cute.rmem("s4", 1))  # wrong  # here


def pointer_type(x):
    # right: cute.make_ptr("f32", cute.as_int(x[0]), align=8)
    cute.make_ptr("f32", cute.as_int(x[0]), align=2)  # wrong


def kernel_compare(x):
    # right: cute.atomic("cas", cute.local_tile(x, (1,), (0,)), 1, compare=0)
    cute.atomic("add", cute.local_tile(x, (1,), (0,)), 1, compare=0)  # wrong


def kernel_size(f):
    # right: cute.local_tile(f, (4,), (cute.thread_idx(),)).fill(0)
    f.fill(0)  # wrong


def kernel_layout(h):
    swizzle = cute.Swizzle(2, 3, 3)
    atom = cute.make_composed_layout(swizzle, 0, cute.Layout((8, 8), (8, 1)))
    rows = cute.make_composed_layout(swizzle, 0, cute.Layout((8, 8), (h.shape[0], 1)))
    tile = cute.smem("f16", atom)
    # right: tile.fill(0)
    cute.make_tensor(tile.data, rows).fill(0)  # wrong


def register_index(x):
    held = cute.rmem("s32", 4)
    held.fill(0)
    # right: for k in range(4):
    for k in cute.range(4):  # wrong
        x[k] = held[k]  # here


def register_count(x):
    # right: cute.rmem("s32", 4).fill(0)
    # right: x[0] = 1
    cute.rmem("s32", x.shape[0])  # wrong


def register_range(x):
    held = cute.rmem("s32", 4)
    # right: held.domain_offset(0).fill(0)
    other = held.domain_offset(1)  # wrong
    other.fill(0)  # wrong  # here


def vector_count(f):
    # right: held = cute.rmem("f32", 8)
    held = cute.rmem("f32", 6)  # wrong
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")
    # right: cute.copy(wide, cute.local_tile(f, (8,), (0,)), held)
    cute.copy(wide, cute.local_tile(f, (6,), (0,)), held)  # wrong  # here


def vector_neighbours(a):
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
    wide = cute.Copy_Atom("UniversalCopy<128>", "f16")
    # right: cute.copy(wide, swizzled(3), cute.rmem("f16", 8))
    cute.copy(wide, swizzled(2), cute.rmem("f16", 8))  # wrong


def vector_extent(odd):
    row = cute.local_tile(odd, (1, 64), (0, 0))
    # right: cute.copy(row, cute.rmem("f32", (1, 64)))
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")  # wrong
    cute.copy(wide, row, cute.rmem("f32", (1, 64)))  # wrong  # here


def vector_alignment(f):
    wide = cute.Copy_Atom("UniversalCopy<128>", "f32")
    # right: part = cute.make_tensor(f.data.moved(4 * cute.thread_idx()), cute.Layout(4))
    part = cute.make_tensor(f.data.moved(cute.thread_idx()), cute.Layout(4))  # wrong
    cute.copy(wide, part, cute.rmem("f32", 4))  # here


def kernel_types(x, f):
    # right: f[0] = f[0] + x[0].to("f32")
    f[0] = f[0] + x[0]  # wrong


def kernel_domain(x):
    # right: x[0] = x[1] // 2
    x[0] = x[1] / 2  # wrong


def kernel_lack(f):
    held = cute.rmem("f32", 1)
    held.fill(1)
    # right: cute.copy(held, cute.local_tile(f, (1,), (0,)), cache="wb")
    cute.copy(held, cute.local_tile(f, (1,), (0,)), cache="ca")  # wrong


def kernel_number(x, f):
    # right: f[0] = x[1].to("f32") * 0.5
    x[0] = x[1] * 0.5  # wrong


def kernel_shapes(f):
    # right: a, b = cute.rmem("f32", (4, 2)), cute.rmem("f32", (4, 2))
    a, b = cute.rmem("f32", (4, 2)), cute.rmem("f32", (2, 4))  # wrong
    a.fill(0)
    b.fill(0)
    a += b  # here


def kernel_element(a):
    # right: a[3, 0] = 1.0
    a[3][0] = 1.0  # wrong


def kernel_as_int(x, f):
    # right: f[cute.as_int(x[0])] = 1.0
    f[cute.as_int(f[0])] = 1.0  # wrong


def table_entry(x):
    # right: x[cute.make_table([0, 4])[0] + cute.thread_idx()] = 1
    x[cute.make_table([cute.thread_idx(), 4])[0]] = 1  # wrong


def table_index(x):
    # right: x[cute.make_table([x.shape[0] - 1, 4])[cute.thread_idx() % 2]] = 1
    x[cute.make_table([x.shape[0] - 1, 4])[cute.thread_idx() + 2]] = 1  # wrong


def plan_tables(x):
    # right: table = cute.make_table([x.shape[0] // (k + 1) for k in range(256)])
    table = cute.make_table([x.shape[0] // (k + 1) for k in range(257)])  # wrong
    x[table[cute.thread_idx()]] = 1  # here


def kernel_promise(x):
    # right: cute.var(cute.as_int(x[0]), 4, 8)
    cute.var(cute.as_int(x[0]), 8, 4)  # wrong


def kernel_choice(x):
    # right: x[0] = cute.warp_reduce("add", x[1])
    x[0] = cute.warp_reduce("sum", x[1])  # wrong


def kernel_ptx(x):
    # right: x[0] = cute.inline_ptx("abs.s32 %0, %1;", "s32", x[1], emulate=abs_of)
    x[0] = cute.inline_ptx("ld.global.s32 %0, [%1];", "s32", x[1], emulate=abs_of)  # wrong


def abs_of(x):
    return abs(x)


def kernel_emulate(x):
    # right: x[0] = cute.inline_ptx("abs.s32 %0, %1;", "s32", x[1], emulate=abs_of)
    x[0] = cute.inline_ptx("abs.s32 %0, %1;", "s32", x[1], emulate=abs)  # wrong


def kernel_recast(flags):
    # right: held = cute.rmem("b1", 32)
    # right: cute.copy(cute.local_tile(flags, (32,), (0,)), held)
    # right: cute.copy(cute.recast(held, "u32"), cute.rmem("u32", 1))
    words = cute.recast(flags, "u32")  # wrong  # here
    cute.copy(cute.local_tile(words, (1,), (0,)), cute.rmem("u32", 1))  # wrong


def kernel_copy(f):
    held = cute.rmem("f32", 4)
    # right: atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    # right: cute.copy(atom, cute.local_tile(f, (4,), (0,)), held)
    cute.copy("UniversalCopy<32>", cute.local_tile(f, (4,), (0,)), held)  # wrong


def kernel_atom(h):
    # right: cute.copy(ASYNC, cute.local_tile(h, (1, 64), (0, 0)), cute.smem("f16", (1, 64)))
    atom = cute.Copy_Atom("SM90_BULK_COPY_G2S<1024>", "f16")  # wrong
    cute.copy(atom, h[0, _], cute.smem("f16", 64))  # wrong  # here


def kernel_pred(f):
    # right: held, flags = cute.rmem("f32", 4), cute.rmem("b1", 4)
    held, flags = cute.rmem("f32", 4), cute.rmem("b1", 3)  # wrong
    flags.fill(True)
    # right: atom = cute.Copy_Atom("UniversalCopy<32>", "f32")
    # right: cute.copy(atom, cute.local_tile(f, (4,), (0,)), held, pred=flags)
    cute.copy(cute.local_tile(f, (4,), (0,)), held, pred=flags)  # wrong  # here


def kernel_fill(h):
    tile = cute.local_tile(h, (1, 64), (0, 0))
    # right: cute.copy(ASYNC, tile, cute.smem("f16", (1, 64)))
    cute.copy(ASYNC, tile, cute.smem("f16", (1, 64)), fill=1.0)  # wrong


def copy_memory(h):
    # right: cute.copy(ASYNC, cute.local_tile(h, (1, 8), (0, 0)), cute.smem("f16", (1, 8)))
    cute.copy(ASYNC, cute.local_tile(h, (1, 8), (0, 0)), cute.rmem("f16", (1, 8)))  # wrong


def kernel_matrices(h):
    tile = cute.smem("f16", cute.Layout((16, 16), (16, 1)))
    tile.fill(0)
    # right: loader = cute.make_tiled_copy_A(LDSM, MMA).get_slice(cute.thread_idx())
    # right: fragment = MMA.get_slice(cute.thread_idx()).partition_fragment_A(tile)
    # right: cute.copy(LDSM, loader.partition_S(tile), loader.retile_D(fragment))
    cute.copy(LDSM, tile[cute.thread_idx() % 16, _], cute.rmem("f16", 8))  # wrong


def tiled_kind(h):
    # right: cute.gemm(MMA, *fragments())
    cute.gemm("SM80_16x8x16_F32F16F16F32_TN", *fragments())  # wrong


def kernel_fragment(h):
    # right: cute.gemm(MMA.atom, *fragments())
    acc, a, _b = fragments()  # wrong
    cute.gemm(MMA, acc, a, 1.0)  # wrong  # here


def operand_shape(h):
    # right: acc, a, b = fragments()
    acc, a, _b = fragments()  # wrong
    # right: cute.gemm(MMA, acc, a[_, _, 0], b[_, _, 0])
    cute.gemm(MMA, acc, a, a)  # wrong  # here


def kernel_operand_type(h):
    # right: cute.gemm(MMA, *fragments("f16"))
    cute.gemm(MMA, *fragments("bf16"))  # wrong


def test_an_asynchronous_copy_does_not_fill_in_a_negative_zero():
    def filled(h):
        tile = cute.local_tile(h, (1, 64), (0, 0))
        cute.copy(ASYNC, tile, cute.smem("f16", (1, 64)), fill=-0.0)

    assert raised(lambda: traced(filled)).code == "kernel-fill"


@pytest.mark.parametrize("fn", ["and", "or", "xor"])
def test_floats_have_no_bits_to_combine(fn):
    def combined(f):
        cute.atomic(fn, cute.local_tile(f, (1,), (0,)), 1.0)

    def reduced(f):
        held = cute.rmem("f32", 4)
        held.fill(1)
        f[0] = cute.reduce(fn, held)

    for body in (combined, reduced):
        assert raised(lambda body=body: traced(body)).code == "kernel-domain"


@pytest.mark.parametrize("wait", ["cp_async_wait", "tma_store_wait", "warpgroup_wait"])
def test_groups_that_may_be_pending_are_counted_from_zero(wait):
    for groups, code in ((-1, "kernel-choice"), (1.5, "leaf-type")):
        error = raised(lambda groups=groups: traced(lambda x: getattr(cute, wait)(groups)))
        assert error.code == code
        assert error.facts["operation"] == f"cute.{wait}"
    assert traced(lambda x: getattr(cute, wait)(0)).ops


@pytest.mark.parametrize(
    ("value", "code"), [(0, "kernel-choice"), (2**20, "kernel-choice"), (1.5, "leaf-type")]
)
def test_what_an_mbarrier_counts_fits_20_bits(value, code):
    assert raised(lambda: traced(lambda x: cute.mbarriers(1).init(value))).code == code
    if value:
        body = lambda x: cute.mbarriers(1).arrive_expect_tx(0, value)  # noqa: E731
        assert raised(lambda: traced(body)).code == code


@pytest.mark.parametrize("value", [0, 3, 2048])
def test_an_alignment_is_a_power_of_two_that_a_block_has(value):
    assert raised(lambda: traced(lambda x: cute.smem("f32", 32, value))).code == "kernel-choice"


@pytest.mark.parametrize("cluster", [0, 17, (4, 8)])
def test_a_cluster_has_one_to_sixteen_blocks(cluster):
    @cute.kernel
    def clustered():
        cute.launch(grid=(272, 8), block=32, cluster=cluster)

    assert raised(lambda: cute.trace(clustered)).code == "kernel-choice"


def ring_of(stages=3, **options):
    tile = cute.smem("f32", cute.Layout((128, 3)))
    return cute.pipeline(stages, **{"tiles": [tile]} | options)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda x: cute.pipeline(2, bytes=16).skip(-1), "kernel-choice"),
        (lambda x: cute.pipeline(2, bytes=16).advance(-1), "kernel-choice"),
        (lambda x: cute.pipeline(2, bytes=16, consumers=0), "kernel-choice"),
        (lambda x: cute.PipelineTmaStore().commit((x,)), "kernel-choice"),
        (lambda x: cute.tma_tensor(3), "not-a-tensor"),
        (lambda x: cute.tma_load(x, x, 3, 0), "kernel-choice"),
        (lambda x: cute.mbarriers(0), "kernel-choice"),
        (lambda x: cute.mbarriers(1).wait(0, 2), "kernel-choice"),
        (lambda x: cute.mbarriers(1).wait(0, cute.thread_idx() // 3), "kernel-choice"),
        (lambda x: list(cute.tiles(-1, 2)), "kernel-choice"),
        (lambda x: list(cute.tiles(2, 2, group=0)), "kernel-choice"),
        (lambda x: list(cute.tiles(2, 2, step=-1)), "kernel-choice"),
        (lambda x: list(cute.tiles(2, 2, depth=0)), "kernel-choice"),
        (lambda x: cute.fewest_blocks(10, 0), "kernel-choice"),
        (lambda x: ring_of(stages=3.0), "leaf-type"),
        (lambda x: ring_of(consumers=128.0), "kernel-choice"),
        (lambda x: ring_of(consumers="block"), "kernel-choice"),
        (lambda x: ring_of(count=0), "kernel-choice"),
        (lambda x: ring_of(tiles=(), bytes=2**20), "kernel-choice"),
        (lambda x: ring_of(bytes=256), "kernel-choice"),
        (lambda x: ring_of(cluster=(1, 1)), "pipeline-cluster"),
        (lambda x: ring_of().release(behind=None), "kernel-choice"),
        (lambda x: cute.pipeline(3).release(behind=1), "pipeline-tma"),
        (lambda x: cute.pipeline(3).tail(), "pipeline-tma"),
        (lambda x: cute.PipelineTmaStore(2.0), "leaf-type"),
        (lambda x: cute.PipelineTmaStore(1, 0), "kernel-choice"),
        (lambda x: cute.PipelineTmaStore(1, 64), "kernel-choice"),
        (lambda x: cute.PipelineTmaStore(1, 32, thread=3), "kernel-choice"),
        (lambda x: cute.mbarriers(1).arrive(1), "kernel-choice"),
        (lambda x: cute.mapa(cute.mbarriers(1), 1), "kernel-choice"),
        (lambda x: cute.mapa(cute.mapa(cute.mbarriers(1), 0), 0), "mapa-tensor"),
        (lambda x: cute.role(["load"], warps=0), "kernel-choice"),
        (lambda x: cute.role("load", warps=None), "role-warps"),
        (lambda x: cute.atomic("add", x[0], 1), "kernel-space"),
    ],
)
def test_what_rings_barriers_and_schedules_are_given_is_judged(call, code):
    assert raised(lambda: traced(call)).code == code


def test_integers_of_numpy_are_numbers_of_rings_roles_and_registers():
    def right(x):
        cute.launch(grid=1, block=128)
        ring_of(stages=np.int64(3), count=np.int32(2), cluster=np.int64(1), bytes=np.int64(512))
        ring_of(consumers=np.int64(128))
        cute.PipelineTmaStore(np.int64(2), np.int64(64))
        cute.setmaxnreg(np.int64(40), "dec")
        with cute.role("load", warps=np.int64(1)):
            x[0] = 1

    assert traced(right).ops


def test_wgmma_leaves_at_most_seven_groups_in_flight():
    assert raised(lambda: traced(lambda x: cute.warpgroup_wait(8))).code == "kernel-choice"


def test_a_rounding_is_one_of_the_host():
    error = raised(lambda: traced(lambda x: x[0].to("f16", rounding="up")))
    assert error.code == "rounding-unknown"
    assert traced(lambda x: x[0].to("f16", rounding="ru")).ops
