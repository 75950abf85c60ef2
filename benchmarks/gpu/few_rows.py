"""Products with one row or one column against torch.mm: memory is the limit.

    python -m benchmarks.gpu.few_rows --out benchmarks/results/few_rows.json [--configs]
        [--random 20] [--seed 0]

Each product has as many matrices as the L2 cache does not hold, which take turns. Answers are
checked before. "--configs" times the other configurations of the family, too, and the best of the
tiles of tensor cores by the rule.
"""

from __future__ import annotations

import argparse
import random
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import cute_py as cute
from benchmarks.gpu.operators import drawn, on_gpu, save
from cute_py.ops import gemm_vectors

COLD = 1 << 27  # bytes that take turns
SHAPES = (
    *((1, 10240, 8192), (1, 6144, 4096), (1, 28672, 4096), (1, 4096, 4096), (1, 1024, 4096)),
    *((10240, 1, 8192), (1, 128256, 4096)),
)


def measured(shape: tuple[int, int, int], major: str, dtype: Any, tries: bool) -> dict[str, Any]:
    """Return the times of a product (microseconds), ours and torch's, after checking it; the larger
    operand is contiguous along K, or along its other mode.
    """
    M, N, K = shape
    size = max(M, N) * K * torch.tensor([], dtype=dtype).element_size()
    pairs = []
    for _ in range(max(1, min(-(-COLD // size), 40))):
        rows = max(M, N)
        wide = drawn(*((rows, K) if major == "K" else (K, rows)), dtype=dtype)
        wide = wide if major == "K" else wide.mT
        few = drawn(min(M, N), K, dtype=dtype)
        pairs.append((few, wide.mT) if M <= N else (wide, few.mT))
    out, turns = drawn(M, N, dtype=dtype), cycle(pairs)

    def ours(config: Any = None) -> Any:
        return cute.ops.gemm(*next(turns), out=out, config=config)

    def timed(config: Any = None) -> float:
        a, b = pairs[0]
        exact = a.float() @ b.float()
        found = cute.ops.gemm(a, b, out=out, config=config).float()
        error = ((found - exact).norm() / exact.norm()).item()
        assert error < 5e-3, (shape, major, config, error)
        return on_gpu(lambda: ours(config), len(pairs) if len(pairs) > 20 else 20)

    config = cute.ops.gemm_config(*pairs[0])
    both = [(on_gpu(lambda: torch.mm(*next(turns))), timed()) for _ in range(3)]
    theirs, mine = sorted(both, key=lambda x: x[0] / x[1])[1]
    found: dict[str, Any] = {"shape": shape, "major": major, "type": str(dtype)}
    found |= {"config": str(config), "torch_us": theirs, "ours_us": mine}
    if tries:
        with patch.object(gemm_vectors, "KINDS", ()):
            tiles = cute.ops.gemm_config(*pairs[0])
        found["tiles_us"] = timed(tiles)
        tried = {}
        name = "ALONG_K" if major == "K" else "ACROSS"
        for each in getattr(gemm_vectors, name):
            with patch.object(gemm_vectors, name, (each,)), patch.object(gemm_vectors, "LEAST", 0):
                made = cute.ops.gemm_config(*pairs[0])
            text = "x".join(map(str, each))
            tried[text] = round(timed(made), 2)
        found["others_us"] = tried
    return found


def main() -> None:
    """Check, time, print and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--configs", action="store_true", help="time other configurations, too")
    parser.add_argument("--random", type=int, default=0, help="so many products of any such shape")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw, rows = random.Random(options.seed), []
    work = [(x, m, torch.bfloat16) for x in SHAPES for m in "KN"]
    work += [((1, 8192, 4096), m, torch.float32) for m in "KN"]
    if options.random:
        work = []
    for _ in range(options.random):
        few, many, K = 1, 8 * draw.randint(64, 4096), 8 * draw.randint(64, 2048)
        shape = (few, many, K) if draw.random() < 0.7 else (many, few, K)
        work.append((shape, draw.choice("KN"), draw.choice((torch.bfloat16, torch.float16))))
    for shape, major, dtype in work:
        row = measured(shape, major, dtype, options.configs)
        rows.append(row)
        ratio = row["torch_us"] / row["ours_us"]
        text = " ".join(map(str, (*shape, major, row["config"].split()[1])))
        more = (row.get("tiles_us", ""), row.get("others_us", ""))
        print(f"{text:36} {row['torch_us']:8.2f} {ratio:7.3f}", *more, flush=True)
    save(options.out, rows)


if __name__ == "__main__":
    main()
