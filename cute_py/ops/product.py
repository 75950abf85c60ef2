"""`Product`: one call of `gemm`, step by step, for the function and for the command."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

import cute_py as cute
from cute_py.dtypes.table import Dtype, f32, s32
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal
from cute_py.kernels.epilogue import Epilogue
from cute_py.kernels.gemm import GemmConfig
from cute_py.kernels.gemm import gemm as kernel
from cute_py.layout.tuples import ceil_div
from cute_py.ops import operands
from cute_py.ops.choose import changed, choose_config
from cute_py.ops.memory import bytes_of, require_arrays, require_memory
from cute_py.ops.operands import OPERATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.dtypes.table import Array, DtypeLike
    from cute_py.plan.plan import Plan

OUT = ("f32", "f64", "f16", "bf16", "e4m3", "e5m2", "s32", "s8", "u8")
LARGEST = 2**31  # whole factors beyond do not fit s32


class Product:
    """D = activation(alpha * A B + beta * C + bias): the operands, then `choose`, `finish`, `run`.

    Attributes:
        a, b: the operands, converted, as (..., M, K) and (..., K, N).
        types: their dtypes.
        batch, M, N, K: the extents; `shape` is that of D.
        config: how it is computed, after `choose`.
        epilogue, out_type: what is done with the sums, after `finish`.
    """

    config: GemmConfig
    epilogue: Epilogue
    out_type: Dtype
    report: Any = None  # of the last run, if it was asked for

    def __init__(self, a: Any, b: Any, dtype: DtypeLike | None = None) -> None:  # noqa: ANN401
        """Read the operands; refuse shapes that do not fit."""
        self.a, a_type = operands.read(a, "a", dtype)
        self.b, b_type = operands.read(b, "b", dtype)
        self.types = a_type, b_type
        for name, array, wanted in (("a", self.a, "(..., M, K)"), ("b", self.b, "(..., K, N)")):
            if array.ndim < 2:
                shape = operands.shown(array.shape)
                raise refusal(
                    "ops-rank", operation=OPERATION, name=name, shape=shape, rank=2, modes=wanted
                )
        self.batch = operands.batch_of(self.a.shape, self.b.shape)
        (self.M, self.K), self.N = self.a.shape[-2:], self.b.shape[-1]
        self.shape = (*self.batch, self.M, self.N)
        whole = [(x.shape, t.bits) for x, t in zip((self.a, self.b), self.types, strict=True)]
        require_arrays(*whole, (self.shape, a_type.bits))
        if dtype is not None:
            self.a, self.b = (operands.converted(x, as_dtype(dtype)) for x in (self.a, self.b))

    # -- the configuration

    def choose(self, given: GemmConfig | str | None = None) -> GemmConfig:
        """Choose a configuration, or take the one that is given, or change some of its parts."""
        self.A = self._ready(self.a)  # (L, M, K)
        self.B = self._ready(self.b.swapaxes(-1, -2))  # (L, N, K)
        sides = self.A, self.B
        chosen = choose_config(
            self.M,
            self.N,
            self.K,
            self.types,
            (operands.major_of(self.A), operands.major_of(self.B)),
            (operands.alignment_of(self.A), operands.alignment_of(self.B)),
        )
        if isinstance(given, str):
            chosen = changed(chosen, given)
        elif given is not None:
            chosen = given
            for side, array, kind in zip((given.a, given.b), sides, self.types, strict=True):
                self._require_side(side, array, kind)
        self.config = chosen
        return chosen

    def _ready(self, array: Array) -> Array:
        """Return an operand as [L, rows, K], with K = 1 of zeros where there is no K."""
        if self.K == 0:
            array = np.zeros((*array.shape[:-1], 1), array.dtype)
        if 0 in array.shape or 0 in self.batch:
            return np.zeros((1, 1, 1), array.dtype)  # the result is empty; any stand-in will do
        return operands.ready(operands.batched(array, self.batch))

    def _require_side(self, side: Any, array: Array, kind: Dtype) -> None:  # noqa: ANN401
        most = operands.alignment_of(array) * 8 // kind.bits
        if side.major != operands.major_of(array) or side.vector > max(most, 1):
            rule = f"major {operands.major_of(array)} and vectors of at most {most} elements here"
            raise refusal(
                "gemm-config", operation=OPERATION, config=self.config_text(side), rule=rule
            )

    @staticmethod
    def config_text(side: Any) -> str:  # noqa: ANN401
        """Return one side as text."""
        return f"an operand read as {side}"

    # -- the epilogue

    def finish(
        self,
        c: Any,  # noqa: ANN401
        factors: tuple[float, float],
        bias: Any,  # noqa: ANN401
        activation: str | None,
        out_dtype: DtypeLike | None,
    ) -> None:
        """Say what happens to the sums: alpha and beta, C, bias, activation, type of the result."""
        self.alpha, self.beta = (float(x) for x in factors)
        self.out_type = result_type(self.types[0], out_dtype)
        self.c = None if c is None or self.beta == 0 else self._term(c, "c", self.shape)
        self.bias = None if bias is None else self._term(bias, "bias", (self.N,))
        terms = [x for x in (self.c, self.bias) if x is not None]
        integers = all(x.dtype.kind in "iub" for x in terms) and not self.out_type.is_float
        compute = compute_type(self.types[0], (self.alpha, self.beta), activation, integers)
        self.c, self.bias = (self._known(x, compute) for x in (self.c, self.bias))
        if self.K == 0:
            self.alpha = 0.0
        self.epilogue = Epilogue(
            compute.name, self.alpha != 1, self.c is not None, self.bias is not None, activation
        )

    def _term(self, x: Any, name: str, shape: tuple[int, ...]) -> Array:  # noqa: ANN401
        array, _kind = operands.read(x, name)
        modes = min(len(shape), 2)
        fits = array.shape[-modes:] == shape[-modes:]
        try:
            if fits:
                return np.broadcast_to(array, shape)
        except ValueError:
            pass
        raise wrong_shape(name, array.shape, shape)

    @staticmethod
    def _known(x: Array | None, compute: Dtype) -> Array | None:
        """Return a term in a type that the kernel converts from."""
        if x is None or cute.from_numpy(x.dtype).name in OUT:
            return x
        return x.astype(compute.numpy)

    # -- running

    @property
    def blocks(self) -> int:
        """How many blocks the grid has."""
        m, n, _k = self.config.tile
        return int(prod(self.batch) * ceil_div(self.M, m) * ceil_div(self.N, n))

    def arguments(self, result: Array) -> list[Any]:
        """Return what the kernel is given; `result` is (L, M, N)."""
        sides: list[Any] = [operands.modes(x) for x in (self.A, self.B)]
        if self.types[0].name == "tf32":
            sides = [cute.typed(x, "tf32") for x in sides]
        c = None
        if self.c is not None:
            c = operands.modes(operands.ready(operands.batched(self.c, self.batch)))
        bias = None if self.bias is None else np.ascontiguousarray(self.bias)
        last = self.alpha, self.beta, self.config, self.epilogue
        return [*sides, c, bias, operands.modes(result), *last]

    def result(self) -> Array:
        """Return a new array (L, M, N) for D, not yet written."""
        return np.empty((prod(self.batch), self.M, self.N), self.out_type.numpy)

    def plan(self) -> Plan:
        """Return the plan, traced for arrays like these."""
        return cute.trace(kernel, *self.arguments(self.result()))

    def run(self, progress: Callable[[int, int], None] | None = None, **options: Any) -> Array:  # noqa: ANN401
        """Return D, computed on the emulator.

        Args:
            progress: called with (blocks done, blocks in all) now and then.
            options: of `cute.emulate`; without `checks=True` only addresses are checked.

        """
        memory = require_memory(self.new_bytes(), self.blocks, self.config)
        result = self.result()
        if result.size == 0:
            return result.reshape(self.shape)
        arguments = self.arguments(result)
        plan = cute.trace(kernel, *arguments)
        leaves = [getattr(x, "array", x) for x in kernel.leaves(*arguments)]
        given = {"checks": False, "memory": memory} | options
        if progress is not None:
            given["progress"] = progress
        self.report = cute.emulate(plan, *leaves, **given)
        return result.reshape(self.shape)

    def new_bytes(self) -> int:
        """Return the size of the arrays that `run` makes (bytes)."""
        return bytes_of((self.shape, self.out_type.bits))


def result_type(first: Dtype, given: DtypeLike | None) -> Dtype:
    """Return the type of the result for operands of type `first`; refuse one that is not in OUT."""
    default = s32 if not first.is_float else f32 if first.name == "tf32" else first
    found = default if given is None else as_dtype(given)
    if found.name not in OUT:
        known = ", ".join(OUT)
        raise refusal(
            "ops-out-dtype", operation=OPERATION, name="out_dtype", dtype=found, known=known
        )
    return found


def compute_type(
    first: Dtype, factors: tuple[float, float], activation: str | None, integers: bool
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
    whole = all(x.is_integer() and abs(x) < LARGEST for x in factors)
    return s32 if whole and integers and activation in (None, "relu") else f32


def wrong_shape(name: str, given: Any, wanted: tuple[int, ...]) -> CuteError:  # noqa: ANN401
    """Return the refusal of an array by its shape."""
    found = operands.shown(given) if isinstance(given, tuple) else given
    shape = operands.shown(wanted)
    return refusal("ops-shape", operation=OPERATION, name=name, shape=found, wanted=shape)
