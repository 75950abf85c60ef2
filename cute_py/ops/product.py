"""`gemm`: the matrix product of arrays, with the epilogue of BLAS and of neural networks.

A `Request` becomes a `Product`: its arrays as the kernel reads them. That gives a `Call` with the
configuration and the epilogue chosen for it, and the call is run. `KNOWN` finds repeated requests.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import cute_py as cute
from cute_py.calls.arrays import (
    VECTOR_BYTES,
    address_of,
    dtype_of,
    imported,
    on_device,
    strides_of,
    unwrapped,
)
from cute_py.calls.memo import Memo
from cute_py.calls.torch_tensors import (
    OPERATORS,
    graph_break,
    is_followed,
    is_in_mode,
    is_tensor,
    is_traced,
    leave_graphs,
    load_operators,
    not_compiled,
    note_written,
    outside_autograd,
    require_no_gradient,
)
from cute_py.codegen.driver.streams import device_of
from cute_py.dtypes.table import Dtype, f32, s32
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, refusal, shorten
from cute_py.kernels.config import ATOMS, GemmConfig
from cute_py.kernels.epilogue import ACTIVATIONS, Epilogue
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call, directly, in_place
from cute_py.ops.choice import choose
from cute_py.ops.libraries import of_one_library, reading
from cute_py.ops.operands import (
    aligned,
    broadcast,
    bytes_each,
    is_apart,
    ready,
    ready_row,
    rows_of,
    shown,
)
from cute_py.ops.paths import kernel_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import DtypeLike
    from cute_py.ops.libraries import Gpu, Library
    from cute_py.ops.operands import Rows
    from cute_py.ops.paths import Path

OPERATION = "cute.ops.gemm"
BACKENDS = ("auto", "emulator", "gpu")
FLOATS = ("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2")
TYPES = (*FLOATS, "s8", "u8")  # of operands
OUT = ("f32", "f64", "f16", "bf16", "e4m3", "e5m2", "s32", "s8", "u8")
LARGEST = 2**31  # larger whole factors do not fit in s32
ARRAYS = ("a", "b", "c", "bias", "out")  # the first fields of a request


class Request(NamedTuple):
    """What `gemm` is asked for; the fields are its arguments."""

    a: Any
    b: Any
    c: Any = None
    bias: Any = None
    out: Any = None
    alpha: float = 1
    beta: float = 0
    activation: str | None = None
    out_dtype: DtypeLike | None = None
    backend: str = "auto"
    config: GemmConfig | str | None = None
    dtype: DtypeLike | None = None
    checks: bool | str = False
    fast_accum: bool = False


KNOWN = Memo(len(ARRAYS), {5: 1, 6: 0})  # alpha and beta


@not_compiled
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
    fast_accum: bool = False,
) -> Any:  # an array of the operands' library
    """Return activation(alpha * a @ b + beta * c + bias), as `numpy.matmul` counts the modes.

    Args:
        a: (..., M, K), of f16, bf16, tf32 (`cute.typed`), f32, f64, s8, u8, e4m3 or e5m2. It may
            be contiguous along either of the last two modes; other strides are copied first.
        b: (..., K, N), of the same type; s8 and u8, e4m3 and e5m2 mix.
        c: (..., M, N), of any type; not read if beta is 0. None: zeros.
        alpha: factor of the product: a number, or an array of no modes that has no gradient.
        beta: factor of c, alike.
        bias: (N), added to each row.
        activation: None, "relu", "gelu" (with erf), "silu", "tanh" or "sigmoid".
        out_dtype: of the result; None: that of the operands (f32 for tf32, s32 for integers).
        backend: "gpu" or "emulator", which refuse arrays elsewhere; "auto" takes what fits them.
        config: what `choose_config` returns, or changes to that as text, "tile=64x64x32,stages=2".
        dtype: of the operands, which are converted to it first.
        out: where the result goes; None: a new array. It may be an operand. On a GPU the kernel
            writes to it directly if its rows are contiguous, as aligned as those of a new one, and
            share no memory with the operands. After a refusal `out` is unchanged.
        checks: those of the emulator, as in `cute.emulate`: True, False or names ("shared,global").
        fast_accum: of e4m3 and e5m2 on compute capability 9.0, whose tensor cores sum with about 14
            bits: True keeps all sums there, False adds them to sums of f32 every 128 of K.

    Batch modes broadcast as in NumPy. Floats are summed in f32 (f64 in f64), integers in
    s32, which wraps; the epilogue is computed in that type, each step rounded. Integers with
    factors that are not whole, or with float terms, results or activations, go through f32. The
    result is rounded to nearest even; integers and 8-bit floats clamp to their finite range. With
    K = 0 the product is 0; with M, N or the batch 0 the result is empty. NaN and inf propagate. The
    result is an array of the library of `a`. For gradients see docs/torch.md. Raises CuteError.

    >>> gemm([[1.0, 2.0]], [[3.0], [4.0]], alpha=2)
    array([[22.]])
    """
    how = activation, out_dtype, backend, config, dtype, checks, fast_accum
    given = a, b, c, bias, out, alpha, beta, *how
    try:
        try:
            found = _traced(Request(*given)) if is_traced() else KNOWN.replay(*given)
        except OverflowError:  # of a factor, which is refused below
            found = None
        return _answered(Request(*given)) if found is None else found
    except CuteError as error:
        shorten(error)
        raise


def computed(given: Request) -> Any:
    """Return the result of a request that is not known, as `gemm` does."""
    try:
        return _answered(given)
    except CuteError as error:
        shorten(error)
        raise


def _traced(given: Request) -> Any:
    """Return the result of a request in a graph; None where no operator takes it, which breaks the
    graph.
    """
    load_operators()
    return OPERATORS["gemm"][1](given)


@graph_break
def _answered(given: Request, statics: tuple[GemmConfig, Epilogue] | None = None) -> Any:
    """Return the result of a request, by the choices for one like it, if there are any."""
    leave_graphs()
    return _computed(given, statics)


@graph_break
def _computed(given: Request, statics: tuple[GemmConfig, Epilogue] | None) -> Any:
    arrays = [unwrapped(x) for x in given[: len(ARRAYS)] if x is not None]
    if arrays and all(map(is_tensor, arrays)) and is_in_mode(arrays[0]):
        load_operators()
        return OPERATORS["gemm"][0](given)
    if is_followed(given[: len(ARRAYS)]):
        result = _followed(given)
        KNOWN.keep(given, outside_autograd(given[: len(ARRAYS)], _by(None), _again))
        return result
    request, library = taken(given)
    with library.inside():
        product = Product(request, library)
        if 0 in product.shape and not library.on_host:
            return given.out if given.out is not None else product.empty(given.a)
        call = product.call(statics)
        result = call.run(**{"checks": given.checks} if library.on_host else {})
    if library.on_host and is_tensor(given.out):
        note_written(given.out)
    again = in_place(call, given[: len(ARRAYS)], _by(call.statics))
    if again is not None or statics is None:
        answer = _for_factors(given, call.inputs, again or _by(call.statics))
        KNOWN.keep(given, outside_autograd(given[: len(ARRAYS)], answer, _again))
    return library.given_back(result, given.a) if given.out is None else given.out


def _followed(given: Request) -> Any:
    """Return the result of a request with an operand that autograd follows, by the operator of
    torch; refuse `out`, as torch.mm does.
    """
    if given.out is not None:
        for name in ARRAYS:
            require_no_gradient(getattr(given, name), name, OPERATION)
    load_operators()
    return OPERATORS["gemm"][0](given)


def _again(args: tuple[Any, ...], *_read: Any) -> Any:
    """Answer a request with an operand that autograd follows."""
    return _followed(Request(*args))


def _by(statics: Any) -> Answer:
    """Return the answer to requests that are prepared anew, but for these choices."""
    return lambda args, _addresses, _numbers: _answered(Request(*args), statics)


def _for_factors(given: Request, product: Product, answer: Answer) -> Answer:
    """Return an answer that checks whether factors of integers are whole: others are computed in
    another type.
    """
    if product.kinds[0].is_float:
        return answer
    whole = _are_whole((given.alpha, given.beta))
    return lambda *x: answer(*x) if _are_whole(x[2]) is whole else None


def taken(given: Request) -> tuple[Request, Library]:
    """Return a request with the arrays of one library, and that library; refuse choices that do not
    exist.
    """
    require_known(given)
    arrays: dict[str, Any] = {}
    places = {}
    for name in ARRAYS:
        x = arrays[name] = getattr(given, name)
        if x is None:
            continue
        with reading(x, name, OPERATION):
            arrays[name] = imported(x)
            require_no_gradient(arrays[name], name, OPERATION)
            places[name] = on_device(arrays[name])
    require_place(places, given.backend)
    require_one_gpu({name: device_of(arrays[name]) for name in places if places[name]})
    arrays, library = of_one_library(arrays, OPERATION)
    return given._replace(**arrays), library


def require_known(given: Request) -> None:
    """Refuse choices that do not exist."""
    require_choices(given.backend, given.activation)
    config: object = given.config
    if config is not None and not isinstance(config, (GemmConfig, str)):
        known = 'what choose_config returns, or text: "tile=64x64x32,stages=2"'
        raise refusal("ops-choice", operation=OPERATION, name="config", value=config, choices=known)
    _require_checks(given.checks)


def _require_checks(checks: object) -> None:
    """Refuse checks that are neither a flag nor text with names that the emulator has."""
    if isinstance(checks, (bool, np.bool_)):
        return
    from cute_py.emulate.faults import CHECKS

    names = checks.split(",") if isinstance(checks, str) else [""]
    if not {name.strip() for name in names} <= set(CHECKS):
        facts: dict[str, Any] = {
            "value": checks,
            "choices": f"True, False, names among {', '.join(CHECKS)}",
        }
        raise refusal("ops-choice", operation=OPERATION, name="checks", **facts)


def require_choices(backend: str, activation: str | None) -> None:
    """Refuse an unknown backend or activation."""
    for name, value, known in (
        ("backend", backend, BACKENDS),
        ("activation", activation, (None, *ACTIVATIONS)),
    ):
        word: object = value
        if not (word is None or isinstance(word, str)) or word not in known:
            choices = ", ".join(map(repr, known))
            raise refusal(
                "ops-choice", operation=OPERATION, name=name, value=value, choices=choices
            )


def require_place(places: dict[str, bool], backend: str) -> None:
    """Refuse arrays that are not where the product is computed; on a device are those with True."""
    device = backend == "gpu" or (backend == "auto" and any(places.values()))
    wrong = [name for name, there in places.items() if there is not device]
    if wrong:
        place = "host" if device else "device"
        value = f"{', '.join(wrong)} on the {place}, with backend={backend!r}"
        raise refusal("ops-no-gpu", operation=OPERATION, value=value)


def require_one_gpu(gpus: dict[str, int]) -> None:
    """Refuse arrays on GPUs of these numbers, unless all are one."""
    if len(set(gpus.values())) > 1:
        value = ", ".join(f"{name} on GPU {x}" for name, x in gpus.items())
        raise refusal("ops-no-gpu", operation=OPERATION, value=value)


class Product:
    """The arrays of a request, activation(alpha a b + beta c + bias), as the kernel reads them.

    Attributes:
        a, b: the operands (..., M, K) and (..., K, N), converted.
        A, B: the same as [L, M, K] and [L, N, K]; L counts the batch.
        c, bias: what is added, or None.
        kinds: types of the operands.
        kind: that of the result.
        compute: that of the epilogue.
        batch, M, N, K: extents; `shape` is that of the result.
        factors: alpha and beta as they were given; `alpha` is 0 if there is nothing to add up.
    """

    def __init__(self, request: Request, library: Library) -> None:
        """Read the arrays of `library`; refuse those that do not fit each other."""
        self.request, self.library = request, library
        (a, first), (b, second) = (
            library.read(getattr(request, name), name, request.dtype) for name in "ab"
        )
        self.kinds = first, second
        self.batch = _batch(tuple(a.shape), tuple(b.shape))
        self._require_types()
        (self.M, self.K), self.N = a.shape[-2:], b.shape[-1]
        self.shape = (*self.batch, self.M, self.N)
        library.require_room(
            (a.shape, first.bits), (b.shape, second.bits), (self.shape, first.bits)
        )
        self.a, self.b = library.converted(a, first), library.converted(b, second)
        self.A, self.B = (self._side(x, kind) for x, kind in self._matrices())
        self.copied: tuple[object, tuple[Any, Any]] = None, (None, None)  # of the last path
        self.factors = factor("alpha", request.alpha), factor("beta", request.beta)
        self.alpha, self.beta = self.factors[0] if self.K else 0.0, self.factors[1]
        if self.beta != 0 and request.c is None:
            raise refusal("ops-no-c", operation=OPERATION, beta=request.beta)
        self.kind = result_type(first, self._out_type())
        self._read_terms()
        self._require_out()

    def _require_types(self) -> None:
        names = tuple([kind.name for kind in self.kinds])
        if names not in ATOMS or not set(names) <= set(TYPES):
            a, b = self.kinds
            raise refusal("ops-dtype", operation=OPERATION, a=a, b=b, known=", ".join(TYPES))

    def _matrices(self) -> tuple[tuple[Any, Dtype], ...]:
        return (self.a, self.kinds[0]), (self.b.swapaxes(-1, -2), self.kinds[1])

    def _side(self, x: Any, kind: Dtype) -> Any:
        """Return an operand as [L, rows, K] that a kernel can read."""
        if 0 in self.shape:  # the result is empty; any stand-in will do
            return np.zeros((1, 1, 1), kind.numpy)
        if self.K == 0:  # alpha is 0: one vector of zeros in each row
            each = 1 if self.library.on_host else VECTOR_BYTES * 8 // kind.bits
            zeros = self.library.zeros((1, x.shape[-2], each), kind)
            return self.library.spread(zeros, (prod(self.batch), *zeros.shape[1:]))
        return ready(self.library, x, self.batch, kind)

    def require_some(self, operation: str) -> None:
        """Refuse a result without elements, which no kernel computes."""
        if 0 in self.shape:
            raise refusal("ops-empty", operation=operation, shape=shown(self.shape))

    def gathered(self) -> list[str]:
        """Return the names of the arrays that were copied because no kernel reads their strides."""
        sides = [("C", self.c, self.source), ("bias", self.bias, self.row)]
        if self.K:
            sides += [("A", self.a, self.A), ("B", self.b, self.B)]
        return [n for n, x, y in sides if x is not None and address_of(x) != address_of(y)]

    def operands(self, path: Path) -> tuple[Any, Any]:
        """Return A and B as a path reads them, copied where it says so."""
        library, found = self.library, []
        if (path.tma, path.copies) == self.copied[0]:
            return self.copied[1]
        for x, kind, major in zip((self.A, self.B), self.kinds, path.copies, strict=True):
            if not major or library.on_host:
                found.append(x)
            else:
                found.append(aligned(library, x, kind, major, whole=not path.tma))
        self.copied = (path.tma, path.copies), (found[0], found[1])
        return self.copied[1]

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """How A and B are in memory."""
        return rows_of(self.A), rows_of(self.B)

    def rows_by(self, path: Path) -> tuple[Rows, Rows]:
        """Return the same of the operands that a path reads."""
        A, B = self.operands(path)
        return self.rows if A is self.A and B is self.B else (rows_of(A), rows_of(B))

    # -- the epilogue

    def _out_type(self) -> DtypeLike | None:
        given, out = self.request.out_dtype, self.request.out
        return given if given is not None or not hasattr(out, "dtype") else dtype_of(out)

    def _read_terms(self) -> None:
        """Read c and the bias, and say in which type they are added."""
        (c, c_kind), (bias, bias_kind) = (
            self._term("c", self.shape) if self.beta != 0 else (None, s32),
            self._term("bias", self.shape[-1:]),
        )
        integers = not any(kind.is_float for kind in (c_kind, bias_kind, self.kind))
        activation = self.request.activation
        self.compute = compute_type(self.kinds[0], self.factors, activation, integers)
        self.c, self.bias = self._known(c, c_kind), self._known(bias, bias_kind)

    def _term(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Dtype]:
        """Return an array that is added, and its type."""
        given, modes = getattr(self.request, name), min(len(shape), 2)
        if given is None:
            return None, s32
        x, kind = self.library.read(given, name)
        found = tuple(x.shape)
        more = zip(found[:-modes][::-1], shape[:-modes][::-1], strict=False)
        fits = len(found) <= len(shape) and all(n in (1, m) for n, m in more)
        if found[-modes:] != shape[-modes:] or not fits:
            raise wrong_shape(name, found, shape)
        return x, kind

    def _known(self, x: Any, kind: Dtype) -> Any:
        """Return an array of the host in a type that the kernel converts from."""
        if x is None or kind.name in OUT or not self.library.on_host:
            return x
        return x.astype(self.compute.numpy)

    def _require_out(self) -> None:
        out, kind = self.request.out, self.kind
        if out is None:
            return
        shape = tuple(out.shape) if hasattr(out, "shape") else type(out).__name__
        if shape != self.shape:
            raise wrong_shape("out", shape, self.shape)
        if self.library.on_host and not isinstance(out, np.ndarray):
            value = type(out).__name__
            raise refusal("ops-array", operation=OPERATION, name="out", value=value)
        if dtype_of(out) is not kind:
            wanted = f"{kind}, as out_dtype says"
            raise refusal(
                "ops-out-dtype", operation=OPERATION, name="out", dtype=out.dtype, known=wanted
            )
        self._require_memory(out, shape)

    def _require_memory(self, out: Any, shape: tuple[int, ...]) -> None:
        if self.library.is_read_only(out):
            raise refusal("ops-read-only", operation=OPERATION)
        if not is_apart(out):
            strides = [step * bytes_each(out) for step in strides_of(out)]
            facts = {"shape": shown(shape), "strides": shown(strides)}
            raise refusal("ops-overlap", operation=OPERATION, **facts)

    @cached_property
    def gpu(self) -> Gpu | None:
        """The facts of the GPU that has the arrays; None for the host."""
        return self.library.gpu(self.a)

    @cached_property
    def source(self) -> Any:
        """C as [L, M, N] that a kernel can read; None if nothing is added."""
        return None if self.c is None else ready(self.library, self.c, self.batch)

    @cached_property
    def row(self) -> Any:
        """The bias as a contiguous row; None if there is none."""
        return None if self.bias is None else ready_row(self.library, self.bias)

    def empty(self, like: Any) -> Any:
        """Return a result without elements, as an array of the library of `like`."""
        return self.library.given_back(self.library.empty(self.shape, self.kind), like)

    # -- the call

    def call(self, statics: tuple[GemmConfig, Epilogue] | None = None) -> Call:
        """Return the call of the kernel, by a configuration and an epilogue chosen before, if
        given.
        """
        library, L = self.library, prod(self.batch)
        path, *operands, config, more, why = choose(self, statics[0] if statics else None)
        config, epilogue = statics or shared(config, self.epilogue(), why)
        C, bias = self.source, self.row
        form, out = (L, self.M, self.N), self.request.out
        view = directly(out, form, (*operands, C, bias))
        A, B, C = (None if x is None else self._modes(x, path.tma) for x in (*operands, C))
        if view is None and L == 1 and not library.on_host:
            D = result = library.empty(form[1:], self.kind)
        else:
            result = library.empty(form, self.kind) if view is None else view
            D = self._modes(result, path.tma)
        if self.kinds[0].name == "tf32":
            A, B = (cute.typed(x, "tf32") for x in (A, B))
        m, n, _k = config.tile
        return Call(
            kernel_of(config),
            library,
            reads=(A, B, C, bias),
            result=D,
            numbers=(self.alpha, self.beta, *more),
            statics=(config, epilogue),
            shape=self.shape,
            made=result,
            out=out,
            direct=view is not None,
            blocks=L * ceil_div(self.M, m) * ceil_div(self.N, n),
            block_bytes=config.block_bytes if library.on_host else 0,
            inputs=self,
        )

    def _modes(self, x: Any, tma: bool) -> Any:
        """Return [L, rows, columns] as the kernel counts it: (rows, columns, L); a GPU gets two
        modes for L = 1, and by TMA for one matrix that the batch shares.
        """
        shared = x.shape[0] == 1 or (tma and strides_of(x)[0] == 0)
        if shared and not self.library.on_host:
            return self.library.first(x)
        return self.library.ordered(x, (1, 2, 0))

    def epilogue(self) -> Epilogue:
        """Return the epilogue."""
        terms = self.c is not None, self.bias is not None
        return Epilogue(self.compute.name, self.alpha != 1, *terms, self.request.activation)


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


def _batch(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the batch modes of operands (..., M, K) and (..., K, N)."""
    for name, shape, wanted in (("a", a, "(..., M, K)"), ("b", b, "(..., K, N)")):
        if len(shape) < 2:
            found = shown(shape)
            raise refusal(
                "ops-rank", operation=OPERATION, name=name, shape=found, rank=2, modes=wanted
            )
    try:
        if a[-1] != b[-2]:
            raise ValueError
        return broadcast(a[:-2], b[:-2])
    except ValueError:
        raise refusal("ops-shapes", operation=OPERATION, a=shown(a), b=shown(b)) from None


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
    return s32 if _are_whole(factors) and integers and activation in (None, "relu") else f32


def factor(name: str, given: Any) -> float:
    """Return a factor as a float; refuse all but real numbers, of Python or of a library."""
    require_no_gradient(given, name, OPERATION)
    number = given.item() if getattr(given, "shape", None) == () else given
    try:
        if isinstance(number, (int, float)):
            return float(number)
    except OverflowError:
        pass
    raise refusal("ops-factor", operation=OPERATION, name=name, value=given)


def _are_whole(factors: Sequence[float]) -> bool:
    """Tell whether factors are integers that fit in s32."""
    return all(float(x).is_integer() and abs(x) < LARGEST for x in factors)


def wrong_shape(name: str, given: tuple[int, ...] | str, wanted: tuple[int, ...]) -> CuteError:
    """Return the refusal of an array by its shape."""
    found = shown(given) if isinstance(given, tuple) else given
    return refusal("ops-shape", operation=OPERATION, name=name, shape=found, wanted=shown(wanted))
