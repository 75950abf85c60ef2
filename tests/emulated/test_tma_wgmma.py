"""TMA and wgmma in kernels: sums that start from zero by a condition; kernels and broken twins."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import cute_py as cute
from cute_py import _
from cute_py.integers.symbols import sym
from cute_py.plan import ops
from cute_py.plan.access import Access
from cute_py.plan.descriptors import _difference, _residues
from cute_py.plan.verify import verify
from cute_py.plan.walk import rebuilt
from tests.hopper_kernels import (
    CASES,
    WARPGROUP,
    by_columns,
    by_hand,
    plan_of,
    starting,
    tma_add,
    tma_copy,
)
from tests.sampling import in_turn, quick

ORDERS = ("forward", "reversed", 7)
RNG = np.random.default_rng(0)


def halves(*shape):
    return RNG.integers(-3, 4, shape).astype(np.float16)


def refused(code, call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    assert caught.value.code == code, caught.value
    return str(caught.value)


# -- views of arrays

VIEWS = {  # of x (4,64,64): where in x TMA copies rows of 32 from, or None where it is refused
    "coordinates": (lambda x: cute.tma_tensor(x)[2, _, _], (2, 8)),
    "moved": (lambda x: cute.domain_offset((1, 0), cute.tma_tensor(x)[2, _, _]), (2, 9)),
    "a tile": (lambda x: cute.local_tile(x, (1, 64, 64), (2, 0, 0))[0, _, _], (2, 8)),
    "a slice": (lambda x: x[2, _, _], None),
    "from a pointer": (
        lambda x: cute.make_tensor(x.data + 64, cute.Layout((63, 64), (64, 1))),
        None,
    ),
    "other rows": (lambda x: cute.make_tensor(x.data, cute.Layout((32, 64), (128, 1))), None),
    "other shape": (lambda x: cute.make_tensor(x.data, cute.Layout((32, 128), (128, 1))), None),
}


@pytest.mark.parametrize("view", VIEWS)
def test_tma_copies_parts_of_arguments_as_they_were_given(view):
    """A tensor map knows only the argument: another view of its memory would be ignored."""
    cut, place = VIEWS[view]

    @cute.kernel
    def loaded(x, y):
        cute.launch(grid=1, block=32)
        shared, bars = cute.smem(x.dtype, cute.Layout((8, 32), (32, 1)), 128), cute.mbarriers(1)
        with cute.elect("block"):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.elect("block"):
            bars.arrive_expect_tx(0, 8 * 32 * 4)
            cute.tma_load(cute.local_tile(cut(x), (8, 32), (1, 1)), shared, bars, 0)
        bars.wait(0, 0)
        for row in range(8):
            y[row, cute.thread_idx()] = shared[row, cute.thread_idx()]

    x = np.arange(4 * 64 * 64, dtype=np.float32).reshape(4, 64, 64)
    y = np.full((8, 32), np.nan, np.float32)
    if place is None:
        assert "all of its elements" in refused("kernel-space", partial(cute.trace, loaded, x, y))
        return
    plan = cute.trace(loaded, x, y)
    for order in ORDERS:
        y[:] = np.nan
        cute.emulate(plan, x, y, order=order)
        assert (y == x[place[0], place[1] :, 32:][:8]).all()


# -- sums


def summed(how, flags, filled=False, order="forward", rewritten=False):
    from cute_py.codegen.build import lowered

    a, b, d = halves(64, 64), halves(8, 64), np.full((64, 8), np.nan, np.float32)
    flags = np.array(flags, np.float32)
    plan = cute.trace(starting, a, b, flags, d, how, filled)
    cute.emulate(lowered(plan) if rewritten else plan, a, b, flags, d, order=order)
    return d, a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize(
    ("how", "flags", "times"),
    [
        ("first", [0] * 3, 3),
        ("negated", [0] * 3, 3),
        ("none", [0] * 3, 1),
        ("flag", [0, 1, 1], 3),
        ("flag", [0, 1, 0, 1], 2),
    ],
)
def test_a_condition_says_whether_sums_start_from_zero(how, flags, times, rewritten):
    if rewritten:
        pytest.importorskip("numba")
    for filled, order in in_turn((False, True), ORDERS):
        found, product = summed(how, flags, filled, order, rewritten)
        assert (found == times * product).all()


@pytest.mark.parametrize("order", ORDERS)
def test_sums_that_nothing_started_are_not_read(order):
    refused("emulate-register-unwritten", lambda: summed("flag", [1, 1], order=order))


@pytest.mark.parametrize("order", ORDERS)
def test_the_threads_of_a_warpgroup_agree_on_where_sums_start(order):
    said = refused("emulate-wgmma-start", lambda: summed("threads", [0], True, order))
    assert "accumulate=tid < 64" in said


def test_sums_get_unknown_values_before_their_first_product():
    """So that the compiler chooses no zeros for them, and sets none."""
    pytest.importorskip("numba")
    from cute_py.codegen.build import lowered

    x, d, flags = halves(64, 64), np.zeros((64, 8), np.float32), np.zeros(2, np.float32)
    for how, filled, found in (("first", False, [None]), ("none", False, [None]), ("first", 1, [])):
        plan = lowered(cute.trace(starting, x, x[:8], flags, d, how, bool(filled)))
        fills = [op.value for op in plan.ops if isinstance(op, ops.Fill)]
        assert [x for x in fills if x is None] == found


@cute.kernel
def chained(x, d, how):
    """d = x[:, :16] * x[:16] transposed, then d = that * x[:, :16] transposed."""
    cute.launch(grid=1, block=WARPGROUP)
    tid, atom = cute.thread_idx(), cute.atoms.Layout_K_SW128_Atom("f16")
    narrow, wide = (
        cute.make_tiled_mma(f"SM90_64x{n}x16_F16F16F16_{kind}")
        for n, kind in ((16, "SS"), (64, "RS"))
    )
    shared = cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), 1024)
    by_hand(shared, x)
    first, second = narrow.get_slice(tid), wide.get_slice(tid)
    left = cute.local_tile(shared, (64, 16), (0, 0))
    part = second.partition_C(cute.local_tile(d, (64, 64), (0, 0)))
    held = cute.make_rmem_tensor(second.partition_A(left).layout.shape, "f16")
    tile = first.partition_C(cute.local_tile(d, (64, 16), (0, 0)))
    sums = cute.make_tensor(held.data, tile.layout.shape)
    acc = second.make_fragment_C(part)

    def multiply(mma, acc, a, rows):
        b = mma.get_slice(tid).partition_B(cute.local_tile(shared, (rows, 16), (0, 0)))
        cute.warpgroup_gemm(mma, acc, a, b, False)
        cute.warpgroup_commit()

    if how != "first":
        cute.warpgroup_fence()
    multiply(narrow, sums, first.partition_A(left), 16)
    if how == "same":  # of the same shape: in order, without a wait
        multiply(narrow, sums, first.partition_A(left), 16)
    if how != "read":
        cute.warpgroup_wait(0)
    cute.warpgroup_fence()
    multiply(wide, acc, held, 64)
    if how == "again":  # two products may read the same registers
        multiply(wide, acc, held, 64)
    if how == "overwritten":
        multiply(narrow, sums, first.partition_A(left), 16)
    if how == "shape":
        multiply(narrow, cute.make_tensor(acc.data, sums.layout), first.partition_A(left), 16)
    cute.warpgroup_wait(0)
    cute.copy(acc, part)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("how", "registers"),
    [
        ("", ""),
        ("same", ""),
        ("again", ""),
        ("first", ""),  # no fence before the first one, though nothing wrote registers
        ("read", "fragment"),  # sums in flight are A of the next product
        ("overwritten", "fragment"),  # A in flight are sums of the next one
        ("shape", "fragment"),  # sums in flight are those of another shape
    ],
)
def test_registers_in_flight_are_those_of_products_of_one_shape(how, registers, order):
    x, d = halves(64, 64), np.zeros((64, 64), np.float16)
    call = partial(cute.emulate, cute.trace(chained, x, d, how), x, d, order=order)
    if how == "first":
        refused("emulate-wgmma-fence", call)
        return
    if registers:
        assert f"an access to {registers}" in refused("emulate-wgmma-pending", call)
        return
    call()
    part = x[:, :16].astype(np.float32)
    assert (d == (part @ part[:16].T).astype(np.float16).astype(np.float32) @ part.T).all()


# -- boxes


def boxes_of(plan):
    """Return the extents of each copy of a plan by TMA, by mode of the tensor."""
    boxes = [op.box for op in plan.ops if isinstance(op, (ops.TmaLoad, ops.TmaStore))]
    return [tuple(b.extents[b.modes.index(i)] for i in range(len(b.modes))) for b in boxes]


@cute.kernel
def load_part(x, layout, part, index):
    """Load a box into a part of a tile in shared memory."""
    cute.launch(grid=1, block=32)
    shared, bars = cute.smem(x.dtype, layout, 1024), cute.mbarriers(1)
    with cute.when(cute.thread_idx() == 0):
        source = cute.local_tile(cute.tma_tensor(x), part, (0, 0))
        cute.tma_load(source, cute.local_tile(shared, part, index), bars, 0)


def loads(x, layout, part, index=(0, 0)):
    return cute.trace(load_part, x, layout, part, index)


def swizzled(shape, stride):
    return cute.ComposedLayout(cute.Swizzle(3, 3, 3), 0, cute.Layout(shape, stride))


MODES = ("INTER", "SW32", "SW64", "SW128")
ROWS, COLUMNS = cute.atoms.Layout_K_SW128_Atom("f16"), cute.atoms.Layout_MN_SW128_Atom("f16")


@pytest.mark.parametrize(
    ("x", "layout", "part", "index", "said"),
    [
        # the array is by columns, the tile by rows
        (
            halves(96, 64).T,
            cute.make_layout((64, 96), cute.LayoutRight),
            (64, 96),
            (0, 0),
            "follow",
        ),
        # the atoms of 64 x 8 of a box are not next to each other: M comes before K
        (halves(64, 256).T, cute.tile_to_shape(COLUMNS, (256, 64)), (64, 64), (0, 0), "follow"),
        # rows of 64 bytes, which TMA does not pack where the swizzle is of 128
        (halves(96, 64), swizzled((8, 32), (32, 1)), (8, 32), (0, 0), "swizzle of 128"),
        (halves(96, 64), swizzled((3, 24), (24, 1)), (3, 24), (0, 0), "rows of 48 bytes"),
        (halves(96, 64), swizzled((8, 128), (128, 1)), (8, 128), (0, 0), "rows of 256 bytes"),
        # half of a tile of 152 rows begins in the middle of the pattern of a swizzle
        (halves(152, 64), cute.tile_to_shape(ROWS, (152, 64)), (76, 64), (1, 0), "multiple of 512"),
        # every other column; a column; a pattern of other bits
        (
            halves(64, 128)[:, ::2],
            cute.make_layout((64, 64), cute.LayoutRight),
            (64, 64),
            (0, 0),
            "given a tensor without a contiguous mode",
        ),
        (halves(64, 64), cute.make_layout((64, 1)), (64, 1), (0, 0), "given one element (2 bytes)"),
        (
            halves(8, 64),
            cute.composition(cute.Swizzle(3, 3, 4), cute.make_layout((8, 64), cute.LayoutRight)),
            (8, 64),
            (0, 0),
            "given the swizzle Sw<3,4,4> of byte addresses",
        ),
    ],
)
def test_boxes_that_tma_fills_otherwise_are_refused(x, layout, part, index, said):
    assert said in refused("tma-kernel-box", lambda: loads(x, layout, part, index))


def test_a_tensor_whose_extents_are_not_known_is_no_tile():
    @cute.kernel
    def load(x, how):
        cute.launch(grid=1, block=32)
        whole = cute.tma_tensor(x)
        shared = cute.smem(x.dtype, 64) if how == "row" else cute.smem(x.dtype, (8, 64))
        source = {
            "whole": whole,
            "row": whole[5, _],
            "tile": cute.local_tile(whole, (8, 64), (0, 0)),
        }
        cute.tma_load(source[how], shared, cute.mbarriers(1), 0)

    for how in ("whole", "row"):
        refused("tma-kernel-tile", partial(cute.trace, load, halves(8, 64), how))


def test_boxes_that_tma_fills_as_the_plan_says():
    """The corrected twins."""
    tall = cute.tile_to_shape(COLUMNS, (256, 64), (2, 1))  # K first
    for x, layout, part, index in (
        (halves(96, 64).T, cute.make_layout((64, 96)), (64, 96), (0, 0)),
        (halves(64, 256).T, tall, (64, 64), (3, 0)),
        (halves(152, 64), cute.tile_to_shape(ROWS, (160, 64)), (80, 64), (1, 0)),
        (halves(96, 64), swizzled((8, 64), (64, 1)), (8, 64), (0, 0)),
    ):
        assert boxes_of(loads(x, layout, part, index)) == [part]


@cute.kernel
def load_tile(x, layout, index, tile):
    """Load one tile to shared memory: the boxes are what is tested."""
    cute.launch(grid=1, block=32)
    shared, bars = cute.smem(x.dtype, layout, 1024), cute.mbarriers(1)
    with cute.when(cute.thread_idx() == 0):
        cute.tma_load(cute.local_tile(cute.tma_tensor(x), tile, index), shared, bars, 0)


def elements_of(plan, start):
    """Return coordinate in a tile -> place in shared memory, of all copies of a plan by TMA."""
    found = {}
    for op in plan.ops:
        if isinstance(op, ops.TmaLoad):
            first = op.box.tile.bases[0] + op.box.tile.table[0][1]
            for n, place in enumerate(op.box.order()):
                coord = [x - begin for x, begin in zip(op.coord, start, strict=True)]
                for mode, extent in zip(op.box.modes, op.box.extents, strict=True):
                    coord[mode] += n % extent
                    n //= extent
                assert tuple(coord) not in found
                found[tuple(coord)] = first + place
    return found


@settings(max_examples=25)
@given(st.data())
def test_boxes_put_each_element_where_the_layout_says(data):
    """Or the tile is refused: of any atom, order of atoms, type, extents and index."""
    kind = data.draw(st.sampled_from(["f16", "f32", "u8"]))
    major, mode = data.draw(st.sampled_from(["K", "MN"])), data.draw(st.sampled_from(MODES))
    atom = cute.atoms.gmma_layout_atom(major, mode, kind)
    extents = [n * data.draw(st.integers(1, 3)) for n in cute.shape(atom)]
    order = data.draw(st.sampled_from([(1, 2), (2, 1)]))
    layout = cute.tile_to_shape(atom, tuple(extents), order)
    if data.draw(st.booleans()):
        plain = cute.LayoutRight if data.draw(st.booleans()) else cute.LayoutLeft
        layout = cute.make_layout(tuple(extents), plain)
    index = data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    bits = cute.dtype(kind).bits
    x = np.zeros([2 * 128 * n // bits for n in (3, 5)], cute.dtype(kind).numpy)
    x = x.T if major == "MN" else x
    try:
        plan = cute.trace(load_tile, x, layout, index, tuple(extents))
    except cute.CuteError as error:
        if error.code != "tma-kernel-box":
            raise
        event("refused")
        return
    start = [i * n for i, n in zip(index, extents, strict=True)]
    found = elements_of(plan, start)
    assert found == {c: layout(c) for c in product(*map(range, extents))}
    event(f"several boxes: {len(boxes_of(plan)) > 1}")
    if len(boxes_of(plan)) == 1:
        (box,) = [op.box for op in plan.ops if isinstance(op, ops.TmaLoad)]
        strides = tuple(step // x.itemsize for step in x.strides)
        made = cute.atoms.make_tma_atom(
            "SM90_TMA_LOAD", cute.make_layout(x.shape, strides), layout, kind
        )
        assert (made.box, made.modes) == (box.extents, tuple((mode,) for mode in box.modes))
        assert made.swizzle_mode == (f"{box.swizzle}B" if box.swizzle else "NONE")


# -- parts of the columns of accumulators


@pytest.mark.parametrize(
    ("N", "widths"),
    [
        (152, (64, 64, 16, 8)),
        (24, (16, 8)),
        (40, (8, 32)),
        (8, (8,)),
        (248, (64, 8, 64, 64, 32, 16)),
    ],
)
def test_a_tile_leaves_in_parts_of_its_columns(N, widths):
    a, b, d = halves(150, 64), halves(N + 8, 64), np.full((150, N + 8), np.nan, np.float16)
    plan = cute.trace(by_columns, a, b, d, N, widths)
    for order in ORDERS[:2]:
        d[...] = np.nan
        cute.emulate(plan, a, b, d, order=order)
        assert (d == a.astype(np.float32) @ b.astype(np.float32).T).all()


# -- what the hardware reads


@cute.kernel
def shifted(a, d, by, alignment, how):
    """d = a * a transposed, from a tile that begins after `by` bytes of something else."""
    cute.launch(grid=1, block=WARPGROUP)
    other = cute.smem("u8", by, 16)
    with cute.when(cute.thread_idx() == 0):
        other[by - 1] = 0
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    layout = cute.tile_to_shape(cute.atoms.Layout_K_SW128_Atom("f16"), (64, 64))
    shared = cute.smem("f16", layout, alignment)
    if how == "tma":
        bars = cute.mbarriers(1)
        with cute.when(cute.thread_idx() == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.when(cute.thread_idx() == 0):
            bars.arrive_expect_tx(0, 64 * 64 * 2)
            cute.tma_load(cute.local_tile(cute.tma_tensor(a), (64, 64), (0, 0)), shared, bars, 0)
        bars.wait(0, 0)
    else:
        by_hand(shared, a)
    thr = mma.get_slice(cute.thread_idx())
    part = thr.partition_C(cute.local_tile(d, (64, 64), (0, 0)))
    acc = thr.make_fragment_C(part)
    cute.warpgroup_fence()
    cute.warpgroup_gemm(mma, acc, thr.partition_A(shared), thr.partition_B(shared), False)
    cute.warpgroup_commit()
    cute.warpgroup_wait(0)
    cute.copy(acc, part)


@pytest.mark.parametrize(("how", "code"), [("tma", "plan-box"), ("threads", "plan-descriptor")])
def test_a_swizzled_tile_begins_at_its_pattern(how, code):
    a = halves(64, 64)
    for by, alignment in ((128, 128), (64, 256), (1000, 16), (512, 512)):
        d = np.zeros((64, 64), np.float32)
        refused(code, partial(cute.trace, shifted, a, d, by, alignment, how))
        plan = cute.trace(shifted, a, d, by, 1024, how)
        for order in ORDERS:
            d[...] = np.nan
            cute.emulate(plan, a, d, order=order)
            assert (d == a.astype(np.float32) @ a.astype(np.float32).T).all()


def with_tile(plan, **changes):
    """Return a plan whose product reads B through a changed descriptor."""

    def changed(op):
        if isinstance(op, ops.Wgmma):
            op = replace(op, b=replace(op.b, **changes))
        return (op,)

    return replace(plan, body=rebuilt(plan.body, changed))


def test_a_descriptor_of_other_elements_is_refused():
    plan = cute.trace(shifted, halves(64, 64), np.zeros((64, 64), np.float32), 64, 1024, "tma")
    verify(plan)
    tile = next(op.b for op in plan.ops if isinstance(op, ops.Wgmma))
    x = tile.access
    for wrong in (
        {"sbo": 512},
        {"mode": "SW64"},
        {"mode": "INTER"},
        {"access": replace(x, swizzle=None)},
        {"access": replace(x, swizzle=(2, 3, 3))},
        {"access": replace(x, bases=(64,))},
        {"access": replace(x, bases=(sym("n", multiple_of=256),))},
        {"access": replace(x, table=(*x.table[:-1], (0, 0)))},
    ):
        refused("plan-descriptor", lambda wrong=wrong: verify(with_tile(plan, **wrong)))
    for same in (
        {"lbo": 512},  # not used with a swizzle
        {"access": replace(x, inner=8)},
        {"access": replace(x, inner=64)},  # the second row of the pattern
        {"access": replace(x, inner=512)},
        {"access": replace(x, inner=sym("n", min=0, max=32, multiple_of=16))},
        {"access": replace(x, bases=(sym("n", multiple_of=512),))},
    ):
        verify(with_tile(plan, **same))


def by_the_hardware(tile, start, rows, k, major):
    """Return the byte of each element of a fragment. Source: PTX ISA, "Strides" and "Matrix
    descriptor": of a row of 16-byte units of the mode, and of absolute addresses.
    """
    units = {"INTER": 1, "SW32": 2, "SW64": 4, "SW128": 8}[tile.mode]
    size = tile.access.dtype.bits // 8
    each = 16 // size
    found = []
    for column, row in product(range(k), range(rows)):
        if major == "K" and units > 1:
            at = row // 8 * tile.sbo + row % 8 * 16 * units + column * size
        elif major == "K":
            at = row // 8 * tile.sbo + row % 8 * 16 + column // each * tile.lbo
            at += column % each * size
        elif units > 1:
            at = row // (each * units) * tile.lbo + row % (each * units) * size
            at += column // 8 * tile.sbo + column % 8 * 16 * units
        else:
            at = row // each * tile.sbo + row % each * size + column // 8 * tile.lbo
            at += column % 8 * 16
        at += start // 16 * 16
        found.append(at ^ (at >> 7 & units - 1) << 4)
    return found


@settings(max_examples=60)
@given(st.data())
def test_the_rule_is_what_the_hardware_reads(data):
    """Tiles of all atoms at any start, and descriptors with changed fields."""
    mode, kind = (
        data.draw(st.sampled_from(MODES)),
        data.draw(st.sampled_from(["f16", "tf32", "s8"])),
    )
    size = cute.dtype(kind).bits // 8
    major = data.draw(st.sampled_from(["K", "MN"])) if size == 2 else "K"
    rows, k = 64, 32 // size
    atom = cute.atoms.gmma_layout_atom(major, mode, kind)
    order = data.draw(st.sampled_from([(1, 2), (2, 1)]))
    shape = (rows * 2, k * 8)
    layout = cute.tile_to_shape(atom, shape, order)
    part = (data.draw(st.integers(0, 1)), data.draw(st.integers(0, 7)))
    start = data.draw(st.sampled_from([0, 1024, 128, 256, 512, 16, 1040]))
    plain = getattr(layout, "inner", layout)
    swizzle = getattr(layout, "outer", None)
    triple = swizzle and (swizzle.num_bits, swizzle.num_base, swizzle.num_shft)
    origin = plain((part[0] * rows, part[1] * k))
    table = [(0, plain((i, j)) + origin) for j in range(k) for i in range(rows)]
    x = Access("smem", "s", cute.dtype(kind), (0,), tuple(table), 1, 0, triple)
    fields = {}
    try:
        first = cute.composition(layout, (rows, k))
        made = cute.atoms.make_gmma_desc(first, kind, major)
        fields = {"lbo": made.leading_byte_offset * 16, "sbo": made.stride_byte_offset * 16}
    except cute.CuteError:
        fields = {"lbo": 128, "sbo": 256}
    changed = data.draw(st.sampled_from(["", "", "lbo", "sbo", "mode"]))
    if changed in fields:
        fields[changed] = data.draw(st.sampled_from([128, 256, 512, 1024, 2048]))
    shown = data.draw(st.sampled_from(MODES)) if changed == "mode" else mode
    tile = ops.Tile(x, **fields, mode=shown)
    places = [start + x.swizzled(s) * size for _b, s in table]
    first = start + table[0][1] * size  # a descriptor has no swizzle
    right = by_the_hardware(tile, first, rows, k, major) == places
    assert (_difference(tile, 0, (rows, k, major), start) == "") == right
    event(f"right: {right}")


@cute.kernel
def of_operands(d, wrong, source="SS"):
    """A product, one operand of which has another type, shape or memory than the atom's."""
    cute.launch(grid=1, block=WARPGROUP)
    mma = cute.make_tiled_mma(f"SM90_64x16x16_F32F16F16_{source}")
    thr = mma.get_slice(cute.thread_idx())
    kinds = [wrong.get(x, "f16") for x in "ab"]
    sA, sB = (
        cute.smem(kind, cute.tile_to_shape(cute.atoms.Layout_K_SW128_Atom(kind), (n, 64, 2)), 1024)
        for n, kind in zip((64, 16), kinds, strict=True)
    )
    a, b = thr.partition_A(sA), thr.partition_B(sB)  # (MMA,MMA_M or _N,MMA_K,stages)
    if not wrong.get("stages"):
        a, b = a[_, _, _, 0], b[_, _, _, 0]
    if wrong.get("memory") or source == "RS":
        a = cute.make_rmem_tensor(a.layout.shape, kinds[0])
        a.fill(0)
    if wrong.get("recast"):
        a = cute.recast(a, "bf16")
    if wrong.get("swapped"):
        a, b = b, a
    acc = cute.make_rmem_tensor((wrong.get("values", 8), 1, 1), wrong.get("acc", "f32"))
    cute.warpgroup_fence()
    cute.warpgroup_gemm(mma, acc, a, b, False)
    cute.warpgroup_commit()
    cute.warpgroup_wait(0)


@pytest.mark.parametrize(
    ("wrong", "source", "code"),
    [
        ({}, "SS", ""),
        ({}, "RS", ""),
        *[({"a": kind}, "SS", "kernel-operand-type") for kind in ("bf16", "s16", "f32", "tf32")],
        *[({"b": kind}, "RS", "kernel-operand-type") for kind in ("bf16", "u16", "f32")],
        ({"a": "bf16"}, "RS", "kernel-operand-type"),
        ({"recast": True}, "SS", "kernel-operand-type"),
        *[({"acc": kind}, "SS", "kernel-operand-type") for kind in ("f16", "s32", "bf16")],
        *[({"values": n}, "SS", "operand-shape") for n in (4, 16)],
        ({"swapped": True}, "SS", "operand-shape"),
        ({"memory": True}, "SS", "kernel-space"),
        ({"stages": True}, "SS", "operand-shape"),
    ],
)
def test_operands_of_a_warpgroup_have_the_types_and_shapes_of_its_atom(wrong, source, code):
    """The instruction takes bits: it would read other numbers."""
    call = partial(cute.trace, of_operands, np.zeros((64, 16), np.float32), wrong, source)
    if code:
        refused(code, call)
    else:
        assert [op.products for op in call().ops if isinstance(op, ops.Wgmma)] == [4]


@cute.kernel
def of_stages(a, d, how):
    """d = a * a transposed, from one of two stages that hold the same."""
    cute.launch(grid=1, block=2 * WARPGROUP)
    tid, mma = cute.thread_idx(), cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS", (2, 1, 1))
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    shared = cute.smem("f16", cute.tile_to_shape(atom, (128, 64, 2)), 1024)
    for i in range(0, 128 * 64, 2 * WARPGROUP):
        at = divmod(i + tid, 64)
        shared[*at, 0] = a[at]
        shared[*at, 1] = a[at]
    cute.fence_proxy_async()
    cute.syncthreads()
    stage = {"warps": tid // 32, "lanes": tid // 16, "groups": tid // 128, "": 1}.get(how, 0) % 2
    thr = mma.get_slice((tid + 64) % 256 if how == "slice" else tid)
    part = thr.partition_C(cute.local_tile(d, (128, 64), (0, 0)))
    a_part = thr.partition_A(shared)[_, _, _, stage]
    b_part = thr.partition_B(cute.local_tile(shared, (64, 64, 2), (0, 0, 0)))
    acc = thr.make_fragment_C(part)
    cute.warpgroup_fence()
    b_part = b_part[_, _, _, tid // 64 % 2 if how == "b" else 0]
    cute.warpgroup_gemm(mma, acc, a_part, b_part, False)
    cute.warpgroup_commit()
    cute.warpgroup_wait(0)
    cute.copy(acc, part)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("how", "right"),
    [
        ("", True),
        ("groups", True),
        ("warps", False),
        ("lanes", False),
        ("slice", False),
        ("b", False),
    ],
)
def test_the_threads_of_a_warpgroup_agree_on_where_operands_are(how, right, order):
    """A descriptor is one number of the warpgroup."""
    a, d = halves(128, 64), np.full((128, 64), np.nan, np.float32)
    call = partial(cute.emulate, cute.trace(of_stages, a, d, how), a, d, order=order)
    if right:
        call()
        assert (d == a.astype(np.float32) @ a[:64].astype(np.float32).T).all()
    else:
        refused("emulate-wgmma-address", call)


@cute.kernel
def along_k(a, b, d, layouts, name):
    """d = a * b transposed: a run-time loop over the fragments of tiles that are wider than the
    swizzle.
    """
    cute.launch(grid=1, block=WARPGROUP)
    tid, mma = cute.thread_idx(), cute.make_tiled_mma(name)
    sA, sB = (cute.smem("f16", layout, 1024) for layout in layouts)
    for shared, x in ((sA, a), (sB, b)):
        rows = cute.size(shared, 0)
        for i in cute.range(0, cute.size(shared), WARPGROUP):
            at = (i + tid) % rows, (i + tid) // rows
            shared[at] = x[at]
    cute.fence_proxy_async()
    cute.syncthreads()
    thr = mma.get_slice(tid)
    part = thr.partition_C(cute.local_tile(d, (64, 64), (0, 0)))
    acc, tCsA, tCsB = thr.make_fragment_C(part), thr.partition_A(sA), thr.partition_B(sB)
    for k in cute.range(cute.size(sA, 1) // 16):
        cute.warpgroup_fence()
        cute.warpgroup_gemm(mma, acc, tCsA[_, _, k], tCsB[_, _, k], k > 0)
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(acc, part)


@pytest.mark.parametrize(("mode", "order"), quick(in_turn(MODES, ORDERS), MODES, ORDERS))
def test_an_index_of_run_time_walks_over_a_tile_wider_than_the_swizzle(mode, order):
    a, b = halves(64, 128), halves(64, 128)
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    for majors, arrangement in product((("K", "K"), ("MN", "K"), ("MN", "MN")), ((1, 2), (2, 1))):
        atoms = [cute.atoms.gmma_layout_atom(major, mode, "f16") for major in majors]
        layouts = [cute.tile_to_shape(atom, (64, 128), arrangement) for atom in atoms]
        kind = "" if majors == ("K", "K") else f"<{','.join(majors)}>"
        d = np.full((64, 64), np.nan, np.float32)
        plan = cute.trace(along_k, a, b, d, layouts, f"SM90_64x64x16_F32F16F16_SS{kind}")
        cute.emulate(plan, a, b, d, order=order)
        assert (d == exact).all()


@given(st.data())
def test_residues_are_those_of_all_values(data):
    """Of sums of products of symbols and of their quotients, which are not free of each other."""
    number = partial(data.draw, st.integers(-600, 600))
    bounds = [(low, low + data.draw(st.integers(0, 20))) for low in (number(), number())]
    i, j = (sym(name, min=a, max=b) for name, (a, b) in zip("ij", bounds, strict=True))
    c, e = data.draw(st.sampled_from([2, 3, 4, 8])), data.draw(st.sampled_from([2, 4]))
    factors = [16 * number() for _ in range(5)]
    period = data.draw(st.sampled_from([64, 512, 1024]))

    def x(i, j):
        terms = (i, i // c, j, (i + j) // e, 1)
        return sum(factor * term for factor, term in zip(factors, terms, strict=True))

    values = product(*[range(a, b + 1) for a, b in bounds])
    found = _residues(x(i, j), period)
    assert {x(*each) % period for each in values} <= set(found)
    if len(found) > 1:
        values = product(*[range(a, b + 1) for a, b in bounds])
        assert found == sorted({x(*each) % period for each in values})
    unbounded = [sym(name, min=None) for name in "ij"]
    assert set(found) <= set(_residues(x(*unbounded), period))


# -- arrays that TMA cannot address


def strided(rows, columns, pitch, start=0):
    """Return an array whose rows are `pitch` elements apart, from an element `start` on."""
    memory = np.zeros(rows * max(pitch, columns) + start + 64, np.float16)
    memory = memory[-memory.ctypes.data % 16 // 2 + start :]
    return np.lib.stride_tricks.as_strided(memory, (rows, columns), (2 * pitch, 2))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ((40, 30, 30), (40, 32, 32), "a pitch of 60 bytes"),
        ((40, 32, 0), (40, 32, 40), "a pitch of 0 bytes, with rows of 64 bytes"),
        ((40, 32, 16), (1, 32, 0), "a pitch of 32 bytes, with rows of 64 bytes"),
        ((40, 32, 40, 4), (40, 32, 40, 8), "the address 0x"),
    ],
)
def test_an_array_that_tma_cannot_address_is_refused(wrong, right, said, order):
    for shapes, code in ((wrong, "emulate-map"), (right, "")):
        x, y = strided(*shapes), np.zeros((40, 64), np.float16)
        x[...] = 3
        call = partial(cute.emulate, plan_of(tma_copy, (x,), y, y, {"tile": (8, 32)}), x, y)
        if code:
            assert said in refused(code, partial(call, order=order))
        else:
            call(order=order)
            assert (y[: len(x), : x.shape[1]] == 3).all()


@pytest.mark.parametrize("swizzle", ["INTER", "SW32", "SW64"])
def test_products_of_every_swizzle_and_major_are_exact(swizzle):
    cases = [case for case in CASES["swizzles"]() if case[4]["swizzle"] == swizzle]
    assert len(cases) == 4
    for case in cases:
        plan = plan_of(*case)
        cute.emulate(plan, *case[1], case[2])
        assert (case[2] == case[3]).all(), case[4]
        (product,) = [op for op in plan.ops if isinstance(op, ops.Wgmma)]
        assert product.a.mode == product.b.mode == swizzle


@cute.kernel
def load_at(x, y, row: cute.s64):
    """y = two rows of x from a row on, by TMA."""
    cute.launch(grid=1, block=32)
    tid, bars = cute.thread_idx(), cute.mbarriers(1)
    shared = cute.smem("f16", cute.make_layout((2, 32), cute.LayoutRight))
    with cute.when(tid == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
        bars.arrive_expect_tx(0, 128)
        source = cute.domain_offset((row, 0), cute.tma_tensor(x))
        cute.tma_load(cute.local_tile(source, (2, 32), (0, 0)), shared, bars, 0)
    cute.syncwarp()
    bars.wait(0, 0)
    for i in range(2):
        y[i, tid] = shared[i, tid]


@pytest.mark.parametrize("order", ORDERS)
def test_coordinates_of_tma_fit_32_bits(order):
    """Of others the instruction gets the lower 32 bits, which may be inside of the tensor."""
    x, y = halves(8, 32), np.zeros((2, 32), np.float16)
    plan = cute.trace(load_at, x, y, 0)
    for row in (0, 5, 7, 8, -1, -2, 2**31 - 1, -(2**31)):
        cute.emulate(plan, x, y, row, order=order)
        inside = np.pad(x, ((2, 2), (0, 0)))[row + 2 : row + 4] if -2 <= row <= 8 else 0 * y
        assert (y == inside).all()
    for row in (2**32, 2**32 + 3, -(2**32), 2**31, -(2**31) - 1):
        refused("emulate-coordinate", partial(cute.emulate, plan, x, y, row, order=order))


# -- tiles of several boxes, and boxes wholly outside of a tensor


@pytest.mark.parametrize("order", ["forward", 7])
@pytest.mark.parametrize("kernel", ["several_boxes", "products"])
def test_tiles_wider_than_the_swizzle_are_copied_by_several_boxes(kernel, order):
    cases = list(CASES[kernel]())
    for case in cases if kernel == "several_boxes" else cases[-6:]:
        _kernel, inputs, output, expected, options = case
        plan = plan_of(*case)
        loads = [op for op in plan.ops if isinstance(op, ops.TmaLoad)]
        assert len(loads) > (kernel == "products") or options["tile"] == (64, 256)
        cute.emulate(plan, *inputs, output, order=order)
        found, exact = (np.asarray(x, np.float64) for x in (output, expected))
        assert (found == exact).all(), options


def outside_of(outside, multicast=0, extents=(None, None)):
    """Load two tiles of 64 x 128, the second one wholly outside of the array."""

    @cute.kernel
    def load(x: cute.spec(shape=extents), y):
        cute.launch(grid=1, block=32)
        atom = cute.atoms.Layout_K_SW128_Atom(x.dtype)
        shared = cute.smem(x.dtype, cute.tile_to_shape(atom, (64, 128)), 1024)
        bars = cute.mbarriers(1)
        with cute.when(cute.thread_idx() == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        for k in range(1 if extents[1] else 2):  # a tile that is known to be outside is refused
            with cute.when(cute.thread_idx() == 0):
                tile = cute.local_tile(cute.tma_tensor(x), (64, 128), (0, k))
                bars.arrive_expect_tx(0, 64 * 128 * 2)
                cute.tma_load(tile, shared, bars, 0, multicast, outside=outside)
            bars.wait(0, k)
            for i in range(4):
                y[k, cute.thread_idx() + 32 * i] = shared[3, cute.thread_idx() + 32 * i]
            cute.syncthreads()

    return load


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("extents", [(None, None), (None, 40), (64, 40)])
def test_boxes_wholly_outside_are_zero_or_not_copied(extents, order):
    """Whether that is known at run time, or when the kernel is traced."""
    x = halves(64, 40)
    for outside, rest in (("zero", 0), ("skip", np.nan)):
        y = np.zeros((2, 128), np.float16)
        plan = cute.trace(outside_of(outside, extents=extents), x, y)
        cute.emulate(plan, x, y, order=order)
        assert (y[0, :40] == x[3]).all()
        assert (y[0, 40:64] == 0).all()  # of the box that is partly inside
        assert np.array_equal(y[0, 64:], np.full(64, rest), equal_nan=True)
        if extents[1] is None:
            assert np.array_equal(y[1], np.full(128, rest), equal_nan=True)


def test_boxes_wholly_outside_are_skipped_in_this_block_alone():
    x, y = halves(64, 40), np.zeros((2, 128), np.float16)
    for outside, multicast in (("skip", 3), ("zeros", 0)):
        refused("kernel-choice", partial(cute.trace, outside_of(outside, multicast), x, y))


def test_stores_of_boxes_wholly_outside_have_a_guard():
    """Not those that are surely inside."""
    x = halves(64, 64)
    several = plan_of(tma_copy, (x,), x.copy(), x, {"tile": (32, 32), "more": 1})
    for plan, guards in (
        (several, "(32*bid_y < y_shape1 and 32*bid_x < y_shape0)"),
        (plan_of(*next(iter(CASES["tma_add"]()))), "None"),
    ):
        (store,) = [op for op in plan.ops if isinstance(op, ops.TmaStore)]
        assert str(store.guard) == guards


@pytest.mark.parametrize(
    ("kind", "how", "fits"),
    [
        ("f32", "add", True),
        ("f32", "min", False),
        ("bf16", "max", True),
        ("s64", "min", True),
        ("s64", "add", False),
        ("u8", "add", False),
        ("f64", "add", False),
        ("u32", "and", False),
    ],
)
def test_tma_combines_the_types_that_it_has_an_adder_for(kind, how, fits):
    x = np.zeros((16, 40), cute.dtype(kind).numpy)
    if fits:
        assert cute.trace(tma_add, x, 16, how)
    else:
        said = refused("kernel-choice", partial(cute.trace, tma_add, x, 16, how))
        assert f"{how} of {kind}'; required" in said


# -- TMA in im2col mode


@pytest.mark.parametrize("order", ORDERS)
def test_im2col_gathers_what_each_output_multiplies(order):
    for case in list(CASES["im2col"]())[::2]:
        _kernel, inputs, output, expected, options = case
        cute.emulate(plan_of(*case), *inputs, output, order=order)
        assert (output.astype(np.float64) == expected.astype(np.float64)).all(), options


@pytest.mark.parametrize(
    ("shape", "how", "rows", "code"),
    [
        ((8, 16), ((3,), 1), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3, 3), 1), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), (1, 1, 1)), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), -1), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), 129), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), 1, 9), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), 1, 1, 99), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), 1, 8), 512, "tma-kernel-box"),
        ((2, 8, 9, 16), ((3, 1), (128, 0), 1, (128, 1)), 16, "tma-im2col"),  # an offset of 256
        ((2, 8, 16), ((3,), 32768, 1, 32768), 16, "tma-im2col"),
        ((2, 8, 9, 16), ((3, 3), 127, 8), 256, ""),
    ],
)
def test_convolutions_that_no_tensor_map_describes_are_refused(shape, how, rows, code):
    @cute.kernel
    def load(x):
        cute.launch(grid=1, block=32)
        shared, bars = cute.smem("f16", cute.Layout((rows, 16), (16, 1)), 128), cute.mbarriers(1)
        source = cute.tma_im2col(x, *how)
        with cute.when(cute.thread_idx() == 0):
            cute.tma_load_im2col(source, shared, bars, 0, 0, (0,) * (len(shape) - 2))

    call = partial(cute.trace, load, np.zeros(shape, np.float16))
    if code:
        refused(code, call)
    else:
        (found,) = [op.im2col for op in call().ops if isinstance(op, ops.TmaLoad)]
        assert found == ops.Im2col((-127, -127), (125, 125), (8, 8))


@cute.kernel
def one_tap(x, y, tap: cute.s32):
    """y = the pixels of an entry of a filter that is known at run time."""
    cute.launch(grid=1, block=32)
    tid, bars = cute.thread_idx(), cute.mbarriers(1)
    shared = cute.smem("f16", cute.make_layout((8, 16), cute.LayoutRight))
    with cute.when(tid == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
        bars.arrive_expect_tx(0, 256)
        cute.tma_load_im2col(cute.tma_im2col(x, (3,), 1), shared, bars, 0, 0, tap)
    cute.syncwarp()
    bars.wait(0, 0)
    for row in range(8):
        with cute.when(tid < 16):
            y[row, tid] = shared[row, tid]


@cute.kernel
def known_tap(x, y, tap):
    cute.launch(grid=1, block=32)
    shared = cute.smem("f16", cute.make_layout((8, 16), cute.LayoutRight))
    cute.tma_load_im2col(cute.tma_im2col(x, (3,), 1), shared, cute.mbarriers(1), 0, 0, tap)


def test_a_tap_is_one_of_the_filter():
    x, y = halves(1, 8, 16), np.zeros((8, 16), np.float16)
    plan = cute.trace(one_tap, x, y, 0)
    for tap in range(3):
        cute.emulate(plan, x, y, tap)
        assert (y == np.pad(x[0], ((1, 1), (0, 0)))[tap : tap + 8]).all()
    for tap in (-1, 3):
        refused("emulate-assume", partial(cute.emulate, plan, x, y, tap))
        refused("tma-im2col", partial(cute.trace, known_tap, x, y, tap))


@pytest.mark.parametrize("order", ORDERS)
def test_a_filter_fits_somewhere(order):
    """Where it does not, there is no pixel to begin with."""

    @cute.kernel
    def unpadded(x):
        cute.launch(grid=1, block=32)
        bars = cute.mbarriers(1)
        shared = cute.smem("f16", cute.make_layout((8, 16), cute.LayoutRight))
        with cute.when(cute.thread_idx() == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
            bars.arrive_expect_tx(0, 256)
            cute.tma_load_im2col(cute.tma_im2col(x, (3,)), shared, bars, 0, 0, 0)
        cute.syncwarp()
        bars.wait(0, 0)

    for extent, code in ((2, "emulate-map"), (3, "")):
        x = halves(1, extent, 16)
        call = partial(cute.emulate, cute.trace(unpadded, x), x, order=order)
        if code:
            assert "a bounding box of [0] pixels" in refused(code, call)
        else:
            call()


# -- kernels that may begin before others have ended


def early(tma, wait_first):
    """Copy a tile: by TMA from x, or by TMA to y."""

    @cute.kernel
    def copies(x, y):
        cute.launch(grid=1, block=32, pdl=True)
        shared, bars = cute.smem(x.dtype, cute.Layout((8, 64), (64, 1)), 128), cute.mbarriers(1)
        with cute.when(cute.thread_idx() == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        if wait_first:
            cute.griddepcontrol_wait()
        tid = cute.thread_idx()
        if tma == "load":
            with cute.when(tid == 0):
                bars.arrive_expect_tx(0, 8 * 64 * 2)
                cute.tma_load(cute.local_tile(cute.tma_tensor(x), (8, 64), (0, 0)), shared, bars, 0)
            if not wait_first:
                cute.griddepcontrol_wait()
            bars.wait(0, 0)
            for i in range(16):
                y[i // 2, i % 2 * 32 + tid] = shared[i // 2, i % 2 * 32 + tid]
        else:
            for i in range(16):
                shared[i // 2, i % 2 * 32 + tid] = 3
            cute.fence_proxy_async()
            cute.syncthreads()
            with cute.when(tid == 0):
                cute.tma_store(shared, cute.local_tile(cute.tma_tensor(y), (8, 64), (0, 0)))
                cute.tma_store_commit()
                cute.tma_store_wait(0)
            if not wait_first:
                cute.griddepcontrol_wait()

    return copies


@pytest.mark.parametrize("tma", ["load", "store"])
def test_tma_does_not_touch_memory_before_the_kernels_before_have_ended(tma):
    x = np.full((8, 64), 3, np.float16)
    refused("plan-pdl", partial(cute.trace, early(tma, False), x, x.copy()))
    plan = cute.trace(early(tma, True), x, x.copy())
    for order in ORDERS:
        y = np.zeros_like(x)
        cute.emulate(plan, x, y, order=order)
        assert (y == 3).all()


@pytest.mark.parametrize(("second", "right"), [(True, True), (False, False)])
def test_every_branch_waits_for_the_kernels_before(second, right):
    @cute.kernel
    def divided(x):
        cute.launch(grid=1, block=64, pdl=True)
        for k, waits in enumerate((True, second)):
            with cute.role(f"r{k}", warps=k):
                if waits:
                    cute.griddepcontrol_wait()
                x[cute.thread_idx()] = 1

    if right:
        assert cute.trace(divided, np.zeros(64, np.int32)).launch.pdl
    else:
        refused("plan-pdl", partial(cute.trace, divided, np.zeros(64, np.int32)))
