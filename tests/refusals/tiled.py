"""Refusals of atoms, tensor maps, tiled operations and thread maps."""

from dataclasses import replace

import cute_py as cute
from cute_py import Layout, atoms, sym
from cute_py.atoms import Copy_Atom, devices, gmma, make_tma_atom
from cute_py.atoms.copy_sm90 import SM90_TMA_LOAD, SM90_TMA_LOAD_MULTICAST
from cute_py.atoms.copy_universal import move
from cute_py.cutlass2 import (
    PredicateVector,
    default_instruction,
    default_mma_core_tensor_op,
    default_mma_tensor_op,
    default_thread_map_simt,
    tile_access_desc,
)
from cute_py.tiled.checks import check_copy, check_gemm
from cute_py.tiled.coverage import coverage
from cute_py.tiled.suggest import suggest_permutation, suggest_tiled_copy
from cute_py.tiled.thread_maps import (
    raked_arrangement,
    simt_transpose_padding,
    stripmined_thread_map,
    transposed_thread_map,
    warp_raked_thread_map,
)
from cute_py.tiled.tiled_mma import make_tiled_mma
from tests.pure.test_tiled_checks import MMA as MMA32
from tests.pure.test_tiled_checks import PADDED, SHARED, TILE, fragments, memory, parts
from tests.pure.test_tiled_checks import ROWS as OF_ROWS
from tests.pure.test_tiled_refusals import (
    COPY,
    COUNTING,
    CP_ASYNC,
    F16,
    MMA,
    TV,
    WORD,
    columns,
    descriptors,
)
from tests.pure.test_tma_atoms import MN_MAJOR, smem
from tests.pure.test_tma_atoms import TILE as OF_SMEM
from tests.pure.test_tma_atoms import refused as tma

AMPERE, BF16 = F16, atoms.SM80_16x8x16_F32BF16BF16F32_TN
WARPS = Layout((2, 2, 1))
SUMS = cute.make_identity_tensor(((2, 2), 1, 2))
BLOCK = (128, 128, 32)
QUAD_PAIRS = cute.make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN", (3, 1, 1))
CP_ASYNC_128 = Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL", 16)
LDMATRIX = Copy_Atom("SM75_U32x4_LDSM_N", 16)
K_ATOM, NARROW = (gmma.gmma_layout_atom("K", name, 16) for name in ("SW128", "SW32"))
SWIZZLED = cute.composition(cute.Swizzle(1, 0, 1), Layout((8, 8), (8, 1)))

ROWS = """
arch-name: an architecture is not spelled like sm_90a
    - atoms.find(arch="ampere")
    - BF16.support(80)  # architecture 80
    + atoms.find(arch="sm_80")
atom-unknown: an atom does not exist
    - atoms.get("SM90_64x12x16_F32F16F16_SS")
    - atoms.get("SM80_16x8x16_F32BF16BF16F32")  # did you mean SM80_16x8x16_F32BF
    - atoms.get("nothing")  # find(a=..., arch=...) lists what fits
    - atoms.get("SM75_QMMA")  # given SM75_QMMA; required: the name of an atom
    + atoms.get("SM90_64x8x16_F32F16F16_SS")
atom-parameters: an atom is given the wrong template parameters
    - atoms.get("SM90_64x8x16_F32F16F16_SS")("K", tnspA="K")
    - BF16("f32")  # template parameters of the atom: none
    - atoms.get("SM90_64x8x16_F32F16F16_SS")(tnspC="K")  # template parameters of the atom: tnspA,
        tnspB, scaleA, scaleB
    - atoms.get("SM90_64x8x8_F32TF32TF32_SS_TN")(tnspB="MN")  # tnspB=MN
    + atoms.get("SM90_64x8x16_F32F16F16_SS")("K", "K")
atom-argument: a template parameter of an atom has a value that is not allowed
    - atoms.get("SM90_64x8x16_F32F16F16_SS")(scaleB=2)
    - atoms.get("SM90_64x8x16_F32F16F16_RS")(tnspA="MN")  # given tnspA=MN; required: tnspA of K;
        fix: A in registers is K-major
    - atoms.get("SM100_MMA_S8_SS")(M=65)  # M of a positive multiple of 8
    + atoms.get("SM90_64x8x16_F32F16F16_SS")(scaleB=-1)
atom-no-ptx: PTX text is requested for an atom that is not an instruction
    - atoms.get("UniversalFMA<f32,f32,f32,f32>").instruction("d", "a", "b")
    - atoms.get("UniversalFMA").instruction(["d"], ["a"], ["b"])  # UniversalFMA<f32,f32,f32,f32>,
        which has no PTX text
    + AMPERE.instruction(["d"] * 4, ["a"] * 4, ["b"] * 2)
atom-operand: an instruction is given the wrong number of registers
    - atoms.SM80_16x8x16_F32F16F16F32_TN.instruction(["d"] * 3, ["a"] * 4, ["b"] * 2)
    - BF16.instruction("dddd", "aaa", "bb")  # given 3 registers for an operand of 4;
        required: 4 registers of type b32
    + AMPERE.instruction(["d"] * 4, ["a"] * 4, ["b"] * 2)
copy-op: something other than a copy instruction is given
    - cute.Copy_Atom(3, "f16")
    + cute.Copy_Atom("UniversalCopy<16>", "f16")
copy-unknown: a copy instruction does not exist
    - atoms.get_copy("SM75_U32x4_LDSM_M")
    + atoms.get_copy("SM75_U32x4_LDSM_N")
copy-arguments: a copy instruction is given the wrong template arguments
    - atoms.get_copy("SM80_CP_ASYNC_CACHEALWAYS")
    + atoms.get_copy("SM80_CP_ASYNC_CACHEALWAYS<32>")
copy-width: a copy instruction does not have that width
    - atoms.get_copy("UniversalCopy", 24)
    + atoms.get_copy("UniversalCopy", 32)
copy-bulk-bits: a bulk copy is not a multiple of 16 bytes
    - atoms.get_copy("SM90_BULK_COPY_G2S", 200)
    + atoms.get_copy("SM90_BULK_COPY_G2S", 256)
copy-spaces: a copy instruction does not move between these memory spaces
    - move(32, "gmem", "smem")
    + move(32, "gmem", "rmem")
copy-no-ptx: PTX text is requested for a copy that is not a single instruction
    - atoms.get_copy("UniversalCopy", 32).instruction()
    + atoms.get_copy("SM75_U32x4_LDSM_N").instruction(dst=["a"] * 4, src=["b"])
copy-operands: the PTX text of a copy is given the wrong operands
    - atoms.get_copy("SM75_U32x4_LDSM_N").instruction(dst=["a"] * 3, src=["b"])
    + atoms.get_copy("SM75_U32x4_LDSM_N").instruction(dst=["a"] * 4, src=["b"])
copy-value-type: a copy atom would split a value between threads
    - cute.Copy_Atom("SM75_U32x1_MOVM_T", "u64")
    + cute.Copy_Atom("SM75_U32x1_MOVM_T", "u16")
copy-value-bits: a copy atom does not move a whole number of values
    - cute.Copy_Atom("UniversalCopy<16>", "f32").require_whole_values()
    + cute.Copy_Atom("UniversalCopy<32>", "f32").require_whole_values()
gmma-atom: there is no such layout atom of shared memory
    - gmma.gmma_layout_atom("M", "SW128", 16)
    + gmma.gmma_layout_atom("MN", "SW128", 16)
gmma-major: a major is neither K nor MN
    - gmma.make_gmma_desc(Layout((64, 16), (16, 1)), 16, "N")
    + gmma.make_gmma_desc(cute.tile_to_shape(NARROW, (64, 16)), 16, "K")
gmma-canonical: no warpgroup descriptor can describe a layout
    - gmma.make_gmma_desc(Layout(64), 16, "K")
    + gmma.make_gmma_desc(cute.tile_to_shape(NARROW, (64, 16)), 16, "K")
gmma-address: an address does not fit into a descriptor
    - gmma.GmmaDescriptor(1, 1, 64).encode(1 << 18)
    + gmma.GmmaDescriptor(1, 1, 64).encode(1 << 17)
smem-swizzle: the hardware does not have a swizzle
    - gmma.byte_swizzle(SWIZZLED, 4)
    - tma(layout=cute.composition(cute.Swizzle(3, 4, 3), cute.Layout((64, 64), (64, 1))))  #
        required: Sw<0,4,3>, Sw<1,4,3>, Sw<2,4,3> or Sw<3,4,3> on byte addresses
    + gmma.byte_swizzle(K_ATOM, 2)
tma-op: a bulk tensor copy does not exist
    - make_tma_atom("SM90_LOAD", Layout((8, 8)), Layout((8, 8)), "f16")
    - tma(op="SM90_LOAD")  # one of SM90_TMA_LOAD, ...; fix: pass the function or its name
    + tma()
tma-rank: a tensor map would have too many dimensions
    - SM90_TMA_LOAD(128, 6)
    - tma(gmem=cute.Layout((512, 256, 2, 2, 2, 2), (256, 1, 1024, 2048, 4096, 8192)))  # given 6
        dimensions; required: 1 to 5
    + SM90_TMA_LOAD(128, 5)
tma-tile: tile and shared memory have different sizes
    - tma(cta_tile=(64, 64))
    + tma(cta_tile=(128, 64))
tma-vector: shared memory does not step along a mode of the tensor
    - tma(layout=cute.Layout(((2, 4), 64), ((4, 1), 8)), gmem=MN_MAJOR)
    + tma()
tma-major: the tensor and shared memory have different contiguous modes
    - tma(gmem=MN_MAJOR)
    + tma()
tma-stride: a stride of the tensor is not a multiple of 16 bytes
    - tma(gmem=cute.Layout((512, 256), (260, 1)))
    + tma(gmem=cute.Layout((512, 256), (264, 1)))
tma-box: a box is too large
    - tma(layout=smem("K", "SW128", 16, (512, 64)))
    + tma(layout=smem("K", "SW128", 16, (256, 64)))
tma-row: the rows of a box are not a multiple of 16 bytes
    - tma(layout=cute.Layout((64, 4), (4, 1)))
    + tma(layout=cute.Layout((64, 8), (8, 1)))
tma-span: the rows of a box are wider than the swizzle
    - tma(layout=cute.composition(cute.Swizzle(2, 3, 3), cute.Layout((64, 64), (64, 1))))
    + tma()
device-rate: a number of a GPU is not positive
    - replace(devices.H200, l2=0)
    - replace(devices.H200, dram_latency=(400, -1))  # given dram_latency of H200 as -1
    + replace(devices.H200, l2=None)
device-unknown: a number of a GPU is asked for that no source gives
    - devices.H100.known("ex2_rate", "known")
    + devices.H100.known("l2", "known")
tma-multicast: a box cannot be split among the CTAs
    - tma(multicast=3)
    + tma(op=SM90_TMA_LOAD_MULTICAST, multicast=2)
mma-columns: a thread does not hold the columns as a part of its values
    - columns(60, 8)
    + columns(56, 8)
mma-views: sums are no rows, or no fragments of A, of these atoms
    - cute.make_tiled_mma("SM80_16x8x32_S32S8S8S32_TN").as_A(SUMS)
    + cute.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN").as_A(SUMS)
tiled-permutation: a permutation of a tiled MMA is not a whole number of atoms
    - cute.make_tiled_mma(F16, WARPS, (32, 12, 16))
    + cute.make_tiled_mma(F16, WARPS, (32, 16, 16))
tiled-holes: a thread-value layout is requested for threads with holes in their indices
    - QUAD_PAIRS.get_layoutA_TV()
    + MMA.get_layoutA_TV()
tiled-overlap: several atoms of a tiled MMA would run on the same threads
    - cute.make_tiled_mma(F16, Layout((2, 2, 1), (1, 0, 0)))
    + cute.make_tiled_mma(F16, Layout((2, 2, 1), (1, 2, 0)))
tiled-static: threads or tiles of a tiled operation have symbols
    - cute.make_tiled_copy_tv(WORD, Layout((sym("N"), 4)), (128,))
    + cute.make_tiled_copy_tv(WORD, Layout((32, 4)), (128,))
mma-atom: a tiled MMA is made of something other than an MMA atom
    - cute.make_tiled_mma(None)
    + cute.make_tiled_mma(F16)
tile-layout: the tile of a mode overlaps, has negative strides, or has gaps that its copies do not
        fill
    - cute.make_tiled_mma(F16, (2, 2, 1), (Layout((16, 2), (1, 1)), 16, 16))
    + cute.make_tiled_mma(F16, (2, 2, 1), (Layout((16, 2), (1, 16)), 16, 16))
tiled-rank: an atom layout or permutation has modes beyond M, N and K
    - cute.make_tiled_mma(F16, Layout((2, 2, 1, 2)))
    + cute.make_tiled_mma(F16, Layout((2, 2, 1)))
partition-rank: a tensor with too few modes is partitioned
    - MMA.thrfrg_A(Layout(64))
    + MMA.thrfrg_A(Layout((64, 32)))
partition-divides: an extent of a tensor is not a multiple of the tile
    - MMA.get_slice(0).partition_C(Layout((64, 20)))
    + MMA.get_slice(0).partition_C(Layout((64, 32)))
tiled-thread: the tiled operation does not have a thread
    - MMA.get_slice(128)
    + MMA.get_slice(127)
coverage-shape: coverage of an MMA gets another shape than (M,N,K)
    - coverage(MMA, (32, 16))
    + coverage(MMA, (32, 16, 16))
thread-map: something other than a thread map is transposed
    - transposed_thread_map(None)
    + transposed_thread_map(stripmined_thread_map((8, 32), 8))
thread-map-pair: a tile or arrangement of a thread map has other modes than contiguous and strided
    - stripmined_thread_map((8,), 8)
    + stripmined_thread_map((8, 32), 8)
copy-atom: a copy is tiled from something other than a Copy_Atom
    - cute.make_tiled_copy("SM75_U32x4_LDSM_N", Layout(32), Layout((1, 8)))
    + cute.make_tiled_copy(LDMATRIX, Layout(32), Layout((1, 8)))
copy-threads: a thread layout is not a whole number of copy atoms
    - cute.make_tiled_copy(LDMATRIX, Layout(48), Layout((1, 8)))
    + cute.make_tiled_copy(LDMATRIX, Layout(32), Layout((1, 8)))
copy-values: a value layout is not a whole number of copy atoms
    - cute.make_tiled_copy(CP_ASYNC_128, Layout((32, 4)), Layout((1, 4)))
    + cute.make_tiled_copy(CP_ASYNC_128, Layout((32, 4)), Layout((1, 8)))
copy-map: the raked product of threads and values leaves indices out or repeats them
    - cute.make_tiled_copy(WORD, Layout(32, 3), Layout(4))
    + cute.make_tiled_copy(WORD, Layout(32), Layout(4))
copy-tv: a thread-value layout has other modes than threads and values
    - cute.make_tiled_copy_tv(WORD, Layout(32), (32,))
    + cute.make_tiled_copy_tv(WORD, Layout((32, 1)), (32,))
copy-outside: a thread-value layout reaches outside its tile
    - cute.make_tiled_copy_tv(WORD, TV, (64,))
    + cute.make_tiled_copy_tv(WORD, TV, (128,))
copy-writers: several threads or values would write one element of memory
    - cute.make_tiled_copy_tv(CP_ASYNC, Layout((32, 2), (1, 1)), (33,))
    - check_copy(SHARED, *[SHARED.get_slice(0).partition_S(memory(Layout(33), dtype="f32"))] * 2)  #
        in which elements have several writers; required: one writer
    + cute.make_tiled_copy_tv(CP_ASYNC, Layout((32, 2), (1, 32)), (64,))
copy-dtype: a copy is made of elements of another width
    - check_copy(*parts(OF_ROWS, memory(TILE, "gmem", "f32"), TILE))
    + check_copy(*parts(OF_ROWS, TILE, TILE))
copy-parts: source and destination of a copy are partitioned differently
    - check_copy(*parts(OF_ROWS, Layout((64, 32), (32, 1)), TILE))
    + check_copy(*parts(OF_ROWS, TILE, TILE))
copy-vector: the values of one access are not contiguous
    - check_copy(*parts(OF_ROWS, Layout((32, 32)), TILE))
    + check_copy(*parts(OF_ROWS, TILE, TILE))
copy-aligned: an access does not start at a multiple of its alignment
    - check_copy(*parts(OF_ROWS, TILE, PADDED))
    + check_copy(*parts(OF_ROWS, TILE, Layout((32, 32), (40, 1))))
retile-values: a fragment is not whole tiles of the copy that retiles it
    - COPY.retile(Layout((3, 1, 1)))
    + COPY.retile(Layout((4, 1, 1)))
threadblock-choice: a swizzle, a class of instructions, or a number of slices that CUTLASS has not
    - cute.identity_swizzle((5, 7, 1), 3)
    - cute.default_gemm_configuration("sparse")  # given 'sparse'; required: one of
        'OpClassSimt', 'OpClassTensorOp'
    + cute.identity_swizzle((5, 7, 1), 4)
threadblock-range: a size, or a place that a launch or a split of K does not have
    - cute.k_partition(64, 8, 0, 0)  # given slices=0; required: at least 1;
    - cute.k_partition(64, 0, 2, 0)  # given depth=0; required: at least 1;
    - cute.k_partition(64, 8, 2, 2)  # given z=2; required: less than 2 slices;
    - cute.k_partition_by_floor(64, 3, 3)  # given z=3; required: less than 3 slices;
    - cute.k_partition_by_floor(64, 3, -1)  # given z=-1; required: at least 0;
    - cute.identity_swizzle((5, -7, 1))  # given N=-7; required: at least 0;
    - cute.identity_swizzle((5, 7))  # given tiles=(5, 7); required: tiles along M and N,
    - cute.batched_swizzle((5, 7), 3).batches(-1)  # given z=-1; required: at least 0;
    + cute.k_partition(64, 8, 2, 1)
copy-codomain: a thread-value layout reaches addresses that the data does not have
    - cute.make_cotiled_copy(CP_ASYNC_128, Layout((32, 8), (8, 1)), Layout((8, 16), (16, 1)))
    + cute.make_cotiled_copy(CP_ASYNC_128, Layout((16, 8), (8, 1)), Layout((8, 16), (16, 1)))
retile-order: a copy moves the blocks of a fragment in another order than that of their coordinates
    - cute.make_tiled_copy_C(WORD, COUNTING).retile(Layout((1, 8, 1)))
    + COPY.retile(Layout((2, 4, 1)))
operand-dtype: an operand of a product has elements that the instruction does not compute with
    - descriptors(cute.tile_to_shape(atoms.Layout_K_SW128_Atom("f32"), (64, 32)), "f32")
    - check_gemm(MMA32, memory(fragments()[0].layout, "rmem", "bf16"), *fragments()[1:])  # gemm:
        given bf16 as operand A of ...; required: elements of f16
    + check_gemm(MMA32, *fragments())
operand-major: a tile in shared memory has another major than the instruction reads
    - descriptors(cute.tile_to_shape(atoms.Layout_MN_SW128_Atom("f16"), (64, 64)))
    + descriptors(cute.tile_to_shape(atoms.Layout_K_SW128_Atom("f16"), (64, 64)))
thread-map-divides: threads or accesses do not divide the tile
    - warp_raked_thread_map((128, 8), 256, (8, 4), 8)
    - warp_raked_thread_map((128, 32), 96, (8, 4), 8)  # given 3 (warps along the rows)
    - warp_raked_thread_map((128, 30), 128, (8, 4), 8)  # 4 (rows of a warp) and 30
    - stripmined_thread_map((8, 128), 256, 3)  # 3 (elements of an access) and 8
    - raked_arrangement(100, 16)  # 8 (elements of an access) and 100
    - simt_transpose_padding(12, 32)  # 12 (elements along K) and 32
    + warp_raked_thread_map((128, 32), 128, (8, 4), 8)
thread-map-warps: a warp arrangement does not have 32 lanes, or threads are not whole warps
    - warp_raked_thread_map((128, 32), 100, (8, 4), 8)
    - warp_raked_thread_map((128, 32), 128, (8, 8), 8)  # 32 lanes in a warp
    - default_thread_map_simt((128, 128), (32, 64), 1, 32, (4, 4))  # given 256 threads and (4, 4)
    + warp_raked_thread_map((128, 32), 128, (8, 4), 8)
thread-map-transpose: a thread map of wide accesses is transposed
    - transposed_thread_map(stripmined_thread_map((8, 128), 64, 2))
    + transposed_thread_map(stripmined_thread_map((8, 128), 64))
thread-map-atom: a copy atom moves more than one access of the thread map
    - stripmined_thread_map((8, 128), 256).tiled_copy(Copy_Atom("UniversalCopy<64>", "f32"))
    + stripmined_thread_map((8, 128), 256).tiled_copy(Copy_Atom("UniversalCopy<32>", "f32"))
predicate-bits: predicates do not fit into a byte
    - PredicateVector(17, 8, 1)
    + PredicateVector(17, 4, 1)
predicate-words: the words of a vector of predicates are too few or too wide
    - PredicateVector(17, words=(1,))
    + PredicateVector(17, words=(1, 1))
predicate-index: a predicate past the last one is asked for
    - PredicateVector(17)[17]
    + PredicateVector(17)[16]
iterator-layout: an access iterator is described for an unknown layout
    - tile_access_desc(stripmined_thread_map((8, 32), 8), 32, 0, "interleaved")
    + tile_access_desc(stripmined_thread_map((8, 32), 8), 32, 0, "row_major")
no-instruction: no MMA row has the types, the shape and CUTLASS's tags
    - default_instruction((16, 8, 16), "f16", "f16", "f32", "OpMultiplyAddSaturate")
    + default_instruction((16, 8, 16), "f16", "f16", "f32", "OpMultiplyAdd")
warp-instruction: an instruction of a quad pair is to be tiled over warps
    - default_mma_tensor_op((64, 64, 4), (64, 64, 4), (8, 8, 4), "f16", "f16", "f16")
    + default_mma_tensor_op((64, 64, 8), (64, 64, 8), (16, 8, 8), "f16", "f16", "f16")
core-major: a core of tensor cores is asked for by another major
    - default_mma_core_tensor_op(BLOCK, BLOCK, (16, 8, 8), "f16", "f32", "M")
    + default_mma_core_tensor_op(BLOCK, BLOCK, (16, 8, 8), "f16", "f32", "K")
suggest-major: the contiguous mode is not a mode of the tile
    - suggest_tiled_copy((8, 8), "f16", 8, "N")
    - suggest_tiled_copy((8, 8, 8), "f16", 8)  # major 'K' for tile
    + suggest_tiled_copy((8, 8), "f16", 8, "K")
suggest-copy: no tiled copy gives every thread whole accesses
    - suggest_tiled_copy((8, 8), "f16", 128)
    + suggest_tiled_copy((64, 64), "f16", 128)
suggest-matrices: ldmatrix loads another number of matrices
    - suggest_permutation(make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN"), 3)
    + suggest_permutation(make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN"), 4)
suggest-atom: ldmatrix cannot feed the atom
    - suggest_permutation(make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN"))
    + suggest_permutation(make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN"))
not-a-layout:
    - tma(gmem=OF_SMEM)  # required: a layout here
tiler-type:
    - cute.make_tiled_mma(F16, WARPS, (cute.E(0), 16, 16))  # make_tiled_mma: given ... required: a
        layout, an integer, _
tiled-kind:
    - cute.make_tiled_copy_A(WORD, F16)  # make_tiled_copy_A: given ...MMA_Atom); required: a
        TiledMMA
copy-memory:
    - check_copy(*parts(OF_ROWS, memory(TILE), TILE))  # copy: given ...CP_ASYNC... with a source in
        smem; required: a source in gmem
operand-shape:
    - check_gemm(MMA32, fragments()[0], fragments(shape=(64, 64, 64))[1], fragments()[2])  # gemm:
        given C ... and B ... with 4, 8, 4 values V of C, A and B
"""
