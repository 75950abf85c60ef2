"""Measure the kernels for Hopper: configurations against cuBLAS, on the products of a table.

    python -m benchmarks.gpu.family --out FILE [--cases NAME ...] [--rounds 7] [--sustained 10]
    python -m benchmarks.gpu.family --operator --out FILE        (what cute.ops.gemm chooses)
    python -m benchmarks.gpu.family --random 90 --out FILE       (the same, of random products)
    python -m benchmarks.gpu.family --table FILE --write PAGE    (from a result of --operator)
    python -m benchmarks.gpu.family --dry [--cases NAME ...]     (compiles; needs no GPU)

Answers are checked first and last. Burst: 30 ms of rest before each replay of a graph; sustained:
no rest, the kernels of a case by turns. Ratios are cuBLAS's time over ours.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import re
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu import harness, report
from cute_py.codegen.build import UNLIMITED
from cute_py.kernels.config_sm90 import (
    HOPPER_SMEM,
    WARPGROUP_ATOMS,
    WarpgroupConfig,
    warpgroup_config,
)
from cute_py.kernels.epilogue import LinearCombination
from cute_py.layout.tuples import ceil_div
from cute_py.ops.gemm_tiles_sm90 import ProductFacts, for_hopper, units_of
from cute_py.ops.libraries import Gpu

PROCESSORS = 132
REST = 0.03  # seconds
TORCH = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "s8": "int8",
    "s32": "int32",
}
TOLERANCES = {"bf16": 2.5e-3, "f16": 3.5e-4, "f32": 1e-5, "f64": 1e-13, "s32": 0.0}
LOOSE = {"tf32": 3e-4, "e4m3": 4e-3}  # by the type of the operands


class Variant(NamedTuple):
    """A configuration and the run-time numbers of its launch."""

    config: WarpgroupConfig
    band: int = 8
    blocks: int = 0  # 0: the fewest with as many waves as on all multiprocessors
    epilogue: LinearCombination = LinearCombination()

    @property
    def label(self) -> str:
        """Name it in a table."""
        c = self.config
        name = {"cooperative": "", "pingpong": "pp "}[c.schedule]
        name += "x".join(map(str, c.tile[:2])) + f" s{c.stages}"
        parts = {
            "c": 0 < c.store < c.tile[1],
            "direct": not c.store,
            "pdl": c.pdl,
            "2": c.two_level,
            "tma": c.prefetch,
        }
        parts |= {f"cl{c.cluster}": c.cluster > 1, f"b{self.blocks}": self.blocks}
        parts |= {f"split{c.split}": c.split > 1}
        e = self.epilogue
        parts |= {"bias": e.bias, "C": e.source, str(e.activation): e.activation}
        return " ".join([name, f"g{self.band}", *[word for word, on in parts.items() if on]])

    def launch_numbers(self, shape: tuple[int, int, int]) -> tuple[int, int]:
        """Return the blocks and the band."""
        cluster = self.config.cluster * self.config.split
        units = units_of(self.config, shape, 1)
        most = (self.blocks or PROCESSORS) // cluster
        fewest = ceil_div(units, ceil_div(units, most))
        band = min(self.band, ceil_div(shape[0], self.config.tile[0]))
        return (most if self.blocks else fewest) * cluster, band


class Case(NamedTuple):
    """A product, and the configurations that are tried."""

    name: str
    kind: str
    shape: tuple[int, int, int]
    variants: tuple[Variant, ...]
    majors: tuple[str, str] = ("K", "K")
    result: str = "bf16"
    fast: bool = True  # sums of 8-bit floats in torch
    epilogue: str = ""  # of torch


# -- what is tried


def made(text: str, kind: str, majors: tuple[str, str], result: str) -> Variant:
    """Return a variant from text: "pp 128x192 g8 b132 pdl c cl2 split2 s4 direct 2 tma gelu"."""
    words = text.split()
    ping = words[0] == "pp"
    tile = tuple(map(int, words[ping].split("x")))
    parts: dict[str, Any] = {}
    numbers = {"band": 8, "blocks": 0}
    one_pass, epilogue = True, LinearCombination(compute="s32" if kind == "s8" else "f32")
    for word in words[ping + 1 :]:
        letters, digits = re.fullmatch(r"([a-zA-Z]*)(\d*)", word).groups()  # type: ignore[union-attr]
        if word == "c":
            one_pass = False
        elif word in ("gelu", "relu", "tanh", "silu", "sigmoid"):
            epilogue = replace(epilogue, activation=word)
        elif word in ("bias", "C"):
            epilogue = replace(epilogue, **{{"bias": "bias", "C": "source"}[word]: True})
        elif letters in ("g", "b"):
            numbers[{"g": "band", "b": "blocks"}[letters]] = int(digits)
        elif letters == "split":
            parts["split"], one_pass = int(digits), False
        elif word in ("2", "tma"):
            parts["two_level" if word == "2" else "prefetch"] = 1
        elif word == "direct":
            parts["store"] = 0
        else:
            parts[{"pdl": "pdl", "s": "stages", "cl": "cluster"}[letters]] = int(digits or 1)
    groups = 1 if ping or tile[0] == 64 else 3 if tile[0] == 192 else 2
    config = warpgroup_config(
        (kind, kind), tile, groups, "pingpong" if ping else "cooperative", majors, result,
        one_pass=one_pass, **parts,
    )  # fmt: skip
    return Variant(config, **numbers, epilogue=epilogue)


def case(name: str, kind: str, shape: Any, *texts: str, **more: Any) -> Case:
    """Return a case with variants by text."""
    shape = (shape,) * 3 if isinstance(shape, int) else shape
    usual = {"tf32": "f32", "s8": "s32", "e4m3": "bf16"}
    result = more.setdefault("result", usual.get(kind, kind))
    majors = more.get("majors", ("K", "K"))
    tried = tuple(made(text, kind, majors, result) for text in texts)
    return Case(name, kind, shape, tried, **more)


LARGE = ("128x256", "128x256 c", "256x128", "256x192", "256x176", "pp 128x192")
SHORT = ("pp 128x192", "pp 128x176", "pp 128x192 b132", "pp 64x256")
TWO_LEVEL = ("128x128 2", "128x192 2", "128x160 2", "pp 64x192 2")
GELU = (
    *("128x256 bias gelu", "128x256 c bias gelu", "256x128 bias gelu"),
    *("pp 128x160 s4 c bias gelu", "pp 128x176 s4 bias gelu", "pp 128x128 s4 bias gelu"),
)
FEW = (
    *((m, 4096, 4096) for m in (1, 16, 64, 128)),
    *((16, 14336, 4096), (16, 4096, 14336), (128, 4096, 14336), (256, 4096, 14336)),
    *((16, 28672, 8192), (512, 512, 65536), (256, 1024, 32768), (1024, 1024, 16384)),
    (8560, 192, 4656),
)
CASES = (
    case("512", "bf16", 512, "64x32 pdl", "64x64 pdl", "64x32", "64x128 pdl"),
    case("1024", "bf16", 1024, "64x128 pdl", "64x128", "64x128 pdl g16", "128x64 pdl"),
    case("2048", "bf16", 2048, "128x256 c pdl", "256x128 pdl", "128x256 pdl", "pp 128x128 pdl s4"),
    case("4096", "bf16", 4096, *LARGE, "128x256 g4", "128x256 c g4", "128x256 b132"),
    case("4096-f16", "f16", 4096, "128x256 g4", "128x256 c g4"),
    case("8192", "bf16", 8192, *LARGE, "256x184", "256x168", "128x256 g16", "256x184 g16"),
    case("2048x2048x8192", "bf16", (2048, 2048, 8192), "128x256 g4", "128x256 c g4", "256x128"),
    case("4096x4096x14336", "bf16", (4096, 4096, 14336), "128x256 g16", "128x256 c g16", "128x256"),
    case("4096x24576x1536", "bf16", (4096, 24576, 1536), *SHORT, "256x192", "128x256 c g16"),
    case("8192x8192x512", "bf16", (8192, 8192, 512), *SHORT, "128x256"),
    case("16384x2048x512", "bf16", (16384, 2048, 512), *SHORT, "128x256"),
    case(
        *("5000", "bf16", 5000, "256x152 c cl2 g10", "256x152 c cl2", "256x152 cl2 g10"),
        *("256x160 cl2 g10", "256x200 cl2 g10", "256x168 g10"),
    ),
    case(
        "3456x4096x4096", "bf16", (3456, 4096, 4096), "192x192 c g6", "192x192 g6", "192x192 c g9"
    ),
    case("2816x3072x16384", "bf16", (2816, 3072, 16384), "128x256", "128x256 c", "128x256 g11"),
    # few rows of D, few tiles of D, waves that do not fill: by the operator alone
    *[case("x".join(map(str, shape)), "bf16", shape) for shape in FEW],
    case("nn", "bf16", 4096, "128x256", "128x256 g4", "128x256 c", majors=("K", "MN")),
    case("nt", "bf16", 4096, "128x256", "256x128", "128x256 c", majors=("MN", "MN")),
    case("tt", "bf16", 4096, "128x256", "256x128", "128x256 c", majors=("MN", "K")),
    case("4095x4097x4104", "bf16", (4095, 4097, 4104)),  # by the operator alone
    case("tf32-4096", "tf32", 4096, "128x256", "128x256 g4", "256x128", "256x160"),
    case("tf32-8192", "tf32", 8192, "128x256", "256x128", "256x168"),
    case("fp8-4096", "e4m3", 4096, "128x256", "128x256 c", "256x128", "128x256 g4"),
    case("fp8-8192", "e4m3", 8192, "128x256", "128x256 c", "256x168", "256x184"),
    case("fp8-2-4096", "e4m3", 4096, *TWO_LEVEL, fast=False),
    case("fp8-2-8192", "e4m3", 8192, *TWO_LEVEL, fast=False),
    case("s8-4096", "s8", 4096, "128x256", "256x128", "128x256 g4"),
    case("s8-8192", "s8", 8192, "128x256", "256x192", "256x128"),
    case("to-f32", "bf16", 4096, "128x256", "256x128", "128x256 g4", result="f32"),
    case("gelu", "bf16", (8192, 4096, 4096), *GELU, epilogue="gelu"),
    *[case(f"f32-{n}", "f32", n) for n in (1024, 4096, 8192)],  # by the operator alone
    case("f64-4096", "f64", 4096),
    case("beta", "bf16", 4096, "128x256 C tma g4", "128x256 C g4", "128x256 g4", epilogue="C"),
)


def drawn(count: int, seed: int) -> list[Case]:
    """Return random products of bf16 along K: M, N and K from 128 to 9,216, multiples of 8, of 64
    and of 128 by turns.
    """
    generator, found = random.Random(f"products {seed}"), []
    for i in range(count):
        unit = (8, 64, 128)[i % 3]
        shape = [max(unit, unit * round(128 * 72 ** generator.random() / unit)) for _ in range(3)]
        found.append(case("x".join(map(str, shape)), "bf16", tuple(shape)))
    return found


# -- compiled, without a GPU


class Job(NamedTuple):
    """A configuration for the arrays of a case."""

    config: WarpgroupConfig
    kinds: tuple[str, str]
    epilogue: LinearCombination


def job_of(case: Case, variant: Variant) -> Job:
    """Return what is compiled for a variant: sizes are numbers of the call."""
    return Job(variant.config, (case.kind, case.result), variant.epilogue)


def compiled(job: Job, spill_bytes: int = 0) -> tuple[Any, str, float]:
    """Return what a job compiles to, or why it is refused; and the seconds."""
    import cute_py as cute

    began = time.perf_counter()
    kernel, call = arguments(job.config, job.kinds, job.epilogue)
    try:
        found = cute.compile(cute.trace(kernel, *call), "sm_90a", spill_bytes)
    except cute.CuteError as error:
        return None, f"{error.code}: {error}", time.perf_counter() - began
    return found, "", time.perf_counter() - began


def arguments(
    config: WarpgroupConfig, types: tuple[str, str], last: LinearCombination
) -> tuple[Any, Any]:
    """Return the kernel of a configuration, and arrays and numbers for it; `types` of A and D."""
    import ml_dtypes
    import numpy as np

    import cute_py as cute
    from cute_py.kernels.gemm_sm90 import KERNELS

    kinds = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "tf32": np.float32}
    kinds |= {"f16": np.float16, "f32": np.float32, "s8": np.int8, "s32": np.int32}
    A, B, C, D = (np.zeros((128, 128), kinds[types[i]]) for i in (0, 0, 1, 1))
    A, B = (x.T if side.major == "MN" else x for x, side in ((A, config.a), (B, config.b)))
    A, B = (cute.typed(x, "tf32") if types[0] == "tf32" else x for x in (A, B))
    terms = C if last.source else None, D[0] if last.bias else None
    return KERNELS[config.schedule], (A, B, *terms, D, 1.0, 1.0, 1, 1, config, last)


def compile_all(cases: list[Case]) -> dict[Job, tuple[Any, str, float]]:
    """Compile each job once, on all cores."""
    jobs = list(dict.fromkeys(job_of(c, v) for c in cases for v in c.variants))
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(16, os.cpu_count() or 1), mp_context=context) as pool:
        return dict(zip(jobs, pool.map(compiled, jobs), strict=True))


def chosen(case: Case) -> Job | None:
    """Return what the rule chooses for a case; None where the family has no kernel."""
    import cute_py as cute

    kinds = cute.dtype(case.kind), cute.dtype(case.kind)
    along = case.majors == ("K", "K") or case.kind in ("bf16", "f16")
    if (case.kind, case.kind) not in WARPGROUP_ATOMS or not along or case.shape[2] % 8:
        return None
    gelu = case.epilogue == "gelu"
    compute = "s32" if case.kind == "s8" else "f32"
    last = LinearCombination(compute, False, case.epilogue == "C", gelu, "gelu" if gelu else None)
    (M, N, K), bytes = case.shape, kinds[0].bits // 8
    pitches = [K if x == "K" else n for x, n in zip(case.majors, (M, N), strict=True)]
    apart = math.gcd(128, pitches[0] * bytes), math.gcd(128, pitches[1] * bytes)
    facts = case.shape, 1, kinds, case.majors, apart, cute.dtype(case.result)
    config = for_hopper(
        ProductFacts(*facts, last, case.fast, Gpu(HOPPER_SMEM, PROCESSORS, (9, 0)), True)
    )
    return Job(replace(config, reasons=()), (case.kind, case.result), last)


def compile_choices(cases: list[Case]) -> None:
    """Compile what the rule chooses, on all cores, so that the operator finds it in the cache."""
    jobs = list(dict.fromkeys(filter(None, map(chosen, cases))))
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(16, os.cpu_count() or 1), mp_context=context) as pool:
        list(pool.map(partial(compiled, spill_bytes=UNLIMITED), jobs))


# -- measured


class Operands:
    """The arrays of a case, in sets that exceed the caches together, and torch's answer."""

    def __init__(self, torch: Any, case: Case) -> None:
        self.torch, self.case = torch, case
        (M, N, K), make = case.shape, self._random
        bytes = sum(self._bytes(*x) for x in ((M * K, case.kind), (N * K, case.kind)))
        count = harness.sets_needed(bytes + self._bytes(M * N, case.result))
        kind = getattr(torch, TORCH[case.result])
        self.sets = [
            (
                make((M, K), case.majors[0]),
                make((N, K), case.majors[1]),
                torch.randn((M, N), device="cuda").to(kind) if case.epilogue == "C" else None,
                torch.randn(N, device="cuda").to(kind) if case.epilogue == "gelu" else None,
                torch.empty((M, N), device="cuda", dtype=kind),
            )
            for _ in range(min(count, 32))
        ]

    def _bytes(self, count: int, kind: str) -> int:
        return count * getattr(self.torch, TORCH[kind]).itemsize

    def _random(self, shape: tuple[int, int], major: str) -> Any:
        torch, kind = self.torch, self.case.kind
        shape = shape if major == "K" else shape[::-1]
        if kind == "s8":
            x = torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
        else:
            x = torch.randn(shape, device="cuda").to(getattr(torch, TORCH[kind]))
        if kind == "tf32":
            x.view(torch.int32).bitwise_and_(~0x1FFF)
        return x if major == "K" else x.T

    @cached_property
    def wanted(self) -> Any:
        """The answer of the first set, in f64 and rounded to f32."""
        a, b, c, bias, _d = self.sets[0]
        exact = a.double() @ b.double().T
        exact = exact if c is None else exact + c.double()
        if bias is not None:
            exact = self.torch.nn.functional.gelu(exact + bias.double())
        kinds = {"s8": self.torch.int32, "f64": self.torch.float64}
        return exact.to(kinds.get(self.case.kind, self.torch.float32))

    @cached_property
    def _unit(self) -> Any:
        return self.torch.ones((), device="cuda")

    def peer(self, a: Any, b: Any, c: Any, bias: Any, d: Any) -> Any:
        """Compute a set as a user of torch does."""
        torch, case = self.torch, self.case
        if case.kind == "s8":
            return torch._int_mm(a, b.T, out=d)
        if case.kind == "e4m3":
            one = self._unit
            return torch._scaled_mm(
                a, b.T, scale_a=one, scale_b=one, out_dtype=d.dtype, use_fast_accum=case.fast, out=d
            )
        if case.epilogue == "gelu":
            return torch.nn.functional.gelu(torch.addmm(bias, a, b.T, out=d))
        if case.epilogue == "C":
            return torch.addmm(c, a, b.T, out=d)
        if d.dtype != a.dtype and case.kind != "tf32":
            return torch.mm(a, b.T, out_dtype=d.dtype, out=d)
        return torch.mm(a, b.T, out=d)

    def error(self, launch: Any) -> float:
        """Return the relative error of the first set in the Frobenius norm; its result is poisoned
        before.
        """
        d = self.sets[0][-1]
        harness.poison(d)
        found = launch(*self.sets[0])
        self.torch.cuda.synchronize()
        found = d if found is None else found
        if not d.dtype.is_floating_point:
            return float((found != self.wanted).sum())
        difference = found.to(self.wanted.dtype) - self.wanted
        return float(difference.norm() / self.wanted.norm())


def launcher(torch: Any, case: Case, variant: Variant, found: Any) -> Any:
    """Return a variant as a launch on the current stream."""
    import cute_py as cute
    from cute_py.codegen.launch.launcher import Launcher
    from cute_py.kernels.gemm_sm90 import KERNELS

    run, kernel = Launcher(found), KERNELS[variant.config.schedule]
    numbers, known = variant.launch_numbers(case.shape), {}

    def launch(a: Any, b: Any, c: Any, bias: Any, d: Any) -> None:
        leaves = known.get(id(a))
        if leaves is None:
            x, y = (cute.typed(z, "tf32") if case.kind == "tf32" else z for z in (a, b))
            terms = c if variant.epilogue.source else None, bias if variant.epilogue.bias else None
            call = (x, y, *terms, d, 1.0, 1.0, *numbers, variant.config, variant.epilogue)
            leaves = known[id(a)] = kernel.leaves(*call)
        run(*leaves, stream=torch.cuda.current_stream().cuda_stream)

    return launch


def operator(case: Case) -> Any:
    """Return `cute.ops.gemm` for the sets of a case."""
    import cute_py as cute

    def launch(a: Any, b: Any, c: Any, bias: Any, d: Any) -> None:
        x, y = (cute.typed(z, "tf32") if case.kind == "tf32" else z for z in (a, b.T))
        terms = {"c": c, "beta": 1} if case.epilogue == "C" else {}
        if case.epilogue == "gelu":
            terms = {"bias": bias, "activation": "gelu"}
        cute.ops.gemm(x, y, **terms, out=d, fast_accum=case.fast)

    return launch


def measured(torch: Any, case: Case, built: Any, rounds: int, sustained: int) -> dict[str, Any]:
    """Return the record of a case; of the operator alone if nothing is built."""
    torch.backends.cuda.matmul.allow_tf32 = case.kind == "tf32"
    operands, record = Operands(torch, case), {"case": case.name, "refused": {}, "us": {}}
    most = LOOSE.get(case.kind, TOLERANCES[case.result])
    most = most * 2 if case.epilogue else most
    timed = [harness.Timed("cuBLAS", operands.peer)]
    record["errors"] = {"cuBLAS": operands.error(operands.peer)}
    if not built:
        timed.append(harness.Timed("ops.gemm", operator(case)))
        record["errors"]["ops.gemm"] = operands.error(timed[-1].launch)
    for variant in case.variants if built else ():
        found, why, _seconds = built[job_of(case, variant)]
        label = variant.label
        try:
            if found is None:
                raise ValueError(why)
            launch = launcher(torch, case, variant, found)
            error = record["errors"][label] = operands.error(launch)
            if variant.epilogue.source is (case.epilogue == "C") and not error <= most:
                raise ValueError(f"wrong: {error}")
            timed.append(harness.Timed(label, launch))
        except (ValueError, RuntimeError) as error:
            record["refused"][label] = str(error)[:300]
    for each in timed:
        harness.capture(torch, each, operands.sets)
    for _round in range(rounds):
        for each in random.sample(timed, len(timed)):
            time.sleep(REST)
            each.us.setdefault("burst", []).append(harness._replay(torch, each))
    if sustained:
        harness.sustained(torch, timed, 10)  # the clock settles
        for each in timed:
            each.us.pop("sustained", None)
        harness.sustained(torch, timed, sustained)
    record["us"] = {
        mode: {t.name: round(statistics.median(t.us[mode]), 3) for t in timed if mode in t.us}
        for mode in ("burst", "sustained")
    }
    for each in timed[1:]:
        plain = not built or record["errors"][each.name] <= most
        if plain and not operands.error(each.launch) <= most:
            record["refused"][each.name] = "wrong at last"
    return record


def lines(record: dict[str, Any], case: Case) -> list[str]:
    """Return the table of a case."""
    work, found = 2e-6 * case.shape[0] * case.shape[1] * case.shape[2], []
    modes = [m for m in ("burst", "sustained") if record["us"].get(m)]
    for name in record["us"]["burst"]:
        text = f"{case.name:17} {name:26}"
        for mode in modes:
            us, peer = record["us"][mode][name], record["us"][mode]["cuBLAS"]
            text += f" {us:9.2f} us {work / us:6.0f} TF {peer / us:6.3f}"
        found.append(text)
    return [*found, *[f"{case.name:17} {x:26} {why[:150]}" for x, why in record["refused"].items()]]


def wrong(records: list[dict[str, Any]]) -> list[str]:
    """Return the names of products whose result of the operator was wrong.

    >>> wrong([{"case": "2048", "refused": {}}, {"case": "4096", "refused": {"ops.gemm": "wrong"}}])
    ['4096']
    """
    return [record["case"] for record in records if "ops.gemm" in record["refused"]]


def summary(records: list[dict[str, Any]]) -> str:
    """Return how the operator compares with cuBLAS on all products, by what divides the bytes of a
    row, and by cuBLAS's time, in burst.

    >>> us = {"burst": {"cuBLAS": 8.0, "ops.gemm": 10.0}}
    >>> print(summary([{"case": "256x128x520", "us": us}]))
    products              n   mean  worst  below 1  below 0.95
    all                   1  0.800  0.800        1           1
    rows of 16            1  0.800  0.800        1           1
    8 to 16 us            1  0.800  0.800        1           1
    """
    spans = {8: "below 8 us", 16: "8 to 16 us", 32: "16 to 32 us", 64: "32 to 64 us"}
    pitches = {x: f"rows of {x}" for x in (128, 64, 32, 16)}
    last = "from 64 us"
    groups: dict[str, list[float]] = {
        x: [] for x in ("all", *pitches.values(), *spans.values(), last)
    }
    for record in records:
        us = record["us"]["burst"]
        pitch = math.gcd(128, 2 * int(record["case"].rpartition("x")[2]))
        span = next((name for most, name in spans.items() if us["cuBLAS"] < most), last)
        for name in ("all", pitches[pitch], span):
            groups[name].append(us["cuBLAS"] / us["ops.gemm"])
    found = ["products              n   mean  worst  below 1  below 0.95"]
    for name, x in groups.items():
        if x:
            below = f"{sum(y < 1 for y in x):8} {sum(y < 0.95 for y in x):11}"
            mean = statistics.geometric_mean(x)
            found.append(f"{name:18} {len(x):4} {mean:6.3f} {min(x):6.3f} {below}")
    return "\n".join(found)


# -- the table of what a user calls

MARKS = "<!-- operator: begin -->", "<!-- operator: end -->"


def title(case: Case) -> str:
    """Return the name of a product in the table."""
    size = f"{case.shape[0]}^3" if len(set(case.shape)) == 1 else "x".join(map(str, case.shape))
    words = [case.kind, size]
    along = {"K": "K", "MN": "M"}[case.majors[0]], {"K": "K", "MN": "N"}[case.majors[1]]
    if along != ("K", "K"):
        words.append(f"{case.name.upper()} (A along {along[0]}, B along {along[1]})")
    if case.kind == "e4m3":
        words.append("fast_accum" if case.fast else "")
    words.append(
        {"gelu": "bias + GELU, against addmm + gelu", "C": "+ C, against addmm"}.get(
            case.epilogue, ""
        )
    )
    words.append("to f32" if case.result == "f32" and case.kind == "bf16" else "")
    return " ".join(filter(None, words))


def markdown(records: list[dict[str, Any]]) -> str:
    """Return the table of a result of the operator."""
    known = {case.name: case for case in CASES}
    head = "product", "us", "TFLOP/s", "torch, us", "burst", "sustained"
    rows = [head, ("---",) * len(head)]
    for record in records:
        case, us = known[record["case"]], record["us"]
        if "ops.gemm" not in us["burst"]:
            continue
        M, N, K = case.shape
        ours, peer = (us["burst"][name] for name in ("ops.gemm", "cuBLAS"))
        ratios = [us[m]["cuBLAS"] / us[m]["ops.gemm"] for m in ("burst", "sustained")]
        speed = f"{2e-6 * M * N * K / ours:.0f}"
        cells = title(case), f"{ours:.1f}", speed, f"{peer:.1f}", *[f"{x:.3f}" for x in ratios]
        rows.append(cells)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", nargs="+", default=[])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sustained", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--operator", action="store_true", help="time cute.ops.gemm")
    parser.add_argument("--random", type=int, help="time cute.ops.gemm on so many products")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", nargs="+", help="variants in place of those of the cases")
    parser.add_argument("--table", type=Path, help="a result of --operator")
    parser.add_argument("--write", type=Path, help="a page with the marks of the table")
    options = parser.parse_args()
    if options.table:
        text = markdown(json.loads(options.table.read_text(encoding="utf-8")))
        print(text) if options.write is None else report.write(options.write, text, MARKS)
        return
    cases = [c for c in CASES if not options.cases or c.name in options.cases]
    if options.random:
        cases, options.operator = drawn(options.random, options.seed), True
    if options.tried:
        cases = [
            c._replace(variants=tuple(made(t, c.kind, c.majors, c.result) for t in options.tried))
            for c in cases
        ]
    began = time.perf_counter()
    built = {} if options.operator else compile_all(cases)
    if options.operator:
        compile_choices(cases)
    print(f"{len(built)} compiled in {time.perf_counter() - began:.1f} s", flush=True)
    if options.dry:
        for job, (found, why, seconds) in built.items():
            shown = why[:200] if found is None else f"{found.resources} {len(found.sass)}"
            print(Variant(job.config, epilogue=job.epilogue).label, f"{seconds:.2f} s", shown)
        return
    import torch

    records = []
    for each in cases:
        if time.perf_counter() - began > options.seconds:
            print(each.name, "not begun")
            continue
        records.append(measured(torch, each, built, options.rounds, options.sustained))
        print("\n".join(lines(records[-1], each)), flush=True)
        torch.cuda.empty_cache()
        if options.out:
            options.out.write_text(json.dumps(records, indent=1))
    if options.random:
        print(summary(records))
    print(f"{time.perf_counter() - began:.0f} s")
    if found := wrong(records):
        raise SystemExit(f"wrong: {', '.join(found)}")


if __name__ == "__main__":
    main()
