"""Operators along modes of an array of any strides: its rows, and the kernels that read them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import strides_of
from cute_py.kernels.arrays import next_power, row_copy
from cute_py.kernels.configuration import Config, part
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call
from cute_py.ops.family import Estimate, Family, Reads
from cute_py.ops.problem import Problem, as_run

if TYPE_CHECKING:
    from cute_py.trace.kernel import Kernel

WARPS = 8  # of a block, where each has a row
BLOCK_BYTES = 1 << 14  # about what the emulator keeps of a block


@dataclass(frozen=True, slots=True)
class RowConfig(Config):
    """How rows are computed.

    Attributes:
        family: "registers": a block keeps a row; "columns": 32 neighbouring rows in a block;
            "rows": blocks read a row each, as often as it takes.
        parts: of a row, a block for each, where a second kernel can combine them.
        threads: of a block, but of "registers".
        reasons: why; not compared.
    """

    family: str = part("rows", choices=("registers", "columns", "rows"), is_shown=True)
    parts: int = part(1)
    threads: int = part(128)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)


def families(registers: Kernel, columns: Kernel, rows: Kernel) -> tuple[Family, ...]:
    """Return the families of an operator along modes, by its three kernels."""

    def by(name: str) -> Any:
        return lambda p: [Estimate(1.0, RowConfig(name))]

    def by_threads(name: str) -> Any:
        def configs(p: Any) -> list[Estimate]:
            parts = p.parts if name == "rows" else 1
            return [Estimate(1.0, RowConfig(name, parts, n)) for n in p.threads(name)]

        return configs

    def reads(attribute: str, fits: str, fails: str) -> Any:
        def read(problem: Any) -> Reads:
            takes = getattr(problem, attribute) not in (None, False)
            return Reads(takes, fits if takes else fails)

        return read

    held = reads(
        "in_registers", "rows fit in them", "rows have gaps, or are too long for registers"
    )
    beside = reads(
        "has_columns", "rows are neighbours in memory", "rows are no neighbours in memory"
    )
    return (
        Family("registers", registers, RowConfig, by("registers"), held, "rows in registers"),
        Family("columns", columns, RowConfig, by_threads("columns"), beside, "32 rows in a block"),
        Family("rows", rows, RowConfig, by_threads("rows"), means="blocks for each row"),
    )


class Rows(Problem):
    """An array as kernels of rows read it: the modes that are kept, then those of a row.

    Attributes:
        x: the array.
        dims: the modes of a row.
        whole: whether the result has the modes of a row, too.
        form: its shape, as the kernel counts it.
        parts: how many blocks share a row.
    """

    x: Any
    dims: tuple[int, ...]
    form: tuple[int, ...]
    whole = False
    parts = 1

    def statics(self, family: str, kept: int) -> tuple[Any, ...]:
        """Return compile-time values of the kernel of a family."""
        return ()

    def threads(self, family: str) -> tuple[int, ...]:
        """Return how many threads a block may have, the usual count first: of each row, a thread of
        "columns" has 32 elements, one of "rows" no more than it takes.
        """
        length = prod(self.x.shape[i] for i in self.dims) // self.parts
        if family == "columns":
            usual = min(max(next_power(length), 128), 1024)
        else:
            usual = 128 if length <= 4096 else 1024
        return tuple(dict.fromkeys((usual, 128, 256, 512, 1024)))

    @cached_property
    def sides(self) -> tuple[Any, int, Any]:
        """A, how many of its modes are kept, and the output."""
        x = self.readable(self.x)
        strides = strides_of(x)

        def by_stride(modes: list[int]) -> list[int]:
            return sorted(modes, key=lambda mode: (strides[mode], -mode))

        others, whole = [i for i in range(len(x.shape)) if i not in self.dims], self.whole
        kept, row = by_stride(others), by_stride(list(self.dims))
        place = tuple((*kept, *row) if whole else map(others.index, kept))
        A = self.ordered(x, (*kept, *row))
        if len(row) > 1 and not whole:
            A = self._joined(A, len(kept))
        output = self.writes((x,), place, self.form)
        if not kept:
            A = A[None] if row else A
            output = output._replace(array=output.array[None]) if whole else output
        return A if row else A[..., None], max(len(kept), 1), output

    @cached_property
    def in_registers(self) -> Any:
        """A view (rows, N) of the array, one of the output, and how a block shares a row; None
        where registers do not hold it.
        """
        A, output, whole = self._flat(self.readable(self.x)), self.sides[2], self.whole
        made = self._flat(output.made) if whole else as_run(output.made)
        if A is None or made is None or self.library.read(A, "x")[1].name in ("e4m3", "e5m2"):
            return None
        found = row_copy(A, *[made][: int(whole)], rows=WARPS)
        return None if found is None else (A, made, found)

    def _joined(self, A: Any, kept: int) -> Any:
        """Return A with neighbouring modes of a row as one where they are one run in memory: a mode
        less is a division less for each element.
        """
        shape, strides = tuple(A.shape), strides_of(A)
        runs: list[tuple[int, int]] = []  # of the least stride first
        for n, step in zip(shape[kept:], strides[kept:], strict=True):
            if runs and step == runs[-1][0] * runs[-1][1]:
                runs[-1] = n * runs[-1][0], runs[-1][1]
            else:
                runs.append((n, step))
        count, joined = len(shape) - kept, len(runs)
        back = self.library.ordered(A, (*range(kept), *reversed(range(kept, kept + count))))
        held = back.reshape((*shape[:kept], *[n for n, _step in reversed(runs)]))
        return self.library.ordered(held, (*range(kept), *reversed(range(kept, kept + joined))))

    def _flat(self, x: Any) -> Any:
        """Return a view (rows, N), or None."""
        if self.dims != (len(x.shape) - 1,):
            return None
        return as_run(x, keeps_last=True)

    @property
    def has_columns(self) -> bool:
        """Whether the array is contiguous along a mode that is kept, and not along a row."""
        A, kept, _output = self.sides
        strides = strides_of(A)
        return bool(A.shape[0] > 1 and strides[0] == 1 and strides[kept] != 1)

    def first(self, config: RowConfig) -> tuple[Any, Call | None]:
        """Return the array that the kernel reads, and the call that writes it, if one does."""
        return self.sides[0], None

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of a kernel, by what was chosen before, if given."""
        family, config = self.chosen(choice)
        A, kept, output = self.sides
        rows = prod(A.shape[:kept])
        if family.name == "registers":
            A, made, found = self.in_registers
            output, before = output._replace(array=made), None
            statics = *found, *self.statics(family.name, kept)
        else:
            (A, before), statics = self.first(config), self.statics(family.name, kept)
            statics = *statics, config.threads
        return Call(
            family.kernel,
            self.library,
            (A,),
            (output,),
            statics=statics,
            choice=(config,),
            blocks=ceil_div(rows, 32) if family.name == "columns" else rows,
            block_bytes=BLOCK_BYTES,
            inputs=self,
            first=before,
        )
