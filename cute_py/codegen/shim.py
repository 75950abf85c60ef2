"""What numba-cuda 0.30 needs to be of use: the one place that patches.

It asks NumPy for a name that is gone, and drops the log of NVVM's errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Give NumPy back the name that numba-cuda asks for (numpy.row_stack, gone in 2.5), and NVVM's
    errors their log.
    """
    import numpy as np

    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010  (NumPy's types do not know it either)
    from numba.cuda.cudadrv.nvvm import CompilationUnit

    for name in ("verify", "compile"):
        method = getattr(CompilationUnit, name)
        if not hasattr(method, "without_log"):
            setattr(CompilationUnit, name, _with_log(method))


def _with_log(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a method of a CompilationUnit whose errors of NVVM hold its log as a note."""
    from numba.cuda.cudadrv.nvvm import nvvmError

    def called(unit: Any) -> Any:  # noqa: ANN401
        try:
            return method(unit)
        except nvvmError as error:
            error.add_note(unit.get_log().strip())
            raise

    called.without_log = method  # type: ignore[attr-defined]
    return called
