"""How code that torch.compile generates by Inductor calls a product: the function of a known call,
without torch's dispatcher, as it calls its own kernels.

What the lowering does not take is left to the operator of torch, as Inductor would do by itself.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from cute_py.ops.product import GEMM

ENTRY = "_gemm_into"  # within `torch.ops.cute_py`, which all generated code can name
TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
TERMS = {"": (None, None), "c": (0, None), "bias": (None, 0), "c bias": (0, 1)}
LOWERING = "torch._inductor.lowering"
_lowered: list[Any] = []  # the operators that have a lowering
_known, _asked = GEMM.known, GEMM.asked


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
