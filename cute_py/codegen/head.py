"""What stands above a printed kernel: its parameters, memory and calls, as a docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cute_py.codegen.names import WORDS
from cute_py.plan.plan import ScalarParam

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cute_py.codegen.intrinsics import Intrinsics
    from cute_py.plan.plan import Plan, TensorParam

WIDTH = 100


def docstring(plan: Plan, file: str, intrinsics: Intrinsics, words: Iterable[str]) -> str:
    """Return the docstring of the file that holds a plan's kernel.

    Args:
        plan: what was printed.
        file: the name of the file with the kernel.
        intrinsics: of the plan.
        words: the first words of the intrinsics that the kernel calls.

    """
    lines = [
        f'"""{plan.name}: a Numba kernel, printed by cute_py from a plan.',
        "",
        "Each call is one op of the plan and emits its PTX. Behind it stand the line"
        f"{f' of {file}' if file else ''} and the op.",
        "Registers are tuples of 32-bit words, addresses numbers of bytes.",
        "cute.compile(plan, arch, source=text) compiles an edited copy of this text.",
        *_section("Launch", _launch(plan)),
        *_section("Parameters", map(_parameter, plan.params)),
        *_section(
            "Shared memory",
            (f"{s.name}: {s.dtype}[{s.count}] at byte {s.offset}" for s in plan.shared),
        ),
        *_section("Registers", _registers(plan, intrinsics)),
        *_section("Calls", (f"{word}_*: {WORDS[word]}" for word in WORDS if word in set(words))),
        '"""',
    ]
    return "\n".join(lines) + "\n"


def _section(title: str, rows: Iterable[str]) -> list[str]:
    listed = [f"    {row}" for row in rows]
    return ["", f"{title}:", *listed] if listed else []


def _launch(plan: Plan) -> Iterator[str]:
    for name, x in (("grid", plan.launch.grid), ("block", plan.launch.block)):
        yield f"{name}: ({', '.join(map(str, x))})"
    yield f"shared memory: {plan.smem_bytes} bytes"


def _parameter(p: TensorParam | ScalarParam) -> str:
    if isinstance(p, ScalarParam):
        return f"{p.name}: {p.dtype}"
    shape, stride = (",".join(map(str, x)) for x in (p.shape, p.stride))
    return f"{p.name}: address of {p.dtype} ({shape}):({stride}), a multiple of {p.alignment} bytes"


def _registers(plan: Plan, intrinsics: Intrinsics) -> Iterator[str]:
    """Give the storages; those of one type and size share a line."""
    alike: dict[str, list[str]] = {}
    for r in plan.storages:
        count = intrinsics.storages[r.name]
        kind = f"{r.dtype}[{r.count}] in {count} word{'s' * (count > 1)}"
        alike.setdefault(kind, []).append(r.name)
    for kind, names in alike.items():
        yield from wrapped(names, f": {kind}")


def wrapped(names: list[str], end: str) -> Iterator[str]:
    """Give names with commas, in lines of at most `WIDTH`, and the end behind the last."""
    line = ""
    for name in names:
        if line and len(line) + len(name) + len(end) > WIDTH - 8:
            yield f"{line},"
            line = ""
        line += f", {name}" if line else name
    yield line + end
