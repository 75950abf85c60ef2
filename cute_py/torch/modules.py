"""Modules and functions of torch by our operators: `Linear` and its function, `conv2d`, `Conv2d`;
`swap_linear`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from cute_py.errors import refusal
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.ops.product import GEMM
from cute_py.torch.declared import torch_dtype
from cute_py.torch.gemm import activated, before, operator
from cute_py.torch.operators import TENSORS, cast
from cute_py.torch.rows import product

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx

LAYER = "cute_py.torch.Linear"
FORWARD: Any = torch.autograd.forward_ad
WIDE = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
# activations that keep their input for the derivative are nodes of their own, so that autograd
# frees it before it computes the products; the derivative of the others follows from the result
APART = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
FUSED = frozenset({None, *[name for name, x in ACTIVATIONS.items() if not x.keeps_input]})
_inner: Any = torch._C
_AUTOCAST = _inner.DispatchKeySet(_inner.DispatchKey.AutocastCUDA) | _inner.DispatchKeySet(
    _inner.DispatchKey.AutocastCPU
)
_modes = _inner._len_torch_dispatch_stack
_transforms, _tracing = _inner._are_functorch_transforms_active, _inner._get_tracing_state
_autocast, _is_grad, _is_compiling = (
    _inner._is_any_autocast_enabled,
    torch.is_grad_enabled,
    torch.compiler.is_compiling,
)


_fp32_precision: Any = getattr(_inner, "_get_fp32_precision_getter", None)  # torch 2.9


def uses_tf32() -> bool:
    """Return whether torch multiplies matrices of f32 on a GPU in tf32, as `allow_tf32` and
    `torch.set_float32_matmul_precision` ask for.
    """
    if _fp32_precision is not None:
        return bool(_fp32_precision("cuda", "matmul") == "tf32")
    return bool(torch.get_float32_matmul_precision() != "highest")


uses_tf32._dynamo_marked_constant = True  # type: ignore[attr-defined]  # graphs are guarded by it


def read_as(x: Any) -> str | None:
    """Return the type that a product reads its operands in, None for their own."""
    return "tf32" if x.dtype is torch.float32 and x.is_cuda and uses_tf32() else None


def linear(x: Any, weight: Any, bias: Any = None, activation: str | None = None) -> Any:
    """Return activation(x @ weight.T + bias).

    Args:
        x: (..., in_features).
        weight: (out_features, in_features), of the same type.
        bias: (out_features) or None.
        activation: as `cute.ops.gemm` takes it.

    Raises CuteError where `cute.ops.gemm` does.
    """
    if _is_compiling():
        return by_operators(x, weight, bias, activation)
    if torch.overrides.has_torch_function((x, weight, bias)):
        given = x, weight, bias
        return torch.overrides.handle_torch_function(linear, given, *given, activation)
    if not is_plain() or not is_dense(x, weight, bias):
        if x.layout is torch.jagged:
            return _of_jagged(x, weight, bias, activation)
        return by_operators(x, weight, bias, activation)
    if _autocast() and torch.is_autocast_enabled(x.device.type):
        return _under_autocast(x, weight, bias, activation)
    if not _is_followed(x, weight, bias):
        return product(x, weight, "nt", bias, activation, read_as(x))
    if activation in APART:
        return APART[activation](linear(x, weight, bias))
    if weight.dtype not in WIDE or activation not in FUSED:
        return by_operators(x, weight, bias, activation)
    return _Linear.apply(x, weight, bias, activation, read_as(x))


def by_operators(x: Any, weight: Any, bias: Any, activation: str | None) -> Any:
    """Return the same by the operators of torch, which have rules for all modes."""
    if activation in APART and _is_followed(x, weight, bias):
        return APART[activation](by_operators(x, weight, bias, None))
    more = () if (kind := read_as(x)) is None else (None, "auto", None, kind)
    rows = x if x.dim() == 2 else _rows(x)
    result = operator(rows, weight.t(), None, 1.0, 0.0, bias, activation, *more)
    return result if rows is x else result.view(*x.shape[:-1], result.shape[-1])


def _rows(x: Any) -> Any:
    """Return all rows as one matrix."""
    return x.flatten(0, -2) if x.dim() > 1 else x[None]


def _of_jagged(x: Any, weight: Any, bias: Any, activation: str | None) -> Any:
    """Return the result for a nested tensor whose rows are stored one after the other."""
    made = linear(x.values(), weight, bias, activation)
    return torch.nested.nested_tensor_from_jagged(made, x.offsets(), lengths=x.lengths())


def _is_followed(x: Any, weight: Any, bias: Any) -> bool:
    """Return whether the result has a gradient."""
    followed = x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    return followed and _is_grad()


def is_plain() -> bool:
    """Return whether calls do what they say: no mode, transform or tracer is on, and no tensor has
    a tangent.
    """
    return not (_modes() or _transforms() or FORWARD._current_level >= 0 or _tracing() is not None)


def is_dense(x: Any, weight: Any, bias: Any) -> bool:
    """Return whether tensors are of torch's own types, with memory on a GPU or the host."""
    return (
        x.__class__ in TENSORS
        and weight.__class__ in TENSORS
        and (bias is None or bias.__class__ in TENSORS)
        and x.layout is torch.strided
        and not x.is_nested
        and not x.is_meta
    )


def _under_autocast(x: Any, weight: Any, bias: Any, activation: str | None) -> Any:
    """Return the result of operands in the type of an autocast region, as torch casts them."""
    kind = torch.get_autocast_dtype(x.device.type)
    (x,) = cast((x,), kind)
    weight, bias = (y if y is None or y.dtype is kind else _cached(y, kind) for y in (weight, bias))
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return linear(x, weight, bias, activation)


def _cached(x: Any, kind: Any) -> Any:
    """Return a parameter in the type of an autocast region: the one that torch keeps until the
    region ends, if it can be had, as an operator gets it that leaves its operand as it is.
    """
    if x.is_cuda and x.dtype is torch.float32 and x.requires_grad and x.is_leaf:
        found = torch._VF.einsum("ij" if x.dim() == 2 else "i", [x])
        if found.dtype is kind:
            return found
    return cast((x,), kind)[0]


class _Linear(torch.autograd.Function):  # type: ignore[misc]
    """activation(x @ weight.T + bias) of plain tensors, where autograd follows one."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, x: Any, weight: Any, bias: Any, activation: Any, kind: Any
    ) -> Any:
        """Return the result; keep the operands, and the result if the activation needs it."""
        result = product(x, weight, "nt", bias, activation, kind)
        wanted = ctx.needs_input_grad
        kept = x if wanted[1] else None, weight if wanted[0] else None
        if activation is None:
            ctx.save_for_backward(*kept)
        else:
            ctx.save_for_backward(*kept, result)
        ctx.activation, ctx.kind, ctx.of_bias = activation, kind, None
        if bias is not None and bias.dtype is not result.dtype:
            ctx.of_bias = bias.dtype
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Return the gradients that are wanted."""
        x, weight, *result = ctx.saved_tensors
        activation = ctx.activation
        if _is_grad() or not is_plain() or _is_compiling() or g.__class__ not in TENSORS:
            return _gradients(ctx, g, x, weight, *result)
        if _autocast():
            with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
                return _Linear.backward(ctx, g)
        if activation is not None:
            g = activated(result[0], activation, g)
        return (
            None if weight is None else product(g, weight, "nn", None, None, ctx.kind),
            None if x is None else product(g, x, "tn", None, None, ctx.kind),
            _summed(g, ctx.of_bias) if ctx.needs_input_grad[2] else None,
            None,
            None,
        )


def _summed(g: Any, kind: Any) -> Any:
    """Return the sum over all rows, the gradient of a bias; kind: its type, None for that of g."""
    return g.sum(tuple(range(g.dim() - 1)), dtype=kind) if g.dim() > 1 else g


def _gradients(ctx: Any, g: Any, x: Any, weight: Any, result: Any = None) -> Any:
    """Return the gradients by operators of torch, which have derivatives, and rules for modes."""
    if ctx.activation is not None:
        g = before(ctx.activation, result, g)
    of_x = of_weight = None
    if weight is not None:
        of_x = by_operators(g, weight.t(), None, None)
    if x is not None:
        of_weight = operator(_rows(g).t(), _rows(x), dtype=ctx.kind)
    of_bias = _summed(g, ctx.of_bias) if ctx.needs_input_grad[2] else None
    return of_x, of_weight, of_bias, None, None


# -- layers


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """activation(x @ weight.T + bias), with the parameters and the state dict of torch.nn.Linear.

    Args:
        in_features, out_features, bias, device: as torch.nn.Linear takes them.
        dtype: the same; or one of ours, as `cute.dtype` takes it.
        activation: as `cute.ops.gemm` takes it.

    Raises CuteError for another activation, and where `cute.ops.gemm` does.
    """

    activation: str | None = None  # also of a layer that becomes one by `__class__`

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        activation: str | None = None,
    ) -> None:
        """Make the parameters, initialised as torch does."""
        GEMM.require_choice("activation", activation)
        if dtype is not None and not isinstance(dtype, torch.dtype):
            dtype = torch_dtype(LAYER, dtype)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        """Return the result (..., out_features) for x (..., in_features)."""
        held = self._parameters  # to find an attribute there costs nine times as much
        if "weight" in held and "bias" in held:
            return linear(x, held["weight"], held["bias"], self.activation)
        return linear(x, self.weight, self.bias, self.activation)

    def __prepare_scriptable__(self) -> None:
        """Refuse torch.jit.script, which asks for this, and knows no Python of ours."""
        raise refusal("torch-script", operation="torch.jit.script", layer=LAYER)

    def extra_repr(self) -> str:
        """Return torch's text, with the activation."""
        return f"{super().extra_repr()}, activation={self.activation!r}"


class Swapped(NamedTuple):
    """What `swap_linear` did.

    Attributes:
        layers: the names of the layers that now use our product.
        left: the names of other layers derived from torch.nn.Linear -> why they are as before.
    """

    layers: tuple[str, ...]
    left: dict[str, str]


def swap_linear(model: torch.nn.Module) -> Swapped:
    """Make every torch.nn.Linear in a model a `Linear`, in place, and say which ones.

    Parameters, hooks and the state dict stay the same. Layers of a class derived from
    torch.nn.Linear are left as they are, since their `forward` may do something else.

    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    >>> swap_linear(model).layers
    ('0', '2')
    """
    layers, left = list[str](), dict[str, str]()
    for name, module in model.named_modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = Linear
            layers.append(name)
        elif isinstance(module, torch.nn.Linear) and not isinstance(module, Linear):
            left[name] = f"a {type(module).__name__}, which may compute something else"
    return Swapped(tuple(layers), left)


# -- convolutions


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return torch.nn.functional.conv2d(input, weight, bias, ...) by `cute.ops.conv2d`.

    Args:
        input: (N, C, H, W), or (C, H, W). Channels that are contiguous (torch.channels_last) are
            read as they are; others are transposed first.
        weight: (K, C / groups, R, S), alike.
        bias: (K), or None.
        stride: a number, or two.
        padding: a number, two, "valid" or "same".
        dilation: a number, or two.
        groups: of channels and of filters.

    The result has contiguous channels. It works with autograd, `torch.compile` and autocast. Raises
    CuteError.
    """
    images = input if input.dim() != 3 else input[None]
    words = {"valid": [0], "same": [-1]}
    pads = words.get(padding, [-2]) if isinstance(padding, str) else padding
    result = torch.ops.cute_py.conv2d(
        images,
        weight,
        stride=stride,
        padding=pads,
        dilation=dilation,
        groups=groups,
        bias=bias,
        layout="NCHW",
    )
    return result if input.dim() != 3 else result[0]


class Conv2d(torch.nn.Conv2d):  # type: ignore[misc]
    """torch.nn.Conv2d, with its arguments, parameters and state dict, by `cute.ops.conv2d`."""

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        """Return the result; other modes of padding than zeros are torch's."""
        padding = self.padding
        if self.padding_mode != "zeros":
            sides = self._reversed_padding_repeated_twice
            input = torch.nn.functional.pad(input, sides, mode=self.padding_mode)
            padding = 0
        return conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)
