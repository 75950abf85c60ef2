"""The static part of a tensor map: box, swizzle mode, strides, coordinates."""

import itertools
import pickle
from math import prod

import pytest

import cute_py as cute
from cute_py.atoms.copy_sm90 import SM90_TMA_LOAD, SM90_TMA_LOAD_MULTICAST, SM90_TMA_STORE
from cute_py.atoms.gmma import SWIZZLES, byte_swizzle, gmma_layout_atom
from cute_py.atoms.tma import make_tma_atom
from tests.sampling import pairwise, quick

K_MAJOR = cute.Layout((512, 256), (256, 1))
MN_MAJOR = cute.Layout((512, 256), (1, 512))


def smem(major, swizzle, bits, shape, *order):
    return cute.tile_to_shape(gmma_layout_atom(major, swizzle, bits), shape, *order)


def plain(layout):
    return getattr(layout, "inner", layout)


def tensor_map_moves(atom, gmem):
    """Return what a tensor map with this box moves from the origin: offset in shared memory ->
    offset in the tensor (elements). Hardware fills the box row by row and swizzles byte addresses.
    """
    size = atom.dtype.bits // 8
    swizzle = byte_swizzle(atom.smem_layout, atom.dtype)
    steps = [1, *(stride // size for stride in atom.strides)]
    moved = {}
    for i, box in enumerate(itertools.product(*map(range, reversed(atom.box)))):
        offset = sum(c * step for c, step in zip(reversed(box), steps, strict=True))
        moved[swizzle(i * size) // size] = offset
    return moved


AXES = ("K", "MN"), SWIZZLES, (8, 16, 32), ((1, 2), (2, 1))


@pytest.mark.parametrize(("major", "swizzle", "bits", "order"), quick(pairwise(*AXES), *AXES))
def test_box_lands_where_the_shared_memory_layout_says(major, swizzle, bits, order):
    gmem = K_MAJOR if major == "K" else MN_MAJOR
    tile = (32, 128) if major == "K" else (128, 32)
    layout = smem(major, swizzle, bits, tile, order)
    atom = make_tma_atom(SM90_TMA_LOAD, gmem, layout, bits)
    moved = tensor_map_moves(atom, gmem)
    wanted = {
        layout(m, k): gmem(m, k)
        for m, k in itertools.product(*map(range, tile))
        if plain(layout)(m, k) < prod(atom.box)
    }
    assert moved == wanted
    assert atom.copy_atom.num_values == prod(atom.box)


@pytest.mark.parametrize(
    ("swizzle", "box", "mode", "alignment"),
    [
        ("INTER", (8, 128), "NONE", 128),
        ("SW32", (16, 128), "32B", 256),
        ("SW64", (32, 128), "64B", 512),
        ("SW128", (64, 128), "128B", 1024),
    ],
)
def test_box_of_a_k_major_f16_tile(swizzle, box, mode, alignment):
    atom = make_tma_atom("SM90_TMA_LOAD", K_MAJOR, smem("K", swizzle, 16, (128, 64)), "f16")
    assert (atom.box, atom.swizzle_mode, atom.smem_alignment) == (box, mode, alignment)
    assert str(atom.op) == f"SM90_TMA_LOAD_2D<{prod(box) * 16}>"
    assert atom.strides == (512,)


def test_tf32_tile_of_a_batched_tensor_is_as_cutlass_prints_it():
    """Cutlass, examples, dense_gemm MLIR: copy_bits = 131072, tma_gbasis (32,128,1):(1@1,1@0,1@2),
    coordinates (?,?,?):(1@1,1@0,1@2).
    """
    gmem = cute.Layout((512, 256, 4), (256, 1, 512 * 256))
    atom = make_tma_atom(SM90_TMA_LOAD, gmem, smem("K", "SW128", 32, (128, 32)), "tf32")
    assert atom.op.args == (131072,)
    assert (atom.box, atom.modes) == ((32, 128, 1), ((1,), (0,), (2,)))
    assert str(atom.coordinates) == "(512,256,4):(1@1,1@0,1@2)"
    assert atom.rank == 3


def test_coordinates_count_elements_innermost_first():
    atom = make_tma_atom(SM90_TMA_STORE, K_MAJOR, smem("K", "SW128", 16, (128, 64)), "bf16")
    assert atom.coordinates(3, 5) == (5, 3)


def test_sizes_and_strides_may_be_symbols():
    m, k = cute.sym("M"), cute.sym("K", multiple_of=8)
    gmem = cute.Layout((m, k), (k, 1))
    atom = make_tma_atom(SM90_TMA_LOAD, gmem, smem("K", "SW128", 16, (128, 64)), "f16")
    assert atom.box == (64, 128)
    assert atom.coordinates.stride == (cute.E(1), cute.E(0))
    n = cute.sym("N")
    with pytest.raises(cute.UndecidedError):
        refused(cute.Layout((m, n), (n, 1)))


@pytest.mark.parametrize(("ctas", "box"), [(1, (64, 128)), (2, (64, 64)), (256, (32, 1))])
def test_multicast_splits_the_outer_dimensions_first(ctas, box):
    layout = smem("K", "SW128", 16, (128, 64))
    atom = make_tma_atom(SM90_TMA_LOAD_MULTICAST, K_MAJOR, layout, "f16", multicast=ctas)
    assert atom.box == box
    assert prod(atom.box) * ctas * 16 == atom.op.args[0] == 131072


def test_modes_of_one_element_or_stride_0_are_left_out():
    gmem = cute.Layout((512, 256, 1, 7), (256, 1, 0, 0))
    atom = make_tma_atom(SM90_TMA_LOAD, gmem, smem("K", "SW128", 16, (128, 64)), "f16")
    assert (atom.rank, str(atom.coordinates)) == (2, "(512,256,1,7):(1@1,1@0,0,0)")


def test_tma_atom_is_a_value():
    atom = make_tma_atom(SM90_TMA_LOAD, K_MAJOR, smem("K", "SW128", 16, (128, 64)), "f16")
    assert pickle.loads(pickle.dumps(atom)) == atom
    assert hash(pickle.loads(pickle.dumps(atom))) == hash(atom)
    with pytest.raises(AttributeError):
        atom.box = (1, 1)


# -- refusals

TILE = smem("K", "SW128", 16, (128, 64))


def refused(gmem=K_MAJOR, layout=TILE, dtype="f16", **named):
    return make_tma_atom(named.pop("op", SM90_TMA_LOAD), gmem, layout, dtype, **named)


@pytest.mark.parametrize("rank", [0, 6, 2.0, True])
def test_rank_that_tma_does_not_have_is_refused(rank):
    with pytest.raises(
        cute.LayoutError, match=rf"given {rank} dimensions; required: 1 to 5; fix: m"
    ):
        SM90_TMA_LOAD(128, rank)
