"""Refusals of kernels as calls: their arguments, their functions, and plans that were saved."""

from typing import Annotated

import numpy as np

import cute_py as cute
from cute_py import make_tensor
from cute_py.plan.serial import dumps, loads
from cute_py.trace.formulas import formula
from tests.kernel_refusals import ARRAYS, traced


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


def annotated(*promises):
    def kernel(x, n):
        cute.launch(grid=1, block=32)
        x[0] = n

    kernel.__annotations__["n"] = Annotated[cute.s32, *promises]
    return cute.kernel(kernel)


@cute.kernel
def promised(x: cute.spec(divisible_by=8, shape=(None, 48))):
    cute.launch(grid=1, block=32)
    x[0, 0] = 1.0


@cute.kernel
def summed(x, values: cute.spec(divisible_by=2)):
    cute.launch(grid=1, block=32)
    x[0] = values[0] + values[1]


@cute.kernel
def stored(x, values):
    cute.launch(grid=1, block=32)
    values[0] = x[0]


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


@cute.kernel
def agreed(x, y):
    cute.launch(grid=1, block=32)
    cute.assume(x.shape[0] == y.shape[0])


def reread(old, new):
    """Return a plan that went through text, one part of it replaced."""
    text = dumps(cute.trace(waiting, X))
    assert old in text
    return loads(text.replace(old, new, 1))


@cute.kernel
def third(x, n: cute.u64, mask):
    cute.launch(grid=1, block=1)
    x[0] = (n // 3 ^ mask).to("s32", wrap=True)


def traced_with(mask):
    return cute.trace(third, X, 1, mask)


RECURSIVE = [1]
RECURSIVE.append(RECURSIVE)


def emulated(n):
    plan = traced_with(5)
    cute.emulate(plan, X, n)
    return plan


X, F = ARRAYS["x"], ARRAYS["f"]
PAIRED = np.zeros(8, [("number", "i4"), ("flag", "i2")])  # packed: six bytes from one to the next


@cute.kernel
def copied_by(x, copy: cute.TiledCopy):
    cute.launch(grid=1, block=copy.size())
    cute.syncwarp()


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


def no_source():
    text = (
        "def kernel(x):\n"
        "    cute.launch(grid=1, block=32)\n"
        "    with cute.when(cute.thread_idx() < 7):\n"
        "        x[0] = 1\n"
    )
    names = {"cute": cute}
    exec(text, names)
    cute.trace(cute.kernel(names["kernel"]), ARRAYS["x"])


@cute.kernel
def returning(x):
    cute.launch(grid=1, block=32)
    return x[0] + 1


@cute.kernel
def storing(x):
    cute.launch(grid=1, block=32)
    x[0] = x[0] + 1


@cute.kernel
def kernel(x):
    cute.launch(grid=1, block=32)
    x[0] = 1


def neighbour(x):
    return x + cute.shuffle(x, 1, "bfly")


def with_neighbour(f):
    neighbour(f[cute.thread_idx()])


def structured():
    """Return an array whose elements lie 5 bytes apart."""
    return np.zeros(4, np.dtype([("a", "<f4"), ("b", "u1")]))["a"]


def compiled(step):
    """Do something with a plan from a file, as `cute.compile` does."""
    plan = loads(dumps(cute.trace(waiting, X)))
    with plan.trusted("cute.compile"):
        step(plan)


ROWS = """
array-empty: a tensor is made of an empty array, or a kernel is given one
    - cute.trace(first, X[:0])
    - make_tensor(np.zeros((0, 3)))  # an array of shape (0, 3)
    + cute.trace(first, X[:2])
array-strides: an array has strides that are not a whole number of elements
    - cute.trace(first, PAIRED["number"])
    - make_tensor(structured())  # a stride of 5 bytes in axis 0; required: strides that are
        multiples of the 4 bytes
    + cute.trace(first, X)
plan-integer: a number among the integers of a kernel has more than 64 bits
    - traced_with(2**63)
    + traced_with(2**63 - 1)
plan-unsigned: a run-time number is too large for the signed integers of a kernel
    - emulated(2**63)
    + emulated(2**63 - 1)
plan-requirement: arguments are not what a kernel states about them with `cute.assume`
    - agreed(X, X[:8])
    + agreed(X, X)
plan-op: an op of a plan that was loaded or built by hand is malformed
    - reread('"warp"', '"grid"')
    + reread('"warp"', '"block"')
plan-text: a file does not contain a plan
    - loads("plan waiting")
    + reread("waiting", "kernel")
plan-foreign: a plan from a file fails with an error that no rule foresaw
    - compiled(lambda plan: plan.params[3])  # which fails with IndexError
    + compiled(lambda plan: plan.params[0])
plan-version: a plan was saved by another version
    - reread('plan": 6', 'plan": 99')
    + reread('plan": 6', 'plan": 6')
plan-count: a number of tiles is 2**31 or more, and no `cute.spec(large=True)` allows it
    - scheduled(2**24)
    + scheduled(64)
argument-modes: a kernel is given an array without modes
    - cute.trace(first, np.zeros(()))
    + cute.trace(first, np.zeros(()).reshape(1))
argument-recursive: a kernel is given a list that contains itself
    - traced_with(RECURSIVE)
    + traced_with(5)
argument-type: an array does not have the type of its annotation, or of `typed`
    - cute.trace(floats, X)
    + cute.trace(floats, F)
argument-class: a kernel fails with an error of Python, and an argument is not of its annotated
        class
    - cute.trace(copied_by, X, 32)
    + cute.trace(copied_by, X, cute.suggest_tiled_copy((8, 8), "s32", 32))
argument-annotated: `Annotated` has several promises, or one of another type
    - cute.trace(annotated(cute.s32(min=1), cute.s32(max=9)), X, 5)
    + cute.trace(annotated(cute.s32(min=1, max=9)), X, 5)
    - cute.trace(annotated(cute.u8(min=1)), X, 5) # n annotated with s32, u8(min=1)
argument-number: a run-time number does not keep the promises of its annotation
    - cute.trace(counted, X, 12)
    + cute.trace(counted, X, 16)
argument-large: an extent is 2**31 or more, and no `cute.spec(large=True)` allows it
    - cute.trace(first, wide(2**31))
    + cute.trace(first, X)
argument-packed: `typed(..., packed=True)` is given no words, or no type that packs
    - packed(WORDS, "e3m2")
    + packed(WORDS, "e2m1")
argument-words: words of packed elements have no contiguous mode
    - packed(WORDS[:, ::2])
    + packed(WORDS[::2])
argument-split: a tensor of packed elements begins inside a byte
    - cute.trace(taken, nibbles(1))
    + cute.trace(taken, nibbles(2))
table-empty: a `TensorArray` is made of no arrays
    - table([])
    + table([WORDS])
table-array: a member of a `TensorArray` is not an array
    - table([3])
    + table([WORDS])
table-memory: members of a `TensorArray` are in several memories
    * TensorArray index="1"
table-library: a `TensorArray` is made of GPU arrays of a library other than torch and CuPy
    * TensorArray type="DeviceNDArray"
table-facts: members of a `TensorArray` do not share what it is specialized for
    - updated([WORDS[:, 1:]])
    + updated([WORDS[1:]])
table-range: `TensorArray.update` is given more arrays than there are from its index on
    - updated([WORDS], 1)
    + updated([WORDS], 0)
argument-spec: `cute.spec` has entries for another number of modes
    - cute.trace(promised, X)
    + cute.trace(promised, ARRAYS["a"])
argument-list: numbers in a list are passed for a parameter that is annotated as an array
    - cute.trace(summed, ARRAYS["f"], [1.0, 2.0])
    + cute.trace(summed, ARRAYS["f"], np.array([1.0, 2.0], np.float32))
argument-changed: a kernel changes a list or dict that is an argument
    - cute.trace(stored, ARRAYS["f"], [1.0, 2.0])
    + cute.trace(stored, ARRAYS["f"], np.array([1.0, 2.0], np.float32))
argument-hidden: an array is inside an object that is a compile-time value
    - cute.trace(hidden, Plain(X))
    + cute.trace(first, X)
argument-stride: an array has negative strides
    - cute.trace(first, X[::-1])
    + cute.trace(first, X[::2])
argument-strides: an array has no strides that can be read
    - cute.trace(first, Foreign())
    + cute.trace(first, F)
argument-masked: an array has a mask, which a kernel would ignore
    - cute.trace(first, np.ma.array(X))
    + cute.trace(first, X)
argument-negated: a torch view whose memory holds the negated values (`z.conj().imag`) is passed to
        a kernel
    * kernel name="x"
argument-gradient: a tensor of torch is passed that autograd follows, in grad mode
    * cute.ops.gemm name="a"
argument-tangent: a tensor of torch with a tangent is passed (`torch.func.jvp`)
    * cute.ops.gemm name="a"
argument-tensor: a tensor of torch is sparse, quantized, meta, or of torch.func
    * kernel type="Tensor"
argument-device: an array is imported through DLPack from a device other than the host and NVIDIA
        GPUs
    * kernel type="Foreign", device="of DLPack type 10"
argument-import: an array supports only one protocol, and its methods fail
    * kernel type="Foreign", reason="BufferError: no"
argument-dlpack: an array on the GPU supports only DLPack, and no library to import it is installed
    * kernel type="Foreign"
argument-promise: an array does not have the properties that `cute.spec` declares
    - cute.trace(promised, np.zeros((63, 48), np.float32))
    + cute.trace(promised, np.zeros((64, 48), np.float32))
trace-no-source: a `with cute.when` is in code whose source is not available
    - no_source()
    + cute.trace(storing, X)
trace-outside: a function for kernels is called outside a trace
    - cute.thread_idx()
    + traced(lambda x: x.__setitem__(cute.thread_idx(), 1))
kernel-function: something other than a Python function is made a kernel
    - cute.kernel(np.sum)
    + cute.trace(cute.kernel(storing.function), ARRAYS["x"])
kernel-arguments: a kernel is called with too few, too many or unknown arguments
    - cute.trace(kernel)
    + cute.trace(storing, ARRAYS["x"])
kernel-returns: a kernel returns a value
    - cute.trace(returning, ARRAYS["x"])
    + cute.trace(storing, ARRAYS["x"])
formula-combined: a function of registers computes with what `cute.reduce` gives over all elements
    - formula(lambda x: 1 - cute.reduce("max", x))
    + formula(lambda x: {"D": x, "most": cute.reduce("max", x)})
formula-pairs: `cute.pairs` is called outside of the function of an epilogue
    - traced(lambda x: cute.pairs(cute.rmem("f32", 2)))
    + formula(lambda x: cute.pairs(x)[0])
formula-result: a function of registers gives back what is neither registers nor a number
    - formula(lambda x: None)
    + formula(lambda x: x)
kernel-formula: a function of registers does more than arithmetic of those that it is given
    - formula(neighbour)
    - formula(lambda x: x + cute.thread_idx())  # given cute.thread_idx in a function of registers
    + traced(with_neighbour)
"""
