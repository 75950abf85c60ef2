"""Single edits of the shipped kernels, each of which removes or weakens one thing that keeps a
kernel right: a wait, a fence, a barrier, a guard, or the choice of a stage.

`chosen` gives the same edits in every run. An edit's name has the function, what is edited, and
which of the same it is; the choice goes by the names alone, so a change of one kernel keeps those
of the others. `run` emulates a small problem with a kernel so edited, and says what came of it.
"""

import ast
import hashlib
import linecache
import signal
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import numpy as np

import cute_py as cute
from cute_py.errors import CuteError
from cute_py.kernels.config import choose
from cute_py.kernels.epilogue import LinearCombination
from cute_py.ops.gemm_families import changed
from tests.hopper_family import PING, arguments, call_of, row

PACKAGE = "cute_py.kernels"
FOLDER = Path(cute.__file__).parent / "kernels"
COUNT = 200
SECONDS = 60  # after which an edited kernel hangs

# what orders accesses: methods and functions by name
ORDERS = (
    *("syncthreads", "syncwarp", "cluster_sync", "named_barrier", "wait", "wait_until", "init"),
    *("cp_async_wait", "cp_async_fence", "warpgroup_wait", "warpgroup_fence", "warpgroup_commit"),
    *("fence_proxy_async", "fence_mbarrier_init", "tma_store_wait", "tma_store_commit"),
    *("arrive", "arrive_expect_tx", "store_release", "acquire", "release", "release_rest"),
    *("commit", "skip", "tail", "set", "griddepcontrol_wait"),
)
COUNTED = ("cp_async_wait", "warpgroup_wait", "tma_store_wait", "init", "pipeline")
WEAKER = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "<= 1 +"}
APART = ("check", "choose", "fewest", "_prefetch")  # no part of a kernel, or none of its result


@dataclass(frozen=True)
class Mutant:
    """An edit: the module, a name, and the text that takes the place of a part of the source."""

    module: str
    name: str
    start: int
    end: int
    text: str

    @property
    def source(self):
        """The edited source of the module."""
        text = source_of(self.module)
        return text[: self.start] + self.text + text[self.end :]


@cache
def source_of(module):
    return (FOLDER / f"{module}.py").read_text(encoding="utf-8")


class _Edits(ast.NodeVisitor):
    """The edits of a module: (node, what is done to it, the text in its place)."""

    def __init__(self, text):
        self.text, self.found, self.path = text, [], []
        self.visit(ast.parse(text))

    def segment(self, node):
        return ast.get_source_segment(self.text, node)

    def edit(self, node, how, text):
        self.found.append((".".join(self.path), node, how, text))

    def visit_FunctionDef(self, node):
        if node.name in APART:
            return
        self.path.append(node.name)
        for each in node.body:
            self.visit(each)
        self.path.pop()

    def visit_ClassDef(self, node):
        self.path.append(node.name)
        self.generic_visit(node)
        self.path.pop()

    def visit_Expr(self, node):
        if self.path and called(node.value) in ORDERS:
            self.edit(node, "without", "pass")
        self.generic_visit(node)

    def visit_Call(self, node):
        name = called(node)
        if name in COUNTED and node.args and self.path:
            self.edit(node.args[0], f"one more {name}", f"({self.segment(node.args[0])}) + 1")
        if name == "when":
            self.weaken(node.args[0])
        for keyword in node.keywords:
            if keyword.arg == "pred":
                self.weaken(keyword.value)
                self.edit(keyword.value, "always", "True")
            if keyword.arg == "behind":
                self.edit(keyword.value, "not behind", "0")
        if name in ("wait", "arrive", "set", "var") and self.path:
            for each in node.args:
                self.shift(each)
        self.generic_visit(node)

    def visit_With(self, node):
        for item in node.items:
            if called(item.context_expr) == "elect":
                self.edit(item.context_expr, "by all", "cute.when(cute.lane_idx() >= 0)")
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.ctx, ast.Load) and self.path:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for each in parts:
                self.shift(each)
        self.generic_visit(node)

    def visit_Assign(self, node):
        if self.path and getattr(node.targets[0], "id", "") in ("stage", "parity", "first", "slot"):
            self.shift(node.value)
        self.generic_visit(node)

    def weaken(self, node):
        """Let a guard hold more often, or for others."""
        for part in ast.walk(node):
            if isinstance(part, ast.Compare) and type(part.ops[0]) in WEAKER:
                left, right = self.segment(part.left), self.segment(part.comparators[0])
                self.edit(part, "weaker", f"({left} {WEAKER[type(part.ops[0])]} {right})")
            elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd):
                self.edit(part, "half of", f"({self.segment(part.left)})")
                self.edit(part, "other half of", f"({self.segment(part.right)})")

    def shift(self, node):
        """Take another index: without a number that is added, of another stage."""
        for part in ast.walk(node):
            if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub)):
                if isinstance(part.right, ast.Constant):
                    self.edit(part, "not shifted", f"({self.segment(part.left)})")
                elif isinstance(part.left, ast.Constant):
                    self.edit(part, "not turned", f"({self.segment(part.right)})")
            elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
                self.edit(
                    part, "next", f"(({self.segment(part)}) + 1) % ({self.segment(part.right)})"
                )


def called(node):
    """Return the name of the function or method that a call is of, "" for what is none."""
    of = node.func if isinstance(node, ast.Call) else None
    return of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")


def mutants_of(module):
    """Return all edits of a module."""
    text, seen, made, taken = source_of(module), Counter(), [], set()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for path, node, how, put in _Edits(text).found:
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[node.end_lineno - 1] + node.end_col_offset
        if (start, end, put) in taken:
            continue
        taken.add((start, end, put))
        what = f"{module}.{path}: {how} {' '.join(text[start:end].split())}"
        seen[what] += 1
        name = what + (f" ({seen[what]})" if seen[what] > 1 else "")
        made.append(Mutant(module, name, start, end, put))
    return made


def chosen():
    """Return the mutants of all kernels that are run, in the order of the files."""
    found = [mutant for module in MODULES for mutant in mutants_of(module)]
    order = sorted(found, key=lambda x: hashlib.sha256(x.name.encode()).digest())
    few = set(order[:COUNT])
    return [mutant for mutant in found if mutant in few]


# -- problems


def with_check(module):
    """Run the module's own small problem."""
    module.check()


def require_gemm(module):
    """Multiply through `gemm`: with rows stored by way of shared memory, and over K in parts."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 72)).astype(np.float16) for n in (72, 40))
    for parts in ("store=1,pdl=1,prefetch=1", "tile=32x32x32,warps=1x1x2"):
        d = np.full((72, 40), np.nan, np.float16)
        config = changed(choose(a, b, (64, 64), outputs=[d]), parts)
        module.gemm(a, b, None, None, d, 1.0, 0.0, config, LinearCombination())
        assert (d == (a.astype(np.float32) @ b.astype(np.float32).T)).all()


def require_ping_pong(module):
    """Multiply with one block, each of whose warpgroups has two tiles."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (n, 136)).astype(np.float16) for n in (136, 200))
    d = np.full((136, 200), np.nan, np.float16)
    module.gemm_ping_pong(a, b, d, 1)
    assert (d == (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)).all()


SPLIT = row("bf16", 64, 64, 1, split=3, one_pass=False)  # K over the blocks of a cluster


def require_hopper(kernels, *configs):
    """Multiply through a family for Hopper: four tiles, of a block or a cluster."""
    for config in configs:
        (m, n, k), result = config.tile, "f32" if config.two_level else "bf16"
        last = (
            LinearCombination(alpha=True, source=True, bias=True)
            if config.prefetch
            else LinearCombination()
        )
        arrays, exact = arguments(config, (m + 8, n + 8, 2 * k + 16), result, last)
        C, bias, D = arrays[2:]
        blocks = config.cluster * config.split
        call = call_of(config, arrays, last, factors=(1.0, 1.0), blocks=blocks)
        cute.emulate(kernels[config.schedule], *call, checks=True)
        if last.source:
            exact = exact + C.astype(float) + bias.astype(float)
        assert (D.astype(float) == exact.astype(D.dtype).astype(float)).all()


def require_sm90(module):
    """Multiply in both ways: C by TMA, clusters, sums of two levels, D without TMA, K split."""
    require_hopper(
        module.KERNELS,
        row("bf16", 64, 32, 1, pdl=1, prefetch=1),
        row("bf16", 128, 32, 2, cluster=2),
        row("e4m3", 64, 32, 1, two_level=1, result="f32"),
        row("bf16", 128, 64, 1, PING),
        row("bf16", 64, 64, 1, store=0),
        SPLIT,
    )


def require_split(module):
    """Multiply through the family for Hopper, with K split."""
    with loaded("gemm_sm90", source_of("gemm_sm90"), {f"{PACKAGE}.split_k": module}) as family:
        require_hopper(family.KERNELS, SPLIT)


def require_reduce(module):
    """Add up rows, by a warp each, and columns; the last block has a part of them."""
    module.check()
    a = np.random.default_rng(0).integers(-9, 10, (33, 64)).astype(np.float32)
    rows, columns = np.full(33, np.nan, np.float32), np.full(64, np.nan, np.float32)
    module.row_reduce(a, rows, *module.row_copy(a, rows=4))
    module.reduce_columns(a[:, :40].T, columns[:40], "add", "f32", 1)
    assert (rows == a.sum(1)).all()
    assert (columns[:40] == a[:, :40].sum(0)).all()


def require_softmax(module):
    """Take the softmax of rows, and of columns of which the last block has a part."""
    module.check()
    a = np.random.default_rng(0).standard_normal((9, 40)).astype(np.float32).T
    out = np.full((9, 40), np.nan, np.float32).T
    module.softmax_columns(a, out)
    wanted = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


PROBLEMS = {
    "gemm": require_gemm,
    "reduce": require_reduce,
    "softmax": require_softmax,
    "gemm_12_ping_pong": require_ping_pong,
    "gemm_sm90": require_sm90,
    "split_k": require_split,
}
MODULES = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if path.stem in PROBLEMS or "\ndef check(" in path.read_text(encoding="utf-8")
)


# -- verdicts


@contextmanager
def loaded(module, text, instead=None):
    """Give a module of another text than that of its file; `instead`: others that it imports."""
    path = f"<{module} {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    spec = spec_from_loader(f"{PACKAGE}.{module}", loader=None)
    made, kept = module_from_spec(spec), dict(sys.modules)
    try:
        sys.modules.update({spec.name: made} | (instead or {}))
        exec(compile(text, path, "exec"), made.__dict__)
        yield made
    finally:
        for name in {spec.name, *(instead or {})}:
            sys.modules.pop(name)
            if name in kept:
                sys.modules[name] = kept[name]
        linecache.cache.pop(path, None)


def problem(module, text):
    """Emulate the small problem of a kernel with this source."""
    import_module(f"{PACKAGE}.{module}")
    with loaded(module, text) as made:
        PROBLEMS.get(module, with_check)(made)


def run(mutant):
    """Return what came of an edit: "refused", "wrong", "hangs", or "silent"."""
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(SECONDS)
    try:
        problem(mutant.module, mutant.source)
    except CuteError:
        return "refused"
    except AssertionError:
        return "wrong"
    except TimeoutError:
        return "hangs"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return "silent"


def _hangs(_signal, _frame):
    raise TimeoutError
