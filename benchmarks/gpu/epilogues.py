"""Epilogues as functions: against the fields of `cute.ops.gemm`, its plain product, and torch.

    python -m benchmarks.gpu.epilogues --out benchmarks/results/epilogues.json

Each result is compared with float32 before it is timed. A ratio is the other's time over that of
the function; `on_gpu` and `on_host` are those of `benchmarks.gpu.operators`.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import cute_py as cute
import cute_py.torch
from benchmarks.gpu.operators import drawn, on_gpu, on_host, save

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # name, ours, the other, what ours should be
    Row = tuple[str, Callable[[], Any], Callable[[], Any], Any]

F = torch.nn.functional


def of_erf(sums: Any, bias: Any) -> Any:
    return cute.gelu(sums + bias)


def of_tanh(sums: Any, bias: Any) -> Any:
    x = sums + bias
    return x * 0.5 * (cute.tanh((x + x * x * x * 0.044715) * 0.7978845608) + 1)


def added(sums: Any, bias: Any, residual: Any) -> Any:
    return sums + bias + residual


def with_aux(sums: Any, bias: Any) -> Any:
    x = sums + bias
    return {"D": cute.gelu(x), "aux": x}


def scaled(sums: Any, bias: Any, scale: Any, residual: Any) -> Any:
    return sums * scale + bias + residual


def products() -> Iterator[Row]:
    """Yield what is measured on the GPU."""
    gemm = cute.ops.gemm
    for M, N, K in ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 4096), (512, 3072, 768)):
        a, b = drawn(M, K), drawn(N, K).mT
        bias, c, out, aux = drawn(N), drawn(M, N), drawn(M, N), drawn(M, N)
        name, given = f"{M}x{N}x{K}", {"bias": bias, "out": out}
        plain = partial(gemm, a, b, out=out)
        erf = partial(gemm, a, b, epilogue=of_erf, **given)
        tanh = partial(gemm, a, b, epilogue=of_tanh, **given)
        more = partial(gemm, a, b, epilogue=added, residual=c, **given)
        two = partial(gemm, a, b, epilogue=with_aux, aux=aux, **given)
        total = a.float() @ b.float() + bias.float()
        of_fields = partial(gemm, a, b, activation="gelu", **given)
        of_torch = partial(torch._addmm_activation, bias, a, b, use_gelu=True)
        yield f"{name} erf-gelu / its fields", erf, of_fields, F.gelu(total)
        yield f"{name} erf-gelu / plain", erf, plain, F.gelu(total)
        yield f"{name} tanh-gelu / plain", tanh, plain, F.gelu(total, approximate="tanh")
        yield f"{name} tanh-gelu / torch", tanh, of_torch, F.gelu(total, approximate="tanh")
        yield f"{name} residual / plain", more, plain, total + c.float()
        of_fields = partial(gemm, a, b, c, beta=1, **given)
        yield f"{name} residual / its fields", more, of_fields, total + c.float()
        yield f"{name} erf-gelu and its input / plain", two, plain, F.gelu(total)


def calls() -> Iterator[Row]:
    """Yield what is measured on the host: known calls, so small that the GPU is not the limit."""
    a, b, bias, c, out = drawn(64, 64), drawn(64, 64), drawn(64), drawn(64, 64), drawn(64, 64)
    given = {"bias": bias, "scale": 0.5, "residual": c, "out": out}
    ours = partial(cute.ops.gemm, a, b, epilogue=scaled, **given)
    wanted = (a.float() @ b.float()) * 0.5 + bias.float() + c.float()
    yield "host, three terms / addmm", ours, partial(torch.addmm, bias, a, b, out=out), wanted


def main() -> None:
    """Check, time, print and save."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="rows whose name has this text")
    options = parser.parse_args()
    torch.manual_seed(0)
    rows = []
    for timed, found in ((on_gpu, products()), (on_host, calls())):
        for name, ours, other, exact in found:
            if options.only not in name:
                continue
            result = ours()
            result = result["D"] if isinstance(result, dict) else result
            error = ((result.float() - exact).norm() / exact.norm()).item()
            assert error < 5e-3, (name, error)
            times = [(timed(other), timed(ours)) for _ in range(3)]
            a, b = sorted(times, key=lambda x: x[0] / x[1])[1]
            rows.append({"row": name, "other_us": round(a, 2), "ours_us": round(b, 2)})
            print(f"{name:48} {a:9.2f} {b:9.2f} {a / b:7.3f}", flush=True)
    save(options.out, rows)


if __name__ == "__main__":
    main()
