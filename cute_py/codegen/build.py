"""From a plan to PTX and a cubin; needs no GPU.

`PASSES` is the way, one after another; `CUTE_PY_DEBUG` prints what each makes (see `debug`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

from cute_py.codegen import debug
from cute_py.codegen.arch import require_runnable
from cute_py.codegen.cache import alone, cached
from cute_py.codegen.toolchain import assembled, counted, disassembled, number_in
from cute_py.errors import refusal
from cute_py.integers import ints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cute_py.plan.plan import Plan


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
        spill_bytes: how much may go to local memory.
        source: the Numba kernel; given, where it was edited.
        lowered: the plan that is printed.
        calls: the intrinsics that it names.
        is_edited: whether it was given.
        ptx, entry: what NVVM made of it, and the name of the kernel there.
        cubin, log: what ptxas made of that, and what it said.
    """

    plan: Plan
    arch: str
    spill_bytes: int
    source: str = ""
    lowered: Plan | None = None
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


def lower(build: Build) -> Build:
    """Bring the plan into a form that is cheaper for the architecture."""
    from cute_py.codegen.passes import lowered

    return replace(build, lowered=lowered(build.plan, build.arch))


def print_source(build: Build) -> Build:
    """Print the kernel, and make the intrinsics that it calls."""
    from cute_py.codegen.frontend import printed

    assert build.lowered is not None
    made = printed(build.lowered)
    edited = bool(build.source)
    return replace(build, source=build.source or made.text, calls=made.calls, is_edited=edited)


def compile_ptx(build: Build) -> Build:
    """Compile the kernel to PTX, by Numba and NVVM."""
    from cute_py.codegen.frontend import ptx_of

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


PASSES: tuple[tuple[str, Callable[[Build], Build]], ...] = (
    ("check", check),
    ("lower", lower),
    ("source", print_source),
    ("ptx", compile_ptx),
    ("cubin", assemble),
    ("gates", gate),
)
# what CUTE_PY_DEBUG shows after a pass: (stage, its text)
_SHOWN: dict[str, tuple[str, Callable[[Build], str]]] = {
    "check": ("plan", lambda build: str(build.plan)),
    "lower": ("lowered", lambda build: str(build.lowered)),
    "source": ("source", lambda build: build.source),
    "ptx": ("ptx", lambda build: build.ptx),
    "cubin": ("log", lambda build: build.log),
    "gates": ("sass", lambda build: disassembled(build.cubin)),
}


# -- what users call


def source(plan: Plan) -> str:
    """Return the Numba kernel of a plan as text: a line an op, with the kernel's line behind it.

    `compile(plan, arch, source=text)` compiles an edited copy. Raises LayoutError for ops that have
    no PTX yet.
    """
    from cute_py.codegen.frontend import printed
    from cute_py.codegen.passes import lowered

    require_plan(plan, "cute.source")
    return str(printed(lowered(plan)).text)


def require_plan(plan: object, operation: str) -> None:
    """Refuse what is no plan, such as a kernel."""
    from cute_py.plan.plan import Plan

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
    build = Build(plan, arch, most, source)
    if debug.wanted():  # all passes are to be seen
        return alone(lambda: _built(build))
    options = {"spill_bytes": most, "source": source}
    return cached(lambda: _built(build), plan, arch, **options)


def _built(build: Build) -> Compiled:
    """Take a build through all passes."""
    shown = debug.wanted()
    for name, step in PASSES:
        start = perf_counter()
        build = step(build)
        _show(name, build, shown, perf_counter() - start)
    made = (build.entry, build.source, build.ptx, build.cubin, build.resources, build.log)
    return Compiled(build.plan, build.arch, *made)


def _show(name: str, build: Build, shown: frozenset[str], seconds: float) -> None:
    title = f"{build.plan.name} {build.arch}"
    if "time" in shown:
        found = f", {build.resources}" if name == "gates" else ""
        debug.show(f"{title} {name}: {seconds:.3f} s{found}")
    stage, text = _SHOWN[name]
    if stage in shown:
        debug.show(f"{title} {stage}", text(build))
