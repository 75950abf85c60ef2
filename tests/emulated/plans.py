"""Plans by hand, in few words: parameters, registers, accesses and ops."""

from itertools import count
from math import prod

from cute_py.dtypes import dtype
from cute_py.integers.symbols import sym
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Reg
from cute_py.plan.launch import Launch
from cute_py.plan.params import Registers, ScalarParam, Shared, TensorParam
from cute_py.plan.plan import Plan

tid = sym("tid", min=0)
bid_x, bid_y = sym("bid_x", min=0), sym("bid_y", min=0)


def size(name, mode=0):
    return sym(f"{name}_shape{mode}")


def var(name):
    return sym(name, min=None)


class Maker:
    """Collects what a plan declares; every op gets a line number of its own."""

    def __init__(self, name="kernel", grid=(1, 1, 1), threads=32, cluster=(1, 1, 1)):
        self.name, self.launch = name, Launch(grid, (threads, 1, 1), cluster)
        self.params, self.shared, self.registers = [], [], []
        self.bytes = 0
        self.lines = count(1)

    def tensor(self, name, kind, rank=1):
        shape = tuple(sym(f"{name}_shape{k}") for k in range(rank))
        stride = tuple(sym(f"{name}_stride{k}") for k in range(rank))
        self.params.append(TensorParam(name, dtype(kind), shape, stride, 16))
        return name, dtype(kind), "gmem"

    def number(self, name, kind="s32"):
        self.params.append(ScalarParam(name, dtype(kind)))
        return self.params[-1]

    def smem(self, name, kind, n, at=None):
        offset = -(-self.bytes // 128) * 128 if at is None else at
        self.shared.append(Shared(name, dtype(kind), n, offset, 128))
        self.bytes = max(self.bytes, offset + self.shared[-1].bytes)
        return name, dtype(kind), "smem"

    def reg(self, name, kind, n=1):
        self.registers.append(Registers(name, dtype(kind), n))
        return Reg(name, dtype(kind), tuple(range(n)))

    def op(self, kind, *args, **named):
        return kind(*args, **named, line=("kernel.py", next(self.lines)))

    def plan(self, *body):
        return Plan(
            self.name,
            tuple(self.params),
            self.launch,
            tuple(self.shared),
            tuple(self.registers),
            tuple(body),
        )


def at(storage, *offsets, width=1, step=None, guards=(), swizzle=None, inner=0, fill=0):
    """An access at these offsets; with `step`, that many vectors after the first: (n, stride)."""
    name, kind, space = storage
    table = tuple((k, 0) for k in range(len(offsets)))
    if step is not None:
        table = tuple((0, i * step[1]) for i in range(step[0]))
    masks = tuple(tuple(range(len(guards))) for _ in table) if guards else ()
    return Access(
        space, name, kind, tuple(offsets), table, width, inner, swizzle, tuple(guards), masks, fill
    )


def box_of(storage, start, *extents, modes=None, swizzle=0):
    """A box of these extents: neighbouring elements, of modes 0, 1, ... of a tensor."""
    name, kind, space = storage
    tile = Access(space, name, kind, (start,), ((0, 0),), prod(extents))
    return ops.Box(tile, modes or tuple(range(len(extents))), extents, swizzle)


def less(a, b):
    return Compare("lt", a, b)


def same(a, b):
    return Compare("eq", a, b)


def part(reg, *index):
    return Reg(reg.storage, reg.dtype, tuple(index))


def read_as(reg, kind, n):
    return Reg(reg.storage, dtype(kind), tuple(range(n)))


__all__ = [
    "Maker",
    "at",
    "bid_x",
    "bid_y",
    "box_of",
    "less",
    "ops",
    "part",
    "read_as",
    "same",
    "size",
    "tid",
    "var",
]
