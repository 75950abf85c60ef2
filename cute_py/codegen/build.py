"""From a plan to PTX and a cubin; needs no GPU.

`PASSES` lists the passes in order; `CUTE_PY_DEBUG` prints the result of each (see `wanted`).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

from cute_py.codegen.arch import NEWEST, require_runnable
from cute_py.codegen.cache import alone, cached
from cute_py.codegen.frontend import printed, ptx_of
from cute_py.codegen.notes import addresses, advice, listed
from cute_py.codegen.passes import with_short_sums, without_waits
from cute_py.codegen.passes.counters import with_counters
from cute_py.codegen.passes.strength import Chains
from cute_py.codegen.passes.zeros import with_scale_d
from cute_py.codegen.printer import require_parameters
from cute_py.codegen.sass import counted, explained, may_stall, stalls
from cute_py.codegen.toolchain import assembled, clipped, disassembled, number_in
from cute_py.errors import CuteError, refusal, shorten
from cute_py.integers import ints
from cute_py.plan.collector import uncollected
from cute_py.plan.ops import Print, Wgmma
from cute_py.plan.plan import Plan
from cute_py.records import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


UNLIMITED = 1 << 16  # bytes of spills per thread: slow code is not refused


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel.

    Attributes:
        registers: registers per thread.
        spill_bytes: bytes of spill stores per thread.
        stack_bytes: local memory per thread (bytes).
        smem_bytes: dynamic shared memory per block (bytes).
        cubin: the machine code; not compared.
    """

    registers: int
    spill_bytes: int
    stack_bytes: int
    smem_bytes: int
    cubin: bytes = field(default=b"", repr=False, compare=False)

    @cached_property
    def instructions(self) -> Mapping[str, int]:
        """The number of each instruction in the machine code (HMMA, LDSM, LDGSTS, BAR ...), 0 for
        any other. Raises LayoutError if nvdisasm is missing.
        """
        return counted(disassembled(self.cubin))


@dataclass(frozen=True)
class Compiled:
    """A compiled plan: each stage as text, and the cubin.

    Attributes:
        plan: the plan that was compiled.
        arch: the target architecture.
        entry: the name of the kernel in the cubin.
        source: the Numba kernel.
        ptx: the output of NVVM.
        cubin: the output of ptxas.
        resources: registers, spills, shared memory, instructions.
        log: the messages of ptxas.
    """

    plan: Plan
    arch: str
    entry: str
    source: str
    ptx: str
    cubin: bytes
    resources: Resources
    log: str

    def __repr__(self) -> str:
        return f"<{self.plan.name} compiled for {self.arch}: {self.resources}>"

    @cached_property
    def sass(self) -> str:
        """The machine code as text. Raises LayoutError if nvdisasm is missing."""
        return disassembled(self.cubin)

    def explain(self) -> Text:
        """Return the instructions of the machine code by kind, outside loops and of one
        iteration of each loop: products, copies, waits, guards, addresses, arithmetic ...; and
        behind how much of a loop's arithmetic it waits for products of warpgroups. Raises
        LayoutError if nvdisasm is missing.
        """
        return explained(self.sass)


# -- the passes


@dataclass(frozen=True)
class Build:
    """The state of a compilation; each pass fills in its result.

    Attributes:
        plan: the plan to compile.
        arch: the target architecture.
        lowered: the plan that is printed; rewrites replace it.
        spill_bytes: the allowed bytes of spill stores per thread.
        source: the Numba kernel; the user's, if it was edited.
        chains: the strength-reduced addresses of `lowered`.
        calls: the intrinsics that the source calls.
        is_edited: whether the user gave the source.
        ptx, entry: the output of NVVM, and the name of the kernel there.
        cubin, log: the output of ptxas, and its messages.
    """

    plan: Plan
    arch: str
    lowered: Plan
    spill_bytes: int = 0
    source: str = ""
    chains: Chains | None = None
    calls: Mapping[str, object] = field(default_factory=dict)
    is_edited: bool = False
    ptx: str = ""
    entry: str = ""
    cubin: bytes = b""
    log: str = ""

    @property
    def resources(self) -> Resources:
        """The resources that ptxas reports."""
        registers = number_in(self.log, r"Used (\d+) registers")
        spilled = number_in(self.log, r"(\d+) bytes spill stores")
        stack = number_in(self.log, r"(\d+) bytes stack frame")
        return Resources(registers, spilled, stack, self.plan.smem_bytes, self.cubin)


def check(build: Build) -> Build:
    """Refuse a plan that the architecture cannot run."""
    require_runnable(build.plan, build.arch)
    require_parameters(build.plan)
    return build


def rewriting(rule: Callable[[Plan, str], Plan]) -> Callable[[Build], Build]:
    """Return the pass that applies a rewrite rule to the plan."""
    return lambda build: replace(build, lowered=rule(build.lowered, build.arch))


def reduce_strength(build: Build) -> Build:
    """Find the addresses that step from one op or iteration to the next."""
    return replace(build, chains=Chains(build.lowered))


def print_source(build: Build) -> Build:
    """Print the kernel, and create the intrinsics that it calls."""
    assert build.chains is not None
    made = printed(build.lowered, build.chains, build.arch)
    edited = bool(build.source)
    return replace(build, source=build.source or made.text, calls=made.calls, is_edited=edited)


def compile_ptx(build: Build) -> Build:
    """Compile the kernel to PTX with Numba and NVVM."""
    ptx, entry = ptx_of(build.plan, build.source, build.calls, build.arch, build.is_edited)
    return replace(build, ptx=ptx, entry=entry)


def assemble(build: Build) -> Build:
    """Assemble the PTX with ptxas."""
    cubin, log = assembled(build.plan.name, build.ptx, build.arch, build.source)
    return replace(build, cubin=cubin, log=log)


def gate(build: Build) -> Build:
    """Refuse more spills than allowed, and loops that stall. A kernel that prints may spill: calls
    of vprintf use local memory.
    """
    found = build.resources
    spilled = max(found.spill_bytes, found.stack_bytes)
    prints = any(isinstance(op, Print) for op in build.plan.ops)
    if spilled > build.spill_bytes and not prints:
        raise refusal(
            "codegen-spills",
            operation=build.plan.name,
            arch=build.arch,
            spilled=spilled,
            most=build.spill_bytes,
            log=clipped(build.log),
        )
    _require_no_stalls(build)
    return build


def _require_no_stalls(build: Build) -> None:
    """Refuse a loop of warpgroup products that stalls, unless slow code is allowed."""
    if build.spill_bytes >= UNLIMITED or not any(isinstance(op, Wgmma) for op in build.plan.ops):
        return
    if may_stall(build.cubin):
        lined = disassembled(build.cubin, lines=True)
        found = stalls(lined)
        if found:
            places = addresses(lined, build.source)
            named = [
                f"{len(each)} {name}{listed([places[i] for i in each if i in places])}"
                for name, each in sorted(found.items())
            ]
            facts = {"arch": build.arch, "found": ", ".join(named), "how": advice(" ".join(found))}
            raise refusal("codegen-stalls", operation=build.plan.name, **facts)


@dataclass(frozen=True)
class Pass:
    """A pass of a compilation.

    Attributes:
        name: its name, in compiler terms.
        step: the function that runs it.
        stage: the word that selects its output in `CUTE_PY_DEBUG`.
        text: a function that returns its output, from the build before and after.
    """

    name: str
    step: Callable[[Build], Build]
    stage: str
    text: Callable[[Build, Build], str]


def _rewritten(before: Build, after: Build) -> str:
    return "unchanged" if after.lowered == before.lowered else str(after.lowered)


REWRITES = (  # optimisations only: the emulator gives the same results before and after
    Pass("drop waits for earlier grids", rewriting(without_waits), "waits", _rewritten),
    Pass("short atomic sums", rewriting(with_short_sums), "sums", _rewritten),
    Pass("sums from zero", rewriting(with_scale_d), "zeros", _rewritten),
    Pass("modulo counters", rewriting(with_counters), "counters", _rewritten),
    Pass(
        "strength reduction of addresses",
        reduce_strength,
        "addresses",
        lambda _before, build: str(build.chains) or "none",
    ),
)
PASSES = (
    Pass("requirements of the architecture", check, "plan", lambda _, build: str(build.plan)),
    *REWRITES,
    Pass("print source", print_source, "source", lambda _, build: build.source),
    Pass("PTX", compile_ptx, "ptx", lambda _, build: build.ptx),
    Pass("assemble", assemble, "log", lambda _, build: build.log),
    Pass("gates", gate, "sass", lambda _, build: disassembled(build.cubin)),
)


def _through(passes: Iterable[Pass], build: Build, stages: Collection[str] = ()) -> Build:
    """Run passes on a build, and print the selected stages."""
    for each in passes:
        start, before = perf_counter(), build
        build = each.step(before)
        seconds, title = perf_counter() - start, f"{build.plan.name} {build.arch}"
        if "time" in stages:
            found = f", {build.resources}" if each is PASSES[-1] else ""
            _show(f"{title} {each.name}: {seconds:.3f} s{found}")
        if each.stage in stages:
            _show(f"{title} {each.stage}", each.text(before, build))
    return build


def lowered(plan: Plan, arch: str = NEWEST) -> Plan:
    """Return a plan after all rewrites for an architecture.

    Law: the emulator gives the same results for both.
    """
    return _through(REWRITES, Build(plan, arch, plan)).lowered


# -- what CUTE_PY_DEBUG prints

STAGES = ("time", *(each.stage for each in PASSES))
LOWERED = tuple(each.stage for each in REWRITES)
LEVELS = ((), STAGES[:1], STAGES[:8], STAGES[:9], STAGES)


def wanted() -> frozenset[str]:
    """Return the stages that `CUTE_PY_DEBUG` selects.

    The value is a level: 1 prints the seconds of each pass and the registers, 2 also every stage up
    to the source, 3 also PTX, 4 also SASS. Or it names stages, separated by commas; `lowered`
    means the stages of all rewrites. Raises LayoutError for any other value.
    """
    given = os.environ.get("CUTE_PY_DEBUG", "").strip()
    if given.isdecimal() and int(given) < len(LEVELS):
        return frozenset(LEVELS[int(given)])
    names = {name.strip() for name in given.split(",")} - {""}
    if not names <= {*STAGES, "lowered"}:
        known = ",".join((*STAGES, "lowered"))
        raise refusal("codegen-debug", operation="cute.compile", given=given, known=known)
    return frozenset(names | {*LOWERED} if "lowered" in names else names)


def _show(title: str, text: str = "") -> None:
    """Print a stage to stderr, under a title line."""
    body = f"\n{text.rstrip()}" if text else ""
    print(f"== {title}{body}", file=sys.stderr, flush=True)


# -- what users call


def source(plan: Plan) -> Text:
    """Return the Numba kernel of a plan as text: one line per op, with the kernel's line after it.

    `compile(plan, arch, source=text)` compiles an edited copy. Raises LayoutError for an op that
    has no PTX yet.
    """
    try:
        require_plan(plan, "cute.source")
        with plan.trusted("cute.source"):
            return Text(print_source(_through(REWRITES, Build(plan, NEWEST, plan))).source)
    except CuteError as error:
        shorten(error)
        raise


def require_plan(plan: object, operation: str) -> None:
    """Refuse anything but a plan, such as a kernel."""
    if not isinstance(plan, Plan):
        raise refusal("codegen-plan", operation=operation, type=type(plan).__name__)


def compile(
    plan: Plan, arch: str = "sm_90a", spill_bytes: int | None = None, *, source: str = ""
) -> Compiled:
    """Compile a plan for an architecture; needs no GPU.

    Args:
        plan: the plan to compile.
        arch: sm_80, sm_89, sm_90a, ...
        spill_bytes: the bytes per thread that may spill to local memory before it is an
            error. None: the number in `cute.launch`, 0 by default.
        source: an edited copy of `cute.source(plan)` to compile instead. It may call the ops of the
            plan only.

    Raises LayoutError if the architecture cannot run the plan, if a compiler is missing or rejects
    the text, if ptxas reports serialization, and if more registers spill than allowed. A kernel
    that was compiled before comes from the cache on disk.
    """
    try:
        return _compiled(plan, arch, spill_bytes, source)
    except CuteError as error:
        shorten(error)
        raise


def _compiled(plan: Plan, arch: str, spill_bytes: int | None, source: str) -> Compiled:
    require_plan(plan, "cute.compile")
    most = plan.launch.spill_bytes
    if spill_bytes is not None:
        most = ints.as_int(ints.normalize(spill_bytes, "cute.compile"), "cute.compile")
    build = Build(plan, arch, plan, most, source)
    if wanted():  # all passes must run, to print them
        with plan.trusted("cute.compile"):
            return alone(lambda: _built(build))
    options = {"spill_bytes": most, "source": source}
    with plan.trusted("cute.compile"):
        return cached(lambda: _built(build), plan, arch, **options)


def _built(build: Build) -> Compiled:
    """Run all passes on a build."""
    with uncollected():
        build = _through(PASSES, build, wanted())
    made = (build.entry, build.source, build.ptx, build.cubin, build.resources, build.log)
    return Compiled(build.plan, build.arch, *made)
