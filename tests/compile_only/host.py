"""Runs a plan's emitted LLVM IR on the CPU of this machine, thread by thread.

Each op is emitted by the rule that compiles it for a GPU. The inline PTX of loads, stores, atomics
and float arithmetic is replaced by IR with the meaning that the PTX ISA gives it, conversions by
calls of `exact`. Barriers, shared memory and matrices are not run. The IR is optimized before, so
that what has no meaning shows.
"""

import ctypes
from itertools import product

import numpy as np
from llvmlite import ir

from cute_py.codegen.arch import NEWEST
from cute_py.codegen.emit import REGISTERS, Emit
from cute_py.codegen.instructions import TABLE, texts, types
from cute_py.codegen.ops import RULES
from cute_py.codegen.ops.control import let
from cute_py.codegen.passes.strength import small_arrays
from cute_py.codegen.printer import multipliers, parameters
from cute_py.codegen.storage import F32, F64, I8, I32, I64, is_loose, word_count
from cute_py.plan import ops
from cute_py.plan.params import ScalarParam, multiplier
from tests.compile_only import exact
from tests.compile_only.jit import Code

INDICES = ("tid", "bid_x", "bid_y", "bid_z")
WIDTHS = {F32: 32, F64: 64}
CALLED = {}  # functions that emitted code calls: alive as long as it may run


def run(plan, *args, code=None, arch=NEWEST):
    """Run all threads of a plan on NumPy arrays, one after the other.

    `code` is what `compiled` gave, where that is at hand; else the plan is compiled for `arch`.
    """
    code, names = code or compiled(plan, arch)
    call = code.function("kernel", 1)
    values = dict(zip(INDICES, (0, 0, 0, 0), strict=True))
    for param, arg in zip(plan.params, args, strict=True):
        values |= _given(param, arg)
    for divisor, name in multipliers(plan).items():
        values[name] = multiplier(eval(str(divisor), {"min": min, "ceil_div": ceil_div}, values))
    grid = [int(eval(str(n), {"min": min, "ceil_div": ceil_div}, values)) for n in plan.launch.grid]
    for z, y, x, t in product(*map(range, (grid[2], grid[1], grid[0], plan.launch.threads))):
        values.update(tid=t, bid_x=x, bid_y=y, bid_z=z)
        call(np.array([values[n] for n in names], np.int64).ctypes.data)


def ceil_div(a, b):
    return -(-a // b)


def _given(param, arg):
    """The words that a kernel gets for an argument."""
    if isinstance(param, ScalarParam):
        kind = param.dtype
        if kind.is_float:
            held = np.array([arg], f"f{kind.bits // 8}")
            return {param.name: int(held.view(f"i{kind.bits // 8}")[0])}
        return {param.name: (int(arg) + (1 << 63)) % (1 << 64) - (1 << 63)}
    sizes = {f"{param.name}_shape{k}": n for k, n in enumerate(arg.shape)}
    steps = {f"{param.name}_stride{k}": n // arg.itemsize for k, n in enumerate(arg.strides)}
    return {param.name: arg.ctypes.data, **sizes, **steps}


def compiled(plan, arch=NEWEST):
    """Return the code of a plan, and the names of the words that it is called with."""
    floats = {p.name: p.dtype for p in plan.params if isinstance(p, ScalarParam)}
    names = [*INDICES, *(name for name, _kind in parameters(plan))]
    module = ir.Module()
    kind = ir.FunctionType(ir.VoidType(), [I64.as_pointer()])
    function = ir.Function(module, kind, "kernel")
    b = ir.IRBuilder(function.append_basic_block())
    loaded = {
        name: b.load(b.gep(function.args[0], [ir.Constant(I64, i)])) for i, name in enumerate(names)
    }
    for name, dtype in floats.items():
        if dtype.is_float:
            word = loaded[name] if dtype.bits == 64 else b.trunc(loaded[name], I32)
            loaded[name] = b.bitcast(word, F64 if dtype.bits == 64 else F32)
    Kernel(b, plan, loaded, arch).block(plan.body)
    b.ret_void()
    return Code(module, is_optimized=True), names


class Kernel:
    """Emits the ops of a plan; registers and variables lie on the stack between ops."""

    def __init__(self, b, plan, env, arch):
        self.b, self.env, self.arch = b, env, arch
        self.loose = frozenset(r.name for r in plan.storages if is_loose(r))
        count = {r.name: word_count(r) for r in plan.storages}
        self.words = {n: [b.alloca(I32) for _ in range(count[n])] for n in count}
        names = {op.var for op in plan.ops if isinstance(op, ops.Set)}
        self.vars = {n: b.alloca(I64) for n in sorted(names)}
        loops = {op.var for op in plan.ops if isinstance(op, ops.Loop)}
        self.counts = {n: b.alloca(I64) for n in sorted(loops)}
        self.starts = {("gmem", p.name): env[p.name] for p in plan.params}
        self.known = small_arrays(plan), multipliers(plan)

    def emitter(self):
        words = {n: [self.b.load(w) for w in places] for n, places in self.words.items()}
        return Host(
            self.b, self.env, words, self.starts, "", self.loose, None, self.arch, *self.known
        )

    def block(self, block):
        for op in block:
            if type(op) in CONTROL:
                CONTROL[type(op)](self, op)
                continue
            e = self.emitter()
            RULES[type(op)](e, op)
            for name, places in self.words.items():
                for place, value in zip(places, e.words.words[name], strict=True):
                    self.b.store(value, place)

    def let(self, op):
        if op.kind == "var":
            self.env[op.var] = self.b.load(self.vars[op.operands[0]])
        else:
            self.env[op.var] = let(self.emitter(), op)

    def set(self, op):
        self.b.store(self.emitter().scalars.value(op.value), self.vars[op.var])

    def branch(self, op):
        cond = self.emitter().scalars.holds(op.cond)
        with self.b.if_else(cond) as (then, other):
            with then:
                self.block(op.then)
            with other:
                self.block(op.other)

    def loop(self, op):
        e, b, place = self.emitter(), self.b, self.counts[op.var]
        start, stop = e.scalars.value(op.start), e.scalars.value(op.stop)
        b.store(start, place)
        test, body, after = (b.append_basic_block() for _ in range(3))
        b.branch(test)
        b.position_at_end(test)
        self.env[op.var] = b.load(place)
        goes_on = b.icmp_signed("<" if op.step > 0 else ">", self.env[op.var], stop)
        b.cbranch(goes_on, body, after)
        b.position_at_end(body)
        self.block(op.body)
        b.store(b.add(self.env[op.var], ir.Constant(I64, op.step)), place)
        b.branch(test)
        b.position_at_end(after)


CONTROL = {ops.Let: Kernel.let, ops.Set: Kernel.set, ops.If: Kernel.branch, ops.Loop: Kernel.loop}


class Host(Emit):
    """Emits IR in place of inline PTX."""

    def emit(self, what, *values, results=None, guard=None, old=(), **modes):
        row = TABLE[what]
        chosen = texts(row, modes)
        outs = [REGISTERS[kind] for _, n, kind in types(row.results, chosen) for _ in range(n)]
        outs = results or outs
        if what == "opaque":
            return list(old)
        if row.effects != "none":
            return self._memory(what, values, outs, guard, list(old), modes)
        if (
            what.startswith(("cvt.", "fma.", "prmt", "lop3", "min.nan"))
            or "16x2" in what
            or chosen.get("type") == "f16"
        ):
            return [self._called(what, modes, values, outs[0])]
        return [getattr(self, f"_{what}")(*values)]

    def printf(self, text, values):
        """As printf of C, which takes its arguments one by one."""
        function = self.b.module.globals.get("printf") or ir.Function(
            self.b.module, ir.FunctionType(I32, [I8.as_pointer()], var_arg=True), "printf"
        )
        self.b.call(function, [self.text(text), *values])

    def _called(self, what, modes, values, kind):
        """Call a function of `exact` on bit images."""
        b, key = self.b, (what, len(values), *sorted(modes.items()))
        if key not in CALLED:
            number = ctypes.c_uint64
            prototype = ctypes.PYFUNCTYPE(number, *[number] * len(values))
            CALLED[key] = prototype(exact.instruction(what, modes))
        place = ctypes.cast(CALLED[key], ctypes.c_void_p).value
        function = ir.FunctionType(I64, [I64] * len(values)).as_pointer()
        given = [self._as(x, ir.IntType(WIDTHS.get(x.type) or x.type.width)) for x in values]
        given = [x if x.type == I64 else b.zext(x, I64) for x in given]
        found = b.call(b.inttoptr(ir.Constant(I64, place), function), given)
        width = WIDTHS.get(kind) or kind.width
        return self._as(found if width == 64 else b.trunc(found, ir.IntType(width)), kind)

    def _as(self, x, kind):
        return x if x.type == kind else self.b.bitcast(x, kind)

    # -- memory

    def _memory(self, what, values, outs, guard, old, modes):
        b = self.b
        if guard is None:
            return self._moved(what, values, outs, modes)
        places = [b.alloca(kind) for kind in outs]
        for place, value in zip(places, old, strict=False):
            b.store(value, place)
        with b.if_then(b.icmp_unsigned("!=", guard, ir.Constant(I32, 0))):
            for place, value in zip(places, self._moved(what, values, outs, modes), strict=True):
                b.store(value, place)
        return [b.load(place) for place in places]

    def _moved(self, what, values, outs, modes):
        b, (address, beyond) = self.b, values[0]
        address = b.add(address, ir.Constant(I64, beyond))
        if what == "ld":
            found = [b.load(p) for p in self._pointers(address, outs, modes["bits"])]
            return [
                x if x.type == kind else b.zext(x, kind)
                for x, kind in zip(found, outs, strict=True)
            ]
        if what == "st":
            given = values[1]
            kinds = [x.type for x in given]
            for p, x in zip(self._pointers(address, kinds, modes["bits"]), given, strict=True):
                narrow = p.type.pointee
                b.store(b.trunc(x, narrow) if narrow != x.type else x, p)
            return []
        assert what == "atom.add", what
        value = values[1]
        place = b.inttoptr(address, value.type.as_pointer())
        before = b.load(place)
        add = b.fadd if value.type in (F32, F64) else b.add
        b.store(add(before, value), place)
        return [before]

    def _pointers(self, address, kinds, bits):
        b, each = self.b, 64 if isinstance(bits, str) else bits // len(kinds)
        for i, kind in enumerate(kinds):
            kind = ir.IntType(each) if each < 32 else kind
            place = b.add(address, ir.Constant(I64, i * each // 8))
            yield b.inttoptr(place, kind.as_pointer())

    # -- floats

    def _call(self, name, *values, kind=None):
        kind = kind or values[0].type
        letters = {F32: "f32", F64: "f64"}
        suffix = letters.get(kind) or f"i{kind.width}"
        if kind != values[0].type:
            suffix += f".{letters[values[0].type]}"
        function = ir.FunctionType(kind, [x.type for x in values])
        module = self.b.module
        found = module.globals.get(f"llvm.{name}.{suffix}")
        found = found or ir.Function(module, function, f"llvm.{name}.{suffix}")
        return self.b.call(found, values)

    def _add(self, x, y):
        return self.b.fadd(x, y)

    def _sub(self, x, y):
        return self.b.fsub(x, y)

    def _mul(self, x, y):
        return self.b.fmul(x, y)

    def _div(self, x, y):
        return self.b.fdiv(x, y)

    def _rcp(self, x):
        return self.b.fdiv(ir.Constant(x.type, 1.0), x)

    def _fma(self, x, y, z):
        return self.b.fma(x, y, z)

    def _abs(self, x):
        return self._call("fabs", x)

    def _sqrt(self, x):
        return self._call("sqrt", x)

    def _floor(self, x):
        return self._call("floor", x)

    def _ceil(self, x):
        return self._call("ceil", x)

    def _min(self, x, y):
        return self._least("<", x, y)

    def _max(self, x, y):
        return self._least(">", x, y)

    def _least(self, sign, x, y):
        """The lesser or greater; a number rather than NaN, -0.0 below 0.0."""
        b = self.b
        bits = I32 if x.type == F32 else I64
        join = b.or_ if sign == "<" else b.and_
        both = b.bitcast(join(b.bitcast(x, bits), b.bitcast(y, bits)), x.type)
        found = b.select(b.fcmp_ordered(sign, x, y), x, y)
        found = b.select(b.fcmp_ordered("==", x, y), both, found)
        found = b.select(b.fcmp_unordered("uno", x, x), y, found)
        return b.select(b.fcmp_unordered("uno", y, y), x, found)
