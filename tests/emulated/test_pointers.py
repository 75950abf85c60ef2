"""Tables of pointers, and tensors at addresses that are read from memory."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.plan import ops
from cute_py.plan.serial import dumps, loads
from tests.kernel_refusals import raised

ORDERS = ("forward", "reversed", 0, 1)
f32 = np.float32


def drawn(*shapes, dtype=f32, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(-8, 8, shape).astype(dtype) for shape in shapes]


@cute.kernel
def gathered(parts, order, out):
    """Row i of `out` is the first row of the array that order[i] names."""
    cute.launch(grid=out.shape[0], block=32)
    which = cute.as_int(order[cute.block_idx()], 0)
    x, held = parts[which], cute.rmem(parts.dtype, 4)
    cute.copy(cute.local_tile(x, (1, 4), (0, cute.thread_idx())), held)
    cute.copy(held, cute.local_tile(out, (1, 4), (cute.block_idx(), cute.thread_idx())))


SHAPES = ((3, 16), (2, 128), (1, 64))


def first_rows(arrays, order, width=128):
    rows = np.zeros((len(order), width), arrays[0].dtype)
    for row, k in zip(rows, order, strict=True):
        row[: arrays[k].shape[1]] = arrays[k][0]
    return rows


@pytest.mark.parametrize("order", ORDERS)
def test_arrays_are_indexed_by_a_number_from_memory(order):
    """Arrays of several shapes and strides, among them a view of a part of one."""
    arrays = drawn(*SHAPES)
    arrays.append(np.zeros((5, 256), f32)[1:, 64:128])
    arrays[-1][:] = 7
    parts, which = cute.TensorArray(arrays), np.array([2, 0, 3, 1, 1], np.int32)
    out = np.zeros((5, 128), f32)
    plan = cute.trace(gathered, parts, which, out)
    cute.emulate(plan, parts, which, out, order=order)
    assert (out == first_rows(arrays, which)).all()


def test_threads_of_a_warp_point_into_several_arrays():
    """For reads, writes and atomics; two members are the same memory."""

    @cute.kernel
    def scattered(parts, out):
        cute.launch(grid=1, block=64)
        t = cute.thread_idx()
        x = parts[t % 3]
        value = x[t // 3]
        out[t] = value
        x[t // 3] = value + 1.0
        cute.atomic("add", cute.local_tile(parts[t // 32 + 3], (1,), (0,)), value)

    for order in ORDERS:
        arrays = drawn(24, 24, 24, 1, 1)
        before = [x.copy() for x in arrays]
        out = np.zeros(64, f32)
        parts = cute.TensorArray(arrays)
        cute.emulate(cute.trace(scattered, parts, out), parts, out, order=order)
        t = np.arange(64)
        wanted = np.stack(before[:3])[t % 3, t // 3]
        assert (out == wanted).all()
        changed = np.bincount(t % 3 * 24 + t // 3, minlength=72).reshape(3, 24)
        assert (np.stack(arrays[:3]) == np.stack(before[:3]) + changed).all()
        assert arrays[3][0] == before[3][0] + wanted[:32].sum()
        assert arrays[4][0] == before[4][0] + wanted[32:].sum()


@cute.kernel
def in_stages(parts, out):
    """A barrier in a loop whose bounds are extents of an array from the table, and cp.async."""
    cute.launch(grid=parts.count, block=32)
    x = parts[cute.block_idx()]
    s, total = cute.smem("f32", 128), cute.rmem("f32", 4)
    copy = cute.make_tiled_copy(
        cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f32"), cute.Layout(32),
        cute.Layout(4),
    )  # fmt: skip
    mine = copy.get_slice(cute.thread_idx())
    total.fill(0)
    for k in cute.range(cute.ceil_div(x.shape[0], 128)):
        cute.copy(copy, mine.partition_S(cute.local_tile(x, (128,), (k,))), mine.partition_D(s))
        cute.cp_async_fence()
        cute.cp_async_wait(0)
        cute.syncthreads()
        for i in range(4):
            total[i] = total[i] + s[127 - 4 * cute.thread_idx() - i]
        cute.syncthreads()
    cute.copy(total, cute.local_tile(out, (1, 4), (cute.block_idx(), cute.thread_idx())))


@pytest.mark.parametrize("order", ORDERS)
def test_extents_from_the_table_are_uniform_where_the_index_is(order):
    parts = cute.TensorArray(drawn(128, 300, 1000, 4))
    out = np.zeros((4, 128), f32)
    plan = cute.trace(in_stages, parts, out)
    cute.emulate(plan, parts, out, order=order)
    for row, x in zip(out, parts.arrays, strict=True):
        padded = np.zeros(-(-len(x) // 128) * 128, f32)
        padded[: len(x)] = x
        assert (row[::-1] == padded.reshape(-1, 128).sum(0)).all()


def test_extents_are_not_uniform_where_the_index_is_not():
    @cute.kernel
    def divergent(parts):
        cute.launch(grid=1, block=64)
        for _k in cute.range(parts[cute.thread_idx() % 2].shape[0]):
            cute.syncthreads()

    parts = cute.TensorArray(drawn(4, 8))
    assert raised(lambda: cute.trace(divergent, parts)).code == "plan-divergent"


def test_update_puts_other_arrays_in_their_place():
    """Later calls see them, and let go of those that they replace; nothing is traced again."""
    arrays = drawn(*SHAPES)
    parts, which = cute.TensorArray(arrays), np.array([0, 1, 2], np.int32)
    out = np.zeros((3, 128), f32)
    gathered(parts, which, out)
    traced = dict(gathered.plans)
    new = drawn((7, 24), (1, 128), seed=5)
    parts.update(new, first=1)
    assert [id(x) for x in parts.arrays] == [id(arrays[0]), id(new[0]), id(new[1])]
    gathered(parts, which, out)
    assert (out == first_rows(parts.arrays, which)).all()
    assert gathered.plans == traced
    for wrong, code in (
        ([np.zeros((4, 8), np.float64)], "table-facts"),
        ([np.zeros((4, 7), f32)], "table-facts"),
        ([np.zeros((4, 8), f32).T], "table-facts"),
        ([np.zeros((4, 9), f32)[:, 1:]], "table-facts"),
        ([np.zeros(8, f32)], "table-facts"),
        (arrays * 2, "table-range"),
    ):
        assert raised(lambda x=wrong: parts.update(x)).code == code


def test_what_the_arrays_do_not_share_is_not_assumed():
    """Narrower vectors where one array is less aligned; promises are checked."""
    loose = np.zeros(1025, f32)[1:].reshape(8, 128)
    assert loose.ctypes.data % 16 == 4
    parts = cute.TensorArray([np.zeros((8, 128), f32), loose])
    assert parts.members.alignment == 4
    out = np.zeros((1, 128), f32)
    plan = cute.trace(gathered, parts, np.zeros(1, np.int32), out)
    widths = {x.width for op in plan.ops for x in [getattr(op, "src", None)]
              if getattr(x, "storage", "") == "ptr0"}  # fmt: skip
    assert widths == {1}
    given = [np.zeros((8, 128), f32)]
    assert raised(lambda: cute.TensorArray([loose], alignment=16)).code == "argument-promise"
    assert raised(lambda: cute.TensorArray(given, divisible_by=96)).code == "argument-promise"
    assert raised(lambda: cute.TensorArray(given, shape=(None, 64))).code == "argument-promise"
    wide = cute.TensorArray(given, shape=(None, 128))
    assert wide.members.extents[1][1] == 128
    assert raised(lambda: wide.update([np.zeros((2, 64), f32)])).code == "table-facts"
    plan = cute.trace(gathered, wide, np.zeros(1, np.int32), out)
    assert raised(lambda: cute.emulate(plan, parts, np.zeros(1, np.int32), out)).code == (
        "emulate-argument"
    )
    assert raised(lambda: cute.emulate(plan, given[0], np.zeros(1, np.int32), out)).code == (
        "emulate-argument"
    )


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ([], "table-empty"),
        ([3], "table-array"),
        ([np.zeros(4, f32), np.zeros(4)], "table-facts"),
        ([np.zeros(4, f32), np.zeros((4, 4), f32)], "table-facts"),
        ([np.zeros((0, 4), f32)], "array-empty"),
    ],
)
def test_arrays_that_make_no_table_are_refused(arrays, code):
    assert raised(lambda: cute.TensorArray(arrays)).code == code


def test_annotations_are_about_the_arrays():
    @cute.kernel
    def kernel(parts: cute.spec(divisible_by=8, alignment=16)):
        cute.launch(grid=1, block=32)

    @cute.kernel
    def halves(parts: cute.f16):
        cute.launch(grid=1, block=32)

    kernel(cute.TensorArray(drawn((8, 16), (8, 24)), divisible_by=8))
    assert raised(lambda: kernel(cute.TensorArray(drawn((8, 16), (9, 24))))).code == "table-facts"
    assert raised(lambda: halves(cute.TensorArray(drawn(8)))).code == "argument-type"
    with pytest.raises(cute.TraceError, match=r"arrays\.count"):
        cute.trace(cute.kernel(lambda p: (cute.launch(1, 32), len(p))), cute.TensorArray(drawn(8)))


def test_an_index_past_the_table_is_refused():
    parts, out = cute.TensorArray(drawn(*SHAPES)), np.zeros((1, 128), f32)
    for k in (3, 100):
        with pytest.raises(cute.EmulationError, match="parts"):
            gathered(parts, np.array([k], np.int32), out)


def test_an_element_past_an_array_is_refused_though_another_array_is_there():
    whole = np.arange(256, dtype=f32)

    @cute.kernel
    def beyond(parts, out, i: cute.s32):
        cute.launch(grid=1, block=1)
        x = parts[0]
        out[0] = cute.make_tensor(x.data, cute.Layout(256))[i]

    parts, out = cute.TensorArray([whole[:128], whole[128:]]), np.zeros(1, f32)
    beyond(parts, out, 127)
    assert out[0] == 127
    with pytest.raises(cute.EmulationError, match=r"element 128 of gmem storage parts\[0\]"):
        beyond(parts, out, 128)


# -- addresses in memory


@cute.kernel
def at_addresses(table, out):
    cute.launch(grid=out.shape[0], block=32)
    address = cute.as_int(table[cute.block_idx()], 0)
    x = cute.make_tensor(cute.make_ptr("f16", address, align=16), cute.Layout((8, 32), (1, 8)))
    held = cute.rmem("f16", 8)
    cute.copy(x[_, cute.thread_idx()], held)
    cute.copy(held, cute.local_tile(out, (1, 8), (cute.block_idx(), cute.thread_idx())))


def test_an_integer_from_memory_is_an_address():
    """Of arrays that are arguments, or that the emulator is given; also from the middle of one."""
    arrays = drawn(256, 512, dtype=np.float16)
    table = np.array([x.ctypes.data for x in arrays] + [arrays[1].ctypes.data + 512], np.int64)
    out = np.zeros((3, 256), np.float16)
    plan = cute.trace(at_addresses, table, out)
    for order in ORDERS:
        out[:] = 0
        cute.emulate(plan, table, out, order=order, arrays=arrays)
        assert (out == [arrays[0], arrays[1][:256], arrays[1][256:]]).all()
    with pytest.raises(cute.EmulationError) as caught:
        cute.emulate(plan, table, out, arrays=arrays[:1])
    assert caught.value.code == "emulate-pointer"
    assert f"{table[1]:#x}, which is in no array; the nearest is " in str(caught.value)
    table[2] += 8
    assert raised(lambda: cute.emulate(plan, table, out, arrays=arrays)).code == (
        "emulate-pointer-alignment"
    )
    table[2] += 8
    assert raised(lambda: cute.emulate(plan, table, out, arrays=arrays)).code == "emulate-bounds"


def test_arrays_in_a_list_of_the_call_can_be_pointed_to():
    @cute.kernel
    def kernel(table, arrays, out):
        cute.launch(grid=2, block=8)
        address = cute.as_int(table[cute.block_idx()], 0)
        x = cute.make_tensor(cute.make_ptr("f32", address), cute.Layout(8))
        out[cute.block_idx(), cute.thread_idx()] = x[cute.thread_idx()]

    arrays, out = drawn(8, 16), np.zeros((2, 8), f32)
    kernel(np.array([x.ctypes.data for x in arrays[::-1]]), arrays, out)
    assert (out == [arrays[1][:8], arrays[0]]).all()


def test_a_pointer_reads_memory_as_elements_of_any_type():
    """Wider, narrower and packed ones, at addresses that are aligned for them alone."""

    @cute.kernel
    def mixed(out, address: cute.s64):
        cute.launch(grid=1, block=4)
        t, held = cute.thread_idx(), cute.rmem("s4", 2)
        wide = cute.make_tensor(cute.make_ptr("u32", address), cute.Layout(4))
        out[t] = wide[t]
        packed = cute.make_tensor(cute.make_ptr("s4", address), cute.Layout((2, 4)))
        cute.copy(packed[_, t], held)
        out[t + 4] = held[1].to("u32")

    room = np.arange(64, dtype=np.uint8) * 17 % 251
    x = room[4 - room.ctypes.data % 4 :][4:36]
    out = np.zeros(8, np.uint32)
    mixed_plan = cute.trace(mixed, out, x.ctypes.data)
    cute.emulate(mixed_plan, out, x.ctypes.data, arrays=[x[:16]])
    assert (out[:4] == x[:16].view(np.uint32)).all()
    signed = (x[:4] >> 4).astype(np.int8)
    signed = np.where(signed > 7, signed - 16, signed)
    assert (out[4:].view(np.int32) == signed).all()


def test_threads_race_through_pointers_to_the_same_memory():
    @cute.kernel
    def kernel(parts, x, apart: cute.s32):
        cute.launch(grid=1, block=64)
        t = cute.thread_idx()
        parts[0][t] = 1.0
        x[63 - t] = 2.0
        with cute.when(apart > 0):
            cute.syncthreads()
        parts[1][t] = 3.0

    x, y = np.zeros(64, f32), np.zeros(64, f32)
    for order in ORDERS:
        for members in ([x, y], [y, x], [y, y.copy()]):
            parts = cute.TensorArray(members)
            plan = cute.trace(kernel, parts, x, 0)

            def run(plan=plan, parts=parts, order=order):
                cute.emulate(plan, parts, x, 0, order=order)

            if members[0] is x or members[1] is x:
                assert raised(run).code == "emulate-global-race"
            else:
                run()


def test_pointers_to_read_only_arrays_are_not_written():
    @cute.kernel
    def kernel(parts):
        cute.launch(grid=1, block=32)
        parts[0][cute.thread_idx()] = 1.0

    x = np.zeros(32, f32)
    x.flags.writeable = False
    assert raised(lambda: kernel(cute.TensorArray([x]))).code == "emulate-read-only"


def test_packed_arrays_are_members():
    words = [np.random.default_rng(k).integers(0, 256, 64 * (k + 1), np.uint8) for k in range(3)]
    parts = cute.TensorArray([cute.typed(x, "s4", packed=True) for x in words])

    @cute.kernel
    def kernel(parts, out):
        cute.launch(grid=parts.count, block=4)
        held = cute.rmem("s4", 32)
        cute.copy(cute.local_tile(parts[cute.block_idx()], (32,), (cute.thread_idx(),)), held)
        cute.copy(held, cute.local_tile(out, (1, 32), (cute.block_idx(), cute.thread_idx())))

    out = np.zeros((3, 64), np.uint8)
    kernel(parts, cute.typed(out, "s4", packed=True))
    assert (out == [x[:64] for x in words]).all()


def test_pointers_of_a_wrong_type_are_refused():
    def made(dtype, align):
        @cute.kernel
        def kernel(n: cute.s64):
            cute.launch(grid=1, block=32)
            cute.make_ptr(dtype, n, align=align)

        return raised(lambda: cute.trace(kernel, 64)).code

    assert [made("f16", 1), made("f16", 12), made("e3m2", None)] == ["pointer-type"] * 3
    assert raised(lambda: cute.make_ptr("f16", 8, align=16)).code == "pointer-address"


def test_a_plan_with_pointers_is_read_back():
    parts, out = cute.TensorArray(drawn(*SHAPES)), np.zeros((1, 128), f32)
    plan = cute.trace(gathered, parts, np.zeros(1, np.int32), out)
    assert loads(dumps(plan)) == plan
    assert "pointers to parts_shape0 arrays, f32 (1*?,4*?):(4*?,1), 16 bytes" in str(plan)
    assert any(isinstance(op, ops.MakePtr) for op in plan.ops)
    wrong = dumps(plan).replace('"storage": "ptr0"', '"storage": "ptr1"')
    assert raised(lambda: loads(wrong)).code == "plan-op"


def test_a_wait_through_pointers_runs_for_each_array():
    @cute.kernel
    def kernel(flags, out):
        cute.launch(grid=4, block=32)
        b = cute.block_idx()
        with cute.when(cute.thread_idx() == 0):
            with cute.when(b > 0):
                cute.wait_until(cute.local_tile(flags[b - 1], (1,), (0,)), "eq", 1)
            out[b] = b.to("s32")
            cute.store_release(cute.local_tile(flags[b], (1,), (0,)), 1)

    for order in ORDERS:
        flags = cute.TensorArray([np.zeros(1, np.int32) for _i in range(4)])
        out = np.zeros(4, np.int32)
        cute.emulate(cute.trace(kernel, flags, out), flags, out, order=order)
        assert list(out) == [0, 1, 2, 3]
