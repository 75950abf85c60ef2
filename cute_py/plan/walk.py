"""Walking plans: the ops of nested blocks, the operands of each op, and both counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cute_py.integers.polynomial import Symbol, divisors_of
from cute_py.integers.polynomial import symbols_of as symbols_of_terms
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Reg, Test
from cute_py.plan.op import Node, roles_of
from cute_py.plan.ops.control import Let
from cute_py.plan.ops.memory import MakePtr, TmaLoad
from cute_py.plan.ops.order import MbarArrive
from cute_py.plan.ops.registers import Map
from cute_py.records import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.plan.conditions import Scalar
    from cute_py.plan.op import Block, Op


def blocks_of(op: Op) -> tuple[Block, ...]:
    """Return the blocks of an op."""
    return tuple([getattr(op, name) for name in op.blocks])


def every(block: Block) -> Iterator[Op]:
    """Yield all ops of a block in pre-order: an op, then its nested blocks."""
    for op in block:
        yield op
        for inner in blocks_of(op):
            yield from every(inner)


def rebuilt(block: Block, rule: Callable[[Op], Block]) -> Block:
    """Return a block with each op rewritten by a rule, nested ops first."""
    return tuple(new for op in block for new in rule(_with_blocks(op, rule)))


def _with_blocks(op: Op, rule: Callable[[Op], Block]) -> Op:
    if not op.blocks:
        return op
    held: Any = {name: rebuilt(getattr(op, name), rule) for name in op.blocks}
    return replace(op, **held)


def parts(x: object) -> Iterator[Node | Scalar]:
    """Yield all operands of an op, recursively: registers, accesses, conditions, and the integers
    of the plan; not nested blocks, nor numbers that are assigned to registers.
    """
    if isinstance(x, tuple):
        for each in x:
            yield from parts(each)
    elif isinstance(x, Node):
        yield x
        for name, role in roles_of(x):
            held = getattr(x, name)
            if role == "elements":
                held = _expressions(held)
            yield from parts(held)
    elif isinstance(x, SymInt) or x.__class__ is int:
        yield x


def _expressions(values: object) -> tuple[object, ...]:
    whole = values if isinstance(values, tuple) else (values,)
    return tuple([x for x in whole if isinstance(x, (Node, SymInt))])


def accesses(op: Op) -> list[Access]:
    """Return the memory accesses of an op."""
    return [part for part in parts(op) if isinstance(part, Access)]


def reads(op: Op) -> list[Reg]:
    """Return the registers that an op reads, including those of its conditions and guards."""
    unread = ("written", "updated") if op.starts_anew else ("written",)
    held = [getattr(op, name) for name, role in roles_of(op) if role not in unread]
    return [part for part in parts(tuple(held)) if isinstance(part, Reg)]


def writes(op: Op) -> list[Reg]:
    """Return the registers that an op writes."""
    roles = ("written", "updated")
    held = [getattr(op, name) for name, role in roles_of(op) if role in roles]
    return [reg for reg in parts(tuple(held)) if isinstance(reg, Reg)]


def stored(op: Op) -> list[Access]:
    """Return the accesses of memory that an op writes."""
    held = tuple([getattr(op, name) for name, role in roles_of(op) if role == "stored"])
    return [part for part in parts(held) if isinstance(part, Access)]


def arrays(op: Op, written: bool = False) -> set[str]:
    """Return the names of the global arrays that an op reads or writes; with `written`, only those
    that it writes.
    """
    found: set[str] = set()
    for name, role in roles_of(op):
        if role == "prefetched" or (written and role != "stored"):
            continue
        held = getattr(op, name)
        accesses = [x for x in parts(held) if isinstance(x, Access)]
        found |= {x.storage for x in accesses if x.space == "gmem"}
        found |= {held} if isinstance(held, str) and role in ("loaded", "stored") else set()
    return found


def cluster_barriers(body: Block) -> frozenset[str]:
    """Return the mbarriers of a kernel's body, by their storages, that must order memory for all
    blocks of a cluster (PTX: scope `.cluster` of `mbarrier.arrive` and `mbarrier.try_wait`), not
    for one block alone.

    They are those that threads of peers arrive at, if threads access shared memory of peers, or
    some global array is both read and written. Causality goes on from there through barriers of a
    block (PTX ISA, Memory Consistency Model, causality order).
    """
    ops = tuple(every(body))
    found = frozenset(
        op.bar.storage for op in ops if isinstance(op, MbarArrive) and op.cluster_rank is not None
    )
    if not found or any(x.rank is not None for op in ops for x in accesses(op)):
        return found
    pointers = {op.name for op in ops if isinstance(op, MakePtr)}
    written = {name for op in ops for name in arrays(op, written=True)}
    read = {name for op in ops for name in arrays(op) - arrays(op, written=True)}
    through = bool(pointers & (read | written) and read and written)  # they may be any array
    return found if through or not read.isdisjoint(written) else frozenset()


def fences_peers(body: Block, spans: dict[str, tuple[int, int]]) -> bool:
    """Tell whether a proxy fence must reach the shared memory of other blocks of the cluster (PTX:
    `fence.proxy.async` with the space `.shared::cluster`, which takes longer than `.shared::cta`):
    threads store there, or a multicast of TMA may come where threads store. `spans`: where each
    shared storage begins and ends (bytes).
    """
    ops = tuple(every(body))
    held = [x for op in ops if not op.bulk for x in stored(op) if x.space == "smem"]
    sent = [x for op in ops if isinstance(op, TmaLoad) and op.multicast != 0 for x in stored(op)]
    return any(x.rank is not None for x in held) or any(
        a < end and start < b
        for a, b in {spans[x.storage] for x in held}
        for start, end in {spans[x.storage] for x in sent}
    )


def arrives_at_peers(body: Block) -> bool:
    """Tell whether threads arrive at mbarriers of other blocks of their cluster."""
    return any(isinstance(op, MbarArrive) and op.cluster_rank is not None for op in every(body))


def mbarriers(op: Op) -> list[Access]:
    """Return the mbarriers that an op uses."""
    return [getattr(op, name) for name, role in roles_of(op) if role == "mbarrier"]


def named(op: Op) -> list[str]:
    """Return the names of the integers that an op defines, without those of its blocks."""
    return [getattr(op, name) for name, role in roles_of(op) if role == "named"]


def integers_in(op: Op) -> list[Scalar]:
    """Return the integers of an op, expressions and numbers, without those of nested blocks."""
    return [part for part in parts(op) if not isinstance(part, Node)]


def holds_numbers(op: Op) -> bool:
    """Return whether an op may contain floats, so that equal ops may differ: 0.0 equals -0.0."""
    return bool(accesses(op)) or any(role == "elements" for _name, role in roles_of(op))


def symbols_of(block: Block) -> dict[str, Symbol]:
    """Return the symbols of a block's integers, by name."""
    found = {id(x): x for op in every(block) for x in integers_in(op) if isinstance(x, SymInt)}
    return {s.name: s for x in found.values() for m in terms_of(x) for a in m for s in a.symbols}


def divisors_in(block: Block, known: set[str]) -> tuple[SymInt, ...]:
    """Return the divisors of a block that are expressions of known names, other than numbers."""
    found: dict[SymInt, None] = {}
    for op in every(block):
        for x in integers_in(op):
            for divisor in divisors_of(terms_of(x)):
                found.setdefault(SymInt(divisor))
        if isinstance(op, Let) and op.kind == "div" and isinstance(op.operands[1], SymInt):
            found.setdefault(op.operands[1])
    return tuple([x for x in found if {s.name for s in symbols_of_terms(terms_of(x))} <= known])


def computed_with(block: Block) -> set[str]:
    """Return the names of the symbols that a block computes with, other than moving them to
    registers.
    """
    found = set()
    for op in every(block):
        for x in integers_in(op):
            symbols = {s.name for m in terms_of(x) for a in m for s in a.symbols}
            if not (isinstance(op, Map) and str(x) in symbols):
                found |= symbols
    return found


def storages(block: Block) -> set[str]:
    """Return the names of all register storages that a block uses."""
    return {reg.storage for op in every(block) for reg in (*reads(op), *writes(op))}


# -- counted, for `Plan.explain`

SHARES = ("products", "copies", "addresses", "guards", "waits", "arithmetic", "debugging")


def explain(name: str, body: Block) -> Text:
    """Return a line for a plan outside its loops, and one for an iteration of each loop: what
    a thread does, counted by share and by op.

    Shares: products (matrix instructions), copies (vectors that are moved), addresses (integers
    that locate them), guards (conditions), waits (barriers, fences, groups of copies), and
    arithmetic (elements of registers that are computed).
    """
    rows = [f"{name}, outside its loops: {_text(_counts(body))}"]
    for loop in _loops(body):
        inner = tuple([op for block in blocks_of(loop) for op in block])
        place = f" ({loop.where})" if loop.where else ""
        rows.append(f"{loop}{place}: {_text(_counts(inner))}")
    return Text("\n".join(rows))


def _loops(block: Block) -> Iterator[Op]:
    for op in block:
        if op.repeats:
            yield op
        for inner in blocks_of(op):
            yield from _loops(inner)


def _counts(block: Block) -> Counter[tuple[str, str]]:
    """Return (kind, word) -> number of a block and its branches, without the loops in it."""
    found: Counter[tuple[str, str]] = Counter()
    for op in block:
        found += _of(op)
        if not op.repeats:
            for inner in blocks_of(op):
                found += _counts(inner)
    return found


def _of(op: Op) -> Counter[tuple[str, str]]:
    """Return the counts of one op, without its blocks."""
    located = accesses(op)
    numbers = {
        "products": op.products,
        "copies": max((x.count for x in located), default=1),
        "arithmetic": sum(map(len, writes(op))),
    }
    found = (
        Counter({(op.share, op.word): numbers.get(op.share, 1)})
        if not op.blocks
        else Counter[tuple[str, str]]()
    )
    found["addresses", ""] += sum(len(x.bases) for x in located)
    found["guards", ""] += sum(isinstance(x, (Compare, Test)) for x in parts(op))
    return found


def _text(counts: Counter[tuple[str, str]]) -> str:
    parts = []
    for kind in SHARES:
        words = {word: n for (k, word), n in counts.items() if k == kind and n}
        if words:
            listed = ", ".join(f"{n} {word}" for word, n in sorted(words.items()) if word)
            parts.append(f"{sum(words.values())} {kind}" + (f" ({listed})" if listed else ""))
    return "; ".join(parts) or "nothing"
