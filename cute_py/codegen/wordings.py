"""Wordings: compiling and launching for a GPU."""

from __future__ import annotations

from cute_py.errors import CuteError, LayoutError, LeafTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "codegen-name": (
        LayoutError,
        "the name {name!r} in the plan",
        "names of Python, which the printed kernel can have",
        "write the kernel with def name(...), not as a lambda",
    ),
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
    "codegen-plan": (
        LeafTypeError,
        "a {type}",
        "a plan",
        "trace the kernel first: cute.trace(kernel, arguments ...)",
    ),
    "codegen-arch": (
        LayoutError,
        "the architecture {arch!r}",
        "one of {known}",
        "{hint}",
    ),
    "codegen-arch-old": (
        LayoutError,
        "{arch}",
        "{oldest} or newer: CUDA 13 does not compile for older ones",
        "run the kernel on the emulator: cute.emulate(plan, ...)",
    ),
    "codegen-lacks": (
        LayoutError,
        "{op} for {arch}, which has no {instruction}",
        "{first}{newer}",
        "compile for {first}, or {instead}",
    ),
    "codegen-smem": (
        LayoutError,
        "{bytes} bytes of shared memory for a block of {arch}",
        "at most {most} bytes",
        "use fewer stages or a smaller tile",
    ),
    "codegen-source": (
        LayoutError,
        "what Numba cannot compile: {log}",
        "the text of cute.source(plan), its lines edited: the same function, the plan's calls",
        "begin again from cute.source(plan)",
    ),
    "codegen-nvvm": (
        LayoutError,
        "what NVVM says for {arch}: {log}",
        "code that NVVM takes",
        "run the kernel on the emulator: cute.emulate(plan, ...), and report the plan",
    ),
    "codegen-disassembly": (
        LayoutError,
        "what nvdisasm says: {log}",
        "a cubin that it knows",
        "install nvidia-cuda-nvdisasm of the series of ptxas, or newer",
    ),
    "codegen-debug": (
        LayoutError,
        "CUTE_PY_DEBUG={given!r}",
        "a number from 0 to 4, or some of {known}",
        "CUTE_PY_DEBUG=1 prints the seconds of each pass",
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
        "use a smaller tile or more threads; or allow it with spill_bytes={spilled}\n{log}",
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
    "launch-earlier": (
        LayoutError,
        "{status} from the driver, left by a kernel before; launched last: {names}",
        "addresses inside of the arrays",
        "set CUTE_PY_SYNC=1, so that each launch waits and the kernel itself is named; then run "
        "cute.emulate(plan, ...) on copies of its arrays to find the line",
    ),
    "launch-grid": (
        LayoutError,
        "a grid of {grid} blocks",
        "extents of at least 0 and at most {most}",
        "let a block do more, or put the longest mode into x",
    ),
    "launch-limit": (
        LayoutError,
        "{found} {what}",
        "at most {most} on this device ({arch})",
        "use a smaller tile, fewer stages or fewer threads",
    ),
    "launch-cluster": (
        LayoutError,
        "a grid of {grid} blocks in clusters of {cluster}",
        "extents that clusters divide",
        "round the grid up: cute.round_up(blocks, cluster)",
    ),
    "launch-device": (
        LayoutError,
        "{name} on device {found}, and {other} on device {device}",
        "all arrays on one device",
        "copy {name} to device {device}",
    ),
    "launch-read-only": (
        LayoutError,
        "{name}, which is read-only, and the kernel writes to it",
        "memory that may be written",
        "pass an array of your own for the result",
    ),
    "launch-host": (
        LayoutError,
        "{name} ({type}), which does not lie on the GPU",
        "arrays on the GPU, like those that the plan was traced for",
        "copy it there: torch.as_tensor(x).cuda(), cupy.asarray(x)",
    ),
    "launch-misaligned": (
        LayoutError,
        "{name} at address {address}, which is no multiple of {size} bytes",
        "elements of {dtype} at multiples of their size",
        "copy the array into memory of its own: torch.clone(x), cupy.array(x)",
    ),
    "launch-memory": (
        LayoutError,
        "{name} at {address}, which CUDA does not know",
        "memory of a GPU of NVIDIA, managed memory, or pinned host memory",
        "copy the array to the GPU",
    ),
    "launch-stream": (
        LayoutError,
        "{stream} ({type}) as a stream",
        "a number, or an object with cuda_stream, ptr or __cuda_stream__",
        "pass torch.cuda.Stream, cupy.cuda.Stream or the number of a CUDA stream",
    ),
    "launch-capture": (
        LayoutError,
        "the first call for these arrays, while a CUDA graph is captured",
        "a kernel that is compiled and loaded: that may not be done in a capture",
        "call it once with such arrays before the capture",
    ),
    "launch-status": (
        LayoutError,
        "{status} from the driver",
        "a device that works, with memory left",
        "look at nvidia-smi; start the process again where a kernel has failed before",
    ),
    "launch-driver": (
        LayoutError,
        "no CUDA driver: {said}",
        "a GPU of NVIDIA with its driver, and the extra `cuda`",
        "run `nvidia-smi` and `pip install cute-py[cuda]`; or give arrays of the host, to emulate",
    ),
}
