"""Wordings: tiled MMAs and copies."""

from __future__ import annotations

from cute_py.errors import CoordinateError, LayoutError, LeafTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "tiled-permutation": (
        LayoutError,
        "{atom} with permutation {permutation} in {mode}",
        "a tile that is a multiple of the {atoms} elements of the atoms side by side",
        "use {atoms} or a multiple of it, or _ for exactly that",
    ),
    "tiled-holes": (
        LayoutError,
        "thread layout {layout}, which leaves out thread indices",
        "threads without holes, or holes that repeat evenly",
        "use 1, 2 or a multiple of 4 quad pairs; get_slice and partition_A work as it is",
    ),
    "tiled-overlap": (
        LayoutError,
        "atom layout {atoms}",
        "an atom layout that gives every atom its own threads",
        "leave the stride out for threads in order, or shrink the mode of stride 0",
    ),
    "tiled-rank": (
        LayoutError,
        "atom layout {layout} and permutation {permutation}",
        "at most three modes each: M, N and K",
        "group modes, or drop the ones beyond K",
    ),
    "partition-rank": (
        LayoutError,
        "{layout}",
        "at least the two modes of the operand: (M,K), (N,K) or (M,N), or the modes of the tiler",
        "append modes of extent 1, or group the others",
    ),
    "partition-divides": (
        LayoutError,
        "extent {extent} in {mode} for a tile of {tile}",
        "an extent that the tile divides",
        "pad it to {padded}, or tile it with local_tile and predicates first",
    ),
    "tiled-thread": (
        CoordinateError,
        "thread {thread} of {layout}",
        "one of the {threads} threads of the tiled operation",
        "launch as many threads as size() says, or leave the others out",
    ),
    "copy-atom": (
        LeafTypeError,
        "{value!r} ({type})",
        "a Copy_Atom: an instruction and the type of its values",
        "wrap the instruction: Copy_Atom(op, dtype)",
    ),
    "copy-threads": (
        LayoutError,
        "{threads} threads for {atom}, which needs {needed}",
        "a multiple of the threads of the copy atom",
        "use a thread layout of a multiple of {needed} threads",
    ),
    "copy-values": (
        LayoutError,
        "{values} values a thread for {atom}, which moves {needed}",
        "a multiple of the values that the copy atom moves per thread",
        "use a value layout of a multiple of {needed} values, or a narrower copy atom",
    ),
    "copy-codomain": (
        LayoutError,
        "thread-value layout {tv} and data {data}",
        "addresses that exist in the data layout",
        "shrink the thread-value layout, or extend the data layout",
    ),
}
