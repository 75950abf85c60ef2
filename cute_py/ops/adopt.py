"""Device arrays that are neither torch's nor CuPy's (Numba's, say), for operations that need views:
torch or CuPy, whichever is in use, lends its views, and results go back to the caller's library.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from cute_py.calls.arrays import TypedArray, bare, dtype_of, taken_in
from cute_py.codegen.driver.driver import driver
from cute_py.codegen.driver.streams import current_stream, device_of, own_stream
from cute_py.errors import refusal

LENDERS = {"torch": "as_tensor", "cupy": "asarray"}


def library_name(x: Any) -> str:  # noqa: ANN401
    """Return the name of the library that an array comes from."""
    return type(bare(x)).__module__.partition(".")[0]


def adopted(x: Any) -> Any:  # noqa: ANN401
    """Return an array as one of torch or CuPy, on the same memory; None stays None.

    What its own library put into a stream is waited for, on the GPU.
    """
    if isinstance(x, TypedArray):
        return TypedArray(adopted(x.array), x.dtype)
    x = taken_in(x)
    if x is None or library_name(x) in LENDERS or hasattr(x, "is_cuda"):
        return x
    device, own = device_of(x), own_stream(x)
    view = _view(x)
    if own is not None:
        _wait(device, current_stream(view, device)(), own)
    return view


def _view(x: Any) -> Any:  # noqa: ANN401
    for name in sorted(LENDERS, key=lambda name: name not in sys.modules):
        try:
            library = import_module(name)
        except ImportError:
            continue
        return getattr(library, LENDERS[name])(x)
    raise refusal("ops-library", operation="ops.gemm", type=type(x).__name__)


def _wait(device: int, stream: int, other: int) -> None:
    if stream != other:
        with driver().inside(device):
            driver().wait(stream, other)


def given_back(result: Any, like: Any) -> Any:  # noqa: ANN401
    """Return a result as an array of the library of `like`, on the same memory."""
    if library_name(like) != "numba":
        return result
    from numba import cuda

    if dtype_of(result).numpy_name.startswith("ml_dtypes"):
        known = "a type that Numba has"
        found = dtype_of(result)
        raise refusal("ops-out-dtype", operation="ops.gemm", name="out", dtype=found, known=known)
    device = device_of(result)
    _wait(device, 0, current_stream(result, device)())  # Numba works on the default stream
    return cuda.as_cuda_array(result)
