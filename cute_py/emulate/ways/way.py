"""`Way`: where one element of an array goes in a run, and what it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cute_py.records import Shown

if TYPE_CHECKING:
    from cute_py.emulate.ways.follow import Trail

class Way(Shown):
    def __init__(self, trail, element, forwards, backwards, becomes, made_of):
        self.trail, self.element = trail, element
        self.forwards, self.backwards, self.becomes, self.made_of = forwards, backwards, becomes, made_of
    def of(self, element):
        return self.trail.way(element)
