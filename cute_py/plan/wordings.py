"""Wordings: plans."""

from __future__ import annotations

from cute_py.errors import LayoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "plan-integer": (
        LayoutError,
        "the integer {number}",
        "numbers from -2**63 to 2**63 - 1: the integers of a kernel are signed, of 64 bits",
        "compute in registers of an unsigned type: n.to('u64')",
    ),
    "plan-unsigned": (
        LayoutError,
        "{value} as {name}, an integer that the kernel computes with",
        "less than 2**63: the integers of a kernel are signed, of 64 bits",
        "compute in registers: {name}.to('u64')",
    ),
    "plan-op": (
        LayoutError,
        "an op with {problem}",
        "fields that fit each other, and storages that the plan has",
        "trace the kernel again; plans that are built by hand must follow plan/ops",
    ),
    "plan-text": (
        LayoutError,
        "text that is no plan: {said}",
        "what Plan.save wrote",
        "save the plan again",
    ),
    "plan-version": (
        LayoutError,
        "a plan of version {version}",
        "version {known}",
        "trace the kernel again with this version of cute_py",
    ),
    "plan-unassigned": (
        LayoutError,
        "a read of register {storage}[{element}], which need not have a value there",
        "registers that are assigned on every way that leads to the read",
        "fill the tensor first (x.fill(0)); a loop may run not even once",
    ),
    "plan-pdl": (
        LayoutError,
        "no wait for the kernels before, ahead of global memory or a return, with pdl=True",
        "a wait first: what they write may not be there yet",
        "call cute.griddepcontrol_wait() outside of branches and loops, before the first access",
    ),
    "plan-twice": (
        LayoutError,
        "{reg}, of which one operation would give a register several values",
        "registers that an operation writes once, or with one value",
        "take a tensor without modes of stride 0; sum along a mode with cute.reduce(fn, x, mode)",
    ),
    "plan-setmaxnreg-part": (
        LayoutError,
        "setmaxnreg that warp {warp} of warpgroup {group} does not come to with the others",
        "all four warps of a warpgroup at one setmaxnreg",
        "branch on the warpgroup: with cute.when(cute.warp_idx() // 4 == 0): ...",
    ),
    "plan-setmaxnreg-sum": (
        LayoutError,
        "{counts} registers a thread of the warpgroups, {total} in all",
        "at most {most}: the 64 K of a multiprocessor are shared out when a block begins, {first} "
        "a thread",
        "ask for fewer, or let other warpgroups give more back",
    ),
    "plan-divergent": (
        LayoutError,
        "a barrier of the block inside of the branch or loop at {branch}, on which threads differ",
        "all threads of the block at the barrier",
        "move it out of the branch, or use cute.named_barrier with the number of threads",
    ),
    "plan-shared": (
        LayoutError,
        "{bytes} bytes of shared memory",
        "at most {most} bytes a block",
        "use smaller tiles or fewer stages, or cute.union for storages of different life times",
    ),
}
