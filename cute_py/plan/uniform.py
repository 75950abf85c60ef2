"""Which threads surely agree on a value: a block, a warpgroup, a warp, or only a thread with
itself.
"""

from __future__ import annotations

from cute_py.integers.polynomial import FloorDiv, Min, Symbol, value
from cute_py.integers.symbols import terms_of
from cute_py.plan.conditions import Compare, Logic, Not, Test
from cute_py.plan.ops.control import SCOPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cute_py.integers.polynomial import Atom, Polynomial


def uniformity(known: dict[str, str], *values: object) -> str:
    """Return the widest scope whose threads agree on all values: scalars or conditions.

    `tid//128` is the same for a warpgroup, `tid//32` for a warp, `bid_x` for a block. What was read
    from registers or variables may differ from thread to thread. `known`: the scopes of names.
    """
    return _narrowest([_scope(x, known) for x in values])


def _narrowest(scopes: Iterable[str]) -> str:
    return max(scopes, key=SCOPES.index, default="block")


def _scope(x: object, known: dict[str, str]) -> str:
    if isinstance(x, int):
        return "block"
    if isinstance(x, Compare):
        return _narrowest([_scope(x.a, known), _scope(x.b, known)])
    if isinstance(x, Logic):
        return _narrowest([_scope(term, known) for term in x.terms])
    if isinstance(x, Not):
        return _scope(x.term, known)
    if isinstance(x, Test):
        return "thread"
    return _of_terms(terms_of(x), known)


def _of_terms(p: Polynomial, known: dict[str, str]) -> str:
    return _narrowest([_of_atom(atom, known) for m in p for atom in m])


def _of_atom(atom: Atom, known: dict[str, str]) -> str:
    if isinstance(atom, Symbol):
        return known.get(atom.name, "block")
    if isinstance(atom, FloorDiv):
        n = value(atom.divisor)
        if n is not None and _is_thread(atom.numerator):
            return "warpgroup" if n % 128 == 0 else "warp" if n % 32 == 0 else "thread"
        return _narrowest([_of_terms(p, known) for p in (atom.numerator, atom.divisor)])
    assert isinstance(atom, Min)
    return _narrowest([_of_terms(option, known) for option in atom.options])


def _is_thread(p: Polynomial) -> bool:
    """Tell whether p is the thread index itself."""
    return all(
        len(m) == 1 and isinstance(m[0], Symbol) and m[0].name == "tid" and c == 1
        for m, c in p.items()
    )
