"""Packed elements, pointers, atomics and cache hints: the instructions that they compile to."""

import operator
import re

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.kernels.config import flagship
from cute_py.kernels.gemm_array import gemm_array
from cute_py.kernels.gemm_gathered import gemm_gathered
from cute_py.kernels.histogram import histogram
from tests.emulated.test_atomics import SPECIAL, adding, greatest, places, swapped
from tests.emulated.test_packed import KINDS, ZFILL, staged, tiles, words
from tests.emulated.test_pointers import at_addresses, gathered, in_stages
from tests.kernel_refusals import raised
from tests.sampling import quick

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen.instructions import TABLE, text_of, texts
from cute_py.codegen.ops.memory import _FLOAT_ORDER

ARCHS = ("sm_80", "sm_90a")


def instructions(plan, arch, *stems):
    """The instructions of the PTX that begin with one of the stems, without registers."""
    compiled = cute.compile(plan, arch)
    assert compiled.resources.spill_bytes == compiled.resources.stack_bytes == 0
    text = re.sub(r"[@%]\w+|[;,{}\[\]+]", " ", compiled.ptx)
    return [word for word in text.split() if word.startswith(stems)]


@pytest.mark.parametrize("arch", ARCHS)
def test_packed_vectors_are_one_access(arch):
    for kind in KINDS:
        x = cute.typed(words(kind, 32 * 256).reshape(32, -1), kind, packed=True)
        wide = {4: "v4.b32", 2: "v2.b32", 1: "b32"}[cute.dtype(kind).bits]
        found = instructions(cute.trace(tiles, x, x, 32), arch, "ld.global", "st.global")
        assert found == [f"ld.global.{wide}", f"st.global.{wide}"]
    x = cute.typed(words("s4", 16 * 64).reshape(16, 32), "s4", packed=True)
    flags = np.ones(32, bool)
    found = instructions(cute.trace(staged(ZFILL), x, x, flags), arch, "cp.async.cg", "st.shared")
    assert found == ["cp.async.cg.shared.global.L2::128B"]


@pytest.mark.parametrize("arch", ARCHS)
def test_addresses_of_packed_elements_step_around_a_loop(arch):
    """One addition an iteration for each array, as of whole bytes."""

    @cute.kernel
    def kernel(x, y):
        cute.launch(grid=1, block=32)
        held = cute.rmem(x.dtype, 32)
        for k in cute.range(x.shape[0]):
            cute.copy(cute.local_tile(x, (1, 32), (k, cute.thread_idx())), held)
            cute.copy(held, cute.local_tile(y, (1, 32), (k, cute.thread_idx())))

    x = cute.typed(words("s4", 32 * 1024).reshape(32, -1), "s4", packed=True)
    source = cute.source(cute.trace(kernel, x, x))
    assert source.count("= advance_") == 2


@pytest.mark.parametrize("arch", ARCHS)
def test_kernels_of_pointers_compile(arch):
    arrays = [np.zeros((n, 128), np.float32) for n in (3, 5)]
    parts, out = cute.TensorArray(arrays), np.zeros((8, 128), np.float32)
    order = np.zeros(8, np.int32)
    found = instructions(cute.trace(gathered, parts, order, out), arch, "ld.global", "st.global")
    rows = ["ld.global.v2.b64"] * 2 + ["ld.global.v4.b32"]  # two rows of a table, and elements
    assert found == ["ld.global.b32", *rows, "st.global.v4.b32"]
    lines = [np.zeros(n, np.float32) for n in (256, 512)]
    plan = cute.trace(in_stages, cute.TensorArray(lines), out)
    assert set(instructions(plan, arch, "cp.async.cg")) == {"cp.async.cg.shared.global.L2::128B"}
    table = np.zeros(4, np.int64)
    plan = cute.trace(at_addresses, table, np.zeros((4, 256), np.float16))
    assert instructions(plan, arch, "ld.global") == ["ld.global.b64", "ld.global.v4.b32"]


def test_an_address_of_a_pointer_that_a_loop_defines_is_not_carried_around_it():
    """It would be used before it is defined; inside of the loop its rows still step."""

    @cute.kernel
    def kernel(parts, out):
        cute.launch(grid=1, block=32)
        for k in cute.range(parts.count):
            x = parts[k]
            for i in cute.range(x.shape[0]):
                out[k, cute.thread_idx()] = x[i, cute.thread_idx()]

    parts = cute.TensorArray([np.zeros((4, 32), np.float32)])
    plan = cute.trace(kernel, parts, np.zeros((8, 32), np.float32))
    source = cute.source(plan)
    at = source.index("ptr0 = pointer_0")
    assert all(m.start() > at for m in re.finditer(r"ptr0_at = begin", source))
    for arch in ARCHS:
        cute.compile(plan, arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_sums_are_as_wide_as_the_architecture_has_them(arch):
    new = arch == "sm_90a"
    for kind, count, keep, wanted in (
        ("f32", 4, False, ["red.global.add.v4.f32"] if new else ["atom.global.add.f32"] * 4),
        ("f32", 2, False, ["red.global.add.v2.f32"] if new else ["atom.global.add.f32"] * 2),
        ("f16", 8, False, ["red.global.add.noftz.v4.f16x2"] if new
         else ["atom.global.add.noftz.f16x2"] * 4),
        ("f16", 4, True, ["atom.global.add.noftz.f16x2"] * 2),
        ("bf16", 8, False, ["red.global.add.noftz.v4.bf16x2"]),
        ("bf16", 2, True, ["atom.global.add.noftz.bf16x2"]),
    ):  # fmt: skip
        held = cute.dtype(kind).numpy
        x, y = np.zeros((32, 3 * count), held), np.zeros(3 * count, held)
        plan = cute.trace(adding(count, keep), x, y, x)
        if kind == "bf16" and not new:
            assert raised(lambda p=plan: cute.compile(p, arch)).code == "codegen-lacks"
        else:
            assert instructions(plan, arch, "red.", "atom.") == wanted, kind


@pytest.mark.parametrize("arch", ARCHS)
def test_extrema_of_floats_are_integer_atomics(arch):
    x = np.zeros(32, np.float32)
    found = instructions(cute.trace(greatest, x, x), arch, "atom.")
    assert found == ["atom.global.max.s32", "atom.global.min.u32", "atom.global.or.b32",
                     "atom.global.cas.b32"]  # fmt: skip
    for space, word in (("gmem", "global"), ("smem", "shared")):
        found = instructions(cute.trace(places(space), x, x, x, "min"), arch, "atom.")
        assert found == [f"atom.{word}.{fn}" for fn in ("min.s32", "max.u32", "or.b32", "cas.b32")]


@pytest.mark.parametrize("arch", ARCHS)
def test_exchanges_of_every_width_compile(arch):
    for kind in ("s16", "bf16", "f32", "s64"):
        x = np.zeros(32, cute.dtype(kind).numpy)
        bits = cute.dtype(kind).bits
        found = instructions(cute.trace(swapped, x, x, x, x), arch, "atom.")
        assert found == [f"atom.global.cas.b{bits}"]


def hinted(load, store, copy=""):
    @cute.kernel
    def kernel(x, y):
        cute.launch(grid=1, block=32)
        held, t = cute.rmem("f32", 4), cute.thread_idx()
        s = cute.smem("f32", cute.Layout((4, 32)))
        cute.copy(cute.local_tile(x, (4,), (t,)), held, cache=load)
        cute.copy(held, cute.local_tile(y, (4,), (t,)), cache=store)
        atom = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f32")
        cute.copy(atom, cute.local_tile(x, (4,), (t,)), s[_, t], cache=copy)
        cute.cp_async_wait(0)

    return cute.trace(kernel, np.zeros(128, np.float32), np.zeros(128, np.float32))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("load", "store", "copy"),
    [
        ("cs", "cg", ""),
        ("L1::no_allocate", "L1::evict_first", "L2::64B"),
        ("L1::evict_last.L2::evict_first.L2::256B", "wt.L2::evict_last", "L2::evict_first"),
        ("cg.L2::128B", "L1::no_allocate.L2::evict_normal", "L2::evict_last.L2::256B"),
    ],
)
def test_cache_hints_are_words_of_the_instructions(arch, load, store, copy):
    plan = hinted(load, store, copy)
    found = instructions(plan, arch, "ld.global", "st.global", "cp.async.cg")

    def words_of(cache):
        policy = ".L2::cache_hint" if "L2::evict" in cache else ""
        kept = [f".{w}" for w in cache.split(".") if w and "L2::evict" not in w]
        first = [w for w in kept if "B" not in w]
        return "".join([*first, policy, *[w for w in kept if w not in first]])

    wide = ".v4.b32"
    prefetch = "" if "B" in copy else ".L2::128B"
    assert found == [
        f"ld.global{words_of(load)}{wide}",
        f"st.global{words_of(store)}{wide}",
        f"cp.async.cg.shared.global{words_of(copy)}{prefetch}",
    ]


def test_hints_that_an_architecture_lacks_are_refused_by_name():
    old = hinted("cs", "cs")
    for plan, words_of in ((hinted("L2::256B", ""), "L2::256B"),
                           (hinted("", "L2::evict_last"), "createpolicy")):  # fmt: skip
        error = raised(lambda p=plan: cute.compile(p, "sm_75"))
        assert error.code == "codegen-lacks"
        assert words_of in str(error)
    assert "cp.async" in str(raised(lambda: cute.compile(old, "sm_75")))


@pytest.mark.parametrize(
    ("load", "store", "copy", "code"),
    [
        ("wb", "", "", "kernel-lack"), ("", "ca", "", "kernel-lack"), ("", "", "cg", "kernel-lack"),
        ("", "L2::128B", "", "kernel-lack"), ("", "", "L1::evict_last", "kernel-lack"),
        ("xx", "", "", "kernel-choice"), ("cg.cs", "", "", "kernel-choice"),
        ("cg.L1::evict_last", "", "", "kernel-choice"),
        ("L2::64B.L2::128B", "", "", "kernel-choice"),
    ],
)  # fmt: skip
def test_words_that_do_not_go_together_are_refused_where_they_are_traced(load, store, copy, code):
    assert raised(lambda: hinted(load, store, copy)).code == code


# -- kernels


def array_plan():
    a, c = [np.zeros((256, 256), np.float16)] * 2, [np.zeros((256, 256), np.float32)] * 2
    parts = [cute.TensorArray(x) for x in (a, a, c)]
    return cute.trace(gemm_array, *parts, 256, 256, flagship())


def gathered_plan():
    a, d, rows = np.zeros((256, 256), np.float16), np.zeros((256, 256), np.float32), np.zeros(256)
    indices = rows.astype(np.int32)
    return cute.trace(gemm_gathered, a, a, d, indices, indices, flagship())


def histogram_plan():
    return cute.trace(histogram, np.zeros(4096, np.uint8), np.zeros(256, np.int32), 256, 16)


PLANS = (array_plan, gathered_plan, histogram_plan)
FEW = [(array_plan, "sm_80"), (gathered_plan, "sm_90a"), (histogram_plan, "sm_80")]


@pytest.mark.parametrize(("plan", "arch"), quick(FEW, PLANS, ARCHS))
def test_kernels_compile_without_spills(plan, arch):
    found = cute.compile(plan(), arch).resources
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)


# -- the text of an extremum of f32, run by hand

TESTS = {
    "ne": operator.ne,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
}


def run_text(text, memory, value, flag, between=None):
    """Run the instructions of `atom.min.f32` on an image of memory; return the images of memory and
    of the old value. `between` changes memory before the first cas, as another thread would.
    """
    held, preds = {"a": value, "flag": flag, "d": 0}, {}

    def number(word, kind="b32"):
        bits = int(word, 0) if word[0].isdigit() else held[word]
        return bits - (1 << 32) if kind == "s32" and bits >> 31 else bits

    steps = [s.strip() for s in text.strip("{ }").replace(":", ":;").split(";")]
    steps = [s for s in steps if s and not s.startswith(".reg")]
    at = 0
    while at < len(steps):
        step, at = steps[at], at + 1
        if step.startswith("@"):
            word, step = step[1:].split(" ", 1)
            if not preds[word]:
                continue
        op, *words = re.split(r"[ ,\[\]]+", step.strip())
        words = [w for w in words if w]
        name, *kinds = op.split(".")
        if op.endswith(":"):
            continue
        if name == "setp":
            found = TESTS[kinds[0]](*[number(w, kinds[-1]) for w in words[1:3]])
            preds[words[0]] = found and (kinds[1] != "and" or preds[words[3]])
        elif name == "and":
            held[words[0]] = number(words[1]) & number(words[2])
        elif name == "mov":
            held[words[0]] = number(words[1])
        elif name == "bra":
            at = next(i for i, s in enumerate(steps) if s == words[0] + ":")
        else:
            assert name == "atom"
            fn, kind, given = kinds[1], kinds[2], words[2]
            if fn == "cas" and between is not None:
                memory, between = between, None
            held[words[0]] = memory
            if fn in ("min", "max"):
                pick = min if fn == "min" else max
                sign = {"s32": lambda x: x - (x >> 31 << 32), "u32": lambda x: x}[kind]
                memory = pick(memory, held[given], key=sign)
            elif fn == "cas":
                memory = held[words[3]] if memory == held[given] else memory
            else:
                assert (fn, given) == ("or", "0")
    return memory, held["d"], between is None


@pytest.mark.parametrize("fn", ["min", "max"])
def test_integers_give_the_extremum_of_floats(fn):
    """For all pairs of special values, also where another thread is faster than the cas."""
    row = TABLE["atom.min.f32"]
    text = text_of(
        row,
        {"d": ["d"], "address": ["m"], "a": ["a"], "flag": ["flag"]},
        texts(row, {"space": "gmem", **_FLOAT_ORDER[fn]}),
        uid="0",
    )
    model = np.fmin if fn == "min" else np.fmax

    def same(image, wanted):
        got = np.uint32(image).view(np.float32)
        zeros = got == wanted == 0 and np.signbit(got) != np.signbit(wanted)
        return not zeros and (got == wanted or (np.isnan(got) and np.isnan(wanted)))

    def extremum(*values):
        rest = sorted((v for v in values if v == v), key=lambda v: (v, not np.signbit(v)))
        return (rest[0] if fn == "min" else rest[-1]) if rest else np.float32(np.nan)

    images = [int(x) for x in SPECIAL.view(np.uint32)]
    for m, x in zip(images, SPECIAL, strict=True):
        for v, y in zip(images, SPECIAL, strict=True):
            assert run_text(text, m, v, 0)[0] == m
            after, old, _ = run_text(text, m, v, 1)
            wanted = extremum(x, y)
            assert model(x, y) == wanted or np.isnan(wanted)
            assert same(after, wanted), (x, y)
            assert old == m
            for other, z in zip(images, SPECIAL, strict=True):
                after, _, changed = run_text(text, m, v, 1, other)
                assert same(after, extremum(z if changed else x, y))
