"""A plan may come from a stranger: it is read, printed and emulated, or refused; it runs no Python,
and takes no memory or time that its size does not explain.
"""

import json
import random
from pathlib import Path
from time import process_time

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.plan import Plan
from cute_py.plan.serial import dumps, loads
from tests.compile_only.kernels_of_ops import KERNELS
from tests.plan_mutations import DEEP, QUOTES, mutated, use
from tests.sampling import check_each

GOLDEN = Path(__file__).parents[1] / "golden" / "plans"
SMALL = ("control", "registers", "memory", "order", "debug", "cp_arrive", "stmatrix")


@pytest.fixture(scope="module")
def texts():
    found = {path.stem: path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.json")}
    return found | {name: dumps(KERNELS[name]()) for name in SMALL}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not [*tmp_path.iterdir()]  # nothing was written by what a plan says


@pytest.mark.parametrize("count", [50, pytest.param(5_000, marks=pytest.mark.slow)])
def test_mutated_plans_are_used_or_refused(texts, count, capsys):
    rng = random.Random(count)

    def check(n):
        name = rng.choice([*texts])
        refused = use(mutated(texts[name], rng))
        assert all(error.code != "plan-foreign" for error in refused), refused

    check_each(check, range(count))
    capsys.readouterr()


# -- what a file may say, one by one


def changed(text, path, value):
    """Return the text of a plan with another value at a path."""
    data = json.loads(text)
    *front, last = path
    part = data
    for key in front:
        part = part[key]
    part[last] = value
    return json.dumps(data)


def refused(text):
    with pytest.raises(cute.CuteError) as caught:
        loads(text)
    return caught.value


OP, LAUNCH = ("body", 0), ("launch",)
WRONG = {  # of the kernel `order`: a path, a value, and what the refusal says
    "code as a number of a line": ((*OP, "line"), ["x", "1\nopen('PWNED','w')\n#"], "tuple[str"),
    "a flag as a number": ((*OP, "line"), ["x.py", True], "tuple[str, int]"),
    "half of a pair of UTF-16": ((*OP, "line"), ["\ud800", 1], "text"),
    "a name that is code": (("name",), QUOTES, "the name"),
    "a name of nothing": (("name",), "", "the name ''"),
    "an unknown field": (("more",), 1, "'more' in Plan"),
    "an unknown field of an op": ((*OP, "more"), 1, "'more' in GridDep"),
    "an unknown op": ((*OP, "op"), "System", "System"),
    "a part as an op": (OP, {"is": "Compare", "test": "lt", "a": 0, "b": 1}, "body="),
    "a block of no threads": ((*LAUNCH, "block"), [0, 1, 1], "0 threads of a block"),
    "a block below 0": ((*LAUNCH, "block"), [-32, 1, 1], "-32 threads"),
    "a block of two modes": ((*LAUNCH, "block"), [32, 1], "tuple[int, int, int]"),
    "a block of a float": ((*LAUNCH, "block"), [32.0, 1, 1], "block"),
    "a block of flags": ((*LAUNCH, "block"), [True, True, True], "block"),
    "a block of 2^40 threads": ((*LAUNCH, "block"), [1 << 40, 1, 1], "threads of a block"),
    "a grid of 2^40 blocks": ((*LAUNCH, "grid"), [1 << 40, 1, 1], "blocks of the grid"),
    "a grid from nowhere": ((*LAUNCH, "grid"), [{"expr": "nowhere"}, 1, 1], "nowhere"),
    "a grid of blocks": ((*LAUNCH, "grid"), [{"expr": "bid_x"}, 1, 1], "bid_x, which is not"),
    "a grid that divides by 0": ((*LAUNCH, "grid"), [{"expr": "4//0"}, 1, 1], "0"),
    "a grid that is code": ((*LAUNCH, "grid"), [{"expr": "open('PWNED','w')"}, 1, 1], "expression"),
    "a cluster of no blocks": ((*LAUNCH, "cluster"), [0, 1, 1], "blocks of a cluster"),
    "registers of 2^40 words": (
        ("storages",),
        [{"is": "Registers", "name": "r", "dtype": {"dtype": "f32"}, "count": 1 << 40}],
        "in a thread",
    ),
    "shared memory before its begin": (
        ("shared",),
        [{"is": "Shared", "name": "s", "dtype": {"dtype": "f32"}, "count": 4, "offset": -16}
         | {"alignment": 16}],
        "at byte -16",
    ),
    "symbols of nothing": (("symbols",), {"bid_x": [0, 0, 1]}, "symbol"),
    "symbols that are a list": (("symbols",), [], "symbols"),
    "a number of 400 digits": ((*LAUNCH, "min_blocks"), 10**400, "min_blocks"),
    "no number": ((*LAUNCH, "min_blocks"), float("nan"), "min_blocks"),
    "deep lists": ((*LAUNCH, "counts"), DEEP[0], "deep"),
    "deep conditions": ((*OP, "kind"), DEEP[1], "deep"),
}  # fmt: skip


def test_what_has_another_type_or_size_is_refused(texts):
    def check(name):
        path, value, said = WRONG[name]
        assert said in str(refused(changed(texts["order"], path, value)))

    check_each(check, WRONG)


def test_a_key_twice_and_what_is_missing_are_refused(texts):
    text = texts["order"]
    assert "twice" in str(refused(text[: text.rindex("}")] + ', "name": "other"}'))
    for key in json.loads(text):
        data = json.loads(text)
        del data[key]
        assert refused(json.dumps(data)).code in ("plan-text", "plan-version")
    assert "deep" in str(refused("[" * 100_000)) or "recursion" in str(refused("[" * 100_000))


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "plan"
    path.write_bytes(b"\xff\xfe\x00\x80" * 9)
    with pytest.raises(cute.CuteError) as caught:
        cute.Plan.load(path)
    assert caught.value.code == "plan-text"
    path.unlink()


EXPRESSIONS = (
    *("n" + "".join(f"%{p}" for p in range(97, 40, -1)), "(" * 90 + "n" + "%(tid+5)//3+1)" * 90),
    *(
        "(n+tid//3)" + "*(n+tid//3)" * 60,
        f"min({','.join(f'n*{i}+tid//{i + 1}' for i in range(99))})",
    ),
    *("n" + "//3" * 2000, "n*" * 900 + "n", "-" * 2000 + "n", "9" * 5000, "n" + "*9" * 60),
)


def test_expressions_that_grow_are_refused_while_they_are_small(texts):
    def check(text):
        data = json.loads(texts["order"])
        data["symbols"] |= {"n": [1, None, None], "tid": [1, 0, 31]}
        data["launch"]["grid"][0] = {"expr": text}
        begin = process_time()
        assert refused(json.dumps(data)).code in ("plan-text", "plan-op")
        assert process_time() - begin < 0.5

    check_each(check, EXPRESSIONS, lambda text: text[:40])


def test_an_emulation_names_no_function_of_python(texts):
    data = json.loads(texts["registers"])
    (op,) = (x for x in _ops(data["body"]) if x["op"] == "InlinePtx")
    op["emulation"] |= {"name": "os.system"}
    plan = loads(json.dumps(data))
    with pytest.raises(cute.CuteError) as caught:
        cute.emulate(plan, np.full(32, 10, np.float32))
    assert caught.value.code == "emulate-inline"
    op["emulation"] |= {"function": "os.system"}
    assert "'function' in Emulation" in str(refused(json.dumps(data)))


def _ops(block):
    for op in block:
        yield op
        for part in op.values():
            if isinstance(part, list) and part and isinstance(part[0], dict) and "op" in part[0]:
                yield from _ops(part)


def test_names_are_defined_once_and_before_they_are_used():
    @cute.kernel
    def run(x):
        cute.launch(grid=1, block=32)
        n = cute.as_int(x[cute.thread_idx()], 0, 31)
        for k in cute.range(n):
            x[k] = n

    text = dumps(cute.trace(run, np.zeros(32, np.int32)))
    data = json.loads(text)
    let = next(op for op in data["body"] if op["op"] == "Let")
    loop = next(op for op in data["body"] if op["op"] == "Loop")
    assert loads(text)
    early = json.dumps(data | {"body": [loop, *[op for op in data["body"] if op is not loop]]})
    assert f"{let['var']}, which is not defined" in str(refused(early))
    for name in ("x", "tid", "a b", QUOTES):
        said = str(refused(text.replace(f'"{loop["var"]}"', json.dumps(name))))
        assert "the name" in said or "text" in said


@pytest.mark.parametrize(
    "name", ["\uff54id", "\u017f", "\U0001d42did", "__debug__", "class", "None", "n" * 251]
)
def test_names_are_what_python_reads_and_assigns(name):
    """It reads others as they are normalised: `tid` for the first."""

    @cute.kernel
    def run(x, extent: cute.s32):
        cute.launch(grid=1, block=32)
        for _k in cute.range(extent):
            x[cute.thread_idx()] += 1.0

    text = dumps(cute.trace(run, np.zeros(32, np.float32), 4))
    loop = next(op["var"] for op in json.loads(text)["body"] if op["op"] == "Loop")
    for old in ("run", "extent", loop):
        wrong = refused(text.replace(f'"{old}"', json.dumps(name)))
        assert wrong.code in ("plan-op", "plan-text")


def test_variables_are_given_a_value_before_they_are_used():
    @cute.kernel
    def run(x, n: cute.s32):
        cute.launch(grid=1, block=32)
        t, v = cute.thread_idx(), cute.var(0)
        with cute.when(t < n):
            v.set(5)
        with cute.otherwise():
            v.set(7)
        x[t] = v.get()

    def without(block, number):
        """Remove the n-th op that sets the variable."""
        for op in [*block]:
            if op["op"] == "Set":
                number[0] -= 1
                if number[0] == -1:
                    block.remove(op)
            for inner in (op.get("then", []), op.get("other", [])):
                without(inner, number)
        return block

    def left(*numbers):
        data = json.loads(text)
        for n in numbers:
            without(data["body"], [n])
        return json.dumps(data)

    text = dumps(cute.trace(run, np.zeros(32, np.int32), 4))

    x = np.zeros(32, np.int32)
    cute.emulate(loads(left(0)), x, 4)  # both branches set it
    assert x.tolist() == [5] * 4 + [7] * 28
    for numbers in ((0, 0), (0, 1)):  # in one branch alone
        assert "not defined" in str(refused(left(*numbers)))


def test_an_error_that_no_rule_foresaw_is_a_refusal_in_a_plan_from_a_file():
    @cute.kernel
    def run(x):
        cute.launch(grid=1, block=32)

    plan = cute.trace(run, np.zeros(32, np.int32))
    read = loads(dumps(plan))
    assert isinstance(read, Plan)
    assert read == plan
    for each, kind in ((plan, KeyError), (read, cute.LayoutError)):
        with pytest.raises(kind), each.trusted("cute.compile"):
            raise KeyError("x")


# -- sizes


@cute.kernel
def nested(x, n: cute.s32):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    for _j in cute.range(n):
        for _k in cute.range(n):
            x[t] += 1.0


@cute.kernel
def apart(x, n: cute.s32):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    for _k in cute.range(n + t):
        x[t] += 1.0


@cute.kernel
def left(x, n: cute.s32):
    cute.launch(grid=1, block=32)
    t = cute.thread_idx()
    for k in cute.range(n):
        x[t] += 1.0
        cute.break_if(k == 3)


@cute.kernel
def wide(x, n: cute.s32):
    cute.launch(grid=n, block=1024)
    with cute.when(cute.block_idx() == 0):
        x[cute.thread_idx() % 32] = 1.0


@cute.kernel
def waiting(x, n: cute.s32):
    cute.launch(grid=n, block=32)
    with cute.when(cute.thread_idx() == 0):
        cute.atomic("add", cute.local_tile(x, (1,), (0,)), 1.0)
        cute.wait_until(cute.local_tile(x, (1,), (0,)), "ge", 1)


@pytest.mark.parametrize(
    ("kernel", "n"), [(nested, 1 << 20), (apart, 1 << 30), (wide, 1 << 30), (waiting, 1 << 22)]
)
def test_sizes_that_take_days_are_refused_at_once(kernel, n):
    x = np.zeros(32, np.float32)
    with pytest.raises(cute.EmulationError) as caught:
        cute.emulate(kernel, x, n)
    assert caught.value.code == "emulate-large"
    cute.emulate(kernel, x, 2)


def test_a_loop_that_is_left_early_may_have_any_length():
    x = np.zeros(32, np.float32)
    cute.emulate(left, x, 2**31 - 1)
    assert set(x) == {4.0}
