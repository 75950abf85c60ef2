"""Launching compiled plans on device arrays: parameters, grid, shared memory, stream."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cute_py.codegen.source import names_of
from cute_py.errors import refusal
from cute_py.layout.polynomial import symbols_of
from cute_py.layout.symbols import terms_of
from cute_py.trace.arguments import TypedArray, address_of, dtype_of, on_device, strides_of
from cute_py.trace.plan import ScalarParam

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cute_py.codegen.build import Compiled
    from cute_py.errors import CuteError
    from cute_py.trace.conditions import Scalar
    from cute_py.trace.plan import TensorParam

_CTYPES = {"f32": ctypes.c_float, "f64": ctypes.c_double}


class Launcher:
    """A compiled plan in the memory of a device, ready to be called with arrays."""

    def __init__(self, compiled: Compiled) -> None:
        """Load the cubin into the current context."""
        from cuda.bindings import driver

        self.compiled, self.driver = compiled, driver
        plan = compiled.plan
        self.module = self._checked(driver.cuModuleLoadData(compiled.cubin))
        name = compiled.entry.encode()
        self.function = self._checked(driver.cuModuleGetFunction(self.module, name))
        if plan.smem_bytes > 48 * 1024:
            most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._checked(driver.cuFuncSetAttribute(self.function, most, plan.smem_bytes))
        self.grid = [_evaluator(x) for x in plan.launch.grid]

    def _checked(self, answer: tuple[Any, ...]) -> Any:  # noqa: ANN401
        if int(answer[0]):
            plan = self.compiled.plan
            raise refusal(
                "launch-failed", operation=plan.name, status=answer[0].name, launch=plan.launch
            )
        return answer[1] if len(answer) > 1 else None

    def __call__(self, *args: Any, stream: int = 0) -> None:  # noqa: ANN401
        """Launch with an array or number for each parameter of the plan."""
        values, kinds, env = self._arguments(args)
        grid = [int(size(env)) for size in self.grid]
        block = self.compiled.plan.launch.block
        answer = self.driver.cuLaunchKernel(
            self.function,
            *grid,
            *block,
            self.compiled.plan.smem_bytes,
            stream,
            (tuple(values), tuple(kinds)),
            0,
        )
        self._checked(answer)

    def _arguments(self, args: Sequence[Any]) -> tuple[list[Any], list[Any], dict[str, int]]:
        values: list[Any] = []
        kinds: list[Any] = []
        env: dict[str, int] = {}
        params = self.compiled.plan.params
        if len(args) != len(params):
            raise self._wrong("arguments", f"{len(args)} of {len(params)}")
        for p, arg in zip(params, args, strict=True):
            if isinstance(p, ScalarParam):
                values.append(arg)
                kinds.append(_CTYPES.get(p.dtype.name, ctypes.c_int64))
                env[p.name] = arg
                continue
            array = arg.array if isinstance(arg, TypedArray) else arg
            self._require_fit(p, arg)
            env |= {f"{p.name}_shape{i}": int(n) for i, n in enumerate(array.shape)}
            env |= {f"{p.name}_stride{i}": int(n) for i, n in enumerate(strides_of(array))}
            values.append(address_of(array))
            kinds.append(ctypes.c_uint64)
            for name in names_of(p):
                values.append(env[name])
                kinds.append(ctypes.c_int64)
        return values, kinds, env

    def _require_fit(self, p: TensorParam, arg: Any) -> None:  # noqa: ANN401
        """Refuse an array that is not what the plan was traced for."""
        if not on_device(arg):
            raise self._wrong(p.name, "an array that is not on the GPU")
        array = arg.array if isinstance(arg, TypedArray) else arg
        held = dtype_of(arg)
        if held is not p.dtype and held.numpy_name != p.dtype.numpy_name:
            raise self._wrong(p.name, f"{held}, traced for {p.dtype}")
        extents = tuple(array.shape), strides_of(array)
        for word, given, traced in zip(
            ("shape", "stride"), extents, (p.shape, p.stride), strict=True
        ):
            fits = len(given) == len(traced) and all(map(_admits, traced, given))
            if not fits:
                raise self._wrong(p.name, f"{word} {given}, traced for {_shown(traced)}")
        if address_of(array) % p.alignment:
            raise self._wrong(p.name, f"an address that is no multiple of {p.alignment} bytes")

    def _wrong(self, name: str, found: str) -> CuteError:
        plan = self.compiled.plan
        return refusal("launch-argument", operation=plan.name, name=name, found=found)


def _admits(traced: Scalar, given: int) -> bool:
    """Tell whether a size or stride is one that the plan was traced for."""
    if isinstance(traced, int):
        return given == traced
    (symbol,) = symbols_of(terms_of(traced))
    low = 0 if symbol.lo is None else symbol.lo * symbol.multiple_of
    return given >= low and given % symbol.multiple_of == 0


def _shown(traced: tuple[Scalar, ...]) -> str:
    return ", ".join(repr(x) for x in traced)


def _evaluator(x: Scalar) -> Callable[[dict[str, int]], int]:
    """Return a function of the sizes that gives an extent of the grid."""
    code = compile(str(x), "<grid>", "eval")
    functions = {"ceil_div": lambda a, b: -(-a // b), "min": min, "__builtins__": {}}
    return lambda env: eval(code, functions, env)
