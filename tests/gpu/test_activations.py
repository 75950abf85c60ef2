"""Activations and their derivatives on the GPU, element by element, for numbers of all sizes."""

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.dtypes.table import from_numpy
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.elementwise import elementwise, function_of, tile_copy_of
from tests.emulated.test_activations import derivative_of, whole_range
from tests.gpu.harness import launched, require_any

require_any()

UNITS = {"f2": 1e-3, ml_dtypes.bfloat16: 8e-3, "f4": 1e-6, "f8": 1e-14}
APPROXIMATE = {"tanh": 2.0**-10.5}  # tanh.approx of f32, where the result alone is kept


@pytest.mark.parametrize("dtype", UNITS, ids=lambda x: np.dtype(x).name)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_functions_and_derivatives(name, dtype):
    row, x = ACTIVATIONS[name], whole_range(dtype)[None]
    kinds = (from_numpy(x.dtype),)
    copy = tile_copy_of(kinds, (1,), 1)
    bound = max(8 * UNITS[dtype], 0 if dtype == "f8" else APPROXIMATE.get(name, 0))
    with np.errstate(all="ignore"):
        result = row.model(x.astype("f8")).astype(x.dtype)
        slope = derivative_of(name)(x.astype("f8"))
    read = x if row.keeps_input else result
    for is_gradient, wanted in ((False, result.astype("f8")), (True, slope / 2)):
        given = (read, np.full_like(x, 0.5)) if is_gradient else (x, None)
        how = function_of(row, is_gradient, kinds), copy
        y = np.full_like(x, np.nan)
        plan = cute.trace(elementwise, *given, y, *how)
        found = launched(plan, *[x for x in (*given, y) if x is not None])[-1].astype("f8")
        near = np.abs(found - wanted) <= bound * (1 + np.abs(wanted))
        assert (near | (found == wanted)).all(), (is_gradient, x[~near][:5], found[~near][:5])
