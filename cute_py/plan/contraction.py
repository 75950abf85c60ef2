"""Contraction: a product that one addition or subtraction reads becomes part of it, as one fma.

`cute.launch(..., fma=True)` asks for it. It is a rewrite of the traced plan, so that the emulator
and a GPU compute the same: neither NVVM nor ptxas contracts anything.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from cute_py.plan.conditions import Reg
from cute_py.plan.ops import Block, Map, Op
from cute_py.plan.params import Registers
from cute_py.plan.plan import Plan
from cute_py.plan.walk import blocks_of, every, named, reads, storages, writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.plan.conditions import Value


def contracted(plan: Plan) -> Plan:
    """Return the plan with products contracted.

    Law: in a block, let p be a floating-point product in registers of its own, which one op of the
    plan reads, once, in this block and after p, as the whole of p or a part of it; and let no op
    between the two write to the operands of p. Then a + p is fma(x, y, a), p - a is fma(x, y, -a),
    and a - p is fma(-x, y, a), rounded once. If both operands of a sum are such products, the left
    one is contracted. All other ops stay as they are.
    """
    work = _Contraction(plan)
    body = work.block(plan.body)
    named = storages(body)
    held = [*plan.storages, *work.negated]
    return replace(plan, body=body, storages=tuple([x for x in held if x.name in named]))


class _Contraction:
    """The state of one rewrite: how often each storage is read and written, and new storages."""

    def __init__(self, plan: Plan) -> None:
        ops = list(every(plan.body))
        self.readers = Counter(name for op in ops for name in {x.storage for x in reads(op)})
        self.writers = Counter(name for op in ops for name in {x.storage for x in writes(op)})
        self.taken = {x.name for x in (*plan.params, *plan.shared, *plan.storages)}
        self.taken.update(name for op in ops for name in named(op))
        self.negated: list[Registers] = []

    def block(self, block: Block) -> Block:
        """Return a block with its products contracted, and those of its inner blocks."""
        done: list[Op | None] = []  # None: a product that was contracted
        products: dict[str, int] = {}  # storage -> its place in `done`
        for op in block:
            inner: Any = {name: self.block(getattr(op, name)) for name in op.blocks}
            op = replace(op, **inner) if inner else op
            done += self._sum(op, done, products) if isinstance(op, Map) else [op]
            changed = _written(op)
            products = {
                name: place
                for name, place in products.items()
                if not changed & {x.storage for x in reads(_at(done, place))}
            }
            if isinstance(op, Map) and self._is_product(op):
                products[op.dst.storage] = len(done) - 1
        return tuple([op for op in done if op is not None])

    def _is_product(self, op: Map) -> bool:
        name = op.dst.storage
        alone = self.writers[name] == self.readers[name] == 1
        whole = len(set(op.dst.index)) == len(op.dst)
        return op.fn == "mul" and op.dtype.is_float and alone and whole

    def _sum(self, op: Map, done: list[Op | None], products: dict[str, int]) -> list[Op | None]:
        """Return the ops for a sum or difference; mark the product that it takes in as done."""
        if op.fn not in ("add", "sub") or not op.dtype.is_float:
            return [op]
        names = [x.storage if isinstance(x, Reg) else "" for x in op.sources]
        side = next((i for i in (0, 1) if names[i] in products), None)
        if side is None or names[0] == names[1]:
            return [op]
        place, read = products[names[side]], op.sources[side]
        product = _at(done, place)
        assert isinstance(product, Map)
        assert isinstance(read, Reg)
        if read.dtype is not product.dst.dtype or product.dtype is not op.dtype:
            return [op]
        if not set(read.index) <= set(product.dst.index):
            return [op]
        x, y = [_part(each, product.dst, read) for each in product.sources]
        rest, more = op.sources[1 - side], list[Op | None]()
        if op.fn == "sub" and side == 0:
            rest = self._negative(rest, op, more)
        elif op.fn == "sub":
            short = isinstance(x, Reg) and not (isinstance(y, Reg) and len(x) <= len(y))
            x, y = (y, x) if short else (x, y)
            x = self._negative(x, op, more)
        done[place] = None
        del products[read.storage]
        return [*more, replace(op, fn="fma", sources=(x, y, rest))]

    def _negative(self, x: Value, op: Map, more: list[Op | None]) -> Value:
        """Return -x: of registers in new ones, by an op that is added to `more`."""
        if not isinstance(x, Reg):
            return -x
        number = len(self.negated)
        while f"neg{number}" in self.taken:
            number += 1
        name = f"neg{number}"
        self.taken.add(name)
        self.negated.append(Registers(name, op.dtype, len(x)))
        held = Reg(name, op.dtype, tuple(range(len(x))))
        more.append(Map("neg", held, (x,), op.dtype, line=op.line))
        return held


def _at(done: list[Op | None], place: int) -> Op:
    op = done[place]
    assert op is not None
    return op


def _written(op: Op) -> set[str]:
    """Return the storages that an op and its blocks write."""
    inner = [each for block in blocks_of(op) for each in every(block)]
    return {reg.storage for each in (op, *inner) for reg in writes(each)}


def _part(x: Value, product: Reg, read: Reg) -> Value:
    """Return the elements of an operand that belong to those elements of its product."""
    if not isinstance(x, Reg) or len(x) == 1:
        return x
    place = {index: k for k, index in enumerate(product.index)}
    return Reg(x.storage, x.dtype, tuple([x.index[place[i]] for i in read.index]))
