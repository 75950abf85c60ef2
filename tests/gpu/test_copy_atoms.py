"""Tiled copies by every instruction that codegen lowers: the tile arrives, bit for bit."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.gpu.harness import assert_same, both, both_kernels, drawn, require_any

require_any()

TILE = cute.spec(shape=(32, 64))


@pytest.mark.parametrize("kind", ["u8", "f16", "f32", "f64"])
def test_universal_and_asynchronous_copies(kind):
    x = drawn(kind, 32 * 64).reshape(32, 64)
    least = cute.dtype(kind).bits
    cases = [("UniversalCopy", bits) for bits in (8, 16, 32, 64, 128) if bits >= least]
    for cache, widths in (("ALWAYS", (32, 64, 128)), ("GLOBAL", (128,))):
        for zfill in ("", "_ZFILL"):
            name = f"SM80_CP_ASYNC_CACHE{cache}{zfill}"
            cases += [(name, bits) for bits in widths if bits >= least]
    back = cute.suggest_tiled_copy((32, 64), kind, 64, 1, 128, "UniversalCopy")

    @cute.kernel
    def all_copies(X: TILE, Y, ways, last):
        cute.launch(grid=1, block=64)
        tid = cute.thread_idx()
        shared = cute.smem(X.dtype, cute.Layout((32, 64), (64, 1)))
        store = last.get_slice(tid)
        for i, way in enumerate(ways):
            load = way.get_slice(tid)
            cute.copy(way, load.partition_S(X), load.partition_D(shared))
            cute.cp_async_fence()
            cute.cp_async_wait(0)
            cute.syncthreads()
            cute.copy(
                last,
                store.partition_S(shared),
                store.partition_D(cute.local_tile(Y[i, _, _], (32, 64), (0, 0))),
            )
            cute.syncthreads()
            wipe = cute.rmem(X.dtype, 32)
            wipe.fill(1)
            cute.copy(wipe, cute.local_tile(shared.with_layout(cute.Layout(2048)), (32,), (tid,)))
            cute.syncthreads()

    ways = tuple(cute.suggest_tiled_copy((32, 64), kind, 64, 1, b, name) for name, b in cases)
    out = np.zeros((len(cases), 32, 64), x.dtype)
    plan = cute.trace(all_copies, x, out, ways, back)
    _x, (got, wanted) = both(plan, x, out)
    for i, case in enumerate(cases):
        assert_same(got[i], wanted[i], f"{case} {kind}")
        assert_same(got[i], x, f"{case} {kind}")


FORMS = [(n, trans) for trans in ("N", "T") for n in (1, 2, 4)]


def ldmatrix_name(n, trans):
    return f"SM75_U32x{n}_LDSM_N" if trans == "N" else f"SM75_U16x{2 * n}_LDSM_T"


def stmatrix_name(n, trans):
    return f"SM90_U32x{n}_STSM_N" if trans == "N" else f"SM90_U16x{2 * n}_STSM_T"


@pytest.mark.parametrize("swizzled", [False, True])
def test_fragments_by_ldmatrix_are_those_of_plain_loads(swizzled):
    """A and B of a product, K-major and transposed, against the fragments' own elements."""
    atom = cute.atoms.get("SM80_16x8x16_F32F16F16F32_TN")
    mma = cute.make_tiled_mma(atom, (1, 1, 1), (16, 32, 16))
    forms = FORMS

    @cute.kernel
    def fragments(X, out, wanted):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        plain = cute.Layout((32, 32), (32, 1))
        layout = cute.composition(cute.Swizzle(2, 3, 3), plain) if swizzled else plain
        shared = cute.smem("f16", layout)
        turned = cute.smem("f16", cute.Layout((32, 32), (1, 32)))
        for i in range(32):
            value = X[tid, i]
            shared[tid, i] = value
            turned[tid, i] = value
        cute.syncthreads()
        thread = mma.get_slice(tid)
        for i, (n, trans) in enumerate(forms):
            source = shared if trans == "N" else turned
            tile = cute.local_tile(source, (32, 16), (0, 1))
            copy = cute.make_tiled_copy_B(
                cute.Copy_Atom(cute.get_copy(ldmatrix_name(n, trans)), "f16"), mma
            )
            held = thread.partition_fragment_B(tile)
            read = copy.get_slice(tid)
            cute.copy(copy, read.partition_S(tile), read.retile_D(held))
            same = thread.make_fragment_B(thread.partition_B(tile))
            cute.copy(thread.partition_B(tile), same)
            for j in range(16):
                out[i, tid, j], wanted[i, tid, j] = held[j], same[j]

    x = np.random.default_rng(0).permutation(1024).astype(np.float16).reshape(32, 32)
    out = np.zeros((len(forms), 32, 16), np.float16)
    _x, (got, emulated), (plain, _wanted) = both_kernels(fragments, x, out, out.copy())
    assert_same(got, emulated)
    assert_same(got, plain, "ldmatrix and plain loads")


@pytest.mark.sm90
def test_accumulators_by_stmatrix_are_those_of_plain_stores():
    atom = cute.atoms.get("SM80_16x8x16_F16F16F16F16_TN")
    mma = cute.make_tiled_mma(atom, (1, 1, 1), (16, 32, 16))

    @cute.kernel
    def stored(X: cute.spec(shape=(16, 32)), out):
        cute.launch(grid=1, block=32)
        tid = cute.thread_idx()
        thread = mma.get_slice(tid)
        part = thread.partition_C(X)
        held = thread.make_fragment_C(part)
        cute.copy(part, held)
        for i, (n, trans) in enumerate(FORMS):
            stride = (32, 1) if trans == "N" else (1, 16)
            shared = cute.smem("f16", cute.Layout((16, 32), stride))
            copy = cute.make_tiled_copy_C(
                cute.Copy_Atom(cute.get_copy(stmatrix_name(n, trans)), "f16"), mma
            )
            write = copy.get_slice(tid)
            cute.copy(copy, write.retile_S(held), write.partition_D(shared))
            cute.syncthreads()
            for j in range(16):
                out[i, j, tid] = shared[j, tid]

    x = np.random.default_rng(0).permutation(512).astype(np.float16).reshape(16, 32)
    out = np.zeros((len(FORMS), 16, 32), np.float16)
    _x, (got, emulated) = both_kernels(stored, x, out)
    assert_same(got, emulated)
    for i, form in enumerate(FORMS):
        assert_same(got[i], x, str(form))
