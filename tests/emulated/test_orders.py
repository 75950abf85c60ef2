"""`cute.check_orders`: what is proved, what is found, and that a witness repeats it."""

import pickle

import numpy as np
import pytest

import cute_py as cute
from cute_py.cli.main import main
from cute_py.kernels.epilogue import LinearCombination
from tests import hopper_family as family
from tests.emulated.test_roles import crossed, integers
from tests.kernel_calls import CALLS, KERNELS
from tests.order_kernels import ZOO, at, counter, rows, ticket
from tests.sampling import each

ORDERS = ("forward", "reversed", 0, 1, 2)
SEARCHED = 30  # runs in which a fault is found


def code_of(plan, *arrays, **options):
    """Return the code of a refusal without its first word; None where all is well."""
    try:
        cute.emulate(plan, *arrays, **options)
    except cute.EmulationError as error:
        return error.code.removeprefix("emulate-")
    return None


@each(ZOO)
def test_a_fault_of_some_order_is_found_and_repeated(name):
    kernel, arrays, broken, _, codes, options = ZOO[name]
    given = arrays()
    found = cute.check_orders(kernel, *given, *broken, most=SEARCHED, **options)
    assert not found.proved
    told = {x.code.removeprefix("emulate-") for x in found.results if x.code}
    assert told == {*codes}, told
    assert all((x == y).all() for x, y in zip(given, arrays(), strict=True))
    for _ in range(2):
        again = code_of(kernel, *arrays(), *broken, order=found.witness, **options)
        assert again in codes, again
    assert str(found.witness) in str(found)
    assert found.witness.ends in str(found)


@each(ZOO)
def test_the_right_twin_is_proved(name):
    kernel, arrays, _, right, _, options = ZOO[name]
    found = cute.check_orders(kernel, *arrays(), *right, **options)
    assert found.proved, found
    assert found.bounded == ()
    assert found.witness is None
    for order in ORDERS[1:4]:
        assert code_of(kernel, *arrays(), *right, order=order, **options) is None


def test_orders_of_warps_are_those_of_order():
    """A fault between warps of one block, and in shared memory, is met by orders and seeds."""
    for name in ("warps_with_tickets", "warps_with_shared_tickets"):
        kernel, arrays, broken, *_ = ZOO[name]
        plan = cute.trace(kernel, *arrays(), *broken)
        found = {code_of(plan, *arrays(), order=order) for order in ORDERS}
        assert found == {None, "bounds"}, name


def test_phases_are_judged_in_every_order():
    for name in ("a_peer_that_arrives_twice", "a_load_a_phase_ahead"):
        kernel, arrays, broken, *_ = ZOO[name]
        plan = cute.trace(kernel, *arrays(), *broken)
        assert None not in {code_of(plan, *arrays(), order=x) for x in ORDERS}, name


# -- tokens


def test_a_ring_of_a_cluster_of_two_by_two_is_one_class():
    x, out = integers((4, 128 * 5), "f32"), np.zeros((2, 2, 128), np.float32)
    found = cute.check_orders(crossed, x, out)
    assert (found.proved, found.classes, found.runs) == (True, 1, 1)


@cute.kernel
def stores_of_a_square(out, late, ranks, how):
    """Blocks of a cluster of 2 by 2 store to those of their row and column, and release what they
    have read to all four `ranks`: one by one, in a loop, in branches, or by a lane each; `late`:
    after the first release they still read.
    """
    cute.launch(grid=(2, 2), block=64, cluster=(2, 2))
    full, empty = cute.mbarriers(1), cute.mbarriers(1)
    stage, rank, t = cute.smem("s32", 4), cute.cluster_rank(), cute.thread_idx()
    with cute.when(t == 0):
        full.init(3)
        empty.init(4)
        cute.fence_mbarrier_init()
    cute.cluster_sync()
    with cute.when(t == 32):
        for k in range(4):
            if k:
                empty.wait(0, (k + 1) % 2)
            for to in range(4):
                with cute.when(rank != 3 - to):
                    cute.mapa(stage, to)[rank] = k
                    full.arrive(0, to)
    with cute.when(t < 32):
        total = cute.var(0)

        def read():
            with cute.when(t == 0):
                for other in range(4):
                    with cute.when(rank != 3 - other):
                        total.set(total.get() + cute.as_int(stage[other]))

        for k in range(4):
            full.wait(0, k % 2)
            if not late:
                read()
            if how == "lanes":
                cute.syncwarp()
                with cute.when(t < 4):
                    empty.arrive(0, t)
            elif how == "loop":
                with cute.when(t == 0):
                    for to in cute.range(4):
                        empty.arrive(0, to)
            elif how == "branches":
                with cute.when(t == 0):
                    for to in range(4):
                        with cute.when(rank != to):
                            empty.arrive(0, to)
                    empty.arrive(0)
            else:
                with cute.when(t == 0):
                    for number, to in enumerate(ranks):
                        if late and number == 1:
                            read()
                        empty.arrive(0, to)
            if late:
                read()
        with cute.when(t == 0):
            out[cute.block_idx()] = total.get()
    cute.cluster_sync()


HOW = [((0, 1, 2, 3), ""), ((3, 2, 1, 0), ""), ((2, 0, 3, 1), ""), ((), "loop"), ((), "lanes")]
HOW += [((), "branches")]


@pytest.mark.parametrize(
    "how", [pytest.param(x, marks=pytest.mark.slow if x in HOW[:3:2] else ()) for x in HOW]
)
def test_a_token_of_a_run_of_arrivals_is_as_good_as_another(how):
    """Released to all four, a stage is released to one block that does not fill it, too: its next
    token may come before that of the block across.
    """
    plan = cute.trace(stores_of_a_square, np.zeros((2, 2), np.int32), False, *how)
    found = cute.check_orders(plan, np.zeros((2, 2), np.int32))
    assert found.proved, found
    assert (found.results[0].arrays["out"] == 3 * (0 + 1 + 2 + 3)).all()
    assert {code_of(plan, np.zeros((2, 2), np.int32), order=x) for x in ("reversed", 0)} == {None}
    late = cute.trace(stores_of_a_square, np.zeros((2, 2), np.int32), True, *how)
    for order in ("forward", "reversed", 0):
        assert code_of(late, np.zeros((2, 2), np.int32), order=order)


def test_an_arrival_with_bytes_begins_a_run():
    """Who knows the run before knows nothing of it: its arrival at bar 3 may come too early."""

    @cute.kernel
    def kernel(x, out, knows):
        cute.launch(grid=1, block=128)
        bars, t = cute.mbarriers(6), cute.thread_idx()
        s = cute.smem("f32", cute.Layout((8, 32), (32, 1)), 1024)
        with cute.when(t == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        with cute.when(t == 0):
            bars.arrive(0)
            bars.wait(1, 0)
            out[0, 0] = 1
            bars.arrive_expect_tx(2, 1024)
            bars.arrive(3)
            cute.tma_load(cute.local_tile(cute.tma_tensor(x), (8, 32), (0, 0)), s, bars, 2)
            bars.wait(2, 0)
        with cute.when(t == 32):
            bars.wait(0, 0)
            bars.arrive(1)
            if knows:
                bars.wait(3, 0)
            bars.arrive(5)
        with cute.when(t == 64):
            bars.wait(5, 0)
            bars.arrive(4)
        with cute.when(t == 96):
            bars.wait(4, 0)
            bars.arrive(3)

    for order in ORDERS:
        assert code_of(kernel, *rows(), False, order=order) == "mbarrier-phase", order
        assert code_of(kernel, *rows(), True, order=order) is None


# -- equal blocks


def test_equal_blocks_are_tried_in_one_order():
    """Of four blocks that take three tickets there are 1,536 orders."""
    for blocks, tiles, classes in ((2, 3, 8), (2, 5, 32), (3, 2, 9), (4, 3, 64)):
        given = np.zeros(1, np.int32), np.zeros(8, np.int32)
        found = cute.check_orders(counter, *given, tiles, blocks)
        assert (found.proved, found.classes, found.runs) == (True, classes, classes)
        assert len(found.results) == 1


# -- words


def test_reasons_name_line_place_and_threads():
    kernel, arrays, broken, *_ = ZOO["warps_with_tickets"]
    found = cute.check_orders(kernel, *arrays(), *broken)
    (reason,) = found.reasons
    assert "order_kernels.py:" in reason
    assert "atomic add of count[0] by warps 0-3 of block 0, nothing orders them" in reason
    (choice,) = found.witness.choices
    assert choice.who[1] > 0
    assert choice.found == "0"


def test_witnesses_and_deadlocks_name_roles():
    @cute.kernel
    def kernel(counts, out):
        cute.launch(grid=1, block=96)
        with cute.role("first", warps=range(2)), cute.when(cute.thread_idx() % 32 == 0):
            out[ticket(counts) - cute.warp_idx()] = 1
        with cute.role("last", warps=2), cute.when(cute.thread_idx() % 32 == 0):
            ticket(counts, 1)

    found = cute.check_orders(kernel, np.zeros(2, np.int32), np.zeros(2, np.int32))
    (choice,) = found.witness.choices
    assert str(choice).startswith("block 0, warp 1 (role 'first'), lane 0: atomic add of counts[0]")

    @cute.kernel
    def waiting(flags):
        cute.launch(grid=1, block=64)
        for name, warp in (("load", 0), ("multiply", 1)):
            with cute.role(name, warps=warp), cute.when(cute.thread_idx() % 32 == 0):
                cute.wait_until(at(flags, warp), "eq", 1)
                cute.store_release(at(flags, 1 - warp), 1)

    with pytest.raises(cute.EmulationError, match=r"warp 0 \(role 'load'\) of block") as caught:
        cute.emulate(waiting, np.zeros(2, np.int32))
    assert "(role 'multiply')" in str(caught.value)


def test_a_witness_is_cut_to_what_matters():
    @cute.kernel
    def kernel(counts, out):
        cute.launch(grid=1, block=96)
        with cute.when(cute.thread_idx() % 32 == 0):
            with cute.when(cute.warp_idx() < 2):
                out[ticket(counts) - cute.warp_idx()] = 1
            with cute.when(cute.warp_idx() == 2):
                for _ in range(4):
                    ticket(counts, 1)

    found = cute.check_orders(kernel, np.zeros(2, np.int32), np.zeros(2, np.int32))
    assert [choice.who for choice in found.witness.choices] == [(0, 1, 0)]
    assert found.witness.turns == ((0, (0, 1, 0)),)
    again = pickle.loads(pickle.dumps(found.witness))
    assert again == found.witness
    assert code_of(kernel, np.zeros(2, np.int32), np.zeros(2, np.int32), order=again) == "bounds"


def test_a_deadlock_prints_its_circle():
    kernel, arrays, broken, *_ = ZOO["two_locks"]
    with pytest.raises(cute.EmulationError, match="a circle of waits") as caught:
        cute.emulate(kernel, *arrays(), *broken, order="reversed")
    assert caught.value.code == "emulate-deadlock"

    @cute.kernel
    def crossed_rings(out):
        """Each warp waits for what the other one releases after its own wait."""
        cute.launch(grid=1, block=64)
        bars = cute.mbarriers(2)
        with cute.when(cute.thread_idx() == 0):
            bars.init(1)
            cute.fence_mbarrier_init()
        cute.syncthreads()
        for w in range(2):
            with cute.when(cute.thread_idx() == 32 * w):
                bars.wait(w, 0)
                bars.arrive(1 - w)

    for order in ORDERS:
        with pytest.raises(cute.EmulationError) as caught:
            cute.emulate(crossed_rings, np.zeros(1, np.int32), order=order)
        said = str(caught.value).partition("a circle of waits: ")[2]
        assert said.count(" to come to test_orders.py:") == 2, said
        assert "warp 0" in said
        assert "warp 1" in said


def test_a_wait_that_nobody_ends_is_named():
    @cute.kernel
    def kernel(flag):
        cute.launch(grid=1, block=64)
        with cute.when(cute.thread_idx() == 0):
            cute.wait_until(at(flag), "eq", 1)

    with pytest.raises(cute.EmulationError, match="no other thread would end the wait"):
        cute.emulate(kernel, np.zeros(1, np.int32))


# -- arguments


def test_arrays_are_left_as_they_were():
    @cute.kernel
    def kernel(x):
        cute.launch(grid=1, block=32)
        x[cute.thread_idx()] = x[cute.thread_idx()] + 1

    x = np.arange(32, dtype=np.int32)
    found = cute.check_orders(kernel, x)
    assert found.proved
    assert (x == np.arange(32)).all()
    assert (found.results[0].arrays["x"] == np.arange(32) + 1).all()
    assert cute.check_orders(cute.trace(kernel, x), x).proved


def test_nothing_is_printed(capsys):
    @cute.kernel
    def kernel(count):
        cute.launch(grid=1, block=64)
        with cute.when(cute.thread_idx() % 32 == 0):
            cute.print("ticket {}", ticket(count))

    assert cute.check_orders(kernel, np.zeros(1, np.int32)).classes == 2
    assert capsys.readouterr().out == ""


def test_a_race_is_a_fault_of_every_order():
    @cute.kernel
    def kernel(x):
        cute.launch(grid=2, block=32)
        x[cute.thread_idx()] = cute.block_idx()

    found = cute.check_orders(kernel, np.zeros(32, np.int32))
    assert (found.proved, found.classes, found.results[0].code) == (
        False,
        1,
        "emulate-global-race",
    )


@pytest.mark.parametrize("bound", [{"most": 0}, {"most": 1.5}, {"seconds": 0}, {"seconds": None}])
def test_bounds_are_numbers_above_0(bound):
    with pytest.raises(cute.LayoutError, match=next(iter(bound))):
        cute.check_orders(counter, np.zeros(1, np.int32), np.zeros(8, np.int32), 1, 1, **bound)


# -- shipped kernels, and the command line


SHOWN = (
    "gemm_09",
    "gemm_10",
    "splitk_serial",
    "stream_k",
    "grouped",
    "flash_attention.flash_attention",
)


@pytest.mark.parametrize(
    "name",
    [pytest.param(x, marks=() if x.startswith(SHOWN) else pytest.mark.slow) for x in CALLS],
)
def test_shipped_kernels_have_one_class(name):
    call = CALLS[name]()
    found = cute.check_orders(KERNELS[call.kernel], *call.given(call.arguments))
    assert (found.proved, found.classes, found.runs, found.bounded) == (True, 1, 1, ()), found


@pytest.mark.parametrize("tiles", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_blocks_of_a_cluster_that_share_k_have_one_class(tiles):
    config, last = family.row("bf16", 64, 16, 1, split=2), LinearCombination()
    arrays, _ = family.arguments(config, (64 * tiles, 16, 200), "bf16", last)
    call = family.call_of(config, arrays, last, blocks=2)
    found = cute.check_orders(family.KERNELS[config.schedule], *call)
    assert (found.proved, found.classes, found.runs, found.bounded) == (True, 1, 1, ()), found


FILE = """
import numpy as np
import cute_py as cute

@cute.kernel
def tickets(count, out, room):
    cute.launch(grid=1, block=64)
    with cute.when(cute.thread_idx() % 32 == 0):
        here = cute.local_tile(count, (1,), (0,))
        mine = cute.as_int(cute.atomic("add", here, 1, old=True))
        out[mine - cute.warp_idx() + room] = 1

def right():
    return tickets, np.zeros(1, np.int32), np.zeros(4, np.int32), 2
"""


def test_a_kernel_of_a_file_is_checked_at_the_command_line(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    np.save(tmp_path / "out.npy", np.zeros(4, np.int32))

    def printed(name, *arguments):
        code = main(["check-orders", f"{file}:{name}", *arguments])
        output, error = capsys.readouterr()
        return code, output, error

    code, output, _ = printed("tickets", "1:s32", str(tmp_path / "out.npy"), "0")
    assert code == 1
    assert "an error, emulate-bounds" in output
    assert "mine.py:11" in output
    code, output, _ = printed("right")
    assert code == 0
    assert output.startswith("proved for every order: 2 classes of orders in 2 runs")
    code, output, _ = printed("tickets", "1:s32", "4:s32", "2", "--most", "1")
    assert code == 1
    assert "more than 1 runs" in output
    for name in ("nothing", "FILE", "np"):
        code, _, error = printed(name)
        assert (code, error.startswith("check-orders: given ")) == (2, True)
