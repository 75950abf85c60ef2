"""The layouts, thread maps, default parts and threadblocks of CUTLASS 2.x by their names.

>>> from cute_py import cutlass2
>>> print(cutlass2.row_major((4, 8)))
(4,8):(8,1)
"""

from __future__ import annotations

from cute_py.lazy import lazy

# module -> the public names that it defines
_HOME = {
    "layout.cutlass2.classical": (
        "affine_rank_2 affine_rank_n capacity column_major column_major_interleaved filter_krsc "
        "packed_vector permuted pitch_linear pitched row_major row_major_interleaved "
        "tensor_bhmk tensor_bmhk tensor_dmhb tensor_ndhwc tensor_nhwc"
    ),
    "layout.cutlass2.tensorop": (
        "column_major_tensor_op_multiplicand_congruous "
        "column_major_tensor_op_multiplicand_crosswise "
        "row_major_tensor_op_multiplicand_congruous row_major_tensor_op_multiplicand_crosswise "
        "tensor_op_multiplicand tensor_op_multiplicand_congruous "
        "tensor_op_multiplicand_crosswise tensor_op_multiplicand_in_coordinates "
        "tensor_op_swizzle"
    ),
    "atoms.arch": (
        "ARCH_TAGS NumThreadsPerHalfWarp NumThreadsPerQuad NumThreadsPerQuadPair "
        "NumThreadsPerWarp NumThreadsPerWarpGroup NumWarpsPerWarpGroup"
    ),
    "tiled.thread_maps": (
        "ThreadMap raked_arrangement simt_transpose_padding stripmined_thread_map "
        "transposed_thread_map warp_raked_thread_map"
    ),
    "tiled.access_iterators": (
        "PredicateVector TileAccessDesc TileAccessParams predicate_vector tile_access_desc"
    ),
    "tiled.default_cores": (
        "MmaCore MmaPolicy SimtWarp default_instruction default_mma_core_simt "
        "default_mma_core_tensor_op default_mma_tensor_op default_operator simt_warp"
    ),
    "tiled.output_maps": (
        "OutputTileParams OutputTileShape OutputTileThreadMap RowArrangement "
        "default_thread_map_simt default_thread_map_tensor_op output_tile_thread_map "
        "row_arrangement"
    ),
    "tiled.epilogue_maps": (
        "EpilogueMap EpilogueParts default_epilogue_simt default_epilogue_tensor_op simt_epilogue "
        "tensor_op_epilogue"
    ),
    "tiled.threadblocks": (
        "DefaultGemmConfiguration ThreadblockSwizzle batched_swizzle default_gemm_configuration "
        "identity_swizzle k_partition k_partition_by_floor"
    ),
}

__getattr__, __dir__ = lazy(__name__, _HOME)
