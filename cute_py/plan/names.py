"""The names of a plan from a file: each is one thing, and is defined before it is used.

The tracer gives names by construction. The printer makes them variables of a kernel, and the
emulator looks values up by them.
"""

from __future__ import annotations

from keyword import iskeyword
from unicodedata import normalize

from cute_py.errors import refusal
from cute_py.integers.polynomial import symbols_of
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.fields import shortened
from cute_py.plan.op import Node, roles_of
from cute_py.plan.params import ScalarParam, TensorParam
from cute_py.plan.walk import accesses, blocks_of, integers_in, named, parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.errors import CuteError
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.plan import Plan

PLACES = ("tid", "bid_x", "bid_y", "bid_z")  # of the thread in its block, of the block in the grid
LONGEST = 250  # characters of a name


def require_names(plan: Plan) -> None:
    """Refuse what is no name, names of two things, and uses of what is not defined there."""
    sizes = [x for p in plan.params for x in _symbols(p)]
    once = [x.name for x in (*plan.params, *plan.storages, *plan.shared)]
    once += [*sizes, *PLACES]
    for p in plan.params:
        if isinstance(p, ScalarParam) and not p.dtype.is_float:
            once.remove(p.name)  # whose symbol it is
    taken = set(once)
    if len(taken) < len(once):
        twice = next(name for name in once if once.count(name) > 1)
        raise _refused(plan.name, f"two things of the name {shortened(twice)}")
    made = {name for op in plan.ops for name in named(op)}
    variables = {op.var for op in plan.ops if isinstance(op, ops.Set)}
    wrong = [name for name in (*once, *made, *variables) if not _is_name(name)]
    wrong += (made | variables) & taken
    if not (_is_name(plan.name) or plan.name == "<lambda>"):
        wrong.append(plan.name)
    if wrong:
        raise _refused("Plan.load", f"the name {shortened(wrong[0])}")
    _require_sizes(plan, {*sizes})
    arrays = {p.name for p in plan.params if isinstance(p, TensorParam)}
    floats = {p.name for p in plan.params} - {*sizes} - arrays
    _require_defined(plan.body, {*sizes, *PLACES}, arrays, floats)


def _is_name(x: str) -> bool:
    """Return whether a text is a name that Python reads as it is written, and can assign to."""
    if len(x) > LONGEST or not x.isidentifier() or iskeyword(x) or x == "__debug__":
        return False
    return normalize("NFKC", x) == x


def _refused(operation: str, problem: str, **where: str) -> CuteError:
    return refusal("plan-op", operation=operation, problem=problem, **where)


def _symbols(p: TensorParam | ScalarParam) -> list[str]:
    """Return the names of the integers that a parameter gives: its sizes and strides that are not
    numbers, each a symbol of its own name; or itself.
    """
    if isinstance(p, ScalarParam):
        return [] if p.dtype.is_float else [p.name]
    rows = ("shape", p.shape), ("stride", p.stride)
    if len(p.shape) != len(p.stride):
        raise _refused(p.name, f"sizes {p.shape} and strides {p.stride}")
    found = []
    for fact, row in rows:
        for i, x in enumerate(row):
            if not isinstance(x, SymInt):
                continue
            found.append(f"{p.name}_{fact}{i}")
            if [s.name for s in symbols_of(terms_of(x))] != found[-1:] or len(terms_of(x)) > 1:
                raise _refused(p.name, f"{fact} {x}, which is not {found[-1]}")
    return found


def _require_sizes(plan: Plan, known: set[str]) -> None:
    """Refuse numbers of the launch that are computed from anything but the parameters."""
    launch = plan.launch
    for row in (launch.grid, launch.counts, launch.divisors, *launch.tables):
        _require_known(row, known, "the launch")


def _require_known(values: Iterable[Scalar], known: set[str], operation: str, **at: str) -> None:
    for x in values:
        for s in symbols_of(terms_of(x)):
            if s.name not in known:
                raise _refused(operation, f"{s.name}, which is not defined", **at)


def _require_defined(
    block: ops.Block, known: set[str], arrays: set[str], floats: set[str]
) -> set[str]:
    """Refuse uses of names that no op before in the block, or around it, defines; return the names
    that are known after it.

    Args:
        block: the ops.
        known: integers, variables and pointers that are defined before.
        arrays: the parameters that are arrays.
        floats: those that are floating-point numbers, which no integer is computed from.

    """
    known = {*known}
    for op in block:
        if isinstance(op, ops.While):
            known = _require_defined(op.test, known, arrays, floats)
        _require_known(_integers(op, floats), known, op.word, where=op.where)
        unknown = _named_by(op) - known - arrays
        if unknown:
            raise _refused(op.word, f"{min(unknown)}, which is not defined", where=op.where)
        inside = {*known, *named(op)}
        ends = [_require_defined(inner, inside, arrays, floats) for inner in blocks_of(op)]
        known = known if op.repeats else inside
        if isinstance(op, ops.If):
            known |= set.intersection(*ends)
        elif isinstance(op, ops.Set):
            known.add(op.var)
    return known


def _integers(op: ops.Op, floats: set[str]) -> list[Scalar]:
    """Return the integers of an op, and those that its accesses assert; of its elements not those
    that are floating-point parameters.
    """
    held = [getattr(op, name) for name, role in roles_of(op) if role == "elements"]
    moved = [x for row in held if isinstance(row, tuple) for x in row if isinstance(x, SymInt)]
    alone = {id(x) for x in moved if str(x) in floats}
    asserted = [x for a in accesses(op) for bound in a.asserted for x in parts(bound)]
    found = integers_in(op) + [x for x in asserted if not isinstance(x, Node)]
    return [x for x in found if id(x) not in alone]


def _named_by(op: ops.Op) -> set[str]:
    """Return the variables, pointers and arrays that an op uses by their names."""
    if isinstance(op, ops.Let) and op.kind == "var":
        return {str(op.operands[0])}
    return {x.storage for x in accesses(op) if x.space == "gmem"}
