"""Operators of torch on the GPU: gradients, memory, streams, graphs and dynamic sizes."""

import copy
import gc
import time

import pytest

import cute_py as cute
from cute_py.kernels.activations import ACTIVATIONS
from tests.gpu.harness import require_gpu, torch
from tests.torch_calls import losses_of_blocks, near_float64

require_gpu()
import cute_py.torch  # noqa: E402

gemm = torch.ops.cute_py.gemm
EXACT = [name for name in ACTIVATIONS if name != "tanh"]  # which is within 2**-11 in f32


def tensor(*shape, dtype=torch.bfloat16, grad=False):
    return (torch.randn(*shape, device="cuda") / shape[-1] ** 0.5).to(dtype).requires_grad_(grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("activation", [None, *EXACT])
def test_gradients_against_float64(dtype, activation):
    near_float64("cuda", dtype, activation)


@pytest.mark.filterwarnings("ignore")
def test_opcheck():
    args = tensor(32, 64, grad=True), tensor(64, 48, grad=True), tensor(32, 48), 0.5, 2.0
    torch.library.opcheck(gemm.default, (*args, tensor(48, grad=True), "gelu"))
    out = torch.empty(32, 48, device="cuda", dtype=torch.bfloat16)
    torch.library.opcheck(gemm.out, (tensor(32, 64), tensor(64, 48)), {"out": out})


def test_memory_after_many_calls_is_that_after_a_few():
    a, b = tensor(64, 64, grad=True), tensor(64, 64, grad=True)

    def run(times):
        for _ in range(times):
            a.grad = b.grad = None
            gemm(a, b, None, 1.0, 0.0, None, "gelu").sum().backward()
            with torch.no_grad():
                cute.ops.gemm(a, b)
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()

    gc.collect()  # of other tests
    run(10)
    before = run(10)
    assert run(10_000) == before


@pytest.mark.parametrize("orders", ["plain", "transposed"])
def test_gradients_of_16_bit_types_take_no_memory_but_their_own(orders):
    """No operand is copied, in whichever order it is in memory."""
    a, b, g = tensor(1024, 512), tensor(512, 768), tensor(1024, 768)
    if orders == "transposed":
        a, b, g = (x.T.contiguous().T for x in (a, b, g))
    a, b = a.requires_grad_(), b.requires_grad_()
    for _ in range(2):  # the first one compiles
        result = gemm(a, b)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        found = torch.autograd.grad(result, (a, b), g)
        torch.cuda.synchronize()
        taken = torch.cuda.max_memory_allocated() - before
    assert taken == sum(x.numel() * x.element_size() for x in found)


# -- graphs and streams


def captured(function):
    """Return the graph of a function, after one call of the same shape, and its result."""
    stream = torch.cuda.Stream()  # as torch warms up: gradients stay on the stream of their leaves
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # torch warns if the nodes of that call are still alive
        result = function()
    return graph, result


@pytest.mark.parametrize("activation", [None, "silu"])
def test_a_captured_step_replays_with_changed_values(activation):
    a, b, bias = tensor(96, 128, grad=True), tensor(128, 64, grad=True), tensor(64, grad=True)

    def step():
        result = gemm(a, b, None, 1.0, 0.0, bias, activation)
        grads = torch.autograd.grad(result.float().square().sum(), (a, b, bias))
        return result.detach(), *grads

    graph, found = captured(step)
    for _ in range(3):
        with torch.no_grad():
            for x in (a, b, bias):
                x.copy_(torch.randn_like(x) / 8)
        graph.replay()
        kept = [x.clone() for x in found]
        for got, wanted in zip(kept, step(), strict=True):
            assert torch.equal(got, wanted)


def test_two_graphs_on_two_streams_at_once():
    made = []
    for size in (256, 384):
        a, b = tensor(size, size), tensor(size, size)
        graph, result = captured(lambda a=a, b=b: gemm(gemm(a, b), b, None, 1.0, 0.0, None, "relu"))
        made.append((torch.cuda.Stream(), graph, a, b, result))
    for _ in range(20):
        for _stream, _graph, a, _b, result in made:
            a.normal_()
            result.fill_(float("nan"))
        torch.cuda.synchronize()
        for stream, graph, *_rest in made:
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        for _stream, _graph, a, b, result in made:
            assert torch.equal(result, gemm(gemm(a, b), b, None, 1.0, 0.0, None, "relu"))


def test_gradients_on_a_side_stream():
    a, b = tensor(512, 512, grad=True), tensor(512, 512, grad=True)
    wanted = torch.autograd.grad(gemm(a, b).float().sum(), (a, b))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    for _ in range(20):
        with torch.cuda.stream(stream):
            found = torch.autograd.grad(gemm(a, b).float().sum(), (a, b))
        torch.cuda.current_stream().wait_stream(stream)
        assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))


# torch 2.11 keeps the results of its warm-up until the capture, and warns, for nn.Linear too
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
def test_make_graphed_callables():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        cute_py.torch.Linear(64, 128, activation="gelu"), cute_py.torch.Linear(128, 64)
    ).to("cuda", torch.bfloat16)
    x, reference = tensor(32, 64, grad=True), copy.deepcopy(module)
    y = x.detach().clone().requires_grad_()
    wanted = reference(y)
    grads = torch.autograd.grad(wanted.float().sum(), (y, *reference.parameters()))
    graphed = torch.cuda.make_graphed_callables(module, (x,))
    found = graphed(x)
    assert torch.equal(found, wanted)
    made = torch.autograd.grad(found.float().sum(), (x, *module.parameters()))
    for got, grad in zip(made, grads, strict=True):
        torch.testing.assert_close(got, grad)


# -- torch.compile


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_modules(mode):
    torch._dynamo.reset()
    module = torch.nn.Sequential(
        cute_py.torch.Linear(64, 128, activation="gelu"), cute_py.torch.Linear(128, 64)
    ).to("cuda", torch.bfloat16)
    compiled = torch.compile(module, mode=mode, fullgraph=True)
    for _ in range(4):
        x = tensor(32, 64, grad=True)
        wanted = module(x)
        grads = torch.autograd.grad(wanted.float().sum(), (x, *module.parameters()))
        found = compiled(x)
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
        made = torch.autograd.grad(found.float().sum(), (x, *module.parameters()))
        for got, grad in zip(made, grads, strict=True):
            torch.testing.assert_close(got, grad, rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore")
def test_dynamic_sizes_compile_once():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    module = cute_py.torch.Linear(64, 128, activation="silu").to("cuda", torch.bfloat16)
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    graphs = []
    for M in (8, 24, 31, 100, 1000, 3):
        x = tensor(M, 64, grad=True)
        found, wanted = compiled(x), module(x)
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)
        made, grads = (
            torch.autograd.grad(y.float().sum(), (x, *module.parameters())) for y in (found, wanted)
        )
        for got, grad in zip(made, grads, strict=True):
            torch.testing.assert_close(got, grad, rtol=5e-2, atol=1e-1)
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert len(set(graphs[2:])) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_thousand_sizes_share_their_kernels():
    """A new M whose configuration is compiled costs at most 1 ms once, of this thread alone: other
    tests run at the same time.
    """
    from cute_py.kernels.gemm import gemm as of_all_gpus
    from cute_py.kernels.gemm_sm90 import KERNELS
    from cute_py.ops.product import KNOWN

    kernels = of_all_gpus, *KERNELS.values()
    b = tensor(256, 256)
    whole = tensor(1016, 256)
    for M in range(8, 1017, 8):  # compiles the configurations
        cute.ops.gemm(whole[:M], b)
    plans, times = sum(len(x.plans) for x in kernels), []
    KNOWN.clear()
    for M in range(1, 1001):
        a = whole[:M]
        start = time.thread_time()
        result = gemm(a, b)
        times.append(time.thread_time() - start)
        if M % 100 == 1:
            torch.testing.assert_close(result, a @ b, rtol=2e-2, atol=2e-2)
    assert sum(len(x.plans) for x in kernels) <= plans + 2
    assert KNOWN.count <= 1024
    assert sorted(times)[500] <= 1e-3, sorted(times)[500]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_block_trains_as_with_torch(compiled):
    losses_of_blocks(compiled)
