"""Architectures to compile for, and the instructions that a plan needs.

If an architecture lacks an instruction, the refusal here names the op and the instruction; ptxas
would name a line of PTX. Sections refer to the PTX ISA 9.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cute_py.atoms.arch import DEVICES, holds, number, since
from cute_py.codegen.instructions import OLDEST, TABLE, TARGETS, of_atom
from cute_py.errors import refusal, suggestion
from cute_py.plan.ops import Loop, Mma, While
from cute_py.plan.walk import blocks_of, every

if TYPE_CHECKING:
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Block, Op
    from cute_py.plan.plan import Plan

NEWEST = TARGETS[-1]


def require_known(arch: str) -> None:
    """Raise LayoutError for a name that is not among `TARGETS`."""
    if arch in TARGETS:
        return
    prefix, digits = str(arch)[:3], str(arch)[3:]
    if prefix == "sm_" and digits.isdecimal() and 10 <= int(digits) < number(OLDEST):
        raise refusal("codegen-arch-old", operation="cute.compile", arch=arch, oldest=OLDEST)
    hint = suggestion(str(arch), TARGETS) or "compute capability 9.0 is sm_90; with wgmma, sm_90a"
    known = ", ".join(TARGETS)
    raise refusal("codegen-arch", operation="cute.compile", arch=arch, known=known, hint=hint)


def capability(arch: str) -> tuple[int | str, ...]:
    """Return an architecture as Numba's compute capability: sm_90a is (9, 0, "a").

    Raises LayoutError for an architecture that the compilers do not know.
    """
    require_known(arch)
    major, minor = divmod(number(arch), 10)
    return (major, minor) if arch[-1].isdecimal() else (major, minor, arch[-1])


# -- what instructions need


@dataclass(frozen=True)
class Need:
    """An instruction that an op is compiled to.

    Attributes:
        instruction: its name in PTX.
        archs: the architectures that have it (see `atoms.arch.holds`).
    """

    instruction: str
    archs: tuple[str, ...]

    @property
    def first(self) -> str:
        """The oldest architecture that has it."""
        return self.archs[0]


# PTX name -> architectures: what the rows cannot tell
_SPECIFIC: dict[str, tuple[str, ...]] = {
    "cp.async.bulk.tensor": since("sm_90"),  # rows of atoms, one for each rank
    ".reqnctapercluster": since("sm_90"),
    # sm_90a, sm_100a, sm_110a, sm_120a and families
    "setmaxnreg": (
        "sm_90a",
        *(f"sm_{n}{suffix}" for n in (100, 103, 110, 120, 121) for suffix in "af"),
    ),
}
# every instruction that some target lacks
NEEDS = {
    **{row.name: Need(row.name, since(row.first)) for row in TABLE.values() if row.first != OLDEST},
    **{name: Need(name, archs) for name, archs in _SPECIFIC.items()},
}


def need_of(op: Op) -> Need | None:
    """Return the instruction that an op needs; None if all `TARGETS` have it."""
    given = op.needs()
    if given is None or isinstance(given, str):
        return NEEDS.get(given or "")
    row = of_atom(given)  # it lists the architectures, native or emulated
    return Need(row.name, (row.first, *given.native, *getattr(given, "emulated", ())))


# -- the check


def require_runnable(plan: Plan, arch: str) -> None:
    """Raise LayoutError if an architecture cannot run a plan.

    The refusal names the first op whose instruction is missing, with the kernel's line; or the
    shared memory of a block, if there is too little.
    """
    require_known(arch)
    _require_shallow(plan.body, 0, 1)
    clusters = NEEDS[".reqnctapercluster"]
    if plan.launch.cluster != (1, 1, 1) and not holds(clusters.archs, arch):
        raise _lacking(plan, arch, clusters)
    for op in every(plan.body):
        need = need_of(op)
        if need is not None and not holds(need.archs, arch):
            raise _lacking(plan, arch, need, op)
        if isinstance(op, Mma) and not plan.launch.allow_emulated:
            _require_native(plan, arch, op)
    most = DEVICES[f"sm_{number(arch)}"].shared_block
    if plan.smem_bytes > most:
        raise refusal(
            "codegen-smem", operation=plan.name, bytes=plan.smem_bytes, arch=arch, most=most
        )


LOOPS, BLOCKS = 20, 96  # that Python's compiler takes inside of each other, for printed kernels


def _require_shallow(block: Block, loops: int, depth: int) -> None:
    """Refuse loops and branches that are nested deeper than a printed kernel can be."""
    for op in block:
        count = loops + isinstance(op, (Loop, While))
        if count > LOOPS or depth > BLOCKS:
            facts = {"loops": count, "depth": depth, "most": LOOPS, "blocks": BLOCKS}
            raise refusal("codegen-nested", operation="cute.compile", where=op.where, **facts)
        for inner in blocks_of(op):
            _require_shallow(inner, count, depth + 1)


def _require_native(plan: Plan, arch: str, op: Mma) -> None:
    """Refuse a matrix instruction that ptxas replaces by several slower ones."""
    if op.atom.support(arch) == "emulated" and op.atom.ptx is not None:
        raise refusal(
            "codegen-emulated",
            operation=plan.name,
            where=op.where,
            atom=op.atom,
            arch=arch,
            native=", ".join(op.atom.native),
        )


def overlaps(arch: str) -> bool:
    """Return whether a kernel can begin before the previous one has ended."""
    return holds(NEEDS["griddepcontrol"].archs, arch)


def _lacking(plan: Plan, arch: str, need: Need, op: Op | None = None) -> CuteError:
    instead = "run the kernel on the emulator: cute.emulate(plan, ...)"
    if op is not None and not isinstance(op.needs(), str):
        instead = f"use an atom that {arch} has (cute.atoms.find, copy_rows)"
    return refusal(
        "codegen-lacks",
        operation=plan.name,
        where=None if op is None else op.where,
        op="a cluster launch" if op is None else op.call,
        instruction=need.instruction,
        arch=arch,
        first=need.first,
        newer="" if need.first[-1].isalpha() else " or newer",
        instead=instead,
    )
