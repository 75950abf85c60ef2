"""`gemm`: the matrix product of arrays, with the epilogue of BLAS and of neural networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import on_device, require_plain_values, taken_in
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.epilogue import ACTIVATIONS
from cute_py.kernels.gemm import GemmConfig
from cute_py.ops.operands import OPERATION
from cute_py.ops.product import Product, wrong_shape

if TYPE_CHECKING:
    from cute_py.dtypes.table import DtypeLike

BACKENDS = ("auto", "emulator", "gpu")


def gemm(
    a: Any,  # noqa: ANN401
    b: Any,  # noqa: ANN401
    c: Any = None,  # noqa: ANN401
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,  # noqa: ANN401
    activation: str | None = None,
    out_dtype: DtypeLike | None = None,
    backend: str = "auto",
    config: GemmConfig | str | None = None,
    *,
    dtype: DtypeLike | None = None,
    out: Any = None,  # noqa: ANN401
) -> Any:  # noqa: ANN401  (an array of the operands' library)
    """Return activation(alpha * a @ b + beta * c + bias), as `numpy.matmul` counts the modes.

    Args:
        a: (..., M, K), of f16, bf16, tf32 (`cute.typed`), f32, f64, s8, u8, e4m3 or e5m2. It may
            be contiguous along either of the last two modes; other strides are copied first.
        b: (..., K, N), of the same type; s8 and u8, e4m3 and e5m2 mix.
        c: (..., M, N), of any type; not read if beta is 0. None: zeros.
        alpha: factor of the product.
        beta: factor of c.
        bias: (N), added to each row.
        activation: None, "relu", "gelu" (with erf), "silu", "tanh" or "sigmoid".
        out_dtype: of the result; None: that of the operands (f32 for tf32, s32 for integers).
        backend: "auto": on the GPU where the arrays lie there (torch, CuPy), else on the emulator;
            or "gpu", "emulator", which arrays elsewhere are refused for.
        config: what `choose_config` returns, or changes to that as text, "tile=64x64x32,stages=2".
        dtype: of the operands, which are converted to it first.
        out: where the result goes; None: a new array. It may be one of the operands. On a GPU the
            kernel writes there itself where the rows of `out` are contiguous and as aligned as
            those of a new array, and it shares no memory with a, b, c and bias; else the result is
            copied. It is as before where something is refused.

    Batch modes broadcast as in `numpy.matmul`. Floats are summed in f32 (f64 in f64), integers in
    s32, which wraps; the epilogue is computed in that type, each step rounded. Integers with
    factors that are not whole, or with float terms, results or activations, go through f32. The
    result is rounded to nearest even; integers and 8-bit floats clamp to their finite range. With
    K = 0 the product is 0; with M, N or the batch 0 the result is empty. NaN and inf propagate.

    Raises CuteError: LayoutError for shapes, DtypeError for types, and see docs/errors.md.

    >>> import numpy as np
    >>> a, b = np.ones((2, 3), np.float32), np.eye(3, dtype=np.float32)
    >>> gemm(a, b, bias=np.array([0, 1, -5], np.float32), activation="relu")
    array([[1., 2., 0.],
           [1., 2., 0.]], dtype=float32)
    """
    require_choices(backend, activation)
    _require_config(config)
    a, b, c, bias, out = map(taken_in, (a, b, c, bias, out))
    given = {"a": a, "b": b, "c": c, "bias": bias, "out": out}
    if on_gpu({name: x for name, x in given.items() if x is not None}, backend):
        from cute_py.ops.device import Request, gemm_on_device

        sides = (a, b) if dtype is None else (_typed(a, dtype), _typed(b, dtype))
        request = Request(*sides, c, bias, out, (alpha, beta), activation, out_dtype, config)
        return gemm_on_device(request)
    for name, x in given.items():
        require_plain_values(x, name)
    product = Product(a, b, dtype)
    product.choose(config)
    product.finish(c, (alpha, beta), bias, activation, out_dtype or _type_of(out))
    if out is not None:
        _require_out(out, product)
    result = product.run()
    if out is None:
        return result
    out[...] = result
    return out


def require_choices(backend: str, activation: str | None) -> None:
    """Refuse a backend or an activation that there is not."""
    for name, value, known in (
        ("backend", backend, BACKENDS),
        ("activation", activation, (None, *ACTIVATIONS)),
    ):
        if value not in known:
            choices = ", ".join(map(repr, known))
            raise refusal(
                "ops-choice", operation=OPERATION, name=name, value=value, choices=choices
            )


def _require_config(config: object) -> None:
    if config is not None and not isinstance(config, (GemmConfig, str)):
        known = 'what choose_config returns, or text: "tile=64x64x32,stages=2"'
        raise refusal("ops-choice", operation=OPERATION, name="config", value=config, choices=known)


def on_gpu(given: dict[str, Any], backend: str) -> bool:
    """Return whether the GPU computes; refuse arrays that do not lie where it is done."""
    places = {name: on_device(x) for name, x in given.items()}
    device = backend == "gpu" or (backend == "auto" and any(places.values()))
    wrong = [name for name, there in places.items() if there is not device]
    if wrong:
        place = "host" if device else "device"
        value = f"{', '.join(wrong)} on the {place}, with backend={backend!r}"
        raise refusal("ops-no-gpu", operation=OPERATION, value=value)
    return device


def _typed(x: Any, dtype: Any) -> Any:  # noqa: ANN401
    """Return a device array to be read as a type of its own size, such as tf32."""
    from cute_py.calls.arguments import typed
    from cute_py.calls.arrays import dtype_of

    return x if dtype_of(x) is as_dtype(dtype) else typed(x, dtype)


def _type_of(out: Any) -> Any:  # noqa: ANN401
    return as_dtype(out.dtype) if isinstance(out, np.ndarray) else None


def _require_out(out: Any, product: Product) -> None:  # noqa: ANN401
    if not isinstance(out, np.ndarray) or out.shape != product.shape:
        given = getattr(out, "shape", type(out).__name__)
        raise wrong_shape("out", given, product.shape)
    if as_dtype(out.dtype) is not product.out_type:
        wanted = f"{product.out_type}, as out_dtype says"
        raise refusal(
            "ops-out-dtype", operation=OPERATION, name="out", dtype=out.dtype, known=wanted
        )
    if not out.flags.writeable:
        raise refusal("ops-read-only", operation=OPERATION)
