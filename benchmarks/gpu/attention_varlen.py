"""`cute.ops.attention_varlen` against FlashAttention-2 of torch, and our own for one length.

    python -m benchmarks.gpu.attention_varlen --out benchmarks/results/attention_varlen.json
    python -m benchmarks.gpu.attention_varlen --dry     (compiles; needs no GPU)

Each answer is checked first against float64, by sequence, twice. "dense" is `cute.ops.attention` of
4 batches of 4096 rows with the same heads. Figures are TFLOP/s (half of the products where causal);
ratios are to FlashAttention-2, and to dense. Times as in `benchmarks.gpu.attention`.
"""

from __future__ import annotations

import argparse
import random
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from benchmarks.gpu.attention import MOST, ROUNDS, require_right, timed
from cute_py.ops import attention, attention_varlen
from cute_py.ops.without_gpu import Outline, gpu_of, outlined

if TYPE_CHECKING:
    from collections.abc import Callable

DENSE = 4, 4096  # batches, rows


class Case(NamedTuple):
    """A problem: sequences of random lengths."""

    dim: int
    causal: bool
    count: int = 16
    least: int = 256
    most: int = 4096
    heads: int = 16
    shared: int = 1
    kind: str = "bf16"

    def __str__(self) -> str:
        way = "causal" if self.causal else "full"
        sizes = f"{self.count} of {self.least}..{self.most} h{self.heads}"
        shared = f" shared {self.shared}" if self.shared > 1 else ""
        return f"d{self.dim} {way} {sizes} {self.kind}{shared}"

    @property
    def lengths(self) -> list[int]:
        """The length of each sequence."""
        rng = random.Random(0)
        return [rng.randint(self.least, self.most) for _i in range(self.count)]


BOTH = (False, True)
CASES = [
    *(Case(d, causal) for d in (128, 64) for causal in BOTH),
    *(Case(128, causal, 16, 2048, 2048) for causal in BOTH),
    *(Case(128, causal, 64, 1, 512) for causal in BOTH),
    Case(128, True, heads=64, shared=8),
    Case(128, False, kind="f16"),
]


def dry(case: Case) -> str:
    """Compile a case for an H200, and return its resources."""
    rows, starts = sum(case.lengths), Outline.compact((case.count + 1,), cute.dtype("s32"))
    heads = case.heads, case.heads // case.shared, case.heads // case.shared
    given = [Outline.compact((rows, n, case.dim), cute.dtype(case.kind)) for n in heads]
    named = {"causal": case.causal, "backend": "gpu"}
    operator, request = attention_varlen.operator.requested(*given, starts, starts, **named)
    call = outlined(operator, request, gpu_of("sm_90a"))
    return f"{case}: {call.config}; {cute.compile(call.plan(), 'sm_90a').resources}"


def reference(q: Any, k: Any, v: Any, case: Case, starts: list[int]) -> Any:
    """Return the answer in float64, a head of a sequence at a time."""
    import torch

    out = torch.empty(q.shape, dtype=torch.float64, device="cuda")
    for a, b in pairwise(starts):
        unseen = torch.ones((b - a, b - a), dtype=torch.bool, device="cuda").triu(1)
        for h in range(case.heads):
            x, y, z = (
                x[a:b, n].double() for x, n in ((q, h), *((x, h // case.shared) for x in (k, v)))
            )
            s = (x @ y.T) * case.dim**-0.5
            if case.causal:
                s.masked_fill_(unseen, -float("inf"))
            out[a:b, h] = torch.softmax(s, -1) @ z
    return out


def flops_of(case: Case, lengths: list[int]) -> int:
    """Return the operations of both products."""
    return 4 * case.heads * case.dim * sum(n * n for n in lengths) // (2 if case.causal else 1)


def measured(case: Case) -> dict[str, Any]:
    """Return what was measured of a case."""
    import torch

    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[case.kind]
    torch.manual_seed(0)
    starts = [0, *accumulate(case.lengths)]
    at = torch.tensor(starts, dtype=torch.int32, device="cuda")
    few = case.heads // case.shared

    def array(*shape: int) -> Any:
        return torch.randn(shape, device="cuda").to(kind)

    q, k, v = (array(starts[-1], n, case.dim) for n in (case.heads, few, few))
    batches, rows = DENSE
    dense = [array(batches, rows, n, case.dim) for n in (case.heads, few, few)]
    out, longest = torch.empty_like(q), max(case.lengths)
    fa2 = torch.ops.aten._flash_attention_forward

    def ours() -> Any:
        return attention_varlen(q, k, v, at, at, longest, longest, causal=case.causal, out=out)

    def poisoned() -> Any:
        out.fill_(float("nan"))
        return ours()

    def theirs() -> Any:
        return fa2(q, k, v, at, at, longest, longest, 0.0, case.causal, False)[0]

    wanted = reference(q, k, v, case, starts)
    checks: dict[str, Callable[[], Any]] = {"ours": poisoned, "FA2": theirs}
    errors = {x: require_right(x, run, wanted, MOST[case.kind]) for x, run in checks.items()}
    runs = {"ours": ours, "FA2": theirs}
    runs["dense"] = lambda: attention(*dense, causal=case.causal)
    flops = dict.fromkeys(runs, flops_of(case, case.lengths))
    flops["dense"] = flops_of(case, [rows] * batches)
    found = timed(runs)
    table = {
        name: {
            "error": errors.get(name, 0.0),
            **{f"{way} us": x for way, x in times.items()},
            **{way: flops[name] / x / 1e6 for way, x in times.items()},
        }
        for name, times in found.items()
    }
    for way in ROUNDS:
        rates = {name: row[way] for name, row in table.items()}
        ratios = ", ".join(f"{x} {rates['ours'] / rates[x]:.3f}" for x in ("FA2", "dense"))
        print(f"  {way:9} ours {rates['ours']:.0f} TFLOP/s; over {ratios}", flush=True)
    return {"case": str(case), "rows": table}


def main() -> None:
    """Measure, or compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", nargs="*", default=[], help="words that a case's name has")
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    options = parser.parse_args()
    chosen = [x for x in CASES if all(word in str(x) for word in options.cases)]
    if options.dry:
        for case in chosen:
            print(dry(case), flush=True)
        return
    if options.out is None:
        parser.error("--out or --dry is needed")
    from benchmarks.gpu.operators import save

    found: list[dict[str, Any]] = []
    for case in chosen:
        print(case, flush=True)
        found.append(measured(case))
        save(options.out, found)


if __name__ == "__main__":
    main()
