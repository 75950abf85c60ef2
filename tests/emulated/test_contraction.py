"""`cute.launch(..., fma=True)`: products and sums become fma, where the rule says so."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.plan import ops
from tests.sampling import fewer

NAMES = range(4)  # registers of a program; each result is stored to one of them, or is new


def near(x):
    """A fraction rounded to f32."""
    if x == 0:
        return Fraction(0)
    found = float(np.asarray(cute.convert(float(x), "f32")))
    ends = [np.nextafter(np.float32(found), np.float32(sign)) for sign in (-np.inf, np.inf)]

    def distance(y):
        return abs(Fraction(float(y)) - x), y.view(np.uint32) & 1

    return Fraction(float(min([np.float32(found), *ends], key=distance)))


class Value:
    """A value of the reference: its number, and the product that it is, if it is one."""

    def __init__(self, number, product=None):
        self.number, self.product, self.readers = number, product, 0


@st.composite
def programs(draw):
    """Statements (target or None, fn, a, b): operands are registers 0-3 or earlier new values."""
    found, made = [], 0
    for _ in range(draw(st.integers(1, 9))):
        operands = [*NAMES, *(f"t{i}" for i in range(made))]
        a, b = (draw(st.sampled_from(operands)) for _ in range(2))
        target = draw(st.sampled_from([*NAMES, None, None]))
        found.append((target, draw(st.sampled_from(["mul", "mul", "add", "sub"])), a, b))
        made += target is None
    return found


APPLY = {"mul": lambda a, b: a * b, "add": lambda a, b: a + b, "sub": lambda a, b: a - b}


@cute.kernel
def run(out, x, program):
    cute.launch(grid=1, block=32, fma=True)
    t = cute.thread_idx()
    held = {}
    for i in NAMES:
        held[i] = cute.rmem("f32", 1)
        held[i][0] = x[i, t]
    made = 0
    for target, fn, a, b in program:
        result = APPLY[fn](held[a], held[b])
        if target is None:
            held[f"t{made}"] = result
            made += 1
        else:
            held[target][0] = result
    for i in NAMES:
        out[i, t] = held[i]


def reference(program, x):
    """What the rule says, by values: a new value that is a product, which one sum alone reads,
    whose operands still hold what they held.
    """
    readers = {}
    for i, (_target, _fn, a, b) in enumerate(program):
        for name in {a, b}:
            readers.setdefault(name, []).append(i)
    held, made, products = dict(zip(NAMES, x, strict=True)), 0, {}
    version = dict.fromkeys(NAMES, 0)
    for i, (target, fn, a, b) in enumerate(program):
        p, q = held[a], held[b]
        usable = [
            name in products
            and readers[name] == [i]
            and a != b
            and fn != "mul"
            and all(version.get(n, 0) == v for n, v in products[name][1])
            for name in (a, b)
        ]
        if usable[0]:
            (u, v), _operands = products[a]
            exact = u * v + q if fn == "add" else u * v - q
        elif usable[1]:
            (u, v), _operands = products[b]
            exact = p + u * v if fn == "add" else p - u * v
        else:
            exact = APPLY[fn](p, q)
        result = near(exact)
        if target is None:
            name, made = f"t{made}", made + 1
            if fn == "mul":
                products[name] = (p, q), [(n, version.get(n, 0)) for n in (a, b)]
        else:
            name = target
            version[target] += 1
        held[name] = result
    return [held[i] for i in NAMES]


@fewer(1)
@given(programs(), st.integers(0, 2**32 - 1))
def test_plans_are_contracted_as_the_rule_says(program, seed):
    x = np.random.default_rng(seed).standard_normal((4, 32)).astype(np.float32)
    out = np.zeros_like(x)
    run(out, x, program)
    for lane in range(0, 32, 8):
        wanted = reference(program, [Fraction(float(v)) for v in x[:, lane]])
        assert [Fraction(float(v)) for v in out[:, lane]] == wanted


# -- one kernel each


def functions(plan):
    """The functions of the maps of a plan, in order."""
    return [op.fn for op in plan.ops if isinstance(op, ops.Map) and op.fn not in ("copy", "where")]


def plan_of(body, kind="f32", fma=True):
    @cute.kernel
    def kernel(x, out):
        cute.launch(grid=1, block=1, fma=fma)
        a, b, c = (cute.rmem(x.dtype, 4) for _operand in range(3))
        for i, held in enumerate((a, b, c)):
            for k in range(4):
                held[k] = x[4 * i + k]
        found = body(a, b, c)
        for k in range(cute.size(found)):
            out[k] = found[k]

    held = np.zeros(16, cute.dtype(kind).numpy)
    return cute.trace(kernel, held, held)


def accumulated(a, b, c):
    c += a * b
    return c


def in_loop(a, b, c):
    for _k in cute.range(3):
        c += a * b
        a -= b[0] * c
    return c


def stale(a, b, c):
    product = a * b
    a[0] = b[1]
    return product + c


def from_outside(a, b, c):
    product = a * b
    for _k in cute.range(3):
        c += product
    return c


def in_branch(a, b, c):
    product = a * b
    with cute.when(a[0] > 0):
        c += product
    return c


def read_twice(a, b, c):
    product = a * b
    return product + c + product


def changed_in_a_loop(a, b, c):
    product = a * b
    for _k in cute.range(3):
        b += c
    return product + c


def part(a, b, c):
    """The last two elements of a product: a view, not a copy as [2] gives."""
    product = a * b
    views = [cute.local_tile(x, (2,), (1,)) for x in (product, c)]
    return views[0] - views[1]


def of_column(a, b, c):
    rows, columns = (cute.Tensor(x.engine, cute.Layout(s)) for x, s in ((a, (4, 1)), (b, (1, 4))))
    return rows * columns - c[0]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (accumulated, ["fma"]),
        (lambda a, b, c: a * b - c, ["neg", "fma"]),
        (lambda a, b, c: c - a * b, ["neg", "fma"]),
        (lambda a, b, c: c - 2.0 * a, ["fma"]),
        (lambda a, b, c: a * b - 1.0, ["fma"]),
        (lambda a, b, c: a * b + b * c, ["mul", "fma"]),
        (lambda a, b, c: a * b + c * b + b, ["mul", "fma", "add"]),
        (part, ["neg", "fma"]),
        (of_column, ["neg", "fma"]),
        (in_loop, ["fma", "neg", "fma"]),
        (stale, ["mul", "add"]),
        (from_outside, ["mul", "add"]),
        (in_branch, ["mul", "gt", "add"]),
        (read_twice, ["mul", "add", "add"]),
        (changed_in_a_loop, ["mul", "add", "add"]),
        (lambda a, b, c: cute.reduce("add", a * b) + c, ["mul", "add"]),
    ],
)
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "f64"])
def test_what_is_contracted(body, wanted, kind):
    plan = plan_of(body, kind)
    assert functions(plan) == wanted
    assert not {"fma", "neg"} & set(functions(plan_of(body, kind, fma=False)))


def test_integers_and_types_in_between_are_left_alone():
    assert functions(plan_of(lambda a, b, c: a * b + c, "s32")) == ["mul", "add"]
    assert functions(plan_of(lambda a, b, c: ((a * b).to("f64") + c.to("f64")).to("f32"))) == [
        "mul",
        "add",
    ]


def test_a_plan_without_products_is_the_same():
    for fma in (False, True):
        assert functions(plan_of(lambda a, b, c: a + b, fma=fma)) == ["add"]
    plain, asked = (plan_of(lambda a, b, c: a + b, fma=fma) for fma in (False, True))
    assert plain == asked


def test_what_was_contracted_saves_and_compares(tmp_path):
    plan = plan_of(lambda a, b, c: a * b - c)
    plan.save(tmp_path / "plan")
    assert cute.Plan.load(tmp_path / "plan") == plan
