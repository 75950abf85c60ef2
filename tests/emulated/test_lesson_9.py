"""Lesson 9: natural mistakes in each of its eight steps, and what the learner is told of each."""

import re

import pytest

from tests.emulated.test_lessons import (
    LESSONS,
    answers_of,
    checks,
    code_of,
    exercise_of,
    run_cell,
)
from tests.sampling import check_each

__all__ = ["checks"]  # the fixture
LESSON = LESSONS[8]

# step -> (what of the right answer, what many write there, what the verdict says of it)
MISTAKES = {
    "9.1": [
        ("(64, 64), (bx, by)", "(32, 32), (bx, by)", r"Block \(bx, by\) has tile \(bx, by\) of 64"),
        ("(bx, by))", "(by, bx))", r"nothing is written to element \(0, 128\)"),
        ("(bx, by))", "(0, 0))", r"4096 of 24576 elements of C"),
        ("(64, 64), (bx, by)", "(64, 64), (bx * 64, by * 64)", r"4096 of 24576 elements of C"),
        ("get_slice(t)", "get_slice(0)", r"does what a thread writes depend on the thread"),
        ("partition_C(gC)", "partition_A(gC)", r"has each element one owner"),
        ("MMA.get_slice(t).", "MMA.", r"its get_slice\(t\) is the view of thread t"),
        ("partition_C(gC)", "partition_C(C)", r"take a tile first.*local_tile\(C"),
        ("return ", "", r"is a `return` missing\?"),
        ("partition_C(gC)", "partition_C(gC[...])", r"write _ for all of a mode"),
    ],
    "9.2": [
        ("    acc.fill(0)\n", "", r"a read of register .* fix: fill the tensor first"),
        ("acc.fill(0)", "acc.fill(1)", r"All sums are 1 too large"),
        ("    return acc\n", "", r"is a `return` missing\?"),
        ("acc = MMA.get_slice(t).make_fragment_C(tCgC)", "acc = tCgC", r"registers \(rmem\)"),
        ("    cute.copy(tCgA, tCrA)\n", "", r"a read of register .* fix: fill the tensor first"),
        ("cute.copy(tCgB, tCrB)", "cute.copy(tCgA, tCrB)", r"given shapes .* required: one shape"),
        ("acc, tCrA, tCrB)", "acc, tCrB, tCrA)", r"given fragments made for C, B, A"),
        ("acc, tCrA, tCrB)", "acc, tCgA, tCgB)", r"copy it there first: cute.copy"),
        ("thr.partition_B(b)", "thr.partition_A(b)", r"required: C \(V,M,N\), A .* B \(V,N,K\)"),
        ("    cute.gemm(MMA, acc, tCrA, tCrB)\n", "", r"are the products added to acc\?"),
    ],
    "9.3": [
        ("    cute.cp_async_fence()\n", "", r"fix: close the group with cute.cp_async_fence"),
        ("    cute.cp_async_wait(0)\n", "", r"fix: wait with cute.cp_async_wait\(0\)"),
        ("cp_async_wait(0)", "cp_async_wait(1)", r"fix: wait with cute.cp_async_wait\(0\)"),
        ("    cute.syncthreads()\n", "", r"fix: put a barrier between"),
        ("cute.syncthreads()", "cute.syncwarp()", r"fix: put a barrier between"),
        ("S(g), thr.partition_D(s)", "D(s), thr.partition_S(g)", r"a source in smem; .* in gmem"),
        ("cute.copy(LOAD, ", "cute.copy(", r"0 cp.async: pass LOAD to cute.copy"),
        (
            "LOAD.get_slice(t)",
            "LOAD.get_slice(0)",
            r"a write of element 0 of s0 .* cp.async of warp",
        ),
        ("LOAD.get_slice(t)", "MMA.get_slice(t)", r"that of a tiled copy has partition_S"),
        ("LOAD.get_slice(t)", "LOAD", r"its get_slice\(t\) is the view of thread t"),
    ],
    "9.4": [
        ("make_tiled_copy_B", "make_tiled_copy_A", r"Is the copy of B made for B"),
        ("copy_b.get_slice(t)", "copy_b.get_slice(0)", r"made for B, and for thread t"),
        ("read_b.partition_S(b)", "read_b.partition_S(a)", r"This is A A\^T"),
        ("read_a.partition_S(a)", "a", r"required: contiguous elements, in order"),
        ("read_a.retile_D(", "read_a.partition_D(", r"partition_D: given extent 8 in mode 0"),
        ("copy_a.get_slice(t),", "LDMATRIX.get_slice(t),", r"make_tiled_copy_A .* over threads"),
        ("cute.copy(copy_a, ", "cute.copy(", r"Is the copy of A made for A"),
        (
            "(copy_b, read_b.partition_S(b), read_b.retile_D(tCrB))",
            "(thr.partition_B(b), tCrB)",
            r"1 of 2 operands are loaded by ldmatrix",
        ),
    ],
    "9.5": [
        ("cute.composition(cute.Swizzle(2, 3, 3), ROWS)", "ROWS", r"384 bank conflicts"),
        ("(2, 3, 3)", "(1, 3, 3)", r"C is right, with 128 bank conflicts"),
        ("(2, 3, 3)", "(2, 4, 3)", r"C is right, with 128 bank conflicts"),
        ("(2, 3, 3)", "(2, 0, 5)", r"fix: use a Swizzle\(B, M, S\) with 2\*\*M >= 8"),
        (
            "cute.composition(cute.Swizzle(2, 3, 3), ROWS)",
            "cute.Layout((64, 32), (40, 1))",
            r"takes 2552 elements, more than 2048",
        ),
        (
            "cute.composition(cute.Swizzle(2, 3, 3), ROWS)",
            "cute.Swizzle(2, 3, 3)",
            r"required: a layout",
        ),
        (
            "cute.composition(cute.Swizzle(2, 3, 3), ROWS)",
            "cute.Layout((64, 32))",
            r"required: contiguous elements",
        ),
    ],
    "9.6": [
        ("        cute.cp_async_wait(STAGES - 2)\n", "", r"fix: wait with cute.cp_async_wait\(1\)"),
        ("        cute.syncthreads()\n", "", r"fix: put a barrier between cute.cp_async_wait"),
        (
            "wait(STAGES - 2)",
            "wait(STAGES - 1)",
            r"which cp.async of warp 1 .* writes in its group",
        ),
        ("wait(STAGES - 2)", "wait(0)", r"STAGES - 2 groups may still be on their way"),
        ("tile + STAGES - 1,", "tile + STAGES,", r"a read of element 256 of s0 .* writes in its"),
        (
            "tile + STAGES - 1,",
            "tile + 1,",
            r"a write of element 2048 of s0 .* writes in its group",
        ),
        ("range(STAGES - 1)", "range(STAGES)", r"a write of element 4096 of s0 .* in its group 3"),
        (
            "for tile in cute.range(",
            "for tile in range(",
            r"use cute.range\(n\) for a run-time loop",
        ),
        ("    cute.cp_async_fence()\n", "", r"fix: close the group with cute.cp_async_fence"),
        ("sA[_, _, tile % STAGES], t)\n    f", "sA[_, _, tile], t)\n    f", r"0 <= entry < 3"),
        (
            "multiply(acc, sA[_, _, tile % STAGES], sB[_, _, tile % STAGES]",
            "multiply(acc, sA[_, _, 0], sB[_, _, 0]",
            r"which stage is each tile in\?",
        ),
        ("fetch(gB[_, _, tile]", "fetch(gA[_, _, tile]", r"This is A A\^T"),
    ],
    "9.7": [
        ("GLOBAL_ZFILL", "GLOBAL", r"a read of element 2056 of s0, which nothing has written"),
        (
            "with cute.when(tile < cute.size(gA, 2))",
            "if True",
            r"takes 320 wavefronts instead of 192",
        ),
        (
            "with cute.when(tile < cute.size(gA, 2))",
            "if tile < cute.size(gA, 2)",
            r"use with cute.when\(condition\)",
        ),
        ("tile < cute", "tile <= cute", r"takes 256 wavefronts instead of 192"),
        ("    cute.cp_async_fence()", "        cute.cp_async_fence()", r"which cp.async of warp 1"),
        ("    cute.cp_async_fence()", "", r"fix: close the group with cute.cp_async_fence"),
        (
            "make_tiled_copy(ZFILL, THREADS, VECTOR)",
            "Copy_Atom(ZFILL.op, ZFILL.dtype)",
            r"make_tiled_copy, make_tiled_copy_A .* over threads",
        ),
        ("THREADS, VECTOR)", "VECTOR, THREADS)", r"get_slice: given .* whether tid < 8"),
    ],
    "9.8": [
        ("(0, 1)", "(1, 0)", r"added along a column, as bias\[m\]"),
        ("(0, 1)", "(1, 1)", r"element 64 of gmem storage bias"),
        ("cute.Layout(C.shape, (0, 1))", "cute.Layout((64, 64), (0, 1))", r"All tiles get"),
        (
            "cute.make_tensor(bias.data, cute.Layout(C.shape, (0, 1)))",
            "bias",
            r"given a tiler of 2 modes for \(bias_shape0\)",
        ),
        ("    cute.copy(tCgBias, tCrBias)\n", "", r"a read of register .* fix: fill the tensor"),
        (
            "maximum(acc + tCrBias, 0)",
            "fma(cute.maximum(acc, 0), 1, tCrBias)",
            r"after the maximum",
        ),
        ("cute.maximum(acc + tCrBias, 0)", "(acc + tCrBias)", r"The maximum with 0 is missing"),
        ("acc + tCrBias", "acc", r"The bias is missing"),
        (".to(C.dtype)", "", r"given f32 and f16; .* convert one of them"),
        ("cute.maximum(", "max(", r"cute.where\(condition, a, b\), cute.minimum, cute.maximum"),
        ("cute.maximum(", "cute.relu(", r"cute.maximum\(x, 0\) is this function"),
    ],
}


def before(step):
    """Return what the lesson has defined before a step, all answers right, and its cell."""
    names, answers = {"__name__": "__main__"}, answers_of(LESSON)
    for number, code in enumerate(code_of(LESSON)):
        found = exercise_of(code)
        if found and found[2] == step:
            return names, found, answers[step][0]
        if found:  # without its check
            code = "\n".join((found[1], answers[found[2]][0]))
        run_cell(code, names, f"<cell {number + 1}>")
    raise LookupError(step)


def explained(step, mistakes):
    """Require for each of some mistakes that the verdict is wrong, and says what is expected."""
    names, found, right = before(step)

    def check(case):
        old, new, says = case
        assert right.count(old) >= 1
        code = found[1] + right.replace(old, new) + found[4]
        _printed, verdict = run_cell(code, names, f"<{step}>")
        assert verdict.right is False, verdict.text
        assert re.search(says, verdict.text), verdict.text

    check_each(check, mistakes, name=lambda case: repr(case[1]))


def test_each_step_has_five_natural_mistakes():
    assert list(MISTAKES) == list(answers_of(LESSON)) == [f"9.{n}" for n in range(1, 9)]
    assert min(map(len, MISTAKES.values())) >= 5


@pytest.mark.parametrize("step", MISTAKES)
def test_natural_mistakes_are_explained(step):
    explained(step, MISTAKES[step][:5])


@pytest.mark.slow
@pytest.mark.parametrize("step", MISTAKES)
def test_all_mistakes_are_explained(step):
    explained(step, MISTAKES[step])


# step -> other right answers
OTHERS = {
    "9.2": """
def zeros(tCgC, t):
    acc = cute.rmem("f32", tCgC.shape)
    acc.fill(0)
    return acc


def multiply(acc, a, b, t):
    thr = MMA.get_slice(t)
    tCrA, tCrB = thr.partition_fragment_A(a), thr.partition_fragment_B(b)
    cute.copy(thr.partition_A(a), tCrA)
    cute.copy(thr.partition_B(b), tCrB)
    for k in range(2):
        cute.gemm(MMA, acc, tCrA[_, _, k], tCrB[_, _, k])

""",
    "9.3": """
def fetch(g, s, t):
    thr = LOAD.get_slice(t)
    cute.copy(LOAD, thr.partition_S(g), thr.partition_D(s))
    cute.cp_async_fence()


def arrive():
    cute.cp_async_wait(0)
    cute.syncthreads()

""",
    "9.5": """
rows = cute.composition(cute.Swizzle(3, 3, 3), cute.Layout((8, 32), (32, 1)))
swizzled = cute.tile_to_shape(rows, (64, 32))
""",
    "9.6": """
def start(tile, gA, gB, sA, sB, t):
    for g, s in (gA, sA), (gB, sB):
        fetch(g[_, _, tile], s[_, _, tile % STAGES], t)
    cute.cp_async_fence()


def main_loop(acc, gA, gB, sA, sB, t):
    for tile in range(STAGES):
        start(tile, gA, gB, sA, sB, t)
    for tile in cute.range(gA.shape[2]):
        cute.cp_async_wait(STAGES - 1)
        cute.syncthreads()
        multiply(acc, sA[_, _, tile % STAGES], sB[_, _, tile % STAGES], t)
        cute.syncthreads()
        start(tile + STAGES, gA, gB, sA, sB, t)

""",
    "9.7": """
ZFILL = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f16")
LOAD = cute.make_tiled_copy(ZFILL, THREADS, VECTOR)


def start(tile, gA, gB, sA, sB, t):
    thr, stage = LOAD.get_slice(t), tile % STAGES
    for g, s in (gA, sA), (gB, sB):
        parts = thr.partition_S(g[_, _, tile]), thr.partition_D(s[_, _, stage])
        cute.copy(LOAD, *parts, pred=tile < cute.size(gA, 2))
    cute.cp_async_fence()

""",
}


@pytest.mark.slow
@pytest.mark.parametrize("step", OTHERS)
def test_other_answers_are_right(step):
    names, found, _right = before(step)
    _printed, verdict = run_cell(found[1] + OTHERS[step] + found[4], names, f"<{step}>")
    assert verdict.right, verdict.text
