"""The result of a product from the facts of its operands: for tensors without memory."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.arrays import dtype_of
from cute_py.calls.torch_tensors import NAMES
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.ops.libraries import Library, gpu_at
from cute_py.ops.operands import is_apart, shown
from cute_py.ops.product import (
    ARRAYS,
    OPERATION,
    Product,
    require_known,
    require_one_gpu,
    require_place,
)
from cute_py.ops.without_gpu import Outline, Outlines

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.ops.product import Request

USUAL = 512  # what a size that is a symbol counts as


def result_of(given: Request) -> Any:  # a torch.Tensor
    """Return the empty result of a request, or `out`; sizes may be symbols.

    Raises CuteError where the product of tensors with memory does, except where that depends on
    addresses.
    """
    given = given._replace(alpha=_known(given.alpha), beta=_known(given.beta))
    require_known(given)
    tensors = {name: x for name in ARRAYS if (x := getattr(given, name)) is not None}
    if len({x.is_meta for x in tensors.values()}) > 1:
        raise refusal("argument-tensor", operation="kernel", type="Tensor")
    require_place({name: x.is_cuda for name, x in tensors.items()}, given.backend)
    require_one_gpu({name: x.device.index for name, x in tensors.items() if x.is_cuda})
    for x in tensors.values():
        dtype_of(x)  # the host looks at all types first
    found = _Described(given, _Facts(OPERATION, not given.a.is_cuda))
    if given.config is not None:
        _require_kernel(given, found)
    if given.out is not None:
        return given.out
    return given.a.new_empty(found.shape, dtype=getattr(torch, NAMES[found.kind.name]))


def _known(number: Any) -> Any:
    """Return a factor; one that is a symbol counts as 1, unless it is known to be 0."""
    if isinstance(number, (torch.SymInt, torch.SymFloat)):
        return 0.0 if number == 0 else 1.0
    return number


def _require_kernel(given: Request, found: Product) -> None:
    """Refuse a configuration that is given where no kernel can be traced for it, as the product of
    tensors with memory does. Where sizes are symbols, it is tried with others.
    """
    on_gpu = given.a.is_cuda
    if on_gpu and not torch.cuda.is_available():  # nobody knows which GPU it will be
        return
    a, b = _outline(given.a), _outline(given.b)
    c, bias = (x if x is None else _outline(x) for x in (given.c, given.bias))
    if len(a.shape) > 2 == len(b.shape) and c is given.out is None and _is_dense(given.a):
        rows = Outline.compact((prod(a.shape[:-1]), a.shape[-1]), a.kind)
        a = replace(rows, address=a.address)  # one product
    request = given._replace(a=a, b=b, c=c, bias=bias, out=None, out_dtype=found.kind)
    product = Product(request, Outlines(gpu_at(given.a.device.index) if on_gpu else None))
    is_empty = 0 in product.shape
    if on_gpu and is_empty:
        return
    call = product.call()
    if not is_empty:
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


class _Facts(Library):
    """Tensors without memory, of the host or of a GPU."""

    def __init__(self, operation: str, converts: bool) -> None:
        super().__init__(operation)
        self.converts = converts  # as the host does

    def read(self, x: Any, name: str, dtype: DtypeLike | None = None) -> tuple[Any, Dtype]:
        """Return a tensor, and the type that its elements are to be read as."""
        if not self.converts:
            return super().read(x, name, dtype)
        return x, dtype_of(x) if dtype is None else as_dtype(dtype)


class _Described(Product):
    """A product of which only shape and type are wanted."""

    def _side(self, x: Any, kind: Dtype) -> Any:
        return None

    def _require_memory(self, out: Any, shape: tuple[int, ...]) -> None:
        if self.library.converts and not is_apart(out):  # type: ignore[attr-defined]
            steps = tuple([step * out.element_size() for step in out.stride()])
            facts = {"shape": shown(shape), "strides": shown(steps)}
            raise refusal("ops-overlap", operation=OPERATION, **facts)
