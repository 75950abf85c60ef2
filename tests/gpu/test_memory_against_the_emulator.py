"""Loads, stores, copies and atomics on the GPU move the bits that the emulator moves."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.conditions import Test as Flag
from tests.coverage import covers
from tests.emulated.plans import bid_x, less, part, same, size, tid
from tests.gpu.harness import THREADS, Maker, assert_same, at, both, drawn, ops, require_any

require_any()

WIDTHS = [(kind, w) for kind in ("u8", "f16", "f32", "f64") for w in (1, 2, 4, 8, 16)]
FITTING = [(kind, w) for kind, w in WIDTHS if w * cute.dtype(kind).bits <= 128]


def random_bits(kind, n):
    return np.random.default_rng(n).integers(0, 255, n * cute.dtype(kind).bits // 8, np.uint8)


@pytest.mark.parametrize("kind", ["u8", "f16", "f32", "f64"])
def test_vectors_of_all_widths_through_shared_memory(kind):
    """Plain, guarded with a fill, and guarded with what the registers had."""
    row = cute.dtype(kind)
    widths = [w for k, w in FITTING if k == kind]
    n = THREADS * widths[-1]
    m = Maker("vectors", grid=(1, 1, 1), threads=THREADS)
    X, R, S = m.tensor("X", kind), m.tensor("R", kind), m.smem("s0", kind, n)
    body, rows = [], 0
    fill = 1.5 if row.is_float else 7
    for w in widths:
        for form in ("plain", "filled", "kept"):
            held, back = m.reg(f"a{rows}", kind, w), m.reg(f"b{rows}", kind, w)
            named = {"width": w, "step": (1, 0)}
            if form != "plain":
                named |= {"guards": (less(tid, 77),), "fill": fill if form == "filled" else None}
            if form == "kept":
                body.append(m.op(ops.Fill, held, 3))
            body += [
                m.op(ops.Load, held, at(X, tid * w, **named)),
                m.op(ops.Store, at(S, tid * w, width=w, step=(1, 0)), held),
                m.op(ops.Barrier),
                m.op(ops.Load, back, at(S, (THREADS - 1 - tid) * w, width=w, step=(1, 0))),
                m.op(ops.Barrier),
            ]
            guarded = {} if form == "plain" else {"guards": (less(5, tid),)}
            out = at(R, tid * w + rows * n, width=w, step=(1, 0), **guarded)
            body.append(m.op(ops.Store, out, back))
            rows += 1
    x = random_bits(kind, n).view(row.numpy)
    found = both(m.plan(*body), x, np.zeros(n * rows, row.numpy))
    got, wanted = found[1]
    raw = [y.view(np.uint8).reshape(rows, -1) for y in (got, wanted)]
    for i in range(rows):
        assert_same(raw[0][i], raw[1][i], f"{kind} x{widths[i // 3]}, form {i % 3}")


@covers(ops.Load, ops.Store)
def test_orders_and_caches():
    m = Maker("orders", threads=32)
    X, R = m.tensor("X", "f32"), m.tensor("R", "f32")
    forms, body = [("", "acquire"), ("", "volatile"), ("cg", "weak"), ("cs", "weak")], []
    forms += [("lu", "weak"), ("cv", "weak"), ("ca", "weak")]
    for i, (cache, order) in enumerate(forms):
        held, src = m.reg(f"r{i}", "f32"), at(X, tid)
        src = src if not cache else type(src)(**{**fields_of(src), "cache": cache})
        dst = at(R, tid + 32 * i)
        if cache in ("cg", "cs"):
            dst = type(dst)(**{**fields_of(dst), "cache": cache})
        body.append(m.op(ops.Load, held, src, order))
        body.append(m.op(ops.Store, dst, held, "release" if order == "acquire" else "weak"))
    x = drawn("f32", 32)
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros(32 * len(forms), np.float32))
    assert_same(got, wanted)


def fields_of(access):
    return {name: getattr(access, name) for name in type(access).__slots__}


def test_accesses_under_a_swizzle_and_by_several_bases():
    m = Maker("swizzled", threads=64)
    X, R, S = m.tensor("X", "f16"), m.tensor("R", "f16"), m.smem("s0", "f16", 1024)
    a, b = m.reg("a", "f16", 16), m.reg("b", "f16", 16)
    swizzle = (3, 3, 3)
    body = [
        m.op(ops.Load, a, at(X, tid * 16, tid * 16 + 8, width=8)),
        m.op(ops.Store, at(S, 0, width=8, step=(2, 8), swizzle=swizzle, inner=tid * 16), a),
        m.op(ops.Barrier),
        m.op(ops.Load, b, at(S, tid * 16, width=8, step=(2, 8))),
        m.op(ops.Store, at(R, tid * 16, width=8, step=(2, 8)), b),
    ]
    x = drawn("f16", 1024)
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros(1024, np.float16))
    assert_same(got, wanted)
    assert not np.array_equal(got.view(np.uint16), x.view(np.uint16))


def test_guards_by_sizes_and_by_registers():
    m = Maker("guards", grid=(3, 1, 1), threads=64)
    X, R = m.tensor("X", "f32"), m.tensor("R", "f32")
    held, flag = m.reg("a", "f32"), m.reg("p", "b1", 2)
    place = bid_x * 64 + tid
    body = [
        m.op(ops.Load, held, at(X, place, guards=(less(place, size("X")),), fill=-1.0)),
        m.op(ops.Map, "gt", part(flag, 0), (held, 0.0), cute.f32),
        m.op(ops.Map, "lt", part(flag, 1), (held, 0.0), cute.f32),
        m.op(ops.Store, at(R, place, guards=(Flag(part(flag, 0)),)), held),
    ]
    x = np.random.default_rng(0).standard_normal(150).astype(np.float32)
    _x, (got, wanted) = both(m.plan(*body), x, np.full(192, 9, np.float32))
    assert_same(got, wanted)


# -- cp.async

COPIES = [("ALWAYS", bits) for bits in (32, 64, 128)] + [("GLOBAL", 128)]


@covers(ops.CpAsync)
@pytest.mark.parametrize("zfill", ["", "_ZFILL"])
def test_asynchronous_copies(zfill):
    """Vectors that a guard leaves out stay as they were, or become zeros."""
    m = Maker("copies", threads=64)
    X, R = m.tensor("X", "f16"), m.tensor("R", "f16")
    n, body = 64 * 8, []
    for i, (kind, bits) in enumerate(COPIES):
        op = cute.get_copy(f"SM80_CP_ASYNC_CACHE{kind}{zfill}<{bits}>")
        width, S = bits // 16, m.smem(f"s{i}", "f16", n)
        old, held = m.reg(f"o{i}", "f16", 8), m.reg(f"h{i}", "f16", 8)
        count = 8 // width
        guards = (less(tid, 50),)
        src = at(X, tid * 8, width=width, step=(count, width), guards=guards)
        if not zfill:
            src = type(src)(**{**fields_of(src), "fill": None})
        body += [
            m.op(ops.Fill, old, 2.0),
            m.op(ops.Store, at(S, tid * 8, width=8, step=(1, 0)), old),
            m.op(ops.Barrier),
            m.op(ops.CpAsync, op, at(S, tid * 8, width=width, step=(count, width)), src),
            m.op(ops.CpCommit),
            m.op(ops.CpWait, 0),
            m.op(ops.Barrier),
            m.op(ops.Load, held, at(S, (63 - tid) * 8, width=8, step=(1, 0))),
            m.op(ops.Store, at(R, tid * 8 + i * n, width=8, step=(1, 0)), held),
        ]
    x = drawn("f16", n)
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros(n * len(COPIES), np.float16))
    for i, form in enumerate(COPIES):
        assert_same(got[i * n : (i + 1) * n], wanted[i * n : (i + 1) * n], f"{form}{zfill}")


@covers(ops.MbarInval, ops.CpArrive)
def test_copies_arrive_at_an_mbarrier():
    """Each thread waits on the mbarrier for the copies of all, and reads those of another warp."""
    threads, rounds = 128, 3
    m = Maker("arrivals", threads=threads)
    X, R = m.tensor("X", "f32"), m.tensor("R", "f32")
    S, bar = m.smem("s0", "f32", 4 * threads), m.smem("bar", "u64", 1)
    held, copy = m.reg("h", "f32", 4), cute.get_copy("SM80_CP_ASYNC_CACHEGLOBAL<128>")
    init = m.op(ops.MbarInit, at(bar, 0), threads)
    body = [m.op(ops.If, same(tid, 0), (init,), (), "thread"), m.op(ops.Barrier)]
    for i in range(rounds):
        first = 4 * threads * i
        body += [
            m.op(ops.CpAsync, copy, at(S, tid * 4, width=4), at(X, tid * 4 + first, width=4)),
            m.op(ops.CpArrive, at(bar, 0)),
            m.op(ops.MbarWait, at(bar, 0), i % 2),
            m.op(ops.Load, held, at(S, (threads - 1 - tid) * 4, width=4)),
            m.op(ops.Store, at(R, tid * 4 + first, width=4), held),
            m.op(ops.Barrier),
        ]
    x = drawn("f32", 4 * threads * rounds)
    ended = m.op(ops.MbarInval, at(bar, 0))  # another one takes its place, of one warp
    begun = m.op(ops.MbarInit, at(bar, 0), 32)
    first_warp = (m.op(ops.MbarArrive, at(bar, 0)), m.op(ops.MbarWait, at(bar, 0), 0))
    body += [
        m.op(ops.If, same(tid, 0), (ended, begun), (), "thread"),
        m.op(ops.Barrier),
        m.op(ops.If, same(tid // 32, 0), first_warp, (), "warp"),
    ]
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros_like(x))
    assert_same(got, wanted, "arrivals")
    assert_same(got.reshape(rounds, -1, 4), x.reshape(rounds, -1, 4)[:, ::-1], "reversed")


@covers(ops.CpCommit, ops.CpWait)
def test_groups_of_copies_are_waited_for_in_order():
    m = Maker("groups", threads=32)
    X, R = m.tensor("X", "f32"), m.tensor("R", "f32")
    op, S = cute.get_copy("SM80_CP_ASYNC_CACHEALWAYS<32>"), m.smem("s0", "f32", 128)
    body = []
    for i in range(4):
        body += [
            m.op(ops.CpAsync, op, at(S, tid + 32 * i), at(X, tid + 32 * i)),
            m.op(ops.CpCommit),
        ]
    for i in range(4):
        held = m.reg(f"h{i}", "f32")
        body += [
            m.op(ops.CpWait, 3 - i),
            m.op(ops.Barrier, "warp"),
            m.op(ops.Load, held, at(S, 31 - tid + 32 * i)),
            m.op(ops.Store, at(R, tid + 32 * i), held),
        ]
    x = drawn("f32", 128)
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros(128, np.float32))
    assert_same(got, wanted)


# -- ldmatrix, stmatrix

MATRICES = [f"SM75_U32x{n}_LDSM_N" for n in (1, 2, 4)] + [
    f"SM75_U16x{2 * n}_LDSM_T" for n in (1, 2, 4)
]
STORES = [f"SM90_U32x{n}_STSM_N" for n in (1, 2, 4)] + [
    f"SM90_U16x{2 * n}_STSM_T" for n in (1, 2, 4)
]


@covers(ops.LdMatrix)
def test_matrices_are_loaded():
    m = Maker("ldmatrix", threads=32)
    X, S = m.tensor("X", "u16"), m.smem("s0", "u16", 256)
    whole, R = m.reg("w", "u16", 8), m.tensor("R", "u16")
    body = [
        m.op(ops.Load, whole, at(X, tid * 8, width=8, step=(1, 0))),
        m.op(ops.Store, at(S, tid * 8, width=8, step=(1, 0)), whole),
        m.op(ops.Barrier),
    ]
    for i, name in enumerate(MATRICES):
        op = cute.get_copy(name)
        n = op.dst_bits // 16
        held = m.reg(f"r{i}", "u16", n)
        body += [
            m.op(ops.LdMatrix, op, held, at(S, tid * 8, width=8, step=(1, 0))),
            m.op(ops.Store, at(R, tid * n + i * 256, step=(n, 1)), held),
        ]
    x = np.random.default_rng(0).permutation(256).astype(np.uint16)
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros(256 * len(MATRICES), np.uint16))
    for i, name in enumerate(MATRICES):
        assert_same(got[i * 256 : (i + 1) * 256], wanted[i * 256 : (i + 1) * 256], name)


@covers(ops.SharedAddress)
def test_addresses_of_shared_memory():
    m = Maker("addresses", threads=32)
    first, second = m.smem("s0", "u16", 40), m.smem("s1", "f32", 64)
    R, held = m.tensor("R", "u32"), m.reg("a", "u32")
    body = []
    for i, memory in enumerate((first, second)):
        body += [
            m.op(ops.SharedAddress, held, at(memory, tid + i)),
            m.op(ops.Store, at(R, tid + 32 * i), held),
        ]
    ((got, wanted),) = both(m.plan(*body), np.zeros(64, np.uint32))
    assert_same(got, wanted)


@covers(ops.StMatrix)
@pytest.mark.sm90
def test_matrices_are_stored():
    m = Maker("stmatrix", threads=32)
    X, R = m.tensor("X", "u16"), m.tensor("R", "u16")
    body = []
    for i, name in enumerate(STORES):
        op = cute.get_copy(name)
        n, S = op.src_bits // 16, m.smem(f"s{i}", "u16", 256)
        held, back = m.reg(f"r{i}", "u16", n), m.reg(f"b{i}", "u16", n)
        body += [
            m.op(ops.Load, held, at(X, tid * n, step=(n, 1))),
            m.op(ops.StMatrix, op, at(S, tid * 8, width=8, step=(1, 0)), held),
            m.op(ops.Barrier),
            m.op(ops.Load, back, at(S, tid * n, step=(n, 1))),
            m.op(ops.Store, at(R, tid * n + i * 256, step=(n, 1)), back),
        ]
    x = np.random.default_rng(0).permutation(256).astype(np.uint16)
    _x, (got, wanted) = both(m.plan(*body), x, np.zeros(256 * len(STORES), np.uint16))
    for i, name in enumerate(STORES):
        assert_same(got[i * 256 : (i + 1) * 256], wanted[i * 256 : (i + 1) * 256], name)


# -- atomics

ATOMICS = [
    *[(fn, kind) for kind in ("s32", "u32", "s64", "u64", "f32") for fn in ("min", "max")],
    *[(fn, kind) for kind in ("s32", "u32", "u64", "s64") for fn in ("add", "and", "or", "xor")],
    *[("add", kind) for kind in ("f16", "bf16", "f32", "f64")],
    *[("exch", kind) for kind in ("s32", "u32", "s64", "u64", "f32", "f64")],
]


@covers(ops.Atomic)
@pytest.mark.parametrize("space", ["gmem", "smem"])
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "f16", "bf16", "f32", "f64"])
def test_atomics(kind, space):
    """Many threads on few elements; sums of floats are of integers, so that order is nothing."""
    fns = [fn for fn, k in ATOMICS if k == kind]
    row, places = cute.dtype(kind), 8
    m = Maker("atomics", threads=THREADS)
    X, R = m.tensor("X", kind), m.tensor("R", kind)
    value, body = m.reg("x", kind), []
    body.append(m.op(ops.Load, value, at(X, tid)))
    for i, fn in enumerate(fns):
        reach = THREADS if fn == "exch" else places
        to, held = R, m.reg(f"h{i}", kind)
        place = tid + i * THREADS if fn == "exch" else tid % reach + i * THREADS
        if space == "smem":
            to = m.smem(f"s{i}", kind, reach)
            mine = (less(tid, reach),)
            body += [
                m.op(ops.Load, held, at(R, tid + i * THREADS, guards=mine)),
                m.op(ops.Store, at(to, tid, guards=mine), held),
                m.op(ops.Barrier),
            ]
            place = place - i * THREADS
        body.append(m.op(ops.Atomic, fn, at(to, place, guards=(less(tid, 100),)), value))
        if space == "smem":
            body += [
                m.op(ops.Barrier),
                m.op(ops.Load, held, at(to, tid, guards=mine)),
                m.op(ops.Store, at(R, tid + i * THREADS, guards=mine), held),
            ]
    x = (
        np.random.default_rng(0)
        .integers(0, 4 if row.bits == 16 else 100, THREADS)
        .astype(row.numpy)
    )
    if kind.startswith("s"):
        x = x - np.array(50, x.dtype)
    start = np.full(THREADS * len(fns), 5, row.numpy)
    _x, (got, wanted) = both(m.plan(*body), x, start)
    for i, fn in enumerate(fns):
        rows = slice(i * THREADS, (i + 1) * THREADS)
        assert_same(got[rows], wanted[rows], f"{fn} {kind} {space}")


def test_atomics_return_what_was_there():
    """One thread an element: the old values are known."""
    m = Maker("old", threads=32)
    R, old_of = m.tensor("R", "s32"), m.tensor("O", "s32")
    body = []
    for i, fn in enumerate(("add", "exch", "max", "xor")):
        value, old = m.reg(f"v{i}", "s32"), m.reg(f"o{i}", "s32")
        body += [
            m.op(ops.Fill, value, 40 + i),
            m.op(ops.Atomic, fn, at(R, tid + 32 * i), value, old),
            m.op(ops.Store, at(old_of, tid + 32 * i), old),
        ]
    x = drawn("s32", 128)
    for got, wanted in both(m.plan(*body), x, np.zeros(128, np.int32)):
        assert_same(got, wanted)


# -- what is narrower than a byte


@pytest.mark.parametrize("kind", ["s4", "u4", "u2", "b1"])
def test_narrow_elements_travel_in_whole_bytes(kind):
    """A copy of words to shared memory and back, read as elements in between."""
    bits = cute.dtype(kind).bits
    n = 128 // bits  # elements of 16 bytes

    @cute.kernel
    def through(X, R):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        shared = cute.smem(kind, cute.Layout((n, 32)))
        words = cute.rmem("u32", 4)
        cute.copy(cute.local_tile(X, (4,), (tid,)), words)
        cute.copy(cute.recast(words, kind), _column(shared, tid))
        cute.syncthreads()
        back = cute.rmem("u32", 4)
        cute.copy(_column(shared, 31 - tid), cute.recast(back, kind))
        cute.copy(back, cute.local_tile(R, (4,), (tid,)))

    x = np.random.default_rng(bits).integers(0, 2**32 - 1, 128, np.uint32)
    result = np.zeros(128, np.uint32)
    plan = cute.trace(through, x, result)
    _x, (got, wanted) = both(plan, x, result)
    assert_same(got, wanted, kind)
    np.testing.assert_array_equal(got.reshape(32, 4), x.reshape(32, 4)[::-1])


def _column(tensor, i):
    return tensor[cute._, i]


@cute.kernel
def reversed_flags(x, y, z):
    """Tiles with a guard and a fill; single elements."""
    cute.launch(grid=cute.ceil_div(x.shape[0], 256), block=32)
    here = cute.block_idx() * 32 + cute.thread_idx()
    held = cute.rmem(x.dtype, 8)
    cute.copy(cute.local_tile(x, (8,), (here,)), held)
    cute.copy(held, cute.local_tile(y, (8,), (here,)))
    with cute.when(here < x.shape[0]):
        z[here] = x[x.shape[0] - 1 - here]


@cute.kernel
def through_packed(x, y):
    """An asynchronous copy that packs, and the way back."""
    cute.launch(grid=1, block=32)
    tid, n = cute.thread_idx(), 128 // x.dtype.bits
    shared = cute.smem(x.dtype, cute.Layout((n, 32)))
    atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", x.dtype)
    cute.copy(atom, cute.local_tile(x, (n,), (tid,)), _column(shared, tid))
    cute.cp_async_fence()
    cute.cp_async_wait(0)
    cute.syncthreads()
    cute.copy(_column(shared, 31 - tid), cute.local_tile(y, (n,), (tid,)))


def narrow(kind, n):
    kind = cute.dtype(kind)
    values = np.random.default_rng(kind.bits).integers(0, 1 << kind.bits, n)
    return np.asarray(cute.decode(values, kind)).astype(kind.numpy)


def as_kind(x, kind):
    return x if x.dtype == bool else cute.typed(x, kind)


@pytest.mark.parametrize("kind", ["b1", "s2", "u2", "s4", "u4"])
@pytest.mark.parametrize("n", [1000, 77])
def test_narrow_elements_of_arrays_have_a_byte_each(kind, n):
    x = narrow(kind, n)
    arrays = x, np.ones_like(x), np.ones_like(x)
    plan = cute.trace(reversed_flags, *[as_kind(a, kind) for a in arrays])
    _x, (y, wanted_y), (z, wanted_z) = both(plan, *arrays)
    assert_same(y, wanted_y, kind)
    assert_same(z, wanted_z, kind)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("kind", ["b1", "s2", "u4"])
def test_asynchronous_copies_pack_elements_of_arrays(kind):
    n = 128 // cute.dtype(kind).bits
    x = narrow(kind, 30 * n)  # the last lanes have nothing
    y = np.ones(32 * n, x.dtype)
    plan = cute.trace(through_packed, as_kind(x, kind), as_kind(y, kind))
    _x, (got, wanted) = both(plan, x, y)
    assert_same(got, wanted, kind)
    np.testing.assert_array_equal(got.reshape(32, n)[2:], x.reshape(30, n)[::-1])
    assert not got.reshape(32, n)[:2].any()
