"""What a kernel's lines make: `layouts`, a table of all tensors with who holds which element, and
`see`, the same as a page with pictures.
"""

from __future__ import annotations

import sys
from types import ModuleType

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.see.page import Page

# module -> the public names that it defines
_HOME = {"see.page": "Page see"}

__getattr__, __dir__ = lazy(__name__, _HOME)


class _CallableModule(ModuleType):
    def __call__(self, kernel: object, *args: object, **named: object) -> Page:
        """Return a kernel as a page; see `see`."""
        page: Page = self.see(kernel, *args, **named)
        return page


sys.modules[__name__].__class__ = _CallableModule
