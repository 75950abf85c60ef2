"""Operators along modes of an array of any strides: its rows, and the kernels that read them."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from cute_py.calls.arrays import strides_of
from cute_py.kernels.arrays import next_power, row_copy
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call
from cute_py.ops.family import BlockConfig, Family, by_blocks
from cute_py.ops.problem import Problem, as_run

if TYPE_CHECKING:
    from cute_py.trace.kernel import Kernel

WARPS = 8  # of a block, where each has a row
BLOCK_BYTES = 1 << 14  # about what the emulator keeps of a block


def families(registers: Kernel, columns: Kernel, rows: Kernel) -> tuple[Family, ...]:
    """Return the families of an operator along modes, by its three kernels."""
    long = "rows are not the last mode without gaps, of 8-bit floats, or too long for registers"
    far, near = "rows are no neighbours in memory", "rows are neighbours in memory"
    return (
        by_blocks("registers", registers, "rows in registers", "in_registers", "they fit", long),
        by_blocks("columns", columns, "32 rows in a block", "has_columns", near, far),
        by_blocks("rows", rows, "blocks for each row"),
    )


class Rows(Problem):
    """An array as kernels of rows read it: the modes that are kept, then those of a row.

    Attributes:
        x: the array.
        dims: the modes of a row.
        whole: whether the result has the modes of a row, too.
        form: its shape, as the kernel counts it.
    """

    x: Any
    dims: tuple[int, ...]
    form: tuple[int, ...]
    whole = False

    def statics(self, family: str, kept: int) -> tuple[Any, ...]:
        """Return compile-time values of the kernel of a family."""
        return ()

    def threads_of(self, family: str) -> tuple[int, ...]:
        """Return how many threads a block may have, the usual count first: of each row, a thread of
        "columns" has 32 elements, one of "rows" no more than it takes.
        """
        if family == "registers":
            return (0,)
        length = prod(self.x.shape[i] for i in self.dims) // self.parts_of(family)
        usual = 128 if length <= 4096 else 1024
        if family == "columns":
            usual = min(max(next_power(length), 128), 1024)
        return tuple(dict.fromkeys((usual, 128, 256, 512, 1024)))

    def takes_threads(self, family: str, count: int) -> bool:
        """Return whether a block may have so many threads: any whole warps, or as the kernel has
        them.
        """
        return count == 0 if family == "registers" else count >= 32

    @staticmethod
    def batched(named: dict[str, Any], ranks: dict[str, int]) -> dict[str, Any]:
        """Return the modes, counted from the end."""
        dim, rank = named["dim"], ranks["x"]
        if isinstance(dim, int):
            return {"dim": dim - rank if dim >= 0 else dim}
        given = range(rank) if dim is None else dim
        return {"dim": [i - rank if i >= 0 else i for i in given]}

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

    def first(self, config: BlockConfig) -> tuple[Any, Call | None]:
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
