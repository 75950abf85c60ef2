"""`bank_conflicts`: the wavefronts of shared memory per request, and the lanes that collide.

Shared memory has 32 banks of 32-bit words; a wavefront serves one word of each bank, to any number
of lanes. A request of more than 128 bytes is served in phases: 64-bit accesses by half warps,
128-bit accesses, and the rows of ldmatrix and stmatrix, by 8 lanes at a time.

Sources. Banks and broadcast: CUDA C++ Programming Guide 12, "Compute Capability 5.x", "Shared
Memory". Phases: CUDA C Programming Guide 4.2, F.4.3 "64-Bit Accesses" (half warps) and "128-Bit
Accesses" (quarter warps), for capability 2.x; GTC 2019, S9593 "cuTENSOR", the slides on bank
conflicts (128-bit: threads 0-7, then 8-15, and only threads of one phase collide), as quoted in
Dao-AILab/flash-attention issue 738. Matrices: PTX ISA, "ldmatrix" (8 addresses for each). No source
states it for later capabilities; benchmarks/gpu_banks.py measures it: on an H200 all 156 patterns
agree (benchmarks/results/gpu_banks.json).

If lanes of several phases read the same words, hardware may merge phases, as capability 7.x does
for pairs of lanes with one address (NVIDIA forum, "Unexpected shared memory bank conflict", 77228);
then the count is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cute_py.analysis.requests import Access, Requests, requests_of, require_width
from cute_py.atoms.copy import value_type
from cute_py.atoms.wavefronts import BANKS, LANES, phase_wavefronts, phase_words
from cute_py.errors import ranges, refusal
from cute_py.integers import ints
from cute_py.layout import Mapped
from cute_py.records import Shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    from cute_py.layout.types import AnyLayout
    from cute_py.tiled.tiled_copy import TiledCopy

    Array: TypeAlias = Any  # a NumPy array


@dataclass(frozen=True, slots=True)
class Conflict:
    """Banks in which lanes access different words.

    Attributes:
        banks: the banks.
        lanes: one tuple of lanes for each word.
    """

    banks: tuple[int, ...]
    lanes: tuple[tuple[int, ...], ...]

    def __str__(self) -> str:
        words = " | ".join(ranges(lanes) for lanes in self.lanes)
        return f"bank {ranges(self.banks)}: lanes {words}"


@dataclass(frozen=True, slots=True)
class Phase:
    """Lanes that are served together.

    Attributes:
        lanes: the active lanes.
        wavefronts: the most words that one bank must serve.
        conflicts: the banks with more than one word.
        words: the words that each lane accesses, in the first request of the pattern.
    """

    lanes: tuple[int, ...]
    wavefronts: int
    conflicts: tuple[Conflict, ...]
    words: tuple[tuple[int, ...], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Requests with the same phases.

    Attributes:
        count: the number of requests.
        warp: the warp of the first request.
        phases: the phases of one request.
    """

    count: int
    warp: int
    phases: tuple[Phase, ...]

    @property
    def wavefronts(self) -> int:
        """The wavefronts of one request."""
        return sum(phase.wavefronts for phase in self.phases)


@dataclass(frozen=True, slots=True)
class BankConflicts(Shown):
    """The wavefronts of all requests of an access to shared memory.

    Attributes:
        access: the name of the access.
        layout: the layout of shared memory, as text; "" for plain addresses.
        patterns: the requests, grouped by their phases.
    """

    access: str
    layout: str
    patterns: tuple[Pattern, ...]

    @property
    def requests(self) -> int:
        """The number of warp instructions."""
        return sum(pattern.count for pattern in self.patterns)

    @property
    def wavefronts(self) -> int:
        """The wavefronts of all requests."""
        return sum(pattern.count * pattern.wavefronts for pattern in self.patterns)

    @property
    def ideal(self) -> int:
        """The wavefronts without conflicts: one per phase."""
        return sum(pattern.count * len(pattern.phases) for pattern in self.patterns)

    @property
    def ways(self) -> int:
        """The most wavefronts of one phase: 1 without conflicts."""
        return max(phase.wavefronts for pattern in self.patterns for phase in pattern.phases)

    @property
    def conflict_free(self) -> bool:
        """Whether every phase takes one wavefront."""
        return self.ways == 1

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The banks in conflict and their lanes, of every pattern and phase."""
        return tuple(c for p in self.patterns for phase in p.phases for c in phase.conflicts)

    def __str__(self) -> str:
        found = "no conflicts" if self.conflict_free else f"{self.ways}-way conflicts"
        where = f" on {self.layout}" if self.layout else ""
        head = (
            f"{self.access}{where}: {self.requests} requests, "
            f"{self.wavefronts} wavefronts (ideal {self.ideal}), {found}"
        )
        lines = [head, "requests  lanes  wavefronts  conflicts"]
        for pattern in self.patterns:
            for k, phase in enumerate(pattern.phases):
                count = f"{pattern.count}x" if k == 0 else ""
                named = "; ".join(str(conflict) for conflict in phase.conflicts)
                lanes = ranges(phase.lanes)
                lines.append(f"{count:>8}  {lanes:<5}  {phase.wavefronts:>10}  {named}".rstrip())
        return "\n".join(lines)


def bank_conflicts(
    access: TiledCopy | Access | Iterable[int | None],
    smem_layout: AnyLayout | None = None,
    *,
    bits: int | None = None,
    side: str | None = None,
) -> BankConflicts:
    """Return the wavefronts of shared memory per phase, and the lanes that collide.

    Args:
        access: a TiledCopy with a plain, vector, cp.async, ldmatrix or stmatrix instruction; an
            `Access`; or the byte addresses of one warp, None for an inactive lane.
        smem_layout: the tensor in shared memory (elements), whose extents the copy's tile divides;
            its first element is aligned to 128 bytes. None with addresses.
        bits: with addresses, the width of each lane's access: 8 to 128; 128 for rows of ldmatrix,
            whose .x1 and .x2 have 8 and 16 addresses.
        side: "S" or "D" of the copy; None: the side that is in shared memory.

    Law: `wavefronts` is the sum over requests and phases of the most distinct words in one bank.
    Raises LayoutError if an access is not contiguous and aligned, and for instructions without
    per-lane addresses in shared memory.

    >>> print(bank_conflicts([128 * lane for lane in range(4)], bits=32))
    32-bit addresses: 1 requests, 4 wavefronts (ideal 1), 4-way conflicts
    requests  lanes  wavefronts  conflicts
          1x  0-3             4  bank 0: lanes 0 | 1 | 2 | 3
    """
    if isinstance(access, Mapped):  # whose modes could be read as addresses
        kind = type(access).__name__
        raise refusal("access-subject", operation="bank_conflicts", value=access, type=kind)
    if hasattr(access, "__iter__"):
        return _report(_of_addresses(access, bits), "")
    if smem_layout is None:
        raise refusal("access-layout", operation="bank_conflicts", access=access)
    requests = requests_of("bank_conflicts", access, smem_layout, "smem", side)
    return _report(requests, str(smem_layout))


def _of_addresses(addresses: Iterable[int | None], bits: int | None) -> Requests:
    given = [-1 if x is None else _address(x) for x in addresses]
    if not 0 < len(given) <= LANES or max(given) < 0:
        raise refusal("access-lanes", operation="bank_conflicts", count=len(given), most=LANES)
    if bits is None:
        raise refusal("access-bits", operation="bank_conflicts")
    require_width("bank_conflicts", bits, value_type(8, "bank_conflicts"))
    for address in given:
        if address >= 0 and address % (bits // 8):
            raise refusal(
                "access-aligned",
                operation="bank_conflicts",
                layout="byte addresses",
                count=bits // 8,
                start=address,
            )
    row = given + [-1] * (LANES - len(given))
    return Requests(f"{bits}-bit addresses", [row], [0], bits, 8)


def _address(x: object) -> int:
    return ints.as_int(ints.normalize(x, "bank_conflicts"), "bank_conflicts")


def request_words(requests: Requests, starts: Array = None) -> Array:
    """Return the accessed words, as an array [request, phase, lane, word of the lane]; negative for
    inactive lanes.

    Args:
        requests: the requests.
        starts: the first element of each lane; None: those of the requests.
    """
    return phase_words(requests.byte_starts(starts), requests.bits // 8)


def _report(requests: Requests, layout: str) -> BankConflicts:
    """Return the report. Requests for the same words, up to rows of banks, are counted once."""
    words = request_words(requests)
    counts = phase_wavefronts(words)
    words = words if words.__class__ is list else words.tolist()
    patterns: dict[tuple[Phase, ...], list[int]] = {}
    for ks in _alike(words):
        patterns.setdefault(_phases(words[ks[0]], counts[ks[0]]), []).extend(ks)
    found = [Pattern(len(ks), int(requests.warps[ks[0]]), p) for p, ks in patterns.items()]
    return BankConflicts(requests.name, layout, tuple(found))


def _alike(words: list[list[list[list[int]]]]) -> list[list[int]]:
    """Return the requests in groups with the same words, up to rows of banks."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for k, request in enumerate(words):
        used = [word for phase in request for lane in phase for word in lane]
        least = min(word for word in used if word >= 0) // BANKS * BANKS
        groups.setdefault(tuple([-1 if w < 0 else w - least for w in used]), []).append(k)
    return list(groups.values())


def _phases(words: list[list[list[int]]], wavefronts: Sequence[int]) -> tuple[Phase, ...]:
    """Return the phases of one request that have active lanes."""
    together = len(words[0])
    phases = []
    for k, (lanes, count) in enumerate(zip(words, wavefronts, strict=True)):
        taking = tuple(k * together + i for i in range(together) if lanes[i][0] >= 0)
        if taking:
            conflicts = _conflicts(lanes, k * together) if count > 1 else ()
            accessed = tuple(tuple(lane) for lane in lanes if lane[0] >= 0)
            phases.append(Phase(taking, int(count), conflicts, accessed))
    return tuple(phases)


def _conflicts(lanes: list[list[int]], first: int) -> tuple[Conflict, ...]:
    """Return the banks with several words, grouped by their lanes."""
    wanted: dict[int, dict[int, list[int]]] = {}
    for i, row in enumerate(lanes):
        for word in row:
            if word >= 0:
                wanted.setdefault(word % BANKS, {}).setdefault(word, []).append(first + i)
    banks: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for bank, by_word in sorted(wanted.items()):
        if len(by_word) > 1:
            banks.setdefault(tuple(tuple(who) for who in by_word.values()), []).append(bank)
    return tuple(Conflict(tuple(found), who) for who, found in banks.items())
