"""The gallery of the explorer: named patterns of memory, each with its explanation."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHUNKS = (
    "Elements of 16 bits. The eight chunks of 16 bytes above each other are in different banks of "
    "shared memory, so that ldmatrix, or wgmma, reads them at once. {}"
)

# name -> the state, and what it shows
PATTERNS: dict[str, tuple[dict[str, Any], str]] = {
    "row-major": (
        {"e": "row_major((8,8))"},
        "The elements of a row follow each other, as in C: row i, column j is at 8*i + j.",
    ),
    "column-major": (
        {"e": "column_major((8,8))"},
        "The elements of a column follow each other, as in BLAS: row i, column j is at i + 8*j.",
    ),
    "padded rows": (
        {"e": "row_major((8,32),ldm=33)", "by": "bank", "bits": 32},
        "Behind each row is an element that is not used. The rows begin in different banks, and so "
        "the elements of a column, of 32 bits, are in different banks.",
    ),
    "row-major, interleaved": (
        {"e": "row_major_interleaved((8,8),4)"},
        "Groups of four rows. In a group the four elements of a column follow each other: row i, "
        "column j is at 32*(i//4) + 4*j + i%4.",
    ),
    "column-major, interleaved": (
        {"e": "column_major_interleaved((8,8),4)"},
        "Groups of four columns. In a group the four elements of a row follow each other: row i, "
        "column j is at 32*(j//4) + 4*i + j%4.",
    ),
    "128 bytes, no swizzle": (
        {"e": "(8,64):(64,1)", "by": "bank"},
        "Rows of 128 bytes: 64 elements of 16 bits. Elements above each other are in one bank: "
        "eight rows of a column are read one after the other.",
    ),
    "swizzle of 32 bytes": (
        {"e": "composition(Sw<1,3,3>,(8,16):(16,1))", "by": "bank"},
        _CHUNKS.format("The place of a chunk in its row of two is XORed with row//4."),
    ),
    "swizzle of 64 bytes": (
        {"e": "composition(Sw<2,3,3>,(8,32):(32,1))", "by": "bank"},
        _CHUNKS.format("The place of a chunk in its row of four is XORed with row//2."),
    ),
    "swizzle of 128 bytes": (
        {"e": "composition(Sw<3,3,3>,(8,64):(64,1))", "by": "bank"},
        _CHUNKS.format("The place of a chunk in its row of eight is XORed with the row."),
    ),
    "TMA box": (
        {"e": "(16,64):(64,1)"},
        "What one TMA load puts into shared memory without a swizzle: a box of 16 rows of 64 "
        "elements of 16 bits, row after row.",
    ),
    "TMA boxes, swizzled": (
        {"e": "tile_to_shape(composition(Sw<3,3,3>,(8,64):(64,1)),(16,128))", "by": "bank"},
        "A tile of 16 by 128 elements of 16 bits. With a swizzle of 128 bytes, the rows of a box "
        "have at most 128 bytes, so that the tile is two boxes of 16 by 64, 1024 elements apart.",
    ),
    "multiplicand, crosswise": (
        {"e": "row_major_tensor_op_multiplicand_crosswise(16,32,8,32)", "by": "bank"},
        "An operand of tensor cores in CUTLASS 2.x whose K, the columns, is contiguous. "
        + _CHUNKS.format("It is the swizzle of 64 bytes."),
    ),
    "multiplicand, congruous": (
        {"e": "column_major_tensor_op_multiplicand_congruous(16,64,64,8)", "by": "bank"},
        "An operand of tensor cores in CUTLASS 2.x whose M, the rows, is contiguous: the swizzle "
        "of 128 bytes, transposed. ldmatrix.trans reads the same eight rows of eight columns.",
    ),
    "im2col": (
        {"e": "((4,4),(2,3,3)):((2,12),(1,2,12))"},
        "A convolution as a matrix product that copies nothing. Rows are the output pixels (q,p) "
        "of a 6 by 6 image with 2 channels (NHWC), columns the channel and place (c,s,r) under a 3 "
        "by 3 filter: image element (p+r, q+s, c). An element is in up to nine rows.",
    ),
}


def explanation(text: str) -> str:
    """Return what the pattern of an expression shows, "" for any other expression.

    >>> explanation("row_major((8,8))")[:50]
    'The elements of a row follow each other, as in C: '
    """
    return next((says for state, says in PATTERNS.values() if state["e"] == text), "")
