"""What an operator needs of the library of its arrays: NumPy, torch or CuPy.

Device arrays of other libraries (such as Numba) are viewed through torch or CuPy, whichever is in
use, and results go back to the caller's library.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cute_py.calls.arguments import typed
from cute_py.calls.arrays import (
    Table,
    TypedArray,
    dtype_of,
    imported,
    on_device,
    on_host,
    require_plain_values,
    strides_of,
    unwrapped,
)
from cute_py.calls.torch_tensors import NAMES, in_type, is_tensor, tensor_view
from cute_py.codegen.driver import driver
from cute_py.codegen.driver.streams import current_stream, device_of, own_stream, stream_number
from cute_py.dtypes.conversion import convert
from cute_py.dtypes.table import Dtype, from_numpy
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.errors import CuteError, DtypeError, refusal
from cute_py.ops import workspaces
from cute_py.ops.memory import require_arrays, require_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from cute_py.codegen.driver import Driver
    from cute_py.dtypes.table import Array, DtypeLike
    from cute_py.kernels.splits import Workspace
    from cute_py.ops.call import Call


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the tile rules depend on.

    Attributes:
        smem: shared memory that a block can have (bytes).
        multiprocessors: how many.
        capability: of its instructions, (9, 0) for example.
        name: as the driver tells it, "" if it is not known; not compared.
    """

    smem: int
    multiprocessors: int
    capability: tuple[int, int]
    name: str = field(default="", compare=False, repr=False)


class Words(NamedTuple):
    """What refusals of all operators say of one.

    Attributes:
        result: what it computes.
        parts: how to call it for less at a time.
        config: what a configuration may be.
    """

    result: str = "result"
    parts: str = "call it for parts of the arrays"
    config: str = 'what `explain` shows, or text: "threads=256"'


class Library:
    """One library and one place of its arrays; this base holds what GPU libraries share.

    Attributes:
        operation, words: the operator, for error messages.
        has_memory: whether arrays have addresses and values.
    """

    on_host, has_memory = False, True
    note: Callable[[Any], object] | None = None  # called with each array that a kernel wrote to

    def __init__(self, operation: str, words: Words | None = None) -> None:
        self.operation, self.words = operation, words or Words()

    def inside(self) -> AbstractContextManager[Any]:
        """Make the device of the arrays the current one for a block, where that matters."""
        return nullcontext()

    # -- arrays that are given

    def read(self, x: Any, name: str, dtype: DtypeLike | None = None) -> tuple[Any, Dtype]:
        """Return an array, and the type that its elements are to be read as."""
        self.require_plain(x, name)
        held, array = dtype_of(x), unwrapped(x)
        kind = held if dtype is None else as_dtype(dtype)
        return (array if held is kind else unwrapped(typed(array, kind))), kind

    def require_plain(self, x: Any, name: str) -> None:
        """Refuse words that hold packed elements, and tables of pointers."""
        packed = isinstance(x, TypedArray) and x.packed
        if packed or isinstance(x, Table):
            given = f"packed elements of {x.dtype}" if packed else type(x).__name__
            raise refusal("ops-array", operation=self.operation, name=name, value=given)

    def converted(self, x: Any, kind: Dtype) -> Any:
        """Return what `read` gave, in the type that it named."""
        return x

    def steps(self, x: Any) -> tuple[int, ...] | None:
        """Return the strides (elements); None where no kernel can read along them."""
        found = strides_of(x)
        return found if min(found, default=0) >= 0 else None

    def is_read_only(self, x: Any) -> bool:
        """Tell whether an array must not be written; a launch checks the others."""
        return False

    # -- views and new arrays

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with modes of size 1 repeated."""
        raise NotImplementedError

    def first(self, x: Any) -> Any:
        """Return the first matrix of [L, rows, columns]."""
        return x[0]

    def ordered(self, x: Any, modes: tuple[int, ...]) -> Any:
        """Return a view with the modes in another order."""
        return x.transpose(modes)

    def contiguous(self, x: Any) -> Any:
        """Return a copy whose last mode is contiguous."""
        return x.copy()

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Any:
        """Return a new array whose last mode is contiguous; to be called `inside`."""
        raise NotImplementedError

    def zeros(self, shape: tuple[int, ...], kind: Dtype) -> Any:
        """Return zeros whose last mode is contiguous; to be called `inside`."""
        made = self.empty(shape, kind)
        made[...] = 0
        return made

    def workspace(self, x: Any, wanted: Workspace, kind: Dtype) -> tuple[Any, Any]:
        """Return sums and locks for a kernel on the current stream of the device of an array."""
        return workspaces.new(self, wanted, kind)

    def seen_as(self, x: Any, kind: Dtype) -> Any:
        """Return bytes as elements of a type, on the same memory."""
        return x.view(kind.numpy)

    def assign(self, target: Any, x: Any) -> None:
        """Copy [L, rows, columns] to a matrix along its columns: by our kernel if it transposes."""
        if strides_of(x)[-1] == 1 or min(x.shape[1:]) == 1:
            target[...] = x
            return
        from cute_py.kernels.transpose import transpose_any

        for i in range(x.shape[0]):
            transpose_any(x[i].swapaxes(0, 1), target[i])

    def maker(self, shape: tuple[int, ...], kind: Dtype) -> Callable[[], Any]:
        """Return a function that does the same, anywhere."""

        def make() -> Any:
            with self.inside():
                return self.empty(shape, kind)

        return make

    # -- the work

    def gpu(self, x: Any) -> Gpu | None:
        """Return the facts of the GPU that holds an array; None for the host."""
        return gpu_holding(x)

    def require_room(self, *parts: tuple[tuple[int, ...], int]) -> None:
        """Refuse arrays that do not fit, each given as (shape, bits of an element)."""

    def run(self, call: Call, **options: Any) -> Any:
        """Run a call, and keep its launch; the options are those of `cute.emulate`."""
        assert not options, "a GPU has none"
        call.launched = call.kernel.launched(call.arguments)

    def written(self, x: Any) -> None:
        """Tell the library that a kernel wrote to an array, if it tracks that."""
        if self.note is not None:
            self.note(x)

    def given_back(self, result: Any, like: Any) -> Any:
        """Return a new array as one of the library of `like`, on the same memory."""
        return given_back(result, like, self.operation)


class Torch(Library):
    """torch, whose functions run on the device of their arrays."""

    def __init__(self, operation: str, words: Words, device: Any) -> None:  # a torch.device
        import torch

        super().__init__(operation, words)
        self.torch, self.device = torch, device
        # for autograd's version counters; torch 2.2 and newer
        self.note = getattr(torch.autograd.graph, "increment_version", None)

    def read(self, x: Any, name: str, dtype: DtypeLike | None = None) -> tuple[Any, Dtype]:
        """Return an array, not yet converted, and the type that is asked for, or its own."""
        self.require_plain(x, name)
        return unwrapped(x), dtype_of(x) if dtype is None else as_dtype(dtype)

    def converted(self, x: Any, kind: Dtype) -> Any:
        """Return an array in another type, keeping its order in memory."""
        return x if dtype_of(x).numpy == kind.numpy else in_type(x, kind)

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with modes of size 1 repeated."""
        return x.expand(shape)

    def first(self, x: Any) -> Any:
        """Return the first matrix of [L, rows, columns]."""
        return x.select(0, 0)

    def ordered(self, x: Any, modes: tuple[int, ...]) -> Any:
        """Return a view with the modes in another order."""
        return x.permute(modes)

    def contiguous(self, x: Any) -> Any:
        """Return an array whose last mode is contiguous."""
        return x.contiguous()

    def workspace(self, x: Any, wanted: Workspace, kind: Dtype) -> tuple[Any, Any]:
        """Return sums and locks of the current stream."""
        return workspaces.of_stream(self, x, wanted, kind)

    def seen_as(self, x: Any, kind: Dtype) -> Any:
        """Return bytes as elements of a type, on the same memory."""
        return x.view(getattr(self.torch, NAMES[kind.name]))

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Any:
        """Return a new array, on the device of the library."""
        return self.maker(shape, kind)()

    def maker(self, shape: tuple[int, ...], kind: Dtype) -> Callable[[], Any]:
        """Return a function that makes an array."""
        make, device = self.torch.empty_strided, self.device  # takes 0.6 of the time of `empty`
        dtype = getattr(self.torch, NAMES["f32" if kind.name == "tf32" else kind.name])
        strides: tuple[int, ...] = ()
        step = 1
        for n in reversed(shape):
            strides, step = (step, *strides), step * max(n, 1)
        return lambda: make(shape, strides, dtype=dtype, device=device)


class CuPy(Library):
    """CuPy, which allocates and copies on the current device, wherever its arrays are."""

    def __init__(self, operation: str, words: Words, device: Any) -> None:  # a cupy.cuda.Device
        import cupy

        super().__init__(operation, words)
        self.cupy, self.device = cupy, device

    def inside(self) -> AbstractContextManager[Any]:
        """Make the device the current one for a block."""
        found: AbstractContextManager[Any] = self.device
        return found

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Return a view with modes of size 1 repeated."""
        return self.cupy.broadcast_to(x, shape)

    def workspace(self, x: Any, wanted: Workspace, kind: Dtype) -> tuple[Any, Any]:
        """Return sums and locks of the current stream."""
        return workspaces.of_stream(self, x, wanted, kind)

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Any:
        """Return a new array on the current device."""
        return self.cupy.empty(shape, kind.numpy)


class NumPy(Library):
    """NumPy: values are converted, and kernels run on the emulator."""

    on_host = True

    def read(self, x: Any, name: str, dtype: DtypeLike | None = None) -> tuple[Any, Dtype]:
        """Return an array, not yet converted, and the type that is asked for, or its own."""
        self.require_plain(x, name)
        kind = x.dtype if isinstance(x, TypedArray) else None
        require_plain_parts(x, name)
        with reading(x, name, self.operation):
            array = np.asarray(unwrapped(x))
        if array.dtype.hasobject or array.dtype.kind in "USMmc":
            given = f"{type(x).__name__} of {array.dtype}"
            raise refusal("ops-array", operation=self.operation, name=name, value=given)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if dtype is not None:
            return array, as_dtype(dtype)
        try:
            return array, kind or from_numpy(array.dtype)
        except DtypeError:
            held = array.dtype
            raise refusal("ops-array", operation=self.operation, name=name, value=held) from None

    def converted(self, x: Array, kind: Dtype) -> Array:
        """Return an array in another type, keeping its order in memory."""
        if x.dtype == kind.numpy and kind.name != "tf32":
            return x
        if x.ndim > 1 and abs(x.strides[-2]) < abs(x.strides[-1]):
            return np.asarray(convert(x.swapaxes(-1, -2), kind, "to_nearest")).swapaxes(-1, -2)
        return np.asarray(convert(x, kind, "to_nearest"))

    def steps(self, x: Array) -> tuple[int, ...] | None:
        """Return the strides (elements); None where no kernel can read along them."""
        size = x.dtype.itemsize
        if not x.flags.aligned or any(d < 0 or d % size for d in x.strides):
            return None
        return tuple([d // size for d in x.strides])

    def is_read_only(self, x: Array) -> bool:
        """Tell whether an array must not be written."""
        return not x.flags.writeable

    def spread(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Return a view with modes of size 1 repeated."""
        return np.broadcast_to(x, shape)

    def empty(self, shape: tuple[int, ...], kind: Dtype) -> Array:
        """Return a new array."""
        return np.empty(shape, kind.numpy)

    def gpu(self, x: Array) -> None:
        """Return None: there is none."""

    def given_back(self, result: Array, like: Any) -> Any:
        """Return a new array as one of the library of `like`, on the same memory."""
        if not is_tensor(unwrapped(like)):
            return result
        return tensor_view(result, dtype_of(result))

    def require_room(self, *parts: tuple[tuple[int, ...], int]) -> None:
        """Refuse arrays that do not fit into the memory that is free."""
        require_arrays(self.operation, *parts, words=self.words)

    def run(self, call: Call, **options: Any) -> Any:
        """Return the report of the emulator, if that is asked for; without `checks` only addresses
        are checked. What is prepared for the call stays with it.
        """
        from cute_py.emulate import Prepared

        size = sum(x.array.nbytes for x in call.outputs)
        room = require_memory(self.operation, size, call.blocks, call.block_bytes, words=self.words)
        if not call.result.size:
            return None
        leaves, checks = call.leaves(), options.pop("checks", False)
        if call.prepared is None:
            call.prepared = Prepared(call.plan(), leaves, checks)
        return call.prepared(leaves, **{"memory": room} | options)


def of_one_library(
    arrays: dict[str, Any], operation: str, words: Words
) -> tuple[dict[str, Any], Library]:
    """Return arrays (or None) as those of one library, on the same memory, and that library.

    Args:
        arrays: by name; all of the host, or all of one GPU.
        operation: the operator, for error messages.
        words: of the same.

    """
    given = {name: x for name, x in arrays.items() if x is not None}
    if not any(map(on_device, given.values())):
        for name, x in given.items():
            require_plain_values(x, name)
        views = {name: on_host(x, name, operation) for name, x in given.items()}
        return arrays | views, NumPy(operation, words)
    views = {}
    for name, x in given.items():
        with reading(x, name, operation):
            views[name] = adopted(x, operation)
    first = unwrapped(next(iter(views.values())))
    library = Torch if is_tensor(first) else CuPy
    return arrays | views, library(operation, words, first.device)


def gpu_holding(array: Any) -> Gpu:
    """Return the facts of the GPU that holds an array."""
    return gpu_at(device_of(array))


def gpu_at(device: int) -> Gpu:
    """Return the facts of a GPU, by its number."""
    return _facts(driver(), device)


@lru_cache(maxsize=64)
def _facts(found: Driver, device: int) -> Gpu:
    major, minor, shared, processors = (found.limit(device, x) for x in LIMITS)
    return Gpu(shared, processors, (major, minor), found.name(device))


LIMITS = (
    "COMPUTE_CAPABILITY_MAJOR",
    "COMPUTE_CAPABILITY_MINOR",
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "MULTIPROCESSOR_COUNT",
)


LEGACY = 1  # the default stream, as 0 is; torch takes either number for a stream of its own


@contextmanager
def on_stream(x: Any, stream: Any, operation: str) -> Iterator[None]:
    """Make a stream of any library the current one of the library of an array, for a block; refuse
    one of another GPU, where its library says so.
    """
    array, number = unwrapped(x), stream_number(stream)
    theirs = getattr(getattr(stream, "device", None), "index", None)
    if theirs not in (None, device_of(array)):
        given = f"a stream of GPU {theirs} with arrays of GPU {device_of(array)}"
        raise refusal("ops-stream", operation=operation, given=given)
    if is_tensor(array):
        import torch

        its: Any = torch.cuda.default_stream(array.device)
        if number > LEGACY:
            its = torch.cuda.ExternalStream(number, array.device)
        with torch.cuda.stream(its):
            yield
        return
    import cupy

    with array.device, cupy.cuda.ExternalStream(number) if number else cupy.cuda.Stream.null:
        yield


# -- arrays of other libraries


class reading(NamedTuple):
    """Refuse x inside a `with` block where its interface raises something, or it is a list without
    a shape.
    """

    x: object
    name: str
    operation: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: object, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, CuteError):
            given = f"{type(self.x).__name__}, which cannot be read ({kind.__name__}),"
            facts = {"name": self.name, "value": given}
            raise refusal("ops-array", operation=self.operation, **facts) from None


def require_plain_parts(x: object, name: str) -> None:
    """Refuse masked arrays inside of lists: NumPy would drop their masks."""
    if isinstance(x, (list, tuple)):
        for part in x:
            require_plain_parts(part, name)
    else:
        require_plain_values(x, name)


LENDERS = {"torch": "as_tensor", "cupy": "asarray"}


def library_name(kind: type) -> str:
    """Return the name of the library that a type comes from."""
    return kind.__module__.partition(".")[0]


def adopted(x: Any, operation: str) -> Any:
    """Return a device array as one of torch or CuPy, on the same memory; None stays None.

    The GPU waits for what its own library put into a stream.
    """
    if isinstance(x, TypedArray):
        return replace(x, array=adopted(x.array, operation))
    x = imported(x)
    if x is None or library_name(type(x)) in LENDERS or hasattr(x, "is_cuda"):
        return x
    require_plain_values(x, "an operand")
    device, own = device_of(x), own_stream(x)
    view = _view(x, operation)
    if own is not None:
        _wait(device, current_stream(view, device)(), own)
    return view


def _view(x: Any, operation: str) -> Any:
    for name in sorted(LENDERS, key=lambda name: name not in sys.modules):
        try:
            library = import_module(name)
        except ImportError:
            continue
        return getattr(library, LENDERS[name])(x)
    raise refusal("ops-library", operation=operation, type=type(x).__name__)


def _wait(device: int, stream: int, other: int) -> None:
    if stream != other:
        with driver().inside(device):
            driver().wait(stream, other)


def given_back(result: Any, like: Any, operation: str) -> Any:
    """Return a result as an array of the library of `like`, on the same memory."""
    if library_name(type(unwrapped(like))) != "numba":
        return result
    from numba import cuda

    found = dtype_of(result)
    if found.numpy_name.startswith("ml_dtypes"):
        known = "a type that Numba has"
        raise refusal("ops-out-dtype", operation=operation, name="out", dtype=found, known=known)
    device = device_of(result)
    _wait(device, 0, current_stream(result, device)())  # Numba works on the default stream
    return cuda.as_cuda_array(result)  # type: ignore[no-untyped-call,unused-ignore]
