"""From a plan to PTX and a cubin; needs no GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cute_py.codegen.cache import cached
from cute_py.codegen.shim import install
from cute_py.errors import refusal

if TYPE_CHECKING:
    from cute_py.trace.plan import Plan

OLDEST = (7, 5)  # compute capability that NVVM and ptxas 13 know
# ptxas says so where it undoes what the kernel asks for: serialized wgmma, ignored setmaxnreg ...
FORBIDDEN = re.compile(r"C75(?:04|05|08|10|11|14|15|17|19)\b")


@dataclass(frozen=True)
class Resources:
    """What ptxas says of a kernel.

    Attributes:
        registers: of a thread.
        spill_bytes: stored to local memory because registers ran out.
        stack_bytes: of local memory.
        smem_bytes: dynamic shared memory of a block.
    """

    registers: int
    spill_bytes: int
    stack_bytes: int
    smem_bytes: int
    cubin: bytes = field(default=b"", repr=False, compare=False)

    @property
    def instructions(self) -> dict[str, int]:
        """How often each instruction stands in the cubin, by the first part of its name."""
        names = re.findall(
            r"/\*[0-9a-f]{4,}\*/ +(?:@!?U?P\w+ +)?([A-Z][A-Z0-9_]*)", sass(self.cubin)
        )
        return dict(Counter(names).most_common())


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
        resources: registers, spills, shared memory.
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

    @property
    def sass(self) -> str:
        """The instructions of the cubin; raises LayoutError where nvdisasm is missing."""
        return sass(self.cubin)


@cache
def sass(cubin: bytes) -> str:
    """Return what nvdisasm says of a cubin."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [tool("nvdisasm"), "-c", str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def source(plan: Plan) -> str:
    """Return the Numba kernel of a plan as text: a line an op, with the kernel's line behind it.

    Raises LayoutError for ops that have no PTX yet.
    """
    return str(_printed(plan).text)


def compile(plan: Plan, arch: str = "sm_90a", spill_bytes: int = 0) -> Compiled:
    """Compile a plan for an architecture; needs no GPU.

    Args:
        plan: what to compile.
        arch: sm_80, sm_89, sm_90a, ...
        spill_bytes: how much may spill to local memory before the kernel is refused.

    Raises LayoutError where ptxas is missing, refuses the text or says that it serialises, and
    where registers spill. What was compiled before comes from the cache on disk.
    """
    return cached(lambda: _compiled(plan, arch, spill_bytes), plan, arch, spill_bytes=spill_bytes)


def _compiled(plan: Plan, arch: str, spill_bytes: int) -> Compiled:
    printed = _printed(plan)
    ptx = _ptx(plan, printed, arch)
    entry = re.search(r"\.entry\s+(\w+)", ptx)
    assert entry is not None
    cubin, log = _assembled(plan, ptx, arch)
    resources = _resources(log, plan)
    spilled = max(resources.spill_bytes, resources.stack_bytes)
    if spilled > spill_bytes:
        raise refusal(
            "codegen-spills", operation=plan.name, arch=arch, spilled=spilled, most=spill_bytes
        )
    resources = replace(resources, cubin=cubin)
    return Compiled(plan, arch, entry.group(1), printed.text, ptx, cubin, resources, log)


def _printed(plan: Plan) -> Any:  # noqa: ANN401  (a Source)
    try:
        import numba  # noqa: F401
    except ImportError:
        raise refusal("codegen-missing", operation="cute.compile", name="numba-cuda") from None
    if plan.launch.cluster != (1, 1, 1):
        raise refusal("codegen-op", operation="cute.compile", name="a launch in clusters")
    install()
    from cute_py.codegen.intrinsics import Intrinsics
    from cute_py.codegen.source import Source

    return Source(plan, Intrinsics(plan))


def _ptx(plan: Plan, printed: Any, arch: str) -> str:  # noqa: ANN401
    from numba import cuda
    from numba.cuda import types

    from cute_py.codegen.runtime import make_runtime
    from cute_py.codegen.source import parameters

    kinds = {
        "address": types.uint64,
        "integer": types.int64,
        "f32": types.float32,
        "f64": types.float64,
    }
    scope = {**make_runtime(plan.launch.block), **printed.calls}
    exec(printed.text, scope)
    text, _kind = cuda.compile(
        scope[plan.name],
        types.void(*[kinds[kind] for _name, kind in parameters(plan)]),
        cc=capability(arch),
        device=False,
        abi="numba",
        output="ptx",
        launch_bounds=(plan.launch.threads, plan.launch.min_blocks),
    )
    return str(text)


def capability(arch: str) -> tuple[int | str, ...]:
    """Return an architecture as Numba wants it: sm_90a is (9, 0, "a")."""
    found = re.fullmatch(r"sm_(\d+)(\d)(a?)", arch)
    if found is None:
        raise refusal("codegen-arch", operation="cute.compile", arch=arch)
    major, minor, suffix = found.groups()
    if (int(major), int(minor)) < OLDEST:
        raise refusal("codegen-arch", operation="cute.compile", arch=arch)
    return (int(major), int(minor), suffix) if suffix else (int(major), int(minor))


def _assembled(plan: Plan, ptx: str, arch: str) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(ptx, encoding="utf-8")
        command = [tool("ptxas"), "-v", f"-arch={arch}", str(text), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or FORBIDDEN.search(done.stderr):
            log = done.stderr.strip()
            raise refusal("codegen-ptxas", operation=plan.name, arch=arch, log=log)
        return cubin.read_bytes(), done.stderr


def _resources(log: str, plan: Plan) -> Resources:
    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found.group(1)) if found else 0

    return Resources(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes spill stores"),
        number(r"(\d+) bytes stack frame"),
        plan.smem_bytes,
    )


def places() -> list[str]:
    """Return the folders of CUDA tools: of CUDA_HOME, the installed packages, the usual toolkit."""
    wheels = sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("*/bin"))
    homes = [os.environ.get(n, "") for n in ("CUDA_HOME", "CUDA_PATH")]
    return [*(str(Path(h, "bin")) for h in homes if h), *map(str, wheels), "/usr/local/cuda/bin"]


@cache
def tool(name: str) -> str:
    """Return the path of a CUDA tool: from CUDA_HOME, the installed packages, or PATH."""
    found = shutil.which(name, path=os.pathsep.join(places())) or shutil.which(name)
    if found is None:
        raise refusal("codegen-missing", operation="cute.compile", name=name)
    return found
