"""Packages whose names load on first use (PEP 562), so that importing them is fast."""

from __future__ import annotations

import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def lazy(
    package: str,
    homes: dict[str, str],
    found: Callable[[str], object] = lambda name: None,
    listed: Callable[[], Iterable[str]] = tuple,
    unlisted: Callable[[], Iterable[str]] = tuple,
    meant: Callable[[str], str] = lambda name: "",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; the former also provides `__all__`.

    Args:
        package: the `__name__` of the package.
        homes: for each module of cute_py the names that it defines, separated by spaces;
            `range=range_` is a name that the module spells differently.
        found: returns the value of any other name, or None; the value is not cached.
        listed: names of `found` that `dir` lists.
        unlisted: names of `found` that `dir` does not list, but that errors may suggest.
        meant: returns what to use in the place of a name, or "".

    An unknown name is an AttributeError, which suggests a similar name.
    """
    places = {}
    for module, defined in homes.items():
        for each in defined.split():
            name, _, there = each.partition("=")
            places[name] = (module, there or name)

    def get(name: str) -> Any:
        if name not in places:
            value = found(name)
            if value is None and name == "__all__":
                return public(places)
            if value is None:
                raise Unknown(package, name, lambda: {*places, *listed(), *unlisted()}, meant)
            return value
        module, there = places[name]
        value = getattr(__import__(f"cute_py.{module}", fromlist=[there]), there)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        special = [each for each in vars(sys.modules[package]) if each.startswith("__")]
        return sorted({*special, *places, *listed()})

    return get, names


def public(names: Iterable[str]) -> list[str]:
    """Return the public names that do not shadow a builtin under `import *`, sorted."""
    return sorted(each for each in names if each[0] != "_" and not hasattr(builtins, each))


class Unknown(AttributeError):
    """A name that a package does not have. The similar name is searched only when the error is
    shown, since an import probes packages for names of modules.
    """

    def __init__(
        self,
        package: str,
        name: str,
        known: Callable[[], Iterable[str]],
        meant: Callable[[str], str],
    ) -> None:
        # without name and obj, or the interpreter would add its own suggestion to the traceback
        super().__init__(f"module {package!r} has no attribute {name!r}", name=None, obj=None)
        self._name, self._known, self._meant = name, known, meant

    def __str__(self) -> str:
        from difflib import get_close_matches

        if use := self._meant(self._name):
            return f"{self.args[0]}; use {use}"
        known = () if self._name.startswith("_") else self._known()
        close = get_close_matches(self._name, known, n=1)
        return "; ".join([self.args[0], *(f"did you mean {each!r}?" for each in close)])

    def __reduce__(self) -> tuple[object, ...]:
        return AttributeError, (str(self),)


# what names of CUDA, Triton, CuTe DSL, NumPy and torch are called here (docs/coming_from.md)
_MEANT = """
    max, fmax: cute.maximum for values, cute.max_ for integers
    min, fmin: cute.minimum for values, cute.min_ for integers
    abs: Python's abs
    sum: cute.reduce("add", x) for the values of a thread, cute.warp_reduce for those of a warp
    argmax, argmin: cute.reduce("max", x), and a comparison with it
    pow, power: x * x, or cute.exp2(y * cute.log2(x))
    clamp, clip: cute.minimum(cute.maximum(x, low), high)
    round: x.to("s32", rounding="to_nearest")
    cast, astype: x.to(dtype)
    zeros, empty, full, array, zeros_like, empty_like, make_fragment:
        cute.rmem(dtype, layout) for registers, cute.smem(dtype, layout) for shared memory
    shared, shared_memory, alloc_smem, SmemAllocator, allocate_tensor: cute.smem(dtype, layout)
    load, store: cute.copy(source, destination), or x[i] for one element
    arange: cute.local_tile(x, (n,), (i,)), the i-th n elements
    dot, mma: cute.gemm(mma, accumulators, a, b)
    transpose, permute, T: cute.select(layout, (1, 0)) for a view, cute.ops.transpose for a copy
    reshape, view: cute.composition(layout, shape)
    softmax: cute.ops.softmax for arrays
    sigmoid, relu, silu: the activation="..." of cute.ops.gemm and cute.ops.activation
    tid, threadIdx, thread_id: cute.thread_idx()
    blockIdx, block_id, program_id, pid: cute.block_idx()
    blockDim, block_dim, gridDim, grid_dim, num_programs:
        the numbers that were passed to cute.launch(grid=..., block=...)
    lane_id, laneid: cute.lane_idx()
    warp_id, warpid: cute.warp_idx()
    barrier, sync, sync_threads, __syncthreads, debug_barrier:
        cute.syncthreads(), or cute.named_barrier for some of the threads
    elect_one_sync: with cute.elect(): ...
    shfl, shfl_sync, shfl_down, shfl_up, shfl_xor, shfl_idx: cute.shuffle
    ballot, any, all: cute.vote
    atomic_add, atomicAdd: cute.atomic("add", cute.local_tile(x, (1,), (i,)), value)
    atomic_max, atomicMax: cute.atomic("max", cute.local_tile(x, (1,), (i,)), value)
    atomicCAS: cute.atomic_cas
    cdiv: cute.ceil_div
    printf, device_print: cute.print("{}: {}", i, x)
    jit: @cute.kernel, which calls cute.launch(grid, block)
    constexpr, Constexpr: an argument of the kernel that is no array and has no dtype as annotation
    dynamic_range, for_range, range_dynamic: cute.range(n)
    range_constexpr, static_range, unroll: Python's range(n)
    arch, nvgpu: the functions of cute itself: cute.thread_idx(), cute.elect(), ...
    mbarrier: cute.mbarriers, or cute.pipeline for a ring of stages
    cp_async: cute.copy(tiled_copy, source, destination) with a copy atom for cp.async
    copy_if: cute.copy with pred=...
    autotune: cute.tune(cute.ops.gemm, a, b)
    float64, double: cute.f64
    float32, float, Float32: cute.f32
    float16, half, Float16: cute.f16
    bfloat16, BFloat16: cute.bf16
    float8_e4m3fn, Float8E4M3FN: cute.e4m3
    float8_e5m2, Float8E5M2: cute.e5m2
    int64, Int64: cute.s64
    int32, int, Int32: cute.s32
    int16, Int16: cute.s16
    int8, Int8: cute.s8
    int4, Int4: cute.s4
    uint64, Uint64: cute.u64
    uint32, Uint32: cute.u32
    uint16, Uint16: cute.u16
    uint8, Uint8: cute.u8
    bool, bool_, Boolean: cute.b1
"""


def names_elsewhere() -> dict[str, str]:
    """Return what to use, by name."""
    rows = (row.strip().partition(": ") for row in _MEANT.replace(":\n        ", ": ").splitlines())
    return {name: use for names, _, use in rows if use for name in names.split(", ")}


def meant(name: str) -> str:
    """Return what to use for a name of another library, "" if it is not known.

    >>> meant("cdiv"), meant("cdi")
    ('cute.ceil_div', '')
    """
    return names_elsewhere().get(name, "")
