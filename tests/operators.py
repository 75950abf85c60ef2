"""One harness for all operators of `cute.ops`: each brings its problems, and its reference alone.

A problem is a call: arrays of any order in memory, and other arguments. `CASES` has a maker of
random ones for each operator; tests run them on the host, compiled, by torch and on a GPU.
"""

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

import cute_py as cute
from cute_py.dtypes.table import from_numpy

GUARD = 64  # elements in front of an array, and behind it
POISON = 0xA5  # each byte of a guard zone, and of outputs: no number of a float that a result has
FLOATS = ("f32", "f16", "bf16", "f64")
INTEGERS = ("s32", "s8", "u8", "s64", "u16")


@dataclass
class Case:
    """A random problem.

    Attributes:
        name: of the operator.
        arrays: the operands by name, arrays of NumPy.
        named: the other arguments.
        exact: whether the result is the reference's to the bit.
        rows: whether the last mode of arrays is contiguous.
        least: what a result counts as at least, where its error is compared with it: gelu's is
            relative to its argument.
    """

    name: str
    arrays: dict
    named: dict = field(default_factory=dict)
    exact: bool = False
    least: float = 2.0**-6
    rows: bool = False

    @property
    def operator(self):
        return getattr(cute.ops, self.name).operator

    def call(self, arrays=None, **more):
        """Return the result for arrays, by default the case's own."""
        return getattr(cute.ops, self.name)(**(arrays or self.arrays), **{**self.named, **more})

    def expected(self):
        """Return the reference, of numbers that float64 or 64-bit integers hold."""
        wide = {name: x.astype(wide_of(x.dtype)) for name, x in self.arrays.items()}
        return np.asarray(self.operator.problem.reference(**wide, **self.named))


def wide_of(kind):
    return np.float64 if from_numpy(kind).is_float else np.int64


# -- arrays


class Guarded:
    """An array inside of poisoned memory, of which it takes a part: any order, gaps between rows.

    Attributes:
        array: the array.
        memory: all of it, as bytes.
    """

    def __init__(self, array, rng, order=None, gap=0, backwards=()):
        """Copy an array; `order`: its modes from the slowest to the fastest, `gap`: elements behind
        each run of the fastest one, `backwards`: modes of negative stride.
        """
        order = tuple(range(array.ndim)) if order is None else order
        shape = [array.shape[i] for i in order]
        room = [*shape[:-1], shape[-1] + gap] if shape else []
        size = array.itemsize
        self.memory = np.full((int(np.prod(room)) + 2 * GUARD) * size, POISON, np.uint8)
        inner = self.memory[GUARD * size : len(self.memory) - GUARD * size].view(array.dtype)
        view = inner.reshape(room)[..., : shape[-1]] if shape else inner.reshape(())
        self.array = view.transpose(np.argsort(order)) if shape else view
        if backwards:
            self.array = np.flip(self.array, backwards)
        self.array[...] = array

    def is_whole(self):
        """Tell whether all memory around the elements is poisoned still."""
        mask = np.ones(self.memory.shape, bool)
        kept = np.ndarray(
            (*self.array.shape, self.array.itemsize),
            bool,
            mask,
            self.array.__array_interface__["data"][0] - self.memory.__array_interface__["data"][0],
            (*self.array.strides, 1),
        )
        kept[...] = False
        return bool((self.memory[mask] == POISON).all())


def drawn(rng, kind, shape, low=-3, high=4):
    """Return integers of a type, small enough that sums are exact."""
    low = max(low, 0) if kind[0] == "u" else low
    return rng.integers(low, high, shape).astype(cute.dtype(kind).numpy)


def laid_out(rng, array, rows=False):
    """Return a guarded copy in a random order, with gaps or without, perhaps backwards; with `rows`
    the last mode is contiguous.
    """
    order = tuple(rng.permutation(array.ndim)) if rng.random() < 0.7 else None
    gap, odds = int(rng.choice([0, 0, 8 if rows else 1, 8])), 0.1
    backwards = tuple(i for i in range(array.ndim) if rng.random() < odds)
    if rows and order is not None:
        order = (*[i for i in order if i != array.ndim - 1], array.ndim - 1)
    backwards = tuple(i for i in backwards if not rows or i != array.ndim - 1)
    return Guarded(array, rng, order, gap, backwards)


def shape_of(rng, least, most=4, extents=(1, 2, 3, 5, 8, 33, 64)):
    return tuple(int(n) for n in rng.choice(extents, rng.integers(least, most + 1)))


# -- problems


def transpose(rng):
    kind = str(rng.choice([*FLOATS, *INTEGERS, "e4m3"]))
    return Case("transpose", {"a": drawn(rng, kind, shape_of(rng, 2))}, exact=True)


def softmax(rng):
    kind = str(rng.choice([*FLOATS, "e4m3"]))
    shape = shape_of(rng, 1, 3, (1, 2, 7, 33, 128))
    x = rng.normal(0, 3, shape).astype(cute.dtype(kind).numpy)
    return Case("softmax", {"x": x}, {"dim": int(rng.integers(-len(shape), len(shape)))})


def reduce(rng):
    op = str(rng.choice(["add", "max", "min", "mul", "and", "or", "xor"]))
    kind = str(rng.choice(INTEGERS if op in ("and", "or", "xor") else [*FLOATS, *INTEGERS]))
    shape = shape_of(rng, 0, 4, (1, 2, 3, 7, 32, 70))
    modes = [None, *[d for n in range(len(shape) + 1) for d in combinations(range(len(shape)), n)]]
    dim = modes[rng.integers(len(modes))]
    x = drawn(rng, kind, shape, *((1, 2) if op == "mul" else (-3, 4)))
    named = {"op": op, "dim": dim, "keepdim": bool(rng.integers(2))}
    return Case("reduce", {"x": x}, named, exact=True)


def activation(rng):
    kind = str(rng.choice(FLOATS))
    shape = shape_of(rng, 0, 3, (1, 2, 7, 33, 128))
    name = str(rng.choice(["relu", "gelu", "silu", "sigmoid"]))
    x = rng.normal(0, 3, shape).astype(cute.dtype(kind).numpy)
    return Case("activation", {"x": x}, {"name": name}, least=16.0)


def attention(rng):
    kind, layout = str(rng.choice(["f16", "bf16", "f32"])), str(rng.choice(["BMHK", "BHMK"]))
    B, M, N = (int(n) for n in (rng.choice((1, 2)), *rng.choice((1, 7, 33), 2)))
    H, shared = int(rng.choice((1, 2))), int(rng.choice((1, 2)))
    D, E = (int(n) for n in rng.choice((5, 8, 16, 16), 2))
    shapes = (B, M, H * shared, D), (B, N, H, D), (B, N, H, E)
    arrays = {
        name: rng.normal(0, 1, shape).astype(cute.dtype(kind).numpy)
        for name, shape in zip("qkv", shapes, strict=True)
    }
    if layout == "BHMK":
        arrays = {name: np.ascontiguousarray(x.swapaxes(1, 2)) for name, x in arrays.items()}
    named = {"layout": layout}
    if rng.random() < 0.7:
        named["causal"] = str(rng.choice(["top_left", "bottom_right"]))
    if rng.random() < 0.5:
        arrays["bias"] = rng.normal(0, 1, (H * shared, M, N)).astype(np.float32)
        named |= {"softcap": 3.0, "exact": True}
    else:
        named |= {"window": (int(rng.integers(-1, 40)), int(rng.integers(-1, 9))), "scale": 0.3}
    return Case("attention", arrays, named, least=8.0 if kind == "f32" else 1.0, rows=True)


def attention_varlen(rng):
    kind, shared = str(rng.choice(["f16", "bf16", "f32"])), int(rng.choice((1, 2)))
    lengths = rng.choice((0, 1, 7, 33), (2, int(rng.choice((1, 3)))))
    lengths[:, 0] = rng.choice((1, 20), 2)
    H, (D, E) = int(rng.choice((1, 2))), (int(n) for n in rng.choice((5, 8, 16, 16), 2))
    M, N = (int(n) for n in lengths.sum(1))
    shapes = (M, H * shared, D), (N, H, D), (N, H, E)
    arrays = {
        name: rng.normal(0, 1, shape).astype(cute.dtype(kind).numpy)
        for name, shape in zip("qkv", shapes, strict=True)
    }
    starts = {
        f"cu_seqlens_{x}": np.array([0, *np.cumsum(y)], np.int32)
        for x, y in zip("qk", lengths, strict=True)
    }
    named = {"causal": str(rng.choice(["top_left", "bottom_right"])), "softcap": 3.0}
    if rng.random() < 0.5:
        shape = (H * shared,) if rng.random() < 0.5 else (lengths.shape[1], H * shared)
        arrays["alibi_slopes"] = rng.random(shape).astype(np.float32)
    else:
        named |= {"window": (int(rng.integers(-1, 40)), int(rng.integers(-1, 9))), "scale": 0.3}
    least = 8.0 if kind == "f32" else 1.0
    return Case("attention_varlen", {**arrays, **starts}, named, least=least, rows=True)


def attention_with_kvcache(rng):
    kind, page = str(rng.choice(["f16", "bf16"])), int(rng.choice((0, 16)))
    B, M, H, shared = (int(rng.choice(x)) for x in ((2, 3), (1, 1, 3), (2, 3), (2, 5)))
    D, E = (int(n) for n in rng.choice((8, 16), 2))
    pool, rows = (3 * B, page) if page else (B, 40)
    shapes = (B, M, H * shared, D), (pool, rows, H, D), (pool, rows, H, E)
    arrays = {
        name: rng.normal(0, 1, shape).astype(cute.dtype(kind).numpy)
        for name, shape in zip(("q", "k_cache", "v_cache"), shapes, strict=True)
    }
    most = 2 * page if page else rows
    arrays["cache_seqlens"] = rng.integers(0, most + 1, B).astype(np.int32)
    if page:
        arrays["block_table"] = rng.permutation(pool)[: 2 * B].reshape(B, 2).astype(np.int32)
    named = {"causal": str(rng.choice(["top_left", "bottom_right"]))}
    named["window"] = int(rng.integers(-1, 40)), -1
    return Case("attention_with_kvcache", arrays, named, least=1.0, rows=True)


def gemm(rng):
    kind = str(rng.choice(["f16", "bf16", "f32", "f64", "s8"]))
    M, N, K = (int(n) for n in rng.choice((1, 5, 16, 40, 64), 3))
    batch = () if rng.random() < 0.5 else (int(rng.integers(1, 3)),)
    arrays = {"a": drawn(rng, kind, (*batch, M, K)), "b": drawn(rng, kind, (K, N))}
    named = {"alpha": float(rng.integers(1, 3)), "out_dtype": "s32" if kind == "s8" else "f64"}
    if kind != "f64" and kind != "s8":
        named["out_dtype"] = "f32"
    if rng.random() < 0.5:
        arrays["bias"] = drawn(rng, "f32", (N,))
        if kind == "s8":
            named["out_dtype"] = "f32"
    return Case("gemm", arrays, named, exact=True)


CASES = {
    "activation": activation,
    "attention": attention,
    "attention_varlen": attention_varlen,
    "attention_with_kvcache": attention_with_kvcache,
    "gemm": gemm,
    "reduce": reduce,
    "softmax": softmax,
    "transpose": transpose,
}


def cases(name, count, seed=0):
    """Return random problems of an operator."""
    rng = np.random.default_rng([seed, *name.encode()])
    return [CASES[name](rng) for _ in range(count)], rng


# -- what must hold


def agrees(case, found):
    """Require that a result is the reference's: to the bit, or to a few roundings of its type."""
    want = case.expected()
    kind = found.dtype
    assert found.shape == want.shape, case
    if case.exact:
        rounded = want.astype(kind)
        assert np.array_equal(found, rounded), case
        return
    ours = from_numpy(kind)
    unit = max(2.0**-ours.mantissa_bits, 2.0**-22)
    near = np.abs(found.astype(np.float64) - want) <= 4 * unit * np.maximum(
        np.abs(want), case.least
    )
    assert near.all(), case
