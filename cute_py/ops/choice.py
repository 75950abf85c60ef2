"""Which kernel and configuration a product gets: those that are given, those that were measured, or
those of the rules.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from cute_py.calls.arrays import VECTOR_BYTES, dtype_of, strides_of
from cute_py.errors import CuteError, refusal
from cute_py.kernels.config import GemmConfig, Side, changed, choose_config
from cute_py.kernels.config_sm90 import instruction_of, require_result
from cute_py.layout.tuples import ceil_div
from cute_py.ops.gemm_tiles import all_for_gpu, for_gpu
from cute_py.ops.gemm_tiles_sm90 import (
    H200,
    Problem,
    band_of,
    candidates,
    changed_for_hopper,
    chosen,
    for_hopper,
    grid_of,
)
from cute_py.ops.operands import Rows, rows_of
from cute_py.ops.paths import HOST, Path, Sides, path_of, tma_wanted
from cute_py.ops.tuned import winner

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.dtypes.table import Dtype
    from cute_py.ops.libraries import Gpu
    from cute_py.ops.product import Product

    Reasons = Callable[[], tuple[str, ...]]

MOST_ALONG_YZ = 65535  # blocks of a grid along its second and third mode
WORTH = 1.5  # times the least estimated time: slower configurations are not measured


class Choice(NamedTuple):
    """How a product is computed.

    Attributes:
        path: which kernel, and which operands are copied.
        A, B: the operands [L, M, K] and [L, N, K] as it reads them.
        config: the configuration.
        numbers: what the kernel takes after alpha and beta.
        why: returns the reasons of a configuration that was chosen here.
    """

    path: Path
    A: Any
    B: Any
    config: GemmConfig
    numbers: tuple[int, ...]
    why: Reasons


def choose(product: Product, known: GemmConfig | None = None) -> Choice:
    """Return how a product is computed; `known`: by a configuration that was chosen before."""
    given = known or product.request.config
    best = None if given else _measured(product)
    if best is not None:
        with suppress(CuteError):  # of another version with the same number
            return _decided(product, best, None)
    return _decided(product, given, known)


def _decided(product: Product, given: GemmConfig | str | None, known: GemmConfig | None) -> Choice:
    path = _path(product, given)
    A, B = product.operands(path)
    config, why = (known, tuple) if known else _config(product, path, given)
    return Choice(path, A, B, config, _numbers(product, config), why)


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
    from cute_py.ops.product import GEMM, Product

    request, library = GEMM.taken(GEMM.bound(*args, **named))
    with library.inside():
        product = Product(request, library)
        product.require_some("cute.ops.gemm_config")
        found = choose(product)
        why = found.why()
        more = [f"{x}: copied first, as no kernel reads its strides" for x in product.gathered()]
        if request.out is not None and not product.call().outputs[0].direct:
            more.append("out: copied from a new array, which no kernel writes in its place")
    path = () if found.path.reason in why else (found.path.reason,)
    return found.config.because(*path, *why, *more)


def all_for(product: Product) -> list[GemmConfig]:
    """Return the configurations to measure, the rule's choice first; all are for operands that are
    copied alike.
    """
    path, gpu = _path(product, None), product.gpu
    assert gpu is not None, "measured on a GPU"
    first, _why = _config(product, path, None)
    if path.tma:
        found = candidates(_problem(product, gpu, path))
        most = WORTH * min(x.time for x in found)
        more = [replace(x.config, pdl=first.pdl) for x in found if x.time <= most]
    else:
        tiles = all_for_gpu(first, *_facts_for_gpu(product, path), gpu)
        more = [_placed(x, product) for x in tiles]
    other = _path(product, "schedule=multistage")
    if path.tma and not any((*path.copies, *other.copies)):
        more.append(_config(product, other, None)[0])
    return list(dict.fromkeys([first, *more]))


def facts(product: Product) -> tuple[object, ...]:
    """Return all that the configuration of a product may depend on."""
    sides = [(kind.name, *x) for x, kind in zip(product.rows, product.kinds, strict=True)]
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
    wanted = tma_wanted(given)  # refuses text that is no configuration
    if product.K == 0:
        return Path(False, ("", ""), "path: K is 0, so the sums are 0: no operand is read")
    (a, b), gpu = product.rows, product.gpu
    sides = Sides(
        shape=(product.M, product.N, product.K),
        kinds=(product.kinds[0].name, product.kinds[1].name),
        majors=(a.major, b.major),
        pitches=(a.pitch, b.pitch),
        rows=(a.alignment, b.alignment),
        capability=HOST if gpu is None else gpu.capability,
    )
    return path_of(sides, wanted)


def _config(
    product: Product, path: Path, given: GemmConfig | str | None
) -> tuple[GemmConfig, Reasons]:
    """Choose a configuration for operands as a path reads them, or take the one that is given, or
    change some of its parts; return it, and why.
    """
    sides = product.rows_by(path)
    if isinstance(given, GemmConfig) and product.K:
        for side, x, kind in zip((given.a, given.b), sides, product.kinds, strict=True):
            _require_side(side, x, kind, path.tma)
        _require_kernel(product, given)
        config = _placed(given, product)
        return config, lambda: config.reasons
    text, gpu = given if isinstance(given, str) and product.K else None, product.gpu
    if path.tma and gpu is not None:
        problem = _problem(product, gpu, path)
        instruction_of(*product.kinds)  # a part that is given may be for another kernel
        if text is None:
            config, why = chosen(problem)
            return config, lambda: (path.reason, *why())
        config = for_hopper(problem)
        config = config.because(path.reason, *config.reasons)
        config = changed_for_hopper(config, text, problem)
        try:
            _require_kernel(product, config)
        except CuteError as error:
            raise error.inside(f"config({text})") from None
        return config, lambda: config.reasons
    shape, majors = (product.M, product.N, product.K), (sides[0].major, sides[1].major)
    alignments = sides[0].alignment, sides[1].alignment
    config = choose_config(*shape, product.kinds, majors, alignments)
    if gpu is not None:
        config = for_gpu(config, *_facts_for_gpu(product, path), gpu)
        config = config.because(path.reason, *config.reasons)
    config = _placed(config if text is None else changed(config, text), product)
    return config, lambda: config.reasons


def source_by_tma(product: Product) -> bool:
    """Tell whether TMA can read C to where D is: rows of its type, which it can address."""
    C = product.source
    if C is None or dtype_of(C) is not product.kind:
        return False
    rows, apart = rows_of(C), C.shape[1] == 1 or strides_of(C)[1] >= C.shape[2]
    return apart and rows.major == "K" and rows.pitch == VECTOR_BYTES


def _problem(product: Product, gpu: Gpu, path: Path) -> Problem:
    a, b = product.rows_by(path)
    return Problem(
        shape=(product.M, product.N, product.K),
        batch=prod(product.batch),
        kinds=product.kinds,
        majors=(a.major, b.major),
        pitches=(a.apart, b.apart),
        result=product.kind,
        epilogue=product.epilogue(),
        source_by_tma=source_by_tma(product),
        fast_accum=product.request.fast_accum,
        gpu=gpu,
    )


def _facts_for_gpu(product: Product, path: Path) -> tuple[tuple[int, int, int, int], Dtype, Dtype]:
    shape = product.M, product.N, product.operands(path)[0].shape[2], prod(product.batch)
    return shape, product.kinds[0], product.kind


def _numbers(product: Product, config: GemmConfig) -> tuple[int, ...]:
    """Return the numbers that the kernel of a configuration takes after alpha and beta."""
    if not config.by_warpgroups:
        return ()
    gpu, shape = product.gpu, (product.M, product.N, product.K)
    most = H200 if gpu is None else gpu.multiprocessors  # the emulator has none
    blocks, waves = grid_of(config, shape, prod(product.batch), most)
    return blocks, band_of(config, shape, waves)


def _placed(config: GemmConfig, product: Product) -> GemmConfig:
    """Return a configuration with a grid that a GPU has, and without the empty blocks of a band
    that extends past M.
    """
    if config.by_warpgroups:
        return config
    m, n = (ceil_div(x, y) for x, y in zip((product.M, product.N), config.tile, strict=False))
    band = config.band if config.band <= m else 0
    along_z = prod(product.batch) * (ceil_div(m, band) if band else 1)
    flat = int(max(n, along_z) > MOST_ALONG_YZ)
    known = (band, flat) == (config.band, config.flat)
    return config if known else replace(config, band=band, flat=flat)


def _require_side(side: Side, x: Rows, kind: Dtype, tma: bool) -> None:
    """Refuse a given configuration that reads an operand in another order than it has in memory."""
    divisor = x.pitch if tma else x.alignment
    major, most = x.major, max(divisor * 8 // kind.bits, 1)
    if side.major != major or side.vector > most:
        rule = f"major {major} and vectors of at most {most} elements here"
        config = f"an operand read as {side}"
        raise refusal("gemm-config", operation="cute.ops.gemm", config=config, rule=rule)


def _require_kernel(product: Product, config: GemmConfig) -> None:
    """Refuse a configuration for other types, or whose kernel does not compute such a result."""
    atom, (a, b) = config.mma_atom, product.kinds
    if (atom.a_type, atom.b_type) != (a, b):
        rule = f"an atom that multiplies {a} and {b}"
        raise refusal("gemm-config", operation="cute.ops.gemm", config=config, rule=rule)
    if config.by_warpgroups:
        rows = product.M * prod(product.batch)  # the pitch of one does not matter
        addressable = rows == 1 or product.N * product.kind.bits % (8 * VECTOR_BYTES) == 0
        source = None if product.c is None else source_by_tma(product)
        require_result(config, product.kind, addressable, source)
