"""Which kernel and configuration a product gets: those that are given, those that were measured, or
those of the rules.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import gcd, prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from cute_py.calls.arrays import VECTOR_BYTES, dtype_of, strides_of
from cute_py.dtypes.table import f32
from cute_py.errors import CuteError, refusal
from cute_py.kernels.config import GemmConfig, MultistageConfig
from cute_py.kernels.config_sm90 import CLASSES
from cute_py.kernels.configuration import parts_of
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.gemv import VectorConfig
from cute_py.kernels.splits import (
    MOST_PARTS,
    NO_SPLIT,
    PRODUCTS,
    SHARES,
    SLICES,
    TURNS,
    Split,
)
from cute_py.layout.tuples import ceil_div
from cute_py.ops.family import Taken, asked_by, changed_for, take
from cute_py.ops.family import choose as choose_least
from cute_py.ops.gemm_families import (
    FAMILIES,
    HOPPER,
    MULTISTAGE,
    ROWS,
    TILED,
    OperandReads,
    by_tma,
    kernel_of,
)
from cute_py.ops.gemm_tiles_sm90 import ProductFacts, candidates
from cute_py.ops.operands import rows_of
from cute_py.ops.tuned import winner

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.kernels.epilogue import Epilogue
    from cute_py.ops.operands import Rows
    from cute_py.ops.product import Product
    from cute_py.trace.kernel import Kernel

    Reasons = Callable[[], tuple[str, ...]]

PARTS = (2, 3, 4, 5, 6, 8, 12, 16, 32, 64, 128)  # of K, that are tried
LEAST, MOST_SUMS = 256, 1 << 26  # elements of K in a part, at least; sums of parts, at most
LONG = 2048  # elements of K, from which on it is split where nothing estimates the times
# microseconds without parts, from which on they are tried; microseconds for a second kernel, and
# bytes that it reads in one
SHORTEST, ADDING, ADDED = 4.0, 1.19, 4.8e6
NONE_READ = Taken(
    (MULTISTAGE,),
    OperandReads(whole=True),
    "path: K is 0, so the sums are 0: no operand is read",
)


class Choice(NamedTuple):
    """How a product is computed.

    Attributes:
        taken: the families that read it, and how.
        A, B: the operands [L, M, K] and [L, N, K] as they are read.
        kernel: the kernel.
        config: the configuration.
        epilogue: what happens to the sums.
        numbers: what the kernel takes after alpha and beta.
        why: returns the reasons of a configuration that was chosen here.
    """

    taken: Taken
    A: Any
    B: Any
    kernel: Kernel
    config: GemmConfig
    epilogue: Epilogue
    numbers: tuple[int, ...]
    why: Reasons


def problem_of(product: Product, known: Epilogue | None = None) -> ProductFacts:
    """Return what the choice for a product depends on; `known`: the epilogue, where all has been
    chosen before.
    """
    a, b = product.rows
    return ProductFacts(
        shape=(product.M, product.N, product.K),
        batch=prod(product.batch),
        kinds=product.kinds,
        result=product.kind,
        epilogue=known or product.epilogue(),
        source_by_tma=known is None and source_by_tma(product),
        fast_accum=product.request.fast_accum,
        gpu=product.gpu,
        **_facts_of(a, b),
    )


def _facts_of(a: Rows, b: Rows) -> dict[str, Any]:
    """Return what a problem knows of its operands."""
    return {
        "majors": (a.major, b.major),
        "pitches": (a.apart, b.apart),
        "addressed": (a.pitch, b.pitch),
        "aligned": (a.alignment, b.alignment),
    }


def source_by_tma(product: Product) -> bool:
    """Tell whether TMA can read C to where D is: rows of its type, which it can address."""
    C = product.source
    if C is None or dtype_of(C) is not product.kind:
        return False
    rows, apart = rows_of(C), C.shape[1] == 1 or strides_of(C)[1] >= C.shape[2]
    return apart and rows.major == "K" and rows.pitch == VECTOR_BYTES


def choose(product: Product, known: tuple[GemmConfig, Epilogue] | None = None) -> Choice:
    """Return how a product is computed; `known`: by choices that were made before."""
    if known is not None:
        return _choice(product, problem_of(product, known[1]), known[0], known[0])
    given, problem = product.request.config, problem_of(product)
    best = None if given else _measured(product)
    if best is not None:
        with suppress(CuteError):  # of another version with the same number
            return _choice(product, problem, best)
    return _choice(product, problem, given)


def _choice(
    product: Product,
    problem: ProductFacts,
    given: GemmConfig | str | None,
    known: GemmConfig | None = None,
) -> Choice:
    taken = _taken(problem, given)
    (A, B), problem = product.operands(taken.reads), _as_read(product, problem, taken.reads)
    given = given if product.K else None
    found: tuple[Any, Reasons] = (known, tuple) if known else _config(problem, taken, given)
    config, why = found
    family, epilogue = FAMILIES[config.family], problem.epilogue
    numbers = family.numbers(config, in_parts(problem, products_of(config)))
    return Choice(taken, A, B, kernel_of(config), config, epilogue, numbers, why)


def _taken(problem: ProductFacts, given: GemmConfig | str | None) -> Taken:
    """Return which families compute a product, by a configuration if one is given."""
    kind = asked_by(TILED, given)  # refuses text that is no configuration
    known = ROWS if given is None or kind is VectorConfig else TILED
    return take(known, problem, kind) if problem.shape[2] else NONE_READ


def _as_read(product: Product, problem: ProductFacts, reads: OperandReads) -> ProductFacts:
    """Return a problem with the operands as they are read."""
    A, B = product.operands(reads)
    if product.K and A is product.A and B is product.B:
        return problem
    shape = product.M, product.N, A.shape[2]  # zeros may follow
    return replace(problem, shape=shape, **_facts_of(*product.rows_by(reads)))


def _config(
    problem: ProductFacts, taken: Taken, given: GemmConfig | str | None
) -> tuple[GemmConfig, Reasons]:
    """Choose a configuration for operands as they are read, or take the one that is given, or
    change some of its parts; return it, and why.
    """
    if isinstance(given, GemmConfig):
        made: Any = counted(given, problem)
        fitting = FAMILIES[given.family].fits(made, in_parts(problem, made.parts.products))
        return fitting, lambda: fitting.reasons
    whole, split = problem, NO_SPLIT
    if given is not None:
        split = _number(parts_of(given, CLASSES).get("parts", split), problem)
        problem = in_parts(problem, split.products)
    rule, path = taken, [taken.reason]
    if problem.gpu is None:  # what is measured on a GPU says nothing of the emulator
        rule, path = taken._replace(families=(MULTISTAGE,)), []
    config, why = choose_least(rule, problem)
    if not given:
        if problem.gpu is not None and rule.first.reads is by_tma:
            config, why = _maybe_in_parts(rule, problem, config, why)
        elif problem.gpu is not None and isinstance(config, MultistageConfig):
            config, why = _filled(rule, problem, config, why)
        return config, lambda: (*path, *why())
    changed: Any = changed_for(taken, config.because(*path, *why()), given, problem)
    changed = counted(replace(changed, parts=split) if split.count else changed, whole)
    return changed, lambda: changed.reasons


# -- K in parts that are products of their own


def in_parts(problem: ProductFacts, count: int) -> ProductFacts:
    """Return a product whose batch are the parts of K of another one."""
    if count == 1:
        return problem
    (M, N, K), plain = problem.shape, LinearCombination()
    each, (a, b) = K // count, problem.kinds
    runs = [
        gcd(VECTOR_BYTES, each * kind.bits // 8) if major == "K" else VECTOR_BYTES
        for kind, major in zip((a, b), problem.majors, strict=True)
    ]
    return replace(
        problem,
        shape=(M, N, each),
        batch=count,
        result=f32,
        epilogue=plain,
        source_by_tma=False,
        addressed=(gcd(problem.addressed[0], runs[0]), gcd(problem.addressed[1], runs[1])),
        aligned=(gcd(problem.aligned[0], runs[0]), gcd(problem.aligned[1], runs[1])),
    )


def products_of(config: GemmConfig) -> int:
    """Return how many products of their own the parts of K are."""
    parts: Split = config.parts  # type: ignore[attr-defined]  # all classes have it
    return parts.products


def _number(split: Split, problem: ProductFacts, tile: tuple[int, int, int] | None = None) -> Split:
    """Return a split of K with a number of parts: that of the rule where none is given, and a tile
    is known where that matters. Refuse one that a product cannot have.
    """
    if split.count is None and split.how == PRODUCTS:
        split = replace(split, count=max(_most_parts(problem), 1))
    if split.count is None and tile is not None:
        (M, N, K), (m, n, k) = problem.shape, tile
        tiles, depth = ceil_div(M, m) * ceil_div(N, n) * problem.batch, ceil_div(K, k)
        most = problem.multiprocessors
        counts = {TURNS: min(most // tiles, depth), SHARES: min(most, tiles * depth), SLICES: 2}
        split = replace(split, count=min(max(counts[split.how], 1), MOST_PARTS))
    _require_parts(problem, split.products)
    return split


def counted(config: GemmConfig, problem: ProductFacts) -> GemmConfig:
    """Return a configuration whose K is split into a number of parts."""
    parts: Split = config.parts  # type: ignore[attr-defined]  # all classes have it
    found = _number(parts, problem, config.tile)
    if found == parts:
        return config
    made: Any = config
    return replace(made, parts=found)  # type: ignore[no-any-return]


def _numbers(problem: ProductFacts) -> list[int]:
    """Return the numbers of parts of K that are tried: each is of whole vectors, and not short."""
    (M, N, K), bits = problem.shape, problem.kinds[0].bits
    return [
        n
        for n in PARTS
        if K % n == 0
        and K // n * bits % (8 * VECTOR_BYTES) == 0
        and K // n >= LEAST
        and M * N * n <= MOST_SUMS
    ]


def _most_parts(problem: ProductFacts) -> int:
    """Return into how many parts K is split where each multiprocessor is to have one of them."""
    tiles = ceil_div(problem.shape[0], 128) * ceil_div(problem.shape[1], 128)
    return max((n for n in _numbers(problem) if n * tiles <= problem.multiprocessors), default=1)


def _require_parts(problem: ProductFacts, count: int) -> None:
    """Refuse a number of parts of K that a product cannot have."""
    if count == 1:
        return
    kind, K = problem.kinds[0], problem.shape[2]
    rules = {
        "parts of a product that is no batch": problem.batch == 1,
        "parts of a product of floats that are summed in f32": kind.is_float and kind.bits < 64,
        f"parts that divide K={K}": count >= 1 and K % max(count, 1) == 0,
        "an epilogue in f32": problem.epilogue.compute == "f32",
    }
    for rule, holds in rules.items():
        if not holds:
            given = f"split={PRODUCTS}:{count}"
            raise refusal("gemm-config", operation="cute.ops.gemm", config=given, rule=rule)


def _may_be_in_parts(problem: ProductFacts) -> bool:
    """Tell whether a second kernel can add up the parts of K."""
    kind = problem.kinds[0]
    usual = kind.is_float and kind.bits < 64 and problem.epilogue.compute == "f32"
    return usual and problem.batch == 1


def _filled(
    rule: Taken, problem: ProductFacts, config: GemmConfig, why: Reasons
) -> tuple[GemmConfig, Reasons]:
    """Return another configuration, with K in parts, where D has too few tiles for a GPU that is
    not Hopper, whose times are not estimated.
    """
    is_other = problem.gpu is not None and problem.gpu.capability != HOPPER
    few = is_other and problem.shape[2] >= LONG and _may_be_in_parts(problem)
    count = _most_parts(problem) if few else 1
    if count == 1:
        return config, why
    chosen: tuple[Any, Reasons] = choose_least(rule, in_parts(problem, count))
    said = f"parts: K in {count}, as D has too few tiles, added up by a second kernel"
    made, inner = chosen
    return replace(made, parts=Split(PRODUCTS, count)), lambda: (*inner(), said)


def _maybe_in_parts(
    rule: Taken, problem: ProductFacts, config: GemmConfig, why: Reasons
) -> tuple[GemmConfig, Reasons]:
    """Return another configuration where K in parts, and a kernel that adds these up, take less
    time by their estimates.
    """
    M, N, _K = problem.shape
    tiles = ceil_div(M, 128) * ceil_div(N, 128)
    if not _may_be_in_parts(problem) or tiles > problem.multiprocessors:
        return config, why
    alone = min(x.time for x in candidates(problem))
    if alone < SHORTEST:
        return config, why
    best, count = alone, 1
    for parts in _numbers(problem):
        found = min(candidates(in_parts(problem, parts)), key=attrgetter("time"))
        adding = ADDING + 4 * M * N * (parts + 1) / ADDED
        if found.time + adding < best:
            best, count = found.time + adding, parts
    if count == 1:
        return config, why
    chosen: tuple[Any, Reasons] = choose_least(rule, in_parts(problem, count))
    config, inner = chosen
    said = f"parts: K in {count}, added up by a second kernel, about {best:.1f} us"
    made: Any = config
    return replace(made, parts=Split(PRODUCTS, count)), lambda: (*inner(), said)


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
    from cute_py.ops.product import GEMM

    ours, given = GEMM.requested(*args, **named)
    request, library = ours.taken(given)
    with library.inside():
        product: Any = ours.problem(request, library)
        product.require_some("cute.ops.gemm_config")
        found = choose(product)
        why = found.why()
        more = [f"{x}: copied first, as no kernel reads its strides" for x in product.gathered()]
        if request.out is not None and not product.call().outputs[0].direct:
            more.append("out: copied from a new array, which no kernel writes in its place")
    reason = found.taken.reason
    return found.config.because(*(() if reason in why else (reason,)), *why, *more)


# -- what is measured


def all_for(product: Product) -> list[GemmConfig]:
    """Return the configurations to measure, the rule's choice first; all are for operands that are
    copied alike.
    """
    problem = problem_of(product)
    taken, other = _taken(problem, None), take(ROWS, problem, MultistageConfig)
    read = _as_read(product, problem, taken.reads)
    first, _why = _config(read, taken, None)
    more = [*taken.first.others(read, first)]
    for each in (take(TILED, problem), other):
        if each.first is not taken.first and not any((*taken.reads.copies, *each.reads.copies)):
            more.append(_config(problem, each, None)[0])
    return list(dict.fromkeys([first, *more]))


def facts(product: Product) -> tuple[object, ...]:
    """Return all that the configuration of a product may depend on."""
    sides = [(kind.name, *x) for x, kind in zip(product.rows, product.kinds, strict=True)]
    terms = [(name, dtype_of(x).name) for name, x in product.terms.items()]
    terms.append(("by TMA", str(source_by_tma(product))))
    how = product.kind.name, repr(product.epilogue()), product.request.fast_accum
    gpu, shape = product.gpu, (product.M, product.N, product.K)
    return shape, prod(product.batch), tuple(sides), tuple(terms), how, gpu, gpu and gpu.name


def _measured(product: Product) -> GemmConfig | None:
    """Return the configuration that `cute.tune` found for products like this, if it did."""
    if product.library.on_host or 0 in (product.K, *product.shape):
        return None
    return winner(lambda: facts(product), lambda: all_for(product))
