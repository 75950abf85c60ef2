"""`Family`: a kernel, what it reads, and its configurations; the families of an operator are rows.

A problem is computed by the first family that takes it. Those that read alike, by one function, are
compared: the least estimated time wins. What follows from the rows: which one a configuration asks
for, changes of it by text, and why the others did not get the problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from cute_py.kernels.configuration import Config, changed, part, parts_by_name, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from cute_py.trace.kernel import Kernel

    Reasons = Callable[[], tuple[str, ...]]

MOST_ALONG_YZ = 65535  # blocks of a grid along its second and third mode


@dataclass(frozen=True, slots=True)
class Reads:
    """How a family reads the arrays of a problem.

    Attributes:
        takes: whether it computes the problem unless another one is asked for.
        why: why it does, or does not; "" where that is the next one's to say.
        copies: for each operand, what is copied first, in the words of the family; "" for none.
        said: why, for the reader; "" without copies.
    """

    takes: bool = True
    why: str = ""
    copies: tuple[str, ...] = ()
    said: str = ""


class Estimate(NamedTuple):
    """A configuration with its estimated time, in microseconds, about; only ratios to those of
    families that read alike matter. Others with these attributes do as well.
    """

    time: float
    config: Any  # a Config


def least(_problem: Any, ranked: Sequence[Any]) -> tuple[Any, Reasons]:
    """Return the configuration with the least time, and its own reasons."""
    config = ranked[0].config
    return config, lambda: config.reasons


@dataclass(frozen=True, slots=True)
class Family:
    """A family of kernels of an operator.

    Attributes:
        name: of the family.
        kernel: the kernel.
        config: the class of its configurations, which has only the parts that its kernel reads.
        reads: from a problem, whether the family takes it, and what is copied first. The others
            take a problem as it is read.
        configs: from a problem, its configurations with estimated times; of all families that read
            alike and share the function.
        means: how it reads and computes, for the reader.
        numbers: from a configuration and a problem, what the kernel takes after the operator's own
            numbers: how many blocks are launched, in which order.
        decide: from a problem and the estimates of families that read alike, the least first: the
            configuration, and a function that returns why.
        fits: from a configuration that was given and a problem: the configuration as that problem
            needs it; it refuses one that is for others.
        changed: from a configuration, text and a problem: the configuration with these parts.
        others: from a problem and the chosen configuration: what else `cute.tune` measures.

    >>> from cute_py.kernels.configuration import Config, part
    >>> from cute_py.kernels.transpose import transpose_naive, transpose_vectors
    >>> @dataclass(frozen=True, slots=True)
    ... class Width(Config):
    ...     width: int = part(1, about=("width",))
    ...     reasons: tuple[str, ...] = ()
    >>> rows = (
    ...     Family("vectors", transpose_vectors, Width, lambda n: [Estimate(1, Width(n))],
    ...            lambda n: Reads(n > 1, f"rows aligned to {n} elements"), "vectors"),
    ...     Family("elements", transpose_naive, Width, lambda n: [Estimate(1, Width())],
    ...            means="elements"),
    ... )
    >>> for problem in (4, 1):
    ...     taken = take(rows, problem)
    ...     config, why = choose(taken, problem)
    ...     print(taken.first.name, config.width, taken.reason)
    vectors 4 path: vectors, rows aligned to 4 elements
    elements 1 path: elements, rows aligned to 1 elements
    """

    name: str
    kernel: Kernel
    config: type[Config]
    configs: Callable[[Any], Iterable[Any]]  # of Estimates
    reads: Callable[[Any], Reads] = lambda _problem: Reads()
    means: str = ""
    numbers: Callable[[Any, Any], tuple[int, ...]] = lambda *_: ()
    decide: Callable[[Any, Any], tuple[Any, Reasons]] = least
    fits: Callable[[Any, Any], Any] = lambda config, _problem: config
    changed: Callable[[Any, str, Any], Any] | None = None
    others: Callable[[Any, Any], Sequence[Any]] = lambda *_: ()


class Taken(NamedTuple):
    """The families that compute a problem.

    Attributes:
        families: those that read alike.
        reads: how they do.
        reason: which way it is computed, and why, in a line.
    """

    families: tuple[Family, ...]
    reads: Any  # a Reads
    reason: str

    @property
    def first(self) -> Family:
        """The first one, which stands for all where it does not matter which."""
        return self.families[0]


def take(families: Sequence[Family], problem: Any, asked: type[Config] | None = None) -> Taken:
    """Return the families that compute a problem: those that take it first, among those with a
    class of configurations that is asked for, if any; the first of these must, if none takes it.
    """
    known = families if asked is None else [x for x in families if x.config is asked]
    first, reads = known[0], known[0].reads(problem)
    why, earlier = "as the configuration says" if asked else reads.why, (first, reads)
    for each in known:
        if reads.takes:
            break
        if each.reads is not first.reads:
            first, reads = each, each.reads(problem)
            why = why or reads.why
    if not reads.takes:
        first, reads = earlier
    said = f"; copied first: {reads.said}" if reads.said else ""
    alike = tuple([x for x in known if x.reads is first.reads])
    return Taken(alike, reads, f"path: {', '.join(filter(None, (first.means, why)))}{said}")


def choose(taken: Taken, problem: Any) -> tuple[Any, Reasons]:
    """Return the configuration with the least estimated time, and a function that says why."""
    rules = dict.fromkeys([x.configs for x in taken.families])
    made = [x for configs in rules for x in configs(problem)]
    made.sort(key=attrgetter("time"))
    return taken.first.decide(problem, made)


# -- configurations that are given


def classes_of(families: Iterable[Family]) -> tuple[type[Config], ...]:
    """Return the classes of configurations of an operator."""
    return tuple(dict.fromkeys(x.config for x in families))


def named_by(families: Iterable[Family], given: Mapping[str, Any]) -> type[Config] | None:
    """Return the class of configurations of the family that parts name; None where they do not."""
    return next((x.config for x in families if x.name in given.values()), None)


def asked_by(families: Sequence[Family], config: Config | str | None) -> type[Config] | None:
    """Return the class of configurations that one which is given, or text, asks for; None where it
    may be any. Text asks by the name of a family, or by parts that not all classes have: of several
    such classes, it is the one of the last family. Refuse text that is no configuration.
    """
    if not isinstance(config, str):
        return None if config is None else type(config)
    classes = classes_of(families)
    given = parts_of(config, classes)
    named = named_by(families, given)
    if named is not None:
        return named
    having = [
        {
            n
            for n, x in parts_by_name(c).items()
            if x.metadata["asks"] and (n not in given or x.metadata["takes"](given[n]))
        }
        for c in classes
    ]
    special = {name for name in given if not all(name in names for names in having)}
    found = [c for c, names in zip(classes, having, strict=True) if special & names]
    return found[-1] if found else None


def changed_for(taken: Taken, config: Any, text: str, problem: Any) -> Any:
    """Return a configuration with parts given as text, for a problem."""
    change = taken.first.changed
    if change is not None:
        return change(config, text, problem)
    return changed(config, text, [type(config)])


# -- operators whose families differ in their kernel alone


class _AnyName:
    """The words that may name a family: which ones do, a problem says."""

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.isidentifier()


@dataclass(frozen=True, slots=True)
class BlockConfig(Config):
    """How an operator is computed whose kernels have no more parts.

    Attributes:
        family: the name of the family.
        threads: of a block; 0: as many as the kernel has.
        parts: blocks that share a row, where a second kernel combines what they find.
        reasons: why; not compared.
    """

    family: str = part("", choices=_AnyName(), is_shown=True)
    threads: int = part(0)
    parts: int = part(1)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    CODE, OPERATION = "config-block", "config"

    def rules(self, _has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        n = self.threads
        is_whole = type(n) is int and 0 <= n <= 1024 and n % 32 == 0
        yield "a family by its name", not isinstance(self.family, str)
        yield "threads of whole warps, at most 1024", not is_whole
        yield "parts of at least 1", type(self.parts) is not int or self.parts < 1


def by_blocks(
    name: str, kernel: Kernel, means: str, reads: str = "", fits: str = "", fails: str = ""
) -> Family:
    """Return the family of a kernel with a `BlockConfig`.

    Args:
        name: of the family.
        kernel: the kernel.
        means: how it reads and computes, for the reader.
        reads: the attribute of a problem that is None or False where the kernel cannot read it; "":
            it reads all.
        fits: why it reads a problem; `fails`: why not.
        fails: see there.

    A problem says how many threads a family may have, the usual count first, and how many parts.
    """

    def found(problem: Any) -> Reads:
        takes = not reads or getattr(problem, reads) not in (None, False)
        return Reads(takes, fits if takes else fails)

    def configs(problem: Any) -> list[Estimate]:
        parts = problem.parts_of(name)
        return [Estimate(1.0, BlockConfig(name, n, parts)) for n in problem.threads_of(name)]

    return Family(name, kernel, BlockConfig, configs, found, means)
