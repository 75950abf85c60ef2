"""The CUDA toolchain: its paths, ptxas (PTX to cubin) and nvdisasm (cubin to SASS)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from cute_py.errors import refusal

# the notes of ptxas when it ignores a request: serialized wgmma, ignored setmaxnreg, too few
# registers for the accumulators, more blocks per multiprocessor than its threads allow ...
FORBIDDEN = re.compile(r"C7[56]\d\d\b|will be ignored")
# /*0a10*/  @!P0 LDSM.16.M88.4 R4, [R2] ;
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)")


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


def assembled(name: str, ptx: str, arch: str) -> tuple[bytes, str]:
    """Assemble PTX; return the cubin and the log of ptxas.

    Raises LayoutError with the log if ptxas refuses the text or ignores a part of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(ptx, encoding="utf-8")
        options = ["-v", "-lineinfo", f"-arch={arch}"]
        command = [tool("ptxas"), *options, str(text), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or FORBIDDEN.search(done.stderr):
            raise refusal("codegen-ptxas", operation=name, arch=arch, log=clipped(done.stderr))
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
def disassembled(cubin: bytes) -> str:
    """Return the SASS of a cubin, as nvdisasm prints it.

    Raises LayoutError if nvdisasm is missing or cannot read the cubin.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [tool("nvdisasm"), "-c", "-ndf", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise refusal("codegen-disassembly", operation="nvdisasm", log=clipped(done.stderr))
    return done.stdout


# what stalls the loop of warpgroup products: spills, calls, fences of the whole GPU, operands in
# vector registers
STALLS = re.compile(r"\b(?:LDL|STL|CALL|R2UR|MEMBAR\.\w+\.(?:GPU|SYS))\b")
_EXIT = re.compile(r"\*/\s+EXIT")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_BRANCH = re.compile(r"\bBRA(?:\.\w+)*\s.*`\((\.L_x_\d+)\)")


def product_loops(sass: str) -> list[list[str]]:
    """Return the lines of the innermost loops that multiply by warpgroups (HGMMA, IGMMA, QGMMA),
    which are those over K. Products that are left over where such a loop was unrolled are in none.
    """
    lines = sass.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    products = [i for i, line in enumerate(lines) if re.search(r"\b[HIQ]GMMA\b", line)]
    # waits that repeat are behind the code of their warps, and branch back into loops
    end = (
        next((i for i in range(products[-1], len(lines)) if _EXIT.search(lines[i])), len(lines))
        if products
        else 0
    )
    targets = [
        (i, labels.get(m[1], i))
        for i, line in enumerate(lines[:end])
        if (m := _BRANCH.search(line))
    ]
    loops = [(first, last) for last, first in targets if first < last]
    inner = {
        min(around, key=lambda loop: loop[1] - loop[0])
        for at in products
        if (around := [loop for loop in loops if loop[0] < at < loop[1]])
    }
    inner = {x for x in inner if not any(x[0] <= y[0] and y[1] <= x[1] for y in inner - {x})}
    return [lines[first:last] for first, last in sorted(inner)]


def stalls(sass: str) -> Mapping[str, int]:
    """Return the number of each instruction of `STALLS` in the loops of warpgroup products.

    >>> loop = [".L_x_1:", "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24 ;", "R2UR UR4, R2 ;"]
    >>> dict(stalls(chr(10).join([*loop, "@P0 BRA `(.L_x_1) ;", "R2UR UR5, R2 ;"])))
    {'R2UR': 1}
    """
    found = [STALLS.findall(line) for loop in product_loops(sass) for line in loop]
    return Counter(name for names in found for name in names)


def counted(sass: str) -> Mapping[str, int]:
    """Return the number of each instruction in SASS, by its name before the first dot: HMMA, LDSM,
    LDGSTS, BAR ...; 0 for any other.

    >>> counted("/*0010*/ @P0 LDSM.16.M88.4 R4, [R2] ;")["LDSM"]
    1
    """
    return MappingProxyType(Counter(INSTRUCTION.findall(sass)))
