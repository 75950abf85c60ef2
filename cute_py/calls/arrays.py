"""Arrays of any library: their type, sizes, strides, address and device.

Device arrays of torch and CuPy are read through a `Library`, found by the exact type of the array.
It avoids slow attributes (`__cuda_array_interface__` of torch builds a dict).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

from cute_py.calls.torch_tensors import (
    dtype_of_torch,
    is_tensor,
    numpy_view,
    require_dense,
    require_no_gradient,
)
from cute_py.dtypes.conversion import strided
from cute_py.dtypes.table import Dtype, from_numpy
from cute_py.errors import refusal
from cute_py.integers.code import (
    assigned,
    constant,
    function,
    operation,
    path,
    returned,
    together,
    variable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from typing import Any, TypeAlias

    Path: TypeAlias = tuple[str, ...]

VECTOR_BYTES = 16  # the widest vector access; alignment beyond it makes no difference


@dataclass(frozen=True, slots=True)
class TypedArray:
    """An array whose elements are read as another type; see `cute.typed`.

    `packed`: the array holds words, whose elements of less than a byte are packed, low element
    first. `modes`: the shape and the strides in elements; None for those of the words.
    """

    array: Any
    dtype: Dtype
    packed: bool = False
    modes: tuple[tuple[int, ...], tuple[int, ...]] | None = None


class Table:
    """An array that is made of others; see `calls.tensor_array`.

    Attributes:
        array: the array that a kernel reads.
        members: the facts that the others share.
    """

    __slots__ = ("array", "members")
    array: Any
    members: Any

    def require(self, promise: Any) -> None:  # a Spec
        """Refuse a promise that the members do not keep."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Library:
    """How to read the device arrays of one library quickly.

    A path is a chain of attribute names, starting from the array; "()" calls the last one. From the
    paths, `replay` generates one function that reads all arguments of a call.

    Attributes:
        name: the name of the library.
        address: the path of the address.
        facts: the paths of the element type, shape, strides, device and the like. Two arrays of one
            type with equal facts and equal `address % 16` have the same launch except for their
            addresses.
        device: returns the number of the GPU that holds an array.
        stream: returns, for a device, a function that returns the library's current stream on it.
        current: returns the number of the current device.
        guard: returns, for given arrays, a function of as many arrays that returns whether they
            have the same types and facts. False negatives are allowed. None: comparing the
            facts is the fastest way.
        empty: returns a new array of 64-bit integers of a shape, next to an array.
        write: writes rows of such integers to it from a row on, on the current stream.
    """

    name: str
    address: Path
    facts: tuple[Path, ...]
    device: Callable[[Any], int]
    stream: Callable[[int], Callable[[], int]]
    current: Callable[[], int]
    guard: Callable[[Sequence[Any]], Callable[..., bool]] | None = None
    empty: Callable[[Any, tuple[int, int]], Any] | None = None
    write: Callable[[Any, int, list[list[int]]], object] | None = None

    def reader(self) -> Callable[[Any], tuple[Hashable, int]]:
        """Return the function that maps an array to (exact facts, address)."""
        rest = operation("address", "%", constant(VECTOR_BYTES))
        facts = together([*[path("x", fact) for fact in self.facts], rest])
        found = returned(together([facts, variable("address")]))
        return function(["x"], [assigned("address", path("x", self.address)), found], {})


LIBRARIES: dict[type, Library] = {}  # by the exact type of the arrays
READERS: dict[type, Callable[[Any], tuple[Hashable, int]]] = {}


def register(kind: type, library: Library) -> None:
    """Read arrays of a type through a library's functions from now on."""
    LIBRARIES[kind] = library
    READERS[kind] = library.reader()


def library_of(x: object) -> Library | None:
    """Return the library that handles a device array's type, or None."""
    kind = type(x)
    if kind not in LIBRARIES:
        maker = _MAKERS.get(kind.__module__.partition(".")[0])
        known = maker(kind) if maker is not None else None
        if known is not None:
            register(kind, known)
    return LIBRARIES.get(kind)


def unwrapped(x: Any) -> Any:
    """Return the array that is in memory: without the type that it is read as, or the table."""
    return x.array if isinstance(x, (TypedArray, Table)) else x


# -- torch and CuPy


def _torch(kind: type) -> Library | None:
    """Return torch as a library, for its own tensor types; subclasses may override anything."""
    import torch

    return _torch_library() if kind in (torch.Tensor, torch.nn.Parameter) else None


@lru_cache(maxsize=1)
def _torch_library() -> Library:
    import torch

    inner: Any = torch._C  # its raw functions cost a tenth of the public ones
    raw = getattr(inner, "_cuda_getCurrentRawStream", None)
    current = getattr(inner, "_cuda_getDevice", torch.cuda.current_device)

    def stream(device: int) -> Callable[[], int]:
        if raw is not None:
            return partial(raw, device)
        return lambda: int(torch.cuda.current_stream(device).cuda_stream)

    facts: tuple[Path, ...] = (
        ("dtype",),
        ("shape",),
        ("stride", "()"),
        ("get_device", "()"),
        ("is_neg", "()"),
        ("requires_grad",),  # the guards of torch compare it
    )
    return Library(
        "torch",
        ("data_ptr", "()"),
        facts,
        lambda x: int(x.get_device()),
        stream,
        current,
        _torch_guard(),
        lambda x, shape: torch.empty(shape, dtype=torch.int64, device=x.device),
        lambda x, first, rows: x[first : first + len(rows)].copy_(torch.tensor(rows)),
    )


def _torch_guard() -> Callable[[Sequence[Any]], Callable[..., bool]] | None:
    """Return `Library.guard` made from the guards of `torch.compile`.

    One call into C++ compares the types, dispatch keys (device type, negation), element types,
    devices, shapes and strides of all arrays, in a fifth of the time that it takes to read them.
    None if this torch has no such guards, or if they fail to distinguish arrays that differ.
    """
    try:
        from torch._C._dynamo.guards import TensorGuards
    except ImportError:
        return None

    def guard_of(*arrays: Any) -> Callable[..., bool]:
        made = TensorGuards(*arrays, dynamic_dims_sizes=[], dynamic_dims_strides=[])
        check: Callable[..., bool] = made.check
        return check

    def guard(arrays: Sequence[Any]) -> Callable[..., bool]:
        if len({id(x) for x in arrays}) == len(arrays):
            return guard_of(*arrays)
        checks = [guard_of(x) for x in arrays]  # one guard requires distinct arrays
        return lambda *given: all(check(x) for check, x in zip(checks, given, strict=True))

    return guard if _distinguishes(guard) else None


def _distinguishes(guard: Callable[[Sequence[Any]], Callable[..., bool]]) -> bool:
    """Return whether guards accept an equal array, and reject each that differs in one fact."""
    import torch

    try:
        whole = torch.zeros((2, 4), dtype=torch.complex64)
        x, others = whole.imag, [whole.conj().imag, whole.imag.T, whole.imag[:, :2], whole]
        others += [x.to(torch.float64), x.contiguous(), torch.nn.Parameter(x), x.to("meta")]
        same = guard([x])
        return same(x) and same(whole.imag) and not any(map(same, others))
    except (AttributeError, TypeError, RuntimeError):
        return False


def _cupy(kind: type) -> Library | None:
    import cupy

    return _cupy_library() if kind is cupy.ndarray else None


@lru_cache(maxsize=1)
def _cupy_library() -> Library:
    import cupy

    def stream(device: int) -> Callable[[], int]:
        return lambda: int(cupy.cuda.get_current_stream(device).ptr)

    def empty(x: Any, shape: tuple[int, int]) -> Any:
        with x.device:
            return cupy.empty(shape, cupy.int64)

    def write(x: Any, first: int, rows: list[list[int]]) -> None:
        with x.device:
            x[first : first + len(rows)] = cupy.asarray(rows, cupy.int64)

    current = cupy.cuda.runtime.getDevice
    facts = (("dtype",), ("shape",), ("strides",), ("data", "device_id"))
    return Library(
        "cupy",
        ("data", "ptr"),
        facts,
        lambda x: int(x.data.device_id),
        stream,
        current,
        empty=empty,
        write=write,
    )


def _read_typed(x: TypedArray) -> tuple[Hashable, int]:
    reader = READERS.get(x.array.__class__)
    if reader is None:
        return object(), 0  # equal to nothing: such a call is never in the cache
    facts, address = reader(x.array)
    return (x.dtype, x.packed, x.modes, facts), address


_MAKERS: dict[str, Callable[[type], Library | None]] = {"torch": _torch, "cupy": _cupy}
READERS[TypedArray] = _read_typed


# -- any array


def is_array(x: object) -> bool:
    """Return whether x is an array of some library, on the host or on a device."""
    if type(x) in READERS:
        return isinstance(x, (TypedArray, Table)) or getattr(x, "shape", ()) != ()
    return (
        not isinstance(x, type)  # numpy.float32 has all these attributes
        and hasattr(x, "shape")
        and hasattr(x, "dtype")
        and any(
            hasattr(x, name)
            for name in ("__array_interface__", "__dlpack__", "__cuda_array_interface__")
        )
        and not isinstance(x, (int, float))
        and getattr(x, "shape", ()) != ()
    )


def on_device(x: object) -> bool:
    """Return whether an array is in the memory of a GPU."""
    array = unwrapped(x)
    here = getattr(array, "is_cuda", None)  # torch
    if here is not None:
        return bool(here)
    if type(array) in LIBRARIES:
        return True
    return hasattr(array, "__cuda_array_interface__") and not hasattr(array, "__array_interface__")


def dtype_of(x: Any) -> Dtype:
    """Return the type of an array's elements."""
    if isinstance(x, TypedArray):
        return x.dtype
    kind = unwrapped(x).dtype
    if type(kind).__module__.partition(".")[0] == "torch":
        return dtype_of_torch(kind)
    return from_numpy(kind)


def strides_of(x: Any) -> tuple[int, ...]:
    """Return the strides of an array (elements)."""
    if callable(getattr(x, "stride", None)):  # torch
        return tuple(x.stride())
    size, strides = x.dtype.itemsize, _byte_strides(x)
    if min(strides, default=0) < 0 or any(d % size for d in strides):
        # the stride of a mode of one element is never used; NumPy leaves any number there
        strides = tuple([d if n > 1 else 0 for n, d in zip(x.shape, strides, strict=True)])
    for axis, step in enumerate(strides):
        if step % size:
            raise refusal("array-strides", operation="kernel", step=step, axis=axis, size=size)
    return tuple([d // size for d in strides])


def extents_of(x: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and the strides of an array (elements); of packed words, those of their
    elements: the contiguous mode has as many times more elements as fit a word.

    >>> import numpy as np
    >>> from cute_py.dtypes.table import s4
    >>> extents_of(TypedArray(np.zeros((3, 8), np.uint8), s4, packed=True))
    ((3, 16), (16, 1))
    """
    array = unwrapped(x)
    if not isinstance(x, TypedArray) or not x.packed:
        return tuple(array.shape), strides_of(array)
    if x.modes is not None:
        return x.modes
    shape, strides = tuple(array.shape), strides_of(array)
    unit = unit_mode(strides)
    if unit is None:
        raise refusal("argument-words", operation="kernel", strides=strides, dtype=x.dtype)
    each = array.dtype.itemsize * 8 // x.dtype.bits
    extents = [n * each if mode == unit else n for mode, n in enumerate(shape)]
    steps = [1 if mode == unit else d * each for mode, d in enumerate(strides)]
    return tuple(extents), tuple(steps)


def unit_mode(strides: tuple[int, ...]) -> int | None:
    """Return the last mode of stride 1, None if there is no such mode."""
    return next((i for i in range(len(strides) - 1, -1, -1) if strides[i] == 1), None)


def _byte_strides(x: Any) -> tuple[int, ...]:
    """Return the strides of an array (bytes); an interface without strides means compact."""
    strides: tuple[int, ...] | None = getattr(x, "strides", None)
    if strides is not None:
        return strides
    if not hasattr(x, "__cuda_array_interface__"):
        raise refusal("argument-strides", operation="kernel", type=type(x).__name__)
    strides = x.__cuda_array_interface__.get("strides")
    if strides is not None:
        return tuple(strides)
    step, found = x.dtype.itemsize, []
    for extent in reversed(x.shape):
        found.append(step)
        step *= extent
    return tuple(reversed(found))


def address_of(x: Any) -> int:
    """Return the address of the first element (bytes)."""
    library = LIBRARIES.get(type(x))
    if library is not None:
        return address_reader(library.address)(x)
    reader = READERS.get(type(x))
    if reader is not None:
        return reader(x)[1]
    if hasattr(x, "data_ptr"):
        return int(x.data_ptr())
    interface = getattr(x, "__cuda_array_interface__", None) or x.__array_interface__
    return int(interface["data"][0])


@lru_cache(maxsize=64)
def address_reader(steps: tuple[str, ...]) -> Callable[[Any], int]:
    """Return the function that returns the address of an array of a library: `Library.address`."""
    return function(["x"], path("x", steps), {})


def require_plain_values(x: Any, name: str) -> None:
    """Refuse an array whose memory does not hold its values unchanged."""
    if getattr(x, "is_neg", bool)():  # a lazily negated view, `z.conj().imag` of torch
        raise refusal("argument-negated", operation="kernel", name=name)
    if type(x) in LIBRARIES or hasattr(x, "is_cuda"):
        return
    interface = getattr(x, "__cuda_array_interface__", {})
    if interface.get("mask") is not None or type(x).__module__.startswith("numpy.ma"):
        raise refusal("argument-masked", operation="kernel", name=name)


def is_read_only(x: Any) -> bool:
    """Return whether the interface of a device array marks its memory as read-only."""
    if type(x) in LIBRARIES or hasattr(x, "is_cuda"):
        return False
    return bool(x.__cuda_array_interface__["data"][1])


# -- arrays that describe their memory through one protocol alone


class CudaArray:
    """An object that has the CUDA array interface alone, with the attributes of other arrays."""

    def __init__(self, owner: Any) -> None:
        import numpy as np

        interface = owner.__cuda_array_interface__
        self.owner, self.shape = owner, tuple(interface["shape"])
        self.dtype, self.strides = np.dtype(interface["typestr"]), interface.get("strides")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        found: dict[str, Any] = self.owner.__cuda_array_interface__
        return found


_CPU, _CUDA, _PINNED, _MANAGED = 1, 2, 3, 13  # DLDeviceType in dlpack.h
_OTHERS = ("strides", "stride", "__cuda_array_interface__")
PLAIN = frozenset({int, float, bool, str, type(None)})  # values that are no arrays


def imported(x: Any) -> Any:
    """Return x, or a view of it if it supports DLPack or the CUDA array interface alone; of a host
    tensor, the array that it is made of.
    """
    kind = type(x)
    if kind in PLAIN:
        return x
    if (kind.__module__, kind.__name__) == ("cute_py.tensor.tensor", "Tensor"):
        return _host_array(x)
    if is_tensor(x):
        require_dense(x)
    elif kind not in READERS and not isinstance(x, type):
        return _imported(x)
    return x


def _imported(x: Any) -> Any:
    kind = type(x)
    try:
        if not hasattr(x, "dtype") and hasattr(x, "__cuda_array_interface__"):
            return CudaArray(x)
        if not hasattr(kind, "__dlpack__") or library_of(x) is not None:
            return x
        if any(hasattr(x, name) for name in _OTHERS):
            return x
        where = x.__dlpack_device__()[0] if hasattr(kind, "__dlpack_device__") else _CPU
        if where in (_CPU, _PINNED):
            import numpy as np

            return np.from_dlpack(x)
    except Exception as error:  # of the object's own methods
        facts = {"type": kind.__name__, "reason": f"{type(error).__name__}: {error}"}
        raise refusal("argument-import", operation="kernel", **facts) from None
    if where in (_CUDA, _MANAGED):
        return _by_gpu_library(x)
    place = f"of DLPack type {int(where)}"
    raise refusal("argument-device", operation="kernel", type=kind.__name__, device=place)


def _host_array(x: Any) -> Any:  # a Tensor
    """Return the memory of a host tensor as an array, with the packed elements of less than a byte
    as `typed` returns them; other tensors, and those with nested modes, are returned unchanged.
    """
    found = x.host_memory()
    if found is None:
        return x
    memory, start, modes = found
    kind = x.dtype
    if x.element_bits < 8:
        at, rest = divmod(start * kind.bits, 8)
        if rest:
            raise refusal("argument-split", operation="kernel", tensor=x, dtype=kind)
        return TypedArray(memory.view("uint8")[at:], kind, True, modes)
    steps = tuple([d * memory.itemsize for d in modes[1]])
    array = strided(memory[start:], modes[0], steps)
    return array if from_numpy(array.dtype) is kind else TypedArray(array, kind)


def _by_gpu_library(x: Any) -> Any:
    """Return a torch or CuPy view of an array on a GPU: the library in use, else one installed."""
    import sys
    from importlib import import_module

    for name in sorted(_MAKERS, key=lambda name: name not in sys.modules):
        try:
            return import_module(name).from_dlpack(x)
        except ImportError:
            continue
    raise refusal("argument-dlpack", operation="kernel", type=type(x).__name__)


# -- arrays of the host


def on_host(x: Any, name: str, operation: str) -> Any:
    """Return a tensor of torch in host memory as a NumPy array on the same memory, other arrays
    unchanged; refuse a tensor that autograd follows.
    """
    if isinstance(x, TypedArray):
        return replace(x, array=on_host(x.array, name, operation))
    if not is_tensor(x) or on_device(x):
        return x
    require_no_gradient(x, name, operation)
    require_dense(x)
    require_plain_values(x, name)
    return numpy_view(x)
