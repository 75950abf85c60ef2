"""What CUTLASS 2.x asks of the machine: the multiprocessor, addresses of shared memory, and a
semaphore by which blocks take turns.
"""

from __future__ import annotations

from cute_py.dtypes.table import s32, u32
from cute_py.errors import refusal_here
from cute_py.layout.layout import Layout
from cute_py.layout.queries import rank
from cute_py.plan import ops
from cute_py.tensor.tensor import Tensor, derived, require_tensor
from cute_py.tensor.views import local_tile
from cute_py.trace.arithmetic import new_registers
from cute_py.trace.control import branch, wait_until
from cute_py.trace.inline import inline_ptx
from cute_py.trace.lower import access, register, require_own
from cute_py.trace.runtime_integers import compare
from cute_py.trace.state import emit
from cute_py.trace.threads import load_acquire, store_release, syncthreads, thread_idx_linear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cute_py.layout.types import Leaf


def smem_address(element: Tensor) -> Tensor:
    """Return the address of an element in the shared memory of its block (bytes), in a register of
    u32, as instructions in `inline_ptx` and descriptors want it.

    Args:
        element: a tensor of one element in shared memory, such as `sA[_][0:1]` or a tile of it;
            the first one of a larger tensor counts.

    Law: it is the offset in the window of shared memory, where the memory of the block begins at a
    multiple of 1024: at 0 on the emulator, behind what the system has on a GPU. Source:
    cutlass/arch/memory.h `cutlass_get_smem_pointer`; cute/arch/util.hpp `cast_smem_ptr_to_uint`.

    >>> # in a kernel: address = cute.smem_address(cute.smem("f32", 128))
    """
    found = require_tensor(element, "cute.smem_address")
    require_own(found, "cute.smem_address", "map it by cute.mapa in an access")
    if found.space != "smem":
        raise refusal_here("smem-address", operation="cute.smem_address", tensor=found)
    first = derived(found.engine.moved(found.layout(0)), Layout(1))
    held = new_registers(u32, 1, "address")
    src = access(first, 1, "cute.smem_address")
    emit(ops.SharedAddress, register(held, "cute.smem_address"), src)
    return held


class Semaphore:
    """A word of global memory by which blocks, or the clusters of a grid, take turns.

    Args:
        lock: a tensor of s32 in global memory; its first element is the word, 0 at first.
        thread: the index of the thread in its block; thread 0 alone accesses the lock. None:
            `thread_idx`.

    All threads of the block call `wait` and `release`. Source: cutlass/semaphore.h `Semaphore`.

    >>> # in a kernel: turn = cute.Semaphore(cute.local_tile(turns, (1,), (tile,)))
    >>> # turn.wait(z); ...; turn.release(z + 1)
    """

    def __init__(self, lock: Tensor, thread: Leaf | None = None) -> None:
        found = require_tensor(lock, "cute.Semaphore")
        if found.space != "gmem" or found.dtype is not s32:
            raise refusal_here("semaphore-lock", operation="cute.Semaphore", tensor=found)
        modes = rank(found.layout)
        self.lock = local_tile(found, (1,) * modes, (0,) * modes)
        self.first = compare("eq", thread_idx_linear() if thread is None else thread, 0)

    def fetch(self) -> Tensor:
        """Return the state of the lock in a register of thread 0, with acquire order, and -1 in
        those of the others.
        """
        state = new_registers(self.lock.dtype, 1, "state")
        state.fill(-1)
        with branch(self.first):
            state.fill(load_acquire(self.lock))
        return state

    def wait(self, status: Leaf = 0) -> None:
        """Wait until the lock is `status`, which all blocks that release it before have written."""
        with branch(self.first):
            wait_until(self.lock, "eq", status)
        syncthreads()

    def release(self, status: Leaf = 0) -> None:
        """Set the lock to `status`, after all that the threads of the block have written."""
        syncthreads()
        with branch(self.first):
            store_release(self.lock, status)


def sm_idx() -> Tensor:
    """Return the number of the multiprocessor on which the thread runs, in a register of u32: less
    than the number of multiprocessors, and no promise, as a thread may move. The emulator has one.

    Source: PTX ISA, %smid; cutlass/arch/arch.h `SmId`.

    >>> # in a kernel: here = cute.sm_idx()
    """
    none = new_registers(u32, 1, "none")
    none.fill(0)
    text = "{ .reg .u32 here; mov.u32 here, %%smid; add.u32 %0, here, %1; }"
    return inline_ptx(text, "u32", none, emulate=_on_the_only_one)


def _on_the_only_one(none: Any) -> Any:  # arrays
    return none.copy()
