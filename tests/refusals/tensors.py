"""Refusals of tensors and host utilities."""

import numpy as np

import cute_py as cute
from cute_py import Layout, Swizzle, make_tensor

BACKWARDS = cute.make_composed_layout(Swizzle(1, 1, 1), 8, Layout(8, -1))


def host(shape, dtype, values=None):
    return cute.make_host_tensor(shape, dtype, values)


ROWS = """
tensor-source: a tensor is made of something that holds no elements
    - make_tensor([1, 2], 2)
    + make_tensor(np.array([1, 2]))
tensor-layout: a tensor is made of memory without a layout
    - make_tensor(cute.make_ptr("f16", 0))
    + make_tensor(cute.make_ptr("f16", 0), 8)
tensor-dtype: a dtype is given for memory that already has one
    - make_tensor(cute.make_ptr("f16", 0), 8, "f32")
    + make_tensor(cute.make_ptr("f16", 0), 8)
tensor-codomain: a tensor of memory has a layout that yields coordinates
    - make_tensor(np.zeros(32), cute.make_identity_layout((4, 8)))
    + make_tensor(np.zeros(32), (4, 8))
tensor-bounds: a layout is out of the bounds of the memory
    - make_tensor(np.zeros(31), (4, 8))
    + make_tensor(np.zeros(32), (4, 8))
tensor-iteration: a tensor is iterated over
    - list(make_tensor(np.zeros(4)))
    + list(np.array(make_tensor(np.zeros(4))))
tensor-length: len() of a tensor
    - len(make_tensor(np.zeros((4, 8))))
    + cute.size(make_tensor(np.zeros((4, 8))), 0)
tensor-product: a product needs more memory than the tensor has
    - cute.logical_product(make_tensor(np.zeros(4)), Layout(2))
    + cute.logical_product(Layout(4), Layout(2))
tensor-shape: values for a tensor have another shape
    - host((2, 3), "f32", np.zeros((3, 2)))
    + host((2, 3), "f32", np.zeros((2, 3)))
tensor-overlap: two values are stored at one offset
    - host(Layout((2, 2), (0, 1)), "s8", [[1, 2], [3, 2]])
    + host(Layout((2, 2), (0, 1)), "s8", [[1, 2], [1, 2]])
tensor-no-view: an array without a copy cannot be made
    - host(4, "f32").__array__(copy=False)
    + host(4, "f32").__array__()
not-a-tensor: something other than a tensor is given
    - cute.recast(Layout(4), "u8")
    + cute.recast(host(4, "f32"), "u8")
coordinates-dtype: memory is made like a tensor of coordinates, without a dtype
    - cute.make_tensor_like(cute.make_identity_tensor((2, 2)))
    + cute.make_tensor_like(cute.make_identity_tensor((2, 2)), "f32")
engine-unreadable: elements outside host memory are read, or coordinates are written
    - make_tensor(cute.Memory("sA", "f16"), 8)[3]
    + host(8, "f16")[3]
memory-space: a memory space does not exist
    - cute.make_ptr("f16", 0, "shared")
    + cute.make_ptr("f16", 0, "smem")
pointer-address: an address is negative or not aligned
    - cute.make_ptr("f32", 0x7F02)
    + cute.make_ptr("f32", 0x7F04)
array-dtype: an array does not have the requested type
    - make_tensor(np.zeros(4, np.int8), dtype="s4")
    + make_tensor(np.zeros(4, np.int8), dtype="s8")
words-apart: packed words are not contiguous
    - make_tensor(np.zeros(8, np.uint8)[::2], dtype="s4")
    + make_tensor(np.zeros(8, np.uint8), dtype="s4")
recast-engine: elements without bits are recast
    - cute.recast(cute.make_identity_tensor((2, 2)), "u8")
    + cute.recast(host((2, 2), "f32"), "u8")
recast-unpacked: elements smaller than a byte that take a byte each are recast
    - cute.recast(make_tensor(np.zeros(8, bool)), "u8")
    + cute.recast(make_tensor(np.zeros(8, np.uint8)), "u8")
recast-origin: a recast would begin inside an element
    - cute.recast(make_tensor(np.zeros(8, np.uint8), Layout(6)).domain_offset(1), "u16")
    + cute.recast(make_tensor(np.zeros(8, np.uint8), Layout(6)).domain_offset(2), "u16")
recast-backwards: a swizzled layout with negative strides is recast
    - cute.recast(cute.Tensor(np.zeros(16, np.uint8), BACKWARDS), "u16")
    + cute.recast(cute.Tensor(np.zeros(16, np.uint8), Layout(8)), "u16")
thread-range: a thread layout does not have that thread
    - cute.local_partition(Layout(8), Layout(4), 4)
    + cute.local_partition(Layout(8), Layout(4), 3)
tensor-shapes: tensors of different shapes are combined
    - cute.tensor_add(host(4, "f32"), host((2, 2), "f32"))
    + cute.tensor_add(host(4, "f32"), host(4, "f32"))
tensor-divisor: elements are divided by 0
    - cute.tensor_div(host(3, "s32", 1), host(3, "s32", [1, 0, 2]))
    + cute.tensor_div(host(3, "s32", 1), host(3, "s32", [1, 1, 2]))
gemm-shapes: the shapes of the operands do not match
    - cute.reference_gemm(host((4, 8), "f32"), host((8, 4), "f32"))
    + cute.reference_gemm(host((4, 8), "f32"), host((4, 8), "f32"))
gemm-accumulate: operands cannot be summed in that type
    - cute.reference_gemm(host((4, 8), "f32"), host((4, 8), "f32"), accumulate="s32")
    + cute.reference_gemm(host((4, 8), "f32"), host((4, 8), "f32"), accumulate="f64")
random-range: the bounds of random values are in the wrong order
    - cute.tensor_fill_random_uniform(host(4, "f32"), 0, high=-1, low=1)
    + cute.tensor_fill_random_uniform(host(4, "f32"), 0, high=1, low=-1)
random-bits: no value between the bounds has so few fractional bits
    - cute.tensor_fill_random_uniform(host(4, "f32"), 0, 0.4, 0.1, 1)
    + cute.tensor_fill_random_uniform(host(4, "f32"), 0, 0.6, 0.1, 1)
random-finite: bounds of random values, or a mean, that the dtype does not hold
    - cute.tensor_fill_random_uniform(host(4, "f16"), 0, high=1e6)
    - cute.tensor_fill_random_gaussian(host(4, "f32"), 0, stddev=1e39)  # given the parameters 0.0
    + cute.tensor_fill_random_uniform(host(4, "f16"), 0, high=60000)
random-seed: a seed is no integer of 64 bits
    - cute.tensor_fill_random_uniform(host(4, "f32"), 1.5)
    - cute.tensor_fill_random_uniform(host(4, "f32"), 2**64)  # given the seed 18446744073709551616
    + cute.tensor_fill_random_uniform(host(4, "f32"), 2**64 - 1)
random-stddev: a standard deviation is negative
    - cute.tensor_fill_random_gaussian(host(4, "f32"), 0, stddev=-1)
    + cute.tensor_fill_random_gaussian(host(4, "f32"), 0, stddev=1)
fraction-bits: a number of fractional bits is invalid
    - cute.tensor_fill_random_uniform(host(4, "f32"), 0, fraction_bits=-1)
    + cute.tensor_fill_random_uniform(host(4, "f32"), 0, fraction_bits=1)
host-only: the copy on a GPU of registers or coordinates is asked for
    - cute.make_identity_tensor((2, 2)).host_view()
    + host((2, 2), "f32").host_view()
print-rank: a tensor has too many modes to be printed
    - cute.print_tensor(host((1, 1, 1, 1, 1), "f32"))
    + str(host((1, 1, 1, 1), "f32"))
engine-arithmetic:
    - make_tensor(cute.Memory("sA", "f16"), 8) + 1  # required: registers of a kernel, which compute
        element by element
"""
