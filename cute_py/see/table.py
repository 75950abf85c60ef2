"""`layouts`: a table of all tensors of a traced kernel, in the order of its lines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cute_py.errors import file_text, refusal, suggestion
from cute_py.integers import ints
from cute_py.layout import tuples
from cute_py.layout.basis import ScaledBasis
from cute_py.layout.layout import Layout
from cute_py.records import Shown, Text
from cute_py.see.numbers import bare
from cute_py.see.statements import statement_at
from cute_py.see.watch import watched
from cute_py.tensor.tensor import Tensor
from cute_py.trace.engines import Guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from cute_py.see.owners import Owners
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
        kind: tensor, layout, tiled or atom.
        memory: gmem, smem, rmem or coordinates, of a tensor.
        dtype: the name of the type of its elements.
        layout: as CuTe prints it, with the symbols of the plan for what is known at run time.
        modes: the names of the modes in the comment of the line, () where it has none.
        made: what made it: the expression that the line assigns.
        role: the role that the line is in.
        stages: how many stages the tensor has, by the name of a mode; 0 if it has none.

    """

    file: str
    line: int
    text: str
    function: str
    name: str
    kind: str
    memory: str
    dtype: str
    layout: Any
    modes: tuple[str, ...]
    made: str
    role: str
    stages: int
    value: Any = field(repr=False)
    seen: Seen = field(repr=False)
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def where(self) -> str:
        """The file and line as text."""
        return f"{file_text(self.file)}:{self.line}"

    def __str__(self) -> str:
        memory = f"{self.memory} {self.dtype} " if self.memory else ""
        return f"{self.where}  {self.name}  {memory}{self.layout}"

    def owners(self, threads: Iterable[int] | None = None) -> Owners:
        """Return which thread holds which element of the whole that the tensor was taken from."""
        from cute_py.see.owners import Lineage, owners
        from cute_py.see.numbers import Numbers

        numbers = Numbers(self.sizes, self.seen.integers, self.name)
        numbers.known |= {"bid_x": 0, "bid_y": 0, "bid_z": 0, **numbers.known}
        launch = self.seen.plan.launch
        if threads is None:
            roles = {name: (first, last) for name, first, last in launch.roles}
            first, last = roles.get(self.role, (0, -(-launch.threads // 32)))
            threads = range(32 * first, min(32 * last, launch.threads))
        return owners(self.value, self.name, Lineage(self.seen, numbers), tuple(threads))


class Layouts(Shown):
    """The tensors, layouts and tiled operations of a kernel, in the order of its lines."""

    __slots__ = ("name", "rows")

    def __init__(self, name: str, rows: tuple[Row, ...]) -> None:
        self.name, self.rows = name, rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        """Return the first row of a name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise refusal("see-name", operation="layouts", name=name)

    def at(self, line: int) -> Layouts:
        """Return the rows of a line."""
        return Layouts(self.name, tuple([row for row in self.rows if row.line == line]))

    def memory(self, memory: str) -> Layouts:
        """Return the rows of a memory: gmem, smem, rmem or coordinates."""
        return Layouts(self.name, tuple([row for row in self.rows if row.memory == memory]))

    def __str__(self) -> str:
        head = ("line", "name", "memory", "dtype", "layout", "modes", "made by")
        lines = [head, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([self.name, *texts])

    __repr__ = __str__


def _cells(row: Row) -> tuple[str, ...]:
    modes = f"({','.join(row.modes)})" if row.modes else ""
    made = row.made if len(row.made) <= 60 else row.made[:57] + "..."
    return str(row.line), row.name, row.memory, row.dtype, str(row.layout), modes, made


def layouts(kernel: Kernel, *args: object, **named: object) -> Layouts:
    """Return the table of all tensors of a kernel, traced for such arguments."""
    rows = kernel.known(_rows, *args, **named)
    sizes = _sizes(kernel.arguments(*args, **named))
    return Layouts(kernel.__name__, tuple([replace(row, sizes=sizes) for row in rows]))


def _sizes(arguments: Iterable[Any]) -> dict[str, int]:
    """Return the sizes, strides and integers of arguments, by their names in the plan."""
    from cute_py.calls.arrays import extents_of

    found: dict[str, int] = {}
    for leaf in [leaf for argument in arguments for leaf in argument.leaves()]:
        if leaf.kind == "array":
            for word, extents in zip(("shape", "stride"), extents_of(leaf.value), strict=True):
                found |= {f"{leaf.name}_{word}{k}": n for k, n in enumerate(extents)}
        elif hasattr(leaf.value, "__index__"):
            found[leaf.name] = int(leaf.value)
    return found


def _rows(kernel: Kernel, arguments: tuple[Any, ...]) -> tuple[Row, ...]:
    """Trace a kernel, and return its rows."""
    seen = watched(kernel, arguments)
    code = kernel.function.__code__
    found: dict[Any, Row] = {}
    files: dict[str, int] = {code.co_filename: 0}
    for x in seen.sightings:
        files.setdefault(x.file, len(files))
        row = _row(x, seen)
        if row.kind == "tensor" or x.function == code.co_name:
            found.setdefault((x.file, x.line, x.name, x.role, row.memory, str(row.layout)), row)
    return tuple(sorted(found.values(), key=lambda row: (files[row.file], row.line)))


def _row(x: Sighting, seen: Seen) -> Row:
    statement = statement_at(x.file, x.line)
    made, modes = statement.of(x.name)
    kind, memory, dtype = "layout", "", ""
    if x.value.__class__ is Tensor:
        kind, memory, dtype = "tensor", x.value.space, str(x.value.dtype or "").removeprefix("cute.")
        layout = plain(x.value)
    else:
        layout = bare(x.value)
    shape = tuples.wrap(getattr(layout, "shape", ()))
    modes = modes if len(modes) == len(shape) else ()
    staged = [extent for name, extent in zip(modes, shape) if name.startswith("stage")]
    stages = tuples.product(staged[0]) if staged else 0
    what = dict(file=x.file, line=statement.line, text=statement.text, function=x.function)
    return Row(
        **what,
        name=x.name,
        kind=kind,
        memory=memory,
        dtype=dtype,
        layout=layout,
        modes=modes,
        made=made or "an argument",
        role=x.role,
        stages=stages if stages.__class__ is int else 0,
        value=x.value,
        seen=seen,
    )


def plain(tensor: Tensor) -> Any:
    """Return the layout of a tensor as CuTe prints it: of a part of an argument with its strides in
    memory, in place of the coordinates that a guard needs.
    """
    engine, layout = tensor.engine, bare(tensor.layout)
    if not isinstance(engine, Guarded) or layout.__class__ is not Layout:
        return layout

    def step(d: Any) -> Any:
        if d.__class__ is not ScaledBasis:
            return d
        stride = engine.stride
        for k in d.path:
            stride = stride[k]
        return ints.mul(d.value, bare(stride))

    return Layout(layout.shape, tuples.transform_leaf(step, layout.stride))
