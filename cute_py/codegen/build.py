"""From a plan to PTX and a cubin; needs no GPU.

`PASSES` is the way, one after another; `CUTE_PY_DEBUG` prints what each makes (see `wanted`).
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
from cute_py.codegen.passes import without_waits
from cute_py.codegen.passes.counters import with_counters
from cute_py.codegen.passes.strength import Chains
from cute_py.codegen.toolchain import assembled, counted, disassembled, number_in
from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.plan.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping


@dataclass(frozen=True)
class Resources:
    """What a kernel takes.

    Attributes:
        registers: of a thread.
        spill_bytes: stored to local memory because registers ran out.
        stack_bytes: of local memory.
        smem_bytes: dynamic shared memory of a block.
        cubin: the machine code; not compared.
    """

    registers: int
    spill_bytes: int
    stack_bytes: int
    smem_bytes: int
    cubin: bytes = field(default=b"", repr=False, compare=False)

    @cached_property
    def instructions(self) -> Mapping[str, int]:
        """How often each instruction stands in the machine code: HMMA, LDSM, LDGSTS, BAR ...; 0 for
        one that does not. Raises LayoutError where there is no nvdisasm.
        """
        return counted(disassembled(self.cubin))


@dataclass(frozen=True)
class Compiled:
    """A compiled plan: each stage as text, and the cubin.

    Attributes:
        plan: what was compiled.
        arch: for which architecture.
        entry: the name of the kernel in the cubin.
        source: the Numba kernel.
        ptx: what NVVM made of it.
        cubin: what ptxas made of that.
        resources: registers, spills, shared memory, instructions.
        log: what ptxas said.
    """

    plan: Plan
    arch: str
    entry: str
    source: str
    ptx: str
    cubin: bytes
    resources: Resources
    log: str

    @cached_property
    def sass(self) -> str:
        """The machine code as text. Raises LayoutError where there is no nvdisasm."""
        return disassembled(self.cubin)


# -- the passes


@dataclass(frozen=True)
class Build:
    """A compilation on its way; each pass fills in what it makes.

    Attributes:
        plan: what is compiled.
        arch: for which architecture.
        lowered: the plan that is printed; rewrites replace it.
        spill_bytes: how much may go to local memory.
        source: the Numba kernel; given, where it was edited.
        chains: the addresses of `lowered` that go on from op to op and around loops.
        calls: the intrinsics that the source names.
        is_edited: whether the source was given.
        ptx, entry: what NVVM made of it, and the name of the kernel there.
        cubin, log: what ptxas made of that, and what it said.
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
        """What ptxas said in numbers."""
        registers = number_in(self.log, r"Used (\d+) registers")
        spilled = number_in(self.log, r"(\d+) bytes spill stores")
        stack = number_in(self.log, r"(\d+) bytes stack frame")
        return Resources(registers, spilled, stack, self.plan.smem_bytes, self.cubin)


def check(build: Build) -> Build:
    """Refuse what the architecture cannot run."""
    require_runnable(build.plan, build.arch)
    return build


def rewriting(rule: Callable[[Plan, str], Plan]) -> Callable[[Build], Build]:
    """Return the pass that brings the plan into the form that a rule makes of it."""
    return lambda build: replace(build, lowered=rule(build.lowered, build.arch))


def reduce_strength(build: Build) -> Build:
    """Find the addresses that go on from one op or pass of a loop to the next."""
    return replace(build, chains=Chains(build.lowered))


def print_source(build: Build) -> Build:
    """Print the kernel, and make the intrinsics that it calls."""
    assert build.chains is not None
    made = printed(build.lowered, build.chains)
    edited = bool(build.source)
    return replace(build, source=build.source or made.text, calls=made.calls, is_edited=edited)


def compile_ptx(build: Build) -> Build:
    """Compile the kernel to PTX, by Numba and NVVM."""
    ptx, entry = ptx_of(build.plan, build.source, build.calls, build.arch, build.is_edited)
    return replace(build, ptx=ptx, entry=entry)


def assemble(build: Build) -> Build:
    """Assemble the PTX, by ptxas."""
    cubin, log = assembled(build.plan.name, build.ptx, build.arch)
    return replace(build, cubin=cubin, log=log)


def gate(build: Build) -> Build:
    """Refuse local memory beyond what is allowed."""
    found = build.resources
    spilled = max(found.spill_bytes, found.stack_bytes)
    if spilled > build.spill_bytes:
        raise refusal(
            "codegen-spills",
            operation=build.plan.name,
            arch=build.arch,
            spilled=spilled,
            most=build.spill_bytes,
            log=build.log.strip(),
        )
    return build


@dataclass(frozen=True)
class Pass:
    """A step of a compilation.

    Attributes:
        name: in the compiler's words.
        step: what it does.
        stage: the word by which `CUTE_PY_DEBUG` asks for what it made.
        text: what it made, from the build before and after it.
    """

    name: str
    step: Callable[[Build], Build]
    stage: str
    text: Callable[[Build, Build], str]


def _rewritten(before: Build, after: Build) -> str:
    return "unchanged" if after.lowered == before.lowered else str(after.lowered)


REWRITES = (  # each cheaper, none other: the emulator gives the same results before and after
    Pass("drop waits for earlier grids", rewriting(without_waits), "waits", _rewritten),
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
    """Take a build through passes, and show some stages."""
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
    """Return a plan as it is printed for an architecture.

    Law: the emulator gives the same results for both.
    """
    return _through(REWRITES, Build(plan, arch, plan)).lowered


# -- what CUTE_PY_DEBUG prints

STAGES = ("time", *(each.stage for each in PASSES))
LOWERED = tuple(each.stage for each in REWRITES)
LEVELS = ((), STAGES[:1], STAGES[:6], STAGES[:7], STAGES)


def wanted() -> frozenset[str]:
    """Return the stages that `CUTE_PY_DEBUG` asks for.

    A number says how much: 1 the seconds of each pass and the registers, 2 also all that is made
    until the source, 3 also PTX, 4 also SASS. Or the stages by name, with commas; `lowered` are
    those of all rewrites. Raises LayoutError where it says something else.
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
    """Print a stage to stderr, below a line that names it."""
    body = f"\n{text.rstrip()}" if text else ""
    print(f"== {title}{body}", file=sys.stderr, flush=True)


# -- what users call


def source(plan: Plan) -> str:
    """Return the Numba kernel of a plan as text: a line an op, with the kernel's line behind it.

    `compile(plan, arch, source=text)` compiles an edited copy. Raises LayoutError for ops that have
    no PTX yet.
    """
    require_plan(plan, "cute.source")
    return print_source(_through(REWRITES, Build(plan, NEWEST, plan))).source


def require_plan(plan: object, operation: str) -> None:
    """Refuse what is no plan, such as a kernel."""
    if not isinstance(plan, Plan):
        raise refusal("codegen-plan", operation=operation, type=type(plan).__name__)


def compile(
    plan: Plan, arch: str = "sm_90a", spill_bytes: int | None = None, *, source: str = ""
) -> Compiled:
    """Compile a plan for an architecture; needs no GPU.

    Args:
        plan: what to compile.
        arch: sm_80, sm_89, sm_90a, ...
        spill_bytes: how much may spill to local memory before the kernel is refused; None: what
            the kernel states in `cute.launch`, 0 if nothing.
        source: an edited copy of `cute.source(plan)` to compile instead. What it calls are the ops
            of the plan.

    Raises LayoutError for what the architecture cannot run, where a compiler is missing or refuses
    the text, where ptxas says that it serialises, and where registers spill. What was compiled
    before comes from the cache on disk.
    """
    require_plan(plan, "cute.compile")
    most = plan.launch.spill_bytes
    if spill_bytes is not None:
        most = ints.as_int(ints.normalize(spill_bytes, "cute.compile"), "cute.compile")
    build = Build(plan, arch, plan, most, source)
    if wanted():  # all passes are to be seen
        return alone(lambda: _built(build))
    options = {"spill_bytes": most, "source": source}
    return cached(lambda: _built(build), plan, arch, **options)


def _built(build: Build) -> Compiled:
    """Take a build through all passes."""
    build = _through(PASSES, build, wanted())
    made = (build.entry, build.source, build.ptx, build.cubin, build.resources, build.log)
    return Compiled(build.plan, build.arch, *made)
