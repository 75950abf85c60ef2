"""Kernels that begin while the one before is at work: each sees all that was written before."""

import pytest

import cute_py as cute
from cute_py.plan import ops
from tests.coverage import covers

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.sm90

BLOCK, LAUNCHES = 256, 400


@cute.kernel
def count(x, shift: cute.s32):
    """Add one to elements that other blocks wrote in the launch before."""
    cute.launch(grid=cute.ceil_div(x.shape[1], BLOCK), block=BLOCK, pdl=True)
    cute.griddepcontrol_wait()
    cute.griddepcontrol_launch_dependents()
    n = x.shape[1]
    i = cute.block_idx() * BLOCK + cute.thread_idx()
    with cute.when(i < n):
        x[1 - shift, i] = x[shift, (i + 7 * BLOCK + 1) % n] + 1


@covers(ops.GridDep)
@pytest.mark.parametrize("blocks", [5, 100, 3000])
def test_a_row_of_overlapping_kernels_counts_each(blocks):
    x = torch.zeros(2, blocks * BLOCK, dtype=torch.int32, device="cuda")
    for i in range(LAUNCHES):
        count(x, i % 2)
    assert (x[LAUNCHES % 2] == LAUNCHES).all()


def test_a_graph_of_overlapping_kernels_counts_each():
    x = torch.zeros(2, 200 * BLOCK, dtype=torch.int32, device="cuda")
    count(x, 0)
    count(x, 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(LAUNCHES):
            count(x, i % 2)
    x.zero_()
    for _ in range(3):
        graph.replay()
    assert (x[0] == 3 * LAUNCHES).all()


def test_overlapping_kernels_keep_order_with_those_of_others():
    x = torch.zeros(2, 300 * BLOCK, dtype=torch.int32, device="cuda")
    for _ in range(0, LAUNCHES, 2):
        count(x, 0)
        x[1] *= 2
        count(x, 1)
        x[0].copy_(x[0].clone() % 1009)
    expected = 0
    for _ in range(0, LAUNCHES, 2):
        expected = (2 * (expected + 1) + 1) % 1009
    assert (x[0] == expected).all()


@pytest.mark.parametrize("size", [256, 1024])
def test_products_of_products_are_those_of_torch(size):
    a = torch.randint(-1, 2, (size, size), device="cuda").to(torch.bfloat16)
    step = torch.eye(size, device="cuda", dtype=torch.bfloat16).roll(1, 0)
    ours, theirs = a, a
    for _ in range(60):
        ours = cute.ops.gemm(ours, step, out_dtype="bf16")
        theirs = theirs @ step
    assert torch.equal(ours, theirs)
