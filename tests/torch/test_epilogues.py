"""Epilogues as functions in torch: gradients against torch's own, and the rules of torch."""

import pytest

torch = pytest.importorskip("torch")

import cute_py as cute  # noqa: E402
from cute_py import epilogues  # noqa: E402
from cute_py.calls.torch_tensors import OPERATORS  # noqa: E402
from cute_py.ops.product import GEMM  # noqa: E402
from cute_py.torch.functions import differentiated  # noqa: E402
from tests.sampling import each  # noqa: E402

F = torch.nn.functional
SHAPES = {"bias": (5,), "column": (9, 1), "residual": (9, 5), "one": ()}


def scaled(acc, bias, scale):
    return acc * scale + bias


def fused(acc, bias, column, residual, scale):
    z = acc * scale + bias * column
    return {"aux": z, "D": cute.gelu(z) + residual}


# name -> (the function, the same of torch)
FUNCTIONS = {
    "linear": (scaled, lambda acc, bias, scale: acc * scale + bias),
    "several results": (
        fused,
        lambda acc, bias, column, residual, scale: {
            "D": F.gelu(acc * scale + bias * column) + residual,
            "aux": acc * scale + bias * column,
        },
    ),
    "gate": (
        lambda acc, residual: residual * cute.rcp(cute.exp(-acc) + 1),
        lambda acc, residual: residual * torch.sigmoid(acc),
    ),
    "over all elements": (
        lambda acc, bias: {
            "D": acc + bias,
            "norms": cute.reduce("add", acc * acc, mode=1),
            "most": cute.reduce("max", acc, mode=0),
            "total": cute.reduce("add", acc * bias),
        },
        lambda acc, bias: {
            "D": acc + bias,
            "norms": (acc * acc).sum(1),
            "most": acc.amax(0),
            "total": (acc * bias).sum(),
        },
    ),
    "linear combination": (
        lambda acc, residual, bias, one: epilogues.linear_combination(
            acc, alpha_ptr=one, beta_ptr=bias, c=residual
        ),
        lambda acc, residual, bias, one: acc * one + bias * residual,
    ),
    "hardswish": (
        lambda acc, bias: epilogues.hardswish(epilogues.only_alpha_scaling(acc, bias)),
        lambda acc, bias: F.hardswish(acc * bias),
    ),
    "tanh form of gelu": (epilogues.gelu_tanh, lambda acc: F.gelu(acc, approximate="tanh")),
    "leaky relu": (
        lambda acc, bias: epilogues.leaky_relu(acc + bias),
        lambda acc, bias: F.leaky_relu(acc + bias),
    ),
    "clamp": (
        lambda acc, bias: epilogues.clamp(acc * bias, -0.5, 0.5) + epilogues.relu(acc, bias),
        lambda acc, bias: (acc * bias).clamp(-0.5, 0.5) + torch.where(acc < bias, bias, acc),
    ),
    "square": (lambda acc: acc * acc, lambda acc: acc * acc),
    "one": (lambda acc, one: cute.tanh(acc) * one, lambda acc, one: torch.tanh(acc) * one),
    "branches": (
        lambda acc, column: cute.where(acc < 0, acc * column, acc),
        lambda acc, column: torch.where(acc < 0, acc * column, acc),
    ),
    "no sums": (
        lambda acc, bias, residual: {"D": acc, "aux": bias * residual},
        lambda acc, bias, residual: {"D": acc, "aux": (bias * residual).expand(9, 5)},
    ),
}

NAMED = ("linear combination", "hardswish", "tanh form of gelu", "leaky relu", "clamp")


def operands(name, kind, seed=0):
    made = torch.Generator().manual_seed(seed)

    def tensor(*shape):
        return torch.randn(shape, generator=made, dtype=torch.float64).to(kind).requires_grad_()

    function = FUNCTIONS[name][0]
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    terms = {x: tensor(*SHAPES[x]) for x in names if x in SHAPES}
    return tensor(9, 7), tensor(7, 5), terms, {"scale": 0.5} if "scale" in names else {}


def results(found):
    return found if isinstance(found, dict) else {"D": found}


@each(FUNCTIONS)
def test_gradients_are_those_of_torch(name):
    function, model = FUNCTIONS[name]
    kinds = ((torch.float32, 1e-4), (torch.float64, 1e-12))
    for kind, error in kinds[name in NAMED :]:
        a, b, terms, numbers = operands(name, kind)
        found = results(cute.ops.gemm(a, b, epilogue=function, **terms, **numbers))
        wanted = results(model(a @ b, **terms, **numbers))
        assert found.keys() == wanted.keys()
        inputs = [a, b, *terms.values()]
        gs = [torch.randn(x.shape, dtype=kind) for x in found.values()]
        for x, y in zip(found.values(), wanted.values(), strict=True):
            torch.testing.assert_close(x, y, rtol=error, atol=error)
        ours = torch.autograd.grad(list(found.values()), inputs, gs, retain_graph=True)
        theirs = torch.autograd.grad(list(wanted.values()), inputs, gs, retain_graph=True)
        for x, y in zip(ours, theirs, strict=True):
            torch.testing.assert_close(x, y, rtol=error, atol=error)
        if len(found) > 1:  # of one result alone
            ours = torch.autograd.grad(found["D"].sum(), inputs, allow_unused=True)
            theirs = torch.autograd.grad(wanted["D"].sum(), inputs, allow_unused=True)
            for x, y in zip(ours, theirs, strict=True):
                y = torch.zeros_like(x) if y is None else y
                torch.testing.assert_close(x, y, rtol=error, atol=error)


def test_a_factor_that_is_0_has_its_gradient():
    """Where beta is 0, c has no part in a `linear_combination`; the derivative is c there too."""
    a, b, c = (torch.randn(s, requires_grad=True) for s in ((9, 7), (7, 5), (9, 5)))
    beta = torch.zeros((), requires_grad=True)
    found = cute.ops.gemm(a, b, c, beta=beta, epilogue=epilogues.linear_combination)
    g = torch.randn(9, 5)
    ours = torch.autograd.grad(found, (c, beta, a), g)
    for x, y in zip(ours, (torch.zeros(9, 5), (g * c).sum(), g @ b.T), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)
    for scale in (0, 2):  # numbers; c is unread with 0
        found = cute.ops.gemm(a, b, c, 1, scale, epilogue=epilogues.linear_combination)
        torch.testing.assert_close(found, a @ b + scale * c, rtol=1e-4, atol=1e-5)
        (of_c,) = torch.autograd.grad(found, (c,), g, allow_unused=True)
        assert of_c is None if scale == 0 else torch.equal(of_c, g * 2)


def test_terms_of_a_batch_have_gradients():
    a, b = torch.randn(3, 4, 6, requires_grad=True), torch.randn(6, 5, requires_grad=True)
    row = torch.randn(3, 1, 5, requires_grad=True)
    found = cute.ops.gemm(a, b, epilogue=lambda x, row: cute.tanh(x + row), row=row)
    wanted = torch.tanh(a @ b + row)
    for x, y in zip(
        *(torch.autograd.grad(z.sum(), (a, b, row)) for z in (found, wanted)), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


# -- derivatives


@each(["request", "problem", "bool", "gradient_of_t"])
def test_names_of_our_own_are_those_of_arguments_too(name):
    scope = {"cute": cute}
    exec(f"def f(x, t, {name}):\n    return cute.tanh(x) * t + t * {name}", scope)
    a, b, t, more = (torch.randn(s, requires_grad=True) for s in ((9, 7), (7, 5), (5,), (9, 1)))
    for x in (more, 2.0):
        found = cute.ops.gemm(a, b, epilogue=scope["f"], t=t, **{name: x})
        wanted = torch.tanh(a @ b) * t + t * x
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        inputs = (a, b, t, more) if x is more else (a, b, t)
        for g, h in zip(
            *(torch.autograd.grad(y.sum(), inputs) for y in (found, wanted)), strict=True
        ):
            torch.testing.assert_close(g, h, rtol=1e-4, atol=1e-5)


@each(["log", "sqrt", "rcp"])
def test_a_result_that_nobody_uses_has_no_part_in_gradients(name):
    """Its derivative may be infinite, and 0 times that is NaN."""
    a, b = torch.zeros(3, 4, requires_grad=True), torch.randn(4, 5)
    function = getattr(cute, name)
    found = cute.ops.gemm(a, b, epilogue=lambda x: {"D": x * 2, "aux": function(x)})
    (g,) = torch.autograd.grad(found["D"].sum(), a)
    torch.testing.assert_close(g, 2 * b.sum(1).expand(3, 4))


def test_a_conversion_to_integers_has_the_derivative_zero():
    a, b = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)
    found = cute.ops.gemm(a, b, epilogue=lambda x: x.to("s32").to("f32") + x * 2)
    (g,) = torch.autograd.grad(found.sum(), a)
    torch.testing.assert_close(g, 2 * b.sum(1).expand(3, 4))


@each([None, "bf16", "tf32", "e4m3"])
def test_operands_of_another_type_have_the_gradients_of_the_plain_product(dtype):
    inputs = [torch.randn(16, 16) for _ in range(2)]
    if dtype is None:  # 8-bit floats themselves
        inputs = [x.to(torch.float8_e4m3fn) for x in inputs]
    a, b = (x.requires_grad_() for x in inputs)
    g, how = torch.randn(16, 16) * 1e-3, {"dtype": dtype, "out_dtype": "f32"}
    found = cute.ops.gemm(a, b, epilogue=lambda x: x + 1, **how)
    wanted = cute.ops.gemm(a, b, **how)
    for x, y in zip(*(torch.autograd.grad(z, (a, b), g) for z in (found, wanted)), strict=True):
        assert torch.equal(x.float(), y.float())


def test_a_product_of_rounded_integers_has_no_gradient():
    a, b = torch.randn(16, 16, requires_grad=True), torch.randn(16, 16)
    found = cute.ops.gemm(a, b, epilogue=lambda x: x + 1, dtype="s8", out_dtype="f32")
    with pytest.raises(cute.CuteError) as caught:
        found.sum().backward()
    assert caught.value.code == "torch-rounded"


# -- the operator


def operator_of(name):
    a, b, terms, numbers = operands(name, torch.float32)
    function = FUNCTIONS[name][0]
    cute.ops.gemm(a, b, epilogue=function, **terms, **numbers)
    ours, _request = GEMM.requested(a, b, epilogue=function, **terms, **numbers)
    assert ours.short in OPERATORS
    return getattr(torch.ops.cute_py, ours.short), (a, b, *terms.values(), *numbers.values())


@each(["linear", "several results"])
def test_the_operator_follows_the_rules_of_torch(name):
    op, arguments = operator_of(name)
    torch.library.opcheck(op.default, arguments)


def test_the_operator_has_a_rule_for_vmap():
    op, (a, b, bias, scale) = operator_of("linear")
    many = torch.randn(3, 5)
    found = torch.vmap(lambda bias: op(a.detach(), b.detach(), bias, scale))(many)
    wanted = torch.stack([(a @ b * scale + x).detach() for x in many])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert bias.shape == (5,)


FACTOR = 0.5


def written(a, b, residual):
    out = torch.empty(9, 5)
    a, b, residual = (x.detach() for x in (a, b, residual))
    cute.ops.gemm(a, b, epilogue=lambda x, residual: x * residual, residual=residual, out=out)
    return out


MODELS = {
    "a function": lambda a, b, r: cute.ops.gemm(a, b, epilogue=FUNCTIONS["gate"][0], residual=r),
    "a lambda": lambda a, b, r: cute.ops.gemm(a, b, epilogue=lambda x, r: x * 0.5 + r, r=r),
    "over all elements": lambda a, b, r: cute.ops.gemm(
        a, b, epilogue=lambda x, r: {"D": x, "most": cute.reduce("max", x + r, mode=1)}, r=r
    )["most"],
    "results": lambda a, b, r: sum(
        cute.ops.gemm(
            a, b, epilogue=lambda x, r, s: {"D": x * s, "aux": x + r}, r=r, s=2.0
        ).values()
    ),
    "by name": lambda a, b, r: (
        cute.ops.gemm(a, b, r, 2.0, 0.5, epilogue=epilogues.linear_combination)
        + cute.ops.gemm(a, b, r, epilogue=epilogues.linear_combination)
    ),
    "types": lambda a, b, r: cute.ops.gemm(
        a, b, epilogue=lambda x, bias: x + bias, bias=r[0], out_dtype="f64"
    ),
    "checks": lambda a, b, r: cute.ops.gemm(
        a, b, epilogue=lambda x, r: x + r, r=r, checks="global"
    ),
    "an output": written,
    "a global": lambda a, b, r: cute.ops.gemm(a, b, epilogue=lambda x, r: x * FACTOR + r, r=r),
}


@pytest.mark.filterwarnings("ignore")
@each(MODELS)
def test_compiled_models_give_the_same(name):
    """In one graph, but for outputs that are given and the emulator's checks."""
    torch._dynamo.reset()
    model, whole = MODELS[name], name not in ("checks", "an output", "a global")
    inputs = [torch.randn(s, requires_grad=True) for s in ((9, 7), (7, 5), (9, 5))]
    compiled = torch.compile(model, backend="aot_eager", fullgraph=whole)
    found, wanted = compiled(*inputs), model(*inputs)
    torch.testing.assert_close(found, wanted)
    if wanted.requires_grad:
        for x, y in zip(
            *(torch.autograd.grad(z.sum(), inputs) for z in (found, wanted)), strict=True
        ):
            torch.testing.assert_close(x, y)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_notices_that_a_global_has_changed(monkeypatch):
    torch._dynamo.reset()
    a, b = torch.randn(9, 7), torch.randn(7, 5)
    compiled = torch.compile(
        lambda a, b: cute.ops.gemm(a, b, epilogue=lambda x: x * FACTOR), backend="aot_eager"
    )
    for factor in (0.5, 3.0, 0.5):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        torch.testing.assert_close(compiled(a, b), a @ b * factor, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore")
def test_functions_made_in_a_graph_may_read_what_is_no_constant():
    """They end the graph; so does what is refused, which gives the same error."""

    class Model(torch.nn.Module):
        factor = 2.0

        def forward(self, a, b, s):
            first = cute.ops.gemm(a, b, epilogue=lambda x: x * self.factor)
            second = cute.ops.gemm(a, b, epilogue=lambda x: x * s)
            return first + second + cute.ops.gemm(a, b, epilogue=lambda x, k=s: x + k)

    torch._dynamo.reset()
    model, (a, b) = Model(), (torch.randn(9, 7), torch.randn(7, 5))
    compiled = torch.compile(model, backend="aot_eager")
    for s in (0.5, 3.0, 4.0):
        model.factor = s + 1
        wanted = a @ b * (2 * s + 2) + s
        torch.testing.assert_close(compiled(a, b, s), wanted, rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda a, b: cute.ops.gemm(a, b, epilogue=lambda x: x, alpha=2.0), backend="aot_eager"
    )
    with pytest.raises(cute.CuteError) as caught:
        compiled(a, b)
    assert caught.value.code == "epilogue-name"
    torch._dynamo.reset()


def helper(x):
    return x * 2


def of_helpers(x):
    return outer(x) + 1


def outer(x, again=True):
    return outer(helper(x), False) if again else x


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_model_notices_that_a_helper_was_replaced(monkeypatch):
    torch._dynamo.reset()
    a, b = torch.randn(9, 7), torch.randn(7, 5)
    compiled = torch.compile(
        lambda a, b: cute.ops.gemm(a, b, epilogue=of_helpers), backend="aot_eager", fullgraph=True
    )
    torch.testing.assert_close(compiled(a, b), a @ b * 2 + 1, rtol=1e-4, atol=1e-5)
    monkeypatch.setitem(globals(), "helper", lambda x: x * 3)
    torch.testing.assert_close(compiled(a, b), a @ b * 3 + 1, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


def test_a_derivative_reads_the_sums_only_where_it_must():
    a, b, terms, numbers = operands("linear", torch.float32)
    ours, _request = GEMM.requested(a, b, epilogue=scaled, **terms, **numbers)
    problem = ours.problem
    found = differentiated(problem.formula(cute.f32), problem.reads, problem.numbers)
    assert not found.reads(0)
    assert found.inputs == ("acc", "bias", "gradient0_of_result", "scale")
    assert found.outputs == ("D", "gradient_of_bias")
