"""torch's BlockMask as the mask of `cute.ops.attention`, on the emulator."""

import pytest

import cute_py as cute
from cute_py.ops import attention
from cute_py.ops.block_masks import diagonals

torch = pytest.importorskip("torch")
from torch.nn.attention.flex_attention import (  # noqa: E402
    BlockMask,
    and_masks,
    create_block_mask,
    flex_attention,
    noop_mask,
    or_masks,
)

pytestmark = pytest.mark.filterwarnings("ignore")
M, N = 70, 130


def causal(b, h, i, j):
    return i >= j


def near(b, h, i, j):
    return (i - j <= 8) & (abs(j - i) < 6)


def by_head(b, h, i, j):
    return ((i + j) % 3 != 0) | (h == 1)


def documents(b, h, i, j):
    return i // 20 == j // 20


def never(b, h, i, j):
    return j < 0


MASKS = {
    "causal": causal,
    "near": near,
    "by head": by_head,
    "documents": documents,
    "both": and_masks(causal, documents),
    "one": or_masks(near, and_masks(causal, by_head), noop_mask),
    "either": or_masks(near, by_head),
    "none": or_masks(),
    "all": and_masks(),
    "never": never,
}


def drawn(seed=0, queries=M, keys=N):
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 2, n, 8, generator=made) for n in (queries, keys, keys)]


def masked(function, size=16, heads=2, queries=M, keys=N):
    return create_block_mask(function, None, heads, queries, keys, "cpu", BLOCK_SIZE=size)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[] if x == "one" else pytest.mark.slow) for x in MASKS]
)
def test_results_are_those_of_flex_attention(name):
    given = drawn()
    mask = masked(MASKS[name], (16, 32))
    found = attention(*given, layout="BHMK", mask=mask)
    assert torch.allclose(found, flex_attention(*given, block_mask=mask), atol=1e-5)


@pytest.mark.slow
def test_other_options_hold_next_to_it():
    """A window on top of it, counted from the last keys or from the first ones."""
    q, k, v = drawn()
    i, j = torch.arange(M)[:, None], torch.arange(N)
    for way, shift in ((False, N - M), ("top_left", 0)):
        window = (20, 3) if way is False else (20, -1)
        seen = (j >= i + shift - 20) & (j <= i + shift + (0 if way else 3)) & (i >= j)
        named = {"layout": "BHMK", "causal": way, "window": window}
        found = attention(q, k, v, mask=masked(causal), **named)
        assert torch.allclose(found, attention(q, k, v, layout="BHMK", bias=seen), atol=1e-5)


BANDS = [(near, (-31, 31)), (causal, (1 - N, 15)), (by_head, (1 - N, N - 1))]


@pytest.mark.parametrize(("function", "band"), BANDS)
def test_diagonals_are_those_of_the_listed_blocks(function, band):
    found = diagonals(masked(function, queries=N), (1, 2, N, N), "attention")
    assert found == (function, *band)
    assert found.window((-1, -1), 0, (N, N)) == (
        -1 if band[0] == 1 - N else -band[0],
        -1 if band[1] == N - 1 else band[1],
    )
    assert found.window((7, 7), 0, (N, N)) == (7, min(7, band[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("function", "band"), BANDS)
def test_tiles_beyond_the_listed_diagonals_are_not_read(function, band):
    """A weight of 0 times NaN would be NaN."""
    q, k, v = drawn(0, N, N)
    mask = masked(function, queries=N)
    tile, i = 32, torch.arange(N)
    for keys in (slice(0, tile), slice(96, N)):
        held = v.clone()
        held[:, :, keys] = torch.nan
        found = attention(q, k, held, layout="BHMK", mask=mask, config="family=rows")
        ends = i // 4 * 4, i // 4 * 4 + 3  # the first and the last query of a block
        far = (keys.stop - 1 - ends[0] < band[0]) | (keys.start - ends[1] > band[1])
        assert torch.isfinite(found[:, :, far]).all()
        assert far.any() or function is not near


def test_lists_that_change_are_read_again():
    given, mask = drawn(), masked(causal)
    assert diagonals(mask, (1, 2, M, N), "attention").last == 15
    mask.kv_num_blocks[:, :, 2] = 0  # queries 32 to 47 would see nothing
    with pytest.raises(cute.CuteError) as caught:
        attention(*given, layout="BHMK", mask=mask)
    assert caught.value.code == "attention-block-lists"


def test_lists_that_are_not_those_of_the_function_are_an_error():
    one = torch.ones(1, 1, 1, dtype=torch.int32)
    lists = BlockMask.from_kv_blocks(one, one[..., None] * 0, BLOCK_SIZE=64, seq_lengths=(64, 128))
    with pytest.raises(cute.CuteError, match="create_block_mask") as caught:
        attention(*drawn(0, 64, 128), layout="BHMK", mask=lists)
    assert caught.value.code == "attention-block-lists"


def test_functions_that_read_tensors_are_an_error():
    numbers = torch.arange(N) // 20

    def same(b, h, i, j):
        return numbers[i] == numbers[j]

    for function in (same, and_masks(causal, same)):
        with pytest.raises(cute.CuteError, match="'numbers'") as caught:
            attention(*drawn(), layout="BHMK", mask=masked(function))
        assert caught.value.code == "attention-captured"


def test_masks_of_other_sizes_are_an_error():
    for mask in (masked(causal, queries=M + 1), masked(causal, heads=3)):
        with pytest.raises(cute.CuteError, match="BlockMask of") as caught:
            attention(*drawn(), layout="BHMK", mask=mask)
        assert caught.value.code == "attention-block-shape"
