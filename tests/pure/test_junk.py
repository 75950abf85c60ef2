"""Whatever is passed to the algebra, only CuteError, or TypeError about a signature, leaves it."""

import random
from inspect import signature
from itertools import islice, product
from operator import attrgetter

import numpy as np
import pytest

import cute_py as cute
from cute_py import E, Layout, _, parse_layout, sym

NAMES = [
    each.partition("=")[0]
    for home, names in cute._HOME.items()
    if home.startswith("layout.")
    for each in names.split()
]
FUNCTIONS = {
    name: getattr(cute, name)
    for name in NAMES
    if callable(getattr(cute, name)) and name not in ("Underscore", "transform_leaf")
}
ROW = Layout((4, 8), (8, 1))
METHODS = (
    "compose",
    "with_shape",
    "tile",
    "get_hier_coord",
    "get_flat_coord",
    "get_1d_coord",
    "fit",
)
FUNCTIONS |= {f"Layout.{name}": getattr(ROW, name) for name in METHODS}
FUNCTIONS |= {"Layout()": ROW, "Layout[]": ROW.__getitem__}
GOOD = (ROW, 4, (2, 4), Layout(4, 2))


class Odd:
    """A class of which nothing is known."""

    def __repr__(self):
        return "Odd()"


JUNK = (
    *(None, "3", "(4,8):(8,1)", 3.5, True, (), (4, 8), [4, 8], {}, {1: 2}, Odd(), Layout, b"x", 1j),
    *(-1, 0, 10**30, (None,), ("a",), (4, (8, "x")), float("nan"), range(3), lambda x: x, cute._),
    *(Layout(4), ROW, sym("N"), Layout((sym("N"), 4)), E(0), (E(0), E(1)), cute.Swizzle(2, 0, 3)),
    *map(parse_layout, ("Sw<2,0,3> o 0 o (8,8):(8,1)", "(4,5):(1@0,1@1)")),
    cute.to_f2(ROW),
    *(np.int32(0), np.uint8(3), np.float32(2), np.bool_(True), np.array(3), np.array([1, 2])),
    *(np.zeros((0,)), np.str_("4")),
)
OPERANDS = [
    *product(JUNK),
    *product(JUNK, GOOD),
    *product(GOOD, JUNK),
    *product(GOOD, GOOD, JUNK),
]


def leak(function, operands):
    """Return what other than a CuteError, or a TypeError about the signature, a call raises."""
    try:
        signature(function).bind(*operands)
        fits = True
    except TypeError:
        fits = False
    try:
        answer = function(*operands)
        if hasattr(answer, "__next__"):
            list(islice(answer, 3))
    except cute.CuteError:
        return None
    except Exception as error:
        return error if fits or not isinstance(error, TypeError) else None
    return None


@pytest.mark.parametrize("count", [800, pytest.param(None, marks=pytest.mark.slow)])
def test_nothing_but_refusals_leaves_the_algebra(count):
    calls = list(product(FUNCTIONS, OPERANDS))
    if count:
        calls = random.Random(14).sample(calls, count)
    leaks = [(name, operands, leak(FUNCTIONS[name], operands)) for name, operands in calls]
    found = [f"{name}{operands}: {error!r}" for name, operands, error in leaks if error]
    assert not found, f"{len(found)} of {len(calls)}:\n" + "\n".join(found[:20])


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("is_bijective", ((4, 8),)),
        ("append", (ROW, ROW, "3")),
        ("make_layout_tv", (Layout(4), 4)),
        ("append", (ROW, ROW, 10**30)),
        ("transform_leaf", (None, 4)),
        ("increment", ((1, 2), (4, 8), "3")),
        ("idx2crd", (4, 4, 0)),
        ("crd2idx", ((1, 2), (4, 8), 3)),
        ("substitute", (sym("N"), 4)),
        ("zip_", ((), None)),
        ("make_layout", (4, ROW, None)),
        ("overlaps", (ROW, 255)),
    ],
)
def test_junk_is_refused_or_answered(name, operands):
    assert leak(getattr(cute, name), operands) is None


# -- functions of kernels for Hopper


class Parts:
    """What these functions take: tiles, barriers, sums, as they are right."""

    def __init__(self, A):
        cute.launch(grid=4, block=384)
        atom, self.mma = cute.atoms.Layout_K_SW128_Atom("f16"), cute.make_tiled_mma(ATOM, (2, 1, 1))
        self.sA, self.sB = (
            cute.smem("f16", cute.tile_to_shape(atom, (rows, 64, 2)), 1024) for rows in (128, 64)
        )
        thr, self.bars = self.mma.get_slice(cute.thread_idx() % 256), cute.mbarriers(2)
        self.acc = thr.make_fragment_C(thr.partition_C(cute.make_identity_tensor((128, 64))))
        self.a = thr.partition_A(self.sA)[_, _, _, 0]
        self.b = thr.partition_B(self.sB)[_, _, _, 0]
        self.A, self.tile = A, cute.local_tile(cute.tma_tensor(A), (1, 128, 64), (0, 0, 0))[0, _, _]
        self.shared, self.stages = self.sA[_, _, 0], self.sA
        self.tiles = cute.local_tile(cute.tma_tensor(A)[0, _, _], (128, 64), (0, _))

    def ring(self):
        return cute.pipeline(2, tiles=(self.sA, self.sB), count=2)

    def mainloop(self, **changed):
        a, b = (cute.Operand(cute.TmaTiles(self.tiles, x), x) for x in (self.sA, self.sB))
        given = {"a": a, "b": b, "ring": self.ring(), "thread": cute.thread_idx() % 256}
        cute.mainloop(self.mma, self.acc, **{"fill": False} | given | changed)


def with_each(function, *given):
    """Return calls of a function where one argument after the other is junk."""
    return [
        lambda p, junk, i=i: function(p)(*[junk if k == i else x(p) for k, x in enumerate(given)])
        for i in range(len(given))
    ]


def listed(call):
    """Return a call whose result is a loop, and that goes through it."""
    return lambda p, junk: [0 for _tile in call(junk)]


def in_role(**named):
    def run(_parts, junk):
        given = {"name": "r", "warps": range(4)} | dict.fromkeys(named, junk)
        with cute.role(**given):
            pass

    return run


ATOM = "SM90_64x64x16_F32F16F16_SS"
A, tile, shared, bars, mma, acc, a, b = map(
    attrgetter, ["A", "tile", "shared", "bars", "mma", "acc", "a", "b"]
)
tiles, stages, zero, few = attrgetter("tiles"), attrgetter("stages"), lambda _p: 0, lambda _p: 8
wide, none = (lambda _p: 64), (lambda _p: "")


def tiles_of(p):
    return cute.TmaTiles(p.tiles, p.stages)


OF_HOPPER = [
    in_role(warps=0),
    in_role(registers=0),
    in_role(name=0),
    lambda _p, junk: cute.pipeline(2, junk),
    lambda _p, junk: cute.elect(junk),
    *[
        lambda _p, junk, name=name: getattr(cute.pipeline(2), name)(junk)
        for name in ("release", "load", "fill", "tail", "skip", "advance")
    ],
    *with_each(lambda _p: cute.TmaTiles, tiles, stages),
    *with_each(lambda _p: cute.Operand, tiles_of, stages),
    *[
        lambda p, junk, name=name: p.mainloop(**{name: junk})
        for name in ("a", "b", "first", "count", "ring", "barrier", "thread", "transform", "fill")
    ],
    lambda _p, junk: cute.pipeline(junk, 64),
    lambda _p, junk: cute.pipeline(2, tiles=junk),
    lambda _p, junk: cute.pipeline(2, 64, junk),
    lambda _p, junk: cute.pipeline(2, 64, "warp", count=junk),
    lambda _p, junk: cute.pipeline(2, 64, "warp", cluster=junk),
    *[
        lambda p, junk, name=name: getattr(p.ring(), name)(junk)
        for name in ("skip", "advance", "release")
    ],
    lambda p, junk: p.ring().fill(0, junk),
    *with_each(lambda p: p.ring().load, tile, shared, zero),
    *with_each(lambda _p: cute.PipelineTmaStore, few, few, few, few),
    lambda _p, junk: cute.PipelineTmaStore().commit(junk, (junk, junk)),
    *[
        listed(lambda junk, name=name: cute.tiles(**{"m": 2, "n": 2, name: junk}))
        for name in ("m", "n", "schedule", "group", "start", "step", "depth", "extra")
    ],
    *with_each(lambda _p: cute.fewest_blocks, few, few),
    *with_each(lambda _p: cute.hilbert_order, few, few),
    *with_each(lambda _p: cute.mapa, shared, zero),
    lambda _p, junk: cute.mbarriers(junk),
    lambda p, junk: p.bars.init(junk),
    *with_each(lambda p: p.bars.arrive, zero, zero),
    *with_each(lambda p: p.bars.arrive_expect_tx, zero, zero),
    *with_each(lambda p: p.bars.wait, zero, zero),
    lambda _p, junk: cute.tma_tensor(junk),
    *with_each(lambda _p: cute.tma_load, tile, shared, bars, zero, zero, none, none),
    *with_each(lambda _p: cute.tma_store, shared, tile, none, none),
    *with_each(lambda _p: cute.tma_store_wait, zero, zero),
    *with_each(lambda _p: cute.cp_async_wait, zero),
    *with_each(lambda _p: cute.warpgroup_wait, zero, none),
    *with_each(lambda _p: cute.warpgroup_gemm, mma, acc, a, b),
    *with_each(lambda _p: cute.setmaxnreg, few, few),
    *with_each(lambda p: p.mma.columns_C, acc, zero, few),
    *with_each(lambda p: p.mma.rows_C, acc),
    *with_each(lambda p: p.mma.spread_C, acc, acc),
    *with_each(lambda p: p.mma.as_A, acc),
    *with_each(lambda _p: cute.named_barrier, few, wide, none),
    *with_each(lambda _p: cute.tma_im2col, A, few, zero, few, few),
]


# what is tried at every run, and what is not
OFTEN = (None, -1, 1.5, (1, 2), Odd(), "a tensor")
RARELY = ("x", 1000, [], {}, True, np.zeros(3), np.int64(1))


@pytest.mark.parametrize(
    "junk", [*OFTEN, *(pytest.param(x, marks=pytest.mark.slow) for x in RARELY)], ids=str
)
def test_nothing_but_refusals_leaves_kernels_for_hopper(junk):
    @cute.kernel
    def kernel(A, call):
        parts = Parts(A)
        call(parts, parts.sA if isinstance(junk, str) and junk == "a tensor" else junk)

    found = []
    for i, call in enumerate(OF_HOPPER):
        try:
            cute.trace(kernel, np.zeros((2, 128, 64), np.float16), call)
        except cute.CuteError:
            pass
        except Exception as error:
            found.append((i, error))
    assert not found
