"""Bodies and calls for every refusal of arguments, Hopper instructions, pipelines and saved plans,
which test_refusals.py runs; and further cases of some.
"""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.plan.serial import dumps, loads
from cute_py.trace.formulas import formula
from tests.kernel_refusals import ARRAYS, marked_line, raised, traced
from tests.kernel_refusals import require_teaching as teaches


def tma_bits(x, nibbles):
    # right: cute.tma_tensor(x)
    cute.tma_tensor(nibbles)  # wrong


def tma_kernel_tile(h):
    # right: tile = cute.smem("f16", cute.Layout((64, 64), (64, 1)))
    tile = cute.smem("f16", (64, 64))  # wrong
    bar = cute.mbarriers(1)
    # right: cute.tma_load(cute.local_tile(cute.tma_tensor(h), (64, 64), (0, 0)), tile, bar, 0)
    cute.tma_load(cute.make_tensor(h.data, (64, 64)), tile, bar, 0)  # wrong  # here


def tma_kernel_box(h):
    # right: tile = cute.smem("f16", cute.Layout((512, 64), (64, 1)))
    tile = cute.smem("f16", cute.Layout((512, 64), (1, 512)))  # wrong
    bar = cute.mbarriers(1)
    cute.tma_load(cute.local_tile(cute.tma_tensor(h), (512, 64), (0, 0)), tile, bar, 0)  # here


def tma_im2col(image):
    # right: cute.tma_im2col(image, (3, 3), padding=1)
    cute.tma_im2col(image, (3, 3), padding=200)  # wrong


def swizzled_tile(alignment):
    """Shared memory of a swizzled tile, after a byte of something else."""
    cute.smem("u8", 1, 1)
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    return cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), alignment)


def plan_box(h):
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
    # right: cute.warpgroup_gemm(*product_of(swizzled_tile(1024)))
    cute.warpgroup_gemm(*product_of(swizzled_tile(128)))  # wrong


def kernel_registers(x):
    cute.launch(grid=1, block=128)
    # right: cute.setmaxnreg(104, "dec")
    cute.setmaxnreg(100, "dec")  # wrong


def mapa_tensor(x):
    cute.launch(grid=2, block=32, cluster=2)
    # right: cute.mapa(cute.smem("f32", 32), 1)
    cute.mapa(x, 1)  # wrong


def mapa_operand(x):
    cute.launch(grid=2, block=32, cluster=2)
    # right: cute.wait_until(cute.smem("s32", 1), "eq", 1)
    there = cute.mapa(cute.smem("s32", 1), 1)  # wrong
    cute.wait_until(there, "eq", 1)  # wrong  # here


def mapa_own(x):
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
    cute.launch(grid=1, block=128)
    taken, ring = of_warpgroups()
    # right: cute.mainloop(*taken, count=1, ring=ring, fill=False)
    cute.mainloop(*taken, count=1, ring=ring)  # wrong


def role_warps(x):
    cute.launch(grid=1, block=256)
    # right: with cute.role("load", warps=range(4, 8)):
    with cute.role("load", warps=range(128, 256)):  # wrong
        cute.syncwarp()


def role_overlap(x):
    cute.launch(grid=1, block=256)
    with cute.role("multiply", warps=range(4)):
        cute.syncwarp()
    # right: with cute.role("load", warps=range(4, 8)):
    with cute.role("load", warps=range(3, 8)):  # wrong
        cute.syncwarp()


def role_name(x):
    cute.launch(grid=1, block=256)
    with cute.role("load", warps=0):
        cute.syncwarp()
    # right: with cute.role("store", warps=1):
    with cute.role("load", warps=1):  # wrong
        cute.syncwarp()


def role_warpgroups(x):
    cute.launch(grid=1, block=256)
    # right: with cute.role("load", warps=range(4, 8), registers=40):
    with cute.role("load", warps=range(4, 7), registers=40):  # wrong
        cute.syncwarp()


def role_nested(x):
    cute.launch(grid=1, block=256)
    # right: with cute.role("multiply", warps=range(4)) as me, cute.when(me.thread < 64):
    with cute.role("multiply", warps=range(4)), cute.role("load", warps=range(4, 8)):  # wrong
        x[0] = 1


def role_outside(x):
    # right: with cute.role("store", warps=0), cute.elect("role"):
    with cute.elect("role"):  # wrong
        x[0] = 1


def pipeline_tiles(x):
    # right: cute.pipeline(3, tiles=[cute.smem("f16", (64, 64, 3))])
    cute.pipeline(3, tiles=[cute.smem("f16", (64, 64, 2))])  # wrong


def pipeline_cluster(x):
    cute.launch(grid=4, block=128, cluster=2)
    # right: cute.pipeline(2, tiles=[cute.smem("f16", (64, 64, 2))], cluster=2)
    cute.pipeline(2, tiles=[cute.smem("f16", (64, 64, 2))], cluster=4)  # wrong


def pipeline_fill(x):
    ring = cute.pipeline(2, bytes=32)
    with cute.elect():
        # right: ring.fill(0, Nothing("mbarrier"))
        ring.fill(0, Nothing())  # wrong


def pipeline_release(x):
    cute.launch(grid=1, block=128)
    # right: ring = cute.pipeline(2, bytes=32, consumers="warp", count=2)
    ring = cute.pipeline(2, bytes=32, consumers="warpgroup")  # wrong
    with cute.role("multiply", warps=range(1, 3)):
        ring.release()  # here


def pipeline_tma(x):
    # right: ring = cute.pipeline(2, bytes=32)
    with cute.elect():
        # right: ring.fill(0, Nothing("mbarrier"))
        cute.pipeline(2).fill(0, Nothing("mbarrier"))  # wrong


def mainloop_kind(x):
    cute.launch(grid=1, block=128)
    (mma, acc, a, b), ring = of_warpgroups()
    # right: cute.mainloop(mma, acc, a, b, count=1, ring=ring, fill=False)
    cute.mainloop(mma, acc, a.source, b, count=1, ring=ring, fill=False)  # wrong


def mainloop_tiles(h):
    # right: tiles = cute.local_tile(cute.tma_tensor(h), (64, 64), (0, _))
    tile = cute.local_tile(cute.tma_tensor(h), (64, 64), (0, 0))  # wrong
    # right: cute.TmaTiles(tiles, cute.smem("f16", (64, 64, 2)))
    cute.TmaTiles(tile, cute.smem("f16", (64, 64, 2)))  # wrong  # here


def pipeline_stages(x):
    # right: cute.pipeline(2)
    cute.pipeline(1)  # wrong


def kernel_barrier(x):
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
    # right: cute.Operand(Nothing(), cute.smem("f16", (1, 32, 2)))
    cute.Operand(cute.local_tile(h, (1, 32), (0, _)), cute.smem("f16", (1, 32, 2)))  # wrong


def mainloop_count(x):
    # right: cute.mainloop(*operands(), count=1)
    cute.mainloop(*operands())  # wrong


def mainloop_ring(x):
    # right: ring = cute.pipeline(2, bytes=64, consumers=32)
    # right: cute.mainloop(*operands("mbarrier"), count=1, ring=ring)
    cute.mainloop(*operands("mbarrier"), count=1)  # wrong


def mainloop_sums(x):
    # right: cute.mainloop(*operands(), count=1)
    cute.mainloop(*operands(sums="f64"), count=1)  # wrong


# -- calls


@cute.kernel
def first(x):
    cute.launch(grid=1, block=32)
    x[0] = x[1]


@cute.kernel
def number(x, n: cute.s32):
    cute.launch(grid=1, block=32)
    x[0] = n


@cute.kernel
def floats(x: cute.f32):
    cute.launch(grid=1, block=32)
    x[0] = 1.0


@cute.kernel
def promised(x: cute.spec(divisible_by=8, shape=(None, 48))):
    cute.launch(grid=1, block=32)
    x[0, 0] = 1.0


class Plain:
    """Not a dataclass."""

    def __init__(self, array):
        self.array = array


@cute.kernel
def hidden(holder):
    cute.launch(grid=1, block=32)
    holder.array[0] = 1


class Foreign:
    """An array of a library that does not tell its strides."""

    shape, dtype, strides = (4,), np.dtype(np.float32), None

    @property
    def __array_interface__(self):
        return {"data": (256, False)}


@cute.kernel
def waiting(x):
    cute.launch(grid=1, block=32)
    cute.syncwarp()


def reread(old, new):
    """Return a plan that went through text, one part of it replaced."""
    text = dumps(cute.trace(waiting, X))
    assert old in text
    return loads(text.replace(old, new, 1))


@cute.kernel
def third(x, n: cute.u64, mask):
    cute.launch(grid=1, block=1)
    x[0] = (n // 3 ^ mask).to("s32")


def traced_with(mask):
    return cute.trace(third, X, 1, mask)


RECURSIVE = [1]
RECURSIVE.append(RECURSIVE)


def emulated(n):
    plan = traced_with(5)
    cute.emulate(plan, X, n)
    return plan


WARPGROUP = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")
X, F = ARRAYS["x"], ARRAYS["f"]
PAIRED = np.zeros(8, [("number", "i4"), ("flag", "i2")])  # packed: six bytes from one to the next


@cute.kernel
def counted(x, n: cute.s32(min=8, multiple_of=8)):
    cute.launch(grid=1, block=32)
    x[n] = 1


def wide(n):
    """Return an array of n equal elements."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (n,), (0,))


@cute.kernel
def tiled(x, y):
    cute.launch(grid=1, block=32)
    tiles = cute.ceil_div(x.shape[0], 64) * cute.ceil_div(y.shape[0], 64)
    for _tile in cute.range(cute.block_idx(), tiles, 1 << 20):
        cute.syncwarp()


def scheduled(n):
    plan = cute.trace(tiled, wide(n), wide(n))
    cute.emulate(plan, wide(n), wide(n))
    return plan


WORDS = np.zeros((4, 16), np.uint8)


def packed(words, kind="s4"):
    return cute.trace(taken, cute.typed(words, kind, packed=True))


def nibbles(start):
    whole = cute.make_host_tensor(16, "s4")
    return cute.make_tensor(whole.data.moved(start), cute.Layout(8))


@cute.kernel
def taken(x):
    cute.launch(grid=1, block=32)
    cute.syncthreads()


def table(arrays):
    return cute.trace(taken, cute.TensorArray(arrays))


def updated(arrays, first=0):
    parts = cute.TensorArray([WORDS])
    parts.update(arrays, first)
    return cute.trace(taken, parts)


# code -> a refused call, and the right one
def neighbour(x):
    return x + cute.shuffle(x, 1, "bfly")


def with_neighbour(f):
    neighbour(f[cute.thread_idx()])


CALLS = {
    "argument-type": (lambda: cute.trace(floats, X), lambda: cute.trace(floats, F)),
    "argument-spec": (lambda: cute.trace(promised, X), lambda: cute.trace(promised, ARRAYS["a"])),
    "argument-hidden": (lambda: cute.trace(hidden, Plain(X)), lambda: cute.trace(first, X)),
    "argument-stride": (lambda: cute.trace(first, X[::-1]), lambda: cute.trace(first, X[::2])),
    "array-strides": (lambda: cute.trace(first, PAIRED["number"]), lambda: cute.trace(first, X)),
    "argument-masked": (lambda: cute.trace(first, np.ma.array(X)), lambda: cute.trace(first, X)),
    "argument-strides": (lambda: cute.trace(first, Foreign()), lambda: cute.trace(first, F)),
    "argument-modes": (
        lambda: cute.trace(first, np.zeros(())),
        lambda: cute.trace(first, np.zeros(()).reshape(1)),
    ),
    "argument-recursive": (lambda: traced_with(RECURSIVE), lambda: traced_with(5)),
    "array-empty": (lambda: cute.trace(first, X[:0]), lambda: cute.trace(first, X[:2])),
    "argument-promise": (
        lambda: cute.trace(promised, np.zeros((63, 48), np.float32)),
        lambda: cute.trace(promised, np.zeros((64, 48), np.float32)),
    ),
    "argument-number": (
        lambda: cute.trace(counted, X, 12),
        lambda: cute.trace(counted, X, 16),
    ),
    "argument-large": (lambda: cute.trace(first, wide(2**31)), lambda: cute.trace(first, X)),
    "plan-count": (lambda: scheduled(2**24), lambda: scheduled(64)),
    "argument-packed": (lambda: packed(WORDS, "e3m2"), lambda: packed(WORDS, "e2m1")),
    "argument-words": (lambda: packed(WORDS[:, ::2]), lambda: packed(WORDS[::2])),
    "argument-split": (
        lambda: cute.trace(taken, nibbles(1)),
        lambda: cute.trace(taken, nibbles(2)),
    ),
    "table-empty": (lambda: table([]), lambda: table([WORDS])),
    "table-array": (lambda: table([3]), lambda: table([WORDS])),
    "table-facts": (lambda: updated([WORDS[:, 1:]]), lambda: updated([WORDS[1:]])),
    "table-range": (lambda: updated([WORDS], 1), lambda: updated([WORDS], 0)),
    "kernel-formula": (lambda: formula(neighbour), lambda: traced(with_neighbour)),
    "plan-integer": (lambda: traced_with(2**63), lambda: traced_with(2**63 - 1)),
    "plan-unsigned": (lambda: emulated(2**63), lambda: emulated(2**63 - 1)),
    "plan-op": (lambda: reread('"warp"', '"grid"'), lambda: reread('"warp"', '"block"')),
    "plan-text": (lambda: loads("plan waiting"), lambda: reread("waiting", "kernel")),
    "plan-version": (
        lambda: reread('plan": 4', 'plan": 99'),
        lambda: reread('plan": 4', 'plan": 4'),
    ),
}


def test_the_fragments_of_a_warpgroup_must_fit_each_other():
    def body(h):
        acc, a = cute.rmem("f32", (4, 1, 1)), cute.smem("f16", (1024, 2, 1))
        cute.warpgroup_gemm(WARPGROUP, acc, a, cute.smem("f16", (128, 1, 1)))  # here

    error = raised(lambda: traced(body))
    teaches(error, "operand-shape", marked_line(body))
    assert "C (4,1,1):(1,0,0), A (1024,2,1)" in str(error)
    assert "with 4, 1024, 128 values V of C, A and B" in str(error)


@pytest.mark.parametrize("value", [3.5, "3", None, 2**40, True, (1, 2)])
def test_a_run_time_number_is_checked(value):
    assert raised(lambda: cute.trace(number, X, value)).code == "kernel-number"
