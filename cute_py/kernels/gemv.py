"""new here: a product with few rows or columns, by plain multiply-adds from registers.

A matrix times a vector, or a few, reads each element of the matrix once, so memory is the limit,
and tensor cores do not help. All threads load vectors of 16 bytes straight into registers: many
loads are on the way at a time, and no tile waits in shared memory. Threads along K have sums of
their own, which the block adds up in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import assume_product, require
from cute_py.kernels.config import GemmConfig, Side
from cute_py.kernels.configuration import part, told
from cute_py.kernels.epilogue import (
    Epilogue,
    LinearCombination,
    Terms,
    converted,
    finished,
    given,
    loaded,
    of_batch,
    product_kernel,
)
from cute_py.kernels.pairs import as_taken, columns_of, stored_to
from cute_py.kernels.splits import NO_SPLIT, Split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.layout.types import AnyLayout


@dataclass(frozen=True, slots=True)
class VectorConfig(GemmConfig):
    """How a product with few rows or columns is computed; `warps` are threads along M, N and K, and
    `stages` is 1: nothing waits in shared memory.

    Attributes:
        reasons: why each part was chosen; not compared.
        pdl: as in `MultistageConfig`.
        parts: as in `WarpgroupConfig`.
    """

    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)
    pdl: int = part(0)
    parts: Split = field(
        default=NO_SPLIT,
        metadata=told(text="split", reads=Split.of, takes=Split.is_of_products),
    )

    @property
    def family(self) -> str:
        """The name of the family of kernels that it is for."""
        return "gemv"

    @property
    def way(self) -> str:
        """How elements get to the threads."""
        return "to registers"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return prod(self.warps)

    @property
    def lanes_along_k(self) -> int:
        """Lanes of a warp that share a row of the matrix: where columns are contiguous, none, since
        neighbours read neighbours in a column. A quarter of a warp is loaded at a time: of lanes
        along K, each would take half a sector.
        """
        is_major = (self.a if self.tile[0] > self.tile[1] else self.b).major == "K"
        return gcd(prod(self.warps[2:]), 32) if is_major else 1

    def tiled_mma(self, along_k: bool = True) -> Any:  # a TiledMMA
        """Return the multiply-add over the threads of a block. Neighbours along the contiguous mode
        of an operand are one vector of a thread; lanes that share a row are neighbours.
        """
        tm, tn, tk = self.warps  # type: ignore[misc]
        k, a, b, lanes = self.tile[2], self.a, self.b, self.lanes_along_k
        threads = cute.Layout((tm, tn, (lanes, tk // lanes)), (lanes, lanes, (1, lanes * tm * tn)))
        permutation = (
            _vectors(tm, 1 if a.major == "K" else a.vector),
            _vectors(tn, 1 if b.major == "K" else b.vector),
            _vectors(tk, k // tk),
        )
        return cute.make_tiled_mma(self.mma_atom, threads, permutation)

    def result_copy(self, in_pairs: bool = False) -> cute.TiledCopy:
        """Return how threads share a tile of D: one element each of the longer mode, or a pair of
        neighbouring columns.
        """
        m, n, _k = self.tile
        each = 2 if in_pairs and n % 2 == 0 else 1
        threads = cute.Layout((m, 1)) if m > n else cute.Layout((1, n // each))
        return cute.make_tiled_copy(
            cute.Copy_Atom("UniversalCopy<32>", "f32"), threads, cute.Layout((1, each))
        )

    def rules(self, has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        (m, n, k), warps = self.tile, self.warps
        yield "threads along M, N and K", len(warps) != 3
        yield (
            "positive sizes, and whole warps of at most 1024 threads",
            min(m, n, k, *warps) < 1 or self.threads % 32 != 0 or self.threads > 1024,
        )
        yield "stages of 1", self.stages != 1
        yield "parts of this family alone", has_others
        yield "a pdl of 0 or 1", self.pdl not in (0, 1)
        yield self.parts.rule
        yield "parts of K that are products of their own", not self.parts.is_of_products()
        whole = all(x % t == 0 for x, t in zip(self.tile, warps, strict=True))
        yield "a tile that the threads divide", not whole
        yield "a thread for each element of D along the longer mode", max(m, n) > self.threads
        each = [x // t for x, t in zip(self.tile, warps, strict=True)]
        fits = [
            (each[2] if side.major == "K" else each[i]) % side.vector == 0
            for i, side in enumerate((self.a, self.b))
        ]
        yield "whole vectors of each thread", not all(fits)

    def smem_layouts(self) -> list[AnyLayout]:
        """Return no layouts: the operands are not in shared memory."""
        return []


def _vectors(threads: int, width: int) -> Any:
    """Return the permutation that gives each thread neighbours, as one vector."""
    return cute.Layout((threads, width), (width, 1)) if width > 1 else _


def _held(x: Any, side: Side) -> Any:
    """Return elements (MMA, MMA_MN, MMA_K) of memory in registers, loaded in vectors."""
    modes = (2, 1, 0) if side.major == "K" else (1, 2, 0)
    source = cute.select(x, modes)
    held = cute.make_rmem_tensor(source.shape, x.dtype)
    cute.copy(cute.Copy_Atom(f"UniversalCopy<{side.vector * x.dtype.bits}>", x.dtype), source, held)
    return cute.select(held, tuple([modes.index(i) for i in range(3)]))


@product_kernel
def gemv(
    A: Any,
    B: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    config: VectorConfig,
    epilogue: Epilogue,
) -> None:
    """Compute the outputs (D, ...) = f(A B^T, *arrays, *numbers) of few rows, or few columns.

    Args:
        A: (M,K) or (M,K,L).
        B: (N,K) or (N,K,L).
        arrays: by name what the epilogue reads, as `gemm` takes it.
        outputs: by name D, and others like it: (M,N) or (M,N,L).
        numbers: those of the epilogue.
        config: how it is computed.
        epilogue: f.

    """
    arrays, D = given(arrays, epilogue, "gemv"), outputs["D"]
    require(isinstance(config, VectorConfig), "gemv", "config", config, "a VectorConfig")
    assume_product(A, B, arrays, outputs, epilogue)
    (bM, bN, bK), M, N = config.tile, D.shape[0], columns_of(B, outputs, epilogue)
    L = D.shape[2] if cute.rank(D) > 2 else 1
    m, n = cute.ceil_div(M, bM), cute.ceil_div(N, bN)
    grid = (n, m, L) if config.warps[1] > 1 else (m, n, L)
    cute.launch(grid=grid, block=config.threads, pdl=bool(config.pdl))
    (bx, by, bz), mma = cute.block_idx(), config.tiled_mma()
    bx, by = (by, bx) if config.warps[1] > 1 else (bx, by)
    thr = mma.get_slice(cute.thread_idx())

    gA = cute.local_tile(of_batch(A, "matrix", bz), (bM, bK), (bx, _))  # (BLK_M, BLK_K, k)
    gB = cute.local_tile(of_batch(B, "matrix", bz), (bN, bK), (by, _))  # (BLK_N, BLK_K, k)
    tAgA, tBgB = thr.partition_A(gA), thr.partition_B(gB)  # (MMA, MMA_M, MMA_K, k)
    lanes, k = config.lanes_along_k, thr.thr_vmnk[3]
    parts = config.warps[2] // lanes  # type: ignore[misc]
    sums = cute.smem("f32", cute.Layout((bM, bN, parts)))  # (BLK_M, BLK_N, parts)
    mine = thr.partition_C(sums[_, _, k // lanes])  # (MMA, MMA_M, MMA_N)
    acc = thr.make_fragment_C(mine)
    acc.fill(0)
    if config.pdl:
        cute.griddepcontrol_wait()
        cute.griddepcontrol_launch_dependents()
    for i in cute.range(cute.size(gA, 2)):
        a, b = _held(tAgA[_, _, _, i], config.a), _held(tBgB[_, _, _, i], config.b)
        cute.gemm(mma, acc, a, b)
    if lanes > 1:
        acc = cute.warp_reduce("add", acc, lanes)
    with cute.when(k % lanes == 0):
        cute.copy(acc, mine)
    cute.syncthreads()

    copy, tile, place = config.result_copy(epilogue.in_pairs), (bM, bN), (bx, by, bz)
    with cute.when(cute.thread_idx() < copy.size()):
        own = copy.get_slice(cute.thread_idx()).partition_S  # (CPY, CPY_M, CPY_N) of a tile
        total: Any = None
        for t in range(parts):
            x = loaded(own(sums[_, _, t]), "f32")
            total = x if total is None else total + x
        total, terms = as_taken(total, epilogue), Terms(own, epilogue, arrays, tile, place)
        found = finished(epilogue, total, terms.at((_, _, _), total), numbers)
        for i, (x, to) in enumerate(zip(found, outputs.values(), strict=True)):
            part = stored_to(own, epilogue, i, of_batch(to, "matrix", bz), tile, place[:2])
            cute.copy(converted(x, to.dtype), part)


def check() -> None:
    """Multiply a matrix by a vector, with a bias, exactly."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 520)).astype(np.float16) for n in (1, 70))
    bias, d = rng.integers(-9, 9, 70).astype(np.float32), np.full((1, 70), np.nan, np.float32)
    side, last = Side("K", 8), LinearCombination(bias=True)
    config = VectorConfig("UniversalFMA<f32,f16,f16,f32>", (1, 8, 256), (1, 8, 32), 1, side, side)
    gemv(a, b, None, bias, d, 1.0, 0.0, config, last)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T + bias)


if __name__ == "__main__":
    check()
