"""Conversions between all types, in all ways, mean the same on the emulator and as emitted code."""

from itertools import product

import pytest

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from tests.compile_only.test_numbers import (
    ROUNDINGS,
    TYPES,
    check_conversion,
    check_storages,
    ways_of,
)


@pytest.mark.parametrize("source", TYPES)
def test_all_conversions_mean_the_same(source):
    ways = product(TYPES, ROUNDINGS, (False, True))
    compared = [check_conversion(source, *way) for way in ways if way[0] != source]
    assert sum(compared) >= len(TYPES) - 1


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_all_storages_convert_as_their_elements(source, arch):
    for target in TYPES:
        for way in () if target == source else ways_of(source, target):
            check_storages(source, target, way, arch)
