"""The kernels that measure a GPU: on the emulator each computes what its bench wants of it, and a
launch that does less is told from one that does all.
"""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import device_rates as rates
from cute_py.ops.device_benches import SMALL, benches, for_gpu, links

BENCHES = list(benches(SMALL))
NAMES = [f"{bench.row}" for bench in BENCHES]


def emulated(bench):
    args = [x.copy() if isinstance(x, np.ndarray) else x for x in bench.args]
    bench.kernel(*args)
    return args


@pytest.mark.parametrize("bench", BENCHES, ids=NAMES)
def test_o22_a_kernel_computes_what_its_bench_wants(bench):
    before = bench.args[bench.result].copy()
    with pytest.raises(cute.CuteError, match=f'wrong result of the kernel for "{bench.row}"'):
        bench.require(before)
    args = emulated(bench)
    bench.require(args[bench.result])
    assert bench.work > 0
    if bench.clocked is not None:
        assert args[bench.clocked].dtype == np.int64


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("row", ["ffma", "mma.sync", "barrier", "shared 4-way", "ex2", "wgmma"])
def test_o22_another_number_of_rounds_has_another_result(row, rounds):
    bench = next(x for x in BENCHES if x.row == row)
    args = list(bench.args)
    args[bench.clocked + 1] = rounds
    found = emulated(replace(bench, args=tuple(args)))
    with pytest.raises(cute.CuteError):
        bench.require(found[bench.result])


@pytest.mark.parametrize(("count", "apart"), [(2, 1), (50, 32), (128, 1)])
def test_o22_links_lead_through_all_places_once(count, apart):
    table, order = links(count, apart, count * apart)
    place, seen = 0, []
    for _ in range(count):
        seen.append(place)
        place = table[place]
    assert place == 0
    assert seen == list(order)
    assert sorted(seen) == list(range(0, count * apart, apart))


def test_o22_a_step_too_few_ends_elsewhere():
    for row in ("l2 latency", "shared latency"):
        bench = next(x for x in BENCHES if x.row == row)
        args = [*bench.args[:3], bench.args[3] - 1, *bench.args[4:]]
        found = emulated(replace(bench, args=tuple(args)))
        with pytest.raises(cute.CuteError):
            bench.require(found[1])


def test_o22_ways_are_the_words_of_a_bank_at_once():
    """The emulator counts the wavefronts of read_shared."""
    bench = {x.row: x for x in BENCHES}
    for ways in (1, 2, 4):
        lanes = [lane * ways * 4 for lane in range(32)]
        assert cute.analysis.bank_conflicts(lanes, bits=32).wavefronts == ways
        assert bench[f"shared {ways}-way"].args[3] == ways


def test_o22_arrays_of_a_gpu_are_larger_than_l2_and_sums_are_exact():
    size = for_gpu(132)
    part = rates.THREADS * rates.VECTOR * rates.AHEAD * 4  # bytes of a block
    dram = size.dram * size.processors * size.blocks * part
    assert dram > 16 * cute.analysis.model.H200.l2_bytes
    sets = [parts * size.processors * size.blocks * part for parts, _ in size.sets]
    assert sets[0] < 8 << 20
    assert sets[-1] > 2 * cute.analysis.model.H200.l2_bytes
    assert all(parts % 2 and rounds % 2 for parts, rounds in (*size.sets, (size.dram, 1)))
    assert size.steps * size.apart * 4 >= 128 << 20  # bytes between the first and the last link
    assert 8 * 4 * 50 * size.rounds + 28 < 1 << 24  # sums of f32
    assert 64 * size.rounds * rates.CHAINS < 1 << 24
