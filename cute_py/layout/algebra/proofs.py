"""Proofs about layouts with symbols, and the formula of a layout.

Every question is answered yes, no with a counterexample, or unknown with an assumption that would
settle it. "Yes" comes from the algebra: leaves of coalesced forms that are proved equal, or strides
proved to continue each other. "No" comes from numbers that satisfy the declarations and contradict
the claim. All-int layouts are decided.
"""

from __future__ import annotations

from itertools import islice, product

from cute_py.errors import UndecidedError, refusal
from cute_py.integers import ints
from cute_py.integers.symbol_proofs import Proof, prove_divides_ints, prove_equal_ints
from cute_py.integers.symbols import subs, sym, symbols_in
from cute_py.layout import tuples
from cute_py.layout.algebra.coalesce import coalesced
from cute_py.layout.basis import ScaledBasis, sum_steps
from cute_py.layout.layout import Layout
from cute_py.layout.queries import inner_of, leaf_path, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf

TRIED_VALUES = 6  # values tried of each symbol when looking for a counterexample
TRIED_ASSIGNMENTS = 512
TRIED_INDICES = 4096


def formula(layout: AnyLayout) -> Any:  # SymPy ships no types
    """Return the offset of `layout` as a SymPy expression of its coordinates, which notebooks show
    as LaTeX.

    The coordinate of a rank-1 integer shape is `i`; leaf (1, 0) of a tuple has the coordinate
    `i_1_0`. A layout with coordinate strides gives a tuple of expressions; a composed layout
    applies its outer map as an undefined function.

    >>> formula(Layout((4, (2, 3)), (6, (1, 2))))
    6*i_0 + i_1_0 + 2*i_1_1
    """
    import sympy

    from cute_py.integers.sympy_bridge import to_sympy

    if layout.__class__ is not Layout:
        from cute_py.layout.composed import require_composed

        x = require_composed(layout, "formula")
        return sympy.Function(str(x.outer))(to_sympy(x.offset) + formula(x.inner))
    coordinates = [sym(_name(layout, k), min=0) for k in range(len(layout._s))]
    offset = sum_steps(list(zip(coordinates, layout._d, strict=True)))
    return tuples.transform_leaf(to_sympy, offset)


def _name(layout: Layout, leaf: int) -> str:
    return "_".join(["i", *map(str, leaf_path(layout.shape, leaf))])


# -- the three questions


def prove_equal(a: IntTuple, b: IntTuple) -> Proof:
    """Prove that two integers, int tuples or layouts are equal; layouts as functions of the index,
    on equal sizes.

    >>> from cute_py.integers.symbols import sym
    >>> M = sym("M", multiple_of=8)
    >>> print(prove_equal(Layout((8, M // 8)), Layout(M, 1)))
    yes: the coalesced forms are equal leaf by leaf
    >>> print(prove_equal(Layout((4, M)), Layout((4, M), (M, 1))))
    no: M=8: index=1 gives 1 and 8
    """
    if a.__class__ is tuple or b.__class__ is tuple:
        return _equal_tuples(a, b)
    if a.__class__ is not Layout or b.__class__ is not Layout:
        return prove_equal_ints(a, b)
    sizes = prove_equal_ints(a.size(), b.size())
    if sizes.answer is False:
        return sizes
    if not symbols_of_layout(a) and not symbols_of_layout(b):
        return _equal_numbers(a, b)
    counterexample = _search([a, b], _first_difference)
    if counterexample is not None:
        return counterexample
    leaves = [prove_equal_ints(x, y) for x, y in _facing_leaves(a, b)]
    parts = [sizes, *leaves] if leaves else [sizes, _unknown(a, b)]
    return _all_of(parts, "the coalesced forms are equal leaf by leaf")


def _equal_numbers(a: Layout, b: Layout) -> Proof:
    """Decide by the coalesced forms, which are unique: they part at the first mode that differs."""
    prefix = 1
    for (s, d), (t, e) in zip(
        zip(*coalesced(a), strict=True), zip(*coalesced(b), strict=True), strict=False
    ):
        if (s, d) != (t, e):
            index = prefix if d != e else prefix * min(s, t)
            reason = f"index={index} gives {tuples.show(a(index))} and {tuples.show(b(index))}"
            return Proof(False, reason, {"index": index})
        prefix *= s
    return Proof(True, "the coalesced forms are equal leaf by leaf")


def _equal_tuples(a: IntTuple, b: IntTuple) -> Proof:
    if not tuples.congruent(a, b):
        return Proof(False, "the profiles differ", {})
    pairs = zip(tuples.leaves(a), tuples.leaves(b), strict=True)
    return _all_of([prove_equal_ints(x, y) for x, y in pairs], "equal leaf by leaf")


def _facing_leaves(a: Layout, b: Layout) -> list[tuple[Leaf, Leaf]]:
    """Return the matching leaves of the coalesced forms; none where these have different numbers of
    modes.
    """
    try:
        (s, d), (t, e) = coalesced(a), coalesced(b)
    except UndecidedError:
        return []
    return list(zip([*s, *d], [*t, *e], strict=True)) if len(s) == len(t) else []


def _unknown(a: AnyLayout, b: AnyLayout) -> Proof:
    return Proof(
        None,
        "the coalesced forms have different numbers of modes, and no counterexample was found",
        None,
        f"a shape that both {a} and {b} refine",
    )


def prove_divides(a: IntTuple, b: IntTuple) -> Proof:
    """Prove that a divides b: integers; shapes mode by mode; layouts by their sizes.

    >>> from cute_py.integers.symbols import sym
    >>> M = sym("M", multiple_of=8)
    >>> print(prove_divides((4, 2), (M, 6)))
    yes: every mode divides
    >>> print(prove_divides(16, M))
    no: M=8 gives 16 and 8
    """
    a, b = tuples.shape_of(a), tuples.shape_of(b)
    if a.__class__ is tuple and b.__class__ is tuple:
        if len(a) > len(b):
            return Proof(False, "the tiler has more modes than the shape", {})
        parts = [prove_divides(x, y) for x, y in zip(a, b, strict=False)]
        return _all_of(parts, "every mode divides")
    return prove_divides_ints(size(a), size(b))


def prove_bijective(layout: AnyLayout) -> Proof:
    """Prove that the offsets of `layout` are 0 to size - 1, each once.

    >>> from cute_py.integers.symbols import sym
    >>> M, N = sym("M"), sym("N")
    >>> print(prove_bijective(Layout((M, N), (N, 1))))
    yes: by rising stride, each mode starts where the one before it ends
    >>> print(prove_bijective(Layout((M, N), (2 * N, 1))))
    no: M=2, N=1: offset 1 is left out
    """
    if layout.__class__ is not Layout:
        return _tried(layout)
    modes = [mode for mode in zip(*coalesced(layout), strict=True) if not ints.is_one(mode[0])]
    filled: Any = 1
    while modes:
        proofs = [prove_equal_ints(_offset_step(layout, d), filled) for _, d in modes]
        found = next((k for k, proof in enumerate(proofs) if proof.answer), None)
        if found is None:
            return _no_chain(layout, modes, filled, proofs)
        filled = ints.mul(filled, modes.pop(found)[0])
    return Proof(True, "by rising stride, each mode starts where the one before it ends")


def _offset_step(layout: Layout, step: Leaf) -> Leaf:
    if step.__class__ is ScaledBasis:
        raise refusal("coordinate-strides", operation="prove_bijective", layout=layout, stride=step)
    return step


def _no_chain(
    layout: Layout, modes: list[tuple[Leaf, Leaf]], filled: Leaf, proofs: list[Proof]
) -> Proof:
    """Refute: the modes so far fill [0, filled), and no other mode continues from there."""
    if not symbols_of_layout(layout):
        least = min(d for _, d in modes)
        if least < 0:
            return Proof(False, f"stride {least} leads below offset 0", {"offset": least})
        if least < filled:
            return Proof(False, f"offset {least} is reached twice", {"offset": least})
        return Proof(False, f"offset {filled} is left out", {"offset": filled})
    refuted = _search([layout], lambda numbers: _refuted(prove_bijective(numbers)))
    if refuted is not None:
        return refuted
    open_ones = [proof for proof in proofs if proof.answer is None]
    if open_ones:
        return open_ones[0]
    words = f"a mode of stride {filled} in {layout}"
    return Proof(None, "no stride goes on, and no counterexample was found", None, words)


def _refuted(proof: Proof) -> Proof | None:
    return proof if proof.answer is False else None


def _tried(layout: AnyLayout) -> Proof:
    """Decide a composed layout by trying every index."""
    from cute_py.layout.composed import require_composed

    count = require_composed(layout, "prove_bijective").size()
    if symbols_of_layout(layout) or count > TRIED_INDICES:
        words = f"at most {TRIED_INDICES} elements, all of known size"
        return Proof(None, "a composed layout is decided by trying every index", None, words)
    image = {layout(index) for index in range(count)}
    hole = next((offset for offset in range(count) if offset not in image), None)
    if hole is None:
        return Proof(True, "each of the finitely many offsets is reached once")
    return Proof(False, f"offset {hole} is left out", {"offset": hole})


def _all_of(proofs: list[Proof], reason: str) -> Proof:
    """Return yes if all are yes; else the first "no", else the first "unknown"."""
    for answer in (False, None):
        for proof in proofs:
            if proof.answer is answer:
                return proof
    return Proof(True, reason)


# -- counterexamples


def symbols_of_layout(layout: AnyLayout) -> list[Any]:
    """Return the distinct symbols in a layout's leaves, sorted by name."""
    inner = inner_of(layout)
    found: dict[str, Any] = {}
    for leaf in (*inner._s, *inner._d):
        for symbol in symbols_in(leaf.value if leaf.__class__ is ScaledBasis else leaf):
            found[str(symbol)] = symbol
    return [found[name] for name in sorted(found)]


def substitute(x: IntTuple, values: Alike) -> Alike:
    """Return a layout, int tuple or integer with symbols replaced by numbers (or expressions).

    Raises LayoutError for a value that the declaration of its symbol does not admit.

    >>> from cute_py.integers.symbols import sym
    >>> print(substitute(Layout((sym("M"), 8)), {"M": 4}))
    (4,8):(1,4)
    """
    if not isinstance(values, dict):
        wanted = "a dict from names of symbols to numbers"
        raise tuples.wrong_argument("substitute", values, wanted, 'write {"M": 4}')
    if x.__class__ is Layout:
        return Layout(substitute(x.shape, values), substitute(x.stride, values))
    if x.__class__ is tuple:
        return tuple([substitute(part, values) for part in x])
    if x.__class__ is ScaledBasis:
        return x.__class__(subs(x.value, values), x.path)
    return subs(x, values)


def _search(layouts: list[AnyLayout], test: Callable[..., Proof | None]) -> Proof | None:
    """Return the first refutation by `test` of the layouts with numbers for their symbols."""
    symbols: dict[str, Any] = {str(s): s for x in layouts for s in symbols_of_layout(x)}
    for values in islice(_assignments(list(symbols.values())), TRIED_ASSIGNMENTS):
        found = test(*[substitute(x, values) if symbols else x for x in layouts])
        if found is not None:
            words = ", ".join(f"{name}={value}" for name, value in values.items())
            counterexample = {**values, **(found.counterexample or {})}
            return Proof(
                False, f"{words}: {found.reason}" if words else found.reason, counterexample
            )
    return None


def _assignments(symbols: list[Any]) -> Iterator[dict[str, int]]:
    names = [str(symbol) for symbol in symbols]
    for values in product(*[_small_values(symbol) for symbol in symbols]):
        yield dict(zip(names, values, strict=True))


def _small_values(symbol: Leaf) -> list[int]:
    """Return the first few values that the declaration of the symbol admits."""
    from cute_py.integers.polynomial import symbols_of
    from cute_py.integers.symbols import terms_of

    (atom,) = symbols_of(terms_of(symbol))
    first = 1 if atom.lo is None else atom.lo
    last = first + TRIED_VALUES - 1
    if atom.hi is not None:
        last = min(last, atom.hi)
    return [atom.multiple_of * k for k in range(first, last + 1)]


def _first_difference(a: Layout, b: Layout) -> Proof | None:
    if a.size() != b.size():
        return Proof(False, f"the sizes are {a.size()} and {b.size()}", {})
    return _refuted(_equal_numbers(a, b))
