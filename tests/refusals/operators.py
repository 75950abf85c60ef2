"""Refusals of configurations, operators, torch and the command line."""

import contextlib
import io
from unittest.mock import patch

import numpy as np

import cute_py as cute
from cute_py.cli.main import main as command
from cute_py.kernels import fused_attention, histogram, implicit_gemm
from cute_py.kernels.config import choose_config
from cute_py.kernels.convolution import ConvProblem
from cute_py.ops import Gemm, gemm
from cute_py.ops.device_benches import SMALL, benches


class OnDevice:
    shape, dtype = (3, 3), np.dtype(np.float32)
    __cuda_array_interface__ = {"shape": (3, 3), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012


def heads(rows=4, H=2, dim=8, kind=np.float16):
    """Queries, keys or values (batch, rows, heads, dim)."""
    return np.zeros((1, rows, H, dim), kind)


def image(rows=5, channels=8):
    return np.zeros((1, rows, 5, channels), np.float16)


def filters(channels=8):
    return np.zeros((4, 3, 3, channels), np.float16)


def convolved(x=None, w=None, **named):
    return cute.ops.conv2d(image() if x is None else x, filters() if w is None else w, **named)


def attention(q=None, k=None, v=None, **named):
    return cute.ops.attention(*[heads() if x is None else x for x in (q, k, v)], **named)


def varlen(starts=(0, 1, 4), others=(0, 2, 4), **named):
    starts, others = (np.array(x, np.int32) for x in (starts, others))
    return cute.ops.attention_varlen(*[heads()[0]] * 3, starts, others, **named)


CACHE = heads(8)


def cached(q=None, lengths=3, k_cache=None, v_cache=None, **named):
    """Attention of 1 query to caches of 8 rows, or pages of as many."""
    q, k_cache, v_cache = (
        heads(n) if x is None else x for n, x in ((1, q), (8, k_cache), (8, v_cache))
    )
    lengths = np.array([lengths], np.int32)
    return cute.ops.attention_with_kvcache(q, k_cache, v_cache, lengths, **named)


tall, square = np.ones((3, 2), np.float32), np.ones((3, 3), np.float32)
small = np.ones((3, 3), np.int8)


*_, LAUNCH = benches(SMALL)


def twice(out):
    gemm(square, square, epilogue=lambda x: {"D": x, "aux": x}, out=out, aux=out)


def split():
    return Gemm(square, square, config="tile=32x32x8,split=serial:2")


def strided(x):
    cute.launch(grid=1, block=1)
    implicit_gemm.table_of(ConvProblem((3, 3)), x, 8)


def main(*words):
    """Run a command; raise the refusal that it prints."""
    seen, real = [], cute.CuteError.__init__

    def note(error, *parts, **named):
        real(error, *parts, **named)
        seen.append(error)

    with (
        patch.object(cute.CuteError, "__init__", note),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        command([*words])
    if seen:
        raise seen[0]


ROWS = """
config-types: no instruction multiplies the two types
    * choose_config a="f16", b="f32", known="f16*f16, bf16*bf16, tf32*tf32, f64*f64, b1*b1, s8*s8,
        s8*u8, u8*s8, u8*u8, s4*s4, s4*u4, u4*s4, u4*u4, e4m3*e4m3, e4m3*e5m2, e5m2*e4m3, e5m2*e5m2,
        f32*f32"
config-bits: rows of elements below a byte do not start at whole bytes
    * choose dtype="b1", mode="1", bits="4"
kernel-argument: an argument of a kernel of `cute_py.kernels` is not what its docstring says
    - histogram.histogram(np.zeros(64, np.float32), np.zeros(8, np.int32), 8, 4)
    + histogram.histogram(np.zeros(64, np.uint8), np.zeros(8, np.int32), 8, 4)
ops-argument: an argument of an epilogue is given without one
    - gemm(square, square, scale=2.0)
    + gemm(square, square, scale=2.0, epilogue=lambda sums, scale: sums * scale)
epilogue-parameters: an epilogue is no function whose parameters have names
    - gemm(square, square, epilogue=lambda *sums: sums)
    + gemm(square, square, epilogue=lambda sums: sums)
epilogue-name: a parameter, result or argument of an epilogue has a name that it cannot have
    - gemm(square, square, epilogue=lambda sums, out: sums + out)
    - gemm(square, square, epilogue=lambda sums, stream: sums)  # given stream with the epilogue
    - gemm(square, square, epilogue=lambda sums: sums, row=square[0])  # given row with the
    - gemm(square, square, square, epilogue=lambda sums: sums)  # given c with the epilogue
    + gemm(square, square, epilogue=lambda sums, more: sums + more, more=1.0)
epilogue-missing: an epilogue reads what the call does not give
    - gemm(square, square, epilogue=lambda sums, scale: sums * scale)
    + gemm(square, square, epilogue=lambda sums, scale: sums * scale, scale=2.0)
epilogue-results: an epilogue gives results by name, and none is D
    - gemm(square, square, epilogue=lambda sums: {"C": sums})
    + gemm(square, square, epilogue=lambda sums: {"D": sums})
epilogue-pairs: an epilogue combines neighbouring columns where there are no pairs of them
    - gemm(square, square, epilogue=lambda sums: cute.pairs(sums)[0])
    - gemm(square, tall, epilogue=lambda x: cute.pairs(x)[0] + x)  # of N/2 columns in
epilogue-wraps: integers wrap to s32 before an epilogue compares, divides or activates them
    - gemm(small, small, epilogue=lambda x, c: (x + c) // 2, c=small.astype(np.int64))
    - gemm(small, small, c=small.astype(np.int64), beta=1, activation="relu")  # given c of s64
    + gemm(small, small, epilogue=lambda x, c: x // 2 + c, c=small.astype(np.int64))
epilogue-overlap: outputs of an epilogue share memory
    - twice(square.copy())
    + gemm(square, square, epilogue=lambda x: {"D": x, "aux": x}, aux=square.copy())
gemm-config: the parts of a configuration do not fit each other or the operands
    - gemm(square, square, config="stages=1")
    - gemm(square, square, config=choose_config(3, 3, 3, "f32", ("MN", "MN")))  # required:
    - gemm(square, square, config="split=serial:0")  # required: from 1 to 256 parts of K
    - gemm(square, square, config="split=stream:2,band=1")  # required: no band, prefetch, flat and
    - gemm(square, square, config="split=parallel:2")  # required: parts that divide K=3
    + gemm(square, square, config="stages=2")
config-shared: a configuration for Hopper takes more shared memory than a block has
    * config(tile=128x256x64,stages=9): GemmConfig parts="tile=128x256x64, stages=9", bytes=442512,
        most=232448, fix="at most stages=4, less what D takes"
gemm-config-text: changes to a configuration cannot be read
    - gemm(square, square, config="tiles=3")
    + gemm(square, square, config="tile=16x16x8,warps=1x1x1")
conv-problem: a convolution has a stride, a dilation, groups or a filter below 1, or padding below 0
    - ConvProblem((3, 3), stride=(0, 1))  # required: a filter, strides, dilations and groups of at
        least 1
    - ConvProblem((3, 3), (-1, 0))  # given a convolution with filter (3,3), padding (-1,0)
    + ConvProblem((3, 3), (1, (0, 2)))
conv2d: a filter has more positions than a register has bits, or channels no whole vectors
    - cute.trace(cute.kernel(strided), np.zeros((1, 8, 8, 12), np.float16))
    + cute.trace(cute.kernel(strided), np.zeros((1, 8, 8, 16), np.float16))
attention-accum: V has more columns than a tile has keys, and `accum` is missing
    - fused_attention.choose(*[np.zeros((1, 1, 8, 256), np.float16)] * 4)
    + fused_attention.choose(*[np.zeros((1, 1, 8, 64), np.float16)] * 4)
ops-array: an operand or a term holds no numbers
    - gemm(square.astype(object), square)
    - gemm(square, "text")  # as b; required: an array of numbers
    - gemm(square.astype(complex), square)  # given ndarray of complex128 as a
    + gemm(square, square)
ops-rank: an operand has too few modes
    - gemm(np.float32(1), square)
    + gemm(np.ones(3, np.float32), square)
ops-shapes: the operands' shapes do not fit together
    - gemm(tall, np.ones((5, 6), np.float32))
    - gemm(np.ones((2, 3, 4)), np.ones((3, 4, 5)))  # given a of shape (2,3,4) and b of shape
        (3,4,5)
    + gemm(square, tall)
ops-shape: c, bias or out has another shape than the result asks for
    - gemm(square, square, bias=np.ones(4))
    - gemm(square, square, np.ones((3, 4)), beta=1)  # given c of shape (3,4); required: shape (3,3)
    - gemm(square, square, out=np.ones((3, 4), np.float32))  # given out of shape (3,4); required:
        shape (3,3)
    - gemm(square, square, out=[])  # given out of shape list; required: shape (3,3)
    - gemm(square, square, epilogue=lambda x, y: x + y, y=np.ones(4))  # given y of shape (4);
    + gemm(square, square, bias=np.ones(3, np.float32))
ops-empty: a configuration is requested for a product without elements
    * cute.ops.gemm_config shape="(0,64)", operator="cute.ops.gemm"
ops-mode: a mode is named that the array does not have, or one twice
    - cute.ops.softmax(square, 2)
    + cute.ops.softmax(square, 1)
ops-nothing: a reduction without a result for no elements is taken along an empty mode
    - cute.ops.reduce(square[:, :0], "max", 1)
    + cute.ops.reduce(square[:, :0], "add", 1)
ops-family: a configuration is of a family whose kernel does not read the arrays
    - cute.ops.transpose(square, config="family=vectors")
    + cute.ops.transpose(square, config="family=elements")
config-block: a kernel cannot be launched with a part of its configuration
    - cute.ops.softmax(square, config="family=rows,threads=33")
    - cute.ops.reduce(square, config="parts=0")  # required: parts of at least 1
    + cute.ops.softmax(square, config="family=rows,threads=64")
ops-dtype: no instruction multiplies operands of these types
    - gemm(square, square.astype(np.float16))
    - gemm(square.astype(int), square.astype(int))  # given operands of s64 and s64
    + gemm(square, square)
ops-out-dtype: the result cannot have that type, or out has another one
    - gemm(square, square, out_dtype="s64")
    - gemm(square, square, out=np.zeros((3, 3)), out_dtype="f32")  # given out of float64; required:
        f32
    + gemm(square, square, out_dtype="f64")
ops-factor: alpha or beta is not a real number
    - gemm(square, square, alpha=1j)
    - gemm(square, square, alpha=np.ones(2))  # as alpha; required: a real number
    - gemm(square, square, beta=np.ones(2))  # as beta; required: a real number
    - gemm(square, square, alpha="x")  # as alpha; required: a real number
    - gemm(square, square, beta="x")  # as beta; required: a real number
    - gemm(square, square, alpha=None)  # as alpha; required: a real number
    - gemm(square, square, beta=None)  # as beta; required: a real number
    - gemm(square, square, alpha=[1])  # as alpha; required: a real number
    - gemm(square, square, beta=[1])  # as beta; required: a real number
    - gemm(square, square, alpha=10**400)  # as alpha; required: a real number
    - gemm(square, square, beta=10**400)  # as beta; required: a real number
    - gemm(square, square, beta=1j)  # as beta; required: a real number
    + gemm(square, square, alpha=2)
ops-no-c: beta is given without c
    - gemm(square, square, beta=2)
    + gemm(square, square, square, beta=2)
ops-library: an operation is given device arrays of another library than torch and CuPy, and neither
        is installed
    * ops.gemm type="DeviceNDArray"
ops-choice: a backend or activation does not exist
    - gemm(square, square, activation="cube")
    - gemm(square, square, backend="tpu")  # given backend='tpu'; required:
    - gemm(square, square, config=5)  # given config=5; required: what choose_config returns, or
        text
    + gemm(square, square, activation="relu")
ops-no-gpu: arrays are not where the product is computed
    - gemm(square, square, backend="gpu")
    - gemm(OnDevice(), square)  # given b on the host
    - gemm(square, OnDevice(), backend="emulator")  # given b on the device
    - gemm(square, square, epilogue=lambda x, y: x + y, y=OnDevice())  # given a, b on the host
    + gemm(square, square, backend="emulator")
ops-stream: a stream for arrays of the host, or of another GPU
    - gemm(square, square, stream=3)
    + gemm(square, square)
gemm-workspace: a product that needs a workspace gets none, or one that is too small
    - split().initialize()
    - split().initialize(np.zeros(8, np.uint8))  # given an array of u8 of shape (8); required:
    - split().initialize([0] * 8)  # given list; required:
    + split().initialize(np.zeros(5000, np.uint8))
gemm-update: an array takes the place of another kind of array
    - split().update(a=tall)
    - split().update(bias=tall)  # given bias of an array of f32 of shape (3,2) in place of none
    + split().update(a=2 * square)
gemm-arch: a product of a GPU has a configuration for another one
    * cute.ops.Gemm given="SM90_64x64x16_F32BF16BF16_SS on a GPU of compute capability 8.0",
        least="sm_90a"
ops-tune-host: arrays of the host, whose configurations cannot be measured
    * cute.tune
ops-chip: the kernel of an architecture is asked for whose GPUs may have any number of
        multiprocessors
    * compile arch="sm_103a"
ops-read-only: out cannot be written
    - gemm(square, square, out=np.broadcast_to(np.float32(0), (3, 3)))
    + gemm(square, square, out=np.zeros((3, 3), np.float32))
ops-overlap: elements of out share memory
    * cute.ops.gemm name="out", shape="(4,4)", strides="(0,4)"
device-wrong: a kernel that measures a GPU computes something else
    - LAUNCH.require(np.zeros(1, np.uint32))
    + LAUNCH.require(np.ones(1, np.uint32))
ops-memory: arrays and the emulator's state would not fit into free memory
    * cute.ops.gemm needed="2.2 MiB", arrays="351.6 KiB", state="1.9 MiB", available="1.1 MiB",
        result="product", parts="multiply in parts along M or N"
cli-arch: `--arch` names an unknown architecture
    - main("atoms", "--arch", "sm_99")
    + main("atoms", "--arch", "sm_90")
cli-layout: the value of an option is not a layout
    - main("mma", "SM80_16x8x16_F32F16F16F32_TN", "--perm", "Sw<2,0,3>")
    + main("mma", "SM80_16x8x16_F32F16F16F32_TN", "--perm", "(32,16,16)")
cli-format: the name of a file does not say in which format a picture is written
    - main("show", "(4,8):(8,1)", "-o", "layout.gif")
cli-table: a table is asked for with options of a picture
    * layouts option="the format json"
cli-memory: memory runs out in the middle
    * gemm what="a product"
cli-matrix: a file holds no numbers, or an operand that is no matrix
    * gemm found="shape (4)", name="a", path="vector.npy", wanted="a matrix of numbers", fix="save
        array.reshape(1, -1), which is a row"
cli-output: the file of `-o` cannot be written
    - main("tv", "SM80_16x8x16_F32F16F16F32_TN", "-o", "no/such/folder.svg")
cli-npy: a file is missing, or is no array that can be read without unpickling
    - main("gemm", "no.npy", "file.npy")
cli-shtab: the completion of a shell is asked for where shtab is missing or too old for it
    * completion found="no package shtab", shell="bash"
cli-picture: a picture is to be a file of a format for which cairosvg is missing
    * -o form="png", reason="No module named 'cairosvg'"
cli-package: a package that a command needs is missing or broken
    * cute-py reason="No module named 'numpy'"
cli-stream: the input cannot be read or the output cannot be written
    * cute-py reason="the system error 'No space left on device'"
cli-gemm: a command is given no operands, or both files and sizes
    - main("gemm")
cli-epilogue: `cute-py show` is given no function of a file or of `cute.epilogues`
    - main("show", "epilogues.relo")
    - main("show", "epilogues.relu", "-o", "x.svg")  # given epilogues.relu as svg
    - main("show", "(8,8)", "--given", "c")  # given --given with (8,8), which is not a function
cli-kernel: a command is given no kernel of a file
    - main("check-orders", "nowhere.py:kernel")
cli-generated: an option of generated data is given, and all operands are files
    - main("run", "softmax", "a.npy", "--type", "f16")
cli-out-dtype: a result is written whose type NumPy lacks
    - main("gemm", "--m", "8", "--n", "8", "--k", "8", "--out-dtype", "bf16", "-o", "d.npy")
attention-heads: the heads of queries are no multiple of those of keys
    - attention(heads(H=3), heads(H=2), heads(H=2))
    + attention(heads(H=4), heads(H=2), heads(H=2))
attention-dim: queries or values have no columns, or more than registers hold
    - attention(v=heads(dim=300))
    + attention(v=heads(dim=256))
attention-rows: rows of queries, keys or values are not contiguous
    - attention(np.asfortranarray(np.ones((1, 4, 2, 8), np.float16)))
    + attention(np.ones((1, 4, 2, 8), np.float16))
attention-causal: causal=True does not say which keys are next to which queries
    - attention(heads(rows=3), causal=True)
    + attention(heads(rows=3), causal="bottom_right")
attention-mask: `causal` is none of its words
    - attention(causal="left")
    + attention(causal="top_left")
attention-window: a window is not two distances
    - attention(window=(-2, 0))
    + attention(window=(-1, 0))
attention-number: a scale or a cap is not a number that f32 holds, or a cap is below 0
    - attention(scale=float("inf"))
    - attention(softcap=1e-50) # softcap=1e-50
    - attention(scale=1e-50) # scale=1e-50
    - attention(softcap=3e38) # softcap=3e+38
    + attention(scale=0.5)
attention-block-shape: a BlockMask of torch is for other sizes
    * cute.ops.attention found="(1, 1, 64, 128)", shape="(2, 4, 64, 64)"
attention-block-lists: the lists of a BlockMask say something else than its function
    * cute.ops.attention
attention-captured: the function of a BlockMask reads a tensor
    * cute.ops.attention name="documents"
attention-starts: starts of sequences do not rise from 0 to the rows that there are
    - varlen((0, 1, 3))
    - varlen((1, 2, 4)) # cu_seqlens_q[0] of 1
    - varlen((0, 5, 4)) # cu_seqlens_q[2] of 4
    - varlen(others=(0, -1, 4)) # cu_seqlens_k[1] of -1
    + varlen((0, 0, 4))
attention-longest: the length that sequences have at most is less than that of one, or no number
    - varlen(max_seqlen_q=2)
    - varlen(max_seqlen_k=1.5) # max_seqlen_k=1.5
    + varlen(max_seqlen_q=3)
attention-parts: a number of parts of the keys is none, or too large
    - attention(split_kv=0)
    - attention(split_kv=2.0)  # split_kv=2.0
    + attention(split_kv=2)
attention-append: rows cannot be written behind the keys of caches
    - cached(k=heads(1))
    - cached(v=heads(1))  # v without k
    - cached(k=heads(9), v=heads(9))  # 9 rows in k, for caches of 8 rows
    - cached(heads(0), k=heads(1), v=heads(1))  # 1 rows in k, and no queries
    - cached(k=CACHE[:, :1], v=heads(1), k_cache=CACHE)  # k_cache and k, which share memory
    - cached(k=heads(1), v=heads(1), k_cache=CACHE.astype(">f2"))  # bytes in another order
    + cached(k=heads(1), v=heads(1))
attention-length: a sequence has fewer keys than none, or more than its cache
    - cached(lengths=9)
    - cached(lengths=-1)  # cache_seqlens[0] = -1
    - cached(lengths=8, k=heads(1), v=heads(1))  # from 0 to 7 keys
    + cached(lengths=7, k=heads(1), v=heads(1))
attention-page: a page of a sequence is none of the caches
    - cached(lengths=9, block_table=np.array([[0, 1]], np.int32))
    - cached(lengths=8, block_table=np.array([[-1, 0]], np.int32))  # block_table[0, 0] = -1
    + cached(lengths=8, block_table=np.array([[0, 1]], np.int32))
conv-channels: the channels of images or filters are not next to each other
    - convolved(image(channels=16)[..., ::2])  # given x whose channels have the stride 2
    + convolved(image())
conv-groups: groups do not divide the channels or the filters, or there are none
    - convolved(groups=3)  # given 8 channels and 4 filters of 3x3 in groups=3
    - convolved(image(channels=0))  # given 0 channels
    + convolved(groups=2, w=filters(channels=4))
conv-extent: the filter is larger than the images with their padding
    - convolved(image(2))  # given images of (2,5)
    - convolved(dilation=4)  # dilation (4,4)
    + convolved(image(2), padding=1)
conv-option: a stride, a dilation, padding, groups, a shape or an epilogue is none
    - convolved(stride=1.5)
    - convolved(stride=(1, 2, 3))  # given stride=(1, 2, 3)
    - convolved(padding="full")  # 'same' or 'valid'
    - convolved(padding=((1, 2), 3, 4))  # padding=((1, 2), 3, 4)
    - convolved(groups=True)  # groups=True
    - convolved(epilogue=lambda sums, scale: sums * scale)  # parameters among c, bias
    - cute.ops.conv2d_dgrad(image(3, channels=4), filters(), (1, 5, 5))  # four extents
    + convolved(stride=(2, 1), padding=((1, 0), 2))
config-attention: the parts of a configuration of attention do not fit each other, or the arrays
    - attention(config="family=warps,keys=8")
    - attention(config="family=decode,stages=1")  # 2 to 16 stages
    - attention(config="family=decode,parts=2", split_kv=3)  # parts=3, as split_kv says
    + attention(config="family=warps,keys=16")
torch-no-backward: an operator that was registered without `backward`, or one that changes its
        arguments, gets a tensor that autograd follows
    * torch.ops.cute_kernels.scale
torch-twice: a derivative of an operator of torch is differentiated again
    * torch.ops.cute_py.gemm
torch-script: torch.jit.script compiles a model with a layer that TorchScript does not know
    * torch.jit.script layer="cute_py.torch.Linear"
torch-rounded: a gradient is wanted through `dtype` of integers
    * torch.ops.cute_py.gemm dtype="s8"
torch-parameter: `register` names something that is not a parameter of the kernel
    * cute_py.torch.register name="z", place="outputs", signature="scale(x, y, alpha: cute.f32)"
torch-vmap: an operator that changes an array in place is called for a batch by torch.vmap
    * torch.ops.cute_py.attention_with_kvcache name="k", written="k_cache"
torch-function: an operator of torch is given a function of the user
    * torch.ops.cute_py name="function", value="<function>"
torch-name: the name of a registered operator does not have two parts
    * cute_py.torch.register name="scale"
torch-rules: a rule of `register` is given without what it needs
    * cute_py.torch.register names="backward", other="fake"
torch-schema: `schema` does not match the kernel's arguments or results
    * cute_py.torch.register schema="(Tensor x, Tensor y) -> ()", wanted="(Tensor x, Tensor(a1!) y)
        -> ()"
torch-writes: a registered kernel writes an array that is not one of its outputs
    * torch.ops.cute_kernels.split outputs="low", written="high, low"
torch-result: `fake` returns something other than a new tensor for each output
    * torch.ops.cute_kernels.split found="['Tensor']", wanted="low, high"
torch-order: a registered kernel adds floats in any order, where torch forbids that
    * torch.ops.cute_kernels.total dtype="f32", line="total.py:7"
torch-attention-lacks: a function of flash-attn or torch is given what our kernels do not compute
    * cute_py.torch.flash_attn_func name="dropout_p", value=0.1, only=0.0, what="dropout"
torch-attention-masks: `scaled_dot_product_attention` is given a mask, and is causal, too
    * cute_py.torch.scaled_dot_product_attention
torch-attention-heads: heads of queries share those of keys, and nothing says so
    * cute_py.torch.scaled_dot_product_attention heads=8, shared=2
torch-activate: `activate` is given what is no device that we compute on
    * cute_py.torch.activate given="tpu", known="'cuda', 'cpu'"
"""
