"""What must hold of each op by itself: one rule for each, over its own fields.

The front end never breaks them; a plan that was read from a file, or built by hand, may.
"""

from __future__ import annotations

from math import prod

from cute_py.errors import refusal
from cute_py.integers.polynomial import numbers_of
from cute_py.integers.symbols import terms_of
from cute_py.layout.queries import size
from cute_py.plan import ops
from cute_py.plan.conditions import Reg
from cute_py.plan.functions import ATOMICS, FUNCTIONS, REDUCTIONS
from cute_py.plan.lets import MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.plan.access import Access
    from cute_py.plan.ops import Op
    from cute_py.plan.plan import Plan

SCOPES = ("block", "warpgroup", "warp", "thread")
_TESTS = ("eq", "ne", "lt", "le", "gt", "ge")


def check_op(op: Op, plan: Plan) -> None:
    """Refuse an op whose fields do not fit each other, or name what the plan does not have."""
    file, line = op.line
    where = f"{file.rpartition('/')[2]}:{line}"
    problem = RULES[type(op)](op) or _names(op, plan)
    if problem:
        raise refusal("plan-op", operation=type(op).__name__, problem=problem, where=where)
    _require_numbers(op, where)


# -- names


def _names(op: Op, plan: Plan) -> str:
    """Return what is wrong with the storages that an op names."""
    from cute_py.plan.walk import accesses, reads, writes

    counts = {r.name: r.count * r.dtype.bits for r in plan.storages}
    for reg in (*reads(op), *writes(op)):
        bits = counts.get(reg.storage)
        if bits is None:
            return f"registers {reg.storage}, which the plan does not have"
        if any(not 0 <= i < bits // reg.dtype.bits for i in reg.index):
            return f"{reg}, outside of its storage"
    known = {
        "gmem": {p.name for p in plan.params},
        "smem": {s.name for s in plan.shared},
    }
    for access in accesses(op):
        if access.storage not in known.get(access.space, ()):
            return f"{access.space} {access.storage}, which the plan does not have"
        problem = _access(access) or _unpacked(access, plan)
        if problem:
            return problem
    return ""


def _unpacked(x: Access, plan: Plan) -> str:
    """Return what is wrong with elements below a byte of an array: they are not packed."""
    held = next(
        (p.dtype for p in plan.params if x.space == "gmem" and p.name == x.storage), x.dtype
    )
    alike = held is x.dtype or min(held.bits, x.dtype.bits) >= 8
    return "" if alike else f"elements of {x.dtype} in {x.storage}, which holds {held}"


def _access(x: Access) -> str:
    if any(not 0 <= b < len(x.bases) for b, _o in x.table):
        return "a table that names a base that is not there"
    if x.masks and len(x.masks) != x.count:
        return f"{len(x.masks)} masks for {x.count} vectors"
    if any(not 0 <= g < len(x.guards) for mask in x.masks for g in mask):
        return "a mask that names a guard that is not there"
    return "" if x.width > 0 else "vectors of no element"


def _require_numbers(op: Op, where: str) -> None:
    """Refuse numbers in the integers of an op that 64 bits with a sign do not hold."""
    from cute_py.plan.walk import integers_in

    for x in integers_in(op):
        for number in numbers_of(terms_of(x)):
            if not -1 - MOST <= number <= MOST:
                raise refusal(
                    "plan-integer", operation=type(op).__name__, number=number, where=where
                )


# -- one rule an op: the problem in words, or ""


def _fine(op: Op) -> str:
    return ""


def _loop(op: ops.Loop) -> str:
    return "" if op.step and op.scope in SCOPES else "a step of 0, or an unknown scope"


def _scope(op: ops.If | ops.While | ops.Leave) -> str:
    return "" if op.scope in SCOPES else f"the scope {op.scope}"


def _leave(op: ops.Leave) -> str:
    return _scope(op) if op.target in ("loop", "kernel") else f"the target {op.target}"


def _let(op: ops.Let) -> str:
    counts = {"xor": 2, "and": 2, "or": 2, "shl": 2, "shr": 2, "reg": 1, "var": 1}
    return "" if counts.get(op.kind) == len(op.operands) else f"{op.kind} of {len(op.operands)}"


def _map(op: ops.Map) -> str:
    function = FUNCTIONS.get(op.fn)
    if function is None or function.arity != len(op.sources):
        return f"{op.fn} of {len(op.sources)} sources"
    lengths = {len(x) for x in op.sources if isinstance(x, Reg)}
    return "" if lengths <= {1, len(op.dst)} else f"sources of {lengths} for {len(op.dst)} elements"


def _same_length(op: ops.Convert | ops.Shuffle) -> str:
    same = len(op.dst) == len(op.src)
    return "" if same else f"{len(op.src)} elements for {len(op.dst)}"


def _convert(op: ops.Convert) -> str:
    known = op.rounding in ("rn", "rz", "rd", "ru", "rna")
    return _same_length(op) if known else f"the rounding {op.rounding}"


def _reduce(op: ops.Reduce) -> str:
    if op.fn not in REDUCTIONS:
        return f"the reduction {op.fn}"
    even = len(op.src) % len(op.dst) == 0
    return "" if even else f"{len(op.src)} elements for {len(op.dst)} results"


def _shuffle(op: ops.Shuffle) -> str:
    if op.kind not in ("idx", "up", "down", "bfly") or op.width not in (1, 2, 4, 8, 16, 32):
        return f"{op.kind} in groups of {op.width}"
    return _same_length(op)


def _vote(op: ops.Vote) -> str:
    single = len(op.dst) == len(op.src) == 1
    return "" if single and op.kind in ("any", "all", "ballot") else f"the vote {op.kind}"


def _load(op: ops.Load) -> str:
    return _elements(op.src, op.dst)


def _store(op: ops.Store) -> str:
    return _elements(op.dst, op.src)


def _elements(x: Access, reg: Reg) -> str:
    moved = x.count * x.width
    return "" if moved == len(reg) else f"{moved} elements in memory for {len(reg)} registers"


def _matrix(x: Access, reg: Reg, each: int) -> str:
    if x.vector_bits != 128 or x.space != "smem":
        return f"rows of {x.vector_bits} bits in {x.space}"
    return "" if x.count * each == len(reg) else f"{x.count} rows for {len(reg)} registers"


def _ldmatrix(op: ops.LdMatrix) -> str:
    return _matrix(op.src, op.dst, op.atom.dst_bits // op.dst.dtype.bits)


def _stmatrix(op: ops.StMatrix) -> str:
    return _matrix(op.dst, op.src, op.atom.src_bits // op.src.dtype.bits)


def _atomic(op: ops.Atomic) -> str:
    if op.fn not in ATOMICS:
        return f"the atomic {op.fn}"
    return _elements(op.dst, op.src)


def _cp_async(op: ops.CpAsync) -> str:
    if (op.src.space, op.dst.space) != ("gmem", "smem"):
        return f"a copy from {op.src.space} to {op.dst.space}"
    if op.src.vector_bits not in (32, 64, 128) or op.src.vector_bits != op.dst.vector_bits:
        return f"vectors of {op.src.vector_bits} and {op.dst.vector_bits} bits"
    return "" if op.src.count == op.dst.count else f"{op.src.count} vectors for {op.dst.count}"


def _groups(op: ops.CpWait | ops.BulkWait | ops.WgWait) -> str:
    return "" if op.n >= 0 else f"{op.n} groups"


def _barrier(op: Op) -> str:
    bar: Access = op.bar  # type: ignore[attr-defined]
    whole = bar.space == "smem" and bar.vector_bits == 64 and bar.count == 1
    return "" if whole else "an mbarrier that is not 8 bytes of shared memory"


def _tma(op: ops.TmaLoad | ops.TmaStore) -> str:
    tile = op.dst if isinstance(op, ops.TmaLoad) else op.src
    if len(op.coord) != len(op.box):
        return f"a box of {len(op.box)} modes at {len(op.coord)} coordinates"
    return "" if tile.count == prod(op.box) else f"{tile.count} elements for a box of {op.box}"


def _mma(op: ops.Mma | ops.Wgmma) -> str:
    values = int(size(op.atom.c_tv, 1))
    if len(op.d) % values:
        return f"{len(op.d)} accumulators in fragments of {values}"
    fragments = len(op.d) // values
    return "" if all(0 <= d < fragments for d, _a, _b in op.steps) else "a step outside of d"


def _sync(op: ops.Barrier) -> str:
    known = op.scope in ("block", "named", "warp", "cluster")
    if not known or op.kind not in ("sync", "arrive", "wait"):
        return f"the barrier {op.scope} {op.kind}"
    counted = op.scope != "named" or (op.threads > 0 and op.threads % 32 == 0)
    return "" if counted else f"a named barrier of {op.threads} threads"


def _grid(op: ops.GridDep) -> str:
    return "" if op.kind in ("wait", "launch_dependents") else "wait or launch_dependents"


def _fence(op: ops.Fence) -> str:
    known = ("proxy_async", "mbarrier_init", "block", "gpu", "system")
    return "" if op.kind in known else f"the fence {op.kind}"


def _wait_until(op: ops.WaitUntil) -> str:
    return "" if op.test in _TESTS and op.src.count == op.src.width == 1 else f"the test {op.test}"


def _registers(op: ops.SetMaxNReg) -> str:
    return "" if op.n % 8 == 0 and 24 <= op.n <= 256 else f"{op.n} registers"


RULES: dict[type[Op], Callable[..., str]] = {
    ops.Loop: _loop,
    ops.While: _scope,
    ops.If: _scope,
    ops.Leave: _leave,
    ops.Let: _let,
    ops.Set: _fine,
    ops.Fill: _fine,
    ops.Map: _map,
    ops.Convert: _convert,
    ops.Reduce: _reduce,
    ops.Shuffle: _shuffle,
    ops.Vote: _vote,
    ops.Load: _load,
    ops.Store: _store,
    ops.LdMatrix: _ldmatrix,
    ops.StMatrix: _stmatrix,
    ops.Atomic: _atomic,
    ops.CpAsync: _cp_async,
    ops.CpCommit: _fine,
    ops.CpWait: _groups,
    ops.CpArrive: _barrier,
    ops.TmaLoad: _tma,
    ops.TmaStore: _tma,
    ops.BulkCommit: _fine,
    ops.BulkWait: _groups,
    ops.Prefetch: _fine,
    ops.Mma: _mma,
    ops.Wgmma: _mma,
    ops.WgFence: _fine,
    ops.WgCommit: _fine,
    ops.WgWait: _groups,
    ops.Barrier: _sync,
    ops.Fence: _fence,
    ops.GridDep: _grid,
    ops.MbarInit: _barrier,
    ops.MbarArrive: _barrier,
    ops.MbarWait: _barrier,
    ops.WaitUntil: _wait_until,
    ops.SetMaxNReg: _registers,
    ops.Print: _fine,
    ops.Assert: _fine,
}
