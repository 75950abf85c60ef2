"""What a user calls on arrays: it chooses a kernel and its configuration, and runs it."""

from __future__ import annotations

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.kernels.config import GemmConfig as GemmConfig
    from cute_py.kernels.config import choose_config as choose_config
    from cute_py.ops.gemm_families import gemm_config as gemm_config
    from cute_py.ops.product import gemm as gemm

# module -> the public names that it defines
_HOME = {
    "kernels.config": "GemmConfig choose_config",
    "ops.gemm_families": "gemm_config",
    "ops.product": "gemm",
}

__getattr__, __dir__ = lazy(__name__, _HOME)
