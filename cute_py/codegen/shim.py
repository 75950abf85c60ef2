"""What numba-cuda 0.30 needs to work with NumPy 2.5 and later: the one place that patches."""

from __future__ import annotations


def install() -> None:
    """Give NumPy back the name that numba-cuda asks for (numpy.row_stack, gone in 2.5)."""
    import numpy as np

    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010  (NumPy's types do not know it either)
