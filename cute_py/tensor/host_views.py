"""What a tensor in host memory has in common with CUTLASS's HostTensor: its copy on a GPU.

Source: cutlass util/host_tensor.h.
"""

from __future__ import annotations

from cute_py.errors import refusal
from cute_py.integers import ints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import LayoutLike
    from cute_py.tensor.tensor import Tensor


def _memory() -> Any:  # the module
    from importlib import import_module  # a tensor loads no driver

    return import_module("cute_py.codegen.device_memory")


class HostViews:
    """Methods of tensors in host memory, as `make_host_tensor` returns them.

    Without a GPU, the memory of the host stands in for that of a device, as the emulator does for
    the GPU: `device_view` is the tensor, and the syncs do nothing.
    """

    __slots__ = ()

    def host_view(self: Any) -> Tensor:
        """Return the tensor itself, over the memory of this process.

        >>> from cute_py import make_host_tensor
        >>> print(make_host_tensor((2, 2), "f32", 1).host_view().to_numpy().sum())
        4.0
        """
        self._require_host("host_view")
        return self  # type: ignore[no-any-return]

    def device_view(self: Any) -> Any:  # an array, or the tensor
        """Return an array on the GPU for kernels, a copy of this tensor's memory that all views of
        that memory share. It is made, with what is on the host, the first time, and freed with the
        memory of the host.

        Raises LayoutError for tensors of other memory, and for layouts with nested modes.
        """
        return _memory().device_view(self)

    @property
    def device_backed(self: Any) -> bool:
        """Whether there is a copy of the tensor's memory on a GPU.

        >>> from cute_py import make_host_tensor
        >>> make_host_tensor((2, 2), "f32").device_backed
        False
        """
        self._require_host("device_backed")
        return bool(_memory().on_device(self) is not None)

    def sync_device(self: Any) -> None:
        """Copy the whole memory of the tensor to the GPU, after all work there is done."""
        _memory().sync_device(self)

    def sync_host(self: Any) -> None:
        """Copy the memory back from the GPU, after all work there is done; without a copy there, do
        nothing.
        """
        _memory().sync_host(self)

    def reset(self: Any, layout: LayoutLike) -> Tensor:
        """Return a tensor of another layout, over the same memory where it is large enough, else
        over new zeros.

        >>> from cute_py import make_host_tensor
        >>> tensor = make_host_tensor((4, 6), "f32", 1)
        >>> print(tensor.reset((3, 8)), tensor.reset((3, 8)).to_numpy().sum())
        host_ptr[32b](0) o (3,8):(1,3) 24.0
        >>> print(tensor.reset((5, 5)).to_numpy().sum())
        0.0
        """
        from cute_py.tensor.tensor import Tensor, as_layout

        self._require_host("reset")
        found = as_layout(layout, "reset")
        needed = ints.as_int(found.cosize(), "reset")
        start = self.engine.at(0)
        return Tensor(start if needed <= start.size else _allocated(self, needed), found)

    def reserve(self: Any, count: int) -> Tensor:
        """Return a tensor of the same layout over memory of at least `count` elements: its own
        where that is large enough, else new zeros.

        >>> from cute_py import make_host_tensor
        >>> tensor = make_host_tensor((2, 2), "s4", -1).reserve(7)
        >>> tensor.engine.memory.nbytes, tensor.engine.size
        (4, 8)
        """
        from cute_py.tensor.tensor import Tensor

        self._require_host("reserve")
        needed = ints.as_int(ints.normalize(count, "reserve"), "reserve")
        if needed <= self.engine.size:
            return self  # type: ignore[no-any-return]
        return Tensor(_allocated(self, max(needed, int(self.cosize()))), self.layout)

    def _require_host(self: Any, operation: str) -> None:
        if self.space != "host":
            raise refusal("host-only", operation=operation, tensor=self)


def _allocated(tensor: Tensor, count: int) -> Any:  # an Engine
    from cute_py.tensor.host_engine import allocate

    return allocate(tensor.dtype, count)
