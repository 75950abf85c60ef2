"""Plans of the kernels here for small arrays: what `cute-py source` and `cute-py compile` show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import cute_py as cute
from cute_py.kernels import attention, conv2d_s4, fused_attention, w4a16
from cute_py.kernels.arrays import row_copy, tile_copy
from cute_py.kernels.config import choose
from cute_py.kernels.convolution import ConvProblem
from cute_py.kernels.copy import copy_tiles
from cute_py.kernels.flash_attention import AttentionConfig, flash_attention
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_03_registers import gemm_registers
from cute_py.kernels.gemm_04_double_buffer import choose as choose_loads
from cute_py.kernels.gemm_04_double_buffer import sgemm_128x128
from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
from cute_py.kernels.gemm_09_tma_wgmma import gemm_tma
from cute_py.kernels.gemm_10_warp_specialised import gemm_warp_specialised
from cute_py.kernels.gemm_11_persistent import fewest, gemm_persistent
from cute_py.kernels.gemm_12_ping_pong import gemm_ping_pong
from cute_py.kernels.gemm_array import gemm_array
from cute_py.kernels.gemm_gathered import gemm_gathered
from cute_py.kernels.grouped import gemm_grouped
from cute_py.kernels.histogram import histogram
from cute_py.kernels.implicit_gemm import conv2d_fprop
from cute_py.kernels.layer_norm import layer_norm, layer_norm_long
from cute_py.kernels.reduce import reduce_rows
from cute_py.kernels.softmax import softmax
from cute_py.kernels.splitk_serial import gemm_splitk
from cute_py.kernels.stream_k import gemm_stream_k
from cute_py.kernels.transpose import SWIZZLED, transpose_shared

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.plan.plan import Plan

SPLITS = 2  # blocks along K of each tile of gemm_splitk, and groups of gemm_grouped
BLOCKS = 4  # that share tiles

Sizes = tuple[int, int, int]
Call = tuple[cute.Kernel, tuple[Any, ...]]


def zeros(kind: cute.Dtype, *shape: int) -> Any:  # an array
    """Return an array of zeros of a type; tf32 is stored as f32."""
    array = np.zeros(shape, kind.numpy)
    return cute.typed(array, kind) if kind.name == "tf32" else array


def _sums(kind: cute.Dtype, *shape: int) -> Any:  # an array
    """Return zeros of the type that products of a type are added up in."""
    wide = "f64" if kind.name == "f64" else "f32" if kind.is_float else "s32"
    return zeros(cute.dtype(wide), *shape)


def _copy(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b = (zeros(kind, *sizes[:2]) for _ in range(2))
    return copy_tiles, (a, b, tile_copy((32, 32), 128, a, b))


def _transpose(sizes: Sizes, kind: cute.Dtype) -> Call:
    m, n, _k = sizes
    return transpose_shared, (zeros(kind, m, n), zeros(kind, n, m), SWIZZLED)


def _reduce(sizes: Sizes, kind: cute.Dtype) -> Call:
    m, n, _k = sizes
    return reduce_rows, (zeros(kind, m, n), _sums(kind, m))


def _softmax(sizes: Sizes, kind: cute.Dtype) -> Call:
    return softmax, (zeros(kind, *sizes[:2]), zeros(kind, *sizes[:2]))


def _product(sizes: Sizes, kind: cute.Dtype) -> tuple[Any, Any, Any]:
    m, n, k = sizes
    return zeros(kind, m, k), zeros(kind, n, k), _sums(kind, m, n)


def _gemm_01(sizes: Sizes, kind: cute.Dtype) -> Call:
    return gemm_naive, _product(sizes, kind)


def _gemm_02(sizes: Sizes, kind: cute.Dtype) -> Call:
    return gemm_shared, _product(sizes, kind)


def _gemm_03(sizes: Sizes, kind: cute.Dtype) -> Call:
    return gemm_registers, _product(sizes, kind)


def _gemm_04(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    return sgemm_128x128, (a, b, c, choose_loads(a, b))


def _gemm_05(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    plain = choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)
    return gemm_tensor_core, (a, b, c, plain)


def _gemm_06(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    return gemm_ldmatrix, (a, b, c, choose(a, b, (64, 64), 2, asynchronous=False))


def _gemm_07(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    return gemm_multistage, (a, b, c, choose(a, b))


def _gemm_08(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, d = _product(sizes, kind)
    c, bias = np.zeros_like(d), np.zeros(sizes[1], d.dtype)
    config = choose(a, b, (64, 64), outputs=(c, d))
    return gemm_epilogue, (a, b, c, d, bias, 1.0, 1.0, config, "relu")


def _gemm_09(sizes: Sizes, kind: cute.Dtype) -> Call:
    return gemm_tma, _product(sizes, kind)


def _gemm_10(sizes: Sizes, kind: cute.Dtype) -> Call:
    return gemm_warp_specialised, _product(sizes, kind)


def _gemm_11(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, _c = _product(sizes, kind)
    d = zeros(kind, *sizes[:2])
    return gemm_persistent, (a, b, d, fewest(d))


def _gemm_12(sizes: Sizes, kind: cute.Dtype) -> Call:
    return gemm_ping_pong, _gemm_11(sizes, kind)[1]


def _splitk(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    config = choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)
    m, n, _k = config.tile
    turns = np.zeros((-(-sizes[0] // m), -(-sizes[1] // n)), np.int32)
    return gemm_splitk, (a, b, c, turns, SPLITS, config)


def _stream_k(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    config = choose(a, b, (64, 64))
    return gemm_stream_k, (a, b, c, *_shared_sums(config), config)


def _shared_sums(config: Any) -> tuple[Any, Any]:
    """Return sums and flags for `BLOCKS` blocks that share tiles."""
    bM, bN, _bK = config.tile
    return np.zeros((BLOCKS, bM * bN), np.float32), np.zeros(BLOCKS, np.int32)


def _grouped(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    groups = np.zeros((SPLITS, 3), np.int32)
    flat = (x.ravel() for x in (a, b, c))
    return gemm_grouped, (*flat, groups, groups, BLOCKS, choose(a, b, (64, 64)))


def _array(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, c = _product(sizes, kind)
    tables = (cute.TensorArray([x]) for x in (a, b, c))
    return gemm_array, (*tables, *sizes[:2], choose(a, b, (64, 64)))


def _gathered(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b, d = _product(sizes, kind)
    rows = np.arange(sizes[0])
    return gemm_gathered, (a, b, d, rows, rows, choose(a, b, (64, 64)))


def _image(sizes: Sizes, kind: cute.Dtype) -> tuple[Any, Any, Any]:
    """Return activations of m positions with k channels, n filters of 3x3, and the output."""
    m, n, k = sizes
    given = ((1, 8, -(-m // 8), channels) for channels in (k, n))
    x, y = (np.zeros(shape, kind.numpy) for shape in given)
    return x, np.zeros((n, 3, 3, k), kind.numpy), y


def _implicit_gemm(sizes: Sizes, kind: cute.Dtype) -> Call:
    x, f, y = _image(sizes, kind)
    rows = f.reshape(len(f), -1)
    out = y.astype(_sums(kind, 1).dtype)
    return conv2d_fprop, (x, rows, out, ConvProblem((3, 3), (1, 1)), choose(rows, rows, (64, 64)))


def _conv2d_s4(sizes: Sizes, kind: cute.Dtype) -> Call:
    x, f, y = (conv2d_s4.nibbles(v) for v in _image(sizes, cute.s8))
    config = conv2d_s4.choose_s4((64, 64, 128))
    return conv2d_s4.conv2d_s4, (x, f, None, y, 1.0, 0.0, ConvProblem((3, 3), (1, 1)), config)


def _w4a16(sizes: Sizes, kind: cute.Dtype) -> Call:
    (m, n, k), config = sizes, w4a16.choose_tile(sizes[0], kind.name)
    _bM, bN, bK = config.tile
    shape = -(-n // bN), -(-k // bK), bN * bK // 8 + bN // 2
    words = np.zeros(shape, w4a16.WORDS[kind.name].numpy)
    arrays = zeros(kind, m, k), words, zeros(kind, m, n)
    return w4a16.gemm_w4a16, (*arrays, *_shared_sums(config), config)


def _heads(sizes: Sizes, kind: cute.Dtype) -> tuple[Any, ...]:
    """Return m queries, n keys and values of at most 64 columns, and the output."""
    m, n, k = sizes
    return tuple([zeros(kind, 1, 2, rows, min(k, 64)) for rows in (m, n, n, m)])


def _flash_attention(sizes: Sizes, kind: cute.Dtype) -> Call:
    q, k, v, o = _heads(sizes, kind)
    return flash_attention, attention.plain(q, k, v, o, 0.125, AttentionConfig(64, 64))


def _fused_attention(sizes: Sizes, kind: cute.Dtype) -> Call:
    chosen = fused_attention.choose(*_heads(sizes, kind))
    return fused_attention.fused_attention, (chosen, 0.125, sizes[0])


def _histogram(sizes: Sizes, kind: cute.Dtype) -> Call:
    return histogram, (zeros(kind, sizes[0] * sizes[1]), np.zeros(256, np.int32), 256, 4)


def _layer_norm(sizes: Sizes, kind: cute.Dtype) -> Call:
    a, b = (zeros(kind, *sizes[:2]) for _ in range(2))
    chosen, arguments = row_copy(a, b), (a, a[0], a[0], b, 1e-5)
    return (layer_norm_long, arguments) if chosen is None else (layer_norm, (*arguments, *chosen))


# name -> the type of its operands, and the kernel with its arguments
SAMPLES: dict[str, tuple[str, Callable[[Sizes, cute.Dtype], Call]]] = {
    "copy": ("f32", _copy),
    "transpose": ("f32", _transpose),
    "reduce": ("f32", _reduce),
    "softmax": ("f32", _softmax),
    "gemm_01": ("f32", _gemm_01),
    "gemm_02": ("f32", _gemm_02),
    "gemm_03": ("f32", _gemm_03),
    "gemm_04": ("f32", _gemm_04),
    "gemm_05": ("f16", _gemm_05),
    "gemm_06": ("f16", _gemm_06),
    "gemm_07": ("f16", _gemm_07),
    "gemm_08": ("f16", _gemm_08),
    "gemm_09": ("f16", _gemm_09),
    "gemm_10": ("f16", _gemm_10),
    "gemm_11": ("f16", _gemm_11),
    "gemm_12": ("f16", _gemm_12),
    "splitk": ("f16", _splitk),
    "stream_k": ("f16", _stream_k),
    "grouped": ("f16", _grouped),
    "array": ("f16", _array),
    "gathered": ("f16", _gathered),
    "implicit_gemm": ("f16", _implicit_gemm),
    "conv2d_s4": ("s4", _conv2d_s4),
    "w4a16": ("bf16", _w4a16),
    "flash_attention": ("f16", _flash_attention),
    "fused_attention": ("f16", _fused_attention),
    "histogram": ("u8", _histogram),
    "layer_norm": ("f16", _layer_norm),
}


def sample(name: str, m: int, n: int, k: int, dtype: str | None = None) -> Plan:
    """Return the plan of a kernel of `SAMPLES`, traced for rows along K.

    Args:
        name: a key of `SAMPLES`.
        m: rows of A and of the result.
        n: columns of the result; of A, for kernels of one matrix.
        k: columns of A and B, for products.
        dtype: of the operands; None: the one of `SAMPLES`.

    Raises CuteError for a type that the kernel has no instruction for.

    >>> sample("copy", 64, 64, 64).launch.block
    (128, 1, 1)
    """
    kind, call = SAMPLES[name]
    kernel, arguments = call((m, n, k), cute.dtype(dtype or kind))
    return cute.trace(kernel, *arguments)
