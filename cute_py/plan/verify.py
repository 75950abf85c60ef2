"""The verifier: the rules that a plan must satisfy before it runs."""

from __future__ import annotations

from math import gcd, prod

from cute_py.errors import place_text, refusal
from cute_py.integers.polynomial import numbers_of, symbols_of
from cute_py.integers.symbols import terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import MOST, SCOPES, Compare, Logic, Reg, Test, bounds_of
from cute_py.plan.descriptors import require_shared_operands
from cute_py.plan.launch import MOST_SHARED, require_launch
from cute_py.plan.params import MOST_TABLES, ScalarParam, TensorParam, bytes_of
from cute_py.plan.plan import Plan
from cute_py.plan.setmaxnreg import require_registers
from cute_py.plan.waits import require_wait, runs
from cute_py.plan.walk import accesses, blocks_of, every, integers_in, parts, reads, writes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block

    Memory = TensorParam | ops.MakePtr


def verify(plan: Plan) -> None:
    """Refuse a plan with a malformed op (`Op.problem`), a read of registers before they are
    assigned, a barrier in divergent control flow, or more shared memory than a block can have.
    """
    for rule in PLAN_RULES:
        rule(plan)


def _require_sound_ops(plan: Plan) -> None:
    """Refuse an op whose fields do not fit each other, or that names a storage that the plan does
    not have. The tracer never records one, but a plan from a file, or built by hand, may have one.
    """
    bits = {r.name: r.count * r.dtype.bits for r in plan.storages}
    arrays: dict[str, Memory] = {p.name: p for p in plan.params if isinstance(p, TensorParam)}
    arrays |= {op.name: op for op in every(plan.body) if isinstance(op, ops.MakePtr)}
    known = {"gmem": set(arrays), "smem": {s.name for s in plan.shared}}
    for op in every(plan.body):
        problem = _parts(op) or op.problem() or _registers(op, bits)
        problem = problem or _accesses(op, known, arrays)
        problem = problem or _peers(op, prod(plan.launch.cluster)) or _boxes(op, arrays)
        if problem:
            raise refusal("plan-op", operation=op.word, problem=problem, where=_line(op))
        _require_numbers(op)


def _parts(op: ops.Op) -> str:
    """Return what is wrong with the registers, accesses and conditions of an op by themselves."""
    checked = (x for x in parts(op) if isinstance(x, (Reg, Access, Compare, Logic, Test)))
    return next(filter(None, (x.problem() for x in checked)), "")


def _registers(op: ops.Op, bits: dict[str, int]) -> str:
    """Return what is wrong with the register storages that an op names."""
    for reg in (*reads(op), *writes(op)):
        if reg.storage not in bits:
            return f"registers {reg.storage}, which the plan does not have"
        if any(not 0 <= i < bits[reg.storage] // reg.dtype.bits for i in reg.index):
            return f"{reg}, outside of its storage"
    return ""


def _accesses(op: ops.Op, known: dict[str, set[str]], arrays: Mapping[str, Memory]) -> str:
    """Return what is wrong with the accesses of an op."""
    for x in accesses(op):
        if x.storage not in known.get(x.space, ()):
            return f"{x.space} {x.storage}, which the plan does not have"
        problem = _unpacked(x, arrays)
        if problem:
            return problem
    return ""


def _peers(op: ops.Op, blocks: int) -> str:
    """Return what is wrong with accesses to other blocks of a cluster of so many blocks."""
    for x in accesses(op):
        if x.rank is None:
            continue
        if not op.peers or x.space != "smem":
            return f"{x.space} of another block, which only loads, stores and atomics access"
        low, high = bounds_of(x.rank)
        if (low is not None and low >= blocks) or (high is not None and high < 0):
            return f"shared memory of rank {x.rank} in a cluster of {blocks}"
    return ""


def _boxes(op: ops.Op, arrays: Mapping[str, Memory]) -> str:
    """Return what is wrong with the array that an op copies boxes of."""
    if not isinstance(op, (ops.TmaLoad, ops.TmaStore)):
        return ""
    param = arrays.get(op.tensor)
    if not isinstance(param, TensorParam):
        return f"boxes of {op.tensor}, which is no array of the plan"
    fits = len(param.shape) == len(op.coord) and param.dtype.bits == op.box.tile.dtype.bits
    return "" if fits else f"boxes of {op.box.tile.dtype} at {len(op.coord)} coordinates of {param}"


def _unpacked(x: Access, arrays: Mapping[str, Memory]) -> str:
    """Return what is wrong with the packing of sub-byte elements in global memory."""
    if x.space != "gmem":
        return "packed elements of shared memory, which always are" if x.packed else ""
    held = arrays[x.storage]
    alone = held.dtype.bits < 8 and not held.packed  # a byte for each element
    if x.packed != (x.dtype.bits < 8 and not alone) or (alone and held.dtype is not x.dtype):
        packed = "packed " * held.packed
        return f"elements of {x.dtype} in {x.storage}, which holds {packed}{held.dtype}"
    return ""


def _require_numbers(op: ops.Op) -> None:
    """Refuse numbers in the integers of an op that do not fit 64 signed bits."""
    for x in integers_in(op):
        _require_number(x, "kernel", where=_line(op))


def _require_number(x: Scalar, name: str, **where: str) -> None:
    for number in numbers_of(terms_of(x)):
        if not -1 - MOST <= number <= MOST:
            raise refusal("plan-integer", operation=name, number=number, **where)


def _require_written_once(plan: Plan) -> None:
    for op in every(plan.body):
        for reg in writes(op):
            if len(set(reg.index)) < len(reg.index) and not op.consistent:
                raise refusal("plan-twice", operation="kernel", reg=reg, where=_line(op))


def _require_assigned(plan: Plan) -> None:
    _assigned(plan.body, set(), _units(plan))


def _units(plan: Plan) -> dict[str, int]:
    """Return, for each storage, a divisor (bits) of the widths of all its reads and writes."""
    units: dict[str, int] = {}
    for op in plan.ops:
        for reg in (*reads(op), *writes(op)):
            units[reg.storage] = gcd(units.get(reg.storage, 0), reg.dtype.bits)
    return units


def _assigned(
    block: Block, known: set[tuple[str, int]], units: dict[str, int]
) -> set[tuple[str, int]]:
    """Return the elements that are definitely assigned after a block; refuse reads of others."""
    for op in block:
        if isinstance(op, ops.Loop):
            inner = _assigned(op.body, set(known), units)
            if runs(op):
                known = inner
            continue
        if isinstance(op, ops.While):
            known = _assigned(op.test, known, units)
            _require(op, known, units)
            _assigned(op.body, set(known), units)
            continue
        if isinstance(op, ops.If):
            _require(op, known, units)
            known = _assigned(op.then, set(known), units) & _assigned(op.other, set(known), units)
            continue
        _require(op, known, units)
        known = known | {key for reg in writes(op) for key in _keys(reg, units)}
    return known


def _keys(reg: Reg, units: dict[str, int]) -> list[tuple[str, int]]:
    """Return the bits that a register covers, in units of its storage."""
    size = reg.dtype.bits // units[reg.storage]
    return [(reg.storage, i * size + k) for i in reg.index for k in range(size)]


def _require(op: ops.Op, known: set[tuple[str, int]], units: dict[str, int]) -> None:
    sums = op.d if isinstance(op, ops.Wgmma) and not isinstance(op.accumulate, bool) else None
    for reg in reads(op):
        if reg is sums:  # the emulator knows whether it is read
            continue
        missing = next((key for key in _keys(reg, units) if key not in known), None)
        if missing is not None:
            element = missing[1] * units[reg.storage] // reg.dtype.bits
            raise refusal(
                "plan-unassigned",
                operation="kernel",
                storage=reg.storage,
                element=element,
                where=_line(op),
            )
    kept = op.preserved
    if kept is not None and any(key not in known for key in _keys(kept, units)):
        raise refusal(
            "plan-unassigned",
            operation="kernel",
            storage=kept.storage,
            element=kept.index[0],
            where=_line(op),
        )


def _line(op: ops.Op) -> str:
    return place_text(op.line)


def _require_barriers_together(plan: Plan) -> None:
    _barriers(plan.body, "block", None)


def _barriers(block: Block, scope: str, cause: ops.Op | None) -> None:
    """Refuse block barriers inside of branches and loops that are not uniform in the block."""
    for op in block:
        if op.group == "block" and scope != "block":
            assert cause is not None
            raise refusal(
                "plan-divergent", operation="syncthreads", branch=_line(cause), where=_line(op)
            )
        if isinstance(op, (ops.If, ops.Loop, ops.While)):
            inner = max(scope, op.scope, key=SCOPES.index)
            why = op if op.scope != "block" else cause
            for block_inside in blocks_of(op):
                _barriers(block_inside, inner, why)
        if isinstance(op, ops.Leave) and op.target == "loop" and op.scope != "block":
            scope, cause = max(scope, op.scope, key=SCOPES.index), op


def _require_wait(plan: Plan) -> None:
    if plan.launch.pdl:
        require_wait(plan.body, plan.name)


def _require_registers(plan: Plan) -> None:
    require_registers(plan.body, plan.launch)


def _require_sound_head(plan: Plan) -> None:
    """Refuse a launch that no GPU makes, and parameters and storages that are none."""
    require_launch(plan.launch, plan.name)
    for part in (*plan.params, *plan.shared, *plan.storages):
        if problem := part.problem():
            raise refusal("plan-op", operation=plan.name, problem=f"{part.name}: {problem}")


def _require_tables(plan: Plan) -> None:
    """Refuse tables that a launch cannot compute or pass, and reads of tables that are missing."""
    tables = plan.launch.tables
    if (bytes := bytes_of(tables)) > MOST_TABLES:
        raise refusal("plan-tables", operation=plan.name, bytes=bytes, most=MOST_TABLES)
    arrays = [p for p in plan.params if isinstance(p, TensorParam)]
    sizes = [x for p in arrays for x in (*p.shape, *p.stride)]
    known = {s.name for x in sizes for s in symbols_of(terms_of(x))}
    known |= {p.name for p in plan.params if isinstance(p, ScalarParam)}
    for x in (x for row in tables for x in row):
        _require_number(x, plan.name)
        if unknown := {s.name for s in symbols_of(terms_of(x))} - known:
            problem = f"{', '.join(sorted(unknown))} in a table of the launch"
            raise refusal("plan-op", operation=plan.name, problem=problem)
    for op in every(plan.body):
        if (
            isinstance(op, ops.Let)
            and op.kind == "table"
            and op.operands[0] not in range(len(tables))
        ):
            problem = f"table {op.operands[0]}, which the launch does not have"
            raise refusal("plan-op", operation=op.word, problem=problem, where=_line(op))


def _require_shared(plan: Plan) -> None:
    if plan.smem_bytes > MOST_SHARED:
        raise refusal("plan-shared", operation=plan.name, bytes=plan.smem_bytes, most=MOST_SHARED)


def _require_shared_operands(plan: Plan) -> None:
    require_shared_operands(plan.body, {s.name: s.offset for s in plan.shared})


PLAN_RULES = (
    _require_sound_head,
    _require_sound_ops,
    _require_written_once,
    _require_assigned,
    _require_barriers_together,
    _require_shared,
    _require_tables,
    _require_wait,
    _require_registers,
    _require_shared_operands,
)
