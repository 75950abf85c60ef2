"""All operators of `cute.ops` on a GPU, by the harness of `tests/operators.py`."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.dtypes.table import from_numpy
from tests.gpu.harness import require_gpu, torch
from tests.operators import CASES, POISON, agrees, cases

require_gpu()
from cute_py.calls.torch_tensors import NAMES, dtype_of_torch, numpy_view, tensor_view  # noqa: E402

OPERATORS = sorted(CASES)
GUARD = 64  # elements around an array
TORCH = frozenset(NAMES) - {"u16", "u32", "u64"}  # types of which torch has all functions


class OnGpu:
    """A tensor inside of poisoned memory of the GPU, in a random order of its modes."""

    def __init__(self, array, rng, rows=False):
        order = rng.permutation(array.ndim)
        if rows:
            order = np.append(order[order != array.ndim - 1], array.ndim - 1)
        held = np.ascontiguousarray(array.transpose(order)).reshape([array.shape[i] for i in order])
        size = held.nbytes + 2 * GUARD * held.itemsize
        self.bytes = torch.full((size,), POISON, dtype=torch.uint8, device="cuda")
        inner = self.bytes[GUARD * held.itemsize : GUARD * held.itemsize + held.nbytes]
        inner.copy_(torch.from_numpy(np.frombuffer(held.tobytes(), np.uint8).copy()))
        flat = inner.view(getattr(torch, NAMES[name_of(array)]))
        self.tensor = flat.view(held.shape).permute(tuple(np.argsort(order)))
        self.size = GUARD * held.itemsize

    def is_whole(self):
        ends = self.bytes[: self.size], self.bytes[-self.size :]
        return all(bool((x == POISON).all()) for x in ends)


def name_of(array):
    return from_numpy(array.dtype).name


def host(x):
    return numpy_view(x.cpu().contiguous())


def bits(x):
    """Return the bits of an array, or of a tensor."""
    return (host(x) if isinstance(x, torch.Tensor) else np.ascontiguousarray(x)).tobytes()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", OPERATORS)
def test_random_problems_equal_their_reference(name, seed):
    """With guard zones, again, into an array that is given, and in a graph that is replayed."""
    found, rng = cases(name, 25, seed)
    for case in found:
        if not {name_of(x) for x in case.arrays.values()} <= TORCH:
            continue
        held = {k: OnGpu(x, rng, case.rows) for k, x in case.arrays.items()}
        given = {k: x.tensor for k, x in held.items()}
        result = case.call(given)
        agrees(case, host(result))
        again = case.call(given)
        assert bits(again) == bits(result), case
        out = OnGpu(np.zeros(tuple(result.shape), host(result).dtype), rng)
        for _ in range(2):
            out.tensor.fill_(0)
            assert case.call(given, out=out.tensor) is out.tensor
            agrees(case, host(out.tensor))
        assert out.is_whole()
        for k, x in held.items():
            assert x.is_whole(), k
            assert bits(x.tensor) == bits(case.arrays[k]), "an operand was written"


@pytest.mark.parametrize("name", OPERATORS)
def test_a_graph_replays_a_call_with_new_values(name):
    found, rng = cases(name, 6, seed=10)
    for case in found:
        if not {name_of(x) for x in case.arrays.values()} <= TORCH:
            continue
        given = {k: OnGpu(x, rng).tensor for k, x in case.arrays.items()}
        case.call(given)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = case.call(given)
        for k, x in case.arrays.items():
            case.arrays[k] = x if k in case.operator.problem.indices else np.roll(x, 1)
            kind = dtype_of_torch(given[k].dtype)
            held = np.ascontiguousarray(case.arrays[k]).reshape(case.arrays[k].shape)
            given[k].copy_(tensor_view(held, kind))
        graph.replay()
        torch.cuda.synchronize()
        agrees(case, host(result))


@pytest.mark.parametrize("name", OPERATORS)
def test_the_gpu_computes_what_the_emulator_does(name):
    """Each family that reads a problem, too."""
    found, _rng = cases(name, 10, seed=20)
    for case in found:
        if not {name_of(x) for x in case.arrays.values()} <= TORCH:
            continue
        rng = np.random.default_rng(0)
        given = {k: OnGpu(x, rng).tensor for k, x in case.arrays.items()}
        problem = case.operator.problem_of(**given, **case.named)
        if problem.is_known:
            continue
        for family in problem.families:
            if getattr(family.reads(problem), "takes", True) and name != "gemm":
                agrees(case, host(case.call(given, config=f"family={family.name}")))


@pytest.mark.parametrize(
    ("shape", "dim"), [((1 << 24,), None), ((3, 5_000_000), 1), ((2, 1 << 20, 2), (0, 1))]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8"])
def test_long_rows_are_shared_by_blocks_and_have_equal_bits(shape, dim, dtype):
    x = torch.randint(-2, 3, shape, device="cuda").to(getattr(torch, dtype))
    want = x.double().sum(dim)
    wide = "s32" if dtype == "int8" else "f32"
    found = [cute.ops.reduce(x, "add", dim, out_dtype=wide) for _ in range(3)]
    assert torch.equal(found[0].double(), want)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    modes = tuple(range(x.dim())) if dim is None else dim
    assert torch.equal(cute.ops.reduce(x, "max", dim).double(), x.double().amax(modes))


def test_more_rows_and_matrices_than_a_grid_has_along_y():
    x = torch.randn(70_000, 40, 33, device="cuda")
    assert torch.equal(cute.ops.transpose(x), x.mT)
    assert torch.allclose(cute.ops.softmax(x, 1), torch.softmax(x, 1), atol=1e-6)
    assert torch.allclose(cute.ops.reduce(x, "add", (1, 2)), x.sum((1, 2)), atol=1e-3)
    wide = torch.randn(3, 2_200_000, device="cuda")
    assert torch.equal(cute.ops.transpose(wide), wide.mT)


def test_tune_finds_a_family(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    x = torch.randn(2000, 1024, device="cuda")
    best = cute.tune(cute.ops.softmax, x)
    assert str(best).startswith("family=")
    assert all(line.startswith("measured: ") for line in best.reasons)
    assert torch.allclose(cute.ops.softmax(x), torch.softmax(x, 1), atol=1e-6)
    assert "measured" in str(cute.ops.softmax.explain(x))
