"""The layouts, thread maps and threadblocks of CUTLASS 2.x by their names.

>>> from cute_py import cutlass2
>>> print(cutlass2.row_major((4, 8)))
(4,8):(8,1)
"""

from __future__ import annotations

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.layout.cutlass2.classical import *  # noqa: F403
    from cute_py.layout.cutlass2.tensorop import *  # noqa: F403
    from cute_py.tiled.thread_maps import *  # noqa: F403
    from cute_py.tiled.threadblocks import *  # noqa: F403

# module -> the public names that it defines
_HOME = {
    "layout.cutlass2.classical": (
        "affine_rank_2 affine_rank_n capacity column_major column_major_interleaved filter_krsc "
        "permuted pitch_linear pitched row_major row_major_interleaved tensor_bhmk tensor_bmhk "
        "tensor_dmhb tensor_ndhwc tensor_nhwc"
    ),
    "layout.cutlass2.tensorop": (
        "column_major_tensor_op_multiplicand_congruous "
        "column_major_tensor_op_multiplicand_crosswise "
        "row_major_tensor_op_multiplicand_congruous row_major_tensor_op_multiplicand_crosswise "
        "tensor_op_multiplicand tensor_op_multiplicand_congruous "
        "tensor_op_multiplicand_crosswise tensor_op_multiplicand_in_coordinates "
        "tensor_op_swizzle"
    ),
    "tiled.thread_maps": "stripmined_thread_map transposed_thread_map warp_raked_thread_map",
    "tiled.threadblocks": (
        "DefaultGemmConfiguration ThreadblockSwizzle batched_swizzle default_gemm_configuration "
        "identity_swizzle k_partition k_partition_by_floor"
    ),
}

__getattr__, __dir__ = lazy(__name__, _HOME)
