"""The plan as a Numba kernel: plain Python text, one line an op, the kernel's line behind it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cute_py.codegen.head import WIDTH, docstring
from cute_py.codegen.names import Names, stem_of
from cute_py.errors import refusal
from cute_py.integers.symbols import SymInt
from cute_py.plan import ops
from cute_py.plan.plan import ScalarParam, TensorParam
from cute_py.plan.text import op_text, where_of

if TYPE_CHECKING:
    from cute_py.codegen.chains import Walk
    from cute_py.codegen.intrinsics import Call
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan

INDENT = "    "
LONGEST = 118  # of a line with its comment
LEAST = 16  # of an op: a shorter piece says nothing
HELPERS = ("thread_index", "block_index", "shared_memory", "undefined", "int64", "range")


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
    """Prints a plan.

    Attributes:
        text: the file: a docstring, and the kernel.
        calls: the intrinsics and helpers that the text names.
    """

    def __init__(self, plan: Plan) -> None:
        """Print the kernel."""
        from cute_py.codegen.intrinsics import Intrinsics

        self.plan = plan
        self.parameters = [name for name, _kind in parameters(plan)]
        self.names = Names(plan, self.parameters)
        self.main = main_file(plan)
        self.helpers = {name: self.names.helper(name) for name in HELPERS}
        self.intrinsics = Intrinsics(plan, self.names.helper)
        self.calls = self._runtime()
        self.known: dict[int, str] = {}  # by identity of the intrinsic, which `calls` holds
        self.words: set[str] = set()
        self.lines: list[str] = []
        self._head()
        self._block(plan.body, 1)
        above = docstring(plan, self.main, self.intrinsics, self.words)
        self.text = above + "\n\n" + "\n".join(self.lines) + "\n"

    def _runtime(self) -> dict[str, object]:
        """Return the helpers by the names that the text gives them."""
        from cute_py.codegen.runtime import make_runtime

        made = make_runtime(self.plan.launch.block)
        return {name: made[helper] for helper, name in self.helpers.items()}

    def _head(self) -> None:
        """Print what all ops share: indices, shared memory, registers, variables."""
        self._signature()
        helpers = self.helpers
        self._line(1, f"tid = {helpers['thread_index']}()")
        self._line(1, f"bid_x, bid_y, bid_z = {helpers['block_index']}()")
        if self.plan.shared:
            self._line(1, f"{self.intrinsics.smem} = {helpers['shared_memory']}()")
        for name, count in self.intrinsics.storages.items():
            self._line(1, f"{name} = {helpers['undefined']}({count})")
        variables = {op.var for op in self.plan.ops if isinstance(op, ops.Set)}
        for name in sorted(variables):
            self._line(1, f"{name} = {helpers['int64']}(0)")

    def _signature(self) -> None:
        """Print the def line; over several lines where it is long, a parameter of the plan each."""
        line = f"def {self.plan.name}({', '.join(self.parameters)}):"
        if len(line) <= WIDTH:
            self.lines.append(line)
            return
        self.lines.append(f"def {self.plan.name}(")
        for p in self.plan.params:
            sizes = [] if isinstance(p, ScalarParam) else names_of(p)
            self.lines.append(f"{INDENT}{', '.join([p.name, *sizes])},")
        self.lines.append("):")

    def _line(self, depth: int, text: str, op: Op | None = None) -> None:
        line = f"{INDENT * depth}{text}"
        self.lines.append(line if op is None else line + _comment(op, len(line), self.main))

    def _name(self, call: Call, word: str, stem: str = "") -> str:
        name = self.known.get(id(call.function))
        if name is None:
            name = self.known[id(call.function)] = self.names.numbered(stem or word)
            self.words.add(word)
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
        text = self._name(call, *stem_of(op))
        target = f"{', '.join(call.results)} = " if call.results else ""
        self._line(depth, target + text, op)

    def _loop(self, op: ops.Loop, depth: int) -> None:
        bounds = f"{self._scalar(op.start)}, {self._scalar(op.stop)}, {op.step}"
        walks = self.intrinsics.chains.walks.get(id(op), [])
        for walk in walks:
            self._walk(walk, "begin", depth)
        self._line(depth, f"for {op.var} in {self.helpers['range']}({bounds}):", op)
        self._block(op.body, depth + 1)
        for walk in walks:
            self._walk(walk, "advance", depth + 1)

    def _walk(self, walk: Walk, word: str, depth: int) -> None:
        self._line(depth, f"{walk.name} = {self._name(self.intrinsics.walk(walk, word), word)}")

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
        self._line(
            depth, f"{op.var} = {self._name(self.intrinsics.let(op), 'let', f'let_{op.kind}')}", op
        )

    def _set(self, op: ops.Set, depth: int) -> None:
        self._line(depth, f"{op.var} = {self.helpers['int64']}({self._scalar(op.value)})", op)


def main_file(plan: Plan) -> str:
    """Return the name of the file that most ops come from, "" if no op has one."""
    files = Counter(where_of(op).rpartition(":")[0] for op in plan.ops)
    del files[""]
    return min(files, key=lambda name: (-files[name], name), default="")


def _comment(op: Op, length: int, main: str) -> str:
    """Return the place of the kernel, and of the op as much as fits behind `length` characters."""
    file, _colon, line = where_of(op).rpartition(":")
    place = f"line {line}" if file == main else f"{file}:{line}"
    start = f"  # {place}" if line else "  #"
    room, text = LONGEST - length - len(start) - 2, " ".join(op_text(op).split())
    if len(text) > room:
        text = f"{text[: room - 4].rstrip()} ..." if room >= LEAST else ""
    return f"{start}  {text}" if text else start if line else ""
