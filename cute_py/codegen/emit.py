"""`Emit`: the emitter of one op: builder, symbols, addresses, registers, inline PTX."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, groupby
from math import copysign
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from llvmlite import ir

from cute_py.atoms.arch import holds, since
from cute_py.codegen.instructions import TABLE, TARGETS, Row, of_atom, text_of, texts, types
from cute_py.codegen.scalars import Scalars
from cute_py.codegen.storage import F32, F64, I1, I8, I16, I32, I64, Words
from cute_py.dtypes.conversion import convert, encode
from cute_py.errors import refusal
from cute_py.plan.op import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.codegen.tensor_maps import TensorMaps
    from cute_py.dtypes.table import Dtype
    from cute_py.errors import CuteError
    from cute_py.plan.conditions import Cond, Scalar

    Link: TypeAlias = tuple[Scalar, Any]  # an offset (elements), and its address

# LLVM must not move inline PTX into or out of branches: all lanes of a warp run it together
CONVERGENT = ("convergent",)
REGISTERS = {"b16": I16, "b32": I32, "b64": I64, "f32": F32, "f64": F64}
LETTERS = {I16: "h", I32: "r", I64: "l", F32: "f", F64: "d"}  # constraints of inline PTX


Rule: TypeAlias = Callable[["Emit", Any], None]
RULES: dict[type[Op], Rule] = {}


def emits(kind: type[Op]) -> Callable[[Rule], Rule]:
    """Register the rule that emits a type of op."""

    def register(rule: Rule) -> Rule:
        RULES[kind] = rule
        return rule

    return register


class Emit:
    """Emits one op into an LLVM function that Numba is building."""

    def __init__(
        self,
        b: Any,  # an llvmlite IRBuilder
        env: dict[str, Any],
        words: dict[str, Any],
        starts: dict[tuple[str, str], Any],
        where: str = "",
        loose: frozenset[str] = frozenset(),
        link: Link | None = None,
        arch: str = TARGETS[-1],
        small: frozenset[str] = frozenset(),
        multipliers: dict[Scalar, str] | None = None,
        maps: TensorMaps | None = None,
        wide: frozenset[str] = frozenset(),
    ) -> None:
        """Keep the builder, symbol -> 64-bit value, storage -> words, (space, storage) -> address
        of the first element, the kernel's line, the storages of unpacked flags, the address that
        the previous op of the chain left, the target, the arrays whose offsets fit 32 bits, the
        parameters with the multipliers of divisors, the tensor maps of the plan, and what orders
        memory for all blocks of a cluster: mbarriers by their storages, fences by their rows;
        `reached` is the address that this op leaves.
        """
        self.link, self.reached, self.arch, self.small = link, None, arch, small
        self.maps, self.wide = maps, wide
        self.b, self.starts, self.where = b, starts, where
        self.words = Words(b, words, loose)
        self.scalars = Scalars(b, env, self.words, multipliers or {})

    def has(self, name: str) -> bool:
        """Return whether the target has the instruction of a row of `TABLE`."""
        return holds(since(TABLE[name].first), self.arch)

    def unsupported(self, what: str) -> CuteError:
        """Return the refusal of an operation that has no PTX here."""
        return refusal("codegen-op", operation="cute.compile", name=what, where=self.where)

    def address(self, space: str, storage: str) -> Any:
        """Return the address of a storage's first element."""
        return self.starts[space, storage]

    def emit(
        self,
        what: str | MMA_Atom | Copy_Op | Row,
        *values: Any,
        results: list[Any] | None = None,
        guard: Any = None,
        unless: bool = False,
        old: Sequence[Any] = (),
        **modes: object,
    ) -> list[Any]:
        """Emit an instruction as inline PTX and return the values of its results.

        Args:
            what: the name of a row of `instructions.TABLE`, a row, or an atom.
            values: one for each operand of the row: a value, values, or (address, offset in bytes).
            results: LLVM types of the results, if they differ from those of the row.
            guard: a 32-bit predicate; the instruction is skipped if it is 0. None: no predicate.
            unless: negate the predicate.
            old: the previous values of the results, kept if the instruction is skipped.
            modes: the choice for each mode of the row.

        Raises LayoutError for modes or operands that the row does not have.
        """
        if isinstance(what, Row):
            row = what
        else:
            row = TABLE[what] if isinstance(what, str) else of_atom(what)
        chosen = texts(row, modes)
        outs = [REGISTERS[kind] for _, n, kind in types(row.results, chosen) for _ in range(n)]
        names = self._results(row, chosen)
        inputs = self._operands(row, chosen, values, names, len(outs))
        flag = ""
        if guard is not None:
            flag = f"${len(outs) + len(inputs)}"
            inputs.append(guard)
        text = text_of(row, names, chosen, flag, unless, uid="${:uid}")
        return self._asm(results or outs, text, inputs, list(old), row.effects != "none")

    @staticmethod
    def _results(row: Row, chosen: dict[str, str]) -> dict[str, list[str]]:
        """Return the numbered names of the results of a row."""
        numbers = count()
        return {
            slot.name: [f"${next(numbers)}" for _ in range(n)]
            for slot, n, _kind in types(row.results, chosen)
        }

    def _operands(
        self,
        row: Row,
        chosen: dict[str, str],
        values: Sequence[Any],
        names: dict[str, list[str]],
        first: int,
    ) -> list[Any]:
        """Return the inputs of an instruction, and number them from `first`."""
        slots = types(row.operands, chosen)
        inputs: list[Any] = []
        if len(slots) != len(values):
            raise self.unsupported(f"{row.name} of {len(values)} operands")
        for (slot, n, kind), value in zip(slots, values, strict=True):
            address, beyond = value if isinstance(value, tuple) else (value, None)
            given = address if isinstance(address, list) else [address]
            if len(given) != n or any(_bits(x.type) != _bits(REGISTERS[kind]) for x in given):
                raise self.unsupported(f"{row.name} of {', '.join(str(x.type) for x in given)}")
            end = "" if beyond is None else f"+{beyond}"
            names[slot.name] = [f"${first + len(inputs) + i}{end}" for i in range(n)]
            inputs += given
        return inputs

    def own_text(self, text: str, outs: list[Any], inputs: list[Any]) -> list[Any]:
        """Emit PTX of the kernel's author; outputs and inputs share no register."""
        return self._asm(outs, text, inputs, [], side=True, own=True)

    def _asm(
        self,
        outs: list[Any],
        text: str,
        inputs: list[Any],
        old: list[Any],
        side: bool,
        own: bool = False,
    ) -> list[Any]:
        """Emit inline PTX and return its results; their old values follow the inputs."""
        kind = ir.VoidType()
        if outs:
            kind = outs[0] if len(outs) == 1 else self._struct(outs)
        written = "=&" if own else "="
        constraints = [written + LETTERS[x] for x in outs] + [LETTERS[x.type] for x in inputs]
        constraints += [str(i) for i in range(len(old))]
        constraints += ["~{memory}"] if side and not own else []
        function = ir.FunctionType(kind, [x.type for x in (*inputs, *old)])
        inline = ir.InlineAsm(function, text, ",".join(constraints), side_effect=side)
        found = self.b.call(inline, [*inputs, *old], attrs=CONVERGENT)
        if not outs:
            return []
        if len(outs) == 1:
            return [found]
        return [self.b.extract_value(found, i) for i in range(len(outs))]

    def _struct(self, kinds: list[Any]) -> Any:
        """Return a type of a module that holds values of these types. It has a name: the text of a
        module would have all of its types at each use otherwise.
        """
        name = "cute_py_" + "_".join(f"{n}{LETTERS[x]}" for x, n in _runs(kinds))
        found = self.b.module.context.get_identified_type(name)
        if found.is_opaque:
            found.set_body(*kinds)
        return found

    def printf(self, text: str, values: list[Any]) -> None:
        """Emit a call of vprintf; the values have 64 bits."""
        b, place = self.b, I8.as_pointer()
        with b.goto_entry_block():  # else a loop would allocate in each iteration
            room = b.alloca(I64, max(len(values), 1))
        for i, value in enumerate(values):
            slot = b.gep(room, [ir.Constant(I32, i)])
            b.store(b.bitcast(value, I64), slot)
        function = b.module.globals.get("vprintf") or ir.Function(
            b.module, ir.FunctionType(I32, [place, place]), "vprintf"
        )
        held = self.text(text, 1)  # global memory
        b.call(function, [b.addrspacecast(held, place), b.bitcast(room, place)])

    def text(self, text: str, space: int = 0) -> Any:
        """Return the address of a constant text in an address space of LLVM."""
        module, data = self.b.module, bytearray(text.encode("utf-8", "replace") + b"\0")
        kind = ir.ArrayType(I8, len(data))
        name = module.get_unique_name("cute_py_text")
        held = ir.GlobalVariable(module, kind, name, addrspace=space)
        held.linkage, held.global_constant = "internal", True
        held.initializer = ir.Constant(kind, data)
        return self.b.bitcast(held, I8.as_pointer(space))

    def opaque(self, value: Any) -> Any:
        """Return a value that is opaque to the compiler: it is not hoisted or split."""
        return self.emit("opaque", old=[value], bits=value.type.width)[0]

    def elected(self, cond: Cond) -> Any:
        """Return a condition that at most the first lane of a warp satisfies as one bit. ptxas
        knows that one lane at most runs a branch on it: elsewhere it repeats a TMA instruction
        for each lane.
        """
        (first,) = self.emit("elect.sync")
        return self.b.and_(self.b.trunc(first, I1), self.scalars.holds(cond))

    def fill_words(self, dtype: Dtype, value: float | None, count: int) -> list[Any]:
        """Return 32-bit words with all elements equal to a number."""
        bits, width = _image(0 if value is None else value, dtype), dtype.bits
        every = sum(bits << k for k in range(0, 32 * count, width))
        return [ir.Constant(I32, every >> 32 * i & 0xFFFFFFFF) for i in range(count)]

    def image(self, value: float, dtype: Dtype) -> int:
        """Return the bits of a number; for a flag, whether it is not 0."""
        return int(bool(value)) if dtype.name == "b1" else _image(value, dtype)

    def constant(self, value: float, dtype: Dtype) -> Any:
        """Return a number as an element of a storage: its bits for types narrower than 32 bits."""
        if dtype.name == "b1":
            return ir.Constant(I1, int(bool(value)))
        if dtype.is_float and dtype.bits >= 32:
            return ir.Constant(F64 if dtype.bits == 64 else F32, _rounded(value, dtype))
        return ir.Constant(ir.IntType(dtype.bits), _image(value, dtype))


def _runs(kinds: list[Any]) -> list[tuple[Any, int]]:
    return [(kind, len(list(run))) for kind, run in groupby(kinds)]


def _bits(kind: Any) -> int:
    return {F32: 32, F64: 64}.get(kind) or int(kind.width)


def _rounded(value: float, dtype: Dtype) -> float:
    """Round a number to a float type."""
    return float(convert(float(value), dtype))


def _image(value: float, dtype: Dtype) -> int:
    """Return the bits of a number."""
    if dtype.name == "ue8m0":  # of a predicated load: NaN for 0, as on the emulator
        return int(np.asarray(value).astype(dtype.numpy).view(np.uint8))
    if not value and copysign(1.0, value) > 0:  # of each load with a guard
        return 0
    if dtype.is_float:
        return int(encode(value, dtype))
    return int(value) & ((1 << dtype.bits) - 1)
