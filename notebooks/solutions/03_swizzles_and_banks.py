"""Answers to lesson 3; after each, a wrong one that many write first."""

import cute_py as cute

# -- 3.1
addresses = [12 * lane for lane in range(32)]  # 3 words a step: every odd step visits all banks
# -- 3.1 wrong: a power of two
addresses = [16 * lane for lane in range(32)]

# -- 3.2
padded = cute.Layout((32, 32), (33, 1))
# -- 3.2 wrong: an even stride
padded = cute.Layout((32, 32), (34, 1))

# -- 3.3
swizzle = cute.Swizzle(3, 3, 3)
# -- 3.3 wrong: two bits separate four rows, not eight
swizzle = cute.Swizzle(2, 3, 3)

# -- 3.4
smem_layout = cute.suggest_smem_layout((64, 32), "f16", "K", [store, load]).layout
# -- 3.4 wrong: no change
smem_layout = cute.Layout((64, 32), (32, 1))
