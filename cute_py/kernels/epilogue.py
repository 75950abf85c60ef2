"""What happens to the sums of a GEMM on their way to D and other outputs: a function of registers.

`Epilogue` is such a function, traced, and how its arrays are spread over D. `linear_combination`
makes the usual ones: scaled, added, activated. The kernels call `finished`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass
from functools import lru_cache
from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.kernels.activations import ACTIVATIONS, SPECIAL
from cute_py.plan.formula import Formula, Later
from cute_py.trace.formulas import formula, replayed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.layout.layout import Layout
    from cute_py.tensor.tensor import Tensor

SPREADS = ("matrix", "row", "column", "one")  # how an array is spread over D: as (M,N) ... ()


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What happens to the sums, element by element; each step rounds.

    Attributes:
        formula: of the sums, the arrays and the numbers, in this order; its results are the
            elements of D, then those of other outputs.
        arrays: for each array how it is spread over D, one of `SPREADS`.
        activation: the price of what is no linear combination, or of all of a user's function.
    """

    formula: Formula
    arrays: tuple[str, ...] = ()
    activation: int = field(default=0, compare=False)

    @property
    def compute(self) -> str:
        """The type of the steps: f32, f64 or s32."""
        return self.formula.dtype.name

    @property
    def is_plain(self) -> bool:
        """Whether D gets the sums as they are."""
        return not self.formula.steps and len(self.formula.results) == 1

    @property
    def source(self) -> bool:
        """Whether arrays are read that have an element for each of D."""
        return "matrix" in self.arrays

    @property
    def outputs(self) -> int:
        """How many arrays are written."""
        return len(self.formula.results)

    @property
    def is_light(self) -> bool:
        """Whether it takes little more than the time of a linear combination."""
        return self.activation < SPECIAL

    @property
    def is_in_place(self) -> bool:
        """Whether an element needs few registers next to its sum; those of a row are read for
        all.
        """
        if self.source or self.outputs > 1:
            return False
        if not self.activation:
            return True
        return self.is_light or (self.compute == "f32" and self.formula.holds(1) == 1)


@lru_cache(maxsize=512)
def linear_combination(
    compute: str = "f32",
    alpha: bool = False,
    source: bool = False,
    bias: bool = False,
    activation: str | None = None,
) -> Epilogue:
    """Return the epilogue activation(alpha * sums + beta * C + bias).

    Args:
        compute: type of the steps: f32, f64 or s32.
        alpha: whether the sums are multiplied by alpha.
        source: whether beta * C is added; C is (M,N).
        bias: whether bias is added, one number a column.
        activation: a name of `ACTIVATIONS`, or None.

    Its arrays are C and bias, those that there are; its numbers alpha and beta.
    """
    arrays = ["C"] * source + ["bias"] * bias

    is_scaled = alpha

    def combined(sums: Any, alpha: Any, beta: Any, C: Any = None, bias: Any = None) -> Any:
        x = sums * alpha if is_scaled else sums
        x = x if C is None else x + C * beta
        x = x if bias is None else x + bias
        return x if activation is None else ACTIVATIONS[activation].function(x)

    made = formula(combined, compute, ("sums", *arrays, "alpha", "beta"))
    spreads = tuple(["matrix" if name == "C" else "row" for name in arrays])
    price = 0 if activation is None else max(ACTIVATIONS[activation].formula.price, 1)
    return Epilogue(made, spreads, price)


def factors(**numbers: float) -> Any:
    """Return run-time numbers of an epilogue as an argument of a kernel."""
    return _factors(tuple(numbers))(*numbers.values())


@lru_cache(maxsize=512)
def _factors(names: tuple[str, ...]) -> Any:  # a class
    return make_dataclass("Factors", [(name, cute.f64) for name in names], frozen=True)


def numbers_of(x: Any, compute: str) -> list[Any]:
    """Return the numbers of `factors` in a kernel, in a type, each read where it is first used."""
    return [Later(lambda n=n: getattr(x, n).to(compute)) for n in x.__dataclass_fields__]


def finished(
    epilogue: Epilogue, sums: Tensor, load: Callable[[int], Tensor], numbers: Sequence[Any]
) -> tuple[Tensor, ...]:
    """Return the results of an epilogue for sums in registers, in its type.

    Args:
        epilogue: what happens to them.
        sums: in registers, of any shape.
        load: from the number of an array, its elements in registers of that shape and type.
        numbers: those of `numbers_of`.

    """
    compute = epilogue.compute
    arrays = [Later(lambda i=i: load(i)) for i in range(len(epilogue.arrays))]
    found = replayed(epilogue.formula, converted(sums, compute), *arrays, *numbers)
    return found if found.__class__ is tuple else (found,)


def converted(x: Tensor, dtype: Any) -> Tensor:
    """Return x in another type, rounded to nearest even, and clamped to its finite range if that
    has 8 bits.
    """
    kind = cute.dtype(dtype)
    return x if x.dtype is kind else x.to(kind, "to_nearest", saturate=kind.bits == 8)


def loaded(part: Tensor, dtype: Any) -> Tensor:
    """Return elements of memory in registers, in another type."""
    held = cute.make_rmem_tensor(part.shape, part.dtype)
    cute.copy(part, held)
    return converted(held, dtype)


def spread_part(
    thr: Any, x: Tensor, tile: tuple[int, int], by: Any, mode: int = 1
) -> tuple[Tensor, Layout]:
    """Return a row that all rows of a tile of D share, or a column, from a thread's first element
    on, and where its accumulators (MMA, MMA_M, MMA_N) are in it.

    Args:
        thr: the thread's slice of the tiled MMA.
        x: of N elements in global memory, or of M.
        tile: BLK_M and BLK_N.
        by: which tile of N, or of M.
        mode: 1 for a row, 0 for a column.

    """
    strides = (1 - mode, mode)  # along the other mode nothing moves
    places, first = thr.partition_C(cute.Layout(tile, strides))
    return cute.domain_offset(first, cute.local_tile(x, (tile[mode],), (by,))), places


def loaded_part(part: tuple[Tensor, Layout], coord: Any, shape: Any, dtype: Any) -> Tensor:
    """Return what accumulators need of a `spread_part`, each element loaded once.

    Args:
        part: the row or column, and where all accumulators of the thread are in it.
        coord: which of them.
        shape: of these accumulators.
        dtype: of the result.

    """
    places, first = cute.slice_and_offset(coord, part[1])
    once = cute.composition(cute.domain_offset(first, part[0]), cute.filter_zeros(places))
    spread = cute.composition(cute.make_layout_like(places), cute.Layout(shape))
    return loaded(once, dtype).with_layout(spread)


class Terms:
    """The arrays of an epilogue at a tile of D, as a thread needs them."""

    def __init__(
        self,
        thr: Any,
        epilogue: Epilogue,
        arrays: Sequence[Tensor],
        tile: tuple[int, int],
        place: tuple[Any, Any, Any],
    ) -> None:
        """Find the parts of arrays.

        Args:
            thr: the thread's slice of the tiled MMA.
            epilogue: whose arrays they are.
            arrays: in global memory.
            tile: BLK_M and BLK_N.
            place: which tile of M and of N, and which matrix of the batch.

        """
        self.epilogue = epilogue
        self.parts = [
            _part(thr, of_batch(x, spread, place[2]), spread, tile, place)
            for x, spread in zip(arrays, epilogue.arrays, strict=True)
        ]

    def at(self, coord: Any, shape: Any) -> Callable[[int], Tensor]:
        """Return what loads the elements of an array, by its number, for accumulators of a shape at
        a coordinate.
        """
        arrays, compute = self.epilogue.arrays, self.epilogue.compute

        def load(i: int) -> Tensor:
            if arrays[i] in ("row", "column"):
                return loaded_part(self.parts[i], coord, shape, compute)
            return loaded(self.parts[i] if arrays[i] == "one" else self.parts[i][coord], compute)

        return load


def _part(thr: Any, x: Tensor, spread: str, tile: tuple[int, int], place: Any) -> Any:
    if spread == "matrix":
        return thr.partition_C(cute.local_tile(x, tile, place[:2]))  # (MMA, MMA_M, MMA_N)
    if spread == "one":
        return x
    mode = int(spread == "row")
    return spread_part(thr, x, tile, place[mode], mode)


def of_batch(x: Tensor, spread: str, batch: Any) -> Tensor:
    """Return what one matrix of a batch has of an array, which may be that of all."""
    own = 2 if spread == "matrix" else 1
    found = x if cute.rank(x) == own else x[(_,) * own + (batch,)]
    return cute.local_tile(found, (1,), (0,)) if spread == "one" else found
