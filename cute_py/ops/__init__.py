"""What a user calls on arrays: it chooses a kernel and its configuration, and runs it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.kernels.gemm import GemmConfig as GemmConfig
    from cute_py.ops.choose import choose_config as choose_config
    from cute_py.ops.product import gemm as gemm

_HOME = {
    "GemmConfig": "cute_py.kernels.gemm",
    "choose_config": "cute_py.ops.choose",
    "gemm": "cute_py.ops.product",
}

__all__ = ["GemmConfig", "choose_config", "gemm"]


def __getattr__(name: str) -> object:
    """Import the module that defines `name` (PEP 562), and keep the name here."""
    if name not in _HOME:
        raise AttributeError(f"module 'cute_py.ops' has no attribute {name!r}")
    value = getattr(__import__(_HOME[name], fromlist=[name]), name)
    globals()[name] = value
    return value
