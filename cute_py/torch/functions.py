"""Operators of torch for products with a function as their epilogue, each with its own derivative.

The derivative of a function is a function, so one product gives all that is needed: it computes the
sums again, and from them and the gradients of the results those of the sums and of what the
function reads. It leaves the sums out where the derivative does not read them.
"""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.torch_tensors import dtype_of_torch
from cute_py.dtypes.table import Dtype, f32, f64
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal
from cute_py.ops.epilogues import (
    OWN,
    FusedProduct,
    arguments_of,
    combined_of,
    depends_on_code,
    operator_for,
    parameters_of,
    spread_of,
    with_combined,
    without_source,
)
from cute_py.ops.product import GEMM as OURS
from cute_py.ops.product import gemm as product_of
from cute_py.plan.pairs import gradients as gradients_of_pairs
from cute_py.torch.declared import DECLARED, NAMED, Declared, torch_dtype
from cute_py.torch.gemm import of_operands, order_of, widened
from cute_py.torch.operators import public

if TYPE_CHECKING:
    from cute_py.ops.operator import Operator
    from cute_py.plan.formula import Formula

HERE = __name__.partition(".")[0]


def declare(ours: Operator) -> None:
    """Register the operator of an epilogue."""
    problem: Any = ours.problem
    problem.keeps = ("a", "b", *problem.reads)
    problem.gradient = staticmethod(partial(gradients, problem))
    Declared(ours).define()


def in_graph(function: Any, terms: dict[str, Any], own: tuple[Any, ...]) -> Any:
    """Return the result of a product that `torch.compile` traces."""
    if function is None:
        return OURS.varied_apart(function, terms, own)  # which refuses it
    if type(function) is FunctionType:
        repr(function)  # ends the graph if a default, or a variable around it, is no constant
        _note_helpers(function)
    named = without_source(function, terms, dict(zip(OWN, own, strict=True)))
    form, given, rest = arguments_of(parameters_of(function), terms, named)
    found = signature_of(function, form)
    is_simple = depends_on_code(function) and isinstance(rest["config"], (str, type(None)))
    is_simple = (
        is_simple and isinstance(rest["out_dtype"], NAMED) and isinstance(rest["dtype"], NAMED)
    )
    if found is None or rest["checks"] or not is_simple:
        return OURS.varied_apart(function, terms, own)  # which ends the graph
    short, names, outputs = found
    if rest["out"] is not None or any(name in given for name in outputs):
        return OURS.varied_apart(function, terms, own)
    values: list[Any] = []
    for name in names:
        x = given[name] if name in given else rest[name]
        if name == "out_dtype" and x is not None:
            x = torch_dtype(OURS.name, x if isinstance(x, str) else x.name)
        elif name == "dtype" and isinstance(x, Dtype):
            x = x.name
        values.append("" if name == "checks" else x)
    result = getattr(torch.ops.cute_py, short)(*values)
    if len(outputs) == 1:
        return result
    return with_combined(
        dict(zip(outputs, result, strict=True)), combined_of(function), {}, rest["backend"]
    )


def _note_helpers(function: Any) -> None:
    """Let a graph depend on the functions that a function calls by their global names."""
    try:
        function.__globals__  # noqa: B018
    except AttributeError:  # it is made in the graph
        return
    for way in helpers_of(function):
        found = function
        for name in way:
            found = found.__globals__[name]
        assert type(found) is FunctionType  # this looks at it


def helpers_of(function: Any) -> tuple[tuple[str, ...], ...]:
    """Return the ways to functions of the user that a function calls: global names, each in the
    module of the one before.
    """
    found, seen = list[tuple[str, ...]](), {function}
    left: list[tuple[tuple[str, ...], Any]] = [((), function)]
    while left:
        way, caller = left.pop()
        for name in caller.__code__.co_names:
            x: Any = caller.__globals__.get(name)
            own = type(x) is not FunctionType or str(x.__module__).partition(".")[0] == HERE
            if not own and x not in seen:
                seen.add(x)
                found.append((*way, name))
                left.append((found[-1], x))
    return tuple(found)


helpers_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


def signature_of(function: Any, form: Any) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return the name of the operator for an epilogue, and those of its arguments and results; None
    where there is none, which the call refuses.
    """
    try:
        ours = operator_for(function, form)
    except CuteError:
        return None
    if ours.short not in DECLARED:
        declare(ours)
    return ours.short, DECLARED[ours.short].names, ("D", *ours.outputs[1:])


signature_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


def gradients(
    problem: type[FusedProduct], request: Any, /, *of_results: Any, **kept: Any
) -> dict[str, Any]:
    """Return the gradients of the arrays, by name.

    Args:
        problem: that of the operator.
        request: with shapes for the arrays.
        of_results: the gradients of the results; None where nobody used one.
        kept: the arrays.

    """
    a, b, reads, dtype = kept["a"], kept["b"], problem.reads, request.dtype
    given_as = None if dtype is None else as_dtype(dtype)
    if given_as is not None and a.is_floating_point() and not given_as.is_float:
        raise refusal("torch-rounded", operation=public("cute_py::gemm"), dtype=dtype)
    kind = f64 if torch.float64 in (a.dtype, *[x.dtype for x in kept.values()]) else f32
    used = [g is not None for g in of_results]
    columns = None
    if problem.pairs:
        shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        columns = problem.columns([spread_of(kept[x].shape, shape, pairs=True) for x in reads])
    derivative = differentiated(problem.formula(kind), reads, problem.numbers, used, columns)
    given = {name: kept[name] for name in reads}
    names = derivative.inputs[1 + len(reads) :]
    given |= zip(names, [g for g in of_results if g is not None], strict=False)
    x, y = (a, b) if derivative.reads(0) else (a[..., :0], b[..., :0, :])
    numbers = {name: getattr(request, name) for name in problem.numbers}
    how = {"backend": request.backend, "fast_accum": request.fast_accum}
    found = product_of(
        x, y, epilogue=derivative, out_dtype=kind, dtype=dtype, **how, **given, **numbers
    )
    sums, *others = found.values() if isinstance(found, dict) else (found,)
    made = {name: g.sum_to_size(kept[name].shape) for name, g in zip(reads, others, strict=True)}
    how["dtype"] = None if given_as is not None and given_as.bits == 8 else dtype

    def product(x: Any, y: Any, to: Any) -> Any:
        return product_of(x, y, out_dtype=dtype_of_torch(to), **how)

    wide = widened(a, given_as), widened(b, given_as)
    made["a"], made["b"] = of_operands(product, sums, wide, (order_of(a), order_of(b)))
    return made


def differentiated(
    function: Formula,
    reads: tuple[str, ...],
    numbers: tuple[str, ...],
    used: Any = None,
    columns: Any = None,
) -> Formula:
    """Return the gradients of the sums, as D, and of the arrays, as a function of the sums, the
    arrays, the gradients of the results (of those `used`, if it is given), and the numbers.
    `columns`: those that each input of a function of pairs stands for.
    """
    count = len(reads)
    used = [True] * len(function.results) if used is None else used
    found = gradients_of_pairs(function, columns, range(1 + count), used)
    first, inputs = 1 + count + len(numbers), found.inputs  # first: of the gradients
    order = [*range(1 + count), *range(first, len(inputs)), *range(1 + count, first)]
    own, stem = inputs[:first], "gradient"
    while any(x.startswith(stem) for x in own):
        stem += "_"
    names = [*own, *[f"{stem}{i}_of_result" for i in range(len(inputs) - first)]]
    outputs = ("D", *[f"{stem}_of_{x}" for x in reads])
    return found.reordered([names[i] for i in order], order, outputs)
