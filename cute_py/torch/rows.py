"""`product`: a product of all rows of tensors (..., N) at once, answered by one check.

It is `cute.ops.gemm` for callers that know already that autograd follows no operand and that no
mode of torch is on: no view is made, as `form` says which operand is transposed, and the result
gets its modes from the first operand. So a known call compares the tensors as they are.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import address_of
from cute_py.errors import CuteError
from cute_py.ops.operator import Operator
from cute_py.ops.product import GEMM, Product
from cute_py.torch.operators import LAZY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.calls.memo import Answer
    from cute_py.ops.call import Output
    from cute_py.ops.libraries import Library


class RowsProduct(Product):
    """A product of arrays whose modes but the last are rows, as `form` says."""

    def __init__(self, request: Any, library: Library) -> None:
        """Read the arrays of `library` as matrices."""
        held = request.a, request.b
        a, b = (x.reshape((prod(x.shape[:-1]), x.shape[-1])) for x in held)
        pairs = zip((a, b), held, strict=True)
        self.is_copied = any(address_of(x) != address_of(y) for x, y in pairs)
        self.given, self.modes_of_rows = (*held, request.bias), tuple(request.a.shape[:-1])
        if request.form == "tn":
            a, self.modes_of_rows = a.swapaxes(0, 1), tuple(request.a.shape[-1:])
        elif request.form == "nt":
            b = b.swapaxes(0, 1)
        whole = GEMM.request(a, b, None, request.bias, activation=request.activation)
        super().__init__(whole._replace(dtype=request.dtype), library)

    def writes_matrices(
        self, reads: Sequence[Any], shares: bool = False, name: str = "out"
    ) -> Output:
        """Return the output with all modes of the rows."""
        made = super().writes_matrices(reads, shares, name)
        return made._replace(shape=(*self.modes_of_rows, self.N))

    def guarded(self, answer: Answer) -> Answer:
        """Return an answer that copies operands which no kernel reads before it asks for the
        product: that of copies is known.
        """
        held = self.given
        if self.library.on_host or all(x is None or x.is_contiguous() for x in held):
            return answer
        if not self.is_copied and not self.gathered():
            return answer

        def copied(args: Any, _values: Any) -> Any:
            a, b, bias = (x if x is None else x.contiguous() for x in (*args[:2], args[3]))
            return product(a, b, args[FORM], bias, args[ACTIVATION], args[DTYPE])

        return copied

    def without_kernel(self, given: Any) -> Any:
        """Return an empty result."""
        return super().without_kernel(given).reshape((*self.modes_of_rows, self.N))


def _product(
    a: Any,
    b: Any,
    c: Any = None,
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str | None = None,
    dtype: str | None = None,
    form: str = "nn",
    backend: str = "auto",
    *,
    out: Any = None,
    checks: bool | str = False,
) -> Any:
    """Stand for the declaration: see `product`."""
    raise NotImplementedError


ROWS = Operator(
    _product,
    RowsProduct,
    GEMM.arrays,
    GEMM.numbers,
    {"activation": GEMM.choices["activation"], "form": ("nn", "nt", "tn")},
    (),
    GEMM.words,
    GEMM.name,
)
ACTIVATION, DTYPE, FORM = map(ROWS.request._fields.index, ("activation", "dtype", "form"))
_known, _asked = ROWS.known, ROWS.asked


def product(
    a: Any,
    b: Any,
    form: str,
    bias: Any = None,
    activation: str | None = None,
    dtype: str | None = None,
) -> Any:
    """Return activation(a b + bias) of tensors that autograd does not follow, outside of modes.

    Args:
        a: (..., K), whose modes but the last are rows.
        b: (K, N), if `form` is "nn"; (N, K) if it is "nt". If it is "tn", a is (..., M), b is
            (..., N), and the product is (M, N).
        form: which operand is transposed.
        bias: (N) or None.
        activation: as `cute.ops.gemm` takes it.
        dtype: the name of the type that the operands are read in; None: their own.

    """
    given = a, b, None, bias, None, 1.0, 0.0, activation, dtype, form, "auto", False
    found = _known.replay(given)
    if found is not None:
        return found
    try:
        return _asked(given)
    except CuteError as error:
        if error.code not in LAZY:
            raise
    plain = [x if x is None else x.resolve_neg() for x in (a, b, bias)]
    return _asked((*plain[:2], None, plain[2], *given[4:]))
