"""Integers of a kernel become elements of a type that holds them, or are refused; floats become
integers as in C.
"""

import random

import numpy as np
import pytest

import cute_py as cute
from tests.sampling import each, in_turn, quick

KINDS = ("s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")


def array(kind, shape):
    found = np.zeros(shape, cute.dtype(kind).numpy)
    return cute.typed(found, kind) if cute.dtype(kind).bits < 8 else found


def element(x, *coord):
    return cute.local_tile(x, (1,), coord)


# -- every way into a type


def by_atomic(fn):
    return lambda out, t, i: cute.atomic(fn, element(out, t), i)


def held(kind):
    made = cute.rmem(kind, 1)
    made.fill(1)
    return made


def assigned(out, t, i):
    made = cute.rmem(out.dtype, (2, 2))
    made[1, _] = i
    made[0, _] = made[1, _]
    out[t] = made[0, 1]


def filled(out, t, i):
    made = cute.rmem(out.dtype, 3)
    made.fill(i)
    out[t] = made[1]


def stored(out, t, i):
    element(out, t)[...] = i


def in_place(out, t, i):
    made = held(out.dtype)
    made += i
    out[t] = made


def shared(out, t, i):
    s = cute.smem(out.dtype, 64)
    s[t] = i
    out[t] = s[t]


_ = cute._
WAYS = {
    "an element": lambda out, t, i: out.__setitem__(t, i),
    "to": lambda out, t, i: out.__setitem__(t, i.to(out.dtype)),
    "shared memory": shared,
    "registers": assigned,
    "a part of memory": stored,
    "fill": filled,
    "store_release": lambda out, t, i: cute.store_release(element(out, t), i),
    "atomic add": by_atomic("add"),
    "atomic exch": by_atomic("exch"),
    "atomic cas": lambda out, t, i: cute.atomic_cas(element(out, t), i, 0),
    "where": lambda out, t, i: out.__setitem__(t, cute.where(t < 64, i, held(out.dtype))),
    "sum": lambda out, t, i: out.__setitem__(t, held(out.dtype) + i),
    "reflected": lambda out, t, i: out.__setitem__(t, i - held(out.dtype)),
    "in place": in_place,
    "comparison": lambda out, t, i: out.__setitem__(
        t, cute.where(held(out.dtype) < i, held(out.dtype), 0)
    ),
    "minimum": lambda out, t, i: out.__setitem__(t, cute.minimum(held(out.dtype), i)),
    "shift": lambda out, t, i: out.__setitem__(t, held(out.dtype) << i),
    "shuffle": lambda out, t, i: out.__setitem__(t, cute.shuffle(i, 0)),
    "warp_reduce": lambda out, t, i: out.__setitem__(t, cute.warp_reduce("max", i)),
    "redux": lambda out, t, i: out.__setitem__(t, cute.redux("max", i)),
    "bfe": lambda out, t, i: out.__setitem__(t, cute.bfe(held(out.dtype), i, 1)),
    "wait_until": lambda out, t, i: cute.wait_until(element(out, t), "le", i),
    "function of integers": lambda out, t, i: out.__setitem__(t, cute.maximum(i, 3)),
}


@cute.kernel
def stores(out, way, integer, n: cute.s64):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    way(out, t, integer(t, n))


@each(WAYS)
def test_every_way_into_a_type_refuses_what_it_does_not_hold(name):
    """Static bounds are refused while tracing; run-time numbers by the emulator, by value."""
    with pytest.raises(cute.CuteError) as caught:
        cute.trace(stores, np.zeros(64, np.int32), WAYS[name], lambda t, n: t + 2**40, 0)
    assert caught.value.code == "kernel-fit"
    plan = cute.trace(stores, np.zeros(64, np.int32), WAYS[name], lambda t, n: t // 64 + n, 0)
    with pytest.raises(cute.EmulationError) as caught:
        cute.emulate(plan, np.zeros(64, np.int32), 2**32 + 1)
    assert caught.value.code == "emulate-fit"
    cute.emulate(plan, np.zeros(64, np.int32), 9, order="reversed")


def test_a_refusal_says_what_does_not_fit_and_where():
    with pytest.raises(
        cute.LeafTypeError, match=r"tid-32 as an element of u8, where it is -32 for"
    ):
        cute.trace(stores, np.zeros(64, np.uint8), WAYS["an element"], lambda t, n: t - 32, 0)
    with pytest.raises(
        cute.EmulationError, match=r"126-n-tid as .* u8, where it is -1, .*thread 63"
    ):
        stores(np.zeros(64, np.uint8), WAYS["an element"], lambda t, n: 126 - t - n, 64)


# -- random integers: refused exactly where a thread has one that does not fit


def expression(rng, depth):
    """Return a function of t, b, n and k as text."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(["t", "t", "b", "n", "k", str(rng.choice([1, 3, 7, 100, 255, 1 << 15]))])
    op = rng.choice("++--**/%")
    left = expression(rng, depth - 1)
    if op in "/%":
        return f"({left}) {'//' if op == '/' else '%'} {rng.choice([2, 5, 32, 100])}"
    return f"({left}) {op} ({expression(rng, depth - 1)})"


@cute.kernel
def computed(out, integer, guard, n: cute.s32):
    cute.launch(grid=(out.shape[1] if guard else 3), block=64)
    t, b = cute.thread_idx(), cute.block_idx()
    for k in cute.range(2):
        if guard:
            with cute.when((t % guard != 0) & (t + b > n)):
                out[t, b, k] = integer(t, b, n, k)
        else:
            out[t, b, k] = integer(t, b, n, k)


def check_expression(seed):
    rng = random.Random(seed)
    text = expression(rng, 3)
    integer = eval(f"lambda t, b, n, k: {text}")
    n, guard = rng.choice([0, 1, 5, 40, 200, 70000]), rng.choice([0, 0, 2, 3])
    kind = rng.choice(KINDS)
    dtype, found = cute.dtype(kind), array(kind, (64, 3, 2))
    t, b, k = np.indices((64, 3, 2)).astype(object)
    wanted = integer(t, b, n, k) + 0 * t
    comes = (t % guard != 0) & (t + b > n) if guard else t >= 0
    fits = all(dtype.min <= x <= dtype.max for x in wanted[comes])
    code = refused(lambda: computed(found, integer, guard, n))
    if code is None:
        held = getattr(found, "array", found).astype(object)
        right = fits and (held == np.where(comes, wanted, 0)).all()
    else:  # certain without regard to whether a thread comes, or by value
        never = not any(dtype.min <= x <= dtype.max for x in wanted.ravel())
        certain = code in ("kernel-fit", "kernel-number") and never
        right = certain or (code in ("kernel-fit", "emulate-fit") and not fits)
    assert right, (text, kind, n, guard, code)


def refused(call):
    """Return the code with which a call is refused, None if it is not."""
    try:
        call()
    except cute.CuteError as error:
        return error.code
    return None


@pytest.mark.parametrize("start", [0, *quick([], range(1, 90))])
def test_an_integer_is_stored_as_it_is_or_refused(start):
    for seed in range(25 * start, 25 * start + 25):
        check_expression(seed)


# -- right programs


@cute.kernel
def right(out, x, n: cute.s32):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    made = cute.rmem("u8", 1)
    made.fill(7)
    with cute.when(t >= 32):
        out[0, t] = t - 32
    out[1, t] = cute.where(t >= 32, t - 32, 0)
    out[2, t] = cute.where(t >= 32, t - 32, made)
    out[3, t] = cute.where(x[t] > 62, t - 63, made)  # an element decides
    out[4, t] = (t - 32) * (t - 32) // 8  # (0, 128]: no bound of its terms says so
    with cute.when(x[t] > 40):
        out[5, t] = t - 41
    for k in cute.range(300):
        cute.break_if(k == t)
        out[6, t] = k
    out[7, t] = cute.min_(t * x.shape[0] + n, 255)
    out[8, t] = cute.as_int(x[t])
    with cute.when(x[t] > 31):
        cute.return_if(t < 10)
    cute.return_if(t < 40)
    out[9, t] = t - 40


def test_what_fits_where_it_is_stored_is_not_refused():
    t, x, out = np.arange(64), np.arange(4096, dtype=np.int32), np.zeros((10, 64), np.uint8)
    right(out, x, 3)
    low = np.maximum(t - 32, 0)
    assert np.array_equal(out[:2], [low, low])
    assert np.array_equal(out[2:4], [np.where(t >= 32, t - 32, 7), 7 * (t < 63)])
    assert np.array_equal(out[4], (t - 32) ** 2 // 8)
    assert np.array_equal(out[5], np.maximum(t - 41, 0))
    assert np.array_equal(out[6], np.maximum(t - 1, 0))
    assert np.array_equal(out[7], np.minimum(4096 * t + 3, 255))
    assert np.array_equal(out[8:], [t, np.maximum(t - 40, 0)])


@cute.kernel
def shifted(x, out, n: cute.s32):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    out[0, t], out[1, t] = x[t] << (t - 32), x[t] >> (t - n)


@each(["s8", "u8", "s32", "u32", "s64", "u64"])
def test_a_count_that_shifts_all_bits_out_need_not_fit(kind):
    t, x, out = np.arange(64), array(kind, 64), array(kind, (2, 64))
    x[:] = 77
    shifted(x, out, 32)
    inside = (t >= 32) & (t - 32 < cute.dtype(kind).bits)
    counts = np.where(inside, t - 32, 0).astype(x.dtype)
    assert np.array_equal(out, [np.where(inside, y, 0) for y in (x << counts, x >> counts)])
    with pytest.raises(cute.LeafTypeError, match="-512 as an element of u8") as caught:
        cute.trace(
            stores, array("u8", 64), lambda out, t, i: held("u8") << i, lambda t, n: t - 512, 0
        )
    assert caught.value.code == "kernel-fit"


@cute.kernel
def numbered(out, x):
    cute.launch(grid=x.shape[0] // 64, block=64)
    i = cute.block_idx() * 64 + cute.thread_idx()
    out[i] = i


def test_an_index_of_run_time_extents_is_stored_where_it_fits():
    x = np.zeros(1024, np.float32)
    for kind in (np.int32, np.uint16):
        out = np.zeros(1024, kind)
        numbered(out, x)
        assert np.array_equal(out, np.arange(1024))
    with pytest.raises(
        cute.EmulationError, match=r"64\*bid_x\+tid .* u8, where it is 256, by block"
    ):
        numbered(np.zeros(1024, np.uint8), x)


# -- what says that it is meant


@cute.kernel
def meant(low, clamped, n: cute.s64):
    cute.launch(grid=1, block=64)
    t = cute.thread_idx()
    low[t] = (t * n - 32).to(low.dtype, wrap=True)
    clamped[t] = (t * n - 32).to(low.dtype, saturate=True)


@each(KINDS)
def test_low_bits_and_clamping_are_asked_for(kind):
    dtype, t = cute.dtype(kind), np.arange(64).astype(object)
    for n in (2**20 + 1, 2**57):
        low, clamped = array(kind, 64), array(kind, 64)
        meant(low, clamped, n)
        low, clamped = (getattr(x, "array", x).astype(object) for x in (low, clamped))
        wanted = t * n - 32
        wrapped = (wanted - int(dtype.min)) % (1 << dtype.bits) + int(dtype.min)
        assert np.array_equal(low, wrapped)
        assert np.array_equal(clamped, np.clip(wanted, int(dtype.min), int(dtype.max)))


@each(["f32", "s32"], ["f32", "f64"])
def test_wrap_is_for_integers(source, target):
    def kernel(x, out):
        cute.launch(grid=1, block=1)
        out[0] = x[0].to(target, wrap=True)

    with pytest.raises(cute.LeafTypeError, match="wrap=True for a conversion") as caught:
        cute.trace(cute.kernel(kernel), *(array(kind, 1) for kind in (source, target)))
    assert caught.value.code == "kernel-wrap"


@cute.kernel
def as_floats(out, n: cute.s64):
    cute.launch(grid=1, block=64)
    out[cute.thread_idx()] = (cute.thread_idx() + n).to(out.dtype)


def test_floats_round_integers_that_they_do_not_hold():
    for kind, n in (("f16", 2050), ("f32", 2**60), ("f64", 2**62), ("bf16", 2**40)):
        out = np.zeros(64, cute.dtype(kind).numpy)
        as_floats(out, n)
        assert np.array_equal(out, cute.convert(np.arange(64) + n, kind))
    with pytest.raises(cute.LeafTypeError, match="f16, where it is at least 1048576"):
        cute.trace(stores, np.zeros(64, np.float16), WAYS["to"], lambda t, n: t + 2**20, 0)


@cute.kernel
def unsigned(out, n: cute.u64):
    cute.launch(grid=1, block=1)
    out[0], out[1] = n.to("f64"), n.to("f64", "toward_zero")


def test_a_number_becomes_a_float_from_its_own_type():
    out = np.zeros(2)
    unsigned(out, 2**64 - 1)
    assert out.tolist() == [2.0**64, 2.0**64 - 2.0**11]


@cute.kernel
def taken(out, x):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    with cute.when(t < 20):
        out[t] = cute.as_int(x[t])


def test_an_integer_of_a_large_u64_is_refused():
    x, out = np.full(32, 2**63 - 1, np.uint64), np.zeros(32, np.uint64)
    x[20:] += 1
    taken(out, x)
    assert out.tolist() == [2**63 - 1] * 20 + [0] * 12
    x[19] += 1
    with pytest.raises(cute.EmulationError, match=r"u64 that is 9223372036854775808.*thread 19"):
        taken(out, x)


@cute.kernel
def filled_up(out, x, fill):
    cute.launch(grid=1, block=32)
    made = cute.rmem(x.dtype, 1)
    cute.copy(cute.local_tile(x, (1,), (cute.thread_idx(),)), made, fill=fill)
    out[cute.thread_idx()] = made


def test_a_fill_is_a_number_of_the_type():
    out, x = np.zeros(32, np.uint8), np.ones(20, np.uint8)
    filled_up(out, x, 200)
    assert out.tolist() == [1] * 20 + [200] * 12
    for fill in (300, -1, 0.5):
        with pytest.raises(cute.LeafTypeError, match="a number that u8 can represent"):
            cute.trace(filled_up, out, x, fill)


@cute.kernel
def flagged(out, n: cute.s32):
    cute.launch(grid=1, block=64)
    out[cute.thread_idx()] = cute.thread_idx() & n


def test_a_flag_is_whether_an_integer_is_not_0():
    out = np.zeros(64, bool)
    flagged(out, 12)
    assert np.array_equal(out, np.arange(64) & 12 != 0)


# -- floats become integers


@cute.kernel
def truncated(out, x, rounding):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    for k in range(2):
        out[k, t] = x[k, t].to(out.dtype, rounding)


FLOATS = ("f64", "f32", "tf32", "f16", "bf16", "e5m2", "e4m3")


@each(in_turn(FLOATS, KINDS))
def test_floats_become_integers_toward_zero(source, target):
    """As `int` does, clamped; `to_nearest` is a name. NaN is 0, or the top bit from f64 or to 64
    bits.
    """
    check_truncation(source, target)


@pytest.mark.slow
@each(FLOATS, KINDS)
def test_all_floats_become_all_integers_toward_zero(source, target):
    check_truncation(source, target)


def check_truncation(source, target):
    rng, kind, dtype = np.random.default_rng(0), cute.dtype(source), cute.dtype(target)
    sizes = rng.standard_normal(64) * 2.0 ** rng.integers(-3, 70, 64)
    sizes[:10] = [0.5, -0.5, 1.5, -1.5, 2.5, 0.999, -0.999, np.nan, np.inf, -np.inf]
    with np.errstate(all="ignore"):
        x = np.asarray(cute.convert(sizes, kind)).reshape(2, 32)
    for name, model in ((None, int), ("to_nearest", round)):
        out = array(target, (2, 32))
        given = cute.typed(x, source) if source == "tf32" else x
        truncated(out, given, name)
        found = getattr(out, "array", out)
        assert np.array_equal(found, cute.convert(x, target, name))
        for value, number in zip(x.ravel().tolist(), found.ravel().tolist(), strict=True):
            value = float(value)
            if value != value:
                top = source == "f64" or dtype.bits == 64
                assert number == (dtype.min or 1 << dtype.bits - 1 if top else 0)
            elif abs(value) == np.inf:
                assert number == (dtype.max if value > 0 else dtype.min)
            else:
                assert number == min(max(model(value), dtype.min), dtype.max)


@each(in_turn(["s8", "s32"], [0, 1, 1, 0], [4, 70, 3000, 33]))
def test_reductions_of_floats_to_integers_round_to_nearest(kind, dim, n):
    """Halves go to even, along rows and columns of any length."""
    x = np.tile(np.float32([0.5, 1.5, -1.5, 2.7, -2.7, 3.5])[:, None], (1, n))
    found = cute.ops.reduce(x if dim else x.T, "max", dim=dim, out_dtype=kind)
    assert found.tolist() == [0, 2, -2, 3, -3, 4]
