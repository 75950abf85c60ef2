"""Elements of all types mean the same on the emulator and as emitted code: numbers, integers of
the plan, conversions, fma. What PTX converts is computed by `exact`.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import cute_py as cute

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from tests.compile_only import exact, host
from tests.compile_only.expressions import INTEGERS
from tests.sampling import in_turn, quick

FLOATS = ("f64", "f32", "tf32", "f16", "bf16", "e5m2", "e4m3", "e2m1")
SMALL = ("b1", "s2", "u2", "s4", "u4")
TYPES = (*FLOATS, *INTEGERS, *SMALL)
ROUNDINGS = ("rn", "rz", "rd", "ru", "rna")
COUNT = 1024


def typed(array, kind):
    kind = cute.dtype(kind)
    return array if cute.from_numpy(array.dtype) is kind else cute.typed(array, kind)


def zeros(kind, shape):
    return np.zeros(shape, cute.dtype(kind).numpy)


def both(kernel, out, kind, *arrays, **more):
    """Return what the emulator and the emitted code write; arrays are (array, type)."""
    given = [typed(x, k) for x, k in arrays]
    found, emitted = out.copy(), out.copy()
    plan = cute.trace(kernel, typed(found, kind), *given, **more)
    cute.emulate(plan, typed(found, kind), *given)
    host.run(plan, emitted, *[x for x, _kind in arrays])
    return found, emitted


def require_same(found, emitted):
    """Bits are the same; all NaN are one."""
    same = found.view(f"u{found.itemsize}") == emitted.view(f"u{found.itemsize}")
    if found.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            same |= np.isnan(found.astype(np.float64)) & np.isnan(emitted.astype(np.float64))
    assert same.all()


# -- numbers and integers of the plan


@cute.kernel
def integers(out, n: cute.s64):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    held = cute.rmem(out.dtype, 1)
    held.fill(0 if out.dtype.bits > 1 else False)
    out[0, t] = t.to(out.dtype, wrap=True)
    out[1, t] = (t * n).to(out.dtype, wrap=True)
    out[2, t] = held | (t - n).to(out.dtype, wrap=True)
    out[3, t] = cute.where(t < 9, n.to(out.dtype, wrap=True), held)
    out[4, t] = (t - n).to(out.dtype, saturate=True)
    out[5, t] = cute.where(t < out.dtype.max, t, held)


@pytest.mark.parametrize("kind", [*INTEGERS, *SMALL])
@pytest.mark.parametrize("n", [0, 2, 4, -1, 1 << 40])
def test_integers_become_elements(kind, n):
    """They wrap around at the width of the type, are clamped, or fit; a flag is whether they are
    not 0.
    """
    dtype, t = cute.dtype(kind), np.arange(32)
    found, emitted = zeros(kind, (6, 32)), zeros(kind, (6, 32))
    plan = cute.trace(integers, typed(found, kind), n)
    cute.emulate(plan, typed(found, kind), n)
    host.run(plan, emitted, n)
    require_same(found, emitted)
    wanted = np.array([t, t * n, t - n, np.where(t < 9, n, 0)])
    if kind == "b1":
        assert np.array_equal(found[:4], wanted != 0)
    else:
        clamped = np.clip(t - n, int(dtype.min), min(int(dtype.max), 2**63 - 1))
        assert np.array_equal(found[4].astype(np.int64), clamped)
        assert np.array_equal(found[5].astype(np.int64), np.where(t < dtype.max, t, 0))
        low = (wanted - int(dtype.min)) % (1 << dtype.bits) if dtype.bits < 64 else None
        assert low is None or np.array_equal(found[:4].astype(np.int64), low + int(dtype.min))


@cute.kernel
def literals(out, numbers: tuple):
    cute.launch(grid=1, block=1)
    held = cute.rmem(out.dtype, 1)
    held.fill(0)
    for i, number in enumerate(numbers):
        out[i, 0] = number
        out[i, 1] = cute.where(held < number, number, held)
        out[i, 2] = held + number


@pytest.mark.parametrize("kind", FLOATS)
def test_a_number_is_rounded_once(kind):
    """1 + half a step + a little more than f64 to f32 keeps: not to be taken for a tie."""
    half = 0.5 ** (exact.FORMATS[kind][1] + 1)
    numbers = (1.0, 0.1, 1 + half, 1 + 3 * half, 1 + half + 2.0**-45, 1 + half - 2.0**-45)
    found, emitted = both(literals, zeros(kind, (6, 3)), kind, numbers=numbers)
    require_same(found, emitted)
    for number, row in zip(numbers, found.astype(np.float64).tolist(), strict=True):
        near = exact.value(exact.image(Fraction(number), kind), kind)
        assert row == [near] * 3


# -- conversions


@cute.kernel
def converted(out, x, rounding, saturate):
    cute.launch(grid=COUNT // 32, block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    out[i] = x[i].to(out.dtype, rounding, saturate)


def images(kind, rng):
    """Return bit images of a type, many at its ends and at ties of narrower types."""
    bits = cute.dtype(kind).bits
    every = rng.integers(0, 1 << min(bits, 63), COUNT, dtype=np.uint64)
    if bits < 16:
        every[: 1 << bits] = np.arange(1 << bits)
        return every
    if kind in FLOATS:
        near = [image for x in numbers(rng) for image in around(exact.image(x, kind, "rz"), bits)]
        if kind == "tf32":
            every, near = every & 0xFFFFFFFF << 13, [x << 13 for x in near]
    else:
        ends = [sign << k for k in range(bits) for sign in (1, 3, -1)]
        near = [(x + more) % (1 << bits) for x in ends for more in (-1, 0, 1)]
    chosen = rng.choice(np.array(near, np.uint64), COUNT - COUNT // 8)
    every[: len(chosen)] = chosen
    return every


def numbers(rng):
    """Give numbers half a step beyond those of narrower types, and at the ends of integers."""
    for kind in FLOATS[1:]:
        low, m = exact.bias(kind), exact.FORMATS[kind][1]
        for x in (*range(-low - m - 2, -low + 3), -1, 0, low - 1, low, low + 1):
            step = Fraction(2 * int(rng.integers(1 << m)) + int(rng.integers(2)), 2 << m)
            yield (1 + step) * Fraction(2) ** x
    for bits in (2, 4, 7, 8, 15, 16, 31, 32, 63, 64):
        for more in (Fraction(1, 2), 0, Fraction(-1, 2)):
            yield (1 << bits) + more
    yield from (None, exact.INFINITY, 0)


def around(image, bits):
    sign = 1 << bits - 1
    return [(image + more) % (1 << bits) ^ flip for more in (-1, 0, 1) for flip in (0, sign)]


def array_of(images, kind):
    dtype = cute.dtype(kind)
    if dtype.bits < 8:
        return np.asarray(cute.decode(images, dtype)).astype(dtype.numpy)
    return images.astype(f"u{dtype.bits // 8}").view(dtype.numpy)


def check_conversion(source, target, rounding, saturate):
    """Compare a conversion, if there is code for it; return whether there is."""
    x = array_of(images(source, np.random.default_rng(0)), source)
    more = {"rounding": rounding, "saturate": saturate}
    try:
        found = both(converted, zeros(target, COUNT), target, (x, source), **more)
    except cute.CuteError as error:
        if error.code not in ("codegen-op", "kernel-lack"):
            raise
        return False
    require_same(*found)
    return True


@pytest.mark.parametrize("source", TYPES)
def test_conversions_mean_the_same(source):
    """A few of each type; all of them are in tests/slow."""
    rng = np.random.default_rng(TYPES.index(source))
    targets = [target for target in TYPES if target != source]
    compared = [
        check_conversion(source, target, *way)
        for target in rng.choice(targets, 2, replace=False)
        for way in ((None, False), (rng.choice(ROUNDINGS), bool(rng.integers(2))))
    ]
    assert any(compared)


@pytest.mark.parametrize("source", ["s64", "u64"])
def test_ties_of_64_bit_integers_go_away_from_zero(source):
    """No instruction rounds so: two conversions to nearest are compared."""
    assert check_conversion(source, "f64", "rna", False)


# -- conversions of whole storages: several elements at once


@cute.kernel
def recast(out, words, types, ways, counts):
    cute.launch(grid=words.shape[0], block=1)
    row, held = cute.block_idx(), cute.rmem("u32", counts[0])
    for i in range(counts[0]):
        held[i] = words[row, i]
    found = cute.recast(cute.recast(held, types[0]).to(types[1], *ways), "u32")
    for i in range(counts[1]):
        out[row, i] = found[i]


def as_words(images, bits, each):
    """Bit images as 32-bit words, a row of `each` elements for each thread."""
    images = images.reshape(-1, each)
    places = np.arange(each, dtype=np.uint64) * np.uint64(bits) % np.uint64(32)
    if bits == 64:
        return np.ascontiguousarray(images).view(np.uint32)
    placed = (images << places).reshape(len(images), -1, 32 // bits)
    return np.bitwise_or.reduce(placed, axis=2).astype(np.uint32)


def as_images(words, bits):
    if bits == 64:
        return np.ascontiguousarray(words).view(np.uint64).reshape(-1)
    places = np.arange(0, 32, bits, dtype=np.uint64)
    found = words.astype(np.uint64)[..., None] >> places
    return (found & np.uint64((1 << bits) - 1)).reshape(-1)


def nans(images, kind):
    low = 13 if kind == "tf32" else 0
    return np.array([kind in FLOATS and exact.value(int(x) >> low, kind) is None for x in images])


def check_storages(source, target, way, arch="sm_90a", step=1):
    """A conversion of whole words is that of the emulator; of many images, each `step`-th."""
    widths = [cute.dtype(kind).bits for kind in (source, target)]
    each = 32 // min(*widths, 4)
    chosen = images(source, np.random.default_rng(0))[:: step * max(1, widths[0] // 16)]
    words = as_words(np.ascontiguousarray(chosen), widths[0], each)
    counts = tuple(each * bits // 32 for bits in widths)
    found = np.zeros((len(words), counts[1]), np.uint32)
    emitted = found.copy()
    plan = cute.trace(recast, found, words, (source, target), way, counts)
    cute.emulate(plan, found, words)
    host.run(plan, emitted, words, arch=arch)
    a, b = (as_images(x, widths[1]) for x in (found, emitted))
    assert ((a == b) | nans(a, target) & nans(b, target)).all(), (source, target, way, arch)


def ways_of(source, target):
    """The roundings that make a difference, with and without clamping."""
    floats = cute.dtype(source).is_float or cute.dtype(target).is_float
    return product(ROUNDINGS if floats else ("rn",), (False, True))


@pytest.mark.parametrize("source", TYPES)
def test_whole_storages_convert_as_their_elements(source):
    """On targets without the newer instructions, too; all of them are in tests/slow."""
    rng = np.random.default_rng(TYPES.index(source))
    target, other = rng.choice([x for x in TYPES if x != source], 2, replace=False)
    half = ("f16", "bf16")[source == "f16" or (bool(rng.integers(2)) and source != "bf16")]
    ways = list(ways_of(source, target))
    check_storages(source, target, ways[rng.integers(len(ways))], step=8)
    if TYPES.index(source) % 2:
        check_storages(source, half, ("rn", False), step=8)
    else:
        check_storages(source, other, ("rn", False), rng.choice(("sm_75", "sm_80")), step=8)


# -- functions of bits


@cute.kernel
def of_bits(out, x):
    cute.launch(grid=COUNT // 32, block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    a, b, pos, count = (x[k, i] for k in range(4))
    results = [cute.bfe(a, pos, count), cute.bfi(a, b, pos, count)]
    results += [cute.bfe(a, 1, 2), cute.bfi(a, b, 2, 1)]
    if x.dtype.name in ("s32", "u32"):
        results += [cute.prmt(a, b, pos), cute.prmt(a, b, 0x39D1), cute.lop3(a, b, pos, 0xCA)]
    for k, result in enumerate(results):
        out[k, i] = result


@pytest.mark.parametrize("kind", [*INTEGERS, "s4", "u4"])
def test_functions_of_bits_mean_the_same(kind):
    rng, dtype = np.random.default_rng(0), cute.dtype(kind)
    x = rng.integers(dtype.min, dtype.max, (4, COUNT), dtype.numpy, endpoint=True)
    x[2:, : COUNT // 2] = rng.integers(
        0, min(dtype.bits, 15 if dtype.bits == 4 else 64), (2, COUNT // 2)
    )
    if kind == "s4":
        x[2:] &= 7
    require_same(*both(of_bits, zeros(kind, (7, COUNT)), kind, (x, kind)))


def test_lop3_and_prmt_are_one_instruction():
    x = np.zeros((4, COUNT), np.uint32)
    found = cute.compile(cute.trace(of_bits, np.zeros((7, COUNT), np.uint32), x), "sm_80").ptx
    assert (found.count("lop3.b32"), found.count("prmt.b32")) == (1, 2)


# -- contraction


@cute.kernel
def polynomial(out, x, fma):
    cute.launch(grid=COUNT // 32, block=32, fma=fma)
    i = cute.block_idx() * 32 + cute.thread_idx()
    held = x[i]
    out[0, i] = held * held - held
    out[1, i] = held - held * 3.0
    out[2, i] = held * held + 0.5 * held


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16", "e4m3"])
def test_a_contracted_plan_means_the_same(kind):
    x = array_of(images(kind, np.random.default_rng(0)), kind)
    fused = both(polynomial, zeros(kind, (3, COUNT)), kind, (x, kind), fma=True)
    plain = both(polynomial, zeros(kind, (3, COUNT)), kind, (x, kind), fma=False)
    require_same(*fused)
    require_same(*plain)
    assert (fused[0].view(np.uint8) != plain[0].view(np.uint8)).any()


def test_contraction_is_of_the_plan_alone():
    x = np.zeros((3, COUNT), np.float32)
    ptx = {
        fma: cute.compile(cute.trace(polynomial, x, x[0], fma), "sm_80").ptx
        for fma in (False, True)
    }
    assert {fma: text.count("fma.rn.f32") for fma, text in ptx.items()} == {False: 0, True: 3}


# -- pairs of 16-bit floats

PAIRED = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "fma": cute.fma,
    "min": lambda a, b, c: cute.minimum(a, b),
    "max": lambda a, b, c: cute.maximum(a, b),
    "neg": lambda a, b, c: -a,
    "abs": lambda a, b, c: abs(a),
    "min_nan": lambda a, b, c: cute.minimum(a, b, nan="propagate"),
    "max_nan": lambda a, b, c: cute.maximum(a, b, nan="propagate"),
    "scaled": lambda a, b, c: a * 0.3 + b[0],
}


@cute.kernel
def paired(out, x, fn):
    """Five elements of each operand: two pairs and a single one."""
    cute.launch(grid=x.shape[1], block=1)
    row = cute.block_idx()
    operands = [cute.rmem(x.dtype, 5) for _i in range(3)]
    for i, operand in enumerate(operands):
        for k in range(5):
            operand[k] = x[i, row, k]
    found = PAIRED[fn](*operands)
    for k in range(5):
        out[row, k] = found[k]


HALVES = ("f16", "bf16")


@pytest.mark.parametrize(("fn", "kind"), quick(in_turn(PAIRED, HALVES), PAIRED, HALVES))
def test_pairs_have_the_bits_of_their_elements(kind, fn):
    rng = np.random.default_rng(3)
    chosen = [images(kind, rng)[:480] for _operand in range(3)]
    for operand in chosen:
        rng.shuffle(operand)
    x = np.stack([array_of(operand, kind) for operand in chosen]).reshape(3, -1, 5)
    out = zeros(kind, x.shape[1:])
    plan = cute.trace(paired, typed(out, kind), typed(x, kind), fn)
    cute.emulate(plan, typed(out, kind), typed(x, kind))
    for arch in ("sm_75", "sm_80", "sm_90a"):
        if (kind, arch) == ("bf16", "sm_75") and fn in ("mul", "fma", "scaled"):
            continue  # refused: it has no fma of bf16
        emitted = zeros(kind, x.shape[1:])
        host.run(plan, emitted, x, arch=arch)
        require_same(out, emitted)


@cute.kernel
def extremes(out, x):
    cute.launch(grid=x.shape[1], block=1)
    a, b = (x[i, cute.block_idx()] for i in range(2))
    out[0, cute.block_idx()] = cute.maximum(a, b, nan="propagate")
    out[1, cute.block_idx()] = cute.minimum(a, b, nan="propagate")


@pytest.mark.parametrize("kind", ["f32", "f64", "e4m3"])
def test_nan_is_propagated_with_and_without_the_instruction(kind):
    rng = np.random.default_rng(3)
    x = np.stack([array_of(rng.permutation(images(kind, rng)), kind) for _operand in range(2)])
    out = zeros(kind, (2, COUNT))
    plan = cute.trace(extremes, typed(out, kind), typed(x, kind))
    cute.emulate(plan, typed(out, kind), typed(x, kind))
    for arch in ("sm_75", "sm_80"):
        emitted = zeros(kind, (2, COUNT))
        host.run(plan, emitted, x, arch=arch)
        require_same(out, emitted)


@cute.kernel
def outer_sums(out, x):
    """Rows and columns of extent 1 are repeated: pairs of equal and of neighbouring elements."""
    cute.launch(grid=x.shape[0], block=1)
    row, a, b = cute.block_idx(), cute.rmem(x.dtype, (4, 1)), cute.rmem(x.dtype, (1, 3))
    for i in range(4):
        a[i, 0] = x[row, i]
    for i in range(3):
        b[0, i] = x[row, 4 + i]
    found = a * b
    for i in range(12):
        out[row, i] = found[i]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_repeated_modes_are_computed_in_pairs(kind):
    rng = np.random.default_rng(3)
    x = array_of(rng.permutation(images(kind, rng)[: 7 * 64]), kind).reshape(64, 7)
    found, emitted = both(outer_sums, zeros(kind, (64, 12)), kind, (x, kind))
    require_same(found, emitted)
    plan = cute.trace(outer_sums, typed(found, kind), typed(x, kind))
    packed = {"f16": "mul.rn.f16x2", "bf16": "mul.rn.bf16x2"}[kind]
    assert cute.compile(plan, "sm_90a").ptx.count(packed) == 6


@cute.kernel
def products(out, a, b):
    cute.launch(grid=1, block=32)
    x, y = (cute.rmem(a.dtype, 8) for _operand in range(2))
    here = (cute.thread_idx(),)
    cute.copy(cute.local_tile(a, (8,), here), x)
    cute.copy(cute.local_tile(b, (8,), here), y)
    cute.copy(x * y, cute.local_tile(out, (8,), here))


@pytest.fixture(scope="module")
def counts():
    """The instructions of eight products, by type."""
    arrays = {kind: [typed(zeros(kind, 256), kind)] * 3 for kind in ("f16", "bf16")}
    plans = {kind: cute.trace(products, *given) for kind, given in arrays.items()}
    return {kind: cute.compile(p, "sm_90a").resources.instructions for kind, p in plans.items()}


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_eight_products_are_four_instructions(counts, kind):
    found = counts[kind]
    assert found["HMUL2"] + found["HFMA2"] == 4, found
    assert not any(found[each] for each in ("F2FP", "FMUL", "PRMT")), found


# -- fma


@cute.kernel
def multiplied(out, a, b, c):
    cute.launch(grid=COUNT // 32, block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    out[i] = cute.fma(a[i], b[i], c[i])


@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS, *SMALL[1:]])
def test_fma_rounds_once(kind):
    rng = np.random.default_rng(1)
    chosen = [images(kind, rng) for _operand in range(3)]
    for operand in chosen:
        rng.shuffle(operand)
    if kind == "e5m2":  # 9*2**12 lies between two numbers, and f32 has no room for what is added
        chosen[0][:2], chosen[1][:2], chosen[2][:2] = 0x5A, 0x5A, (0x01, 0x81)
    if kind == "f64":  # a product that c nearly takes away
        chosen[0][2:9], chosen[1][2:9] = (
            0x3FF0000000000001,
            np.arange(7, dtype=np.uint64) + 0x3FF0000000000003,
        )
        chosen[2][2:9] = np.arange(7, dtype=np.uint64) + 0xBFF0000000000004
    arrays = [(array_of(operand, kind), kind) for operand in chosen]
    found, emitted = both(multiplied, zeros(kind, COUNT), kind, *arrays)
    require_same(found, emitted)
    if kind in FLOATS and kind != "tf32":  # whose arithmetic is that of f32
        wanted = [exact.fma(kind, *map(int, each)) for each in zip(*chosen, strict=True)]
        require_same(found, array_of(np.array(wanted, np.uint64), kind))
