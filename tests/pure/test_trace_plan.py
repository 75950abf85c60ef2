"""What a kernel records is what it says: elements and aliases, integers, numbers and types.

Bodies are small kernels; what they record is read from the plan's text.
"""

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from tests.kernel_refusals import ARRAYS, raised, recorded, traced

# -- elements and aliases


def test_an_element_is_a_copy_of_when_it_was_read():
    def body(x):
        before = x[0]
        x[0] = 1
        x[1] = before

    assert recorded(body) == [
        "x0[0] = load x[0 + [0]]",
        "x1[0] = 1",
        "store x[0 + [0]] = x1[0]",
        "store x[1 + [0]] = x0[0]",
    ]


def test_an_element_of_registers_is_a_copy_and_a_slice_is_an_alias():
    def body(x):
        held = cute.rmem("s32", (2, 2))
        held.fill(0)
        element, row = held[0, 0], held[_, 0]
        row += 1
        x[0] = element
        x[1] = held[0, 0]

    assert recorded(body)[1:4] == [
        "r1[0] = copy.s32(r0[0])",
        "r0[0,1] = add.s32(r0[0,1], 1)",
        "store x[0 + [0]] = r1[0]",
    ]


def test_two_elements_swap():
    def body(x):
        x[0], x[1] = x[1], x[0]

    assert recorded(body) == [
        "x0[0] = load x[1 + [0]]",
        "x1[0] = load x[0 + [0]]",
        "store x[0 + [0]] = x0[0]",
        "store x[1 + [0]] = x1[0]",
    ]


def test_in_place_on_an_element_of_memory_loads_and_stores():
    def body(x):
        x[3] += 1

    assert recorded(body) == [
        "x0[0] = load x[3 + [0]]",
        "x0[0] = add.s32(x0[0], 1)",
        "store x[3 + [0]] = x0[0]",
    ]


# -- integers and conditions


@pytest.mark.parametrize(
    ("integer", "text"),
    [
        (lambda t: (t - 7) // 4, "(tid+1)//4-2"),
        (lambda t: (t - 7) % 4, "(tid+1)%4"),
        (lambda t: t // -4, "(-tid)//4"),
        (lambda t: abs(t - 7), "7-min(tid,14-tid)"),
        (lambda t: +t, "tid"),
        (lambda t: ~t, "-tid-1"),
        (lambda t: sum([t, 1, 2]), "tid+3"),
        (lambda t: cute.min_(t, 7), "min(tid,7)"),
        (lambda t: np.int64(3) * t, "3*tid"),
        (lambda t: t & 7, "tid%8"),
        (lambda t: divmod(t, 8)[0], "tid//8"),
    ],
)
def test_integers_are_those_of_python(integer, text):
    def body(x):
        x[0] = integer(cute.thread_idx())

    assert recorded(body)[0] == f"x0[0] = copy.s32({text})"


@pytest.mark.parametrize(
    ("integer", "kind"),
    [
        (lambda t: 1 << t, "shl(1, tid)"),
        (lambda t: 256 >> t, "shr(256, tid)"),
        (lambda t: t ^ 5, "xor(tid, 5)"),
        (lambda t: 5 | t, "or(tid, 5)"),
    ],
)
def test_bits_of_integers_get_a_name(integer, kind):
    def body(x):
        x[0] = integer(cute.thread_idx())

    assert recorded(body)[0] == f"m0 = {kind}"


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t**2,
        lambda t: 2**t,
        lambda t: t / 2,
        lambda t: 2 / t,
        lambda t: t[0],
        lambda t: min(t, 7),
        lambda t: max(t, 7),
        lambda t: 1 <= t < 7,
        lambda t: not t < 7,
        lambda t: (t < 7) == (t > 3),
        lambda t: (t < 7) != (t > 3),
        lambda t: (t < 7) ^ (t > 3),
        lambda t: (t < 7) * 5,
        lambda t: t in (1, 2),
        lambda t: [1, 2][t],
        lambda t: float(t),
        lambda t: range(t),
    ],
)
def test_what_python_would_decide_is_refused(use):
    def body(x):
        x[0] = use(cute.thread_idx())

    assert raised(lambda: traced(body)).code == "trace-python"


@pytest.mark.parametrize(
    "use",
    [
        lambda x: 1 if x[0] > 3 else 2,
        lambda x: 1 if x[0] == 3 else 2,
        lambda x: x[0] and x[1],
        lambda x: x[0] or x[1],
        lambda x: not x[0],
        lambda x: 0 < x[0] < 7,
        lambda x: max(x[0], x[1]),
        lambda x: min(x[0], 0),
        lambda x: sorted([x[0], x[1]])[0],
        lambda x: any([x[0] > 1, x[1] > 1]),
        lambda x: x[0] in (1, 2),
        lambda x: bool(x),
        lambda x: int(x[0]),
        lambda x: float(x[0]),
        lambda x: round(x[0]),
        lambda x: x[0] ** 2,
        lambda x: 2 ** x[0],
        lambda x: x[0] @ x[1],
        lambda x: x[x[0]],
        lambda x: list(cute.range(x[0])),
    ],
)
def test_python_may_not_ask_for_what_is_in_memory(use):
    """A tensor has a length, so without a refusal `if x[0] > 3` would always hold."""

    def body(x):
        x[1] = use(x)

    assert raised(lambda: traced(body)).code == "trace-python"


def test_a_chain_whose_first_part_is_decided_is_its_second_part():
    def body(x):
        with cute.when(0 <= cute.thread_idx() < 7):
            x[0] = 1

    assert recorded(body)[0] == "if tid < 7 (thread)"


@pytest.mark.parametrize(
    ("compare", "function"),
    [
        (lambda t, r: t == r, "eq.s32(x0[0], tid)"),
        (lambda t, r: t != r, "ne.s32(x0[0], tid)"),
        (lambda t, r: t < r, "gt.s32(x0[0], tid)"),
        (lambda t, r: r <= t, "le.s32(x0[0], tid)"),
    ],
)
def test_an_integer_is_compared_with_registers_from_both_sides(compare, function):
    def body(x):
        with cute.when(compare(cute.thread_idx(), x[0])):
            x[1] = 1

    assert recorded(body)[1] == f"r0[0] = {function}"


@pytest.mark.parametrize("number", [np.int64(3), np.int8(3)])
def test_an_integer_is_compared_with_numpys(number):
    def body(x):
        with cute.when(cute.thread_idx() == number):
            x[0] = 1

    assert recorded(body)[0] == "if tid == 3 (thread)"


def test_an_integer_is_never_a_float_or_nothing():
    def body(x):
        assert (cute.thread_idx() == None) is False  # noqa: E711
        x[0] = cute.where(cute.thread_idx() == 2.0, 1, 0)

    assert raised(lambda: traced(body)).code == "leaf-type"


@pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")
def test_not_of_a_decided_comparison_is_decided():
    def body(x):
        t = cute.thread_idx()
        with cute.when(~(t < 32) | (t > 7)):
            x[0] = 1

    assert recorded(body)[0] == "if 7 < tid (thread)"


# -- numbers and types


@pytest.mark.parametrize(
    ("array", "value"),
    [("x", 1.5), ("x", 2**31), ("x", True), ("f", 1e39), ("h", 1e6), ("x", "1"), ("f", None)],
)
def test_a_number_that_the_type_cannot_hold_is_refused(array, value):
    kernel = cute.kernel(lambda x: (cute.launch(grid=1, block=32), x.__setitem__(0, value)))
    assert raised(lambda: cute.trace(kernel, ARRAYS[array])).code == "kernel-number"


@pytest.mark.parametrize("value", [1, 1.5, 65504.0, np.float32(2.5), float("inf"), float("nan")])
def test_a_number_that_the_type_can_hold_is_taken(value):
    kernel = cute.kernel(lambda x: (cute.launch(grid=1, block=32), x.__setitem__(0, value)))
    assert cute.trace(kernel, ARRAYS["h"]).body


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x[0] + (cute.thread_idx() < 3),
        lambda x: (cute.thread_idx() < 3) * x[0],
        lambda x: x[0] + (x[1] > 3),
        lambda x: cute.thread_idx() < 3,
    ],
)
def test_conditions_are_no_numbers(use):
    def body(x):
        x[0] = use(x)

    assert raised(lambda: traced(body)).code == "kernel-types"


def test_an_integer_goes_to_registers_of_a_type():
    def body(f):
        f[0] = cute.thread_idx().to("f32") * 0.5

    assert recorded(body) == [
        "r0[0] = copy.s32(tid)",
        "r1[0] = to.f32(r0[0]) rn",
        "r2[0] = mul.f32(r1[0], 0.5)",
        "store f[0 + [0]] = r2[0]",
    ]


@pytest.mark.parametrize("index", [-1, slice(1, 3), (0, -1), 1.0, True])
def test_an_index_of_numpys_other_kinds_is_refused(index):
    def body(a):
        a[index] = 1.0

    assert raised(lambda: traced(body)).code in ("coordinate-range", "leaf-slice", "leaf-type")


@pytest.mark.parametrize("operation", [lambda a, b: cute.copy(a, b), lambda a, b: b.fill(a)])
def test_copies_and_assignments_face_each_other_mode_by_mode(operation):
    def body(f):
        a, b = cute.rmem("f32", (4, 2)), cute.rmem("f32", (2, 4))
        a.fill(0)
        operation(a, b)

    assert raised(lambda: traced(body)).code == "kernel-shapes"


# -- bounds


def test_a_tensor_whose_origin_was_moved_remembers_its_extents():
    """A stencil: what lies before the first row or column is as much outside as after the last."""

    def body(a):
        moved = a.domain_offset((-1, cute.thread_idx() + 1))
        a[0, 0] = moved[0, 0]
        a[0, 1] = moved[cute.block_idx(), 2]

    first, _store, second, _last = recorded(body)
    assert first.endswith("if 1 < 0 and tid+1 < a_shape1")
    assert second.endswith("if 1 < 0 and tid+3 < a_shape1")


def test_a_tensor_that_is_moved_back_has_no_lower_bound_to_check():
    def body(a):
        moved = a.domain_offset((cute.thread_idx(), 2)).domain_offset((1, -2))
        a[0, 0] = moved[0, 0]

    assert recorded(body)[0].endswith("if tid+1 < a_shape0")


def test_a_guard_is_named_once_for_all_elements_that_share_it():
    def body(a):
        tile = cute.local_tile(a, (4, 4), (cute.thread_idx(), 0))
        cute.copy(tile, cute.rmem("f32", (4, 4)))

    load = traced(body).body[0].src
    assert len(load.guards) == len(set(load.guards)) <= 8
    assert len(load.masks) == load.count


def tiles_of(x):
    """Copy the tile of each thread of the grid."""
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=32)
    tile = cute.local_tile(x, (4,), (cute.block_idx() * 32 + cute.thread_idx(),))
    cute.copy(tile, cute.rmem("f32", 4))


def test_the_index_of_a_tile_may_run_past_the_array_too():
    """4 divides the extent, so that no tile is ragged; but the last block has tiles beyond it."""
    load = cute.trace(cute.kernel(tiles_of), ARRAYS["f"]).body[0].src
    assert [str(guard) for guard in load.guards] == ["128*bid_x+4*tid < x_shape0"]


def test_a_promise_that_covers_the_grid_needs_no_guard():
    def whole(x: cute.spec(divisible_by=128)):
        tiles_of(x)

    load = cute.trace(cute.kernel(whole), np.zeros(256, np.float32)).body[0].src
    assert load.guards == ()


def test_tiles_up_to_the_end_of_a_loop_need_no_guard_and_those_after_it_do():
    @cute.kernel
    def kernel(A: cute.spec(divisible_by=(1, 32))):
        cute.launch(grid=1, block=32)
        row = cute.local_tile(A, (1, 32), (0, _))
        for k in cute.range(cute.ceil_div(A.shape[1], 32)):
            cute.copy(row[0, _, k], cute.rmem("f32", 32))
            cute.copy(row[0, _, k + 1], cute.rmem("f32", 32))

    (loop,) = cute.trace(kernel, np.zeros((4, 64), np.float32)).body
    now, ahead = (op.src.guards for op in loop.body)
    assert now == ()
    assert str(ahead[0]) == "32*k0+32 < A_shape1"
