"""Kernels in the DSL, by the public names of `cute_py` alone; read them in order.

copy, transpose, reduce, softmax, layer_norm; gemm_01 to gemm_12, each with one idea more than the
one before; splitk_serial, whose blocks wait for each other; flash_attention, two products in a row,
and fused_attention, with scores that go through shared memory. Every file ends with `check()`,
which compares with NumPy; `python -m cute_py.kernels.copy` runs it. `config` chooses copies and
layouts from arrays.
"""
