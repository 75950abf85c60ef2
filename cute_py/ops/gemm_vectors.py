"""The configuration of a product with one row or one column: which threads read which elements.

Memory is the limit, so all multiprocessors must have loads on the way, by about as many blocks.
The numbers are from an H200 (`benchmarks/gpu/few_rows.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import VECTOR_BYTES
from cute_py.kernels.config import Side
from cute_py.kernels.gemv import VectorConfig
from cute_py.layout.tuples import ceil_div
from cute_py.ops.family import MOST_ALONG_YZ, Estimate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.ops.gemm_tiles_sm90 import ProductFacts

KINDS = ("f16", "bf16", "f32")
# blocks for each multiprocessor, from which on larger tiles are taken, and from which on the family
# takes a product, or with less for each block (bytes)
BLOCKS, LEAST, SMALL = 0.96, 0.8, 1 << 18
# threads along the rows of the matrix and along K: where rows are contiguous, and where columns are
ALONG_K = ((4, 64), (1, 256))
ACROSS = ((16, 32), (8, 32), (4, 64), (4, 128))


def why_not(problem: ProductFacts) -> str:
    """Return why the family does not compute a product of one row or column; "" where it does."""
    (M, N, K), kind = problem.shape, problem.kinds[0]
    if problem.gpu is None or kind is not problem.kinds[1] or kind.name not in KINDS:
        return f"{kind} and {problem.kinds[1]}"
    if problem.epilogue.compute != "f32" or problem.batch > MOST_ALONG_YZ:
        return "an epilogue in another type than f32, or more than 65,535 products"
    if problem.aligned[M <= N] != VECTOR_BYTES:
        return "rows that are no whole 16 bytes"
    blocks = max(_blocks(x, problem) for x in _all(problem))
    each = max(M, N) * K * problem.batch * kind.bits // 8 // blocks
    few = blocks < LEAST * problem.multiprocessors and each > SMALL
    return "too few blocks without parts of K" if few else ""


def configs(problem: ProductFacts) -> list[Estimate]:
    """Return the configuration of the rule, which estimates no time."""
    made = others(problem)
    enough = BLOCKS * problem.multiprocessors
    return [Estimate(0, next((x for x in made if _blocks(x, problem) >= enough), made[-1]))]


def others(problem: ProductFacts, _config: VectorConfig | None = None) -> list[VectorConfig]:
    """Return all configurations of a product."""
    return [*_all(problem)]


def _all(problem: ProductFacts) -> Iterator[VectorConfig]:
    (M, N, _K), kind = problem.shape, problem.kinds[0]
    atom, width = f"UniversalFMA<f32,{kind.name},{kind.name},f32>", VECTOR_BYTES * 8 // kind.bits
    wide = int(M <= N)  # which operand is the matrix
    major, other = problem.majors[wide], problem.majors[1 - wide]
    is_whole = other == "K" and problem.aligned[1 - wide] == VECTOR_BYTES
    sides: Any = Side(major, width), Side(other, width if is_whole else 1)
    for across, along in ALONG_K if major == "K" else ACROSS:
        rows = across * (1 if major == "K" else width)
        m, n = (1, rows) if wide else (rows, 1)
        if problem.epilogue.in_pairs and n % 2:
            continue
        warps = (1, across, along) if wide else (across, 1, along)
        a, b = sides[::-1] if wide else sides
        why = f"tile: {rows} rows of the matrix, {along} threads for each"
        yield VectorConfig(atom, (m, n, along * width), warps, 1, a, b, (why,), pdl=1)


def _blocks(config: VectorConfig, problem: ProductFacts) -> int:
    (m, n, _k), (M, N, _K) = config.tile, problem.shape
    return ceil_div(M, m) * ceil_div(N, n) * problem.batch
