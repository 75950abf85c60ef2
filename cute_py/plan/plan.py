"""`Plan`: a traced kernel, frozen: parameters, launch shape, storages, and the block of ops."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from cute_py.errors import CuteError, refusal
from cute_py.plan.launch import Launch, listed
from cute_py.plan.op import UNSAVED
from cute_py.plan.ops import Block, Op, While
from cute_py.plan.params import Registers, ScalarParam, Shared, TensorParam
from cute_py.plan.walk import blocks_of, computed_with, every, explain, reads, writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.records import Text


@dataclass(frozen=True, slots=True)
class Plan:
    """A traced kernel; the same for the emulator, the code generator and the printer.

    Equality and hash leave source lines out. `foreign`: it was read from a file, see `trusted`.
    """

    name: str
    params: tuple[TensorParam | ScalarParam, ...]
    launch: Launch
    shared: tuple[Shared, ...]
    storages: tuple[Registers, ...]
    body: Block
    foreign: bool = field(default=False, compare=False, repr=False, metadata=UNSAVED)

    @property
    def smem_bytes(self) -> int:
        """Shared memory of a block (bytes)."""
        return max((s.offset + s.bytes for s in self.shared), default=0)

    @property
    def ops(self) -> tuple[Op, ...]:
        """All ops in pre-order: an op, then its nested blocks."""
        return tuple(every(self.body))

    @property
    def registers(self) -> int:
        """The estimated number of 32-bit registers of a thread; see `register_estimate`."""
        return register_estimate(self)

    def require_signed(self, values: Iterable[object]) -> None:
        """Refuse numbers of 2**63 or more for parameters that the plan computes with.

        Args:
            values: one for each parameter; values of arrays are ignored.

        Raises LayoutError.
        """
        wide = [
            (p.name, v)
            for p, v in zip(self.params, values, strict=True)
            if isinstance(p, ScalarParam) and isinstance(v, int) and v >> 63 > 0
        ]
        used = computed_with(self.body) if wide else set()
        for name, value in wide:
            if name in used:
                raise refusal("plan-unsigned", operation=self.name, name=name, value=value)

    def __str__(self) -> str:
        """Return the whole plan as text: one line per op, each with its line of the kernel."""
        head = [f"plan {self.name}", *[f"  {x}" for x in (*self.params, self.launch)]]
        head += [f"  table {i}: {listed(row)}" for i, row in enumerate(self.launch.tables)]
        held = [f"  {x}" for x in (*self.shared, *self.storages)]
        return "\n".join([*head, *held, *_lines(self.body, 1)])

    __repr__ = __str__

    @contextmanager
    def trusted(self, operation: str) -> Iterator[None]:
        """Return a context of what is done with the plan: in one that was read from a file, an
        error that no rule foresaw is a refusal, too.
        """
        try:
            yield
        except CuteError:
            raise
        except Exception as error:
            if not self.foreign:
                raise
            said = f"{type(error).__name__}: {error}"
            raise refusal("plan-foreign", operation=operation, said=said) from error

    def explain(self) -> Text:
        """Return what one iteration of each loop does in a thread: the number of products, copies,
        addresses, guards, waits and computed elements; see `walk.explain`. Before optimisations:
        `Compiled.explain` counts the machine code.
        """
        return explain(self.name, self.body)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file, as text with a version; see `serial`."""
        from cute_py.plan.serial import dumps  # which imports this module

        Path(path).write_text(dumps(self), encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> Plan:
        """Return the plan that `save` wrote; the file may be anybody's, see docs/files.md.

        Raises LayoutError if it is no plan.
        """
        from cute_py.plan.serial import loads  # which imports this module

        return loads(Path(path).read_text(encoding="utf-8", errors="replace"))


def _lines(block: Block, depth: int) -> Iterator[str]:
    """Yield the lines of a block; `do` and `else` separate the blocks of an op."""
    indent = "  " * depth
    for op in block:
        yield f"{indent}{op}" + (f"  # line {op.line[1]}" if op.line[1] else "")
        if isinstance(op, While) and op.test:
            yield from _lines(op.test, depth + 2)
            yield f"{indent}do"
        for name in op.blocks:
            inner = getattr(op, name)
            if name == "other" and inner:
                yield f"{indent}else"
            if name != "test":
                yield from _lines(inner, depth + 1)


# -- register pressure: an estimate from the live ranges of storages

ADDRESSES = 24  # registers for indices, addresses and predicates, as measured for typical kernels


def register_estimate(plan: Plan) -> int:
    """Return the greatest number of 32-bit registers live at one time, plus some for addresses.

    A storage is live from its first to its last use. If it is used both in a loop and outside of
    it, or read before it is written in the loop, it is live throughout the loop. Values narrower
    than 32 bits are packed.
    """
    spans: dict[str, list[int]] = {}
    end = _number(plan.body, 0, spans)
    words = {r.name: -(-r.count * r.dtype.bits // 32) for r in plan.storages}
    change = [0] * (end + 2)
    for name, (first, last) in spans.items():
        change[first] += words[name]
        change[last + 1] -= words[name]
    most = total = 0
    for step in change:
        total += step
        most = max(most, total)
    return most + ADDRESSES


def _number(block: Block, at: int, spans: dict[str, list[int]]) -> int:
    """Extend the live range of each storage over a block; return the next position."""
    for op in block:
        for reg in (*reads(op), *writes(op)):
            span = spans.setdefault(reg.storage, [at, at])
            span[1] = at
        begin, at = at, at + 1
        before = set(spans)
        for inner in blocks_of(op):
            at = _number(inner, at, spans)
        if op.repeats:
            for name in before:
                if spans[name][1] > begin:
                    spans[name][1] = at
    return at
