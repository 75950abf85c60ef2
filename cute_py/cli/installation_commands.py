"""`cute-py doctor` and `cute-py cache`: what is installed and works, what to install, and what the
cache of compiled kernels holds.
"""

from __future__ import annotations

import sys

from cute_py.cli.output import as_json, refuse
from cute_py.errors import CuteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Iterator

    from cute_py.codegen.doctor import Fact

FAILED = 1  # the exit code where something that is needed does not work
ARCH = "sm_80"  # what the self-test compiles for without a GPU


def add_commands(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the commands `cache` and `doctor`."""
    command = commands.add_parser("cache", help="tell what the cache of compiled kernels holds")
    command.set_defaults(run=_cache)
    command.add_argument("--clear", action="store_true", help="remove all files of the cache")

    command = commands.add_parser("doctor", help="tell what is installed, and what to install")
    command.set_defaults(run=_doctor)
    command.add_argument("--gpu", action="store_true", help="exit with 1 unless a GPU works too")
    command.add_argument("--quick", action="store_true", help="leave out the self-tests")
    command.add_argument("--json", action="store_true", help="print the facts as JSON")


def _doctor(given: Namespace) -> int:
    from cute_py.codegen.doctor import EMULATOR, GPU, facts, works

    found = facts()
    if not given.quick:
        found += self_tests(found)
    sys.stdout.write(as_json(data(found)) if given.json else text(found))
    return 0 if works(found, GPU if given.gpu else EMULATOR) else FAILED


def self_tests(found: list[Fact]) -> list[Fact]:
    """Run a kernel on the emulator, compile it, and run it on a GPU if there is one."""
    from cute_py.codegen.doctor import EMULATOR, GPU, MISSING, OK, Fact, guarded

    def tested(name: str, needed: str, test: Callable[[], str]) -> list[Fact]:
        def probe() -> Iterator[Fact]:
            yield Fact(name, OK, test(), needed)

        return guarded(name, probe, needed)

    results = [*tested("emulator", EMULATOR, _emulated), *tested("compile", GPU, _compiled)]
    if any(fact.name.startswith("GPU ") for fact in found):
        return [*results, *tested("launch", GPU, _launched)]
    return [*results, Fact("launch", MISSING, "no GPU to launch on", GPU)]


def _emulated() -> str:
    from cute_py.ops.self_test import emulated

    return emulated()


def _compiled() -> str:
    from cute_py.codegen.driver import devices
    from cute_py.ops.self_test import compiled

    try:
        here = devices.devices(devices.load())
    except devices.DriverError:
        here = []
    return compiled(here[0].arch if here else ARCH)


def _launched() -> str:
    from cute_py.ops.self_test import launched

    return launched()


# -- what is printed


def data(found: list[Fact]) -> dict[str, object]:
    """Return what there is to say, for JSON."""
    from dataclasses import asdict

    from cute_py.codegen.doctor import EMULATOR, GPU, fixes, works

    return {
        "facts": [asdict(fact) for fact in found],
        "emulator": works(found, EMULATOR),
        "gpu": works(found, GPU),
        "install": fixes(found),
    }


def text(found: list[Fact]) -> str:
    """Return a line for each fact, whether emulator and GPU work, and what to do."""
    from cute_py.codegen.doctor import EMULATOR, GPU, failing, fixes

    marks, names = (max(map(len, x)) for x in zip(*[(f.mark, f.name) for f in found], strict=True))
    lines = [f"{fact.mark:<{marks}}  {fact.name:<{names}}  {fact.text}" for fact in found]
    lines.append("")
    for title, what in (("the emulator", EMULATOR), ("the GPU path", GPU)):
        lacks = ", ".join(failing(found, what))
        lines.append(f"{title} does not work: see {lacks}" if lacks else f"{title} works")
    if todo := fixes(found):
        lines += ["\nto do:", *[f"  {each}" for each in todo]]
    return "\n".join(lines) + "\n"


# -- cache


def _cache(given: Namespace) -> int:
    from cute_py.codegen.cache.files import place, require_private

    try:
        if place().exists():
            require_private(place())
        for label, text in _cleared() if given.clear else _held():
            print(f"{label:<8} {text}")
    except CuteError as error:
        return refuse(str(error))
    return 0


def _held() -> list[tuple[str, object]]:
    from cute_py.codegen.cache.files import ENTRY, is_on, kept, limit, place

    files = kept()
    kernels = sum(file.path.suffix == ENTRY for file in files)
    most = f"{limit()} bytes"
    return [
        ("folder", place()),
        ("entries", f"{kernels} kernels, {len(files)} files in all"),
        ("bytes", sum(file.size for file in files)),
        ("limit", most if is_on() else f"{most}; off, by CUTE_PY_CACHE=0"),
    ]


def _cleared() -> list[tuple[str, object]]:
    from cute_py.codegen.cache.files import clear, place

    count, size = clear()
    return [("folder", place()), ("removed", f"{count} files, {size} bytes")]
