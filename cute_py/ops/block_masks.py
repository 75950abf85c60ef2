"""torch's `BlockMask` as the mask of `attention`: its function, and the diagonals that it sees.

A BlockMask has a function and lists of the blocks that are not empty by it. The lists are read on
the host once for each BlockMask, and compared with those that torch makes of the function: a mask
whose lists say something else would be another one. From the lists follow the diagonals, keys less
queries, between which anything is seen, and kernels read no tiles beyond them.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from cute_py.calls.torch_tensors import is_tensor
from cute_py.errors import refusal
from cute_py.layout.tuples import ceil_div

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FLEX = "torch.nn.attention.flex_attention"
JOINED = {"and_masks.<locals>.and_mask": True, "or_masks.<locals>.or_mask": False}
LISTS = ("kv_num_blocks", "kv_indices"), ("full_kv_num_blocks", "full_kv_indices")
_found: WeakKeyDictionary[Any, tuple[Any, Diagonals]] = WeakKeyDictionary()


class Diagonals(NamedTuple):
    """What kernels take of a BlockMask.

    Attributes:
        mask: f(b, h, i, j), or None where all is seen.
        first, last: the least and the greatest j - i of keys j that a query i may see.
    """

    mask: Callable[..., Any] | None
    first: int
    last: int

    def window(self, given: tuple[int, int], shift: int, sizes: tuple[int, int]) -> tuple[int, int]:
        """Return the part of a window that is seen.

        Args:
            given: how far before and behind key i + shift query i sees; -1: all.
            shift: the key that query 0 is next to.
            sizes: queries and keys.

        """
        left, right = given
        if self.first > 1 - sizes[0]:
            left = min(max(shift - self.first, 0), left if left >= 0 else sum(sizes))
        if self.last < sizes[1] - 1:
            right = min(max(self.last - shift, 0), right if right >= 0 else sum(sizes))
        return left, right


def is_block_mask(x: object) -> bool:
    """Return whether x is a BlockMask of torch."""
    module: Any = sys.modules.get(FLEX)
    return module is not None and isinstance(x, module.BlockMask)


def diagonals(given: Any, shape: tuple[int, int, int, int], operation: str) -> Diagonals:
    """Return what kernels take of a BlockMask for scores of a shape (B, H, M, N).

    Raises CuteError for one of other sizes, one whose function reads tensors, and one whose lists
    are not those of its function.
    """
    found = tuple(given.shape)
    if found[2:] != shape[2:] or not all(n in (1, m) for n, m in zip(found, shape, strict=True)):
        facts: dict[str, Any] = {"found": found, "shape": shape}
        raise refusal("attention-block-shape", operation=operation, **facts)
    now = [given.mask_mod, *[(x.data_ptr(), _version(x)) for x in _lists(given)]]
    known = _found.get(given)
    if known is None or known[0] != now:
        known = _found[given] = now, _read(given, operation)
    return known[1]


def _read(given: Any, operation: str) -> Diagonals:
    for function in _functions(given.mask_mod):
        for name, x in _captured(function):
            if is_tensor(x):
                raise refusal("attention-captured", operation=operation, name=name)
    (B, H, M, N), size = given.shape, given.BLOCK_SIZE
    made = sys.modules[FLEX].create_block_mask(
        given.mask_mod, B, H, M, N, given.kv_indices.device, size
    )
    (some, full), (seen, whole) = _blocks(given), _blocks(made)
    if some.shape != seen.shape or (seen & ~some).any() or (full & ~whole).any():
        raise refusal("attention-block-lists", operation=operation)
    rows, columns = some.any((0, 1)).nonzero()
    if len(rows) == 0:
        return Diagonals(_joined(given.mask_mod), 0, 0)
    ends = np.minimum((rows + 1) * size[0], M), np.minimum((columns + 1) * size[1], N)
    first = (columns * size[1] - ends[0] + 1).min()
    last = (ends[1] - 1 - rows * size[0]).max()
    return Diagonals(_joined(given.mask_mod), int(first), int(last))


def _lists(given: Any) -> list[Any]:
    return [x for pair in LISTS for name in pair if (x := getattr(given, name)) is not None]


def _version(x: Any) -> int:
    """Return how often a tensor was written; -1 where torch does not count."""
    return -1 if x.is_inference() else int(x._version)


def _blocks(given: Any) -> tuple[Any, Any]:
    """Return which blocks (B, H, rows, columns) are listed, and which as seen by all."""
    found: list[Any] = []
    columns = ceil_div(given.shape[3], given.BLOCK_SIZE[1])
    for names in LISTS:
        counts, indices = (getattr(given, name) for name in names)
        if counts is None:
            found.append(np.zeros_like(found[0]))
            continue
        counts, indices = counts.cpu().numpy(), indices.cpu().numpy()
        dense = np.zeros((*indices.shape[:-1], columns + 1), bool)
        listed = np.arange(indices.shape[-1]) < counts[..., None]
        places = np.where(listed, np.minimum(indices, columns), columns)
        np.put_along_axis(dense, places, True, -1)
        found.append(dense[..., :columns])
    some, full = found
    return some | full, full


def _functions(mask: Any) -> Iterator[Any]:
    """Yield the functions of the user that a mask consists of."""
    if (parts := _parts(mask)) is None:
        yield mask
    else:
        for part in parts:
            yield from _functions(part)


def _parts(mask: Any) -> tuple[Any, ...] | None:
    """Return the functions that torch's and_masks, or_masks and noop_mask join."""
    if getattr(mask, "__module__", None) != FLEX:
        return None
    if mask.__qualname__ == "noop_mask":
        return ()
    if mask.__qualname__ in JOINED:
        return tuple(mask.__closure__[0].cell_contents)
    return None


def _joined(mask: Any) -> Callable[..., Any] | None:
    """Return a function of registers: torch's own ask tensors for more than operators."""
    parts = _parts(mask)
    if parts is None:
        found: Callable[..., Any] = mask
        return found
    masks, every = [_joined(x) for x in parts], JOINED.get(mask.__qualname__, True)
    held = [x for x in masks if x is not None]
    if len(held) < len(masks) and not every:
        return None
    if len(held) < 2:
        return held[0] if held else None if every else _nothing

    def joined(b: Any, h: Any, i: Any, j: Any) -> Any:
        result = held[0](b, h, i, j)
        for x in held[1:]:
            result = result & x(b, h, i, j) if every else result | x(b, h, i, j)
        return result

    return joined


def _nothing(_b: Any, _h: Any, _i: Any, j: Any) -> Any:
    return j < 0


def _captured(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values that a function reads from outside, by their names."""
    if not isinstance(function, FunctionType):
        return
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
