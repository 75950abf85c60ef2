"""`Row`: a value that a line of a kernel gives a name; and the rows of a traced kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from cute_py.errors import file_text, refusal, suggestion
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import Layout
from cute_py.records import Shown
from cute_py.see.numbers import THREAD, Numbers, bare
from cute_py.see.owners import Lineage, Owners, owners_of
from cute_py.see.source import statement_at
from cute_py.see.watch import watched
from cute_py.tensor.tensor import Tensor
from cute_py.trace.engines import Guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from cute_py.see.watch import Seen, Sighting
    from cute_py.trace.kernel import Kernel


MEMORIES = ("gmem", "smem", "rmem", "coordinates")


@dataclass(frozen=True, eq=False)
class Row(Shown):
    """A value that a line of a kernel gives a name.

    Attributes:
        file, line: where.
        text: the statement there, "" where there is no source.
        function: the function that the line is in.
        name: what the line calls the value: `tCsA`, `pieces[0]`, `a.g2s`.
        memory: gmem, smem, rmem or coordinates of a tensor, "" of anything else.
        dtype: the name of the type of its elements.
        layout: as CuTe prints it, with symbols for what is known only at run time; a tiled
            operation or an atom is itself.
        modes: the names of the modes in the comment of the line, () where it has none.
        made: what the line assigns.
        role: the role that the line is in.
        stages: the number of stages, where the comment names a mode so, else 0.

    """

    file: str
    line: int
    text: str
    function: str
    name: str
    memory: str
    dtype: str
    layout: Any
    modes: tuple[str, ...]
    made: str
    role: str
    stages: int
    value: Any = field(repr=False)
    seen: Seen = field(repr=False)
    sizes: Mapping[str, int] = field(repr=False)

    @property
    def place(self) -> tuple[str, int]:
        """The file and the line."""
        return self.file, self.line

    @property
    def bits(self) -> int:
        """The width of an element (bits), 16 for what has none."""
        return int(self.value.dtype.bits) if self.dtype else 16

    @property
    def where(self) -> str:
        """The file and line as text."""
        return f"{file_text(self.file)}:{self.line}"

    @property
    def described(self) -> str:
        """The layout, tiled operation or atom as text, in one line."""
        return " ".join(str(self.layout).split())

    def __str__(self) -> str:
        what = " ".join([x for x in (self.memory, self.dtype, self.described) if x])
        return f"{self.where}: {self.name} = {self.made}\n{what}"

    def owners(
        self, threads: Iterable[int] | None = None, at: Mapping[str, int] | None = None
    ) -> Owners:
        """Return which thread holds which element of the whole that the tensor was taken from: of
        the nearest tensor with a name that is the same for all threads.

        Args:
            threads: their numbers; by default those of the role, or of the block.
            at: the values of symbols: block 0 and the first iteration of loops unless it says
                otherwise, as in at={"bid_x": 1}.

        Law: the element is the one that an access of the thread to this value touches. Registers
        hold the elements of the partition that they were made for, or were first filled from.
        Raises LayoutError for registers of another origin, for places that depend on what is known
        only when the kernel runs, and for too many elements; CoordinateError for threads and
        symbols that the kernel does not have.
        """
        if self.value.__class__ is not Tensor:
            kind = type(self.value).__name__
            raise refusal("see-kind", operation="owners", name=self.name, kind=kind)
        return owners_of(self.value, Lineage(self.seen, self.numbers(at)), self._threads(threads))

    def drawn(self) -> Any:
        """Return what pictures show: of a part of a tensor its owners, else the layout in numbers,
        or the tiled operation.
        """
        if self.value.__class__ is Tensor:
            lineage = Lineage(self.seen, self.numbers())
            if lineage.has_origin(self.value) and lineage.differs(self.value, self._threads(None)):
                return self.owners()
        return self.numbers().at(0).of(self.layout)

    def numbers(self, at: Mapping[str, int] | None = None) -> Numbers:
        """Return the values of symbols; see `owners`."""
        first: dict[str, int] = {"bid_x": 0, "bid_y": 0, "bid_z": 0, **self.sizes}
        numbers = Numbers({**first, **(at or {})}, self.seen.integers, self.name)
        if at:
            self._require_symbols(at, {*first, *self.seen.integers}, numbers)
        return numbers

    def _require_symbols(self, at: Mapping[str, object], names: set[str], numbers: Numbers) -> None:
        """Refuse values of symbols that no tensor depends on, and what is no integer."""
        tensors = [x.value for x in self.seen.sightings if x.value.__class__ is Tensor]
        names |= numbers.names(tuple([(x.engine.offset, x.layout) for x in tensors]))
        names -= {THREAD}  # which `threads` asks for
        for name, value in at.items():
            if name not in names or type(value) is not int:
                hint = suggestion(str(name), names) or "use one of these, and an integer"
                facts: dict[str, Any] = {"name": name, "value": value, "hint": hint}
                known = ", ".join(sorted(names))
                raise refusal("see-symbol", operation="owners", known=known, **facts)

    def _threads(self, threads: Iterable[int] | None) -> tuple[int, ...]:
        """Return the numbers of threads; refuse those that the block does not have."""
        launch = self.seen.plan.launch
        if threads is None:
            warps = {name: (start, stop) for name, start, stop in launch.roles}
            start, stop = warps.get(self.role, (0, -(-launch.threads // 32)))
            return tuple(range(32 * start, min(32 * stop, launch.threads)))
        numbers = []
        for each in threads if hasattr(threads, "__iter__") else (threads,):
            if type(each) is not int or not 0 <= each < launch.threads:
                raise self._no_threads(repr(each))
            numbers.append(each)
        if not numbers:
            raise self._no_threads("none")
        return tuple(numbers)

    def _no_threads(self, given: str) -> Exception:
        last = self.seen.plan.launch.threads - 1
        return refusal("see-threads", operation="owners", threads=given, last=last)


def rows_of(kernel: Kernel, arguments: tuple[Any, ...]) -> tuple[Seen, tuple[Row, ...]]:
    """Trace a kernel, and return what was seen and its rows: all tensors, and the layouts, tiled
    operations and atoms of its own lines.
    """
    seen, code = watched(kernel, arguments), kernel.function.__code__
    found: dict[Any, Row] = {}
    files = {code.co_filename: 0}
    for x in seen.sightings:
        if x.value.__class__ is Tensor or x.function == code.co_name:
            row = row_of(x, seen)
            files.setdefault(x.file, len(files))
            found.setdefault((x.file, row.line, x.name, x.role, row.memory, row.described), row)
    return seen, tuple(sorted(found.values(), key=lambda row: (files[row.file], row.line)))


def row_of(x: Sighting, seen: Seen) -> Row:
    """Return the row of a value."""
    statement = statement_at(x.file, x.line)
    made, modes = statement.of(x.name)
    is_tensor = x.value.__class__ is Tensor
    layout = layout_of(x.value, seen) if is_tensor else bare(x.value)
    shape = tuples.wrap(getattr(layout, "shape", ()))
    named = modes if len(modes) == len(shape) else ()
    staged = [size for name, size in zip(named, shape, strict=False) if name.startswith("stage")]
    stages = tuples.product(staged[0]) if staged else 0
    return Row(
        file=x.file,
        line=statement.line,
        text=statement.text,
        function=x.function,
        name=x.name,
        memory=x.value.space if is_tensor else "",
        dtype=getattr(x.value.dtype, "name", "") if is_tensor else "",
        layout=layout,
        modes=named,
        made=made or ("an argument" if statement.text.startswith("def ") else statement.text),
        role=x.role,
        stages=stages if stages.__class__ is int else 0,
        value=x.value,
        seen=seen,
        sizes={},
    )


def layout_of(tensor: Tensor, seen: Seen) -> Any:
    """Return the layout of a tensor as CuTe prints it: of a part of an argument with its strides in
    memory, in place of the coordinates that predicates need; TMA's keep these.
    """
    engine, layout = tensor.engine, bare(tensor.layout)
    if not isinstance(engine, Guarded) or _is_tma(tensor, seen):
        return layout

    def step(d: Any) -> Any:
        stride = engine.stride
        for k in d.path if d.__class__ is ScaledBasis else ():
            stride = stride[k]
        return ints.mul(d.value, bare(stride)) if d.__class__ is ScaledBasis else d

    return Layout(layout.shape, tuples.transform_leaf(step, layout.stride))


def _is_tma(tensor: Tensor, seen: Seen) -> bool:
    """Return whether a tensor is a `cute.tma_tensor`, or a part of one."""
    made = seen.made.get(id(tensor))
    while made is not None and made.name != "tma_tensor":
        made = seen.made.get(id(next(made.operands(), None)))
    return made is not None
