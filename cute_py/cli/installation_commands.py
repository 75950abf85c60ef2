"""`cute-py doctor`, `cache` and `completion`: what works here, what to install, what the cache of
compiled kernels holds, and what a shell needs to complete commands.
"""

from __future__ import annotations

import sys
from argparse import _SubParsersAction
from dataclasses import asdict

from cute_py.atoms.arch import ARCHS
from cute_py.atoms.registry import copy_rows
from cute_py.atoms.registry import names as atom_names
from cute_py.cli.main import _parser
from cute_py.cli.output import as_json
from cute_py.codegen.cache.files import ENTRY, clear, is_on, kept, limit, place, require_private
from cute_py.codegen.doctor import (
    EMULATOR,
    GPU,
    MISSING,
    OK,
    Fact,
    facts,
    failing,
    fixes,
    guarded,
    works,
)
from cute_py.codegen.driver import devices
from cute_py.codegen.instructions import TARGETS
from cute_py.dtypes.table import NAMES
from cute_py.errors import CuteError, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

FAILED = 1  # the exit code where something that is needed does not work
SHELLS = ("bash", "zsh", "fish", "tcsh")
ARCH = "sm_80"  # what the self-test compiles for without a GPU


def add_cache(command: ArgumentParser) -> None:
    """Add the arguments of `cache`."""
    command.set_defaults(run=_cache)
    command.add_argument("--clear", action="store_true", help="remove all files of the cache")


def add_doctor(command: ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    command.set_defaults(run=_doctor)
    command.add_argument("--gpu", action="store_true", help="exit with 1 unless a GPU works too")
    command.add_argument("--quick", action="store_true", help="leave out the self-tests")
    command.add_argument("--json", action="store_true", help="print the facts as JSON")


def add_completion(command: ArgumentParser) -> None:
    """Add the arguments of `completion`."""
    command.set_defaults(run=_completion)
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def _doctor(given: Namespace) -> int:
    found = facts()
    if not given.quick:
        found += self_tests(found)
    sys.stdout.write(as_json(data(found)) if given.json else text(found))
    return 0 if works(found, GPU if given.gpu else EMULATOR) else FAILED


def self_tests(found: list[Fact]) -> list[Fact]:
    """Run a kernel on the emulator, compile it, and run it on a GPU if there is one."""

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
    return {
        "facts": [asdict(fact) for fact in found],
        "emulator": works(found, EMULATOR),
        "gpu": works(found, GPU),
        "install": fixes(found),
    }


def text(found: list[Fact]) -> str:
    """Return a line for each fact, whether emulator and GPU work, and what to do."""
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


def _cache(given: Namespace) -> None:
    if place().exists():
        require_private(place())
    for label, text in _cleared() if given.clear else _held():
        print(f"{label:<8} {text}")


def _held() -> list[tuple[str, object]]:
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
    count, size = clear()
    return [("folder", place()), ("removed", f"{count} files, {size} bytes")]


# -- completion


def _completion(given: Namespace) -> None:
    try:
        import shtab
    except ImportError:
        raise _without_shtab("no package shtab", given.shell) from None
    if given.shell not in shtab.SUPPORTED_SHELLS:
        raise _without_shtab(f"shtab {shtab.__version__}, an older one", given.shell)
    parser = _parser()
    _offer(parser, _offers())
    sys.stdout.write(shtab.complete(parser, given.shell) + "\n")


def _without_shtab(found: str, shell: str) -> CuteError:
    return refusal("cli-shtab", operation="completion", found=found, shell=shell)


def _offers() -> dict[str, dict[str, object]]:
    """Return what is set of an argument for shtab, by its destination."""
    import shtab

    files = ("a", "b", "c", "bias", "output")
    return {
        "atom": {"choices": atom_names()},
        "op": {"choices": tuple(map(str, copy_rows()))},
        "dtype": {"choices": tuple(NAMES)},
        "out_dtype": {"choices": tuple(NAMES)},
        "arch": {"choices": tuple(dict.fromkeys((*ARCHS, *TARGETS)))},
        "out": {"complete": shtab.DIRECTORY},
        **{name: {"complete": shtab.FILE} for name in files},
    }


def _offer(parser: ArgumentParser, offers: dict[str, dict[str, object]]) -> None:
    """Set what shtab offers for the arguments of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            for command in action.choices.values():
                _offer(command, offers)
        elif action.nargs != 0:
            for name, value in offers.get(action.dest, {}).items():
                setattr(action, name, value)
