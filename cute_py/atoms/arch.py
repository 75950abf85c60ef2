"""GPU architectures: their names and order, and the limits of one multiprocessor (`DEVICES`) and
one GPU (`CHIPS`) of each.

Source: PTX ISA, "PTX Module Directives: .target". The suffix `a` marks features of one architecture
only; code without a suffix also runs on later architectures.
"""

from __future__ import annotations

from dataclasses import dataclass

from cute_py.atoms.devices import SPECS
from cute_py.errors import refusal

ARCHS = (
    "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90",
    "sm_100", "sm_103", "sm_110", "sm_120", "sm_121",
)  # fmt: skip

# CUTLASS's tags of architectures -> the least compute capability, and its names for groups of
# threads. Source: cutlass/arch/arch.h, cutlass/cutlass.h.
ARCH_TAGS = {
    "Sm50": 50, "Sm60": 60, "Sm61": 61, "Sm70": 70, "Sm72": 72,
    "Sm75": 75, "Sm80": 80, "Sm86": 86, "Sm89": 89, "Sm90": 90,
}  # fmt: skip
NumThreadsPerWarp = 32
NumThreadsPerWarpGroup = 128
NumWarpsPerWarpGroup = NumThreadsPerWarpGroup // NumThreadsPerWarp
NumThreadsPerHalfWarp = NumThreadsPerWarp // 2
NumThreadsPerQuad = 4
NumThreadsPerQuadPair = NumThreadsPerQuad * 2


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
    """Return `arch` and all later architectures; with a suffix, only `arch`.

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
    """Return whether code for one of `archs` runs on `arch`: `sm_90a` has all of `sm_90`.

    >>> holds(("sm_90",), "sm_90a"), holds(("sm_90a",), "sm_90")
    (True, False)
    """
    return arch in archs or f"sm_{number(arch)}" in archs


# -- limits of a GPU: views of the records of devices.py

DEVICES = {spec.limits.arch: spec.limits for spec in SPECS}


@dataclass(frozen=True, slots=True)
class Chip:
    """A typical GPU of an architecture.

    Attributes:
        arch: "sm_90".
        name: the names of GPUs with that many multiprocessors.
        multiprocessors: the number of multiprocessors.
    """

    arch: str
    name: str
    multiprocessors: int


def _chips() -> dict[str, Chip]:
    found: dict[str, Chip] = {}
    for spec in SPECS:
        arch, count = spec.limits.arch, spec.multiprocessors
        if count is not None:
            names = [found[arch].name] if arch in found else []
            found[arch] = Chip(arch, ", ".join([*names, spec.name]), count)
    return found


CHIPS = _chips()
