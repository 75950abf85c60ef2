"""The Numba intrinsics that a printed kernel calls: one per op, emitted by its rule.

The arguments of an intrinsic are the names that its op reads, the results those that it writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic
from numba.cuda.typing.templates import AbstractTemplate, infer_global

from cute_py.codegen.addresses import advance, begin
from cute_py.codegen.emit import Emit
from cute_py.codegen.ops import RULES
from cute_py.codegen.ops.control import entry, let
from cute_py.codegen.ops.matrix import forget, start
from cute_py.codegen.passes.strength import Chain
from cute_py.codegen.printer import multipliers, tables
from cute_py.codegen.scalars import WARP, has_warps, of_first_lane
from cute_py.codegen.storage import (
    I8,
    I32,
    I64,
    Tuple,
    defined_once,
    in_flight,
    is_loose,
    word_count,
)
from cute_py.codegen.storage import undefined as nothing
from cute_py.codegen.tensor_maps import TensorMaps
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.integers.polynomial import Symbol, divisors_of, symbols_of
from cute_py.integers.symbols import SymInt, terms_of
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.conditions import Compare, Reg, bounds_of
from cute_py.plan.ops import Op
from cute_py.plan.params import MOST_ALIGNMENT, ScalarParam
from cute_py.plan.walk import (
    cluster_barriers,
    fences_peers,
    holds_numbers,
    parts,
    reads,
    writes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.codegen.emit import Rule
    from cute_py.codegen.passes.strength import Chains, Induction
    from cute_py.plan.plan import Plan


@dataclass(frozen=True)
class Call:
    """An intrinsic and the names that it is called with.

    Attributes:
        function: the intrinsic.
        arguments: names of variables of the kernel.
        results: the storages that it writes.
    """

    function: Any
    arguments: tuple[str, ...]
    results: tuple[str, ...]


class Intrinsics:
    """Creates the intrinsics of one plan."""

    def __init__(self, plan: Plan, chains: Chains, smem: str, warp: str, arch: str) -> None:
        """Look up the names of the plan; `smem` is the variable of its shared memory, `warp` that
        of the warp's index, "" for none.
        """
        self.plan, self.chains, self.smem, self.arch = plan, chains, smem, arch
        self.warp, self.maps, self.flying = warp, TensorMaps(plan), in_flight(plan)
        self.alike: dict[tuple[Op, tuple[Reg, ...]], Call] = {}
        self.storages = {r.name: word_count(r) for r in plan.storages}
        self.loose = frozenset(r.name for r in plan.storages if is_loose(r))
        self.in_flight = {reg.storage for regs in self.flying.values() for reg in regs}
        self.defined = defined_once(plan) - self.in_flight  # each wait takes and gives them
        self.shared = {s.name: s.offset for s in plan.shared}
        self.multipliers, self.tables = multipliers(plan), tables(plan)
        self.wide = cluster_barriers(plan.body)
        spans = {s.name: (s.offset, s.offset + s.bytes) for s in plan.shared}
        if fences_peers(plan.body, spans):
            self.wide |= {"fence.proxy.async"}
        self.floats = {
            p.name: p.dtype.bits
            for p in plan.params
            if isinstance(p, ScalarParam) and p.dtype.is_float
        }

    def op(self, op: Op) -> Call:
        """Return the call of an op that has a rule."""
        rule: Rule | None = self._of_sums(op) or RULES.get(type(op))
        if rule is None:
            raise refusal("codegen-op", operation="cute.compile", name=op.call, where=op.where)
        if (lack := op.lack()) is not None:
            raise refusal("codegen-op", operation="cute.compile", name=lack.what, where=op.where)
        for reg in (*reads(op), *writes(op)):
            if reg.storage in self.loose and reg.dtype.name != "b1":
                name = f"flags read as {reg.dtype}, not a multiple of 32"
                raise refusal("codegen-op", operation="cute.compile", name=name, where=op.where)
        alike, flying = not holds_numbers(op), self.flying.get(id(op), ())
        made = self.alike.get((op, flying)) if alike else None
        if made is None:
            chain = self.chains.parts.get(id(op))
            written = (*writes(op), *flying)
            made = self._made(op.word, op, written, lambda e: rule(e, op), None, chain)
        if alike:
            self.alike[op, flying] = made
        return made

    def _of_sums(self, op: Op) -> Rule | None:
        """Return the rule of a fill of the sums of warpgroup products."""
        if not isinstance(op, ops.Fill) or op.dst.storage not in self.in_flight:
            return None
        return forget if op.value is None else start

    def condition(self, cond: Any, issues: bool = False) -> Call:
        """Return the call that evaluates a condition; `issues`: of threads that issue TMA."""
        if issues and self.warp and of_first_lane(cond):
            return self._made("holds", cond, (), lambda e: e.elected(cond), types.boolean)
        return self._made("holds", cond, (), lambda e: e.scalars.holds(cond), types.boolean)

    def counts(self, op: ops.Loop) -> Call:
        """Return the call that compares the counter of a loop with its stop."""
        end: Any = ints.add(op.stop, op.step)
        ends = [bounds_of(x) for x in (op.start, op.stop, end)]
        low = None if None in [x for x, _ in ends] else min(x for x, _ in ends if x is not None)
        high = None if None in [x for _, x in ends] else max(x for _, x in ends if x is not None)
        counter = SymInt({(Symbol(op.var, 1, low, high),): 1})
        sides = (counter, op.stop) if op.step > 0 else (op.stop, counter)
        return self.condition(Compare("lt", *sides))

    def following(self, op: ops.Loop, narrow: bool) -> Call:
        """Return the call that adds the step to the counter of a loop. It does not overflow, which
        tells the compiler the number of iterations.
        """
        kind = types.int32 if narrow else types.int64

        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            (count,) = args
            return b.add(count, ir.Constant(count.type, op.step), flags=("nsw",))

        return Call(_intrinsic("next", (kind,), kind, codegen), (op.var,), ())

    def scalar(self, x: SymInt) -> Call:
        """Return the call that evaluates an integer."""
        return self._made("value", x, (), lambda e: e.scalars.value(x), types.int64)

    def pointer(self, op: ops.MakePtr) -> Call:
        """Return the call that evaluates an address."""
        return self._made(
            "pointer", op.address, (), lambda e: e.scalars.value(op.address), types.uint64
        )

    def let(self, op: ops.Let) -> Call:
        """Return the call of a Let on scalars, a register or a table."""
        if op.kind == "table":
            name, row = self._table(op), self.plan.launch.tables[op.operands[0]]  # type: ignore[index]
            return self._made("let", op, (), lambda e: entry(e, op, name, row), types.int64)
        return self._made("let", op, (), lambda e: let(e, op), types.int64)

    def _table(self, op: ops.Let) -> str:
        """Return the parameter with the table of a Let."""
        return self.tables[op.operands[0]]  # type: ignore[index]

    def induction(self, v: Induction, word: str) -> Call:
        """Return the call that begins an induction variable, or advances it by one iteration."""
        if word == "begin":
            x = replace(v.source, bases=(v.begin,), guards=())
            return self._made(word, x, (), lambda e: begin(e, v), _held(v.small))
        chain = Chain(v.name, v.step, small=v.small)
        return self._made(word, v.step, (), lambda e: advance(e, v), _held(v.small), chain)

    # -- the parts

    def _made(
        self,
        name: str,
        x: Any,
        written: Any,
        emit: Callable[[Emit], Any],
        number: Any,
        chain: Chain | None = None,
    ) -> Call:
        signature = self._signature(x, written, number, chain)
        place = x.where if isinstance(x, ops.Op) else ""

        def codegen(context: Any, b: Any, sig: Any, args: Any) -> Any:
            e = self._emit(b, signature, dict(zip(signature.arguments, args, strict=True)), place)
            found = emit(e)
            return found if number is not None else signature.packed(context, b, sig.return_type, e)

        function = _intrinsic(name, signature.kinds, signature.gives, codegen)
        return Call(function, signature.arguments, (*signature.results, *signature.moved))

    def _signature(self, x: Any, written: Any, number: Any, chain: Chain | None) -> _Signature:
        """Return the signature of an intrinsic from the names that its op uses."""
        used = _Names(x if chain is None else (x, chain.before), self.multipliers)
        if isinstance(x, (ops.TmaLoad, ops.TmaStore)):
            used.parameters.add(self.maps.names[self.maps.of(x)])
        if isinstance(x, ops.Let) and x.kind == "table":
            used.parameters.add(self._table(x))
        results = {reg.storage: self._tuple(reg.storage) for reg in written}
        storages = tuple(dict.fromkeys([*sorted(used.storages), *results]))
        storages = tuple([x for x in storages if x not in results or x not in self.defined])
        carried = () if chain is None or chain.before is None else (chain.name,)
        symbols, pointers = sorted(used.symbols), (*sorted(used.parameters), *carried)
        smem = (self.smem,) if used.shared else ()
        warp = (self.warp,) if used.warps and self.warp else ()
        kinds = (
            *[types.uint32 for _ in warp],
            *map(self._scalar, symbols),
            *[types.uint64 for _ in used.parameters],
            *[_held(chain.small) for _ in carried if chain is not None],
            *[types.uint32 for _ in smem],
            *map(self._tuple, storages),
        )
        arguments = (*warp, *symbols, *pointers, *smem, *storages)
        return _Signature(used, chain, storages, arguments, kinds, results, number)

    def _scalar(self, name: str) -> Any:
        bits = self.floats.get(name)
        return types.int64 if bits is None else types.float64 if bits == 64 else types.float32

    def _tuple(self, storage: str) -> Any:
        return types.UniTuple(types.uint32, self.storages[storage])

    def _emit(self, b: Any, signature: _Signature, values: dict[str, Any], place: str) -> Emit:
        """Return the emitter of an op, with the values of its arguments."""
        words = {
            n: Tuple(b, values[n] if n in values else nothing(count), count)
            for n in dict.fromkeys([*signature.results, *signature.storages])
            for count in (self.storages[n],)
        }
        starts = self._starts(b, signature.used, values)
        env = {n: values[n] for n in sorted(signature.used.symbols)}
        env |= {WARP: values[self.warp]} if self.warp in values else {}
        chain, link = signature.chain, None
        if chain is not None and chain.before is not None:
            link = chain.before, values[chain.name]
        known = self.arch, self.chains.small, self.multipliers, self.maps, self.wide
        return Emit(b, env, words, starts, place, self.loose, link, *known)

    def _starts(self, b: Any, used: _Names, values: dict[str, Any]) -> dict[tuple[str, str], Any]:
        starts = {("gmem", name): values[name] for name in used.parameters}
        for name in used.shared:
            offset = ir.Constant(I32, self.shared[name])
            starts["smem", name] = b.add(values[self.smem], offset)
        return starts


@dataclass(frozen=True)
class _Signature:
    """The signature of an intrinsic.

    Attributes:
        used: the names that its op uses.
        chain: the op's link in a chain of addresses, or None.
        storages: the storages whose words it takes; not of a result that is defined here.
        arguments: the names that it is called with.
        kinds: the Numba types of the arguments.
        results: the type of the words of each storage that it changes.
        number: the type of the number that it returns instead, or None.
    """

    used: _Names
    chain: Chain | None
    storages: tuple[str, ...]
    arguments: tuple[str, ...]
    kinds: tuple[Any, ...]
    results: dict[str, Any]
    number: Any

    @property
    def moved(self) -> tuple[str, ...]:
        """The variable of the address that its op leaves, if it returns that."""
        return (self.chain.name,) if self.chain is not None and self.chain.moves else ()

    @property
    def gives(self) -> Any:
        """The Numba type of its result."""
        if self.number is not None:
            return self.number
        held = [_held(self.chain.small) for _ in self.moved if self.chain is not None]
        parts = [*self.results.values(), *held]
        if not parts:
            return types.void
        return parts[0] if len(parts) == 1 else types.Tuple(parts)

    def packed(self, context: Any, b: Any, kind: Any, e: Emit) -> Any:
        """Return its result, of type `kind`, after its op was emitted."""
        made = [e.words.words[n].packed() for n in self.results]
        made += [e.reached for _ in self.moved]
        if not made:
            return context.get_dummy_value()
        return made[0] if len(made) == 1 else context.make_tuple(b, kind, made)


def _held(small: bool) -> Any:
    """Return the Numba type of an address, or of a 32-bit offset."""
    return types.uint32 if small else types.uint64


class _Names:
    """The names that an op, a condition or an integer uses."""

    def __init__(self, x: Any, multipliers: dict[Any, str]) -> None:
        self.symbols: set[str] = set()
        self.storages: set[str] = set()
        self.parameters: set[str] = set()
        self.shared: set[str] = set()
        self.warps = False
        for part in parts(x):
            if isinstance(part, Reg):
                self.storages.add(part.storage)
            elif isinstance(part, Access):
                owner = self.parameters if part.space == "gmem" else self.shared
                owner.add(part.storage)
            elif isinstance(part, SymInt):
                self.symbols.update(s.name for s in symbols_of(terms_of(part)))
                self.warps = self.warps or has_warps(terms_of(part))
                divisors = [SymInt(d) for d in divisors_of(terms_of(part))] if multipliers else []
                self.symbols.update(multipliers[d] for d in (part, *divisors) if d in multipliers)


def _intrinsic(name: str, kinds: tuple[Any, ...], result: Any, codegen: Any) -> Any:
    """Return an intrinsic with fixed argument types.

    Numba's decorator deduces the same, in half of the time of all typing: it searches
    its libraries for news at each call.
    """
    from numba.cuda.cudaimpl import registry  # works after `patch_numba`

    made = Intrinsic(f"emit_{name}", result(*kinds), codegen)
    parts = {
        "key": made,
        "generic": lambda _self, args, _kws: made.signature if len(args) == len(kinds) else None,
        "get_impl_key": lambda _self, _signature: codegen,
    }
    infer_global(made, types.Function(type(made.name, (AbstractTemplate,), parts)))
    registry.lower(codegen, *kinds)(codegen)
    return made


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """What a printed kernel calls.

    Attributes:
        name: its name, for Numba's messages.
        signature: its types.
        codegen: what emits its code.
    """

    name: str
    signature: Any
    codegen: Any

    def __deepcopy__(self, _memo: Any) -> Intrinsic:
        """Return itself: Numba copies statements."""
        return self


# -- runtime functions: indices, shared memory, undefined registers

SHARED = "cute_py_shared"  # the name of a block's shared memory


def make_runtime(block: tuple[int, int, int], is_uniform: bool = False) -> dict[str, Any]:
    """Return name -> runtime function, for blocks of this shape; `is_uniform` if the index of the
    block must be in uniform registers.
    """
    return {
        "thread_index": _thread_index(block),
        "warp_index": warp_index,
        "block_index": uniform_block_index if is_uniform else block_index,
        "shared_memory": shared_memory,
        "undefined": undefined,
        "int32": types.int32,
        "int64": types.int64,
        "range": range,
    }


def _special(b: Any, register: str) -> Any:
    (found,) = Emit(b, {}, {}, {}).emit("special", register=register)
    return b.zext(found, I64)


def _thread_index(block: tuple[int, int, int]) -> Any:
    """Return the intrinsic for the linear thread index in a block of this shape."""
    units = (("y", block[1], block[0]), ("z", block[2], block[0] * block[1]))

    def codegen(ctx: Any, b: Any, sig: Any, args: Any) -> Any:
        total = _special(b, "tid.x")
        for letter, extent, unit in units:
            if extent > 1:
                part = b.mul(_special(b, f"tid.{letter}"), ir.Constant(I64, unit))
                total = b.add(total, part)
        return total

    @intrinsic
    def thread_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return types.int64(), codegen

    return thread_index


@intrinsic
def warp_index(context, tid):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return the index of the warp, which ptxas knows to be the same in all lanes."""
    return types.uint32(types.int64), _warp_index


def _warp_index(ctx: Any, b: Any, sig: Any, args: Any) -> Any:
    warp, first = b.lshr(b.trunc(args[0], I32), ir.Constant(I32, 5)), ir.Constant(I32, 0)
    return Emit(b, {}, {}, {}).emit("shfl", warp, first, kind="idx", clamp=31)[0]


@intrinsic
def block_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return the three indices of the block."""
    return types.UniTuple(types.int64, 3)(), _block_index


def _block_index(ctx: Any, b: Any, sig: Any, args: Any) -> Any:
    parts = [_special(b, f"ctaid.{letter}") for letter in "xyz"]
    return ctx.make_tuple(b, sig.return_type, parts)


@intrinsic
def uniform_block_index(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return the three indices of the block, by intrinsics of NVVM: ptxas knows that all threads
    agree on them.
    """
    return types.UniTuple(types.int64, 3)(), _uniform_block_index


def _uniform_block_index(ctx: Any, b: Any, sig: Any, args: Any) -> Any:
    kind, parts = ir.FunctionType(I32, []), []
    for letter in "xyz":
        name = f"llvm.nvvm.read.ptx.sreg.ctaid.{letter}"
        index = b.call(cgutils.get_or_insert_function(b.module, kind, name), [])
        parts.append(b.zext(index, I64))
    return ctx.make_tuple(b, sig.return_type, parts)


@intrinsic
def shared_memory(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return the address of the block's shared memory."""
    return types.uint32(), _shared_memory


def _shared_memory(ctx: Any, b: Any, sig: Any, args: Any) -> Any:
    memory = b.module.globals.get(SHARED)
    if memory is None:
        memory = ir.GlobalVariable(b.module, ir.ArrayType(I8, 0), SHARED, addrspace=3)
        memory.linkage, memory.align = "external", MOST_ALIGNMENT
    return b.ptrtoint(memory, I32)


@intrinsic
def undefined(context, count):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    """Return a tuple of undefined words; their number is a literal."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    return types.UniTuple(types.uint32, count.literal_value)(count), _undefined


def _undefined(ctx: Any, b: Any, sig: Any, args: Any) -> Any:
    return nothing(sig.return_type.count)
