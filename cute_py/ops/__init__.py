"""What a user calls on arrays: it chooses a kernel and its configuration, and runs it."""

from __future__ import annotations

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.kernels.config import GemmConfig as GemmConfig
    from cute_py.kernels.config import choose_config as choose_config
    from cute_py.ops.activations import activation as activation
    from cute_py.ops.choice import gemm_config as gemm_config
    from cute_py.ops.operator import Operator
    from cute_py.ops.product import gemm as gemm
    from cute_py.ops.reductions import reduce as reduce
    from cute_py.ops.softmaxes import softmax as softmax
    from cute_py.ops.transposes import transpose as transpose

# module -> the public names that it defines
_HOME = {
    "kernels.config": "GemmConfig choose_config",
    "ops.activations": "activation",
    "ops.choice": "gemm_config",
    "ops.product": "gemm",
    "ops.reductions": "reduce",
    "ops.softmaxes": "softmax",
    "ops.transposes": "transpose",
}

__getattr__, __dir__ = lazy(__name__, _HOME)


def operators() -> dict[str, Operator]:
    """Return all operators, by their names here."""
    from cute_py.ops.operator import REGISTRY

    for names in _HOME.values():
        for name in names.split():
            __getattr__(name)
    return REGISTRY
