"""What CuTe C++ answers about tensors (tests/golden/tensor_ops.json.xz), replayed: the same text.

Partitions of identity tensors by a TiledMMA or TiledCopy are tests of these.
"""

import pytest

import cute_py as cute
from tests.notation import golden_cases, read, read_text, text

OF_TILED = {"identity_partition_copy", "identity_partition_mma"}
CASES = [case for case in golden_cases("tensor_ops") if case["op"] not in OF_TILED]

# Where CuTe C++ is wrong itself (docs/differences.md): b reaches indices of a that no layout gives.
REFUSED = {
    ("(16,12)", "8:12"),
    ("(12,4,4)", "24:8"),
    ("(4,16)", "(32,8):(1,1)"),
}


def device_tensor(layout, bits=8):
    """Return a tensor whose engine's offset is the offset that CuTe's iterator moved by."""
    return cute.make_tensor(cute.make_ptr(f"u{bits}", 0), layout)


def operand(argument):
    if isinstance(argument, dict) and "identity_shape" in argument:
        return cute.make_identity_layout(read(argument["identity_shape"]))
    return read(argument)


def pair(tensor):
    """Return a part of a device tensor as golden data hold it: [layout, offset]."""
    return [str(tensor.layout), tensor.engine.offset]


def identity_part(tensor):
    values = [text(tensor[i]) for i in range(cute.size(tensor))]
    return {"layout": str(tensor.layout), "base": text(tensor.engine.offset), "values": values}


def part(function):
    """The part of a tensor, and of its layout alone, which must be the same."""

    def answer(layout, *operands):
        of_tensor = pair(function(device_tensor(layout), *operands))
        sub, offset = function(layout, *operands)
        assert of_tensor == [str(sub), offset]
        return of_tensor

    return answer


def on_tensor(name):
    def answer(layout, *operands):
        result = getattr(cute, name)(device_tensor(layout), *operands)
        assert result.engine.offset == 0
        return str(result.layout)

    return answer


def of_both(name):
    """An operation on a layout, and on the tensor of its coordinates, which must be the same."""

    def answer(layout, *operands):
        result = getattr(cute, name)(layout, *operands)
        tensor = getattr(cute, name)(cute.make_coord_tensor(layout), *operands)
        assert getattr(tensor, "layout", tensor) == result
        return text(result)

    return answer


def tensor_recast(layout, old, new):
    tensor = device_tensor(layout, old)
    if new > 64:  # CuTe's uint128_t; no dtype of ours is wider than 64 bits
        return str(cute.recast_layout(tensor.layout, old, new))
    return str(cute.recast(tensor, f"u{new}").layout)


ANSWERS = {
    "coalesce": of_both("coalesce"),
    "composition": of_both("composition"),
    "composition_basis": lambda a, b: str(cute.composition(device_tensor(a), b).layout),
    "coprofile": of_both("coprofile"),
    "coshape": of_both("coshape"),
    "domain_offset": lambda layout, coord: pair(cute.domain_offset(coord, device_tensor(layout))),
    "flat_divide": of_both("flat_divide"),
    "identity_call": lambda shape, coord: text(cute.make_identity_tensor(shape)[coord]),
    "identity_local_partition": lambda shape, threads, index: identity_part(
        cute.local_partition(cute.make_identity_tensor(shape), threads, index)
    ),
    "identity_local_tile": lambda shape, tiler, coord: identity_part(
        cute.local_tile(cute.make_identity_tensor(shape), tiler, coord)
    ),
    "inner_partition": part(cute.inner_partition),
    "local_partition": part(cute.local_partition),
    "local_tile": part(cute.local_tile),
    "logical_divide": of_both("logical_divide"),
    "make_tensor_like": on_tensor("make_tensor_like"),
    "outer_partition": part(cute.outer_partition),
    "tensor_flat_divide": on_tensor("flat_divide"),
    "tensor_logical_divide": on_tensor("logical_divide"),
    "tensor_recast": tensor_recast,
    "tensor_slice": lambda layout, coord: pair(device_tensor(layout)[coord]),
    "tensor_tiled_divide": on_tensor("tiled_divide"),
    "tensor_zipped_divide": on_tensor("zipped_divide"),
    "tiled_divide": of_both("tiled_divide"),
    "zipped_divide": of_both("zipped_divide"),
}


def expected(case):
    """Return CuTe's answer; a coordinate that it prints as a basis, `0@0`, as a tuple."""
    if case["op"] == "identity_call" and "@" in case["result"]:
        basis = read_text(case["result"])
        coord = basis.value
        for step in reversed(basis.path):
            coord = (*[0] * step, coord)
        return text(coord)
    return case["result"]


@pytest.mark.parametrize("op", sorted(ANSWERS))
def test_golden_case_is_answered_as_cute_does(op):
    offenders, count = [], 0
    for case in CASES:
        operands = tuple(case["args"])
        if case["op"] != op or (op == "composition" and refused_by_us(operands)):
            continue
        count += 1
        try:
            given = ANSWERS[op](*map(operand, operands))
        except cute.CuteError as refusal:
            given = None if case.get("inadmissible") else f"refused: {refusal}"
        if given != expected(case):
            offenders.append(f"{op}{operands} = {case['result']}, not {given}")
    assert count
    assert not offenders, f"{len(offenders)} of {count}, e.g.\n" + "\n".join(offenders[:5])


def refused_by_us(operands):
    a, b = operands
    return isinstance(a, dict) and (a["identity_shape"], str(b)) in REFUSED


def test_wrong_answers_of_cute_are_refused():
    wrong = [c for c in CASES if c["op"] == "composition" and refused_by_us(tuple(c["args"]))]
    assert len(wrong) == len(REFUSED)
    for case in wrong:
        a, b = map(operand, case["args"])
        theirs = read(case["result"])
        assert any(theirs(i) != a(b(i)) for i in range(cute.size(b)))
        with pytest.raises(cute.LayoutError, match="at coordinate number"):
            cute.composition(a, b)


def test_golden_data_is_complete():
    assert len(CASES) == 582
    assert {case["op"] for case in CASES} == set(ANSWERS)
