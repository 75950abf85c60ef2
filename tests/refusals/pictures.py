"""Refusals of pictures, the explorer and analyses."""

import numpy as np

import cute_py as cute
from cute_py import E, Layout, Swizzle, sym, viz
from cute_py.analysis import (
    Access,
    bank_conflicts,
    coalescing,
    model,
    occupancy,
    registers,
    suggest_smem_layout,
    swizzle_solver,
    vector_width,
)
from cute_py.atoms.copy import Copy_Atom
from cute_py.kernels.copy import copy_elements
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.tiled.suggest import suggest_tiled_copy
from cute_py.tiled.tiled_copy import make_tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma

SQUARES = tuple(np.ones((32, 32), np.float32) for _ in range(2))
AMPERE = "SM80_16x8x16_F32BF16BF16F32_TN"
KIB = 1024

ROWS = """
viz-type: a picture is requested of something that has none
    - viz.picture_of(3)
    - viz.picture_of((4, 8))  # fix: a tuple of numbers is a text: print it
    - viz.picture_of(cute.get_copy("SM75_U32x4_LDSM_N"))  # Copy_Atom(op, dtype) has a picture
    - viz.picture_tv(AMPERE, (2, 2))  # fix: pass a layout (thread, value) -> index
    - viz.diff(Layout(4), AMPERE)  # (MMA_Atom)
    + viz.picture_of(Layout(3))
viz-by: the colours of a picture cannot tell apart what they are asked to
    - viz.picture_of(Layout(4), "thread")
    + viz.picture_of(Layout(4), "bank")
viz-bits: elements have no bits, or a part of one
    - viz.picture_of(Layout(4), "bank", 0)
    - cute.show(Layout(4), bits=2.5)  # given bits=2.5
    - cute.interact("(n,8):(8,1)", n=[4, 8], bits=-8)  # given bits=-8
    + viz.picture_of(Layout(4), "bank", 4)
viz-latex: a picture has more cells than TeX can set
    - viz.to_latex(Layout((64, 128)))
    + viz.to_latex(Layout((8, 8)))
viz-rank: a layout has more modes than a picture can show
    - viz.picture_of(Layout((2,) * 5))
    + viz.picture_of(Layout((2,) * 4))
viz-size: a picture would have too many cells or threads
    - viz.picture_of(Layout((1024, 1024)))
    - viz.picture_of(Swizzle(3, 4, 30))  # fix: draw a slice or one tile of it
    - viz.picture_of(Copy_Atom("SM90_BULK_COPY_G2S<1073741824>", 8))  # at most 4194304 pairs of
        thread and value in a picture
    + viz.picture_of(Layout((8, 8)))
viz-tv: a layout drawn as a thread-value layout does not have two modes
    - viz.picture_tv(Layout((2, 2, 2)), (2, 2, 2))
    + viz.picture_tv(Layout((2, 2)), (2, 2))
viz-tile: a thread-value layout reaches outside the tile that it is drawn over
    - viz.picture_tv(Layout((2, 2), (1, 4)), (2, 2))
    - viz.picture_tv(Layout((2, 2), (1, -2)), (2, 2))  # indices or coordinates inside the tile
    - viz.picture_tv(Layout((2, 2), (E(0), 2 * E(1))), (2, 2))  # value 1 of thread 0 is at (0,2);
        required: indices or coordinates inside the tile
    - viz.picture_tv(Layout((2, 2), (E(0), -1 * E(1))), (2, 2))  # is at (0,-1)
    - viz.picture_tv(Layout((2, 2), (E(2), E(1))), (2, 2))  # is at (0,0,0)
    - viz.picture_tv(Layout((2, 2), (E(0, 0), E(1))), (2, 2))  # is at ((0),0)
    + viz.picture_tv(Layout((2, 2), (1, 2)), (2, 2))
viz-operand: an operand other than A, B and C is drawn
    - viz.picture_operand(AMPERE, "D")
    + viz.picture_operand(AMPERE, "C")
viz-link: values shown together are to be linked by something that cells do not have
    - viz.show(Layout(4), link="colour")
    + viz.show(Layout(4), link="offset")
viz-diff: layouts of different sizes are compared
    - viz.diff(Layout(4), Layout(8))
    + viz.diff(Layout(4), Layout(4, 2))
suggest-dtype: accesses and tile have elements of different width
    - suggest_smem_layout((32, 1), "f32", "K", [Access(Layout((32, 1), (0, 0)), 64, "f16")])
    + suggest_smem_layout((32, 1), "f32", "K", [Access(Layout((32, 1)), 32, "f32")])
suggest-smem: none of the candidates is free of bank conflicts
    - suggest_smem_layout((66,), "f32", "K", [Access(Layout((32, 1), (2, 0)), 32, "f32")])
    + suggest_smem_layout((64,), "f32", "K", [Access(Layout((32, 1), (2, 0)), 32, "f32")])
solver-accesses: a shared-memory layout is requested without accesses
    - swizzle_solver([], Layout(4))
    + swizzle_solver([Access(Layout((32, 1)), 32, "f32")], Layout(32))
solver-layout: the search starts from something other than a plain layout
    - swizzle_solver([Access(Layout((32, 1)), 32, "f32")], Swizzle(1, 0, 1))
    + swizzle_solver([Access(Layout((32, 1)), 32, "f32")], Layout(32))
access-subject: an analysis is requested of something that does not access memory
    - coalescing(Layout(4), Layout(4))
    - bank_conflicts(7, Layout(4))  # a TiledCopy or an Access
    - bank_conflicts(Layout((4, 8)), Layout(4))  # a TiledCopy or an Access
    - coalescing(Layout(4), Layout(4))  # a TiledCopy or an Access
    + coalescing(Access(Layout((4, 1)), 32, "f32"), Layout(4))
access-layout: an access is analysed without the layout of its tensor
    - bank_conflicts(Access(Layout((32, 1)), 32, "f32"))
    - vector_width(dtype="f16")  # without a layout
    + bank_conflicts(Access(Layout((32, 1)), 32, "f32"), Layout(32))
access-width: the hardware does not have an access of that width
    - bank_conflicts([0], bits=256)
    - Access(Layout((32, 1)), 16, "f32")  # accesses of 32, 64, 128 bits
    + bank_conflicts([0], bits=128)
access-bits: plain addresses are analysed without their width
    - bank_conflicts([0, 4])
    + bank_conflicts([0, 4], bits=32)
access-lanes: there are no addresses, negative ones, or more than a warp has lanes
    - bank_conflicts([0] * 33, bits=32)
    + bank_conflicts([0] * 32, bits=32)
access-tile: an access is outside the tile
    - bank_conflicts(Access(Layout((32, 1)), 32, "f32"), Layout(16))
    + bank_conflicts(Access(Layout((32, 1)), 32, "f32"), Layout(32))
access-vector: the elements of one access are not contiguous
    - bank_conflicts(suggest_tiled_copy((32, 32), "f16", 32), Layout((32, 32)))
    + bank_conflicts(suggest_tiled_copy((32, 32), "f16", 32), Layout((32, 32), (32, 1)))
access-aligned: a wide access does not start at a multiple of its width
    - bank_conflicts([0, 2], bits=32)
    - bank_conflicts(suggest_tiled_copy((32, 32), "f16", 32), Layout((32, 32), (36, 1)))  # starts
        that are multiples of 8
    + bank_conflicts([0, 4], bits=32)
access-space: the instruction does not address that memory
    - bank_conflicts(make_tiled_copy(Copy_Atom("SM90_BULK_COPY_G2S<128>", "f16"), Layout(1),
        Layout(8)), Layout(8))
    - coalescing(make_tiled_copy(Copy_Atom("SM75_U32x4_LDSM_N", "f16"), Layout(32), Layout(8)),
        Layout(256))  # an instruction whose lanes address gmem
    + bank_conflicts(suggest_tiled_copy((32, 32), "f16", 32), Layout((32, 32), (32, 1)))
vector-sizes: tensors of different sizes are copied to each other
    - vector_width(Layout(4), Layout(8), dtype="f16")
    + vector_width(Layout(4), Layout(4), dtype="f16")
vector-dtype: a vector width is requested without an element type
    - vector_width(Layout(4), Layout(4))
    + vector_width(Layout(4), Layout(4), dtype="f16")
occupancy-arch: the limits of an architecture are not known
    - occupancy("sm_61", 256, 32)
    + occupancy("sm_80", 256, 32)
occupancy-range: threads, registers or bytes are out of range
    - occupancy("sm_80", 2048, 32)
    - occupancy("sm_80", 256, 256)  # use smaller blocks or tiles, or fewer registers
    - occupancy("sm_80", 256, 32, 164 * KIB)  # bytes of shared memory of a block
    - occupancy("sm_80", 1024, 128)  # 131072 registers of a block, as allocated; required: 1 to
        65536
    - occupancy("sm_90", 25 * 32, 80)  # given 71680 registers of a block, as allocated; required: 1
        to 65536
    + occupancy("sm_80", 1024, 32)
model-positive: a number of the analytic model is not positive and finite
    - model.gemm_ratio(0, 128)
    - model.bandwidth_need(14, -1)  # given ratio=-1
    - model.thread_tile_registers(8, 0)  # given Nf=0
    - model.beta(419, 512, -600)  # given ffma_latency=-600
    - model.smallest_tile(model.V100, float("inf"))  # given peak=inf
    + model.gemm_ratio(128, 128)
model-peak: the peak of a type is not among the numbers of a GPU
    - model.predict(model.V100, (8192, 8192, 8192), (128, 128), bytes=1)
    + model.predict(model.V100, (8192, 8192, 8192), (128, 128), bytes=1, peak=56)
model-part: a part of a tile of K is no part of 1
    - model.partial_counts(model.instruction_counts((128, 128, 8), (8, 8)), 1.5)
    + model.partial_counts(model.instruction_counts((128, 128, 8), (8, 8)), 0.5)
model-hit: a hit rate is no part of 1
    - model.load_bandwidth(model.V100, 1.5)
    + model.load_bandwidth(model.V100, 1)
model-forms: two forms of a hit rate are asked for at once
    - model.l2_hit_rate(4096, 4096, literal=True, exact=True)
    + model.l2_hit_rate(4096, 4096, exact=True)
model-lanes: lanes of a warp are not 32
    - model.warp_tile_cycles(lanes=(4, 4))
    - model.warp_tile_cycles(lanes=(-1, -32))  # given lanes (-1, -32)
    + model.warp_tile_cycles(lanes=(4, 8))
model-registers: no tile of a thread fits into its registers and covers shared memory
    - model.thread_tile_choice(64)
    + model.thread_tile_choice(96)
model-tiles: a tile does not divide among the threads
    - model.instruction_counts((100, 128, 8), (8, 8))
    + model.instruction_counts((96, 128, 12), (8, 8))
model-plan: instructions are counted of a plan without multiply-adds in a loop
    - model.counts_of_plan(cute.trace(copy_elements, *SQUARES))
    + model.counts_of_plan(cute.trace(gemm_naive, *SQUARES, SQUARES[0]))
model-latency: the multiply-adds of a tile do not cover the latency of memory
    - model.beta(419, 256)
    + model.beta(419, 512)
explore-state: a link is of another version, or has entries of another type
    * explore name="v", value=2
explore-limit: an expression of a link needs more than the memory or the stack
    * explore reason="MemoryError"
explore-package: an expression needs a package that a browser's Python lacks
    * explore reason="No module named 'sympy'"
explore-anywidget: a notebook without anywidget is asked for the explorer
    * explore reason="No module named 'anywidget'"
explore-value: a value that no expression gives is explored
    * explore value=2.5
interact-values: a choice has no values, or a text in place of a list
    - cute.interact("(n,8):(8,1)", n="48")
    - cute.interact("(n,8):(8,1)", n=[])  # given n=[]; required: a list or range
    - cute.interact("(n,8):(8,1)", n=4)  # given n=4
    - cute.interact(5)  # given make=5
    - cute.interact("LayoutLeft")  # given make='LayoutLeft'; ... an expression with integers
    + cute.interact("(n,8):(8,1)", n=[4, 8])
interact-name: an expression does not have the name of a choice
    - cute.interact("(4,8):(8,1)", n=[4, 8])
    + cute.interact("(n,8):(8,1)", n=[4, 8])
interact-many: choices have more combinations than a notebook can keep
    - cute.interact("(n,8):(8,1)", n=range(2000))
    - cute.interact("(n,512):(512,1)", n=[128, 256, 512])  # over 131072 cells in all pictures
    - cute.interact("(2,2,2,2,2,2):(1,2,4,8,16,32) o (2,2,2,2):(1,2,4,8)")  # 20 integers
    + cute.interact("(n,8):(8,1)", n=range(1, 9))
explore-slow: an expression takes longer than a page waits
    * explore seconds=2
explore-runtime: a folder without the files of Pyodide is named
    * --runtime path="pyodide", missing="pyodide.mjs", version="314.0.7"
tools-symbols:
    - viz.picture_of(Layout((4, sym("N"))))  # given (4,N):(1,4), whose offsets depend on symbols
tools-symbols:
    - viz.picture_tv(Layout((2, sym("N"))), (2, 2))  # numbers in for the symbols
partition-divides:
    - registers(make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN"), (24, 8, 16))  # extent 24 in M
suggest-major:
    - suggest_smem_layout((32, 1), "f32", "N", [])  # "K" for the last or "MN" for the first
"""
