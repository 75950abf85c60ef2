"""The laws of lesson 9: a product of matrices on tensor cores, in eight steps."""

import numpy as np

import cute_py as cute

from .laws import Wrong, a_tile, computes, exercise, required
from .tiles import ATOM, tiled_mma

ROWS = cute.Layout((64, 32), (32, 1))


def factors(m, n, k, low=-4):
    """Return A (m,k) and B (n,k) of small integers in f16: every order of the sums is exact."""
    rng = np.random.default_rng(m + n + k)
    return (rng.integers(low, 5, (rows, k)).astype(np.float16) for rows in (m, n))


def ops_of(kernel, *arguments):
    """Return the operations of a kernel's plan, and their names."""
    ops = cute.trace(required(kernel, cute.Kernel, "a function below @cute.kernel"), *arguments).ops
    return ops, {type(op).__name__ for op in ops}


def multiplies(kernel, *options, sizes=((64, 64, 32),)):
    """Compare C = A B^T with NumPy's for each of the sizes; return the last arguments."""
    for m, n, k in sizes:
        a, b = factors(m, n, k)
        c = np.zeros((m, n), np.float32)
        expected = product(a, b)
        first = product(a[:, :32], b[:, :32])
        known = {
            "All sums are 0: are the products added to acc?": np.zeros_like(c),
            "All sums are 1 too large: what does acc start with?": expected + 1,
            "Only the first tile of K is multiplied.": first,
            "The first tile of K is multiplied each time: which stage is each tile in?": first
            * k
            / 32,
        }
        if m == n:
            known["This is B A^T: A and B are exchanged."] = expected.T
            known["This is A A^T: where does the second operand come from?"] = product(a, a)
            known["This is B B^T: where does the first operand come from?"] = product(b, b)
        try:
            computes(kernel, (a, b, c, *options), c, expected, known)
        except Wrong as wrong:
            raise Wrong(f"with {m} x {n} x {k} {wrong}{blame(kernel, a, b, c, options)}") from None
    return a, b, c, *options


def product(a, b):
    """Return A B^T in f32."""
    return a.astype(np.float32) @ b.astype(np.float32).T


def blame(kernel, a, b, c, options):
    """Return whose fragments are wrong: the other factor is all ones, in whatever order."""
    for name, factors in (("B", (np.ones_like(a), b)), ("A", (a, np.ones_like(b)))):
        c[...] = 0
        cute.emulate(kernel, *factors, c, *options)
        if (c != product(*factors)).any():
            return (
                f"\nC is also wrong if the other factor is all 1: a thread has other elements of "
                f"{name} than it needs. Is the copy of {name} made for {name}, and for thread t?"
            )
    return ""


@exercise("9.1")
def _(kernel):
    """C[m, n] is the thread that holds this element, in each 64 x 64 tile of C."""
    required(kernel, cute.Kernel, "a function below @cute.kernel")
    tile = np.zeros((64, 64), np.int32)
    for thread in range(128):
        part, offset = tiled_mma().get_slice(thread).partition_C(cute.Layout((64, 64), (64, 1)))
        tile.reshape(-1)[[offset + part(i) for i in range(cute.size(part))]] = thread
    c = np.zeros((128, 192), np.int32)
    try:
        computes(kernel, (c,), c, np.tile(tile, (2, 3)))
    except Wrong as wrong:
        count = f"{(c >= 0).sum()} of {c.size} elements of C {c.shape} are written"
        raise Wrong(f"{wrong}; {count}. Block (bx, by) has tile (bx, by) of 64 x 64") from None


@exercise("9.2")
def _(kernel):
    """C == A B^T for one tile: 64 x 64 sums over 32 products, from fragments in registers."""
    arguments = multiplies(kernel)
    if "Mma" not in ops_of(kernel, *arguments)[1]:
        raise Wrong(f"C is right, but no tensor core multiplies: 0 of {ATOM.name} in the plan")


@exercise("9.3")
def _(kernel):
    """C == A B^T through shared memory, by cp.async, and all threads wait for all copies."""
    arguments = multiplies(kernel, ROWS)
    if "CpAsync" not in ops_of(kernel, *arguments)[1]:
        raise Wrong("C is right, but the plan has 0 cp.async: pass LOAD to cute.copy")


@exercise("9.4")
def _(kernel):
    """C == A B^T, and the fragments of A and B are loaded by ldmatrix."""
    arguments = multiplies(kernel, ROWS)
    count = sum(type(op).__name__ == "LdMatrix" for op in ops_of(kernel, *arguments)[0])
    if count < 2:
        raise Wrong(f"C is right, but {count} of 2 operands are loaded by ldmatrix")


@exercise("9.5")
def _(kernel, layout):
    """C == A B^T, the emulator counts no bank conflict, and a tile takes 2048 elements."""
    if cute.cosize(a_tile(layout, (64, 32))) > 2048:
        raise Wrong(f"{layout} takes {cute.cosize(layout)} elements, more than 2048", layout)
    arguments = multiplies(kernel, layout)
    report = cute.emulate(kernel, *arguments, report=True)
    if report.total.conflicts:
        raise Wrong(f"C is right, with {report.total.conflicts} bank conflicts\n{report}", layout)


@exercise("9.6")
def _(kernel):
    """C == A B^T for any number of tiles, and while one is multiplied, others are on their way."""
    sizes = (64, 64, 32), (64, 64, 64), (128, 64, 160)
    arguments = multiplies(kernel, sizes=sizes)
    ops, names = ops_of(kernel, *arguments)
    waits = [op.n for op in ops if type(op).__name__ == "CpWait"]
    if "Loop" not in names:
        raise Wrong("the plan has 0 loops: use cute.range for the number of tiles")
    if not any(waits):
        raise Wrong(
            "C is right, but cp_async_wait(0) waits for all tiles, even those that are needed "
            "only later: STAGES - 2 groups may still be on their way"
        )


@exercise("9.7")
def _(kernel):
    """C == A B^T for all M and N, and K a multiple of 8; and no tile past the end is copied."""
    multiplies(kernel, sizes=((64, 64, 40), (100, 70, 72)))
    a, b = factors(64, 64, 32)
    report = cute.emulate(kernel, a, b, np.zeros((64, 64), np.float32), report=True)
    if (found := report.total.wavefronts) > 192:
        witness = f"C is right, but a product with one tile takes {found} wavefronts instead of 192"
        raise Wrong(f"{witness}: tiles past the end are filled with zeros, and never used")


@exercise("9.8")
def _(kernel):
    """C[m, n] == max(0, sum + bias[n]) in f16, for all M and N."""
    for m, n, k in (64, 64, 32), (100, 70, 72):
        a, b = factors(m, n, k)
        bias, c = np.arange(n, dtype=np.float32) - n // 2, np.zeros((m, n), np.float16)
        sums = product(a, b)
        known = {
            "The bias is missing.": np.maximum(sums, 0),
            "The maximum with 0 is missing.": sums + bias,
            "The bias is added after the maximum with 0.": np.maximum(sums, 0) + bias,
        }
        known["All tiles get the bias of the first one: does it have the shape of C?"] = np.maximum(
            sums + bias[np.arange(n) % 64], 0
        )
        if m == n:
            known["The bias is added along a column, as bias[m]."] = np.maximum(sums.T + bias, 0).T
        computes(kernel, (a, b, bias, c), c, np.maximum(sums + bias, 0), known)
