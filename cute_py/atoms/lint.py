"""Checks of an MMA row: are its threads, values and registers consistent?

Each check yields sentences, none for a consistent row; `lint` joins them. Source: the conditions
that cutlass include/cute/atom/mma_atom.hpp and mma_traits.hpp rely on.
"""

from __future__ import annotations

from math import prod

from cute_py.atoms.arch import ARCHS, number
from cute_py.atoms.sparse import chunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cute_py.atoms.mma import MMA_Atom, Operand
    from cute_py.dtypes.table import Dtype
    from cute_py.layout.layout import Layout

    Part = tuple[str, Layout, tuple[int, int], Dtype, str, Operand | None]

_LARGEST_GROUP = 128  # threads of a warpgroup


def lint(atom: MMA_Atom) -> list[str]:
    """Return the faults of a row, as sentences; [] if there are none.

    Args:
        atom: any MMA row, of this package or of a user.

    Law: in a consistent row, threads times values of an operand in registers are exactly the
    elements of its tile, and its registers have exactly the bits of its values.

    >>> from cute_py.atoms import get
    >>> lint(get("SM80_16x8x16_F32BF16BF16F32_TN"))
    []
    """
    return [
        *_threads(atom),
        *(problem for part in _parts(atom) for problem in (*_coverage(atom, part), *_bits(part))),
        *_metadata(atom),
        *_text(atom),
        *_architectures(atom),
    ]


def _parts(atom: MMA_Atom) -> tuple[Part, ...]:
    """Return (name, layout, tile, type, memory, registers) of A, B, C and D.

    For a sparse A, the registers are those of its stored half.
    """
    m, n, k = atom.shape_mnk
    d, a, b, c = atom.registers[:4] or (None,) * 4
    half = [layout for name, layout in atom.extra if name == "stored_tv"]
    return (
        ("A", atom.a_tv, (m, k), atom.a_type, atom.a_memory, None if half else a),
        *(("stored A", tv, (m, k // 2), atom.a_type, atom.a_memory, a) for tv in half),
        ("B", atom.b_tv, (n, k), atom.b_type, atom.b_memory, b),
        ("C", atom.c_tv, (m, n), atom.c_type, atom.c_memory, c),
        ("D", atom.c_tv, (m, n), atom.d_type, atom.c_memory, d),
    )


def _threads(atom: MMA_Atom) -> Iterator[str]:
    threads = [atom.thr_id(i) for i in range(atom.num_threads)]
    if len(set(threads)) != len(threads):
        yield f"thr_id {atom.thr_id} maps two logical threads to one thread"
    if max(threads) >= _LARGEST_GROUP or min(threads) < 0:
        yield f"thr_id {atom.thr_id} is outside the {_LARGEST_GROUP} threads of a warpgroup"


def _coverage(atom: MMA_Atom, part: Part) -> Iterator[str]:
    """Check that threads and values cover each element once; with a descriptor, in each thread."""
    import numpy as np

    name, layout, tile, _, memory, _ = part
    if len(layout) != 2:
        yield f"{name} {layout} is not (thread, value)"
        return
    if layout[0].size() != atom.num_threads:
        yield f"{name} {layout} does not have the {atom.num_threads} threads of thr_id"
    if memory == "smem" and atom.num_threads > 2:  # not the pair of CTAs of SM100
        if layout[0].offsets().any():
            yield f"{name} {layout} is read through a descriptor, but differently by some threads"
        layout = layout[1]
    if not np.array_equal(np.sort(layout.offsets(), axis=None), np.arange(prod(tile))):
        yield f"{name} {layout} does not reach each element of {tile} once"


def _bits(part: Part) -> Iterator[str]:
    name, layout, _, dtype, memory, operand = part
    if operand is None or len(layout) != 2:
        return
    if operand.is_descriptor != (memory == "smem"):
        yield f"{name} is in {memory}, but its operand is {operand!r}"
    elif memory == "rmem" and operand.bits != layout[1].size() * dtype.bits:
        yield f"{name} has {layout[1].size()} values of {dtype}, but its operand is {operand!r}"


def _metadata(atom: MMA_Atom) -> Iterator[str]:
    """Check that metadata describes each element equally often, and fills its registers."""
    import numpy as np

    if not atom.sparse:
        return
    m, _, k = atom.shape_mnk
    layout = dict(atom.extra)["e_tv"]
    if layout[0].size() != atom.num_threads:
        yield f"E {layout} does not have the {atom.num_threads} threads of thr_id"
    times = np.bincount(layout.offsets().ravel(), minlength=m * k)
    if len(times) > m * k or times.min() == 0 or times.min() != times.max():
        yield f"E {layout} does not describe each element of {(m, k)} equally often"
    bits = 4 * layout[1].size() // chunk(atom.a_type)
    if atom.registers and (len(atom.registers) < 5 or atom.registers[4].bits != bits):
        yield f"E has {bits} bits in a thread, but its operand is {atom.registers[4:]!r}"


def _text(atom: MMA_Atom) -> Iterator[str]:
    """Check that a row has both text and registers, and that the text names each operand once."""
    if (atom.ptx is None) != (atom.registers == ()):
        yield "ptx without registers, or registers without ptx"
    if atom.ptx is None:
        return
    in_place = atom.a_memory == "smem" or atom.b_memory == "smem"
    fields = ["{d}", "{a}", "{b}", "{scale_d}" if in_place else "{c}", *["{e}"] * atom.sparse]
    if any(atom.ptx.count(field) != 1 for field in fields) or not atom.ptx.endswith(";"):
        yield f"ptx {atom.ptx!r} does not have {' '.join(fields)} once each and a semicolon"
    m, n, k = atom.shape_mnk
    if "mma" in atom.ptx and f".m{m}n{n}k{k}." not in atom.ptx:
        yield f"ptx {atom.ptx!r} is not of shape {m}x{n}x{k}"


def _architectures(atom: MMA_Atom) -> Iterator[str]:
    named = (*atom.native, *atom.emulated)
    if len(set(named)) != len(named):
        yield "an architecture is both native and emulated"
    if any(number(arch) < number(atom.min_arch) for arch in named):
        yield f"an architecture is older than {atom.min_arch}"
    if atom.min_arch in ARCHS and atom.runnable and atom.min_arch not in named:
        yield f"{atom.min_arch} is neither native nor emulated"
