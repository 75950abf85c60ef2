"""Products whose K is long and whose D is small, against torch.mm; and the parts that help.

    python -m benchmarks.gpu.long_k --out benchmarks/results/long_k.json [--random 40] [--parts]

`on_gpu` is that of `benchmarks.gpu.operators`, by turns; `--parts` tries other numbers of parts.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import torch

import cute_py as cute
from benchmarks.gpu.operators import drawn, on_gpu, save

SHAPES = (
    *((256, 256, 65536), (64, 64, 65536), (128, 128, 32768), (256, 512, 16384)),
    *((512, 512, 65536), (256, 1024, 32768), (1024, 1024, 16384), (2048, 64, 8192)),
    *((16, 14336, 4096), (128, 6144, 4096), (64, 11008, 4096), (16, 1536, 2048)),
    *((1024, 1536, 2048), (512, 4096, 14336), (384, 384, 12288), (96, 160, 40960)),
)


def measured(shape: tuple[int, int, int], others: bool) -> dict[str, Any]:
    """Return the times of a product (microseconds), ours and torch's, after checking it."""
    M, N, K = shape
    a, b, out = drawn(M, K), drawn(N, K).mT, drawn(M, N)
    exact = a.float() @ b.float()
    config = cute.ops.gemm_config(a, b)

    def ours(text: str | None = None) -> Any:
        return cute.ops.gemm(a, b, out=out, config=text)

    error = ((ours().float() - exact).norm() / exact.norm()).item()
    assert error < 5e-3, (shape, error)
    pairs = [(on_gpu(lambda: torch.mm(a, b)), on_gpu(ours)) for _ in range(3)]
    theirs, mine = sorted(pairs, key=lambda x: x[0] / x[1])[1]
    found = {"shape": shape, "parts": config.parts.products, "torch_us": theirs, "ours_us": mine}
    if others:
        tried = {}
        for parts in (1, 2, 4, 8, 16, 32, 64):
            if K % (8 * parts) == 0 and K // parts >= 256:
                tried[parts] = round(on_gpu(lambda p=parts: ours(f"split=parallel:{p}")), 1)
        found["by_parts_us"] = tried
    return found


def main() -> None:
    """Check, time, print and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--random", type=int, default=0, help="so many products of any such shape")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    options = parser.parse_args()
    draw, rows = random.Random(options.seed), []
    shapes = [*SHAPES] if not options.random else []
    for _ in range(options.random):
        m, n = (8 * draw.randint(2, 64) for _ in "mn")
        shapes.append((m, n, 1024 * draw.randint(4, 64)))
    for shape in shapes:
        row = measured(shape, options.parts)
        rows.append(row)
        ratio = row["torch_us"] / row["ours_us"]
        text = " ".join(map(str, shape))
        more = row.get("by_parts_us", "")
        print(f"{text:22} {row['parts']:4} {row['torch_us']:8.2f} {ratio:7.3f} {more}", flush=True)
    save(options.out, rows)


if __name__ == "__main__":
    main()
