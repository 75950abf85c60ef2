"""The families of kernels of the convolutions: what each reads, and the tiles that it gets.

A convolution is a product, so its configurations are those of `gemm`: they are chosen by the facts
of the implicit product.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cute_py.errors import refusal
from cute_py.kernels.config import GemmConfig, MultistageConfig
from cute_py.kernels.conv_gathered import (
    conv_gathered,
    conv_gathered_split,
    conv_wgrad,
    conv_wgrad_split,
)
from cute_py.kernels.convolution import WGRAD
from cute_py.kernels.splits import PRODUCTS, SHARES, Split
from cute_py.layout.tuples import ceil_div
from cute_py.ops.choice import counted
from cute_py.ops.family import Estimate, Family, Reads, changed_for, choose, take
from cute_py.ops.gemm_families import MULTISTAGE, SPILLED

if TYPE_CHECKING:
    from cute_py.trace.kernel import Kernel


def kernel_of(kind: str, config: MultistageConfig) -> Kernel:
    """Return the kernel of a configuration, for fprop, dgrad or wgrad."""
    plain, split = (conv_gathered, conv_gathered_split), (conv_wgrad, conv_wgrad_split)
    found: Kernel = (split if kind == WGRAD else plain)[config.parts.in_memory]
    return found


def _by_vectors(problem: Any) -> Reads:
    takes = problem.kinds[0].name != "f32"
    return Reads(takes, "" if takes else "f32, which mma.sync does not multiply")


def _by_elements(_problem: Any) -> Reads:
    return Reads()


def _configs(problem: Any) -> list[Estimate]:
    """Return the tile that a product of these sizes has; with few tiles of a long K, blocks have
    equal shares of K.
    """
    facts = problem.product
    ((_time, config),) = MULTISTAGE.configs(facts)
    (m, n, k), (M, N, K) = config.tile, facts.shape
    tiles = ceil_div(M, m) * ceil_div(N, n) * facts.batch
    units, blocks = tiles * ceil_div(K, k), facts.multiprocessors
    if problem.of == WGRAD and facts.gpu is not None and tiles < blocks:
        split = Split(SHARES, min(blocks, units))
        config = replace(config, parts=split, band=0, prefetch=0, flat=0, spill_bytes=SPILLED)
    return [Estimate(1.0, _stored(config, problem))]


def _stored(config: MultistageConfig, problem: Any) -> MultistageConfig:
    """Return a configuration that writes D as its kernel can: rows anywhere, one by one."""
    return replace(config, store=0, stmatrix=0) if problem.is_scattered and config.store else config


def _fits(given: MultistageConfig, problem: Any) -> MultistageConfig:
    """Return a configuration that was given; refuse others than the kernels here have."""
    config: Any = counted(MULTISTAGE.fits(given, problem.product), problem.product)
    if config.parts.how == PRODUCTS:
        rule = "parts of K in one kernel: split=stream or split=serial"
        raise refusal("gemm-config", operation=problem.operation, config=config, rule=rule)
    return _stored(config, problem)


def _changed(config: MultistageConfig, text: str, problem: Any) -> MultistageConfig:
    assert MULTISTAGE.changed is not None
    return _fits(MULTISTAGE.changed(config, text, problem.product), problem)


def _others(problem: Any, config: MultistageConfig) -> list[MultistageConfig]:
    parts = config.parts
    found = [x for x in MULTISTAGE.others(problem.product, config) if not parts.in_memory]
    return [_stored(x, problem) for x in found]


GATHERED = Family(
    "multistage",
    conv_gathered,
    MULTISTAGE.config,
    _configs,
    _by_vectors,
    "cp.async of gathered vectors, and mma.sync",
    fits=_fits,
    changed=_changed,
    others=_others,
)
FAMILIES = (
    GATHERED,
    replace(GATHERED, name="simt", reads=_by_elements, means="gathered elements, and FMA"),
)


def configured(problem: Any) -> Any:  # a MultistageConfig
    """Return the configuration that a problem asks for, or the one of the rule."""
    given, taken = problem.request.config, take(FAMILIES, problem)
    if isinstance(given, GemmConfig):
        if type(given) is not taken.first.config:
            why = "a MultistageConfig: this convolution is no product of matrices in memory"
            raise refusal("ops-family", operation=problem.operation, config=given, why=why)
        return taken.first.fits(given, problem)
    config, reasons = choose(taken, problem)
    config = config.because(taken.reason, *reasons())
    return config if given is None else changed_for(taken, config, given, problem)
