"""Tiled operations: partition a 128x128x64 tile with 256 threads, and read one thread's layouts.

The partitions are checked (they cover A, B and C) before anything is timed. A figure is the best of
many rounds.

    python benchmarks/bench_tiled.py [--rounds 200]
"""

import argparse
import gc
import sys
from pathlib import Path
from time import perf_counter_ns

sys.path.insert(0, str(Path(__file__).parents[1]))

import cute_py as cute
from benchmarks.report import save, table
from cute_py.atoms.copy import Copy_Atom
from cute_py.tiled.coverage import coverage
from cute_py.tiled.suggest import suggest_tiled_copy
from cute_py.tiled.tiled_copy import make_tiled_copy_A, make_tiled_copy_B
from cute_py.tiled.tiled_mma import make_tiled_mma

LIMIT_MS = 2.0
ATOM = "SM80_16x8x16_F32BF16BF16F32_TN"
M, N, K = 128, 128, 64


def make():
    return make_tiled_mma(ATOM, (2, 4, 1), (32, 64, 16))


def tensors():
    """Return A, B (K-major) and C (row-major) as layouts."""
    return (
        cute.Layout((M, K), (K, 1)),
        cute.Layout((N, K), (K, 1)),
        cute.Layout((M, N), (N, 1)),
    )


def partition(mma, a, b, c, thread=37):
    """Return one thread's parts and fragments of A, B and C."""
    part = mma.get_slice(thread)
    parts = part.partition_A(a), part.partition_B(b), part.partition_C(c)
    fragments = (
        part.make_fragment_A(parts[0][0]),
        part.make_fragment_B(parts[1][0]),
        part.make_fragment_C(parts[2][0]),
    )
    return parts, fragments


def read(mma):
    """Return the thread-value layouts, and the layouts of one thread as text."""
    tv = mma.get_layoutA_TV(), mma.get_layoutB_TV(), mma.get_layoutC_TV()
    parts, fragments = partition(mma, *tensors())
    return [str(x) for x in (*tv, *[layout for layout, _ in parts], *fragments)]


def staged(mma):
    """Return what a kernel partitions: global loads, ldmatrix of A and B, and the MMA."""
    a, b, c = tensors()
    load = suggest_tiled_copy((M, K), "bf16", 256).get_slice(37)
    smem = cute.make_composed_layout(cute.Swizzle(3, 3, 3), 0, a)
    atom = Copy_Atom("SM75_U32x4_LDSM_N", "bf16")
    lds_a = make_tiled_copy_A(atom, mma).get_slice(37)
    lds_b = make_tiled_copy_B(atom, mma).get_slice(37)
    return (
        load.partition_S(a),
        load.partition_D(smem),
        lds_a.partition_S(smem),
        lds_b.partition_S(smem),
        partition(mma, a, b, c),
    )


def make_copy():
    """Return a copy of 128 threads that each move 16 bytes."""
    atom = Copy_Atom("UniversalCopy<128>", "f16")
    return cute.make_tiled_copy(atom, cute.Layout((16, 8), (8, 1)), cute.Layout((1, 8)))


def source():
    """Return a tile of 128x128 elements, plain and swizzled."""
    plain = cute.Layout((128, 128), (128, 1))
    return plain, cute.make_composed_layout(cute.Swizzle(3, 3, 3), 0, plain)


def best_ms(function, rounds):
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter_ns()
        function()
        best = min(best, perf_counter_ns() - start)
    return best / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    mma = make()
    assert mma.size() == 256
    assert coverage(mma, (M, N, K)).exact
    assert mma.partition_shape_C((M, N)) == ((2, 2), 4, 4)
    gc.disable()
    a, b, c = tensors()
    part = mma.get_slice(37)
    figures = {
        "partition A, B, C and read all layouts": lambda: read(mma),
        "  of these: partition and fragments": lambda: partition(mma, a, b, c),
        "    partition_A": lambda: part.partition_A(a),
        "    partition_B": lambda: part.partition_B(b),
        "    partition_C": lambda: part.partition_C(c),
        "  of these: get_layoutA_TV": mma.get_layoutA_TV,
        "  of these: get_layoutC_TV": mma.get_layoutC_TV,
        "make_tiled_mma": make,
        "loads, ldmatrix and MMA of a kernel": lambda: staged(mma),
    }
    measured = {title: best_ms(function, rounds) for title, function in figures.items()}
    table(("step", "ms"), [(title, f"{ms:.3f}") for title, ms in measured.items()])
    plain, swizzled = source()
    copy = make_copy()
    assert copy.size() == 128
    assert coverage(copy)["S"].exact
    one = copy.get_slice(5)
    limits = {
        "make_tiled_copy": (60, make_copy),
        "one thread's partition of 128x128": (100, lambda: one.partition_S(plain)),
        "the same, swizzled": (100, lambda: one.partition_S(swizzled)),
        "the same, of a copy made anew": (
            None,
            lambda: make_copy().get_slice(5).partition_S(plain),
        ),
    }
    costs = {title: 1000 * best_ms(function, rounds) for title, (_, function) in limits.items()}
    print()
    table(
        ("step", "us", "limit"),
        [(title, f"{us:.1f}", limits[title][0] or "-") for title, us in costs.items()],
    )
    first = next(iter(measured.values()))
    print(f"\npartitioning and reading: {first:.3f} ms, limit {LIMIT_MS} ms")
    rows = {**measured, **{title: us / 1000 for title, us in costs.items()}}
    save("tiled", {"unit": "milliseconds, best of rounds", "rounds": rounds, "rows": rows})


if __name__ == "__main__":
    main()
