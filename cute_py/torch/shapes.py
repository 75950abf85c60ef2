"""The result of a product from the facts of its operands: for tensors without memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.arrays import dtype_of
from cute_py.calls.torch_tensors import NAMES
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.config import changed, choose_config
from cute_py.ops.libraries import Library
from cute_py.ops.operands import is_apart, shown
from cute_py.ops.paths import tma_wanted
from cute_py.ops.product import (
    ARRAYS,
    OPERATION,
    Product,
    require_known,
    require_one_gpu,
    require_place,
)

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.ops.product import Request

USUAL = 512, 512, 512, 16  # M, N, K and alignment: what text for a configuration is tried with


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
    text = given.config
    if isinstance(text, str) and not tma_wanted(text):  # refuses text that is no configuration
        M, N, K, alignment = USUAL
        changed(choose_config(M, N, K, found.kinds, ("K", "MN"), (alignment, alignment)), text)
    if given.out is not None:
        return given.out
    return given.a.new_empty(found.shape, dtype=getattr(torch, NAMES[found.kind.name]))


def _known(number: Any) -> float:
    """Return a factor; one that is a symbol counts as 1, unless it is known to be 0."""
    if isinstance(number, (int, float)):
        return number
    return 0.0 if number == 0 else 1.0


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
