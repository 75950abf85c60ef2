"""The options of the convolutions: from the arguments of a request to a `ConvProblem`."""

from __future__ import annotations

from inspect import Parameter, signature
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.errors import refusal
from cute_py.kernels.convolution import ConvProblem, Sizes
from cute_py.layout.tuples import ceil_div
from cute_py.ops.operands import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.errors import CuteError

    Pair = tuple[int, int]

LAYOUTS = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 2, 3, 1)}  # the user's modes as (N,H,W,C)
BACK = {"NHWC": (0, 1, 2, 3), "NCHW": (0, 3, 1, 2)}
MODES = ("cross_correlation", "convolution")
MOST = 1 << 31  # pixels, and taps
TERMS = ("c", "bias", "alpha", "beta")  # what an epilogue may read
PADDING = "a whole number, one along H and one along W, ((top, bottom), (left, right)), "


def is_whole(x: object) -> bool:
    """Return whether a value is a whole number, or a symbol of torch for one."""
    if isinstance(x, (int, np.integer)):
        return not isinstance(x, bool)
    return type(x).__name__ == "SymInt"


def wrong(operation: str, name: str, value: object, rule: str) -> CuteError:
    """Return the refusal of an argument."""
    facts: dict[str, Any] = {"name": name, "value": value, "rule": rule}
    return refusal("conv-option", operation=operation, **facts)


def convolution(
    request: Any, x: tuple[int, ...], w: tuple[int, ...], operation: str
) -> ConvProblem:
    """Return the convolution that a request asks for.

    Args:
        request: its arguments.
        x: the shape of the images as (N,H,W,C).
        w: that of the filters as (K,R,S,C/groups).
        operation: the operator, for error messages.

    """
    (N, H, W, C), (K, R, S, own), groups = x, w, request.groups
    if not is_whole(groups) or groups < 1:
        raise wrong(operation, "groups", groups, "a whole number of at least 1")
    if C % groups or K % groups or 0 in (C, K, R, S):
        facts: dict[str, Any] = {"channels": C, "filters": f"{K} filters of {R}x{S}"}
        raise refusal("conv-groups", operation=operation, groups=groups, **facts)
    if own != C // groups:
        order = BACK[request.layout]
        found, wanted = (shown([n[i] for i in order]) for n in (w, (K, R, S, C // groups)))
        facts = {"name": "filters", "shape": found, "wanted": wanted}
        raise refusal("ops-shape", operation=operation, hint="; groups divide channels", **facts)
    stride, dilation = (_pair(request, name, operation) for name in ("stride", "dilation"))
    pads = _padding(request.padding, ((H, W), (R, S), stride, dilation), operation)
    flip = request.mode == "convolution"
    made = ConvProblem((R, S), pads, stride, dilation, int(groups), flip, Sizes(N, H, W, C, K))
    if min(H, W, *made.extents(H, W)) < 1:
        facts = {"image": shown((H, W)), "problem": made.without_sizes}
        raise refusal("conv-extent", operation=operation, **facts)
    if max(N * made.P * made.Q, N * H * W, R * S * max(C, K)) >= MOST:
        raise wrong(operation, "x", f"{N * H * W} pixels", f"fewer than {MOST} pixels and taps")
    return made


def _pair(request: Any, name: str, operation: str) -> Pair:
    """Return numbers along H and along W."""
    found = getattr(request, name)
    pair = found if isinstance(found, (tuple, list)) else (found, found)
    if len(pair) != 2 or not all(map(is_whole, pair)):
        raise wrong(operation, name, found, "a whole number, or one along H and one along W")
    return int(pair[0]), int(pair[1])


def _padding(given: Any, axes: Sequence[Sequence[int]], operation: str) -> tuple[Pair, Pair]:
    """Return ((top, bottom), (left, right)); `axes`: extents of images and of filters, strides and
    dilations, each along H and along W.
    """
    if isinstance(given, str) and given in ("same", "valid"):
        along_h, along_w = (
            _same(*x) if given == "same" else (0, 0) for x in zip(*axes, strict=True)
        )
        return along_h, along_w
    pair = given if isinstance(given, (tuple, list)) else (given, given)
    both = [x if isinstance(x, (tuple, list)) else (x, x) for x in pair]
    if len(both) != 2 or not all(len(x) == 2 and all(map(is_whole, x)) for x in both):
        raise wrong(operation, "padding", given, f"{PADDING}'same' or 'valid'")
    (top, bottom), (left, right) = both
    return (int(top), int(bottom)), (int(left), int(right))


def _same(extent: int, taps: int, stride: int, dilation: int) -> Pair:
    """Return the padding with which the output has ceil(extent / stride) lines, the odd one behind,
    as TensorFlow has it; with stride 1 it is torch's.
    """
    lines = ceil_div(extent, max(stride, 1))
    total = max((lines - 1) * stride + dilation * (taps - 1) + 1 - extent, 0)
    return total // 2, total - total // 2


def extents(request: Any, name: str, operation: str) -> tuple[int, ...]:
    """Return a shape that is an argument, as (N,H,W,C)."""
    found = getattr(request, name)
    fits = isinstance(found, (tuple, list)) and len(found) == 4 and all(map(is_whole, found))
    if not fits or min(found) < 0:
        raise wrong(operation, name, found, f"four extents, {request.layout} or those of filters")
    return tuple([found[i] for i in LAYOUTS[request.layout]])


def parameters_of(function: Any) -> tuple[str, ...] | None:
    """Return the names of what an epilogue reads; None for what is none."""
    if type(function) is not FunctionType:
        return None
    found = list(signature(function).parameters.values())
    either = {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
    if not found or any(x.kind not in either or x.name not in TERMS for x in found[1:]):
        return None
    return tuple([x.name for x in found[1:]])


def request_function(request: Any) -> Any:
    """Return the function of the user that is the epilogue; None: there is none."""
    return getattr(request, "epilogue", None)
