"""The Numba part of the compiler: from a printed kernel to PTX.

Only `patch_numba` patches Numba: numba-cuda 0.30 uses a NumPy function that no longer exists, and
drops the log of NVVM's errors.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cute_py.codegen.arch import capability
from cute_py.codegen.cache.files import source_file
from cute_py.codegen.driver import MAP_BYTES
from cute_py.codegen.executed import problem_of
from cute_py.codegen.printer import Source, parameters
from cute_py.codegen.toolchain import clipped
from cute_py.errors import CuteError, refusal
from cute_py.plan.params import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cute_py.codegen.passes.strength import Chains
    from cute_py.plan.plan import Plan


def printed(plan: Plan, chains: Chains, arch: str) -> Source:
    """Return the kernel of a plan as text, and the intrinsics that it calls on a target.

    Raises LayoutError if Numba is missing, and for an op that has no PTX yet.
    """
    try:
        import numba  # noqa: F401
    except ImportError:
        raise refusal("codegen-missing", operation="cute.compile", name="numba-cuda") from None
    patch_numba()
    return Source(plan, chains, arch)


def ptx_of(
    plan: Plan, text: str, calls: Mapping[str, object], arch: str, is_edited: bool = False
) -> tuple[str, str]:
    """Return the PTX of a kernel's text, and the name of the kernel there.

    Raises LayoutError with the log if Numba or NVVM refuses the text. A call with wrong arguments
    is reported this way only if the text was edited.
    """
    from numba.cuda.core.errors import NumbaError
    from numba.cuda.cudadrv.nvvm import nvvmError

    function = _function(plan, text, calls)
    try:
        ptx = _compiled(plan, function, arch, is_edited)
    except nvvmError as error:
        log = "; ".join([str(error), *getattr(error, "__notes__", ())])
        raise refusal("codegen-nvvm", operation=plan.name, arch=arch, log=clipped(log)) from None
    except (NumbaError, TypeError) as error:
        if isinstance(error, TypeError) and not is_edited:
            raise
        raise refusal("codegen-source", operation=plan.name, log=clipped(str(error))) from None
    ptx, entry = _renamed(_unrolled_once(ptx), plan.name)
    return _in_clusters(plan, _by_value(plan, ptx, entry, arch), arch), entry


def _by_value(plan: Plan, ptx: str, entry: str, arch: str) -> str:
    """Return PTX that takes its tables and tensor maps by value: Numba has no such parameters. The
    address of the parameter replaces the load of one; that of a map is generic, for TMA.
    """
    rows = iter(plan.launch.tables)
    for i, (_name, kind) in enumerate(parameters(plan)):
        if kind in ("table", "map"):
            name = f"{entry}_param_{i}"
            bytes, align = (MAP_BYTES, MAP_BYTES) if kind == "map" else (bytes_of([next(rows)]), 8)
            size = f".param .align {align} .b8 {name}[{bytes}]"
            ptx, declared = re.subn(rf"\.param \.u64 {name}\b", size, ptx)
            generic = r"\n\tcvta.param.u64 \1, \1;" if kind == "map" else ""
            address = rf"mov.b64 \1, {name};{generic}"
            ptx = re.sub(rf"ld\.param\.u64\s+(%rd\d+), \[{name}\];", address, ptx)
            if declared != 1 or re.search(rf"\[{name}\b", ptx):
                raise _unexpected(plan, arch, name)
    return ptx


def _in_clusters(plan: Plan, ptx: str, arch: str) -> str:
    """Return PTX of a kernel that is launched in clusters, if the plan's is."""
    if plan.launch.cluster == (1, 1, 1):
        return ptx
    shape = ", ".join(map(str, plan.launch.cluster))
    head = f".explicitcluster\n.reqnctapercluster {shape}\n{{"
    ptx, found = re.subn(r"^{", head, ptx, count=1, flags=re.MULTILINE)
    if found != 1:
        raise _unexpected(plan, arch, "{")
    return ptx


def _unexpected(plan: Plan, arch: str, part: str) -> CuteError:
    log = f"PTX with another form of {part} than NVVM of CUDA 13.0 writes"
    return refusal("codegen-nvvm", operation=plan.name, arch=arch, log=log)


def _unrolled_once(ptx: str) -> str:
    """Return PTX whose loops ptxas does not unroll: NVVM has done it, and counters of 32 bits would
    let ptxas multiply the factors.
    """
    return re.sub(r"^{", '.pragma "nounroll";\n{', ptx, count=1, flags=re.MULTILINE)


def _renamed(ptx: str, name: str) -> tuple[str, str]:
    """Return PTX with a readable kernel name for profilers, and that name.

    Numba's name contains the types of all parameters. The prefix keeps it apart from instructions,
    whose names are reserved in PTX. If the name is not valid in PTX, Numba's name stays.
    """
    found = re.search(r"\.entry\s+(\w+)", ptx)
    assert found is not None
    entry, wanted = found.group(1), f"cute_{name}"
    if not re.fullmatch(r"\w+", wanted, re.ASCII) or re.search(rf"\b{wanted}", ptx):
        return ptx, entry
    return re.sub(rf"\b{entry}", wanted, ptx), wanted


def _function(plan: Plan, text: str, calls: Mapping[str, object]) -> Any:
    """Return the kernel as a function, compiled from a file that profilers and tracebacks show."""
    scope, path = dict(calls), _file(plan.name, text)
    try:
        tree = ast.parse(text, path)
        code, log = compile(tree, path, "exec"), problem_of(tree, calls)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        log = f"{type(error).__name__}: {error}"
    if log:
        raise refusal("codegen-source", operation=plan.name, log=clipped(log))
    exec(code, scope)  # which defines the function, and runs nothing else
    function = scope.get(plan.name)
    wanted = [name for name, _kind in parameters(plan)]
    if not inspect.isfunction(function) or list(inspect.signature(function).parameters) != wanted:
        log = f"no function {plan.name}({', '.join(wanted)})"
        raise refusal("codegen-source", operation=plan.name, log=log)
    return function


def _file(name: str, text: str) -> str:
    """Return the path of the file with the text. `linecache` has the text too, in case the file
    cannot be written, or another thread clears the cache during a compilation.
    """
    path = str(source_file(name, text))
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    return path


def _compiled(plan: Plan, function: Any, arch: str, is_edited: bool) -> str:
    from numba import cuda
    from numba.cuda import types

    kinds = {
        "address": types.uint64,
        "map": types.uint64,
        "table": types.uint64,
        "integer": types.int64,
        "f32": types.float32,
        "f64": types.float64,
    }
    with _passes(every=is_edited):
        ptx, _kind = cuda.compile(
            function,
            types.void(*[kinds[kind] for _name, kind in parameters(plan)]),
            cc=capability(arch),
            device=False,
            abi="numba",
            output="ptx",
            launch_bounds=(plan.launch.threads, plan.launch.min_blocks),
            lineinfo=True,
        )
    return str(ptx)


# passes of Numba that find nothing in a printed kernel: it has no closures, arrays or dynamic
# exceptions, and no variable changes its type (NVVM makes SSA faster)
_NEEDLESS = (
    "InlineClosureLikes", "GenericRewrites", "RewriteDynamicRaises", "MakeFunctionToJitFunction",
    "InlineInlinables", "DeadBranchPrune", "FindLiterallyCalls", "LiteralUnroll",
    "LiteralPropagationSubPipelinePass", "ReconstructSSA", "InlineOverloads", "NopythonRewrites",
    "IRLegalization",
)  # fmt: skip


@contextmanager
def _passes(every: bool) -> Iterator[None]:
    """Run every pass of Numba, or those that a printed kernel needs: a tenth of a compilation less.
    Its lock is held, so that the kernels of others get all passes.
    """
    from numba.cuda import compiler
    from numba.cuda.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        whole = compiler.CUDACompiler
        compiler.CUDACompiler = whole if every else _shortened(whole)
        try:
            yield
        finally:
            compiler.CUDACompiler = whole


def _shortened(whole: Any) -> Any:
    """Return a compiler class of Numba without the needless passes."""

    class Short(whole):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            (manager,) = super().define_pipelines()
            manager.passes = [x for x in manager.passes if x[0].__name__ not in _NEEDLESS]
            manager.finalize()
            return [manager]

    return Short


# -- what numba-cuda lacks


def patch_numba() -> None:
    """Restore the NumPy function that numba-cuda uses (numpy.row_stack, removed in 2.5), and add
    the log to NVVM's errors.
    """
    import numpy as np

    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010  (NumPy's types do not know it either)
    from numba.cuda.cudadrv.nvvm import CompilationUnit

    for name in ("verify", "compile"):
        method = getattr(CompilationUnit, name)
        if not hasattr(method, "without_log"):
            setattr(CompilationUnit, name, _with_log(method))


def _with_log(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a method of a CompilationUnit whose NVVM errors have the log as a note."""
    from numba.cuda.cudadrv.nvvm import nvvmError

    def called(unit: Any) -> Any:
        try:
            return method(unit)
        except nvvmError as error:
            error.add_note(unit.get_log().strip())
            raise

    called.without_log = method  # type: ignore[attr-defined]
    return called
