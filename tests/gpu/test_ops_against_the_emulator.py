"""Register ops on the GPU are those of the emulator: bit for bit, or within PTX's error bound.

One kernel for each type: a plan with all functions, on corners and random bits of that type.
"""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.functions import FUNCTIONS
from tests.coverage import covers
from tests.emulated.plans import bid_x, part, tid
from tests.gpu.harness import (
    DIVISIONS,
    DRY,
    SHIFTS,
    TESTS,
    THREADS,
    Maker,
    assert_same,
    at,
    both,
    both_kernels,
    drawn,
    functions,
    images,
    launched,
    ops,
    require_any,
    shuffled,
)

require_any()

N = 1024
INTEGERS = [f"{s}{bits}" for bits in (8, 16, 32, 64) for s in "su"]
FLOATS = ["e4m3", "e5m2", "f16", "bf16", "f32", "f64"]
here = bid_x * THREADS + tid


class Sheet:
    """A plan that computes many results from the same inputs, each to a row of one array."""

    def __init__(self, n=N):
        self.m, self.n = Maker("sheet", grid=(n // THREADS, 1, 1), threads=THREADS), n
        self.body, self.arrays, self.rows, self.names = [], [], {}, []

    def input(self, name, kind, array):
        tensor, reg = self.m.tensor(name, kind), self.m.reg(name.lower(), kind)
        self.body.append(self.m.op(ops.Load, reg, at(tensor, here)))
        self.arrays.append(array)
        return reg

    def reg(self, kind, n=1):
        return self.m.reg(f"r{len(self.m.registers)}", kind, n)

    def add(self, kind, *args, **named):
        self.body.append(self.m.op(kind, *args, **named))

    def keep(self, reg, name):
        """Store a register as the next row of the results of its type."""
        rows = self.rows.setdefault(reg.dtype.name, [])
        self.names.append(name)
        rows.append((name, reg))

    def keep_flag(self, flag, name):
        held = self.reg("u8")
        self.add(ops.Map, "where", held, (flag, 1, 0), cute.u8)
        self.keep(held, name)

    def run(self):
        """Return name -> (of the GPU, of the emulator)."""
        arrays, body, count = list(self.arrays), list(self.body), len(self.arrays)
        for kind, rows in self.rows.items():
            out = self.m.tensor(f"R_{kind}", kind)
            arrays.append(np.zeros(len(rows) * self.n, cute.dtype(kind).numpy))
            for i, (_name, reg) in enumerate(rows):
                body.append(self.m.op(ops.Store, at(out, here + i * self.n), reg))
        found = both(self.m.plan(*body), *arrays)[count:]
        return {
            name: tuple(x[i * self.n : (i + 1) * self.n] for x in pair)
            for pair, rows in zip(found, self.rows.values(), strict=True)
            for i, (name, _reg) in enumerate(rows)
        }


def mapped(sheet, fn, kind, *regs):
    """Compute a function and keep its result."""
    kind = cute.dtype(kind)
    if FUNCTIONS[fn].compares:
        flag = sheet.reg("b1")
        sheet.add(ops.Map, fn, flag, regs, kind)
        sheet.keep_flag(flag, fn)
        return
    result = sheet.reg(kind.name)
    sheet.add(ops.Map, fn, result, regs, kind)
    sheet.keep(result, fn)


def arity(fn):
    return FUNCTIONS[fn].arity


def operands(fn, *regs):
    """Return as many registers as a function takes, and a number where it takes one."""
    given = (regs * 2)[: arity(fn)]
    return (*given[:-1], 0xCA) if FUNCTIONS[fn].fixed else given


# -- Map


@covers(ops.Map)
@pytest.mark.parametrize("kind", INTEGERS)
def test_integer_functions(kind):
    a = drawn(kind, N)
    b, c = shuffled(drawn(kind, N, 1), 1), shuffled(drawn(kind, N, 2), 2)
    d = np.where(b == 0, np.array(3, b.dtype), b)
    if kind.startswith("s"):
        d = np.where(d == -1, np.array(-3, b.dtype), d)  # the least number / -1 overflows
    count = (np.arange(N) % cute.dtype(kind).bits).astype(a.dtype)
    sheet = Sheet()
    ra, rb, rc, rd, rs = (
        sheet.input(n, kind, x) for n, x in zip("ABCDS", (a, b, c, d, count), strict=True)
    )
    words = functions("word") if kind in ("s32", "u32") else ()
    for fn in dict.fromkeys((*functions("int"), *words, *TESTS)):
        mapped(sheet, fn, kind, *operands(fn, ra, rb, rc))
    for fn in DIVISIONS:
        mapped(sheet, fn, kind, ra, rd)
    for fn in SHIFTS:
        mapped(sheet, fn, kind, ra, rs)
    for name, (got, wanted) in sheet.run().items():
        assert_same(got, wanted, f"{name} {kind}", a, b, c, d, count)


@pytest.mark.parametrize("kind", FLOATS)
def test_float_functions(kind):
    a = drawn(kind, N)
    b, c = shuffled(drawn(kind, N, 1), 1), shuffled(drawn(kind, N, 2), 2)
    sheet = Sheet()
    ra, rb, rc = (sheet.input(n, kind, x) for n, x in zip("ABC", (a, b, c), strict=True))
    fused = kind in ("f16", "bf16", "f32")
    for fn in (*(fn for fn in functions("float") if fused or fn != "fma"), *TESTS):
        mapped(sheet, fn, kind, *(ra, rb, rc)[: arity(fn)])
    flag, chosen = sheet.reg("b1"), sheet.reg(kind)
    sheet.add(ops.Map, "lt", flag, (rb, rc), cute.dtype(kind))
    sheet.add(ops.Map, "where", chosen, (flag, ra, 1.5), cute.dtype(kind))
    sheet.keep(chosen, "where")
    for name, (got, wanted) in sheet.run().items():
        if name == "where":
            wanted = wanted.view(f"u{wanted.dtype.itemsize}")  # bits pass, those of NaN as well
            got = got.view(wanted.dtype)
        assert_same(got, wanted, f"{name} {kind}", a, b, c)


def test_fma_of_f64_rounds_once():
    """The emulator rounds the product first; the GPU must give the nearest number."""
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((3, N))
    c[::2] = -(a * b)[::2]
    sheet = Sheet()
    regs = [sheet.input(n, "f64", x) for n, x in zip("ABC", (a, b, c), strict=True)]
    mapped(sheet, "fma", "f64", *regs)
    got, emulated = sheet.run()["fma"]
    exact = [
        float(Fraction(x) * Fraction(y) + Fraction(z))
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert (np.abs(emulated - exact) <= np.spacing(np.maximum(np.abs(a * b), np.abs(exact)))).all()
    if DRY:
        return
    assert_same(got, np.array(exact), "fma f64", a, b, c)


# (relative, absolute) error. Source: PTX ISA, floating-point instructions; one rounding of f32 each
# for the factor of exp and log, that of exp times |x| <= 88.
APPROXIMATE = {
    "exp2": (2**-22, 2.0**-126),
    "exp": (2**-22 + 128 * 2**-24, 2.0**-126),
    "log2": (2**-22 + 2**-23, 2**-22),
    "log": (2**-22 + 2**-22, 2**-22),
    "tanh": (2**-10.987, 2.0**-126),
    "rsqrt": (2**-22.9, 0),
    "rcp": (2**-23, 0),
    "sin": (0, 2**-20.5),
    "cos": (0, 2**-20.5),
    "erf": (2**-22, 2.0**-126),
    "gelu": (0, 5 * 3 * 2.0**-24),  # of the argument
}
DOMAIN = {
    "exp2": (-120, 120),
    "exp": (-80, 80),
    "log2": (2.0**-100, 2.0**100),
    "log": (2.0**-100, 2.0**100),
    "tanh": (-8, 8),
    "rsqrt": (2.0**-100, 2.0**100),
    "rcp": (2.0**-100, 2.0**100),
    "sin": (-np.pi, np.pi),
    "cos": (-np.pi, np.pi),
    "erf": (-4, 4),
    "gelu": (-5, 5),
}


def spread(low, high, n):
    """Return n numbers over an interval, by exponent where it is all positive."""
    if low > 0:
        return np.exp2(np.linspace(np.log2(low), np.log2(high), n))
    return np.linspace(low, high, n)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_approximate_functions_are_within_their_bound(kind):
    sheet, inputs = Sheet(), {}
    for fn in APPROXIMATE:
        low, high = DOMAIN[fn]
        if kind == "f16":
            low, high = (2.0**-10, 2.0**10) if low > 0 else (max(low, -10), min(high, 10))
        inputs[fn] = np.asarray(cute.convert(spread(low, high, N), kind))
        mapped(sheet, fn, kind, sheet.input(f"X_{fn}", kind, inputs[fn]))
    step = {"f32": 0, "f16": 2.0**-11, "bf16": 2.0**-8}[kind]  # the last rounding
    least = {"f32": 0, "f16": 2.0**-24, "bf16": 2.0**-133}[kind]
    for fn, (got, emulated) in sheet.run().items():
        relative, absolute = APPROXIMATE[fn]
        exact = _exactly(fn, inputs[fn].astype(np.float64))
        top = float(cute.dtype(kind).max)
        bound = np.abs(exact) * (relative + 2 * step + 2**-24) + absolute + least
        for x in (got, emulated):
            wrong = (np.abs(x.astype(np.float64) - exact) > bound) & (np.abs(exact) < top)
            where = np.flatnonzero(wrong)[:5]
            assert not where.size, (fn, kind, inputs[fn][where], x[where], exact[where])


def _exactly(fn, x):
    if fn == "rsqrt":
        return 1 / np.sqrt(np.abs(x))
    with np.errstate(all="ignore"):
        known = {"rcp": lambda x: 1 / x, "erf": np.vectorize(math.erf)}
        known["gelu"] = np.vectorize(FUNCTIONS["gelu"].model)
        return known.get(fn, getattr(np, fn, None))(x)


def test_every_approximate_function_has_its_bound():
    approximate = {f.name for f in FUNCTIONS.values() if f.approximate}
    assert approximate == set(APPROXIMATE) == set(DOMAIN)


def test_approximate_functions_at_their_corners():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 4.0, -1.0] * (THREADS // 8), np.float32)
    sheet = Sheet(THREADS)
    reg = sheet.input("X", "f32", x)
    for fn in ("exp2", "exp", "log2", "log", "tanh", "rsqrt", "rcp", "sqrt"):
        mapped(sheet, fn, "f32", reg)
    for fn, (got, wanted) in sheet.run().items():
        corner = ~np.isfinite(wanted) | np.isin(wanted, (0.0, 1.0, 0.5, 2.0, -1.0))
        assert_same(got[corner], wanted[corner], fn, x[corner])


def test_flags():
    """Logic of b1, and conditions made of them."""
    a, b = drawn("s32", N), shuffled(drawn("s32", N, 1), 1)
    sheet = Sheet()
    ra, rb = sheet.input("A", "s32", a), sheet.input("B", "s32", b)
    p, q = sheet.reg("b1"), sheet.reg("b1")
    sheet.add(ops.Map, "lt", p, (ra, rb), cute.s32)
    sheet.add(ops.Map, "ge", q, (ra, 0), cute.s32)
    for fn in ("and", "or", "xor", "eq", "ne", "not", "copy", "where"):
        flag = sheet.reg("b1")
        sources = {"not": (p,), "copy": (p,), "where": (p, q, True)}.get(fn, (p, q))
        sheet.add(ops.Map, fn, flag, sources, cute.b1)
        sheet.keep_flag(flag, fn)
    for name, (got, wanted) in sheet.run().items():
        assert_same(got, wanted, name, a, b)


@pytest.mark.parametrize("kind", ["s4", "u4", "s2", "u2"])
def test_narrow_integers_wrap(kind):
    """They live in registers alone here: made of s8, and made s8 again."""
    a, b, c = (shuffled(drawn("s8", N, i), i) for i in range(3))
    sheet = Sheet()
    wide = [sheet.input(n, "s8", x) for n, x in zip("ABC", (a, b, c), strict=True)]
    narrow = [sheet.reg(kind) for _ in wide]
    for x, y in zip(narrow, wide, strict=True):
        sheet.add(ops.Convert, x, y)
    for fn in functions("int"):
        held, out = sheet.reg(kind), sheet.reg("s8")
        sheet.add(ops.Map, fn, held, operands(fn, *narrow), cute.dtype(kind))
        sheet.add(ops.Convert, out, held)
        sheet.keep(out, fn)
    for name, (got, wanted) in sheet.run().items():
        assert_same(got, wanted, f"{name} {kind}", a, b, c)


# -- Convert

TYPES = [*INTEGERS, *FLOATS, "tf32"]


ROUNDINGS = ("rn", "rz", "rd", "ru", "rna")


def conversions(source):
    """Yield (type, rounding, saturate) of all conversions of a type."""
    for target in TYPES:
        if target != source:
            floats = cute.dtype(target).is_float or cute.dtype(source).is_float
            for way in product(ROUNDINGS if floats else ("rn",), (False, True)):
                yield target, *way


def converted(source, n, ways):
    """Return what differs between GPU and emulator, of conversions and of the test for 0."""
    x, sheet = drawn(source, n), Sheet(n)
    reg = sheet.input("X", source, x)
    for target, rounding, saturate in ways:
        out = sheet.reg(target)
        sheet.add(ops.Convert, out, reg, rounding, saturate)
        sheet.keep(out, f"{source} -> {target} {rounding}{' saturating' * saturate}")
    flag = sheet.reg("b1")
    sheet.add(ops.Convert, flag, reg)
    sheet.keep_flag(flag, f"{source} -> b1")
    wrong = []
    for name, (got, wanted) in sheet.run().items():
        bad = np.flatnonzero(images(got) != images(wanted))
        wrong += [(name, str(x[i]), str(got[i]), str(wanted[i])) for i in bad[:3]]
    return wrong


@covers(ops.Convert)
@pytest.mark.parametrize("source", TYPES)
def test_conversions(source):
    wrong = converted(source, N, conversions(source))
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("source", TYPES)
def test_a11_a_million_values_of_every_pair(source):
    wrong = converted(source, 1 << 20, [x for x in conversions(source) if x[1:] == ("rn", False)])
    assert not wrong, wrong


NARROW = ("e2m1", "s4", "u4", "s2", "u2")  # not of arrays: elements of words


@cute.kernel
def of_words(out, words, source, ways, count):
    """Convert all elements of a thread's words, and store the words of each result."""
    cute.launch(grid=N // THREADS, block=THREADS)
    i, held, row = cute.block_idx() * THREADS + cute.thread_idx(), cute.rmem("u32", count), 0
    for k in range(cute.size(held)):
        held[k] = words[k, i]
    for target, *way in ways:
        found = cute.recast(cute.recast(held, source).to(target, *way), "u32")
        for k in range(cute.size(found)):
            out[row, i] = found[k]
            row += 1


def elements(words, kind):
    """Return words [word, thread] as numbers of a type that compare: all NaN are one."""
    kind = cute.dtype(kind)
    flat = np.ascontiguousarray(words.T)
    return images(flat.view(kind.numpy)) if kind.bits >= 8 else flat


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("source", [*TYPES, *NARROW])
def test_conversions_of_words(source, narrow):
    """From or to types narrower than a byte, and of several elements at once."""
    targets = [x for x in (NARROW if narrow else TYPES) if x != source]
    each = max(4, *(32 // cute.dtype(x).bits for x in (source, *targets)))
    bits, rng = cute.dtype(source).bits, np.random.default_rng(0)
    count = each * bits // 32
    if source in NARROW:
        words = rng.integers(0, 2**32, (count, N), np.uint32)
    else:
        words = drawn(source, each * N).view(np.uint32).reshape(N, count).T.copy()
    ways = []
    for n, target in enumerate(targets):
        floats = cute.dtype(target).is_float or cute.dtype(source).is_float
        turn = ROUNDINGS[1 + n % 4] if floats else "rn"
        ways += [(target, "rn", False), (target, turn, n % 2 == 0)]
    sizes = [each * cute.dtype(target).bits // 32 for target, *_way in ways]
    out = np.zeros((sum(sizes), N), np.uint32)
    plan = cute.trace(of_words, out, words, source, tuple(ways), count)
    (got, wanted), _words = both(plan, out, words)
    for end, size, (target, *way) in zip(np.cumsum(sizes), sizes, ways, strict=True):
        pair = [elements(x[end - size : end], target) for x in (got, wanted)]
        assert_same(*pair, f"{source} -> {target} {way}")


# -- Vectors: pairs of 16-bit floats at once

VECTORS = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "fma": cute.fma,
    "neg": lambda a, b, c: -a,
    "abs": lambda a, b, c: abs(a),
    "min": lambda a, b, c: cute.minimum(a, b),
    "max": lambda a, b, c: cute.maximum(a, b),
    "min_nan": lambda a, b, c: cute.minimum(a, b, nan="propagate"),
    "max_nan": lambda a, b, c: cute.maximum(a, b, nan="propagate"),
    "scaled": lambda a, b, c: a * 0.3 + b[0],
    "contracted": lambda a, b, c: a * b - c * 0.5,
    "columns": lambda a, b, c: cute.Tensor(a.engine, cute.Layout((5, 1))) * column(b),
}


def column(x):
    return cute.Tensor(x.engine, cute.Layout((1, 5)))


@cute.kernel
def vectors(out, x, fma):
    cute.launch(grid=N // THREADS, block=THREADS, fma=fma)
    i, row = cute.block_idx() * THREADS + cute.thread_idx(), 0
    operands = [cute.rmem(x.dtype, 5) for _operand in range(3)]
    for j, operand in enumerate(operands):
        for k in range(5):
            operand[k] = x[j, k, i]
    for fn in VECTORS.values():
        found = fn(*operands)
        for k in range(cute.size(found)):
            out[row, i] = found[k]
            row += 1


@pytest.mark.parametrize("fma", [False, True])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_vectors_contraction_and_repeated_modes(kind, fma):
    x = np.stack([shuffled(drawn(kind, 5 * N, j), j) for j in range(3)]).reshape(3, 5, N)
    out = np.zeros((5 * (len(VECTORS) - 1) + 25, N), x.dtype)
    (got, wanted), _x = both(cute.trace(vectors, out, x, fma), out, x)
    assert_same(got, wanted, f"vectors of {kind}")


# -- PTX of the author


def halves(x):
    return (x >> np.uint64(32)).astype(np.uint32), x.astype(np.uint32)


def average(a, b):
    wide = a.view(np.uint8).astype(np.uint16) + b.view(np.uint8)
    return (wide + 1 >> 1).astype(np.uint8).view(np.uint32)


def rotated(x):
    return np.roll(x, -1, axis=1)


@cute.kernel
def inlined(out, words, singles, doubles):
    cute.launch(grid=N // THREADS, block=THREADS)
    i = cute.block_idx() * THREADS + cute.thread_idx()
    pair = cute.rmem("u32", (2, 1))
    pair[0, 0], pair[1, 0] = words[i], words[(i + 7) % N]
    high, low = cute.inline_ptx("mov.b64 {%1, %0}, %2;", ("u32", "u32"), doubles[i], emulate=halves)
    text = "{ .reg .b32 s<4>; xor.b32 s0, %1, %2; and.b32 s1, s0, 0xFEFEFEFE; shr.u32 s1, s1, 1; "
    text += "or.b32 s2, %1, %2; sub.u32 %0, s2, s1; }"  # four averages, rounded up
    means = cute.inline_ptx(text, "u32", (pair, words[i]), emulate=average)
    moved = cute.inline_ptx(
        "{ .reg .b32 n; mov.u32 n, %%laneid; add.u32 n, n, 1; and.b32 n, n, 31; "
        "shfl.sync.idx.b32 %0, %1, n, 31, -1; }",
        "f32",
        singles[i],
        emulate=rotated,
    )
    results = (high, low, means[0, 0], means[1, 0], cute.recast(moved, "u32"))
    for k, result in enumerate(results):
        out[k, i] = result


@covers(ops.InlinePtx)
def test_inline_ptx():
    """By `cute.inline_ptx`: words taken apart, bytes at once, and a shuffle."""
    inputs = [drawn("u32", N), drawn("f32", N), drawn("u64", N)]
    (got, wanted), *_inputs = both_kernels(inlined, np.zeros((5, N), np.uint32), *inputs)
    assert_same(got, wanted, "inline_ptx")


# -- Print


@cute.kernel
def printed(x):
    cute.launch(grid=2, block=64)
    i = cute.block_idx() * 64 + cute.thread_idx()
    held = cute.rmem(x.dtype, 4)
    for k in range(4):
        held[k] = x[i + k]
    with cute.when(i % 3 != 1):
        cute.print("{{{}}} 5%: {} {}", i, x[i], held)
    for _k in cute.range(2):
        cute.print("{} {} {}", i < 40, 0.1, -(2**40))


@covers(ops.Print)
@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16", "e4m3", "s8", "s64", "u64", "b1"])
def test_prints_are_those_of_the_emulator(kind, capfd):
    x = drawn("u8", 256) % 2 == 1 if kind == "b1" else drawn(kind, 256)
    plan = cute.trace(printed, x)
    capfd.readouterr()
    cute.emulate(plan, x)
    wanted = sorted(capfd.readouterr().out.splitlines())
    if DRY:
        cute.compile(plan, DRY)
    launched(plan, x)
    assert sorted(capfd.readouterr().out.splitlines()) == wanted
    assert len(wanted) == 2 * 128 + 85


# -- Fill, Reduce


@covers(ops.Fill, ops.Reduce)
@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
def test_fill_and_reduce(kind):
    row = cute.dtype(kind)
    x = drawn(kind, 8 * N)
    m = Maker("reduce", grid=(N // THREADS, 1, 1), threads=THREADS)
    X, R = m.tensor("X", kind), m.tensor("R", kind)
    held = m.reg("x", kind, 8)
    body = [m.op(ops.Load, held, at(X, here * 8, step=(8, 1)))]
    fns = ["add", "mul", "min", "max", *([] if row.is_float else ["and", "or", "xor"])]
    for i, fn in enumerate(fns):
        pair = m.reg(f"r{i}", kind, 2)
        body.append(m.op(ops.Reduce, fn, pair, held))
        body.append(m.op(ops.Store, at(R, here * 2 + i * 2 * N, step=(2, 1)), pair))
    value = -1.5 if row.is_float else int(row.max)
    filled = m.reg("f", kind, 2)
    body += [m.op(ops.Fill, part(filled, i), value) for i in (1, 0)]
    body.append(m.op(ops.Store, at(R, here * 2 + len(fns) * 2 * N, step=(2, 1)), filled))
    out = np.zeros(2 * N * (len(fns) + 1), row.numpy)
    _x, (got, wanted) = both(m.plan(*body), x, out)
    for i, fn in enumerate([*fns, "fill"]):
        rows = slice(i * 2 * N, (i + 1) * 2 * N)
        assert_same(got[rows], wanted[rows], f"{fn} {kind}")


# -- Shuffle, Vote


@covers(ops.Shuffle)
@pytest.mark.parametrize("kind", ["s8", "f16", "f32", "f64", "b1"])
def test_shuffles(kind):
    n, held_kind = 64, "u8" if kind == "b1" else kind
    count = 3 if kind != "b1" else 1
    x = drawn(held_kind, n * count)
    m = Maker("shuffles", threads=n)
    X, R = m.tensor("X", held_kind), m.tensor("R", held_kind)
    source, body = m.reg("x", held_kind, count), []
    body.append(m.op(ops.Load, source, at(X, tid * count, step=(count, 1))))
    moved = source
    if kind == "b1":
        moved = m.reg("p", "b1")
        body.append(m.op(ops.Map, "gt", moved, (source, 9), cute.u8))
    forms = [(k, w) for k in ("idx", "up", "down", "bfly") for w in (32, 16, 8, 4, 2, 1)]
    lanes = {"idx": tid * 5 + 3, "up": 3, "down": 1, "bfly": 2}
    for i, (how, width) in enumerate(forms):
        out = m.reg(f"o{i}", moved.dtype.name, count)
        body.append(m.op(ops.Shuffle, how, out, moved, lanes[how], width))
        if kind == "b1":
            flag, out = out, m.reg(f"u{i}", "u8")
            body.append(m.op(ops.Map, "where", out, (flag, 1, 0), cute.u8))
        body.append(m.op(ops.Store, at(R, tid * count + i * n * count, step=(count, 1)), out))
    result = np.zeros(n * count * len(forms), x.dtype)
    _x, (got, wanted) = both(m.plan(*body), x, result)
    for i, form in enumerate(forms):
        rows = slice(i * n * count, (i + 1) * n * count)
        assert_same(images(got)[rows], images(wanted)[rows], f"{form} {kind}")


@covers(ops.Redux)
@pytest.mark.sm80
@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_redux(kind):
    x = drawn(kind, THREADS)
    sheet = Sheet(THREADS)
    reg = sheet.input("X", kind, x)
    for fn in ("add", "min", "max", "and", "or", "xor"):
        out = sheet.reg(kind)
        sheet.add(ops.Redux, fn, out, reg)
        sheet.keep(out, fn)
    for name, (got, wanted) in sheet.run().items():
        assert_same(got, wanted, f"{name} {kind}")


@covers(ops.Vote)
def test_votes():
    x = (np.arange(4 * 32) % 7).astype(np.int32)
    x[32:64], x[64:96] = 9, 0
    sheet = Sheet(THREADS)
    reg, flag = sheet.input("X", "s32", x), sheet.reg("b1")
    sheet.add(ops.Map, "gt", flag, (reg, 3), cute.s32)
    for kind in ("any", "all"):
        out = sheet.reg("b1")
        sheet.add(ops.Vote, kind, out, flag)
        sheet.keep_flag(out, kind)
    ballot = sheet.reg("u32")
    sheet.add(ops.Vote, "ballot", ballot, flag)
    sheet.keep(ballot, "ballot")
    for name, (got, wanted) in sheet.run().items():
        assert_same(got, wanted, name)
