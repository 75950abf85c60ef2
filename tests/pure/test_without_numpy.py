"""Questions about layouts of fewer than 4,096 elements load no NumPy."""

import subprocess
import sys

PROGRAM = """
import cute_py as cute
from cute_py import Layout, parse_layout

tile = Layout((8, 8), (8, 1))
swizzled = parse_layout("Sw<2,0,3> o 0 o (8,8):(8,1)")
odd = Layout((3, 5, 7), (5, 3, 11))
for layout in (tile, swizzled, odd, Layout((4, 5), (7, 9)), cute.to_f2(tile)):
    cute.is_injective(layout), cute.is_surjective(layout), cute.is_bijective(layout)
    cute.is_permutation(layout), cute.equivalent(layout, tile), cute.cosize(layout)
    cute.contains(layout, tile), cute.overlaps(layout, tile, 3)
for operation in (cute.logical_divide, cute.zipped_divide, cute.logical_product, cute.composition):
    operation(tile, Layout(4, 2)), operation(tile, 4)
for x in (tile, swizzled):
    cute.right_inverse(x), cute.left_inverse(x), cute.complement(x), cute.max_common_layout(x, x)
    cute.upcast(x, 1), x(3), x((1, 2)), str(x), cute.explain("right_inverse", tile)
cute.layout_add(tile, Layout(64)), cute.prove_bijective(swizzled), cute.prove_equal(tile, odd)
assert str(cute.fit([0, 4, 1, 5, 2, 6, 3, 7])) == "(2,4):(4,1)"
assert str(cute.fit([0, 1, 3, 2])) == "Sw<1,0,1> o 0 o 4:1"
assert str(cute.fit([[0, 1, 2], [4, 5, 6]])) == "(2,3):(4,1)"
assert str(cute.fit(lambda i, j: 3 * i + j, (4, 3))) == "(4,3):(3,1)"
assert cute.fit(swizzled) == swizzled
assert str(cute.fit([0, 1, 3, 2, 5, 4, 6, 7])).startswith("8:F2")
try:
    cute.fit([0, 1, 2, 9, 4, 5])
except cute.CuteError:
    pass
try:
    cute.composition(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
except cute.CuteError as error:
    cute.explain(error)
import sys
assert "numpy" not in sys.modules
"""


def test_small_layouts_need_no_numpy():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
