"""`transpose`: matrices with rows and columns exchanged, in memory."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from cute_py.kernels.arrays import facts_of
from cute_py.kernels.transpose import SWIZZLED, TILE, side_of, transpose_shared, transpose_vectors
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call
from cute_py.ops.family import MOST_ALONG_YZ, BlockConfig, by_blocks
from cute_py.ops.operands import ready
from cute_py.ops.operator import operator
from cute_py.ops.problem import FLOATS, INTEGERS, Problem

if TYPE_CHECKING:
    from cute_py.ops.libraries import Library

WIDEST = MOST_ALONG_YZ * TILE  # columns, for which the grid of a matrix has blocks
TYPES = (*FLOATS, *INTEGERS)


def _gradient(_request: Any, g: Any) -> dict[str, Any]:
    return {"a": transpose(g)}


class Transposed(Problem):
    """Matrices as the kernels read them: A (M,N) or (M,N,L)."""

    types = TYPES
    reference = staticmethod(lambda a, **_named: a.swapaxes(-1, -2))
    gradient = staticmethod(_gradient)
    families = (
        by_blocks(
            *("vectors", transpose_vectors, "vectors of 16 bytes", "has_vectors"),
            *("rows are made of them", "rows are not made of vectors of 16 bytes"),
        ),
        by_blocks("elements", transpose_shared, "single elements"),
    )

    def __init__(self, request: Any, library: Library) -> None:
        """Read the matrices."""
        super().__init__(request, library)
        self.a, kind = self.read("a", TYPES, 2, "(..., M, N)")
        self.gives((*self.a.shape[:-2], *self.a.shape[:-3:-1]), kind)

    @cached_property
    def sides(self) -> Any:
        """A, and the output."""
        A = ready(self.library, self.a, tuple(self.a.shape[:-2]), self.kind)
        output = self.writes_matrices((A,))
        if A.shape[2] > WIDEST and A.shape[0] == 1:  # as a batch, whose grid has one mode
            wide = output._replace(array=output.array[..., None])
            return self.library.ordered(A, (1, 2, 0)), wide if len(
                output.array.shape
            ) < 3 else output
        if A.shape[0] == 1:  # on the host, too: what kernels read without a third mode
            made = output.made
            one = made if len(made.shape) == 2 else self.library.first(made)
            return self.library.first(A), output._replace(array=one)
        return self.matrices(A), output

    @property
    def has_vectors(self) -> bool:
        """Whether rows of both sides are made of whole vectors."""
        A, output = self.sides
        return all(facts_of(x)[1:] == (1, 128) for x in (A, output.array))

    def threads_of(self, family: str) -> tuple[int, ...]:
        """Return how many threads a block of vectors may have: 8 read a row of its tile."""
        rows = side_of(self.kind.bits)
        return tuple([n for n in (256, 512, 128) if n <= 8 * rows]) if family == "vectors" else (0,)

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of a kernel, by what was chosen before, if given."""
        family, config = self.chosen(choice)
        A, output = self.sides
        by_vectors = family.name == "vectors"
        side = side_of(self.kind.bits) if by_vectors else TILE
        return Call(
            family.kernel,
            self.library,
            (A,),
            (output,),
            statics=(config.threads if by_vectors else SWIZZLED,),
            choice=(config,),
            blocks=prod(ceil_div(x, side) for x in A.shape[:2]) * prod(A.shape[2:]),
            block_bytes=2 * side * side * 8,
            inputs=self,
        )


@operator(Transposed, arrays=("a", "out"), configs=BlockConfig)
def transpose(
    a: Any,
    *,
    out: Any = None,
    backend: str = "auto",
    config: BlockConfig | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return the matrices of `a` (..., M, N) transposed, (..., N, M), in memory.

    Args:
        a: an array of any strides, of floats or integers of 8 to 64 bits.
        out: where the result goes; None: a new array with contiguous rows.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what cute.ops.transpose.explain shows, or text: "family=elements".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    The law: `transpose(a)[..., j, i] == a[..., i, j]`, bit for bit. For gradients see
    docs/torch.md. Raises CuteError.

    >>> transpose([[1.0, 2.0], [3.0, 4.0]])
    array([[1., 3.],
           [2., 4.]])
    """
