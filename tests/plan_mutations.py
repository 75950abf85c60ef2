"""Files of plans with something changed: a file from a stranger."""

import copy
import functools
import json

import numpy as np

import cute_py as cute
from cute_py.plan.params import ScalarParam
from cute_py.plan.serial import dumps, loads

QUOTES = '""";open("PWNED","w");"""'
DEEP = (
    functools.reduce(lambda x, _: [x], range(500), 1),
    functools.reduce(lambda x, _: {"is": "Not", "term": x}, range(200), 1),
    functools.reduce(lambda x, _: {"x": x}, range(90), 1),
)
NUMBERS = (
    *(0, 1, -1, 2, 7, 1 << 16, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63), 10**9),
    *(10**30, 10**400, 0.0, -0.0, 1.5, float("nan"), float("inf"), 1e300, None, True, False),
)
TEXTS = (
    *("", "x", "tid", "bid_x", "None", "print", "__import__", "a\nb", "a'b", 'a"b', "\\", "\0"),
    *(QUOTES, "11\nopen('PWNED','w')\n#", "\ud800", "\u2028", "x" * 5000, "{}", "%s", "../x"),
)
EXPRESSIONS = (
    *(
        "1",
        "",
        "tid",
        "nowhere",
        "tid//0",
        "open('PWNED','w')",
        "(" * 300 + "1" + ")" * 300,
        "tid.x",
    ),
    *(
        "tid*" * 2000 + "tid",
        "tid%bid_x",
        "min(tid)",
        "min()",
        "-" * 3000 + "1",
        "1<<40",
        "9" * 5000,
    ),
    *("ceil_div(tid,0)", "tid//bid_x//bid_y%tid", "*".join(["(tid+bid_x+bid_y)"] * 60)),
)
RECORDS = (
    *([], {}, [0], [[]], ["x"], {"x": 1}, [0, 1, 1], [1, 1, 1, 1], [1 << 40, 1, 1], [0, 0, 0]),
    *({"dtype": x} for x in ("f32", "s4", "os", 1, "u64")),
    *({"mma": x} for x in ("UniversalFMA", "os.system", "SM90_64x9999x16_F32F16F16_SS")),
    *({"copy": x} for x in ("UniversalCopy<99999>", "SM75_U32x4_LDSM_N")),
    *({"is": "Reg"}, {"is": "Emulation", "name": "os.system", "fingerprint": "x"}, {"op": "X"}),
    {"is": "Emulation", "name": "x", "fingerprint": "x", "function": "os.system"},
    {"is": "Not", "term": {"is": "Test", "reg": None}},
    {"is": "Compare", "test": "is", "a": 0, "b": 1},
    {"is": "Compare", "test": "lt", "a": {"expr": "tid"}, "b": 1},
    {"is": "Logic", "test": "or", "terms": []},
)
JUNK = (*NUMBERS, *TEXTS, *({"expr": x} for x in EXPRESSIONS), {"expr": 3}, *RECORDS, *DEEP)


def places(x, path=()):
    """Yield the path of every part of a JSON value but the whole."""
    pairs = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, part in pairs:
        yield (*path, key)
        yield from places(part, (*path, key))


def at(x, path):
    """Return a part of a JSON value."""
    return functools.reduce(lambda part, key: part[key], path, x)


def other(rng, data, every, old):
    """Return another part of the plan, of the same type if there is one."""
    found = [at(data, path) for path in rng.sample(every, min(60, len(every)))]
    return copy.deepcopy(rng.choice([x for x in found if type(x) is type(old)] or found))


def near(rng, _data, _every, old):
    """Return nearly the same number, text, list or record."""
    if isinstance(old, bool) or old is None:
        return not old
    if isinstance(old, (int, float)):
        return rng.choice((old + 1, old - 1, -old, old * 2, old * 1000, old * (1 << 40)))
    if isinstance(old, dict):
        return dict([*old.items()][:-1])
    i = rng.randrange(len(old) + 1)
    if isinstance(old, str):
        return rng.choice((old[:i] + old[i + 1 :], old[:i] + rng.choice('9"x(') + old[i:], QUOTES))
    more = old[:i] + old[i - 1 : i] + old[i:]
    return rng.choice((old[:i] + old[i + 1 :], more, old[::-1], old * 2))


def junk(rng, _data, _every, _old):
    """Return something else."""
    return rng.choice(JUNK)


CHANGES = (junk, junk, other, near, near, near)


def mutated(text, rng):
    """Return the text of a plan with one to three changes."""
    data = json.loads(text)
    for _change in range(rng.choice((1, 1, 1, 2, 3))):
        every = list(places(data))
        head = [path for path in every if path[0] != "body"]  # as often as the body
        path = rng.choice(rng.choice((every, every, head)) or [("body",)])
        if rng.random() < 0.15:
            del at(data, path[:-1])[path[-1]]
        else:
            new = rng.choice(CHANGES)(rng, data, every, at(data, path))
            at(data, path[:-1])[path[-1]] = new
    made = json.dumps(data)
    if rng.random() > 0.05:
        return made
    i = rng.randrange(len(made))  # the text itself
    changed = made[:i] + rng.choice('"{}[],:0\\') + made[i:]
    twice = made[:-1] + ', "name": "twice"}'
    return rng.choice((made[:i], changed, made.replace('"is"', '"op"', 1), twice))


def zeros_for(plan):
    """Return arguments that a plan may have."""
    found = []
    for p in plan.params:
        if isinstance(p, ScalarParam):
            found.append(1)
            continue
        shape = [min(x, 256) if isinstance(x, int) else 64 for x in p.shape]
        found.append(np.zeros(shape, p.dtype.numpy))
    return found


def use(text, arguments=None, compiles=(), prints=False):
    """Read a plan, and do with it what needs no GPU; return the refusals."""
    refused = []

    def allowed(step, *args):
        try:
            return step(*args)
        except cute.CuteError as error:
            refused.append(error)
            return None

    plan = allowed(loads, text)
    if plan is None:
        return refused
    assert str(plan)
    assert plan.explain()
    assert plan.registers >= 0
    assert loads(dumps(plan)) == plan
    if prints:
        allowed(cute.source, plan)
    allowed(
        cute.emulate, plan, *(zeros_for(plan) if arguments is None else copy.deepcopy(arguments))
    )
    for arch in compiles:
        allowed(cute.compile, plan, arch)
    return refused
