"""`conv2d`, and its gradients `conv2d_dgrad` and `conv2d_wgrad`: as implicit products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import strides_of
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.config import GemmConfig
from cute_py.kernels.convolution import reference, reference_dgrad, reference_wgrad
from cute_py.ops.activations import activation as activated
from cute_py.ops.conv_kinds import Dgrad, Fprop, Wgrad
from cute_py.ops.conv_options import BACK, LAYOUTS, MODES, convolution
from cute_py.ops.libraries import Words
from cute_py.ops.operator import operator
from cute_py.ops.reductions import reduce
from cute_py.ops.reference import combined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.dtypes.table import DtypeLike

OPTIONS = ("stride", "padding", "dilation", "groups", "mode", "layout", "backend")


# -- references, and derivatives by the operators themselves


def _referred(name: str, arrays: dict[str, Any], named: dict[str, Any]) -> Any:
    """Return the result of an operator for arrays of float64, by its name."""
    ours: Any = {"x": conv2d, "dx": conv2d_dgrad, "dw": conv2d_wgrad}[name]
    request = ours.operator.request(**arrays, **named)
    order, back = LAYOUTS[request.layout], BACK[request.layout]
    held = {key: x.transpose(order) for key, x in arrays.items() if x is not None and x.ndim == 4}
    shape = request._asdict()
    x = held["x"].shape if "x" in held else tuple([shape["x_shape"][i] for i in order])
    w = held["w"].shape if "w" in held else tuple([shape["w_shape"][i] for i in order])
    conv = convolution(request, x, w, ours.operator.name)
    if name == "x":
        sums = reference(held["x"], held["w"], conv)
    elif name == "dx":
        sums = reference_dgrad(held["dy"], held["w"], x, conv)
    else:
        sums = reference_wgrad(held["dy"], held["x"], conv)
    more = {key: named[key] for key in ("alpha", "beta", "activation") if key in named}
    return combined(sums, held.get("c"), arrays.get("bias"), **more).transpose(back)


def _given(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in OPTIONS}


def _dense(request: Any, g: Any) -> Any:
    """Return a gradient, which torch may have expanded, with contiguous channels."""
    strided = request.layout == "NHWC" and g.shape[3] > 1 and strides_of(g)[3] != 1
    return g.contiguous() if strided else g


def _before(request: Any, g: Any, kept: dict[str, Any]) -> Any:
    """Return the gradient of the sums without the activation."""
    name, g = request.activation, _dense(request, g)
    if name is None:
        return g
    if not ACTIVATIONS[name].keeps_input:
        return activated(kept["out"], name, g)
    more = {x: kept[x] for x in ("c", "bias")} | {"alpha": request.alpha, "beta": request.beta}
    return activated(conv2d(kept["x"], kept["w"], **more, **_given(request)), name, g)


def _scaled(x: Any, factor: float) -> Any:
    return x if factor == 1 else x * factor


def _gradient(request: Any, g: Any, **kept: Any) -> dict[str, Any]:
    g, options = _before(request, g, kept), _given(request)
    more = options | {"alpha": request.alpha}
    found = {
        "x": conv2d_dgrad(g, kept["w"], tuple(request.x), **more),
        "w": conv2d_wgrad(g, kept["x"], tuple(request.w), **more),
    }
    if request.bias is not None:
        found["bias"] = reduce(g, "add", (0, 1, 2) if request.layout == "NHWC" else (0, 2, 3))
    if request.c is not None:
        found["c"] = _scaled(g, request.beta)
    return found


def _gradient_of_dgrad(request: Any, g: Any, **kept: Any) -> dict[str, Any]:
    g, more = _dense(request, g), _given(request) | {"alpha": request.alpha}
    found = {
        "dy": conv2d(g, kept["w"], **more),
        "w": conv2d_wgrad(kept["dy"], g, tuple(request.w), **more),
    }
    return found | ({"c": _scaled(g, request.beta)} if request.c is not None else {})


def _gradient_of_wgrad(request: Any, g: Any, **kept: Any) -> dict[str, Any]:
    g, more = _dense(request, g), _given(request) | {"alpha": request.alpha}
    found = {
        "dy": conv2d(kept["x"], g, **more),
        "x": conv2d_dgrad(kept["dy"], g, tuple(request.x), **more),
    }
    return found | ({"c": _scaled(g, request.beta)} if request.c is not None else {})


class _Fprop(Fprop):
    """The problem of `conv2d`."""

    gradient = staticmethod(_gradient)

    @staticmethod
    def reference(x: Any, w: Any, c: Any = None, bias: Any = None, **named: Any) -> Any:
        """Return the result for arrays of float64."""
        return _referred("x", {"x": x, "w": w, "c": c, "bias": bias}, named)

    @classmethod
    def is_differentiable(cls, request: Any) -> bool:
        """Return whether the derivative is known: not that of a function of the user."""
        return request.epilogue is None

    @classmethod
    def keeping(cls, request: Any) -> Sequence[str]:
        """Return what the derivative reads."""
        name = request.activation
        if name is None:
            return ("x", "w")
        return ("x", "w", "c", "bias") if ACTIVATIONS[name].keeps_input else ("x", "w", "out")


class _Dgrad(Dgrad):
    """The problem of `conv2d_dgrad`."""

    gradient, keeps = staticmethod(_gradient_of_dgrad), ("dy", "w")

    @staticmethod
    def reference(dy: Any, w: Any, c: Any = None, **named: Any) -> Any:
        """Return the result for arrays of float64."""
        return _referred("dx", {"dy": dy, "w": w, "c": c}, named)


class _Wgrad(Wgrad):
    """The problem of `conv2d_wgrad`."""

    gradient, keeps = staticmethod(_gradient_of_wgrad), ("dy", "x")

    @staticmethod
    def reference(dy: Any, x: Any, c: Any = None, **named: Any) -> Any:
        """Return the result for arrays of float64."""
        return _referred("dw", {"dy": dy, "x": x, "c": c}, named)


# -- what a user calls

CHOICES: dict[str, Any] = {"mode": MODES, "layout": tuple(LAYOUTS)}
NUMBERS = {"alpha": 1, "beta": 0}
WORDS = Words(
    "convolution",
    "convolve some of the images at a time",
    'what `explain` shows, or text: "tile=64x64x32,stages=2"',
)


@operator(
    _Fprop,
    arrays=("x", "w", "c", "bias", "out"),
    numbers=NUMBERS,
    choices={**CHOICES, "activation": lambda: (None, *ACTIVATIONS)},
    configs=GemmConfig,
    words=WORDS,
)
def conv2d(
    x: Any,
    w: Any,
    c: Any = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | str | tuple[Any, Any] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    mode: str = "cross_correlation",
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str | None = None,
    epilogue: Callable[..., Any] | None = None,
    out_dtype: DtypeLike | None = None,
    out: Any = None,
    layout: str = "NHWC",
    backend: str = "auto",
    config: GemmConfig | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operands' library
    """Return activation(alpha * (x convolved with w) + beta * c + bias).

    Args:
        x: images (N, H, W, C), of f16, bf16, tf32 (`cute.typed`), f32, f64, s8, u8, e4m3 or e5m2.
            Any strides, with contiguous channels.
        w: filters (K, R, S, C / groups), of the same type.
        c: (N, P, Q, K), of any type; not read if beta is 0.
        stride: between output pixels: a number, or one along H and one along W.
        padding: rows and columns of zeros around an image: a number, (along H, along W), ((top,
            bottom), (left, right)), "valid" (none), or "same": P is H / stride, rounded up, with
            the odd line below or to the right, as TensorFlow has it.
        dilation: between positions of the filter, as `stride`.
        groups: of channels and of filters, which are convolved apart.
        mode: "cross_correlation", as in torch, or "convolution", which turns the filter around.
        alpha: factor of the sums.
        beta: factor of c.
        bias: (K), added to each pixel.
        activation: None or a name: "relu", "gelu" ...; the error lists all.
        epilogue: a function (sums, ...) of registers in the place of alpha to activation; its other
            parameters are among c, bias, alpha and beta. It computes in f32, or f64.
        out_dtype: of the result; None: that of the operands (f32 for tf32, s32 for integers).
        out: where the result goes; None: a new array.
        layout: "NHWC", as above, or "NCHW", as torch has it: channels that are contiguous
            (channels_last) are read as they are, as the result's are; others are transposed first.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: changes to the configuration as text, "tile=64x64x32,stages=3".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    Sums are those of `gemm`; equal calls give equal bits. Raises CuteError.

    >>> import numpy as np
    >>> x = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> conv2d(x, np.ones((1, 2, 2, 1)))[0, :, :, 0]
    array([[ 8., 12.],
           [20., 24.]])
    """


@operator(
    _Dgrad,
    arrays=("dy", "w", "c", "out"),
    numbers=NUMBERS,
    choices=CHOICES,
    configs=GemmConfig,
    words=WORDS,
)
def conv2d_dgrad(
    dy: Any,
    w: Any,
    x_shape: Sequence[int],
    c: Any = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | str | tuple[Any, Any] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    mode: str = "cross_correlation",
    alpha: float = 1,
    beta: float = 0,
    out_dtype: DtypeLike | None = None,
    out: Any = None,
    layout: str = "NHWC",
    backend: str = "auto",
    config: GemmConfig | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operands' library
    """Return alpha * (the gradient of the images of `conv2d`) + beta * c.

    Args:
        dy: the gradient of the output (N, P, Q, K), of f16, bf16, tf32, f32 or f64.
        w: filters (K, R, S, C / groups), of the same type.
        x_shape: the shape of the images, (N, H, W, C), in the order of `layout`.
        c: of that shape; not read if beta is 0.
        stride: this and all others are those of `conv2d`.
        padding: see there.
        dilation: see there.
        groups: see there.
        mode: see there.
        alpha: see there.
        beta: see there.
        out_dtype: see there.
        out: see there.
        layout: see there.
        backend: see there.
        config: see there.
        checks: see there.
        stream: see there.

    The law: the sum of dy * conv2d(x, w) is that of conv2d_dgrad(dy, w) * x, for all x. With a
    stride, each residue class of lines is a kernel of its own. Raises CuteError.

    >>> import numpy as np
    >>> conv2d_dgrad(np.ones((1, 2, 2, 1)), np.ones((1, 2, 2, 1)), (1, 3, 3, 1))[0, :, :, 0]
    array([[1., 2., 1.],
           [2., 4., 2.],
           [1., 2., 1.]])
    """


@operator(
    _Wgrad,
    arrays=("dy", "x", "c", "out"),
    numbers=NUMBERS,
    choices=CHOICES,
    configs=GemmConfig,
    words=WORDS,
)
def conv2d_wgrad(
    dy: Any,
    x: Any,
    w_shape: Sequence[int],
    c: Any = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | str | tuple[Any, Any] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    mode: str = "cross_correlation",
    alpha: float = 1,
    beta: float = 0,
    out_dtype: DtypeLike | None = None,
    out: Any = None,
    layout: str = "NHWC",
    backend: str = "auto",
    config: GemmConfig | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operands' library
    """Return alpha * (the gradient of the filters of `conv2d`) + beta * c.

    Args:
        dy: the gradient of the output (N, P, Q, K), of f16, bf16, tf32, f32 or f64.
        x: images (N, H, W, C), of the same type.
        w_shape: the shape of the filters, (K, R, S, C / groups), in the order of `layout`.
        c: of that shape; not read if beta is 0.
        stride: this and all others are those of `conv2d`.
        padding: see there.
        dilation: see there.
        groups: see there.
        mode: see there.
        alpha: see there.
        beta: see there.
        out_dtype: see there.
        out: see there.
        layout: see there.
        backend: see there.
        config: see there.
        checks: see there.
        stream: see there.

    The law: the sum of dy * conv2d(x, w) is that of conv2d_wgrad(dy, x) * w, for all w. Blocks have
    parts of the pixels, and add their sums in a fixed order: equal calls give equal bits. Raises
    CuteError.

    >>> import numpy as np
    >>> x = np.arange(9.0).reshape(1, 3, 3, 1)
    >>> conv2d_wgrad(np.ones((1, 2, 2, 1)), x, (1, 2, 2, 1))[0, :, :, 0]
    array([[ 8., 12.],
           [20., 24.]])
    """
