"""Which kernel and configuration a product gets: those that are given, those that were measured, or
those of the rules.
"""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from cute_py.calls.arrays import VECTOR_BYTES, dtype_of, strides_of
from cute_py.errors import refusal
from cute_py.kernels.config import GemmConfig, Side, changed, choose_config
from cute_py.layout.tuples import ceil_div
from cute_py.ops.operands import alignment_of, lines_apart, major_of, pitch_of
from cute_py.ops.paths import Path, Sides, path_of, tma_wanted
from cute_py.ops.tuned import winner
from cute_py.ops.tuning import all_for_gpu, for_gpu
from cute_py.ops.tuning_sm90 import (
    Problem,
    band_of,
    candidates,
    changed_for_hopper,
    for_hopper,
    grid_of,
)

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.ops.libraries import Gpu
    from cute_py.ops.product import Product

H200 = 132  # multiprocessors, where the emulator has none
WORTH = 1.5  # times the least estimated time: slower configurations are not measured


class Choice(NamedTuple):
    """How a product is computed.

    Attributes:
        path: which kernel, and which operands are copied.
        A, B: the operands [L, M, K] and [L, N, K] as it reads them.
        config: the configuration.
        numbers: what the kernel takes after alpha and beta.
    """

    path: Path
    A: Any
    B: Any
    config: GemmConfig
    numbers: tuple[int, ...]


def choose(product: Product, known: GemmConfig | None = None) -> Choice:
    """Return how a product is computed; `known`: by a configuration that was chosen before."""
    given = known or product.request.config or _measured(product)
    path = _path(product, given)
    A, B = product.operands(path)
    config = known or _config(product, path, given, A, B)
    return Choice(path, A, B, config, _numbers(product, config))


def gemm_config(*args: Any, **named: Any) -> GemmConfig:
    """Return the configuration that `gemm` takes for these arguments, without computing the
    product. Its `explain()` says which kernel that is, what is copied first, and why.

    Args:
        args: those of `gemm`, for a result with elements.
        named: the same, by name.

    Raises what `gemm` raises.

    >>> import numpy as np
    >>> a = np.ones((32, 64), np.float16)
    >>> print(gemm_config(a, np.ones((128, 8), np.float16)[::2, ::2]).reasons[-1])
    B: copied first, as no kernel reads its strides
    """
    from cute_py.ops.product import Product, Request, gemm, taken

    request, library = taken(Request(**signature(gemm).bind(*args, **named).arguments))
    with library.inside():
        product = Product(request, library)
        product.require_some("cute.ops.gemm_config")
        config = choose(product).config
        more = [f"{x}: copied first, as no kernel reads its strides" for x in product.gathered()]
        if request.out is not None and not product.call().direct:
            more.append("out: copied from a new array, which no kernel writes in its place")
    return config.because(*config.reasons, *more)


def all_for(product: Product) -> list[GemmConfig]:
    """Return the configurations to measure, the rule's choice first; all are for operands that are
    copied alike.
    """
    path, gpu = _path(product, None), product.gpu
    assert gpu is not None, "measured on a GPU"
    A, B = product.operands(path)
    first = _config(product, path, None, A, B)
    if path.tma:
        found = candidates(_problem(product, gpu, A, B))
        most = WORTH * min(x.time for x in found)
        more = [replace(x.config, pdl=first.pdl) for x in found if x.time <= most]
    else:
        more = all_for_gpu(first, *_facts_for_gpu(product, A), gpu)
    if path.tma and not any(path.copies):
        more.append(_config(product, _path(product, "schedule=multistage"), None, A, B))
    return list(dict.fromkeys([first, *more]))


def facts(product: Product) -> tuple[object, ...]:
    """Return all that the configuration of a product may depend on."""
    sides = [
        (
            kind.name,
            major_of(x),
            pitch_of(x),
            alignment_of(x),
            lines_apart(x),
            strides_of(x)[0] == 0,
        )
        for x, kind in zip((product.A, product.B), product.kinds, strict=True)
    ]
    terms = [None if x is None else dtype_of(x).name for x in (product.c, product.bias)]
    terms.append(str(source_by_tma(product)))
    how = product.kind.name, repr(product.epilogue()), product.request.fast_accum
    gpu, shape = product.gpu, (product.M, product.N, product.K)
    return shape, prod(product.batch), tuple(sides), tuple(terms), how, gpu, gpu and gpu.name


def _measured(product: Product) -> GemmConfig | None:
    """Return the configuration that `cute.tune` found for products like this, if it did."""
    if product.library.on_host or 0 in (product.K, *product.shape):
        return None
    return winner(lambda: facts(product))


def _path(product: Product, given: GemmConfig | str | None) -> Path:
    """Return which kernel computes a product, by a configuration if one is given."""
    if product.K == 0:
        return Path(False, ("", ""), "path: K is 0, so the sums are 0: no operand is read")
    A, B, gpu = product.A, product.B, product.gpu
    sides = Sides(
        shape=(product.M, product.N, product.K),
        kinds=(product.kinds[0].name, product.kinds[1].name),
        majors=(major_of(A), major_of(B)),
        pitches=(pitch_of(A), pitch_of(B)),
        rows=(alignment_of(A), alignment_of(B)),
        capability=(0, 0) if gpu is None else gpu.capability,
    )
    return path_of(sides, tma_wanted(given))


def _config(
    product: Product, path: Path, given: GemmConfig | str | None, A: Any, B: Any
) -> GemmConfig:
    """Choose a configuration for operands as a path reads them, or take the one that is given, or
    change some of its parts.
    """
    if isinstance(given, GemmConfig) and product.K:
        for side, x, kind in zip((given.a, given.b), (A, B), product.kinds, strict=True):
            _require_side(side, x, kind, path.tma)
        return _banded(given, product.M)
    text, gpu = given if isinstance(given, str) and product.K else None, product.gpu
    if path.tma and gpu is not None:
        problem = _problem(product, gpu, A, B)
        config = _for_path(for_hopper(problem), path)
        return config if text is None else changed_for_hopper(config, text, problem)
    shape, majors = (product.M, product.N, product.K), (major_of(A), major_of(B))
    config = choose_config(*shape, product.kinds, majors, (alignment_of(A), alignment_of(B)))
    if gpu is not None:
        config = _for_path(for_gpu(config, *_facts_for_gpu(product, A), gpu), path)
    return config if text is None else _banded(changed(config, text), product.M)


def _for_path(config: GemmConfig, path: Path) -> GemmConfig:
    return config.because(path.reason, *config.reasons)


def source_by_tma(product: Product) -> bool:
    """Tell whether TMA can read C to where D is: rows of its type, which it can address."""
    C = product.source
    if C is None or dtype_of(C) is not product.kind or major_of(C) != "K":
        return False
    apart = C.shape[1] == 1 or strides_of(C)[1] >= C.shape[2]
    return apart and pitch_of(C) == VECTOR_BYTES


def _problem(product: Product, gpu: Gpu, A: Any, B: Any) -> Problem:
    return Problem(
        shape=(product.M, product.N, product.K),
        batch=prod(product.batch),
        kinds=product.kinds,
        majors=(major_of(A), major_of(B)),
        pitches=(lines_apart(A), lines_apart(B)),
        result=product.kind,
        epilogue=product.epilogue(),
        source_by_tma=source_by_tma(product),
        fast_accum=product.request.fast_accum,
        gpu=gpu,
    )


def _facts_for_gpu(product: Product, A: Any) -> tuple[tuple[int, int, int, int], Dtype, Dtype]:
    shape = product.M, product.N, A.shape[2], prod(product.batch)
    return shape, product.kinds[0], product.kind


def _numbers(product: Product, config: GemmConfig) -> tuple[int, ...]:
    """Return the numbers that the kernel of a configuration takes after alpha and beta."""
    if not config.by_warpgroups:
        return ()
    gpu, shape = product.gpu, (product.M, product.N, product.K)
    most = H200 if gpu is None else gpu.multiprocessors
    blocks, waves = grid_of(config, shape, prod(product.batch), most)
    return blocks, band_of(config, shape, waves)


def _banded(config: GemmConfig, M: int) -> GemmConfig:
    """Return a configuration without the empty blocks of a band that extends past M."""
    return replace(config, band=0) if config.band > ceil_div(M, config.tile[0]) else config


def _require_side(side: Side, x: Any, kind: Dtype, tma: bool) -> None:
    """Refuse a given configuration that reads an operand in another order than it has in memory."""
    divisor = pitch_of(x) if tma else alignment_of(x)
    major, most = major_of(x), max(divisor * 8 // kind.bits, 1)
    if side.major != major or side.vector > most:
        rule = f"major {major} and vectors of at most {most} elements here"
        config = f"an operand read as {side}"
        raise refusal("gemm-config", operation="cute.ops.gemm", config=config, rule=rule)
