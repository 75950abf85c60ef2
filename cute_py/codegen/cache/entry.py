r"""A file of the cache: named parts, and a hash that detects damage.

    magic   "cute_py kernel 1\n"      the format and its version
    hash    32 bytes                 SHA-256 of everything after it
    length  8 bytes, big endian      length of the head
    head    JSON                     {"key": ..., "parts": [[name, kind, length], ...]}
    parts   the bytes of each, in the head's order

A part is text, bytes, or named numbers (JSON). Reading a file never runs or unpickles anything.
`unpack` returns None for anything that `pack` did not write under the same key.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TypeAlias

MAGIC = b"cute_py kernel 1\n"
HASH, LENGTH = 32, 8  # bytes

Part: TypeAlias = str | bytes | dict[str, int]

_KINDS: dict[type, str] = {str: "text", bytes: "bytes", dict: "numbers"}


def pack(key: str, parts: dict[str, Part]) -> bytes:
    r"""Return the bytes of an entry.

    >>> unpack("k", pack("k", {"ptx": "ret;", "cubin": b"\x7fELF"}))
    {'ptx': 'ret;', 'cubin': b'\x7fELF'}
    """
    encoded = {name: _encoded(part) for name, part in parts.items()}
    sizes = [[name, _kind(parts[name]), len(data)] for name, data in encoded.items()]
    head = json.dumps({"key": key, "parts": sizes}).encode()
    body = b"".join([len(head).to_bytes(LENGTH, "big"), head, *encoded.values()])
    return MAGIC + sha256(body).digest() + body


def _kind(part: Part) -> str:
    """Return how a part is stored; a subclass of `str` is text, too."""
    return next(name for kind, name in _KINDS.items() if isinstance(part, kind))


def _encoded(part: Part) -> bytes:
    if isinstance(part, bytes):
        return part
    text = part if isinstance(part, str) else json.dumps(part)
    return text.encode("utf-8", "surrogatepass")


def unpack(key: str, data: bytes) -> dict[str, Part] | None:
    """Return the parts of the entry of a key; None if the data is anything else."""
    start = len(MAGIC) + HASH
    body = data[start:]
    if data[:start] != MAGIC + sha256(body).digest():
        return None
    try:
        return _parts(key, body)
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def _parts(key: str, body: bytes) -> dict[str, Part]:
    """Return the parts. Raises ValueError, TypeError or LookupError for any other data."""
    begin = LENGTH + int.from_bytes(body[:LENGTH], "big")
    head = json.loads(body[LENGTH:begin])
    if head["key"] != key:
        raise ValueError(key)
    found: dict[str, Part] = {}
    for name, kind, size in head["parts"]:
        if size < 0:
            raise ValueError(size)
        found[name] = _decoded(kind, body[begin : begin + size])
        begin += size
    if begin != len(body):
        raise ValueError(begin)
    return found


def _decoded(kind: str, data: bytes) -> Part:
    if kind == "bytes":
        return data
    text = data.decode("utf-8", "surrogatepass")
    if kind == "text":
        return text
    if kind != "numbers":
        raise ValueError(kind)
    numbers: dict[str, int] = json.loads(text)
    if numbers.__class__ is not dict or any(x.__class__ is not int for x in numbers.values()):
        raise ValueError(kind)
    return numbers
