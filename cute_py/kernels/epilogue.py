"""What happens to the sums of a GEMM on their way to D and other outputs: a function of registers.

`Epilogue` is such a function, traced, and how its arrays are spread over D. `LinearCombination`
is the usual one: scaled, added, activated. The kernels call `finished`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from inspect import signature
from typing import Any

import cute_py as cute
from cute_py import _
from cute_py.kernels.activations import ACTIVATIONS, SPECIAL, activated
from cute_py.kernels.arrays import require
from cute_py.kernels.pairs import by_spread, half, joined, shape_of, tile_of_pairs, twice
from cute_py.plan.formula import Formula, Later
from cute_py.trace.formulas import formula, replayed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.layout.layout import Layout
    from cute_py.tensor.tensor import Tensor

# how an array is spread over D: as (M,N) ... (); as (M,N/2) or (N/2) over pairs of columns
SPREADS = ("matrix", "row", "column", "one", "matrix of pairs", "row of pairs")


class Epilogue:
    """What happens to the sums, element by element; each step rounds.

    Attributes:
        formula: of the sums, the arrays and the numbers, in this order; its results are the
            elements of D, then those of other outputs.
        arrays: for each array how it is spread over D, one of `SPREADS`.
        price: about how many instructions it takes next to a linear combination.
        compute: type of the steps: f32, f64 or s32.
    """

    __slots__ = ()
    compute: str
    formula: Formula
    arrays: tuple[str, ...]
    price: int
    in_pairs = False  # whether neighbouring columns are combined

    def is_wide(self, _output: int = 0) -> bool:
        """Whether an output, by its number, has the columns of the sums, not one for each pair."""
        return True

    @property
    def is_plain(self) -> bool:
        """Whether D gets the sums as they are."""
        return not self.formula.steps and len(self.formula.results) == 1

    @property
    def is_sum(self) -> bool:
        """Whether D gets the sums and a matrix with a factor."""
        return self.formula == _combined(_sum_of(self.compute))

    @property
    def matrices(self) -> int:
        """How many arrays are read that have an element for each of D, or for each pair."""
        return sum(x.startswith("matrix") for x in self.arrays)

    @property
    def outputs(self) -> int:
        """How many there are."""
        return len(self.formula.results)

    @property
    def has_source(self) -> bool:
        """Whether there is one."""
        return "matrix" in self.arrays

    @property
    def is_light(self) -> bool:
        """Whether it takes less time than one special function, next to a linear combination."""
        return self.price < SPECIAL

    @property
    def is_in_place(self) -> bool:
        """Whether an element needs few registers next to its sum; those of a row are read for
        all.
        """
        if self.has_source or len(self.formula.results) > 1:
            return False
        few = self.compute == "f32" and self.formula.holds(1) == 1
        return not self.price or few or self.is_light


@dataclass(frozen=True, slots=True)
class EpilogueFunction(Epilogue):
    """A function of the user."""

    formula: Formula
    arrays: tuple[str, ...] = ()

    @property
    def compute(self) -> str:  # type: ignore[override]
        """The type of the steps."""
        return self.formula.dtype.name

    @property
    def price(self) -> int:  # type: ignore[override]
        """About how many instructions it takes."""
        return self.formula.price


@dataclass(frozen=True, slots=True)
class PairedFunction(EpilogueFunction):
    """A function of the user that combines neighbouring columns, as `plan.pairs.split` makes it:
    the formula has two inputs for the sums and for each array of N columns, and two results for
    each output of N columns.

    Attributes:
        wide: which outputs have N columns; others have N / 2.
    """

    wide: tuple[bool, ...] = ()
    in_pairs = True
    is_plain = is_sum = has_source = is_in_place = False

    @property
    def outputs(self) -> int:
        """How many there are."""
        return len(self.wide)

    def is_wide(self, output: int = 0) -> bool:
        """Whether an output has the columns of the sums."""
        return self.wide[output]

    @property
    def price(self) -> int:  # type: ignore[override]
        """About how many instructions it takes for an element of the sums."""
        return (self.formula.price + 1) // 2


@dataclass(frozen=True, slots=True)
class LinearCombination(Epilogue):
    """activation(alpha * sums + beta * C + bias); the numbers are alpha and beta.

    Attributes:
        compute: type of the steps: f32, f64 or s32.
        alpha: whether the sums are multiplied by alpha.
        source: whether beta * C is added; C is (M,N).
        bias: whether bias is added, one number a column.
        activation: a name of `ACTIVATIONS`, or None.
    """

    compute: str = "f32"
    alpha: bool = False
    source: bool = False
    bias: bool = False
    activation: str | None = None

    @property
    def formula(self) -> Formula:  # type: ignore[override]
        """The function."""
        return _combined(self)

    @property
    def arrays(self) -> tuple[str, ...]:  # type: ignore[override]
        """How C and bias are spread, those that there are."""
        return ("matrix",) * self.source + ("row",) * self.bias

    @property
    def price(self) -> int:  # type: ignore[override]
        """About how many instructions the activation takes; 0 without one."""
        name = self.activation
        return 0 if name is None else max(ACTIVATIONS[name].formula.price, 1)


@lru_cache(maxsize=8)
def _sum_of(compute: str) -> LinearCombination:
    return LinearCombination(compute, source=True)


@lru_cache(maxsize=512)
def _combined(x: LinearCombination) -> Formula:
    def combined(sums: Any, alpha: Any, beta: Any, C: Any = None, bias: Any = None) -> Any:
        found = sums * alpha if x.alpha else sums
        found = found if C is None else found + C * beta
        found = found if bias is None else found + bias
        return activated(found, x.activation)

    arrays = ("C",) * x.source + ("bias",) * x.bias
    return formula(combined, x.compute, ("sums", *arrays, "alpha", "beta"))


# -- kernels

_BODIES: dict[str, Callable[..., None]] = {}  # by the name of the kernel


def product_kernel(body: Callable[..., None]) -> Any:  # a cute.Kernel
    """Decorate what a kernel for products does: a function (operands, arrays by name, outputs by
    name, numbers, *rest). The kernel has the parameters of a linear combination in their place: C
    and bias, which may be None, D, alpha and beta.
    """
    _BODIES[body.__name__] = body
    return _kernel(body, ("C", "bias"), ("D",), ("alpha", "beta"))


@lru_cache(maxsize=256)
def kernel_with(
    kernel: Any, arrays: tuple[str, ...], outputs: tuple[str, ...], numbers: tuple[str, ...]
) -> Any:
    """Return a `product_kernel` with parameters for another epilogue: arrays, outputs (D first),
    and numbers, in the place of those of a linear combination.
    """
    return _kernel(_BODIES[kernel.__name__], arrays, outputs, numbers)


def _kernel(
    body: Callable[..., None],
    arrays: tuple[str, ...],
    outputs: tuple[str, ...],
    numbers: tuple[str, ...],
) -> Any:
    code, names = body.__code__, tuple(signature(body).parameters)
    first = names.index("arrays")
    operands, rest = names[:first], names[first + 3 :]
    parts = ["{" + ", ".join(f"{x!r}: {x}" for x in names) + "}" for names in (arrays, outputs)]
    factors = f"({''.join(f'{x}, ' for x in numbers)})"
    text = f"""
def make(_body):
    def {body.__name__}({", ".join((*operands, *arrays, *outputs, *numbers, *rest))}):
        _body({", ".join((*operands, *parts, factors, *rest))})
    return {body.__name__}
"""
    tree, scope = ast.parse(text), dict[str, Any]()
    for node in ast.walk(tree):
        for end in ("lineno", "end_lineno"):
            if hasattr(node, end):
                setattr(node, end, code.co_firstlineno)
    exec(compile(tree, code.co_filename, "exec"), body.__globals__, scope)
    made = scope["make"](body)
    notes = dict.fromkeys(numbers, cute.f64)
    made.__annotations__ = notes | {x: body.__annotations__[x] for x in rest}
    made.__doc__, made.__module__ = body.__doc__, body.__module__
    made.__qualname__ = body.__qualname__
    return cute.kernel(made)


# -- in a kernel


def finished(
    epilogue: Epilogue, sums: Tensor, load: Callable[[int], Tensor], numbers: Sequence[Any]
) -> tuple[Tensor, ...]:
    """Return the results of an epilogue for sums in registers, in its type.

    Args:
        epilogue: what happens to them.
        sums: in registers, of any shape.
        load: from the number of an array, its elements in registers of that shape and type.
        numbers: run-time numbers, each read where it is first used.

    """
    compute = epilogue.compute
    factors = [Later(partial(x.to, compute)) for x in numbers]
    if isinstance(epilogue, PairedFunction):
        return _finished_pairs(epilogue, converted(sums, compute), load, factors)
    arrays = [Later(partial(load, i)) for i in range(len(epilogue.arrays))]
    found = replayed(epilogue.formula, converted(sums, compute), *arrays, *factors)
    return found if found.__class__ is tuple else (found,)


def _finished_pairs(
    epilogue: PairedFunction, sums: Tensor, load: Callable[[int], Tensor], factors: list[Later]
) -> tuple[Tensor, ...]:
    """Return the same where neighbouring columns are combined: the sums are `in_pairs`."""
    given: list[Any] = [half(sums, 0), half(sums, 1)]
    for i, spread in enumerate(epilogue.arrays):
        whole = cache(partial(load, i))
        if spread in ("matrix", "row"):
            given += [Later(partial(lambda x, which: half(x(), which), whole, k)) for k in (0, 1)]
        else:
            given.append(Later(whole))
    found = list(replayed(epilogue.formula, *given, *factors))
    return tuple(
        [
            joined(found.pop(0), found.pop(0), sums.shape) if wide else found.pop(0)
            for wide in epilogue.wide
        ]
    )


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
    partition: Callable[[Any], Any],
    x: Tensor,
    tile: tuple[int, int],
    by: Any,
    mode: int = 1,
    pairs: bool = False,
) -> tuple[Tensor, Layout]:
    """Return a row that all rows of a tile of D share, or a column, from a thread's first element
    on, and where its accumulators (MMA, MMA_M, MMA_N) are in it.

    Args:
        partition: as `Terms` takes it.
        x: of N elements in global memory, or of M.
        tile: BLK_M and BLK_N.
        by: which tile of N, or of M.
        mode: 1 for a row, 0 for a column.
        pairs: whether a row has an element for each pair of columns.

    """
    strides = (1 - mode, mode)  # along the other mode nothing moves
    places, first = partition(twice(tile, 0) if pairs else cute.Layout(tile, strides))
    own = cute.local_tile(x, (tile[mode] // 2 if pairs else tile[mode],), (by,))
    return cute.domain_offset(first, own), places


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


def given(arrays: dict[str, Any], epilogue: Epilogue, operation: str) -> dict[str, Any]:
    """Return the arrays without those that are None; refuse others than the epilogue reads."""
    require_epilogue(epilogue, operation)
    found = {name: x for name, x in arrays.items() if x is not None}
    if len(found) != len(epilogue.arrays):
        absent = next((x for x in arrays if x not in found), "")
        name = absent if len(found) < len(epilogue.arrays) else next(iter(found))
        rule = f"{len(epilogue.arrays)} arrays, as the epilogue reads"
        require(False, operation, name, arrays[name], rule)
    return found


def require_epilogue(x: object, operation: str) -> None:
    """Refuse what is no epilogue."""
    require(isinstance(x, Epilogue), operation, "epilogue", x, "an Epilogue")


class Terms:
    """The arrays of an epilogue at a tile of D, as a thread needs them."""

    def __init__(
        self,
        partition: Callable[[Any], Any],
        epilogue: Epilogue,
        arrays: dict[str, Tensor],
        tile: tuple[int, int],
        place: tuple[Any, Any, Any],
    ) -> None:
        """Find the parts of arrays.

        Args:
            partition: returns what the thread has of a tile: `partition_C` of its slice.
            epilogue: whose arrays they are.
            arrays: in global memory.
            tile: BLK_M and BLK_N.
            place: which tile of M and of N, and which matrix of the batch.

        """
        self.epilogue = epilogue
        self.parts = [
            _part(by_spread(partition, spread, epilogue), x, spread, tile, place)
            for x, spread in zip(arrays.values(), epilogue.arrays, strict=True)
        ]

    def at(self, coord: Any, sums: Tensor) -> Callable[[int], Tensor]:
        """Return what loads the elements of an array, by its number, for accumulators at a
        coordinate.
        """
        arrays, compute = self.epilogue.arrays, self.epilogue.compute

        def load(i: int) -> Tensor:
            if arrays[i] in ("row", "column", "row of pairs"):
                shape = shape_of(sums, arrays[i], self.epilogue)
                return loaded_part(self.parts[i], coord, shape, compute)
            return loaded(self.parts[i] if arrays[i] == "one" else self.parts[i][coord], compute)

        return load


def _part(partition: Any, x: Tensor, spread: str, tile: tuple[int, int], place: Any) -> Any:
    x = of_batch(x, spread, place[2])
    if spread == "one":
        return x
    if spread == "matrix":
        return partition(cute.local_tile(x, tile, place[:2]))  # (MMA, MMA_M, MMA_N)
    if spread == "matrix of pairs":
        return partition(tile_of_pairs(x, tile, place[:2]))
    mode = int(spread != "column")
    return spread_part(partition, x, tile, place[mode], mode, spread == "row of pairs")


def of_batch(x: Tensor, spread: str, batch: Any) -> Tensor:
    """Return what one matrix of a batch has of an array, which may be that of all."""
    own = 2 if spread.startswith("matrix") else 1
    found = x if cute.rank(x) == own else x[(_,) * own + (batch,)]
    return cute.local_tile(found, (1,), (0,)) if spread == "one" else found
