"""`Call`: a kernel with all of its arguments, and how repeated calls are answered.

Every operator turns a request into a `Call` and runs it. A call with equal facts (see
`calls.memo`) is not prepared again: where the kernel reads and writes the user's own arrays, it is
launched with their addresses; otherwise with the choices made before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import cute_py as cute
from cute_py.calls.arrays import (
    LIBRARIES,
    VECTOR_BYTES,
    address_of,
    address_reader,
    dtype_of,
    on_device,
    unwrapped,
)
from cute_py.codegen.driver.streams import device_of
from cute_py.dtypes.conversion import strided
from cute_py.ops.libraries import library_name
from cute_py.ops.operands import bytes_each, is_rows, rows_of, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.calls.fast_path import CachedLaunch
    from cute_py.calls.memo import Answer
    from cute_py.ops.libraries import Library
    from cute_py.plan.plan import Plan
    from cute_py.trace.kernel import Kernel


FACTORS = 2  # the first numbers of a call: alpha and beta, which the user gives


@dataclass(slots=True)
class Call:
    """A call of a kernel, ready to run.

    Attributes:
        kernel: the kernel to call.
        library: the library of the arrays.
        reads: the arrays that it reads, as it takes them; None for those left out.
        result: the array that it writes to, as it takes it.
        numbers: its run-time numbers.
        statics: its compile-time values; a configuration comes first.
        shape: of the result, for the user.
        made: the new array behind `result`, before it is reshaped; or `out`.
        out: where the user wants the result, or None.
        direct: whether the kernel writes to `out` itself.
        workspace: scratch arrays.
        blocks, block_bytes: how many blocks it has, and about what the emulator keeps per block.
        inputs: what the arrays and numbers were made of.
        known: the plan, if it was traced before.
        report: of the last run, if it was asked for.
        launched: the launch of the last run, if it is cached.
    """

    kernel: Kernel
    library: Library
    reads: tuple[Any, ...]
    result: Any
    numbers: tuple[float, ...]
    statics: tuple[Any, ...]
    shape: tuple[int, ...]
    made: Any
    out: Any = None
    direct: bool = False
    workspace: tuple[Any, ...] = ()
    blocks: int = 1
    block_bytes: int = 0
    inputs: Any = None
    known: Plan | None = None
    report: Any = None
    launched: CachedLaunch | None = None

    @property
    def config(self) -> Any:
        """How the result is computed."""
        return self.statics[0]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the kernel is given."""
        return (*self.reads, self.result, *self.workspace, *self.numbers, *self.statics)

    def leaves(self) -> list[Any]:
        """Return what its plan is run with: arrays and numbers."""
        arrays = (*self.reads, self.result, *self.workspace)
        return [*[unwrapped(x) for x in arrays if x is not None], *self.numbers]

    def plan(self) -> Plan:
        """Return the plan that is run."""
        return self.known or cute.trace(self.kernel, *self.arguments)

    def run(self, **options: Any) -> Any:
        """Return the result, in `out` if there is one.

        Args:
            options: of `cute.emulate`, for arrays of the host.

        """
        self.report = self.library.run(self, **options)
        if self.direct:
            self.library.written(self.out)
            return self.out
        result = self.made.reshape(self.shape)
        if self.out is None:
            return result
        self.out[...] = result
        return self.out


# -- the caller's array for the result


def directly(out: Any, shape: tuple[int, ...], reads: Sequence[Any]) -> Any:
    """Return `out` as [L, M, N] if a kernel can write there as it writes to a new array, else None.

    Its rows must be contiguous, disjoint and as aligned as those of a new array, and it must share
    no memory with what is read. An array on the host stays untouched until everything is computed;
    one with lazy values, or tracked by autograd, is left to its library.
    """
    first = unwrapped(reads[0])
    if out is None or not on_device(out) or device_of(out) != device_of(first):
        return None
    if library_name(type(out)) != library_name(type(first)):
        return None
    if getattr(out, "requires_grad", False) or getattr(out, "is_neg", bool)():
        return None
    view = out.reshape(shape)
    fits = address_of(view) == address_of(out) and is_rows(view)  # it is no copy
    rows = rows_of(view)
    wanted = gcd(VECTOR_BYTES, shape[-1] * bytes_each(view))
    if not fits or rows.alignment < wanted or not rows.pitch:
        return None
    mine = address_of(view)
    for x in (unwrapped(x) for x in reads if x is not None):
        low, high = apart(view, x)
        if low < address_of(x) - mine < high:
            return None
    return view


def apart(x: Any, y: Any) -> tuple[int, int]:
    """Return (low, high): two arrays share memory where the address of y less that of x is in
    between.
    """
    (begin, end), (first, last) = span(x), span(y)
    return begin - last, end - first


# -- repeated calls


def in_place(call: Call, arrays: Sequence[Any], otherwise: Answer) -> Answer | None:
    """Return the answer to calls like one that was run, for other arrays of the same facts; None
    where the kernel reads or writes memory that is not the caller's.

    Args:
        call: where it wrote to a new array, that is the result, or is copied to it.
        arrays: as the user gave them: those of `call.reads`, in this order, then `out`.
        otherwise: the answer where `out` shares memory with what is read.

    """
    *given, out = arrays
    pairs = zip(map(unwrapped, call.reads), map(unwrapped, given), strict=True)
    if call.workspace or not all(_is_there(x, y) for x, y in pairs if x is not None):
        return None
    if call.library.on_host:
        return _emulated(call)
    known = call.launched
    if known is None or call.direct is (out is None):
        return None
    places = [i for i, x in enumerate(arrays) if x is not None]
    read = [places.index(i) for i, x in enumerate(call.reads) if x is not None]
    if out is None:
        return _into_a_new_array(call, known, read)
    return _into_the_given_one(call, known, read, arrays, otherwise)


def _is_there(x: Any, y: Any) -> bool:
    """Tell whether an array that a kernel reads is a view of the one that the user gave."""
    known = library_name(type(x)) == library_name(type(y))  # y may be a list
    return known and address_of(x) == address_of(y)


def _emulated(call: Call) -> Answer:
    """Return the answer that runs the plan; NumPy's arrays become views by their strides."""
    seen = call.kernel.dependencies.snapshot()
    place = len(call.reads)
    views = [x if x is None else (x.shape, x.strides) for x in call.reads]
    view = call.result.shape, call.result.strides
    form, kind = call.made.shape, dtype_of(call.made)
    like = replace(call, reads=(), result=None, made=None, out=None, inputs=None, known=call.plan())

    def answer(args: Any, _addresses: Any, numbers: tuple[float, ...]) -> Any:
        if like.kernel.dependencies.snapshot() is not seen:
            return None
        reads = [v if v is None else strided(x, *v) for x, v in zip(args, views, strict=False)]
        made = like.library.empty(form, kind)
        return replace(
            like,
            reads=tuple(reads),
            result=strided(made, *view),
            numbers=(*map(float, numbers), *call.numbers[len(numbers) :]),
            made=made,
            out=args[place],
        ).run()

    return answer


def _into_the_given_one(
    call: Call, known: CachedLaunch, read: list[int], arrays: Sequence[Any], otherwise: Answer
) -> Answer:
    unchanged, launch = known.unchanged, known.launch.go
    more = call.numbers[FACTORS:]
    seen = [x for x in arrays if x is not None]
    bounds = [(i, *apart(seen[-1], unwrapped(seen[i]))) for i in read]
    whole = len(read) == len(seen) - 1
    place, note = len(call.reads), call.library.note

    def answer(args: Any, addresses: Any, numbers: tuple[float, ...]) -> Any:
        if not unchanged():
            return None
        mine = addresses[-1]
        for i, low, high in bounds:
            if low < addresses[i] - mine < high:
                return otherwise(args, addresses, numbers)
        if not whole:
            addresses = (*[addresses[i] for i in read], mine)
        launch((*addresses, *numbers, *more))
        out = args[place]
        if note is not None:
            note(out)
        return out

    return answer


def _into_a_new_array(call: Call, known: CachedLaunch, read: list[int]) -> Answer:
    unchanged, launch, more = known.unchanged, known.launch.go, call.numbers[FACTORS:]
    make = call.library.maker(call.shape, dtype_of(call.result))
    address_in = address_reader(LIBRARIES[type(unwrapped(call.result))].address)
    aligned = address_of(call.result) % VECTOR_BYTES

    def answer(_args: Any, addresses: Any, numbers: tuple[float, ...]) -> Any:
        if not unchanged():
            return None
        made = make()
        mine = address_in(made)
        if mine % VECTOR_BYTES != aligned:
            return None
        launch((*[addresses[i] for i in read], mine, *numbers, *more))
        return made

    return answer
