"""Refusals of Hopper's instructions, clusters, roles, pipelines and main loops."""

import cute_py as cute
from cute_py import _
from tests.kernel_refusals import traced


def tma_bits(x, nibbles):
    """elements of less than a byte are to be copied by TMA"""
    # right: cute.tma_tensor(x)
    cute.tma_tensor(nibbles)  # wrong


def tma_kernel_tile(h):
    """TMA is given something other than a tile of a tensor in coordinates"""
    # right: tile = cute.smem("f16", cute.Layout((64, 64), (64, 1)))
    tile = cute.smem("f16", (64, 64))  # wrong
    bar = cute.mbarriers(1)
    # right: cute.tma_load(cute.local_tile(cute.tma_tensor(h), (64, 64), (0, 0)), tile, bar, 0)
    cute.tma_load(cute.make_tensor(h.data, (64, 64)), tile, bar, 0)  # wrong  # here


def tma_kernel_box(h):
    """a tile is not a box that TMA can copy"""
    # right: tile = cute.smem("f16", cute.Layout((512, 64), (64, 1)))
    tile = cute.smem("f16", cute.Layout((512, 64), (1, 512)))  # wrong
    bar = cute.mbarriers(1)
    cute.tma_load(cute.local_tile(cute.tma_tensor(h), (512, 64), (0, 0)), tile, bar, 0)  # here


def tma_im2col(image):
    """TMA cannot step over the pixels of a convolution"""
    # right: cute.tma_im2col(image, (3, 3), padding=1)
    cute.tma_im2col(image, (3, 3), padding=200)  # wrong


def swizzled_tile(alignment):
    """Shared memory of a swizzled tile, after a byte of something else."""
    cute.smem("u8", 1, 1)
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    return cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), alignment)


def plan_box(h):
    """a box of TMA begins in the middle of its swizzle's pattern"""
    # right: bar, shared = cute.mbarriers(1), swizzled_tile(1024)
    bar, shared = cute.mbarriers(1), swizzled_tile(128)  # wrong
    cute.tma_load(cute.local_tile(cute.tma_tensor(h), (64, 64), (0, 0)), shared, bar, 0)  # here


def product_of(shared):
    """Return what a product of a tile with itself is given, and its sums."""
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    thr = mma.get_slice(0)
    acc = cute.rmem("f32", thr.partition_C(shared).layout.shape)
    return mma, acc, thr.partition_A(shared), thr.partition_B(shared), False


def plan_descriptor(x):
    """a descriptor of wgmma leads to other elements than the layout"""
    # right: cute.warpgroup_gemm(*product_of(swizzled_tile(1024)))
    cute.warpgroup_gemm(*product_of(swizzled_tile(128)))  # wrong


def kernel_registers(x):
    """`cute.setmaxnreg` is given an impossible number"""
    cute.launch(grid=1, block=128)
    # right: cute.setmaxnreg(104, "dec")
    cute.setmaxnreg(100, "dec")  # wrong


def mapa_tensor(x):
    """`cute.mapa` is given something other than shared memory of the block"""
    cute.launch(grid=2, block=32, cluster=2)
    # right: cute.mapa(cute.smem("f32", 32), 1)
    cute.mapa(x, 1)  # wrong


def mapa_operand(x):
    """an instruction that reaches no other block is given its shared memory"""
    cute.launch(grid=2, block=32, cluster=2)
    # right: cute.wait_until(cute.smem("s32", 1), "eq", 1)
    there = cute.mapa(cute.smem("s32", 1), 1)  # wrong
    cute.wait_until(there, "eq", 1)  # wrong  # here


def mapa_own(x):
    """mbarriers of another block are initialized or waited at"""
    cute.launch(grid=2, block=32, cluster=2)
    # right: cute.mbarriers(1).wait(0, 0)
    cute.mapa(cute.mbarriers(1), 1 - cute.cluster_rank()).wait(0, 0)  # wrong


def of_warpgroups():
    """What a main loop takes for warpgroup products, and the ring."""
    mma = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64, 2)), 1024) for n in (64, 8))
    ring = cute.pipeline(2, bytes=64)
    thr = mma.get_slice(cute.thread_idx())
    acc = thr.make_fragment_C(thr.partition_C(cute.smem("f32", (64, 8))))
    acc.fill(0)
    a, b = (cute.Operand(Nothing("mbarrier"), s) for s in (sA, sB))
    return (mma, acc, a, b), ring


def mainloop_warpgroups(x):
    """`cute.mainloop` is to fill the ring of warpgroup products"""
    cute.launch(grid=1, block=128)
    taken, ring = of_warpgroups()
    # right: cute.mainloop(*taken, count=1, ring=ring, fill=False)
    cute.mainloop(*taken, count=1, ring=ring)  # wrong


def role_warps(x):
    """`cute.role` is given something other than warps of the block"""
    cute.launch(grid=1, block=256)
    # right: with cute.role("load", warps=range(4, 8)):
    with cute.role("load", warps=range(128, 256)):  # wrong
        cute.syncwarp()


def role_overlap(x):
    """two roles share warps"""
    cute.launch(grid=1, block=256)
    with cute.role("multiply", warps=range(4)):
        cute.syncwarp()
    # right: with cute.role("load", warps=range(4, 8)):
    with cute.role("load", warps=range(3, 8)):  # wrong
        cute.syncwarp()


def role_name(x):
    """two roles of one name differ in warps or registers"""
    cute.launch(grid=1, block=256)
    with cute.role("load", warps=0):
        cute.syncwarp()
    # right: with cute.role("store", warps=1):
    with cute.role("load", warps=1):  # wrong
        cute.syncwarp()


def role_warpgroups(x):
    """part of a warpgroup sets registers, or issues warpgroup products"""
    cute.launch(grid=1, block=256)
    # right: with cute.role("load", warps=range(4, 8), registers=40):
    with cute.role("load", warps=range(4, 7), registers=40):  # wrong
        cute.syncwarp()


def role_nested(x):
    """a role begins inside another one"""
    cute.launch(grid=1, block=256)
    # right: with cute.role("multiply", warps=range(4)) as me, cute.when(me.thread < 64):
    with cute.role("multiply", warps=range(4)), cute.role("load", warps=range(4, 8)):  # wrong
        x[0] = 1


def role_outside(x):
    """a thread of the role is elected outside a role"""
    # right: with cute.role("store", warps=0), cute.elect("role"):
    with cute.elect("role"):  # wrong
        x[0] = 1


def pipeline_tiles(x):
    """the tiles of a TMA pipeline have another number of stages, or are elsewhere"""
    # right: cute.pipeline(3, tiles=[cute.smem("f16", (64, 64, 3))])
    cute.pipeline(3, tiles=[cute.smem("f16", (64, 64, 2))])  # wrong


def pipeline_cluster(x):
    """a TMA pipeline loads for other blocks than those of the cluster"""
    cute.launch(grid=4, block=128, cluster=2)
    # right: cute.pipeline(2, tiles=[cute.smem("f16", (64, 64, 2))], cluster=2)
    cute.pipeline(2, tiles=[cute.smem("f16", (64, 64, 2))], cluster=4)  # wrong


def pipeline_fill(x):
    """a TMA pipeline is filled by copies that do not complete on mbarriers"""
    ring = cute.pipeline(2, bytes=32)
    with cute.elect():
        # right: ring.fill(0, Nothing("mbarrier"))
        ring.fill(0, Nothing())  # wrong


def pipeline_release(x):
    """a stage is released by threads without the first one of the consumer"""
    cute.launch(grid=1, block=128)
    # right: ring = cute.pipeline(2, bytes=32, consumers="warp", count=2)
    ring = cute.pipeline(2, bytes=32, consumers="warpgroup")  # wrong
    with cute.role("multiply", warps=range(1, 3)):
        ring.release()  # here


def pipeline_tma(x):
    """a ring that cp.async fills is to be filled by TMA"""
    # right: ring = cute.pipeline(2, bytes=32)
    with cute.elect():
        # right: ring.fill(0, Nothing("mbarrier"))
        cute.pipeline(2).fill(0, Nothing("mbarrier"))  # wrong


def mainloop_kind(x):
    """`cute.mainloop` is given something other than operands"""
    cute.launch(grid=1, block=128)
    (mma, acc, a, b), ring = of_warpgroups()
    # right: cute.mainloop(mma, acc, a, b, count=1, ring=ring, fill=False)
    cute.mainloop(mma, acc, a.source, b, count=1, ring=ring, fill=False)  # wrong


def mainloop_tiles(h):
    """tiles of an operand lack the mode that counts them, or are elsewhere"""
    # right: tiles = cute.local_tile(cute.tma_tensor(h), (64, 64), (0, _))
    tile = cute.local_tile(cute.tma_tensor(h), (64, 64), (0, 0))  # wrong
    # right: cute.TmaTiles(tiles, cute.smem("f16", (64, 64, 2)))
    cute.TmaTiles(tile, cute.smem("f16", (64, 64, 2)))  # wrong  # here


def pipeline_stages(x):
    """a pipeline has fewer than two stages, or A and B have different numbers"""
    # right: cute.pipeline(2)
    cute.pipeline(1)  # wrong


def kernel_barrier(x):
    """a named barrier has an id or number of threads that hardware lacks"""
    # right: cute.named_barrier(1, 32)
    cute.named_barrier(1, 48)  # wrong


class Nothing:
    """An iterator over tiles that copies nothing."""

    bytes = 32

    def __init__(self, completion="cp_async"):
        self.completion = completion

    def begin(self, tile):
        pass

    def fill(self, stage, full=None):
        pass


def operands(completion="cp_async", sums="f32"):
    """What a main loop takes for scalar products, 32 along K."""
    mma = cute.make_tiled_mma(f"UniversalFMA<{sums},f16,f16,{sums}>", (1, 1, 32))
    acc = cute.rmem(sums, (1, 1, 1))
    acc.fill(0)
    x = cute.Operand(Nothing(completion), cute.smem("f16", (1, 32, 2)))
    return mma, acc, x, x


def mainloop_operand(h):
    """an operand of `cute.mainloop` is neither tiles nor an iterator"""
    # right: cute.Operand(Nothing(), cute.smem("f16", (1, 32, 2)))
    cute.Operand(cute.local_tile(h, (1, 32), (0, _)), cute.smem("f16", (1, 32, 2)))  # wrong


def mainloop_clear(h):
    """the main loop is to fill some tiles with zeros, by an instruction that fills none"""
    mma, acc, _x, _y = operands()
    tiles = cute.local_tile(h, (1, 64), (0, _))
    # right: atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<32>", "f16")
    atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "f16")  # wrong
    load = cute.make_tiled_copy(atom, cute.Layout((1, 32), (32, 1)), cute.Layout((1, 2)))
    held = cute.smem("f16", cute.Layout((1, 64, 2), (64, 1, 64)))
    x = cute.Operand(tiles, held, load)
    cute.mainloop(mma, acc, x, x, count=1, clear="none")  # here


def mainloop_count(x):
    """neither `cute.mainloop` nor an iterator says how many tiles there are"""
    # right: cute.mainloop(*operands(), count=1)
    cute.mainloop(*operands())  # wrong


def mainloop_ring(x):
    """operands of `cute.mainloop` complete in ways that do not fit together"""
    # right: ring = cute.pipeline(2, bytes=64, consumers=32)
    # right: cute.mainloop(*operands("mbarrier"), count=1, ring=ring)
    cute.mainloop(*operands("mbarrier"), count=1)  # wrong


def mainloop_sums(x):
    """sums of atoms along K do not fit in the stages of an operand"""
    # right: cute.mainloop(*operands(), count=1)
    cute.mainloop(*operands(sums="f64"), count=1)  # wrong


run = traced
ROWS = ""
