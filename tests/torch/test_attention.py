"""Attention by torch's and flash-attn's names, and as torch's own: on the emulator."""

import warnings
from contextlib import suppress

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.attention import reference

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402
from cute_py.torch import (  # noqa: E402
    activate,
    deactivate,
    flash_attn_func,
    scaled_dot_product_attention,
)
from cute_py.torch.activation import Activation  # noqa: E402
from tests.torch_calls import BOUND, attention_samples, is_attention  # noqa: E402

theirs = torch.nn.functional.scaled_dot_product_attention


def drawn(*shape, seed=0, kind=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(kind)


@pytest.fixture(autouse=True)
def restored():
    yield
    deactivate()


SEEN = torch.from_numpy(np.random.default_rng(0).random((3, 1, 5, 7)) > 0.3)
CALLS = {  # shapes of q, k and v, and other arguments
    "one head": ((5, 8), (7, 8), (7, 8), {}),
    "a batch": ((3, 5, 8), (3, 7, 8), (3, 7, 8), {"is_causal": True}),
    "heads, other columns of v": ((3, 4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 6), {"scale": 0.3}),
    "one query for all": ((4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 8), {"is_causal": True}),
    "one head of keys": ((3, 4, 5, 8), (3, 1, 7, 8), (3, 1, 7, 8), {}),
    "groups": ((3, 4, 5, 8), (3, 2, 7, 8), (3, 2, 7, 8), {"enable_gqa": True}),
    "two batches": ((2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8), {"attn_mask": SEEN}),
    "a mask of all": ((3, 4, 5, 8), (3, 4, 7, 8), (3, 4, 7, 8), {"attn_mask": SEEN[0, 0]}),
    "floats": ((4, 5, 8), (4, 7, 8), (4, 7, 8), {"attn_mask": drawn(1, 5, 7)}),
}


QUICK = ("one head", "one query for all", "two batches")


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[] if x in QUICK else pytest.mark.slow) for x in CALLS]
)
def test_results_are_those_of_torch(name):
    """Shapes that torch broadcasts, too; the last mode may have any stride."""
    *shapes, named = CALLS[name]
    given = [drawn(*x, seed=i) for i, x in enumerate(shapes)]
    assert is_attention(scaled_dot_product_attention(*given, **named), *given, **named)
    turned = [x.mT.contiguous().mT for x in given]
    assert is_attention(scaled_dot_product_attention(*turned, **named), *given, **named)


def test_flash_attn_sees_from_the_last_key_on():
    """And its heads come after the rows."""
    q, k, v = (drawn(2, n, h, 8, seed=n) for n, h in ((5, 4), (7, 2), (7, 2)))
    named = {"causal": "bottom_right", "window": (3, -1), "scale": 0.3, "softcap": 2.0}
    slopes = torch.rand(4)
    o, lse, nothing = flash_attn_func(
        q, k, v, 0.0, 0.3, True, (3, -1), 2.0, slopes, True, return_attn_probs=True
    )
    arrays = [x.transpose(1, 2).numpy() for x in (q, k, v)]
    wanted, logs = reference(*arrays, **named, alibi_slopes=slopes.numpy())
    np.testing.assert_allclose(o.transpose(1, 2), wanted, atol=1e-5)
    np.testing.assert_allclose(lse, logs, atol=1e-5)
    assert nothing.numel() == 0
    assert torch.equal(flash_attn_func(q, k, v), cute.ops.attention(q, k, v))


@pytest.mark.parametrize("function", [scaled_dot_product_attention, flash_attn_func])
def test_what_no_kernel_computes_is_an_error(function):
    q = drawn(1, 2, 3, 8)
    with pytest.raises(cute.CuteError, match=rf"{function.__name__}: given dropout_p=0.5") as e:
        function(q, q, q, dropout_p=0.5)
    assert e.value.code == "torch-attention-lacks"
    with pytest.raises(cute.CuteError, match="autograd"):
        function(q, q.clone().requires_grad_(), q)
    with pytest.raises(cute.CuteError, match="f64"):
        function(q.double(), q.double(), q.double())


def test_arguments_that_torch_refuses_are_errors():
    q, k = drawn(1, 4, 3, 8), drawn(1, 2, 3, 8)
    with pytest.raises(cute.CuteError, match="enable_gqa=True") as e:
        scaled_dot_product_attention(q, k, k)
    assert e.value.code == "torch-attention-heads"
    mask = torch.ones(3, 3, dtype=torch.bool)
    with pytest.raises(cute.CuteError, match="attn_mask and is_causal") as e:
        scaled_dot_product_attention(q, q, q, mask, is_causal=True)
    assert e.value.code == "torch-attention-masks"
    with pytest.raises(cute.CuteError, match="bias"):
        scaled_dot_product_attention(q[0], q[0], q[0], mask.expand(2, 1, 3, 3))


# -- as torch's own


def counted(monkeypatch):
    """The numbers of the calls of `cute.ops.attention` by the function of torch's name."""
    calls, ours = [], cute_py.torch.attention.attention

    def attention(*args, **named):
        calls.append(named)
        return ours(*args, **named)

    monkeypatch.setattr(cute_py.torch.attention, "attention", attention)
    return calls


def test_torch_calls_us_while_it_is_active(monkeypatch):
    calls, q = counted(monkeypatch), drawn(1, 2, 5, 8, kind=torch.float16)
    before = theirs(q, q, q)
    assert not calls
    with activate("cpu") as active:
        ours = theirs(q, q, q, scale=0.3)
        with torch.inference_mode():
            theirs(q, q, q)
        with torch.autocast("cpu", torch.float16):
            assert theirs(*[q.float()] * 3).dtype == torch.float16
    assert [x["scale"] for x in calls] == [0.3, None, None]
    assert not active.said
    assert is_attention(ours, q, q, q, scale=0.3)
    assert torch.equal(theirs(q, q, q), before)
    assert len(calls) == 3


def test_what_we_do_not_compute_is_torchs_and_said_once(monkeypatch):
    calls, q = counted(monkeypatch), drawn(1, 2, 5, 8, kind=torch.float16)
    followed = q.clone().requires_grad_()
    plain = theirs(followed, q, q)
    active = activate("cpu")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            result = theirs(followed, q, q)
            theirs(q, q, q, dropout_p=0.5)
            theirs(q.float(), q.float(), q.float())
            theirs(*[drawn(1, 2, 5, 300, kind=torch.float16)] * 3)
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                theirs(q, q, q)
            torch.func.grad(lambda x: theirs(x, x, x).float().sum())(q)
        with torch.no_grad():
            theirs(followed, q, q)
    assert len(calls) == 3  # one without gradients, and two that an operator refuses
    assert len(caught) == len(active.said) == 6
    text = " ".join(active.said)
    for why in ("dropout", "needs a gradient", "float32", "300 columns", "off", "torch.func"):
        assert why in text
    assert torch.equal(result, plain)
    wanted, found = (torch.autograd.grad(x.sum(), followed)[0] for x in (plain, result))
    assert torch.equal(found, wanted)
    mask = torch.ones(5, 5, dtype=torch.bool)
    with pytest.warns(UserWarning, match="attn_mask and is_causal"), suppress(RuntimeError):
        theirs(q, q, q, mask, is_causal=True)  # whatever torch makes of it


def test_it_ends_by_each_of_the_ways():
    registry = getattr(torch.nn.attention, "current_flash_attention_impl", lambda: None)
    for end in (lambda _: deactivate(), Activation.remove, lambda x: x.__exit__(None, None, None)):
        end(activate("cpu"))
        assert not cute_py.torch.activation._active
        deactivate()
        assert registry() is None
    with pytest.raises(cute.CuteError, match="one of 'cuda', 'cpu'") as e:
        activate("tpu")
    assert e.value.code == "torch-activate"
    with pytest.raises(ZeroDivisionError), activate("cpu"):
        raise ZeroDivisionError
    assert not cute_py.torch.activation._active


@pytest.mark.skipif(
    not hasattr(torch.nn.attention, "restore_flash_attention_impl"), reason="torch 2.11"
)
def test_torch_lists_us():
    attention = torch.nn.attention
    assert "cute_py" in attention.list_flash_attention_impls()
    attention.activate_flash_attention_impl("cute_py_emulator")
    assert cute_py.torch.activation._active[0].device == "cpu"
    attention.restore_flash_attention_impl()
    assert not cute_py.torch.activation._active


@pytest.mark.parametrize("by_name", [True, False])
def test_a_graph_has_our_operator(by_name):
    from torch._dynamo.backends.common import aot_autograd

    q, kept = drawn(1, 2, 5, 8, kind=torch.float16), []

    def backend(graph, _inputs):
        kept.append(graph)
        return graph.forward

    function = scaled_dot_product_attention if by_name else theirs
    compiler = aot_autograd(fw_compiler=backend)
    compiled = torch.compile(lambda x: function(x, x, x) * 2, backend=compiler, fullgraph=True)
    with activate("cpu"):
        found = compiled(q)
    assert is_attention(found / 2, q, q, q)
    (graph,) = kept
    assert "cute_py.attention.default" in graph.code
    torch._dynamo.reset()


# -- torch's own samples


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", BOUND)
@pytest.mark.parametrize("by_name", [True, False])
def test_samples_of_torch(kind, by_name):
    """25 of a type, 12 of them with dropout, which is an error by our name; by torch's, these and
    all of f32 are torch's.
    """
    samples, checked = attention_samples("cpu", kind), 0
    for given, named in samples:
        if by_name and named["dropout_p"]:
            with pytest.raises(cute.CuteError, match="dropout"):
                scaled_dot_product_attention(*given, **named)
            continue
        with activate("cpu") as active:
            found = (scaled_dot_product_attention if by_name else theirs)(*given, **named)
        torchs = bool(named["dropout_p"]) or (kind == "float32" and not by_name)
        assert bool(active.said) is torchs
        if not named["dropout_p"]:
            assert is_attention(found, *given, **named)
            checked += 1
    assert (checked, len(samples)) == (13, 25)
