"""Where the host's time of an operator of torch goes: dispatcher, autograd, Python, launch.

    python -m benchmarks.gpu.torch_host --out FILE [--profile] [--compiled]

Each row is a loop of calls of 64^3 in bf16 between two readings of the clock, which does not wait
for the GPU; the rows take turns, and medians are kept (microseconds a call). The first rows are
floors: operators registered as ours are, and nodes of autograd, that compute nothing. `--profile`
adds the functions in which forward and backward of `Linear`, and first calls of a size, spend
their time; `--compiled` adds layers compiled by torch.compile.
"""

from __future__ import annotations

import argparse
import cProfile
import inspect
import io
import json
import pstats
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import cute_py as cute
import cute_py.torch
from cute_py.ops.product import GEMM
from cute_py.torch.declared import DECLARED

SIZE, CALLS, REPEATS, LAYERS = 64, 500, 9, 8
Calls = dict[str, Callable[[], object]]


class Operands:
    """Tensors of all rows, and the layers."""

    def __init__(self, torch: Any, device: str, size: int = SIZE) -> None:
        kind = torch.bfloat16
        self.torch = torch
        self.a, self.b, self.out, self.g = (
            torch.randn(size, size, device=device).to(kind) for _ in range(4)
        )
        self.bias, self.made = self.a[0].clone(), torch.empty_like(self.a)
        self.x = self.a.clone().requires_grad_()
        self.wide = self.a.float().requires_grad_()
        self.batch = self.a.view(4, size // 4, size)
        self.ours = cute_py.torch.Linear(size, size).to(device, kind)
        self.theirs = torch.nn.Linear(size, size).to(device, kind)
        self.theirs.load_state_dict(self.ours.state_dict())


def floors(at: Operands) -> Calls:
    """Return calls of operators and nodes that compute nothing."""
    torch, made, x = at.torch, at.made, at.x
    whole = str(DECLARED["gemm"].op._schema)
    arguments = whole[whole.index("(") : whole.rindex("->")]
    library = torch.library.Library("cute_floor", "FRAGMENT")
    at.library = library
    for name, signature in (
        ("few", "(Tensor a, Tensor b) -> Tensor"),
        ("whole", f"{arguments}-> Tensor"),
        ("followed", f"{arguments}-> Tensor"),
    ):
        library.define(name + signature)
        for key in ("CPU", "CUDA"):
            library.impl(name, lambda *_args: torch.empty_like(made), key)
    library.impl("followed", lambda *_args: torch.empty_like(made), "Autograd")
    few, whole_op, followed = (
        getattr(torch.ops.cute_floor, n) for n in ("few", "whole", "followed")
    )

    class Three(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, w, b):
            ctx.save_for_backward(a, w)
            ctx.set_materialize_grads(False)
            return torch.empty_like(made)

        @staticmethod
        def backward(ctx, g):
            assert ctx.saved_tensors
            return g, g, at.bias

    class Many(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, w, *rest):
            ctx.save_for_backward(a, w)
            ctx.set_materialize_grads(False)
            return torch.empty_like(made)

        @staticmethod
        def backward(ctx, g):
            return (g, g, None, None, None, at.bias, *[None] * 7)

    weight, bias = at.ours.weight, at.ours.bias
    rest = None, 1.0, 0.0, bias, None, None, "auto", None, None, "", False

    def both(call: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            x.grad = weight.grad = bias.grad = None
            call().backward(at.g)

        return run

    forward = torch.autograd.forward_ad

    def checks() -> bool:
        return (
            forward._current_level >= 0
            or torch._C._len_torch_dispatch_stack() > 0
            or torch._C._are_functorch_transforms_active()
            or torch.is_autocast_enabled("cuda")
            or not torch.is_grad_enabled()
        )

    return {
        "floor: a Python call": lambda: None,
        "floor: five questions to torch": checks,
        "floor: torch.empty_like": lambda: torch.empty_like(made),
        "floor: torch.empty": lambda: torch.empty((64, 64), dtype=made.dtype, device=made.device),
        "floor: operator of 2 arguments": lambda: few.default(at.a, at.b),
        "floor: operator of ours' arguments": lambda: whole_op.default(at.a, at.b),
        "floor: the same, packet": lambda: whole_op(at.a, at.b),
        "floor: the same, all 6 given": lambda: whole_op.default(at.a, at.b, *rest[:4]),
        "floor: with a function at Autograd": lambda: followed.default(at.a, at.b),
        "floor: Function of 3": lambda: Three.apply(x, weight, bias),
        "floor: Function of 3, both": both(lambda: Three.apply(x, weight, bias)),
        "floor: Function of 13": lambda: Many.apply(x, weight, *rest),
        "floor: Function of 13, both": both(lambda: Many.apply(x, weight, *rest)),
        "floor: torch add, both": both(lambda: x + weight + bias),
        "floor: x.t()": lambda: at.a.t(),
        "floor: g.sum(0)": lambda: at.g.sum(0),
        "floor: module call": _identity(torch, at),
    }


def _identity(torch: Any, at: Operands) -> Callable[[], object]:
    layer = torch.nn.Identity()
    return lambda: layer(at.a)


def products(at: Operands) -> Calls:
    """Return calls without gradient: ours layer by layer, and torch's."""
    torch, a, b, bias = at.torch, at.a, at.b, at.bias
    op, computed = DECLARED["gemm"].op, DECLARED["gemm"].computed
    functional = torch.nn.functional
    weight = at.ours.weight.detach()
    flat = weight.t()

    def within(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            with torch.no_grad():
                return call()

        return run

    found: Calls = {}
    cute.ops.gemm(a, b)
    cute.ops.gemm(a, b)
    known = GEMM.known.before[0]
    answer = None if known is None else known.answer
    inner = {} if answer is None else inspect.getclosurevars(answer).nonlocals
    given = (a, b, None, None, None, 1, 0, None, None, "auto", None, None, False, False)
    if "launch" in inner:
        addresses = (a.data_ptr(), b.data_ptr(), at.out.data_ptr(), 1.0, 0.0)
        values = (a.data_ptr(), b.data_ptr(), 1.0, 0.0)
        more = inner["more"]
        found |= {
            "ours: launch": lambda: inner["launch"]((*addresses, *more)),
            "ours: unchanged": lambda: inner["unchanged"](),
            "ours: allocation": lambda: inner["make"](),
            "ours: answer": lambda: answer(given, values),
        }
    return found | {
        "ours: cute.ops.gemm(out=)": lambda: cute.ops.gemm(a, b, out=at.out),
        "ours: cute.ops.gemm": lambda: cute.ops.gemm(a, b),
        "ours: computed": lambda: computed(a, b),
        "ours: computed, bias": lambda: computed(a, flat, None, 1.0, 0.0, bias, None),
        "ours: operator": lambda: torch.ops.cute_py.gemm(a, b),
        "ours: its overload": lambda: op(a, b),
        "ours: overload, bias": lambda: op(a, flat, None, 1.0, 0.0, bias, None),
        "ours: Linear, no_grad, 2-D": within(lambda: at.ours(a)),
        "ours: Linear, no_grad, 3-D": within(lambda: at.ours(at.batch)),
        "torch: mm(out=)": lambda: torch.mm(a, b, out=at.out),
        "torch: mm": lambda: torch.mm(a, b),
        "torch: linear": lambda: functional.linear(a, weight, bias),
        "torch: Linear, no_grad, 2-D": within(lambda: at.theirs(a)),
        "torch: Linear, no_grad, 3-D": within(lambda: at.theirs(at.batch)),
    }


def gradients(at: Operands) -> Calls:
    """Return calls with gradients: ours, the least that a Function around our products takes, and
    torch's.
    """
    torch, computed = at.torch, DECLARED["gemm"].computed

    class Least(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, b):
            ctx.save_for_backward(x, w)
            return computed(x, w.t(), None, 1.0, 0.0, b)

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return computed(g, w), computed(g.mT, x), g.sum(0)

    def both(call: Callable[[], Any], layer: Any, g: Any = at.g) -> Callable[[], None]:
        def run() -> None:
            at.x.grad = at.wide.grad = layer.weight.grad = layer.bias.grad = None
            call().backward(g)

        return run

    ours, theirs, x = at.ours, at.theirs, at.x
    least = lambda: Least.apply(x, ours.weight, ours.bias)  # noqa: E731
    calls: Calls = {
        "ours: Linear, with grad": lambda: ours(x),
        "ours: Linear, both": both(lambda: ours(x), ours),
        "ours: least Function, with grad": least,
        "ours: least Function, both": both(least, ours),
        "torch: Linear, with grad": lambda: theirs(x),
        "torch: Linear, both": both(lambda: theirs(x), theirs),
    }
    for kind, layer in (("ours", ours), ("torch", theirs)):
        cast = torch.nn.Linear(SIZE, SIZE).to(at.a.device)
        cast.__class__ = type(layer)

        def autocast(cast: Any = cast) -> Any:
            with torch.autocast(at.a.device.type, torch.bfloat16):
                return cast(at.wide)

        def of_batch(layer: Any = layer) -> Any:
            return layer(at.x.view(4, SIZE // 4, SIZE))

        calls[f"{kind}: Linear, with grad, 3-D"] = of_batch
        calls[f"{kind}: Linear, both, 3-D"] = both(of_batch, layer, at.batch)
        calls[f"{kind}: Linear, both, autocast"] = both(autocast, cast)
        deep = torch.nn.Sequential(*[layer] * LAYERS)
        calls[f"{kind}: {LAYERS} Linears, both, each"] = both(lambda deep=deep: deep(x), layer)
    return calls


def compiled(at: Operands) -> Calls:
    """Return calls of layers that torch.compile made, without CUDA graphs."""
    torch, found = at.torch, {}
    for name, kind in (("ours", cute_py.torch.Linear), ("torch", torch.nn.Linear)):
        layers = torch.nn.Sequential(*[kind(SIZE, SIZE) for _ in range(LAYERS)])
        layers = layers.to(at.a.device, torch.bfloat16)
        made = torch.compile(layers, fullgraph=True)

        def run(made: Any = made) -> object:
            with torch.no_grad():
                return made(at.a)

        def both(made: Any = made, layers: Any = layers) -> None:
            layers.zero_grad()
            at.x.grad = None
            made(at.x).backward(at.g)

        found[f"{name}: {LAYERS} Linears, compiled, no_grad, each"] = run
        found[f"{name}: {LAYERS} Linears, compiled, both, each"] = both
    return found


def timed(torch: Any, calls: Calls, device: str, repeats: int, count: int) -> dict[str, float]:
    """Return the median microseconds of a call of each row."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    for _ in range(repeats):
        for name, call in calls.items():
            layers = LAYERS if name.endswith("each") else 1
            wait()
            start = time.perf_counter()
            for _ in range(count // layers or 1):
                call()
            spent = time.perf_counter() - start
            times[name].append(spent / (count // layers or 1) / layers * 1e6)
    return {name: median(x) for name, x in times.items()}


def profiled(call: Callable[[], object], times: int) -> list[tuple[float, int, str]]:
    """Return (microseconds a call in the function itself, calls of it, function) of a profile."""
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(times):
        call()
    profile.disable()
    rows = pstats.Stats(profile, stream=io.StringIO()).stats
    found = []
    for (file, line, name), (_primitive, count, own, _whole, _callers) in rows.items():
        place = "/".join(file.split("/")[-2:]) + f":{line}" if line else ""
        found.append((own / times * 1e6, count / times, f"{place} {name}"))
    return sorted(found, reverse=True)[:25]


def first_calls(torch: Any, device: str, sizes: int) -> tuple[dict[str, float], Callable[[], Any]]:
    """Return the median microseconds of a first call of a size, and a function that makes one."""
    most, few = 300 + 2 * sizes, 300 if device == "cuda" else 3
    whole = torch.randn(most, 256, device=device).bfloat16()
    b, times = torch.randn(256, 256, device=device).bfloat16(), ([], [])
    for M in range(1, few):
        cute.ops.gemm(whole[:M], b)
    left = iter(range(few, most))
    for M in (next(left) for _ in range(sizes)):
        for who, call in enumerate((cute.ops.gemm, torch.mm)):
            a = whole[:M]
            start = time.perf_counter()
            call(a, b)
            times[who].append((time.perf_counter() - start) * 1e6)
    ours, theirs = map(median, times)
    rows = {"ours: first call of a size": ours, "torch: first call of a size": theirs}
    return rows, lambda: cute.ops.gemm(whole[: next(left)], b)


def main() -> None:
    """Measure, print a table, and write it."""
    import torch

    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    given = parser.parse_args()
    at = Operands(torch, given.device)
    calls = floors(at) | products(at) | gradients(at)
    times = timed(torch, calls, given.device, given.repeats, given.calls)
    if given.compiled:
        times |= timed(torch, compiled(at), given.device, given.repeats, given.calls)
    sizes = given.calls // 4 or 1
    rows, another = first_calls(torch, given.device, sizes)
    times |= rows
    profiles = {}
    if given.profile:
        profiles["Linear, both"] = profiled(calls["ours: Linear, both"], given.calls)
        profiles["first call of a size"] = profiled(another, sizes)
    for name, found in profiles.items():
        print(f"\n{name}: us in it, calls, function")
        for own, count, place in found:
            print(f"{own:8.2f} {count:6.1f} {place}")
    print("\nus a call")
    for name, us in times.items():
        print(f"{us:8.2f} {name}")
    with open(given.out, "w", encoding="utf-8") as file:
        gpu = torch.cuda.get_device_name() if given.device == "cuda" else "none"
        facts = {"gpu": gpu, "torch": torch.__version__, "us": times, "profiles": profiles}
        json.dump(facts, file, indent=1)


if __name__ == "__main__":
    main()
