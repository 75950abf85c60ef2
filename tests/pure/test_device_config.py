"""Which tile a product gets on a GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.analysis import bank_conflicts
from cute_py.kernels.config import choose_config
from cute_py.ops.gemm_tiles import Asked, for_gpu, shared_bytes
from cute_py.ops.libraries import Gpu
from cute_py.ops.product import FLOATS

LARGE, SMALL = Gpu(232448, 132, (9, 0)), Gpu(101376, 84, (8, 6))
KINDS = (*FLOATS, "s8", "u8")
RESULTS = {"f64": "f64", "s8": "s32", "u8": "s32", "bf16": "bf16", "f16": "f16"}


def config_for(kind, M, N, K, alignment=16, gpu=LARGE, batch=1, majors=("K", "K"), result=None):
    chosen = choose_config(M, N, K, kind, majors, alignment)
    found = cute.dtype(result or RESULTS.get(kind, "f32"))
    return for_gpu(Asked(M, N, K, batch, chosen, cute.dtype(kind), found, gpu))


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        ("bf16", (8192, 8192, 8192), "tile=128x256x64 warps=2x4 stages=3"),
        ("bf16", (2048, 2048, 2048), "tile=128x256x64 warps=2x4 stages=3"),
        ("bf16", (5000, 5000, 5000), "tile=160x256x64 warps=2x4 stages=3"),
        ("bf16", (3072, 3072, 3072), "tile=160x256x64 warps=2x4 stages=3"),
        ("bf16", (4096, 11008, 4096), "tile=128x128x64 warps=2x2 stages=3"),
        ("bf16", (4096, 11008, 4104), "tile=128x256x64 warps=2x4 stages=3"),
        ("bf16", (1024, 1024, 1024), "tile=64x128x64 warps=2x2 stages=5"),
        ("bf16", (8192, 8192, 512), "tile=128x128x64 warps=2x2 stages=3"),
        ("f32", (4096, 4096, 4096), "tile=128x128x8 warps=16x8 stages=6"),
        ("f32", (1024, 1024, 1024), "tile=128x64x16 warps=16x8x2 stages=3"),
        ("f32", (512, 512, 512), "tile=64x64x32 warps=8x8x4 stages=3"),
        ("f64", (4096, 4096, 4096), "tile=128x128x16 warps=4x2 stages=3"),
        ("s8", (4096, 4096, 4096), "tile=128x128x128 warps=2x2 stages=3"),
        ("bf16", (40, 4096, 4096), "tile=64x128x32 warps=2x2 stages=4"),
    ],
)
def test_products_get_the_tiles_that_were_measured(kind, shape, expected):
    assert expected in str(config_for(kind, *shape))


@pytest.mark.parametrize("size", [4096, 1024, 512])
def test_neighbours_among_multiplying_threads_share_vectors(size):
    """Lanes i and i ^ 1 read the same rows of A, lanes i and i ^ 2 the same of B."""
    mma = config_for("f32", size, size, size).tiled_mma(along_k=True)
    for places, other in ((mma.get_layoutA_TV(), 1), (mma.get_layoutB_TV(), 2)):
        for warp in range(mma.size() // 32):
            lanes = [4 * places(32 * warp + lane, 0) for lane in range(32)]
            assert all(lanes[i] == lanes[i ^ other] for i in range(32))
            assert len(set(lanes)) == 8 // other
            assert bank_conflicts(lanes, bits=128).conflict_free


def test_doubles_get_the_instruction_of_the_chip():
    assert config_for("f64", 512, 512, 512).atom.startswith("SM90_16x8x8")
    assert config_for("f64", 512, 512, 512, gpu=SMALL).atom.startswith("SM80_8x8x4")


def test_a_batch_fills_the_gpu():
    assert config_for("bf16", 1024, 1024, 2048, batch=16).tile == (128, 256, 64)


@pytest.mark.parametrize(
    ("M", "band"),
    [(8192, 16), (4096, 16), (2048, 8), (4096 + 1024, 8), (4096 + 512, 4), (4096 + 640, 0)],
)
def test_blocks_of_several_waves_run_in_bands_that_leave_none_without_work(M, band):
    config = config_for("bf16", M, 16384, 4096)
    assert (config.tile, config.band) == ((128, 256, 64), band)


def test_blocks_of_one_wave_prefetch_and_have_no_bands():
    one, more = config_for("bf16", 2048, 2048, 2048), config_for("bf16", 4096, 4096, 4096)
    assert (one.band, one.prefetch, one.pdl, one.stmatrix) == (0, 2, 1, 1)
    assert (more.band, more.prefetch, more.pdl, more.stmatrix) == (16, 0, 1, 1)
    assert config_for("bf16", 2048, 2048, 2048, result="f32").stmatrix == 0
    old = config_for("bf16", 2048, 2048, 2048, gpu=SMALL, result="bf16")
    assert (old.prefetch, old.pdl, old.stmatrix) == (0, 0, 0)


def test_results_whose_rows_are_not_aligned_are_stored_as_far_as_they_are():
    assert [config_for("bf16", 256, n, 256).store for n in (256, 260, 258, 257)] == [8, 4, 2, 1]


@given(
    kind=st.sampled_from(KINDS),
    shape=st.tuples(*[st.integers(1, 20000)] * 3),
    alignment=st.sampled_from([1, 2, 4, 8, 16]),
    majors=st.tuples(*[st.sampled_from(["K", "MN"])] * 2),
    gpu=st.sampled_from([LARGE, SMALL]),
)
def test_a_configuration_fits_the_gpu_and_leaves_no_block_without_work(
    kind, shape, alignment, majors, gpu
):
    size = max(cute.dtype(kind).bits // 8, alignment)
    config = config_for(kind, *shape, alignment=size, gpu=gpu, majors=majors)
    result = cute.dtype(RESULTS.get(kind, "f32"))
    assert shared_bytes(config, cute.dtype(kind), result) <= gpu.smem
    tiles = -(-shape[0] // config.tile[0])
    assert config.band == 0 or tiles % config.band == 0
    assert config.store == 0 or shape[1] % config.store == 0
    assert (config.a.major, config.b.major) == majors
