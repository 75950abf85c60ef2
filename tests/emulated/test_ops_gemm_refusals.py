"""What `cute.ops.gemm` refuses next to the rows of tests/refusals/operators.py; enough memory."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.errors import CuteError, LayoutError
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


def test_masked_arrays_are_refused():
    a = np.ones((3, 3), np.float32)
    masked = np.ma.array(a, mask=a > 0)
    for named in ({"a": masked, "b": a}, {"a": a, "b": a, "c": masked, "beta": 1}):
        with pytest.raises(LayoutError, match="an array with a mask") as caught:
            cute.ops.gemm(**named)
        assert caught.value.code == "argument-masked"


def test_factors_of_any_kind_of_number_are_taken():
    a = np.ones((3, 3), np.float32)
    for right in (2, 2.0, np.float16(2), np.array(2), True + True):
        assert (cute.ops.gemm(a, a, alpha=right) == 6).all()
        assert (cute.ops.gemm(a, a, a, beta=right) == 5).all()


def test_stores_that_do_not_cover_the_tile_are_refused():
    with pytest.raises(LayoutError, match="required: stores that cover the tile evenly"):
        replace(choose_config(512, 512, 64, "bf16"), tile=(128, 192, 64), store=9)


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
