"""`gemm`: the matrix product of arrays, with the epilogue of BLAS and of neural networks."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import cute_py as cute
from cute_py.calls.arrays import VECTOR_BYTES, address_of
from cute_py.dtypes.table import Dtype, f32
from cute_py.errors import refusal
from cute_py.kernels.activations import ACTIVATIONS
from cute_py.kernels.config import ATOMS, GemmConfig
from cute_py.kernels.epilogue import Epilogue, LinearCombination
from cute_py.kernels.splits import workspace_of
from cute_py.kernels.sum_parts import parts_copy, sum_parts
from cute_py.layout.tuples import ceil_div
from cute_py.ops import workspaces
from cute_py.ops.call import Call, Output
from cute_py.ops.choice import all_for, choose, facts, products_of
from cute_py.ops.combination import Combination, result_type
from cute_py.ops.libraries import Words
from cute_py.ops.operands import aligned, as_matrices, broadcast, ready, ready_row, rows_of, shown
from cute_py.ops.operator import Operator, Variants, operator
from cute_py.ops.reference import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from cute_py.dtypes.table import DtypeLike
    from cute_py.kernels.splits import Split, Workspace
    from cute_py.ops.family import Reads
    from cute_py.ops.libraries import Gpu, Library
    from cute_py.ops.operands import Rows
    from cute_py.plan.formula import Formula
    from cute_py.trace.kernel import Kernel

FLOATS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2")
TYPES = (*FLOATS, "s8", "u8")  # of operands


class Product(Combination):
    """The arrays of a request, activation(alpha a b + beta c + bias), as the kernel reads them.

    Attributes:
        a, b: the operands (..., M, K) and (..., K, N), converted.
        A, B: the same as [L, M, K] and [L, N, K]; L counts the batch.
        batch, M, N, K: extents.
    """

    hint = "; bias has one number per column"
    memory: Any = None  # the caller's workspace
    combined: ClassVar[tuple[str, ...]] = ()  # results of which all elements are combined next
    autocast = "lower"
    types, reference = TYPES, staticmethod(values)

    def __init__(self, request: Any, library: Library) -> None:
        """Read the arrays of `library`; refuse those that do not fit each other."""
        super().__init__(request, library)
        (a, first), (b, second) = (
            library.read(getattr(request, name), name, request.dtype) for name in "ab"
        )
        self.kinds = first, second
        self.batch = self._batch(tuple(a.shape), tuple(b.shape))
        self._require_types()
        (self.M, self.K), self.N = a.shape[-2:], b.shape[-1]
        shape = (*self.batch, self.M, self.N)
        library.require_room((a.shape, first.bits), (b.shape, second.bits), (shape, first.bits))
        self.a, self.b = library.converted(a, first), library.converted(b, second)
        self.copied: tuple[object, tuple[Any, Any]] = None, (None, None)  # of the last path
        self.terms: dict[str, Any] = {}
        self.factors: dict[str, float] = {}
        self._read_epilogue(shape, result_type(first, self._out_type()))

    @classmethod
    def as_matrices(cls, given: Any) -> tuple[Any, Callable[[Any], Any]] | None:
        """Return a request with matrices in the place of operands of one mode."""
        return as_matrices(given) if cls is Product else None

    @property
    def is_known(self) -> bool:
        """Whether the result is empty; the host looks for a kernel then too, and may refuse it."""
        return 0 in self.shape and not self.library.on_host

    def _require_types(self) -> None:
        names = tuple([kind.name for kind in self.kinds])
        if names not in ATOMS or not set(names) <= set(TYPES):
            a, b = self.kinds
            raise refusal("ops-dtype", operation=self.operation, a=a, b=b, known=", ".join(TYPES))

    @cached_property
    def A(self) -> Any:
        """A as [L, M, K]."""
        return self._side(self.a, self.kinds[0])

    @cached_property
    def B(self) -> Any:
        """B as [L, N, K]."""
        return self._side(self.b.swapaxes(-1, -2), self.kinds[1])

    def _side(self, x: Any, kind: Dtype) -> Any:
        """Return an operand as [L, rows, K] that a kernel can read."""
        if 0 in self.shape:  # the result is empty; any stand-in will do
            return np.zeros((1, 1, 1), kind.numpy)
        if self.K == 0:  # alpha is 0: one vector of zeros in each row
            each = 1 if self.library.on_host else VECTOR_BYTES * 8 // kind.bits
            zeros = self.library.zeros((1, x.shape[-2], each), kind)
            return self.library.spread(zeros, (prod(self.batch), *zeros.shape[1:]))
        return ready(self.library, x, self.batch, kind)

    def gathered(self) -> list[str]:
        """Return the names of the arrays that were copied because no kernel reads their strides."""
        held = zip(self.terms.items(), self.arrays, strict=True)
        sides = [(name, x, y) for (name, x), y in held]
        if self.K:
            sides += [("A", self.a, self.A), ("B", self.b, self.B)]
        return [name for name, x, y in sides if address_of(x) != address_of(y)]

    def operands(self, reads: Any) -> tuple[Any, Any]:  # of OperandReads
        """Return A and B as a family reads them, copied where it says so."""
        library, found = self.library, []
        if (reads.whole, reads.copies) == self.copied[0]:
            return self.copied[1]
        for x, kind, major in zip((self.A, self.B), self.kinds, reads.copies, strict=True):
            if not major or library.on_host:
                found.append(x)
            else:
                found.append(aligned(library, x, kind, major, whole=reads.whole))
        self.copied = (reads.whole, reads.copies), (found[0], found[1])
        return self.copied[1]

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """How A and B are in memory."""
        return rows_of(self.A), rows_of(self.B)

    def rows_by(self, reads: Reads) -> tuple[Rows, Rows]:
        """Return the same of the operands that a family reads."""
        A, B = self.operands(reads)
        return self.rows if A is self.A and B is self.B else (rows_of(A), rows_of(B))

    @cached_property
    def gpu(self) -> Gpu | None:
        """The facts of the GPU that has the arrays; None for the host."""
        return self.library.gpu(self.a)

    @cached_property
    def arrays(self) -> list[Any]:
        """The terms as a kernel can read them: matrices as [L, M, N], rows, columns and single
        elements as [n] or [L, n].
        """
        held = zip(self.terms.values(), self.spreads, strict=True)
        return [self.as_read(x, spread) for x, spread in held]

    def as_read(self, x: Any, spread: str) -> Any:
        """Return one of these arrays."""
        library = self.library
        return ready(library, x, self.batch) if spread == "matrix" else ready_row(library, x)

    @property
    def source(self) -> Any:
        """The first matrix that the epilogue reads, C; None if there is none."""
        spreads = self.spreads
        return self.arrays[spreads.index("matrix")] if "matrix" in spreads else None

    # -- the call

    def call(self, choice: tuple[GemmConfig, Epilogue] | None = None) -> Call:
        """Return the call of the kernel, by a configuration and an epilogue chosen before, if
        given.
        """
        library = self.library
        taken, *operands, kernel, config, epilogue, more, why = choose(self, choice)
        config, epilogue = choice or shared(config, epilogue, why)
        shares, parts = taken.reads.shares, products_of(config)
        if parts > 1:
            return self._in_parts(parts, operands, kernel, (config, epilogue), more)
        reads = [*operands, *self.arrays]
        outputs = [self.writes_matrices(reads, shares, name) for name in self.results]
        A, B = (self.matrices(x, shares) for x in operands)
        if self.kinds[0].name == "tf32":
            A, B = (cute.typed(x, "tf32") for x in (A, B))
        terms = self.in_places([self._read_by(x, shares) for x in self.arrays])
        between = self._workspace(config)
        return Call(
            self.kernel(kernel),
            library,
            reads=(A, B, *between, *terms),
            outputs=tuple(outputs),
            numbers=tuple(self.factors.values()),
            more=more,
            statics=(config, epilogue),
            choice=(config, epilogue),
            blocks=self._tiles(config),
            block_bytes=config.block_bytes if library.on_host else 0,
            inputs=self,
            between=between,
        )

    def _tiles(self, config: GemmConfig) -> int:
        """Return how many tiles the result has."""
        m, n, _k = config.tile
        tiles: int = ceil_div(self.M, m) * ceil_div(self.N, n)
        return prod(self.batch) * tiles

    def workspace(self, config: GemmConfig) -> tuple[Workspace | None, Dtype]:
        """Return what blocks leave for each other, and the type of the sums."""
        parts: Split = config.parts  # type: ignore[attr-defined]  # all classes have it
        return workspace_of(parts, config.tile, self._tiles(config)), config.mma_atom.c_type

    def _workspace(self, config: GemmConfig) -> tuple[Any, ...]:
        wanted, kind = self.workspace(config)
        if wanted is None:
            return ()
        if self.memory is not None:
            return workspaces.within(self.library, self.memory, wanted, kind)
        return self.library.workspace(self.a, wanted, kind)

    def _in_parts(
        self,
        count: int,
        operands: list[Any],
        kernel: Kernel,
        choice: tuple[GemmConfig, Epilogue],
        more: tuple[int, ...],
    ) -> Call:
        """Return the call that adds up the products of parts of K, which is made after them."""
        library, (config, epilogue) = self.library, choice
        m, n, _k = config.tile
        plain = LinearCombination()
        made = library.empty((count, self.M, self.N), f32)
        A, B, P = (
            library.ordered(x, (1, 2, 0))
            for x in (*[self._parts_of_k(x, count) for x in operands], made)
        )
        if self.kinds[0].name == "tf32":
            A, B = (cute.typed(x, "tf32") for x in (A, B))
        first = Call(
            kernel,
            library,
            reads=(A, B, None, None),
            outputs=(Output(P, made, made.shape),),
            numbers=(1.0, 0.0),
            more=more,
            statics=(config, plain),
            choice=(config, plain),
            blocks=count * ceil_div(self.M, m) * ceil_div(self.N, n),
            block_bytes=config.block_bytes if library.on_host else 0,
        )
        copy = parts_copy(self.N)
        bM, bN = copy.tile_shape
        return Call(
            self.kernel(sum_parts),
            library,
            reads=(P, *self.in_places([self._read_by(x, True) for x in self.arrays])),
            outputs=tuple(
                [self.writes_matrices([*operands, *self.arrays], True, x) for x in self.results]
            ),
            numbers=tuple(self.factors.values()),
            statics=(count, copy, epilogue),
            choice=(config, epilogue),
            blocks=ceil_div(self.M, bM) * ceil_div(self.N, bN),
            block_bytes=1 << 14,
            inputs=self,
            first=first,
            between=(P,),
        )

    def _parts_of_k(self, x: Any, count: int) -> Any:
        """Return [1, rows, K] as [count, rows, K / count]."""
        _one, rows, K = x.shape
        return self.library.ordered(x.reshape((rows, count, K // count)), (1, 0, 2))

    def _read_by(self, x: Any, shares: bool) -> Any:
        """Return an array of the epilogue as the kernel counts its modes."""
        if len(x.shape) > 2:
            return self.matrices(x, shares)
        return x if len(x.shape) < 2 else self.library.ordered(x, (1, 0))

    def kernel(self, of_family: Kernel) -> Kernel:
        """Return the kernel that computes this, of a family."""
        return of_family

    def require_whole(self, ours: Operator, request: Any, named: dict[str, Any]) -> None:
        """Refuse arrays among the arguments of a call for results that they cannot take."""

    def whole(self, result: Any, named: dict[str, Any]) -> Any:
        """Return the results of a call of `gemm` with these arguments, by what a kernel gave."""
        return result

    def values(self, a: Any, b: Any, terms: dict[str, Any], factors: dict[str, float]) -> Any:
        """Return the result of operands and terms of float64, by NumPy."""
        activation = self.request.activation
        return values(a, b, terms.get("C"), terms.get("bias"), activation=activation, **factors)

    def candidates(self) -> list[tuple[GemmConfig, Epilogue]]:
        """Return the choices that `cute.tune` measures, the rule's first."""
        if self.K:
            return [(config, self.epilogue()) for config in all_for(self)]
        found = choose(self)
        return [(found.config.because(*found.why()), found.epilogue)]

    def facts(self) -> tuple[object, ...]:
        """Return all that a choice may depend on."""
        return facts(self)

    # -- shapes and types

    def _batch(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        """Return the batch modes of operands (..., M, K) and (..., K, N)."""
        for name, shape, wanted in (("a", a, "(..., M, K)"), ("b", b, "(..., K, N)")):
            if len(shape) < 2:
                facts: dict[str, Any] = {"name": name, "shape": shown(shape), "modes": wanted}
                raise refusal("ops-rank", operation=self.operation, rank=2, **facts)
        try:
            if a[-1] != b[-2]:
                raise ValueError
            return broadcast(a[:-2], b[:-2])
        except ValueError:
            raise refusal("ops-shapes", operation=self.operation, a=shown(a), b=shown(b)) from None


MOST = 4096  # choices that are kept; when there are more, all are evicted
_choices: dict[tuple[GemmConfig, Epilogue], tuple[GemmConfig, Epilogue]] = {}


def shared(
    config: GemmConfig, epilogue: Epilogue, why: Callable[[], tuple[str, ...]]
) -> tuple[GemmConfig, Epilogue]:
    """Return the first of equal choices, with its reasons: a kernel knows the values of its earlier
    calls by their identity, and examines others anew.
    """
    found = _choices.get((config, epilogue))
    if found is None:
        if len(_choices) >= MOST:
            _choices.clear()
        made = config.because(*why()), epilogue
        found = _choices.setdefault(made, made)
    return found


def _by_epilogue(
    function: Any, terms: dict[str, Any], named: dict[str, Any]
) -> tuple[Operator, dict[str, Any]]:
    from cute_py.ops.epilogues import bound

    return bound(function, terms, named)


def _with_epilogue(function: Any, terms: dict[str, Any], given: tuple[Any, ...]) -> Any:
    from cute_py.ops.epilogues import call

    return call(function, terms, given)


@operator(
    Product,
    arrays=("a", "b", "c", "bias", "out"),
    numbers={"alpha": 1, "beta": 0},
    choices={"activation": lambda: (None, *ACTIVATIONS)},
    configs=GemmConfig,
    variants=Variants("epilogue", "terms", _by_epilogue, _with_epilogue),
    words=Words(
        "product",
        "multiply in parts along M or N",
        'what choose_config returns, or text: "tile=64x64x32,stages=2"',
    ),
)
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str | None = None,
    out_dtype: DtypeLike | None = None,
    backend: str = "auto",
    config: GemmConfig | str | None = None,
    *,
    dtype: DtypeLike | None = None,
    out: Any = None,
    checks: bool | str = False,
    stream: Any = None,
    fast_accum: bool = False,
    epilogue: Callable[..., Any] | Formula | None = None,
    **terms: Any,
) -> Any:  # an array of the operands' library, or several by name
    """Return activation(alpha * a @ b + beta * c + bias), as `numpy.matmul` counts the modes; or
    what a function gives for a @ b.

    Args:
        a: (..., M, K), of f16, bf16, tf32 (`cute.typed`), f32, f64, s8, u8, e4m3 or e5m2. It may
            be contiguous along either of the last two modes; other strides are copied first.
        b: (..., K, N), of the same type; s8 and u8, e4m3 and e5m2 mix.
        c: (..., M, N), or (N), (1, N), (M, 1), (), which are spread over that, of any type; not
            read if beta is 0. None: zeros.
        alpha: factor of the product: a number, or an array of no modes that has no gradient.
        beta: factor of c, alike.
        bias: (N), added to each row.
        activation: None or a name: "relu", "gelu" (with erf) ...; the error lists all.
        out_dtype: of the result; None: that of the operands (f32 for tf32, s32 for integers).
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what `choose_config` returns, or changes to that as text, "tile=64x64x32,stages=2".
        dtype: of the operands, which are converted to it first.
        out: where the result goes; None: a new array. It may be an operand. On a GPU the kernel
            writes to it directly if its rows are contiguous, as aligned as those of a new one, and
            share no memory with the operands. After an error `out` is unchanged.
        checks: those of the emulator, as in `cute.emulate`: True, False or names ("shared,global").
        stream: of the GPU, of any library or as a number, for the work; None: the current one.
        fast_accum: of e4m3 and e5m2 on compute capability 9.0, whose tensor cores sum with about 14
            bits: True keeps all sums there, False adds them to sums of f32 every 128 of K.
        epilogue: a function (sums, name, ...) of registers, in the place of alpha to activation:
            docs/epilogues.md.
        terms: what it reads, by the names of its parameters: numbers, or arrays (M,N), (N), (M,1)
            or () with batch modes; and where results but D go, by their names.

    Batch modes broadcast as in NumPy; operands of one mode are those of numpy.matmul. Floats are
    summed in f32 (f64 in f64), integers in s32, which wraps, and to which wider terms wrap; the
    epilogue is computed in that type, each step rounded. Integers with factors that are not whole,
    or with float terms, results or activations, go through f32. The result is rounded to nearest
    even; integers and 8-bit floats clamp to their finite range. With K = 0 the product is 0; with
    M, N or the batch 0 the result is empty. NaN and inf propagate. The result is an array of the
    library of `a`. For gradients see docs/torch.md. Raises CuteError.

    >>> gemm([[1.0, 2.0]], [[3.0], [4.0]], alpha=2)
    array([[22.]])
    """


GEMM = gemm.operator
Request, KNOWN, taken = GEMM.request, GEMM.known, GEMM.taken
