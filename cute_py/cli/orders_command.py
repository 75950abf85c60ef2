"""`cute-py check-orders FILE.py:KERNEL`: whether a kernel is right in every order."""

from __future__ import annotations

from cute_py.cli.arguments import count, real
from cute_py.cli.gemm_command import WRONG
from cute_py.cli.kernel_call import add_call, call_of
from cute_py.emulate.orders.check import check_orders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_check_orders(command: ArgumentParser) -> None:
    """Add the arguments of `check-orders`."""
    add_call(command)
    command.add_argument("--most", type=count, default=1000, help="the most runs (1000)")
    command.add_argument("--seconds", type=real, default=60, help="no run begins after them (60)")
    command.add_argument(
        "--resident", type=count, metavar="N", help="blocks that run at a time (as on an H100)"
    )
    command.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    kernel, *arguments = call_of(given)
    found = check_orders(
        kernel, *arguments, most=given.most, seconds=given.seconds, resident=given.resident
    )
    print(found)
    return 0 if found.proved else WRONG
