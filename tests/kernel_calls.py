"""A small call of each kernel of `cute_py.kernels`, and what it should give: for contradictions."""

import importlib
import pkgutil
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import cute_py as cute
import cute_py.kernels
from cute_py.calls.arrays import TypedArray
from cute_py.kernels import (
    arrays,
    attention,
    attention_decode,
    attention_merge,
    attention_rows,
    attention_sm90,
    conv2d_s4,
    copy,
    flash_attention,
    fused_attention,
    layer_norm,
    sum_parts,
    w4a16,
)
from cute_py.kernels import (
    device_rates as rates,
)
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.config import Side, choose, choose_config
from cute_py.kernels.config_sm90 import warpgroup_config
from cute_py.kernels.convolution import ConvProblem, reference
from cute_py.kernels.elementwise import function_of, tile_copy_of
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_04_double_buffer import choose as choose_loads
from cute_py.kernels.gemv import VectorConfig
from cute_py.kernels.splits import Split
from cute_py.kernels.transpose import SWIZZLED
from cute_py.ops.attention_sequences import AttentionVarlenLse
from cute_py.ops.device_benches import links
from tests.hopper_family import row

M, N, K = 33, 24, 40  # no extent is that of another mode


def kernels():
    """Return all public kernels, by "module.name"."""
    found = {}
    for each in pkgutil.iter_modules(cute_py.kernels.__path__):
        module = importlib.import_module(f"cute_py.kernels.{each.name}")
        for name, x in vars(module).items():
            here = isinstance(x, cute.Kernel) and x.function.__module__ == module.__name__
            if here and not name.startswith("_"):
                found[f"{each.name}.{name}"] = x
    return found


KERNELS = kernels()
CALLS = {}


@dataclass
class Call:
    """A call, and what it gives.

    Attributes:
        kernel: its name in `KERNELS`.
        arguments: by name, in order.
        wanted: a function of the arguments that returns the results by name, in f64; it raises
            where they contradict each other.
        error: how far a result may be from that.
        values: the arguments that hold indices or sizes, and more than the greatest of them.
    """

    kernel: str
    arguments: dict[str, Any]
    wanted: Any
    error: float = 0.0
    values: dict[str, int] = None

    def run(self, **changed):
        """Run the kernel with some arguments changed; return all."""
        given = {name: copied(x) for name, x in {**self.arguments, **changed}.items()}
        KERNELS[self.kernel](*self.given(given))
        return given

    def given(self, arguments):
        """Return what the kernel takes."""
        return list(arguments.values())


def copied(x):
    """Return an argument with memory of its own, with the same strides."""
    if isinstance(x, np.ndarray):
        held = np.empty(sum((n - 1) * d for n, d in zip(x.shape, x.strides, strict=True))
                        + x.itemsize, np.uint8)  # fmt: skip
        new = np.ndarray(x.shape, x.dtype, held, strides=x.strides)
        new[...] = x
        return new
    if isinstance(x, TypedArray):
        return cute.typed(copied(x.array), x.dtype, x.packed)
    return x


def plain(x):
    """Return the numbers of an argument in f64."""
    if isinstance(x, TypedArray):
        if x.packed:
            words = np.ascontiguousarray(x.array)
            values = cute.unpack(words.ravel(), x.dtype).astype(np.float64)
            return values.reshape(*words.shape[:-1], -1)
        x = x.array
    return np.asarray(x).astype(np.float64)


def same(*extents):
    """Require that extents agree."""
    if any(x != extents[0] for x in extents):
        raise ValueError(f"{extents} differ")


def numbers(*shape, dtype=np.float32, seed=0):
    """Return small integers."""
    return np.random.default_rng(seed + sum(shape)).integers(-4, 5, shape).astype(dtype)


def blank(*shape, dtype=np.float32):
    """Return an array of what no test expects."""
    empty = {"f": np.nan, "u": 77}.get(np.dtype(dtype).kind, -77)
    return np.full(shape, empty, dtype)


def call(name, error=0.0, values=None, of=None):
    """Decorate a function that returns (arguments, wanted) of a call."""
    kind = of or Call

    def keep(make):
        CALLS[name] = lambda: kind(name, *make(), error, values or {})
        return make

    return keep


# -- memory


def _copied(A, B, **_rest):
    same(A.shape, B.shape)
    assert A.ndim == 2
    return {"B": plain(A)}


@call("copy.copy_elements")
def _():
    return {"A": numbers(M, N), "B": blank(M, N)}, _copied


@call("copy.copy_tiles")
def _():
    a, b = numbers(M, N), blank(M, N)
    return {"A": a, "B": b, "copy": arrays.tile_copy((32, 32), 128, a, b)}, _copied


@call("copy.copy_vectors")
def _():
    a, b = numbers(M, N), blank(M, N)
    tile, how = copy.choose(a, b)
    return {"A": a, "B": b, "tile": tile, "copy": how}, _copied


def _transposed(A, B, **_rest):
    assert A.ndim in (2, 3)
    same(A.swapaxes(0, 1).shape, B.shape)
    return {"B": plain(A).swapaxes(0, 1)}


@call("transpose.transpose_naive")
def _():
    return {"A": numbers(M, N), "B": blank(N, M)}, _transposed


@call("transpose.transpose_shared")
def _():
    return {"A": numbers(M, N, 2), "B": blank(N, M, 2), "layout": SWIZZLED}, _transposed


@call("transpose.transpose_vectors")
def _():
    return {"A": numbers(36, N), "B": blank(N, 36), "threads": 256}, _transposed


# -- rows

_SUMS = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}


def _reduced(A, out, fn="add", kept=1, **_rest):
    rows = plain(A)
    assert 1 <= kept < rows.ndim
    wanted = _SUMS[fn].reduce(rows.reshape(*rows.shape[:kept], -1), -1)
    if out.ndim == kept + 1:  # by parts
        flat = rows.reshape(*rows.shape[:kept], -1, order="F")
        each = -(-flat.shape[-1] // out.shape[-1])
        parts = [flat[..., i * each : (i + 1) * each] for i in range(out.shape[-1])]
        wanted = np.stack([_SUMS[fn].reduce(part, -1) for part in parts], -1)
    same(wanted.shape, out.shape)
    return {"out": wanted}


@call("reduce.reduce_rows")
def _():
    given = {"A": numbers(5, M, N), "out": blank(5, M), "fn": "add", "kind": None, "kept": 2}
    return {**given, "threads": 64}, _reduced


@call("reduce.row_reduce")
def _():
    a = numbers(M, N)
    tile, how = arrays.row_copy(a, rows=4)
    return {"A": a, "out": blank(M), "tile": tile, "copy": how, "fn": "add"}, _reduced


@call("reduce.reduce_columns")
def _():
    a = np.asfortranarray(numbers(M, N))
    given = {"A": a, "out": blank(M), "fn": "max", "kind": "f32", "kept": 1, "threads": 64}
    return given, _reduced


def _softmax(A, B, **_rest):
    same(A.shape, B.shape)
    assert A.ndim > 1
    x = plain(A)
    e = np.exp(x - x.max(-1, keepdims=True))
    return {"B": e / e.sum(-1, keepdims=True)}


@call("softmax.softmax", 1e-3)
def _():
    return {"A": numbers(M, 3, N), "B": blank(M, 3, N), "threads": 64}, _softmax


@call("softmax.softmax_columns", 1e-3)
def _():
    made = (np.asfortranarray(x) for x in (numbers(M, N), blank(M, N)))
    return {**dict(zip("AB", made, strict=True)), "threads": 64}, _softmax


def _softmax_2(A, B, **_rest):
    assert A.ndim == 2
    return _softmax(A, B)


@call("softmax.row_softmax", 1e-3)
def _():
    a, b = numbers(M, N), blank(M, N)
    tile, how = arrays.row_copy(a, b, rows=4)
    return {"A": a, "B": b, "tile": tile, "copy": how}, _softmax_2


def _normalized(A, weight, bias, B, eps, **_rest):
    same(A.shape, B.shape)
    (_rows, n) = A.shape
    weight, bias = (
        np.full(n, d, np.float64) if x is None else plain(x) for x, d in ((weight, 1), (bias, 0))
    )
    same((n,), weight.shape, bias.shape)
    return {"B": layer_norm.reference(plain(A), weight, bias, eps)}


def _norm():
    a, weight, bias = numbers(M, N), numbers(N), numbers(N, seed=1)
    return {"A": a, "weight": weight, "bias": bias, "B": blank(M, N), "eps": 1e-3}


@call("layer_norm.layer_norm", 2e-2)
def _():
    given = _norm()
    tile, how = arrays.row_copy(given["A"], given["B"])
    return {**given, "tile": tile, "copy": how}, _normalized


@call("layer_norm.layer_norm_long", 2e-2)
def _():
    return _norm(), _normalized


def _relu(X, G, Y, **_rest):
    same(X.shape, Y.shape)
    assert X.ndim == 2
    assert X.shape[0] == 1
    assert G is None
    return {"Y": np.maximum(plain(X), 0)}


@call("elementwise.elementwise")
def _():
    how = tile_copy_of((cute.f32, cute.f32), (4, 4), 1)
    function = function_of(ACTIVATIONS["relu"], False, (cute.f32,))
    given = {"X": numbers(1, 301), "G": None, "Y": blank(1, 301), "function": function}
    return {**given, "copy": how}, _relu


def _counted(x, counts, bins, **_rest):
    same(counts.shape, (bins,))
    assert x.ndim == 1
    assert x.dtype.kind in "iu"
    return {"counts": np.bincount(plain(x).astype(int), minlength=bins).astype(np.float64)}


@call("histogram.histogram", values={"x": 64})
def _():
    x = np.random.default_rng(0).integers(0, 64, 500).astype(np.uint8)
    return {"x": x, "counts": np.zeros(64, np.int32), "bins": 64, "width": 4}, _counted


# -- rates of a GPU

PART = rates.THREADS * rates.VECTOR * rates.AHEAD


def words(*shape):
    """Return random numbers of u32."""
    return np.random.default_rng(0).integers(0, 1 << 32, shape, np.uint32)


def stopped(blocks=1):
    """Return the cycles of blocks, which the emulator has none of."""
    return np.zeros(blocks, np.int64)


def require_rows(out, cycles, blocks, threads):
    same(out.shape, (blocks * threads,))
    same(cycles.shape, (blocks,))
    assert cycles.dtype == np.int64


def _words_read(x, out, rounds, blocks):
    threads = blocks * rates.THREADS
    same(out.shape, (threads,))
    assert x.dtype == out.dtype == np.uint32
    assert rounds > 0
    found = np.bitwise_xor.reduce(x.reshape(-1, threads, rates.VECTOR), (0, 2))
    return {"out": plain(found * (rounds % 2))}


@call("device_rates.read_words")
def _():
    return {"x": words(2 * PART), "out": blank(256, dtype=np.uint32), "rounds": 3, "blocks": 1}, (
        _words_read
    )


def _words_written(x, value, blocks):
    rows = x.reshape(-1, blocks * rates.THREADS, rates.VECTOR)
    assert x.dtype == np.uint32
    assert 0 <= value < 1 << 32
    return {"x": plain(((value + np.arange(4)) % (1 << 32) + 0 * plain(rows)).reshape(-1))}


@call("device_rates.write_words")
def _():
    return {"x": words(2 * PART), "value": 7, "blocks": 2}, _words_written


def _chased(links, out, cycles, steps, **_rest):
    require_rows(out, cycles, 1, 1)
    assert links.dtype == out.dtype == np.int32
    assert links.ndim == 1
    assert steps > 0
    place, seen = links[0], {}
    for step in range(steps):
        if place in seen:  # a cycle
            left = (steps - step) % (step - seen[place])
            for _ in range(left):
                place = links[place]
            break
        seen[place] = step
        assert place >= 0
        place = links[place]
    return {"out": plain(np.array([place]))}


@call("device_rates.chase", values={"links": 64})
def _():
    table, _ = links(64, 1, 64)
    out = blank(1, dtype=np.int32)
    return {"links": table, "out": out, "cycles": stopped(), "steps": 9, "cache": "cg"}, _chased


@call("device_rates.chase_shared", values={"links": 1024})
def _():
    table, _ = links(1024, 1, 1024)
    out = blank(1, dtype=np.int32)

    def wanted(links, out, cycles, steps):
        same(links.shape, (1024,))
        return _chased(links, out, cycles, steps)

    return {"links": table, "out": out, "cycles": stopped(), "steps": 9}, wanted


def _shared_read(out, cycles, rounds, ways, blocks):
    require_rows(out, cycles, blocks, 1024)
    assert out.dtype == np.uint32
    assert 1 <= ways <= 4
    lane, found = np.arange(len(out)) % 32, np.zeros(len(out), np.uint64)
    for k in range(rounds):
        for i in range(rates.CHAINS):
            found += ((k % 8 * 1024 + i * 32 * ways + lane * ways) ** 2).astype(np.uint64)
    return {"out": plain(found % (1 << 32))}


@call("device_rates.read_shared")
def _():
    out = blank(1024, dtype=np.uint32)
    return {"out": out, "cycles": stopped(), "rounds": 3, "ways": 2, "blocks": 1}, _shared_read


def _chains(step, kind, extent):
    """Return what instructions should give; `step` from their operand, the rounds and the rest."""

    def wanted(x, out, cycles, rounds, blocks, *rest, **more):
        more = {**dict(zip(("count", "threads"), rest, strict=False)), **more}
        threads = more.pop("threads", 1024 if kind == np.float32 else 256)
        require_rows(out, cycles, blocks, threads)
        same(x.shape, (extent,))
        assert (x.dtype, out.dtype) == (kind, np.float32)
        assert rounds > 0
        return {"out": np.full(out.shape, step(plain(x), rounds, **more))}

    return wanted


def _added(x, rounds, count):
    y = np.arange(count)
    for _ in range(4 * rounds):
        y = y * x[0] + x[1]
    return y.sum()


def _exponentials(x, rounds):
    for _ in range(rounds):
        x = np.exp2(x - 1)
    return x.sum()


@call("device_rates.multiply_add")
def _():
    given = {"x": np.ones(2, np.float32), "out": blank(64), "cycles": stopped(), "rounds": 3}
    return {**given, "blocks": 1, "count": 3, "threads": 64}, _chains(_added, np.float32, 2)


@call("device_rates.exponentials", error=1e-4)
def _():
    x = np.linspace(0.5, 1.5, 8).astype(np.float32)
    given = {"x": x, "out": blank(1024), "cycles": stopped(), "rounds": 3, "blocks": 1}
    return given, _chains(_exponentials, np.float32, 8)


@call("device_rates.products")
def _():
    given = {"x": np.full(1, 2, np.float16), "out": blank(256), "cycles": stopped(), "rounds": 3}
    return {**given, "blocks": 1}, _chains(lambda x, n: 128 * n * x[0] ** 2, np.float16, 1)


@call("device_rates.warpgroup_products")
def _():
    given = {"x": np.full(1, 2, np.float16), "out": blank(256), "cycles": stopped(), "rounds": 3}
    return {**given, "blocks": 1}, _chains(lambda x, n: 64 * n * x[0] ** 2, np.float16, 1)


def _counted_barriers(out, cycles, rounds):
    require_rows(out, cycles, 1, 256)
    assert out.dtype == np.int32
    assert rounds > 0
    return {"out": np.full(256, rounds)}


@call("device_rates.barriers")
def _():
    out = blank(256, dtype=np.int32)
    return {"out": out, "cycles": stopped(), "rounds": 3}, _counted_barriers


def _one_word(out):
    assert out.dtype == np.uint32
    assert out.ndim == 1
    return {"out": np.concatenate([[1], plain(out)[1:]])}


@call("device_rates.one_word")
def _():
    return {"out": words(4)}, _one_word


# -- products


def _product(A, B, C=None, D=None, **_rest):
    out = "C" if D is None else "D"
    (m, k), (n, k_b), result = A.shape, B.shape, C if D is None else D
    same(k, k_b)
    same((m, n), result.shape)
    return {out: plain(A) @ plain(B).T}


def _operands(dtype=np.float16, out=np.float32, k=K):
    return {"A": numbers(M, k, dtype=dtype), "B": numbers(N, k, dtype=dtype, seed=1),
            "C": blank(M, N, dtype=out)}  # fmt: skip


def _with_config(given, *size, **how):
    return {**given, "cfg": choose(given["A"], given["B"], *size, **how)}


@call("gemm_01_naive.gemm_naive")
def _():
    return _operands(np.float32), _product


@call("gemm_02_shared.gemm_shared")
def _():
    return _operands(np.float32), _product


@call("gemm_03_registers.gemm_registers")
def _():
    return _operands(np.float32), _product


@call("gemm_04_double_buffer.sgemm_128x128")
def _():
    given = _operands(np.float32)
    return {**given, "loads": choose_loads(given["A"], given["B"])}, _product


PLAIN = {"ldmatrix": False, "asynchronous": False}


@call("gemm_05_tensor_core.gemm_tensor_core")
def _():
    return _with_config(_operands(), (64, 64), 2, **PLAIN), _product


@call("gemm_06_ldmatrix.gemm_ldmatrix")
def _():
    return _with_config(_operands(), (64, 64), 2, asynchronous=False), _product


@call("gemm_07_multistage.gemm_multistage")
def _():
    return _with_config(_operands(), (64, 64)), _product


def _finished(A, B, C, D, bias, alpha, beta, **_rest):
    result = alpha * _product(A, B, C)["C"]
    same(result.shape, D.shape, C.shape)
    if bias is not None:
        same(bias.shape, result.shape[1:])
    return {"D": result + beta * plain(C) + (0 if bias is None else plain(bias))}


@call("gemm_08_epilogue.gemm_epilogue")
def _():
    given = _operands()
    c, d, bias = numbers(M, N, seed=2), given.pop("C"), numbers(N, seed=3)
    cfg = choose(given["A"], given["B"], (64, 64), outputs=(c, d))
    return {**given, "C": c, "D": d, "bias": bias, "alpha": 2.0, "beta": 3.0, "cfg": cfg}, _finished


def _hopper(tile, name="C", **more):
    given = _operands()
    given[name] = blank(M, N, dtype=np.float16 if name == "D" else np.float32)
    if name == "D":
        del given["C"]
    return {**given, **more, "tile": tile}, _product


@call("gemm_09_tma_wgmma.gemm_tma")
def _():
    return _hopper((64, 64, 64))


@call("gemm_10_warp_specialised.gemm_warp_specialised")
def _():
    return _hopper((128, 64, 64))


@call("gemm_11_persistent.gemm_persistent")
def _():
    return _hopper((128, 64, 64), "D", blocks=2)


@call("gemm_12_ping_pong.gemm_ping_pong")
def _():
    return _hopper((64, 64, 64), "D", blocks=2)


def _batched(A, B, C, bias, D, alpha, beta, epilogue, **_rest):
    x, y, d = (v[..., None] if v.ndim == 2 else v for v in (plain(A), plain(B), plain(D)))
    assert x.shape[2] in (1 if A.ndim == 2 else d.shape[2], d.shape[2])
    assert y.shape[2] in (1 if B.ndim == 2 else d.shape[2], d.shape[2])
    same(x.shape[1], y.shape[1])
    same((x.shape[0], y.shape[0]), d.shape[:2])
    many = np.ones((1, 1, d.shape[2]))
    total = alpha * np.einsum("mkl,nkl->mnl", x * many, y * many)
    if epilogue.source:
        assert C is not None
        same(C.shape, D.shape)
        total = total + beta * plain(C).reshape(d.shape)
    if epilogue.bias:
        same(bias.shape, (d.shape[1],))
        total = total + plain(bias)[:, None]
    return {"D": total.reshape(D.shape)}


def _gemm(kind=np.float16, result=np.float32):
    given = {"A": numbers(2, M, K, dtype=kind).transpose(1, 2, 0),
             "B": numbers(2, N, K, dtype=kind, seed=1).transpose(1, 2, 0),
             "C": numbers(2, M, N, dtype=result, seed=2).transpose(1, 2, 0),
             "bias": numbers(N, dtype=result, seed=3),
             "D": blank(2, M, N, dtype=result).transpose(1, 2, 0)}  # fmt: skip
    return given | {"alpha": 2.0, "beta": 3.0}, LinearCombination("f32", True, True, True)


@call("gemm.gemm")
def _():
    given, last = _gemm()
    a, b, d = (given[x][..., 0] for x in "ABD")
    config = choose(a, b, (64, 64), outputs=(d,))
    return {**given, "config": config, "epilogue": last}, _batched


def _split_batch(partial, flags, config, **given):
    tiles = prod(-(-n // t) for n, t in zip(given["D"].shape, (*config.tile[:2], 1), strict=False))
    assert flags.shape[0] >= tiles
    same(flags.shape, partial.shape[:1])
    return {**_batched(config=config, **given), "flags": np.zeros(flags.shape)}


@call("gemm_split.gemm_split")
def _():
    given, last = _gemm()
    a, b, d = (given[x][..., 0] for x in "ABD")
    config = replace(choose(a, b, (64, 64), outputs=(d,)), parts=Split("serial", 2))
    tiles = prod(-(-n // t) for n, t in zip(given["D"].shape, (64, 64, 1), strict=True))
    sums = {"partial": blank(tiles, 64 * 64), "flags": np.zeros(tiles, np.int32)}
    rest = {x: y for x, y in given.items() if x not in "AB"}
    held = {"A": given["A"], "B": given["B"], **sums, **rest}
    return {**held, "config": config, "epilogue": last}, _split_batch


@call("gemm_split_sm90.gemm_cooperative_split")
def _():
    given, last = _gemm(np.float16, np.float16)
    parts = Split("serial", 2)
    config = warpgroup_config(("f16", "f16"), (64, 64), 1, result="f16", parts=parts)
    tiles = prod(-(-n // t) for n, t in zip(given["D"].shape, (64, 64, 1), strict=True))
    sums = {"partial": blank(tiles, 64 * 64), "flags": np.zeros(tiles, np.int32)}
    rest = {x: y for x, y in given.items() if x not in "AB"}
    held = {"A": given["A"], "B": given["B"], **sums, **rest}
    return {**held, "config": config, "epilogue": last}, _split_batch


@call("gemm_sm90.gemm_cooperative")
def _():
    given, last = _gemm(np.float16, np.float16)
    config = row("f16", 64, 64, 1)
    return {**given, "blocks": 2, "band": 1, "config": config, "epilogue": last}, _batched


@call("gemm_sm90.gemm_pingpong")
def _():
    given, last = _gemm(np.float16, np.float16)
    config = row("f16", 64, 64, 1, "pingpong")
    return {**given, "blocks": 2, "band": 1, "config": config, "epilogue": last}, _batched


@call("gemv.gemv")
def _():
    given, last = _gemm(np.float16, np.float16)
    sides = Side("K", 8), Side("K", 8)
    config = VectorConfig("UniversalFMA<f32,f16,f16,f32>", (4, 8, 256), (1, 8, 32), 1, *sides)
    return {**given, "config": config, "epilogue": last}, _batched


def _summed(P, C, bias, D, alpha, beta, count, copy, epilogue):
    x, d = plain(P), plain(D)
    same(x.shape[2], count)
    same(x.shape[:2], d.shape[:2])
    same(d.ndim == 2 or d.shape[2], 1)
    total = alpha * x.sum(2).reshape(d.shape)
    if epilogue.source:
        same(C.shape[:2], d.shape[:2])
        total = total + beta * plain(C).reshape(d.shape)
    if epilogue.bias:
        same(bias.shape, (d.shape[1],))
        total = total + (plain(bias) if d.ndim == 2 else plain(bias)[:, None])
    return {"D": total}


@call("sum_parts.sum_parts")
def _():
    given = {"P": numbers(3, M, N).transpose(1, 2, 0), "C": numbers(M, N, seed=1),
             "bias": numbers(N, seed=2), "D": blank(M, N), "alpha": 2.0, "beta": 3.0,
             "count": 3, "copy": sum_parts.parts_copy(N)}  # fmt: skip
    return {**given, "epilogue": LinearCombination("f32", True, True, True)}, _summed


def _split(A, B, C, turns, splits, cfg, **_rest):
    assert splits >= 1
    tiles = [-(-n // t) for n, t in zip(C.shape, cfg.tile, strict=False)]
    assert all(x >= n for x, n in zip(turns.shape, tiles, strict=True))  # others stay zeros
    return {**_product(A, B, C), "turns": np.zeros(turns.shape)}


@call("splitk_serial.gemm_splitk", values={"turns": 5})
def _():
    given, cfg = _operands(), None
    cfg = choose(given["A"], given["B"], (64, 64), 2, **PLAIN)
    return {**given, "turns": np.zeros((1, 1), np.int32), "splits": 2, "cfg": cfg}, _split


def _shared(A, B, C, partial, flags, cfg, **_rest):
    same(partial.shape, (*flags.shape, cfg.tile[0] * cfg.tile[1]))
    return {**_product(A, B, C), "flags": np.zeros(flags.shape)}


@call("stream_k.gemm_stream_k")
def _():
    given = _with_config(_operands(k=136), (64, 64))
    cfg = given.pop("cfg")
    sums = {"partial": np.zeros((3, 64 * 64), np.float32), "flags": np.zeros(3, np.int32)}
    return {**given, **sums, "cfg": cfg}, _shared


@call("w4a16.gemm_w4a16")
def _():
    cfg, rng = w4a16.choose_tile(10, "f16"), np.random.default_rng(0)
    w, scales = rng.integers(-8, 8, (N, 200)), np.full((N, 2), 2, np.float16)
    dense = w * scales.astype(float).repeat(128, 1)[:, :200]
    words = w4a16.shuffle_weights(w, scales, 128, cfg)

    def wanted(A, W, D, partial, flags, cfg):
        same(W.shape, words.shape)
        assert (plain(W) == plain(words)).all()
        same(partial.shape, (*flags.shape, cfg.tile[0] * cfg.tile[1]))
        same(A.shape[0], D.shape[0])
        full = np.zeros((128, 256))  # whole tiles, as W has them
        full[:N, :200] = dense
        return {"D": plain(A) @ full[: D.shape[1], : A.shape[1]].T}

    a, d = numbers(10, 200, dtype=np.float16), blank(10, N)
    sums = {"partial": np.zeros((2, 16 * 128), np.float32), "flags": np.zeros(2, np.int32)}
    return {"A": a, "W": words, "D": d, **sums, "cfg": cfg}, wanted


def _of_groups(A, B, C, sizes, starts, **_rest):
    same(sizes.shape, starts.shape)
    same(sizes.shape[1], 3)
    assert A.ndim == B.ndim == C.ndim == 1
    result = plain(C) * np.nan
    a, b = plain(A), plain(B)
    for (m, n, k), (p, q, r) in zip(sizes.astype(int), starts.astype(int), strict=True):
        x, y = a[p : p + m * k].reshape(m, k), b[q : q + n * k].reshape(n, k)
        result[r : r + m * n].reshape(m, n)[...] = x @ y.T
    return {"C": result}


@call("grouped.gemm_grouped", values={"sizes": 400, "starts": 4000})
def _():
    sizes = np.array([(M, N, K), (5, 9, 16)], np.int32)
    ends = np.array([[M * K, N * K, M * N]])
    starts = np.concatenate([np.zeros((1, 3), int), ends]).astype(np.int32)
    a, b = (numbers(n, dtype=np.float16) for n in (M * K + 80, N * K + 144))
    cfg = choose(np.zeros((8, 8), a.dtype), np.zeros((8, 8), a.dtype), (64, 64))
    given = {"A": a, "B": b, "C": blank(M * N + 45), "sizes": sizes, "starts": starts}
    return {**given, "blocks": 2, "cfg": cfg}, _of_groups


class OfTables(Call):
    """A call whose first arguments are tables of one array."""

    def given(self, arguments):
        """Return what the kernel takes."""
        return [cute.TensorArray([x]) if name in "ABC" else x for name, x in arguments.items()]


@call("gemm_array.gemm_array", of=OfTables)
def _():
    given = _with_config(_operands(), (64, 64))
    cfg = given.pop("cfg")

    def wanted(A, B, C, M, N, cfg):
        assert C.shape[0] <= M
        assert C.shape[1] <= N
        return _product(A, B, C)

    return {**given, "M": M, "N": N, "cfg": cfg}, wanted


def _scattered(A, B, D, sources, targets, **_rest):
    same(A.shape[1], B.shape[1])
    same(D.shape[1], B.shape[0])
    same(sources.shape, targets.shape)
    result = plain(D)
    result[plain(targets).astype(int)] = plain(A)[plain(sources).astype(int)] @ plain(B).T
    return {"D": result}


@call("gemm_gathered.gemm_gathered", values={"sources": 33, "targets": 30})
def _():
    given = _operands()
    rng = np.random.default_rng(0)
    rows = {"sources": rng.integers(0, M, 20), "targets": rng.permutation(30)[:20]}
    cfg = choose(given["A"], given["B"], (64, 64))
    return {"A": given["A"], "B": given["B"], "D": np.zeros((30, N), np.float32), **rows,
            "cfg": cfg}, _scattered  # fmt: skip


CONV = ConvProblem((3, 3), (1, 2), (2, 1), (1, 2))


@call("implicit_gemm.conv2d_fprop")
def _():
    x, f = numbers(2, 9, 8, 32, dtype=np.float16), numbers(24, 288, dtype=np.float16)
    y = blank(2, *CONV.extents(9, 8), 24)

    def wanted(X, F, Y, conv, cfg):
        (k, e), c = F.shape, X.shape[3]
        same(e, 9 * c)
        same(Y.shape, (X.shape[0], *conv.extents(*X.shape[1:3]), k))
        return {"Y": reference(plain(X), plain(F).reshape(k, 3, 3, c), conv)}

    return {"X": x, "F": f, "Y": y, "conv": CONV, "cfg": choose(f, f, (64, 64))}, wanted


LINES = CONV.lines()


def _convolved(X, F, lines, P, Q):
    """Rows of pixels of X (N,H,W,C), from which lines are read, times filters (K,R,S,C)."""
    N, H, W, _C = X.shape
    y = np.zeros((N, P, Q, len(F)))
    for r, s in np.ndindex(*[x.taps for x in lines]):
        h, w = (
            np.arange(n) * x.stride + x.start + t * x.dilation
            for n, x, t in zip((P, Q), lines, (r, s), strict=True)
        )
        there = ((h >= 0) & (h < H))[:, None] & ((w >= 0) & (w < W))
        seen = X[:, h.clip(0, H - 1)][:, :, w.clip(0, W - 1)] * there[..., None]
        y += seen @ F[:, r, s].T
    return y.reshape(-1, len(F))


def _of_images(X, F, C, bias, D, alpha, beta, P, Q, lines, config, epilogue):
    x, f = plain(X), plain(F)
    same(f.size, len(f) * lines[0].taps * lines[1].taps * x.shape[3])
    y = alpha * _convolved(x, f.reshape(len(f), 3, 3, -1), lines, P, Q)
    same(y.shape, D.shape[:2], C.shape)
    same(y.size, D.size)  # a batch of one is none
    same(y.shape[1:], bias.shape)
    return {"D": (y + beta * plain(C) + plain(bias)).reshape(D.shape)}


def _of_filters(Y, X, C, bias, D, alpha, beta, P, Q, lines, config, epilogue):
    x, y = plain(X), plain(Y)
    same(y.shape[1], len(x) * P * Q)
    one = np.eye(9 * x.shape[3]).reshape(-1, 3, 3, x.shape[3])
    dw = alpha * y @ _convolved(x, one, lines, P, Q)
    same(dw.shape, D.shape[:2], C.shape)
    same(dw.size, D.size)
    same(dw.shape[1:], bias.shape)
    return {"D": (dw + beta * plain(C) + plain(bias)).reshape(D.shape)}


def _gathered(split, wgrad):
    x, (P, Q), k = numbers(2, 9, 8, 8, dtype=np.float16), CONV.extents(9, 8), 24
    rows, depth, major = 2 * P * Q, 9 * 8, "K"
    first, second = {"X": x}, {"F": numbers(k, depth, dtype=np.float16)}
    if wgrad:
        first, second = {"Y": numbers(rows, k, dtype=np.float16).T}, {"X": x}
        rows, k, depth, major = k, depth, rows, "MN"
    config = replace(choose_config(rows, k, depth, "f16", (major, major)), stages=2)
    sums = {}
    if split:
        config = replace(config, parts=Split("stream", 2))
        size = 2 * config.tile[0] * config.tile[1]
        sums = {"partial": blank(2, size), "flags": np.zeros(2, np.int32)}
    terms = {"C": numbers(rows, k), "bias": numbers(k), "D": blank(rows, k)}
    rest = {"alpha": 2.0, "beta": 3.0, "P": P, "Q": Q, "lines": LINES, "config": config}
    last = LinearCombination("f32", True, True, True)
    wanted = _of_filters if wgrad else _of_images

    def whole(partial=None, flags=None, **given):
        if split:
            same(partial.shape, (*flags.shape, size))
            assert len(flags) >= 2
            return {**wanted(**given), "flags": np.zeros(flags.shape)}
        return wanted(**given)

    return {**first, **second, **sums, **terms, **rest, "epilogue": last}, whole


@call("conv_gathered.conv_gathered")
def _():
    return _gathered(False, False)


@call("conv_gathered.conv_gathered_split")
def _():
    return _gathered(True, False)


@call("conv_gathered.conv_wgrad")
def _():
    return _gathered(False, True)


@call("conv_gathered.conv_wgrad_split")
def _():
    return _gathered(True, True)


def _on_hopper(schedule):
    x, k = numbers(1, 9, 8, 72, dtype=np.float16), 24
    lines, P, Q = ConvProblem((3, 3), (1, 2), (2, 1)).lines(), 5, 10
    f, rows = numbers(k, 9, 72, dtype=np.float16), 5 * 10
    terms = {"C": numbers(rows, k), "bias": numbers(k), "D": blank(rows, k)}
    rest = {"alpha": 2.0, "beta": 3.0, "P": P, "Q": Q, "blocks": 2, "band": 1, "lines": lines}
    how = {
        "config": row("f16", 64, 64, 1, schedule),
        "epilogue": LinearCombination("f32", True, True, True),
    }

    def wanted(X, P, Q, blocks, band, lines, **given):
        same((P, Q), ((X.shape[1] - 1) // 2 + 1, X.shape[2] + 2))
        return _of_images(X=X, P=P, Q=Q, lines=lines, **given)

    return {"X": x, "F": f, **terms, **rest, **how}, wanted


@call("conv_sm90.conv_cooperative")
def _():
    return _on_hopper("cooperative")


@call("conv_sm90.conv_pingpong")
def _():
    return _on_hopper("pingpong")


@call("conv2d_s4.conv2d_s4")
def _():
    rng = np.random.default_rng(0)
    x, f = rng.integers(-8, 8, (1, 9, 8, 32)), rng.integers(-8, 8, (24, 3, 3, 32))
    shape = 1, *CONV.extents(9, 8), 24
    z, y = conv2d_s4.nibbles(rng.integers(-8, 8, shape)), conv2d_s4.nibbles(np.zeros(shape, int))

    def wanted(X, F, Z, Y, alpha, beta, conv, cfg):
        x, f, y = map(plain, (X, F, Y))
        same(x.shape[3], f.shape[3])
        same(f.shape[1:3], conv.filter)
        result = alpha * reference(x, f, conv)
        if Z is not None:
            same(Z.array.shape, Y.array.shape)
            result = result + beta * plain(Z)
        same(result.shape, y.shape)
        return {"Y": np.clip(np.rint(result), -8, 7)}

    given = {"X": conv2d_s4.nibbles(x), "F": conv2d_s4.nibbles(f), "Z": z, "Y": y}
    cfg = conv2d_s4.choose_s4((64, 64, 128))
    return {**given, "alpha": 2.0**-7, "beta": 1.0, "conv": CONV, "cfg": cfg}, wanted


# -- attention


def _of_attention(dtype, cfg, *more):
    """A call of a kernel of attention with everything, and two heads that share one of keys."""
    shapes = {"Q": (1, 2, 19, 32), "K": (1, 1, 26, 32), "V": (1, 1, 26, 24)}
    given = {
        name: numbers(*shape, dtype=dtype, seed=i) for i, (name, shape) in enumerate(shapes.items())
    }
    given |= {
        "bias": numbers(1, 2, 19, 26, dtype=np.float16),
        "slopes": numbers(1, 2, dtype=np.float32),
    }
    given |= {"O": np.zeros((1, 2, 19, 24), dtype) * np.nan}
    given |= {"lse": np.full((1, 2, 19), np.nan, np.float32), "scale": 0.125, "cap": 9.0}
    rule = attention.Rule(begins=True, ends=True, capped=True, scaled=True, shared=2)
    given |= {"left": 9, "right": 3, **dict(more), "cfg": cfg, "rule": rule}

    def wanted(Q, K, V, bias, slopes, O, lse, scale, cap, left, right, **_more):  # noqa: E741
        same(Q.shape[0], K.shape[0], V.shape[0])
        same(Q.shape[1], 2 * K.shape[1], 2 * V.shape[1])
        same(K.shape[2], V.shape[2])
        same(Q.shape[3], K.shape[3])
        same(O.shape, (*Q.shape[:3], V.shape[3]))
        named = {"window": (left, right), "scale": scale, "softcap": cap}
        if bias is not None:
            same(bias.shape, (*Q.shape[:3], K.shape[2]))
            named["bias"] = bias != 0 if bias.dtype == np.uint8 else plain(bias)
        if slopes is not None:
            same(slopes.shape, Q.shape[:2])
            named["alibi_slopes"] = slopes
        o, logs = attention.reference(plain(Q), plain(K), plain(V), **named)
        if lse is None:
            return {"O": o}
        same(lse.shape, Q.shape[:3])
        return {"O": o, "lse": logs}

    return given, wanted


@call("flash_attention.flash_attention", 5e-2)
def _():
    return _of_attention(np.float16, flash_attention.AttentionConfig(32, 32, 32, 2, 32))


@call("attention_rows.attention_rows", 1e-4)
def _():
    return _of_attention(np.float32, attention_rows.RowsAttention(value_dim=32))


@call("attention_decode.attention_decode", 5e-2)
def _():
    cfg = attention_decode.DecodeAttention(head_dim=32, value_dim=32, warps=1, stages=2)
    return _of_attention(np.float16, cfg)


@call("attention_decode.attention_cached", 5e-2)
def _():
    given, _wanted = _of_attention(np.float16, None)
    cfg = attention_decode.DecodeAttention(head_dim=32, value_dim=32, warps=1, stages=2, page=16)
    for i, name in enumerate("KV"):
        given[name] = numbers(3, 1, 16, 32 - 8 * i, dtype=np.float16, seed=i)
    given |= {"lengths": np.array([17], np.int32), "table": np.array([[2, 1]], np.int32)}
    more = {"more_k": numbers(1, 1, 6, 32, dtype=np.float16, seed=5)}
    more |= {"more_v": numbers(1, 1, 6, 24, dtype=np.float16, seed=6)}
    order = "Q K V lengths table more_k more_v slopes O lse scale cap left right rule"
    given = {x: (given | more)[x] for x in order.split()}
    rule = given.pop("rule")

    def wanted(Q, K, V, lengths, table, more_k, more_v, slopes, O, lse, **numbers):  # noqa: E741
        same(Q.shape[0], lengths.shape[0], *[x.shape[0] for x in (more_k, more_v) if x is not None])
        same(table.shape[0], lengths.shape[0])
        same(K.shape[:3], V.shape[:3])
        same((more_k is None), (more_v is None))
        rows = []
        for x, new in ((K, more_k), (V, more_v)):
            keys = np.concatenate([*plain(x)[table[0]].swapaxes(1, 2)])[: lengths[0]]
            if new is not None:
                same(new.shape[:2], (1, K.shape[1]))
                same(new.shape[3], x.shape[3])
                keys = np.concatenate([keys, plain(new)[0].swapaxes(0, 1)])
            rows.append(keys.swapaxes(0, 1)[None])
        if more_k is not None:
            same(more_k.shape[2], more_v.shape[2])
        same(Q.shape[1], 2 * K.shape[1])
        same(Q.shape[3], K.shape[3])
        same(O.shape, (*Q.shape[:3], V.shape[3]))
        named = {"window": (numbers["left"], numbers["right"])}
        named |= {"scale": numbers["scale"], "softcap": numbers["cap"]}
        if slopes is not None:
            same(slopes.shape, Q.shape[:2])
            named["alibi_slopes"] = slopes
        o, logs = attention.reference(plain(Q), *rows, **named)
        if lse is None:
            return {"O": o}
        same(lse.shape, Q.shape[:3])
        return {"O": o, "lse": logs}

    return {**given, "cfg": cfg, "rule": rule}, wanted


@call("attention_merge.attention_merge", 1e-4)
def _():
    X, O = numbers(3, 1, 2, 5, 24, dtype=np.float32), blank(1, 2, 5, 20)  # noqa: E741
    given = {"X": X, "O": O, "lse": blank(1, 2, 5), "parts": 3}

    def wanted(X, O, lse, parts):  # noqa: E741
        same(X.shape[0], parts)
        same(X.shape[1:4], O.shape[:3])
        same(X.shape[4], attention_merge.columns_of_part(O.shape[3]))
        weights = np.exp(plain(X)[..., -4:-3])
        found = {"O": (weights * plain(X)[..., : O.shape[3]]).sum(0) / weights.sum(0)}
        if lse is not None:
            same(lse.shape, O.shape[:3])
            found["lse"] = np.log(weights.sum(0)[..., 0])
        return found

    return given, wanted


@call("attention_sm90.attention_sm90", 5e-2)
def _():
    cfg = attention_sm90.WarpgroupAttention(head_dim=64, value_dim=32, keys=32)
    return _of_attention(np.float16, cfg, ("blocks", 2))


def _of_sequences_by(dtype, cfg, *more, counter=False):
    """A call of a kernel of attention for sequences, with all that there is but a bias."""
    shapes = {"Q": (1, 2, 19, 32), "K": (1, 1, 26, 32), "V": (1, 1, 26, 24)}
    given = {
        name: numbers(*shape, dtype=dtype, seed=i) for i, (name, shape) in enumerate(shapes.items())
    }
    given |= {"starts_q": np.array([0, 4, 4, 19], np.int32)}
    given |= {"starts_k": np.array([0, 9, 11, 26], np.int32)}
    given |= {"slopes": numbers(3, 2, dtype=np.float32)}
    given |= {"O": np.zeros((1, 2, 19, 24), dtype) * np.nan}
    given |= {"lse": np.full((1, 2, 19), np.nan, np.float32)}
    given |= {"counter": np.zeros(1, np.int32)} if counter else {}
    rule = attention.Rule(begins=True, ends=True, capped=True, scaled=True, shared=2)
    given |= {"scale": 0.125, "cap": 9.0, "left": 9, "right": 3, **dict(more)}
    given |= {"cfg": cfg, "rule": rule}

    def wanted(Q, K, V, slopes, starts_q, starts_k, O, lse, scale, cap, left, right, **_more):  # noqa: E741
        same(1, Q.shape[0], K.shape[0], V.shape[0])
        same(Q.shape[1], 2 * K.shape[1], 2 * V.shape[1])
        same(K.shape[2], V.shape[2])
        same(Q.shape[3], K.shape[3])
        same(O.shape, (*Q.shape[:3], V.shape[3]))
        same(starts_q.shape, starts_k.shape)
        for starts, total in ((starts_q, Q.shape[2]), (starts_k, K.shape[2])):
            same((starts[0], starts[-1]), (0, total))
            assert (np.diff(starts.astype(int)) >= 0).all()
        named = {"window": (left, right), "scale": scale, "softcap": cap}
        if slopes is not None:
            same(slopes.shape, (len(starts_q) - 1, Q.shape[1]))
            named["alibi_slopes"] = slopes
        rows = [plain(x)[0].swapaxes(0, 1) for x in (Q, K, V)]
        o, logs = AttentionVarlenLse.reference(*rows, starts_q, starts_k, **named)
        found = {"O": o.swapaxes(0, 1)[None]}
        if lse is None:
            return found
        same(lse.shape, Q.shape[:3])
        return {**found, "lse": logs[None]}

    return given, wanted


STARTS = {"starts_q": 20, "starts_k": 27}


@call("attention_varlen.flash_attention_varlen", 5e-2, STARTS)
def _():
    return _of_sequences_by(np.float16, flash_attention.AttentionConfig(32, 32, 32, 2, 32))


@call("attention_varlen.attention_rows_varlen", 1e-4, STARTS)
def _():
    return _of_sequences_by(np.float32, attention_rows.RowsAttention(value_dim=32))


@call("attention_varlen.attention_sm90_varlen", 5e-2, STARTS)
def _():
    cfg = attention_sm90.WarpgroupAttention(head_dim=64, value_dim=32, keys=32)
    return _of_sequences_by(np.float16, cfg, ("blocks", 2), counter=True)


class OfRecord(Call):
    """A call whose first arguments are fields of one."""

    def given(self, arguments):
        """Return what the kernel takes."""
        fields = {**arguments}
        scale, longest, chosen = (fields.pop(x) for x in ("scale", "longest", "chosen"))
        starts = fields.pop("queries", None), fields.pop("keys", None)
        return replace(chosen, **fields, starts=starts), scale, longest


def _attention(bias, lse, accum, **given):
    q, k, v = (plain(given[x]) for x in "qkv")
    if given.get("queries") is not None:
        return _of_sequences(q, k, v, given)
    same(q.shape[:2], k.shape[:2], v.shape[:2])
    same(k.shape[2], v.shape[2])
    same(q.shape[3], k.shape[3])
    wanted = (*q.shape[:3], v.shape[3])
    same(wanted, given["o"].shape)
    assert given["longest"] >= q.shape[2]
    more = 0
    if bias is not None:
        assert bias.dtype.kind not in "biu"
        same(bias.shape, (*q.shape[:3], k.shape[2]))
        more = plain(bias)
    if accum is not None:
        same(accum.shape, wanted)
    o, logs = fused_attention.reference(q, k, v, given["scale"], False, more)
    if lse is None:
        return {"o": o}
    same(lse.shape, q.shape[:3])
    return {"o": o, "lse": logs}


def _of_sequences(q, k, v, given):
    queries, keys = (given[x].astype(int) for x in ("queries", "keys"))
    same(queries.shape, keys.shape)
    same(q.shape[:2], k.shape[:2], v.shape[:2])
    same(q.shape[0], 1)
    same(k.shape[2], v.shape[2])
    same(q.shape[3], k.shape[3])
    same((*q.shape[:3], v.shape[3]), given["o"].shape)
    assert (np.diff(queries) <= given["longest"]).all()
    assert queries.max() <= q.shape[2]
    assert keys.max() <= k.shape[2]
    o = plain(given["o"])
    for i in range(len(queries) - 1):
        a, b = slice(*queries[i : i + 2]), slice(*keys[i : i + 2])
        part = q[:, :, a], k[:, :, b], v[:, :, b]
        o[:, :, a] = fused_attention.reference(*part, given["scale"])[0]
    return {"o": o}


def _record(name, make):
    def made():
        return OfRecord("fused_attention.fused_attention", *make(), 5e-2, VALUES.get(name, {}))

    CALLS[name] = made


VALUES = {"fused_attention.sequences": {"queries": 50, "keys": 60}}


def _dense():
    q, k, v = (numbers(1, 2, n, d, dtype=np.float16, seed=s)
               for s, (n, d) in enumerate(((19, 40), (26, 40), (26, 24))))  # fmt: skip
    o, bias = blank(1, 2, 19, 24, dtype=np.float16), numbers(1, 2, 19, 26, dtype=np.float16, seed=9)
    lse = blank(1, 2, 19)
    chosen = fused_attention.choose(q, k, v, o)
    given = {"q": q, "k": k, "v": v, "o": o, "bias": bias, "lse": lse, "accum": None}
    return {**given, "scale": 0.125, "longest": 19, "chosen": chosen}, _attention


def _accumulated():
    given, wanted = _dense()
    return {**given, "bias": None, "accum": blank(1, 2, 19, 24)}, wanted


def _sequences():
    q, k, v = (numbers(1, 2, n, 40, dtype=np.float16, seed=n) for n in (30, 41, 41))
    o = blank(1, 2, 30, 40, dtype=np.float16)
    starts = {"queries": np.array([0, 11, 30], np.int32), "keys": np.array([0, 17, 41], np.int32)}
    given = {"q": q, "k": k, "v": v, "o": o, "bias": None, "lse": None, "accum": None, **starts}
    chosen = fused_attention.choose(q, k, v, o)
    return {**given, "scale": 0.125, "longest": 19, "chosen": chosen}, _attention


_record("fused_attention.fused_attention", _dense)
_record("fused_attention.accumulated", _accumulated)
_record("fused_attention.sequences", _sequences)
