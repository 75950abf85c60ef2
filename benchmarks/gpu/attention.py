"""`cute.ops.attention` against torch's SDPA: cuDNN, FlashAttention-2 and efficient, forced.

    python -m benchmarks.gpu.attention --out benchmarks/results/attention.json [--cases WORD ...]
    python -m benchmarks.gpu.attention --dry [--cases WORD ...]     (compiles; needs no GPU)

Each answer is checked first, twice, into a poisoned output: against float64, and bit for bit. Then
all are timed in one process, in graphs of about 3 ms in random order: "burst" after 40 ms of rest,
the median of 7 rounds, "sustained" without a rest, the median of 24. Figures are TFLOP/s (half of
the products where causal), and ratios to cuDNN. `--config` gives other configurations of ours, and
`--warps` those of the family for other GPUs, whose peer is FA2, and the example's kernel.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from cute_py.kernels.fused_attention import choose, fused_attention
from cute_py.ops import attention
from cute_py.ops.without_gpu import Outline, gpu_of, outlined

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = {"burst": 7, "sustained": 24}
GRAPH = 3.0  # milliseconds, about
MOST = {"f16": 5e-3, "bf16": 4e-2, "f32": 1e-5}  # of the relative error


class Case(NamedTuple):
    """A problem: sizes, and options of `cute.ops.attention` by name; `None` stands for an array."""

    dim: int
    causal: bool
    batch: int = 4
    heads: int = 16
    rows: int = 4096
    shared: int = 1
    kind: str = "f16"
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        way, more = "causal" if self.causal else "full", "".join(f" {x}" for x, _y in self.options)
        sizes = f"b{self.batch} h{self.heads} s{self.rows}"
        shared = f" shared {self.shared}" if self.shared > 1 else ""
        return f"d{self.dim} {way} {sizes} {self.kind}{shared}{more}"


BOTH = (False, True)
CASES = [
    *(Case(d, causal, kind=kind) for d in (128, 64) for causal in BOTH for kind in ("f16", "bf16")),
    *(Case(128, causal, 1, 16, 16384) for causal in BOTH),
    *(Case(d, causal, 16, 16, 1024) for d in (128, 64) for causal in BOTH),
    *(Case(d, causal) for d in (96, 192, 256) for causal in BOTH),
    *(Case(d, causal, options=(("exact", True),)) for d in (128, 64) for causal in BOTH),
    Case(128, False, options=(("return_lse", True),)),
    Case(128, True, heads=64, batch=1, shared=8),
    Case(128, False, options=(("window", (1024, 0)),), rows=8192, batch=2),
    Case(128, False, options=(("softcap", 30.0),)),
    Case(128, False, options=(("bias", None),)),
    Case(128, True, options=(("alibi_slopes", None),)),
]
# the family for other GPUs, in its own tiles and in others: its aim is FA2's time
WARPS = (
    "family=warps",
    "family=warps,queries=128,keys=32,warps=4",
    "family=warps,queries=64,keys=64,warps=4",
    "family=warps,queries=128,keys=64,warps=8",
    "family=warps,queries=128,keys=64,warps=8,stages=3",
)


def options_of(case: Case, array: Callable[..., Any]) -> dict[str, Any]:
    """Return the options of our operator; `array(shape, kind)` makes those that are arrays."""
    named: dict[str, Any] = {"layout": "BHMK", **dict(case.options)}
    if case.causal:
        named["causal"] = "bottom_right"
    if "bias" in named:
        named["bias"] = array((1, case.heads, case.rows, case.rows), case.kind)
    if "alibi_slopes" in named:
        named["alibi_slopes"] = array((case.heads,), "f32")
    return named


def shapes_of(case: Case) -> list[tuple[int, ...]]:
    """Return the shapes of Q, K and V."""
    heads = case.heads, case.heads // case.shared, case.heads // case.shared
    return [(case.batch, n, case.rows, case.dim) for n in heads]


def dry(case: Case, config: str | None) -> str:
    """Compile a case for an H200, and return its resources."""

    def outline(shape: tuple[int, ...], kind: str) -> Outline:
        return Outline.compact(shape, cute.dtype(kind))

    given = [outline(x, case.kind) for x in shapes_of(case)]
    named = {**options_of(case, outline), "backend": "gpu", "config": config}
    operator, request = attention.operator.requested(*given, **named)
    call = outlined(operator, request, gpu_of("sm_90a"))
    return f"{case}: {call.config}; {cute.compile(call.plan(), 'sm_90a').resources}"


def reference(q: Any, k: Any, v: Any, case: Case, named: dict[str, Any]) -> Any:
    """Return the answer in float64, a head at a time."""
    import torch

    out = torch.empty(q.shape, dtype=torch.float64, device="cuda")
    i, j = torch.arange(case.rows, device="cuda")[:, None], torch.arange(case.rows, device="cuda")
    left, right = named.get("window", (-1, -1))
    right = 0 if case.causal else right
    unseen = ((j > i + right) & (right >= 0)) | ((j < i - left) & (left >= 0))
    for b in range(case.batch):
        for h in range(case.heads):
            g = h // case.shared
            s = (q[b, h].double() @ k[b, g].double().T) * case.dim**-0.5
            if "softcap" in named:
                s = named["softcap"] * torch.tanh(s / named["softcap"])
            if "bias" in named:
                s += named["bias"][0, h].double()
            if "alibi_slopes" in named:
                s -= named["alibi_slopes"][h].double() * (i - j).abs()
            s.masked_fill_(unseen, -math.inf)
            out[b, h] = torch.softmax(s, -1) @ v[b, g].double()
    return out


def peers(q: Any, k: Any, v: Any, case: Case, named: dict[str, Any]) -> dict[str, Any]:
    """Return torch's backends that compute a case, by name."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if set(named) - {"layout", "causal", "exact", "return_lse", "bias"}:
        return {}
    options = {"is_causal": case.causal, "attn_mask": named.get("bias")}
    options["enable_gqa"] = case.shared > 1

    def forced(backend: Any) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

        return run

    names = {
        "cuDNN": "CUDNN_ATTENTION",
        "FA2": "FLASH_ATTENTION",
        "efficient": "EFFICIENT_ATTENTION",
    }
    found = {}
    for name, word in names.items():
        run = forced(getattr(SDPBackend, word))
        try:
            run()
        except RuntimeError as error:
            print(f"  no {name}: {str(error)[:80]}")
            continue
        found[name] = run
    return found


def require_right(name: str, run: Callable[[], Any], wanted: Any, most: float) -> float:
    """Return the relative error of two runs; ours must give equal bits."""
    import torch

    found = [run().clone() for _ in range(2)]
    error = max(float((x.double() - wanted).norm() / wanted.norm()) for x in found)
    assert not name.startswith("ours") or torch.equal(*found), f"{name}: two runs differ"
    assert error < most, f"{name}: error {error}"
    return error


def timed(runs: dict[str, Callable[[], Any]]) -> dict[str, dict[str, float]]:
    """Return the times of all (microseconds), in burst and sustained."""
    import torch

    graphs = {}
    for name, run in runs.items():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        run()
        end.record()
        end.synchronize()
        count = max(2, round(GRAPH / (begin.elapsed_time(end) / 2)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                run()
        graph.replay()
        graphs[name] = graph, count
    torch.cuda.synchronize()
    times: dict[str, dict[str, list[Any]]] = {x: {"burst": [], "sustained": []} for x in runs}
    for way, rounds in ROUNDS.items():
        for _ in range(rounds):
            for name in random.sample(sorted(graphs), len(graphs)):
                graph, count = graphs[name]
                if way == "burst":
                    torch.cuda.synchronize()
                    time.sleep(0.04)
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                graph.replay()
                end.record()
                times[name][way].append((begin, end, count))
    torch.cuda.synchronize()
    return {
        name: {
            way: statistics.median(1e3 * b.elapsed_time(e) / n for b, e, n in found)
            for way, found in ways.items()
        }
        for name, ways in times.items()
    }


def example(q: Any, k: Any, v: Any, out: Any, case: Case) -> Callable[[], Any] | None:
    """Return a run of `kernels.fused_attention`, whose peer is the efficient backend; None for a
    case that it has no arguments for.
    """
    if case.options or case.shared > 1 or case.dim > 128:
        return None
    x = choose(q, k, v, out, causal=case.causal)
    return lambda: fused_attention(x, case.dim**-0.5, case.rows)


def measured(case: Case, configs: list[str | None], warps: bool = False) -> dict[str, Any]:
    """Return what was measured of a case; `warps`: also the example's kernel."""
    import torch

    kinds = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}

    def array(shape: tuple[int, ...], kind: str) -> Any:
        return torch.randn(shape, device="cuda").to(kinds[kind])

    torch.manual_seed(0)
    q, k, v = (array(x, case.kind) for x in shapes_of(case))
    named = options_of(case, lambda shape, kind: array(shape, kind).abs())
    wanted, out = reference(q, k, v, case, named), torch.empty_like(q)

    def poisoned(run: Callable[[], Any]) -> Callable[[], Any]:
        def whole() -> Any:
            out.fill_(math.nan)
            run()
            return out

        return whole

    def bare(config: str | None) -> Callable[[], Any]:
        return lambda: attention(q, k, v, out=out, config=config, **named)

    ours = {f"ours {x}" if x else "ours": bare(x) for x in configs}
    by_example = example(q, k, v, out, case) if warps else None
    if by_example is not None:
        ours["fused_attention"] = by_example
    theirs = peers(q, k, v, case, named)
    errors = {x: require_right(x, run, wanted, MOST[case.kind]) for x, run in theirs.items()}
    for name, run in ours.items():
        errors[name] = require_right(name, poisoned(run), wanted, MOST[case.kind])
    found, flops = timed({**theirs, **ours}), 4 * case.batch * case.heads * case.rows**2 * case.dim
    flops //= 2 if case.causal else 1
    rows = {
        name: {
            "error": errors[name],
            **{f"{way} us": x for way, x in times.items()},
            **{way: flops / x / 1e6 for way, x in times.items()},
        }
        for name, times in found.items()
    }
    base = rows.get("cuDNN", rows["ours"])
    for name, row in rows.items():
        ratios = [f"{row[way]:.0f} ({row[way] / base[way]:.3f})" for way in ROUNDS]
        print(f"  {name:12} {'  '.join(ratios)}  error {row['error']:.1e}", flush=True)
    return {"case": str(case), "rows": rows}


def main() -> None:
    """Measure, or compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", nargs="*", default=[], help="words that a case's name has")
    parser.add_argument("--config", nargs="*", default=[], help="configurations to compare")
    parser.add_argument("--warps", action="store_true", help="compare tiles of the family warps")
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    options = parser.parse_args()
    configs = [*options.config, *(WARPS if options.warps else ())]
    chosen = [x for x in CASES if all(word in str(x) for word in options.cases)]
    if options.dry:
        for case in chosen:
            for config in configs or [None]:
                print(dry(case, config), flush=True)
        return
    if options.out is None:
        parser.error("--out or --dry is needed")
    from benchmarks.gpu.operators import save

    found: list[dict[str, Any]] = []
    for case in chosen:
        print(case, flush=True)
        found.append(measured(case, [None, *configs], options.warps))
        save(options.out, found)


if __name__ == "__main__":
    main()
