"""bf16 and f16 products on a GPU by mma.sync, against torch (cuBLAS) in the same process.

Each configuration is checked on poisoned outputs before and after it is timed. Operands are random
normal numbers, in sets that are rotated so that they exceed the second-level cache. A measurement
is the median of replays of a CUDA graph of several launches, after 50 ms of rest (burst).

    python benchmarks/gpu_gemm.py --out FILE [--sizes 4096 8192]
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time

import cute_py as cute
from cute_py import _
from cute_py.codegen.build import compile
from cute_py.codegen.launch import Launcher

ROTATED_BYTES = 150 << 20
REST = 0.05  # seconds before a replay
ROUNDS = 7

# tile, stages, warps, height of a band of tiles of M (0: plain grid)
VARIANTS = [
    ((128, 128, 64), 3, (2, 2), 0),
    ((128, 128, 64), 3, (2, 2), 16),
    ((128, 256, 64), 3, (2, 4), 0),
    ((128, 256, 64), 3, (2, 4), 8),
    ((128, 256, 64), 4, (2, 4), 16),
    ((256, 128, 64), 3, (4, 2), 0),
    ((256, 128, 64), 3, (4, 2), 8),
    ((256, 128, 64), 4, (4, 2), 8),
]


@cute.kernel
def gemm(A, B, C, tile, stages, warps, band):  # type: ignore[no-untyped-def]
    """C (M,N) = A (M,K) * B (N,K) transposed."""
    (bM, bN, bK), (M, N) = tile, C.shape
    name = {"bf16": "BF16", "f16": "F16"}[str(A.dtype)]
    atom = f"SM80_16x8x16_F32{name}{name}F32_TN"
    mma = cute.make_tiled_mma(atom, (*warps, 1), (warps[0] * 16, warps[1] * 16, 16))
    m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    if band:  # blocks that run together cover a band of tiles of M; tiles beyond M do nothing
        cute.launch(grid=cute.ceil_div(m, band) * band * n, block=mma.size())
        bid = cute.block_idx()
        bx = bid // (band * n) * band + bid % band
        by = bid % (band * n) // band
    else:
        cute.launch(grid=(m, n), block=mma.size())
        bx, by = cute.block_idx()
    tid = cute.thread_idx()
    gA = cute.local_tile(A, (bM, bK), (bx, _))  # (BM,BK,k)
    gB = cute.local_tile(B, (bN, bK), (by, _))  # (BN,BK,k)
    gC = cute.local_tile(C, (bM, bN), (bx, by))  # (BM,BN)
    swizzle = cute.composition(cute.Swizzle(3, 3, 3), cute.Layout((8, bK), (bK, 1)))
    sA = cute.smem(A.dtype, cute.tile_to_shape(swizzle, (bM, bK, stages)))
    sB = cute.smem(B.dtype, cute.tile_to_shape(swizzle, (bN, bK, stages)))
    rows = cute.Layout((mma.size() // (bK // 8), bK // 8), (bK // 8, 1))
    copy = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", A.dtype)
    g2s = cute.make_tiled_copy(copy, rows, cute.Layout((1, 8)))
    ldsm = cute.Copy_Atom("SM75_U32x4_LDSM_N", A.dtype)
    tCgC = mma.get_slice(tid).partition_C(gC)
    acc = mma.get_slice(tid).make_fragment_C(tCgC)
    acc.fill(0)
    a = cute.Operand(gA, sA, g2s, cute.make_tiled_copy_A(ldsm, mma))
    b = cute.Operand(gB, sB, g2s, cute.make_tiled_copy_B(ldsm, mma))
    cute.mainloop(mma, acc, a, b)
    cute.copy(acc.to(C.dtype), tCgC)


def timed(torch, launch, sets):  # type: ignore[no-untyped-def]
    """Return the milliseconds of one launch: the median of graph replays after a rest."""
    for operands in sets:
        launch(*operands)
    torch.cuda.synchronize()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    launch(*sets[0])
    stop.record()
    torch.cuda.synchronize()
    count = max(len(sets), min(40, int(3 / max(start.elapsed_time(stop), 1e-3)) + 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for operands in itertools.islice(itertools.cycle(sets), count):
            launch(*operands)
    times = []
    for _round in range(ROUNDS):
        time.sleep(REST)
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / count)
    return sorted(times)[len(times) // 2]


def measure(torch, size, kind):  # type: ignore[no-untyped-def]
    """Yield one row for each variant of one size, in random order, after that of torch."""
    dtype = getattr(torch, {"bf16": "bfloat16", "f16": "float16"}[kind])
    count = max(2, -(-ROTATED_BYTES // (3 * 2 * size * size)))
    sets = [
        (
            torch.randn(size, size, device="cuda", dtype=dtype),
            torch.randn(size, size, device="cuda", dtype=dtype),
            torch.empty(size, size, device="cuda", dtype=dtype),
        )
        for _ in range(count)
    ]
    peer = timed(torch, lambda a, b, c: torch.matmul(a, b.T, out=c), sets)
    flop = 2 * size**3 / 1e9
    yield {"size": size, "dtype": kind, "kernel": "torch", "tflops": flop / peer}
    wanted = [torch.matmul(a, b.T).float() for a, b, _c in sets]
    for variant in random.sample(VARIANTS, len(VARIANTS)):
        row = {"size": size, "dtype": kind, "kernel": str(variant)}
        try:
            began = time.perf_counter()
            plan = cute.trace(gemm, *sets[0], *variant)
            traced = time.perf_counter()
            compiled = compile(plan, "sm_90a", spill_bytes=64)
            row |= {"trace_s": traced - began, "compile_s": time.perf_counter() - traced}
            run = Launcher(compiled)

            def launch(a, b, c, run=run):  # type: ignore[no-untyped-def]
                run(a, b, c, stream=torch.cuda.current_stream().cuda_stream)

            row["error"] = checked(torch, launch, sets, wanted)
            spent = timed(torch, launch, sets)
            row["error_after"] = checked(torch, launch, sets, wanted)
            row |= {"tflops": flop / spent, "ratio": peer / spent}
            row |= {"registers": compiled.resources.registers}
            row |= {"spill_bytes": compiled.resources.spill_bytes}
        except cute.CuteError as error:
            row["refused"] = error.code
        yield row


def checked(torch, launch, sets, wanted):  # type: ignore[no-untyped-def]
    """Return the largest relative Frobenius error over all sets, outputs poisoned before."""
    worst = 0.0
    for (a, b, c), right in zip(sets, wanted, strict=True):
        c.fill_(float("nan"))
        launch(a, b, c)
        torch.cuda.synchronize()
        worst = max(worst, float((c.float() - right).norm() / right.norm()))
    if not worst < 2e-2:
        raise SystemExit(f"wrong result: relative error {worst}")
    return worst


def main() -> None:
    """Measure, print a table, and write all rows as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--dtypes", nargs="+", default=["bf16"])
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        sys.exit("no GPU")
    torch.cuda.init()
    rows = []
    for size, kind in itertools.product(options.sizes, options.dtypes):
        for row in measure(torch, size, kind):
            rows.append(row)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(shown, flush=True)
    device = torch.cuda.get_device_properties(0)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"device": device.name, "mode": "burst", "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
