"""CuTe in Python: exact layout algebra, and GPU kernels that an emulator checks on any computer.

`import cute_py as cute`, and then, by what you want to do:

- Explore layouts: `Layout`, `composition`, `zipped_divide`, `Swizzle`, `make_tiled_mma`, `explain`;
  docs/glossary.md explains every term with an example.
- Print and draw them: `print_layout`, `print_tv`, `print_mma`, `print_copy`, `to_svg`, `to_html`,
  `to_latex`; notebooks draw them by themselves; docs/pictures.md.
- Write kernels: `kernel`, `launch`, `smem`, `copy`, `gemm`, `trace`, `emulate`, `run`; the language
  is in docs/kernels.md, and twelve steps to a fast GEMM are in docs/write_a_gemm.md.
- Compute on arrays: `ops.gemm`, `ops.softmax`, `ops.reduce`, `ops.transpose`, `ops.activation`, all
  in docs/operators.md; how fast they are, and how that is measured, in docs/performance.md.
  With gradients, and in graphs of torch: docs/torch.md.
"""

# Names are resolved on first use (PEP 562), so that the import costs next to nothing.

from __future__ import annotations

from time import time_ns as _now

__version__ = "0.2.0"
_loaded_at = _now()  # a module that is newer may not be the one that runs; see codegen.cache.key

# module -> the public names that it defines; `range=range_` is spelled otherwise there
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
    "layout.basis": "E ScaledBasis add_coordinates make_basis_like",
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
    "layout.modes": (
        "append dice domain_offset flatten get group_modes prepend replace select slice_ "
        "slice_and_offset take unflatten zip_"
    ),
    "layout.algebra.coalesce": "coalesce filter filter_zeros",
    "layout.algebra.composition": "compose composition",
    "layout.algebra.complement": "complement",
    "layout.algebra.inverse": "left_inverse nullspace right_inverse",
    "integers.ints": "max_ min_",
    "integers.symbols": "SymInt sym",
    "integers.symbol_proofs": "Proof",
    "layout.algebra.proofs": (
        "equivalent formula is_bijective is_permutation prove_bijective prove_divides prove_equal "
        "substitute"
    ),
    "layout.algebra.explain": "explain",
    "layout.notation.parse": "parse_layout",
    "layout.algebra.divide": "flat_divide logical_divide tile_unzip tiled_divide zipped_divide",
    "layout.algebra.product": (
        "blocked_product flat_product logical_product raked_product tile_to_shape tiled_product "
        "zipped_product"
    ),
    "layout.bits.swizzle": "Swizzle compose_swizzles make_swizzle",
    "layout.composed": "ComposedLayout make_composed_layout",
    "layout.bits.f2": "F2Map",
    "layout.bits.f2_layout": "F2Layout",
    "layout.bits.f2_convert": (
        "compose_f2 f2_kernel f2_matrix f2_rank from_f2 from_f2_matrix from_linear_bases to_f2 "
        "to_linear_bases"
    ),
    "layout.offsets": "holes image offset_grid offsets",
    "layout.properties": "contains is_injective is_surjective overlaps",
    "layout.algebra.fit": "fit",
    "layout.algebra.recast": "downcast max_alignment recast_layout upcast",
    "layout.algebra.common": (
        "common_refinement domain_distribute layout_add make_layout_tv max_common_layout "
        "max_common_vector"
    ),
    "tensor.engine": "Coordinates Engine Memory Pointer",
    "calls.tensor_array": "TensorArray",
    "tensor.host_engine": "ArrayEngine PackedEngine",
    "tensor.tensor": (
        "Tensor make_coord_tensor make_fragment_like make_host_tensor make_identity_tensor "
        "make_ptr make_rmem_tensor make_tensor make_tensor_like"
    ),
    "tensor.views": "inner_partition local_partition local_tile outer_partition recast",
    "atoms.mma": "MMA_Atom",
    "atoms.copy": "Copy_Atom Copy_Op",
    "atoms.registry": "get_copy",
    "tiled.tiled_mma": "ThrMMA TiledMMA make_tiled_mma",
    "tiled.tiled_copy": (
        "ThrCopy TiledCopy make_cotiled_copy make_tiled_copy make_tiled_copy_A make_tiled_copy_B "
        "make_tiled_copy_C make_tiled_copy_C_atom make_tiled_copy_D make_tiled_copy_S "
        "make_tiled_copy_tv"
    ),
    "tiled.checks": "check_copy check_gemm",
    "tiled.coverage": "coverage",
    "tiled.suggest": "suggest_permutation suggest_tiled_copy",
    "trace.kernel": "Kernel kernel",
    "calls.arguments": "spec typed",
    "plan.plan": "Plan",
    "trace.memory": "rmem smem struct union",
    "trace.copying": "copy prefetch",
    "trace.mainloop": "mainloop",
    "trace.matrix": "gemm",
    "trace.operands": "Operand Tiles TmaTiles",
    "trace.hopper": (
        "Mbarriers cluster_sync fence_mbarrier_init fence_proxy_async mapa mbarriers setmaxnreg "
        "tma_load tma_store tma_store_commit tma_store_wait tma_tensor warpgroup_commit "
        "warpgroup_fence warpgroup_gemm warpgroup_wait"
    ),
    "trace.im2col": "tma_im2col tma_load_im2col",
    "trace.pipeline": "Pipeline PipelineTmaStore TmaPipeline pipeline",
    "trace.roles": "elect elect_one role",
    "trace.schedule": "fewest_blocks hilbert_order tiles",
    "trace.work_queue": "Dealer WorkQueue work_queue",
    "trace.control": "break_if otherwise range=range_ return_if var=Var wait_until when while_",
    "trace.arithmetic": "as_int reduce",
    "trace.formulas": "pairs",
    "trace.inline": "inline_ptx",
    "trace.shapes": "assume_compact assume_shapes",
    "trace.machine": "Semaphore sm_idx smem_address",
    "trace.wmma": "Wmma WmmaFragment",
    "trace.tables": "make_table",
    "trace.threads": (
        "assert_ assume atomic atomic_cas block_idx cluster_idx cluster_rank cp_async_fence "
        "cp_async_wait "
        "griddepcontrol_launch_dependents "
        "griddepcontrol_wait lane_idx launch load_acquire named_barrier print=print_ redux shuffle "
        "store_release syncthreads syncwarp thread_idx threadfence vote warp_idx warp_reduce"
    ),
    "emulate.orders.check": "check_orders",
    "emulate.ways.follow": "follow",
    "codegen.build": "compile source",
    "codegen.launch.run": "run",
    "analysis.solver": "suggest_smem_layout",
    "ops.measurement": "tune",
    "viz.text": "print_copy print_layout print_mma print_tv to_text",
    "viz.svg": "to_svg",
    "viz.html": "to_html",
    "viz.latex": "to_latex",
    "viz.comparisons": "diff show",
    "see.table": "layouts",
    "explore.interactive": "interact",
}
# reached as cute.atoms and so on; cute.trace, cute.emulate and cute.explore are functions as well
_PACKAGES = (
    "analysis",
    "atoms",
    "cutlass2",
    "dtypes",
    "emulate",
    "epilogues",
    "explore",
    "host",
    "math",
    "ops",
    "see",
    "tiled",
    "torch",
    "trace",
    "viz",
)
_UNLISTED = ("cutlass2", "host")  # cute.row_major is cute.cutlass2.row_major
_ELSEWHERE = {"math": "trace.math"}  # a package that is a module of another


def _package(name: str) -> object:
    return __import__(f"cute_py.{_ELSEWHERE.get(name, name)}", fromlist=["__name__"])


def _unlisted() -> list[str]:
    return [name for package in _UNLISTED for name in _package(package).__all__]


def _functions() -> list[str]:
    """Return the names of the functions of registers: `cute.exp` is `cute.math.exp`."""
    return list(_package("plan.functions").PUBLIC)


def _listed() -> list[str]:
    return [*_PACKAGES, *_functions()]


def _found(name: str) -> object:
    """Return `__all__`, a package, a function of registers, or what one of `_UNLISTED` has under
    that name.
    """
    if name == "__all__":
        from cute_py.lazy import public

        return public(__dir__())
    if name in _PACKAGES:
        return _package(name)
    if not name.startswith("__") and name in _functions():
        return globals().setdefault(name, getattr(_package("math"), name))
    holders = [] if name.startswith("__") else map(_package, _UNLISTED)
    return next((getattr(each, name) for each in holders if name in each.__all__), None)


def __getattr__(name: str) -> object:
    """Let `lazy` take over at the first name that is asked for (PEP 562)."""
    from cute_py.lazy import lazy, meant

    get, names = lazy(__name__, _HOME, _found, _listed, _unlisted, meant)
    globals().update(__getattr__=get, __dir__=names)
    return get(name)


def __dir__() -> list[str]:
    """List the public names and packages, loaded or not."""
    __getattr__("__all__")
    return __dir__()
