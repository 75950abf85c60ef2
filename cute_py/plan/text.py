"""Plans as text: one line an op, the kernel's line at its end."""

from __future__ import annotations

from dataclasses import fields

from cute_py.plan.access import Access
from cute_py.plan.conditions import runs
from cute_py.plan.ops import (
    CpAsync,
    Fill,
    GridDep,
    If,
    LdMatrix,
    Let,
    Load,
    Loop,
    Map,
    Mma,
    Op,
    Set,
    StMatrix,
    Store,
    Tile,
    While,
)
from cute_py.plan.plan import TensorParam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cute_py.plan.ops import Block
    from cute_py.plan.plan import Plan


def plan_text(plan: Plan) -> str:
    """Return the whole plan: parameters, launch shape, storages, ops."""
    launch = plan.launch
    lines = [f"plan {plan.name}"]
    for p in plan.params:
        if isinstance(p, TensorParam):
            shape, stride = (",".join(map(str, x)) for x in (p.shape, p.stride))
            lines.append(f"  param {p.name}: {p.dtype} ({shape}):({stride}), {p.alignment} bytes")
        else:
            lines.append(f"  param {p.name}: {p.dtype}")
    grid, block = (",".join(map(str, x)) for x in (launch.grid, launch.block))
    cluster = "" if launch.cluster == (1, 1, 1) else f" cluster ({_listed(launch.cluster)})"
    least = f" min_blocks {launch.min_blocks}" if launch.min_blocks > 1 else ""
    least += f" spill_bytes {launch.spill_bytes}" if launch.spill_bytes else ""
    least += " pdl" if launch.pdl else ""
    lines.append(f"  launch grid ({grid}) block ({block}){cluster}{least}")
    for s in plan.shared:
        lines.append(f"  shared {s.name}: {s.dtype}[{s.count}] at {s.offset}, {s.bytes} bytes")
    for r in plan.storages:
        lines.append(f"  registers {r.name}: {r.dtype}[{r.count}]")
    return "\n".join([*lines, *_block(plan.body, 1)])


def _listed(x: tuple[object, ...]) -> str:
    return ",".join(map(str, x))


def _block(block: Block, depth: int) -> Iterator[str]:
    for op in block:
        yield f"{'  ' * depth}{op_text(op)}{_place(op)}"
        if isinstance(op, While) and op.test:
            yield from _block(op.test, depth + 2)
            yield f"{'  ' * depth}do"
        if isinstance(op, (Loop, While)):
            yield from _block(op.body, depth + 1)
        if isinstance(op, If):
            yield from _block(op.then, depth + 1)
            if op.other:
                yield f"{'  ' * depth}else"
                yield from _block(op.other, depth + 1)


def _place(op: Op) -> str:
    return f"  # line {op.line[1]}" if op.line[1] else ""


def where_of(op: Op) -> str:
    """Return the place of the kernel that made an op, `file.py:line`; "" where it is not known."""
    file, line = op.line
    return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{line}" if line else ""


def op_text(op: Op) -> str:
    """Return an op as one line, without the blocks that it holds."""
    special = _TEXTS.get(type(op))
    if special is not None:
        return special(op)
    words = [
        _field(getattr(op, f.name))
        for f in fields(op)
        if f.name != "line" and getattr(op, f.name) not in (None, "", False)
    ]
    return " ".join([_name(op), *words])


def _name(op: Op) -> str:
    return type(op).__name__.lower()


def _field(x: object) -> str:
    if isinstance(x, Access):
        return access_text(x)
    if isinstance(x, Tile):
        return access_text(x.access)
    if isinstance(x, tuple):
        return "(" + ", ".join(_field(part) for part in x) + ")"
    return str(x)


def access_text(x: Access) -> str:
    """Return an access: storage, bases, swizzle, table, width, and why it is guarded."""
    bases = " | ".join(map(str, x.bases))
    table = _table_text(x)
    inner = f"{x.inner} + {table}" if x.inner.__class__ is not int or x.inner else table
    if x.swizzle is not None:
        inner = f"Sw<{_listed(x.swizzle)}>({inner})"
    wide = f" x{x.width}" if x.width > 1 else ""
    where = "" if not x.guards else " if " + " and ".join(map(str, x.guards))
    cache = f" .{x.cache}" if x.cache else ""
    return f"{x.storage}[{bases} + {inner}]{wide}{cache}{where}"


_LONGEST = 100  # characters of a table that is printed in full


def _table_text(x: Access) -> str:
    if len(x.bases) == 1:
        words = runs(tuple([o for _b, o in x.table]))
    else:
        words = ",".join([f"{b}:{o}" for b, o in x.table])
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST].rpartition(',')[0]},... {x.count} in all"
    return f"[{words}]"


def _loop(op: Loop) -> str:
    step = "" if op.step == 1 else f" step {op.step}"
    scope = "" if op.scope == "block" else f" ({op.scope})"
    return f"for {op.var} in {op.start} .. {op.stop}{step}{scope}"


def _if(op: If) -> str:
    return f"if {op.cond}" + ("" if op.scope == "block" else f" ({op.scope})")


def _map(op: Map) -> str:
    sources = ", ".join(str(x) for x in op.sources)
    return f"{op.dst} = {op.fn}.{op.dtype}({sources})"


def _mma(op: Mma) -> str:
    return f"{op.d} += {op.a} * {op.b}  {op.atom} x {len(op.steps)}"


_TEXTS: dict[type[Op], Callable[..., str]] = {
    Loop: _loop,
    While: lambda op: f"while {op.cond}",
    If: _if,
    Let: lambda op: f"{op.var} = {op.kind}({', '.join(map(str, op.operands))})",
    Set: lambda op: f"{op.var} := {op.value}",
    Fill: lambda op: f"{op.dst} = {'undefined' if op.value is None else op.value}",
    Map: _map,
    Mma: _mma,
    Load: lambda op: f"{op.dst} = load {access_text(op.src)}",
    Store: lambda op: f"store {access_text(op.dst)} = {op.src}",
    GridDep: lambda op: f"griddepcontrol {op.kind}",
    CpAsync: lambda op: f"cp_async {access_text(op.dst)} = {access_text(op.src)}",
    LdMatrix: lambda op: f"{op.dst} = ldmatrix {access_text(op.src)}  {op.atom}",
    StMatrix: lambda op: f"stmatrix {access_text(op.dst)} = {op.src}  {op.atom}",
}
