"""Architectures to compile for, and what a plan needs of one.

What an architecture lacks is refused here, by the names of the op and of the instruction; ptxas
would name a line of PTX. Sections are those of the PTX ISA 9.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cute_py.atoms.arch import holds, number, since
from cute_py.atoms.devices import DEVICES
from cute_py.codegen.instructions import TABLE, of_atom
from cute_py.errors import refusal
from cute_py.plan import ops
from cute_py.plan.text import where_of
from cute_py.plan.walk import every

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.atoms.copy import Copy_Op
    from cute_py.atoms.mma import MMA_Atom
    from cute_py.dtypes.table import Dtype
    from cute_py.errors import CuteError
    from cute_py.plan.ops import Op
    from cute_py.plan.plan import Plan

# what NVVM and ptxas 13.0 know (ptxas --help); a: that chip alone, f: its family
TARGETS = (
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a",
    *(f"sm_{n}{suffix}" for n in (100, 103, 110, 120, 121) for suffix in ("", "a", "f")),
)  # fmt: skip
OLDEST = number(TARGETS[0])


def require_known(arch: str) -> None:
    """Raise LayoutError for a name that is not among `TARGETS`."""
    if arch in TARGETS:
        return
    prefix, digits = str(arch)[:3], str(arch)[3:]
    if prefix == "sm_" and digits.isdecimal() and int(digits) < OLDEST:
        raise refusal("codegen-arch-old", operation="cute.compile", arch=arch, oldest=TARGETS[0])
    known = ", ".join(TARGETS)
    raise refusal("codegen-arch", operation="cute.compile", arch=arch, known=known)


def capability(arch: str) -> tuple[int | str, ...]:
    """Return an architecture as Numba wants it: sm_90a is (9, 0, "a").

    Raises LayoutError for one that the compilers do not know.
    """
    require_known(arch)
    major, minor = divmod(number(arch), 10)
    return (major, minor) if arch[-1].isdecimal() else (major, minor, arch[-1])


# -- what instructions need


@dataclass(frozen=True)
class Need:
    """An instruction that an op is compiled to.

    Attributes:
        instruction: as PTX names it.
        archs: those that have it, each with all that it stands for (see `atoms.arch.holds`).
    """

    instruction: str
    archs: tuple[str, ...]

    @property
    def first(self) -> str:
        """The oldest of them."""
        return self.archs[0]


def _need(instruction: str, arch: str) -> Need:
    return Need(instruction, since(arch))


def _of_row(name: str) -> Need:
    """Return an instruction of the table, which knows where it begins."""
    return _need(name, TABLE[name].first)


CP_ASYNC = _of_row("cp.async.commit_group")
BF16 = _of_row("cvt.bf16.f32")
FP8 = _of_row("cvt.satfinite.e4m3x2.f32")
TF32 = _of_row("cvt.rna.tf32.f32")
ATOM_BF16 = _of_row("atom.add.noftz.bf16")
CLUSTER = _of_row("barrier.cluster")
PROXY = _of_row("fence.proxy.async")
INIT = _of_row("fence.mbarrier_init")
GRIDDEP = _of_row("griddepcontrol")
# what the table does not have yet
# mbarrier: "requires sm_80"; .expect_tx, try_wait, .shared::cluster "require sm_90"
MBARRIER = _need("mbarrier", "sm_80")
MBARRIER_TX = _need("mbarrier.arrive.expect_tx", "sm_90")
TRY_WAIT = _need("mbarrier.try_wait", "sm_90")
# cp.async.bulk.tensor, cp.async.bulk.commit_group: sm_90
TMA = _need("cp.async.bulk.tensor", "sm_90")
CLUSTERS = _need(".reqnctapercluster", "sm_90")
# wgmma: "requires sm_90a" and no other; setmaxnreg: sm_90a, sm_100a, sm_110a, sm_120a and families
WGMMA = Need("wgmma", ("sm_90a",))
SETMAXNREG = Need(
    "setmaxnreg",
    ("sm_90a", *(f"sm_{n}{suffix}" for n in (100, 103, 110, 120, 121) for suffix in "af")),
)


def _of_atom(atom: MMA_Atom | Copy_Op) -> Need | None:
    """Return the instruction of a row: the row knows where it is, natively or emulated."""
    if atom.ptx is None:
        return None
    archs = (*atom.native, *getattr(atom, "emulated", ()))
    row = of_atom(atom)
    return Need(row.name, (row.first, *archs))


def _narrow(dtype: Dtype, rounded: bool) -> Need | None:
    """Return what arithmetic on a type narrower than 32 bits needs: bf16 widens by a shift."""
    if dtype.name in ("e4m3", "e5m2"):
        return FP8
    return BF16 if dtype.name == "bf16" and rounded else None


def _of_map(op: ops.Map) -> Need | None:
    return None if op.fn == "copy" else _narrow(op.dtype, op.dst.dtype is op.dtype)


def _of_convert(op: ops.Convert) -> Need | None:
    if op.dst.dtype.name == "tf32":
        return TF32 if op.rounding == "rna" else None
    return _narrow(op.dst.dtype, True) or _narrow(op.src.dtype, False)


def _of_mma(op: ops.Mma) -> Need | None:
    return _of_atom(op.atom) or _narrow(op.d.dtype, True) or _narrow(op.a.dtype, False)


def _of_atomic(op: ops.Atomic) -> Need | None:
    return ATOM_BF16 if op.fn == "add" and op.dst.dtype.name == "bf16" else None


def _of_arrival(op: ops.MbarArrive) -> Need:
    return MBARRIER_TX if op.bytes or op.cluster_rank is not None else MBARRIER


NEEDS: dict[type[Op], Callable[..., Need | None]] = {
    ops.Mma: _of_mma,
    **{kind: lambda op: _of_atom(op.atom) for kind in (ops.LdMatrix, ops.StMatrix, ops.CpAsync)},
    ops.Wgmma: lambda op: _of_atom(op.atom),
    ops.Map: _of_map,
    ops.Reduce: lambda op: _narrow(op.src.dtype, True),
    ops.Convert: _of_convert,
    ops.Barrier: lambda op: CLUSTER if op.scope == "cluster" else None,
    ops.Fence: lambda op: {"proxy_async": PROXY, "mbarrier_init": INIT}.get(op.kind),
    ops.Atomic: _of_atomic,
    ops.MbarArrive: _of_arrival,
    **{
        kind: lambda _op, need=need: need
        for need, kinds in (
            (CP_ASYNC, (ops.CpCommit, ops.CpWait, ops.CpArrive)),
            (MBARRIER, (ops.MbarInit,)),
            (TRY_WAIT, (ops.MbarWait,)),
            (TMA, (ops.TmaLoad, ops.TmaStore, ops.BulkCommit, ops.BulkWait)),
            (WGMMA, (ops.WgFence, ops.WgCommit, ops.WgWait)),
            (SETMAXNREG, (ops.SetMaxNReg,)),
        )
        for kind in kinds
    },
}


# -- the check


def require_runnable(plan: Plan, arch: str) -> None:
    """Raise LayoutError, by name, for what an architecture cannot run.

    The first op whose instruction it lacks, with the kernel's line; or more shared memory than it
    gives a block.
    """
    require_known(arch)
    if plan.launch.cluster != (1, 1, 1) and not holds(CLUSTERS.archs, arch):
        raise _lacking("a launch in clusters", CLUSTERS, plan, arch)
    for op in every(plan.body):
        need = need_of(op)
        if need is not None and not holds(need.archs, arch):
            raise _lacking(type(op).__name__, need, plan, arch, where_of(op))
    most = DEVICES[f"sm_{number(arch)}"].shared_block
    if plan.smem_bytes > most:
        raise refusal(
            "codegen-smem", operation=plan.name, bytes=plan.smem_bytes, arch=arch, most=most
        )


def overlaps(arch: str) -> bool:
    """Tell whether a kernel can begin before the one before it has ended."""
    return holds(GRIDDEP.archs, arch)


def need_of(op: Op) -> Need | None:
    """Return the instruction that an op needs, None where all `TARGETS` have it."""
    rule = NEEDS.get(type(op))
    return None if rule is None else rule(op)


_WITH_ATOMS = {"Mma", "LdMatrix", "StMatrix", "CpAsync", "Wgmma"}


def _lacking(op: str, need: Need, plan: Plan, arch: str, where: str | None = None) -> CuteError:
    other = f"use an atom that {arch} has (cute.atoms.find, copy_rows)"
    emulated = "run the kernel on the emulator: cute.emulate(plan, ...)"
    return refusal(
        "codegen-lacks",
        operation=plan.name,
        where=where,
        op=op,
        instruction=need.instruction,
        arch=arch,
        first=need.first,
        newer="" if need.first[-1].isalpha() else " or newer",
        instead=other if op in _WITH_ATOMS else emulated,
    )
