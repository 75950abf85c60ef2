"""Convolutions on all GPUs: products whose operands are gathered, vector by vector, by cp.async.

fprop and dgrad gather rows of pixels along taps, wgrad rows of taps along pixels. A vector has
channels of one tap. So filters have any size, and vectors any width. The rest is `gemm`: the
configuration, the epilogue, batches, which are groups here, and K in parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import cute_py as cute
from cute_py import _
from cute_py.kernels.arrays import assume_words, require
from cute_py.kernels.config import MultistageConfig
from cute_py.kernels.convolution import ConvProblem, Lines, reference
from cute_py.kernels.epilogue import Epilogue, LinearCombination, given, product_kernel
from cute_py.kernels.gathered import Filters, Gathered, Images
from cute_py.kernels.gemm import BlockTiles, multiplied, sizes_of
from cute_py.kernels.gemm_split import multiplied_in_parts
from cute_py.kernels.scattered import Scattered, finish, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.tensor.tensor import Tensor

EACH = Lines(1, 1, 0, 1)  # line i is line i


class ConvTiles(BlockTiles):
    """What a block has: an operand that is no matrix is (array of a batch -> the array as it is
    gathered, the names of the parts of rows and of K), K.
    """

    def source(self, i: int, place: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        """Return the tiles of an operand, gathered if it is no matrix."""
        x: Any = (self.A, self.B)[i]
        if not isinstance(x, Source):
            return super().source(i, place)
        seen = x.seen(_of_batch(x.x, place[2]))
        of_rows, of_k = (getattr(seen, name) for name in x.parts)
        how, shared = self.how[i].g2s, self.shared[i]
        return Gathered(seen, of_rows, of_k, how, shared, place[i], x.K), None

    def finish(self, place: tuple[Any, Any, Any], acc: Tensor) -> None:
        """Write what the epilogue makes of the sums, where rows of D are anywhere if it is no
        matrix.
        """
        D, tile = self.outputs["D"], self.config.tile[:2]
        if cute.rank(D) < 4:
            super().finish(place, acc)
            return
        own = self.thr.partition_C(cute.make_identity_tensor(tile))  # (MMA,MMA_M,MMA_N)
        first = place[0] * tile[0], place[1] * tile[1]

        def part_of(x: Tensor) -> Scattered:
            seen = Images(_of_batch(x, place[2]), (EACH, EACH), D.shape[1:3])
            return Scattered(seen, own, first)

        arrays = terms(self.epilogue, self.thr, self.arrays, part_of, tile, place)
        finish(self.epilogue, self.thr, acc, arrays, part_of(D), self.numbers)


class Source(NamedTuple):
    """An operand that is gathered.

    Attributes:
        x: the array, perhaps of a batch.
        seen: from an array of one of the batch to `Images` or `Filters`.
        parts: the names of its parts of rows and of K.
        K: columns of all tiles.
    """

    x: Any
    seen: Callable[[Any], Any]
    parts: tuple[str, str]
    K: Any

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.x.dtype


def _of_batch(x: Tensor, batch: Any) -> Tensor:
    return x[_, _, _, _, batch] if cute.rank(x) > 4 else x


def _assumed(
    X: Tensor,
    extents: tuple[Any, Any],
    lines: tuple[Lines, Lines],
    pixels: Any,
    taps: Any,
    vector: int,
) -> None:
    """State how many pixels and taps there are, and that vectors have channels of one tap."""
    (P, Q), (of_h, of_w) = extents, lines
    cute.assume((X.shape[0] * P * Q == pixels) & (of_h.taps * of_w.taps * X.shape[3] == taps))
    cute.assume((pixels < 1 << 31) & (taps < 1 << 31))
    _assume_vectors("X", X, 3, vector)


def _assume_vectors(name: str, x: Tensor, mode: int, vector: int) -> None:
    """State that a mode is contiguous and made of whole vectors, of more than one element."""
    if vector == 1:
        return
    require(
        isinstance(x.stride[mode], int) and x.stride[mode] == 1,
        "conv_gathered",
        name,
        x.layout,
        f"an array that is contiguous along mode {mode}",
    )
    cute.assume(x.shape[mode] % vector == 0)


def _rows_of_pixels(
    X: Any,
    F: Any,
    terms: tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]],
    extents: tuple[Any, Any],
    lines: tuple[Lines, Lines],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> tuple[tuple[Any, Any, Any, Any], Callable[[], BlockTiles]]:
    """State the shapes of a product whose rows are pixels; return M, N, L and K, and what makes the
    tiles of a block.
    """
    (arrays, outputs, _numbers), D, (P, Q) = terms, terms[1]["D"], extents
    is_matrix, is_scattered = cute.rank(F) < 4, cute.rank(D) > 3
    of_f = "NE" if is_matrix else "NRSC"
    if is_scattered:
        _assume_scattered(X, F, of_f, arrays, D, epilogue)
        M, pixels = D.shape[0] * P * Q, D.shape[0] * D.shape[1] * D.shape[2]
        L = D.shape[4] if cute.rank(D) > 4 else 1
    else:
        assume_words([("BUVC", X), (of_f, F)], arrays, outputs, epilogue)
        (M, _N, L), pixels = sizes_of(D, 0), D.shape[0]
    K = lines[0].taps * lines[1].taps * X.shape[3]
    taps = F.shape[1] if is_matrix else F.shape[1] * F.shape[2] * F.shape[3]
    if isinstance(K, int):  # a class without taps, whose sums are 0
        taps = K
    _assumed(X, extents, lines, pixels, taps, config.a.vector)
    if not is_matrix:
        _assume_vectors("F", F, 3 if config.b.major == "K" else 0, config.b.vector)

    def make() -> BlockTiles:
        a: Any = Source(X, lambda x: Images(x, lines, extents), ("pixel", "tap"), K)
        b: Any = F if is_matrix else Source(F, Filters, ("row", "tap"), K)
        return ConvTiles(a, b, config, epilogue, terms)

    return (M, F.shape[0], L, K), make


def _assume_scattered(
    X: Tensor, F: Tensor, of_f: str, arrays: dict[str, Tensor], D: Tensor, epilogue: Epilogue
) -> None:
    """State the shapes where D has the modes of an image."""
    known = {"matrix": "BPQN", "row": "N"}
    rule = "an epilogue of matrices and rows, with one output"
    fits = set(epilogue.arrays) <= set(known) and epilogue.outputs == 1 and not epilogue.in_pairs
    require(fits, "conv_gathered", "epilogue", epilogue, rule)
    found = [("BUVC", X), (of_f, F), ("BPQN", D)]
    of_arrays = zip(epilogue.arrays, arrays.values(), strict=True)
    found += [(known[spread], x) for spread, x in of_arrays]
    many = cute.rank(D) > 4
    words = [word + "L" * (many and cute.rank(x) > len(word)) for word, x in found]
    cute.assume_shapes(" ".join(words), *[x for _word, x in found])


@product_kernel
def conv_gathered(
    X: Any,
    F: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    P: cute.s32,
    Q: cute.s32,
    lines: tuple[Lines, Lines],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> None:
    """Compute D (N*P*Q,K) = f(the convolution of X with F, *arrays, *numbers).

    Args:
        X: (N,H,W,C) or, of groups, (N,H,W,C,L), contiguous along C.
        F: (K,R*S*C) or (K,R,S,C), or of groups with a mode L.
        arrays: by name what the epilogue reads, as `gemm` takes it.
        outputs: by name D (N*P*Q,K) or (N*P*Q,K,L).
        numbers: those of the epilogue.
        P: lines of an image of the output.
        Q: columns of it.
        lines: which lines and columns of X these read.
        config: how it is computed.
        epilogue: f.

    """
    terms = given(arrays, epilogue, "conv_gathered"), outputs, numbers
    sizes, make = _rows_of_pixels(X, F, terms, (P, Q), lines, config, epilogue)
    multiplied(config, sizes[:3], make)


@product_kernel
def conv_gathered_split(
    X: Any,
    F: Any,
    partial: Any,
    flags: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    P: cute.s32,
    Q: cute.s32,
    lines: tuple[Lines, Lines],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> None:
    """Compute what `conv_gathered` does, with K in parts; `partial` and `flags` are those of
    `gemm_split`.
    """
    terms = given(arrays, epilogue, "conv_gathered_split"), outputs, numbers
    sizes, make = _rows_of_pixels(X, F, terms, (P, Q), lines, config, epilogue)
    multiplied_in_parts(config, sizes, (partial, flags), make)


@product_kernel
def conv_wgrad(
    Y: Any,
    X: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    P: cute.s32,
    Q: cute.s32,
    lines: tuple[Lines, Lines],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> None:
    """Compute D (K,R*S*C) = f(the products of Y with the pixels of X that it was made of).

    Args:
        Y: (K,N*P*Q) or, of groups, (K,N*P*Q,L), the gradient of the output.
        X: (N,H,W,C) or (N,H,W,C,L), contiguous along C.
        arrays: by name what the epilogue reads, as `gemm` takes it.
        outputs: by name D (K,R*S*C) or (K,R*S*C,L).
        numbers: those of the epilogue.
        P: lines of an image of the output.
        Q: columns of it.
        lines: which lines and columns of X these read.
        config: how it is computed.
        epilogue: f.

    """
    terms = given(arrays, epilogue, "conv_wgrad"), outputs, numbers
    sizes, make = _rows_of_filters(Y, X, terms, (P, Q), lines, config, epilogue)
    multiplied(config, sizes[:3], make)


@product_kernel
def conv_wgrad_split(
    Y: Any,
    X: Any,
    partial: Any,
    flags: Any,
    arrays: dict[str, Any],
    outputs: dict[str, Any],
    numbers: tuple[Any, ...],
    P: cute.s32,
    Q: cute.s32,
    lines: tuple[Lines, Lines],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> None:
    """Compute what `conv_wgrad` does, with the pixels in parts; `partial` and `flags` are those of
    `gemm_split`.
    """
    terms = given(arrays, epilogue, "conv_wgrad_split"), outputs, numbers
    sizes, make = _rows_of_filters(Y, X, terms, (P, Q), lines, config, epilogue)
    multiplied_in_parts(config, sizes, (partial, flags), make)


def _rows_of_filters(
    Y: Any,
    X: Any,
    terms: tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]],
    extents: tuple[Any, Any],
    lines: tuple[Lines, Lines],
    config: MultistageConfig,
    epilogue: Epilogue,
) -> tuple[tuple[Any, Any, Any, Any], Callable[[], BlockTiles]]:
    """State the shapes of wgrad; return M, N, L and K, and what makes the tiles of a block."""
    (arrays, outputs, _numbers), D = terms, terms[1]["D"]
    assume_words([("ME", Y), ("BUVC", X)], arrays, outputs, epilogue)
    _assumed(X, extents, lines, Y.shape[1], D.shape[1], config.b.vector)

    def make() -> BlockTiles:
        b: Any = Source(X, lambda x: Images(x, lines, extents), ("tap", "pixel"), Y.shape[1])
        return ConvTiles(Y, b, config, epilogue, terms)

    return (*sizes_of(D, D.shape[1]), Y.shape[1]), make


def check() -> None:
    """Convolve small integers, with padding, strides and dilation."""
    from cute_py.kernels.config import choose_config

    rng, conv = np.random.default_rng(0), ConvProblem((3, 3), (1, (0, 2)), (2, 1), (1, 2))
    x = rng.integers(-4, 5, (2, 9, 8, 24)).astype(np.float16)
    f = rng.integers(-4, 5, (40, 3, 3, 24)).astype(np.float16)
    P, Q = conv.extents(9, 8)
    d, wanted = np.full((2 * P * Q, 40), np.nan, np.float32), reference(x, f, conv)
    config = choose_config(len(d), 40, 216, "f16")
    rows, last = f.reshape(40, -1), LinearCombination()
    conv_gathered(x, rows, None, None, d, 1.0, 0.0, P, Q, conv.lines(), config, last)
    assert (d == wanted.reshape(d.shape)).all()


if __name__ == "__main__":
    check()
