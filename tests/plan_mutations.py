"""Plans of the shipped kernels, and their files with something changed: a file from a stranger."""

import copy
import functools
import json

import numpy as np

import cute_py as cute
from cute_py.kernels.samples import SAMPLES
from cute_py.plan.plan import ScalarParam
from cute_py.plan.serial import dumps, loads
from tests.compile_only.kernels_of_ops import KERNELS

QUOTES = '""";open("PWNED","w");"""'
JUNK = (
    *(None, True, False, 0, 1, -1, 2, 7, 1 << 16, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64),
    *(-(1 << 63), 10**9, 10**30, 10**400, 0.0, -0.0, 1.5, float("nan"), float("inf"), 1e300),
    *("", "x", "tid", "bid_x", "None", "print", "__import__", "a\nb", "a'b", 'a"b', "\\", "\0"),
    *(QUOTES, "11\nopen('PWNED','w')\n#", "\ud800", "\u2028", "x" * 5000, "{}", "%s", "../x"),
    *([], {}, [0], [[]], ["x"], {"x": 1}, [0, 1, 1], [1, 1, 1, 1], [1 << 40, 1, 1], [0, 0, 0]),
    *({"expr": "1"}, {"expr": ""}, {"expr": "tid"}, {"expr": "nowhere"}, {"expr": "tid//0"}),
    *({"expr": "open('PWNED','w')"}, {"expr": "(" * 300 + "1" + ")" * 300}, {"expr": "tid.x"}),
    *({"expr": "tid*" * 2000 + "tid"}, {"expr": "tid%bid_x"}, {"expr": "min(tid)"}),
    *({"expr": "-" * 3000 + "1"}, {"expr": "1<<40"}, {"expr": "ceil_div(tid,0)"}, {"expr": 3}),
    *({"expr": "9" * 5000}, {"expr": "min()"}, {"expr": "tid//bid_x//bid_y%tid"}),
    *({"dtype": "f32"}, {"dtype": "s4"}, {"dtype": "os"}, {"dtype": 1}, {"dtype": "u64"}),
    *({"mma": "UniversalFMA"}, {"mma": "os.system"}, {"mma": "SM90_64x9999x16_F32F16F16_SS"}),
    *({"copy": "UniversalCopy<99999>"}, {"copy": "SM75_U32x4_LDSM_N"}, {"mma": "SM61_DP4A"}),
    *({"is": "Reg"}, {"is": "Emulation", "name": "os.system", "fingerprint": "x"}, {"op": "X"}),
    *({"is": "Emulation", "name": "x", "fingerprint": "x", "function": "os.system"}, {"is": []}),
    {"is": "Not", "term": {"is": "Test", "reg": None}},
    {"is": "Compare", "test": "is", "a": 0, "b": 1},
    {"is": "Compare", "test": "lt", "a": {"expr": "tid"}, "b": 1},
    {"is": "Logic", "test": "or", "terms": []},
    functools.reduce(lambda x, _: [x], range(500), 1),
    functools.reduce(lambda x, _: {"is": "Not", "term": x}, range(200), 1),
    functools.reduce(lambda x, _: {"x": x}, range(90), 1),
)


def shipped():
    """Return (name, plan, arguments) of the kernels of the package and of `KERNELS`."""
    found = [(name, KERNELS[name](), None) for name in KERNELS]
    for name, (kind, call) in SAMPLES.items():
        kernel, arguments = call((128, 128, 64), cute.dtype(kind))
        found.append((name, cute.trace(kernel, *arguments), kernel.leaves(*arguments)))
    return found


def places(x, path=()):
    """Yield the path of every part of a JSON value but the whole."""
    pairs = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    for key, part in pairs:
        yield (*path, key)
        yield from places(part, (*path, key))


def at(x, path):
    """Return a part of a JSON value."""
    return functools.reduce(lambda part, key: part[key], path, x)


def _junk(rng, data, path):
    return rng.choice(JUNK)


def _other(rng, data, path):
    """Another part of the plan, of the same type if there is one."""
    old = at(data, path)
    alike = [p for p in rng.sample(ALL[0], min(60, len(ALL[0]))) if type(at(data, p)) is type(old)]
    return copy.deepcopy(at(data, rng.choice(alike or ALL[0])))


def _near(rng, data, path):
    """A number or a text that is nearly the same, and lists with more or less in them."""
    old = at(data, path)
    if isinstance(old, bool) or old is None:
        return not old
    if isinstance(old, (int, float)):
        return rng.choice((old + 1, old - 1, -old, old * 2, old * 1000, old << 40 if old.__class__ is int else 0))
    if isinstance(old, str):
        i = rng.randrange(len(old) + 1)
        return rng.choice((old[:i] + old[i + 1 :], old[:i] + rng.choice('9"x\n(') + old[i:], QUOTES))
    if isinstance(old, list):
        i = rng.randrange(len(old) + 1)
        return rng.choice((old[:i] + old[i + 1 :], old[:i] + old[i - 1 : i] + old[i:], old[::-1], old * 2))
    return dict([*old.items()][:-1])


ALL = [()]
SAID = []
CHANGES = (_junk, _junk, _other, _near, _near)


def mutated(text, rng):
    """Return the text of a plan with one to three changes."""
    data = json.loads(text)
    for _change in range(rng.choice((1, 1, 1, 2, 3))):
        ALL[0] = list(places(data))
        # a place of the head as often as one of the body
        head = [p for p in ALL[0] if p[0] != "body"]
        path = rng.choice(rng.choice((ALL[0], ALL[0], head)) or ALL[0])
        if rng.random() < 0.15:
            del at(data, path[:-1])[path[-1]]
        else:
            at(data, path[:-1])[path[-1]] = rng.choice(CHANGES)(rng, data, path)
    made = json.dumps(data)
    if rng.random() < 0.05:  # the text itself
        i = rng.randrange(len(made))
        made = rng.choice((made[:i], made[:i] + rng.choice('"{}[],:0\\') + made[i:], made.replace('"is"', '"op"', 1), made[:-1] + ', "name": "twice"}'))
    return made


def zeros_for(plan):
    """Return arguments that a plan may have."""
    found = []
    for p in plan.params:
        if isinstance(p, ScalarParam):
            found.append(1)
            continue
        shape = [x if isinstance(x, int) else 64 for x in p.shape]
        found.append(np.zeros([min(x, 256) for x in shape], p.dtype.numpy))
    return found


def use(text, arguments=None, compiles=()):
    """Read a plan, and do with it all that needs no GPU; return the codes of what is refused."""
    codes = []

    def allowed(step, *args, **named):
        try:
            return step(*args, **named)
        except cute.CuteError as error:
            codes.append(error.code)
            SAID.append(str(error))
            return None

    plan = allowed(loads, text)
    if plan is None:
        return codes
    assert str(plan) and plan.explain() and plan.registers and hash(plan) is not None
    assert loads(dumps(plan)) == plan
    allowed(cute.source, plan)
    given = zeros_for(plan) if arguments is None else copy.deepcopy(arguments)
    allowed(cute.emulate, plan, *given)
    for arch in compiles:
        allowed(cute.compile, plan, arch)
    return codes
