"""`Orders`: what `cute.check_orders` has found, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cute_py.emulate.faults import line_of
from cute_py.emulate.observed import target
from cute_py.emulate.orders.witness import Choice
from cute_py.errors import ranges
from cute_py.plan import ops

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from cute_py.emulate.orders.search import Step
    from cute_py.emulate.orders.witness import Witness
    from cute_py.emulate.storages import Global
    from cute_py.emulate.turns import Event, Who
    from cute_py.plan.launch import Launch

SHOWN = 8  # reasons that are printed
WORDS: dict[type[ops.Op], str] = {
    ops.Store: "store_release to", ops.Load: "load_acquire of", ops.WaitUntil: "wait_until of",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """A result that some orders have.

    Attributes:
        code: of the refusal; None where all is well.
        message: of the refusal; "" where all is well.
        arrays: what the kernel has left in the arrays that it writes, by name; {} of a refusal.
        classes: how many classes of orders have it.
    """

    code: str | None
    message: str
    arrays: dict[str, Any]
    classes: int


@dataclass(frozen=True, slots=True, repr=False)
class Orders:
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
    """

    proved: bool
    classes: int
    results: tuple[Result, ...]
    bounded: tuple[str, ...]
    witness: Witness | None
    reasons: tuple[str, ...]
    runs: int

    def __str__(self) -> str:
        lines = [self._verdict()]
        if self.reasons:
            lines.append("explored, as the result may depend on who comes first:")
            lines += [f"  {reason}" for reason in self.reasons[:SHOWN]]
            if len(self.reasons) > SHOWN:
                lines.append(f"  and {len(self.reasons) - SHOWN} more")
        lines += self._results()
        lines += [f"not tried: {what}" for what in self.bounded]
        if self.witness is not None:
            lines += ["an order that fails (order=found.witness repeats it):"]
            lines += [str(self.witness)]
        return "\n".join(lines)

    __repr__ = __str__

    def _results(self) -> Iterator[str]:
        for code in dict.fromkeys(result.code for result in self.results):
            each = [result for result in self.results if result.code == code]
            classes = _count(sum(result.classes for result in each), "class", "classes")
            how = f"an error, {code}" if code else "no error"
            different = f", {len(each)} different results" if len(each) > 1 else ""
            yield f"{classes}: {how}{different}"

    def _verdict(self) -> str:
        classes = _count(self.classes, "class", "classes")
        runs = f"{classes} of orders in {_count(self.runs, 'run', 'runs')}"
        if self.proved:
            alone = ", as all that matters is ordered" if self.classes == 1 else ""
            return f"proved for every order: {runs}{alone}"
        if self.witness is not None:
            return f"fails in some order: {runs}"
        return f"not proved: {runs}, and none of them failed"


def _count(n: int, one: str, more: str) -> str:
    return f"{n} {one if n == 1 else more}"


# -- operations in words


def choice_of(step: Step, arrays: dict[str, Global], launch: Launch) -> Choice:
    """Return an operation of a run as one of a witness."""
    event, found = step.event, "no integer" if step.before is None else str(step.before)
    warp = event.who[1]
    role = launch.role_of(warp, warp + 1)
    return Choice(event.who, line_of(event.op), _what(event, arrays), found, role)


def reasons_of(races: Iterable[tuple[Event, Event]], arrays: dict[str, Global]) -> tuple[str, ...]:
    """Return pairs of operations that nothing orders in words, each with all who do them."""
    found: dict[tuple[str, ...], set[tuple[Who, Who]]] = {}
    for a, b in races:
        each = {f"{line_of(event.op)}: {_what(event, arrays)}" for event in (a, b)}
        found.setdefault(tuple(sorted(each)), set()).add((a.who, b.who))
    return tuple(
        f"{' and '.join(key)} by {_who(pairs)}, nothing orders them" for key, pairs in found.items()
    )


def _who(pairs: Collection[tuple[Who, Who]]) -> str:
    """Return blocks in words, or warps where each pair is of one block."""
    both = [who for pair in pairs for who in pair]
    blocks = sorted({who[0] for who in both})
    if any(a[0] != b[0] for a, b in pairs):
        return f"blocks {_listed(blocks)}"
    warps = _listed(sorted({who[1] for who in both}))
    of = "each of the blocks" if len(blocks) > 1 else "block"
    return f"warps {warps} of {of} {_listed(blocks)}"


def _listed(numbers: list[int]) -> str:
    return ranges(numbers) if len(numbers) > 2 else " and ".join(map(str, numbers))


def _what(event: Event, arrays: dict[str, Global]) -> str:
    """Return an operation in words: atomic add of count[0]."""
    op, access = event.op, target(event.op)
    assert access is not None
    name = f"atomic {op.fn} of" if isinstance(op, ops.Atomic) else WORDS[type(op)]
    array, size = arrays.get(access.storage), max(1, access.dtype.bits // 8)
    if not event.places or array is None:
        return f"{name} {access.storage}"
    return f"{name} {access.storage}[{(min(event.places)[1] - array.address) // size}]"
