"""`Combination`: what happens to sums of products, by the arguments that operators share.

activation(alpha * sums + beta * c + bias): which arrays and numbers that reads, and the type in
which it is computed. `gemm` and the convolutions derive from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import dtype_of
from cute_py.dtypes.table import Dtype, f32, s32
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import refusal
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.epilogue import Epilogue, LinearCombination
from cute_py.ops.problem import Problem
from cute_py.ops.wrapping import refused, wraps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import DtypeLike

OUT = ("f32", "f64", "f16", "bf16", "e4m3", "e5m2", "s32", "s8", "u8")
LARGEST = 2**31  # larger whole factors do not fit in s32


class Combination(Problem):
    """The arrays of a request whose result is activation(alpha * sums + beta * c + bias).

    Attributes:
        terms: the arrays that the epilogue reads, by name, converted.
        spreads: how each is spread over the result, as `Epilogue.arrays` has it.
        kinds: types of the operands.
        compute: that of the epilogue.
        K: elements that are summed up.
        factors: the numbers of the epilogue by name; alpha is 0 if there is nothing to add up.
    """

    kinds: tuple[Dtype, Dtype]
    K: int
    terms: dict[str, Any]
    factors: dict[str, float]
    spreads: tuple[str, ...]

    def epilogue(self) -> Epilogue:
        """Return the epilogue."""
        terms = "C" in self.terms, "bias" in self.terms
        scaled = self.factors["alpha"] != 1
        activation = getattr(self.request, "activation", None)
        return LinearCombination(self.compute.name, scaled, *terms, activation)

    def guarded(self, answer: Answer) -> Answer:
        """Return an answer that checks whether factors of integers are whole: others are computed
        in another type.
        """
        if self.kinds[0].is_float:
            return answer
        whole = are_whole((self.request.alpha, self.request.beta))
        return lambda args, values: (
            answer(args, values) if are_whole(values[-2:]) is whole else None
        )

    def in_places(self, arrays: list[Any]) -> list[Any]:
        """Return arrays of the epilogue in the places that they have in a request, None in those of
        others.
        """
        held = dict(zip(self.terms, arrays, strict=True))
        return [held.get(name) for name in ("C", "bias")]

    def _out_type(self) -> DtypeLike | None:
        given, out = self.request.out_dtype, self.request.out
        return given if given is not None or not hasattr(out, "dtype") else dtype_of(out)

    def _read_epilogue(self, shape: tuple[int, ...], kind: Dtype) -> None:
        """Read what the epilogue reads, and say in which type it computes, and what it gives."""
        request = self.request
        given = self.number("alpha", request.alpha), self.number("beta", request.beta)
        self.factors = {"alpha": given[0] if self.K else 0.0, "beta": given[1]}
        if given[1] != 0 and request.c is None:
            raise refusal("ops-no-c", operation=self.operation, beta=request.beta)
        self.results["out"] = shape, kind
        found = {}
        if self._reads_c(given[1]) and request.c is not None:
            found["C"] = self._term("c", shape)
        if getattr(request, "bias", None) is not None:
            found["bias"] = self._term("bias", self._row_of(shape))
        integers = not any(x.is_float for x in (kind, *[kind for _x, kind in found.values()]))
        activation = getattr(request, "activation", None)
        self.compute = compute_type(self.kinds[0], given, activation, integers)
        self._require_alike({name.lower(): kind for name, (_x, kind) in found.items()})
        self.terms = {name: self._known(*x) for name, x in found.items()}
        self.spreads = ("matrix",) * ("C" in found) + ("row",) * ("bias" in found)
        self.require_out("out")

    def _require_alike(self, terms: Mapping[str, Dtype]) -> None:
        """Refuse terms that wrap to s32 before an activation."""
        if self.compute == s32 and getattr(self.request, "activation", None) is not None:
            for name, kind in terms.items():
                if wraps(kind):
                    raise refused(self.operation, name, kind)

    def _reads_c(self, beta: float) -> bool:
        """Return whether the epilogue reads c."""
        return beta != 0

    def _row_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a bias for a result."""
        return shape[-1:]

    def _term(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Dtype]:
        """Return an array that is added, and its type."""
        modes = min(len(shape), 2)
        x, kind = self.library.read(getattr(self.request, name), name)
        if name == "c":  # as the matrix that it is spread over
            x = self._spread_over(x, shape)
        found = tuple(x.shape)
        more = zip(found[:-modes][::-1], shape[:-modes][::-1], strict=False)
        fits = len(found) <= len(shape) and all(n in (1, m) for n, m in more)
        if found[-modes:] != shape[-modes:] or not fits:
            raise self.wrong_shape(name, found, shape)
        return x, kind

    def _spread_over(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return c with the rows and columns of the result, if it can be spread over them."""
        found = tuple(x.shape)
        last = (*(1, 1)[len(found) :], *found[-2:])
        fits = all(n in (1, m) for n, m in zip(last, shape[-2:], strict=True))
        if not fits or found[-2:] == shape[-2:]:
            return x
        return self.library.spread(x, (*found[:-2], *shape[-2:]))

    def _known(self, x: Any, kind: Dtype) -> Any:
        """Return an array of the host in a type that the kernel converts from."""
        if kind.name in OUT or not self.library.on_host:
            return x
        return x.astype(self.compute.numpy)


def result_type(first: Dtype, given: DtypeLike | None, operation: str = "cute.ops.gemm") -> Dtype:
    """Return the type of the result for operands of type `first`; refuse one that is not in OUT."""
    default = s32 if not first.is_float else f32 if first.name == "tf32" else first
    found = default if given is None else as_dtype(given)
    if found.name not in OUT:
        facts: dict[str, Any] = {"name": "out_dtype", "dtype": found, "known": ", ".join(OUT)}
        raise refusal("ops-out-dtype", operation=operation, **facts)
    return found


def compute_type(
    first: Dtype, factors: Sequence[float], activation: str | None, integers: bool
) -> Dtype:
    """Return the type that the epilogue computes in.

    Args:
        first: of the operands.
        factors: alpha and beta.
        activation: as `gemm` takes it.
        integers: C, the bias and the result are integers.

    """
    if first.is_float:
        return as_dtype("f64") if first.name == "f64" else f32
    kept = activation is None or ACTIVATIONS[activation].keeps_integers
    return s32 if are_whole(factors) and integers and kept else f32


def are_whole(factors: Sequence[float]) -> bool:
    """Tell whether factors are integers that fit in s32."""
    return all(float(x).is_integer() and abs(x) < LARGEST for x in factors)
