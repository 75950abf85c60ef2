"""Repairs: expressions close to a refused one that have a value.

A refusal may name its repairs (`facts["expressions"]`). More are found by small edits of the text:
a stride that fits the shape, another integer (first those that the fix names), an argument more or
less. Each is evaluated, so that no repair is offered that is refused itself.
"""

from __future__ import annotations

from itertools import islice
from math import log2
from re import findall
from time import monotonic

from cute_py.errors import CuteError
from cute_py.explore.operands import CLOSING, OPENING, calls_of, tokens_of, value_of
from cute_py.layout.notation.parse_tokens import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from cute_py.explore.operands import Call
    from cute_py.layout.notation.parse_tokens import Token

LONGEST = 1 << 9  # characters of a text that is edited
MOST = 5  # repairs by edits
TRIED = 160
SECOND = 8  # refused edits that are edited once more, where no single edit has a value
SECONDS = 0.4  # that trying may take, of the 2 that an answer has
PER_INTEGER = 12  # edits
LARGEST = 1 << 12  # of an integer that an edit puts in, or twice the integer before

# what stands before a minus sign that is not a difference
_BEFORE_SIGN = frozenset((*OPENING, ",", ":", "end"))


def repairs(text: str, error: CuteError) -> list[str]:
    """Return expressions that have a value, close to a text that was refused.

    >>> try:
    ...     value_of("complement((4,2):(1,2), 24)")
    ... except CuteError as error:
    ...     repairs("complement((4,2):(1,2), 24)", error)[:2]
    ['complement((4,2):(1,4), 24)', 'complement((4,2):(2,1), 24)']
    """
    trial = _Trial(text)
    named: Any = error.facts.get("expressions", ())
    if len(text) > LONGEST:
        trial.work(named, len(named))
    elif error.code == "expression-name":
        start: Any = error.facts["position"]
        if text[:start].endswith("sym("):  # of a symbol that is to be declared
            end = start + len(str(error.facts["name"]))
            trial.work([_spliced(text, start, end, f"'{text[start:end]}'")], 1)
        for each in named:  # the closest name first, even if its call is to be repaired, too
            if not trial.work([each], 1):
                trial.again(trial.refused[-1:])
    elif not trial.work(named, len(named)):
        trial.work(_edits(text, error), TRIED)
    if not trial.found:
        others = [pair for pair in trial.refused[SECOND:] if pair[1].code != error.code]
        trial.again([*trial.refused[:SECOND], *others[:SECOND]])
    return trial.found


class _Trial:
    """What was tried: the texts that have a value, and those with another refusal."""

    def __init__(self, text: str) -> None:
        self.found: list[str] = []
        self.refused: list[tuple[str, CuteError]] = []
        self.seen = {text}
        self.end = monotonic() + SECONDS

    def work(self, texts: Iterable[str], most: int) -> bool:
        """Try texts until there are MOST repairs; return whether there are more than before."""
        count = len(self.found)
        for text in islice(texts, most):
            if len(self.found) >= MOST or monotonic() > self.end:
                break
            if text not in self.seen:
                self.seen.add(text)
                self.evaluate(text)
        return len(self.found) > count

    def again(self, refused: list[tuple[str, CuteError]]) -> None:
        """Edit texts that were refused."""
        for text, error in refused:
            self.work(_edits(text, error), TRIED // SECOND)

    def evaluate(self, text: str) -> None:
        """Keep a text that has a value, and the refusal of one that has not."""
        try:
            value_of(text)
        except CuteError as error:
            self.refused.append((text, error))
        except (ImportError, RecursionError, MemoryError, OverflowError):
            return
        else:
            self.found.append(text)


def _edits(text: str, error: CuteError) -> Iterator[str]:
    """Yield texts with one edit, the most likely first."""
    try:
        tokens = tokens_of(text)
    except CuteError:  # of a number with too many digits
        return
    calls = [*calls_of(text, tokens)]
    for call in calls if error.code in _RULES else ():
        yield from _RULES[error.code](text, error, call)
    if error.code.startswith("text-") or error.code == "expression-limit":
        return
    yield from _strides(text, tokens)
    yield from _integers(text, tokens, str(error))
    for _name, arguments, _ in calls:
        if len(arguments) > 1:  # without the last argument
            yield text[: arguments[-2][1]] + text[arguments[-1][1] :]
        for begin, end in arguments:
            argument = text[begin:end].strip()
            yield _spliced(text, begin, end, f"Layout({argument})")
            yield _spliced(text, begin, end, f"({argument},)")


def _spliced(text: str, start: int, end: int, part: str) -> str:
    return text[:start] + part + text[end:]


# -- strides


def _strides(text: str, tokens: list[Token]) -> Iterator[str]:
    """Yield the text with a compact stride in place of each stride, by columns and by rows."""
    from cute_py.layout.coords import compact_col_major, compact_row_major
    from cute_py.layout.tuples import show

    for k, sign in enumerate(tokens):
        if sign.kind != ":" or not 0 < k < len(tokens) - 1:
            continue
        first, last = _operand(tokens, k - 1, -1), _operand(tokens, k + 1, 1)
        try:
            shape = value_of(text[tokens[first].start : sign.start])
            strides = [show(make(shape)) for make in (compact_col_major, compact_row_major)]
        except CuteError:
            continue
        for stride in strides:
            yield _spliced(text, sign.end, tokens[last].end, stride)


def _operand(tokens: list[Token], k: int, step: int) -> int:
    """Return the other end of the operand that begins at token k: its bracket, or its sign."""
    depth = 0
    while 0 <= k < len(tokens):
        depth += (tokens[k].kind in OPENING) - (tokens[k].kind in CLOSING)
        after = tokens[k + 1].kind if k + 1 < len(tokens) else ""
        if not depth and not (step > 0 and (tokens[k].kind in "-@" or after == "@")):
            return k
        k += step
    return k - step


# -- integers


def _integers(text: str, tokens: list[Token], said: str) -> Iterator[str]:
    """Yield the text with another integer in place of one, the least changes first."""
    fix = _numbers(said.partition("; fix: ")[2])
    near = fix | _numbers(said) | _numbers(text)
    found = []
    for k, token in enumerate(tokens):
        if token.kind != "number":
            continue
        signs = ["end", "end", *[each.kind for each in tokens[:k]]][-2:]
        negative = signs[1] == "-" and signs[0] in _BEFORE_SIGN
        if negative:
            found.append((0.0, k, _spliced(text, tokens[k - 1].start, token.end, token.text)))
        n = number(token)
        for m in _candidates(n, near) - ({0} if negative else set()):
            cost = abs(log2(2 * m + 1) - log2(2 * n + 1)) + (0 if m in fix else 2)
            found.append((cost, k, _spliced(text, token.start, token.end, str(m))))
    counts = dict.fromkeys(range(len(tokens)), 0)
    for _, k, each in sorted(found):
        counts[k] += 1
        if counts[k] <= PER_INTEGER:
            yield each


def _numbers(text: str) -> set[int]:
    return {int(digits) for digits in findall(r"(?<![\w.])\d{1,7}(?![\w.])", text)}


def _candidates(n: int, near: set[int]) -> set[int]:
    """Return integers to try in place of n: near it, a power of two, or multiples of others."""
    found = {1, n + 1, max(0, n - 1), 1 << n.bit_length(), 1 << max(0, n.bit_length() - 1), *near}
    found |= {-(-n // m) * m for m in near if m} | {n // m * m for m in near if 0 < m <= n}
    return {m for m in found if m <= max(LARGEST, 2 * n)} - {n}


# -- calls


def _other_arguments(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text without the last arguments of a call, with one more, or with an example's."""
    from cute_py.explore.controls import PRESETS

    name, arguments, end = call
    for k in range(len(arguments) - 1, 0, -1):
        yield text[: arguments[k - 1][1]] + text[end:]
    for more in ("2", "(2,2)", "4:1") if arguments else ():
        yield f"{text[: arguments[-1][1]]},{more}{text[end:]}"
    called = text[name:end].partition("(")[0]
    for state in (state for presets in PRESETS.values() for state in presets.values()):
        if state["e"].startswith(f"{called}("):
            yield _spliced(text, name, end + 1, state["e"])


def _with_values(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text with a value layout of as many values as the copy atom moves."""
    name, arguments, _ = call
    given = [place for place in arguments if "=" not in text[slice(*place)]]
    if text[name:].startswith("copy") and len(given) > 1:
        rest = text[given[:3][-1][1] :]
        for values in (f"(1,{error.facts['needed']})", f"({error.facts['needed']},1)"):
            yield f"{text[: given[1][1]]},{values}{rest}"


def _with_tile(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text with a tile that has all the elements of the thread-value layout."""
    name, arguments, _ = call
    if text[name:].startswith("tv") and len(arguments) == 2:
        shown = text[slice(*arguments[0])]
        try:
            yield _spliced(text, *arguments[1], str(value_of(f"cosize({shown})")))
        except CuteError:
            return


def _in_two_modes(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text with a mode of threads and one of values."""
    name, arguments, end = call
    if text[name:].startswith("tv") and arguments:
        shown = text[slice(*arguments[0])].strip()
        for made in (f"make_layout({shown},1:0)", f"group_modes({shown},1,rank({shown}))"):
            yield _spliced(text, *arguments[0], made)
            yield f"{text[: arguments[0][0]]}{made},cosize({shown}){text[end:]}"


def _reversed(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text with an order of two or three modes."""
    for place in call[1][-1:]:
        yield _spliced(text, *place, "(1,0)")
        yield _spliced(text, *place, "(2,1,0)")


def _with_bits(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text with the width of an access."""
    yield f"{text[: call[2]]},bits=32{text[call[2] :]}"


def _twice(text: str, error: CuteError, call: Call) -> Iterator[str]:
    """Yield the text with each argument twice, as rows and columns."""
    for place in call[1]:
        argument = text[slice(*place)].strip()
        yield _spliced(text, *place, f"({argument},{argument})")


_RULES: dict[str, Any] = {
    "text-arguments": _other_arguments,
    "mma-atom": _other_arguments,
    "copy-op": _other_arguments,
    "access-layout": _other_arguments,
    "access-subject": _other_arguments,
    "classical-shape": _twice,
    "copy-values": _with_values,
    "permutation": _reversed,
    "viz-tile": _with_tile,
    "viz-tv": _in_two_modes,
    "access-bits": _with_bits,
}
