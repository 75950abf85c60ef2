"""Tracing and compiling candidates, without a GPU, in several processes.

Arrays are ghosts here: they tell their shape, strides and type, and have no memory. Sizes are
run-time numbers of a plan, so that one compiled candidate may serve several rows.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchmarks.gpu.candidates import Candidate
from benchmarks.gpu.cases import Row

ADDRESS = 1 << 20  # of a ghost: aligned like all memory of torch
NUMPY = {"s8": "int8", "s32": "int32", "f16": "float16", "f64": "float64"}  # others: f32 or bf16


class Ghost:
    """An array without memory: shape and strides (elements)."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> None:
        import numpy as np

        if dtype == "bf16":
            import ml_dtypes

            self.dtype = np.dtype(ml_dtypes.bfloat16)
        else:
            self.dtype = np.dtype(NUMPY.get(dtype, "float32"))
        self.shape = shape
        self.strides = tuple(d * self.dtype.itemsize for d in strides)
        self.__array_interface__ = {"data": (ADDRESS, False)}


def shapes_of(row: Row) -> list[tuple[tuple[int, ...], tuple[int, ...], str]]:
    """Return (shape, strides, type) of the arrays of a row, inputs first, result last."""
    if row.kind == "gemm":
        M, N, K = row.shape
        return [
            _matrix(M, K, row.majors[0], row.dtype),
            _matrix(N, K, row.majors[1], row.dtype),
            _matrix(M, N, "K", row.result),
        ]
    M, N = row.shape
    result = {
        "transpose": ((N, M), (M, 1), row.dtype),
        "sum": ((M,), (1,), "f32"),
    }.get(row.kind, ((M, N), (N, 1), row.dtype))
    return [((M, N), (N, 1), row.dtype), result]


def _matrix(rows: int, columns: int, major: str, dtype: str):
    return (rows, columns), (columns, 1) if major == "K" else (1, rows), dtype


def arguments(candidate: Candidate, row: Row, arrays: list[Any]) -> list[Any]:
    """Return the arguments of a candidate's kernel for arrays, ghosts or real ones."""
    import cute_py as cute

    inputs = [cute.typed(x, "tf32") if row.dtype == "tf32" else x for x in arrays[:-1]]
    if candidate.kernel == "gemm":
        return [*inputs, None, None, arrays[-1], 1.0, 0.0, *candidate.values]
    if candidate.kernel == "sgemm_04":
        from cute_py.kernels.gemm_04_double_buffer import choose

        return [*inputs, arrays[-1], choose(arrays[0], arrays[1])]
    if candidate.kernel in ("copy_tiles", "copy_vectors", "row_softmax", "row_reduce"):
        from cute_py.kernels.arrays import tile_copy

        tile, threads = candidate.values
        copy = tile_copy(tile, threads, *[x for x in arrays if len(x.shape) == 2])
        return [*arrays, *([] if candidate.kernel == "copy_tiles" else [tile]), copy]
    return [*inputs, arrays[-1], *candidate.values]


@dataclass(frozen=True)
class Job:
    """A candidate for a row; equal keys give the same kernel."""

    candidate: Candidate
    row: Row

    @cached_property
    def key(self) -> Any:
        """What the kernel depends on."""
        from cute_py.calls.arguments import Spec, array_facts

        facts = [array_facts(Ghost(*each), Spec(), "x") for each in shapes_of(self.row)]
        return self.candidate, self.row.dtype, tuple(facts)


@dataclass(frozen=True)
class Built:
    """What became of a job: `compiled`, or why it was refused."""

    compiled: Any
    refused: str
    trace_s: float
    compile_s: float


def build(job: Job, arch: str) -> Built:
    """Trace and compile one candidate."""
    import cute_py as cute
    from benchmarks.gpu.kernels import KERNELS
    from cute_py.codegen.build import compile

    began = traced = time.perf_counter()
    try:
        ghosts = [Ghost(*each) for each in shapes_of(job.row)]
        arguments_ = arguments(job.candidate, job.row, ghosts)
        plan = cute.trace(KERNELS[job.candidate.kernel], *arguments_)
        traced = time.perf_counter()
        compiled = compile(plan, arch, spill_bytes=job.candidate.spill_bytes)
    except Exception as error:  # one candidate must not cost the others
        spent = time.perf_counter() - traced
        code = error.code if isinstance(error, cute.CuteError) else type(error).__name__
        return Built(None, f"{code}: {error}", traced - began, spent)
    return Built(compiled, "", traced - began, time.perf_counter() - traced)


def build_all(jobs: list[Job], arch: str, processes: int) -> dict[Any, Built]:
    """Return what became of each job, by key; each key is built once."""
    wanted = {job.key: job for job in jobs}
    if processes == 1:
        return {key: build(job, arch) for key, job in wanted.items()}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = {pool.submit(build, job, arch): key for key, job in wanted.items()}
        return {futures[done]: done.result() for done in as_completed(futures)}
