"""Run kernels under compute-sanitizer: memcheck, racecheck and synccheck.

`python tests/gpu/sanitize.py [NAME ...]` runs the programs of `PROGRAMS`, or some of them. It exits
with 0 where all tools are clean, 1 where one found something or ran out of time, 2 where
compute-sanitizer is missing. tests/gpu/test_sanitizers.py runs each as a test.

`python tests/gpu/sanitize.py --broken FILE` runs the broken kernels of
tests/emulated/test_broken_kernels.py, each under each tool in a process of its own, and writes
FILE.md, the table of docs/emulator.md, and FILE.json with what the tools said. It exits with 1
where a tool reports a kernel that the emulator accepts, or the right kernel next to them.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck")
SECONDS = 240  # for each tool
EACH, AT_ONCE = 60, 12  # seconds of a broken kernel; processes
RIGHT = "right"  # the name of a kernel that no tool may report
LADDER = {"ladder": (__file__, "--kernels")}
# asynchronous instructions of Hopper, and its lessons; both kernels of the family
NAMES = ("tma_copy", "peers", "atomics_of_peers", "halo", "cluster", "weights")
LESSONS = ("gemm_09", "gemm_10", "gemm_11", "gemm_12")
HOPPER = {
    "family": ("-m", "tests.gpu.hopper_gemm", "one"),
    **{name: ("-m", "tests.hopper_kernels", name) for name in (*NAMES, *LESSONS)},
}
PROGRAMS = LADDER | HOPPER
RUNS = [  # racecheck knows of no mbarrier by which a block waits for the stores of its peers
    (tool, name) for name in PROGRAMS for tool in TOOLS if (tool, name) != ("racecheck", "halo")
]


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
    from cute_py.kernels.reduce import reduce_rows, sum_any
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
    reduce_rows(x, torch.zeros(33, device="cuda"))
    softmax(x, y)
    x = torch.randn(72, 300, device="cuda")
    y, turned = torch.zeros_like(x), torch.zeros(300, 72, device="cuda")
    copy_any(x, y)
    transpose.transpose_any(x, turned)
    softmax_any(x, y)
    sum_any(x, torch.zeros(72, device="cuda"))
    for each in (x, x.T, x.reshape(2, 36, 300), torch.randn(3, 9000, device="cuda")):
        cute.ops.transpose(each)
        cute.ops.activation(each, "gelu", torch.ones_like(each))
        for dim in range(each.dim()):
            cute.ops.softmax(each, dim)
            cute.ops.reduce(each, "max", dim)
    cute.ops.reduce(torch.ones(1 << 20, device="cuda"), "add")
    torch.cuda.synchronize()
    print("ran all", flush=True)


def sanitizer():
    """Return the path of compute-sanitizer, or None."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    places = [str(Path(h, sub)) for h in homes if h for sub in ("bin", "compute-sanitizer")]
    name = "compute-sanitizer"
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(places))


def check(path, tool, name):
    """Return what is wrong with a program under a tool, or ""."""
    command = [path, "--tool", tool, "--error-exitcode", "9", "--launch-timeout", "120"]
    if tool == "memcheck":  # cuda-bindings looks for functions that the driver may lack
        command += ["--report-api-errors", "no"]
    command += [sys.executable, *PROGRAMS[name]]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"
    text = done.stdout + done.stderr
    clean = done.returncode == 0 and re.search(r"ran all|\bright\b", text)
    return "" if clean else f"{text[:3000]}\n...\n{text[-1000:]}"


# -- broken kernels


def broken(name):
    """Launch one broken kernel; dry: compile it."""
    import cute_py as cute
    from tests.emulated import test_lanes as lanes
    from tests.emulated.test_broken_kernels import plan_of, traced
    from tests.gpu.harness import DRY, SPILLS, launched

    right = lanes.handed(lanes.meets), lanes.line(32)
    plan, given = traced(*right) if name == RIGHT else plan_of(name)
    print("launching", flush=True)
    if DRY:
        cute.compile(plan, DRY, SPILLS)
    else:
        launched(plan, *given)
    print("ran", flush=True)


def ended(command):
    """Run a command and what it starts for `EACH` seconds; return its code, None if it was ended
    then, and what it said.
    """
    # each array is an allocation of its own, so that memcheck knows where it ends
    env = {"PYTHONPATH": str(ROOT), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **env},
        start_new_session=True,
    )
    try:
        text = process.communicate(timeout=EACH)[0]
        return process.returncode, text
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]


def said(path, tool, name):
    """Return what a tool says of a broken kernel, in few words, and in its own."""
    command = [path, "--tool", tool, "--error-exitcode", "9"] if path else []
    if tool == "memcheck":
        command += ["--report-api-errors", "no"] if path else []
    command += [sys.executable, __file__, "--kernel", name]
    code, text = ended(command)
    if code is None and "launching" not in text:
        code, text = ended(command)  # many processes begin at once
    found = re.search(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+)", text)
    count = int(found[1]) if found else 0
    if count:
        return f"{count} report" + "s" * (count > 1), text
    if code is None:
        return ("hangs" if "launching" in text else "did not begin"), text
    return ("nothing" if "\nran" in text or text.startswith("ran") else "fails"), text


def compare(file):
    """Run all broken kernels under all tools; write the table; return the exit code."""
    sys.path.insert(0, str(ROOT))
    from tests.emulated.test_broken_kernels import BROKEN, code_of, table

    path = sanitizer()
    if path is None and not os.environ.get("CUTE_PY_GPU_DRY"):
        print("no compute-sanitizer on PATH or in CUDA_HOME")
        return 2
    names = [RIGHT, *BROKEN]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {(n, tool): pool.submit(said, path, tool, n) for n in names for tool in TOOLS}
        rows = {n: {tool: jobs[n, tool].result() for tool in TOOLS} for n in names}
    words = {name: {tool: row[tool][0] for tool in TOOLS} for name, row in rows.items()}
    codes = {name: code_of(name) for name in BROKEN}
    texts = {name: {tool: row[tool][1][-3000:] for tool in TOOLS} for name, row in rows.items()}
    held = {"emulator": codes, "tools": words, "texts": texts}
    Path(f"{file}.json").write_text(json.dumps(held, indent=1), encoding="utf-8")
    page = table({name: words[name] for name in BROKEN})
    Path(f"{file}.md").write_text(page, encoding="utf-8")
    print(page, RIGHT, words[RIGHT])
    missed = [n for n in BROKEN if not codes[n] and "report" in "".join(words[n].values())]
    print("reported, and accepted by the emulator:", missed or "none")
    return int(bool(missed) or set(words[RIGHT].values()) != {"nothing"})


def main(names):
    """Run programs under all tools; return the exit code."""
    path = sanitizer()
    if path is None:
        print("no compute-sanitizer on PATH or in CUDA_HOME")
        return 2
    failed = False
    for tool, name in RUNS:
        if not names or name in names:
            wrong = check(path, tool, name)
            print(f"{name}, {tool}: {wrong or 'clean'}", flush=True)
            failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:] == ["--kernels"]:
        kernels()
    elif sys.argv[1:2] == ["--kernel"]:
        broken(sys.argv[2])
    elif sys.argv[1:2] == ["--broken"]:
        sys.exit(compare(sys.argv[2] if len(sys.argv) > 2 else "broken_kernels"))
    else:
        sys.exit(main(sys.argv[1:]))
