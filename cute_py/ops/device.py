"""`gemm` on arrays of a GPU, torch or CuPy: the same configuration and kernel, launched there."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from cute_py.calls.arrays import address_of, bare, dtype_of, strides_of
from cute_py.codegen.driver.driver import driver
from cute_py.codegen.driver.streams import device_of
from cute_py.codegen.launch.run import shared_memory_of_device
from cute_py.errors import refusal
from cute_py.kernels.epilogue import Epilogue
from cute_py.kernels.gemm import gemm as kernel
from cute_py.ops.adopt import adopted, given_back, library_name
from cute_py.ops.choose import VECTOR_BYTES, changed, choose_config
from cute_py.ops.device_config import Gpu, for_gpu
from cute_py.ops.libraries import Library, library_for
from cute_py.ops.operands import OPERATION, alignment_of, batch_of, bytes_each, major_of, unfit
from cute_py.ops.product import compute_type, result_type, wrong_shape

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.kernels.gemm import GemmConfig
    from cute_py.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the kernel, with all that was chosen for it.

    Attributes:
        arguments: of the kernel.
        result: the array for D, (L, M, N): a new one, or a view of `out`.
        direct: whether it is a view of `out`.
        shape: of D, with its batch modes.
        config: how it is computed, which is among the arguments.
    """

    arguments: tuple[Any, ...]
    result: Any
    direct: bool
    shape: tuple[int, ...]
    config: GemmConfig

    def plan(self) -> Plan:
        """Return the plan that such a call runs."""
        return cute.trace(kernel, *self.arguments)


ARRAYS = 5  # so many fields of a request come first, and are arrays


class Request(NamedTuple):
    """What `gemm` is asked for on a GPU, as `multiply.gemm` says of its arguments.

    Attributes:
        a, b: the operands, with the types that they are read as.
        c, bias: what is added, or None.
        out: where the result goes, or None.
        factors: alpha and beta.
        activation, out_dtype, config: as given.
    """

    a: Any
    b: Any
    c: Any
    bias: Any
    out: Any
    factors: tuple[float, float]
    activation: str | None
    out_dtype: DtypeLike | None
    config: GemmConfig | str | None

    def adopted(self) -> Request:
        """Return it with arrays of torch or CuPy."""
        return Request(*map(adopted, self[:ARRAYS]), *self[ARRAYS:])


def gemm_on_device(request: Request) -> Any:  # noqa: ANN401
    """Return D in a new array of the library of a, or in `out`; see `multiply.gemm`.

    All arrays lie on one device. c has the shape of D. Large operands whose rows are not aligned to
    16 bytes are copied first. The kernel writes to `out` itself where it can (see `_directly`).
    Raises LayoutError for shapes that do not fit and for empty ones; `out` is as before then.
    """
    caller, target = request.a, request.out
    request = request.adopted()
    library = library_for(bare(request.a))
    with library.inside():
        call = prepared(request)
        kernel(*call.arguments)
        if call.direct:
            library.written(request.out)
            return target
        result = call.result.reshape(call.shape)
        if target is None:
            return given_back(result, caller)
        request.out[...] = result
        return target


def prepared(request: Request, gpu: Gpu | None = None) -> Call:
    """Return what `gemm_on_device` calls; with `gpu`, for that one, and arrays may be outlines."""
    a, b, c, bias, out, factors, activation, out_dtype, config = request
    library, kinds = library_for(bare(a)), (dtype_of(a), dtype_of(b))
    batch = _batch(bare(a), bare(b))
    A = _ready(library, bare(a), batch)  # (L, M, K)
    B = _ready(library, bare(b).swapaxes(-1, -2), batch)  # (L, N, K)
    if kinds[0].name != "f32":
        A, B = _packed(library, A, B)
    M, N = A.shape[1], B.shape[1]
    if out_dtype is None and out is not None:
        out_dtype = dtype_of(out)
    kind = result_type(kinds[0], out_dtype)
    chosen = _configured(config, A, B, kinds, kind, gpu or _gpu(A))
    _require_out(out, (*batch, M, N), kind)
    c = None if float(factors[1]) == 0 else c
    _require_shapes(c, bias, (*batch, M, N))
    epilogue = _epilogue(kinds[0], factors, c, bias, activation, kind)
    C = None if c is None else _ready(library, c, batch)
    bias = None if bias is None else library.copied(bias)
    result = direct = _directly(out, (prod(batch), M, N), (A, B, C, bias))
    if result is None:
        result = library.empty((prod(batch), M, N), kind)
    sides = [_modes(x) for x in (A, B)]
    if kinds[0].name == "tf32":
        sides = [cute.typed(x, "tf32") for x in sides]
    last = None if C is None else _modes(C)
    arguments = (*sides, last, bias, _modes(result), *map(float, factors), chosen, epilogue)
    return Call(arguments, result, direct is not None, (*batch, M, N), chosen)


def _configured(
    given: Any,  # noqa: ANN401  (a configuration, changes to the one that is chosen, or None)
    A: Any,  # noqa: ANN401
    B: Any,  # noqa: ANN401
    kinds: tuple[Dtype, Dtype],
    result: Dtype,
    gpu: Gpu,
) -> GemmConfig:
    (L, M, K), N = A.shape, B.shape[1]
    alignment = alignment_of(A), alignment_of(B)
    chosen = choose_config(M, N, K, kinds, (major_of(A), major_of(B)), alignment)
    chosen = for_gpu(chosen, (M, N, K, L), kinds[0], result, gpu)
    if given is None:
        return chosen
    return changed(chosen, given) if isinstance(given, str) else given


def _require_shapes(c: Any, bias: Any, shape: tuple[int, ...]) -> None:  # noqa: ANN401
    for name, term, wanted in (("c", c, shape), ("bias", bias, shape[-1:])):
        if term is not None and tuple(term.shape) != wanted:
            raise wrong_shape(name, tuple(term.shape), wanted)


def _epilogue(
    kind: Dtype,
    factors: tuple[float, float],
    c: Any,  # noqa: ANN401
    bias: Any,  # noqa: ANN401
    activation: str | None,
    result: Dtype,
) -> Epilogue:
    terms = [dtype_of(x) for x in (c, bias) if x is not None]
    integers = not any(x.is_float for x in (*terms, result))
    alpha, beta = map(float, factors)
    compute = compute_type(kind, (alpha, beta), activation, integers)
    return Epilogue(compute.name, alpha != 1, c is not None, bias is not None, activation)


PACKED = 512  # from this size on, a copy with aligned rows costs less than it saves


def _packed(library: Library, A: Any, B: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return [L, M, K] and [L, N, K] that 16-byte copies can read: where the rows of a large one
    are not aligned, both in new memory along K, with zeros behind.
    """
    (_l, M, K), N = A.shape, B.shape[1]
    if min(M, N, K) < PACKED or min(alignment_of(A), alignment_of(B)) == VECTOR_BYTES:
        return A, B
    return library.padded(A), library.padded(B)


def _gpu(array: Any) -> Gpu:  # noqa: ANN401
    """Return what the rules ask of the GPU where an array lies."""
    device = device_of(array)

    def limit(name: str) -> int:
        return driver().limit(device, name)

    capability = limit("COMPUTE_CAPABILITY_MAJOR"), limit("COMPUTE_CAPABILITY_MINOR")
    return Gpu(shared_memory_of_device(device), limit("MULTIPROCESSOR_COUNT"), capability)


def _batch(a: Any, b: Any) -> tuple[int, ...]:  # noqa: ANN401
    shapes = tuple(a.shape), tuple(b.shape)
    if min(map(len, shapes)) < 2 or 0 in (*a.shape, *b.shape):
        raise unfit(*shapes)
    return batch_of(*shapes)


def _ready(library: Library, x: Any, batch: tuple[int, ...]) -> Any:  # noqa: ANN401
    """Return [L, rows, columns] that a kernel can read: a view where possible, else a copy."""
    rows, columns = x.shape[-2:]
    if prod(x.shape[:-2]) == 1:
        x = library.spread(x.reshape(1, rows, columns), (prod(batch), rows, columns))
    else:
        x = library.spread(x, (*batch, rows, columns)).reshape(-1, rows, columns)
    _by_batch, by_row, by_column = strides_of(x)
    row_major = by_column == 1 and (by_row >= columns or rows == 1)
    column_major = by_row == 1 and (by_column >= rows or columns == 1)
    return x if row_major or column_major else library.copied(x)


def _modes(x: Any) -> Any:  # noqa: ANN401
    """Return [L, rows, columns] as a kernel counts it: (rows, columns, L), or two modes for L 1."""
    if x.shape[0] == 1:
        return x[0]
    return x.permute(1, 2, 0) if hasattr(x, "permute") else x.transpose(1, 2, 0)


# -- the caller's array for the result


def _directly(out: Any, shape: tuple[int, int, int], reads: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Return `out` as [L, M, N] if the kernel can write there as it writes to a new array, else
    None.

    Its rows are contiguous, apart from each other and as aligned as those of a new array, and it
    shares no memory with what is read. An array whose values are not plain, or that autograd
    follows, is left to its library.
    """
    first = reads[0]
    if out is None or library_name(out) != library_name(first):
        return None
    if device_of(out) != device_of(first):
        return None
    if getattr(out, "requires_grad", False) or getattr(out, "is_neg", bool)():
        return None
    view, (_l, _m, N) = out.reshape(shape), shape
    fits = address_of(view) == address_of(out) and _is_rows(view)  # it is no copy
    if not fits or alignment_of(view) < gcd(VECTOR_BYTES, N * bytes_each(view)):
        return None
    return None if any(_overlap(view, x) for x in reads if x is not None) else view


def _is_rows(x: Any) -> bool:  # noqa: ANN401
    """Tell whether [L, rows, columns] has rows of neighbours, none of which meet."""
    (count, rows, columns), (by_batch, by_row, by_column) = x.shape, strides_of(x)
    apart = rows == 1 or by_row >= columns
    alone = count == 1 or by_batch >= (rows - 1) * by_row + columns
    return by_column == 1 and apart and alone


def _overlap(x: Any, y: Any) -> bool:  # noqa: ANN401
    """Tell whether the ranges of addresses of two arrays meet."""
    (begin, end), (first, last) = _range(x), _range(y)
    return begin < last and first < end


def _range(x: Any) -> tuple[int, int]:  # noqa: ANN401
    """Return the addresses of the first byte of an array and of the one behind its last."""
    steps = [(n - 1) * step for n, step in zip(x.shape, strides_of(x), strict=True)]
    start, size = address_of(x), bytes_each(x)
    low, high = sum([min(0, s) for s in steps]), sum([max(0, s) for s in steps])
    return start + low * size, start + (high + 1) * size


def _require_out(out: Any, shape: tuple[int, ...], kind: Dtype) -> None:  # noqa: ANN401
    """Refuse an array for the result that has another shape or type."""
    if out is None:
        return
    if tuple(out.shape) != shape:
        raise wrong_shape("out", tuple(out.shape), shape)
    if dtype_of(out) is not kind:
        found = dtype_of(out)
        raise refusal("ops-out-dtype", operation=OPERATION, name="out", dtype=found, known=kind)
