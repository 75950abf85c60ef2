"""`cute_py.torch.register`: kernels as operators of torch, on the emulator."""

import warnings

import pytest

import cute_py as cute

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402

register = cute_py.torch.register


@cute.kernel
def scale(x, y, alpha: cute.f32):
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = x[i] * alpha.to(x.dtype)


@cute.kernel
def extremes(x, low, high, shift: cute.s32, wide: bool = False):
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    with cute.when(i < x.shape[0]):
        low[i] = cute.minimum(x[i], 0.0)
        high[i] = cute.maximum(x[i], 0.0)
        with cute.when(shift > 0):
            high[i] = x[i] * (2.0 if wide else 1.0)


@cute.kernel
def total(x, y):
    cute.launch(grid=1, block=32)
    i = cute.thread_idx()
    with cute.when(i < x.shape[0]):
        cute.atomic("add", cute.local_tile(y, (1,), (0,)), x[i])


def like(x, *_more):
    return torch.empty_like(x)


def keep_alpha(ctx, inputs, output):
    ctx.alpha = inputs[1]


@pytest.fixture(scope="module")
def scaled():
    def backward(ctx, g):
        return g * ctx.alpha, None

    rules = {"backward": backward, "setup_context": keep_alpha, "autocast": True}
    return register(scale, outputs=["y"], fake=like, name="tests::scale", **rules)


@pytest.fixture(scope="module")
def changed():
    return register(scale, outputs=["y"], name="tests::scale_")


def test_schemas_say_what_the_parameters_say(scaled, changed):
    assert str(scaled._schema) == "tests::scale(Tensor x, Scalar alpha) -> Tensor"
    assert str(changed._schema) == "tests::scale_(Tensor x, Tensor(a1!) y, Scalar alpha) -> ()"
    both = register(extremes, outputs=("low", "high"), fake=lambda x, *_: (like(x), like(x)))
    assert str(both._schema) == (
        "cute_kernels::extremes(Tensor x, SymInt shift, bool wide=False) -> (Tensor, Tensor)"
    )
    x = torch.linspace(-1, 1, 20)
    for args, wanted in (((0,), x.clamp(min=0)), ((3,), x), ((3, True), 2 * x)):
        low, high = torch.ops.cute_kernels.extremes(x, *args)
        assert torch.equal(low, x.clamp(max=0))
        assert torch.equal(high, wanted)
    fixed = register(scale, outputs="y", fake=like, name="tests::halve", alpha=0.5)
    assert str(fixed._schema) == "tests::halve(Tensor x) -> Tensor"
    assert torch.equal(fixed(x), x / 2)
    own = register(
        scale,
        outputs="y",
        fake=lambda x, alpha=2.0: like(x),
        name="tests::twice",
        schema="(Tensor x, float alpha=2) -> Tensor",
    )
    assert torch.equal(own(x, 3.0), x * 3)


@pytest.mark.parametrize("word", ["float", "float?", "float[]", "Scalar"])
def test_no_number_is_taken_out_of_a_tensor(word):
    """Its gradient would be lost, before an operator of ours could see it."""
    given = []

    @cute.kernel
    def copy(x, y, alpha=None):
        cute.launch(grid=1, block=32)
        y[cute.thread_idx()] = x[cute.thread_idx()]
        given.append(alpha)

    schema = f"(Tensor x, {word} alpha) -> Tensor"
    op = register(copy, outputs="y", fake=like, name="tests::copy", schema=schema)
    x, factor = torch.ones(32), torch.tensor(2.0, requires_grad=True)
    for value in (factor, [factor], factor.detach()):
        for call in (op, torch.ops.tests.copy):
            with pytest.raises(RuntimeError, match="for argument 'alpha' but instead found type"):
                call(x, value)
    assert given == []
    op(x, [2] if word == "float[]" else 2)
    (found,) = given[0] if word == "float[]" else given[:1]
    assert (type(found), found) == (int if word == "Scalar" else float, 2)


@pytest.mark.filterwarnings("ignore")
def test_opcheck(scaled, changed):
    x = torch.randn(40, requires_grad=True)
    torch.library.opcheck(scaled, (x, 2.0))
    torch.library.opcheck(changed, (x.detach(), torch.zeros(40), 2.0))


def test_gradients_and_second_derivatives(scaled):
    x = torch.randn(40, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: scaled(x, 0.5), [x])
    (first,) = torch.autograd.grad(scaled(x, 3.0).square().sum(), x, create_graph=True)
    torch.testing.assert_close(first, 18 * x)
    with pytest.raises(cute.CuteError, match="given a second derivative"):
        first.sum().backward()


def test_second_derivatives_are_refused_whatever_the_first_has_kept():
    def keep(ctx, inputs, output):
        ctx.factor = inputs[0] * 2  # computed from an input, which autograd does not see

    rules = {"backward": lambda ctx, g: (g * ctx.factor, None), "setup_context": keep}
    squared = register(scale, outputs=["y"], fake=like, name="tests::squared", **rules)
    x = torch.randn(40, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(squared(x, 3.0).sum(), x, create_graph=True)
    with pytest.raises(cute.CuteError, match="given a second derivative"):
        first.sum().backward()


def test_changed_tensors_are_noticed(changed):
    x, y = torch.randn(40), torch.zeros(40)
    version = y._version
    assert changed(x, y, 2.0) is None
    assert torch.equal(y, 2 * x)
    assert y._version > version
    with pytest.raises(cute.CuteError) as caught:
        changed(x.requires_grad_(), y, 2.0)
    assert caught.value.code == "torch-no-backward"


def test_bf16_and_autocast(scaled):
    x = torch.randn(40)
    assert scaled(x.bfloat16(), 2.0).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert scaled(x, 2.0).dtype == torch.bfloat16


def test_vmap_by_a_rule():
    def rule(_info, in_dims, x, alpha):
        return op(x.movedim(in_dims[0], 0).reshape(-1), alpha).view(x.shape), 0

    op = register(scale, outputs="y", fake=like, name="tests::vmapped", vmap=rule)
    x = torch.randn(3, 40)
    assert torch.equal(torch.func.vmap(lambda x: op(x, 2.0))(x), 2 * x)


@pytest.mark.filterwarnings("ignore")
def test_graphs_hold_it(scaled, changed):
    def function(x):
        y = torch.zeros_like(x)
        changed(x, y, 2.0)
        return scaled(x * 2, 3.0) + y

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    for n in (20, 40, 50):
        x = torch.randn(n)
        assert torch.equal(compiled(x), function(x))
    x = torch.randn(40, requires_grad=True)
    torch.compile(lambda x: scaled(x, 3.0), backend="aot_eager", fullgraph=True)(x).sum().backward()
    assert bool((x.grad == 3).all())


def test_an_output_that_is_not_named_is_refused():
    op = register(extremes, outputs="low", fake=like, name="tests::low", high=torch.zeros(20))
    with pytest.raises(cute.CuteError) as caught:
        op(torch.zeros(20), 1)
    assert caught.value.code == "torch-writes"
    assert (caught.value.facts["outputs"], caught.value.facts["written"]) == ("low", "high, low")


@pytest.mark.parametrize("by_others", [True, False])
def test_outputs_are_compared_with_plans_that_other_calls_traced(by_others):
    """And with those that a call of the operator itself is the first to need."""

    @cute.kernel
    def increment(x, y, z, copies: int):
        cute.launch(grid=1, block=32)
        y[cute.thread_idx()] = x[cute.thread_idx()] + 1.0
        if copies:
            z[cute.thread_idx()] = x[cute.thread_idx()]

    op = register(increment, outputs="y", name="tests::increment")
    x, y, z = torch.ones(32), torch.zeros(32), torch.zeros(32)
    op(x, y, z, 0)
    if by_others:
        increment(x, y, torch.zeros(32), 1)
    for _ in range(2):
        op(x, y, z, 0)
        with pytest.raises(cute.CuteError) as caught:
            op(x, y, z, 1)
        assert caught.value.code == "torch-writes"
    assert bool((y == 2).all())
    assert not z.any()


@pytest.mark.parametrize(
    "fake", [lambda x, alpha: (like(x), like(x)), lambda x, alpha: x, lambda x, alpha: None]
)
def test_a_fake_that_returns_something_else_is_refused(fake):
    """The result of an operator is new: it may not be an operand, which the kernel would change."""
    op, x = register(scale, outputs="y", fake=fake, name="tests::two"), torch.ones(20)
    with pytest.raises(cute.CuteError) as caught:
        op(x, 3.0)
    assert caught.value.code == "torch-result"
    assert bool((x == 1).all())


def test_outputs_that_share_memory_are_refused():
    x = torch.arange(20.0)
    viewed = register(scale, outputs="y", fake=lambda x, alpha: x[:], name="tests::viewed")
    twice = register(
        extremes, outputs=["low", "high"], fake=lambda x, *_more: (like(x),) * 2, name="tests::pair"
    )
    one = register(
        extremes,
        outputs=["low", "high"],
        fake=lambda x, *_more: torch.empty(2, *x.shape).unbind(),
        name="tests::parts",
    )
    for call in (lambda: viewed(x, 3.0), lambda: twice(x, 0), lambda: one(x, 0)):
        with pytest.raises(cute.CuteError, match="a view of another tensor") as caught:
            call()
        assert caught.value.code == "torch-result"
    turns = [like, lambda x, alpha: x[:], lambda x, alpha: x]  # of a kernel that is known then
    later = register(
        scale, outputs="y", fake=lambda *given: turns.pop(0)(*given), name="tests::later"
    )
    assert torch.equal(later(x, 3.0), x * 3)
    for _ in turns[:]:
        with pytest.raises(cute.CuteError, match="a view of another tensor"):
            later(x, 3.0)
    assert bool((x == torch.arange(20.0)).all())
    shaped = register(
        scale, outputs="y", fake=lambda x, alpha: torch.empty(len(x)).view(-1), name="tests::shaped"
    )
    for alpha in (2.0, 3.0):  # a view of a tensor that is new
        assert torch.equal(shaped(x, alpha), x * alpha)
    found = register(scale, outputs="y", fake=like, name="tests::empty")(x.to("meta"), 1.0)
    assert found.is_meta


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("torch-name", {"name": "scale"}),
        ("torch-name", {"name": "my space::scale"}),
        ("torch-name", {"name": "a::b::c"}),
        ("torch-rules", {"fake": None, "backward": lambda ctx, g: g}),
        ("torch-rules", {"fake": None, "autocast": True}),
        ("torch-rules", {"setup_context": keep_alpha}),
        ("torch-schema", {"schema": "(Tensor x) -> Tensor"}),
        ("torch-schema", {"schema": "(Tensor x, float alpha, float beta) -> Tensor"}),
        ("torch-schema", {"schema": "(Tensor(a!) x, float alpha) -> Tensor"}),
        ("torch-schema", {"schema": "(Tensor x, *, float alpha) -> Tensor"}),
        ("torch-schema", {"schema": "(Tensor x, float alpha) -> (Tensor, Tensor)"}),
        ("torch-schema", {"fake": None, "schema": "(Tensor x, Tensor y, float alpha) -> ()"}),
    ],
)
def test_rules_that_do_not_fit_the_kernel_are_refused(code, named):
    with pytest.raises(cute.CuteError) as caught:
        register(scale, **{"outputs": "y", "fake": like, "name": "tests::odd", **named})
    assert caught.value.code == code


def test_what_is_no_kernel_is_refused():
    with pytest.raises(cute.CuteError, match=r"under @cute\.kernel"):
        register(like, outputs="y")


@pytest.mark.parametrize("named", [{"outputs": ["z"]}, {"outputs": ["y"], "beta": 1}])
def test_names_of_no_parameter_are_refused(named):
    with pytest.raises(cute.CuteError) as caught:
        register(scale, fake=like, **named)
    assert caught.value.code == "torch-parameter"


def test_float_sums_in_any_order_heed_deterministic_algorithms():
    op = register(total, outputs="y", name="tests::total")
    x, y, n = torch.arange(20.0), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(cute.CuteError) as caught:
            op(x, y)
        assert caught.value.code == "torch-order"
        op(x.int(), n)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="sums whose order is fixed"):
            op(x, y)
    finally:
        torch.use_deterministic_algorithms(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op(x, y)
    assert (float(y), int(n)) == (380, 190)
