"""Public names of cute_py.ops, for type checkers; from `_HOME`."""

from cute_py.kernels.config import GemmConfig as GemmConfig
from cute_py.kernels.config import choose_config as choose_config
from cute_py.ops.activations import activation as activation
from cute_py.ops.choice import gemm_config as gemm_config
from cute_py.ops.product import gemm as gemm
from cute_py.ops.reductions import reduce as reduce
from cute_py.ops.softmaxes import softmax as softmax
from cute_py.ops.transposes import transpose as transpose
from cute_py.ops.operator import Operator as _Operator
def operators() -> dict[str, _Operator]: ...
