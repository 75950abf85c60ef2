"""The machine code of a cubin: as text, and counted. Only where somebody asks for it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from cute_py.codegen.tools import tool
from cute_py.errors import refusal

# /*0a10*/  @!P0 LDSM.16.M88.4 R4, [R2] ;
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\w*)")


@lru_cache(maxsize=16)
def disassembled(cubin: bytes) -> str:
    """Return the SASS of a cubin, as nvdisasm prints it.

    Raises LayoutError where there is no nvdisasm, or it cannot read the cubin.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        command = [tool("nvdisasm"), "-c", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise refusal("codegen-disassembly", operation="nvdisasm", log=done.stderr.strip())
    return done.stdout


def counted(sass: str) -> Mapping[str, int]:
    """Return how often each instruction stands in SASS, by its name before the first point: HMMA,
    LDSM, LDGSTS, BAR ...; 0 for one that does not.

    >>> counted("/*0010*/ @P0 LDSM.16.M88.4 R4, [R2] ;")["LDSM"]
    1
    """
    return MappingProxyType(Counter(INSTRUCTION.findall(sass)))
