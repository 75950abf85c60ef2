"""Wordings: compiling plans for a GPU, and launching them."""

from __future__ import annotations

from cute_py.errors import CuteError, LayoutError

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
        "sm_ and a compute capability from 7.5 on, with the suffix a where instructions need it",
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
    "cache-folder": (
        CuteError,
        "the folder {path}: {reason}",
        "a folder that this user alone can write to, with room for a few files",
        "set CUTE_PY_CACHE_DIR to another folder, or CUTE_PY_CACHE=0 to keep nothing",
    ),
    "cache-size": (
        CuteError,
        "CUTE_PY_CACHE_SIZE={text!r}",
        "a number of bytes, with K, M or G behind it for 2**10, 2**20 or 2**30",
        "leave it unset for 1G, or write 500M",
    ),
    "launch-argument": (
        LayoutError,
        "{name}: {found}",
        "arrays like those that the plan was traced for, on the GPU",
        "call the kernel itself, which traces for the arrays it gets",
    ),
    "launch-failed": (
        LayoutError,
        "{status} from the driver for {launch}",
        "a launch that the device can run, and addresses inside of the arrays",
        "run cute.emulate(plan, ...) on copies of the arrays to find the line",
    ),
}
