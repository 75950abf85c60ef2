"""`cute.ops.Gemm`: statuses, workspaces of the caller, and arrays that are exchanged."""

from types import SimpleNamespace

import numpy as np
import pytest

import cute_py as cute
from cute_py.epilogues import linear_combination, quantized_with_amax
from cute_py.ops import Gemm, Status

rng = np.random.default_rng(0)
A, B = (rng.integers(-3, 4, s).astype(np.float16) for s in ((9, 64), (64, 12)))
WANTED = A.astype(np.float32) @ B.astype(np.float32)
SERIAL = {"config": "split=serial:2", "out_dtype": "f32"}


def status(*args, **named):
    return Gemm(*args, **named).can_implement().status


def test_e01_there_are_12_statuses():
    assert [*Status] == [*range(12)]
    assert [x.name for x in Status][:3] == ["Success", "MisalignedOperand", "InvalidDataType"]
    assert len({x.words for x in Status}) == 12


def test_e01_what_is_wrong_is_a_status():
    """A configuration that reads vectors of 8 elements is for aligned rows."""
    usual = cute.ops.gemm_config(A, B)
    odd = np.zeros((9, 65), np.float16)[:, :64]
    square = np.ones((4, 4), np.float16)
    twice = np.lib.stride_tricks.as_strided(np.zeros(4, np.float16), (4, 4), (0, 2))
    for wanted, args, named in (
        (Status.Success, (A, B), {}),
        (Status.MisalignedOperand, (odd, B), {"config": usual}),
        (Status.InvalidDataType, (A, B), {"dtype": "s32"}),
        (Status.InvalidDataType, (A, B), {"out_dtype": "s4"}),
        (Status.InvalidLayout, (square, square), {"out": twice}),
        (Status.InvalidProblem, (A, B.T), {}),
        (Status.InvalidProblem, (A, B), {"config": "split=serial:0"}),
        (Status.InvalidProblem, (A, B), {"config": "split=2"}),  # of a kernel without clusters
        (Status.NotSupported, (A, B), {"activation": "none such"}),
        (Status.Success, (A, B), SERIAL),
    ):
        assert status(*args, **named) is wanted, (wanted, named)
    answer = Gemm(A, B.T).can_implement()
    assert "required: " in answer.words


def test_e01_k_in_two_without_a_workspace():
    product = Gemm(A, B, **SERIAL)
    with pytest.raises(cute.LayoutError, match="no workspace; required: 4100 bytes") as caught:
        product.initialize()
    assert Status.of(caught.value) is Status.WorkspaceNull
    size = product.workspace_size()
    for wrong in (
        np.empty(size - 1, np.uint8),
        np.empty(size, np.int8),
        np.empty(size + 1, np.uint8)[1:],
    ):
        with pytest.raises(cute.LayoutError, match=r"given an array of .*workspace_size"):
            product.initialize(wrong)
    Gemm(A, B).initialize()  # none is needed


def test_i15_a_product_is_prepared_once():
    product = Gemm(A, B, **SERIAL)
    memory = np.full(product.workspace_size(), 255, np.uint8)
    product.initialize(memory)
    assert not memory[-4:].any()
    np.testing.assert_array_equal(product.run(), WANTED)
    assert not memory[-4:].any()
    np.testing.assert_array_equal(product.update(a=2 * A, alpha=3)(), 6 * WANTED)
    assert (memory[:-4].view(np.float32) != 255).any()
    np.testing.assert_array_equal(Gemm(A, B, **SERIAL).run(), WANTED)  # a workspace of its own


def test_i15_the_result_goes_to_an_array_that_is_exchanged():
    first, second = (np.full((9, 12), np.nan, np.float32) for _ in range(2))
    product = Gemm(A, B, out=first)
    assert product.workspace_size() == 0
    assert product.run() is first
    assert product.update(out=second).run() is second
    np.testing.assert_array_equal(first, WANTED)
    np.testing.assert_array_equal(second, WANTED)


@pytest.mark.parametrize("named", [
    {"a": A[:8]}, {"a": A.astype(np.float32)}, {"a": np.asfortranarray(A)}, {"a": None},
    {"bias": np.ones(12, np.float32)}, {"c": [[1.0]]},
])  # fmt: skip
def test_i15_only_arrays_that_are_alike_are_exchanged(named):
    with pytest.raises(cute.LayoutError, match="in place of"):
        Gemm(A, B).update(**named)


def test_i15_lists_have_a_shape_too():
    product = Gemm([[1.0, 2.0]], [[3.0], [4.0]])
    assert product.update(a=[[2.0, 2.0]]).run() == [[14.0]]
    with pytest.raises(cute.LayoutError, match=r"shape \(2,2\) in place of .* \(1,2\)"):
        product.update(a=[[1.0, 2.0], [3.0, 4.0]])


def test_i15_a_factor_that_is_no_longer_0_brings_its_array():
    """`linear_combination` leaves c unread where beta is 0."""
    c = np.arange(108, dtype=np.float32).reshape(9, 12)
    named = {"epilogue": linear_combination, "beta": 0, "out_dtype": "f32"}
    product = Gemm(A, B, c, **named)
    np.testing.assert_array_equal(product.run(), WANTED)
    np.testing.assert_array_equal(product.update(beta=2.0).run(), WANTED + 2 * c)
    np.testing.assert_array_equal(product.update(c=-c).run(), WANTED - 2 * c)
    with pytest.raises(cute.CuteError, match=r"beta=2\.0 without c"):
        Gemm(A, B, **named).update(beta=2.0)


def test_i15_results_are_those_of_gemm():
    """By name where there are several, and combined over elements where they are."""
    greatest = np.full(9, np.nan, np.float32)
    named = {"epilogue": quantized_with_amax, "scale": 0.5, "out_dtype": "s8"}
    wanted = cute.ops.gemm(A, B, **named)
    for more in ({}, {"amax": greatest}):
        found = Gemm(A, B, **named, **more).run()
        assert list(found) == ["D", "amax"]
        for name, x in wanted.items():
            np.testing.assert_array_equal(found[name], x)
    assert found["amax"] is greatest
    wrong = Gemm(A, B, **named, amax=np.zeros(3, np.float32)).can_implement()
    assert wrong.status is Status.InvalidProblem


def test_i15_options_are_not_exchanged():
    with pytest.raises(cute.LeafTypeError, match="a name among a, b"):
        Gemm(A, B).update(config="stages=2")


def test_i15_a_column_major_product_is_the_transposed_one():
    """The example of CUTLASS has column-major operands: D^T = B^T A^T."""
    a, b = np.asfortranarray(A), np.asfortranarray(B)
    out = np.zeros((12, 9), np.float32)
    Gemm(b.T, a.T, out=out).run()
    np.testing.assert_array_equal(out.T, WANTED)


def test_i15_an_empty_product_needs_nothing():
    product = Gemm(A[:0], B)
    assert product.can_implement().status is Status.Success
    assert product.workspace_size() == 0
    product.initialize()
    assert product.run().shape == (0, 12)


def test_products_of_any_sizes_share_a_workspace():
    """The sums of one may be where the locks of the other are."""
    products, wanted = [], []
    for split, (m, k, n) in (("serial:2", (9, 64, 12)), ("serial:2", (64, 64, 32))):
        a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n)))
        products.append(Gemm(a, b, config=f"tile=32x32x32,split={split}", out_dtype="f32"))
        wanted.append(a.astype(np.float32) @ b.astype(np.float32))
    memory = np.empty(max(x.workspace_size() for x in products), np.uint8)
    for x in products:
        x.initialize(memory)
    for i in (0, 1, 0, 1):
        np.testing.assert_array_equal(products[i].run(), wanted[i])


def test_a_workspace_is_apart_from_the_operands():
    memory = np.zeros(8192, np.uint8)
    a = memory[:1152].view(np.float16).reshape(9, 64)
    out = memory[4096:4528].view(np.float32).reshape(9, 12)
    for name, product in (("a", Gemm(a, B, **SERIAL)), ("out", Gemm(A, B, out=out, **SERIAL))):
        with pytest.raises(cute.LayoutError, match=f"shares memory with {name};"):
            product.initialize(memory)
    product = Gemm(A, B, **SERIAL)
    product.initialize(memory)
    with pytest.raises(cute.LayoutError, match="shares memory with a;"):
        product.update(a=a).run()


@pytest.mark.parametrize("given", [5, "memory", [0] * 8192, np.broadcast_to(np.uint8(0), 8192)])
def test_what_cannot_be_written_is_no_workspace(given):
    memory = np.zeros(8192, np.uint8)
    memory.flags.writeable = False
    for wrong in (given, memory):
        with pytest.raises(cute.LayoutError, match=r"given .*; required: 4100 bytes"):
            Gemm(A, B, **SERIAL).initialize(wrong)


def test_a_stream_is_for_arrays_of_a_gpu():
    of_all_runs = Gemm(A, B, stream=3)
    assert of_all_runs.can_implement().status is not Status.Success
    for call in (
        Gemm(A, B).run,
        Gemm(A, B).initialize,
        lambda stream: of_all_runs.run(),
        lambda stream: cute.ops.gemm(A, B, stream=stream),
    ):
        with pytest.raises(cute.CuteError, match="stream=3 with arrays on the host"):
            call(stream=3)


def test_memory_that_is_elsewhere_is_no_workspace():
    facts = {"shape": (20000,), "typestr": "|u1", "data": (4096, False), "version": 3}
    there = SimpleNamespace(__cuda_array_interface__=facts)
    with pytest.raises(cute.CuteError, match="given a on the host"):
        Gemm(A, B, **SERIAL).initialize(there)
