"""Frozen objects: set once, compared by content, copied and pickled; values never change."""

import copy
import pickle

import pytest

import cute_py as cute
from cute_py import E, F2Layout, F2Map, Swizzle, sym
from cute_py.calls.fingerprint.values import is_frozen
from cute_py.dtypes import f16
from cute_py.layout import Mapped
from cute_py.records import Record, Value
from cute_py.tensor.engine import Coordinates, Memory, Pointer

M = sym("M", multiple_of=8, max=512)
TILE = cute.Layout((8, 8), (8, 1))
ATOM = cute.atoms.get("SM80_16x8x16_F32F16F16F32_TN")
MMA = cute.make_tiled_mma(ATOM, (2, 2, 1))
COPY = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<64>", "f16"), (2, 16), (4, 1))

VALUES = (
    TILE,
    cute.Layout((M, 4), (4, 1)),
    3 * E(0, 1),
    cute._,
    cute.LayoutRight,
    Swizzle(2, 0, 3),
    F2Map((1, 3)),
    F2Layout((2, 4), (1, 3, 6), 8),
    cute.make_composed_layout(Swizzle(2, 0, 3), 0, TILE),
    M,
    M // 16,
    f16,
    ATOM.registers[0],
    ATOM,
    cute.Copy_Atom("UniversalCopy<64>", "f16"),
    MMA,
    COPY,
)
HOLDERS = (
    cute.prove_equal(M, M + 0),
    Pointer("f16", 0x7F00),
    Memory("sA", "f16", 4096),
    Coordinates((0, (0, 0))),
    cute.make_tensor(Memory("sA", "f16", 64), TILE),
    MMA.get_slice(5),
    COPY.get_slice(7),
)


def name(x):
    return type(x).__name__


@pytest.mark.parametrize("x", [*VALUES, *HOLDERS], ids=name)
def test_a_copy_of_a_record_is_equal_and_has_its_hash(x):
    assert isinstance(x, Record)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other == x
        assert type(other) is type(x)
        assert hash(other) == hash(x)


@pytest.mark.parametrize("x", [*VALUES, *HOLDERS], ids=name)
def test_a_record_refuses_to_change(x):
    kind = type(x).__name__
    for attribute in (*x.__match_args__, "another"):
        with pytest.raises(AttributeError, match=f"{kind} is frozen: cannot set {attribute}"):
            setattr(x, attribute, 1)
        with pytest.raises(AttributeError, match=f"{kind} is frozen: cannot delete {attribute}"):
            delattr(x, attribute)


@pytest.mark.parametrize("x", [*VALUES, *HOLDERS], ids=name)
def test_a_record_differs_from_those_of_other_classes(x):
    assert all((x == y) is (x is y) for y in (*VALUES, *HOLDERS))
    assert (x == "text") is False


@pytest.mark.parametrize("x", VALUES, ids=name)
def test_a_value_is_frozen_to_its_leaves(x):
    assert isinstance(x, Value)
    assert is_frozen(x)


@pytest.mark.parametrize("x", HOLDERS, ids=name)
def test_what_holds_memory_or_a_thread_is_no_value(x):
    assert not isinstance(x, Value)
    assert not is_frozen(x)


def test_layouts_and_tensors_are_maps_of_coordinates():
    tensor = cute.make_tensor(Memory("sA", "f16", 64), TILE)
    swizzled = cute.make_composed_layout(Swizzle(2, 0, 3), 0, TILE)
    for x in (TILE, swizzled, F2Layout((2, 4), (1, 3, 6)), tensor):
        assert isinstance(x, Mapped)
        assert cute.rank(x) == 2
    assert not any(
        isinstance(x, Mapped) for x in (Swizzle(2, 0, 3), F2Map((1, 3)), M, ATOM, (8, 8))
    )
