"""Answers to lesson 1; after each, a wrong one that many write first."""

import cute_py as cute

# -- 1.1
column_major = cute.Layout((4, 8), (1, 4))  # the default of cute.Layout((4, 8)), too
# -- 1.1 wrong: row-major
column_major = cute.Layout((4, 8), (8, 1))

# -- 1.2
padded_rows = cute.Layout((8, 32), (36, 1))
# -- 1.2 wrong: the size is not what the padding changes
padded_rows = cute.Layout((8, 36), (36, 1))

# -- 1.3
repeated = cute.Layout((8, 4), (1, 0))
# -- 1.3 wrong: the rows repeat, not the columns
repeated = cute.Layout((8, 4), (0, 1))

# -- 1.4
blocked = cute.Layout(((2, 2), (2, 2)), ((1, 4), (2, 8)))
# -- 1.4 wrong: row-major within the block
blocked = cute.Layout(((2, 2), (2, 2)), ((2, 4), (1, 8)))
