"""One table of calls of products: NumPy's arrays, tensors, and tensors without memory agree."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.torch_tensors import NAMES, in_type

torch = pytest.importorskip("torch")
import cute_py.torch  # noqa: E402


def values(*shape, kind="f4"):
    made = np.random.default_rng(sum(shape) + len(shape))
    return made.integers(-8, 8, shape).astype(kind) / (1 if np.dtype(kind).kind in "iu" else 4)


A, B, C, BIAS = values(5, 7), values(7, 6), values(5, 6), values(6)
# (arguments, those by name): the same call in each library
CALLS = {
    "plain": ((A, B), {}),
    "read as bf16": ((A, B), {"dtype": "bf16"}),
    "read as bf16, torch's name": ((A, B), {"dtype": torch.bfloat16}),
    "read as integers": ((A * 4, B * 4), {"dtype": "s8"}),
    "read as e4m3, result in f32": ((A, B), {"dtype": "e4m3", "out_dtype": torch.float32}),
    "read as f64": ((A, B), {"dtype": cute.f64}),
    "integers read as f32": ((values(5, 7, kind="i1"), values(7, 6, kind="i1")), {"dtype": "f32"}),
    "result in another type": ((A, B), {"out_dtype": torch.float64}),
    "c as a row": ((A, B, BIAS, 1.0, 2.0), {}),
    "c as one row": ((A, B, BIAS[None], 1.0, 2.0), {}),
    "c as a column": ((A, B, C[:, :1], 1.0, 2.0), {}),
    "c as a number": ((A, B, np.array(1.25, "f4"), 1.0, 2.0), {}),
    "a batch and a row": ((values(2, 5, 7), B, BIAS, 1.0, 2.0), {"activation": "relu"}),
    "a row of one mode": ((A[0], B), {}),
    "a column of one mode": ((values(2, 5, 7), B[:, 0]), {}),
    "both of one mode": ((A[0], B[:, 0], np.array(2.5, "f4"), 1.0, 2.0), {}),
    "a row and a batch": ((A[0], values(3, 7, 6), values(3, 6), 1.0, 2.0), {}),
    "a column and a term": ((values(2, 5, 7), B[:, 0], values(2, 5), 1.0, 2.0), {}),
    "no modes": ((np.array(1.0, "f4"), B), {}),
    "a row that does not fit": ((A[0, :3], B), {}),
    "c of another shape": ((A, B, C[:3], 1.0, 2.0), {}),
    "c of too many modes": ((A, B, values(3, 5, 6), 1.0, 2.0), {}),
    "a type that there is not": ((A, B), {"out_dtype": torch.complex64}),
    "a result of a type that there is not": ((A, B), {"dtype": "f64", "out_dtype": torch.int64}),
}


def answer(call):
    """Return the result as an array, or the code of the error."""
    try:
        return call()
    except cute.CuteError as error:
        return error.code


@pytest.mark.parametrize("name", CALLS)
def test_options_mean_the_same_on_all_sides(name):
    args, named = CALLS[name]
    tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args]
    empty = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in tensors]
    wanted = answer(lambda: cute.ops.gemm(*args, **named))
    found = answer(lambda: cute.ops.gemm(*tensors, **named))
    outline = answer(lambda: cute.ops.gemm(*empty, **named))
    if isinstance(wanted, str):
        assert found == outline == wanted
        return
    assert (outline.shape, outline.dtype) == (found.shape, found.dtype)
    assert NAMES[cute.dtype(wanted.dtype).name] == str(found.dtype).removeprefix("torch.")
    assert np.array_equal(found.float().numpy(), wanted.astype("f4"), equal_nan=True)


@pytest.mark.parametrize("kind", ["s8", "u8", "f16", "bf16", "e4m3", "e5m2", "f32", "f64"])
def test_tensors_are_converted_as_arrays_are(kind):
    """On a GPU torch converts, where the host has its own table of roundings."""
    edges = [0.5, 1.5, 2.5, -1.5, 127.5, 300, -300, np.nan, np.inf, -np.inf, 65520, 1e-8]
    edges += [448, 463.9, 464, 464.1, 480, -464, 3.3, 1e38]
    for x in (np.array(edges, "f4"), np.array(edges, "f8"), np.array([300, -5, 127, -129], "i4")):
        wanted = np.asarray(cute.convert(x, kind, "to_nearest")).astype("f8")
        found = in_type(torch.from_numpy(x), cute.dtype(kind))
        assert str(found.dtype).removeprefix("torch.") == NAMES[kind]
        assert np.array_equal(found.double().numpy(), wanted, equal_nan=True)


@pytest.mark.parametrize("shapes", [((7,), (7, 6)), ((2, 5, 7), (7,)), ((7,), (7,))])
def test_operands_of_one_mode_are_those_of_matmul(shapes):
    a, b = (values(*shape) for shape in shapes)
    wanted = np.matmul(a, b)
    assert np.array_equal(cute.ops.gemm(a, b), wanted)
    assert cute.ops.gemm(a, b).shape == wanted.shape
    out = np.zeros(wanted.shape, "f4")
    assert cute.ops.gemm(a, b, out=out) is out
    assert np.array_equal(out, wanted)
    assert np.array_equal(cute.ops.gemm(a.tolist(), b.tolist()), wanted)
    typed = cute.ops.gemm(cute.typed(a, "tf32"), cute.typed(b, "tf32"))
    assert np.array_equal(typed, wanted)  # tf32 has these values
    grads = []
    for call in (cute.ops.gemm, torch.matmul):
        x, y = (torch.from_numpy(z).clone().requires_grad_() for z in (a, b))
        call(x, y).square().sum().backward()
        grads.append((x.grad, y.grad))
    for found, other in zip(*grads, strict=True):
        torch.testing.assert_close(found, other)


@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 1), (), (1, 1)])
def test_gradients_of_what_is_spread(shape):
    c, d = (torch.as_tensor(values(*shape)).requires_grad_() for _ in "cd")
    a, b = torch.from_numpy(A), torch.from_numpy(B)
    cute.ops.gemm(a, b, c, 1.0, 2.0).square().sum().backward()
    torch.addmm(d, a, b, beta=2.0).square().sum().backward()
    torch.testing.assert_close(c.grad, d.grad)


def test_a_type_of_torch_is_in_the_key_of_a_known_call():
    a, b = A.copy(), B.copy()
    known = cute.ops.gemm.operator.known
    for kind in (torch.float32, torch.float64, torch.float32):
        known.clear()
        cute.ops.gemm(a, b, out_dtype=kind)
        assert known.count == 1
        assert cute.ops.gemm(a, b, out_dtype=torch.float64).dtype == np.float64
