"""Operators of `cute.ops` against torch: transposes, softmax, reductions and activations.

    python -m benchmarks.gpu.operators --out benchmarks/results/operators.json

Results are compared before anything is timed: sums of bf16 within its rounding, all else closely.
A figure is torch's time over ours: of kernels in a CUDA graph of 20 calls, median of 7; for "host"
the time until a known call returns, the least of 40 rounds of 100.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

import cute_py as cute
import cute_py.torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Pair = tuple[str, Callable[[], Any], Callable[[], Any]]

BF16 = torch.bfloat16
TRANSPOSES = ((4096, 4096), (8192, 8192), (64, 1000, 700), (1024, 33))
SOFTMAXES = (
    *(((8192, 4096), -1), ((8192, 4096), 0), ((32, 128, 1024), -1), ((65536, 128), -1)),
    *(((1024, 50257), -1), ((64, 512, 64), 1), ((16, 1000003), -1)),
)
SUMS = (
    *(((8192, 4096), -1), ((8192, 4096), 0), ((8192, 4096), None), ((64, 512, 64), 1)),
    *(((65536, 128), -1), ((1 << 26,), None), ((16, 1000003), -1)),
    *(((32, 256, 56, 56), (0, 2, 3)), ((1024, 50257), 0)),
)
ATEN = torch.ops.aten
BACKWARD = {
    "gelu": ATEN.gelu_backward,
    "silu": ATEN.silu_backward,
    "relu": lambda g, y: ATEN.threshold_backward(g, y, 0),
    "tanh": ATEN.tanh_backward,
}


def drawn(*shape: int, dtype: Any = BF16) -> Any:
    return torch.randn(shape, device="cuda").to(dtype)


def kernels(dtype: Any) -> Iterator[Pair]:
    """Yield (name, ours, torch's) of what is measured on the GPU."""
    ops, kind = cute.ops, str(dtype).removeprefix("torch.")
    for shape in TRANSPOSES:
        x = drawn(*shape, dtype=dtype)
        yield (
            f"transpose {kind} {shape}",
            lambda x=x: ops.transpose(x),
            lambda x=x: x.mT.contiguous(),
        )
    for shape, dim in SOFTMAXES:
        x = drawn(*shape, dtype=dtype)
        yield (
            f"softmax {kind} {shape} along {dim}",
            lambda x=x, dim=dim: ops.softmax(x, dim),
            lambda x=x, dim=dim: torch.softmax(x, dim),
        )
    for shape, dim in SUMS:
        x, modes = drawn(*shape, dtype=dtype), tuple(range(len(shape))) if dim is None else dim
        for op, theirs in (("add", torch.sum), ("max", torch.amax)):
            yield (
                f"{op} {kind} {shape} along {dim}",
                lambda x=x, dim=dim, op=op: ops.reduce(x, op, dim),
                lambda x=x, modes=modes, theirs=theirs: theirs(x, modes),
            )
    x, g = drawn(4096, 4096, dtype=dtype), drawn(4096, 4096, dtype=dtype)
    for name, backward in BACKWARD.items():
        forward = getattr(ATEN, name)
        yield (
            f"{name} {kind} 4096x4096",
            lambda name=name: ops.activation(x, name),
            lambda forward=forward: forward(x),
        )
        yield (
            f"{name} backward {kind} 4096x4096",
            lambda name=name: ops.activation(x, name, g),
            lambda backward=backward: backward(g, x),
        )


def calls() -> Iterator[Pair]:
    """Yield the same of what is measured on the host."""
    ops, x, out, row = cute.ops, drawn(64, 64), drawn(64, 64), drawn(64)
    yield "host transpose", lambda: ops.transpose(x), lambda: x.mT.contiguous()
    yield "host transpose out", lambda: ops.transpose(x, out=out), lambda: out.copy_(x.mT)
    yield "host softmax", lambda: ops.softmax(x), lambda: torch.softmax(x, -1)
    yield "host softmax out", lambda: ops.softmax(x, out=out), lambda: torch.softmax(x, -1, out=out)
    yield "host sum", lambda: ops.reduce(x, "add", 1), lambda: x.sum(1)
    yield (
        "host sum out",
        lambda: ops.reduce(x, "add", 1, out=row),
        lambda: torch.sum(x, 1, out=row),
    )
    yield "host gelu", lambda: ops.activation(x, "gelu"), lambda: ATEN.gelu(x)


def require_alike(name: str, ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape, name
    assert torch.allclose(ours.double(), theirs.double(), rtol=2e-2, atol=2e-2), name


def on_gpu(call: Callable[[], Any], count: int = 20) -> float:
    """Return the time of a call in a graph (microseconds)."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    times = []
    for i in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        if i >= 3:
            times.append(1000 * begin.elapsed_time(end) / count)
    return statistics.median(times)


def on_host(call: Callable[[], Any]) -> float:
    """Return the time until a call returns (microseconds)."""
    best = float("inf")
    for _ in range(40):
        begin = perf_counter()
        for _ in range(100):
            call()
        best = min(best, (perf_counter() - begin) / 100 * 1e6)
        torch.cuda.synchronize()
    return best


def save(path: Path | None, rows: list[dict[str, Any]]) -> None:
    """Write rows to a file, if there is one, with what measured them."""
    if path is not None:
        device = torch.cuda.get_device_name()
        facts = {"device": device, "torch": torch.__version__, "cute_py": cute.__version__}
        path.write_text(json.dumps({"environment": facts, "rows": rows}, indent=1) + "\n")


def main() -> None:
    """Check, time, print and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = []
    work = [(x, on_gpu) for kind in (BF16, torch.float32) for x in kernels(kind)]
    for (name, ours, theirs), timed in [*work, *[(x, on_host) for x in calls()]]:
        require_alike(name, ours(), theirs())
        a, b = timed(ours), timed(theirs)
        rows.append({"row": name, "ours_us": round(a, 2), "torch_us": round(b, 2)})
        print(f"{name:48} {a:9.2f} {b:9.2f} {b / a:7.3f}", flush=True)
    save(options.out, rows)


if __name__ == "__main__":
    main()
