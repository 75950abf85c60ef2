"""LayerNorm on the GPU, against torch in f64."""

import pytest

from cute_py.kernels.arrays import row_copy
from cute_py.kernels.layer_norm import layer_norm

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

BOUNDS = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5}


@pytest.mark.parametrize("kind", BOUNDS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (7, 257), (1000, 1024), (4096, 4096), (64, 8192)])
def test_layer_norm(shape, kind):
    torch.manual_seed(shape[1])
    a = torch.randn(shape, device="cuda", dtype=kind) + 3
    weight, bias = (torch.randn(shape[1], device="cuda", dtype=kind) for _i in range(2))
    b = torch.full_like(a, float("nan"))
    layer_norm(a, weight, bias, b, 1e-5, *row_copy(a, b))
    given = [x.double() for x in (a, weight, bias)]
    wanted = torch.nn.functional.layer_norm(given[0], shape[1:], *given[1:], 1e-5)
    assert ((b.double() - wanted).abs() <= BOUNDS[kind] * (3 + wanted.abs())).all()


def test_repeated_runs_give_the_same_bits():
    a = torch.randn(300, 4000, device="cuda", dtype=torch.bfloat16)
    found = []
    for _run in range(5):
        b = torch.full_like(a, float("nan"))
        layer_norm(a, None, None, b, 1e-5, *row_copy(a, b))
        found.append(b)
    assert all(torch.equal(found[0], b) for b in found)
