"""Answers to lesson 5; after each, a wrong one that many write first."""

import cute_py as cute

ATOM = "SM80_16x8x16_F32F16F16F32_TN"

# -- 5.1
tall = cute.make_tiled_mma(ATOM, (4, 1, 1), (64, 16, 16))
# -- 5.1 wrong: without the permutation, the tile is 64x8x16
tall = cute.make_tiled_mma(ATOM, (4, 1, 1))

# -- 5.2
shape_of_part = ((2, 2), 4, 4)
# -- 5.2 wrong: tiles of 32 in N, each of which has two atoms
shape_of_part = ((2, 2), 4, 2)

# -- 5.3
owner = 10
# -- 5.3 wrong: the right lane of another warp
owner = 74

# -- 5.4
loads = cute.suggest_tiled_copy((64, 32), "f16", 128, "K")
# -- 5.4 wrong: threads down a column
loads = cute.make_tiled_copy(
    cute.Copy_Atom("UniversalCopy<128>", "f16"), cute.Layout((32, 4)), cute.Layout((1, 8))
)
