"""`Problem`: the arrays of a request as kernels read them, and what follows from its declaration.

An operator derives its own from it. `__init__` reads the arrays and says which result there is, by
`read` and `gives`; `call` returns the call of a kernel, by `writes`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cute_py.calls.arrays import VECTOR_BYTES, address_of, dtype_of, strides_of
from cute_py.calls.torch_tensors import require_no_gradient
from cute_py.errors import CuteError, refusal
from cute_py.kernels.configuration import changed, parts_of
from cute_py.ops.call import Output, directly, writable
from cute_py.ops.family import changed_for, choose, classes_of, take
from cute_py.ops.operands import bytes_each, is_apart, shown
from cute_py.ops.tuned import winner
from cute_py.records import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import Dtype
    from cute_py.ops.call import Call
    from cute_py.ops.family import Family
    from cute_py.ops.libraries import Library


FLOATS = ("f16", "bf16", "f32", "f64", "e4m3", "e5m2")
INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")


class Problem:
    """The arrays of a request as a kernel reads them.

    Attributes:
        operation: the public name of the operator.
        families: the kernels that compute it.
        request, library: what is asked for, in arrays of one library.
        results: of each output its shape and type; `shape` and `kind` are those of the first.
        value: what the result is filled with, where no kernel computes it; else None.
        types: the names of the element types that it takes.
        reference: (values of the arrays in float64, the other arguments by name) -> the result, or
            a tuple; None: there is none.
        gradient: (request, gradients of the results, what it keeps by name) -> the gradients of
            arrays by name, a function of operators; the request has shapes in place of arrays.
            None: operands that autograd follows are refused.
        keeps: the arrays and results that `gradient` reads.
        autocast: what autocast does to the floats of a request: "lower", "f32" or None.
        takes_more_modes: whether arrays may have one more mode, the first, so that vmap is a call,
            not one for each element of the batch.
        mutates: the arrays that are written where another one is given, by its name.
        indices: the arrays of s32 that say where others are read.
    """

    operation: ClassVar[str] = ""
    families: ClassVar[Sequence[Family]] = ()
    hint: ClassVar[str] = ""  # more of the fix for a wrong shape
    types: ClassVar[Sequence[str]] = ()
    reference: ClassVar[Callable[..., Any] | None] = None
    gradient: ClassVar[Callable[..., dict[str, Any]] | None] = None
    keeps: ClassVar[Sequence[str]] = ()
    autocast: ClassVar[str | None] = None
    takes_more_modes: ClassVar[bool] = True
    mutates: ClassVar[Mapping[str, str]] = {}
    indices: ClassVar[Sequence[str]] = ()

    def __init__(self, request: Any, library: Library) -> None:
        """Read the arrays of `library`; refuse those that do not fit each other."""
        self.request, self.library = request, library
        self.results: dict[str, tuple[tuple[int, ...], Dtype]] = {}
        self.value: float | None = None

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of a kernel, by what was chosen before, if given."""
        raise NotImplementedError

    def explained(self) -> Text:
        """Return how the result is computed, and why."""
        if self.is_known:
            return Text(
                "no kernel: " + ("empty" if self.value is None else f"filled with {self.value}")
            )
        config = self.call().config
        if config is None:
            return Text("one kernel: there is nothing to choose")
        explained: Text = config.explain()
        return explained

    def guarded(self, answer: Answer) -> Answer:
        """Return an answer that is asked only where the call would be the same."""
        return answer

    @staticmethod
    def batched(named: dict[str, Any], ranks: dict[str, int]) -> dict[str, Any]:
        """Return the arguments that differ where arrays of these ranks have one more mode, the
        first: modes that count from the end stay as they are.
        """
        return {}

    @classmethod
    def as_matrices(cls, given: Any) -> tuple[Any, Callable[[Any], Any]] | None:
        """Return another request in the place of one, and the function that takes the result of
        that to the result of this; None where it is answered itself.
        """
        return None

    # -- what is read

    @classmethod
    def number(cls, name: str, given: Any) -> float:
        """Return a run-time number as a float; refuse all but real numbers, of Python or of a
        library.
        """
        require_no_gradient(given, name, cls.operation)
        number = given.item() if getattr(given, "shape", None) == () else given
        try:
            if isinstance(number, (int, float)):
                return float(number)
        except OverflowError:
            pass
        raise refusal("ops-factor", operation=cls.operation, name=name, value=given)

    def read(
        self, name: str, known: Sequence[str], rank: int = 0, modes: str = ""
    ) -> tuple[Any, Dtype]:
        """Return an array, converted where it is of the host, and its type; refuse types other than
        those known, and fewer modes.
        """
        x, kind = self.library.read(getattr(self.request, name), name)
        if len(x.shape) < rank:
            found = shown(x.shape)
            raise refusal(
                "ops-rank", operation=self.operation, name=name, shape=found, rank=rank, modes=modes
            )
        self.require_type(name, kind, known)
        self.library.require_room((tuple(x.shape), kind.bits))
        return self.library.converted(x, kind), kind

    def require_type(self, name: str, kind: Dtype, known: Sequence[str]) -> None:
        """Refuse a type that is none of those known."""
        if kind.name not in known:
            words = ", ".join(known)
            raise refusal(
                "ops-out-dtype", operation=self.operation, name=name, dtype=kind, known=words
            )

    def modes(self, name: str, dim: Any, rank: int, single: bool = False) -> tuple[int, ...]:
        """Return which modes a number, or without `single` several, name that may count from the
        end; None: all.
        """
        given = range(rank) if dim is None and not single else dim
        found: list[int] = []
        for i in given if isinstance(given, range | tuple | list) and not single else [dim]:
            is_whole = isinstance(i, (int, np.integer)) and not isinstance(i, bool)
            if not is_whole or not -rank <= i < rank or i % rank in found:
                facts: dict[str, Any] = {"name": name, "value": dim, "rank": rank}
                raise refusal(
                    "ops-mode", operation=self.operation, **facts, least=-rank, most=rank - 1
                )
            found.append(int(i) % rank)
        return tuple(sorted(found))

    def readable(self, x: Any) -> Any:
        """Return an array along whose strides kernels can read: a copy where they cannot."""
        return x if self.library.steps(x) is not None else self.library.contiguous(x)

    def run_of(self, x: Any) -> Any:
        """Return an array that kernels can read as a view of one mode: of a copy where its modes
        are not one run in memory.
        """
        x = self.readable(x)
        found = as_run(x)
        return as_run(self.library.contiguous(x)) if found is None else found

    # -- how it is computed

    def threads_of(self, _family: str) -> tuple[int, ...]:
        """Return how many threads a block of a family may have, the usual count first."""
        return (0,)

    def takes_threads(self, family: str, count: int) -> bool:
        """Return whether a block of a family may have so many threads."""
        return count in self.threads_of(family)

    def most_parts(self, _family: str) -> int:
        """Return how many blocks of a family may share a row."""
        return 1

    def parts_of(self, _family: str) -> int:
        """Return how many blocks of a family share a row."""
        return 1

    def chosen(self, choice: tuple[Any, ...] | None) -> tuple[Family, Any]:
        """Return the family and the configuration for a problem, or those that were chosen."""
        config = choice[0] if choice else self._config()
        return next(x for x in self.families if x.name == config.family), config

    @classmethod
    def require_config(cls, config: Any) -> None:
        """Refuse what configures none of the families, whatever the arrays are."""
        known = [x.name for x in cls.families]
        words = ["", *known] if isinstance(config, str) else known  # text may leave the name out
        if isinstance(config, str):
            config = changed(cls.families[0].config(), config, classes_of(cls.families))
        if config.family not in words:
            why = f"a name among {', '.join(known)}"
            raise refusal("ops-family", operation=cls.operation, config=config, why=why)

    def _config(self) -> Any:
        given, families = self.request.config, self.families
        if given is None:
            found = winner(self.facts, lambda: [x for (x,) in self.candidates()])
            if found is not None:
                return found
        name = getattr(given, "family", "")
        if isinstance(given, str):
            name = parts_of(given, classes_of(families)).get("family", "")
        taken = take([x for x in families if name in ("", x.name)], self)
        if not taken.reads.takes:
            why = taken.reads.why
            raise refusal("ops-family", operation=self.operation, config=given, why=why)
        config, why = choose(taken, self)
        config = config.because(taken.reason, *why())
        if isinstance(given, str):
            given = changed_for(taken, config, given, self)
        return config if given is None else self._launched(given)

    def _launched(self, config: Any) -> Any:
        """Return a configuration that was given; refuse parts that its kernel does not have."""
        family = config.family
        counts, most = self.threads_of(family), self.most_parts(family)
        usual = f"threads among {', '.join(map(str, counts))}"
        threads = "threads=0: the kernel has its own" if counts == (0,) else usual
        rules = {
            threads: self.takes_threads(family, config.threads),
            f"parts of at most {most}": config.parts <= most,
        }
        for rule, holds in rules.items():
            if not holds:
                raise refusal("config-block", operation=self.operation, config=config, rule=rule)
        return config

    def candidates(self) -> list[tuple[Any, ...]]:
        """Return the choices that `cute.tune` measures, as `call` takes them, the rule's first."""
        found = [choose(take(self.families, self), self)[0]]
        for family in self.families:
            if family.reads(self).takes:
                found += [x.config for x in family.configs(self)]
        return [(config,) for config in dict.fromkeys(found)]

    def facts(self) -> tuple[object, ...]:
        """Return all that a choice may depend on: where arrays are, and the other arguments."""
        named = self.request._asdict()
        for name in self.results:
            del named[name]
        arrays = {name: x for name, x in named.items() if hasattr(x, "shape")}
        where = [
            (name, dtype_of(x).name, tuple(x.shape), strides_of(x), address_of(x) % VECTOR_BYTES)
            for name, x in arrays.items()
        ]
        rest = [(name, repr(x)) for name, x in named.items() if name not in arrays]
        gpu = self.library.gpu(next(iter(arrays.values())))
        return self.operation, tuple(where), tuple(rest), gpu, gpu and gpu.name

    # -- what is written

    def require_some(self, operation: str) -> None:
        """Refuse a result without elements, which no kernel computes."""
        if 0 in self.shape:
            facts = {"shape": shown(self.shape), "operator": self.operation}
            raise refusal("ops-empty", operation=operation, **facts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return next(iter(self.results.values()))[0]

    @property
    def kind(self) -> Dtype:
        """The type of the first result."""
        return next(iter(self.results.values()))[1]

    def gives(self, shape: tuple[int, ...], kind: Dtype, name: str = "out") -> None:
        """Say which result goes to the output `name`; refuse an array there that cannot take it."""
        self.results[name] = shape, kind
        self.require_out(name)

    def require_out(self, name: str) -> None:
        """Refuse an array as an output that cannot take the result."""
        out, (wanted, kind) = getattr(self.request, name), self.results[name]
        if out is None:
            return
        shape = tuple(out.shape) if hasattr(out, "shape") else type(out).__name__
        if shape != wanted:
            raise self.wrong_shape(name, shape, wanted)
        if self.library.on_host and not isinstance(out, np.ndarray):
            value = type(out).__name__
            raise refusal("ops-array", operation=self.operation, name=name, value=value)
        found = None
        with suppress(CuteError):  # a type that no operator takes, or of another byte order
            found = dtype_of(out)
        if found is not kind:
            by = ", as out_dtype says" if hasattr(self.request, "out_dtype") else ""
            facts = {"name": name, "dtype": out.dtype, "known": f"{kind}{by}"}
            raise refusal("ops-out-dtype", operation=self.operation, **facts)
        self.require_memory(name, out, shape)

    def wrong_shape(
        self, name: str, given: tuple[int, ...] | str, wanted: tuple[int, ...]
    ) -> CuteError:
        """Return the refusal of an array by its shape."""
        found = shown(given) if isinstance(given, tuple) else given
        facts = {"name": name, "shape": found, "wanted": shown(wanted), "hint": self.hint}
        return refusal("ops-shape", operation=self.operation, **facts)

    def require_memory(self, name: str, out: Any, shape: tuple[int, ...] | str) -> None:
        """Refuse memory that cannot be written element by element."""
        if self.library.is_read_only(out):
            raise refusal("ops-read-only", operation=self.operation, name=name)
        if not is_apart(out):
            strides = [step * bytes_each(out) for step in strides_of(out)]
            facts = {"name": name, "shape": shown(shape), "strides": shown(strides)}
            raise refusal("ops-overlap", operation=self.operation, **facts)

    def writes(
        self,
        reads: Sequence[Any],
        modes: tuple[int, ...],
        form: tuple[int, ...] | None = None,
        name: str = "out",
    ) -> Output:
        """Return an output as a kernel writes it that takes any strides: the user's array where it
        may go there, else a new one.

        Args:
            reads: what the kernel reads.
            modes: their order for the kernel; of none one is made.
            form: the shape without modes of one element that only the user wants; None: all.
            name: of the output.

        """
        out, (shape, kind) = getattr(self.request, name), self.results[name]
        direct = out is not None and self.library.steps(out) is not None and writable(out, reads)
        form = shape if form is None else form
        made = out.reshape(form) if direct else self.library.empty(form, kind)
        return Output(self.ordered(made, modes), made, shape, out, direct)

    def writes_run(self, reads: Sequence[Any]) -> Output:
        """Return the output as kernels of runs write it, as `run_of`; new where `out` is none."""
        output = self.writes(reads, tuple(range(len(self.shape))))
        made = as_run(output.made)
        if made is None:
            made = self.library.empty((prod(self.shape),), self.kind)
            output = output._replace(made=made, direct=False)
        return output._replace(array=made)

    def ordered(self, x: Any, modes: tuple[int, ...]) -> Any:
        """Return a view with the modes in another order; without modes, with one of one element."""
        return self.library.ordered(x, modes) if modes else x.reshape((1,))

    def writes_matrices(
        self, reads: Sequence[Any], shares: bool = False, name: str = "out"
    ) -> Output:
        """Return an output (..., rows, columns) as kernels write matrices: (rows, columns) or
        (rows, columns, L).
        """
        library, out, (shape, kind) = self.library, getattr(self.request, name), self.results[name]
        form = prod(shape[:-2]), *shape[-2:]
        view = directly(out, form, reads)
        if view is None and form[0] == 1 and not library.on_host:
            made = library.empty(form[1:], kind)
            return Output(made, made, shape, out)
        made = library.empty(form, kind) if view is None else view
        return Output(self.matrices(made, shares), made, shape, out, view is not None)

    def matrices(self, x: Any, shares: bool = False) -> Any:
        """Return [L, rows, columns] as kernels count it: (rows, columns, L); a GPU gets two modes
        for L = 1, and for one matrix that the batch shares if the family reads it as one.
        """
        shared = x.shape[0] == 1 or (shares and strides_of(x)[0] == 0)
        if shared and not self.library.on_host:
            return self.library.first(x)
        return self.library.ordered(x, (1, 2, 0))

    def filled_with(self, _name: str) -> float | None:
        """Return what an output is filled with where no kernel computes it; None: nothing."""
        return self.value

    def without_kernel(self, given: Any) -> Any:
        """Return the results of a request that no kernel computes."""
        found = []
        for name, (shape, kind) in self.results.items():
            out = getattr(self.request, name)
            made = self.library.empty(shape, kind) if out is None else out
            value = self.filled_with(name)
            if value is not None and 0 not in shape:
                made[...] = value
            found.append(made)
        return self.given_back(given, found[0] if len(found) == 1 else tuple(found))

    def given_back(self, given: Any, result: Any) -> Any:
        """Return results as the user wants them: in the outputs that were given, else in the
        library of the first array.
        """
        several = result if isinstance(result, tuple) else (result,)
        found = []
        for name, x in zip(self.results, several, strict=True):
            out = getattr(given, name)
            found.append(self.library.given_back(x, given[0]) if out is None else out)
        return found[0] if len(found) == 1 else tuple(found)

    @classmethod
    def is_differentiable(cls, _request: Any) -> bool:
        """Return whether `gradient` is the derivative of a request."""
        return True

    @classmethod
    def keeping(cls, _request: Any) -> Sequence[str]:
        """Return the arrays and results that the derivative of a request reads."""
        return cls.keeps

    @property
    def is_known(self) -> bool:
        """Whether no kernel has to compute the result: it is empty, or of nothing."""
        return self.value is not None or all(0 in shape for shape, _kind in self.results.values())


def as_run(x: Any, keeps_last: bool = False) -> Any:
    """Return an array whose modes are one run in memory as a view of one, or of all but the last;
    None for others.
    """
    count = len(x.shape) - keeps_last
    shape, strides = tuple(x.shape), strides_of(x)
    runs = [(n, s) for n, s in zip(shape[:count], strides[:count], strict=True) if n != 1]
    if 0 in shape or any(s != n * inner for (_, s), (n, inner) in pairwise(runs)):
        return None
    return x.reshape((prod(shape[:count]), *shape[count:]))
