"""Answers to lesson 4; after each, a wrong one that many write first."""

import cute_py as cute

atom = cute.atoms.get("SM80_16x8x16_F32F16F16F32_TN")

# -- 4.1
thread, value = 5, 3
# -- 4.1 wrong: the value of row 1, not of row 9
thread, value = 5, 1

# -- 4.2
rows_of_four = cute.Layout(((4, 8), 4), ((32, 1), 8))
# -- 4.2 wrong: threads one column apart
rows_of_four = cute.Layout(((4, 8), 4), ((8, 1), 32))

# -- 4.3
c_layout = cute.fit(lambda t, v: t // 4 + v // 2 * 8 + 16 * (t % 4 * 2 + v % 2), (32, 4))
# -- 4.3 wrong: rows of 8 elements, as in 4.2
c_layout = cute.Layout(((4, 8), (2, 2)), ((16, 1), (8, 64)))

# -- 4.4
owner_of = cute.composition(cute.right_inverse(atom.c_tv), cute.Layout((16, 8)))
# -- 4.4 wrong: not inverted
owner_of = cute.composition(atom.c_tv, cute.Layout((16, 8)))
