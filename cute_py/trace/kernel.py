"""`@cute.kernel` and `trace`: trace a Python function with its arguments to a `Plan`."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from dataclasses import replace
from threading import RLock

from cute_py.calls import backends
from cute_py.calls.arguments import EXTENT, REACH, Argument, annotations_of, classify, rebuilt
from cute_py.calls.arrays import on_device
from cute_py.calls.fingerprint.dependencies import Dependencies, note_once
from cute_py.calls.memo import Launches
from cute_py.calls.torch_tensors import graph_break, leave_graphs
from cute_py.dtypes.table import Promised, b1
from cute_py.errors import CuteError, is_hidden, place_text, refusal, shorten
from cute_py.layout.layout import Layout
from cute_py.plan.collector import uncollected
from cute_py.plan.conditions import MOST
from cute_py.plan.contraction import contracted
from cute_py.plan.ops import Map
from cute_py.plan.params import Members, ScalarParam, TensorParam
from cute_py.plan.plan import Plan
from cute_py.plan.verify import verify
from cute_py.plan.walk import divisors_in, storages
from cute_py.tensor.tensor import derived, pointer_makers, register_allocators
from cute_py.trace import arithmetic, copying, memory
from cute_py.trace.arithmetic import new_registers
from cute_py.trace.contents import contents_of, same
from cute_py.trace.decided import Decided, one_number
from cute_py.trace.engines import GlobalMemory
from cute_py.trace.lower import register
from cute_py.trace.memory import Tensors, memory_at, registers_of
from cute_py.trace.naming import misfit
from cute_py.trace.rebinding import refuse_recursion
from cute_py.trace.runtime_integers import Int, compare, new_symbol
from cute_py.trace.state import Trace, hidden_refusal, raise_swallowed, recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.calls.arguments import ArrayFacts
    from cute_py.calls.fingerprint.dependencies import Snapshot
    from cute_py.calls.memo import KnownLaunch
    from cute_py.layout.types import Leaf

MOST_PLANS = 4096  # plans that a kernel keeps; when there are more, all are evicted

register_allocators.append(registers_of)
pointer_makers.append(memory_at)


class Kernel:
    """A function that is traced to a plan; a call runs the plan on its arguments.

    Plans are cached by the types, alignments and compile-time values of the arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wrap a function; see `kernel`."""
        kind = _no_kernel(function)
        if kind:
            raise refusal("kernel-function", operation="cute.kernel", type=kind)
        self.function = function
        self.signature = inspect.signature(function)
        self.plans: dict[Any, Plan] = {}
        self.tables: dict[Any, Any] = {}  # what else was made of a trace, as `plans`
        self.tracing = RLock()
        self.dependencies = Dependencies(function)
        self.by_position: list[str] | None = None  # the parameters, if all can be passed so
        self._notes: tuple[Snapshot, dict[str, object]] | None = None
        self._calls: tuple[dict[str, object], Launches] | None = None
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<cute.kernel {self.__name__}{self.signature}>"

    def arguments(self, *args: object, **named: object) -> tuple[Argument, ...]:
        """Return the arguments of a call, classified."""
        return self._classified(self.notes(), args, named)

    def _classified(
        self, notes: dict[str, object], args: tuple[object, ...], named: dict[str, object]
    ) -> tuple[Argument, ...]:
        """Return the same, by the annotations, which are read before the signature is."""
        names, taken = self.by_position, set[str]()
        if not named and names is not None and len(args) == len(names):
            pairs = zip(names, args, strict=True)
            return tuple([classify(name, x, notes.get(name), taken) for name, x in pairs])
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as error:
            raise refusal(
                "kernel-arguments",
                operation=self.__name__,
                said=str(error),
                signature=f"{self.__name__}{self.signature}",
            ) from None
        bound.apply_defaults()
        given = bound.arguments.items()
        return tuple([classify(name, value, notes.get(name), taken) for name, value in given])

    def notes(self, now: Snapshot | None = None) -> dict[str, object]:
        """Return the annotations as values, evaluated again if their dependencies have changed;
        `now`: the dependencies, if they were just looked at.
        """
        known = self._notes
        seen = self.dependencies.snapshot() if now is None else now
        if known is None or not (known[0] is seen or known[0].is_kept(seen)):
            self.signature = inspect.signature(self.function)  # its defaults may have changed
            parameters = self.signature.parameters.values()
            plain = all(p.kind in _BY_POSITION for p in parameters)
            self.by_position = [p.name for p in parameters] if plain else None
            self._notes = known = seen, annotations_of(self.function)
        return known[1]

    def calls(self, now: Snapshot | None = None) -> Launches:
        """Return the known calls, which are none again if the annotations have changed."""
        notes, known = self.notes(now), self._calls
        if known is None or known[0] is not notes:
            names = [p.name for p in self.signature.parameters.values() if p.kind in _BY_POSITION]
            known = notes, Launches([notes.get(name) for name in names])
            self._calls = known
        return known[1]

    def plan(self, *args: object, **named: object) -> Plan:
        """Return the plan for such arguments, traced or cached."""
        plan: Plan = self.known(traced, *args, **named)
        return plan

    def known(self, make: Callable[..., Any], *args: object, **named: object) -> Any:
        """Return make(kernel, arguments) for such arguments, such as a plan, made or cached."""
        seen = self.dependencies.snapshot()
        arguments = self._classified(self.notes(seen), args, named)
        return self._cached(arguments, self._with_statics(seen, arguments), make)

    def _with_statics(self, seen: Snapshot, arguments: tuple[Argument, ...]) -> Snapshot:
        """Return a snapshot extended by the dependencies of the compile-time values."""
        return self.dependencies.with_values(
            seen, tuple([x for a in arguments for x in a.statics()])
        )

    def _cached(
        self, arguments: tuple[Argument, ...], seen: Snapshot, make: Callable[..., Any]
    ) -> Any:
        made = self.plans if make is traced else self.tables
        if not seen.complete:  # what it reads may have changed unseen
            note_once(self.__name__, seen.reason)
            return self._anew(arguments, make, made)
        key = (make, seen.key, *[argument.key for argument in arguments])
        known = made.get(key)
        if known is None:
            with self.tracing:  # concurrent calls get the same plan
                known = made.get(key)
                if known is None:
                    known = make(self, arguments)
                    now = self._with_statics(self.dependencies.snapshot(), arguments)
                    if now.key == seen.key:  # else another call must change it, too
                        _keep(made, key, known)
        return known

    def _anew(
        self, arguments: tuple[Argument, ...], make: Callable[..., Any], made: dict[Any, Any]
    ) -> Any:
        """Return a new plan; the last one if that is equal, so that it is compiled once."""
        key, new = (make, *[argument.key for argument in arguments]), make(self, arguments)
        last = made.get(key)
        return last if last == new else _keep(made, key, new)

    def leaves(self, *args: object, **named: object) -> list[Any]:
        """Return the arrays and run-time numbers of a call, in the order of the parameters."""
        return _leaves(self.arguments(*args, **named))

    def __get__(self, instance: object, owner: type | None = None) -> Kernel:
        """Return the kernel; as a method, bound to the object as its first argument."""
        return self if instance is None else _Method(self, instance)

    @graph_break
    def replayed(self, *args: object) -> bool:
        """Run the kernel if the call is known, see `memo`; return whether it is."""
        try:
            return self._calls is not None and self._calls[1].replay(args) is not None
        except CuteError as error:
            shorten(error)
            raise

    def __call__(self, *args: object, **named: object) -> None:
        """Run the kernel: on the GPU if its arrays are device arrays, else on the emulator.

        A call that differs from an earlier one only in addresses and run-time numbers is known, and
        launched at once; see `memo`.
        """
        try:
            if named or self._calls is None:
                leave_graphs()
                self._run(args, named)
            elif self._calls[1].replay(args) is None:
                self._run(args, named)
        except CuteError as error:
            shorten(error)
            raise

    def launched(self, args: tuple[object, ...]) -> KnownLaunch | None:
        """Run a call, and return its launch if that is known."""
        found = None if self._calls is None else self._calls[1].replay(args)
        known: KnownLaunch | None = self._run(args, {}) if found is None else found
        return known

    @graph_break
    def _run(self, args: tuple[object, ...], named: dict[str, object]) -> KnownLaunch | None:
        """Run a call as if it were the first, and return its launch if it is known from now on."""
        seen = self.dependencies.snapshot()  # first, so that a later change is noticed
        calls, notes = self.calls(seen), self.notes(seen)
        arguments = self._classified(notes, args, named)
        seen = self._with_statics(seen, arguments)
        plan, leaves = self._cached(arguments, seen, traced), _leaves(arguments)
        if not any(map(on_device, leaves)):
            backends.emulator()(plan, *leaves)
            return None
        launch, values = backends.gpu()(plan, leaves)
        launch(values)
        return None if named else calls.launched(args, arguments, seen, launch)


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _keep(made: dict[Any, Any], key: Any, new: Any) -> Any:
    """Keep a plan, or what else was made of a trace; if there are too many, drop all others."""
    if len(made) >= MOST_PLANS:
        made.clear()
    made[key] = new
    return new


def _leaves(arguments: tuple[Argument, ...]) -> list[Any]:
    return [leaf.value for argument in arguments for leaf in argument.leaves()]


class _Method(Kernel):
    """A kernel bound to an object, as a method is."""

    def __init__(self, kernel: Kernel, instance: object) -> None:
        self.__dict__.update(vars(kernel))
        self.kernel, self.instance = kernel, instance

    def arguments(self, *args: object, **named: object) -> tuple[Argument, ...]:
        return self.kernel.arguments(self.instance, *args, **named)

    def known(self, make: Callable[..., Any], *args: object, **named: object) -> Any:
        return self.kernel.known(make, self.instance, *args, **named)

    def replayed(self, *args: object) -> bool:
        found: bool = self.kernel.replayed(self.instance, *args)
        return found

    def __call__(self, *args: object, **named: object) -> None:
        try:
            self.kernel(self.instance, *args, **named)
        except CuteError as error:
            shorten(error)
            raise


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a Python function a kernel: `@cute.kernel` above its `def`.

    Its arguments are arrays (tensors in global memory), run-time numbers (parameters annotated
    with a dtype, `alpha: cute.f32`), and compile-time values. It sets its launch shape with
    `cute.launch`, and returns nothing.
    """
    return Kernel(function)


def trace(kernel: Kernel, *args: object, **named: object) -> Plan:
    """Return the plan of a kernel for such arguments."""
    if not isinstance(kernel, Kernel):
        raise refusal("kernel-function", operation="cute.trace", type=type(kernel).__name__)
    return kernel.plan(*args, **named)


# -- one trace


def _no_kernel(function: object) -> str:
    """Return the reason why a function cannot be a kernel, or ""."""
    if not inspect.isfunction(function):
        return type(function).__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "a function with yield"
    return "an async function" if inspect.iscoroutinefunction(function) else ""


def traced(kernel: Kernel, arguments: tuple[Argument, ...], shown: Any = None) -> Plan:
    """Return the plan of a kernel, traced now. What it prints and shows by `cute.print(x)` and
    `cute.show(x)` is appended to the list `shown`, or else written after the trace.
    """
    code = kernel.function.__code__
    state = Trace(kernel.__name__, (code.co_filename, code.co_firstlineno), Recorder())
    try:
        with uncollected():
            with recording(state):
                _run(kernel, arguments, state)
                plan = _plan(kernel, state)
            verify(plan)
    except CuteError as error:
        raise _located(_promising(error, state), state.root.line) from None
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        found = _in_our_words(error, state, arguments) or _misfitting(kernel, arguments)
        if found is None:
            raise
        raise _located(found.with_traceback(error.__traceback__), state.root.line) from None
    except RecursionError as error:
        raise _endless(error, state) from None
    finally:
        for each in state.locked:
            each.unlock()
        state.forget()
    if shown is not None:
        shown += state.shown
    elif state.shown:
        backends.shower()(kernel, arguments)
    return plan


def _endless(error: RecursionError, state: Trace) -> Exception:
    """Return the refusal of functions that call themselves; another recursion stays an error."""
    frames = [frame for frame, _line in traceback.walk_tb(error.__traceback__)]
    try:
        refuse_recursion([frame.f_code for frame in frames if not is_hidden(frame)])
    except CuteError as found:
        return _located(found.with_traceback(error.__traceback__), state.root.line)
    return error


def _in_our_words(
    error: Exception, state: Trace, arguments: tuple[Argument, ...]
) -> CuteError | None:
    """Return the refusal that Python or NumPy raised as an error of its own, or None: code written
    in C replaces errors of `__index__`, and has its own for arguments of a type that it does not
    know.
    """
    if state.locked and "read-only" in str(error):
        return refusal("trace-rebound", operation="kernel", names="a large array", kind="block")
    if isinstance(error, IndexError):
        scalars = [a.name for a in arguments if getattr(a.value, "shape", None) == ()]
        return refusal("argument-modes", operation="kernel", name=scalars[0]) if scalars else None
    if isinstance(error, AttributeError):
        if isinstance(error.obj, (Int, Decided)):
            return one_number(f".{error.name}", error.obj)
        if error.name != "to" or not isinstance(error.obj, (int, float)):
            return None
        return refusal("trace-number-to", operation="kernel", value=error.obj)
    replaced = hidden_refusal(state)
    if replaced is not None or not _NAMES.search(str(error)):
        return replaced
    facts: dict[str, Any] = {"value": "a value", "use": f"a function of Python ({error})"}
    instead = "cute.when, cute.where; for a list np.array(values), passed to the kernel"
    return refusal("trace-python", operation="kernel", **facts, instead=instead)


def _misfitting(kernel: Kernel, arguments: tuple[Argument, ...]) -> CuteError | None:
    """Return the refusal of an argument that is not of its annotated class, or None."""
    found = misfit(kernel.notes(), dict(zip(kernel.signature.parameters, arguments, strict=True)))
    if found is None:
        return None
    name, value, kind = found
    facts: dict[str, Any] = {"name": name, "value": value, "kind": kind}
    return refusal("argument-class", operation=kernel.__name__, **facts)


_NAMES = re.compile(r"\b(Int|Condition|Tensor|Var)\b")


def _run(kernel: Kernel, arguments: tuple[Argument, ...], state: Trace) -> None:
    """Run the kernel's function on tensors and run-time numbers."""
    leaves = [leaf for argument in arguments for leaf in argument.leaves()]
    state.taken = {leaf.name for leaf in leaves}
    made = {leaf.name: _parameter(state, leaf) for leaf in leaves}
    state.taken |= state.symbols.keys()
    bound = kernel.signature.bind_partial()
    given = [rebuilt(a, made) for a in arguments]
    bound.arguments.update(zip(kernel.signature.parameters, given, strict=True))
    state.frame, before = sys._getframe(), _containers(arguments)
    result = kernel.function(*bound.args, **bound.kwargs)
    raise_swallowed(state)
    for name, held in _containers(arguments).items():
        if not same(before[name], held):
            kind = type(held.value).__name__
            raise refusal("argument-changed", operation=kernel.__name__, name=name, type=kind)
    if result is not None and kernel.__name__ != "<lambda>":
        raise refusal("kernel-returns", operation=kernel.__name__, type=type(result).__name__)
    state.require_sound()
    for statement, place in state.blockless.values():
        raise refusal("kernel-blockless", operation=statement.operation, where=place)


def _containers(arguments: tuple[Argument, ...]) -> dict[str, Any]:
    """Return what the lists, tuples and dicts contain that are compile-time values."""
    found: dict[str, Any] = {}
    for a in arguments:
        if a.kind == "group":
            found |= _containers(a.parts)
        elif a.kind == "static" and isinstance(a.value, (list, tuple, dict)):
            found[a.name] = contents_of(a.value)
    return found


def _plan(kernel: Kernel, state: Trace) -> Plan:
    if state.launch is None:
        raise refusal("kernel-no-launch", operation=kernel.__name__)
    plan = Plan(
        kernel.__name__,
        tuple(state.params.values()),
        replace(
            state.launch,
            counts=tuple(state.counts),
            divisors=divisors_in(tuple(state.root.ops), state.taken),
            tables=tuple(state.tables),
            roles=tuple([(x.name, x.warps.start, x.warps.stop) for x in state.roles.values()]),
        ),
        tuple(state.shared.values()),
        _used_registers(state),
        tuple(state.root.ops),
    )
    return contracted(plan) if state.contract else plan


def _used_registers(state: Trace) -> tuple[Any, ...]:
    named = storages(tuple(state.root.ops))
    return tuple([r for name, r in state.registers.items() if name in named])


_PLACE = re.compile(r" \([^()]+(:|, line )\d+\)$")


def _located(error: CuteError, kernel: tuple[str, int]) -> CuteError:
    """Return an error that names its line, if it does not yet: the innermost line outside of this
    package, or else that of the kernel's `def`.
    """
    if _PLACE.search(error.args[0]):
        return error
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_hidden(frame)
    ]
    place = place_text(places[-1] if places else kernel)
    found = type(error)(f"{error.args[0]} ({place})", error.code, dict(error.facts))
    return found.with_traceback(error.__traceback__)


def _promising(error: CuteError, state: Trace) -> CuteError:
    """Return an undecided question with what a kernel can promise of the names in it; a kernel does
    not declare symbols.
    """
    if error.code != "undecided":
        return error
    assumption = str(error.facts["assumption"])
    names = set(re.findall(r"[A-Za-z_]\w*", assumption)) & state.symbols.keys()
    sizes = [name for name in state.params if any(n.startswith(f"{name}_s") for n in names)]
    numbers = sorted(names & state.params.keys())
    promises = [f"annotate {name} with {_spec_of(name, names)}" for name in sizes]
    if str(error.facts["operation"]).startswith(("partition_", "make_fragment_")) and sizes:
        promises = [
            f"take a tile first, which has static extents: cute.local_tile({sizes[0]}, ...)"
        ]
    promises += [f"pass {name} as a compile-time number, without annotation" for name in numbers]
    if error.facts["operation"] == "get_slice":
        promises = [
            "launch as many threads as there are slices, block=mma.size() or copy.size()",
            f"take part with these alone: with cute.when({error.facts['question']}): ...",
        ]
    if any(re.fullmatch(r"[mnv]\d+", name) for name in names):
        promises.append("give cute.as_int or cute.var the bounds low and high")
    promises = promises or ["use % or cute.min_ to bound it, or a static size"]
    facts: dict[str, Any] = {
        **error.facts,
        "promise": f"to settle that {assumption}, {', or '.join(promises)}",
    }
    return refusal("trace-undecided", **facts).with_traceback(error.__traceback__)


def _spec_of(name: str, symbols: set[str]) -> str:
    """Return the promises of an array that would settle a question about some of its sizes."""
    kinds = {
        word: any(x.startswith(f"{name}_{word}") for x in symbols) for word in ("shape", "stride")
    }
    words = ["divisible_by=..., shape=..."] * kinds["shape"] + ["stride=..."] * kinds["stride"]
    return f"cute.spec({', '.join(words)})"


def _parameter(state: Trace, leaf: Argument) -> Any:  # a Tensor, or an Int
    if leaf.kind == "number":
        return _number(state, leaf)
    facts, name = leaf.facts, leaf.name
    most = None if facts.large else EXTENT - 1
    reach = REACH // max(facts.dtype.bits // 8, 1) if facts.small else None
    state.large |= facts.large
    shape = tuple(
        [
            _extent(state, f"{name}_shape{i}", divisor, fixed, 1, most)
            for i, (divisor, fixed) in enumerate(facts.extents)
        ]
    )
    stride = tuple(
        [
            _extent(state, f"{name}_stride{i}", divisor, fixed, 0, reach)
            for i, (divisor, fixed) in enumerate(facts.strides)
        ]
    )
    state.params[name] = TensorParam(
        name,
        facts.dtype,
        tuple([_bare(x) for x in shape]),
        tuple([_bare(x) for x in stride]),
        facts.alignment,
        facts.packed,
        None if facts.members is None else _members(facts.members),
        facts.small,
    )
    parts = name, facts.dtype, facts.alignment, state.root
    memory = GlobalMemory(*parts, packed=facts.packed)
    tensor = derived(memory, Layout(shape, stride))
    return tensor if facts.members is None else Tensors(tensor, facts.members)


def _members(x: ArrayFacts) -> Members:
    return Members(x.dtype, x.extents, x.strides, x.alignment, x.packed)


def _extent(
    state: Trace, name: str, divisor: int, fixed: int | None, low: int, high: int | None = None
) -> Leaf:
    return fixed if fixed is not None else new_symbol(state, name, divisor, low, high)


def _bare(x: Leaf) -> Any:  # a Scalar
    return x if x.__class__ is int else x.value


def _number(state: Trace, leaf: Argument) -> Any:
    """Return a run-time number: an integer as an `Int`, any other in a register."""
    kind, unit = leaf.facts, 1
    promise: tuple[int | None, int | None, int] = (None, None, 1)
    low, high = None, None
    if isinstance(kind, Promised):
        promise, unit = (kind.min, kind.max, kind.multiple_of), kind.multiple_of
        (low, high), kind = kind.bounds, kind.dtype
    elif kind.is_integer:
        low, high = int(kind.min), int(kind.max)
    state.params[leaf.name] = ScalarParam(leaf.name, kind, *promise)
    if kind is b1:
        return compare("ne", new_symbol(state, leaf.name, 1, 0, 1), 0)
    if kind.bits > 32:  # a u64 is read as signed; its upper half is refused at launch
        low = low if low is not None and low > -(2**63) else None
        high = high if high is not None and high < MOST else None
    value = new_symbol(state, leaf.name, unit, low, high)
    if not kind.is_float:
        return value
    held = new_registers(kind, 1, "x")
    dst = register(held, "kernel")
    state.emit(Map("copy", dst, (_bare(value),), kind, line=state.root.line))
    return held


class Recorder:
    """The functions that record Python's operators on the values of a kernel.

    Engines and integers define the operators, but are in a lower layer than the modules that
    record. They call these functions through `current().record`.
    """

    apply = staticmethod(arithmetic.apply)
    apply_in_place = staticmethod(arithmetic.apply_in_place)
    assign = staticmethod(arithmetic.assign)
    convert = staticmethod(arithmetic.convert_registers)
    as_test = staticmethod(arithmetic.test_register)
    integer = staticmethod(arithmetic.integer_register)
    load_element = staticmethod(memory.load_element)
    store_element = staticmethod(memory.store_element)
    store_all = staticmethod(copying.store_all)
