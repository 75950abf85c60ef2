"""Random kernels of arithmetic: registers of one type, integers of the plan, branches and loops."""

import numpy as np

import cute_py as cute
from cute_py.trace.arithmetic import apply

THREADS, ROWS = 32, 4
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
UNARY = {"int": ("neg", "abs", "not"), "float": ("neg", "abs", "sqrt", "floor", "ceil")}
BINARY = {
    "int": (
        *("add", "sub", "mul", "floordiv", "mod", "min", "max"),
        *("and", "or", "xor", "shl", "shr"),
    ),
    "float": ("add", "sub", "mul", "div", "min", "max"),
}
TYPES = (*INTEGERS, "s4", "u4", "f32", "f64")
REDUCED = ("add", "mul", "min", "max")
TESTS = ("lt", "le", "gt", "ge", "eq", "ne")


@cute.kernel
def registers(y, x, kind, steps: tuple):
    """y[k] = the value of step k; a step is a function and the numbers of its operands."""
    cute.launch(grid=1, block=THREADS)
    t = cute.thread_idx()
    values = [x[j, t] for j in range(ROWS)]
    for k, (fn, operands, number) in enumerate(steps):
        given = [values[i % len(values)] for i in operands]
        given = given if number is None else [*given[:-1], number]
        if fn in TESTS:
            a, b, c, d = (values[i % len(values)] for i in operands)
            result = cute.where(apply(fn, a, b), c, d)
        elif fn == "branch":
            result = cute.rmem(kind, 1)
            result[0] = given[0]
            with cute.when(given[1] > given[2]):
                result += given[3]
        elif fn in TYPES:
            result = given[0].to(fn).to(kind)
        elif fn.startswith("reduce"):
            row = cute.rmem(kind, 4)
            for i in range(4):
                row[i] = given[i]
            result = cute.reduce(fn.partition(" ")[2], row)
        else:
            result = apply(fn, *given)
        values.append(result)
        y[k, t] = result


def interesting(kind, rng):
    """A number of a type: an end, a small one, or any."""
    dtype = cute.dtype(kind)
    if dtype.is_float:
        few = [0.0, -0.0, 1.0, -1.0, 0.5, float("inf"), float("-inf"), float("nan"), 3.0]
        return few[rng.integers(len(few))] if rng.random() < 0.5 else float(rng.normal() * 100)
    low, high = int(dtype.min), int(dtype.max)
    few = [low, low + 1, high, high - 1, 0, 1, 2, 7, dtype.bits - 1, dtype.bits, max(low, -1)]
    if rng.random() < 0.6:
        return few[rng.integers(len(few))]
    return int(rng.integers(low, high, endpoint=True, dtype=dtype.numpy))


def register_case(kind, seed, count=12):
    """Return steps for `registers`, and its input."""
    rng = np.random.default_rng(seed)
    dtype = cute.dtype(kind)
    domain = "float" if dtype.is_float else "int"
    steps = []
    for _ in range(count):
        operands = tuple(int(i) for i in rng.integers(0, ROWS + count, 4))
        chance = rng.random()
        if chance < 0.15:
            steps.append((TESTS[rng.integers(6)], operands, None))
        elif chance < 0.25:
            steps.append(("branch", operands, None))
        elif chance < 0.35 and domain == "int":
            steps.append((TYPES[rng.integers(len(TYPES))], operands, None))
        elif chance < 0.4:
            steps.append((f"reduce {REDUCED[rng.integers(len(REDUCED))]}", operands, None))
        elif chance < 0.55:
            steps.append((UNARY[domain][rng.integers(len(UNARY[domain]))], operands[:1], None))
        else:
            number = interesting(kind, rng) if rng.random() < 0.3 else None
            fn = BINARY[domain][rng.integers(len(BINARY[domain]))]
            steps.append((fn, operands[:2], number))
    x = [[interesting(kind, rng) for _ in range(THREADS)] for _ in range(ROWS)]
    return tuple(steps), np.array(x, dtype.numpy)


# -- integers of the plan


@cute.kernel
def integers(y, n: cute.s32, s: cute.s64, steps: tuple):
    """y[t, k] = the value of step k, an integer of the plan."""
    cute.launch(grid=1, block=THREADS)
    t = cute.thread_idx()
    held = cute.var(s)
    values = [t, n, s, t - 9, n + t]
    for k, (fn, i, j, number) in enumerate(steps):
        a, b = values[i % len(values)], values[j % len(values)]
        result = STEPS[fn](a, b, number, held)
        values.append(result)
        y[t, k] = result.to("s64") if hasattr(result, "to") else result


def _counted(a, b, number, held):
    for k in cute.range(number % 5 + 1):
        held.set(held.get() * 3 + k * b)
    return held.get() + a


def _branched(a, b, number, held):
    with cute.when((a < b) | (a == number)):
        held.set(a - b)
    return held.get()


STEPS = {
    "add": lambda a, b, number, held: a + b,
    "sub": lambda a, b, number, held: a - b * number,
    "mul": lambda a, b, number, held: a * b,
    "div": lambda a, b, number, held: a // number,
    "mod": lambda a, b, number, held: a % number,
    "min": lambda a, b, number, held: cute.min_(a, b),
    "and": lambda a, b, number, held: a & b,
    "mask": lambda a, b, number, held: a & (number - 1),
    "or": lambda a, b, number, held: a | b,
    "xor": lambda a, b, number, held: a ^ b,
    "shl": lambda a, b, number, held: a << b,
    "shr": lambda a, b, number, held: a >> b,
    "left": lambda a, b, number, held: a << number % 70,
    "right": lambda a, b, number, held: a >> number % 70,
    "count": _counted,
    "branch": _branched,
}


def integer_case(seed, count=8):
    """Return steps for `integers`, and its numbers."""
    rng = np.random.default_rng(seed)
    names = tuple(STEPS)
    steps = tuple(
        (names[rng.integers(len(names))], int(rng.integers(99)), int(rng.integers(99)),
         int(rng.choice([1, 2, 3, 7, 8, 32, 62, 63, 64, 1000, 2**31, 2**40 + 1])))
        for _ in range(count)
    )  # fmt: skip
    return steps, interesting("s32", rng), interesting("s64", rng)
