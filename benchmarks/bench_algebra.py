"""The layout algebra against pycute, interleaved in one process: five operations on five layouts,
and what kernels do more of, each with a limit of its own.

Cold: neither library remembers a result (checked: two calls give two objects), so every call does
its work, exact checks included. Answers are compared before anything is timed. A figure is the best
of many rounds; in each round our calls and pycute's take turns.

    python benchmarks/bench_algebra.py [--rounds 40]
"""

import argparse
import gc
import sys
from pathlib import Path
from time import perf_counter_ns

import pycute

sys.path.insert(0, str(Path(__file__).parents[1]))

import cute_py as cute
from benchmarks.report import save, table

LIMIT = 0.8  # of pycute's time
CALLS = 100  # a round times so many calls in a row

LAYOUTS = {
    "row-major 128x64": ((128, 64), (64, 1)),
    "nested tile": (((16, 8), (8, 8)), ((1, 128), (16, 1024))),
    "thread-value": (((4, 8), (2, 2)), ((32, 1), (16, 8))),
    "5 flat modes": ((4, 2, 8, 3, 5), (1, 4, 8, 64, 192)),
    "column-major 1024x1024": ((1024, 1024), (1, 1024)),
}

# operation -> its operands, made of a library's own Layout
OPERATIONS = {
    "composition with 4:2": ("composition", lambda lib, layout: (layout, lib.Layout(4, 2))),
    "complement of 4:2 in 64": ("complement", lambda lib, layout: (lib.Layout(4, 2), 64)),
    "logical_divide by 4:2": ("logical_divide", lambda lib, layout: (layout, lib.Layout(4, 2))),
    "coalesce": ("coalesce", lambda lib, layout: (layout,)),
    "right_inverse": ("right_inverse", lambda lib, layout: (layout,)),
}


ROW = ((128, 64), (64, 1))
NESTED = (((4, 8), (2, 2)), ((32, 1), (16, 8)))
VOLUME = ((512, 256, 16), (256, 1, 131072))
MATRIX = ((512, 256), (256, 1))
BLOCK = ((8, 8), (8, 1))
SIX = ((2, 4, 2, 8, 4, 2), (64, 1, 4, 8, 256, 128))
FOUR = ((16, 8, 4, 32), (1024, 1, 8, 32))


def tiles(lib):
    """Return a tiler of two layouts."""
    return lib.Layout(128, 2), lib.Layout((8, 8), (1, 16))


# expression -> at most so much of pycute's time, and what makes the operation and operands of a
# library
KERNELS = {
    "layout(m, n), flat": (0.6, lambda lib: (lib.Layout(*ROW), 5, 3)),
    "layout(m, n), nested": (0.8, lambda lib: (lib.Layout(*NESTED), 5, 3)),
    "zipped_divide, 3-D, by a tuple": (
        0.5,
        lambda lib: (lib.zipped_divide, lib.Layout(*VOLUME), (128, 64, 1)),
    ),
    "tiled_divide, 3-D, by a tuple": (
        0.5,
        lambda lib: (lib.tiled_divide, lib.Layout(*VOLUME), (128, 64, 1)),
    ),
    "logical_divide, 3-D, by a tuple": (
        0.5,
        lambda lib: (lib.logical_divide, lib.Layout(*VOLUME), (128, 64, 1)),
    ),
    "zipped_divide by two layouts": (
        0.6,
        lambda lib: (lib.zipped_divide, lib.Layout(*MATRIX), tiles(lib)),
    ),
    "composition with two layouts": (
        0.6,
        lambda lib: (lib.composition, lib.Layout(*MATRIX), tiles(lib)),
    ),
    "tiled_product": (
        0.9,
        lambda lib: (lib.tiled_product, lib.Layout(*BLOCK), lib.Layout((4, 4), (4, 1))),
    ),
    "logical_product": (
        0.9,
        lambda lib: (lib.logical_product, lib.Layout(*BLOCK), lib.Layout((4, 4), (4, 1))),
    ),
    "right_inverse of 6 modes": (0.5, lambda lib: (lib.right_inverse, lib.Layout(*SIX))),
    "left_inverse of 6 modes": (0.5, lambda lib: (lib.left_inverse, lib.Layout(*SIX))),
    "composition, 4 modes": (
        0.5,
        lambda lib: (
            lib.composition,
            lib.Layout(*FOUR),
            lib.Layout((8, 4, 4, 2), (1, 128, 16, 64)),
        ),
    ),
}


def leaves(x):
    return [leaf for mode in x for leaf in leaves(mode)] if isinstance(x, tuple) else [x]


def table_of(layout):
    """Return the first offsets of a layout of either library."""
    offsets = [0]
    for extent, stride in zip(leaves(layout.shape), leaves(layout.stride), strict=True):
        offsets = [offset + i * stride for i in range(extent) for offset in offsets][:4096]
    return offsets


def prepare(name, make_operands, shape, stride):
    """Return (our call, pycute's call), checked to agree and to do their work every time."""
    calls = []
    for library in (cute, pycute):
        operation = getattr(library, name)
        operands = make_operands(library, library.Layout(shape, stride))
        assert operation(*operands) is not operation(*operands)
        calls.append((operation, operands))
    ours, theirs = (operation(*operands) for operation, operands in calls)
    assert table_of(ours) == table_of(theirs), (
        f"{name} on {shape}:{stride}: {ours}, pycute {theirs}"
    )
    return calls


def microseconds(operation, operands, calls=CALLS):
    """Return the time of one call."""
    loop = range(calls)
    start = perf_counter_ns()
    for _ in loop:
        operation(*operands)
    return (perf_counter_ns() - start) / calls / 1000


def compare(rounds):
    """Yield (operation, layout, our best time, pycute's best time) in microseconds."""
    for title, (name, make_operands) in OPERATIONS.items():
        for label, (shape, stride) in LAYOUTS.items():
            calls = prepare(name, make_operands, shape, stride)
            best = [float("inf")] * 2
            for _ in range(rounds):
                for k, call in enumerate(calls):
                    best[k] = min(best[k], microseconds(*call))
            yield title, label, *best


def compare_kernels(rounds):
    """Yield (expression, limit, our best time, pycute's best time) in microseconds."""
    for title, (limit, make) in KERNELS.items():
        calls = [(first, tuple(rest)) for first, *rest in (make(cute), make(pycute))]
        ours, theirs = (operation(*operands) for operation, operands in calls)
        if isinstance(ours, int):
            assert ours == theirs, title
        else:
            assert table_of(ours) == table_of(theirs), f"{title}: {ours}, pycute {theirs}"
        best = [float("inf")] * 2
        for _ in range(rounds):
            for k, call in enumerate(calls):
                best[k] = min(best[k], microseconds(*call))
        yield title, limit, *best


def offsets_of_a_million(rounds):
    """Return the best time, in milliseconds, of all offsets of 10^6 coordinates, once warm."""
    layout = cute.Layout(((10, 100), (100, 10)), ((1, 1000), (10, 100000)))
    found = layout.offsets()
    assert found.size == 10**6
    assert [int(found[i]) for i in (0, 1, 10, 1000, 10**6 - 1)] == [
        layout(i) for i in (0, 1, 10, 1000, 10**6 - 1)
    ]
    return min(microseconds(layout.offsets, (), 1) for _ in range(rounds)) / 1000


def composition_of_a_million(rounds):
    """Return the best time, in microseconds, of composing a mode of 2^20 values."""
    a, b = cute.Layout((2**20, 2**20), (1, 2**20 + 3)), cute.Layout(2**20, 2**10)
    result = cute.composition(a, b)
    assert str(result) == "(1024,1024):(1024,1048579)"
    assert all(result(i) == a(b(i)) for i in range(0, 2**20, 4099))
    return min(microseconds(cute.composition, (a, b)) for _ in range(rounds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    gc.disable()
    rows = list(compare(rounds))
    ratios = [ours / theirs for _, _, ours, theirs in rows]
    table(
        ("operation", "layout", "cute_py us", "pycute us", "ratio"),
        [
            (*r[:2], f"{r[2]:.2f}", f"{r[3]:.2f}", f"{q:.2f}")
            for r, q in zip(rows, ratios, strict=True)
        ],
    )
    over = sum(ratio > LIMIT for ratio in ratios)
    print(
        f"\nworst ratio {max(ratios):.2f}, limit {LIMIT}, over the limit: {over} of {len(ratios)}"
    )
    kernels = list(compare_kernels(rounds))
    print()
    table(
        ("expression", "cute_py us", "pycute us", "ratio", "limit"),
        [(title, f"{a:.2f}", f"{b:.2f}", f"{a / b:.2f}", limit) for title, limit, a, b in kernels],
    )
    slow = sum(a / b > limit for _, limit, a, b in kernels)
    print(f"\nover the limit: {slow} of {len(kernels)}")
    million = offsets_of_a_million(rounds)
    composing = composition_of_a_million(rounds)
    print(f"offsets() of 10^6 coordinates, warm: {million:.2f} ms (limit 5)")
    print(f"composition with a mode of 2^20 values: {composing:.1f} us")
    save(
        "algebra",
        {
            "unit": "microseconds a call, best of rounds",
            "rounds": rounds,
            "rows": [
                {"operation": r[0], "layout": r[1], "cute_py": r[2], "pycute": r[3], "ratio": q}
                for r, q in zip(rows, ratios, strict=True)
            ],
            "kernels": [
                {"expression": title, "cute_py": a, "pycute": b, "ratio": a / b, "limit": limit}
                for title, limit, a, b in kernels
            ],
            "offsets_of_a_million_ms": million,
            "composition_of_2_to_20_us": composing,
        },
    )


if __name__ == "__main__":
    main()
