"""Answers to lesson 2; after each, a wrong one that many write first."""

import cute_py as cute

a = cute.Layout((8, 6), (6, 1))

# -- 2.1
even_rows = cute.Layout((4, 6), (2, 8))  # b counts elements: 2 rows down, 8 to the next column
# -- 2.1 wrong: strides of the memory in place of numbers of elements
even_rows = cute.Layout((4, 6), (12, 1))

# -- 2.2
a_tiles = cute.zipped_divide(a, (2, 3))
# -- 2.2 wrong: tiles of 3x2
a_tiles = cute.zipped_divide(a, (4, 3))

# -- 2.3
rest = cute.complement(cute.Layout(8, 2), 32)
# -- 2.3 wrong: it overlaps
rest = cute.Layout(4, 8)

# -- 2.4
extent = 5
# -- 2.4 wrong: a multiple of the step is not the only way, and 2 is none
extent = 2
