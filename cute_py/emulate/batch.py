"""`Batch`: the state of blocks that run together, a record of parts that are made in one place.

A plan is compiled once, and its steps run on any batch, several at a time: all state of a run is in
its batches, and in what they share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cute_py.emulate.agreements import Agreed, MaxNReg, Promises
from cute_py.emulate.barriers import Barriers
from cute_py.emulate.clocks import Clocks
from cute_py.emulate.engines import Engines
from cute_py.emulate.faults import CLOCKED, Faults
from cute_py.emulate.global_memory import GlobalMemory
from cute_py.emulate.mbarriers import Mbarriers
from cute_py.emulate.peers import Peers
from cute_py.emulate.releases import Releases
from cute_py.emulate.shadow import Shadow
from cute_py.emulate.spans import INDICES, LANES, Array, Clusters, Spans, Value
from cute_py.emulate.storages import RegisterFile, SharedMemory
from cute_py.plan.ops import Fence
from cute_py.plan.walk import arrives_at_peers, cluster_barriers

if TYPE_CHECKING:
    from cute_py.emulate.arguments import Arguments
    from cute_py.emulate.clocks import Agents
    from cute_py.emulate.regions import Regions
    from cute_py.emulate.report import Report
    from cute_py.emulate.resources import Resources


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The grid of a run, and what all of its batches share.

    Attributes:
        needs: what the plan uses of a block; given: what it is given.
        shape: the blocks in (x, y, z).
        report: what counts, if anything does.
        regions: of global memory; None where it is not watched.
        promised: the values that threads of the whole grid have promised to share.
    """

    needs: Resources
    given: Arguments
    shape: tuple[int, int, int]
    report: Report | None
    regions: Regions | None
    promised: Agreed


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The state of blocks that run together, all resident.

    Attributes:
        ended: which warps [block, warp] have.
        alive: of divided warps (block, warp): the lanes [1, 1, lane] that have not returned.
        clocks, releases, globals, shadow, peers, engines: who touched memory, and what orders it;
            None where nothing asks for that.
    """

    given: Arguments
    report: Report | None
    agents: Agents
    faults: Faults
    spans: Spans
    clusters: Clusters
    smem: SharedMemory
    registers: dict[str, RegisterFile]
    ended: Array
    alive: dict[tuple[int, int], Array]
    clocks: Clocks | None
    releases: Releases | None
    globals: GlobalMemory | None
    shadow: Shadow | None
    peers: Peers | None
    engines: Engines | None
    mbarriers: Mbarriers
    barriers: Barriers
    maxnreg: MaxNReg
    promises: Promises


def batch_of(grid: Grid, blocks: int, first: int) -> Batch:
    """Return so many blocks of a grid, from the block number `first` on: nothing has run yet."""
    needs, checks, plan = grid.needs, grid.needs.checks, grid.needs.plan
    warps, ended = needs.warps, np.zeros((blocks, needs.warps), np.bool_)
    faults = Faults(plan, grid.shape, first)
    clusters = Clusters(blocks, first, grid.shape, plan.launch.cluster)
    clocks = _clocks(needs, blocks, clusters) if checks & CLOCKED else None
    releases = Releases(clocks, clusters) if clocks and needs.traffic.releases else None
    shadow = Shadow(clocks, needs.grain, faults) if clocks and needs.grain else None
    watch = peers = engines = None
    lifetimes = "lifetimes" in checks
    if clocks and grid.regions:
        watch = GlobalMemory(grid.regions, clocks, clusters, faults, releases)
    if clocks and needs.peers:
        peers = Peers(clocks, shadow, clusters, faults, ended, lifetimes)
    if clocks:
        engines = Engines(clocks, shadow, peers, faults, clusters, ended, lifetimes)
    return Batch(
        given=grid.given,
        report=grid.report,
        agents=needs.agents,
        faults=faults,
        spans=Spans(blocks, warps, _symbols(warps, grid.shape, blocks, first) | grid.given.symbols),
        clusters=clusters,
        smem=SharedMemory(blocks, needs.stride),
        registers={x.name: RegisterFile(x, blocks, warps) for x in needs.registers.values()},
        ended=ended,
        alive={},
        clocks=clocks,
        releases=releases,
        globals=watch,
        shadow=shadow,
        peers=peers,
        engines=engines,
        mbarriers=Mbarriers(blocks, needs.agents, clocks, shadow, faults, "mbarriers" in checks),
        barriers=Barriers(ended, clocks, clusters, faults, "convergence" in checks),
        maxnreg=MaxNReg(warps, clocks, faults),
        promises=Promises(grid.promised, faults, clusters, blocks, warps),
    )


def _clocks(needs: Resources, blocks: int, clusters: Clusters) -> Clocks:
    body = needs.plan.body
    weak = arrives_at_peers(body) and not cluster_barriers(body)
    fences = any(isinstance(op, Fence) and op.kind == "proxy_async" for op in needs.plan.ops)
    return Clocks(needs.agents, blocks, clusters.size, clusters.rank, weak, fences)


def _symbols(warps: int, grid: tuple[int, int, int], blocks: int, first: int) -> dict[str, Value]:
    """Return thread and block for the threads of a batch."""
    b = np.arange(first, first + blocks)[:, None, None]
    x, y, z = grid
    values = (
        np.arange(warps * LANES).reshape(1, warps, LANES),
        b % max(x, 1) if x > 1 else 0,
        b // max(x, 1) % max(y, 1) if y > 1 else 0,
        b // max(x * y, 1) if z > 1 else 0,
    )
    return dict(zip(INDICES, values, strict=True))
