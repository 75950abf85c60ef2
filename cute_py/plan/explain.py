"""What one iteration of each loop of a plan does in a thread, counted by kind and by op.

Kinds: products (matrix instructions), copies (vectors that are moved), addresses (integers that
locate them), guards (conditions), waits (barriers, fences, groups of copies), and arithmetic
(elements of registers that are computed).
"""

from __future__ import annotations

from collections import Counter

from cute_py.plan.conditions import Compare, Test
from cute_py.plan.ops import Loop, Op, While
from cute_py.plan.walk import accesses, blocks_of, parts, writes
from cute_py.records import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.plan.ops import Block

KINDS = ("products", "copies", "addresses", "guards", "waits", "arithmetic", "debugging")
_OF_FILES = {  # the file of `plan.ops` that defines an op -> its kind
    "control": "addresses",
    "registers": "arithmetic",
    "memory": "copies",
    "matrix": "waits",
    "order": "waits",
    "debug": "debugging",
}


def explain(name: str, body: Block) -> Text:
    """Return a line for the code of a plan outside of loops, and one for an iteration of each."""
    rows = [f"{name}, outside of its loops: {_text(_counts(body))}"]
    for loop in _loops(body):
        inner = tuple([op for block in blocks_of(loop) for op in block])
        place = f" ({loop.where})" if loop.where else ""
        rows.append(f"{loop}{place}: {_text(_counts(inner))}")
    return Text("\n".join(rows))


def _loops(block: Block) -> Iterator[Loop | While]:
    for op in block:
        if isinstance(op, (Loop, While)):
            yield op
        for inner in blocks_of(op):
            yield from _loops(inner)


def _counts(block: Block) -> Counter[tuple[str, str]]:
    """Return (kind, word) -> number of a block and its branches, without the loops in it."""
    found: Counter[tuple[str, str]] = Counter()
    for op in block:
        found += _of(op)
        if not isinstance(op, (Loop, While)):
            for inner in blocks_of(op):
                found += _counts(inner)
    return found


def _of(op: Op) -> Counter[tuple[str, str]]:
    """Return the counts of one op, without its blocks."""
    kind = _OF_FILES[type(op).__module__.rpartition(".")[2]]
    located = accesses(op)
    number = sum(map(len, writes(op))) if kind == "arithmetic" else 1
    if op.products:
        kind, number = "products", op.products
    elif kind == "copies":
        number = max((x.count for x in located), default=1)
        kind = "copies" if located or op.bulk or writes(op) else "waits"
    found = Counter({(kind, op.word): number}) if not op.blocks else Counter[tuple[str, str]]()
    found["addresses", ""] += sum(len(x.bases) for x in located)
    found["guards", ""] += sum(isinstance(x, (Compare, Test)) for x in parts(op))
    return found


def _text(counts: Counter[tuple[str, str]]) -> str:
    parts = []
    for kind in KINDS:
        words = {word: n for (k, word), n in counts.items() if k == kind and n}
        if words:
            listed = ", ".join(f"{n} {word}" for word, n in sorted(words.items()) if word)
            parts.append(f"{sum(words.values())} {kind}" + (f" ({listed})" if listed else ""))
    return "; ".join(parts) or "nothing"
