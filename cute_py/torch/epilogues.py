"""Products with a function as their epilogue as operators of torch, each with its derivative.

The derivative of a function is a function, so one product gives all that is needed: it computes the
sums again, and from them and the gradients of the results those of the sums and of what the
function reads. It leaves the sums out where the derivative does not read them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.torch_tensors import NAMES, dtype_of_torch
from cute_py.dtypes.table import f32, f64
from cute_py.ops.epilogues import (
    FusedProduct,
    arguments_of,
    depends_on_code,
    operator_for,
    parameters_of,
)
from cute_py.ops.product import GEMM, gemm
from cute_py.torch.declared import DECLARED, Declared, torch_dtype
from cute_py.torch.gemm import of_operands, order_of

if TYPE_CHECKING:
    from cute_py.ops.operator import Operator
    from cute_py.plan.formula import Formula


def declare(ours: Operator) -> None:
    """Register the operator of an epilogue."""
    problem: Any = ours.problem
    problem.keeps = ("a", "b", *problem.reads)
    problem.gradient = staticmethod(partial(gradients, problem))
    Declared(ours).define()


def in_graph(function: Any, terms: dict[str, Any], named: dict[str, Any]) -> Any:
    """Return the result of a product that `torch.compile` traces."""
    form, given, rest = arguments_of(parameters_of(function), terms, named)
    short, names, outputs = signature_of(function, form)
    written = rest["out"] is not None or any(name in given for name in outputs)
    is_simple = depends_on_code(function) and isinstance(rest["config"], (str, type(None)))
    if written or rest["checks"] or not is_simple:
        return GEMM.varied_apart(function, terms, named)  # which ends the graph
    values: list[Any] = []
    for name in names:
        x = given[name] if name in given else rest[name]
        if name == "out_dtype" and x is not None:
            x = torch_dtype(GEMM.name, x if isinstance(x, str) else x.name)
        values.append("" if name == "checks" else x)
    result = getattr(torch.ops.cute_py, short)(*values)
    return dict(zip(outputs, result, strict=True)) if len(outputs) > 1 else result


def signature_of(function: Any, form: Any) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the name of the operator for an epilogue, and those of its arguments and results."""
    ours = operator_for(function, form)
    if ours.short not in DECLARED:
        declare(ours)
    return ours.short, DECLARED[ours.short].names, ("D", *ours.outputs[1:])


signature_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


def gradients(
    problem: type[FusedProduct], request: Any, *of_results: Any, **kept: Any
) -> dict[str, Any]:
    """Return the gradients of the arrays, by name.

    Args:
        problem: that of the operator.
        request: with shapes for the arrays.
        of_results: the gradients of the results; None where nobody used one.
        kept: the arrays.

    """
    a, b, reads = kept["a"], kept["b"], problem.reads
    kind = f64 if torch.float64 in (a.dtype, *[x.dtype for x in kept.values()]) else f32
    derivative = differentiated(problem.formula(kind), reads, problem.numbers)
    given = {name: kept[name] for name in reads}
    for name, g in zip(derivative.inputs[1 + len(reads) :], of_results, strict=False):
        given[name] = a.new_zeros((), dtype=getattr(torch, NAMES[kind.name])) if g is None else g
    x, y = (a, b) if derivative.reads(0) else (a[..., :0], b[..., :0, :])
    numbers = {name: getattr(request, name) for name in problem.numbers}
    found = gemm(
        x,
        y,
        epilogue=derivative,
        out_dtype=kind,
        backend=request.backend,
        dtype=request.dtype,
        fast_accum=request.fast_accum,
        **given,
        **numbers,
    )
    sums, *others = found.values() if isinstance(found, dict) else (found,)
    made = {name: g.sum_to_size(kept[name].shape) for name, g in zip(reads, others, strict=True)}

    def product(x: Any, y: Any, to: Any) -> Any:
        how = {"backend": request.backend, "fast_accum": request.fast_accum}
        return gemm(x, y, out_dtype=dtype_of_torch(to), **how)

    made["a"], made["b"] = of_operands(product, sums, (a, b), (order_of(a), order_of(b)))
    return made


def differentiated(function: Formula, reads: tuple[str, ...], numbers: tuple[str, ...]) -> Formula:
    """Return the gradients of the sums, as D, and of the arrays, as a function of the sums, the
    arrays, the gradients of the results, and the numbers.
    """
    count = len(reads)
    found = function.gradients(range(1 + count))
    first, inputs = 1 + count + len(numbers), found.inputs  # first: of the gradients
    order = [*range(1 + count), *range(first, len(inputs)), *range(1 + count, first)]
    names = [x if i < first else f"{x}_of_result" for i, x in enumerate(inputs)]
    outputs = ("D", *[f"gradient_of_{x}" for x in reads])
    return found.reordered([names[i] for i in order], order, outputs)
