"""The operator `torch.ops.cute_py.gemm`: `cute.ops.gemm` with its derivative and rules of torch."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.arrays import TypedArray, dtype_of, unwrapped
from cute_py.calls.torch_tensors import NAMES, OPERATORS, dtype_of_torch
from cute_py.dtypes.table import Dtype
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.config import GemmConfig
from cute_py.ops import product
from cute_py.ops.libraries import reading
from cute_py.ops.product import (
    ARRAYS,
    KNOWN,
    OPERATION,
    TYPES,
    Request,
    factor,
    require_known,
)
from cute_py.torch.operators import Gradient, cast, compose, define, public
from cute_py.torch.shapes import result_of

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = (
    "Tensor a, Tensor b, Tensor? c=None, {}, {}, Tensor? bias=None, str? activation=None, "
    "ScalarType? out_dtype=None, str backend='auto', str? config=None, str? dtype=None, "
    "str checks='', bool fast_accum=False"
)
# the factors as numbers, and as tensors
ALPHA, BETA = ("Scalar alpha=1.0", "Tensor? alpha=None"), ("Scalar beta=0.0", "Tensor? beta=None")
NUMBERS = SCHEMA.format(ALPHA[0], BETA[0])
ARGUMENTS, DTYPE = 13, 10  # how many there are, and the place of `dtype`
FACTORS = {"alpha": 3, "beta": 4}  # their places
CONFIGS: dict[str, GemmConfig] = {}  # by their text: an operator of torch takes no objects


def computed(
    a: Any,
    b: Any,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    backend: str = "auto",
    config: str | None = None,
    dtype: str | None = None,
    checks: str = "",
    fast_accum: bool = False,
    *,
    out: Any = None,
) -> Any:
    """Return the product of tensors without gradient."""
    is_batch = a.dim() > 2 == b.dim() and not a.is_nested and a.shape[-1] == b.shape[0]
    if is_batch and c is None and out is None and a.is_contiguous() and a.numel():
        more = bias, activation, out_dtype, backend, config, dtype, checks, fast_accum
        rows = computed(a.view(-1, a.shape[-1]), b, c, alpha, beta, *more)  # no batch
        return rows.view(*a.shape[:-1], b.shape[-1])
    kind = None if out_dtype is None else dtype_of_torch(out_dtype)
    how: Any = None if config is None else CONFIGS.get(config, config)
    some = checks or False
    terms = c, bias, out, alpha, beta, activation, kind, backend, how, dtype, some, fast_accum
    found = KNOWN.replay(a, b, *terms)
    return product.computed(Request(a, b, *terms)) if found is None else found


def request(
    a: Any,
    b: Any,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: Any = None,
    backend: str = "auto",
    config: str | None = None,
    dtype: str | None = None,
    checks: str = "",
    fast_accum: bool = False,
    *,
    out: Any = None,
) -> Request:
    """Return the arguments of the operator as those of `cute.ops.gemm`."""
    kind = None if out_dtype is None else dtype_of_torch(out_dtype)
    chosen = None if config is None else CONFIGS.get(config, config)
    more = kind, backend, chosen, dtype, checks or False, fast_accum
    return Request(a, b, c, bias, out, alpha, beta, activation, *more)


def computed_into(*args: Any, **named: Any) -> None:
    """Write the product to `out`."""
    computed(*args, **named)


def described(*args: Any, **named: Any) -> Any:
    """Return the empty result, for tensors without memory."""
    return result_of(request(*args, **named))


def described_into(*args: Any, **named: Any) -> None:
    """Refuse what the product refuses, for tensors without memory."""
    result_of(request(*args, **named))


# -- the derivative

# (gradient, result or pre-activation) -> gradient of the pre-activation
DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda g, y: torch.ops.aten.threshold_backward(g, y, 0),
    "tanh": torch.ops.aten.tanh_backward,
    "sigmoid": torch.ops.aten.sigmoid_backward,
    "gelu": torch.ops.aten.gelu_backward,
    "silu": torch.ops.aten.silu_backward,
}
OF_INPUT: dict[str, Callable[[Any], Any]] = {  # whose derivative needs the pre-activation
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}
WIDE = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def _forward(ctx: Any, run: Callable[..., Any], *args: Any) -> Any:
    """Return the result, and the pre-activation if the wanted gradients need it."""
    a, b, c, alpha, beta, bias, activation, _out, backend, _config, dtype, _checks, fast = args
    wanted, saved = ctx.needs_input_grad, None
    if dtype is not None and (wanted[0] or wanted[1]) and not as_dtype(dtype).is_float:
        raise refusal("torch-rounded", operation=public("cute_py::gemm"), dtype=dtype)
    if activation in OF_INPUT:
        result, saved = _with_input(run, args)
    else:
        result = run(*args)
        saved = result if activation is not None else None
    ctx.save_for_backward(a if wanted[1] else None, b if wanted[0] else None, saved)
    ctx.set_materialize_grads(False)
    ctx.run, ctx.activation, ctx.given = run, activation, (alpha, beta, backend, dtype, fast)
    ctx.of_a = (a.shape, a.dtype, _by_columns(a)) if wanted[0] else None
    ctx.of_b = (b.shape, b.dtype, _by_columns(b)) if wanted[1] else None
    ctx.of_c = (c.shape, c.dtype) if wanted[2] else None
    ctx.of_bias = bias.dtype if wanted[5] else None
    return (result, saved) if activation in OF_INPUT else (result,)


def _with_input(run: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the result and the pre-activation, in the type of the result if torch can activate
    that, else in f32, which takes a second product.
    """
    a, b, c, alpha, beta, bias, activation, out_dtype, *rest = args
    terms = a, b, c, alpha, beta, bias
    if (out_dtype or a.dtype) in WIDE:
        before = run(*terms, None, out_dtype, *rest)
        return OF_INPUT[activation](before), before
    return run(*args), run(*terms, None, torch.float32, *rest)


def _backward(ctx: Any, g: Any, *_of_saved: None) -> tuple[Any, ...]:
    """Return the gradients that are wanted."""
    found: list[Any] = [None] * ARGUMENTS
    if g is None:
        return tuple(found)
    a, b, saved = ctx.saved_tensors
    alpha, beta, backend, dtype, fast = ctx.given
    kind = None if dtype is None else as_dtype(dtype)
    a, b = _widened(a, kind), _widened(b, kind)
    if kind is not None and kind.bits == 8:
        dtype = None
    if g.dtype not in WIDE and (ctx.activation is not None or ctx.of_c or ctx.of_bias):
        g = g.to(torch.float32)  # torch has no functions of 8-bit floats
    if ctx.activation is not None:
        g = DERIVATIVES[ctx.activation](g, saved.to(g.dtype))

    def product(x: Any, y: Any, kind: Any) -> Any:
        return ctx.run(x, y, None, alpha, 0.0, None, None, kind, backend, None, dtype, "", fast)

    if ctx.of_a is not None:  # g b^T, in the order in memory of a
        shape, kind, by_columns = ctx.of_a
        x, wide = _typed(g, b.dtype), _sum_type(kind, shape, g)
        made = product(b, x.mT, wide).mT if by_columns else product(x, b.mT, wide)
        found[0] = made if wide is kind and made.shape == shape else _summed(made, shape, kind)
    if ctx.of_b is not None:  # a^T g
        shape, kind, by_columns = ctx.of_b
        x, y = a, _typed(g, a.dtype)
        if len(shape) == 2 < a.dim():  # one matrix for the whole batch
            x, y = (z.reshape(prod(z.shape[:-1]), z.shape[-1]) for z in (x, y))
        wide = _sum_type(kind, shape, y)
        made = product(y.mT, x, wide).mT if by_columns else product(x.mT, y, wide)
        found[1] = made if wide is kind and made.shape == shape else _summed(made, shape, kind)
    if ctx.of_c is not None:
        found[2] = _summed(g if beta == 1 else g * beta, *ctx.of_c)
    if ctx.of_bias is not None:
        kind = ctx.of_bias
        sums = g.sum(tuple(range(g.dim() - 1)), dtype=kind if kind in WIDE else g.dtype)
        found[5] = _typed(sums, kind)
    return tuple(found)


def _widened(x: Any, kind: Dtype | None) -> Any:
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
    values = list(args) + list(_DEFAULTS[len(args) :])
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
    return operator(a, b, c, alpha, beta, bias, *rest), 0


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


_DEFAULTS = (None, None, None, 1.0, 0.0, None, None, None, "auto", None, None, "", False)

gradient = Gradient(_forward, _backward, keeps=True)
operator = define(
    f"cute_py::gemm({NUMBERS}) -> Tensor",
    computed,
    described,
    gradient=gradient,
    vmap=_vmapped,
    autocast=_cast,
)
# the operator of `out=`; torch.compile has it back as a pure function
into = define(
    f"cute_py::gemm.out({NUMBERS}, *, Tensor(a!) out) -> ()",
    computed_into,
    described_into,
    autocast=lambda args, _dtype: args,  # as torch.mm
)


def _with_tensors(*args: Any, **named: Any) -> Any:
    """Return the result for factors that are tensors; refuse those that autograd follows."""
    values = list(args)
    for name, place in FACTORS.items():
        values[place] = _factor(name, values[place])
    return into(*values, **named) if named else operator(*values)


for _which, _factors in {
    "Tensor_Scalar": (ALPHA[1], BETA[0]),
    "Scalar_Tensor": (ALPHA[0], BETA[1]),
    "Tensor_Tensor": (ALPHA[1], BETA[1]),
}.items():
    _schema = SCHEMA.format(*_factors)
    compose(f"cute_py::gemm.{_which}({_schema}) -> Tensor", _with_tensors)
    compose(f"cute_py::gemm.{_which}_out({_schema}, *, Tensor(a!) out) -> ()", _with_tensors)


# -- calls of `cute.ops.gemm`


def by_operator(given: Request) -> Any:
    """Return the result of a request with an operand that autograd follows, or in a mode."""
    require_known(given)
    a, b, c, bias = (_tensor(getattr(given, name), name) for name in ARRAYS[:-1])
    kind = as_dtype(given.dtype).name if given.dtype is not None else None
    if kind is None and any(isinstance(x, TypedArray) for x in (given.a, given.b)):
        first, second = dtype_of(given.a), dtype_of(given.b)
        if first is not second:
            raise refusal(
                "ops-dtype", operation=OPERATION, a=first, b=second, known=", ".join(TYPES)
            )
        kind = first.name
    config: Any = given.config
    if isinstance(config, GemmConfig):
        CONFIGS[str(config)] = config
        config = str(config)
    alpha, beta = _factor("alpha", given.alpha), _factor("beta", given.beta)
    out_dtype = None if given.out_dtype is None else _torch_dtype(as_dtype(given.out_dtype).name)
    more = given.activation, out_dtype, given.backend, config, kind, _checks(given.checks)
    args = a, b, c, alpha, beta, bias, *more, given.fast_accum
    if given.out is None:
        return operator(*args)
    into(*args, out=given.out)
    return given.out


def _factor(name: str, given: Any) -> Any:
    """Return a factor as a float; `torch.export` and make_fx pass symbols."""
    return given if isinstance(given, (torch.SymInt, torch.SymFloat)) else factor(name, given)


def _tensor(x: Any, name: str) -> Any:
    """Return an operand as a tensor."""
    x = unwrapped(x)
    if x is None or isinstance(x, torch.Tensor):
        return x
    with reading(x, name, OPERATION):
        return torch.as_tensor(x)


def _checks(given: bool | str) -> str:
    """Return the checks of the emulator as text."""
    if isinstance(given, str) or not given:
        return given or ""
    from cute_py.emulate.faults import CHECKS

    return ",".join(CHECKS)


def in_graph(given: Request) -> Any:
    """Return the result of a request that torch.compile traces; None where no operator takes it."""
    terms = given.a, given.b, given.c, given.bias, given.out
    for x in terms:
        if x is not None and not isinstance(x, torch.Tensor):
            return None
    kind: Any = given.out_dtype
    dtype: Any = given.dtype
    if isinstance(kind, Dtype):
        kind = kind.name
    if isinstance(dtype, Dtype):
        dtype = dtype.name
    texts = kind, dtype, given.config
    if given.checks or not all(x is None or isinstance(x, str) for x in texts):
        return None
    if given.a is None or given.b is None or isinstance(given.alpha, torch.Tensor):
        return None
    if isinstance(given.beta, torch.Tensor):
        return None
    wanted = None if kind is None else _torch_dtype(kind)
    more = given.activation, wanted, given.backend, given.config, dtype, "", given.fast_accum
    args = given.a, given.b, given.c, given.alpha, given.beta, given.bias, *more
    if given.out is None:
        return operator(*args)
    into(*args, out=given.out)
    return given.out


def _torch_dtype(name: str) -> Any:
    """Return the torch.dtype of a result; `torch.compile` calls this where it traces."""
    found = as_dtype(name)
    if found.name not in NAMES:
        raise refusal(
            "ops-out-dtype",
            operation=OPERATION,
            name="out_dtype",
            dtype=found,
            known=", ".join(NAMES),
        )
    return getattr(torch, NAMES[found.name])


_torch_dtype._dynamo_marked_constant = True  # type: ignore[attr-defined]
OPERATORS["gemm"] = by_operator, in_graph
