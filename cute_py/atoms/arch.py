"""GPU architectures: which there are, in what order, and what a name such as "sm_90a" means.

Source: PTX ISA, "PTX Module Directives: .target". A suffix `a` marks features of that architecture
alone; everything without a suffix also runs on later ones.
"""

from __future__ import annotations

from cute_py.errors import refusal

ARCHS = (
    "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90",
    "sm_100", "sm_103", "sm_110", "sm_120", "sm_121",
)  # fmt: skip


def number(arch: object) -> int:
    """Return the number of an architecture: `sm_90a` is 90.

    Raises:
        LayoutError: not `sm_` and a number, with a suffix `a` or `f` or none.

    >>> number("sm_75"), number("sm_90a")
    (75, 90)
    """
    prefix, digits = (arch[:3], arch[3:].rstrip("af")) if isinstance(arch, str) else ("", "")
    if prefix != "sm_" or not digits.isdecimal():
        raise refusal("arch-name", operation="arch", arch=arch)
    return int(digits)


def since(arch: str) -> tuple[str, ...]:
    """Return `arch` and all later ones; of an architecture with a suffix, that one alone.

    >>> since("sm_110"), since("sm_90a")
    (('sm_110', 'sm_120', 'sm_121'), ('sm_90a',))
    """
    if not arch[-1].isdecimal():
        return (arch,)
    return tuple(each for each in ARCHS if number(each) >= number(arch))


def only(*numbers: int) -> tuple[str, ...]:
    """Return the architectures of these numbers.

    >>> only(80, 86)
    ('sm_80', 'sm_86')
    """
    return tuple(f"sm_{each}" for each in numbers)


def between(first: str, last: str) -> tuple[str, ...]:
    """Return the architectures from `first` to `last`.

    >>> between("sm_86", "sm_89")
    ('sm_86', 'sm_87', 'sm_88', 'sm_89')
    """
    return tuple(arch for arch in since(first) if number(arch) <= number(last))


def holds(archs: tuple[str, ...], arch: str) -> bool:
    """Return whether code for one of `archs` runs on `arch` as it is: `sm_90a` has all of `sm_90`.

    >>> holds(("sm_90",), "sm_90a"), holds(("sm_90a",), "sm_90")
    (True, False)
    """
    return arch in archs or f"sm_{number(arch)}" in archs
