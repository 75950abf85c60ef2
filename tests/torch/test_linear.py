"""`Linear` on its fast way, and every way that leaves it: modes, transforms, tracers, autocast."""

import gc
from itertools import product as every

import pytest

import cute_py as cute

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402
from cute_py.torch import modules as module_of  # noqa: E402
from cute_py.torch.rows import product  # noqa: E402

functional = torch.nn.functional
KINDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def tensor(*shape, **named):
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=made).to(**named)


def layers(*, activation=None, bias=True, kind=torch.float32, sizes=(8, 12)):
    """Return ours and torch's, with the same parameters."""
    ours = cute_py.torch.Linear(*sizes, bias, activation=activation).to(kind)
    theirs = torch.nn.Linear(*sizes, bias).to(kind)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def activate(name, x):
    return x if name is None else getattr(functional, name)(x)


@pytest.fixture
def calls(monkeypatch):
    """The forms of the products that run without torch's dispatcher."""
    seen = []

    def noted(a, b, form, *more):
        seen.append(form)
        return product(a, b, form, *more)

    monkeypatch.setattr(module_of, "product", noted)
    return seen


# -- values


OPERANDS = {
    "matrix": lambda kind: tensor(5, 8, dtype=kind),
    "row": lambda kind: tensor(8, dtype=kind),
    "batch": lambda kind: tensor(2, 3, 8, dtype=kind),
    "batch of batches": lambda kind: tensor(2, 1, 3, 8, dtype=kind),
    "transposed": lambda kind: tensor(8, 5, dtype=kind).t(),
    "a slice": lambda kind: tensor(2, 3, 20, dtype=kind)[..., 4:12],
    "modes exchanged": lambda kind: tensor(3, 2, 8, dtype=kind).transpose(0, 1),
    "one row repeated": lambda kind: tensor(8, dtype=kind).expand(2, 3, 8),
    "no rows": lambda kind: tensor(0, 8, dtype=kind),
    "a negated view": lambda kind: torch.complex(tensor(5, 8), -tensor(5, 8)).conj().imag,
}


@pytest.mark.parametrize("name", OPERANDS)
def test_results_and_gradients_are_torchs(name, calls):
    others = {"matrix": [torch.float64, torch.bfloat16], "batch": [torch.float16]}
    kinds = others.get(name, [torch.float32])
    for kind in kinds:
        ours, theirs = layers(kind=kind, bias=name != "a slice")
        x, y = (OPERANDS[name](kind).requires_grad_() for _ in "xy")
        found, wanted = ours(x), theirs(y)
        near = {"rtol": KINDS[kind], "atol": KINDS[kind]}
        torch.testing.assert_close(found, wanted, **near)
        with torch.no_grad():
            torch.testing.assert_close(ours(x), wanted, **near)
        g = torch.randn_like(wanted)
        found.backward(g)
        wanted.backward(g)
        for p, q in zip((x, *ours.parameters()), (y, *theirs.parameters()), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=8 * KINDS[kind], atol=8 * KINDS[kind])
            assert p.grad.dtype is p.dtype
    assert calls == ["nt", "nt", "nn", "tn"] * len(kinds)


@pytest.mark.parametrize("wanted", [*every([False, True], repeat=3)][1:])
def test_only_gradients_that_are_wanted_are_computed(wanted, calls):
    ours, theirs = layers()
    x, y = tensor(5, 8), tensor(5, 8)
    both = zip((x, *ours.parameters()), (y, *theirs.parameters()), strict=True)
    for (p, q), needed in zip(both, wanted, strict=True):
        p.requires_grad_(needed)
        q.requires_grad_(needed)
    ours(x).square().sum().backward()
    theirs(y).square().sum().backward()
    assert calls == ["nt", *["nn"] * wanted[0], *["tn"] * wanted[1]]
    for p, q in zip((x, *ours.parameters()), (y, *theirs.parameters()), strict=True):
        assert (p.grad is None) is (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)


def test_a_bias_of_another_type_gets_its_gradient_in_that_type():
    weight, bias = tensor(12, 8).bfloat16(), tensor(12).requires_grad_()
    found = module_of.linear(tensor(300, 8).bfloat16(), weight, bias)
    g = tensor(300, 12).bfloat16()
    found.backward(g)
    torch.testing.assert_close(bias.grad, g.float().sum(0), rtol=1e-6, atol=1e-6)


# -- what autograd keeps


@pytest.mark.parametrize("name", [None, "relu", "gelu", "silu", "tanh"])
def test_no_more_is_kept_than_torch_keeps(name):
    """Also while the products of backward run: then the input of an activation is free."""
    ours, theirs = layers(activation=name)
    x, kept = tensor(5, 8).requires_grad_(), []
    for call in (ours, lambda x: activate(name, theirs(x))):
        held = {}

        def keep(x, held=held):
            held[x.data_ptr()] = x.untyped_storage().nbytes()
            return x

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            call(x)
        kept.append(sum(held.values()))
    assert kept[0] <= kept[1]


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_the_input_of_an_activation_is_freed_before_the_products_of_backward(name, monkeypatch):
    import weakref

    ours, _theirs = layers(activation=name)
    refs, alive = [], []
    wanted = module_of.APART[name]

    def seen(x):
        refs.append(weakref.ref(x))
        return wanted(x)

    def watched(a, b, form, *more):
        if refs:
            gc.collect()
            alive.append(refs[0]() is not None)
        return product(a, b, form, *more)

    monkeypatch.setitem(module_of.APART, name, seen)
    monkeypatch.setattr(module_of, "product", watched)
    ours(tensor(5, 8).requires_grad_()).sum().backward()
    assert alive == [False, False]


def test_what_is_kept_may_not_be_changed():
    ours, _theirs = layers()
    for which in ("input", "weight"):
        x = tensor(5, 8).requires_grad_() * 1
        result = ours(x)
        with torch.no_grad():
            (x if which == "input" else ours.weight).add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_hooks_of_saved_tensors_and_checkpoints():
    from torch.utils.checkpoint import checkpoint

    ours, theirs = layers(activation="tanh")
    x, y = (tensor(2, 3, 8).requires_grad_() for _ in "xy")
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x + 0):
        ours(x).sum().backward()
    theirs(y).tanh().sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-5)
    assert len(packed) == 3
    once, x.grad = x.grad, None
    checkpoint(ours, x, use_reentrant=False).sum().backward()
    assert torch.equal(x.grad, once)


# -- modes, transforms, tracers


@pytest.mark.parametrize("grad", [False, True])
def test_modes_see_one_product_and_each_gradient(grad, calls):
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    ours, theirs = layers()
    seen = []

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(str(op))
            return op(*args, **(kwargs or {}))

    class Called(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is module_of.linear:
                seen.append("linear")
            return function(*args, **(kwargs or {}))

    x = tensor(2, 3, 8).requires_grad_(grad)
    with torch.set_grad_enabled(grad):
        with Called():
            result = ours(x)
        with Dispatched():
            assert torch.equal(ours(x), result)
        assert seen[0] == "linear"
        assert seen.count("cute_py.gemm.default") == 1
        if grad:
            with Dispatched():
                result.backward(torch.ones_like(result))
            assert seen.count("cute_py.gemm.default") == 3
            g, x.grad = x.grad, None
            theirs(x).backward(torch.ones_like(result))
            torch.testing.assert_close(g, x.grad, rtol=1e-4, atol=1e-5)
    assert calls == ["nt"]


@pytest.mark.filterwarnings("ignore")
def test_tracers_record_a_layer():
    from torch.fx.experimental.proxy_tensor import make_fx

    ours, theirs = layers(activation="gelu")
    ours.requires_grad_(False)
    x, y = tensor(5, 8), tensor(5, 8) + 1
    for made in (
        torch.fx.symbolic_trace(ours),
        torch.jit.trace(ours, x),
        make_fx(ours)(x),
        torch.vmap(ours),
    ):
        torch.testing.assert_close(made(y), functional.gelu(theirs(y)), rtol=1e-5, atol=1e-5)
    with torch.device("meta"):
        empty = cute_py.torch.Linear(8, 12)
    assert empty(torch.ones(2, 3, 8, device="meta")).shape == (2, 3, 12)


@pytest.mark.filterwarnings("ignore")
def test_autocast_casts_as_torch_does():
    ours, theirs = layers(sizes=(16, 16))
    x, y = (tensor(2, 4, 16).requires_grad_() for _ in "xy")
    for inside in (False, True):  # backward in the region
        with torch.autocast("cpu", torch.bfloat16):
            found, wanted = ours(ours(x)), theirs(theirs(y))
            assert found.dtype is wanted.dtype is torch.bfloat16
            if inside:
                found.sum().backward()
                wanted.sum().backward()
        if not inside:
            found.sum().backward()
            wanted.sum().backward()
    for p, q in zip((x, *ours.parameters()), (y, *theirs.parameters()), strict=True):
        assert p.grad.dtype is torch.float32
        torch.testing.assert_close(p.grad, q.grad, rtol=3e-2, atol=3e-2)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert ours(x).dtype is torch.bfloat16
        double = layers(kind=torch.float64)[0]
        assert double(tensor(4, 8).double()).dtype is torch.float64
    with torch.autocast("cuda", torch.bfloat16):
        assert ours(x).dtype is torch.float32


def test_no_rows_have_a_gradient_in_modes_too():
    from torch.utils.flop_counter import FlopCounterMode

    ours, _theirs = layers()
    x = torch.zeros(2, 0, 8, requires_grad=True)
    with FlopCounterMode(display=False):
        ours(x).sum().backward()
    assert x.grad.shape == x.shape
    assert not ours.weight.grad.any()


@pytest.mark.filterwarnings("ignore")
def test_refusals_are_those_of_the_product():
    ours, _theirs = layers()
    for x, code in ((tensor(4, 7), "ops-shapes"), (tensor(4, 8).double(), "ops-dtype")):
        for grad in (False, True):
            with torch.set_grad_enabled(grad), pytest.raises(cute.CuteError) as caught:
                ours(x)
            assert caught.value.code == code
    with torch.autograd.forward_ad.dual_level(), pytest.raises(cute.CuteError) as caught:
        ours(torch.autograd.forward_ad.make_dual(tensor(4, 8), tensor(4, 8)))
    assert caught.value.code == "argument-tangent"


# -- what users type


@pytest.mark.filterwarnings("ignore")
def test_torch_counts_and_scripts_layers_and_takes_our_types():
    from torch.utils.flop_counter import FlopCounterMode

    ours, theirs = layers()
    counts = []
    for layer in (ours, theirs):
        with FlopCounterMode(display=False) as counter:
            layer(tensor(2, 3, 8).requires_grad_()).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts == [3 * 2 * 6 * 8 * 12] * 2
    with pytest.raises(cute.CuteError) as caught:
        torch.jit.script(torch.nn.Sequential(ours))
    assert caught.value.code == "torch-script"
    for kind, wanted in ((cute.bf16, torch.bfloat16), ("f64", torch.float64)):
        assert cute_py.torch.Linear(8, 12, dtype=kind).weight.dtype is wanted


@pytest.mark.filterwarnings("ignore")
def test_nested_rows_of_several_lengths():
    ours, theirs = layers(activation="gelu")
    parts = [tensor(3, 8), tensor(5, 8)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    found = ours(nested)
    rows = torch.cat(parts).requires_grad_()
    wanted = functional.gelu(theirs(rows))
    torch.testing.assert_close(found.values(), wanted, rtol=1e-5, atol=1e-5)
    assert [len(x) for x in found.unbind()] == [3, 5]
    found.values().square().sum().backward()
    wanted.square().sum().backward()
    torch.testing.assert_close(nested.grad.values(), rows.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad, rtol=1e-4, atol=1e-4)


def test_the_precision_of_f32_is_that_of_torch():
    try:
        for word, wanted in (("high", True), ("medium", True), ("highest", False)):
            torch.set_float32_matmul_precision(word)
            assert module_of.uses_tf32() is wanted
        torch.backends.cuda.matmul.allow_tf32 = True
        assert module_of.uses_tf32()
        assert module_of.read_as(tensor(2, 2)) is None  # the host has no tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")


# -- models


def test_swapping_the_layers_of_a_model():
    class Own(torch.nn.Linear):
        pass

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ModuleList([Own(8, 8)]))
    model.add_module("last", torch.nn.Linear(8, 4))
    state = model.state_dict()
    x = tensor(3, 8)
    wanted = model[0](x)
    swapped = cute_py.torch.swap_linear(model)
    assert swapped.layers == ("0", "last")
    assert list(swapped.left) == ["1.0"]
    assert type(model[0]) is cute_py.torch.Linear
    assert all(
        torch.equal(x, y) for x, y in zip(state.values(), model.state_dict().values(), strict=True)
    )
    torch.testing.assert_close(model[0](x), wanted, rtol=1e-5, atol=1e-5)
    assert cute_py.torch.swap_linear(model).layers == ()


def test_parameters_that_are_no_parameters():
    ours, theirs = layers()
    x = tensor(3, 8)
    held = dict(ours.named_parameters())
    doubled = {name: 2 * p for name, p in held.items()}
    found = torch.func.functional_call(ours, doubled, (x,))
    torch.testing.assert_close(found, 2 * theirs(x), rtol=1e-5, atol=1e-5)
    torch.nn.utils.parametrizations.weight_norm(ours)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
