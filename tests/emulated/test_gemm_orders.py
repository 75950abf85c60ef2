"""`cute.gemm` takes its own order and those of CuTe, as far as the roles of fragments tell."""

from itertools import permutations

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.sampling import each

MMA = "SM80_16x8x16_F32F16F16F32_TN"
SHAPES = (16, 16), (8, 16), (16, 8)


@cute.kernel
def product(A, B, C, order, unknown=()):
    cute.launch(grid=1, block=32)
    mma = cute.make_tiled_mma(MMA)
    thr = mma.get_slice(cute.thread_idx())
    pairs = zip((A, B, C), SHAPES, strict=True)
    A, B, C = (cute.local_tile(x, shape, (0, 0)) for x, shape in pairs)
    parts = thr.partition_A(A), thr.partition_B(B), thr.partition_C(C)
    a, b = thr.make_fragment_A(parts[0]), thr.make_fragment_B(parts[1])
    c = thr.make_fragment_C(parts[2])
    cute.copy(parts[0], a)
    cute.copy(parts[1], b)
    cute.copy(parts[2], c)
    d = thr.make_fragment_C(parts[2])
    d.fill(100)
    held = {"A": a, "B": b, "C": c, "D": d}
    for name in unknown:
        x = cute.make_rmem_tensor(held[name].layout, held[name].dtype)
        cute.copy(held[name], x)
        held[name] = x
    cute.gemm(mma, *[held[name] if name in "CD" else held[name][_, _, 0] for name in order])
    cute.copy(held["D" if "D" in order else "C"], parts[2])


def arrays():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 16)).astype(np.float16) for n in (16, 8))
    return a, b, rng.integers(-4, 5, (16, 8)).astype(np.float32)


def accepted(order, unknown=()):
    """Run a product; return whether it is accepted, and then right."""
    a, b, c = arrays()
    wanted = c + a.astype(np.float32) @ b.astype(np.float32).T
    try:
        product(a, b, c, order, unknown)
    except cute.LayoutError as error:
        return error.code not in ("operand-order", "operand-shape") or None
    assert (c == wanted).all()
    return True


RIGHT = {("C", "A", "B"), ("A", "B", "C"), ("D", "A", "B", "C"), ("C", "A", "B", "C")}


@each([*permutations("ABC"), *permutations("ABCD"), tuple("CABC"), tuple("AB"), tuple("ABBC")])
def test_the_orders_of_cute_are_accepted_and_no_others(*order):
    order = order[0] if isinstance(order[0], tuple) else order
    alike = tuple("C" if x == "D" else x for x in order)  # both are sums
    right = order in RIGHT or (order[0] == "D" and alike in RIGHT) or alike == tuple("CABC")
    if order == ("C", "A", "B", "D"):
        return  # C = A * B + D, with D the fragment that was filled: legal, another result
    assert bool(accepted(order)) is right, order


@pytest.mark.parametrize("unknown", ["A", "B", "C", "AB", "ABC"])
def test_with_an_unknown_role_only_our_order_is_taken(unknown):
    assert accepted(("C", "A", "B"), tuple(unknown))
    assert not accepted(("A", "B", "C"), tuple(unknown))
    assert not accepted(("D", "A", "B", "C"), tuple(unknown))


AS_A = cute.Layout(((2, 2, 2), 1, 1), ((1, 2, 4), 0, 0))  # 16x8 sums, two side by side
VIEWS = {
    "make_tensor": lambda x: cute.make_tensor(x.data, AS_A),
    "composition": lambda x: cute.composition(x, AS_A),
    "with_layout": lambda x: x.with_layout(AS_A),
    "coalesce": cute.coalesce,
    "copies": lambda x: cute.composition(x.to("f32").to("f16"), AS_A),
}


@each(VIEWS)
def test_a_new_layout_over_a_fragment_is_no_fragment(view):
    """Sums become an operand so: what it was made for does not matter any more."""

    @cute.kernel
    def twice(A, B, C):
        cute.launch(grid=1, block=32)
        mma = cute.make_tiled_mma("SM80_16x8x16_F16F16F16F16_TN")
        thr = mma.get_slice(cute.thread_idx())
        A, B = cute.local_tile(A, (16, 16), (0, 0)), cute.local_tile(B, (8, 16), (0, 0))
        C = cute.local_tile(C, (16, 8), (0, 0))
        first = thr.make_fragment_C(thr.partition_C(A))  # ((2,2),1,2)
        cute.copy(thr.partition_C(A), first)
        a, b = VIEWS[view](first), thr.partition_fragment_B(B)
        cute.copy(thr.partition_B(B), b)
        acc = thr.make_fragment_C(thr.partition_C(C))
        acc.fill(0)
        cute.gemm(mma, acc, a, b)
        cute.copy(acc, thr.partition_C(C))

    a, b, _c = arrays()
    c = np.full((16, 8), np.nan, np.float16)
    twice(a, b, c)
    assert (c == a @ b.T).all()
