"""Every function of `Map` against its model, in Python's own numbers, for every kind of type."""

import math

import numpy as np

import cute_py as cute
from cute_py.emulate.numerics import function
from cute_py.plan.functions import FUNCTIONS
from tests.sampling import each

TYPES = ("f64", "f32", "f16", "bf16", "s64", "s32", "u32", "s8", "u8")


def fits(row, kind):
    """Tell whether a function is for a type."""
    word = kind.name in ("s32", "u32")
    return row.domain in ("any", "float" if kind.is_float else "int", *["word"] * word)


ROWS = [
    (row.name, kind)
    for row in FUNCTIONS.values()
    for kind in TYPES
    if row.name != "copy" and fits(row, cute.dtype(kind))
]


def test_every_function_is_for_some_type():
    assert {name for name, _kind in ROWS} == FUNCTIONS.keys() - {"copy"}


def values(kind, count, rng, name):
    """Return numbers of a type, those at the edges among them."""
    if kind.is_float:
        held = np.concatenate([rng.standard_normal(40) * 3, [0.0, 1.0, -1.0, 0.5, 2.0]])
        if name in ("log", "log2", "sqrt", "rsqrt", "rcp"):
            held = np.abs(held) + 0.01
        if name == "div":
            held = held[held != 0]
        return [cute.convert(rng.permutation(held), kind) for _ in range(count)]
    edges = [kind.min, kind.max, 0, 1, 2, 3, kind.max // 2, kind.max - 1]
    held = [*edges, *(int(x) for x in rng.integers(kind.min, kind.max, 40, dtype=np.int64))]
    found = [np.array(rng.permutation(np.array(held, object)), kind.numpy) for _ in range(count)]
    if name in ("bfe", "bfi"):  # half of them inside of the type
        for each in found[-2:]:
            each[: len(held) // 2] = rng.integers(0, min(kind.bits, 127), len(held) // 2)
    if name in ("shl", "shr"):
        found[1] = np.array(rng.integers(0, kind.bits, len(held)), kind.numpy)
    if name in ("floordiv", "mod"):
        found[1] = np.where(found[1] == 0, 1, found[1]).astype(kind.numpy)
        signed_edge = (found[0] == kind.min) & (found[1].astype(object) == -1)
        found[1] = np.where(signed_edge, 1, found[1]).astype(kind.numpy)
    return found


def wrapped(x, kind):
    """Return an integer as one of a type, around at its width."""
    x = int(x) & ((1 << kind.bits) - 1)
    return x - (1 << kind.bits) if kind.min < 0 and x >> (kind.bits - 1) else x


@each(ROWS)
def test_a_function_is_its_model(name, type_name):
    row, kind = FUNCTIONS[name], cute.dtype(type_name)
    rng = np.random.default_rng(sum(map(ord, name + type_name)))
    given = values(kind, row.arity, rng, name)
    if name == "where":
        given[0] = rng.integers(0, 2, len(given[1])).astype(bool)
    if row.fixed:
        given[-1] = given[-1] & 255
    got = np.asarray(function(name, kind)(*given))
    plain = [x.astype(np.float64) if kind.is_float and x.dtype != bool else x for x in given]
    bits = [kind.bits, kind.min < 0] * row.sized
    model = [row.model(*each, *bits) for each in zip(*[x.tolist() for x in plain], strict=True)]
    if row.compares:
        assert got.astype(bool).tolist() == model
    elif not kind.is_float:
        assert got.tolist() == [wrapped(x, kind) for x in model]
    else:
        near = {"f64": 2**-50, "f32": 2**-22, "f16": 2**-10, "bf16": 2**-7}[type_name]
        for mine, exact in zip(got.astype(np.float64).tolist(), model, strict=True):
            scale = abs(exact) if name != "fma" else max(abs(exact), 1.0)
            assert math.isclose(mine, exact, rel_tol=near, abs_tol=near * scale), (mine, exact)
