"""`cute.ops.conv2d`, `conv2d_dgrad` and `conv2d_wgrad` against cuDNN by torch, in channels_last.

    python -m benchmarks.gpu.convolution --out FILE [--cases WORD ...]
    python -m benchmarks.gpu.convolution --dry [--cases WORD ...]     (compiles; needs no GPU)

Each answer is checked first on small integers, to the bit, into an output of NaN. Then all are
timed in one process, as `benchmarks.gpu.attention` does, with `cudnn.benchmark`; operands rotate
over more memory than L2 has. Figures are TFLOP/s, the share of the time that the least bytes take,
and ratios to cuDNN. `--config` gives other configurations of ours, `--all` every tile.
"""

from __future__ import annotations

import argparse
import math
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from benchmarks.gpu.attention import ROUNDS, timed
from cute_py.kernels.convolution import ConvProblem, Sizes
from cute_py.ops import conv2d, conv2d_dgrad, conv2d_wgrad
from cute_py.ops.without_gpu import Outline, gpu_of, outlined

if TYPE_CHECKING:
    from collections.abc import Callable

ROTATED = 160e6  # bytes of operands, over which calls rotate
COPY = 4.1e6  # bytes that memory moves in a microsecond, about
OPERATORS = {"fprop": conv2d, "dgrad": conv2d_dgrad, "wgrad": conv2d_wgrad}


class Case(NamedTuple):
    """A layer."""

    of: str
    batch: int
    side: int
    channels: int
    filters: int
    taps: int = 3
    stride: int = 1
    kind: str = "f16"
    result: str = ""
    more: str = ""  # "block": with a bias, relu and a residual

    def __str__(self) -> str:
        layer = f"{self.channels}->{self.filters} {self.taps}x{self.taps} s{self.stride}"
        kind = f"{self.kind}{f' into {self.result}' if self.result else ''}"
        return f"{self.of} b{self.batch} {self.side}^2 {layer} {kind} {self.more}".strip()

    @property
    def problem(self) -> ConvProblem:
        """The convolution."""
        pad = self.taps // 2
        sizes = Sizes(self.batch, self.side, self.side, self.channels, self.filters)
        steps = self.stride, self.stride
        return ConvProblem((self.taps, self.taps), (pad, pad), steps, sizes=sizes)


FOUR = ((56, 64), (28, 128), (14, 256), (7, 512))
CASES = [
    *(Case("fprop", n, side, c, c) for n in (32, 256) for side, c in FOUR),
    *(Case("fprop", 32, side, c, c, kind="bf16") for side, c in FOUR),
    Case("fprop", 8, 224, 128, 128),
    Case("fprop", 32, 56, 256, 64, 1),
    Case("fprop", 32, 14, 1024, 256, 1),
    Case("fprop", 32, 56, 256, 512, 1, 2),
    *(Case("fprop", 32, side, c, c, 3, 2) for side, c in ((28, 256), (56, 128), (14, 512))),
    *(Case("dgrad", 32, side, c, c) for side, c in FOUR),
    Case("dgrad", 32, 56, 128, 128, 3, 2),
    *(Case("wgrad", 32, side, c, c, result=x) for x in ("f32", "f16") for side, c in FOUR),
    Case("fprop", 32, 224, 4, 64, 7, 2),
    Case("fprop", 32, 224, 3, 64, 7, 2),
    Case("fprop", 32, 28, 128, 128, kind="tf32"),
    Case("fprop", 256, 28, 128, 128, kind="s8", result="s8"),
    Case("fprop", 256, 28, 128, 128, more="block"),
    Case("fprop", 256, 56, 64, 256, 1, more="block"),
]


def shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the shapes of images, filters and output."""
    conv = case.problem
    return {
        "x": (case.batch, case.side, case.side, case.channels),
        "w": (case.filters, case.taps, case.taps, case.channels),
        "dy": (case.batch, conv.P, conv.Q, case.filters),
    }


def arguments(case: Case, array: Callable[[tuple[int, ...]], Any]) -> dict[str, Any]:
    """Return the arguments of our operator; `array(shape)` makes those that are arrays."""
    known = shapes(case)
    reads = {"fprop": "x w", "dgrad": "dy w", "wgrad": "dy x"}[case.of].split()
    found: dict[str, Any] = {x: array(known[x]) for x in reads}
    if case.kind == "tf32" and not isinstance(found["x"], Outline):
        found = {x: cute.typed(y, "tf32") for x, y in found.items()}
    if case.of != "fprop":
        name = "x" if case.of == "dgrad" else "w"
        found[f"{name}_shape"] = known[name]
    if case.more == "block":
        found |= {"c": array(known["dy"]), "bias": array((case.filters,)), "beta": 1}
        found["activation"] = "relu"
    named = {"stride": case.stride, "padding": case.taps // 2, "out_dtype": case.result or None}
    return found | named


def dry(case: Case, config: str | None) -> str:
    """Compile a case for an H200, and return its resources."""
    kind = cute.dtype(case.kind)
    given = arguments(case, lambda shape: Outline.compact(shape, kind))
    operator = OPERATORS[case.of].operator
    asked = operator.bound(**given, backend="gpu", config=config)
    call = outlined(operator, asked, gpu_of("sm_90a"))
    return f"{case}: {call.config}; {cute.compile(call.plan(), 'sm_90a').resources}"


def by_torch(case: Case, held: dict[str, Any]) -> Callable[[], Any]:
    """Return torch's answer to our arguments, in (N,H,W,C)."""
    import torch

    planes = {x: y.permute(0, 3, 1, 2) for x, y in held.items() if y.dim() == 4}
    pads, steps = [case.taps // 2] * 2, [case.stride] * 2
    if case.of != "fprop":
        known, mask = shapes(case), [case.of == "dgrad", case.of == "wgrad", False]
        kind = next(iter(held.values()))
        for name in ("x", "w"):
            if name not in planes:
                new = torch.empty(known[name], dtype=kind.dtype, device="cuda")
                planes[name] = new.permute(0, 3, 1, 2)
        fixed: Any = (None, steps, pads, [1, 1], False, [0, 0], 1, mask)
        gradients = torch.ops.aten.convolution_backward
        which = 0 if case.of == "dgrad" else 1
        return lambda: gradients(planes["dy"], planes["x"], planes["w"], *fixed)[which]
    if case.more == "block":
        fused = torch.cudnn_convolution_add_relu
        bias = held["bias"]
        return lambda: fused(
            planes["x"], planes["w"], planes["c"], 1.0, bias, steps, pads, [1, 1], 1
        )
    return lambda: torch.nn.functional.conv2d(planes["x"], planes["w"], None, steps, pads)


def integers(shape: tuple[int, ...], kind: str) -> Any:
    """Return small integers on the GPU."""
    import torch

    names = {"f16": "float16", "bf16": "bfloat16", "tf32": "float32", "f32": "float32"}
    made = torch.randint(-2, 3, shape, device="cuda")
    return made.to(getattr(torch, names.get(kind, "int8")))


def require_right(case: Case, config: str | None) -> None:
    """Require that an answer on integers is torch's in f32, to the nearest integers: cuDNN may
    compute it by Winograd's transforms, which round.
    """
    import torch

    given = arguments(case, lambda shape: integers(shape, case.kind))
    held = {x: y for x, y in given.items() if hasattr(y, "dim") or hasattr(y, "array")}
    plain = {x: getattr(y, "array", y).float() for x, y in held.items()}
    wanted = by_torch(case, plain)().permute(0, 2, 3, 1).round()
    found = OPERATORS[case.of](**given, config=config)
    again = torch.full_like(found, math.nan if found.is_floating_point() else 77)
    OPERATORS[case.of](**given, config=config, out=again)
    if not found.is_floating_point():
        wanted = wanted.clamp(-128, 127)
    assert torch.equal(found, wanted.to(found.dtype)), f"{case} {config}: wrong"
    assert torch.equal(again, found), f"{case} {config}: wrong into an array"


def rotated(case: Case, config: str | None) -> tuple[Callable[[], Any], Callable[[], Any] | None]:
    """Return our call and cuDNN's, each with other operands each time."""
    import torch

    size = case.problem.least_bytes()
    count = max(2, min(32, math.ceil(ROTATED / size)))
    mine, theirs = [], []
    for _ in range(count):

        def array(shape: tuple[int, ...]) -> Any:
            whole = integers(shape, case.kind)
            return torch.randn_like(whole) if whole.is_floating_point() else whole

        given = arguments(case, array)
        out = OPERATORS[case.of](**given, config=config)
        mine.append({**given, "out": out, "config": config})
        held = {x: getattr(y, "array", y) for x, y in given.items()}
        held = {x: y for x, y in held.items() if hasattr(y, "dim")}
        theirs.append(by_torch(case, held))
    calls, others = cycle(mine), cycle(theirs)
    run = OPERATORS[case.of]
    peer = None if case.kind == "s8" else lambda: next(others)()
    return lambda: run(**next(calls)), peer


def configs_of(case: Case) -> list[str]:
    """Return text for every tile that `cute.tune` would measure."""
    given = arguments(case, lambda shape: integers(shape, case.kind))
    problem = OPERATORS[case.of].operator.problem_of(**given)
    found = []
    for config, *_rest in problem.candidates():
        tile = "x".join(map(str, config.tile))
        more = f",schedule={config.schedule}" if hasattr(config, "schedule") else ""
        found.append(f"tile={tile}{more},pdl=0")
        found.append(f"tile={tile}{more},pdl=1")
    return found


def measured(case: Case, configs: list[str | None]) -> dict[str, Any]:
    """Return what was measured of a case."""
    runs: dict[str, Callable[[], Any]] = {}
    for config in configs:
        name = f"ours {config}" if config else "ours"
        try:
            require_right(case, config)
        except cute.CuteError as error:
            print(f"  no {name}: {str(error)[:90]}")
            continue
        runs[name], peer = rotated(case, config)
        if peer is not None:
            runs.setdefault("cuDNN", peer)
    found, conv = timed(runs), case.problem
    least = conv.least_bytes() / COPY
    base = found.get("cuDNN", found.get("ours"))
    rows = {}
    for name, times in found.items():
        rows[name] = {
            **{f"{way} us": x for way, x in times.items()},
            **{way: conv.flops / x / 1e6 for way, x in times.items()},
            "of bytes": least / times["burst"],
            **{f"{way} ratio": base[way] / x for way, x in times.items()},
        }
        shown = [f"{rows[name][way]:.0f} ({rows[name][f'{way} ratio']:.3f})" for way in ROUNDS]
        line = f"  {name:44} {times['burst']:8.2f} us  {'  '.join(shown)}"
        print(f"{line}  {rows[name]['of bytes']:.2f} of bytes", flush=True)
    return {"case": str(case), "rows": rows}


def main() -> None:
    """Measure, or compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", nargs="*", default=[], help="words that a case's name has")
    parser.add_argument("--config", nargs="*", default=[], help="configurations to compare")
    parser.add_argument("--all", action="store_true", help="all tiles of the family")
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    options = parser.parse_args()
    chosen = [x for x in CASES if all(word in str(x) for word in options.cases)]
    if options.dry:
        for case in chosen:
            for config in options.config or [None]:
                print(dry(case, config), flush=True)
        return
    if options.out is None:
        parser.error("--out or --dry is needed")
    import torch

    from benchmarks.gpu.operators import save

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    found: list[dict[str, Any]] = []
    for case in chosen:
        print(case, flush=True)
        torch.backends.cudnn.allow_tf32 = case.kind == "tf32"
        more = configs_of(case) if options.all else []
        found.append(measured(case, [None, *options.config, *more]))
        save(options.out, found)


if __name__ == "__main__":
    main()
