"""`Value`: what objects of this package are that can be a part of a key."""

from __future__ import annotations


class Value:
    """Base of classes whose objects never change, to their leaves, and compare by content.

    A kernel's fingerprint takes such an object as it is, and a key of the cache writes its repr.
    """

    __slots__ = ()
