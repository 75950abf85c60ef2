"""PTX to a cubin, by ptxas, and what it says about it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from cute_py.codegen.tools import tool
from cute_py.errors import refusal

# ptxas says so where it undoes what the kernel asks for: serialized wgmma, ignored setmaxnreg,
# more blocks a multiprocessor than there are threads for ...
FORBIDDEN = re.compile(r"C75(?:04|05|08|10|11|14|15|17|19)\b|will be ignored")


def assembled(name: str, ptx: str, arch: str) -> tuple[bytes, str]:
    """Return the cubin of a text in PTX, and the log of ptxas.

    Raises LayoutError with the log where ptxas refuses the text, or does not do what it says.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        text.write_text(ptx, encoding="utf-8")
        options = ["-v", "-lineinfo", f"-arch={arch}"]
        command = [tool("ptxas"), *options, str(text), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or FORBIDDEN.search(done.stderr):
            raise refusal("codegen-ptxas", operation=name, arch=arch, log=done.stderr.strip())
        return cubin.read_bytes(), done.stderr


def number_in(log: str, pattern: str) -> int:
    """Return the number that a pattern finds in a log, 0 where it finds none."""
    found = re.search(pattern, log)
    return int(found.group(1)) if found else 0
