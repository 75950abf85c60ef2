"""CuTe-style layout algebra in Python; import it as `import cute_py as cute`.

Names are resolved on first use (PEP 562), so that the import costs next to nothing.
"""

from __future__ import annotations

from time import time_ns as _now

__version__ = "0.1.0"
_loaded_at = _now()  # a module that is newer may not be the one that runs; see codegen.cache_key

# module -> the public names that it defines
_HOME = {
    "errors": (
        "CoordinateError CuteError DtypeError EmulationError LayoutError LeafTypeError ParseError "
        "TraceError UndecidedError"
    ),
    "dtypes.table": (
        "DTYPES Dtype b1 bf16 dtype e2m1 e2m3 e3m2 e4m3 e5m2 f16 f32 f64 from_numpy int_type "
        "s16 s2 s32 s4 s64 s8 tf32 u16 u2 u32 u4 u64 u8 ue8m0 void"
    ),
    "dtypes.rounding": "ROUNDINGS",
    "dtypes.conversion": "convert decode encode",
    "dtypes.packing": (
        "SubbyteReference alignment_bytes pack predicate_storage sizeof_bits storage_bytes unpack"
    ),
    "layout.tuples": (
        "Underscore _ ceil_div compatible congruent elem_geq elem_gtr elem_leq elem_less "
        "elem_scale evenly_divides inner_product prefix_product product product_each "
        "product_like repeat_like round_up shape_div transform_leaf unwrap weakly_compatible "
        "weakly_congruent wrap"
    ),
    "layout.basis": "E ScaledBasis make_basis_like",
    "layout.coords": (
        "GenColMajor GenRowMajor LayoutLeft LayoutRight compact_col_major compact_major "
        "compact_order compact_row_major coordinates crd2crd crd2idx idx2crd increment"
    ),
    "layout.layout": "Layout make_layout",
    "layout.build": "make_identity_layout make_layout_like make_ordered_layout",
    "layout.queries": (
        "coprofile coshape cosize depth get_1d_coord get_flat_coord get_hier_coord is_static "
        "rank shape size stride"
    ),
    "layout.modes": "append flatten get group_modes prepend replace select take unflatten zip_",
    "layout.slicing": "dice domain_offset slice_ slice_and_offset",
    "layout.algebra.coalesce": "coalesce filter filter_zeros",
    "layout.algebra.composition": "composition",
    "layout.algebra.complement": "complement",
    "layout.algebra.inverse": "left_inverse nullspace right_inverse",
    "integers.ints": "min_",
    "integers.symbols": "SymInt sym",
    "integers.symbol_proofs": "Proof",
    "layout.algebra.proofs": "formula prove_bijective prove_divides prove_equal substitute",
    "layout.algebra.explain": "explain",
    "layout.notation.parse": "parse_layout",
    "layout.algebra.divide": "flat_divide logical_divide tile_unzip tiled_divide zipped_divide",
    "layout.algebra.product": (
        "blocked_product flat_product logical_product raked_product tile_to_shape tiled_product "
        "zipped_product"
    ),
    "layout.bits.swizzle": "Swizzle make_swizzle",
    "layout.composed": "ComposedLayout make_composed_layout",
    "layout.bits.f2": "F2Map compose_swizzles",
    "layout.bits.f2_layout": "F2Layout",
    "layout.bits.f2_convert": "compose_f2 f2_kernel f2_matrix f2_rank from_f2 from_f2_matrix to_f2",
    "layout.bits.linear_bases": "from_linear_bases to_linear_bases",
    "layout.offsets": "holes image offset_grid offsets",
    "layout.tools": (
        "contains equivalent is_bijective is_injective is_permutation is_surjective overlaps"
    ),
    "layout.algebra.fit": "fit",
    "layout.algebra.recast": "downcast max_alignment recast_layout upcast",
    "layout.algebra.common": (
        "common_refinement domain_distribute layout_add make_layout_tv max_common_layout "
        "max_common_vector"
    ),
    "tensor.engine": "Coordinates Engine Memory Pointer add_coordinates",
    "tensor.host_engine": "ArrayEngine PackedEngine",
    "tensor.tensor": (
        "Tensor make_coord_tensor make_fragment_like make_host_tensor make_identity_tensor "
        "make_ptr make_rmem_tensor make_tensor make_tensor_like"
    ),
    "tensor.partition": "inner_partition local_partition local_tile outer_partition",
    "tensor.retype": "recast",
    "host.elementwise": (
        "tensor_add tensor_div tensor_equals tensor_map2 tensor_modulus tensor_mul tensor_sub"
    ),
    "host.fill": (
        "tensor_fill tensor_fill_random_gaussian tensor_fill_random_uniform tensor_fill_sequential"
    ),
    "host.gemm": "reference_gemm",
    "host.text": "print_tensor tensor_table tensor_text",
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
    "atoms.mma": "MMA_Atom",
    "atoms.copy": "Copy_Atom Copy_Op",
    "atoms.copy_registry": "get_copy",
    "tiled.tiled_mma": "ThrMMA TiledMMA make_tiled_mma",
    "tiled.tiled_copy": (
        "ThrCopy TiledCopy make_cotiled_copy make_tiled_copy make_tiled_copy_A make_tiled_copy_B "
        "make_tiled_copy_C make_tiled_copy_C_atom make_tiled_copy_D make_tiled_copy_S "
        "make_tiled_copy_tv"
    ),
    "tiled.check_copy": "check_copy",
    "tiled.check_gemm": "check_gemm",
    "tiled.coverage": "coverage",
    "tiled.suggest": "suggest_permutation suggest_tiled_copy",
    "tiled.thread_maps": ("stripmined_thread_map transposed_thread_map warp_raked_thread_map"),
    "trace.kernel": "Kernel kernel",
    "calls.arguments": "spec typed",
    "plan.plan": "Plan",
    "trace.memory": "rmem smem struct union",
    "trace.copying": "copy prefetch",
    "trace.matrix": "gemm",
    "trace.hopper": (
        "Mbarriers cluster_sync fence_mbarrier_init fence_proxy_async mbarriers setmaxnreg "
        "tma_load tma_store tma_store_commit tma_store_wait tma_tensor warpgroup_commit "
        "warpgroup_fence warpgroup_gemm warpgroup_wait"
    ),
    "trace.pipeline": "Pipeline TmaPipeline pipeline",
    "trace.mainloop": "Operand mainloop",
    "trace.control": "break_if otherwise range=range_ return_if when while_",
    "trace.variables": "var=Var wait_until",
    "trace.arithmetic": "as_int reduce",
    "trace.math": ("cos erf exp exp2 fma log log2 maximum minimum rcp rsqrt sin sqrt tanh where"),
    "trace.threads": (
        "assert_ atomic block_idx cp_async_fence cp_async_wait griddepcontrol_launch_dependents "
        "griddepcontrol_wait lane_idx launch load_acquire named_barrier print=print_ shuffle "
        "store_release syncthreads syncwarp thread_idx threadfence vote warp_idx warp_reduce"
    ),
    "codegen.build": "compile source",
    "codegen.run": "run",
    "analysis.solver": "suggest_smem_layout",
    "viz.text": "print_copy print_layout print_mma print_tv to_text",
    "viz.svg": "to_svg",
    "viz.latex": "to_latex",
}
# public name -> (module, name there); `range=range_` is a name that the module spells otherwise
_MODULE = {
    name.partition("=")[0]: (module, name.rpartition("=")[2])
    for module, names in _HOME.items()
    for name in names.split()
}
# reached as cute.atoms and so on; cute.trace and cute.emulate are functions as well
_PACKAGES = {"analysis", "atoms", "dtypes", "emulate", "ops", "tiled", "trace", "viz"}
# names that would hide a builtin under `import *`
_BUILTINS = {"compile", "filter", "print", "range"}

__all__ = sorted(name for name in _MODULE if name not in _BUILTINS and name != "_")


def __getattr__(name: str) -> object:
    """Import the module that defines `name` and keep the name here (PEP 562)."""
    if name in _PACKAGES:
        return __import__(f"cute_py.{name}", fromlist=[name])
    if name not in _MODULE:
        raise AttributeError(f"module 'cute_py' has no attribute {name!r}")
    module, there = _MODULE[name]
    value = getattr(__import__(f"cute_py.{module}", fromlist=[there]), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_MODULE})
