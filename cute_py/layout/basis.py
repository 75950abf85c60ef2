"""Coordinate strides: `E(i, j)` is the unit of mode j of mode i, and `3*E(1)` prints as `3@1`.

A layout with coordinate strides yields coordinates instead of offsets: `(4,8):(1@0,1@1)` maps (2,5)
to (2,5). Identity tensors, tilers, predicates and TMA all reduce to them. The last number of
`v@j@i` is the outermost mode, as CuTe prints it. Source: cutlass
include/cute/numeric/arithmetic_tuple.hpp (`ScaledBasis`, `ArithmeticTuple`).
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.records import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import IntTuple, Leaf


class ScaledBasis(Value):
    """The stride `value * E(path)`: a step of `value` along mode `path` of the codomain's
    coordinate.

    >>> E(1, 0), 3 * E(1), str(3 * E(1, 0))
    (E(1, 0), 3*E(1), '3@0@1')
    """

    __slots__ = ("path", "value")
    __match_args__ = ("value", "path")
    value: Any
    path: tuple[int, ...]

    def __init__(self, value: object, path: tuple[int, ...]) -> None:
        """Freeze a step of `value` along `path` (mode indices, outermost first)."""
        if path.__class__ is not tuple or any(
            step.__class__ is not int or step < 0 for step in path
        ):
            raise refusal("basis-path", operation="E", path=path)
        object.__setattr__(self, "value", ints.normalize(value))
        object.__setattr__(self, "path", tuple(path))

    # -- the integer protocol of `ints`

    def cute_compute(self, op: str, a: Leaf, b: Leaf) -> Leaf:
        """Scale by an integer, add along the same path, divide the value."""
        if a is self and b.__class__ is not ScaledBasis and op in ("mul", "div", "mod"):
            compute = {"mul": ints.mul, "div": ints.div, "mod": ints.mod}[op]
            return ScaledBasis(compute(self.value, b), self.path)
        if op == "mul" and a.__class__ is not ScaledBasis:
            return ScaledBasis(ints.mul(a, self.value), self.path)
        if op in ("add", "sub") and a.__class__ is b.__class__ and a.path == b.path:
            return ScaledBasis(getattr(ints, op)(a.value, b.value), self.path)
        return NotImplemented

    def cute_decide(self, question: str, a: Leaf, b: Leaf) -> bool | None:
        """Compare with a stride of the same path; every zero stride is the same."""
        values = [x.value if x.__class__ is ScaledBasis else x for x in (a, b)]
        if question == "same":
            if a.__class__ is b.__class__ and a.path == b.path:
                return ints.same(values[0], values[1])
            zero = [ints.is_zero(value) for value in values]
            return None if None in zero else all(zero)
        return NotImplemented

    def cute_value(self) -> int | None:
        """Return None: a step along a mode is not a number, even if its value is known."""
        return None

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not ScaledBasis:
            return NotImplemented
        return bool(self.path == other.path and self.value == other.value)

    def __hash__(self) -> int:
        return hash((self.value, self.path))

    def __mul__(self, factor: object) -> ScaledBasis:
        return ScaledBasis(ints.mul(self.value, ints.normalize(factor)), self.path)

    __rmul__ = __mul__

    def __neg__(self) -> ScaledBasis:
        return ScaledBasis(ints.neg(self.value), self.path)

    def __repr__(self) -> str:
        unit = "E({})".format(", ".join(str(step) for step in self.path))
        if self.value.__class__ is not int:
            return f"({self.value!r})*{unit}"
        return unit if self.value == 1 else f"{self.value}*{unit}"

    def __str__(self) -> str:
        return "@".join(str(part) for part in (self.value, *reversed(self.path)))


def E(*path: int) -> ScaledBasis:
    """Return the unit stride of the mode at `path`, outermost mode first.

    Raises LeafTypeError when a step is not a non-negative int.
    Source: cutlass arithmetic_tuple.hpp `E<...>`.

    >>> print(E(0), E(1, 0))
    1@0 1@0@1
    """
    return ScaledBasis(1, path)


def make_basis_like(shape: object, path: tuple[int, ...] = ()) -> ScaledBasis | tuple[Any, ...]:
    """Return strides congruent to `shape` that map a coordinate to itself.

    >>> print(*make_basis_like((4, (2, 3))))
    1@0 (E(1, 0), E(1, 1))
    """
    if path.__class__ is not tuple:
        raise refusal("basis-path", operation="make_basis_like", path=path)
    if shape.__class__ is tuple:
        return tuple([make_basis_like(mode, (*path, i)) for i, mode in enumerate(shape)])
    return ScaledBasis(1, path) if path else 1


def sum_steps(steps: list[tuple[Leaf, Leaf]]) -> object:
    """Return the sum of `coefficient * stride` over `steps`; a coordinate if any stride is a basis.

    Missing entries of the coordinate are 0 and it is as short as the strides allow, as in CuTe.
    Raises LayoutError when integer and coordinate strides are mixed (only the stride 0 fits both).
    """
    if all(x.__class__ is int and d.__class__ is int for x, d in steps):
        return sum([x * d for x, d in steps])
    by_path: dict[tuple[int, ...], Leaf] = {}
    for coefficient, stride in steps:
        basis = stride.__class__ is ScaledBasis
        path = stride.path if basis else ()
        step = ints.mul(coefficient, stride.value if basis else stride)
        if not basis and ints.is_zero(step):
            continue
        by_path[path] = ints.add(by_path[path], step) if path in by_path else step
    return _nest(by_path)


def _nest(by_path: dict[tuple[int, ...], Leaf]) -> object:
    if not by_path:
        return 0
    if () in by_path:
        if len(by_path) > 1:
            others = ", ".join(str(ScaledBasis(1, path)) for path in by_path if path)
            raise refusal("mixed-strides", operation="layout", value=by_path[()], basis=others)
        return by_path[()]
    rank = 1 + max(path[0] for path in by_path)
    modes = [{p[1:]: v for p, v in by_path.items() if p[0] == i} for i in range(rank)]
    return tuple([_nest(mode) for mode in modes])


def add_coordinates(a: IntTuple, b: IntTuple) -> IntTuple:
    """Return the sum of two coordinates, entry by entry; missing entries, and 0, count as zeros.

    Source: cutlass arithmetic_tuple.hpp `operator+`.

    >>> add_coordinates((1, (2, 3), 4), (5, (0, 1)))
    (6, (2, 4), 4)
    """
    if a.__class__ is tuple and b.__class__ is tuple:
        short, long = sorted((a, b), key=len)
        padded = short + (0,) * (len(long) - len(short))
        return tuple([add_coordinates(x, y) for x, y in zip(padded, long, strict=True)])
    for zero, other in ((a, b), (b, a)):
        if zero.__class__ is int and zero == 0:
            return other
    if a.__class__ is tuple or b.__class__ is tuple:
        raise tuples.mismatch("add_coordinates", a, b)
    return ints.add(a, b)
