"""`Orders`: what `cute.check_orders` has found, and how it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.emulate.orders.witness import Witness

SHOWN = 8  # reasons that are printed


class Result(Record):
    """A result that some orders have.

    Attributes:
        code: of the refusal; None where all is well.
        message: of the refusal; "" where all is well.
        arrays: what the kernel has left in the arrays that it writes, by name; {} of a refusal.
        classes: how many classes of orders have it.
    """

    __slots__ = __match_args__ = ("code", "message", "arrays", "classes")

    def __init__(self, code: str | None, message: str, arrays: dict[str, Any], classes: int) -> None:
        self.code, self.message, self.arrays, self.classes = code, message, arrays, classes


class Orders(Record):
    """What is known of a kernel in every order of its threads, for these arguments.

    Attributes:
        proved: whether no order is refused: all classes have been run, and are well.
        classes: of orders that have been run; all orders of one do the same.
        results: the distinct results.
        bounded: what has not been tried; () where all has.
        witness: an order that is refused, for `order=` of `cute.emulate`; None if none has been
            found.
        reasons: why one class is not enough: pairs of operations that nothing orders.
        runs: how many runs this took, those that were cut short included.
        first: which of them was the first that was refused; None if none was.
    """

    __slots__ = __match_args__ = (
        "proved",
        "classes",
        "results",
        "bounded",
        "witness",
        "reasons",
        "runs",
        "first",
    )

    def __init__(
        self,
        proved: bool,
        classes: int,
        results: Iterable[Result],
        bounded: Iterable[str],
        witness: Witness | None,
        reasons: Iterable[str],
        runs: int,
        first: int | None = None,
    ) -> None:
        self.proved, self.classes, self.results = proved, classes, tuple(results)
        self.bounded, self.witness, self.reasons = tuple(bounded), witness, tuple(reasons)
        self.runs, self.first = runs, first

    def __str__(self) -> str:
        lines = [self._verdict()]
        if self.reasons:
            lines.append("explored, as the result may depend on who comes first:")
            lines += [f"  {reason}" for reason in self.reasons[:SHOWN]]
            if len(self.reasons) > SHOWN:
                lines.append(f"  and {len(self.reasons) - SHOWN} more pairs of lines")
        for result in self.results:
            how = f"refused: {result.code}" if result.code else "well"
            lines.append(f"{_count(result.classes, 'class', 'classes')}: {how}")
        lines += [f"not tried: {what}" for what in self.bounded]
        if self.witness is not None:
            lines += ["an order that is refused (order=found.witness repeats it):"]
            lines += [str(self.witness)]
        return "\n".join(lines)

    __repr__ = __str__

    def _verdict(self) -> str:
        classes = _count(self.classes, "class", "classes")
        runs = f"{classes} of orders in {_count(self.runs, 'run', 'runs')}"
        if self.proved and self.classes == 1:
            return f"proved for every order: {runs}, as all that matters is ordered"
        if self.proved:
            return f"proved for every order: {runs}, {_count(len(self.results), 'result', 'results')}"
        if self.witness is not None:
            return f"refused in some order: {runs}"
        return f"not proved: {runs}, and none was refused"


def _count(n: int, one: str, more: str) -> str:
    return f"{n} {one if n == 1 else more}"
