"""`@cute.kernel`, and `trace`: from a Python function and its arguments to a `Plan`."""

from __future__ import annotations

import inspect
import re
import traceback
from threading import RLock

from cute_py.calls import doors
from cute_py.calls.arguments import Argument, annotations_of, classify, rebuilt
from cute_py.calls.arrays import on_device
from cute_py.calls.fingerprint.watch import Watch
from cute_py.calls.quick import Calls
from cute_py.dtypes.table import b1
from cute_py.errors import CuteError, is_own, place_text, refusal
from cute_py.layout.layout import Layout
from cute_py.plan.ops import Map
from cute_py.plan.plan import Plan, ScalarParam, TensorParam
from cute_py.plan.verify import verify
from cute_py.plan.walk import storages
from cute_py.tensor.tensor import derived, register_allocators
from cute_py.trace import arithmetic, copying, memory
from cute_py.trace.arithmetic import new_registers
from cute_py.trace.engines import GlobalMemory
from cute_py.trace.lower import register
from cute_py.trace.memory import registers_of
from cute_py.trace.runtime_integers import compare, new_symbol
from cute_py.trace.state import Trace, recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cute_py.calls.fingerprint.watch import Seen
    from cute_py.layout.types import Leaf

register_allocators.append(registers_of)


class Kernel:
    """A function that is traced to a plan; calling it runs the plan on its arguments.

    Plans are kept by the types, alignments and compile-time values of the arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Wrap a function; see `kernel`."""
        kind = _no_kernel(function)
        if kind:
            raise refusal("kernel-function", operation="cute.kernel", type=kind)
        self.function = function
        self.signature = inspect.signature(function)
        self.plans: dict[Any, Plan] = {}
        self.tracing = RLock()
        self.watch = Watch(function)
        self._notes: tuple[Seen, dict[str, object]] | None = None
        self._calls: tuple[dict[str, object], Calls] | None = None
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __repr__(self) -> str:
        return f"<cute.kernel {self.__name__}{self.signature}>"

    def arguments(self, *args: object, **named: object) -> tuple[Argument, ...]:
        """Return the arguments of a call, classified."""
        notes, taken = self.notes(), set[str]()  # before the signature is read
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

    def notes(self) -> dict[str, object]:
        """Return the annotations as values, evaluated anew if what they name has changed."""
        known = self._notes
        if known is None or not known[0].holds():
            seen = self.watch.now()
            self.signature = inspect.signature(self.function)  # its defaults may be others
            self._notes = known = seen, annotations_of(self.function)
        return known[1]

    def calls(self) -> Calls:
        """Return the calls that are known, none if the annotations have changed."""
        notes, known = self.notes(), self._calls
        if known is None or known[0] is not notes:
            names = [p.name for p in self.signature.parameters.values() if p.kind in _BY_POSITION]
            known = notes, Calls([notes.get(name) for name in names])
            self._calls = known
        return known[1]

    def plan(self, *args: object, **named: object) -> Plan:
        """Return the plan for arguments like these: traced, or the one that was kept."""
        seen = self.watch.now()
        arguments = self.arguments(*args, **named)
        return self._kept(arguments, self._seen(seen, arguments))

    def _seen(self, seen: Seen, arguments: tuple[Argument, ...]) -> Seen:
        """Return what was seen with what compile-time values refer to."""
        return self.watch.with_values(seen, tuple([x for a in arguments for x in a.statics()]))

    def _kept(self, arguments: tuple[Argument, ...], seen: Seen) -> Plan:
        key = (seen.key, *[argument.key for argument in arguments])
        if key not in self.plans:
            with self.tracing:  # threads that call at the same time get one plan
                if key not in self.plans:
                    self.plans[key] = _traced(self, arguments)
        return self.plans[key]

    def leaves(self, *args: object, **named: object) -> list[Any]:
        """Return the arrays and run-time numbers of a call, in the order of the parameters."""
        return _leaves(self.arguments(*args, **named))

    def __get__(self, instance: object, owner: type | None = None) -> Kernel:
        """Return the kernel; as a method of an object, with that object as its first argument."""
        return self if instance is None else _Method(self, instance)

    def __call__(self, *args: object, **named: object) -> None:
        """Run the kernel: on the GPU where its arrays lie there, else on the emulator.

        A call like one before, but for addresses and run-time numbers, is launched at once; see
        `quick`.
        """
        if named or self._calls is None:
            self._run(args, named)
            return
        calls = self._calls[1]
        if not (calls.again(args) or calls.launch(args)):
            self._run(args, named)

    def _run(self, args: tuple[object, ...], named: dict[str, object]) -> None:
        seen = self.watch.now()  # before all else: a change from here on is noticed
        calls = self.calls()
        arguments = self.arguments(*args, **named)
        seen = self._seen(seen, arguments)
        plan, leaves = self._kept(arguments, seen), _leaves(arguments)
        if not any(map(on_device, leaves)):
            doors.emulator()(plan, *leaves)
            return
        launch, values = doors.gpu()(plan, leaves)
        launch(values)
        if not named:
            calls.keep(args, arguments, seen, launch)


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _leaves(arguments: tuple[Argument, ...]) -> list[Any]:
    return [leaf.value for argument in arguments for leaf in argument.leaves()]


class _Method(Kernel):
    """A kernel of a class, for one object: all else is the kernel's."""

    def __init__(self, kernel: Kernel, instance: object) -> None:
        self.__dict__.update(vars(kernel))
        self.kernel, self.instance = kernel, instance

    def arguments(self, *args: object, **named: object) -> tuple[Argument, ...]:
        return self.kernel.arguments(self.instance, *args, **named)

    def plan(self, *args: object, **named: object) -> Plan:
        return self.kernel.plan(self.instance, *args, **named)

    def __call__(self, *args: object, **named: object) -> None:
        self.kernel(self.instance, *args, **named)


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a Python function: `@cute.kernel` above its `def`.

    Its arguments: arrays (tensors in global memory), numbers of a parameter that is annotated with
    a dtype (`alpha: cute.f32`, known at run time), and compile-time values. It states its launch
    shape with `cute.launch`, and returns nothing.
    """
    return Kernel(function)


def trace(kernel: Kernel, *args: object, **named: object) -> Plan:
    """Return the plan of a kernel for arguments like these."""
    if not isinstance(kernel, Kernel):
        raise refusal("kernel-function", operation="cute.trace", type=type(kernel).__name__)
    return kernel.plan(*args, **named)


# -- one trace


def _no_kernel(function: object) -> str:
    """Return what keeps a function from being a kernel, or ""."""
    if not inspect.isfunction(function):
        return type(function).__name__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "a function with yield"
    return "an async function" if inspect.iscoroutinefunction(function) else ""


def _traced(kernel: Kernel, arguments: tuple[Argument, ...]) -> Plan:
    code = kernel.function.__code__
    state = Trace(kernel.__name__, (code.co_filename, code.co_firstlineno), Recorder())
    try:
        with recording(state):
            _run(kernel, arguments, state)
            plan = _plan(kernel, state)
        verify(plan)
    except CuteError as error:
        raise _located(error, state.root.line) from error
    return plan


def _run(kernel: Kernel, arguments: tuple[Argument, ...], state: Trace) -> None:
    """Run the kernel's function on tensors and run-time numbers."""
    leaves = [leaf for argument in arguments for leaf in argument.leaves()]
    state.taken = {leaf.name for leaf in leaves}
    made = {leaf.name: _parameter(state, leaf) for leaf in leaves}
    state.taken |= state.symbols.keys()
    bound = kernel.signature.bind_partial()
    given = [rebuilt(a, made) for a in arguments]
    bound.arguments.update(zip(kernel.signature.parameters, given, strict=True))
    result = kernel.function(*bound.args, **bound.kwargs)
    if result is not None and kernel.__name__ != "<lambda>":
        raise refusal("kernel-returns", operation=kernel.__name__, type=type(result).__name__)
    state.require_sound()


def _plan(kernel: Kernel, state: Trace) -> Plan:
    if state.launch is None:
        raise refusal("kernel-no-launch", operation=kernel.__name__)
    return Plan(
        kernel.__name__,
        tuple(state.params.values()),
        state.launch,
        tuple(state.shared.values()),
        _used_registers(state),
        tuple(state.root.ops),
    )


def _used_registers(state: Trace) -> tuple[Any, ...]:
    named = storages(tuple(state.root.ops))
    return tuple([r for name, r in state.registers.items() if name in named])


_PLACE = re.compile(r" \([^()]+:\d+\)$")


def _located(error: CuteError, kernel: tuple[str, int]) -> CuteError:
    """Return an error that says where in the kernel it came up, if it does not yet: the innermost
    line that is not of this package, or that of the kernel's `def`.
    """
    if _PLACE.search(error.args[0]):
        return error
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_own(frame)
    ]
    place = place_text(places[-1] if places else kernel)
    return type(error)(f"{error.args[0]} ({place})", error.code, dict(error.facts))


def _parameter(state: Trace, leaf: Argument) -> Any:  # a Tensor, or an Int
    if leaf.kind == "number":
        return _number(state, leaf)
    facts, name = leaf.facts, leaf.name
    shape = tuple(
        [
            _extent(state, f"{name}_shape{i}", divisor, fixed, 1)
            for i, (divisor, fixed) in enumerate(facts.extents)
        ]
    )
    stride = tuple(
        [
            _extent(state, f"{name}_stride{i}", divisor, fixed, 0)
            for i, (divisor, fixed) in enumerate(facts.strides)
        ]
    )
    state.params[name] = TensorParam(
        name,
        facts.dtype,
        tuple([_bare(x) for x in shape]),
        tuple([_bare(x) for x in stride]),
        facts.alignment,
    )
    memory = GlobalMemory(name, facts.dtype, facts.alignment, state.root)
    return derived(memory, Layout(shape, stride))


def _extent(state: Trace, name: str, divisor: int, fixed: int | None, low: int) -> Leaf:
    return fixed if fixed is not None else new_symbol(state, name, divisor, low)


def _bare(x: Leaf) -> Any:  # a Scalar
    return x if x.__class__ is int else x.value


def _number(state: Trace, leaf: Argument) -> Any:
    """Return a run-time number: an integer as an `Int`, others in a register."""
    kind = leaf.facts
    state.params[leaf.name] = ScalarParam(leaf.name, kind)
    if kind is b1:
        return compare("ne", new_symbol(state, leaf.name, 1, 0, 1), 0)
    low = 0 if kind.kind == "uint" else None
    value = new_symbol(state, leaf.name, 1, low)
    if not kind.is_float:
        return value
    held = new_registers(kind, 1, "x")
    dst = register(held, "kernel")
    state.emit(Map("copy", dst, (_bare(value),), kind, line=state.root.line))
    return held


class Recorder:
    """What Python's operators on the values of a kernel record, by what an operator asks for.

    Engines and integers have the operators, and stand below the modules that record; they reach
    these functions through `current().record`.
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
