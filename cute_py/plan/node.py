"""`Node`: what plans are made of, and the facts that a record states with its fields."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Node:
    """Base of the records of a plan, so that a walk knows them from plain values."""

    blocks: ClassVar[tuple[str, ...]] = ()
    """The fields that hold blocks of ops."""


# The metadata of a field: what a walk makes of the registers and numbers in it. A plain field is
# read, and may hold accesses, conditions and integers.
_ROLE = "role"
WRITTEN = {_ROLE: "written"}  # registers that an op writes and does not read
UPDATED = {_ROLE: "updated"}  # registers that it reads and writes: an accumulator
ELEMENTS = {_ROLE: "elements"}  # values for registers: numbers there are no integers of the plan
FIXED = {_ROLE: "fixed"}  # numbers, or tables of them, with no expression inside
STORED = {_ROLE: "stored"}  # memory that it writes: an access, or the name of an array
LOADED = {_ROLE: "loaded"}  # the name of an array that it reads
NEARED = {_ROLE: "neared"}  # an access whose values it neither reads nor writes
MBARRIER = {_ROLE: "mbarrier"}  # an access to an mbarrier
NAMED = {_ROLE: "named"}  # the name of an integer that it gives a value


def names_of(x: Node) -> tuple[str, ...]:
    """Return the names of the fields of a record."""
    kind: Any = type(x)
    return _names(kind)


def roles_of(x: Node) -> tuple[tuple[str, str], ...]:
    """Return (name, role) of each field that is neither a block nor fixed; role: what its metadata
    says, "" for what is read.
    """
    kind: Any = type(x)
    return _roles(kind)


@cache
def _names(kind: Any) -> tuple[str, ...]:  # a class
    return tuple([f.name for f in fields(kind)])


@cache
def _roles(kind: Any) -> tuple[tuple[str, str], ...]:  # a class
    found = [(f.name, f.metadata.get(_ROLE, "")) for f in fields(kind) if f.name != "line"]
    return tuple([(n, role) for n, role in found if role != "fixed" and n not in kind.blocks])
