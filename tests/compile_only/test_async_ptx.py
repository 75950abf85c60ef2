"""What is emitted for TMA, mbarriers, wgmma and barriers is what the ops of a plan say.

An intrinsic of the printed kernel gets a number for each of its arguments, and this machine's CPU
computes what its instructions get from them. No compiler for a GPU runs.
"""

import ctypes
import random
import re
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.integers.symbols import SymInt, sym, symbols_of, terms_of
from cute_py.kernels.epilogue import LinearCombination
from cute_py.plan import ops
from cute_py.plan.conditions import Compare, Reg
from cute_py.plan.params import multiplier
from cute_py.plan.walk import accesses, cluster_barriers, fences_peers, parts, reads, writes
from tests.compile_only.kernels_of_ops import cp_arrive, order
from tests.emulated.plans import Maker, at
from tests.hopper_family import PING, arguments, call_of, row, trace
from tests.hopper_kernels import CASES, plan_of, tma_copy

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from llvmlite import ir
from numba.cuda import types

from cute_py.codegen.build import lowered
from cute_py.codegen.emit import REGISTERS, Emit
from cute_py.codegen.instructions import TABLE, Row, of_atom, text_of, texts
from cute_py.codegen.instructions import types as registers_of
from cute_py.codegen.intrinsics import Intrinsics, _warp_index
from cute_py.codegen.passes.strength import Chains
from cute_py.codegen.printer import multipliers
from cute_py.codegen.tensor_maps import TensorMaps
from tests.compile_only.jit import Code
from tests.compile_only.on_host import I32, I64, Context, holds, law, llvm_type, typed, value

FIRST = 1 << 30  # results of instructions, and words of storages, are numbers from here on


class Noting:
    """Stands for `Emit.emit`: keeps instructions, whose operands are written to `log`."""

    def __init__(self, b, log):
        self.b, self.log, self.lines, self.count, self.made = b, log, [], 0, FIRST

    def new(self, kind=I32):
        self.made += 1
        return ir.Constant(kind, self.made)

    def name(self, x):
        """Write a value down; return what stands for it in a text."""
        whole = x if isinstance(x.type, ir.IntType) else self.b.bitcast(x, I32)
        wide = whole if whole.type == I64 else self.b.zext(whole, I64)
        self.b.store(wide, self.b.gep(self.log, [ir.Constant(I64, self.count)]))
        self.count += 1
        return f"<{self.count - 1}>"

    def __call__(self, what, *values, results=None, guard=None, unless=False, old=(), **modes):
        row = TABLE[what] if isinstance(what, str) else what
        row, names = row if isinstance(row, Row) else of_atom(row), {}
        chosen, found = texts(row, modes), []
        for slot, n, kind in registers_of(row.results, chosen):
            found += [self.new(REGISTERS[kind]) for _ in range(n)]
            names[slot.name] = [self.name(x) for x in found[-n:]]
        for (slot, _n, _kind), x in zip(registers_of(row.operands, chosen), values, strict=True):
            if isinstance(x, tuple):
                x = self.b.add(x[0], ir.Constant(x[0].type, x[1]))
            names[slot.name] = list(map(self.name, x if isinstance(x, list) else [x]))
        flag = None if guard is None else self.name(guard)
        text = text_of(row, names, chosen, uid="1")
        self.lines.append((text, flag, unless, [self.name(x) for x in old], found))
        return found


def noted(emit):
    """Return the instructions that run of those that `emit(note)` emits: (text, old values,
    results) of each, operands as numbers; and the function from a name to its number.
    """
    pointer, module = I64.as_pointer(), ir.Module()
    f = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "f")
    b = ir.IRBuilder(f.append_basic_block())
    note = Noting(b, f.args[0])
    with mock.patch.object(Emit, "emit", lambda _self, *x, **options: note(*x, **options)):
        emit(note)
    b.ret_void()
    code, log = Code(module), (ctypes.c_uint64 * (note.count + 1))()
    code.function("f", 1)(ctypes.addressof(log))

    def number(name):
        return log[int(name[1:-1])]

    lines = [
        (re.sub(r"<\d+>", lambda x: str(number(x[0])), text), list(map(number, old)), ids(results))
        for text, flag, unless, old, results in note.lines
        if flag is None or bool(number(flag)) is not unless
    ]
    return lines, number


def emitted(made, op, env):
    """Return the instructions of an op as `noted` gives them, and the words of its storages before
    and after, by storage.
    """
    call, before, after = made.op(op), {}, {}
    signature, codegen = typed(call.function)

    def emit(note):
        given = []
        for name, kind in zip(call.arguments, signature.args, strict=True):
            if isinstance(kind, types.UniTuple):
                before[name] = [note.new() for _ in range(kind.count)]
            given.append(ir.Constant(llvm_type(kind), before.get(name) or env[name]))
        found = codegen(Context(), note.b, signature, given)
        found = found if isinstance(found, list) else [found]
        for name, words in zip(call.results, found, strict=True):
            parts = (note.b.extract_value(words, i) for i in range(made.storages[name]))
            after[name] = list(map(note.name, parts))

    lines, number = noted(emit)
    before = {name: ids(words) for name, words in before.items()}
    return lines, before, {name: list(map(number, words)) for name, words in after.items()}


def ids(constants):
    return [x.constant for x in constants]


class Law:
    """What the PTX ISA has for the ops of a plan, for values of its integers."""

    def __init__(self, plan, env):
        self.plan, self.env, self.maps = plan, env, TensorMaps(plan)
        self.starts = {s.name: env["smem"] + s.offset for s in plan.shared}
        self.wide = cluster_barriers(plan.body)
        self.fence = "cluster" if fences(plan) else "cta"

    def __call__(self, op):
        return getattr(self, type(op).__name__)(op)

    def at(self, x, vector=0):
        one = replace(x, table=x.table[vector : vector + 1], guards=(), masks=())
        return next(law(one, self.env, self.starts[x.storage]))[1]

    def value(self, x):
        return value(x, self.env) % 2**32

    def Barrier(self, op):
        if op.scope == "named":
            found = self.value(op.id)
            low, high = op.known or (found, found)  # of the threads of a role
            found = low if low == high else found
            return [f"bar.{op.kind} {found}, {op.threads};"] * (low <= found <= high)
        if op.scope == "cluster":
            both = ("arrive", "wait") if op.kind == "sync" else (op.kind,)
            return [" ".join(f"barrier.cluster.{kind}.aligned;" for kind in both)]
        return [{"block": "bar.sync 0;", "warp": "bar.warp.sync 0xffffffff;"}[op.scope]]

    def Fence(self, op):
        return [
            {
                "proxy_async": f"fence.proxy.async.shared::{self.fence};",
                "mbarrier_init": "fence.mbarrier_init.release.cluster;",
                "gpu": "fence.acq_rel.gpu;",
            }[op.kind]
        ]

    def GridDep(self, op):
        return [f"griddepcontrol.{op.kind};"]

    def SetMaxNReg(self, op):
        return [f"setmaxnreg.{op.kind}.sync.aligned.u32 {op.n};"]

    def MbarInit(self, op):
        return [f"mbarrier.init.shared.b64 [{self.at(op.bar)}], {op.count};"]

    def MbarArrive(self, op):
        expect, more = (".expect_tx", f", {op.bytes}") if op.bytes else ("", "")
        if op.cluster_rank is None:
            return [f"mbarrier.arrive{expect}.shared.b64 _, [{self.at(op.bar)}]{more};"]
        scope = ".release.cluster" if op.bar.storage in self.wide else ""
        return [
            f"{{ .reg .b32 r; mapa.shared::cluster.u32 r, {self.at(op.bar)}, "
            f"{self.value(op.cluster_rank)}; "
            f"mbarrier.arrive{expect}{scope}.shared::cluster.b64 _, [r]{more}; }}"
        ]

    def CpArrive(self, op):
        return [f"cp.async.mbarrier.arrive.noinc.shared.b64 [{self.at(op.bar)}];"]

    def MbarWait(self, op):
        scope = ".acquire.cluster" if op.bar.storage in self.wide else ""
        return [
            f"{{ .reg .pred p; again_1: mbarrier.try_wait.parity{scope}.shared.b64 p, "
            f"[{self.at(op.bar)}], {self.value(op.phase)}; @!p bra again_1; }}"
        ]

    def _policy(self, op):
        """Return the line that makes a policy, and how a copy uses it."""
        if not op.cache:
            return [], "", ""
        kind = op.cache.removeprefix("L2::evict_")
        made = f"createpolicy.fractional.L2::evict_{kind}.b64 {FIRST + 1}, 1.0;"
        return [made], ".L2::cache_hint", f", {FIRST + 1}"

    def _place(self, op):
        found = self.maps.of(op)
        at = [str(self.value(op.coord[mode])) for mode in op.box.modes]
        return f"[{self.env[self.maps.names[found]]}, {{{', '.join(at)}}}]", len(at)

    def TmaLoad(self, op):
        (made, hint, policy), (place, rank) = self._policy(op), self._place(op)
        bar, mask = self.at(op.bar), self.value(op.multicast)
        if op.guard is not None and not holds(op.guard, self.env):
            how = "shared::cta.relaxed.cta.b64"
            return [*made, f"mbarrier.complete_tx.{how} [{bar}], {op.box.bytes};"]
        how, more = ("tile", "") if op.im2col is None else ("im2col", self._offsets(op))
        several, more = (".multicast::cluster", f"{more}, {mask}") if mask else ("", more)
        name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.{how}"
        name += f".mbarrier::complete_tx::bytes{several}{hint}"
        return [*made, f"{name} [{self.at(op.box.tile)}], {place}, [{bar}]{more}{policy};"]

    def _offsets(self, op):
        return f", {{{', '.join(str(self.value(x)) for x in op.offsets)}}}"

    def TmaStore(self, op):
        (made, hint, policy), (place, rank) = self._policy(op), self._place(op)
        if op.guard is not None and not holds(op.guard, self.env):
            return made
        name = f"cp.async.bulk.tensor.{rank}d.global.shared::cta"
        if op.reduce:
            name = f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{op.reduce}"
        return [*made, f"{name}.tile.bulk_group{hint} {place}, [{self.at(op.box.tile)}]{policy};"]

    def BulkCommit(self, op):
        return ["cp.async.bulk.commit_group;"]

    def BulkWait(self, op):
        return [f"cp.async.bulk.wait_group{'.read' if op.read else ''} {op.n};"]

    def WgFence(self, op):
        return ["wgmma.fence.sync.aligned;"]

    def WgCommit(self, op):
        return ["wgmma.commit_group.sync.aligned;"]

    # -- of descriptors

    def descriptor(self, tile, fragment, rows, depth):
        """The bits of the descriptor of a fragment. Source: PTX ISA, Matrix descriptor."""
        start = self.at(tile.access, fragment * rows * depth)
        mode = {"INTER": 0, "SW128": 1, "SW64": 2, "SW32": 3}[tile.mode]
        fields = (start & 0x3FFFF, 0), (tile.lbo, 16), (tile.sbo, 32)
        return sum((x >> 4) << shift for x, shift in fields) | mode << 62

    def accumulates(self, op):
        given = op.accumulate
        return given if isinstance(given, bool) else holds(given, self.env)


ASYNC = (*(getattr(ops, x) for x in vars(Law) if x[0].isupper()), ops.Wgmma, ops.WgWait)


def values_of(plan, compared, seed):
    """Return random values of the arguments of some ops: often the ends of their ranges."""
    rng = random.Random(seed)
    env = {"smem": 1024 * rng.randrange(1, 16)}
    env |= {name: 64 * rng.randrange(1 << 33, 1 << 40) for name in TensorMaps(plan).names.values()}
    for x in (*parts(compared), *plan.launch.divisors):
        for s in symbols_of(terms_of(x)) if isinstance(x, SymInt) else ():
            low = 0 if s.lo is None else s.lo
            high = min(low + 999 if s.hi is None else s.hi, low + 99_999)
            env.setdefault(s.name, s.multiple_of * rng.choice((low, high, rng.randint(low, high))))
    env |= {name: multiplier(value(x, env)) for x, name in multipliers(plan).items()}
    return env | {"warp": env.get("tid", 0) // 32}


def check_products(law, op, lines, before, after):
    """Each step has its descriptors, reads its sums unless it is the first that starts from zero,
    and leaves them in place.
    """
    (M, N, K), words, begun = op.atom.shape_mnk, {k: list(v) for k, v in before.items()}, set()
    for (d, a, b), (text, old, results) in zip(op.steps, lines, strict=True):
        found = re.fullmatch(
            rf"\{{ \.reg \.pred p; setp\.ne\.b32 p, ([01]), 0; wgmma\.mma_async\.sync\.aligned\."
            rf"m{M}n{N}k{K}[.\w]* \{{([\d, ]+)\}}, (\d+|\{{[\d, ]+\}}), (\d+), p[01, ]*; \}}",
            text,
        )
        flag, sums, left, right = found.groups()
        assert int(flag) == (d in begun or law.accumulates(op))
        begun.add(d)
        assert int(right) == law.descriptor(op.b, b, N, K)
        if isinstance(op.a, Reg):
            held = words[op.a.storage]
            bits, n = op.a.dtype.bits, op.atom.values[0]
            first = op.a.index[a * n] * bits // 32
            assert list(map(int, left[1:-1].split(", "))) == held[first : first + n * bits // 32]
        else:
            assert int(left) == law.descriptor(op.a, a, M, K)
        bits, n = op.d.dtype.bits, op.atom.values[2]
        first = op.d.index[d * n] * bits // 32
        place = slice(first, first + n * bits // 32)
        assert list(map(int, sums.split(", "))) == results
        assert old == words[op.d.storage][place]
        words[op.d.storage][place] = results
    assert after == {op.d.storage: words[op.d.storage]}


def check_wait(op, lines, before, after, flying):
    """All registers in flight are results of the wait, or of what follows it; a sleep that takes
    what it is `after` goes before.
    """
    if op.after is not None:
        (sleep, *_values), *lines = lines
        assert "nanosleep.u32 0" in sleep
        flying = flying | {op.after.storage}
    assert lines[0][0] == f"wgmma.wait_group.sync.aligned {op.n};"
    assert {text for text, _old, _results in lines[1:]} <= {""}
    assert set(before) == set(after) == flying
    assert [old for _text, old, _results in lines] == (list(before.values()) or [[]])
    assert [results for _text, _old, results in lines] == (list(after.values()) or [[]])


def peers_of(op):
    """Return the accesses of an op to the shared memory of other blocks."""
    return [x for x in accesses(op) if x.rank is not None]


def check_peers(law, op, lines):
    """Each vector is where the block of that rank has what this block has in its own memory."""
    (x,) = peers_of(op)
    own, (mapped, _old, (there,)) = law.starts[x.storage], lines[0]
    assert mapped == f"mapa.shared::cluster.u32 {there}, {own}, {law.value(x.rank)};"
    found = [re.search(r"shared::cluster\S* .*?\[(\d+)\]", text)[1] for text, *_ in lines[1:]]
    assert list(map(int, found)) == [there + law.at(x, v) - own for v in range(x.count)]


def check_fill(op, lines, before, after):
    """Sums get values that the compiler may not choose, or a number that it does not know."""
    ((text, old, results),) = lines
    assert text == ""
    assert after == {op.dst.storage: results}
    words = [] if op.value is None else [np.float32(op.value).view(np.uint32)] * len(results)
    assert old == words


def check_first(plan, storage):
    """Sums have values before their first product, which would else set them to zero."""
    used = (op for op in plan.ops if storage in {x.storage for x in (*reads(op), *writes(op))})
    assert isinstance(next(used), ops.Fill)


def check(plan, seed):
    """Return the types of the ops that were compared."""
    plan = lowered(plan)
    products = [op for op in plan.ops if isinstance(op, ops.Wgmma)]
    flying = {x.storage for op in products for x in (op.a, op.d) if isinstance(x, Reg)}
    fills = (op for op in plan.ops if isinstance(op, ops.Fill) and op.dst.storage in flying)
    compared = (*(op for op in plan.ops if isinstance(op, ASYNC) or peers_of(op)), *fills)
    env = values_of(plan, compared, seed)
    law, made = Law(plan, env), Intrinsics(plan, Chains(plan), "smem", "warp", "sm_90a")
    seen = set()
    for op in dict.fromkeys(compared):
        lines, before, after = emitted(made, op, env)
        seen.add(type(op))
        if isinstance(op, ops.Wgmma):
            check_products(law, op, lines, before, after)
            check_first(plan, op.d.storage)
        elif peers_of(op):
            check_peers(law, op, lines)
        elif isinstance(op, ops.Fill):
            check_fill(op, lines, before, after)
        elif isinstance(op, ops.WgWait):
            check_wait(op, lines, before, after, flying)
        else:
            assert [text for text, _old, _results in lines] == law(op)
    return seen


def first_of(name, last=False):
    cases = list(CASES[name]())
    return plan_of(*cases[-1 if last else 0])


def family(*of_row, **parts):
    config, last = row(*of_row, **parts), LinearCombination()
    arrays, _exact = arguments(config, config.tile, "bf16")
    return trace(config, *call_of(config, arrays, last))


def copied(**options):
    x = np.zeros((64, 96), np.float16)
    return cute.trace(tma_copy, x, x, (32, 32), **options)


@cute.kernel
def stage_behind(D, way):
    """Stages of operands, or parts of them, at a distance from the first: known, or by a sum."""
    cute.launch(grid=1, block=128)
    mma = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64, 3)), 1024) for n in (128, 8))
    thr = mma.get_slice(cute.thread_idx())
    part = thr.partition_C(cute.local_tile(D, (128, 8), (0, 0)))
    acc = thr.make_fragment_C(part)
    for k in cute.range(D.shape[0]):
        depth = k % 2 + 1 if way == "depth" else _
        stage = {"known": 2, "sum": k % 2 + 1, "depth": 1}[way]
        a, b = (x[_, _, depth, stage] for x in (thr.partition_A(sA), thr.partition_B(sB)))
        cute.warpgroup_gemm(mma, acc, a, b, k > 0)
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(acc, part)


def rest():
    """Ops that none of the other plans has."""
    m = Maker("rest", cluster=(4, 1, 1), threads=128)
    bar, other = m.smem("bar", "u64", 2), sym("n", min=1, max=15)
    barriers = [("cluster", "arrive"), ("cluster", "wait"), ("named", "arrive"), ("named", "sync")]
    return m.plan(
        *[m.op(ops.Barrier, scope, kind, other, 96) for scope, kind in barriers],
        m.op(ops.Barrier, "named", "arrive", sym("few", min=2, max=4), 64),
        m.op(ops.Fence, "gpu"),
        m.op(ops.MbarArrive, at(bar, 1), 4096, other % 4),
        m.op(ops.BulkWait, 3, True),
        m.op(ops.WgWait, 5),
        m.op(ops.Fill, m.reg("x", "f32", 2), 1.0),
        m.op(ops.WgWait, 0, m.reg("x", "f32", 2)),
    )


LIKE_OTHERS = ("gemm_10", "gemm_11", "gemm_12")
PLANS = {
    "rest": (rest,),
    **{name: (first_of, name) for name in CASES if name not in LIKE_OTHERS},
    "weights that are kept": (first_of, "weights", True),
    "family, along M and N": (family, "bf16", 64, 64, 1, "cooperative", "MM"),
    "family, K in parts": (lambda: family("bf16", 64, 16, 1, split=2, pdl=1),),
    "family, clusters": (lambda: family("bf16", 128, 16, cluster=2),),
    "family, taking turns": (family, "bf16", 128, 16, 1, PING),
    "a policy": (lambda: copied(cache="L2::evict_first"),),
    **{
        f"a stage, {way}": (cute.trace, stage_behind, np.zeros((128, 8), np.float32), way)
        for way in ("known", "sum", "depth")
    },
    "cp_arrive": (cp_arrive,),
    "order": (lambda: cute.trace(order, np.zeros(32, np.int32)),),
}


@pytest.mark.parametrize("name", PLANS)
def test_instructions_are_those_of_the_ops(name):
    make, *given = PLANS[name]
    assert check(make(*given), len(name))


def fences(plan):
    return fences_peers(plan.body, {s.name: (s.offset, s.offset + s.bytes) for s in plan.shared})


@cute.kernel
def sent(x, first):
    """Threads store, and TMA of rank 0 loads over it: in one block, or by a multicast in two."""
    cute.launch(grid=2, block=32, cluster=2)
    shared, bars = cute.smem("f32", (32, 4), 128), cute.mbarriers(1)
    other = cute.smem("f32", (32, 4), 128)
    (shared if first else other)[cute.thread_idx(), 0] = 1
    cute.fence_proxy_async()
    cute.tma_load(cute.local_tile(cute.tma_tensor(x), (32, 4), (0, 0)), shared, bars, 0, 3)


def test_a_proxy_fence_reaches_other_blocks_where_threads_or_multicasts_store_there():
    x = np.zeros((4, 32), np.float32).T
    assert [fences(cute.trace(sent, x, first)) for first in (True, False)] == [True, False]
    for case in CASES["fences"]():
        assert fences(plan_of(*case)) == case[-1]["peer"]
    for how in ({"cluster": 2}, {"split": 2, "pdl": 1}):
        assert not fences(family("bf16", 128, 16, **how))


@pytest.mark.parametrize("tid", [0, 31, 32, 127, 1023])
def test_the_index_of_a_warp_is_the_one_of_its_first_lane(tid):
    """By one instruction, of all lanes, whose result is the same in each."""
    lines, _number = noted(lambda note: _warp_index(None, note.b, None, [ir.Constant(I64, tid)]))
    ((text, _old, (result,)),) = lines
    assert text == f"shfl.sync.idx.b32 {result}, {tid // 32}, 0, 31, 0xffffffff;"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("tid", [0, 5, 64])
def test_an_elected_lane_satisfies_the_condition(tid, first, monkeypatch):
    """Of the lanes that a condition lets through, the one that elect.sync names issues TMA."""
    seen = []

    def emit(note):
        monkeypatch.setattr(note, "new", lambda kind=I32: ir.Constant(kind, int(first)))
        e = Emit(note.b, {"tid": ir.Constant(I64, tid)}, {}, {})
        holds_too = e.elected(Compare("eq", sym("tid", min=0) % 64, 0))
        seen.append(note.name(holds_too))

    lines, number = noted(emit)
    assert "elect.sync _|p, mask; selp.b32 " in lines[0][0]
    assert lines[0][0].endswith(", 1, 0, p; }")
    assert number(seen[0]) == (first and tid % 64 == 0)
