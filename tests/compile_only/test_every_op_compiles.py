"""Whatever traces compiles for some architecture: every op, for every type and every option.

A kernel of one op is traced; the code of each op is emitted, which picks rows of the table of
instructions. `test_instructions` assembles every form of every row, so no compiler runs here.
"""

import re
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.access import LOAD_CACHES, STORE_CACHES
from cute_py.plan.functions import ATOMICS, FUNCTIONS, REDUCTIONS
from cute_py.plan.ops.order import TESTS
from cute_py.plan.ops.registers import ROUNDINGS
from cute_py.trace.arithmetic import apply
from tests.sampling import check_each, in_turn

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from llvmlite import ir

from cute_py.codegen.arch import NEWEST
from cute_py.codegen.frontend import printed
from cute_py.codegen.passes.strength import Chains
from tests.compile_only.on_host import Context, llvm_type, typed

KINDS = tuple(name for name in cute.dtypes.table.NAMES if name != "void")
CACHES = ("", *dict.fromkeys((*LOAD_CACHES, *STORE_CACHES)))
# what some architecture has, and code generation does not yet: what the refusal says -> why
NOT_YET = {
    r"cute\.print": "it takes calls of vprintf",
    r"a run-time number of (f16|bf16|tf32|e\dm\d|ue8m0)$": "arguments have 32 or 64 bits",
    r"access to e[23]m[23] elements in gl|a register of 6-bit": "no words are full of them",
}


def loaded(x, n=8):
    held = cute.rmem(x.dtype, n)
    cute.copy(cute.local_tile(x, (n,), (0,)), held)
    return held


def element(x):
    return cute.local_tile(x, (1,), (0,))


def stored(space):
    def body(x, cache):
        target = cute.smem(x.dtype, 8) if space == "smem" else cute.local_tile(x, (8,), (0,))
        cute.copy(loaded(x), target, cache=cache)

    return body


def at_once(space):
    def body(x, fn, old):
        target = element(x if space == "gmem" else cute.smem(x.dtype, 32))
        cute.atomic(fn, target, loaded(x, 1), old=old)

    return body


def shared_element(x):
    tile = cute.smem(x.dtype, 32)
    tile[cute.thread_idx()] = x[cute.thread_idx()]


def function(x, fn):
    held = loaded(x)
    if fn == "where":
        cute.where(cute.thread_idx() < 3, held, held)
    else:
        apply(fn, *[held] * FUNCTIONS[fn].arity)


FAMILIES = {  # what -> (body of x and the options, the options)
    "a load": (lambda x, c: cute.copy(element(x), cute.rmem(x.dtype, 1), cache=c), CACHES),
    "a store": (stored("gmem"), CACHES),
    "a store to shared memory": (stored("smem"), CACHES[:1]),
    "a copy": (lambda x, c: cute.copy(element(x), element(x), cache=c), CACHES),
    "an element": (lambda x: x[cute.thread_idx()],),
    "a shared element": (shared_element,),
    "a function": (function, FUNCTIONS),
    "a conversion": (
        lambda x, kind, how, most: loaded(x).to(kind, rounding=how, saturate=most),
        KINDS,
        ROUNDINGS,
        (False, True),
    ),
    "an index as a number": (lambda x: cute.thread_idx().to(x.dtype),),
    "a number": (lambda x: cute.rmem(x.dtype, 2).fill(1),),
    "a view": (lambda x, kind: loaded(cute.recast(loaded(x, 64), kind), 1), KINDS),
    "a reduction": (lambda x, fn: cute.reduce(fn, loaded(x)), REDUCTIONS),
    "a reduction of a warp": (lambda x, fn: cute.warp_reduce(fn, loaded(x)), REDUCTIONS),
    "redux": (lambda x, fn: cute.redux(fn, loaded(x)), REDUCTIONS),
    "a shuffle": (
        lambda x, kind: cute.shuffle(loaded(x), 1, kind),
        ("idx", "up", "down", "bfly"),
    ),
    "an atomic": (at_once("gmem"), ATOMICS, (False, True)),
    "an atomic in shared memory": (at_once("smem"), ATOMICS, (False, True)),
    "acquire": (lambda x: cute.load_acquire(element(x)),),
    "release": (lambda x: cute.store_release(element(x), loaded(x, 1)),),
    "a wait": (lambda x, test: cute.wait_until(element(x), test, 1), TESTS),
    "a prefetch": (lambda x: cute.prefetch(cute.local_tile(x, (32,), (0,))),),
    "an index": (lambda x: cute.as_int(x[0]),),
    "an argument": (lambda x, number: None, ("number",)),
    "print": (lambda x: cute.print("{}", loaded(x, 1)),),
}


def array(kind):
    kind = cute.dtype(kind)
    held = np.zeros(256, kind.numpy)
    return held if cute.from_numpy(held.dtype) is kind else cute.typed(held, kind)


def trace_one(body, kind, *options):
    @cute.kernel
    def one(x, number: cute.dtype(kind)):
        cute.launch(grid=1, block=32)
        body(x, *options)

    @cute.kernel
    def without(x):
        cute.launch(grid=1, block=32)
        body(x, *options)

    x = array(kind)
    return cute.trace(one, x, 1) if "number" in options else cute.trace(without, x)


def emit_code(plan):
    """Emit the code of each op of a plan."""
    made = printed(plan, Chains(plan), NEWEST)
    helpers = set(made.helpers.values())
    for name, function in made.calls.items():
        if name not in helpers:
            signature, codegen = typed(function)
            kinds = [llvm_type(kind) for kind in signature.args]
            f = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), kinds), "f")
            arguments = [ir.Constant(kind, ir.Undefined) for kind in kinds]
            codegen(Context(), ir.IRBuilder(f.append_basic_block()), signature, arguments)


def compiled(family, *choice):
    """Tell whether a kernel is accepted: refused at trace, or its code is emitted. Else it raises;
    what is not there yet has its reason in `NOT_YET`.
    """
    plan, refused = None, None
    try:
        plan = trace_one(FAMILIES[family][0], *choice)
        emit_code(plan)
    except cute.CuteError as error:
        refused = error
    if plan is None:
        assert not refused.code.startswith("codegen"), refused
        assert re.search(r"\(test_every_op_compiles\.py:\d+\)$", str(refused)), refused
    elif refused is not None:
        assert refused.code == "codegen-op", refused
        assert any(re.match(words, refused.facts["name"]) for words in NOT_YET), refused
    return plan is not None


def axes(family):
    return KINDS, *FAMILIES[family][1:]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_traces_compiles_for_some_architecture(family):
    """Every type, and every option, at least once."""
    accepted = set()

    def check(choice):
        if compiled(family, *choice):
            accepted.add(choice)

    kinds, *options = axes(family)
    few = ("f32", "s32", "u8") if len(options) < 3 else ("f32",)
    check_each(check, [*in_turn(kinds, *options), *product(few, *options)])
    assert accepted


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_choice_that_traces_compiles_for_some_architecture(family):
    check_each(lambda choice: compiled(family, *choice), product(*axes(family)))


@pytest.mark.parametrize("words", NOT_YET)
def test_reasons_are_needed(words):
    found = []
    for family, kind, options in (
        ("print", "f32", ()),
        ("an element", "e3m2", ()),
        ("an argument", "f16", ("number",)),
    ):
        with pytest.raises(cute.CuteError) as caught:
            emit_code(trace_one(FAMILIES[family][0], kind, *options))
        found.append(caught.value.facts["name"])
    assert any(re.match(words, name) for name in found)


# -- refused as soon as it is traced, and the legal twin


@pytest.mark.parametrize(
    ("family", "wrong", "right"),
    [
        ("an atomic", ("f64", "max", False), ("f32", "max", False)),
        ("an atomic", ("f16", "exch", True), ("f32", "exch", True)),
        ("an atomic in shared memory", ("s8", "add", False), ("s32", "add", False)),
        ("a store", ("f32", "ca"), ("f32", "cs")),
        ("a load", ("f32", "wb"), ("f32", "ca")),
        ("a conversion", ("f32", "ue8m0", "rn", False), ("f32", "e4m3", "rz", False)),
        ("a shared element", ("s4",), ("s8",)),
        ("a wait", ("f32", "ge"), ("s32", "ge")),
        ("a number", ("ue8m0",), ("u8",)),
    ],
)
def test_what_no_architecture_has_is_refused_at_trace(family, wrong, right):
    body = FAMILIES[family][0]
    with pytest.raises(cute.LayoutError, match="for which no architecture has an instr") as caught:
        trace_one(body, *wrong)
    assert caught.value.code == "kernel-lack"
    emit_code(trace_one(body, *right))


def test_block_scales_are_moved():
    """They have no zero: what a predicate leaves out is NaN, as on the emulator."""
    for family in ("a load", "a store", "a copy"):
        emit_code(trace_one(FAMILIES[family][0], "ue8m0", ""))
