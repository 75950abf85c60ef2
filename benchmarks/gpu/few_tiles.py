"""Products whose D has few tiles against torch.mm: which tile, and which split of K, is fastest.

    python -m benchmarks.gpu.few_tiles --out benchmarks/results/few_tiles.json [--seconds 150]
    python -m benchmarks.gpu.few_tiles --random 100 --seed 7 --rule     (the rule alone)
    python -m benchmarks.gpu.few_tiles --dry          (compiles; needs no GPU)
    python -m benchmarks.gpu.few_tiles --table FILE   (prints the table of a result)

For each product the rule's choice, tiles in steps of 8 columns with as many blocks as fit, and ways
to split K: among the blocks of a cluster, in turn, by shares, as products of their own; the product
of B and A for the transpose of D ("swap": what that would take, its D has other rows). Operands
exceed the L2 cache together. Each result is compared with torch's before it is timed, in graphs, by
turns with torch in a random order, after a rest of 2 ms. A ratio is torch's time over ours.

With `--rule` the products are new ones, of a seed that no fit has seen, that take 4 to 64 us by the
rule's estimate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from cute_py.codegen.build import UNLIMITED
from cute_py.errors import CuteError
from cute_py.kernels.config_sm90 import WarpgroupConfig, warpgroup_config
from cute_py.kernels.epilogue import LinearCombination
from cute_py.kernels.splits import NO_SPLIT, Split
from cute_py.layout.tuples import ceil_div
from cute_py.ops import gemm_tiles_sm90 as tiles
from cute_py.ops.choice import in_parts
from cute_py.ops.without_gpu import Outline, Outlines, gpu_of, outlined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cute_py.ops.call import Call
    from cute_py.ops.gemm_tiles_sm90 import ProductFacts, Row

    Shape = tuple[int, int, int]

KIND, ARCH, REST, GRAPH_US, ROUNDS = cute.dtype("bf16"), "sm_90a", 0.002, 1500.0, 7
KEPT = {2: 1.3, 4: 1.1}  # after so many rounds, those within that of the fastest stay
COLD, MOST_SETS, TOLERANCE = 150 << 20, 24, 4e-3
TIMES = 4, 64  # microseconds of products with --rule
LOST = (  # what was slower than torch.mm, by these measurements and at random
    *((16, 14336, 4096), (128, 6144, 4096), (64, 11008, 4096), (16, 1536, 2048)),
    *((1024, 1536, 2048), (512, 4096, 14336), (384, 384, 12288), (8560, 192, 4656)),
    *((1920, 1152, 3456), (576, 5568, 1408), (256, 4352, 3328), (4224, 320, 960)),
    *((9152, 256, 1064), (1072, 1264, 1912), (472, 1512, 5056), (864, 768, 9208)),
    *((448, 3136, 6976), (304, 3984, 3896), (2112, 256, 7680), (320, 1024, 8256)),
    *((3000, 768, 3072), (1536, 384, 16384), (768, 768, 12608), (128, 10240, 8192)),
    *((1024, 1024, 16384), (512, 512, 65536), (256, 1024, 32768)),
)
ROWS = (  # rows of a tile, warpgroups that share it, schedule
    *((64, 1, "cooperative"), (128, 2, "cooperative"), (192, 3, "cooperative")),
    *((256, 2, "cooperative"), (128, 1, "pingpong")),
)
CLUSTERS, SHARED = (2, 3, 4, 6, 8), ((64, 128), (128, 128), (128, 192), (128, 256), (256, 128))
PARTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64)


class Way(NamedTuple):
    """How a product is computed: by a configuration, perhaps as B A^T; the model's time of it."""

    config: WarpgroupConfig
    swaps: bool = False
    about: float = 0.0

    @property
    def label(self) -> str:
        """The name in results."""
        c = self.config
        m, n, _k = c.tile
        text = "swap " * self.swaps + "pp " * (c.schedule == "pingpong") + f"{m}x{n}"
        text += " c" * (0 < c.store < n) + f" s{c.stages}" + f" cl{c.cluster}" * (c.cluster > 1)
        text += f" split={c.split}" * (c.split > 1)
        return text + f" {c.parts}" * (c.parts != NO_SPLIT)


# -- what is tried


def drawn(seed: int) -> Iterator[Shape]:
    """Yield products with few rows, few tiles, or a long K, without end."""
    draw = random.Random(f"few tiles {seed}")

    def size(low: int, high: int, unit: int) -> int:
        return unit * max(1, round(low * (high / low) ** draw.random() / unit))

    for i in itertools.count():
        if i % 3 == 0:
            yield size(8, 128, 8), size(1024, 16384, 64), size(1024, 8192, 64)
        elif i % 6 == 1:
            yield size(128, 1024, 8), size(128, 1024, 64), size(4096, 32768, 64)
        else:
            unit = 64 if i % 2 else 8
            yield size(256, 4096, unit), size(256, 4096, unit), size(512, 8192, unit)


def facts(shape: Shape) -> ProductFacts:
    """Return what the rule knows of a product whose operands are along K."""
    pitch = min(128, shape[2] * 2 & -(shape[2] * 2))
    kinds, gpu = (KIND, KIND), gpu_of(ARCH)
    return tiles.ProductFacts(
        shape, 1, kinds, ("K", "K"), (pitch, pitch), KIND, LinearCombination(), False, gpu
    )


def timely(shape: Shape) -> bool:
    """Tell whether a product takes neither a few microseconds nor many, by the rule's estimate."""
    low, high = TIMES
    return low <= min(x.time for x in tiles.candidates(facts(shape))) <= high


def ways(shape: Shape, count: int) -> list[Way]:
    """Return the ways to compute a product that are tried, by the model's time."""
    problem, turned = facts(shape), facts((shape[1], shape[0], shape[2]))
    made = [*_tiled(problem), *_clustered(problem)]
    found = sorted(made, key=lambda w: w.about)[: count // 2]
    kinds = {w.config.tile[0] for w in found}  # the best of each height, too
    for m, _groups, schedule in ROWS:
        alike = [w for w in made if (w.config.tile[0], w.config.schedule) == (m, schedule)]
        found += [] if m in kinds else sorted(alike, key=lambda w: w.about)[:1]
    found += sorted(_in_memory(problem), key=lambda w: w.about)[: count // 5]
    found += sorted(_of_products(problem), key=lambda w: w.about)[: count // 5]
    if shape[0] <= 256:
        swapped = [*_tiled(turned), *_clustered(turned)]
        best = sorted(swapped, key=lambda w: w.about)[: count // 8]
        found += [w._replace(swaps=True) for w in best]
    return list({w.label: w for w in found}.values())


def _made(problem: ProductFacts, row: Row, memory: float = 0, **parts: Any) -> Iterator[Way]:
    """Yield a configuration of a row for a problem, if there is one."""
    one_pass = not row.in_parts and parts.get("split", 1) == 1
    how = problem.kinds, (row.m, row.n), row.warpgroups, row.schedule, problem.majors
    try:
        config = warpgroup_config(*how, problem.result, one_pass=one_pass, pdl=1, **parts)
    except CuteError:
        return
    about = tiles.estimate(row, config, problem, memory or problem.memory).time
    yield Way(config, about=about)


def _widths(M: int, N: int, m: int, blocks: int, batch: int = 1) -> list[int]:
    """Return the narrowest tiles, in columns, that D has at most one, two or three waves of."""
    rows, found = ceil_div(M, m) * batch, []
    for waves in (1, 2, 3):
        columns = blocks * waves // rows  # of tiles
        if columns:
            found.append(8 * ceil_div(ceil_div(N, columns), 8))
    return [n for n in dict.fromkeys(found) if 16 <= n <= 256]


def _tiled(problem: ProductFacts) -> Iterator[Way]:
    (M, N, _K), most = problem.shape, problem.multiprocessors
    clusters = (1, 2) if M > 128 else (1,)
    for m, groups, schedule in ROWS:
        usual = [r.n for r in tiles.ROWS if (r.m, r.schedule) == (m, schedule)]
        for n in dict.fromkeys([*_widths(M, N, m, most, problem.batch), *usual]):
            in_parts = m >= 192 or n > 200
            row = tiles.Row(m, n, groups, schedule, in_parts=in_parts)
            for cluster in clusters:
                yield from _made(problem, row, cluster=cluster)


def _clustered(problem: ProductFacts) -> Iterator[Way]:
    (M, N, K), most = problem.shape, problem.multiprocessors
    for split in CLUSTERS:
        used = most * tiles.USED.get(split, tiles.OTHERS)[0] // tiles.H200 // split
        for m, groups, schedule in ROWS[:3]:
            widths = [n for n in _widths(M, N, m, used)[:1] if 128 * split <= K]
            for n in dict.fromkeys([*widths, 128, 256]):
                row = tiles.Row(m, n, groups, schedule)
                for way in _made(problem, row, split=split):
                    if ceil_div(M, m) * ceil_div(N, n) <= used:
                        yield way


def _in_memory(problem: ProductFacts) -> Iterator[Way]:
    """Yield blocks in turn, and shares; times are about those of the parts, and of their sums."""
    (M, N, K), most = problem.shape, problem.multiprocessors
    for m, n in SHARED:
        row = tiles.Row(m, n, m // 64 if m < 256 else 2, "cooperative", in_parts=m == 256)
        blocks, depth = ceil_div(M, m) * ceil_div(N, n), ceil_div(K, 64)
        shares = min(most, blocks * depth)
        each = (M, N, 64 * ceil_div(blocks * depth, shares))
        for way in _made(facts(each), row, problem.memory):
            adds = 4e-5 * m * n * (1 + shares // max(blocks, 1))
            yield Way(replace(way.config, parts=Split("stream", shares)), about=way.about + adds)
        for parts in (2, 3, 4):
            if blocks * parts <= most + 4 and depth >= 4 * parts:
                each = (M, N, 64 * ceil_div(depth, parts))
                for way in _made(facts(each), row, problem.memory):
                    about = way.about + 4e-5 * m * n * parts
                    yield Way(replace(way.config, parts=Split("serial", parts)), about=about)


def _of_products(problem: ProductFacts) -> Iterator[Way]:
    M, N, K = problem.shape
    for parts in PARTS:
        if K % (8 * parts) == 0 and K // parts >= 256 and M * N * parts <= 1 << 24:
            inner = in_parts(problem, parts)
            alone = [w for w in _tiled(inner) if w.config.cluster == 1]
            for way in sorted(alone, key=lambda w: w.about)[:2]:
                config = replace(way.config, parts=Split("parallel", parts))
                adds = 1.5 + 4 * M * N * (parts + 1) / 4e6
                yield Way(config, about=way.about + adds)


# -- calls, and what they are compiled to


def call_of(way: Way, a: Any, b: Any, out: Any, library: Any = None) -> Call:
    """Return the call of a way for operands along K, (M, K) and (N, K); for outlines of them if a
    library is given.
    """
    a, b = (b, a) if way.swaps else (a, b)
    gemm: Any = cute.ops.gemm
    request = gemm.operator.bound(a, b.swapaxes(0, 1), out=out, config=way.config)
    if library is not None:
        return outlined(gemm.operator, request, gpu_of(ARCH))
    given, library = gemm.operator.taken(request)
    return gemm.operator.problem(given, library).call()


def outlines_of(shape: Shape) -> tuple[Any, Any]:
    """Return A and B without memory."""
    M, N, K = shape
    return Outline.matrix(M, K, KIND, "K"), Outline.matrix(N, K, KIND, "K")


def kernels_of(call: Call) -> list[tuple[str, Call]]:
    """Return the calls of a call, each with a name of what its plan depends on: the kernel, its
    compile-time values, and what divides the number of locks.
    """
    found = []
    for x in filter(None, (call.first, call)):
        slots = x.reads[3].shape[0] if "_split" in x.kernel.__name__ else 0
        found.append((f"{x.kernel.__name__} {x.statics} {slots & -slots}", x))
    return found


jobs: dict[str, Call] = {}  # what is compiled, for the processes that do


def compiled(name: str) -> Any:
    """Return what a job compiles to; the text of the error where that fails."""
    try:
        return cute.compile(jobs[name].plan(), ARCH, UNLIMITED)
    except CuteError as error:
        return str(error)


def all_compiled(work: Sequence[tuple[Shape, list[Way]]]) -> dict[str, Any]:
    """Compile the kernels of all ways, on all cores."""
    for shape, tried in work:
        for way in tried:
            call = call_of(way, *outlines_of(shape), None, Outlines)
            jobs.update(kernels_of(call))
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(16, os.cpu_count() or 1), mp_context=context) as pool:
        found = dict(zip(jobs, pool.map(compiled, jobs), strict=True))
    for name, made in found.items():
        if isinstance(made, str):
            print("not compiled:", name[:200], made[:200])
    return {name: made for name, made in found.items() if not isinstance(made, str)}


# -- times


class Graph:
    """A graph of launches that take turns with sets of operands, and the times of its replays."""

    def __init__(self, torch: Any, name: str, launches: list[Any]) -> None:
        self.torch, self.name, self.us = torch, name, []
        for launch in launches[:2]:
            launch()
        torch.cuda.synchronize()
        self.count = 4
        once = self._timed(lambda: [x() for x in itertools.islice(itertools.cycle(launches), 4)])
        self._capture(launches, min(max(4, int(GRAPH_US / once)), 40))
        wanted = int(GRAPH_US / self.replay())  # the first estimate has the time of the host
        if wanted > 1.3 * self.count:
            self._capture(launches, min(max(wanted, self.count), 300))
        self.us.clear()

    def _capture(self, launches: list[Any], count: int) -> None:
        torch, self.count = self.torch, count
        self.graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.graph.capture_begin()
            for launch in itertools.islice(itertools.cycle(launches), count):
                launch()
            self.graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph.replay()
        torch.cuda.synchronize()

    def _timed(self, work: Any) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return 1000 * float(begin.elapsed_time(end)) / self.count

    def replay(self) -> float:
        """Replay, and return the time of a launch (microseconds)."""
        self.us.append(self._timed(self.graph.replay))
        return self.us[-1]

    @property
    def middle(self) -> float:
        """The median."""
        return statistics.median(self.us)


def launches_of(torch: Any, call: Call, built: dict[str, Any], sets: list[Any]) -> list[Any]:
    """Return a launch for each set of operands; the call is for the first."""
    from cute_py.calls.backends import gpu
    from cute_py.codegen.launch import run

    ready = []
    for name, part in kernels_of(call):
        made = built[name]
        run._compiled[id(made.plan), made.arch] = made.plan, made
        ready.append(gpu()(made.plan, part.leaves()))
    found = []
    for each in sets:
        moved = {x.data_ptr(): y.data_ptr() for x, y in zip(sets[0], each, strict=True)}
        mine = [(run_it, tuple([moved.get(v, v) for v in values])) for run_it, values in ready]

        def launch(mine: Any = mine) -> None:
            stream = torch.cuda.current_stream().cuda_stream
            for run_it, values in mine:
                run_it(values, stream)

        found.append(launch)
    return found


def measured(torch: Any, shape: Shape, tried: list[Way], built: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a product."""
    M, N, K = shape
    size = 2 * (M * K + N * K + M * N)
    count = min(max(2, ceil_div(COLD, size)), MOST_SETS)

    def operand(*shape: int) -> Any:
        return torch.randn(shape, device="cuda").bfloat16()

    sets = [(operand(M, K), operand(N, K), operand(M, N)) for _ in range(count)]
    turned = [(a, b, d.new_empty(N, M)) for a, b, d in sets]
    wanted = sets[-1][0].float() @ sets[-1][1].float().T
    theirs = [lambda a=a, b=b, d=d: torch.mm(a, b.T, out=d) for a, b, d in sets]
    graphs, refused, about = [Graph(torch, "torch", theirs)], {}, {}
    kept = []  # memory that graphs use
    for i, way in enumerate(tried):
        name, mine = f"{way.label}{' (rule)' * (i == 0)}", turned if way.swaps else sets
        try:
            call = call_of(way, *mine[0])
            kept.append(call)
            launches = launches_of(torch, call, built, mine)
            out = mine[-1][2]
            for _ in range(2):  # locks are zero again
                out.fill_(float("nan"))
                launches[-1]()
                torch.cuda.synchronize()
            found = (out.T if way.swaps else out).float()
            error = float((found - wanted).norm() / wanted.norm())
            if not error < TOLERANCE:
                raise ValueError(f"wrong: {error}")
            graphs.append(Graph(torch, name, launches))
            about[name] = round(way.about, 2)
        except (CuteError, KeyError, ValueError, RuntimeError) as error:
            refused[name] = f"{type(error).__name__}: {error}"[:200]
    left = list(graphs)
    for i in range(ROUNDS):
        if i in KEPT:
            most = KEPT[i] * min(x.middle for x in graphs[1:])
            left = [x for x in graphs if x.middle <= most or x in graphs[:2]]
        for each in random.sample(left, len(left)):
            time.sleep(REST)
            each.replay()
    times = {x.name: round(x.middle, 3) for x in graphs}
    return {"shape": shape, "us": times, "about": about, "refused": refused}


# -- the table


def line(record: dict[str, Any]) -> str:
    """Return the line of a product: torch's time, the ratios of the rule's choice and of the best
    three.
    """
    us = dict(record["us"])
    theirs = us.pop("torch")
    rule = next((x for x in us if x.endswith("(rule)")), None)
    text = f"{'x'.join(map(str, record['shape'])):16} {theirs:7.2f}"
    text += f" {theirs / us[rule]:.3f} {rule[:-7]:24}" if rule else " " * 31
    best = sorted(us, key=us.__getitem__)[:3]
    return text + " | " + "; ".join(f"{theirs / us[x]:.3f} {x}" for x in best)


def summary(records: Sequence[dict[str, Any]]) -> str:
    """Return how the rule's choices compare with torch, in a line.

    >>> summary([{"us": {"torch": 9.0, "64x64 s13 (rule)": 10.0}}, {"us": {"torch": 9, "a": 8}}])
    '1 by the rule: mean 0.900 of torch, below 1: 1, below 0.95: 1'
    """
    pairs = [(x["us"]["torch"], t) for x in records for k, t in x["us"].items() if "(rule)" in k]
    ratios = [theirs / ours for theirs, ours in pairs]
    lost = f"below 1: {sum(x < 1 for x in ratios)}, below 0.95: {sum(x < 0.95 for x in ratios)}"
    mean = f"{statistics.fmean(ratios):.3f}" if ratios else "-"
    return f"{len(ratios)} by the rule: mean {mean} of torch, {lost}"


def main() -> None:
    """Compile, check, time, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="print the table of a result")
    parser.add_argument("--random", type=int, default=24, help="so many products at random, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rule", action="store_true", help="nothing but the rule's choices")
    parser.add_argument("--ways", type=int, default=20, help="about so many of each product")
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--dry", action="store_true")
    options = parser.parse_args()
    if options.table:
        records = json.loads(options.table.read_text(encoding="utf-8"))["products"]
        print(*map(line, records), summary(records), sep="\n")
        return
    began, records, work = time.perf_counter(), [], []
    shapes = filter(timely, drawn(options.seed)) if options.rule else drawn(options.seed)
    first = () if options.rule else LOST
    for shape in (*first, *itertools.islice(shapes, options.random)):
        others = [] if options.rule else ways(shape, options.ways)
        tried = {w.label: w for w in (outlined_rule(shape), *others)}
        work.append((shape, list(tried.values())))
    built = all_compiled(work)
    count = sum(len(tried) for _shape, tried in work)
    print(f"{count} ways, {len(built)} kernels in {time.perf_counter() - began:.1f} s", flush=True)
    if options.dry:
        for name, made in built.items():
            if made.resources.spill_bytes:
                print(made.resources, name[:160])
        return
    import torch

    for shape, tried in work:
        if time.perf_counter() - began > options.seconds:
            print("not begun:", shape)
            continue
        records.append(measured(torch, shape, tried, built))
        for name, why in records[-1]["refused"].items():
            print("refused:", shape, name, why)
        torch.cuda.empty_cache()
        if options.out:
            known = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
            text = ",\n".join([json.dumps(x) for x in records])
            head = json.dumps(known)[:-1]
            options.out.write_text(f'{head}, "products": [\n{text}\n]}}\n', encoding="utf-8")
    print(*map(line, records), summary(records), sep="\n")
    print(f"{time.perf_counter() - began:.0f} s")


def outlined_rule(shape: Shape) -> Way:
    """Return the way that the rule chooses."""
    a, b = outlines_of(shape)
    gemm: Any = cute.ops.gemm
    call = outlined(gemm.operator, gemm.operator.bound(a, b.swapaxes(0, 1)), gpu_of(ARCH))
    return Way(call.config)


if __name__ == "__main__":
    main()
