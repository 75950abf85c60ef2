"""Wordings: leaves, shapes, strides, int tuples and coordinates."""

from __future__ import annotations

from cute_py.errors import CoordinateError, LayoutError, LeafTypeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "leaf-type": (
        LeafTypeError,
        "{value!r} ({type})",
        "integers (Python or NumPy) or symbols{also}; bool and float are not sizes",
        "pass an int; if the value comes from a division, use // or ceil_div",
    ),
    "extent-not-positive": (
        LayoutError,
        "extent {value} in mode {mode}",
        "extents of at least 1",
        "drop the mode, or give it extent 1 and stride 0",
    ),
    "not-congruent": (
        LayoutError,
        "shape {shape} with stride {stride}{at}",
        "shape and stride of the same profile",
        "nest the stride like the shape, or leave the stride out for a compact layout",
    ),
    "too-deep": (
        LayoutError,
        "a nest deeper than {limit} levels",
        "at most {limit} levels",
        "flatten the tuple, or group fewer modes",
    ),
    "not-a-layout": (
        LeafTypeError,
        "{value!r} ({type})",
        "a layout here",
        "build one with Layout(shape, stride)",
    ),
    "basis-path": (
        LeafTypeError,
        "path {path!r}",
        "mode indices: ints of at least 0",
        "E(1) is mode 1, E(1, 0) is mode 0 of mode 1",
    ),
    "mixed-strides": (
        LayoutError,
        "integer stride {value} beside coordinate strides {basis}",
        "strides that all lead to the same codomain",
        "give every mode a coordinate stride, or every mode an integer",
    ),
    "profile-mismatch": (
        LayoutError,
        "{a} facing {b}",
        "profiles that face each other, tuple to tuple of the same rank",
        "group or flatten one of them, or append modes of extent 1",
    ),
    "not-divisible": (
        LayoutError,
        "{a} and {b}",
        "one that divides the other",
        "round up with ceil_div, or pad {a} to a multiple of {b}",
    ),
    "coordinate-profile": (
        LayoutError,
        "coordinate {coord} for shape {shape}",
        "an index, or a tuple that nests like the shape or coarser",
        "pass one entry per mode; an integer may stand for a nested mode",
    ),
    "coordinate-range": (
        CoordinateError,
        "coordinate {coord} for shape {shape}: {value} in mode {mode}",
        "0 <= entry < {size}",
        "stay inside the shape, or use crd2idx, whose last mode runs on",
    ),
    "mode-range": (
        CoordinateError,
        "mode {mode} of {layout}",
        "a mode of rank {rank}: 0 to {last}",
        "count modes from 0; group_modes and flatten change the rank",
    ),
    "mode-list": (
        LeafTypeError,
        "{value!r} ({type})",
        "a list of mode indices",
        "write [0, 2] for modes 0 and 2",
    ),
    "mode-interval": (
        CoordinateError,
        "modes {begin} to {end} of {layout} (rank {rank})",
        "0 <= begin < end <= {rank}",
        "leave at least one mode in the interval",
    ),
    "rank-target": (
        LayoutError,
        "rank {rank} for {layout}, which has rank {has}",
        "a target rank of at least {has}",
        "group modes first, or ask for a larger rank",
    ),
}
