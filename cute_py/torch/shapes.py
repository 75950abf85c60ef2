"""The results of an operator from the facts of its operands: for tensors without memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.arrays import dtype_of
from cute_py.calls.torch_tensors import NAMES
from cute_py.errors import refusal
from cute_py.ops.libraries import gpu_at
from cute_py.ops.without_gpu import Outline, Outlines

if TYPE_CHECKING:
    from cute_py.ops.operator import Operator
    from cute_py.ops.problem import Problem

USUAL = 512  # what a size that is a symbol counts as


def described(operator: Operator, given: Any) -> Any:  # a torch.Tensor, or several
    """Return the empty results of a request, or the outputs; sizes may be symbols.

    Raises CuteError where tensors with memory do, except where that depends on addresses.
    """
    given = given._replace(**{x: _known(getattr(given, x)) for x in operator.numbers})
    operator.require_known(given)
    tensors = {name: x for name in operator.arrays if (x := getattr(given, name)) is not None}
    if len({x.is_meta for x in tensors.values()}) > 1:
        raise refusal("argument-tensor", operation="kernel", type="Tensor")
    operator.require_place({name: x.is_cuda for name, x in tensors.items()}, given.backend)
    operator.require_one_gpu({name: x.device.index for name, x in tensors.items() if x.is_cuda})
    for x in tensors.values():
        dtype_of(x)  # the host looks at all types first
    first = given[0]
    library = Outlines(operator, None, on_host=False, converts=True)
    found = operator.problem(given, library)
    if getattr(given, "config", None) is not None:
        _require_kernel(operator, given, found)
    results = []
    for name, (shape, kind) in found.results.items():
        out = getattr(given, name)
        dtype = getattr(torch, NAMES[kind.name])
        results.append(first.new_empty(shape, dtype=dtype) if out is None else out)
    return results[0] if len(results) == 1 else tuple(results)


def _known(number: Any) -> Any:
    """Return a factor; one that is a symbol counts as 1, unless it is known to be 0."""
    if isinstance(number, (torch.SymInt, torch.SymFloat)):
        return 0.0 if number == 0 else 1.0
    return number


def _require_kernel(operator: Operator, given: Any, found: Problem) -> None:
    """Refuse a configuration that is given where no kernel can be traced for it, as the operator
    does of tensors with memory. Where sizes are symbols, it is tried with others.
    """
    first = given[0]
    if first.is_cuda and not torch.cuda.is_available():  # nobody knows which GPU it will be
        return
    outlines = {
        name: x if x is None else _outline(x)
        for name in operator.arrays
        if name not in operator.outputs
        for x in [getattr(given, name)]
    }
    a, b = outlines.get("a"), outlines.get("b")
    if (
        a is not None
        and b is not None
        and given.c is given.out is None
        and len(a.shape) > 2 == len(b.shape)
        and _is_dense(first)
    ):  # one product
        rows = Outline.compact((prod(a.shape[:-1]), a.shape[-1]), a.kind)
        outlines["a"] = replace(rows, address=a.address)
    request = given._replace(**outlines, **dict.fromkeys(operator.outputs))
    if "out_dtype" in given._fields:
        request = request._replace(out_dtype=found.kind)
    gpu = gpu_at(first.device.index) if first.is_cuda else None
    problem = operator.problem(request, Outlines(operator, gpu, converts=True))
    if not problem.is_known:
        call = problem.call()
        if 0 not in problem.shape:
            call.plan()


def _is_dense(x: Any) -> bool:
    """Return whether a tensor has no gaps; one whose sizes are symbols is taken to have none."""
    return not isinstance(x.numel(), int) or bool(x.is_contiguous())


def _outline(x: Any) -> Outline:
    """Return the outline of a tensor; one with symbols is taken to have no gaps."""
    kind, sizes = dtype_of(x), (*x.shape, *x.stride(), x.storage_offset())
    if all(isinstance(n, int) for n in sizes):
        address = x.storage_offset() * x.element_size()
        return Outline(kind, tuple(x.shape), tuple(x.stride()), address)
    shape = tuple([n if isinstance(n, int) else USUAL for n in x.shape])
    first, last = x.stride()[-2:] if len(shape) > 1 else (0, 1)
    if isinstance(first, int) and first == 1 and not (isinstance(last, int) and last == 1):
        return Outline.compact((*shape[:-2], shape[-1], shape[-2]), kind).swapaxes(-1, -2)
    return Outline.compact(shape, kind)
