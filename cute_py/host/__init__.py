"""Host utilities for tensors in the memory of this process: fill, compare, multiply, print.

They are thin functions over NumPy, for tests and references; padding between the elements of a
tensor is neither read nor written. Source: cutlass tools/util reference/host.
"""

from __future__ import annotations

from cute_py.lazy import lazy

# module -> the public names that it defines
_HOME = {
    "host.reference": (
        "reference_gemm tensor_add tensor_div tensor_equals tensor_map2 tensor_modulus "
        "tensor_mul tensor_sub"
    ),
    "host.fill": (
        "tensor_fill tensor_fill_random_gaussian tensor_fill_random_uniform tensor_fill_sequential"
    ),
    "host.text": "print_tensor tensor_table tensor_text",
}

__getattr__, __dir__ = lazy(__name__, _HOME)
