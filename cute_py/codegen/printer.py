"""The plan as a Numba kernel: plain Python, one line per op, each followed by the kernel's line.

Intrinsics have a word and a number as their name, runtime functions a word that the plan does not
use. A docstring above the kernel lists its parameters, memory and calls.
"""

from __future__ import annotations

from collections import Counter
from keyword import iskeyword
from typing import TYPE_CHECKING

from cute_py.codegen import executed
from cute_py.codegen.driver import MAP_BYTES
from cute_py.codegen.executed import comment
from cute_py.codegen.passes import names_in
from cute_py.codegen.tensor_maps import TensorMaps
from cute_py.errors import file_text, refusal
from cute_py.integers import ints
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.conditions import bounds_of, fits
from cute_py.plan.params import ScalarParam, TensorParam, bytes_of
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from cute_py.codegen.intrinsics import Call, Intrinsics
    from cute_py.codegen.passes.strength import Chains, Induction
    from cute_py.plan.conditions import Scalar
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan

# bytes of parameters (PTX ISA 8.1, "Kernel Function Parameters"); drivers before CUDA 12.1 pass
# 4,096, but load no cubin of ptxas 13
MOST_PARAMETERS = 32_764

INDENT = "    "
WIDTH = 100
LONGEST = 118  # length of a line with its comment
LEAST = 16  # characters of an op in a comment: fewer are useless
HELPERS = (
    "thread_index",
    "warp_index",
    "block_index",
    "shared_memory",
    "undefined",
    "int32",
    "int64",
    "range",
)

# first word of an intrinsic -> what it does
WORDS = {
    ops.Let.word: ops.Let.purpose,
    "holds": "whether a condition is true",
    "value": "an integer expression",
    "begin": "the address that a loop begins with",
    "advance": "the address of the next iteration",
    "next": "the counter of the next iteration",
    **{kind.word: kind.purpose for kind in ops.OPS},
}


def parameters(plan: Plan) -> list[tuple[str, str]]:
    """Return (name, type) of the kernel's parameters: addresses, sizes and strides, numbers.

    Types: `address` (64 bits), `integer` (64 bits), `f32`, `f64`, and by value `table` and `map` (a
    tensor map).
    """
    found: list[tuple[str, str]] = []
    for p in plan.params:
        if isinstance(p, ScalarParam):
            kind = p.dtype.name if p.dtype.is_float else "integer"
            if p.dtype.is_float and p.dtype.name not in ("f32", "f64"):
                name = f"a run-time number of {p.dtype}"
                raise refusal("codegen-op", operation="cute.compile", name=name)
            found.append((p.name, kind))
            continue
        found.append((p.name, "address"))
        found += [(str(name), "integer") for name in names_of(p)]
    found += [(name, "integer") for name in multipliers(plan).values()]
    found += [(name, "table") for name in tables(plan)]
    return [*found, *[(name, "map") for name in TensorMaps(plan).names.values()]]


def require_parameters(plan: Plan) -> None:
    """Refuse more parameters than a launch passes."""
    if (bytes := parameter_bytes(plan)) > MOST_PARAMETERS:
        most = MOST_PARAMETERS
        raise refusal("codegen-parameters", operation=plan.name, bytes=bytes, most=most)


def parameter_bytes(plan: Plan) -> int:
    """Return the size of the kernel's parameters (bytes), each of them aligned."""
    rows, end = iter(plan.launch.tables), 0
    for _name, kind in parameters(plan):
        align = {"f32": 4, "map": MAP_BYTES}.get(kind, 8)
        size = bytes_of([next(rows)]) if kind == "table" else align
        end = -(-end // align) * align + size
    return end


def multipliers(plan: Plan) -> dict[Scalar, str]:
    """Return the parameters with the multipliers of divisors (`params.multiplier`), by divisor."""
    divisors = plan.launch.divisors
    return dict(zip(divisors, _numbered(plan, "multiplier", len(divisors)), strict=True))


def tables(plan: Plan) -> list[str]:
    """Return the parameters with the tables of the launch."""
    return _numbered(plan, "table", len(plan.launch.tables))


def _numbered(plan: Plan, stem: str, count: int) -> list[str]:
    """Return names that the plan does not use: stem0, stem1, ..."""
    if not count:
        return []
    taken = names_in(plan) | {"tid", "bid_x", "bid_y", "bid_z"}
    taken |= {name for p in plan.params if isinstance(p, TensorParam) for name in names_of(p)}
    found = [f"{stem}{i}" for i in range(count)]
    while any(name in taken for name in found):
        found = [f"{name}_" for name in found]
    return found


def names_of(p: TensorParam) -> list[str]:
    """Return the names of the sizes and strides that are known only at run time."""
    extents = [(f"{p.name}_shape{i}", x) for i, x in enumerate(p.shape)]
    strides = [(f"{p.name}_stride{i}", x) for i, x in enumerate(p.stride)]
    return [name for name, x in (*extents, *strides) if isinstance(x, SymInt)]


def is_warp_uniform(plan: Plan) -> bool:
    """Return whether the index of a warp is computed once, in a way that tells ptxas that all lanes
    have the same: the units of TMA and wgmma take operands from uniform registers.
    """
    return plan.launch.threads % 32 == 0 and any(op.bulk for op in plan.ops)


# -- names


class Names:
    """Hands out names that a plan does not use."""

    def __init__(self, plan: Plan, parameters: list[str]) -> None:
        self.taken = {"tid", "bid_x", "bid_y", "bid_z", *parameters, *names_in(plan)}
        for name in self.taken:
            if not name.isidentifier() or iskeyword(name):
                raise refusal("codegen-name", operation="cute.compile", name=name)
        self.counts: dict[str, int] = {}

    def helper(self, name: str) -> str:
        """Return a name, with underscores appended if the plan uses it."""
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


# -- lines


class Source:
    """Prints a plan.

    Attributes:
        text: the file: a docstring, and the kernel.
        calls: the intrinsics and helpers that the text names.
    """

    def __init__(self, plan: Plan, chains: Chains, arch: str) -> None:
        """Print the kernel; `chains` are those of its addresses, `arch` the target of the calls."""
        # imports Numba and llvmlite, which is slow
        from cute_py.codegen.intrinsics import Intrinsics, make_runtime

        self.plan = plan
        self.parameters = [name for name, _kind in parameters(plan)]
        self.names = Names(plan, self.parameters)
        self.main = main_file(plan)
        self.helpers = {name: self.names.helper(name) for name in HELPERS}
        warp = self.names.helper("warp") if is_warp_uniform(plan) else ""
        self.intrinsics = Intrinsics(plan, chains, self.names.helper("smem"), warp, arch)
        made = make_runtime(plan.launch.block, bool(warp))
        self.calls = {name: made[helper] for helper, name in self.helpers.items()}
        self.known: dict[int, str] = {}  # by identity of the intrinsic, which `calls` keeps alive
        self.words: set[str] = set()
        self.narrow = _narrow(plan)
        self.lines: list[str] = []
        self._head()
        self._block(plan.body, 1)
        above = docstring(plan, self.main, self.intrinsics, self.words)
        self.text = above + "\n\n" + "\n".join(self.lines) + "\n"

    def _head(self) -> None:
        """Print the definitions of indices, shared memory, registers and variables."""
        self._signature()
        helpers = self.helpers
        self._line(1, f"tid = {helpers['thread_index']}()")
        if self.intrinsics.warp:
            self._line(1, f"{self.intrinsics.warp} = {helpers['warp_index']}(tid)")
        self._line(1, f"bid_x, bid_y, bid_z = {helpers['block_index']}()")
        if self.plan.shared:
            self._line(1, f"{self.intrinsics.smem} = {helpers['shared_memory']}()")
        for name, count in self.intrinsics.storages.items():
            if name in self.intrinsics.defined:
                continue
            self._line(1, f"{name} = {helpers['undefined']}({count})")
        variables = {op.var for op in self.plan.ops if isinstance(op, ops.Set)}
        for name in sorted(variables):
            self._line(1, f"{name} = {self._kind(name)}(0)")

    def _signature(self) -> None:
        """Print the def line; if it is long, one line per parameter of the plan."""
        line = f"def {self.plan.name}({', '.join(self.parameters)}):"
        if len(line) <= WIDTH:
            self.lines.append(line)
            return
        self.lines.append(f"def {self.plan.name}(")
        for p in self.plan.params:
            sizes = [] if isinstance(p, ScalarParam) else names_of(p)
            self.lines.append(f"{INDENT}{', '.join([p.name, *sizes])},")
        made = *multipliers(self.plan).values(), *tables(self.plan)
        for name in (*made, *self.intrinsics.maps.names.values()):
            self.lines.append(f"{INDENT}{name},")
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
        control = CONTROL.get(type(op))
        if control is not None:
            control(self, op, depth)
            return
        call = self.intrinsics.op(op)
        text = self._name(call, op.word, op.stem)
        target = f"{', '.join(call.results)} = " if call.results else ""
        self._line(depth, target + text, op)

    def _loop(self, op: ops.Loop, depth: int) -> None:
        """Print a loop. A while loop counts one variable, a range the iterations as well; but NVVM
        unrolls the latter if it cannot compute their number from the former.
        """
        carried = self.intrinsics.chains.inductions.get(id(op), [])
        for v in carried:
            self._induction(v, "begin", depth)
        kind = self._kind(op.var)
        if _is_counted(op):
            test = self._name(self.intrinsics.counts(op), "holds")
            following = self._name(self.intrinsics.following(op, op.var in self.narrow), "next")
            self._line(depth, f"{op.var} = {kind}({op.start})", op)
            self._line(depth, f"while {test}:", op)
        else:
            following = ""
            ends = ", ".join(f"{kind}({self._scalar(x)})" for x in (op.start, op.stop, op.step))
            self._line(depth, f"for {op.var} in {self.helpers['range']}({ends}):", op)
        self._block(op.body, depth + 1)
        for v in carried:
            self._induction(v, "advance", depth + 1)
        if following:
            self._line(depth + 1, f"{op.var} = {following}", op)

    def _induction(self, v: Induction, word: str, depth: int) -> None:
        self._line(depth, f"{v.name} = {self._name(self.intrinsics.induction(v, word), word)}")

    def _while(self, op: ops.While, depth: int) -> None:
        self._line(depth, "while True:", op)
        self._block(op.test, depth + 1) if op.test else None
        test = self._name(self.intrinsics.condition(op.cond), "holds")
        self._line(depth + 1, f"if not {test}:")
        self._line(depth + 2, "break")
        self._block(op.body, depth + 1)

    def _if(self, op: ops.If, depth: int) -> None:
        issues = any(isinstance(x, (ops.TmaLoad, ops.TmaStore)) for x in every(op.then))
        test = self._name(self.intrinsics.condition(op.cond, issues), "holds")
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

    def _pointer(self, op: ops.MakePtr, depth: int) -> None:
        self._line(depth, f"{op.name} = {self._name(self.intrinsics.pointer(op), op.word)}", op)

    def _set(self, op: ops.Set, depth: int) -> None:
        self._line(depth, f"{op.var} = {self._kind(op.var)}({self._scalar(op.value)})", op)

    def _kind(self, name: str) -> str:
        """Return the function that converts to the type of a variable or a loop's counter."""
        return self.helpers["int32" if name in self.narrow else "int64"]

    def _promise(self, op: ops.Promise, depth: int) -> None:
        if depth > 1:  # the block of a branch or loop is not empty
            self._line(depth, "pass", op)


def _is_counted(op: ops.Loop) -> bool:
    """Return whether a loop is printed as a while loop: see `Source._loop`."""
    return op.step == 1 and isinstance(op.start, int)


def _narrow(plan: Plan) -> set[str]:
    """Return the variables, and the counters of loops, whose values fit 32 bits: a counter also
    after its last iteration, unless a range counts the iterations.
    """

    def fits_all(*values: Any) -> bool:
        return all(x in plan.launch.counts or fits(terms_of(x)) for x in values)

    values: dict[str, list[bool]] = {}
    for op in plan.ops:
        if isinstance(op, ops.Set):
            values.setdefault(op.var, []).append(fits_all(op.value))
        elif isinstance(op, ops.Loop):
            more = ints.add(op.stop, 1) if _is_counted(op) else ints.sub(op.stop, op.start)
            narrow = fits_all(op.start, op.stop)
            low = bounds_of(op.start)[0]
            if narrow and not (op.stop in plan.launch.counts and low is not None and low >= 0):
                narrow = fits_all(more)
            values.setdefault(op.var, []).append(narrow)
    return {name for name, found in values.items() if all(found)}


# ops that are printed as Python statements, not as calls
CONTROL: dict[type[Op], Callable[[Source, Any, int], None]] = {
    ops.Loop: Source._loop,
    ops.While: Source._while,
    ops.If: Source._if,
    ops.Leave: Source._leave,
    ops.Let: Source._let,
    ops.Set: Source._set,
    ops.MakePtr: Source._pointer,
    ops.Promise: Source._promise,
}


def main_file(plan: Plan) -> str:
    """Return the name of the file that most ops come from; "" if no op has a file."""
    files = Counter(file_text(op.line[0]) for op in plan.ops)
    del files[""]
    return min(files, key=lambda name: (-files[name], name), default="")


def _comment(op: Op, length: int, main: str) -> str:
    """Return the kernel's line, and as much of the op as fits after `length` characters."""
    line = op.line[1]
    place = f"line {line}" if file_text(op.line[0]) == main else op.where
    start = f"  # {place}" if line else "  #"
    room, text = LONGEST - length - len(start) - 2, " ".join(str(op).split())
    if len(text) > room:
        text = f"{text[: room - 4].rstrip()} ..." if room >= LEAST else ""
    words = f"{place}  {text}" if line and text else place if line else f" {text}"
    return f"  {comment(words)}" if line or text else ""


# -- the docstring


def docstring(plan: Plan, file: str, intrinsics: Intrinsics, words: Iterable[str]) -> str:
    """Return the docstring of the file that holds a plan's kernel.

    Args:
        plan: the plan.
        file: the name of the file with the kernel.
        intrinsics: the intrinsics of the plan.
        words: the first words of the intrinsics that the kernel calls.

    """
    lines = [
        f"{plan.name}: a Numba kernel, printed by cute_py from a plan.",
        "",
        "Each call is one op of the plan and emits its PTX. Its comment has the line"
        f"{f' of {file}' if file else ''} and the op.",
        "Registers are tuples of 32-bit words, addresses numbers of bytes.",
        "cute.compile(plan, arch, source=text) compiles an edited copy of this text.",
        *_section("Launch", _launch(plan)),
        *_section(
            "Parameters",
            [
                *map(_parameter, plan.params),
                *[f"{name}: divides by {d}" for d, name in multipliers(plan).items()],
                *[
                    f"{name}: table of {len(row)} integers"
                    for name, row in zip(tables(plan), plan.launch.tables, strict=True)
                ],
                *[
                    f"{name}: tensor map of {x.tensor}, box {x.box} of modes {x.modes}"
                    for x, name in intrinsics.maps.names.items()
                ],
            ],
        ),
        *_section(
            "Shared memory",
            (f"{s.name}: {s.dtype}[{s.count}] at byte {s.offset}" for s in plan.shared),
        ),
        *_section("Registers", _registers(plan, intrinsics)),
        *_section("Calls", (f"{word}_*: {WORDS[word]}" for word in WORDS if word in set(words))),
    ]
    return executed.docstring(lines) + "\n"


def _section(title: str, rows: Iterable[str]) -> list[str]:
    listed = [f"    {row}" for row in rows]
    return ["", f"{title}:", *listed] if listed else []


def _launch(plan: Plan) -> Iterator[str]:
    for name, x in (("grid", plan.launch.grid), ("block", plan.launch.block)):
        yield f"{name}: ({', '.join(map(str, x))})"
    yield f"shared memory: {plan.smem_bytes} bytes"


def _parameter(p: TensorParam | ScalarParam) -> str:
    if isinstance(p, ScalarParam):
        return f"{p.name}: {p.dtype}"
    shape, stride = (",".join(map(str, x)) for x in (p.shape, p.stride))
    return f"{p.name}: address of {p.dtype} ({shape}):({stride}), a multiple of {p.alignment} bytes"


def _registers(plan: Plan, intrinsics: Intrinsics) -> Iterator[str]:
    """Yield the storages; those of one type and size share a line."""
    alike: dict[str, list[str]] = {}
    for r in plan.storages:
        count = intrinsics.storages[r.name]
        kind = f"{r.dtype}[{r.count}] in {count} word{'s' * (count > 1)}"
        alike.setdefault(kind, []).append(r.name)
    for kind, names in alike.items():
        yield from wrapped(names, f": {kind}")


def wrapped(names: list[str], end: str) -> Iterator[str]:
    """Yield comma-separated names in lines of at most `WIDTH`, with `end` after the last."""
    line = ""
    for name in names:
        if line and len(line) + len(name) + len(end) > WIDTH - 8:
            yield f"{line},"
            line = ""
        line += f", {name}" if line else name
    yield line + end
