"""What the models of this folder share: whose products, in which mode, and how fast they are."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import cute_py.torch

LINEARS, MODES = ("torch", "cute"), ("eager", "compile", "graphs", "reduce-overhead")


def prepared(model: Any, linear: str, mode: str, *samples: torch.Tensor) -> Any:
    """Return a model to be called in a mode, with the products of torch or of cute_py.

    Args:
        model: with layers of torch.nn.Linear, which `linear="cute"` swaps.
        linear: one of LINEARS.
        mode: one of MODES; "graphs" captures the forward and the backward pass as CUDA graphs.
        samples: arguments of the model, with the shapes of all later calls.

    """
    if linear == "cute":
        cute_py.torch.swap_linear(model)
    if mode == "compile":
        return torch.compile(model, fullgraph=True)
    if mode == "reduce-overhead":
        return torch.compile(model, fullgraph=True, mode=mode)
    return torch.cuda.make_graphed_callables(model, samples) if mode == "graphs" else model


def seconds_each(step: Callable[[], object], device: str, steps: int) -> float:
    """Return the seconds of a step, of so many between two readings of the clock."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    return (time.perf_counter() - start) / steps


def arguments(text: str | None, **sizes: int) -> argparse.Namespace:
    """Return the arguments of a command: whose products, the mode, the device and sizes."""
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument("--linear", choices=LINEARS, default="cute")
    parser.add_argument("--mode", choices=MODES, default="eager")
    parser.add_argument("--device", default="cuda")
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    return parser.parse_args()
