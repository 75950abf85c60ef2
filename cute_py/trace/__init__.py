"""The kernel DSL: `cute.trace(kernel, *args)` records a Python function as a plan.

This package is itself callable, so `cute.trace(...)` works however the package was imported.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.plan.plan import Plan
    from cute_py.trace.kernel import Kernel


class _CallableModule(ModuleType):
    def __call__(self, kernel: Kernel, *args: object, **named: object) -> Plan:
        """Return the plan of a kernel for arguments like these; see `kernel.trace`."""
        from cute_py.errors import CuteError, shorten
        from cute_py.trace.kernel import trace

        try:
            return trace(kernel, *args, **named)
        except CuteError as error:
            shorten(error)
            raise


sys.modules[__name__].__class__ = _CallableModule
