"""Formulas that combine neighbouring columns, as formulas of pairs: with a value for each of both.

`first` and `second` of a value of N columns have N/2, one for each pair of columns 2j and 2j + 1;
`join` of two of these has N again. `split` makes functions of pairs of such formulas, which have
none of the three: all that has N columns is two values. So a derivative is that of these.
"""

from __future__ import annotations

from cute_py.plan.formula import FIRST, JOIN, SECOND, Builder, Formula, Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ANY, WHOLE, PAIRED = 0, 1, 2  # the columns that a value stands for; ANY: it is that of all


def has_pairs(formula: Formula) -> bool:
    """Tell whether a formula combines neighbouring columns."""
    return any(step.fn in (FIRST, SECOND, JOIN) for step in formula.steps)


class MixedError(Exception):
    """A step of values of N and of N/2 columns; its argument is the name of its function."""


def columns(formula: Formula, inputs: Sequence[int]) -> list[int]:
    """Return the columns that each value stands for, by those of the inputs. Raises MixedError."""
    found = list(inputs)
    for step in formula.steps:
        own = {found[x.n] for x in step.reads} - {ANY}
        wanted = {FIRST: {WHOLE}, SECOND: {WHOLE}, JOIN: {PAIRED}}.get(step.fn, own)
        if not own <= wanted or len(own) > 1:
            raise MixedError(step.fn)
        made = {FIRST: PAIRED, SECOND: PAIRED, JOIN: WHOLE}.get(step.fn)
        found.append(made if made is not None else next(iter(own), ANY))
    return found


def is_wide(formula: Formula, inputs: Sequence[int]) -> tuple[bool, ...]:
    """Return for each result whether it has N columns, not N/2."""
    found = columns(formula, inputs)
    return tuple([x.__class__ is not Place or found[x.n] != PAIRED for x in formula.results])


def split(formula: Formula, inputs: Sequence[int]) -> Formula:
    """Return the same function of pairs: each input and each result of N columns is two."""
    kinds, wide = columns(formula, inputs), is_wide(formula, inputs)
    names: list[str] = []
    values: list[tuple[Any, ...]] = []
    for name, kind in zip(formula.inputs, inputs, strict=True):
        own = [f"{name}.{x}" for x in (FIRST, SECOND)] if kind == WHOLE else [name]
        values.append(tuple([Place(len(names) + i) for i in range(len(own))]))
        names += own
    f = Builder(tuple(names), formula.dtype)
    for step, kind in zip(formula.steps, kinds[len(inputs) :], strict=True):
        sources = [values[x.n] if x.__class__ is Place else (x,) for x in step.sources]
        if step.fn in (FIRST, SECOND):
            values.append((sources[0][0 if step.fn == FIRST else -1],))
        elif step.fn == JOIN:
            values.append((sources[0][0], sources[1][0]))
        else:
            each = [tuple([x[min(i, len(x) - 1)] for x in sources]) for i in range(kind % 2 + 1)]
            values.append(tuple([f.step(step.fn, step.dtype, x) for x in each]))
    found: list[Any] = []
    for x, both in zip(formula.results, wide, strict=True):
        value = values[x.n] if x.__class__ is Place else (x,)
        found += [value[0], value[-1]] if both else [value[0]]
    return f.formula(tuple(found))


def gradients(
    formula: Formula, inputs: Sequence[int], wanted: Sequence[int], used: Sequence[bool]
) -> Formula:
    """Return what `Formula.gradients` does, for values of these columns."""
    if not has_pairs(formula):
        return formula.gradients(wanted, used)
    parts = [2 if x == WHOLE else 1 for x in inputs]
    of_results = [2 if x else 1 for x in is_wide(formula, inputs)]
    places = [sum(parts[:n]) + i for n in wanted for i in range(parts[n])]
    plain = split(formula, inputs).gradients(
        places, [x for x, n in zip(used, of_results, strict=True) for _i in range(n)]
    )
    counts = [*parts, *[n for x, n in zip(used, of_results, strict=True) if x]]
    names = [f"gradient{i}" for i in range(len(counts) - len(parts))]
    f, values = Builder((*formula.inputs, *names), formula.dtype), list[Place]()
    for i, count in enumerate(counts):
        both = [f.step(fn, f.dtype, (Place(i),)) for fn in (FIRST, SECOND)] if count == 2 else None
        alone = Place(i) if i < len(parts) else _paired(f, Place(i))
        values += both or [alone]
    found = list(plain.replay(lambda fn, dtype, *x: f.step(fn, dtype, x), *values))
    results = []
    for n in wanted:
        own, found = tuple(found[: parts[n]]), found[parts[n] :]
        value = own[0]
        if inputs[n] == WHOLE:
            value = f.step(JOIN, f.dtype, own)
        elif inputs[n] == PAIRED:
            value = _paired(f, value)
        results.append(value)
    return f.formula(tuple(results))


def _paired(f: Builder, x: Any) -> Place:
    """Return a value as one of N/2 columns, also if it is a number, or an array that has one column
    because N/2 is 1.
    """
    return f.step(FIRST, f.dtype, (f.step(JOIN, f.dtype, (x, x)),))
