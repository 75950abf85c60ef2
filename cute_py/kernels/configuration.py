"""`Config`: how a kernel computes a problem, as a frozen dataclass of the parts that it has.

Each part says by its metadata how text gives it and which reasons are about it (`part`). From that
follow `str`, changes by text, and what an explanation still says after a change.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cute_py.errors import CuteError, refusal
from cute_py.records import Shown, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from typing import Self

    Classes = Sequence[type["Config"]]

AnyConfig = TypeVar("AnyConfig", bound="Config")


def told(
    *,
    counts: tuple[int, ...] = (1,),
    choices: Container[str] = (),
    about: tuple[str, ...] = (),
    asks: bool = True,
    is_shown: bool = False,
    text: str = "",
    reads: Callable[[str], Any] | None = None,
    takes: Callable[[Any], bool] = lambda _value: True,
) -> dict[str, Any]:
    """Return the metadata of a field that text gives by its name: `stages=3`.

    Args:
        counts: how many numbers it may have, as 64x64x32; with one it is a plain int.
        choices: the words that it may be instead: names of families. Classes of others have no such
            part, and do not mind it.
        about: the reasons that explain it: their words before the colon.
        asks: whether text that gives it asks for a family that has it, where others do not.
        is_shown: whether `str` shows the default, too.
        text: its name in text, "" where that is the field's; several fields may share one.
        reads: from text to the value, or None where it is no value of the field; None: by `counts`
            and `choices`.
        takes: whether kernels of the class have a value; text with another asks for other families.

    """
    known = {"counts": counts, "choices": choices, "about": about, "asks": asks}
    return {**known, "is_shown": is_shown, "text": text, "reads": reads, "takes": takes}


def part(default: Any, **how: Any) -> Any:  # a field
    """Return a field that text gives, with its value where nothing is said; `how` as in `told`."""
    return field(default=default, metadata=told(**how))


class Config(Shown):
    """Base of configurations, each a frozen dataclass with a field `reasons` that is not compared.
    Its text says which of an operator's it is: `cute.tune` stores that.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, slots=True)
    ... class Tile(Config):
    ...     tile: tuple[int, int] = part((64, 64), counts=(2,), about=("tile",))
    ...     stages: int = part(2, about=("stages",))
    ...     reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)
    >>> found = Tile((32, 64)).because("tile: rows are few", "stages: the usual")
    >>> print(found, "|", changed(found, "stages=3", (Tile,)).explain())
    tile=32x64 | tile=32x64 stages=3
      tile: rows are few
      given: stages=3
    """

    __slots__ = ()
    reasons: tuple[str, ...]
    __match_args__: ClassVar[tuple[str, ...]] = ()  # the fields
    CODE: ClassVar[str]  # of the refusal of parts that do not fit each other
    OPERATION: ClassVar[str]  # its name there

    def __post_init__(self) -> None:
        """Refuse parts that do not fit each other."""
        self.require()

    def require(self, others: Mapping[str, Any] | None = None) -> None:
        """Refuse parts that do not fit each other; `others`: the values of all that any class of an
        operator has, None for those of this class and for those that are not given.
        """
        for rule, is_broken in self.rules(bool(others)):
            if is_broken:
                told = self.text(others)
                raise refusal(self.CODE, operation=self.OPERATION, config=told, rule=rule)

    def rules(self, _has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not. One rule must refuse parts
        that only other classes have.
        """
        return ()

    def because(self, *reasons: str) -> Self:
        """Return the same configuration with other reasons."""
        made = object.__new__(type(self))  # `replace` would check the parts again
        for name in self.__match_args__:
            object.__setattr__(made, name, getattr(self, name))
        object.__setattr__(made, "reasons", reasons)
        return made

    def text(self, others: Mapping[str, Any] | None = None) -> str:
        """Return the parts as text, others among them where their class has them."""
        return " ".join(self.words(others))

    def words(self, others: Mapping[str, Any] | None = None) -> list[str]:
        """Return `name=value` of each part that text gives and that is not the default, in the
        order of the fields; others, as in `require`, give an order of all.
        """
        values = {
            name: value
            for name, each in parts_by_name(type(self)).items()
            if (value := getattr(self, name)) != each.default or each.metadata["is_shown"]
        }
        values |= {name: x for name, x in (others or {}).items() if x is not None}
        order = others or values
        found = parts_by_name(type(self))
        names = {x: (x in found and found[x].metadata["text"]) or x for x in order}
        return [f"{names[x]}={_worded(values[x])}" for x in order if x in values]

    def __str__(self) -> str:
        return self.text()

    def details(self) -> list[str]:
        """Return what follows from the parts, a line each."""
        return []

    def explain(self) -> Text:
        """Return the configuration, why it was chosen, and what follows, a line each.

        >>> from cute_py.ops import choose_config
        >>> print(choose_config(64, 64, 64, "s8").explain().splitlines()[-1].split(" -> ")[-1])
        SM75_U32x4_LDSM_N
        """
        lines = [f"  {line}" for line in (*self.reasons, *self.details())]
        return Text("\n".join([str(self), *lines]))


def _worded(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


_parts: dict[type, dict[str, Field[Any]]] = {}


def parts_by_name(kind: type[Config]) -> dict[str, Field[Any]]:
    """Return the fields of a class of configurations that text gives, by name."""
    found = _parts.get(kind)
    if found is None:
        found = _parts[kind] = {x.name: x for x in _fields(kind) if x.metadata}
    return found


def _fields(kind: type[Config]) -> tuple[Field[Any], ...]:
    return fields(kind)  # type: ignore[arg-type]  # a base is none, its classes are dataclasses


def _values(config: Config) -> dict[str, Any]:
    return {name: getattr(config, name) for name in config.__match_args__}


def configured(kind: type[AnyConfig], values: Mapping[str, Any], classes: Classes) -> AnyConfig:
    """Return a configuration of a class; refuse parts that only other classes have, unless they are
    their defaults.

    Args:
        kind: the class.
        values: of its fields, and of those of others.
        classes: those of an operator.

    """
    own = set(kind.__match_args__)
    if own.issuperset(values):
        return kind(**values)
    others = {
        name: None if name in own or x.metadata["choices"] or value == x.default else value
        for each in classes
        for name, x in parts_by_name(each).items()
        for value in (values.get(name, x.default),)
    }
    if any(x is not None for x in others.values()):
        made = object.__new__(kind)
        for each in _fields(kind):
            object.__setattr__(made, each.name, values.get(each.name, each.default))
        made.require(others)
        raise AssertionError(f"{kind.__name__} refuses no parts of others")
    return kind(**{name: x for name, x in values.items() if name in own})


# -- parts given as text


def parts_of(text: str, classes: Classes) -> dict[str, Any]:
    """Return the parts that text gives, by name; refuse what no class of configurations has, and
    parts given twice.

    >>> from cute_py.kernels.config_sm90 import WarpgroupConfig
    >>> parts_of("tile=128x192x64, schedule=pingpong", (WarpgroupConfig,))
    {'tile': (128, 192, 64), 'schedule': 'pingpong'}
    """
    known = {name: each.metadata for kind in classes for name, each in parts_by_name(kind).items()}
    found: dict[str, Any] = {}
    for word in text.split(","):
        given, _, value = word.strip().partition("=")
        for name, how in known.items():
            if given == (how["text"] or name) and name not in found:
                read = _value_of(value, how)
                if read is not None:
                    found[name] = read
                    break
        else:
            raise refusal("gemm-config-text", operation="config", text=text)
    return found


def _value_of(text: str, how: Mapping[str, Any]) -> Any:
    """Return the value that text gives a field; None where it gives none."""
    if how["reads"] is not None:
        return how["reads"](text)
    if text in how["choices"]:
        return text
    words, wanted = text.split("x"), () if how["choices"] else how["counts"]
    if len(words) not in wanted or not all(n.isdecimal() and len(n) < 10 for n in words):
        return None
    return int(text) if wanted == (1,) else tuple(map(int, words))


def changed(config: Config, text: str, classes: Classes, kind: type[Any] | None = None) -> Any:
    """Return a configuration with parts given as text: `tile=64x64x32,stages=3`.

    Args:
        config: the configuration.
        text: its parts.
        classes: those of the operator, whose parts text may name.
        kind: the class of the result; None: that of the configuration.

    """
    with given_as(text):
        values = {**_values(config), **parts_of(text, classes)}
        made = configured(kind or type(config), values, classes)
    return made.because(*still_true(config, made), f"given: {text}")


@contextmanager
def given_as(text: str) -> Iterator[None]:
    """Let what is refused inside say which text was given."""
    try:
        yield
    except CuteError as error:
        raise error.inside(f"config({text})") from None


def still_true(config: Config, made: Config) -> list[str]:
    """Return the reasons of a configuration that hold for one that was made of it."""
    differ = {
        about
        for name, each in parts_by_name(type(config)).items()
        for about in each.metadata["about"]
        if getattr(config, name) != getattr(made, name, None)
    }
    return [reason for reason in config.reasons if reason.partition(":")[0] not in differ]
