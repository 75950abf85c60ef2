"""`operator`: a function of arrays that kernels answer, declared once.

A request (the arguments) becomes a `Problem` (its arrays as kernels read them). That gives a `Call`
of a kernel, which is run; `Operator.known` finds repeated requests. Names, choices, the arrays and
their places are read off the declaration, and so are the operator of torch (`cute_py.torch`), the
command (`cute-py`), `cute.tune`, and calls for a GPU that is not there.
"""

from __future__ import annotations

import ast
from collections import namedtuple
from inspect import Parameter, signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.calls.arrays import imported, on_device, unwrapped
from cute_py.calls.fingerprint.dependencies import Dependencies
from cute_py.calls.memo import Memo
from cute_py.calls.torch_tensors import (
    DECLARE,
    IN_GRAPHS,
    OPERATORS,
    graph_break,
    is_by_rules,
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
from cute_py.errors import CuteError, refusal, shorten
from cute_py.ops.call import in_place
from cute_py.ops.libraries import Words, adopted, of_one_library, on_stream, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import ParamSpec, Protocol, TypeAlias, TypeVar

    from cute_py.calls.memo import Answer
    from cute_py.kernels.configuration import Config
    from cute_py.ops.libraries import Library
    from cute_py.ops.problem import Problem
    from cute_py.records import Text

    Choices: TypeAlias = Sequence[object] | Callable[[], Sequence[object]]
    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class Public(Protocol[P, R]):
        """What a user calls: a function that knows its operator."""

        operator: Operator
        explain: Callable[..., Text]
        __name__: str

        def __call__(self, *args: P.args, **named: P.kwargs) -> R:
            """Return the result, as the declaration says."""


BACKENDS = ("auto", "emulator", "gpu")
STREAM = "stream"  # the parameter of all; no part of a request, as it is current when one is met
REGISTRY: dict[str, Operator] = {}  # by the name within `cute.ops`, as their modules are loaded


def operator(
    problem: type[Problem],
    *,
    arrays: Sequence[str],
    numbers: Mapping[str, float] | None = None,
    choices: Mapping[str, Choices] | None = None,
    configs: type[Config] | tuple[type[Config], ...] = (),
    words: Words | None = None,
    variants: Variants | None = None,
) -> Callable[[Callable[P, R]], Public[P, R]]:
    """Make the function below a public one that a kernel answers.

    Args:
        problem: what a request becomes.
        arrays: the parameters that are arrays or None, the outputs last. All operators have the
            parameters `out`, `backend`, `checks` and `stream`.
        numbers: the parameters that are run-time numbers, which a kernel takes first -> the value
            for which it has another plan.
        choices: parameters that are one of some words, None among them if that is a choice; or a
            function that returns these words, of a table that grows.
        configs: what `config` may be next to text.
        words: for refusals.
        variants: where a function of the user makes a request one of another operator.

    The function's body is its documentation; the result has its parameters. What a problem declares
    more (`Problem.gradient`, `autocast` ...) is said there.
    """

    def made(function: Callable[P, R]) -> Public[P, R]:
        facts = arrays, numbers or {}, choices or {}, configs, words or Words()
        found = Operator(function, problem, *facts, variants=variants)
        REGISTRY[function.__name__] = found
        public: Public[P, R] = found.public
        return public

    return made


class Variants(NamedTuple):
    """Where a function of the user, or a flag, makes a request one of another operator.

    Attributes:
        name: the parameter that is the function, or the flag.
        more: the one that has the arguments of others names; "": `name` is a flag.
        find: (the function, the arguments by other names, those of this operator's names) -> that
            operator and its arguments.
        call: (the function, the arguments by other names, the others in order) -> the result.
        others: those operators that are there beforehand.
    """

    name: str
    more: str
    find: Callable[[Any, dict[str, Any], dict[str, Any]], tuple[Operator, dict[str, Any]]]
    call: Callable[[Any, dict[str, Any], tuple[Any, ...]], Any]
    others: tuple[Operator, ...] = ()

    @property
    def asks(self) -> str:
        """The condition that a call is one of another operator, as text."""
        if self.more:
            return f"{self.name} is not None or {self.more}"
        return f"{self.name} is not False"


class Operator:
    """An operator, as `operator` declares it.

    Attributes:
        name: the public name, "cute.ops.gemm", for refusals.
        short: the same within `cute.ops`.
        request: the type of its requests: the parameters, arrays first.
        arrays: the names of those that are arrays; `outputs` of those that are written.
        numbers: the names of run-time numbers, with their special values.
        known: the answers to requests.
        public: what a user calls.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        problem: type[Problem],
        arrays: Sequence[str],
        numbers: Mapping[str, float],
        choices: Mapping[str, Choices],
        configs: type[Config] | tuple[type[Config], ...],
        words: Words,
        name: str = "",
        outputs: Sequence[str] = (),
        variants: Variants | None = None,
    ) -> None:
        self.short, self.name = function.__name__, name or f"cute.ops.{function.__name__}"
        self.problem, self.arrays, self.words = problem, tuple(arrays), words
        problem.operation = self.name
        written = [x for x in arrays if x.startswith("out")]
        self.outputs, self.variants = tuple(outputs or written), variants
        self.numbers = dict(numbers)
        self.choices: dict[str, Choices] = {"backend": BACKENDS, **choices}
        self.configs = configs
        self.parameters = {
            x: p
            for x, p in signature(function).parameters.items()
            if p.kind is not p.VAR_KEYWORD and x not in (variants and variants.name, STREAM)
        }
        self.flags = [x for x, p in self.parameters.items() if _is_flag(p)]
        fields = (*arrays, *numbers, *[x for x in self.parameters if x not in (*arrays, *numbers)])
        defaults = [self.parameters[x].default for x in fields]
        given = [None if x is Parameter.empty else x for x in defaults]
        make: Any = namedtuple
        self.request = make("Request", fields, defaults=given)
        self.known = Memo(len(arrays), {fields.index(x): at for x, at in numbers.items()})
        self.public: Any = self._public(function)

    def _public(self, function: Callable[..., Any]) -> Any:
        """Return the function that a user calls: a known request passes through it alone."""
        whole, varied = signature(function), self.variants
        bare = [x.replace(annotation=Parameter.empty) for x in whole.parameters.values()]
        parameters = whole.replace(parameters=bare, return_annotation=Parameter.empty)
        own = ", ".join(self.parameters)
        apart = (
            varied
            and f"""
        if {varied.asks}:
            return _varied({varied.name}, {varied.more or "{}"}, ({own}))"""
        )
        passed = [
            f"**{x}" if p.kind is p.VAR_KEYWORD else f"{x}={x}"
            for x, p in whole.parameters.items()
            if x != STREAM
        ]
        on = (
            STREAM in whole.parameters
            and f"""
        if {STREAM} is not None:
            with _on({STREAM}, ({", ".join(self.arrays)},)):
                return {self.short}({", ".join(passed)})"""
        )
        # parameters, which a user may name, begin with no _
        text = f"""
def make(_known, _request, _answered, _traced, _is_traced, _errors, _shorten, _varied, _on):
    _CuteError, _Overflow = _errors
    def {self.short}{parameters}:{on or ""}{apart or ""}
        _given = {", ".join(self.request._fields)},
        try:
            try:
                _found = _traced(_given) if _is_traced() else _known.replay(_given)
            except _Overflow:  # of a number, which is refused below
                _found = None
            return _answered(_request(*_given)) if _found is None else _found
        except _CuteError as _error:
            _shorten(_error)
            raise
    return {self.short}
"""
        assert isinstance(function, FunctionType)
        tree, code, made = ast.parse(text), function.__code__, dict[str, Any]()
        for node in ast.walk(tree):
            for end in ("lineno", "end_lineno"):
                if hasattr(node, end):
                    setattr(node, end, code.co_firstlineno)
        exec(compile(tree, code.co_filename, "exec"), function.__globals__, made)
        errors = CuteError, OverflowError
        more = self.called, self.traced, is_traced, errors, shorten, self.varied, self.on
        public = made["make"](self.known, self.request, *more)
        for name in ("__doc__", "__module__", "__qualname__", "__annotations__"):
            setattr(public, name, getattr(function, name))
        public.__wrapped__, public.operator, public.explain = function, self, self.explain
        return not_compiled(public)

    def on(self, stream: Any, arrays: tuple[Any, ...]) -> AbstractContextManager[Any]:
        """Make a stream the current one of the arrays' library for a block; refuse arrays of the
        host.
        """
        held = [imported(x) for x in arrays if x is not None and not isinstance(x, (list, tuple))]
        there = [x for x in held if on_device(x)]
        if not there:
            given = f"stream={stream!r} with arrays on the host"
            raise refusal("ops-stream", operation=self.name, given=given)
        return on_stream(adopted(there[0], self.name), stream, self.name)

    # -- variants

    def varied(self, function: Any, more: dict[str, Any], given: tuple[Any, ...]) -> Any:
        """Return the result of a request with a function of the user; several results by name.
        `given`: the operator's own arguments, in the order of its parameters.
        """
        if is_traced():
            load_operators()
            found = IN_GRAPHS.get(self.short, self.variants and self.variants.call)
            assert found is not None
            return found(function, more, given)
        return self.varied_apart(function, more, given)

    @graph_break
    def varied_apart(self, function: Any, more: dict[str, Any], given: tuple[Any, ...]) -> Any:
        """Return the same, between two graphs."""
        assert self.variants is not None
        try:
            self._require_function(function, more)
            return self.variants.call(function, more, given)
        except CuteError as error:
            shorten(error)
            raise

    def _require_function(self, function: Any, more: dict[str, Any]) -> None:
        """Refuse arguments for a function of the user where there is none, and what is no flag."""
        if self.variants is not None and not self.variants.more:
            self._require_flag(self.variants.name, function)
        elif function is None and self.variants is not None:
            facts: dict[str, Any] = {"name": next(iter(more)), "function": self.variants.name}
            raise refusal("ops-argument", operation=self.name, **facts)

    def arguments(self, *args: Any, **named: Any) -> dict[str, Any]:
        """Return the arguments of a call by name, with those for a function of the user."""
        given = signature(self.public).bind(*args, **named).arguments
        return given | (given.pop(self.variants.more, {}) if self.variants else {})

    def requested(self, *args: Any, **named: Any) -> tuple[Operator, Any]:
        """Return the operator of a call with these arguments, this one or a variant, and the
        request.
        """
        variants = self.variants
        if variants is None:
            return self, self.bound(*args, **named)
        given = signature(self.public).bind(*args, **named)
        given.apply_defaults()
        given.arguments.pop(STREAM, None)
        function = given.arguments.pop(variants.name)
        more = given.arguments.pop(variants.more) if variants.more else {}
        if (function is None or function is False) and not more:
            return self, self.request(**given.arguments)
        self._require_function(function, more)
        found, arguments = variants.find(function, more, given.arguments)
        return found, found.bound(**arguments)

    # -- a request

    def asked(self, given: tuple[Any, ...]) -> Any:
        """Return the result of a request that is not known."""
        try:
            return self.answered(self.request(*given))
        except CuteError as error:
            shorten(error)
            raise

    def traced(self, given: tuple[Any, ...]) -> Any:
        """Return the result of a request in a graph; None where no operator takes it, which breaks
        the graph.
        """
        load_operators()
        request = self.request(*given)
        found = self.problem.as_matrices(request)
        if found is None:
            return self._of_torch()[1](request)
        result = self._of_torch()[1](found[0])
        return result if result is None else found[1](result)

    @graph_break
    def called(self, given: Any) -> Any:
        """Return the result of a request of the user, which may be one of another in its place."""
        found = self.problem.as_matrices(given)
        if found is None:
            return self.answered(given)
        other, without = found
        return without(self.answered(other))

    @graph_break
    def answered(self, given: Any, choice: tuple[Any, ...] | None = None) -> Any:
        """Return the result of a request, by the choices for one like it, if there are any."""
        leave_graphs()
        return self._computed(given, choice)

    @graph_break
    def _computed(self, given: Any, choice: tuple[Any, ...] | None) -> Any:
        arrays = given[: len(self.arrays)]
        held = [unwrapped(x) for x in arrays if x is not None]
        if _are_of_torch(held) and (is_in_mode(held[0]) or any(map(is_by_rules, held))):
            load_operators()
            return self._of_torch()[0](given)
        if is_followed(arrays):
            result = self._followed(given)
            self.known.keep(given, outside_autograd(arrays, self._by(None), self._again))
            return result
        unchanged = _functions_in(given)
        request, library = self.taken(given)
        with library.inside():
            problem = self.problem(request, library)
            if problem.is_known:
                return problem.without_kernel(given)
            call = problem.call(choice)
            result = call.run(**{"checks": given.checks} if library.on_host else {})
        self.note_outputs(given, library)
        again = in_place(call, arrays, len(self.outputs), self._by(call.choice))
        if again is not None or choice is None:
            answer = unchanged(problem.guarded(again or self._by(call.choice)))
            if answer is not None:
                self.known.keep(given, outside_autograd(arrays, answer, self._again))
        return problem.given_back(given, result)

    def note_outputs(self, given: Any, library: Library) -> None:
        """Tell autograd which tensors were written; outputs of a GPU are noted where they are."""
        more = self.problem.mutates.items()
        written = [name for name, cause in more if getattr(given, cause) is not None]
        for name in (*written, *(self.outputs if library.on_host else ())):
            if is_tensor(getattr(given, name)):
                note_written(getattr(given, name))

    def _followed(self, given: Any) -> Any:
        """Return the result of a request with an operand that autograd follows, by the operator of
        torch; refuse outputs, as torch.mm does.
        """
        if any(getattr(given, name) is not None for name in self.outputs):
            for name in self.arrays:
                require_no_gradient(getattr(given, name), name, self.name)
        load_operators()
        return self._of_torch()[0](given)

    def _of_torch(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        if self.short not in OPERATORS:
            DECLARE[0](self)
        return OPERATORS[self.short]

    def _again(self, args: tuple[Any, ...], _values: Any) -> Any:
        """Answer a request with an operand that autograd follows."""
        return self._followed(self.request(*args))

    def _by(self, choice: Any) -> Answer:
        """Return the answer to requests that are prepared anew, but for this choice."""
        return lambda args, _values: self.answered(self.request(*args), choice)

    # -- without computing

    def problem_of(self, *args: Any, **named: Any) -> Problem:
        """Return the problem of a call with these arguments."""
        return self.problem(*self.taken(self.bound(*args, **named)))

    def explain(self, *args: Any, **named: Any) -> Text:
        """Return how a call with these arguments is computed and why, without computing it."""
        found, given = self.requested(*args, **named)
        request, library = found.taken(given)
        with library.inside():
            problem = found.problem(request, library)
            problem.require_some(f"{self.name}.explain")
            return problem.explained()

    # -- what is asked for

    def bound(self, *args: Any, **named: Any) -> Any:
        """Return the request of a call with these arguments."""
        given = signature(self.public).bind(*args, **named).arguments
        given.pop(STREAM, None)
        return self.request(**given)

    def taken(self, given: Any) -> tuple[Any, Library]:
        """Return a request with the arrays of one library, and that library; refuse choices that
        do not exist.
        """
        self.require_known(given)
        arrays: dict[str, Any] = {}
        places = {}
        for name in self.arrays:
            x = arrays[name] = getattr(given, name)
            if x is None:
                continue
            with reading(x, name, self.name):
                arrays[name] = imported(x)
                require_no_gradient(arrays[name], name, self.name)
                places[name] = on_device(arrays[name])
        self.require_place(places, given.backend)
        self.require_one_gpu({name: device_of(arrays[name]) for name in places if places[name]})
        arrays, library = of_one_library(arrays, self.name, self.words)
        return given._replace(**arrays), library

    def require_known(self, given: Any) -> None:
        """Refuse choices that do not exist."""
        for name in self.choices:
            self.require_choice(name, getattr(given, name))
        for name in self.flags:
            self._require_flag(name, getattr(given, name))
        config: object = getattr(given, "config", None)
        if config is not None and not isinstance(config, (self.configs, str)):
            self.refuse("config", config, self.words.config)
        if config is not None and self.problem.families:  # also where no kernel is needed
            self.problem.require_config(config)
        self._require_checks(given.checks)

    def _require_flag(self, name: str, x: object) -> None:
        if not isinstance(x, np.bool_) and not (isinstance(x, int) and x in (0, 1)):
            self.refuse(name, x, "True, False")

    def require_choice(self, name: str, value: object) -> None:
        """Refuse a word that is none of the choices of a parameter."""
        words = self.choices[name]
        known = words() if callable(words) else words
        if not (value is None or isinstance(value, str)) or value not in known:
            self.refuse(name, value, ", ".join(map(repr, known)))

    def _require_checks(self, checks: object) -> None:
        """Refuse checks that are neither a flag nor text with names that the emulator has."""
        if isinstance(checks, (bool, np.bool_)):
            return
        from cute_py.emulate.faults import CHECKS

        names = checks.split(",") if isinstance(checks, str) else [""]
        if not {name.strip() for name in names} <= set(CHECKS):
            self.refuse("checks", checks, f"True, False, names among {', '.join(CHECKS)}")

    def refuse(self, name: str, value: object, known: str) -> None:
        """Refuse the value of a parameter."""
        raise refusal("ops-choice", operation=self.name, name=name, value=value, choices=known)

    def require_place(self, places: dict[str, bool], backend: str) -> None:
        """Refuse arrays that are not where the result is computed; on a device are those with
        True.
        """
        device = backend == "gpu" or (backend == "auto" and any(places.values()))
        wrong = [name for name, there in places.items() if there is not device]
        if wrong:
            place = "host" if device else "device"
            value = f"{', '.join(wrong)} on the {place}, with backend={backend!r}"
            raise refusal("ops-no-gpu", operation=self.name, value=value, result=self.words.result)

    def require_one_gpu(self, gpus: dict[str, int]) -> None:
        """Refuse arrays on GPUs of these numbers, unless all are one."""
        if len(set(gpus.values())) > 1:
            value = ", ".join(f"{name} on GPU {x}" for name, x in gpus.items())
            raise refusal("ops-no-gpu", operation=self.name, value=value, result=self.words.result)


def _are_of_torch(held: Sequence[Any]) -> bool:
    return bool(held) and all(map(is_tensor, held))


def _is_flag(p: Parameter) -> bool:
    return str(p.annotation) == "bool"


def _functions_in(given: tuple[Any, ...]) -> Callable[[Answer], Answer | None]:
    """Return what guards an answer to a request with functions of registers: it is asked while all
    that they depend on is as it is now. None is for functions of which that cannot be told.
    """
    seen = [Dependencies(x).snapshot() for x in given if type(x) is FunctionType]
    if not seen:
        return lambda answer: answer
    if not all(x.stable and x.complete for x in seen):
        return lambda _answer: None
    checks = [x.checker() for x in seen]
    return lambda answer: lambda *x: answer(*x) if all(same() for same in checks) else None
