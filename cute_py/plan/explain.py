"""What one iteration of each loop of a plan does in a thread, counted by share and by op.

Shares: products (matrix instructions), copies (vectors that are moved), addresses (integers that
locate them), guards (conditions), waits (barriers, fences, groups of copies), and arithmetic
(elements of registers that are computed).
"""

from __future__ import annotations

from collections import Counter

from cute_py.plan.conditions import Compare, Test
from cute_py.plan.ops import Op
from cute_py.plan.walk import accesses, blocks_of, parts, writes
from cute_py.records import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.plan.ops import Block

SHARES = ("products", "copies", "addresses", "guards", "waits", "arithmetic", "debugging")


def explain(name: str, body: Block) -> Text:
    """Return a line for the code of a plan outside of loops, and one for an iteration of each."""
    rows = [f"{name}, outside of its loops: {_text(_counts(body))}"]
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
