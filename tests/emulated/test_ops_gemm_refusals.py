"""What `cute.ops.gemm` refuses, and what it takes to be enough memory."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import CuteError, DtypeError, LayoutError, LeafTypeError
from cute_py.kernels.config import choose_config
from cute_py.ops import memory
from cute_py.ops.product import Product, Request, gemm, taken

DTYPES = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "e4m3", "e5m2")


def refused(code, kind, *args, **options):
    with pytest.raises(CuteError) as caught:
        gemm(*args, checks=True, **options)
    assert (caught.value.code, type(caught.value)) == (code, kind)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_shapes_that_do_not_fit_are_refused():
    a, b = np.ones((3, 4), np.float32), np.ones((5, 6), np.float32)
    text = refused("ops-shapes", LayoutError, a, b)
    assert "given a of shape (3,4) and b of shape (5,6); required: a (..., M, K)" in text
    refused("ops-shapes", LayoutError, np.ones((2, 3, 4)), np.ones((3, 4, 5)))
    text = refused("ops-rank", LayoutError, np.ones(4), b)
    assert "given a of shape (4); required: at least 2 modes: (..., M, K)" in text
    text = refused("ops-shape", LayoutError, a, a.T, np.ones((3, 4)), beta=1)
    assert "given c of shape (3,4); required: shape (3,3)" in text
    text = refused("ops-shape", LayoutError, a, a.T, bias=np.ones(4))
    assert "given bias of shape (4); required: shape (3)" in text
    refused("ops-shape", LayoutError, a, a.T, out=np.ones((3, 4), np.float32))
    text = refused("ops-shape", LayoutError, a, a.T, out=[])
    assert "given out of shape list; required: shape (3,3)" in text


def test_types_that_do_not_fit_are_refused():
    a = np.ones((3, 3), np.float32)
    text = refused("ops-dtype", DtypeError, a, a.astype(np.float16))
    assert "given operands of f32 and f16; required: f16, bf16, tf32, f32" in text
    refused("ops-dtype", DtypeError, a.astype(int), a.astype(int))
    text = refused("ops-array", LeafTypeError, a.astype(object), a)
    assert "given ndarray of object as a; required: an array of numbers" in text
    refused("ops-array", LeafTypeError, a, "text")
    refused("ops-array", LeafTypeError, a.astype(complex), a)
    text = refused("ops-out-dtype", DtypeError, a, a, out_dtype="s64")
    assert "given out_dtype of s64; required: f32, f64" in text
    text = refused("ops-out-dtype", DtypeError, a, a, out=np.zeros((3, 3)), out_dtype="f32")
    assert "given out of float64; required: f32" in text


def test_masked_arrays_are_refused():
    a = np.ones((3, 3), np.float32)
    masked = np.ma.array(a, mask=a > 0)
    for named in ({"a": masked, "b": a}, {"a": a, "b": a, "c": masked, "beta": 1}):
        with pytest.raises(LayoutError, match="an array with a mask") as caught:
            cute.ops.gemm(**named)
        assert caught.value.code == "argument-masked"


def test_factors_are_real_numbers_and_beta_has_a_c():
    a = np.ones((3, 3), np.float32)
    for wrong in (np.ones(2), "x", 1j, None, [1], 10**400):
        for name in ("alpha", "beta"):
            text = refused("ops-factor", LeafTypeError, a, a, **{name: wrong})
            assert f"as {name}; required: a real number" in text
    text = refused("ops-no-c", LayoutError, a, a, beta=2)
    assert "given beta=2 without c" in text
    for right in (2, 2.0, np.float16(2), np.array(2), True + True):
        assert (cute.ops.gemm(a, a, alpha=right) == 6).all()
        assert (cute.ops.gemm(a, a, a, beta=right) == 5).all()


def test_choices_that_there_are_not_are_refused():
    a = np.ones((3, 3), np.float32)
    text = refused("ops-choice", LeafTypeError, a, a, activation="cube")
    assert "given activation='cube'; required: None, 'relu'" in text
    refused("ops-choice", LeafTypeError, a, a, backend="tpu")
    text = refused("ops-choice", LeafTypeError, a, a, config=5)
    assert "given config=5; required: what choose_config returns, or text" in text
    text = refused("gemm-config-text", LayoutError, a, a, config="tiles=3")
    assert "given 'tiles=3'; required: parts like tile=64x64x32" in text
    text = refused("gemm-config", LayoutError, a, a, config="stages=1")
    assert "required: at least 2 stages" in text
    wide = choose_config(3, 3, 3, "f32", ("MN", "MN"))
    refused("gemm-config", LayoutError, a, a, config=wide)
    with pytest.raises(LayoutError, match="required: stores that cover the tile evenly"):
        replace(choose_config(512, 512, 64, "bf16"), tile=(128, 192, 64), store=9)


class OnDevice:
    shape, dtype = (3, 3), np.dtype(np.float32)
    __cuda_array_interface__ = {"shape": (3, 3), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012


def test_arrays_must_lie_where_the_product_is_computed():
    a = np.ones((3, 3), np.float32)
    text = refused("ops-no-gpu", CuteError, a, a, backend="gpu")
    assert "given a, b on the host, with backend='gpu'; required: all arrays where" in text
    text = refused("ops-no-gpu", CuteError, OnDevice(), a)
    assert "given b on the host" in text
    text = refused("ops-no-gpu", CuteError, a, OnDevice(), backend="emulator")
    assert "given b on the device" in text


def test_read_only_results_are_refused():
    a, out = np.ones((3, 3), np.float32), np.zeros((3, 3), np.float32)
    out.flags.writeable = False
    text = refused("ops-read-only", LayoutError, a, a, out=out)
    assert "given an array as out that is read-only" in text
    assert (out == 0).all()


def test_too_little_memory_is_refused_before_starting(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 100_000)
    a = np.ones((300, 300), np.float32)
    text = refused("ops-memory", CuteError, a, a)
    assert "(1.0 MiB of arrays, 0 bytes to emulate); required: at most the 97.7 KiB" in text
    monkeypatch.setattr(memory, "available_bytes", lambda: 1_200_000)
    text = refused("ops-memory", CuteError, a, a)
    assert "(351.6 KiB of arrays, 1.9 MiB to emulate); required: at most the 1.1 MiB" in text


def test_little_memory_makes_smaller_batches(monkeypatch):
    a, b = np.ones((300, 40), np.float16), np.eye(40, 300, dtype=np.float16)
    one = choose_config(300, 300, 40, "f16").block_bytes
    monkeypatch.setattr(memory, "available_bytes", lambda: 5 * one + 180_000)
    np.testing.assert_array_equal(gemm(a, b, out_dtype="f32", checks=True), a @ b)


@pytest.mark.parametrize("kind", DTYPES)
def test_the_estimate_of_a_block_is_of_the_right_size(kind):
    from cute_py.emulate.program import Program

    a, b = np.ones((128, 256)), np.ones((256, 128))
    call = Product(*taken(Request(a, b, dtype=kind, out_dtype="f32"))).call()
    true = Program(call.plan(), frozenset(), False).resources.bytes_per_block()
    assert true / 2 <= call.config.block_bytes <= true * 4
