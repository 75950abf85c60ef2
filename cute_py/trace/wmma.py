"""`cute.Wmma`: products of a warp by the instructions of nvcuda::wmma, whose fragments are opaque.

PTX does not say which thread has which element of a fragment, so a fragment has no elements here:
it is loaded, multiplied, filled with one value, and stored. The emulator has an order of its own.
Source: PTX ISA, wmma.load, wmma.mma, wmma.store; cutlass/arch/wmma_sm70.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import f16, f32, u32
from cute_py.errors import refusal_here
from cute_py.integers import ints
from cute_py.layout.algebra.composition import composition
from cute_py.layout.layout import Layout
from cute_py.layout.queries import size
from cute_py.layout.tuples import _
from cute_py.plan import ops
from cute_py.tensor.tensor import Tensor, derived, require_tensor
from cute_py.trace.arithmetic import new_registers
from cute_py.trace.inline import inline_ptx
from cute_py.trace.lower import access, register, require_own
from cute_py.trace.runtime_integers import bare
from cute_py.trace.state import emit
from cute_py.trace.threads import lane_idx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
LANES = 32
WORDS = 8  # registers of a fragment of A or B


@dataclass(frozen=True, slots=True)
class WmmaFragment:
    """A fragment of a warp, in registers of its threads that nothing but `Wmma` reads.

    Attributes:
        of: the instructions that it belongs to.
        operand: "A", "B" or "C".
        major: "row" or "col", as it was loaded.
    """

    of: Wmma
    operand: str
    major: str
    _words: Tensor


@dataclass(frozen=True, slots=True)
class Wmma:
    """Products of f16 of a warp, D = A B^T + C, with opaque fragments.

    Args:
        shape: (M, N, K): (16, 16, 16), (32, 8, 16) or (8, 32, 16).
        sums: the type of C and D: f32 or f16.

    A, B and C are tensors (M, K), (N, K) and (M, N) in shared memory, with either mode contiguous,
    aligned to 32 bytes, whose lines are multiples of 16 bytes apart. All lanes of a warp call each
    method. Raises LayoutError for other shapes, types and tiles.

    >>> # in a kernel: w = cute.Wmma((16, 16, 16)); d = w.mma(w.load("A", sA), w.load("B", sB),
    >>> # w.fill(0)); w.store(d, sD)
    """

    shape: tuple[int, int, int] = SHAPES[0]
    sums: Any = f32

    def __post_init__(self) -> None:
        """Refuse what PTX does not have."""
        given: Any = self.shape
        object.__setattr__(self, "shape", tuple(given) if given.__class__ is list else given)
        object.__setattr__(self, "sums", as_dtype(self.sums))
        if self.shape not in SHAPES or self.sums not in (f16, f32):
            raise self._wrong(f"{self.shape} with sums of {self.sums}")

    def load(self, operand: str, tile: Tensor) -> WmmaFragment:
        """Load a tile as operand "A", "B" or "C"."""
        form, major, cells, first, step = self._placed(operand, tile)
        words = new_registers(*self._kind(operand))
        emit(ops.WmmaLoad, form, register(words, "Wmma.load"), cells, first, step)
        return WmmaFragment(self, operand, major, words)

    def store(self, fragment: WmmaFragment, tile: Tensor) -> None:
        """Store a fragment of sums to a tile (M, N)."""
        if fragment.of != self or fragment.operand != "C":
            raise self._wrong(f"operand {fragment.operand} to be stored")
        form, _major, cells, first, step = self._placed("C", tile)
        held = register(fragment._words, "Wmma.store")
        emit(ops.WmmaStore, form.replace("c.", "d.", 1), cells, first, step, held)

    def fill(self, value: float) -> WmmaFragment:
        """Return a fragment of sums that are all the same number."""
        (kind, n), total = self._kind("C"), new_registers(self.sums, 2)
        total.fill(value)
        words = new_registers(kind, n)
        if kind is f32:
            words.fill(value)
        else:
            pair = inline_ptx("mov.b32 %0, {%1, %2};", "u32", (total[0], total[1]), emulate=_pair)
            for i in range(n):
                words[i] = pair
        return WmmaFragment(self, "C", "row", words)

    def mma(self, a: WmmaFragment, b: WmmaFragment, c: WmmaFragment) -> WmmaFragment:
        """Return the fragment of A B^T + C."""
        if [x.operand for x in (a, b, c)] != ["A", "B", "C"] or any(
            x.of != self for x in (a, b, c)
        ):
            raise self._wrong("fragments in another order than A, B, C, or of others")
        kind, n = self._kind("C")
        counts = (n, WORDS, WORDS, n)
        starts = [sum(counts[:i]) for i in range(4)]
        fields = [
            "{" + ", ".join(f"%{start + i}" for i in range(count)) + "}"
            for start, count in zip(starts, counts, strict=True)
        ]
        name = f"wmma.mma.sync.aligned.{a.major}.{b.major}.{self._name}.{self.sums}.{self.sums}"
        inputs = tuple([x._words[i] for x in (a, b, c) for i in range(int(size(x._words)))])
        text = f"{name} {', '.join(fields)};"
        found = inline_ptx(text, (kind,) * n, inputs, emulate=_product(self.shape, kind is f32))
        words = new_registers(kind, n)
        for i, word in enumerate(found):
            words[i] = word
        return WmmaFragment(self, "C", "row", words)

    @property
    def _name(self) -> str:
        return "m{}n{}k{}".format(*self.shape)

    def _kind(self, operand: str) -> tuple[Any, int]:
        """Return the type and number of the registers of a fragment."""
        if operand != "C":
            return u32, WORDS
        return (f32, 8) if self.sums is f32 else (u32, 4)

    def _placed(self, operand: str, tile: Tensor) -> tuple[str, str, Any, Any, Any]:
        """Return form, major, elements of the thread, first element and step of a tile."""
        m, n, k = self.shape
        extents = {"A": (m, k), "B": (n, k), "C": (m, n)}.get(operand)
        found = require_tensor(tile, "Wmma")
        require_own(found, "Wmma", "copy it to the block's own shared memory")
        layout = found.layout
        if found.space != "smem":
            raise self._wrong(f"operand {operand} in {found.space}")
        wanted = self.sums if operand == "C" else f16
        if (
            extents is None
            or extents != layout.shape
            or found.dtype is not wanted
            or layout.__class__ is not Layout
        ):
            raise self._wrong(f"operand {operand} of {found.dtype}, {layout}")
        down, across = layout.stride
        by_row = ints.same(across, 1) is True
        step = down if by_row else across
        if not by_row and ints.same(down, 1) is not True:
            raise self._wrong(f"operand {operand} in {layout}")
        if ints.divides(128 // found.dtype.bits, step) is not True:
            raise self._wrong(f"lines {step} elements apart")
        major = "row" if by_row == (operand != "B") else "col"
        rows, columns = extents
        thread = composition(found, _cells(rows, columns, operand == "C"))[lane_idx(), _]
        cells = access(thread, 1, "Wmma")
        first = access(derived(found.engine.moved(layout(0)), Layout(1)), 1, "Wmma")
        form = f"{operand.lower()}.sync.aligned.{major}.{self._name}"
        return form, major, cells, first, bare(step)

    def _wrong(self, what: str) -> Exception:
        return refusal_here("wmma-fragment", operation="cute.Wmma", what=what, shape=self.shape)


def _cells(rows: int, columns: int, shared: bool) -> Layout:
    """Return the emulator's (lane, value) -> row + rows * column. Of A and B, lanes past the rows
    repeat them, each with all columns; of C they share the columns.
    """
    others = LANES // rows
    if not shared:
        return Layout(((rows, others), columns), ((1, 0), rows))
    each = columns // others
    return Layout(((rows, others), each), ((1, rows * each), rows))


def _pair(low: Any, high: Any) -> Any:
    """Return two f16 as a word: arrays of the emulator."""
    return low.view("uint16").astype("uint32") | high.view("uint16").astype("uint32") << 16


def _product(shape: tuple[int, int, int], wide: bool) -> Callable[..., Any]:
    """Return the product of fragments in the emulator's order: each sum is rounded once."""
    m, n, _k = shape

    def product(*words: Any) -> Any:
        def joined(part: Any, kind: str) -> Any:  # [warp, lane, value]
            first = part[0]
            held = first[..., None].repeat(len(part), -1)
            for i, word in enumerate(part):
                held[..., i] = word
            return held.view(kind)

        a, b = joined(words[:8], "float16"), joined(words[8:16], "float16")
        c = joined(words[16:], "float32" if wide else "float16")
        warps = c.shape[0]
        left, right = (x.astype("float64") for x in (a[:, :m], b[:, :n]))
        sums = c.reshape(warps, LANES // m, m, -1).swapaxes(1, 2).reshape(warps, m, n)
        total = (left @ right.swapaxes(1, 2) + sums).astype(c.dtype)
        back = total.reshape(warps, m, LANES // m, -1).swapaxes(1, 2).reshape(warps, LANES, -1)
        found = back.copy().view("float32" if wide else "uint32")
        return tuple([found[..., i].copy() for i in range(found.shape[-1])])

    return product
