"""`Call`: a kernel with all of its arguments, and how repeated calls are answered.

Every operator turns a request into a `Call` and runs it. A call with equal facts (see
`calls.memo`) is not prepared again: where the kernel reads and writes the user's own arrays, it is
launched with their addresses; otherwise with the choices made before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import cute_py as cute
from cute_py.calls.arrays import (
    LIBRARIES,
    VECTOR_BYTES,
    address_of,
    address_reader,
    dtype_of,
    on_device,
    strides_of,
    unwrapped,
)
from cute_py.codegen.driver.streams import device_of
from cute_py.ops.libraries import library_name
from cute_py.ops.operands import bytes_each, is_rows, rows_of, span
from cute_py.ops.workspaces import on_its_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.calls.memo import Answer, KnownLaunch
    from cute_py.dtypes.table import Dtype
    from cute_py.emulate import Prepared
    from cute_py.ops.libraries import Library
    from cute_py.plan.plan import Plan
    from cute_py.trace.kernel import Kernel

MOST_WORK = 10_000  # to tell whether two arrays share memory, as NumPy counts it
PRETENDED = 1 << 40  # an address


class Output(NamedTuple):
    """One result of a call.

    Attributes:
        array: what the kernel writes to, as it takes it.
        made: the new array behind that, or `out`.
        shape: of the result, for the user.
        out: where the user wants the result, or None.
        direct: whether the kernel writes to `out` itself.
        modes: those of memory in the order of `made`, where that is another than theirs.
    """

    array: Any
    made: Any
    shape: tuple[int, ...]
    out: Any = None
    direct: bool = False
    modes: tuple[int, ...] | None = None

    def given(self) -> Any:
        """Return the result, in `out` if there is one."""
        if self.direct:
            return self.out
        result = self.made.reshape(self.shape)
        if self.out is None:
            return result
        self.out[...] = result
        return self.out


@dataclass(slots=True)
class Call:
    """A call of a kernel, ready to run.

    Attributes:
        kernel: the kernel to call.
        library: the library of the arrays.
        reads: the arrays that it reads, as it takes them; None for those left out.
        outputs: what it writes.
        numbers: the run-time numbers that the user gave.
        more: its other run-time numbers.
        statics: its compile-time values.
        choice: what was chosen for it, a configuration first; like requests are prepared by it.
        workspace: scratch arrays.
        blocks, block_bytes: how many blocks it has, and about what the emulator keeps per block.
        inputs: what the arrays and numbers were made of.
        first: a call whose result this one reads; it is run before.
        between: of the arrays that it reads, those that kernels leave for each other.
        known: the plan, if it was traced before.
        report: of the last run, if it was asked for.
        launched: the launch of the last run, if it is cached.
        prepared: the plan and the facts of the arrays, as the emulator read them in the last run.
    """

    kernel: Kernel
    library: Library
    reads: tuple[Any, ...]
    outputs: tuple[Output, ...]
    numbers: tuple[float, ...] = ()
    more: tuple[float, ...] = ()
    statics: tuple[Any, ...] = ()
    choice: tuple[Any, ...] = ()
    workspace: tuple[Any, ...] = ()
    blocks: int = 1
    block_bytes: int = 0
    inputs: Any = None
    first: Call | None = None
    between: tuple[Any, ...] = ()
    known: Plan | None = None
    report: Any = None
    launched: KnownLaunch | None = None
    prepared: Prepared | None = None

    @property
    def config(self) -> Any:
        """How the result is computed."""
        return self.choice[0]

    @property
    def result(self) -> Any:
        """The array that it writes to, as it takes it; the first of several."""
        return self.outputs[0].array

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that the kernel is given; None for those left out."""
        return (*self.reads, *[x.array for x in self.outputs], *self.workspace)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the kernel is given."""
        return (*self.arrays, *self.numbers, *self.more, *self.statics)

    @property
    def chain(self) -> tuple[Call, ...]:
        """The calls that are run, in their order."""
        return (self,) if self.first is None else (*self.first.chain, self)

    def leaves(self) -> list[Any]:
        """Return what its plan is run with: arrays and numbers."""
        arrays = [unwrapped(x) for x in self.arrays if x is not None]
        return [*arrays, *self.numbers, *self.more]

    def plan(self) -> Plan:
        """Return the plan that is run."""
        return self.known or cute.trace(self.kernel, *self.arguments)

    def run(self, **options: Any) -> Any:
        """Return the result, in `out` if there is one; a tuple of several.

        Args:
            options: of `cute.emulate`, for arrays of the host.

        """
        if self.first is not None:
            self.first.run(**options)
        self.report = self.library.run(self, **options)
        for x in self.outputs:
            if x.direct:
                self.library.written(x.out)
        found = tuple([x.given() for x in self.outputs])
        return found[0] if len(found) == 1 else found


# -- the caller's array for the result


def directly(out: Any, shape: tuple[int, ...], reads: Sequence[Any]) -> Any:
    """Return `out` as [L, M, N] if a kernel of matrices can write there as it writes to a new
    array, else None.

    Its rows must be contiguous, disjoint and as aligned as those of a new array.
    """
    if out is None or not _is_of(out, reads):
        return None
    view = out.reshape(shape)
    fits = address_of(view) == address_of(out) and is_rows(view)  # it is no copy
    rows = rows_of(view)
    wanted = gcd(VECTOR_BYTES, shape[-1] * bytes_each(view))
    if not fits or rows.alignment < wanted or not rows.pitch:
        return None
    return view if _shares_none(view, reads) else None


def writable(out: Any, reads: Sequence[Any]) -> bool:
    """Tell whether a kernel that takes any strides can write to `out` itself."""
    return _is_of(out, reads) and _shares_none(out, reads)


def _is_of(out: Any, reads: Sequence[Any]) -> bool:
    """Tell whether an array is of the GPU and the library of what is read. One of the host stays
    untouched until everything is computed; one with lazy values, or tracked by autograd, is left
    to its library.
    """
    first = unwrapped(next(x for x in reads if x is not None))
    if not on_device(out) or device_of(out) != device_of(first):
        return False
    if library_name(type(out)) != library_name(type(first)):
        return False
    return not (getattr(out, "requires_grad", False) or getattr(out, "is_neg", bool)())


def _shares_none(view: Any, reads: Sequence[Any]) -> bool:
    """Tell whether an array shares no memory with what is read."""
    mine = address_of(view)
    for x in (unwrapped(x) for x in reads if x is not None):
        low, high = apart(view, x)
        if low < address_of(x) - mine < high:
            return False
    return True


def apart(x: Any, y: Any) -> tuple[int, int]:
    """Return (low, high): two arrays share memory where the address of y less that of x is in
    between.
    """
    (begin, end), (first, last) = span(x), span(y)
    return begin - last, end - first


def overlap(x: Any, y: Any) -> bool:
    """Tell whether two arrays share memory; also where that would take too long to tell."""
    (low, high), far = apart(x, y), address_of(y) - address_of(x)
    if 0 in x.shape or 0 in y.shape or not low < far < high:
        return False
    try:
        most: Any = MOST_WORK
        return np.shares_memory(_bytes_of(x, 0), _bytes_of(y, far), max_work=most)
    except np.exceptions.TooHardError:
        return True


def _bytes_of(x: Any, far: int) -> np.ndarray[Any, Any]:
    """Return an array with the strides of x, without memory that could be read."""
    size = bytes_each(x)
    facts: dict[str, Any] = {
        "data": (PRETENDED + far, False),
        "shape": tuple(x.shape),
        "strides": tuple([step * size for step in strides_of(x)]),
        "typestr": f"|V{size}",
        "version": 3,
    }
    return np.asarray(type("Pretended", (), {"__array_interface__": facts})())


# -- repeated calls


def in_place(call: Call, arrays: Sequence[Any], outputs: int, otherwise: Answer) -> Answer | None:
    """Return the answer to calls like one that was run, for other arrays of the same facts; None
    where the kernel reads or writes memory that is not the caller's, but for a workspace that is
    kept for its stream.

    Args:
        call: where it wrote to new arrays, these are the results, or are copied to them.
        arrays: as the user gave them: those of `call.reads`, in this order, then the outputs.
        outputs: how many of them are outputs.
        otherwise: the answer where an output shares memory with what is read.

    """
    given, outs = arrays[: len(arrays) - outputs], arrays[len(arrays) - outputs :]
    if call.first is not None:
        return _after_another(call, call.first, arrays, outputs, otherwise)
    if all(x is None for x in call.reads[len(given) :]):  # what only other operators are given
        call = replace(call, reads=call.reads[: len(given)])
    kept = tuple([x for x in call.workspace if x is not None])
    if (kept and (call.numbers or call.library.on_host)) or len(call.reads) != len(given):
        return None
    pairs = zip(map(unwrapped, call.reads), map(unwrapped, given), strict=True)
    if not all(_is_there(x, y) for x, y in pairs if x is not None):
        return None
    if call.library.on_host:
        return None if any(x.modes for x in call.outputs) else _emulated(call)
    known = call.launched
    if known is None or len({x is None for x in outs}) > 1:
        return None
    new = outs[0] is None
    if any(x.direct is new for x in call.outputs):
        return None
    places = [i for i, x in enumerate(arrays) if x is not None]
    read = [places.index(i) for i, x in enumerate(call.reads) if x is not None]
    call = replace(call, more=(*map(address_of, kept), *call.more))
    if new:
        make = _into_a_new_one if outputs == 1 else _into_new
        answer = make(call, known, read, len(places))
    else:
        answer = _into_the_given(call, known, read, arrays, otherwise)
    return on_its_stream(answer, kept) if kept else answer


def _after_another(
    call: Call, first: Call, arrays: Sequence[Any], outputs: int, otherwise: Answer
) -> Answer | None:
    """Return the same for a call that reads what another one writes: the arrays are those that the
    other one reads, then those of this one; None of the former at the end may be missing.
    """
    given, outs = arrays[: len(arrays) - outputs], arrays[len(arrays) - outputs :]
    own = list(first.reads)
    while own[-1] is None:
        own.pop()
    reads = [*own, *call.reads[1:]]
    reads += [None] * (len(given) - len(reads))
    known, before = call.launched, first.launched
    has_more = any(x is not None for x in (*call.workspace, *first.workspace))
    is_plain = not (has_more or first.first or call.library.on_host)
    is_plain = is_plain and call.reads[0] is first.outputs[0].array
    if not is_plain or known is None or before is None or len(reads) != len(given):
        return None
    pairs = zip(map(unwrapped, reads), map(unwrapped, given), strict=True)
    if not all(_is_there(x, y) for x, y in pairs if x is not None):
        return None
    new = outs[0] is None
    if len({x is None for x in outs}) > 1 or any(x.direct is new for x in call.outputs):
        return None
    places = [i for i, x in enumerate(arrays) if x is not None]
    theirs = [places.index(i) for i, x in enumerate(own) if x is not None]
    mine = [places.index(i + len(own)) for i, x in enumerate(call.reads[1:]) if x is not None]
    written = [] if new else list(range(len(places) - outputs, len(places)))
    seen = [unwrapped(x) for x in arrays if x is not None]
    bounds = [(j, i, *apart(seen[j], seen[i])) for j in written for i in range(j)]
    make, address_in, aligned = _maker(first, first.outputs[0])
    makers = [_maker(call, x) for x in call.outputs]
    go, go_before = known.launch.go, before.launch.go
    still, still_before = known.unchanged, before.unchanged
    usual, count, note = (*first.numbers, *first.more), len(places), call.library.note

    def answer(args: Any, values: Any) -> Any:
        if not (still() and still_before()):
            return None
        for j, i, low, high in bounds:
            if low < values[i] - values[j] < high:
                return otherwise(args, values)
        between = make()
        place = address_in(between)
        made = args[len(given) : len(given) + outputs] if written else [x[0]() for x in makers]
        at = [values[j] for j in written]
        at = at or [x[1](y) for x, y in zip(makers, made, strict=True)]
        is_other = any(x % VECTOR_BYTES != y[2] for x, y in zip(at, makers, strict=True))
        if place % VECTOR_BYTES != aligned or (is_other and not written):
            return None
        go_before((*[values[i] for i in theirs], place, *usual))
        go((place, *[values[i] for i in mine], *at, *values[count:], *call.more))
        if written and note is not None:
            for x in made:
                note(x)
        return made[0] if outputs == 1 else tuple(made)

    return answer


def _is_there(x: Any, y: Any) -> bool:
    """Tell whether an array that a kernel reads is a view of the one that the user gave."""
    known = library_name(type(x)) == library_name(type(y))  # y may be a list
    return known and address_of(x) == address_of(y)


def _emulated(call: Call) -> Answer:
    """Return the answer that runs what was prepared for a call on other arrays of NumPy: only where
    they are in memory is not known.
    """
    seen = call.kernel.dependencies.snapshot()
    place = len(call.reads)
    read = [i for i, x in enumerate(call.reads) if x is not None]
    forms = [(x.made.shape, dtype_of(x.made), x.shape) for x in call.outputs]
    count, like = len(call.numbers), replace(call, reads=(), outputs=(), inputs=None)

    def answer(args: Any, values: Any) -> Any:
        if like.kernel.dependencies.snapshot() is not seen:
            return None
        made = [like.library.empty(form, kind) for form, kind, _shape in forms]
        outputs = [
            Output(x, x, shape, out)
            for x, (_form, _kind, shape), out in zip(made, forms, args[place:], strict=False)
        ]
        return replace(
            like,
            reads=tuple([args[i] for i in read]),
            outputs=tuple(outputs),
            numbers=tuple(map(float, values[len(values) - count :])),
        ).run()

    return answer


def _into_the_given(
    call: Call, known: KnownLaunch, read: list[int], arrays: Sequence[Any], otherwise: Answer
) -> Answer:
    unchanged, launch, more = known.unchanged, known.launch.go, call.more
    seen = [unwrapped(x) for x in arrays if x is not None]
    count, place = len(call.outputs), len(call.reads)
    first = len(seen) - count  # of the outputs
    written = range(first, len(seen))
    bounds = [(j, i, *apart(seen[j], seen[i])) for j in written for i in (*read, *range(first, j))]
    whole, note = len(read) == first, call.library.note

    def answer(args: Any, values: Any) -> Any:
        if not unchanged():
            return None
        for j, i, low, high in bounds:
            if low < values[i] - values[j] < high:
                return otherwise(args, values)
        if not whole:
            values = (*[values[i] for i in read], *values[first:])
        launch((*values, *more) if more else values)
        if count > 1:
            outs = args[place : place + count]
            for out in outs:
                if note is not None:
                    note(out)
            return outs
        out = args[place]
        if note is not None:
            note(out)
        return out

    return answer


def _into_a_new_one(call: Call, known: KnownLaunch, read: list[int], first: int) -> Answer:
    """Return the answer whose result is a new array; `first`: the place of the first number."""
    unchanged, launch, more = known.unchanged, known.launch.go, call.more
    make, address_in, aligned = _maker(call, call.outputs[0])

    def answer(_args: Any, values: Any) -> Any:
        if not unchanged():
            return None
        made = make()
        mine = address_in(made)
        if mine % VECTOR_BYTES != aligned:
            return None
        launch((*[values[i] for i in read], mine, *values[first:], *more))
        return made

    return answer


def _into_new(call: Call, known: KnownLaunch, read: list[int], first: int) -> Answer:
    """Return the same for several outputs."""
    unchanged, launch, more = known.unchanged, known.launch.go, call.more
    makers = [_maker(call, x) for x in call.outputs]

    def answer(_args: Any, values: Any) -> Any:
        if not unchanged():
            return None
        made = tuple([make() for make, _address_in, _aligned in makers])
        mine = [by[1](x) for x, by in zip(made, makers, strict=True)]
        if any(x % VECTOR_BYTES != by[2] for x, by in zip(mine, makers, strict=True)):
            return None
        launch((*[values[i] for i in read], *mine, *values[first:], *more))
        return made

    return answer


def _maker(call: Call, output: Output) -> tuple[Any, Any, int]:
    """Return the function that makes an output, the one that reads its address, and the rest of
    that by the width of a vector.
    """
    make = _in_order(call.library, output, dtype_of(output.array))
    address_in = address_reader(LIBRARIES[type(unwrapped(output.array))].address)
    return make, address_in, address_of(output.array) % VECTOR_BYTES


def _in_order(library: Library, output: Output, kind: Dtype) -> Callable[[], Any]:
    """Return the function that makes an output, of modes in another order in memory."""
    if output.modes is None:
        return library.maker(output.shape, kind)
    modes = output.modes
    by_mode = dict(zip(modes, output.shape, strict=True))
    make = library.maker(tuple([by_mode[i] for i in range(len(modes))]), kind)
    return lambda: library.ordered(make(), modes)
