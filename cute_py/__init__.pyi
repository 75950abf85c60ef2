"""Public names of cute_py, for type checkers; from `_HOME`."""

from cute_py.trace.runtime_integers import Condition as _Condition, Int as _Int
from cute_py.dtypes.table import Promised as _Promised
class _Type(type, Dtype): ...
from cute_py.errors import CoordinateError as CoordinateError
from cute_py.errors import CuteError as CuteError
from cute_py.errors import DtypeError as DtypeError
from cute_py.errors import EmulationError as EmulationError
from cute_py.errors import LayoutError as LayoutError
from cute_py.errors import LeafTypeError as LeafTypeError
from cute_py.errors import ParseError as ParseError
from cute_py.errors import TraceError as TraceError
from cute_py.errors import UndecidedError as UndecidedError
from cute_py.dtypes.table import DTYPES as DTYPES
from cute_py.dtypes.table import Dtype as Dtype
class b1(_Condition, metaclass=_Type): ...
class bf16(Tensor, metaclass=_Type): ...
from cute_py.dtypes.table import dtype as dtype
class e2m1(Tensor, metaclass=_Type): ...
class e2m3(Tensor, metaclass=_Type): ...
class e3m2(Tensor, metaclass=_Type): ...
class e4m3(Tensor, metaclass=_Type): ...
class e5m2(Tensor, metaclass=_Type): ...
class f16(Tensor, metaclass=_Type): ...
class f32(Tensor, metaclass=_Type): ...
class f64(Tensor, metaclass=_Type): ...
from cute_py.dtypes.table import from_numpy as from_numpy
from cute_py.dtypes.table import int_type as int_type
class s16(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class s2(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class s32(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class s4(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class s64(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class s8(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class tf32(Tensor, metaclass=_Type): ...
class u16(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class u2(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class u32(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class u4(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class u64(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class u8(_Int, metaclass=_Type):
    def __new__(cls, min: int | None = None, max: int | None = None, multiple_of: int = 1) -> _Promised: ...  # type: ignore[misc]
class ue8m0(Tensor, metaclass=_Type): ...
from cute_py.dtypes.table import void as void
from cute_py.dtypes.rounding import ROUNDINGS as ROUNDINGS
from cute_py.dtypes.conversion import convert as convert
from cute_py.dtypes.conversion import decode as decode
from cute_py.dtypes.conversion import encode as encode
from cute_py.dtypes.packing import SubbyteReference as SubbyteReference
from cute_py.dtypes.packing import alignment_bytes as alignment_bytes
from cute_py.dtypes.packing import pack as pack
from cute_py.dtypes.packing import predicate_storage as predicate_storage
from cute_py.dtypes.packing import sizeof_bits as sizeof_bits
from cute_py.dtypes.packing import storage_bytes as storage_bytes
from cute_py.dtypes.packing import unpack as unpack
from cute_py.layout.tuples import Underscore as Underscore
from cute_py.layout.tuples import _ as _
from cute_py.layout.tuples import ceil_div as ceil_div
from cute_py.layout.tuples import compatible as compatible
from cute_py.layout.tuples import congruent as congruent
from cute_py.layout.tuples import elem_geq as elem_geq
from cute_py.layout.tuples import elem_gtr as elem_gtr
from cute_py.layout.tuples import elem_leq as elem_leq
from cute_py.layout.tuples import elem_less as elem_less
from cute_py.layout.tuples import elem_scale as elem_scale
from cute_py.layout.tuples import evenly_divides as evenly_divides
from cute_py.layout.tuples import inner_product as inner_product
from cute_py.layout.tuples import prefix_product as prefix_product
from cute_py.layout.tuples import product as product
from cute_py.layout.tuples import product_each as product_each
from cute_py.layout.tuples import product_like as product_like
from cute_py.layout.tuples import repeat_like as repeat_like
from cute_py.layout.tuples import round_up as round_up
from cute_py.layout.tuples import shape_div as shape_div
from cute_py.layout.tuples import transform_leaf as transform_leaf
from cute_py.layout.tuples import unwrap as unwrap
from cute_py.layout.tuples import weakly_compatible as weakly_compatible
from cute_py.layout.tuples import weakly_congruent as weakly_congruent
from cute_py.layout.tuples import wrap as wrap
from cute_py.layout.basis import E as E
from cute_py.layout.basis import ScaledBasis as ScaledBasis
from cute_py.layout.basis import add_coordinates as add_coordinates
from cute_py.layout.basis import make_basis_like as make_basis_like
from cute_py.layout.coords import GenColMajor as GenColMajor
from cute_py.layout.coords import GenRowMajor as GenRowMajor
from cute_py.layout.coords import LayoutLeft as LayoutLeft
from cute_py.layout.coords import LayoutRight as LayoutRight
from cute_py.layout.coords import compact_col_major as compact_col_major
from cute_py.layout.coords import compact_major as compact_major
from cute_py.layout.coords import compact_order as compact_order
from cute_py.layout.coords import compact_row_major as compact_row_major
from cute_py.layout.coords import coordinates as coordinates
from cute_py.layout.coords import crd2crd as crd2crd
from cute_py.layout.coords import crd2idx as crd2idx
from cute_py.layout.coords import idx2crd as idx2crd
from cute_py.layout.coords import increment as increment
from cute_py.layout.layout import Layout as Layout
from cute_py.layout.layout import make_layout as make_layout
from cute_py.layout.build import make_identity_layout as make_identity_layout
from cute_py.layout.build import make_layout_like as make_layout_like
from cute_py.layout.build import make_ordered_layout as make_ordered_layout
from cute_py.layout.queries import coprofile as coprofile
from cute_py.layout.queries import coshape as coshape
from cute_py.layout.queries import cosize as cosize
from cute_py.layout.queries import depth as depth
from cute_py.layout.queries import get_1d_coord as get_1d_coord
from cute_py.layout.queries import get_flat_coord as get_flat_coord
from cute_py.layout.queries import get_hier_coord as get_hier_coord
from cute_py.layout.queries import is_static as is_static
from cute_py.layout.queries import rank as rank
from cute_py.layout.queries import shape as shape
from cute_py.layout.queries import size as size
from cute_py.layout.queries import stride as stride
from cute_py.layout.modes import append as append
from cute_py.layout.modes import dice as dice
from cute_py.layout.modes import domain_offset as domain_offset
from cute_py.layout.modes import flatten as flatten
from cute_py.layout.modes import get as get
from cute_py.layout.modes import group_modes as group_modes
from cute_py.layout.modes import prepend as prepend
from cute_py.layout.modes import replace as replace
from cute_py.layout.modes import select as select
from cute_py.layout.modes import slice_ as slice_
from cute_py.layout.modes import slice_and_offset as slice_and_offset
from cute_py.layout.modes import take as take
from cute_py.layout.modes import unflatten as unflatten
from cute_py.layout.modes import zip_ as zip_
from cute_py.layout.algebra.coalesce import coalesce as coalesce
from cute_py.layout.algebra.coalesce import filter as filter
from cute_py.layout.algebra.coalesce import filter_zeros as filter_zeros
from cute_py.layout.algebra.composition import compose as compose
from typing import Any, TypeVar, overload
from cute_py.layout import AbstractTensor, Mapped
_Tensor = TypeVar("_Tensor", bound=AbstractTensor)
_Kind = TypeVar("_Kind", bound=Mapped)
@overload
def composition(a: Layout, b: int | tuple[Any, ...] | Layout) -> Layout:
    """Return the layout R with R(c) == a(b(c)) for every coordinate c of b."""
@overload
def composition(a: _Tensor, b: Any) -> _Tensor: ...
@overload
def composition(a: Mapped, b: F2Layout) -> F2Layout: ...
@overload
def composition(a: Layout, b: ComposedLayout | F2Map) -> ComposedLayout: ...
@overload
def composition(a: _Kind, b: Any) -> _Kind: ...
@overload
def composition(a: F2Map, b: F2Map) -> F2Map: ...
@overload
def composition(a: F2Map, b: Layout) -> ComposedLayout: ...
@overload
def composition(a: F2Map, b: ComposedLayout) -> ComposedLayout | Layout: ...
from cute_py.layout.algebra.complement import complement as complement
from cute_py.layout.algebra.inverse import left_inverse as left_inverse
from cute_py.layout.algebra.inverse import nullspace as nullspace
from cute_py.layout.algebra.inverse import right_inverse as right_inverse
from cute_py.integers.ints import max_ as max_
from cute_py.integers.ints import min_ as min_
from cute_py.integers.symbols import SymInt as SymInt
from cute_py.integers.symbols import sym as sym
from cute_py.integers.symbol_proofs import Proof as Proof
from cute_py.layout.algebra.proofs import equivalent as equivalent
from cute_py.layout.algebra.proofs import formula as formula
from cute_py.layout.algebra.proofs import is_bijective as is_bijective
from cute_py.layout.algebra.proofs import is_permutation as is_permutation
from cute_py.layout.algebra.proofs import prove_bijective as prove_bijective
from cute_py.layout.algebra.proofs import prove_divides as prove_divides
from cute_py.layout.algebra.proofs import prove_equal as prove_equal
from cute_py.layout.algebra.proofs import substitute as substitute
from cute_py.layout.algebra.explain import explain as explain
from cute_py.layout.notation.parse import parse_layout as parse_layout
from cute_py.layout.algebra.divide import flat_divide as flat_divide
from cute_py.layout.algebra.divide import logical_divide as logical_divide
from cute_py.layout.algebra.divide import tile_unzip as tile_unzip
from cute_py.layout.algebra.divide import tiled_divide as tiled_divide
from cute_py.layout.algebra.divide import zipped_divide as zipped_divide
from cute_py.layout.algebra.product import blocked_product as blocked_product
from cute_py.layout.algebra.product import flat_product as flat_product
from cute_py.layout.algebra.product import logical_product as logical_product
from cute_py.layout.algebra.product import raked_product as raked_product
from cute_py.layout.algebra.product import tile_to_shape as tile_to_shape
from cute_py.layout.algebra.product import tiled_product as tiled_product
from cute_py.layout.algebra.product import zipped_product as zipped_product
from cute_py.layout.bits.swizzle import Swizzle as Swizzle
from cute_py.layout.bits.swizzle import compose_swizzles as compose_swizzles
from cute_py.layout.bits.swizzle import make_swizzle as make_swizzle
from cute_py.layout.composed import ComposedLayout as ComposedLayout
from cute_py.layout.composed import make_composed_layout as make_composed_layout
from cute_py.layout.bits.f2 import F2Map as F2Map
from cute_py.layout.bits.f2_layout import F2Layout as F2Layout
from cute_py.layout.bits.f2_convert import compose_f2 as compose_f2
from cute_py.layout.bits.f2_convert import f2_kernel as f2_kernel
from cute_py.layout.bits.f2_convert import f2_matrix as f2_matrix
from cute_py.layout.bits.f2_convert import f2_rank as f2_rank
from cute_py.layout.bits.f2_convert import from_f2 as from_f2
from cute_py.layout.bits.f2_convert import from_f2_matrix as from_f2_matrix
from cute_py.layout.bits.f2_convert import from_linear_bases as from_linear_bases
from cute_py.layout.bits.f2_convert import to_f2 as to_f2
from cute_py.layout.bits.f2_convert import to_linear_bases as to_linear_bases
from cute_py.layout.offsets import holes as holes
from cute_py.layout.offsets import image as image
from cute_py.layout.offsets import offset_grid as offset_grid
from cute_py.layout.offsets import offsets as offsets
from cute_py.layout.properties import contains as contains
from cute_py.layout.properties import is_injective as is_injective
from cute_py.layout.properties import is_surjective as is_surjective
from cute_py.layout.properties import overlaps as overlaps
from cute_py.layout.algebra.fit import fit as fit
from cute_py.layout.algebra.recast import downcast as downcast
from cute_py.layout.algebra.recast import max_alignment as max_alignment
from cute_py.layout.algebra.recast import recast_layout as recast_layout
from cute_py.layout.algebra.recast import upcast as upcast
from cute_py.layout.algebra.common import common_refinement as common_refinement
from cute_py.layout.algebra.common import domain_distribute as domain_distribute
from cute_py.layout.algebra.common import layout_add as layout_add
from cute_py.layout.algebra.common import make_layout_tv as make_layout_tv
from cute_py.layout.algebra.common import max_common_layout as max_common_layout
from cute_py.layout.algebra.common import max_common_vector as max_common_vector
from cute_py.tensor.engine import Coordinates as Coordinates
from cute_py.tensor.engine import Engine as Engine
from cute_py.tensor.engine import Memory as Memory
from cute_py.tensor.engine import Pointer as Pointer
from cute_py.calls.tensor_array import TensorArray as TensorArray
from cute_py.tensor.host_engine import ArrayEngine as ArrayEngine
from cute_py.tensor.host_engine import PackedEngine as PackedEngine
from cute_py.tensor.tensor import Tensor as Tensor
from cute_py.tensor.tensor import make_coord_tensor as make_coord_tensor
from cute_py.tensor.tensor import make_fragment_like as make_fragment_like
from cute_py.tensor.tensor import make_host_tensor as make_host_tensor
from cute_py.tensor.tensor import make_identity_tensor as make_identity_tensor
from cute_py.tensor.tensor import make_ptr as make_ptr
from cute_py.tensor.tensor import make_rmem_tensor as make_rmem_tensor
from cute_py.tensor.tensor import make_tensor as make_tensor
from cute_py.tensor.tensor import make_tensor_like as make_tensor_like
from cute_py.tensor.views import inner_partition as inner_partition
from cute_py.tensor.views import local_partition as local_partition
from cute_py.tensor.views import local_tile as local_tile
from cute_py.tensor.views import outer_partition as outer_partition
from cute_py.tensor.views import recast as recast
from cute_py.atoms.mma import MMA_Atom as MMA_Atom
from cute_py.atoms.copy import Copy_Atom as Copy_Atom
from cute_py.atoms.copy import Copy_Op as Copy_Op
from cute_py.atoms.registry import get_copy as get_copy
from cute_py.tiled.tiled_mma import ThrMMA as ThrMMA
from cute_py.tiled.tiled_mma import TiledMMA as TiledMMA
from cute_py.tiled.tiled_mma import make_tiled_mma as make_tiled_mma
from cute_py.tiled.tiled_copy import ThrCopy as ThrCopy
from cute_py.tiled.tiled_copy import TiledCopy as TiledCopy
from cute_py.tiled.tiled_copy import make_cotiled_copy as make_cotiled_copy
from cute_py.tiled.tiled_copy import make_tiled_copy as make_tiled_copy
from cute_py.tiled.tiled_copy import make_tiled_copy_A as make_tiled_copy_A
from cute_py.tiled.tiled_copy import make_tiled_copy_B as make_tiled_copy_B
from cute_py.tiled.tiled_copy import make_tiled_copy_C as make_tiled_copy_C
from cute_py.tiled.tiled_copy import make_tiled_copy_C_atom as make_tiled_copy_C_atom
from cute_py.tiled.tiled_copy import make_tiled_copy_D as make_tiled_copy_D
from cute_py.tiled.tiled_copy import make_tiled_copy_S as make_tiled_copy_S
from cute_py.tiled.tiled_copy import make_tiled_copy_tv as make_tiled_copy_tv
from cute_py.tiled.checks import check_copy as check_copy
from cute_py.tiled.checks import check_gemm as check_gemm
from cute_py.tiled.coverage import coverage as coverage
from cute_py.tiled.suggest import suggest_permutation as suggest_permutation
from cute_py.tiled.suggest import suggest_tiled_copy as suggest_tiled_copy
from cute_py.trace.kernel import Kernel as Kernel
from cute_py.trace.kernel import kernel as kernel
from cute_py.calls.arguments import spec as spec
from cute_py.calls.arguments import typed as typed
from cute_py.plan.plan import Plan as Plan
from cute_py.trace.memory import rmem as rmem
from cute_py.trace.memory import smem as smem
from cute_py.trace.memory import struct as struct
from cute_py.trace.memory import union as union
from cute_py.trace.copying import copy as copy
from cute_py.trace.copying import prefetch as prefetch
from cute_py.trace.mainloop import mainloop as mainloop
from cute_py.trace.matrix import gemm as gemm
from cute_py.trace.operands import Operand as Operand
from cute_py.trace.operands import Tiles as Tiles
from cute_py.trace.operands import TmaTiles as TmaTiles
from cute_py.trace.hopper import Mbarriers as Mbarriers
from cute_py.trace.hopper import cluster_sync as cluster_sync
from cute_py.trace.hopper import fence_mbarrier_init as fence_mbarrier_init
from cute_py.trace.hopper import fence_proxy_async as fence_proxy_async
from cute_py.trace.hopper import mapa as mapa
from cute_py.trace.hopper import mbarriers as mbarriers
from cute_py.trace.hopper import setmaxnreg as setmaxnreg
from cute_py.trace.hopper import tma_load as tma_load
from cute_py.trace.hopper import tma_store as tma_store
from cute_py.trace.hopper import tma_store_commit as tma_store_commit
from cute_py.trace.hopper import tma_store_wait as tma_store_wait
from cute_py.trace.hopper import tma_tensor as tma_tensor
from cute_py.trace.hopper import warpgroup_commit as warpgroup_commit
from cute_py.trace.hopper import warpgroup_fence as warpgroup_fence
from cute_py.trace.hopper import warpgroup_gemm as warpgroup_gemm
from cute_py.trace.hopper import warpgroup_wait as warpgroup_wait
from cute_py.trace.im2col import tma_im2col as tma_im2col
from cute_py.trace.im2col import tma_load_im2col as tma_load_im2col
from cute_py.trace.pipeline import Pipeline as Pipeline
from cute_py.trace.pipeline import PipelineTmaStore as PipelineTmaStore
from cute_py.trace.pipeline import TmaPipeline as TmaPipeline
from cute_py.trace.pipeline import pipeline as pipeline
from cute_py.trace.roles import elect as elect
from cute_py.trace.roles import elect_one as elect_one
from cute_py.trace.roles import role as role
from cute_py.trace.schedule import fewest_blocks as fewest_blocks
from cute_py.trace.schedule import hilbert_order as hilbert_order
from cute_py.trace.schedule import tiles as tiles
from cute_py.trace.work_queue import Dealer as Dealer
from cute_py.trace.work_queue import WorkQueue as WorkQueue
from cute_py.trace.work_queue import work_queue as work_queue
from cute_py.trace.control import break_if as break_if
from cute_py.trace.control import otherwise as otherwise
from cute_py.trace.control import range_ as _range
range = _range
from cute_py.trace.control import return_if as return_if
from cute_py.trace.control import Var as _Var
var = _Var
from cute_py.trace.control import wait_until as wait_until
from cute_py.trace.control import when as when
from cute_py.trace.control import while_ as while_
from cute_py.trace.arithmetic import as_int as as_int
from cute_py.trace.arithmetic import reduce as reduce
from cute_py.trace.formulas import pairs as pairs
from cute_py.trace.inline import inline_ptx as inline_ptx
from cute_py.trace.shapes import assume_compact as assume_compact
from cute_py.trace.shapes import assume_shapes as assume_shapes
from cute_py.trace.machine import Semaphore as Semaphore
from cute_py.trace.machine import sm_idx as sm_idx
from cute_py.trace.machine import smem_address as smem_address
from cute_py.trace.wmma import Wmma as Wmma
from cute_py.trace.wmma import WmmaFragment as WmmaFragment
from cute_py.trace.tables import make_table as make_table
from cute_py.trace.threads import assert_ as assert_
from cute_py.trace.threads import assume as assume
from cute_py.trace.threads import atomic as atomic
from cute_py.trace.threads import atomic_cas as atomic_cas
from cute_py.trace.threads import block_idx as block_idx
from cute_py.trace.threads import cluster_idx as cluster_idx
from cute_py.trace.threads import cluster_rank as cluster_rank
from cute_py.trace.threads import cp_async_fence as cp_async_fence
from cute_py.trace.threads import cp_async_wait as cp_async_wait
from cute_py.trace.threads import griddepcontrol_launch_dependents as griddepcontrol_launch_dependents
from cute_py.trace.threads import griddepcontrol_wait as griddepcontrol_wait
from cute_py.trace.threads import lane_idx as lane_idx
from cute_py.trace.threads import launch as launch
from cute_py.trace.threads import load_acquire as load_acquire
from cute_py.trace.threads import named_barrier as named_barrier
from cute_py.trace.threads import print_ as _print
print = _print
from cute_py.trace.threads import redux as redux
from cute_py.trace.threads import shuffle as shuffle
from cute_py.trace.threads import store_release as store_release
from cute_py.trace.threads import syncthreads as syncthreads
from cute_py.trace.threads import syncwarp as syncwarp
from cute_py.trace.threads import thread_idx as thread_idx
from cute_py.trace.threads import threadfence as threadfence
from cute_py.trace.threads import vote as vote
from cute_py.trace.threads import warp_idx as warp_idx
from cute_py.trace.threads import warp_reduce as warp_reduce
from cute_py.emulate.orders.check import check_orders as check_orders
from cute_py.emulate.ways.follow import follow as follow
from cute_py.codegen.build import compile as compile
from cute_py.codegen.build import source as source
from cute_py.codegen.launch.run import run as run
from cute_py.analysis.solver import suggest_smem_layout as suggest_smem_layout
from cute_py.ops.measurement import tune as tune
from cute_py.viz.text import print_copy as print_copy
from cute_py.viz.text import print_layout as print_layout
from cute_py.viz.text import print_mma as print_mma
from cute_py.viz.text import print_tv as print_tv
from cute_py.viz.text import to_text as to_text
from cute_py.viz.svg import to_svg as to_svg
from cute_py.viz.html import to_html as to_html
from cute_py.viz.latex import to_latex as to_latex
from cute_py.viz.comparisons import diff as diff
from cute_py.viz.comparisons import show as show
from cute_py.see.table import layouts as layouts
from cute_py.explore.interactive import interact as interact
def bfe(x: object, pos: object, len: object) -> Tensor: ...
def bfi(x: object, y: object, pos: object, len: object) -> Tensor: ...
def brev(x: object) -> Tensor: ...
def ceil(x: object) -> Tensor: ...
def clz(x: object) -> Tensor: ...
def cos(x: object) -> Tensor: ...
def erf(x: object) -> Tensor: ...
def exp(x: object) -> Tensor: ...
def exp2(x: object) -> Tensor: ...
def floor(x: object) -> Tensor: ...
def fma(a: object, b: object, c: object) -> Tensor: ...
def gelu(x: object) -> Tensor: ...
def log(x: object) -> Tensor: ...
def log2(x: object) -> Tensor: ...
def lop3(a: object, b: object, c: object, table: object) -> Tensor: ...
def maximum(a: object, b: object, nan: str = "ignore") -> Tensor: ...
def minimum(a: object, b: object, nan: str = "ignore") -> Tensor: ...
def popc(x: object) -> Tensor: ...
def prmt(a: object, b: object, selector: object) -> Tensor: ...
def rcp(x: object) -> Tensor: ...
def rsqrt(x: object) -> Tensor: ...
def sin(x: object) -> Tensor: ...
def sqrt(x: object) -> Tensor: ...
def tanh(x: object) -> Tensor: ...
def where(condition: object, a: object, b: object) -> Tensor: ...
from cute_py.layout.cutlass2.classical import affine_rank_2 as affine_rank_2
from cute_py.layout.cutlass2.classical import affine_rank_n as affine_rank_n
from cute_py.layout.cutlass2.classical import capacity as capacity
from cute_py.layout.cutlass2.classical import column_major as column_major
from cute_py.layout.cutlass2.classical import column_major_interleaved as column_major_interleaved
from cute_py.layout.cutlass2.classical import filter_krsc as filter_krsc
from cute_py.layout.cutlass2.classical import packed_vector as packed_vector
from cute_py.layout.cutlass2.classical import permuted as permuted
from cute_py.layout.cutlass2.classical import pitch_linear as pitch_linear
from cute_py.layout.cutlass2.classical import pitched as pitched
from cute_py.layout.cutlass2.classical import row_major as row_major
from cute_py.layout.cutlass2.classical import row_major_interleaved as row_major_interleaved
from cute_py.layout.cutlass2.classical import tensor_bhmk as tensor_bhmk
from cute_py.layout.cutlass2.classical import tensor_bmhk as tensor_bmhk
from cute_py.layout.cutlass2.classical import tensor_dmhb as tensor_dmhb
from cute_py.layout.cutlass2.classical import tensor_ndhwc as tensor_ndhwc
from cute_py.layout.cutlass2.classical import tensor_nhwc as tensor_nhwc
from cute_py.layout.cutlass2.tensorop import column_major_tensor_op_multiplicand_congruous as column_major_tensor_op_multiplicand_congruous
from cute_py.layout.cutlass2.tensorop import column_major_tensor_op_multiplicand_crosswise as column_major_tensor_op_multiplicand_crosswise
from cute_py.layout.cutlass2.tensorop import row_major_tensor_op_multiplicand_congruous as row_major_tensor_op_multiplicand_congruous
from cute_py.layout.cutlass2.tensorop import row_major_tensor_op_multiplicand_crosswise as row_major_tensor_op_multiplicand_crosswise
from cute_py.layout.cutlass2.tensorop import tensor_op_multiplicand as tensor_op_multiplicand
from cute_py.layout.cutlass2.tensorop import tensor_op_multiplicand_congruous as tensor_op_multiplicand_congruous
from cute_py.layout.cutlass2.tensorop import tensor_op_multiplicand_crosswise as tensor_op_multiplicand_crosswise
from cute_py.layout.cutlass2.tensorop import tensor_op_multiplicand_in_coordinates as tensor_op_multiplicand_in_coordinates
from cute_py.layout.cutlass2.tensorop import tensor_op_swizzle as tensor_op_swizzle
from cute_py.atoms.arch import ARCH_TAGS as ARCH_TAGS
from cute_py.atoms.arch import NumThreadsPerHalfWarp as NumThreadsPerHalfWarp
from cute_py.atoms.arch import NumThreadsPerQuad as NumThreadsPerQuad
from cute_py.atoms.arch import NumThreadsPerQuadPair as NumThreadsPerQuadPair
from cute_py.atoms.arch import NumThreadsPerWarp as NumThreadsPerWarp
from cute_py.atoms.arch import NumThreadsPerWarpGroup as NumThreadsPerWarpGroup
from cute_py.atoms.arch import NumWarpsPerWarpGroup as NumWarpsPerWarpGroup
from cute_py.tiled.thread_maps import ThreadMap as ThreadMap
from cute_py.tiled.thread_maps import raked_arrangement as raked_arrangement
from cute_py.tiled.thread_maps import simt_transpose_padding as simt_transpose_padding
from cute_py.tiled.thread_maps import stripmined_thread_map as stripmined_thread_map
from cute_py.tiled.thread_maps import transposed_thread_map as transposed_thread_map
from cute_py.tiled.thread_maps import warp_raked_thread_map as warp_raked_thread_map
from cute_py.tiled.access_iterators import PredicateVector as PredicateVector
from cute_py.tiled.access_iterators import TileAccessDesc as TileAccessDesc
from cute_py.tiled.access_iterators import TileAccessParams as TileAccessParams
from cute_py.tiled.access_iterators import predicate_vector as predicate_vector
from cute_py.tiled.access_iterators import tile_access_desc as tile_access_desc
from cute_py.tiled.default_cores import MmaCore as MmaCore
from cute_py.tiled.default_cores import MmaPolicy as MmaPolicy
from cute_py.tiled.default_cores import SimtWarp as SimtWarp
from cute_py.tiled.default_cores import default_instruction as default_instruction
from cute_py.tiled.default_cores import default_mma_core_simt as default_mma_core_simt
from cute_py.tiled.default_cores import default_mma_core_tensor_op as default_mma_core_tensor_op
from cute_py.tiled.default_cores import default_mma_tensor_op as default_mma_tensor_op
from cute_py.tiled.default_cores import default_operator as default_operator
from cute_py.tiled.default_cores import simt_warp as simt_warp
from cute_py.tiled.output_maps import OutputTileParams as OutputTileParams
from cute_py.tiled.output_maps import OutputTileShape as OutputTileShape
from cute_py.tiled.output_maps import OutputTileThreadMap as OutputTileThreadMap
from cute_py.tiled.output_maps import RowArrangement as RowArrangement
from cute_py.tiled.output_maps import default_thread_map_simt as default_thread_map_simt
from cute_py.tiled.output_maps import default_thread_map_tensor_op as default_thread_map_tensor_op
from cute_py.tiled.output_maps import output_tile_thread_map as output_tile_thread_map
from cute_py.tiled.output_maps import row_arrangement as row_arrangement
from cute_py.tiled.epilogue_maps import EpilogueMap as EpilogueMap
from cute_py.tiled.epilogue_maps import EpilogueParts as EpilogueParts
from cute_py.tiled.epilogue_maps import default_epilogue_simt as default_epilogue_simt
from cute_py.tiled.epilogue_maps import default_epilogue_tensor_op as default_epilogue_tensor_op
from cute_py.tiled.epilogue_maps import simt_epilogue as simt_epilogue
from cute_py.tiled.epilogue_maps import tensor_op_epilogue as tensor_op_epilogue
from cute_py.tiled.threadblocks import DefaultGemmConfiguration as DefaultGemmConfiguration
from cute_py.tiled.threadblocks import ThreadblockSwizzle as ThreadblockSwizzle
from cute_py.tiled.threadblocks import batched_swizzle as batched_swizzle
from cute_py.tiled.threadblocks import default_gemm_configuration as default_gemm_configuration
from cute_py.tiled.threadblocks import identity_swizzle as identity_swizzle
from cute_py.tiled.threadblocks import k_partition as k_partition
from cute_py.tiled.threadblocks import k_partition_by_floor as k_partition_by_floor
from cute_py.host.reference import reference_gemm as reference_gemm
from cute_py.host.reference import tensor_add as tensor_add
from cute_py.host.reference import tensor_div as tensor_div
from cute_py.host.reference import tensor_equals as tensor_equals
from cute_py.host.reference import tensor_map2 as tensor_map2
from cute_py.host.reference import tensor_modulus as tensor_modulus
from cute_py.host.reference import tensor_mul as tensor_mul
from cute_py.host.reference import tensor_sub as tensor_sub
from cute_py.host.fill import tensor_fill as tensor_fill
from cute_py.host.fill import tensor_fill_random_gaussian as tensor_fill_random_gaussian
from cute_py.host.fill import tensor_fill_random_uniform as tensor_fill_random_uniform
from cute_py.host.fill import tensor_fill_sequential as tensor_fill_sequential
from cute_py.host.text import print_tensor as print_tensor
from cute_py.host.text import tensor_table as tensor_table
from cute_py.host.text import tensor_text as tensor_text
from cute_py import analysis as analysis
from cute_py import atoms as atoms
from cute_py import cutlass2 as cutlass2
from cute_py import dtypes as dtypes
from cute_py.emulate import emulate as emulate
from cute_py import epilogues as epilogues
from cute_py.explore.widget import explore as explore
from cute_py import host as host
from cute_py.trace import math as math
from cute_py import ops as ops
from cute_py import see as see
from cute_py import tiled as tiled
from cute_py import torch as torch
from cute_py.trace.kernel import trace as trace
from cute_py import viz as viz

__version__: str
_HOME: dict[str, str]
_loaded_at: int
