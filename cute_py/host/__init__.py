"""Host utilities over tensors in the memory of this process: fill, compare, multiply, print.

They are thin functions over NumPy, for tests and references; padding between the elements of a
tensor is neither read nor written. Source: cutlass tools/util reference/host.
"""
