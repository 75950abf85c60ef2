"""The table of the GPU benchmark: its rows are consistent, ratios and verdicts are right."""

import json
import math
from pathlib import Path

import pytest

from benchmarks.gpu import harness, report, users
from benchmarks.gpu.building import Job
from benchmarks.gpu.candidates import candidates, limited
from benchmarks.gpu.cases import CUTE_DSL, GROUPS, ROWS, Goal, selected

ROOT = Path(__file__).parents[2]


def timed(name, us, mode="burst"):
    return {"kernel": name, mode: {"us": us}}


def record(row, *entries):
    return {"row": row, "entries": list(entries), "refused": {}}


def result(*records):
    return {"device": {"name": "a GPU"}, "date": "2026-11-21T00:00:00", "rows": list(records)}


def family(**us):
    """Return a result of `benchmarks.gpu.family`: (cuBLAS's time, ours) of each case."""
    return [{"case": k, "us": {"burst": {"cuBLAS": p, "ops.gemm": o}}} for k, (p, o) in us.items()]


# -- compared with an earlier result


def test_slower_rows_are_listed_by_their_ratio_to_the_peer():
    before = family(a=(100, 100), b=(50, 40), c=(10, 10), gone=(1, 1))
    after = family(a=(200, 201), b=(50, 41), c=(10, 9), new=(1, 5))
    assert report.slower(before, after) == [
        "b: 1.250 -> 1.220, 0.976 of before",
        "gone: missing",
    ]
    assert report.slower(before, before) == []


def test_slower_rows_of_the_table_are_listed():
    def table(ours, host, alone):
        return result(
            record("bf16-4096", timed("torch", 60), timed("a", ours)),
            record("host", timed("torch", 7), timed("cute_py call", host)),
            record("compile", {"kernel": "ours", "burst": {"s": alone}}),
        )

    before = table(60, 7, 0.5)
    assert report.slower(before, table(60.5, 7.05, 0.502)) == []
    lines = report.slower(before, table(61, 7.1, 0.51))
    assert [line.split(":")[0] for line in lines] == ["bf16-4096", "host", "compile"]


def test_the_command_fails_where_a_row_is_slower(tmp_path, monkeypatch, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(family(a=(100, 100))))
    new.write_text(json.dumps(family(a=(100, 102))))
    for files, status in (((new, old), 1), ((old, new), 0)):
        command = ["report", str(files[0]), "--before", str(files[1])]
        monkeypatch.setattr("sys.argv", command)
        with pytest.raises(SystemExit) as left:
            report.main()
        assert left.value.code == status
    assert "a: 1.000 -> 0.980" in capsys.readouterr().out


# -- rows


def test_rows_are_compared_with_what_there_is():
    for row in ROWS.values():
        for goal in row.goals:
            assert goal.against in {"peer", "reference", "seconds", *ROWS}, row.name
            if goal.against == "reference":
                assert row.name in CUTE_DSL
            if goal.against in ROWS:
                assert ROWS[goal.against].unit == row.unit
    assert set(CUTE_DSL) <= set(ROWS)


def test_aims_are_beyond_floors():
    for row in ROWS.values():
        for goal in row.goals:
            if None not in (goal.floor, goal.aim):
                assert (goal.aim < goal.floor) is (goal.against == "seconds")


def test_groups_hold_all_rows_and_names_are_unique():
    assert {row.group for row in ROWS.values()} == set(GROUPS)
    assert not set(GROUPS) & set(ROWS) - {"host", "compile"}
    assert len({row.name for row in ROWS.values()}) == len(ROWS)


def test_what_a_row_is_compared_with_is_measured_first():
    assert [row.name for row in selected(["majors"])] == [
        "bf16-4096",
        "bf16-4096-kn",
        "bf16-4096-mk",
        "bf16-4096-mn",
    ]
    assert [row.name for row in selected(["bf16-5000"])] == ["bf16-5120", "bf16-5000"]
    assert {row.name for row in selected([])} == set(ROWS)
    with pytest.raises(KeyError, match="nothing"):
        selected(["nothing"])


def test_work_is_counted_in_flop_or_bytes():
    assert ROWS["bf16-4096"].work == 2 * 4096**3
    assert ROWS["copy-1GiB"].work == 2 * 2**30
    assert ROWS["softmax-bf16"].work == 2 * 2 * 8192**2
    assert ROWS["sum-f32"].work == 4 * 8192**2
    assert (ROWS["s8-4096"].result, ROWS["tf32-4096"].result) == ("s32", "f32")


@pytest.mark.parametrize("name", [n for n, row in ROWS.items() if row.shape and row.kind != "host"])
def test_candidates_of_a_row_have_names_and_kernels_of_their_own(name):
    row = ROWS[name]
    made = candidates(row)
    assert len({c.label for c in made}) == len(made)
    assert 2 <= len(made) <= 7
    compiled = [c for c in made if not c.called]
    assert len({Job(c, row).key for c in compiled}) == len(compiled)
    assert {c.spill_bytes for c in limited(made, 7)} == {7}


def test_sizes_share_a_kernel_where_they_are_aligned_alike():
    small, large = ROWS["bf16-4096"], ROWS["bf16-8192"]
    candidate = candidates(small)[0]
    assert Job(candidate, small).key == Job(candidate, large).key
    assert Job(candidate, small).key != Job(candidate, ROWS["bf16-4097"]).key
    assert Job(candidate, small).key != Job(candidate, ROWS["f16-4096"]).key


# -- ratios


def test_ratio_to_the_peer_is_its_time_over_ours():
    row = ROWS["bf16-4096"]
    records = {row.name: record(row.name, timed("torch", 60), timed("a", 120), timed("b", 100))}
    assert report.ratio(row, row.goals[0], records, "burst") == pytest.approx(0.6)
    assert report.ratio(row, row.goals[0], records, "sustained") is None
    assert report.best(records[row.name], row)["kernel"] == "b"


def test_ratio_to_an_own_row_is_per_flop():
    row, base = ROWS["bf16-5000"], ROWS["bf16-5120"]
    records = {
        base.name: record(base.name, timed("a", 100.0)),
        row.name: record(row.name, timed("a", 100.0)),
    }
    assert report.ratio(row, row.goals[0], records, "burst") == pytest.approx((5000 / 5120) ** 3)
    del records[base.name]
    assert report.ratio(row, row.goals[0], records, "burst") is None


def test_ratio_to_the_reference_is_of_speeds_and_for_burst_alone():
    row = ROWS["bf16-1024"]
    us = row.work / 149e6  # as fast as the reference
    entry = timed("a", us) | {"sustained": {"us": us}}
    records = {row.name: record(row.name, entry)}
    assert report.ratio(row, row.goals[0], records, "burst") == pytest.approx(1)
    assert report.ratio(row, row.goals[0], records, "sustained") is None


def test_costs_in_time_count_the_other_way():
    host, compiled = ROWS["host"], ROWS["compile"]
    others = timed("cute_py Launcher", 2), timed("Triton, empty", 1)
    records = {"host": record("host", timed("torch", 7), timed("cute_py call", 10), *others)}
    assert report.ratio(host, host.goals[0], records, "burst") == pytest.approx(0.7)
    records["compile"] = record("compile", {"kernel": "ours", "burst": {"s": 0.8}})
    assert report.ratio(compiled, compiled.goals[0], records, "burst") == 0.8


@pytest.mark.parametrize(
    ("goal", "found", "said"),
    [
        (Goal("peer", 0.6, 0.7), 0.7, "aim"),
        (Goal("peer", 0.6, 0.7), 0.65, "floor"),
        (Goal("peer", 0.6, 0.7), 0.59, "LOST"),
        (Goal("peer", 0.6, None), 0.9, "floor"),
        (Goal("copy-1GiB", None, 0.92), 0.5, "below the aim"),
        (Goal("seconds", 1.0, 0.5), 0.4, "aim"),
        (Goal("seconds", 1.0, 0.5), 0.9, "floor"),
        (Goal("seconds", 1.0, 0.5), 1.1, "LOST"),
        (Goal("peer", 0.6, 0.7), None, "-"),
    ],
)
def test_verdicts(goal, found, said):
    assert report.verdict(goal, found) == said


# -- the table


def test_table_has_a_line_for_each_goal_and_keeps_losses():
    found = result(
        record("bf16-4096", timed("torch", 100), timed("a", 200)),
        {"row": "bf16-8192", "failed": "ValueError: wrong result"},
        record("softmax-bf16", timed("torch", 100), timed("a", 80)),
    )
    lines = report.lines(found)
    rows = ["bf16-4096", "bf16-8192", "softmax-bf16", "softmax-bf16"]
    assert [line[0] for line in lines] == rows
    assert lines[0][-1] == "LOST"
    assert "wrong result" in lines[1][1]
    assert lines[2][-1] == "floor"
    assert all(len(line) == len(report.HEADER) for line in lines)
    text = report.markdown(found)
    assert text.count("\n| ") == len(lines) + 2
    assert "LOST" in report.table(found)


def test_later_results_replace_rows_of_earlier_ones():
    first = result(record("host"), record("compile", timed("ours", 2)))
    last = result(record("compile", timed("ours", 1)))
    rows = report.merged([first, last])["rows"]
    assert [r["row"] for r in rows] == ["host", "compile"]
    assert rows[1]["entries"][0]["burst"]["us"] == 1


def test_page_has_the_marks_of_its_table():
    page = (ROOT / "docs" / "measurements.md").read_text(encoding="utf-8")
    assert page.index(report.BEGIN) < page.index(report.END)


@pytest.mark.parametrize(
    ("page", "marks"), [("performance", users.MARKS), ("attention", users.OF_ATTENTION)]
)
def test_the_pages_for_users_show_the_results(page, marks):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    shown = text.partition(marks[0])[2].partition(marks[1])[0].strip()
    fix = f"python -m benchmarks.gpu.users --write docs/{page}.md"
    assert shown == users.TABLES[marks](), fix


def test_losses_are_bold_in_the_page_for_users():
    for *_problem, speed in users.lines():
        assert speed.startswith("**") is (float(speed.strip("*x")) < 1 or speed == "**1.00x**")
    assert any(line[-1].startswith("**") for line in users.lines())


def page_of(name):
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def results(name):
    return json.loads((users.RESULTS / name).read_text(encoding="utf-8"))["rows"]


def speed_of(row, ours="ours_us", other="torch_us"):
    return row[other] / row[ours]


def times_and_speed(row):
    speed = f"{speed_of(row):.2f}"
    shown = f"**{speed}**" if float(speed) < 1 else speed
    return f"| {row['torch_us']:.1f} us | {row['ours_us']:.1f} us | {shown} |"


def test_rows_of_long_k_and_of_few_rows_are_the_results():
    page = page_of("measurements.md")
    for row in results("long_k.json"):
        shape = "x".join(map(str, row["shape"]))
        assert f"| {shape} | {row['parts']} {times_and_speed(row)}\n" in page
    for row in results("few_rows.json"):
        if row["major"] == "K":
            shape, kind = "x".join(map(str, row["shape"])), row["type"][len("torch.") :]
            short = {"bfloat16": "bf16", "float32": "f32"}[kind]
            assert f"| {shape} | {short} {times_and_speed(row)}\n" in page
    columns = [speed_of(row) for row in results("few_rows.json") if row["major"] == "N"]
    said = f"are contiguous, the same run gives {min(columns):.2f} to {max(columns):.2f}: "
    assert said in page


def test_what_is_said_of_long_k_and_of_epilogues_is_in_the_results():
    page = " ".join(page_of("measurements.md").split())
    speeds = [speed_of(row) for row in results("long_k_random.json")]
    losses = [sum(speed < limit for speed in speeds) for limit in (1, 0.95)]
    said = f"the mean is {sum(speeds) / len(speeds):.2f} of torch's speed; {losses[0]} are below 1"
    assert f"On {len(speeds)} random products" in page
    assert f"{said}, {losses[1]} below 0.95" in page
    found = {
        row["row"]: f"{speed_of(row, other='other_us'):.2f}" for row in results("epilogues.json")
    }
    first, *others = [
        found[f"8192x4096x4096 {kind} / plain"]
        for kind in ("erf-gelu", "tanh-gelu", "residual", "erf-gelu and its input")
    ]
    assert f"gelu with erf has {first}, its tanh form {others[0]}, a residual {others[1]}" in page
    assert f"gelu and its input as a second result {others[2]}" in page
    own = [float(speed) for row, speed in found.items() if row.endswith("its fields")]
    assert f"has {min(own):.2f} to {max(own):.2f} of the speed of the same epilogue" in page


# the table of docs/operators.md: its cells, and the rows of operators.json behind them
OPERATORS = {
    "transpose 8192x8192": ["transpose bfloat16 (8192, 8192)"],
    "transpose (64, 1000, 700)": ["transpose bfloat16 (64, 1000, 700)"],
    "softmax (8192, 4096), rows": ["softmax bfloat16 (8192, 4096) along -1"],
    "softmax (8192, 4096), columns": ["softmax bfloat16 (8192, 4096) along 0"],
    "softmax (65536, 128), rows": ["softmax bfloat16 (65536, 128) along -1"],
    "softmax (1024, 50257), rows": ["softmax bfloat16 (1024, 50257) along -1"],
    "softmax (16, 1000003), rows": ["softmax bfloat16 (16, 1000003) along -1"],
    "gelu, its derivative, 4096x4096": [
        "gelu bfloat16 4096x4096",
        "gelu backward bfloat16 4096x4096",
    ],
    "sum, max (8192, 4096), rows": [f"{f} bfloat16 (8192, 4096) along -1" for f in ("add", "max")],
    "sum, max (8192, 4096), columns": [
        f"{f} bfloat16 (8192, 4096) along 0" for f in ("add", "max")
    ],
    "sum, max of 2^26": [f"{f} bfloat16 (67108864,) along None" for f in ("add", "max")],
    "sum, max (32, 256, 56, 56), all but the channels": [
        f"{f} bfloat16 (32, 256, 56, 56) along (0, 2, 3)" for f in ("add", "max")
    ],
    "host time of a repeated call: transpose, softmax, sum": [
        f"host {f}" for f in ("transpose", "softmax", "sum")
    ],
    "the same with `out=`": [f"host {f} out" for f in ("transpose", "softmax", "sum")],
}


def test_figures_of_the_operators_are_the_results():
    table = page_of("operators.md").partition("| | torch / ours |")[2]
    cells = [x.strip() for line in table.splitlines()[2:9] for x in line.strip("| ").split(" | ")]
    shown = dict(zip(cells[::2], cells[1::2], strict=True))
    assert shown.keys() == OPERATORS.keys()
    speeds = {row["row"]: speed_of(row) for row in results("operators.json")}
    for name, rows in OPERATORS.items():
        for said, row in zip(shown[name].split(", "), rows, strict=True):
            digits = len(said.partition(".")[2])
            assert said == f"{speeds[row]:.{digits}f}", row


# -- the method


def test_sets_exceed_the_caches():
    assert harness.sets_needed(3 * 2 * 1024**2) >= 24
    assert harness.sets_needed(1 << 30) == 2


def test_graphs_take_milliseconds():
    assert 2 <= harness.launches(0.17, 2) * 0.17 <= 4
    assert harness.launches(1.4, 2) == 3
    assert harness.launches(0.0064, 24) * 0.0064 == pytest.approx(3, rel=0.1)
    assert harness.launches(1e-6, 2) == harness.LAUNCHES


def test_no_wrong_result_passes():
    for kind, (norm, most) in harness.TOLERANCES.items():
        assert harness.passes((norm, most), kind)
        for wrong in ((math.nan, 0), (0, math.nan), (norm * 2 + 1e-9, 0), (0, most * 2 + 1e-9)):
            assert not harness.passes(wrong, kind)


def test_tolerances_tell_types_apart():
    """One wrong element of normal numbers is about 1 over the root mean square."""
    gemms = ("bf16", "f16", "f32", "tf32", "f64", "s32")
    assert all(harness.TOLERANCES[kind][1] < 0.1 for kind in gemms)
    assert harness.TOLERANCES["f32"][0] < 3e-4  # that of TF32
    assert harness.TOLERANCES["tf32"][0] < 1.7e-3  # that of bf16
    assert harness.TOLERANCES["f16"][0] < 1.7e-3


def test_results_are_read_back(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(result(record("host", timed("cute_py call", 5)))))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write(page, report.markdown(json.loads(path.read_text())))
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after\n")
    assert "| host | 5.0 us |" in text
