"""The programs of the CUDA toolkit: where they are."""

from __future__ import annotations

import os
import shutil
import sysconfig
from functools import cache
from pathlib import Path

from cute_py.errors import refusal


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
