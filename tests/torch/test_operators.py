"""All operators of `cute.ops` as operators of torch, by the harness of `tests/operators.py`."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops import operators

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402
from cute_py.ops.call import Call  # noqa: E402
from cute_py.ops.operator import REGISTRY, operator  # noqa: E402
from cute_py.ops.problem import Problem  # noqa: E402
from cute_py.torch.declared import DECLARED, declare_all  # noqa: E402
from tests.operators import CASES, cases  # noqa: E402

OPERATORS = sorted(CASES)
BY_HAND = {"gemm"}  # its derivative is no function of the declaration
WITHOUT = {x for x, found in operators().items() if found.problem.gradient is None} - BY_HAND
WIDE = {"f64": "float64", "f32": "float32", "f16": "float16"}
pytestmark = pytest.mark.filterwarnings("ignore")


def floats(name, count, seed=0):
    """Return random problems of floats: the operator, tensors of the first of `WIDE` that it has,
    and the other arguments; arrays of indices as they are.
    """
    problem = operators()[name].problem
    kind = next(getattr(torch, x) for y, x in WIDE.items() if y in problem.types)
    found = []
    for case in cases(name, 4 * count, seed)[0]:
        op = getattr(torch.ops.cute_py, name)
        left_out = ("out_dtype", "mode")  # torch has other types, and another name for the latter
        named = {k: v for k, v in case.named.items() if k not in left_out and v is not None}
        if named.get("op") in ("and", "or", "xor") or 0 in map(np.size, case.arrays.values()):
            continue
        made = torch.Generator().manual_seed(len(found))
        tensors = {
            k: torch.randn(x.shape, generator=made, dtype=torch.float64).to(kind)
            for k, x in case.arrays.items()
        }
        whole = [k for k, x in case.arrays.items() if k in problem.indices]
        tensors |= {k: torch.from_numpy(case.arrays[k]) for k in whole}
        found.append((op, tensors, named))
    return found[:count]


def leaves(tensors):
    return {
        k: x.clone().requires_grad_() if x.is_floating_point() else x for k, x in tensors.items()
    }


def leaves_of(name, tensors):
    """Return the same where the operator has a derivative."""
    return tensors if name in WITHOUT else leaves(tensors)


@pytest.mark.parametrize("name", OPERATORS)
def test_derivatives_are_those_of_differences(name):
    """Or refused by the operator's name, where none is declared."""
    for op, tensors, named in floats(name, 3):
        if name in WITHOUT:
            with pytest.raises(cute.CuteError, match=rf"^torch\.ops\.cute_py\.{name}: .* autograd"):
                op(**leaves(tensors), **named)
            continue
        if sum(x.numel() for x in tensors.values()) > 3000:
            continue
        names = list(tensors)

        def call(*values, op=op, names=names, named=named):
            return op(**dict(zip(names, values, strict=True)), **named)

        assert torch.autograd.gradcheck(call, tuple(leaves(tensors).values()), fast_mode=True)


@pytest.mark.parametrize("name", OPERATORS)
def test_the_laws_of_an_operator_hold(name):
    op, tensors, named = floats(name, 1, seed=1)[0]
    torch.library.opcheck(op.default, (), {**leaves_of(name, tensors), **named})
    result = op(**tensors, **named)
    out = torch.full_like(result, -7)
    torch.library.opcheck(op.out, (), {**tensors, **named, "out": out.clone()})
    op.out(**tensors, **named, out=out)
    assert torch.equal(out, result)
    assert torch.equal(getattr(cute.ops, name)(**tensors, **named), result)
    empty = op(**{k: x.to("meta") for k, x in tensors.items()}, **named)
    assert (empty.shape, empty.dtype) == (result.shape, result.dtype)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_graph_has_the_operator_forward_and_backward(name):
    _op, tensors, named = floats(name, 1, seed=2)[0]

    def loss(**given):
        return (getattr(cute.ops, name)(**given, **named) * 2).square().sum()

    want, found = (leaves_of(name, tensors) for _ in range(2))
    by_hand, by_graph = loss(**want), torch.compile(loss, backend="aot_eager", fullgraph=True)
    total = by_graph(**found)
    assert torch.allclose(total, by_hand)
    if name not in WITHOUT:
        by_hand.backward()
        total.backward()
        for k, x in want.items():
            assert torch.allclose(found[k].grad, x.grad), k
    torch._dynamo.reset()


@pytest.mark.parametrize("name", OPERATORS)
def test_vmap_is_a_loop(name):
    """Over each mode of each operand."""
    for op, tensors, named in floats(name, 2, seed=3):
        batch = {
            k: torch.stack([x, 2 * x, x + 1] if x.is_floating_point() else [x] * 3)
            for k, x in tensors.items()
        }
        want = torch.stack([op(**{k: x[i] for k, x in batch.items()}, **named) for i in range(3)])
        names = list(batch)
        for dims in (0, -1):
            moved = [x.movedim(0, dims) for x in batch.values()]

            def call(*values, op=op, named=named, names=names):
                return op(**dict(zip(names, values, strict=True)), **named)

            assert torch.allclose(torch.vmap(call, in_dims=dims)(*moved), want)


def test_autocast_casts_as_torch_does():
    x = torch.randn(4, 8).half()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert cute.ops.softmax(x).dtype == torch.softmax(x, -1).dtype
        assert cute.ops.reduce(x, "add", 0).dtype == torch.sum(x, 0).dtype
        assert cute.ops.transpose(x).dtype == torch.float16
        assert cute.ops.gemm(x, x.mT).dtype == torch.bfloat16


def test_integers_and_typed_operands():
    x = torch.arange(12, dtype=torch.int8).reshape(3, 4)
    assert torch.equal(cute.ops.reduce(x, "add", 1), x.sum(1, dtype=torch.int32))
    assert torch.equal(cute.ops.reduce(x, "or", 0), x[0] | x[1] | x[2])
    leaf = cute.typed(torch.ones(4, 4, requires_grad=True), "tf32")
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.transpose: .*elements read as tf32"):
        cute.ops.transpose(leaf)


@pytest.mark.parametrize("name", ["gemm", "reduce"])
def test_a_type_that_torch_lacks_is_refused_by_the_operator(name):
    x = torch.ones(4, 4, requires_grad=True)
    with pytest.raises(cute.DtypeError, match=rf"^cute\.ops\.{name}: given out_dtype of tf32"):
        getattr(cute.ops, name)(*[x] * (2 if name == "gemm" else 1), out_dtype="tf32")


EXTREMES = {"max": torch.amax, "min": torch.amin}


@pytest.mark.parametrize("op", EXTREMES)
def test_gradients_of_extremes_along_no_mode_and_of_rounded_ones(op):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    found, g = cute.ops.reduce(x, op, ()), torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(torch.autograd.grad(found, x, g)[0], g)
    for kind in ("f16", "bf16", "f32"):
        found = cute.ops.reduce(x, op, 1, out_dtype=kind).sum()
        want = torch.autograd.grad(EXTREMES[op](x, 1).sum(), x)[0]
        assert torch.equal(torch.autograd.grad(found, x)[0], want)


def test_the_gradient_of_a_product_along_no_mode():
    x = torch.tensor([0.0, 2.0, 0.0], requires_grad=True)
    assert torch.equal(torch.autograd.grad(cute.ops.reduce(x, "mul", ()).sum(), x)[0], x * 0 + 1)


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - {"gemm"} - WITHOUT))
def test_gradients_may_be_views_of_negated_values(name):
    for op, tensors, named in floats(name, 2):
        given = leaves(tensors)
        result = op(**given, **named)
        g = torch.imag(torch.randn(result.shape, dtype=torch.complex128).conj())
        assert g.is_neg()
        found = torch.autograd.grad(result, list(given.values()), g, retain_graph=True)
        want = torch.autograd.grad(result, list(given.values()), g.resolve_neg())
        assert all(map(torch.equal, found, want))


WRONG = [("softmax", {"dim": "a"}), ("softmax", {"dim": 1.5}), ("reduce", {"dim": object()})]
WRONG += [("reduce", {"dim": (1.5,)}), ("reduce", {"keepdim": "no"}), ("reduce", {"op": 3})]
WRONG += [("softmax", {"dim": True}), ("reduce", {"dim": True}), ("reduce", {"dim": [0, True]})]
WRONG += [("reduce", {"keepdim": 5}), ("reduce", {"keepdim": -1})]
WRONG += [("reduce", {"out_dtype": "tf32"}), ("softmax", {"dim": 10**30})]


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize(("name", "named"), WRONG)
def test_wrong_arguments_are_refused_by_the_public_name(name, named, follows):
    """Also where autograd follows the operand, and torch has no type for the argument."""
    x = torch.randn(2, 3, requires_grad=follows)
    with pytest.raises(cute.CuteError, match=rf"^cute\.ops\.{name}: given"):
        getattr(cute.ops, name)(x, **named)


def test_modes_may_be_integers_of_numpy():
    x = torch.randn(2, 3, requires_grad=True)
    for dim in (np.int64(1), (np.int8(1),)):
        assert torch.equal(cute.ops.reduce(x, "add", dim), cute.ops.reduce(x.detach(), "add", dim))


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: torch.ops.cute_py.softmax(x, 2), (4, 3, 5)),
        (lambda x: torch.ops.cute_py.softmax(x, -3), (4, 3, 5)),
        (lambda x: torch.ops.cute_py.softmax(x), (4,)),
        (lambda x: torch.ops.cute_py.reduce(x, "add", [-3]), (4, 3, 5)),
        (lambda x: torch.ops.cute_py.reduce(x, "add", [0, 2]), (4, 3, 5)),
        (lambda x: torch.ops.cute_py.transpose(x), (4, 3)),
    ],
)
def test_no_mode_of_a_batch_is_one_of_an_element(call, shape):
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.\w+: given"):
        torch.vmap(call)(torch.randn(shape))


class Both(Problem):
    def __init__(self, request, library):
        super().__init__(request, library)
        self.x, kind = self.read("x", ("f32",), 1, "(N)")
        for name in ("out", "out_negated"):
            self.gives(self.x.shape, kind, name)

    def call(self, choice=None):
        x = self.readable(self.x)
        outputs = tuple(self.writes((x,), (0,), name=name) for name in self.results)
        return Call(doubled_and_negated, self.library, (x,), outputs, choice=(None,))

    @staticmethod
    def gradient(_request, first, second):
        return {"x": (0 if first is None else 2 * first) - (0 if second is None else second)}


@cute.kernel
def doubled_and_negated(x, y, z):
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = x[i] * 2
        z[i] = -x[i]


def test_several_outputs_have_gradients_of_each():
    @operator(Both, arrays=("x", "out", "out_negated"))
    def doubled(
        x, *, out=None, out_negated=None, backend: "str" = "auto", checks: "bool | str" = False
    ):
        """Return 2 * x and -x."""

    try:
        declare_all()
        x = torch.randn(40, requires_grad=True)
        y, z = doubled(x)
        assert torch.equal(y, 2 * x)
        assert torch.equal(z, -x)
        for result, each in ((y.sum(), 2), (z.sum(), -1), (y.sum() + z.sum(), 1)):
            found = torch.autograd.grad(result, x, retain_graph=True)[0]
            assert torch.equal(found, torch.full_like(x, each))
        compiled = torch.compile(lambda x: doubled(x)[1] + 1, backend="aot_eager", fullgraph=True)
        assert torch.equal(torch.autograd.grad(compiled(x).sum(), x)[0], torch.full_like(x, -1))
    finally:
        del REGISTRY["doubled"]
        DECLARED.pop("doubled", None)


def test_attention_in_graphs_and_with_functions():
    """As SDPA of torch; a flag gives the logs, too; functions stay outside of graphs."""
    q, k, v = (torch.randn(1, 2, n, 8) for n in (5, 9, 9))
    named = {"layout": "BHMK", "causal": "top_left"}
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attended(*arrays, **given):
        return cute.ops.attention(*arrays, **given)

    by_graph = torch.compile(attended, backend="eager", fullgraph=True)
    assert torch.allclose(by_graph(q, k, v, **named), want, atol=1e-5)
    found, lse = by_graph(q, k, v, return_lse=True, **named)
    assert torch.allclose(found, want, atol=1e-5)
    assert torch.allclose(lse, cute.ops.attention(q, k, v, return_lse=True, **named)[1])
    mask = torch.rand(5, 9) > 0.3
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    found = cute.ops.attention(q, k, v, layout="BHMK", bias=mask)
    assert torch.allclose(found, want.nan_to_num(), atol=1e-5)

    def score(s, b, h, i, j):
        return s * 2.0

    plain = torch.compile(lambda x: cute.ops.attention(x, k, v, layout="BHMK", score=score))
    doubled = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=2 * 8**-0.5)
    assert torch.allclose(plain(q), doubled, atol=1e-5)
    with pytest.raises(cute.CuteError, match="as function"):
        cute.ops.attention(q.requires_grad_(), k, v, layout="BHMK", score=score)
    torch._dynamo.reset()
