"""The operator `torch.ops.cute_py.gemm`: `cute.ops.gemm` with its derivative and rules of torch."""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.flop_counter import register_flop_formula

from cute_py.calls.torch_tensors import NAMES
from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.ops.activations import activation
from cute_py.ops.product import GEMM as OURS
from cute_py.torch.declared import DECLARED, Declared
from cute_py.torch.operators import Gradient, cast, compose, public

if TYPE_CHECKING:
    from collections.abc import Callable


class _Gemm(Declared):
    """The declaration of products, which generated code calls in another way."""

    def described(self, *args: Any, **named: Any) -> Any:
        """Return the empty result; Inductor asks for it before it looks for a lowering."""
        lower(self.op)
        return super().described(*args, **named)


GEMM = _Gemm(OURS)
# the factors as numbers, and as tensors
ALPHA, BETA = ("Scalar alpha=1.0", "Tensor? alpha=None"), ("Scalar beta=0.0", "Tensor? beta=None")
ARGUMENTS, DTYPE = len(GEMM.names), GEMM.names.index("dtype")


def computed(a: Any, b: Any, c: Any = None, *more: Any, out: Any = None) -> Any:
    """Return the product of tensors without gradient."""
    is_batch = a.dim() > 2 == b.dim() and not a.is_nested and a.shape[-1] == b.shape[0]
    if is_batch and c is None and out is None and a.is_contiguous() and a.numel():
        rows = GEMM.computed(a.view(-1, a.shape[-1]), b, c, *more)  # no batch
        return rows.view(*a.shape[:-1], b.shape[-1])
    return GEMM.computed(a, b, c, *more, out=out)


Declared(activation.operator).define()
activated = DECLARED["activation"].op

# -- the derivative

WIDE = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_aten = torch.ops.aten
# of the activations that have derivatives of torch: (the gradient, what is kept) -> the gradient of
# the input; it can be differentiated
AGAIN = {
    "relu": lambda g, kept: _aten.threshold_backward(g, kept, 0),
    "gelu": _aten.gelu_backward,
    "silu": lambda g, x: g * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
    "tanh": _aten.tanh_backward,
    "sigmoid": _aten.sigmoid_backward,
}


def before(activation: str, kept: Any, g: Any) -> Any:
    """Return the gradient of the input of an activation from that of its result.

    Args:
        activation: its name.
        kept: its input, or its result where the derivative follows from that.
        g: the gradient of its result.

    Where a second derivative is wanted, torch computes it, by operators that have derivatives.
    """
    if torch.is_grad_enabled() and activation in AGAIN and kept.dtype is g.dtype:
        return AGAIN[activation](g, kept)
    return activated(kept, activation, g)


def _forward(ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
    """Return the result, and the pre-activation if the wanted gradients need it."""
    a, b, c, alpha, beta, bias, activation, _out, backend, _config, dtype, _checks, fast = args
    wanted, saved = ctx.needs_input_grad, None
    if dtype is not None and (wanted[0] or wanted[1]) and not as_dtype(dtype).is_float:
        raise refusal("torch-rounded", operation=public("cute_py::gemm"), dtype=dtype)
    with_input = activation in ACTIVATIONS and ACTIVATIONS[activation].keeps_input
    if with_input:
        result, saved = _with_input(run, args)
    else:
        result = run(*args)
        saved = result if activation is not None else None
    ctx.save_for_backward(a if wanted[1] else None, b if wanted[0] else None, saved)
    ctx.set_materialize_grads(False)
    ctx.activation, ctx.given = activation, (alpha, beta, backend, dtype, fast)
    ctx.of_a, ctx.of_b = (order_of(x) if w else None for x, w in zip((a, b), wanted, strict=False))
    ctx.of_c = (c.shape, c.dtype) if wanted[2] else None
    ctx.of_bias = bias.dtype if wanted[5] else None
    return (result, saved) if with_input else (result,)


def _with_input(run: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the result and the pre-activation, in the type of the result if that is wide, else in
    f32, which takes a second product.
    """
    a, b, c, alpha, beta, bias, activation, out_dtype, *rest = args
    terms = a, b, c, alpha, beta, bias
    if (out_dtype or a.dtype) in WIDE:
        before = run(*terms, None, out_dtype, *rest)
        return activated(before, activation), before
    return run(*args), run(*terms, None, torch.float32, *rest)


def _backward(ctx: Any, g: Any, of_saved: Any = None) -> tuple[Any, ...]:
    """Return the gradients that are wanted, from that of the result, and for second derivatives
    that of the product before the activation.
    """
    found: list[Any] = [None] * ARGUMENTS
    if g is None and of_saved is None:
        return tuple(found)
    a, b, saved = ctx.saved_tensors
    alpha, beta, backend, dtype, fast = ctx.given
    kind = None if dtype is None else as_dtype(dtype)
    a, b = widened(a, kind), widened(b, kind)
    if kind is not None and kind.bits == 8:
        dtype = None
    if g is not None:
        if g.dtype not in WIDE and (ctx.activation is not None or ctx.of_c or ctx.of_bias):
            g = g.to(torch.float32)  # torch has no functions of 8-bit floats
        if ctx.activation is not None:
            g = before(ctx.activation, saved, g)
    if of_saved is not None:
        g = of_saved if g is None else g + of_saved

    def product(x: Any, y: Any, kind: Any) -> Any:
        return ctx.run(x, y, None, alpha, 0.0, None, None, kind, backend, None, dtype, "", fast)

    found[0], found[1] = of_operands(product, g, (a, b), (ctx.of_a, ctx.of_b))
    if ctx.of_c is not None:
        found[2] = _summed(g if beta == 1 else g * beta, *ctx.of_c)
    if ctx.of_bias is not None:
        kind = ctx.of_bias
        sums = g.sum(tuple(range(g.dim() - 1)), dtype=kind if kind in WIDE else g.dtype)
        found[5] = _typed(sums, kind)
    return tuple(found)


def order_of(x: Any) -> tuple[Any, Any, bool]:
    """Return what the gradient of an operand depends on: its shape, type and order in memory."""
    return x.shape, x.dtype, _by_columns(x)


def of_operands(
    product: Callable[[Any, Any, Any], Any], g: Any, operands: Any, wanted: Any
) -> tuple[Any, Any]:
    """Return the gradients of operands a and b from that of their product.

    Args:
        product: (x, y, type of the result) -> x @ y.
        g: the gradient of a @ b.
        operands: a and b; None where the gradient of the other one is not wanted.
        wanted: for each, what `order_of` returns, or None.

    """
    (a, b), (of_a, of_b), found = operands, wanted, [None, None]
    if of_a is not None:  # g b^T, in the order in memory of a
        shape, kind, by_columns = of_a
        x, wide = _typed(g, b.dtype), _sum_type(kind, shape, g)
        made = product(b, x.mT, wide).mT if by_columns else product(x, b.mT, wide)
        found[0] = made if wide is kind and made.shape == shape else _summed(made, shape, kind)
    if of_b is not None:  # a^T g
        shape, kind, by_columns = of_b
        x, y = a, _typed(g, a.dtype)
        if len(shape) == 2 < a.dim():  # one matrix for the whole batch
            x, y = (z.reshape(prod(z.shape[:-1]), z.shape[-1]) for z in (x, y))
        wide = _sum_type(kind, shape, y)
        made = product(y.mT, x, wide).mT if by_columns else product(x.mT, y, wide)
        found[1] = made if wide is kind and made.shape == shape else _summed(made, shape, kind)
    return found[0], found[1]


def widened(x: Any, kind: Dtype | None) -> Any:
    """Return an operand of 8-bit floats in bf16, which has their values: in 8 bits, gradients would
    overflow, or become 0. `kind` is the type that the product reads it in, if that is another.
    """
    if x is None or (x.element_size() if kind is None else kind.bits // 8) > 1:
        return x
    if kind is not None:
        most = float(kind.max)
        x = x.clamp(-most, most).to(getattr(torch, NAMES[kind.name]))
    return x.bfloat16()


def _typed(x: Any, kind: Any) -> Any:
    return x if x.dtype is kind else x.to(kind)


def _sum_type(kind: Any, shape: Any, g: Any) -> Any:
    """Return the type of the gradient of an operand before it is summed over its batch."""
    is_batch = g.dim() > 2 and g.shape[:-2] != shape[:-2]
    return torch.float32 if is_batch and kind.itemsize < 4 else kind


def _summed(x: Any, shape: Any, kind: Any) -> Any:
    """Return x summed to the shape of an operand that was repeated, in its type."""
    return _typed(x if x.shape == shape else x.sum_to_size(shape), kind)


def _by_columns(x: Any) -> bool:
    """Return whether the columns of a matrix are contiguous, and its rows are not."""
    return bool(x.dim() > 1 and x.stride(-2) == 1 and x.stride(-1) != 1)


# -- torch.vmap


def _vmapped(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, int]:
    """Return the products of a batch, whose mode is the first of the result."""
    values = [*args, *list(GEMM.defaults.values())[len(args) :]]
    a, b, c, alpha, beta, bias, *rest = values
    dims: list[Any] = [*in_dims, *[None] * (ARGUMENTS - len(in_dims))]
    if dims[0] is None and dims[1] is None:  # only what is added differs
        a, dims[0] = a.expand(info.batch_size, *a.shape), 0
    rank = 2 + max(x.dim() - 2 - (d is not None) for x, d in ((a, dims[0]), (b, dims[1])))

    def spread(x: Any, dim: int | None, modes: int) -> Any:
        if dim is None:
            return x
        x = x.movedim(dim, 0)
        return x.reshape(x.shape[0], *[1] * (modes + 1 - x.dim()), *x.shape[1:])

    a, b = spread(a, dims[0], rank), spread(b, dims[1], rank)
    if c is not None:
        c = spread(c, dims[2], rank)
    if dims[5] is not None:  # each product has its own: a term like c
        row = spread(bias, dims[5], rank)
        c = row if c is None or beta == 0 else _added(c, beta, row)
        beta, bias = 1.0, None
        c = c.expand(*c.shape[:-2], a.shape[-2], b.shape[-1])
    return GEMM.op(a, b, c, alpha, beta, bias, *rest), 0


def _added(c: Any, beta: float, row: Any) -> Any:
    """Return beta c + row, not rounded to a type narrower than the kernel adds in."""
    kinds = {c.dtype, row.dtype}
    if torch.float64 in kinds:
        return beta * c.double() + row
    if any(kind.is_floating_point for kind in kinds) or not float(beta).is_integer():
        return beta * c.float() + row.float()
    return int(beta) * c.int() + row.int()


def _cast(args: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """Return the arguments in an autocast region; operands with a `dtype` of their own keep it."""
    return args if args[DTYPE:] and args[DTYPE] is not None else cast(args, dtype)


GEMM.define(computed, Gradient(_forward, _backward, keeps=True, again=True), _vmapped, _cast)
operator = GEMM.op


def _with_tensors(*args: Any, **named: Any) -> Any:
    """Return the result for factors that are tensors; refuse those that autograd follows."""
    values = list(args)
    for name in OURS.numbers:
        place = GEMM.names.index(name)
        values[place] = OURS.problem.number(name, values[place])
    return GEMM.into(*values, **named) if named else GEMM.op(*values)


for _which, _factors in {
    "Tensor_Scalar": (ALPHA[1], BETA[0]),
    "Scalar_Tensor": (ALPHA[0], BETA[1]),
    "Tensor_Tensor": (ALPHA[1], BETA[1]),
}.items():
    _schema = GEMM.numbers.replace(ALPHA[0], _factors[0]).replace(BETA[0], _factors[1])
    compose(f"cute_py::gemm.{_which}({_schema}) -> Tensor", _with_tensors)
    compose(f"cute_py::gemm.{_which}_out({_schema}, *, Tensor(a!) out) -> ()", _with_tensors)


def flops(a: Any, b: Any, *_more: Any, out_shape: Any = None, **_named: Any) -> int:
    """Return how many operations FlopCounterMode counts for operands of these shapes: a
    multiplication and an addition for each product of two elements, as for torch.mm.
    """
    return 2 * int(prod(out_shape)) * int(a[-1])


register_flop_formula(torch.ops.cute_py.gemm)(flops)  # as it is with all of its overloads


# -- Inductor
#
# Code that torch.compile generates calls the function of a known call, without torch's dispatcher,
# as it calls its own kernels. What the lowering does not take is left to the operator, as Inductor
# does by itself.

ENTRY = "_gemm_into"  # within `torch.ops.cute_py`, which all generated code can name
TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
TERMS = {"": (None, None), "c": (0, None), "bias": (None, 0), "c bias": (0, 1)}
LOWERING = "torch._inductor.lowering"
_lowered: list[Any] = []  # the operators that have a lowering
_known, _asked = OURS.known, OURS.asked


def into(
    a: Any,
    b: Any,
    *more: Any,
    out: Any,
    terms: str,
    alpha: float,
    beta: float,
    activation: str | None,
    dtype: str | None,
) -> None:
    """Write activation(alpha a b + beta c + bias) to `out`, of tensors without gradient.

    Args:
        a: (M, K).
        b: (K, N).
        more: those of c and bias that `terms` names.
        out: where the result goes.
        terms: "", "c", "bias" or "c bias".
        alpha: this, and all below, as `cute.ops.gemm` takes them.
        beta: factor of c.
        activation: its name, or None.
        dtype: the type that the operands are read in.

    """
    c, bias = (None if i is None else more[i] for i in TERMS[terms])
    given = (a, b, c, bias, out, alpha, beta, activation, None, "auto", None, dtype, False, False)
    if _known.replay(given) is None:
        _asked(given)


setattr(torch.ops.cute_py, ENTRY, into)  # also for code that another process generated


def lower(op: Any) -> None:
    """Give the operator of products its lowering, once Inductor is loaded."""
    if _lowered == [op] or LOWERING not in sys.modules:
        return
    lowering: Any = sys.modules[LOWERING]
    if not hasattr(lowering, "register_lowering"):  # it is being loaded
        return
    _lowered[:] = [op]
    otherwise = lowering.fallback_handler(op, add_to_fallback_set=False)

    def lowered(*args: Any, **named: Any) -> Any:
        found = _extern(op, args, named)
        return otherwise(*args, **named) if found is None else found

    lowering.register_lowering(op, type_promotion_kind=None)(lowered)


def _extern(op: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the node of a product in Inductor's graph; None where the operator is called."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    names = [x.name for x in op._schema.arguments]
    given = {x.name: x.default_value for x in op._schema.arguments}
    given |= dict(zip(names, args, strict=False)) | named
    a, b, c, bias = (given[name] for name in ("a", "b", "c", "bias"))
    alpha, beta = given["alpha"], given["beta"]
    usual = {"backend": "auto", "config": None, "checks": "", "fast_accum": False}
    kind = given["out_dtype"] or a.get_dtype()
    numbers = all(isinstance(x, (int, float)) for x in (alpha, beta))
    if (
        V.graph.cpp_wrapper
        or not numbers
        or given["dtype"] not in (None, "tf32")
        or any(given[name] != x for name, x in usual.items())
        or {a.get_dtype(), b.get_dtype(), kind} - TYPES
    ):
        return None
    c = None if beta == 0 else c
    held = {"a": a, "b": b, "c": c, "bias": bias}
    inputs = [ir.ExternKernel.realize_input(x) for x in held.values() if x is not None]
    terms = " ".join([name for name in ("c", "bias") if held[name] is not None])
    rows, batch = a.get_size(), b.get_size()
    if len(rows) == len(batch) == 2:
        size = [rows[0], batch[1]]
    else:
        size = list(V.graph.current_node.meta["val"].shape)
        size = [x.node.expr if isinstance(x, torch.SymInt) else x for x in size]
    strides = ir.FlexibleLayout.contiguous_strides(size)
    layout = ir.FixedLayout(a.get_device(), kind, size, strides)
    how = {"terms": terms, "alpha": alpha, "beta": beta}
    how |= {name: given[name] for name in ("activation", "dtype")}
    node = ir.ExternKernelOut(
        layout, inputs, kwargs=how, python_kernel_name=f"torch.ops.cute_py.{ENTRY}"
    )
    return ir.TensorBox.create(node)
