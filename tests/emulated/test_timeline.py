"""The timeline of an emulated kernel: what ran in which order, and what was in flight."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import viz
from cute_py.emulate.timeline import folded
from cute_py.errors import LayoutError
from cute_py.kernels.gemm_10_warp_specialised import gemm_warp_specialised
from cute_py.kernels.samples import SAMPLES


def timeline(name, m, n, k):
    kind, call = SAMPLES[name]
    kernel, arguments = call((m, n, k), cute.dtype(kind))
    return cute.emulate(kernel, *arguments, report="timeline")


@pytest.fixture(scope="module")
def multistage():
    return timeline("gemm_07", 128, 128, 256)


@pytest.fixture(scope="module")
def specialised():
    a, b = np.zeros((128, 256), np.float16), np.zeros((128, 256), np.float16)
    return cute.emulate(
        gemm_warp_specialised, a, b, np.zeros((128, 128), np.float32), report="timeline"
    )


def test_groups_fly_from_their_copies_to_the_wait_that_needed_them(multistage):
    names = [event.name for event in multistage.events]
    groups, waited = [], 0
    for number, name in enumerate(names):  # of a warp: all execute the same
        if name == "cp_async" and names[number - 1] != "cp_async":
            groups.append([number, None])
        if name == "cp_async_wait":
            waited += 1
            groups[waited - 1][1] = number
    own = [[f.issued, f.waited] for f in multistage.flights if f.warp == 0]
    assert own == groups
    assert max(multistage.in_flight()) == 2
    assert multistage.in_flight()[-1] == 0


def unfolded(text):
    """Return the events of a text, each line with its number, with what it folds."""
    found = []
    for line in text.splitlines()[1:]:
        told = re.fullmatch(r" {6}(?:this event|these (\d+) events) (\d+) times, to (\d+)", line)
        if told is None:
            assert int(line[:4]) == len(found)
            found.append(line[4:])
            continue
        period = int(told[1] or 1)
        found += found[-period:] * (int(told[2]) - 1)
        assert len(found) == int(told[3]) + 1
    return found


@pytest.mark.parametrize("which", ["multistage", "specialised"])
def test_the_text_folds_repeats_and_says_how_often(which, request):
    shown = request.getfixturevalue(which)
    lines = str(shown).splitlines()
    assert len(lines) < len(shown.events)
    found = unfolded(str(shown))
    assert len(found) == len(shown.events)
    for line, event, count in zip(found, shown.events, shown.in_flight(), strict=True):
        assert line.endswith(f"{count:>2} in flight  {event.name} {event.where}")


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_what_is_folded_covers_the_rows_in_order(rows):
    made = []
    for start, period, times in folded(rows):
        assert start == len(made)
        made += rows[start : start + period] * times
    assert made == rows


def test_warps_with_the_same_events_are_one_role(multistage, specialised):
    assert [(name, warps) for name, warps, _ in multistage.rows()] == [("warps 0-3", [0, 1, 2, 3])]
    roles = {name: events for name, _, events in specialised.rows()}
    producer = {specialised.events[n].name for n in roles["load, warp 8"]}
    consumer = {specialised.events[n].name for n in roles["multiply, warps 1,2,3,5,6,7"]}
    assert "tma_load" in producer - consumer
    assert "wgmma" in consumer - producer


def test_loads_of_tma_fly_until_their_phase_is_awaited(specialised):
    loads = [f for f in specialised.flights if f.name == "tma_load"]
    assert loads
    for flight in loads:
        issue, wait = (specialised.events[n] for n in (flight.issued, flight.waited))
        assert issue.name == "tma_load"
        assert wait.name == "mbarrier_wait"
        assert flight.issued < flight.waited
        assert not set(wait.warps) & set(issue.warps)  # a consumer waits for the producer's load
    assert 1 < max(specialised.in_flight()) <= 4
    products = [f for f in specialised.flights if f.name == "wgmma"]
    assert {specialised.events[f.waited].name for f in products} == {"wgmma_wait"}


def test_a_timeline_counts_what_a_report_counts():
    kind, call = SAMPLES["gemm_07"]
    kernel, arguments = call((128, 128, 64), cute.dtype(kind))
    report, both = (cute.emulate(kernel, *arguments, report=r) for r in (True, "timeline"))
    assert both.lines == report.lines


def test_at_most_2000_events_are_kept():
    @cute.kernel
    def kernel(x):
        cute.launch(grid=2, block=32)
        for _ in cute.range(1500):
            x[cute.thread_idx()] = x[cute.thread_idx()] + 1.0

    found = cute.emulate(kernel, np.zeros(32, np.float32), report="timeline", checks=False)
    assert len(found.events) == 2000
    assert not found.complete
    assert str(found).startswith("order, not time: the first 2000 events")
    drawn = viz.picture_of(found)
    assert drawn.title.startswith("order, not time: the first 2000 events")
    columns = [label for ((grid,),) in zip(drawn.grids) for label in grid.column_labels]
    assert columns == list(map(str, range(2000)))


def test_the_picture_has_a_row_for_each_role_and_each_stage_in_flight_at_once(specialised):
    ((grid,),) = viz.picture_of(specialised).grids
    assert grid.row_labels.count("load, warp 8") == 1
    start = grid.row_labels.index("load, warp 8")
    stages = 0
    while (
        start + 1 + stages < grid.rows and grid.row_labels[start + 1 + stages] == f"stage {stages}"
    ):
        stages += 1
    assert stages == max(specialised.in_flight())
    for n, event in enumerate(specialised.events):
        acting = [
            label
            for label, row in zip(grid.row_labels, grid.lines, strict=True)
            if row[n][0] and "warp" in label
        ]
        assert len(acting) >= 1
        assert (
            f"event {n}, " in grid.facts.notes[grid.row_labels.index(acting[0]) * grid.columns + n]
        )
        assert event.name in grid.facts.notes[grid.row_labels.index(acting[0]) * grid.columns + n]


def test_another_report_is_refused():
    with pytest.raises(LayoutError, match='True, False or "timeline"'):
        cute.emulate(gemm_warp_specialised, report="times")
