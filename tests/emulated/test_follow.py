"""`cute.follow`: products are made of what they say, and each move is where the layouts put it."""

import json
import re
from dataclasses import fields
from functools import cache
from itertools import product

import numpy as np
import pytest

import cute_py as cute
from cute_py import viz
from cute_py.emulate.ways.moves import RULES
from cute_py.errors import LayoutError
from cute_py.kernels.samples import SAMPLES
from cute_py.plan import ops
from cute_py.plan.params import TensorParam
from cute_py.plan.walk import arrays as names_of
from tests.kernel_calls import CALLS, KERNELS
from tests.sampling import quick


def small(name, sizes):
    """Return a kernel, and its arrays of small integers."""
    kind, make = SAMPLES[name]
    kernel, arguments = make(sizes, cute.dtype(kind))
    rng = np.random.default_rng(0)
    for x in arguments[:2]:
        x[...] = rng.integers(-4, 5, x.shape)
    return kernel, arguments


def products_of(events, operand):
    """Yield what tells products of an operand apart: the instruction and its m, n and k."""
    for event in events:
        p = event.get("product", {"operand": ""})
        if p["operand"] == operand:
            where = event["step"], *event["block"], event["warp"], p["instruction"]
            yield from ((*where, *mnk) for mnk in product(p["m"], p["n"], p["k"]))


SUMS = {"gemm_07": ("C", (16, 8, 40)), "gemm_09": ("C", (16, 8, 72)), "gemm_11": ("D", (16, 8, 72))}


def require_sums(name, rows, columns, some):
    """Follow elements of some rows of A and of B forwards, and the elements of D where they meet
    backwards: the products that D's elements name, of what came there, are D's sums.
    """
    out, sizes = SUMS[name]
    kernel, arguments = small(name, sizes)
    A, B, *_, D = [x for x in arguments if isinstance(x, np.ndarray)]
    way, came = cute.follow(kernel, *arguments, element=(out, (0, 0))), {}
    for i, k in product(rows, some):
        one = way.of(("A", (i, k)))
        assert one.becomes == [(out, (i, n)) for n in range(len(B))]
        came |= dict.fromkeys([("A", *key) for key in products_of(one.forwards, "A")], (i, k))
    for i, k in product(columns, some):
        one = way.of(("B", (i, k)))
        assert one.becomes == [(out, (m, i)) for m in range(len(A))]
        came |= dict.fromkeys([("B", *key) for key in products_of(one.forwards, "B")], (i, k))
    cute.emulate(kernel, *arguments)
    for m, n in product(rows, columns):
        one, K = way.of((out, (m, n))), range(A.shape[1])
        assert one.made_of == [("A", (m, k)) for k in K] + [("B", (n, k)) for k in K]
        keys = set(products_of(one.backwards, "A"))
        assert keys == set(products_of(one.backwards, "B"))
        pairs = [(came[("A", *key)], came[("B", *key)]) for key in keys if ("A", *key) in came]
        assert sorted(pairs) == [((m, k), (n, k)) for k in some]
        if len(some) == len(K):
            assert sum(float(A[a]) * float(B[b]) for a, b in pairs) == D[m, n]


@pytest.mark.parametrize("name", SUMS)
def test_a_product_is_named_from_both_sides(name):
    require_sums(name, [5], [3], [0, 33])


@pytest.mark.slow
@pytest.mark.parametrize("name", SUMS)
def test_all_elements_followed_make_the_sums(name):
    M, N, K = SUMS[name][1]
    require_sums(name, range(M), range(N), range(K))


# -- each move is where the layouts put it


def test_moves_are_those_of_the_thread_value_layouts():
    kernel, arguments = small("gemm_07", (128, 128, 64))
    cfg = arguments[3]
    (bM, bN, bK), mma, (a, _b) = cfg.tile, cfg.tiled_mma(), cfg.operands()
    i, k = 37, 45
    events = cute.follow(kernel, *arguments, element=f"A[{i}, {k}]").forwards
    tile, at = cute.make_identity_tensor((bM, bK)), (i, k % bK)
    (copy,) = [e for e in events if e["op"] == "cp_async"]
    (held,) = copy["moves"][0]["to"]
    offset = a.smem((*at, k // bK))
    assert (held["coord"], held["stage"]) == ([*at, k // bK], k // bK)
    assert (held["byte"], held["bank"]) == (2 * offset, 2 * offset // 4 % 32)
    own = a.g2s.get_slice(32 * copy["warp"] + copy["lane"]).partition_S(tile)
    assert at in [own[x] for x in range(own.size())]
    readers = [e for e in events if e["op"] == "ldmatrix"]
    thr = mma.thr_layout_vmnk.size()
    assert len(readers) == thr // 32 // 2  # the warps of one half along M
    for e in readers:
        (x,) = e["moves"][0]["to"]
        own = mma.get_slice(32 * x["warp"] + x["lane"]).partition_A(tile)
        assert at in [own[x] for x in range(own.size())]
    sums = [x for e in events if "product" in e for move in e["moves"] for x in move["to"]]
    corner, found = cute.make_identity_tensor((bM, bN)), set()
    for x in sums:
        m, n = mma.get_slice(32 * x["warp"] + x["lane"]).partition_C(corner)[x["element"]]
        assert m == i
        found.add(n)
    assert found == set(range(bN))


@cute.kernel
def halves(x, y):
    """Pairs of f16 move as words, and one half of each alone."""
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    words = cute.recast(x, "u32")
    held = cute.rmem("u32", 1)
    held[0] = cute.shuffle(words[t], 1, kind="bfly")
    half = cute.recast(held, "f16")
    y[2 * t] = half[1]
    y[2 * t + 1] = half[0] + half[1]


def test_what_moves_in_one_word_is_told_apart():
    x, y = np.zeros(64, np.float16), np.zeros(64, np.float16)
    way = cute.follow(halves, x, y, element="x[7]")
    assert way.becomes == [("y", (4,)), ("y", (5,))]
    assert way.of("x[6]").becomes == [("y", (5,))]
    assert way.of("y[4]").made_of == [("x", (7,))]


@cute.kernel
def chosen(x, index, y, z):
    """An address and a branch move nothing; an integer of a register does."""
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    place = cute.as_int(index[t], 0, 32)
    with cute.when(place > 3):
        y[t] = x[place]
    z[t] = index[t] + place


def test_an_address_is_no_operand():
    x, y = (np.zeros(32, np.float32) for _ in range(2))
    index, z = np.arange(32, dtype=np.int32)[::-1].copy(), np.zeros(32, np.int32)
    way = cute.follow(chosen, x, index, y, z, element="x[9]")
    assert way.becomes == [("y", (22,))]
    assert way.of("x[2]").becomes == []
    assert way.of("index[9]").becomes == [("z", (9,))]


@cute.kernel
def added(x, total):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    cute.atomic("add", cute.local_tile(total, (1,), (t // 16,)), x[t])


def test_a_sum_in_place_is_made_of_itself_too():
    x, total = np.zeros(32, np.int32), np.zeros(2, np.int32)
    way = cute.follow(added, x, total, element="total[1]")
    assert way.made_of == [("x", (k,)) for k in range(16, 32)] + [("total", (1,))]
    assert way.becomes == [("total", (1,))]


# -- what it is asked and what it says


def test_the_json_is_one_and_arrays_are_as_before():
    kernel, arguments = small("gemm_07", (32, 32, 32))
    C = arguments[2]
    C[...] = -1
    way = cute.follow(kernel, *arguments, element=("A", (5, 17)))
    assert (C == -1).all()
    data = way.as_data()
    assert json.loads(json.dumps(data)) == data
    assert data["element"] == {"name": "A", "coord": [5, 17]}
    assert data["becomes"] == [{"name": "C", "coord": [5, n]} for n in range(32)]
    for event in data["forwards"]:
        assert {x["name"] for m in event["moves"] for x in (*m["from"], *m["to"])} <= set(
            data["storages"]
        )
    names = {e["event"]: e["op"] for e in data["forwards"] if e["event"] is not None}
    assert {n: way.timeline.events[n].name for n in names} == names
    assert [e["step"] for e in data["forwards"]] == sorted(e["step"] for e in data["forwards"])


def test_the_text_has_a_line_for_each_warp_and_step():
    kernel, arguments = small("gemm_07", (32, 32, 32))
    first, second, *lines = str(cute.follow(kernel, *arguments, element="A[5,17]")).splitlines()
    assert first == "A[5, 17] in gemm_multistage: order, not time"
    assert second == "it becomes 32 elements C[5, 0:32]:"
    assert lines[0].endswith("cp_async: A[5, 17] -> s0[5, 17, 0] at byte 322 (bank 16)")
    unread = str(cute.follow(kernel, *arguments, element="C[1,1]").of("C[1, 1]"))
    assert "it was made of 32 elements A[1, 0:32], 32 elements B[1, 0:32]:" in unread


def test_a_plan_from_a_file_knows_bytes_and_no_coordinates(tmp_path):
    kernel, arguments = small("gemm_07", (32, 32, 32))
    cute.trace(kernel, *arguments).save(tmp_path / "x.plan")
    plan = cute.Plan.load(tmp_path / "x.plan")
    way = cute.follow(plan, *arguments[:3], element="A[5,17]")
    (held,) = way.forwards[0]["moves"][0]["to"]
    assert (held["byte"], held["bank"], held["coord"], held["stage"]) == (322, 16, None, None)
    assert "s0 at byte 322 (bank 16)" in str(way)


def test_the_picture_lights_the_element_in_all_memories():
    kernel, arguments = small("gemm_07", (32, 32, 32))
    drawn = viz.picture_of(cute.follow(kernel, *arguments, element="A[5,17]"))
    titles = [grid.title for (grid,) in drawn.grids]
    assert titles[0] == "A: mode 0 down, mode 1 right"
    assert titles[1] == "s0 of block (0,0,0): 128 bytes down, bank right"
    lit = [
        [(r, c) for r, row in zip(g.row_labels, g.cells, strict=True)
         for c, cell in zip(g.column_labels, row, strict=True) if cell.lines == ("x",)]
        for (g,) in drawn.grids
    ]  # fmt: skip
    assert lit[:2] == [[("5", "17")], [("2", "16")]]  # byte 322 is in row 2 of 128 bytes
    assert lit[-1] == [("5", str(n)) for n in range(32)]
    assert all(lit)


@pytest.mark.parametrize(
    ("element", "given"),
    [("AB[1,1]", "an element of 'AB'"), ("A[32,0]", "(32, 0) of A"), ("A[1]", "(1,) of A"),
     (("A", (0, -1)), "(0, -1) of A"), ("A", "the element 'A'"), ("A[x,0]", "of A")],
)  # fmt: skip
def test_an_element_that_is_not_there_is_refused(element, given):
    kernel, arguments = small("gemm_07", (32, 32, 32))
    with pytest.raises(LayoutError, match=re.escape(given)):
        cute.follow(kernel, *arguments, element=element)


# -- every kernel


@cache
def call_of(name):
    call = CALLS[name]()
    return KERNELS[call.kernel], call.given(call.arguments)


def require_inverse(name, count=2):
    """Follow elements of what a kernel writes backwards, and some of what they are made of
    forwards.
    """
    kernel, arguments = call_of(name)
    plan, rng = kernel.plan(*arguments), np.random.default_rng(0)
    first = next(x for x in plan.params if isinstance(x, TensorParam))
    way = cute.follow(kernel, *arguments, element=(first.name, (0,) * len(first.shape)))
    arrays, told = way.timeline.given.arrays, 0
    written = {x for op in plan.ops for x in names_of(op, written=True)} & arrays.keys()
    for array in sorted(written):
        for _ in range(count):
            coord = tuple(int(rng.integers(n)) for n in arrays[array].shape)
            made_of = way.of((array, coord)).made_of
            told += len(made_of)
            for k in rng.integers(len(made_of), size=count if made_of else 0):
                assert (array, coord) in way.of(made_of[k]).becomes
    assert told or not written


QUICK = ["transpose.transpose_shared", "softmax.softmax", "gemm_gathered.gemm_gathered"]


@pytest.mark.parametrize("name", quick([(name,) for name in QUICK], CALLS))
def test_forwards_and_backwards_are_inverse(name):
    require_inverse(name)


def test_coordinates_are_those_of_numpy_too():
    C, D = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    (where,) = np.argwhere(np.arange(256).reshape(16, 16) == 37)
    assert cute.follow(through_wmma, C, D, element=("C", tuple(where))).becomes == [("D", (2, 5))]
    with pytest.raises(LayoutError):
        cute.follow(through_wmma, C, D, element=("C", (True, 5)))


def test_the_text_of_a_constant_says_no_more_than_is_true():
    @cute.kernel
    def ones(x):
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = 1.0

    way = cute.follow(ones, np.zeros(32, np.float32), element="x[3]")
    assert (way.becomes, way.made_of) == ([], [])
    assert "no array keeps anything of it, and it is made of no element" in str(way)


# -- every op


MADE_OF_NO_OPERAND = {"SharedAddress"}  # an address
CHANGE_NOTHING = {"WgWait"}  # its registers keep their values


def test_every_op_that_writes_has_a_rule():
    written = {
        kind.__name__
        for kind in ops.OPS
        if any(x.metadata.get("role") in ("written", "updated", "stored") for x in fields(kind))
    }
    assert {"Load", "Store", "WmmaLoad", "TmaStore"} <= written
    made = written - MADE_OF_NO_OPERAND - CHANGE_NOTHING
    assert made == written & {kind.__name__ for kind in RULES}


@cute.kernel
def through_wmma(C, D):
    """D = C, through a fragment of sums."""
    cute.launch(grid=1, block=32)
    w, tile = cute.Wmma(), cute.smem("f32", cute.Layout((16, 16), (20, 1)))
    for i in cute.range(cute.thread_idx(), 256, 32):
        tile[i % 16, i // 16] = C[i % 16, i // 16]
    cute.syncthreads()
    held = w.load("C", tile)
    cute.syncthreads()
    w.store(held, tile)
    cute.syncthreads()
    for i in cute.range(cute.thread_idx(), 256, 32):
        D[i % 16, i // 16] = tile[i % 16, i // 16]


def test_opaque_fragments_are_loaded_and_stored_exactly():
    C, D = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    way = cute.follow(through_wmma, C, D, element="C[3,5]")
    assert [e["op"] for e in way.forwards if e["op"].startswith("wmma")] == [
        "wmma_load",
        "wmma_store",
    ]
    assert way.becomes == [("D", (3, 5))]
    assert way.of("D[9,2]").made_of == [("C", (9, 2))]


@cute.kernel
def wmma_sums(A, B, D):
    """D is row 3 of A B^T, twice."""
    cute.launch(grid=1, block=32)
    w, held = cute.Wmma(), [cute.smem("f16", cute.Layout((16, 16), (16, 1))) for _ in range(2)]
    out = cute.smem("f32", cute.Layout((16, 16), (16, 1)))
    for i in cute.range(cute.thread_idx(), 256, 32):
        held[0][i // 16, i % 16] = A[i // 16, i % 16]
        held[1][i // 16, i % 16] = B[i // 16, i % 16]
    cute.syncthreads()
    w.store(w.mma(w.load("A", held[0]), w.load("B", held[1]), w.fill(0.0)), out)
    cute.syncthreads()
    D[cute.thread_idx()] = out[3, cute.thread_idx() % 16]


def test_sums_by_wmma_are_made_of_both_fragments():
    A, B = np.zeros((17, 16), np.float16), np.zeros((16, 16), np.float16)
    way = cute.follow(wmma_sums, A, B, np.zeros(32, np.float32), element="A[3,5]")
    assert way.becomes == [("D", (i,)) for i in range(32)]
    assert way.of("A[16,0]").becomes == []
    every = [(name, (i, j)) for name in "AB" for i in range(16) for j in range(16)]
    assert way.of("D[0]").made_of == every
