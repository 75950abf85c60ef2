"""Refusals of tensors and host utilities: each code once, with its words."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import Layout, Swizzle, make_tensor
from cute_py.errors import WORDINGS
from cute_py.host.wordings import WORDINGS as OF_HOST
from cute_py.tensor.wordings import WORDINGS as OF_TENSORS


def structured():
    """Return an array whose elements lie 5 bytes apart."""
    return np.zeros(4, np.dtype([("a", "<f4"), ("b", "u1")]))["a"]


def host(shape, dtype, values=None):
    return cute.make_host_tensor(shape, dtype, values)


BACKWARDS = cute.make_composed_layout(Swizzle(1, 1, 1), 8, Layout(8, -1))

# code -> (a call that is refused with it, what its message must say)
EXAMPLES = {
    "tensor-source": (
        lambda: make_tensor([1, 2], 2),
        "make_tensor: given a list; required: a NumPy array",
    ),
    "tensor-layout": (
        lambda: make_tensor(cute.make_ptr("f16", 0)),
        "given gmem_ptr[16b](0x0) without a layout; required: a layout",
    ),
    "tensor-dtype": (
        lambda: make_tensor(cute.make_ptr("f16", 0), 8, "f32"),
        "a dtype for gmem_ptr[16b](0x0), which already has one",
    ),
    "tensor-codomain": (
        lambda: make_tensor(np.zeros(32), cute.make_identity_layout((4, 8))),
        "(4,8):(1@0,1@1), which yields coordinates, over host_ptr[64b](0)",
    ),
    "tensor-bounds": (
        lambda: make_tensor(np.zeros(31), (4, 8)),
        "coordinate (3,7) has offset 31; required: offsets from 0 to 30",
    ),
    "tensor-iteration": (
        lambda: list(make_tensor(np.zeros(4))),
        "host_ptr[64b](0) o (4):(1) to iterate over",
    ),
    "tensor-product": (
        lambda: cute.logical_product(make_tensor(np.zeros(4)), Layout(2)),
        "logical_product: given host_ptr[64b](0) o (4):(1); required: a layout",
    ),
    "tensor-shape": (
        lambda: host((2, 3), "f32", np.zeros((3, 2))),
        "values of shape (3, 2) for a tensor of (2, 3)",
    ),
    "tensor-overlap": (
        lambda: host(Layout((2, 2), (0, 1)), "s8", [[1, 2], [3, 2]]),
        "two values for offset 0 of (2,2):(0,1), to which it maps the coordinates (0,0) and (1,0)",
    ),
    "tensor-no-view": (
        lambda: host(4, "f32").__array__(copy=False),
        "host_ptr[32b](0) o 4:1 without a copy",
    ),
    "not-a-tensor": (
        lambda: cute.recast(Layout(4), "u8"),
        "recast: given Layout(4, 1) (Layout); required: a tensor",
    ),
    "coordinates-dtype": (
        lambda: cute.make_tensor_like(cute.make_identity_tensor((2, 2))),
        "whose elements are coordinates",
    ),
    "engine-unreadable": (
        lambda: make_tensor(cute.Memory("sA", "f16"), 8)[3],
        "smem_ptr[16b](sA), whose elements are not in host memory",
    ),
    "engine-arithmetic": (
        lambda: make_tensor(cute.Memory("sA", "f16"), 8) + 1,
        "required: registers of a kernel, which compute element by element",
    ),
    "memory-space": (
        lambda: cute.make_ptr("f16", 0, "shared"),
        "'shared' as a memory space; required: gmem, smem or rmem",
    ),
    "pointer-address": (
        lambda: cute.make_ptr("f32", 0x7F02),
        "the address 32514 for elements of f32; required: a multiple of 4 bytes",
    ),
    "array-empty": (lambda: make_tensor(np.zeros((0, 3))), "an array of shape (0, 3)"),
    "array-strides": (
        lambda: make_tensor(structured()),
        "a stride of 5 bytes in axis 0; required: strides that are multiples of the 4 bytes",
    ),
    "array-dtype": (
        lambda: make_tensor(np.zeros(4, np.int8), dtype="s4"),
        "an array of int8 as s4",
    ),
    "words-apart": (
        lambda: make_tensor(np.zeros(8, np.uint8)[::2], dtype="s4"),
        "packed words with a stride of 2 bytes",
    ),
    "recast-engine": (
        lambda: cute.recast(cute.make_identity_tensor((2, 2)), "u8"),
        "ArithTuple(0,0), which has no bits",
    ),
    "recast-unpacked": (
        lambda: cute.recast(make_tensor(np.zeros(8, bool)), "u8"),
        "b1 elements that take a byte each",
    ),
    "recast-origin": (
        lambda: cute.recast(make_tensor(np.zeros(8, np.uint8), Layout(6)).domain_offset(1), "u16"),
        "begin at element 1 of the memory; required: a multiple of 2",
    ),
    "recast-backwards": (
        lambda: cute.recast(cute.Tensor(np.zeros(16, np.uint8), BACKWARDS), "u16"),
        "a swizzle above negative strides",
    ),
    "thread-range": (
        lambda: cute.local_partition(Layout(8), Layout(4), 4),
        "thread 4 of 4:1; required: 0 <= thread < 4",
    ),
    "tensor-shapes": (
        lambda: cute.tensor_add(host(4, "f32"), host((2, 2), "f32")),
        "tensors of shapes [(4,), (2, 2), (4,)]",
    ),
    "tensor-divisor": (
        lambda: cute.tensor_div(host(3, "s32", 1), host(3, "s32", [1, 0, 2])),
        "the integer divisor 0 at (1,)",
    ),
    "gemm-shapes": (
        lambda: cute.reference_gemm(host((4, 8), "f32"), host((8, 4), "f32")),
        "operands of shapes [(4, 8), (8, 4)]",
    ),
    "gemm-accumulate": (
        lambda: cute.reference_gemm(host((4, 8), "f32"), host((4, 8), "f32"), accumulate="s32"),
        "f32 operands summed in s32",
    ),
    "random-range": (
        lambda: cute.tensor_fill_random_uniform(host(4, "f32"), 0, high=-1, low=1),
        "values from 1 to -1; required: low < high",
    ),
    "random-bits": (
        lambda: cute.tensor_fill_random_uniform(host(4, "f32"), 0, 0.4, 0.1, 1),
        "values from 0.1 to 0.4 with 1 fractional bits: there is no such value",
    ),
    "random-stddev": (
        lambda: cute.tensor_fill_random_gaussian(host(4, "f32"), 0, stddev=-1),
        "the standard deviation -1",
    ),
    "fraction-bits": (
        lambda: cute.tensor_fill_random_uniform(host(4, "f32"), 0, fraction_bits=-1),
        "-1 fractional bits; required: an int from 0 to 52",
    ),
    "print-rank": (
        lambda: cute.print_tensor(host((1, 1, 1, 1, 1), "f32")),
        "required: a tensor of 1 to 4 modes",
    ),
}


@pytest.mark.parametrize("code", EXAMPLES)
def test_refusal_names_what_was_given_and_required(code):
    call, words = EXAMPLES[code]
    with pytest.raises(WORDINGS[code][0]) as caught:
        call()
    assert caught.value.code == code
    assert words in str(caught.value)


def test_every_wording_of_tensors_has_an_example():
    assert set(EXAMPLES) == {*OF_TENSORS, *OF_HOST}
