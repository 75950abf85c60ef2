"""`cute-py doctor`: what is installed, which GPU there is, what works, and what to install."""

from __future__ import annotations

import sys

from cute_py.cli.output import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace, _SubParsersAction
    from collections.abc import Callable, Iterator

    from cute_py.codegen.doctor import Fact

FAILED = 1  # the exit code where something that is needed does not work
ARCH = "sm_80"  # what the self-test compiles for without a GPU


def add_commands(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add the command `doctor`."""
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
