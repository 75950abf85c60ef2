"""new here: weights of 4 bits, shuffled on the host into the order of the fragments.

A tile of W (BN,BK) and its scales are contiguous, and so are the 32 weights of a k-block that a
thread multiplies: cp.async and the loads of fragments move 16 bytes. A transform of the main loop
converts weights to floats, and multiplies them by the scales of their group of K. Blocks share K as
in `stream_k.py`, so that a few rows of A are multiplied at the bandwidth of the memory.

Source: Frantar et al., MARLIN (2024), arXiv 2408.11743 (the order of the weights).
"""

from __future__ import annotations

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.errors import refusal
from cute_py.kernels.arrays import require_kind
from cute_py.kernels.config import ATOMS, GemmConfig, MultistageConfig, Side
from cute_py.kernels.stream_k import assume_shared_sums, owned, shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.layout import Layout

CP_ASYNC = "SM80_CP_ASYNC_CACHEGLOBAL"
WORDS = {"f16": cute.u32, "bf16": cute.s32}  # the type of the words tells that of their scales
WIDTH = 64  # columns of D of a warp: a thread multiplies 32 weights of each k-block


def fragment_order(cfg: GemmConfig) -> tuple[Layout, Layout]:
    """Return where the weights (BN,BK) of a tile are, and the scales (BN) of its rows."""
    (_m, bN, bK), warps, atoms = cfg.tile, cfg.warps[1], WIDTH // 8
    if bN != warps * WIDTH:
        rule = f"{WIDTH} columns of a tile for each warp along N"
        raise refusal("gemm-config", operation="w4a16", config=cfg, rule=rule)
    columns = cute.Layout((2, 4, 2, bK // 16), (1, 32, 2, 1024 * warps))
    rows = cute.Layout((8, warps, atoms), (128, 1024, 4))
    return cute.make_layout(rows, columns), cute.Layout((8, warps, atoms), (8, 64, 1))


def shuffle_weights(w: Any, scales: Any, group: int, cfg: GemmConfig) -> Any:  # arrays of NumPy
    """Return the words (N/BN,K/BK,words) of all tiles: the weights, then the scales of the rows.
    Their type is that of `WORDS`.

    Args:
        w: weights (N,K), integers from -8 to 7.
        scales: of the type of A, (N,K/group).
        group: how many weights of a row have a scale in common, whole tiles.
        cfg: the configuration. Parts of tiles are filled with zeros.
    """
    (_m, bN, bK), found, kind = cfg.tile, [], cfg.tiled_mma(along_k=True).atom.a_type
    if group % bK or scales.dtype != kind.numpy:
        rule = f"scales of {kind}, and whole tiles of K in a group of {group}"
        raise refusal("gemm-config", operation="w4a16", config=cfg, rule=rule)
    pairs = (w, bK), (scales.repeat(group // bK, 1)[:, : -(-w.shape[1] // bK)], 1)
    for (x, width), order in zip(pairs, fragment_order(cfg), strict=True):
        x = np.pad(x, ((0, -len(x) % bN), (0, -x.shape[1] % width)))
        tiles = x.reshape(len(x) // bN, bN, -1, width).transpose(0, 2, 3, 1)
        places = np.argsort([order(i) for i in range(bN * width)])
        found.append(tiles.reshape(*tiles.shape[:2], -1).take(places, 2))
    words = cute.pack(found[0].ravel(), "s4", 32).reshape(*found[0].shape[:2], -1)
    return np.concatenate([words, found[1].view(np.uint32)], 2).view(WORDS[kind.name].numpy)


def require_shuffled(A: Any, W: Any, D: Any, partial: Any, flags: Any, cfg: GemmConfig) -> None:
    """State that W was shuffled for the tiles of a configuration, and the types and extents of A
    (M,K), D (M,N), sums and flags.
    """
    (_m, bN, bK), kind = cfg.tile, cfg.tiled_mma(along_k=True).atom.a_type
    assume_shared_sums("gemm_w4a16", cfg, "MK XYW MN", A, W, D, partial, flags)
    require_kind("gemm_w4a16", (kind.name,), A=A)
    if W.dtype != (wanted := WORDS[kind.name]):
        rule = f"words of {wanted}, those of shuffle_weights for {kind}: these are {W.dtype}"
        raise refusal("gemm-config", operation="w4a16", config=cfg, rule=rule)
    cute.assume(W.shape[0] == cute.ceil_div(D.shape[1], bN))
    cute.assume(W.shape[1] == cute.ceil_div(A.shape[1], bK))
    cute.assume(W.shape[2] == words_of(cfg))
    cute.assume_compact(W[0, 0, _])


def words_of(cfg: GemmConfig) -> int:
    """Return how many words a tile has: the weights, and the scales of its rows."""
    _m, bN, bK = cfg.tile
    return bN * bK // 8 + bN // 2


@cute.kernel
def gemm_w4a16(A: Any, W: Any, D: Any, partial: Any, flags: Any, cfg: MultistageConfig) -> None:
    """D (M,N) = A (M,K) * W transposed, of W from `shuffle_weights` with the same configuration.
    `partial` and `flags` are those of `gemm_stream_k`, for `choose_blocks` blocks.
    """
    (bM, bN, bK), of_a, mma = cfg.tile, cfg.operands()[0], cfg.tiled_mma(along_k=True)
    require_shuffled(A, W, D, partial, flags, cfg)
    cute.launch(flags.shape[0], cfg.threads, min_blocks=cfg.min_blocks, resident=True)
    thr, m = mma.get_slice(cute.thread_idx()), cute.ceil_div(A.shape[0], bM)
    words, pitch = words_of(cfg), 4 * cfg.threads
    pitch *= -(-words // pitch)  # of a stage
    copy = cute.suggest_tiled_copy((pitch, 1), W.dtype, cfg.threads, 0, 128, CP_ASYNC)
    sA, s2r = cute.smem(A.dtype, of_a.smem), cute.make_tiled_copy_A(of_a.s2r, mma)
    shared = cute.smem(W.dtype, cute.Layout((pitch, 1, cfg.stages)))
    order = cute.make_layout(*fragment_order(cfg)[0], cute.Layout(cfg.stages, 8 * pitch))
    sW = cute.make_tensor(cute.recast(shared, "s4").data, order)  # (BN,BK,stages)
    scales = cute.Layout((8, bN // 8, cfg.stages), (1, 8, 2 * pitch))
    sS = cute.make_tensor(cute.recast(shared, A.dtype).data.moved(bN * bK // 4), scales)
    held, mine = cute.rmem(A.dtype, 8), thr.thr_vmnk[0] // 4 + 8 * thr.thr_vmnk[2]

    def dequantized(a: Any, b: Any, at: Any) -> tuple[Any, Any]:
        if at.block == 0:
            cute.copy(sS[_, mine, at.stage], held)
        floats = b.to(A.dtype)
        for n in range(8):
            floats[_, n] *= cute.local_tile(held, (1,), (n,))
        return a, floats

    for tile, first, count, last in shares(m * W.shape[0], W.shape[1], flags.shape[0]):
        tCgD = thr.partition_C(cute.local_tile(D, (bM, bN), (tile % m, tile // m)))
        acc = thr.make_fragment_C(tCgD)  # (MMA,MMA_M,MMA_N)
        acc.fill(0)
        a = cute.Operand(cute.local_tile(A, (bM, bK), (tile % m, _)), sA, of_a.g2s, s2r)
        row = cute.Layout((words, first + count), (1, W.stride[1]))
        tiles = cute.make_tensor(W.data.moved(tile // m * W.stride[0]), row)
        b = cute.Operand(cute.Tiles(cute.local_tile(tiles, (pitch, 1), (0, _)), shared, copy), sW)
        cute.syncthreads()  # all have read the stages of the tile before
        cute.mainloop(mma, acc, a, b, first, count, transform=dequantized)
        with owned(mma, acc, (first, last), partial, flags):
            cute.copy(acc.to(D.dtype), tCgD)


def choose_tile(M: int, dtype: str = "bf16") -> GemmConfig:
    """Return a configuration for M rows; up to 16, warps share K, and K tiles are deep."""
    tile, warps = ((16, 128, 128), (1, 2, 4)) if M <= 16 else ((128, 128, 32), (2, 2))
    atom, side = ATOMS[dtype, dtype], Side("K", 8)
    return MultistageConfig(atom, tile, warps, 4, side, side, True, min_blocks=2)


def choose_blocks(cfg: GemmConfig, M: int, N: int, K: int, multiprocessors: int) -> int:
    """Return how many blocks share the tiles of K: one on each multiprocessor, or one for each of
    the tiles if there are fewer. Two would read no faster, and leave more sums for the owner of a
    tile of D to add, one after another.
    """
    bM, bN, bK = cfg.tile
    return min(multiprocessors, -(-M // bM) * -(-N // bN) * -(-K // bK))


def check() -> None:
    """Multiply small integers, with scales that are powers of two."""
    rng, group = np.random.default_rng(0), 128
    a, w = rng.integers(-4, 5, (10, 520)).astype(np.float16), rng.integers(-8, 8, (200, 520))
    scales = 2.0 ** rng.integers(-2, 3, (200, 5)).astype(np.float16)
    d, config = np.full((10, 200), np.nan, np.float32), choose_tile(10, "f16")
    words = shuffle_weights(w, scales, group, config)
    partial, flags = np.zeros((3, 16 * 128), np.float32), np.zeros(3, np.int32)
    gemm_w4a16(a, words, d, partial, flags, config)
    wanted = a.astype(np.float64) @ (w * scales.repeat(group, 1)[:, :520].astype(np.float64)).T
    assert (d == wanted).all()


if __name__ == "__main__":
    check()
