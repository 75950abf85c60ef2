"""What operators of torch cost: ours against torch's, in one process.

Host time at 64^3 of bf16: 300 calls between two readings of the clock, without waiting; 15 repeats
in each of some windows a second apart, the contenders taking turns; medians. Speed of training a
Linear of 4096^3, and of 20 Linears in a CUDA graph by torch.compile: events around 20 steps.

    python benchmarks/gpu_torch.py [--out FILE] [--windows N]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from statistics import median

import cute_py as cute
import cute_py.torch

CALLS, REPEATS, SIZE, LAYERS = 300, 15, 64, 20


def host(torch):
    """Return row -> (our call, torch's), each a function that is called again and again."""
    a, b, c, d = (torch.randn(SIZE, SIZE, device="cuda").bfloat16() for _ in range(4))
    gemm = torch.ops.cute_py.gemm
    ours = cute_py.torch.Linear(SIZE, SIZE).to("cuda", torch.bfloat16)
    theirs = torch.nn.Linear(SIZE, SIZE).to("cuda", torch.bfloat16)
    theirs.load_state_dict(ours.state_dict())
    x, ones = torch.randn_like(a).requires_grad_(), torch.ones_like(a)
    pairs = {
        "gemm(out=)": (lambda: cute.ops.gemm(a, b, out=c), lambda: torch.mm(a, b, out=d)),
        "gemm": (lambda: cute.ops.gemm(a, b), lambda: torch.mm(a, b)),
        "torch.ops.cute_py.gemm": (lambda: gemm(a, b), lambda: torch.mm(a, b)),
        "its overload": (lambda: gemm.default(a, b), lambda: torch.mm(a, b)),
        "Linear, forward": (lambda: ours(x), lambda: theirs(x)),
        "Linear, forward and backward": (step(ours, x, ones), step(theirs, x, ones)),
    }
    torch.testing.assert_close(ours(x), theirs(x), rtol=2e-2, atol=2e-2)
    for found, wanted in zip(step(ours, x, ones)(), step(theirs, x, ones)(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=5e-2, atol=1e-1)
    return pairs


def new_sizes(torch):
    """Return the median microseconds of a first call with each of 500 sizes, ours and torch's."""
    whole, b = (
        torch.randn(2048, 256, device="cuda").bfloat16(),
        torch.randn(256, 256, device="cuda"),
    )
    b, times = b.bfloat16(), ([], [])
    for M in range(1, 1025):
        cute.ops.gemm(whole[:M], b)
    for M in range(1025, 1525):
        for who, call in enumerate((torch.ops.cute_py.gemm, torch.mm)):
            a = whole[:M]
            start = time.perf_counter()
            call(a, b)
            times[who].append((time.perf_counter() - start) * 1e6)
    return [median(x) for x in times]


def step(module, x, g):
    """Return one forward and backward step of a module; it returns the gradients."""

    def run():
        for p in (x, module.weight, module.bias):
            p.grad = None
        module(x).backward(g)
        return x.grad, module.weight.grad, module.bias.grad

    return run


def host_times(torch, windows):
    """Return row -> (microseconds of ours, of torch)."""
    pairs, times = host(torch), {}
    for _window in range(windows):
        for name, calls in pairs.items():
            for _repeat in range(REPEATS):
                for who, call in enumerate(calls):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(CALLS):
                        call()
                    spent = (time.perf_counter() - start) / CALLS * 1e6
                    times.setdefault((name, who), []).append(spent)
        time.sleep(1)
    return {name: [median(times[name, who]) for who in (0, 1)] for name in pairs}


def on_gpu(torch, calls, rounds=10, steps=20):
    """Return the median milliseconds of a step of each call, in turns."""
    times = [[] for _ in calls]
    for call in calls:
        for _ in range(3):
            call()
    for _ in range(rounds):
        for who, call in enumerate(calls):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(steps):
                call()
            end.record()
            end.synchronize()
            times[who].append(begin.elapsed_time(end) / steps)
    return [median(x) for x in times]


def training(torch, size=4096):
    """Return the milliseconds of forward and backward of a Linear, ours and torch's."""
    ours = cute_py.torch.Linear(size, size).to("cuda", torch.bfloat16)
    theirs = torch.nn.Linear(size, size).to("cuda", torch.bfloat16)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(size, size, device="cuda").bfloat16().requires_grad_()
    g = torch.randn_like(x)
    found, wanted = step(ours, x, g)(), step(theirs, x, g)()
    for got, grad in zip(found, wanted, strict=True):
        torch.testing.assert_close(
            got.float(), grad.float(), rtol=5e-2, atol=float(grad.abs().max()) / 50
        )
    return on_gpu(torch, (step(ours, x, g), step(theirs, x, g)))


def graphs(torch):
    """Return the milliseconds of 20 Linears without gradients in a CUDA graph of torch.compile."""
    calls, made = [], []
    for kind in (cute_py.torch.Linear, torch.nn.Linear):
        torch.manual_seed(0)
        layers = torch.nn.Sequential(*[kind(SIZE, SIZE) for _ in range(LAYERS)])
        layers = layers.to("cuda", torch.bfloat16)
        compiled = torch.compile(layers, mode="reduce-overhead", fullgraph=True)
        x = torch.randn(SIZE, SIZE, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        x = x.bfloat16()

        def call(compiled=compiled, x=x):
            with torch.no_grad():
                return compiled(x)

        for _ in range(4):
            made.append(call().clone())
        calls.append(call)
    torch.testing.assert_close(made[0], made[-1], rtol=5e-2, atol=5e-2)
    return on_gpu(torch, calls, steps=200)


def main():
    """Measure, print a table, and write it."""
    import torch

    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--windows", type=int, default=3)
    given = parser.parse_args()
    rows = {name: ("us, host", *pair) for name, pair in host_times(torch, given.windows).items()}
    rows["gemm, first call of a size"] = ("us, host", *new_sizes(torch))
    rows["20 Linears, reduce-overhead"] = ("ms", *graphs(torch))
    rows["Linear 4096^3, forward and backward"] = ("ms", *training(torch))
    for name, (unit, ours, theirs) in rows.items():
        print(f"{name:40} {ours:9.3f} {theirs:9.3f} {unit:8} ours/torch {ours / theirs:6.2f}")
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
