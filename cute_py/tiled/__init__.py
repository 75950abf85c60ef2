"""Tiled operations: an atom repeated over threads and values, and a thread's part of a tensor.

`tiled_mma` tiles MMA atoms, `tiled_copy` copy atoms; `thread_maps` has the thread maps of CUTLASS
2.x, `coverage` proves that every element is touched once, `suggest` finds copies and permutations
for a tile. The checks of the constructors are in `tiles`; those that need the operands of a copy or
product, in `checks`. Public names are exported by `cute_py`.
"""
