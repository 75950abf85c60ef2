"""Run a small part of the ladder under compute-sanitizer: memcheck, racecheck and synccheck.

`python tests/gpu/sanitize.py` exits with 0 where all tools are clean, 1 where one found something
or ran out of time, 2 where compute-sanitizer is missing. `--kernels` is what it runs under them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck")
SECONDS = 240  # for each tool


def kernels():
    """Launch each kernel once, on shapes that are no multiples of their tiles."""
    import torch

    import cute_py as cute
    from cute_py.kernels import transpose
    from cute_py.kernels.arrays import tile_copy
    from cute_py.kernels.config import choose
    from cute_py.kernels.copy import copy_any, copy_elements, copy_tiles
    from cute_py.kernels.gemm_01_naive import gemm_naive
    from cute_py.kernels.gemm_02_shared import gemm_shared
    from cute_py.kernels.gemm_03_registers import gemm_registers
    from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
    from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
    from cute_py.kernels.gemm_07_multistage import gemm_multistage
    from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
    from cute_py.kernels.reduce import sum_any, sum_rows
    from cute_py.kernels.softmax import softmax, softmax_any
    from cute_py.kernels.splitk_serial import gemm_splitk

    def rows(n, k, kind=torch.float16):
        return torch.ones(n, k, device="cuda", dtype=kind)

    def product(name, kernel, *more, kind=torch.float16, k=72):
        a, b = rows(70, k, kind), rows(40, k, kind)
        c = torch.zeros(70, 40, device="cuda")
        kernel(a, b, c, *[x(a, b, c) if callable(x) else x for x in more])
        torch.cuda.synchronize()
        assert bool((c == k).all()), name
        print("ran", name, flush=True)

    def plain(a, b, _c):
        return choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)

    for kernel in (gemm_naive, gemm_shared, gemm_registers):
        product(kernel.__name__, kernel, kind=torch.float32)
    product("tensor core", gemm_tensor_core, plain)
    product("tensor core, odd rows", gemm_tensor_core, plain, k=73)
    product(
        "ldmatrix", gemm_ldmatrix, lambda a, b, _c: choose(a, b, (64, 64), 2, asynchronous=False)
    )
    product("multistage", gemm_multistage, lambda a, b, _c: choose(a, b, (64, 64)))
    for m, n, k in ((300, 264, 200), (133, 130, 66)):  # by rows through shared memory; packed
        assert bool((cute.ops.gemm(rows(m, k), rows(n, k).T) == k).all())
        print("ran ops.gemm", m, n, k, flush=True)
    a, b, c = rows(70, 72), rows(40, 72), torch.zeros(70, 40, device="cuda")
    gemm_epilogue(a, b, c, c, None, 1.0, 0.0, choose(a, b, (64, 64), outputs=[c]))
    turns = torch.zeros((2, 1), dtype=torch.int32, device="cuda")
    gemm_splitk(a, b, c, turns, 2, plain(a, b, c))
    x, y = torch.randn(33, 70, device="cuda"), torch.zeros(33, 70, device="cuda")
    copy_elements(x, y)
    copy_tiles(x, y, tile_copy((32, 32), 128, x, y))
    for layout in (transpose.PLAIN, transpose.PADDED, transpose.SWIZZLED):
        transpose.transpose_shared(x, torch.zeros(70, 33, device="cuda"), layout)
    sum_rows(x, torch.zeros(33, device="cuda"))
    softmax(x, y)
    x = torch.randn(72, 300, device="cuda")
    y, turned = torch.zeros_like(x), torch.zeros(300, 72, device="cuda")
    copy_any(x, y)
    transpose.transpose_any(x, turned)
    softmax_any(x, y)
    sum_any(x, torch.zeros(72, device="cuda"))
    torch.cuda.synchronize()
    print("ran all", flush=True)


def sanitizer():
    """Return the path of compute-sanitizer, or None."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    places = [str(Path(h, sub)) for h in homes if h for sub in ("bin", "compute-sanitizer")]
    name = "compute-sanitizer"
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(places))


def check(path, tool):
    """Return what is wrong under a tool, or ""."""
    command = [path, "--tool", tool, "--error-exitcode", "9", "--launch-timeout", "120"]
    if tool == "memcheck":  # "is there a context?" is asked of the driver: no is no error
        command += ["--report-api-errors", "no"]
    command += [sys.executable, __file__, "--kernels"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"
    clean = done.returncode == 0 and "ran all" in done.stdout
    return "" if clean else (done.stdout + done.stderr)[-4000:]


def main():
    """Run all tools; return the exit code."""
    path = sanitizer()
    if path is None:
        print("no compute-sanitizer on PATH or in CUDA_HOME")
        return 2
    failed = False
    for tool in sys.argv[1:] or TOOLS:
        wrong = check(path, tool)
        print(f"{tool}: {wrong or 'clean'}", flush=True)
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:] == ["--kernels"]:
        kernels()
    else:
        sys.exit(main())
