"""The CUDA toolchain: its paths, ptxas (PTX to cubin) and nvdisasm (cubin to SASS)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from functools import cache, lru_cache
from pathlib import Path

from cute_py.codegen.notes import advice, in_kernel
from cute_py.errors import refusal

# the notes of ptxas when it ignores a request: serialized wgmma, ignored setmaxnreg, too few
# registers for the accumulators, more blocks per multiprocessor than its threads allow ...
FORBIDDEN = re.compile(r"C7[56]\d\d\b|will be ignored")
UNFIT = "use an architecture that has the instructions of the atoms (min_arch), or smaller tiles"


def places() -> list[str]:
    """Return the folders of CUDA tools: CUDA_HOME, the installed packages, the default toolkit."""
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


# -- PTX to a cubin


def assembled(name: str, ptx: str, arch: str, source: str = "") -> tuple[bytes, str]:
    """Assemble PTX; return the cubin and the log of ptxas. `source`: what the PTX was made of.

    Raises LayoutError with the log if ptxas refuses the text or ignores a part of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(ptx, encoding="utf-8")
        options = ["-v", "-lineinfo", f"-arch={arch}"]
        command = [tool("ptxas"), *options, str(text), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or FORBIDDEN.search(done.stderr):
            log = clipped(in_kernel(done.stderr, ptx, source))
            how = UNFIT if done.returncode else advice(log)
            raise refusal("codegen-ptxas", operation=name, arch=arch, log=log, how=how)
        return cubin.read_bytes(), done.stderr


def clipped(log: str, most: int = 8) -> str:
    """Return the first lines of a log, for a refusal.

    >>> print(clipped(chr(10).join("abc"), most=2))
    a
    ... and 2 more lines
    """
    lines = log.strip().splitlines()
    if len(lines) > most:
        lines[most - 1 :] = [f"... and {len(lines) - most + 1} more lines"]
    return "\n".join(lines)


def number_in(log: str, pattern: str) -> int:
    """Return the number that a pattern finds in a log, 0 without a match."""
    found = re.search(pattern, log)
    return int(found.group(1)) if found else 0


# -- machine code


@lru_cache(maxsize=16)
def disassembled(cubin: bytes, *, lines: bool = False) -> str:
    """Return the SASS of a cubin, as nvdisasm prints it; `lines`: with its table of lines.

    Raises LayoutError if nvdisasm is missing or cannot read the cubin.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [tool("nvdisasm"), *(["-g"] if lines else []), "-c", "-ndf", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise refusal("codegen-disassembly", operation="nvdisasm", log=clipped(done.stderr))
    return done.stdout
