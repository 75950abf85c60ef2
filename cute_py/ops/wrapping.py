"""Terms of an epilogue that wrap to s32: which functions of them are right modulo 2^32.

Sums, differences and products of integers modulo 2^32 are those of the integers, modulo 2^32. What
compares, divides, shifts to the right or clamps them is not: it would see other numbers.
"""

from __future__ import annotations

from cute_py.dtypes.table import s32
from cute_py.errors import CuteError, refusal
from cute_py.plan.formula import FIRST, JOIN, SECOND, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cute_py.dtypes.table import Dtype
    from cute_py.plan.formula import Formula, Step

ALIKE = {"copy", "neg", "add", "sub", "mul", "fma", "not", "and", "or", "xor", FIRST, SECOND, JOIN}
COMBINED = {"add", "mul"}  # functions over elements that wrap alike


def wraps(kind: Dtype) -> bool:
    """Tell whether integers of a type may be outside of s32.

    >>> from cute_py.dtypes.table import s64, u8, u32
    >>> [wraps(kind) for kind in (u8, s32, u32, s64)]
    [False, False, True, True]
    """
    most = kind.bits if kind.is_signed else kind.bits + 1  # with a sign
    return not kind.is_float and most > s32.bits


def require_alike(
    operation: str,
    function: Formula,
    kinds: Mapping[str, Dtype],
    combined: Sequence[tuple[str, str]] = (),
) -> None:
    """Refuse terms that wrap where a function in s32 does more than add and multiply them.

    Args:
        operation: the name of the operator.
        function: of the epilogue.
        kinds: the types of the arrays that it reads, by their names.
        combined: as in `is_alike`.

    """
    for name, kind in kinds.items():
        if wraps(kind) and not is_alike(function, function.inputs.index(name), combined):
            raise refused(operation, name, kind)


def refused(operation: str, name: str, kind: Dtype) -> CuteError:
    """Return the error for a term that wraps before more than sums and products."""
    return refusal("epilogue-wraps", operation=operation, name=name, dtype=kind)


def is_alike(function: Formula, number: int, combined: Sequence[tuple[str, str]] = ()) -> bool:
    """Tell whether a function of integers modulo 2^32 has the results of one of integers, modulo
    2^32, for an input by its number; `combined`: results, and what combines their elements.

    >>> import cute_py as cute
    >>> from cute_py.trace.formulas import formula
    >>> def alike(function):
    ...     return is_alike(formula(function, s32, ("sums", "c")), 1)
    >>> alike(lambda x, c: cute.where(x > 0, x, 0) + 2 * c), alike(lambda x, c: (x + c) // 2)
    (True, False)
    """
    wrapped = {number}
    for n, step in enumerate(function.steps, len(function.inputs)):
        reads = {x.n for x in step.reads} & wrapped
        if reads and not _keeps(step, reads):
            return False
        if reads:
            wrapped.add(n)
    results = dict(zip(function.outputs, function.results, strict=False))
    return not any(
        isinstance(x := results.get(name), Place) and x.n in wrapped and fn not in COMBINED
        for name, fn in combined
    )


def _keeps(step: Step, wrapped: set[int]) -> bool:
    """Tell whether a step of values that wrapped wraps as integers do."""
    if step.fn == "where":
        condition = step.sources[0]
        return not (isinstance(condition, Place) and condition.n in wrapped)
    if step.fn == "shl":
        count = step.sources[1]
        return not (isinstance(count, Place) and count.n in wrapped)
    return step.fn in ALIKE and step.dtype == s32
