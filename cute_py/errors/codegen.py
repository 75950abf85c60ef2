"""Wordings: compiling plans for a GPU."""

from __future__ import annotations

from cute_py.errors import LayoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "codegen-op": (
        LayoutError,
        "{name}, which has no PTX here yet",
        "ops of sm_80 and older: loads, cp.async, ldmatrix, mma.sync, shuffles, barriers",
        "run the kernel on the emulator: cute.emulate(plan, ...)",
    ),
    "codegen-missing": (
        LayoutError,
        "no {name} on this machine",
        "what the extra `cuda` installs (Linux)",
        "pip install cute-py[cuda], or set CUDA_HOME to a CUDA toolkit 13.0",
    ),
    "codegen-arch": (
        LayoutError,
        "the architecture {arch!r}",
        "sm_ and the compute capability, with the suffix a where instructions need it",
        "use sm_80, sm_86, sm_89 or sm_90a",
    ),
    "codegen-ptxas": (
        LayoutError,
        "what ptxas says for {arch}: {log}",
        "PTX that assembles, without serialised or ignored instructions",
        "use an architecture that has the instructions of the atoms (min_arch), or smaller tiles",
    ),
    "codegen-spills": (
        LayoutError,
        "{spilled} bytes of local memory on {arch}",
        "at most {most} bytes",
        "use a smaller tile or more threads; or allow it with spill_bytes={spilled}",
    ),
}
