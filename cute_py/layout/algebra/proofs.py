"""Questions about layouts with the reasons for the answers, and the formula of a layout.

One body decides each question and can give the reason: yes, no with a counterexample, or unknown
with an assumption that would settle it. "Yes" comes from the algebra: leaves of coalesced forms
that are equal, or strides that continue each other. The proof about symbols also compares numbers
that satisfy the declarations. All-int layouts are decided.
"""

from __future__ import annotations

from itertools import islice, product

from cute_py.errors import LayoutError, refusal
from cute_py.integers import ints
from cute_py.integers.symbol_proofs import Proof, prove_divides_ints, prove_equal_ints
from cute_py.integers.symbols import subs, sym, symbols_in, to_sympy
from cute_py.layout import AbstractF2, tuples
from cute_py.layout.algebra.coalesce import coalesced
from cute_py.layout.algebra.complement import components
from cute_py.layout.basis import ScaledBasis, sum_steps
from cute_py.layout.layout import BASIS, Layout
from cute_py.layout.offsets import QUESTIONED, in_arrays, values_at_all
from cute_py.layout.properties import below_one_map, is_surjective, require_mapped, wanted_count
from cute_py.layout.queries import coprofile, inner_of, leaf_path, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from cute_py.layout.algebra.complement import Moving
    from cute_py.layout.types import Alike, AnyLayout, IntTuple, Leaf, Same

    Verdict = tuple[bool | None, Callable[[], Proof]]  # for every value of the symbols; and why

TRIED_VALUES = 6  # values tried of each symbol when looking for a counterexample
TRIED_ASSIGNMENTS = 512


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

    if layout.__class__ is not Layout:
        from cute_py.layout.composed import require_composed

        x = require_composed(layout, "formula")
        return sympy.Function(str(x.outer))(to_sympy(x.offset) + formula(x.inner))
    coordinates = [sym(_name(layout, k), min=0) for k in range(len(layout._s))]
    offset = sum_steps(list(zip(coordinates, layout._d, strict=True)))
    return tuples.transform_leaf(to_sympy, offset)


def _name(layout: Layout, leaf: int) -> str:
    return "_".join(["i", *map(str, leaf_path(layout.shape, leaf))])


# -- questions: the answer, and the proof, which is made when it is asked for


def equivalent(a: AnyLayout, b: AnyLayout) -> bool:
    """Return whether a and b are the same function of the index: equal sizes, equal offsets.

    Two Layouts are if and only if they coalesce to the same one: the first mode of a coalesced
    layout is the longest linear run from index 0, and the rest is the layout of the starts of the
    following runs, so the function determines every extent and stride, for any size.

    Raises LayoutError if symbols leave the answer unknown (see `prove_equal`), and where 2**21
    offsets do not decide.

    >>> equivalent(Layout((4, 8)), Layout(32)), equivalent(Layout((4, 8), (8, 1)), Layout(32))
    (True, False)
    """
    return _decided(_equality(a, b, "equivalent"), "equivalent", a, b)


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
    if tuples.is_shaped(a) and tuples.is_shaped(b):
        return _equality(a, b, "prove_equal")[1]()
    return prove_equal_ints(a, b)


def _decided(verdict: Verdict, operation: str, *layouts: AnyLayout) -> bool:
    """Return the answer of a verdict; refuse the unknown one."""
    if verdict[0] is None:
        shown = " and ".join(map(str, layouts))
        raise refusal("tools-symbols", operation=operation, layout=shown)
    return verdict[0]


def _equality(a: AnyLayout, b: AnyLayout, operation: str) -> Verdict:
    """Decide whether a and b are the same function of the index."""
    require_mapped(a, operation)
    require_mapped(b, operation)
    a, b = below_one_map(a, b)
    if a.__class__ is not Layout or b.__class__ is not Layout:
        return _equal_values(a, b, operation)
    if ints.same(a.size(), b.size()) is False:
        return False, lambda: prove_equal_ints(a.size(), b.size())
    if BASIS in (a._kind, b._kind) and coprofile(a) != coprofile(b):
        return False, lambda: Proof(False, "they yield values of different profiles", {})
    pairs = _facing_leaves(a, b)
    if pairs and all(ints.same(x, y) for x, y in pairs):
        return True, lambda: Proof(True, "the coalesced forms are equal leaf by leaf")
    if not symbols_of_layout(a) and not symbols_of_layout(b):
        return False, lambda: _first_difference(a, b)
    return None, lambda: _equal_symbols(a, b, pairs)


def _equal_symbols(a: Layout, b: Layout, pairs: list[tuple[Leaf, Leaf]]) -> Proof:
    sizes = prove_equal_ints(a.size(), b.size())
    counterexample = _search([a, b], _first_difference)
    if counterexample is not None:
        return counterexample
    leaves = [prove_equal_ints(x, y) for x, y in pairs]
    return _all_of(
        [sizes, *(leaves or [_unknown(a, b)])], "the coalesced forms are equal leaf by leaf"
    )


def _first_difference(a: Layout, b: Layout) -> Proof:
    """Compare layouts of numbers by the coalesced forms, which are unique: they part at the first
    mode that differs.
    """
    if a.size() != b.size():
        return Proof(False, f"the sizes are {a.size()} and {b.size()}", {})
    prefix = 1
    modes = [zip(*coalesced(x), strict=True) for x in (a, b)]
    for (s, d), (t, e) in zip(*modes, strict=False):
        if s != t or not ints.same(d, e):
            index = prefix * min(s, t) if ints.same(d, e) else prefix
            reason = f"index={index} gives {tuples.show(a(index))} and {tuples.show(b(index))}"
            return Proof(False, reason, {"index": index})
        prefix *= s
    return Proof(True, "the coalesced forms are equal leaf by leaf")


def _equal_values(a: AnyLayout, b: AnyLayout, operation: str) -> Verdict:
    """Compare layouts that are not both plain by their values."""
    if a == b:
        return True, lambda: Proof(True, "they are the same")
    if a.size() != b.size():
        return False, lambda: Proof(False, f"the sizes are {a.size()} and {b.size()}", {})
    if isinstance(a, AbstractF2) and isinstance(b, AbstractF2):
        same = bool(a.bases == b.bases and a.offset == b.offset)
        return same, lambda: Proof(True, "all bits have one image") if same else _compared(a, b)
    one, other = [values_at_all(x, operation) for x in (a, b)]
    if one.__class__ is not list or other.__class__ is not list:
        one, other = in_arrays(one, other)
        same = one.shape == other.shape and bool((one == other).all())
    else:
        same = one == other
    return same, lambda: Proof(True, "all values are equal") if same else _compared(a, b)


def _compared(a: AnyLayout, b: AnyLayout) -> Proof:
    tried = [0, *[1 << k for k in range(a.size().bit_length() - 1)]]  # where F2 layouts depart
    index = next(i for i in (*tried, *range(a.size())) if a(i) != b(i))
    reason = f"index={index} gives {tuples.show(a(index))} and {tuples.show(b(index))}"
    return Proof(False, reason, {"index": index})


def _equal_tuples(a: IntTuple, b: IntTuple) -> Proof:
    if not tuples.congruent(a, b):
        return Proof(False, "the profiles differ", {})
    pairs = zip(tuples.leaves(a), tuples.leaves(b), strict=True)
    return _all_of([prove_equal_ints(x, y) for x, y in pairs], "equal leaf by leaf")


def _facing_leaves(a: Layout, b: Layout) -> list[tuple[Leaf, Leaf]]:
    """Return the matching leaves of the coalesced forms; none where these have different numbers of
    modes.
    """
    (s, d), (t, e) = coalesced(a), coalesced(b)
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


def is_bijective(layout: AnyLayout, codomain: int | None = None) -> bool:
    """Return whether the layout reaches each of 0 .. codomain - 1 once, and nothing else.

    Args:
        layout: a Layout, ComposedLayout or F2Layout.
        codomain: how many offsets (elements); by default the cosize, as in `is_surjective`. A
            layout that yields coordinates must reach every coordinate of its coshape.

    Raises LayoutError if symbols leave the answer unknown (see `prove_bijective`), and where 2**21
    offsets do not decide.

    >>> is_bijective(Layout((4, 8), (8, 1))), is_bijective(Layout((4, 8), (9, 1)))
    (True, False)
    """
    if codomain is not None or layout.__class__ is not Layout:
        count = wanted_count(layout, codomain, "is_bijective")
        if layout.size() != count:
            return False
    return _decided(_bijectivity(layout, "is_bijective"), "is_bijective", layout)


def is_permutation(layout: AnyLayout) -> bool:
    """Return whether the layout only reorders the offsets 0 .. size - 1.

    For a layout that yields coordinates this is `is_bijective`. Raises what `is_bijective` raises.

    >>> is_permutation(Layout((4, 8), (8, 1))), is_permutation(Layout((4, 8), (0, 1)))
    (True, False)
    """
    return _decided(_bijectivity(layout, "is_permutation"), "is_permutation", layout)


def prove_bijective(layout: AnyLayout) -> Proof:
    """Prove that the offsets of `layout` are 0 to size - 1, each once; of a layout that yields
    coordinates, that these are all coordinates of its coshape.

    >>> from cute_py.integers.symbols import sym
    >>> M, N = sym("M"), sym("N")
    >>> print(prove_bijective(Layout((M, N), (N, 1))))
    yes: by rising stride, each mode starts where the one before it ends
    >>> print(prove_bijective(Layout((M, N), (2 * N, 1))))
    no: M=2, N=1: offset 1 is left out
    """
    require_mapped(layout, "prove_bijective")
    try:
        return _bijectivity(layout, "prove_bijective")[1]()
    except LayoutError:
        if layout.__class__ is Layout:
            raise
        words = f"at most {QUESTIONED} elements, all of known size"
        return Proof(None, "a composed layout is decided by its values", None, words)


def _bijectivity(layout: AnyLayout, operation: str) -> Verdict:
    """Decide whether the offsets are 0 to size - 1, each once."""
    if layout.__class__ is not Layout:
        require_mapped(layout, operation)
        # as many offsets as indices, all of which are reached: once each
        onto = is_surjective(layout, layout.size())
        return onto, lambda: _by_values(layout, onto)
    parts = components(layout, operation, coalesced(layout), zeros=True)
    ends = {path: _chain(modes, ints.same) for path, modes in parts.items()}
    stop = next((path for path, (modes, _) in ends.items() if modes), None)
    if stop is None:
        words = "by rising stride, each mode starts where the one before it ends"
        return True, lambda: Proof(True, words)
    if not symbols_of_layout(layout):
        return False, lambda: _gap(stop, *ends[stop])
    return None, lambda: _proved_chains(layout, parts)


def _chain(modes: Moving, equal: Callable[[Leaf, Leaf], bool | None]) -> tuple[Moving, Leaf]:
    """Return the modes that are left when those that fill 0, 1, 2, ... in turn are taken away, and
    how many offsets these fill.
    """
    left, filled = list(modes), 1  # type: tuple[Moving, Any]
    if all(mode[0].__class__ is int is mode[1].__class__ for mode in modes):
        place, used = {mode[1]: mode for mode in reversed(modes)}, set()  # the first of each stride
        while (next_one := place.get(filled)) is not None:
            used.add(next_one)
            filled *= next_one[0]
        return [mode for mode in modes if mode not in used], filled
    while (found := next((mode for mode in left if equal(mode[1], filled)), None)) is not None:
        left.remove(found)
        filled = ints.mul(filled, found[0])
    return left, filled


def _gap(path: tuple[int, ...], modes: Moving, filled: int) -> Proof:
    """Refute numbers: the modes so far fill [0, filled), and no other mode goes on from there."""
    least = min(d for _, d, _ in modes)
    step = min(least, filled)
    shown = ScaledBasis(step, path) if path else step
    if least < 0:
        return Proof(False, f"stride {shown} leads below offset 0", {"offset": least})
    words = "is reached twice" if least < filled else "is left out"
    return Proof(False, f"offset {shown} {words}", {"offset": step})


def _proved_chains(layout: Layout, parts: dict[tuple[int, ...], Moving]) -> Proof:
    ends = [_chain(modes, lambda x, y: prove_equal_ints(x, y).answer) for modes in parts.values()]
    stop = next(((modes, filled) for modes, filled in ends if modes), None)
    if stop is None:
        return Proof(True, "by rising stride, each mode starts where the one before it ends")
    refuted = _search([layout], prove_bijective)
    if refuted is not None:
        return refuted
    modes, filled = stop
    for _, d, _ in modes:
        proof = prove_equal_ints(d, filled)
        if proof.answer is None:
            return proof
    words = f"a mode of stride {filled} in {layout}"
    return Proof(None, "no stride goes on, and no counterexample was found", None, words)


def _by_values(layout: AnyLayout, onto: bool) -> Proof:
    """Return the proof for a layout that is not plain, from its answer."""
    if onto:
        return Proof(True, "each of the finitely many offsets is reached once")
    if layout.size() > QUESTIONED:
        return Proof(False, "an offset below the size is left out", {})
    image = {layout(index) for index in range(layout.size())}
    hole = next(offset for offset in range(len(image) + 1) if offset not in image)
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


def substitute(x: Same, values: Alike) -> Same:
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


def _search(layouts: list[AnyLayout], test: Callable[..., Proof]) -> Proof | None:
    """Return the first refutation by `test` of the layouts with numbers for their symbols."""
    symbols: dict[str, Any] = {str(s): s for x in layouts for s in symbols_of_layout(x)}
    for values in islice(_assignments(list(symbols.values())), TRIED_ASSIGNMENTS):
        found = test(*[substitute(x, values) if symbols else x for x in layouts])
        if found.answer is False:
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
