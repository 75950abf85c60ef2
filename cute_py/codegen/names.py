"""Names of a printed kernel: of intrinsics, a word and a number; of helpers, beside the plan's."""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING

from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from cute_py.plan.ops import Op
    from cute_py.plan.plan import Plan

# first word of an intrinsic -> what it does
WORDS = {
    "let": "an integer that no sum of products describes",
    "holds": "whether a condition holds",
    "value": "an integer expression",
    "begin": "the address where a walk along an array begins",
    "advance": "the address of the next pass",
    "fill": "all elements become a number",
    "map": "element by element",
    "to": "conversion to a type",
    "reduce": "combines runs of elements, from left to right",
    "shuffle": "shfl.sync: elements of another lane of the warp",
    "vote": "vote.sync over the lanes of the warp",
    "load": "ld.global or ld.shared, one for each vector",
    "store": "st.global or st.shared, one for each vector",
    "cp_async": "global to shared memory, one instruction for each vector",
    "cp_async_commit": "cp.async.commit_group",
    "cp_async_wait": "cp.async.wait_group",
    "ldmatrix": "8x8 matrices from shared memory, one for each row address",
    "stmatrix": "8x8 matrices to shared memory, one for each row address",
    "mma": "d += a * b, one instruction of the atom for each step",
    "atomic": "atom, one for each element",
    "barrier": "bar.sync, of the block, a warp or some warps",
    "fence": "order of memory",
    "griddepcontrol": "waits for the kernels before, or lets the next one begin",
    "prefetch": "prefetch.global.L2",
    "wait_until": "reads with acquire order until the element compares",
    "assert": "trap where a condition fails",
}
_KINDS = {
    ops.CpAsync: "cp_async",
    ops.CpCommit: "cp_async_commit",
    ops.CpWait: "cp_async_wait",
    ops.GridDep: "griddepcontrol",
    ops.WaitUntil: "wait_until",
}


def stem_of(op: Op) -> tuple[str, str]:
    """Return the first word of an op's intrinsic (a key of `WORDS`), and its whole stem."""
    kind = _KINDS.get(type(op), type(op).__name__.lower())
    if isinstance(op, ops.Map):
        return "map", f"map_{op.fn}"
    if isinstance(op, ops.Convert):
        return "to", f"to_{op.dst.dtype}"
    if isinstance(op, ops.Reduce):
        return kind, f"reduce_{op.fn}"
    if isinstance(op, (ops.Shuffle, ops.Vote)):
        return kind, f"{kind}_{op.kind}"
    return kind, kind


class Names:
    """Gives names that stand for nothing else in a plan."""

    def __init__(self, plan: Plan, parameters: list[str]) -> None:
        """Take the plan's own names."""
        self.taken = {plan.name, "tid", "bid_x", "bid_y", "bid_z", *parameters}
        self.taken |= {x.name for x in (*plan.params, *plan.storages, *plan.shared)}
        for op in every(plan.body):
            if isinstance(op, (ops.Loop, ops.Let, ops.Set)):
                self.taken.add(op.var)
        for name in self.taken:
            if not name.isidentifier() or iskeyword(name):
                raise refusal("codegen-name", operation="cute.compile", name=name)
        self.counts: dict[str, int] = {}

    def helper(self, name: str) -> str:
        """Return a name, with underscores behind it where the plan has it."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def numbered(self, stem: str) -> str:
        """Return the next of `load_0`, `load_1`, ..."""
        number = self.counts.get(stem, 0)
        while f"{stem}_{number}" in self.taken:
            number += 1
        self.counts[stem] = number + 1
        self.taken.add(f"{stem}_{number}")
        return f"{stem}_{number}"
