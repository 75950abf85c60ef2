"""Tiled operations: an atom repeated over threads and values, and a thread's part of a tensor.

`tiled_mma` tiles MMA atoms, `tiled_copy` copy atoms; `thread_maps` holds the maps of CUTLASS 2.x,
`coverage` the proof that every element is touched once, `suggest` what a kernel author would
otherwise derive by hand. What their constructors check is in `tiles`; what is known only where a
copy or product is made, in `checks`. Public names are exported by `cute_py`.
"""
