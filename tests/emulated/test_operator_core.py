"""What an operator may be: of functions of registers, with several outputs, with numbers."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.ops.call import Call
from cute_py.ops.operator import REGISTRY, operator
from cute_py.ops.problem import Problem

SCALE = 2.0


@cute.kernel
def map_both(x, y, z, scale: cute.f32, fn):
    cute.launch(grid=cute.ceil_div(x.shape[0], 32), block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = fn(x[i] * scale)
        z[i] = -x[i]


class Both(Problem):
    def __init__(self, request, library):
        super().__init__(request, library)
        self.x, kind = self.read("x", ("f32",), 1, "(N)")
        self.scale = self.number("scale", request.scale)
        self.gives(self.x.shape, kind, "out")
        self.gives(self.x.shape, kind, "out_negated")

    def call(self, choice=None):
        x = self.readable(self.x)
        outputs = tuple(self.writes((x,), (0,), name=name) for name in self.results)
        statics = (self.request.fn,)
        how = {"numbers": (self.scale,), "statics": statics, "choice": (None,)}
        return Call(map_both, self.library, (x,), outputs, **how)


@pytest.fixture(scope="module")
def both():
    @operator(Both, arrays=("x", "out", "out_negated"), numbers={"scale": 1})
    def both(x, fn, scale=1.0, *, out=None, out_negated=None, backend="auto", checks=False):
        """Return fn(scale * x) and -x."""

    yield both
    del REGISTRY["both"]


def test_several_outputs_are_a_tuple(both):
    x = np.arange(40, dtype=np.float32)
    for scale in (2.0, 3.0, 2.0):
        y, z = both(x, cute.exp2, scale)
        np.testing.assert_allclose(y, np.exp2(x * scale), rtol=1e-6)
        np.testing.assert_array_equal(z, -x)
    out = np.zeros(40, np.float32)
    y, z = both(x, cute.exp2, out_negated=out)
    assert z is out
    np.testing.assert_array_equal(out, -x)
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.both: given out_negated of shape \(3\)"):
        both(x, cute.exp2, out_negated=np.zeros(3, np.float32))
    empty, more = both(x[:0], cute.exp2)
    assert empty.shape == more.shape == (0,)


def test_a_function_of_registers_is_known_until_what_it_depends_on_changes(both, monkeypatch):
    """Its code, its closure and the globals that it reads."""
    x = np.arange(8, dtype=np.float32)
    traced, real = [], cute.trace
    monkeypatch.setattr("cute_py.ops.call.cute.trace", lambda *y: (traced.append(y), real(*y))[1])
    factor = [1.0]

    def fn(v):
        return v * SCALE + factor[0]

    def value():
        return both(x, fn)[0]

    np.testing.assert_array_equal(value(), 2 * x + 1)
    before = both.operator.known.count
    for _ in range(3):
        np.testing.assert_array_equal(value(), 2 * x + 1)
    assert both.operator.known.count == before
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    np.testing.assert_array_equal(value(), 3 * x + 1)
    factor[0] = 5.0
    np.testing.assert_array_equal(value(), 3 * x + 5)
    offset = 1

    def closed(v):
        return v + offset

    np.testing.assert_array_equal(both(x, closed)[0], x + 1)
    offset = 7
    np.testing.assert_array_equal(both(x, closed)[0], x + 7)
    closed.__code__ = (lambda v: v + offset + offset).__code__
    np.testing.assert_array_equal(both(x, closed)[0], x + 14)


def test_the_public_function_is_the_declared_one(both):
    import inspect

    assert list(inspect.signature(both).parameters) == [
        *("x", "fn", "scale", "out", "out_negated", "backend", "checks"),
    ]
    assert both.__doc__ == "Return fn(scale * x) and -x."
    assert both.operator.name == "cute.ops.both"
    with pytest.raises(TypeError, match=r"both\(\) missing 1 required positional argument: 'fn'"):
        both(np.ones(3))
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.both: .*a real number that a float"):
        both(np.ones(3, np.float32), cute.exp2, "2")
    with pytest.raises(cute.CuteError, match=r"cute\.ops\.both: given 10{400} as scale"):
        both(np.ones(3, np.float32), cute.exp2, 10**400)
