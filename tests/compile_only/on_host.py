"""Printed kernels on the host's CPU: the addresses that they reach, beside those of the law.

`reached` runs the text of `cute.source`, each intrinsic as the LLVM IR that it emits; in place of
an instruction it notes the address and the guard. `wanted` walks through the plan and evaluates the
law of `Access`. Both give one row for each vector, in order: (space, byte address, guard).
"""

import ctypes
from contextlib import suppress
from unittest import mock

from llvmlite import ir
from numba.cuda import types

from cute_py.codegen.arch import NEWEST
from cute_py.codegen.emit import REGISTERS, Emit
from cute_py.codegen.instructions import TABLE, of_atom, texts
from cute_py.codegen.instructions import types as registers_of
from cute_py.codegen.passes.strength import Chains
from cute_py.codegen.printer import Source
from cute_py.integers.polynomial import evaluate
from cute_py.integers.symbols import symbols_in, terms_of
from cute_py.plan.conditions import Compare, Logic, Not
from tests.compile_only.jit import Code

I32, I64 = ir.IntType(32), ir.IntType(64)
BITS = {"gmem": 64, "smem": 32}
NUMBERS = (I64, I32, ir.IntType(1))
ROOM = 256  # rows that one op may note, two numbers each


# -- the law


def value(x, env):
    """Return a scalar for values of its symbols."""
    if isinstance(x, int):
        return x
    units = {str(s): terms_of(s) for s in symbols_in(x)}
    at = {name: env[name] // next(iter(p.values())) for name, p in units.items()}
    return evaluate(terms_of(x), at)


def holds(cond, env):
    """Return whether a condition holds."""
    if isinstance(cond, Not):
        return not holds(cond.term, env)
    if isinstance(cond, Logic):
        found = [holds(term, env) for term in cond.terms]
        return all(found) if cond.test == "and" else any(found)
    assert isinstance(cond, Compare)
    a, b = value(cond.a, env), value(cond.b, env)
    return {"lt": a < b, "le": a <= b, "eq": a == b, "ne": a != b}[cond.test]


def swizzled(x, offset):
    bits, base, shift = x.swizzle
    active = offset & (((1 << bits) - 1) << (base + max(0, shift)))
    return offset ^ (active >> shift if shift >= 0 else active << -shift)


def law(x, env, start):
    """Give the rows of an access whose storage begins at `start` (bytes)."""
    inner = value(x.inner, env)
    for v, (number, static) in enumerate(x.table):
        offset = swizzled(x, inner + static) if x.swizzle else inner + static
        bits = (value(x.bases[number], env) + offset) * x.dtype.bits
        assert bits % 8 == 0
        mask = x.masks[v] if x.masks else ()
        guard = all(holds(x.guards[i], env) for i in mask)
        yield x.space, (start + bits // 8) % 2 ** BITS[x.space], guard


class Left(Exception):
    """The kernel, or with `loop` the innermost loop, is over."""


class Model:
    """Runs a plan's control flow and notes what its accesses are by the law."""

    def __init__(self, plan, env):
        self.env, self.rows = dict(env), []
        self.starts = {s.name: env["smem"] + s.offset for s in plan.shared}
        with suppress(Left):
            self.block(plan.body)

    def block(self, block):
        for op in block:
            getattr(self, type(op).__name__.lower())(op)

    def note(self, *accesses):
        for rows in zip(*[self.of(x) for x in accesses], strict=True):
            guard = rows[-1][2]
            self.rows += [(space, address, guard) for space, address, _own in rows]

    def of(self, x):
        return law(x, self.env, self.starts.get(x.storage, self.env.get(x.storage)))

    def load(self, op):
        self.note(op.src)

    def store(self, op):
        self.note(op.dst)

    def cpasync(self, op):
        self.note(op.dst, op.src)

    def let(self, op):
        if op.kind == "var":
            self.env[op.var] = self.env[op.operands[0]]
            return
        a, b = (value(x, self.env) for x in op.operands)
        self.env[op.var] = {"xor": a ^ b, "and": a & b, "or": a | b}[op.kind]

    def set(self, op):
        self.env[op.var] = value(op.value, self.env)

    def loop(self, op):
        for k in range(value(op.start, self.env), value(op.stop, self.env), op.step):
            self.env[op.var] = k
            try:
                self.block(op.body)
            except Left as left:
                if left.args == ("loop",):
                    break
                raise

    def leave(self, op):
        if holds(op.cond, self.env):
            raise Left(op.target)

    def __getattr__(self, name):
        assert name == "if"
        return self.branch

    def branch(self, op):
        self.block(op.then if holds(op.cond, self.env) else op.other)


def wanted(plan, env):
    """Return the rows that the law gives."""
    return Model(plan, env).rows


# -- the printed text


class Noting(ir.IRBuilder):
    """A builder of a function that notes rows at `log`, and how many at its begin."""

    def __init__(self, block, log):
        super().__init__(block)
        self.log, self.spaces = log, []

    def note(self, space, address, guard):
        wide = address if address.type == I64 else self.zext(address, I64)
        for k, x in enumerate((wide, self.zext(guard, I64))):
            self.store(x, self.gep(self.log, [ir.Constant(I64, 2 * len(self.spaces) + k)]))
        self.spaces.append(space)


def noted(e, what, *values, results=None, guard=None, old=(), **modes):
    """Stand for `Emit.emit`: note the addresses of an instruction; its results are 0."""
    if what == "opaque":
        return list(old)
    row = TABLE[what] if isinstance(what, str) else of_atom(what)
    modes.pop("unless", None)
    flag = ir.Constant(I32, 1) if guard is None else guard
    for x in values:
        if isinstance(x, tuple):
            address, beyond = x
            space = "gmem" if address.type == I64 else "smem"
            e.b.note(space, e.b.add(address, ir.Constant(address.type, beyond)), flag)
    found = registers_of(row.results, texts(row, modes))
    kinds = results or [REGISTERS[kind] for _slot, n, kind in found for _ in range(n)]
    return [ir.Constant(kind, 0) for kind in kinds]


class Context:
    """Stands for Numba's context: results of an intrinsic are a Python list."""

    def make_tuple(self, _b, _kind, parts):
        return list(parts)

    def get_dummy_value(self):
        return []


def llvm_type(kind):
    if isinstance(kind, types.UniTuple):
        return ir.ArrayType(I32, kind.count)
    floats = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
    return floats.get(kind) or (I32 if kind == types.uint32 else I64)


class Host:
    """The calls of a printed kernel as functions of the host."""

    def __init__(self, source):
        self.module, self.rows, self.made = ir.Module(), [], {}
        self.log = (ctypes.c_uint64 * (2 * ROOM))()
        self.sent = (ctypes.c_int64 * 64)()
        own = set(source.helpers.values())
        for name, function in source.calls.items():
            if name not in own:
                self.made[name] = self.emitted(name, function)
        self.code = Code(self.module)

    def emitted(self, name, function):
        """Emit an intrinsic as `name(log, sent)`; return (its signature, rows, result).

        Arguments and the one number that it gives are in `sent`; tuples of registers are undefined.
        """
        signature, codegen = typed(function)
        pointer = I64.as_pointer()
        f = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [pointer, pointer]), name)
        log, sent = f.args
        b = Noting(f.append_basic_block(), log)
        slots = [b.gep(sent, [ir.Constant(I64, i)]) for i in range(len(signature.args))]
        given = [self.argument(b, *pair) for pair in zip(signature.args, slots, strict=True)]
        with mock.patch.object(Emit, "emit", noted):
            found = codegen(Context(), b, signature, given)
        whole = found if isinstance(found, list) else [found]
        number = next((x for x in whole if not isinstance(x, list) and x.type in NUMBERS), None)
        if number is not None:
            wide = number if number.type == I64 else b.zext(number, I64)
            b.store(wide, b.gep(sent, [ir.Constant(I64, 0)]))
        b.ret_void()
        assert len(b.spaces) <= ROOM
        return signature, b.spaces, found

    @staticmethod
    def argument(b, kind, slot):
        if isinstance(kind, types.UniTuple):
            return ir.Constant(llvm_type(kind), ir.Undefined)
        x = b.load(slot)
        return x if llvm_type(kind) == I64 else b.trunc(x, I32)

    def call(self, name):
        """Return the Python function of an intrinsic."""
        signature, spaces, found = self.made[name]
        run = self.code.function(name, 2)

        def function(*args):
            for i, x in enumerate(args):
                self.sent[i] = ctypes.c_int64(x if isinstance(x, int) else 0).value
            run(ctypes.addressof(self.log), ctypes.addressof(self.sent))
            self.rows += [
                (space, self.log[2 * i], bool(self.log[2 * i + 1]))
                for i, space in enumerate(spaces)
            ]
            number = self.sent[0]
            if not isinstance(found, list):
                return number
            return [None if isinstance(x, list) else number for x in found]

        assert len(signature.args) <= len(self.sent)
        return function


def typed(function):
    """Return (signature, code generator) of an intrinsic."""
    return function.signature, function.codegen


def prepared(plan):
    """Return `run(env)`, which runs the printed kernel and returns its rows."""
    source = Source(plan, Chains(plan), NEWEST)
    host = Host(source)
    program = compile(source.text, plan.name, "exec")

    def run(env):
        host.rows.clear()
        helpers = {
            "thread_index": lambda: env["tid"],
            "block_index": lambda: (env["bid_x"], env["bid_y"], env["bid_z"]),
            "shared_memory": lambda: env["smem"],
            "undefined": lambda _count: None,
            "int32": lambda x: ctypes.c_int32(x).value,
            "int64": int,
            "range": range,
        }
        scope = {source.helpers[name]: function for name, function in helpers.items()}
        scope |= {name: host.call(name) for name in host.made}
        exec(program, scope)
        scope[plan.name](*[env[name] for name in source.parameters])
        return list(host.rows)

    return run
