"""Packing: scenes as short text for a page: integers by their differences, texts by the numbers in
them, and all of it compressed. `page.js` unpacks them.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FEWEST = 8  # entries of a list that is packed
NUMBER = re.compile(r"0|[1-9]\d{0,14}")


def packed(x: Any) -> str:
    """Return JSON as base64 of gzip.

    Law: `unpacked` of `page.js` gives x again.

    >>> len(packed(list(range(10_000)))) < 200
    True
    """
    text = json.dumps(shortened(x), separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def shortened(x: Any) -> Any:
    """Return JSON in which long lists are the differences of their integers, {"+": [...]}, or the
    text that their texts share and the numbers in it, {"#": text, "of": [numbers, ...]}.

    >>> shortened({"offset": [3, 4, 6, 8, 10, 12, 14, 16], "rows": 8})
    {'offset': {'+': [3, 1, 2, 2, 2, 2, 2, 2]}, 'rows': 8}
    >>> shortened([f"T{t}" for t in range(8)])
    {'#': 'T#', 'of': [{'+': [0, 1, 1, 1, 1, 1, 1, 1]}]}
    """
    if isinstance(x, dict):
        return {name: shortened(each) for name, each in x.items()}
    if not isinstance(x, list):
        return x
    kinds = {each.__class__ for each in x} if len(x) >= FEWEST else set()
    if kinds == {int}:
        return {"+": [b - a for a, b in zip([0, *x[:-1]], x, strict=True)]}
    forms = {NUMBER.sub("#", each) for each in x} if kinds == {str} else set()
    if len(forms) == 1 and not any("#" in each for each in x):
        numbers = zip(*[map(int, NUMBER.findall(each)) for each in x], strict=True)
        return {"#": forms.pop(), "of": [shortened(list(column)) for column in numbers]}
    return [shortened(each) for each in x]
