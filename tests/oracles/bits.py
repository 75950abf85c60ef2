"""Oracles of swizzles and of maps of bits."""

import cute_py as cute
from tests import model
from tests.oracles import operands, oracle
from tests.oracles.operands import at, values, xor


def linear(call):
    """Return a layout of powers of two, plain or swizzled."""
    inner = call.power_layout()
    return inner if call.rng.random() < 0.5 else cute.make_composed_layout(call.swizzle(), 0, inner)


@oracle("make_swizzle", "compose_swizzles", "make_composed_layout")
def swizzles(call, name):
    a, b = call.swizzle(), call.swizzle()
    if name == "compose_swizzles":
        result = call(name, a, b)
        assert [at(result, x) for x in range(512)] == [at(a, at(b, x)) for x in range(512)]
    elif name == "make_swizzle":
        source, target = call.rng.randrange(64), call.rng.randrange(64)
        result = call(name, source, target)
        bits = [k for k in range(8) if target >> k & 1]
        moves = list(zip([k for k in range(8) if source >> k & 1], bits, strict=True))
        for x in range(128):
            assert at(result, x) == x ^ sum((x >> k & 1) << j for k, j in moves)
    else:
        inner = call.layout(down=False)
        offset = call.rng.randrange(16)
        result = call(name, a, offset, inner)
        wanted = [at(a, offset + x) for x in values(inner)]
        assert [call(result, i) for i in range(len(wanted))] == wanted


@oracle("to_f2", "from_f2", "compose_f2")
def forms(call, name):
    layout = linear(call) if call.rng.random() < 0.8 else call.any_layout()
    if name == "compose_f2":
        outer = linear(call)
        result = call(name, outer, layout)
        size = model.size((outer.shape, outer.shape))
        inside = all(x < size for x in values(layout))
        assert not inside or values(result) == [at(outer, x) for x in values(layout)]
        return
    result = call("to_f2", layout)
    if name == "from_f2":
        result = call(name, result)
    assert values(result) == values(layout)


@oracle("f2_matrix", "f2_rank", "f2_kernel", "from_f2_matrix")
def matrices(call, name):
    layout = linear(call)
    offsets = values(layout)
    if name == "f2_rank":
        assert 2 ** call(name, layout) == len(set(offsets))
    elif name == "f2_kernel":
        basis = call(name, layout)
        spanned = {xor(basis, k) for k in range(1 << len(basis))}
        assert spanned == {i for i, x in enumerate(offsets) if x == 0}
        assert len(spanned) == 1 << len(basis)
    else:
        matrix = call("f2_matrix", layout)
        images = [sum(int(bit) << k for k, bit in enumerate(column)) for column in matrix.T]
        assert [xor(images, i) for i in range(len(offsets))] == offsets
        if name == "from_f2_matrix":
            assert values(call(name, matrix)) == offsets


@oracle("to_linear_bases", "from_linear_bases")
def bases(call, name):
    layout = linear(call)
    offsets = values(layout)
    found = call("to_linear_bases", layout)
    assert list(found) == list(range(len(operands.wrap(layout.shape))))
    images = [image for mode in found.values() for image in mode]
    assert [xor(images, i) for i in range(len(offsets))] == offsets
    if name == "from_linear_bases":
        assert values(call(name, found)) == offsets
