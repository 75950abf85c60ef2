"""What a kernel states of its arrays: their extents by letters, and that they have no gaps."""

from __future__ import annotations

from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.queries import rank
from cute_py.plan import ops
from cute_py.plan.conditions import Compare, Logic
from cute_py.tensor.tensor import Tensor, require_tensor
from cute_py.trace.runtime_integers import Condition, bare, compare
from cute_py.trace.state import current, emit
from cute_py.trace.threads import assume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Leaf
    from cute_py.plan.conditions import Cond


def assume_shapes(modes: str, *arrays: Tensor | None) -> None:
    """State the extents of arrays by letters: modes with the same letter have the same extent.

    Args:
        modes: a word for each array with a letter for each of its modes, by blanks. After a word,
            "?" says that the array may be None.
        arrays: the arrays.

    Law: it is `cute.assume(x.shape[i] == y.shape[j])` of the modes with a letter and the first of
    them. At the beginning of a kernel every launch tests it, as `cute.assume` says.

    Raises LayoutError for None, an array with another number of modes, and static extents that
    differ.

    >>> # in a kernel: cute.assume_shapes("MK NK MN N?", A, B, C, bias)
    """
    words = modes.split()
    found: dict[str, tuple[str, Leaf]] = {}
    if len(words) != len(arrays):
        facts = {"modes": modes, "count": len(arrays)}
        raise refusal_here("kernel-letters", operation="cute.assume_shapes", **facts)
    for written, x in zip(words, arrays, strict=True):
        word = written.removesuffix("?")
        if x is None and word != written:
            continue
        if x is None:
            raise refusal_here("kernel-none", operation=current().name, modes=",".join(word))
        name = str(getattr(require_tensor(x, "cute.assume_shapes").engine, "name", x))
        if rank(x.layout) != len(word):
            facts = {"name": name, "rank": rank(x.layout), "count": len(word)}
            facts["modes"] = ",".join(word)
            raise refusal_here("kernel-modes", operation=current().name, **facts)
        for i, letter in enumerate(word):
            place, extent = f"{name}.shape[{i}]", x.shape[i]
            first, known = found.setdefault(letter, (place, extent))
            cond = compare("eq", known, extent)
            _require_possible(cond, f"{first} == {place}", known, extent)
            if isinstance(cond, Condition):
                assume(cond)


def assume_compact(*arrays: Tensor | None) -> None:
    """State that arrays have no gaps: their elements follow each other, the last mode fastest.

    Args:
        arrays: the arrays; None for one that is not given.

    Law: the offset of the element at (i, j, ...) is its index in row-major order. Strides of modes
    of extent 1 do not matter. At the beginning of a kernel every launch tests it, as `cute.assume`
    says.

    Raises LayoutError for static strides that differ.

    >>> # in a kernel: cute.assume_compact(C)
    """
    for x in arrays:
        if x is None:
            continue
        name = str(getattr(require_tensor(x, "cute.assume_compact").engine, "name", x))
        step: Any = 1
        for i in reversed(range(rank(x.layout))):
            _state_step(f"{name}.stride[{i}] == {step}", x.stride[i], step, x.shape[i])
            step = ints.mul(step, x.shape[i])


def _state_step(text: str, stride: Leaf, step: Leaf, extent: Leaf) -> None:
    """State that a stride is a step, or the extent of the mode 1."""
    fits, alone = compare("eq", stride, step), compare("eq", extent, 1)
    if fits is True or alone is True:
        return
    _require_possible(alone if fits is False else fits, text, stride, step)
    test: Cond = Compare("eq", bare(stride), bare(step))
    if isinstance(alone, Condition):
        test = Logic("or", (test, alone.cond))
    # it is no fact for proofs: one of a mode of extent 1 would leave out its guards
    emit(ops.Promise, test)


def _require_possible(cond: Any, text: str, *sides: Leaf) -> None:
    """Refuse a condition that is false for all arguments."""
    if cond is False:
        facts = {"cond": text, "values": " and ".join(map(str, sides))}
        raise refusal_here("plan-requirement", operation=current().name, **facts)
