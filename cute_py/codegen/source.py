"""The plan as a Numba kernel: plain Python text, one line an op, the kernel's line behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.errors import refusal
from cute_py.layout.symbols import SymInt
from cute_py.trace import ops
from cute_py.trace.plan import ScalarParam, TensorParam

if TYPE_CHECKING:
    from cute_py.codegen.intrinsics import Call, Intrinsics
    from cute_py.trace.conditions import Scalar
    from cute_py.trace.ops import Block, Op
    from cute_py.trace.plan import Plan

INDENT = "    "


def parameters(plan: Plan) -> list[tuple[str, str]]:
    """Return (name, type) of the kernel's parameters: addresses, sizes and strides, numbers.

    Types: `address` (64 bits), `integer` (64 bits), `f32` or `f64`.
    """
    found: list[tuple[str, str]] = []
    for p in plan.params:
        if isinstance(p, ScalarParam):
            kind = p.dtype.name if p.dtype.is_float else "integer"
            if p.dtype.is_float and p.dtype.bits < 32:
                name = f"a run-time number of {p.dtype}"
                raise refusal("codegen-op", operation="cute.compile", name=name)
            found.append((p.name, kind))
            continue
        found.append((p.name, "address"))
        found += [(str(name), "integer") for name in names_of(p)]
    return found


def names_of(p: TensorParam) -> list[str]:
    """Return the names of the sizes and strides that are known at run time only."""
    extents = [(f"{p.name}_shape{i}", x) for i, x in enumerate(p.shape)]
    strides = [(f"{p.name}_stride{i}", x) for i, x in enumerate(p.stride)]
    return [name for name, x in (*extents, *strides) if isinstance(x, SymInt)]


class Source:
    """Prints a plan; `calls` has the intrinsics that the text names."""

    def __init__(self, plan: Plan, intrinsics: Intrinsics) -> None:
        """Print the kernel."""
        self.plan, self.intrinsics = plan, intrinsics
        self.calls: dict[str, object] = {}
        self.lines: list[str] = []
        names = ", ".join(name for name, _kind in parameters(plan))
        self.lines.append(f"def {plan.name}({names}):")
        self._head()
        self._block(plan.body, 1)
        self.text = "\n".join(self.lines) + "\n"

    def _head(self) -> None:
        """Print what all ops share: indices, shared memory, registers, variables."""
        self._line(1, "tid = thread_index()")
        self._line(1, "bid_x, bid_y, bid_z = block_index()")
        if self.plan.shared:
            self._line(1, "smem = shared_memory()")
        for name, count in self.intrinsics.storages.items():
            self._line(1, f"{name} = undefined({count})")
        variables = {op.var for op in self.plan.ops if isinstance(op, ops.Set)}
        for name in sorted(variables):
            self._line(1, f"{name} = int64(0)")

    def _line(self, depth: int, text: str, op: Op | None = None) -> None:
        place = f"  # line {op.line[1]}" if op is not None and op.line[1] else ""
        self.lines.append(f"{INDENT * depth}{text}{place}")

    def _name(self, call: Call, stem: str) -> str:
        name = f"{stem}_{len(self.calls)}"
        self.calls[name] = call.function
        return f"{name}({', '.join(call.arguments)})"

    def _scalar(self, x: Scalar) -> str:
        if isinstance(x, int):
            return str(x)
        return self._name(self.intrinsics.scalar(x), "value")

    # -- ops

    def _block(self, block: Block, depth: int) -> None:
        for op in block:
            self._op(op, depth)
        if not block:
            self._line(depth, "pass")

    def _op(self, op: Op, depth: int) -> None:
        control = getattr(self, f"_{type(op).__name__.lower()}", None)
        if control is not None:
            control(op, depth)
            return
        call = self.intrinsics.op(op)
        text = self._name(call, type(op).__name__.lower())
        target = f"{', '.join(call.results)} = " if call.results else ""
        self._line(depth, target + text, op)

    def _loop(self, op: ops.Loop, depth: int) -> None:
        bounds = f"{self._scalar(op.start)}, {self._scalar(op.stop)}, {op.step}"
        self._line(depth, f"for {op.var} in range({bounds}):", op)
        self._block(op.body, depth + 1)

    def _while(self, op: ops.While, depth: int) -> None:
        self._line(depth, "while True:", op)
        self._block(op.test, depth + 1) if op.test else None
        test = self._name(self.intrinsics.condition(op.cond), "holds")
        self._line(depth + 1, f"if not {test}:")
        self._line(depth + 2, "break")
        self._block(op.body, depth + 1)

    def _if(self, op: ops.If, depth: int) -> None:
        test = self._name(self.intrinsics.condition(op.cond), "holds")
        self._line(depth, f"if {test}:", op)
        self._block(op.then, depth + 1)
        if op.other:
            self._line(depth, "else:")
            self._block(op.other, depth + 1)

    def _leave(self, op: ops.Leave, depth: int) -> None:
        test = self._name(self.intrinsics.condition(op.cond), "holds")
        self._line(depth, f"if {test}:", op)
        self._line(depth + 1, "break" if op.target == "loop" else "return")

    def _let(self, op: ops.Let, depth: int) -> None:
        if op.kind == "var":
            self._line(depth, f"{op.var} = {op.operands[0]}", op)
            return
        self._line(depth, f"{op.var} = {self._name(self.intrinsics.let(op), 'let')}", op)

    def _set(self, op: ops.Set, depth: int) -> None:
        self._line(depth, f"{op.var} = int64({self._scalar(op.value)})", op)
