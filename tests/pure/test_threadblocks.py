"""The threadblocks of CUTLASS 2.x: every tile once, by one log; parts of K; defaults."""

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.cutlass2 import (
    ThreadblockSwizzle,
    batched_swizzle,
    default_gemm_configuration,
    identity_swizzle,
    k_partition,
    k_partition_by_floor,
)


def tiles_of(launch):
    """Return the tiles of all blocks, and how many have none."""
    found = [launch.tile(*place) for place in product(*map(range, launch.grid))]
    return [x for x in found if x is not None], found.count(None)


def all_tiles(*extents):
    return [*product(*map(range, extents))]


def test_i01_blocks_of_5_by_7_tiles():
    launch = identity_swizzle((5, 7, 1), 8)
    assert (launch.grid, prod(launch.grid)) == ((40, 1, 1), 40)
    found, idle = tiles_of(launch)
    assert (sorted(found), idle) == (all_tiles(5, 7, 1), 5)
    assert identity_swizzle((5, 7, 1), 4).grid == (20, 2, 1)


def test_i02_the_tile_is_by_the_log_of_the_launch():
    """With 8 in its place, as get_tile_offset(tiled_shape) has it, 21 of 45 tiles are missed."""
    launch = identity_swizzle((9, 5, 1), 8)
    found, _idle = tiles_of(launch)
    assert sorted(found) == all_tiles(9, 5, 1)
    by_n = {(x // 8, y * 8 + x % 8) for x, y, _z in product(*map(range, launch.grid))}
    assert len({(i, j) for i, j, _k in found} - by_n) == 21


@pytest.mark.parametrize("place", [(-1, 0, 0), (0, -1, 0), (40, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_a_place_outside_of_the_grid_has_no_tile(place):
    assert identity_swizzle((5, 7, 1), 8).tile(*place) is None


def test_products_have_one_slice():
    with pytest.raises(cute.LayoutError, match="slices=3; required: 1 slice of K"):
        ThreadblockSwizzle((5, 7, 3), batch=4)


@pytest.mark.parametrize("batch", [1, 3, 65535, 65536, 65537, 200000])
def test_i03_more_products_than_a_grid_has_blocks_along_z(batch):
    launch = batched_swizzle((5, 7), batch)
    assert launch.grid == (5, 7, min(batch, 65535))
    assert launch.log == 0
    assert launch.tile(4, 6, 0) == (4, 6, 0)
    found = [x for z in range(launch.grid[2]) for x in launch.batches(z)]
    assert sorted(found) == [*range(batch)]


def test_i04_slices_of_k_are_the_third_mode():
    launch = identity_swizzle((5, 7, 3), 8)
    assert launch.grid == (40, 1, 3)
    found, idle = tiles_of(launch)
    assert (sorted(found), idle) == (all_tiles(5, 7, 3), 15)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.sampled_from([1, 2, 4, 8]))
def test_every_tile_has_one_block(m, n, k, N):
    launch = identity_swizzle((m, n, k), N)
    assert launch.log == (
        3 if N >= 8 and n >= 6 else 2 if N >= 4 and n >= 3 else int(min(N, n) > 1)
    )
    found, idle = tiles_of(launch)
    assert sorted(found) == all_tiles(m, n, k)
    assert len(found) + idle == prod(launch.grid)


def sizes(K, slices, depth=0):
    """Return the sizes of parts that follow one another."""
    of = (lambda z: k_partition(K, depth, slices, z)) if depth else (
        lambda z: k_partition_by_floor(K, slices, z)
    )  # fmt: skip
    found, end = [], 0
    for z in range(slices):
        first, last = of(z)
        assert (first, end <= last) == (end, True)
        found.append(last - first)
        end = last
    assert end == K
    return found


def test_i08_slices_have_whole_tiles_and_may_be_empty():
    assert sizes(4096, 20, 8) == [208] * 19 + [144]
    assert sizes(4096, 20, 32) == [224] * 18 + [64, 0]


def test_i10_the_last_part_has_the_rest():
    assert sizes(4096, 20) == [204] * 19 + [220]


@given(st.integers(0, 5000), st.integers(1, 128), st.integers(1, 40))
def test_parts_of_k_follow_one_another(K, depth, slices):
    found = sizes(K, slices, depth)
    most = cute.ceil_div(cute.ceil_div(K, depth), slices) * depth
    full = [x for x in found if x == most]
    assert found[: len(full)] == full  # the whole ones first
    assert sum(x not in (0, most) for x in found) <= 1
    assert {*sizes(K, slices)[:-1]} <= {K // slices}


def test_parts_of_k_may_be_symbols():
    K = cute.sym("K")
    for k, z in product((1, 30, 64), range(4)):
        found = [cute.substitute(x, {"K": k}) for x in k_partition(K, 8, 4, z)]
        assert tuple(found) == k_partition(k, 8, 4, z)


def test_i13_defaults_of_single_threads():
    found = default_gemm_configuration("OpClassSimt")
    assert (found.tile, found.warp, found.instruction) == ((128, 128, 8), (32, 64, 8), (1, 1, 1))
    assert (found.stages, found.alignment("f32"), found.alignment("s8")) == (2, 1, 1)
    assert (found.warps, found.saturates("s8")) == ((4, 2, 1), False)


def test_i14_defaults_of_tensor_cores():
    found = default_gemm_configuration("OpClassTensorOp")
    assert (found.tile, found.warp, found.instruction) == (
        (128, 256, 32), (64, 64, 32), (16, 8, 8),
    )  # fmt: skip
    assert (found.stages, found.warps) == (2, (2, 4, 1))
    aligned = [found.alignment(x) for x in ("f16", "s8", "s4", "tf32", "f64")]
    assert aligned == [8, 16, 32, 4, 2]  # of A and of B by its own type
    clamped = [x for x in ("f16", "s8", "u8", "s4", "u4", "b1", "s32") if found.saturates(x)]
    assert clamped == ["s8", "u8", "s4", "u4"]
