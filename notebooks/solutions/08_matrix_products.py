"""Answers to lesson 8; after each, a wrong one that many write first."""

import cute_py as cute

# -- 8.1
tile_layout = cute.composition(cute.Swizzle(4, 0, 4), cute.Layout((16, 16), (16, 1)))
# -- 8.1 wrong: padding takes more memory
tile_layout = cute.Layout((16, 16), (17, 1))

# -- 8.2
smem_bytes = 4 * (64 + 64) * 32 * 2
# -- 8.2 wrong: elements, not bytes
smem_bytes = 4 * (64 + 64) * 32

# -- 8.3
size = 64 * 64 * 2
# -- 8.3 wrong: elements, not bytes
size = 64 * 64
