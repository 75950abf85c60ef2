"""`Gemm`: a product that is prepared once and run often, and the `Status` of what it is asked.

Source: cutlass gemm/device/gemm.h, cutlass/cutlass.h.
"""

from __future__ import annotations

from contextlib import nullcontext
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from cute_py.atoms.arch import number
from cute_py.calls.arrays import (
    VECTOR_BYTES,
    TypedArray,
    address_of,
    dtype_of,
    imported,
    on_device,
    on_host,
    strides_of,
    unwrapped,
)
from cute_py.codegen.driver.streams import device_of
from cute_py.dtypes.table import s32
from cute_py.errors import CuteError, DtypeError, refusal
from cute_py.ops import workspaces
from cute_py.ops.call import overlap
from cute_py.ops.choice import choose
from cute_py.ops.libraries import adopted, reading
from cute_py.ops.operands import shown
from cute_py.ops.operator import STREAM
from cute_py.ops.product import GEMM

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.config import GemmConfig
    from cute_py.kernels.splits import Workspace
    from cute_py.ops.libraries import Library
    from cute_py.ops.product import Product


class Status(IntEnum):
    """What CUTLASS says of a request, by its names and numbers.

    >>> Status.WorkspaceNull, int(Status.WorkspaceNull), Status.Success.words
    (<Status.WorkspaceNull: 6>, 6, 'the product can be computed')
    """

    Success = 0
    MisalignedOperand = 1
    InvalidDataType = 2
    InvalidLayout = 3
    InvalidProblem = 4
    NotSupported = 5
    WorkspaceNull = 6
    Internal = 7
    ArchMismatch = 8
    InsufficientDriver = 9
    MemoryAllocation = 10
    Invalid = 11

    @property
    def words(self) -> str:
        """What it means."""
        return WORDS[self]

    @classmethod
    def of(cls, error: CuteError) -> Status:
        """Return the status of an error of this package."""
        if error.code == "gemm-config" and "vectors of at most" in str(error.facts.get("rule")):
            return cls.MisalignedOperand
        kind = cls.InvalidDataType if isinstance(error, DtypeError) else cls.Internal
        return next((x for x, codes in CODES.items() if error.code in codes), kind)


WORDS = {
    Status.Success: "the product can be computed",
    Status.MisalignedOperand: "an operand is less aligned than the kernel reads it",
    Status.InvalidDataType: "no kernel has these types",
    Status.InvalidLayout: "no kernel reads or writes an array as it is in memory",
    Status.InvalidProblem: "sizes or numbers that do not fit each other, or the configuration",
    Status.NotSupported: "an argument that no kernel has",
    Status.WorkspaceNull: "the workspace is missing or too small",
    Status.Internal: "the kernel could not be built or run",
    Status.ArchMismatch: "the GPU lacks an instruction",
    Status.InsufficientDriver: "the driver of the GPU is missing or too old",
    Status.MemoryAllocation: "memory is too small",
    Status.Invalid: "no status: nothing was asked",
}
CODES = {  # of errors
    Status.MisalignedOperand: ("launch-misaligned",),
    Status.InvalidDataType: ("ops-array",),
    Status.InvalidLayout: ("ops-overlap", "ops-read-only", "ops-family", "epilogue-overlap"),
    Status.InvalidProblem: (
        *("ops-rank", "ops-shapes", "ops-shape", "ops-factor", "ops-no-c", "gemm-config"),
        *("gemm-update", "ops-empty"),
    ),
    Status.NotSupported: ("ops-choice", "gemm-config-text", "ops-library", "config-shared"),
    Status.WorkspaceNull: ("gemm-workspace",),
    Status.ArchMismatch: ("codegen-arch", "codegen-arch-old", "codegen-lacks", "gemm-arch"),
    Status.InsufficientDriver: ("launch-driver",),
    Status.MemoryAllocation: ("ops-memory",),
}


class Answer(NamedTuple):
    """Whether a product can be computed.

    Attributes:
        status: the code.
        words: what is wrong, with what is required and how to fix it; or that all is well.
    """

    status: Status
    words: str


class Gemm:
    """A product that is prepared once and run often, as CUTLASS's device::Gemm.

    The configuration is chosen, and the workspace taken, before the first run; `update` only
    exchanges arrays and numbers. Errors are raised, but `can_implement` returns them as a status.

    >>> import numpy as np
    >>> a, b = np.ones((4, 64), np.float16), np.ones((64, 4), np.float16)
    >>> product = Gemm(a, b, config="split=serial:2")
    >>> product.can_implement().status, product.workspace_size()
    (<Status.Success: 0>, 4100)
    >>> product.initialize(np.empty(product.workspace_size(), np.uint8))
    >>> float(product.run()[0, 0]), float(product.update(a=2 * a).run()[0, 0])
    (64.0, 128.0)
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        """Take the arguments of `cute.ops.gemm`, for later; `stream` is that of all runs."""
        self._given = GEMM.arguments(*args, **named)
        self._stream = self._given.pop(STREAM, None)
        self._config: Any = None
        self._memory: Any = None
        self._clears = False
        self._operator, self._request = GEMM.requested(**self._given)

    def can_implement(self) -> Answer:
        """Return whether the product can be computed, as a status and in words."""
        try:
            with self._on(None):
                self._chosen()
        except CuteError as error:
            return Answer(Status.of(error), str(error))
        return Answer(Status.Success, Status.Success.words)

    def workspace_size(self) -> int:
        """Return how large the workspace is (bytes); 0 where none is needed."""
        return workspaces.bytes_of(*self._wanted(self._chosen()[1]))

    def initialize(self, workspace: Any = None, stream: Any = None) -> None:
        """Take a workspace, and clear its locks; the product keeps it.

        Args:
            workspace: an array of bytes (u8), where the operands are, of `workspace_size` at least,
                that begins at a multiple of 16 and shares no memory with an array of the product.
                Products whose kernels are on one stream may share one. None where none is needed.
            stream: on which the locks are cleared; None: as `run` has it.

        Without this, `run` takes one of the operands' library.
        """
        with self._on(stream):
            library, problem = self._chosen()
            wanted, kind = self._wanted(problem)
            if wanted is None:
                return
            size = workspaces.bytes_of(wanted, kind)
            memory = self._required(library, problem, workspace, size)
            self._memory, self._clears = memory, False
            self._note_shared((address_of(memory), wanted, kind))
            with library.inside():
                workspaces.within(library, memory, wanted, kind)[1][...] = 0

    def update(self, **named: Any) -> Gemm:
        """Exchange arrays and numbers, by their names, for others that are alike; return this.

        An array must have the type, shape and strides of the one before, and be as aligned.
        """
        numbers = self._operator.numbers
        arrays = [x for x, y in self._given.items() if hasattr(y, "shape")]
        known = dict.fromkeys((*self._operator.arrays, *numbers, *arrays))
        for name, x in named.items():
            if name not in known:
                self._operator.refuse(name, x, f"a name among {', '.join(known)}")
            if name in numbers and not getattr(x, "shape", ()):
                continue
            new, old = _facts_of(name, x), _facts_of(name, self._given.get(name))
            if new != old or name in numbers:
                given = f"{name} of {_told(new)} in place of {_told(old)}"
                raise refusal("gemm-update", operation=UPDATE, given=given)
        exchanged = self._given | named  # a factor that is no longer 0 may need another operator
        self._operator, self._request = GEMM.requested(**exchanged)
        self._given = exchanged
        return self

    def run(self, stream: Any = None) -> Any:
        """Compute the product and return it as `cute.ops.gemm` does, in `out` if that was given.

        Args:
            stream: of the GPU, of any library or as a number; None: the one that the product was
                made with, or else the current one.

        """
        with self._on(stream):
            library, problem = self._chosen()
            with library.inside():
                if problem.is_known:
                    return problem.whole(problem.without_kernel(self._request), self._given)
                self._prepare(library, problem)
                checks = {"checks": self._request.checks} if library.on_host else {}
                result = problem.call().run(**checks)
                self._operator.note_outputs(self._request, library)
                return problem.whole(problem.given_back(self._request, result), self._given)

    def __call__(self, stream: Any = None) -> Any:
        """Do the same as `run`."""
        return self.run(stream)

    def _on(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a stream the current one for a block; None: that of all runs, if there is one."""
        stream = self._stream if stream is None else stream
        if stream is None:
            return nullcontext()
        return self._operator.on(stream, self._request[: len(self._operator.arrays)])

    def _chosen(self) -> tuple[Library, Product]:
        """Return the library of the arrays and the problem, with the configuration that is chosen
        when this is called first.
        """
        request, library = self._operator.taken(self._request)
        with library.inside():
            problem: Any = self._operator.problem(request, library)
            problem.require_whole(self._operator, self._request, self._given)
            problem.memory = self._memory
            if self._config is None and 0 not in problem.shape:
                found = choose(problem)
                _require_arch(found.config, problem)
                self._config = found.config.because(*found.why())
                self._given["config"] = self._config
                self._request = self._request._replace(config=self._config)
                problem.request = request._replace(config=self._config)
        return library, problem

    # -- the workspace

    def _wanted(self, problem: Product) -> tuple[Workspace | None, Dtype]:
        """Return the workspace that the product takes, and the type of the sums."""
        return (None, s32) if self._config is None else problem.workspace(self._config)

    def _required(self, library: Library, problem: Product, workspace: Any, size: int) -> Any:
        """Return a workspace as bytes of the library; refuse what is none."""
        given = "no workspace"
        if workspace is not None:
            both = ("a", self._request.a), ("workspace", workspace)
            self._operator.require_place({name: on_device(x) for name, x in both}, "auto")
            if library.on_host:
                x = on_host(imported(workspace), "workspace", INITIALIZE)
            else:
                x = adopted(workspace, INITIALIZE)
                first = device_of(self._request.a)
                self._operator.require_one_gpu({"a": first, "workspace": device_of(x)})
            given = type(x).__name__
            if hasattr(x, "shape") and hasattr(x, "dtype"):
                given = _told((dtype_of(x), tuple(x.shape)))
            if _is_workspace(x, size):
                if not library.is_read_only(x):
                    self._require_apart(problem, x, size)
                    return x
                given = "an array that cannot be written"
        raise _no_workspace(given, size)

    def _require_apart(self, problem: Product, memory: Any, size: int) -> None:
        """Refuse a workspace that shares memory with an array of the product."""
        held = problem.request._asdict() | {x: self._given.get(x) for x in problem.combined}
        for name, x in held.items():
            array = unwrapped(x)
            if hasattr(array, "shape") and overlap(memory, array):
                raise _no_workspace(f"a workspace that shares memory with {name}", size)

    def _note_shared(self, layout: tuple[Any, ...]) -> None:
        """Remember where the locks are; where others have theirs elsewhere in the same memory, the
        sums of one are on the locks of another.
        """
        self._layout = layout
        for other in _with_workspaces:
            if layout != other._layout and overlap(self._memory, other._memory):
                self._clears = other._clears = True
        _with_workspaces.add(self)

    def _prepare(self, library: Library, problem: Product) -> None:
        """Refuse arrays that share memory with the caller's workspace, and clear its locks where
        another product, or a run on the host that was stopped, may have left something there.
        """
        wanted, kind = self._wanted(problem)
        if self._memory is None or wanted is None:
            return
        self._require_apart(problem, self._memory, workspaces.bytes_of(wanted, kind))
        if self._clears or library.on_host:
            workspaces.within(library, self._memory, wanted, kind)[1][...] = 0


INITIALIZE, UPDATE = "cute.ops.Gemm.initialize", "cute.ops.Gemm.update"
_with_workspaces: WeakSet[Gemm] = WeakSet()


def _is_workspace(x: Any, size: int) -> bool:
    """Tell whether x is `size` bytes in one mode at least, that begin at a multiple of 16."""
    if not hasattr(x, "shape") or isinstance(x, TypedArray) or dtype_of(x).name != "u8":
        return False
    flat = len(x.shape) == 1 and strides_of(x) == (1,)
    return flat and x.shape[0] >= size and address_of(x) % VECTOR_BYTES == 0


def _no_workspace(given: str, size: int) -> CuteError:
    facts: dict[str, Any] = {"given": given, "size": size, "bytes": VECTOR_BYTES}
    return refusal("gemm-workspace", operation=INITIALIZE, **facts)


def _require_arch(config: GemmConfig, problem: Product) -> None:
    """Refuse a configuration whose instruction the GPU lacks."""
    least = config.mma_atom.min_arch
    if problem.gpu is None:
        return
    major, minor = problem.gpu.capability
    has, exact = 10 * major + minor, least.endswith("a")
    if has < number(least) or (exact and has != number(least)):
        given = f"{config.mma_atom} on a GPU of compute capability {major}.{minor}"
        raise refusal("gemm-arch", operation="cute.ops.Gemm", given=given, least=least)


def _facts_of(name: str, x: Any) -> Any:
    """Return what an array must have in common with the one that it takes the place of."""
    if x is None:
        return None
    with reading(x, name, UPDATE):
        x = imported(x)
        if on_device(x):
            return dtype_of(x), tuple(x.shape), strides_of(unwrapped(x)), _place(x), True
        x = on_host(x, name, UPDATE)
        array = np.asarray(unwrapped(x))
        kind = dtype_of(x if hasattr(x, "dtype") else array)
        return kind, array.shape, array.strides, _place(array), False


def _place(x: Any) -> int:
    return address_of(x) % VECTOR_BYTES


def _told(facts: Any) -> str:
    return f"an array of {facts[0]} of shape {shown(facts[1])}" if facts else "none"
