"""K split among blocks on a GPU: exact, always the same bits, with streams, graphs, workspaces."""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.config import choose_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemm_split import gemm_split
from cute_py.kernels.splits import Split, workspace_of
from cute_py.ops import Gemm, Status
from tests.gpu.harness import HAS_GPU, assert_same, both, require_any, torch

require_any()
pytestmark = pytest.mark.hangs(120)
on_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs an NVIDIA GPU")
SPLITS = (Split("serial", 1), Split("serial", 3), Split("stream", 1), Split("stream", 7))


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("kind", ["f16", "s8", "f64", "f32"])
def test_the_kernel_gives_the_bits_of_the_emulator(kind, split):
    rng = np.random.default_rng(0)
    dtype = cute.dtype(kind).numpy
    m, n, k = 70, 88, 208
    a, b = (rng.integers(-4, 5, (rows, k)).astype(dtype) for rows in (m, n))
    config = replace(choose_config(m, n, k, kind), tile=(32, 32, 16 if kind == "f32" else 64))
    config = replace(config, warps=(8, 8) if kind == "f32" else (2, 2), parts=split)
    wanted = workspace_of(split, config.tile, 9)
    partial = np.zeros(tuple(wanted), config.mma_atom.c_type.numpy)
    flags, d = np.zeros(wanted.slots, np.int32), np.zeros((m, n), np.float32)
    last = LinearCombination({"f64": "f64", "s8": "s32"}.get(kind, "f32"))
    given = (a, b, partial, flags, None, None, d, 1.0, 0.0)
    plan = cute.trace(gemm_split, *given, config, last)
    found = both(plan, *[x for x in given if x is not None])
    assert_same(*found[4], "D")
    np.testing.assert_array_equal(found[4][0], a.astype(float) @ b.astype(float).T)
    assert not found[3][0].any()


def whole(*shape, kind=None):
    return torch.randint(-3, 4, shape, device="cuda").to(kind or torch.bfloat16)


TEXTS = (
    *("split=serial", "split=serial:3", "split=stream", "split=stream:7", "split=parallel"),
    *("schedule=multistage,split=serial:3", "schedule=multistage,split=stream"),
)
SHAPES = ((64, 64, 65536), (300, 200, 1000), (1024, 640, 4096), (2048, 1536, 512), (8, 4096, 256))


@on_gpu
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_splits_are_exact_on_integers(shape, text):
    m, n, k = shape
    a, b, c, bias = whole(m, k), whole(n, k).mT, whole(m, n), whole(n)
    out = torch.full((m, n), torch.nan, device="cuda")
    given = {"c": c, "beta": 2, "bias": bias, "activation": "relu", "out": out, "config": text}
    wanted = torch.relu(a.double() @ b.double() + 2 * c.double() + bias.double())
    for _ in range(3):  # the locks are zero again after each
        out.fill_(torch.nan)
        cute.ops.gemm(a, b, **given)
        assert torch.equal(out.double(), wanted)


@on_gpu
@pytest.mark.parametrize(
    "text", ["split=parallel:3,tile=64x88x64", "split=parallel:6,tile=128x56x64", "tile=64x176x64"]
)
def test_narrow_tiles_and_any_number_of_parts_are_exact(text):
    a, b, out = whole(392, 6144), whole(376, 6144).mT, torch.full((392, 376), torch.nan).cuda()
    for config in (None, text):  # the rule's choice, too
        out.fill_(torch.nan)
        cute.ops.gemm(a, b, out=out, config=config)
        assert torch.equal(out.double(), a.double() @ b.double())


@on_gpu
@pytest.mark.parametrize("kind", ["int8", "float16", "float64", "float32"])
@pytest.mark.parametrize("text", [*TEXTS[:4], *TEXTS[5:]])
def test_types_and_batches_are_exact(kind, text):
    a, b = (whole(*s, kind=getattr(torch, kind)) for s in ((3, 130, 520), (3, 200, 520)))
    found = cute.ops.gemm(a, b.mT, config=text)
    assert torch.equal(found.double(), a.double() @ b.mT.double())


@on_gpu
@pytest.mark.parametrize("text", TEXTS)
def test_bits_repeat_and_are_near(text):
    a, b = (torch.randn(256, 8192, device="cuda").bfloat16() for _ in "ab")
    found = [cute.ops.gemm(a, b.mT, out_dtype="f32", config=text) for _ in range(100)]
    assert all(torch.equal(x, found[0]) for x in found)
    exact = a.double() @ b.mT.double()
    assert ((found[0] - exact).norm() / exact.norm()).item() < 1e-5


@on_gpu
@pytest.mark.parametrize("text", ["split=serial", "split=stream"])
def test_two_streams_at_once(text):
    """Each has a workspace of its own, and blocks of one never wait for those of the other."""
    a, b = whole(512, 8192), whole(512, 8192).mT
    wanted, streams = a.float() @ b.float(), [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found = [
        cute.ops.gemm(a, b, out_dtype="f32", config=text, stream=streams[i % 2]) for i in range(200)
    ]
    torch.cuda.synchronize()
    assert all(torch.equal(x, wanted) for x in found)


@on_gpu
@pytest.mark.parametrize("text", TEXTS)
def test_a_graph_replays(text):
    a, b = whole(256, 4096), whole(256, 4096).mT
    out = torch.empty(256, 256, device="cuda")
    cute.ops.gemm(a, b, out=out, config=text)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        cute.ops.gemm(a, b, out=out, config=text)
    other = torch.cuda.Stream()
    for _ in range(3):
        a.copy_(whole(256, 4096))
        out.fill_(torch.nan)
        torch.cuda.synchronize()
        with torch.cuda.stream(other):
            graph.replay()
        cute.ops.gemm(a, b, config=text)  # at the same time, with memory of its own
        torch.cuda.synchronize()
        assert torch.equal(out, a.float() @ b.float())


@on_gpu
def test_streams_are_given_as_numbers_or_by_their_library():
    a, b = whole(64, 64), whole(64, 64).mT
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for given in (stream, stream.cuda_stream, 0):
        found = cute.ops.gemm(a, b, stream=given)
        torch.cuda.synchronize()
        rows = found.float()
        torch.cuda.synchronize()  # no stream of torch waits for another
        rows = cute.ops.softmax(rows, stream=given)
        torch.cuda.synchronize()
        assert torch.equal(found.double(), a.double() @ b.double())
        assert torch.allclose(rows.sum(1), torch.ones(64, device="cuda"))
    assert torch.cuda.current_stream() != stream


@on_gpu
@pytest.mark.parametrize("number", [0, 1])  # both are the default stream
def test_the_default_stream_by_its_number_waits_for_what_was_begun(number):
    a, b = whole(64, 4096), whole(4096, 64)
    cute.ops.gemm(a, b, out_dtype="f32", stream=number)  # so that it is compiled
    wanted = 2 * (a.double() @ b.double())
    torch.cuda.synchronize()
    torch.cuda._sleep(50_000_000)  # cycles
    a *= 2
    found = cute.ops.gemm(a, b, out_dtype="f32", stream=number)
    assert torch.equal(found.double(), wanted)


@on_gpu
@pytest.mark.parametrize("text", ["split=serial:4", "split=stream"])
def test_a_product_with_a_workspace_of_the_caller(text):
    a, b = whole(200, 2000), whole(2000, 136)
    product = Gemm(a, b, out_dtype="f32", config=text)
    assert product.can_implement().status is Status.Success
    size = product.workspace_size()
    room = torch.full((size + 32,), 7, dtype=torch.uint8, device="cuda")
    with pytest.raises(cute.CuteError):
        product.initialize()
    with pytest.raises(cute.CuteError):
        product.initialize(torch.zeros(size, dtype=torch.uint8))  # of the host
    product.initialize(room[16 : size + 16])
    for _ in range(3):
        assert torch.equal(product.run(), a.float() @ b.float())
        a = whole(200, 2000)
        product.update(a=a)
    assert (room[:16] == 7).all()
    assert (room[size + 16 :] == 7).all()


@on_gpu
@pytest.mark.parametrize("blocks", [1, 3, 8])
def test_blocks_loop_over_products(blocks):
    a, b = whole(5, 300, 200), whole(5, 200, 264)
    config = f"schedule=multistage,batches={blocks}"
    found = cute.ops.gemm(a, b, out_dtype="f32", config=config)
    assert torch.equal(found, a.float() @ b.float())
