"""`torch.ops.cute_py.gemm` on the emulator: its laws, types, graphs and threads."""

import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

import cute_py as cute

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402
from cute_py.ops.call import Call  # noqa: E402
from cute_py.ops.libraries import on_stream  # noqa: E402
from tests.sampling import check_each, pairwise  # noqa: E402

gemm = torch.ops.cute_py.gemm
ROOT = Path(__file__).parents[2]


def tensor(*shape, dtype=torch.float32, grad=True):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made, dtype=torch.float64).to(dtype).requires_grad_(grad)


# -- streams


@pytest.mark.parametrize("number", [0, 1, 2, 4096])
def test_the_default_stream_is_that_of_torch(monkeypatch, number):
    """Numbers 0 and 1 are its names; torch would take them for those of other streams."""
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: "default")
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda number, device: number)
    entered = []
    monkeypatch.setattr(torch.cuda, "stream", lambda x: nullcontext(entered.append(x)))
    with on_stream(torch.zeros(1), number, "cute.ops.gemm"):
        assert entered == ["default" if number < 2 else number]


# -- the laws of an operator


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "args",
    [
        (tensor(5, 7), tensor(7, 6)),
        (tensor(5, 7), tensor(7, 6), tensor(5, 6), 0.5, 2.0, tensor(6), "gelu"),
        (tensor(2, 5, 7), tensor(7, 6, grad=False), tensor(5, 6), 1.0, 1.0),
        (tensor(5, 7, dtype=torch.bfloat16), tensor(6, 7, dtype=torch.bfloat16).T),
        (tensor(5, 7, dtype=torch.float16), tensor(7, 6, dtype=torch.float16), None, 1.0, 0.0, None,
         None, torch.float32),
        (torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 5, dtype=torch.int8)),
        (tensor(5, 7), tensor(7, 6), None, 1.0, 0.0, None, "relu", torch.float32, "auto", None,
         "e4m3", "", True),
        (tensor(2, 1, 5, 7), tensor(3, 7, 6), tensor(3, 5, 6), 1.0, 2.0, None, "tanh",
         torch.bfloat16),
        (tensor(7, 5, dtype=torch.float16).T, tensor(7, 6, dtype=torch.float16), None, 1.0, 0.0,
         tensor(6), "silu", torch.float32),
        (tensor(5, 7, dtype=torch.float64), tensor(7, 6, dtype=torch.float64), None, 0.5, 0.0, None,
         "sigmoid"),
        (torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 5, dtype=torch.int8), tensor(3, 5), 1.0,
         1.0, None, "relu", torch.float32),
        (tensor(0, 5, 7), tensor(7, 0), None, 1.0, 0.0, tensor(0), "gelu"),
    ],
    ids=["plain", "epilogue", "batch", "bf16", "out_dtype", "integers", "fast_accum", "tanh",
         "silu", "sigmoid", "relu", "nothing"],
)  # fmt: skip
def test_opcheck_of_the_product(args):
    torch.library.opcheck(gemm.default, args)


@pytest.mark.filterwarnings("ignore")
def test_opcheck_of_the_product_into_a_tensor():
    a, b = tensor(5, 7, grad=False), tensor(7, 6, grad=False)
    torch.library.opcheck(gemm.out, (a, b), {"out": torch.empty(5, 6)})


def test_the_operator_is_the_product():
    a, b, c, bias = tensor(5, 7, grad=False), tensor(7, 6, grad=False), tensor(5, 6), tensor(6)
    c, bias = c.detach(), bias.detach()
    wanted = cute.ops.gemm(a, b, c, 0.5, 2, bias, "relu")
    assert torch.equal(gemm(a, b, c, 0.5, 2, bias, "relu"), wanted)
    out = torch.zeros(5, 6)
    version = out._version
    assert gemm.out(a, b, c, 0.5, 2, bias, "relu", out=out) is None
    assert torch.equal(out, wanted)
    assert out._version > version
    batch = tensor(2, 3, 5, 7, grad=False)
    assert torch.equal(gemm(batch, b), cute.ops.gemm(batch, b))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", [("alpha",), ("beta",), ("alpha", "beta")])
def test_factors_in_tensors_are_those_of_the_product(names, fresh):
    """A gradient of a factor is refused, never lost; without one it is a number."""
    a, b, c = tensor(5, 7), tensor(7, 6, grad=False), tensor(5, 6, grad=False)
    into = torch.empty(5, 6)
    followed = torch.tensor(2.0, requires_grad=True)
    plain = {"alpha": 1.0, "beta": 1.0} | dict.fromkeys(names, 2.0)
    wanted = gemm(a, b, c, **plain)

    def calls(value, x):
        terms = plain | dict.fromkeys(names, value)
        yield lambda: cute.ops.gemm(x, b, c, **terms)
        yield lambda: gemm(x, b, c, **terms)
        yield lambda: gemm(x, b, c, *terms.values())
        yield lambda: gemm(x.detach(), b, c, **terms, out=into) or into

    for x in (a, a.detach()):
        for call in calls(followed, x):
            with pytest.raises(cute.CuteError) as caught:
                call()
            assert (caught.value.code, caught.value.facts["name"]) == (
                "argument-gradient",
                names[0],
            )
            with torch.no_grad():
                assert torch.equal(call(), wanted)
        for call in calls(followed.detach(), x):
            assert torch.equal(call(), wanted)
    for odd in (torch.ones(1), torch.tensor(2j)):
        for call in calls(odd, a):
            with pytest.raises(cute.CuteError, match=f"as {names[0]}; required: a real number"):
                call()
    for whole in (gemm.default, gemm.out, cute_py.torch.gemm):
        with pytest.raises(RuntimeError, match=r"for argument .* but instead found type 'Tensor'"):
            whole(a, b, c, **plain | dict.fromkeys(names, followed))
    compiled = torch.compile(
        lambda x: gemm(a, b, c, **plain | dict.fromkeys(names, x)), backend="aot_eager"
    )
    with pytest.raises(Exception, match="a tensor that autograd follows"):
        compiled(followed)
    with pytest.raises(cute.CuteError, match="a tensor that autograd follows"):
        torch.func.grad(lambda x: gemm(a, b, c, **plain | dict.fromkeys(names, x)).sum())(
            followed.detach()
        )


_CONFIG = None, 1.0, 0.0, None, None, None, "auto", "tile=1"
REFUSED = {
    "shapes": lambda f, a, b: f(a, b.T),
    "shapes of a batch": lambda f, a, b: f(torch.stack([a, a]), b.T),
    "type of c, shape of bias": lambda f, a, b: f(a, b, a.long().cfloat(), 1.0, 1.0, a[0, :2]),
    "config without a sum": lambda f, a, b: f(a[:, :0], b[:0], *_CONFIG),
    "rank": lambda f, a, b: f(a[0], b),
    "mixed types": lambda f, a, b: f(a, b.double()),
    "integers": lambda f, a, b: f(a.long(), b.long()),
    "complex": lambda f, a, b: f(a.to(torch.complex64).conj(), b),
    "c without beta": lambda f, a, b: f(a, b, None, 1.0, 1.0),
    "shape of c": lambda f, a, b: f(a, b, a, 1.0, 1.0),
    "shape of bias": lambda f, a, b: f(a, b, None, 1.0, 0.0, a[0, :2]),
    "activation": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, "gemm"),
    "backend": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "gpu"),
    "config": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "auto", "tile=1"),
    "out_dtype": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, torch.int64),
    "dtype": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "auto", None, "s4"),
    "checks": lambda f, a, b: f(a, b, None, 1.0, 0.0, None, None, None, "auto", None, None, "x"),
    "factor": lambda f, a, b: f(a, b, None, 2j),
    "too many stages": lambda f, a, b: f(a, b, config="stages=999"),
    "another kernel": lambda f, a, b: f(a, b, config="schedule=cooperative"),
    "a kernel that is never traced": lambda f, a, b: f(a, b, config="store=9,tile=32x36x8"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_the_fake_refuses_what_the_product_refuses_in_the_same_words(why):
    from torch._subclasses.fake_tensor import FakeTensorMode

    call, a, b = REFUSED[why], tensor(5, 7, grad=False), tensor(7, 6, grad=False)
    with pytest.raises(cute.CuteError) as real:
        call(gemm, a, b)
    with FakeTensorMode() as mode, pytest.raises(cute.CuteError) as fake:
        call(gemm, mode.from_tensor(a), mode.from_tensor(b))
    assert str(real.value) == str(fake.value)
    with pytest.raises(cute.CuteError) as meta:
        call(gemm, a.to("meta"), b.to("meta"))
    assert str(real.value) == str(meta.value)


PARTS = (
    *("stages=9", "stages=3", "stages=40", "stages=1", "store=8", "store=16", "stmatrix=1,store=8"),
    *("warps=16x8", "warps=2x2x2", "tile=64x64x32", "tile=256x128x64", "tile=48x64x32", "band=2"),
    *("schedule=pingpong", "split=2", "prefetch=65", "min_blocks=2,pdl=1", "what=1"),
)
KINDS = "float16", "bfloat16", "float32", "float64", "int8", "float8_e4m3fn"
SHAPES = (64, 64, 64), (100, 36, 20), (33, 17, 5), (1, 8, 16), (5, 7, 0), (0, 8, 8), (520, 513, 521)
BATCHES = ((), ()), ((3,), ()), ((1,), (2,)), ((2, 3), (3,)), ((2, 1), (2, 1)), ((), (2,))
PLACES = (0, 0, False), (0, 8, False), (1, 0, False), (4, 4, False), (0, 0, True), (8, 1, True)
TERMS = "", "c", "bias", "dtype", "out_dtype"


def placed(rows, columns, kind, batch, first, gap, by_columns):
    """Return zeros, whose rows or columns begin at an element `first`, with a gap."""
    across, along = (columns, rows) if by_columns else (rows, columns)
    held = torch.zeros(*batch, across, first + along + gap).to(getattr(torch, kind))
    found = held[..., first : first + along]
    return found.mT if by_columns else found


def test_the_fake_refuses_every_configuration_that_the_product_refuses(monkeypatch):
    """Whatever the sizes, types, batches, and places in memory, in the same words."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def planned(call, **_options):
        call.plan()
        return call.outputs[0].given()

    def ran(call, **options):
        return planned(call) if call.result.size else run(call, **options)

    run = Call.run
    monkeypatch.setattr(Call, "run", ran)
    rows = pairwise(PARTS, KINDS, SHAPES, BATCHES, PLACES, PLACES, TERMS)
    codes = set()

    def check(row):
        text, kind, (M, N, K), (of_a, of_b), first, second, terms = row
        a, b = placed(M, K, kind, of_a, *first), placed(K, N, kind, of_b, *second)
        named = {"config": text}
        if terms == "c":
            named |= {"c": placed(M, N, "float32", (), *second), "beta": 2}
        named |= {"bias": torch.zeros(N)} if terms == "bias" else {}
        named |= {"dtype": "bf16"} if terms == "dtype" else {}
        named |= {"out_dtype": torch.float64} if terms == "out_dtype" else {}

        def said(of):
            given = {x: of(y) if isinstance(y, torch.Tensor) else y for x, y in named.items()}
            try:
                return gemm(of(a), of(b), **given).shape
            except cute.CuteError as error:
                codes.add(error.code)
                return str(error)

        with FakeTensorMode() as mode:
            fake = said(mode.from_tensor)
        assert fake == said(lambda x: x)

    check_each(check, rows)
    assert codes >= {"gemm-config", "gemm-config-text", "plan-shared", "suggest-copy"}


def test_the_fake_refuses_out_in_the_same_words():
    from torch._subclasses.fake_tensor import FakeTensorMode

    a, b = tensor(5, 7, grad=False), tensor(7, 6, grad=False)
    for out in (torch.zeros(6, 5), torch.zeros(5, 6).long(), torch.zeros(6).expand(5, 6)):
        with pytest.raises(cute.CuteError) as real:
            gemm.out(a, b, out=out)
        with FakeTensorMode() as mode, pytest.raises(cute.CuteError) as fake:
            gemm.out(*map(mode.from_tensor, (a, b)), out=mode.from_tensor(out))
        assert str(real.value) == str(fake.value)


# -- autocast, vmap, modes


def test_autocast_casts_as_torch_does():
    a, b, wide = tensor(5, 7), tensor(7, 6), tensor(7, 6, dtype=torch.float64)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            assert gemm(a, b.half()).dtype == (a @ b.half()).dtype == dtype
            assert cute.ops.gemm(a, b).dtype == dtype
            assert gemm(wide.T, wide).dtype == torch.float64
            gemm(a, b).float().sum().backward()
    assert a.grad.dtype == b.grad.dtype == torch.float32
    torch.testing.assert_close(a.grad, 2 * b.detach().sum(1).expand(5, 7), rtol=5e-2, atol=5e-2)


def test_vmap_is_a_batch():
    a, b, c, bias = tensor(4, 5, 7), tensor(7, 4, 6), tensor(5, 6), tensor(4, 6)
    vmapped = torch.func.vmap(
        lambda a, b, bias: gemm(a, b, c, 0.5, 2.0, bias, "relu"), in_dims=(0, 1, 0)
    )
    wanted = torch.relu(0.5 * (a @ b.movedim(1, 0)) + 2 * c + bias[:, None])
    torch.testing.assert_close(vmapped(a, b, bias), wanted, rtol=1e-5, atol=1e-5)
    for beta, term in ((0.0, torch.full((5, 6), torch.nan)), (2.0, c.half())):  # not read; f16
        by_rows = torch.func.vmap(lambda x, row: gemm(x, b[:, 0], term, 1.0, beta, row))  # noqa: B023
        single = [gemm(x, b[:, 0], term, 1.0, beta, row) for x, row in zip(a, bias, strict=True)]
        torch.testing.assert_close(by_rows(a, bias), torch.stack(single), rtol=1e-6, atol=1e-6)
    one, other = a[0], b[:, 0]
    terms = torch.func.vmap(lambda c, row: gemm(one, other, c, 1.0, 2.0, row))
    wanted = one @ other + 2 * c + bias[:, None]
    torch.testing.assert_close(terms(c.expand(4, 5, 6), bias), wanted, rtol=1e-5, atol=1e-5)
    rows = torch.func.vmap(lambda row: gemm(a, other, None, 1.0, 0.0, row))
    torch.testing.assert_close(
        rows(bias), (a @ other)[None] + bias[:, None, None], rtol=1e-5, atol=1e-5
    )
    twice = torch.func.vmap(torch.func.vmap(gemm, in_dims=(0, None)), in_dims=(None, 0))
    x, y = tensor(3, 5, 7, grad=False), tensor(2, 7, 6, grad=False)
    torch.testing.assert_close(twice(x, y), x[None] @ y[:, None], rtol=1e-5, atol=1e-5)


def test_terms_of_vmap_keep_their_precision():
    """A bias for each product is added to c before the kernel, in the type of its sums."""
    large = 2**25 + 1
    for kind, one in ((torch.float64, torch.float64), (torch.int32, torch.int8)):
        a, b = torch.ones(3, 5, 7, dtype=one), torch.ones(7, 6, dtype=one)
        c, bias = torch.full((5, 6), large, dtype=kind), torch.ones(3, 6, dtype=kind)
        result = torch.func.vmap(
            lambda a, row: gemm(a, b, c, 1.0, 2.0, row)  # noqa: B023
        )(a, bias)
        assert result.dtype == kind
        assert bool((result == 7 + 2 * large + 1).all())


# -- torch.compile


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo.utils.counters
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_dynamic_sizes_compile_once(fresh):
    """Forward and backward, and from the third size on nothing is compiled again."""
    weight, bias = tensor(7, 6), tensor(6)

    def step(x):
        return cute.ops.gemm(x * 2, weight, bias=bias, activation="silu").square().sum()

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    graphs = []
    for M in (3, 5, 8, 1000, 17, 33, 2):
        x = tensor(M, 7)
        got = torch.autograd.grad(compiled(x), (x, weight, bias))
        for found, wanted in zip(got, torch.autograd.grad(step(x), (x, weight, bias)), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        graphs.append(fresh["stats"]["unique_graphs"])
    assert len(set(graphs[2:])) == 1


@pytest.mark.filterwarnings("ignore")
def test_calls_of_the_operator_stay_whole_in_a_graph(fresh):
    a, b, c = tensor(5, 7, grad=False), tensor(7, 6, grad=False), tensor(5, 6, grad=False)
    functions = [
        lambda a, b, c: cute.ops.gemm(a, b, c, beta=1, out_dtype="bf16"),
        lambda a, b, c: cute.ops.gemm(a, b, out_dtype=cute.f64, backend="emulator"),
        lambda a, b, c: cute.ops.gemm(a.bfloat16(), b.bfloat16(), config="stages=2"),
        lambda a, b, c: cute.ops.gemm(a, b, dtype="bf16", out_dtype="f32"),
        lambda a, b, c: gemm(a, b, out_dtype=torch.float64),
    ]
    for function in functions:
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(a, b, c), function(a, b, c))


@pytest.mark.filterwarnings("ignore")
def test_calls_that_no_operator_takes_break_the_graph(fresh):
    a, b = tensor(8, 16, grad=False).half(), tensor(16, 8, grad=False).half()
    config = cute.ops.choose_config(8, 8, 16, "f16", majors=("K", "MN"))
    functions = [
        lambda a, b: cute.ops.gemm(a + 1, b, config=config) + 1,
        lambda a, b: cute.ops.gemm(a + 1, b, checks=True) + 1,
        lambda a, b: cute.ops.gemm(a + 1, b, alpha=torch.tensor(2.0)) + 1,
    ]
    for function in functions:
        compiled = torch.compile(function, backend="aot_eager")
        assert torch.equal(compiled(a, b), function(a, b))
        torch._dynamo.reset()


# -- processes and threads


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_data_loader(start):
    """In a process of their own: torch cannot fork one whose autograd has started threads."""
    code = f"from tests.torch_calls import load_products; load_products({start!r})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_threads_have_results_and_gradients_of_their_own():
    b, wrong = tensor(16, 8, grad=False), []

    def work(seed):
        for M in range(1, 9):
            a = torch.full((M, 16), float(seed), requires_grad=True)
            result = gemm(a, b)
            result.sum().backward()
            if not torch.allclose(result, a @ b, atol=1e-4) or not torch.allclose(
                a.grad, b.sum(1).expand(M, 16), atol=1e-4
            ):
                wrong.append((seed, M))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
