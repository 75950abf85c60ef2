"""`cute-py source KERNEL` and `cute-py compile KERNEL`: what the GPU compiler makes of a kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

from cute_py.analysis.resources import occupancy
from cute_py.atoms.arch import CHIPS
from cute_py.cli.arguments import count, extent
from cute_py.cli.gemm_command import add_numbers, add_product, require_some
from cute_py.cli.output import Output
from cute_py.codegen.build import compile, source
from cute_py.errors import CuteError, refusal
from cute_py.kernels.samples import sample
from cute_py.ops.choice import choose
from cute_py.ops.product import GEMM
from cute_py.ops.without_gpu import call_on, gpu_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from cute_py.codegen.build import Compiled
    from cute_py.ops.libraries import Gpu
    from cute_py.plan.plan import Plan

    Shown = tuple[Plan, dict[str, str]]  # a kernel, and how it was chosen, by label

SIZE = 256  # of M, N and K
OPERATOR = "the kernel that cute.ops.gemm runs on a GPU"
TILE = (
    "The kernel that cute.ops.gemm runs on a GPU for arrays like these. Its tile is the one that "
    "the operator chooses by sizes, types and the GPUs of --arch; --config changes it. The "
    "emulator uses another one: cute-py plan gemm shows it."
)
MOST_ELEMENTS = 2**56  # of an array: NumPy cannot count the bytes of many more
SHOWN = ("MMA", "LD", "ST", "ATOM", "RED", "BAR", "SHFL", "MUFU", "FFMA", "DFMA")  # in the report


def add_source(command: ArgumentParser) -> None:
    """Add the arguments of `source`."""
    for each in _kernels(command):
        each.set_defaults(run=_source)


def add_compile(command: ArgumentParser) -> None:
    """Add the arguments of `compile`."""
    for each in _kernels(command):
        each.set_defaults(run=_compile)
        if each.get_default("plan") is _sample:
            _add_arch(each)
        each.add_argument("--ptx", action="store_true", help="also print the PTX")
        each.add_argument(
            "--sass", action="store_true", help="also print the SASS, the machine code"
        )
        each.add_argument(
            "--spill-bytes",
            type=extent,
            help="bytes of a thread that may spill to local memory (default: as the kernel states)",
        )
        each.add_argument(
            "--out", metavar="DIR", help="write source, PTX, SASS and cubin to files there"
        )


# -- which kernel

LADDER = {  # the names of kernels.samples.SAMPLES, which needs NumPy
    "copy": "copy a matrix tile by tile",
    "transpose": "transpose a matrix through swizzled shared memory",
    "reduce": "add up each row",
    "softmax": "softmax of each row",
    "gemm_01": "a matrix product, one element per thread",
    "gemm_02": "with tiles in shared memory",
    "gemm_03": "with tiles in registers",
    "gemm_04": "with vectors and double buffers",
    "gemm_05": "with tensor cores",
    "gemm_06": "with ldmatrix and swizzles",
    "gemm_07": "with cp.async and a pipeline of stages",
    "gemm_08": "with an epilogue through shared memory",
    "gemm_09": "with TMA and wgmma (sm_90a)",
    "gemm_10": "with warps that load and warpgroups that multiply (sm_90a)",
    "gemm_11": "with persistent blocks and TMA stores (sm_90a)",
    "gemm_12": "with two warpgroups that take turns (sm_90a)",
    "splitk": "with K split over blocks that take turns",
    "stream_k": "with tiles of K shared evenly by all blocks",
    "grouped": "matrix products of sizes in an array",
    "array": "matrix products of arrays in a table of pointers",
    "gathered": "a matrix product of gathered rows, scattered",
    "implicit_gemm": "a convolution as a matrix product",
    "conv2d_s4": "a convolution of packed 4-bit integers",
    "w4a16": "a matrix product by weights of 4 bits",
    "flash_attention": "attention with scores in registers",
    "fused_attention": "attention with scores in shared memory",
    "histogram": "count numbers in shared memory",
    "layer_norm": "normalize each row",
}


def _kernels(command: ArgumentParser) -> Iterator[ArgumentParser]:
    """Add a sub-command for each kernel, and yield it."""
    kinds = command.add_subparsers(title="kernels", required=True, metavar="KERNEL")
    each = kinds.add_parser("gemm", help=OPERATOR, description=TILE)
    each.set_defaults(plan=_operator)
    _add_arch(each)
    each.add_argument(
        "--multiprocessors",
        type=count,
        metavar="N",
        help="multiprocessors of the GPU (default: those of the usual GPU of --arch)",
    )
    add_product(each, SIZE)
    add_numbers(each, "type of A and B (bf16)", None)
    each.add_argument(
        "--fast-accum",
        action="store_true",
        help="sum 8-bit floats in the tensor cores alone (sm_90a)",
    )
    yield each
    for name, what in LADDER.items():
        each = kinds.add_parser(name, help=what)
        each.set_defaults(plan=_sample, kernel=name)
        for size, meaning in (("m", "rows"), ("n", "columns"), ("k", "columns of A")):
            each.add_argument(f"--{size}", type=count, default=SIZE, help=f"{meaning} ({SIZE})")
        each.add_argument("--dtype", help="type of the operands")
        yield each


def _add_arch(command: ArgumentParser) -> None:
    command.add_argument("--arch", default="sm_80", help="sm_80, sm_90a, ... (%(default)s)")


def _operator(given: Namespace) -> Shown:
    """Return the kernel that cute.ops.gemm runs on a GPU of an architecture."""
    problem = given.m, given.n, given.k
    GEMM.require_choice("activation", given.activation)
    require_some(problem, given.command)
    gpu = gpu_of(given.arch, given.multiprocessors, given.command)
    call = call_on(
        gpu,
        problem,
        given.dtype or "bf16",
        given.majors,
        factors=(given.alpha, given.beta),
        has_bias=given.bias,
        activation=given.activation,
        out_dtype=given.out_dtype,
        config=given.config,
        fast_accum=given.fast_accum,
    )
    path = choose(call.inputs).taken.reason.removeprefix("path: ")
    told = {"config": str(call.config), "path": path, "chosen for": _gpu_text(given, gpu)}
    return call.plan(), told


def _gpu_text(given: Namespace, gpu: Gpu) -> str:
    """Return the product and the GPU that a tile is for, as text."""
    M, N, K = given.m, given.n, given.k
    chip = CHIPS.get(f"sm_{gpu.capability[0]}{gpu.capability[1]}")
    usual = chip is not None and chip.multiprocessors == gpu.multiprocessors
    name = f" ({chip.name})" if chip is not None and usual else ""
    has = f"{gpu.multiprocessors} multiprocessors{name}, {gpu.smem} bytes shared of a block"
    return f"{M}x{N}x{K} on {given.arch}: {has}"


def _sample(given: Namespace) -> Shown:
    if max(given.m, given.n) * max(given.n, given.k) > MOST_ELEMENTS:
        raise MemoryError
    return sample(given.kernel, given.m, given.n, given.k, given.dtype), {}


# -- the commands


def _source(given: Namespace) -> None:
    plan, how = given.plan(given)
    lines = [f"# {label}: {text}\n" for label, text in how.items()]
    sys.stdout.write("".join(lines) + source(plan))


def _compile(given: Namespace) -> None:
    start = perf_counter()
    plan, how = given.plan(given)
    traced = perf_counter()
    compiled = compile(plan, given.arch, given.spill_bytes)
    seconds = f"{traced - start:.2f} s to trace, {perf_counter() - traced:.2f} s to compile"
    rows = [*how.items(), *report(compiled), ("time", seconds)]
    lines = [f"{label:<13}{text}\n" for label, text in rows]
    lines += [f"{'wrote':<13}{path}\n" for path in _written(compiled, given.out)]
    stages = [given.ptx and compiled.ptx, given.sass and compiled.sass]
    sys.stdout.write("".join([*lines, *[f"\n{text.rstrip()}\n" for text in stages if text]]))


# -- the report


def report(compiled: Compiled) -> Iterator[tuple[str, str]]:
    """Yield (label, text): architecture, registers, memory, occupancy, instructions."""
    found, plan = compiled.resources, compiled.plan
    yield "kernel", f"{plan.name} for {compiled.arch}, {plan.launch.threads} threads a block"
    yield "registers", f"{found.registers} of a thread, {found.spill_bytes} bytes spilled"
    yield "local", f"{found.stack_bytes} bytes of a thread"
    yield "shared", f"{found.smem_bytes} bytes of a block"
    yield "occupancy", _told(lambda: _occupancy(compiled))
    yield "instructions", _told(lambda: _instructions(compiled))
    yield "source", f"{len(compiled.source.splitlines())} lines"


def _told(question: Callable[[], str]) -> str:
    try:
        return question()
    except CuteError as error:
        return f"not known: {error}"


def _occupancy(compiled: Compiled) -> str:
    found, threads = compiled.resources, compiled.plan.launch.threads
    return str(occupancy(compiled.arch, threads, max(found.registers, 1), found.smem_bytes))


def _instructions(compiled: Compiled) -> str:
    """Return the counts of what moves and multiplies; the rest in one number."""
    counts = compiled.resources.instructions
    shown = [name for name in counts if name.startswith(SHOWN) or name.endswith(SHOWN[0])]
    shown.sort(key=lambda name: (-counts[name], name))
    rest = sum(counts.values()) - sum(counts[name] for name in shown)
    words = [*[f"{counts[name]} {name}" for name in shown], f"{rest} others"]
    return f"{sum(counts.values())}: {', '.join(words)}"


def _written(compiled: Compiled, folder: str | None) -> Iterator[str]:
    """Write the stages to files in a folder, and yield their paths."""
    if folder is None:
        return
    stages = {
        "py": compiled.source.encode(),
        "ptx": compiled.ptx.encode(),
        "cubin": compiled.cubin,
        "sass": _told(lambda: compiled.sass).encode(),
    }
    for suffix, data in stages.items():
        path = Path(folder, f"{compiled.plan.name}.{suffix}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror
            raise refusal("cli-output", operation="--out", path=path, reason=reason) from None
        with Output(str(path), "--out") as file:
            file.write(data)
        yield str(path)
