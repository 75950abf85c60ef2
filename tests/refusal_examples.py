"""An example of every refusal, of which docs/errors.md is made.

`WHEN` says of each code what it is raised for. Its message is made by a call: one of the tables of
the tests, a whole test, or one of `more()`. Where the call needs a GPU, its compilers, or memory
that runs out, `RECORDED` has the facts that it gave.
"""

import contextlib
import functools
import io
from functools import partial

import numpy as np
import pytest

import cute_py as cute
from cute_py import Layout, sym
from cute_py.errors import refusal
from tests.kernel_refusals import bodies, message_of, traced

# code -> what it is raised for
WHEN = {
    # -- integers.wordings
    "leaf-type": (
        "a leaf, index or number is a bool, a float, text or anything else that is not an integer"
    ),
    "leaf-operands": "the operands are leaves of two unrelated classes",
    "undecided": "symbols leave a question open; the fix names an assumption that decides it",
    "symbol-name": "the name of a symbol or of memory is not an identifier",
    "symbol-multiple": "`multiple_of` is not positive",
    "symbol-range": "no value satisfies the declaration of a symbol",
    "symbol-conflict": "one name is declared in two ways",
    "symbol-value": "a symbol is given a value that its declaration excludes",
    "symbol-true-division": "symbols are divided with `/`",
    "divide-by-zero": "a divisor is 0",
    # -- layout.wordings
    "extent-not-positive": "an extent, target, tile or factor is 0 or negative",
    "wrong-argument": "a function, a mapping or an order is required, and something else is given",
    "layout-text": "a text is given where a layout is built",
    "layout-list": "a list is given where a tuple is required",
    "not-congruent": "shape and stride have different profiles",
    "too-deep": "a tuple nests deeper than 64 levels",
    "not-a-layout": "a layout is required, and something else is given",
    "basis-path": "`E` is called with something other than mode indices",
    "mixed-strides": "integer and coordinate strides are mixed in one layout",
    "profile-mismatch": "two int tuples that must match have different profiles",
    "not-divisible": "neither of two integers divides the other, and one must",
    "coordinate-profile": "a coordinate nests finer than, or across, the shape",
    "coordinate-range": "a coordinate or index is negative or outside of the shape",
    "mode-range": "an index names a mode that the layout does not have",
    "mode-list": "something other than a list of modes is given",
    "mode-interval": "an interval of modes is empty or out of range",
    "rank-target": "a layout would have to lose modes to reach a rank",
    "profile-rank": "a target profile has more modes than the layout",
    "tiler-rank": "a by-mode tiler has more entries than the layout has modes",
    "tiler-type": "a tiler is neither layout nor integer nor `_` nor a tuple of these",
    "composition-departs": (
        "no layout whose shape refines b's computes a(b(c)); the first one that departs is named"
    ),
    "composition-too-large": ("a composition could only be decided by trying too many coordinates"),
    "composition-diagonal": (
        "one step of a composition would move along several modes of the codomain"
    ),
    "composition-symbols": "it is unknown whether extents and strides with symbols divide",
    "composition-carry": "with symbols, modes of b may carry in a digit of a",
    "complement-overlap": (
        "the layout overlaps itself (or has a negative stride), so it has no complement"
    ),
    "complement-gap": (
        "a tile has a gap between its modes that is not a multiple of the modes below, so that a "
        "divide would leave elements in no tile"
    ),
    "coordinate-strides": (
        "a run of contiguous elements or a proof of bijectivity is requested for a layout that "
        "yields coordinates"
    ),
    "left-inverse": "strides overlap, or no layout gives the index of every offset",
    "tile-to-shape": "the block does not divide the shape",
    "not-compact": "the coordinate of an offset does not follow by dividing by the strides",
    "upcast-stride": "a stride neither divides the factor nor is a multiple of it",
    "upcast-overlap": "several modes overlap within a larger element",
    "downcast-unit": "no mode, or more than one, has stride 1 and can be split",
    "swizzle-parameters": "the bits of a swizzle overlap, or their numbers are negative",
    "swizzle-masks": "two masks are not runs of equally many bits",
    "swizzle-factor": "a swizzle is recast by a factor that is not a power of two",
    "swizzle-through": "a swizzle of positions does not move blocks as a unit",
    "upcast-swizzle": "bits of a swizzle of negative shift would fall below an element",
    "upcast-offset": "the offset of a composed layout is not a whole number of larger elements",
    "composed-outer": "the outer part of a composed layout is not a map of offsets",
    "no-stride": "strides of a swizzled layout are requested",
    "complement-swizzle": (
        "a swizzle moves offsets to where the complement of the inner layout is"
    ),
    "inverse-offset": (
        "a composed layout with an offset, or an outer map that is not one-to-one, is inverted"
    ),
    "explain-subject": "`explain` is called with something that has no derivation",
    "size-mismatch": "layouts that are added have different sizes",
    "layout-add": "no layout computes the sum of two layouts",
    "composition-cancels": "carries that cancel in the sum would have to be tried one by one",
    "composition-codomain": "b yields coordinates of modes that a does not have",
    "classical-shape": "a classical layout is given a nested shape",
    "pitch": "the distance between lines is too small",
    "permutation": "an order does not name every mode once",
    "capacity": "the allocation of a layout has no simple bound",
    "tensor-op-bits": "no tensor-op layout exists for that element width",
    "tensor-op-crosswise": "no tensor-op layout exists for that `crosswise`",
    "tensor-op-tile": "a tensor-op tile does not consist of whole lines",
    "tensor-op-tiles": "the number of tensor-op tiles side by side is not a power of two",
    "tensor-op-period": "stacked tensor-op tiles would be swizzled differently",
    "text-type": "something other than a str is parsed",
    "text-too-long": "a text is too long to be a layout",
    "text-unexpected": "a text has a syntax error; its position is marked",
    "text-unclosed": "a bracket is not closed; its position is marked",
    "text-too-deep": "a text nests deeper than 64 levels",
    "text-number": "a number has more digits than any integer of CuTe",
    "text-symbol": "a text names a symbol that was not declared",
    "text-arguments": "a text gives an object the wrong arguments",
    "text-operands": "a text applies a function to operands that it does not take",
    "text-pointer-width": "a pointer in a text does not give the width of its elements",
    "text-pointer-address": "a pointer in a text does not determine how a swizzle applies to it",
    "fit-no-form": "no known form computes the table; the first index that departs is named",
    "fit-function": "a function is fitted without a shape",
    "fit-empty": "an empty table is fitted",
    "fit-ragged": "rows of different lengths are fitted",
    "fit-key": "the coordinates of a table have different profiles",
    "fit-incomplete": "a coordinate of a table is missing",
    "fit-shape": "table and shape have different sizes",
    "fit-coordinates": "a table contains coordinates, and their shape is not given",
    "fit-entry": "an entry is outside the given shape",
    "fit-size": "a table is too large",
    "fit-range": "an entry is too large",
    "tools-symbols": "offsets that depend on symbols are tabulated or drawn",
    "tools-size": "too many offsets would be tabulated or tried",
    "tools-range": "offsets exceed 64 bits",
    "tools-basis": "an operation on offsets is applied to a layout that yields coordinates",
    "f2-negative": "a bit map is applied to a negative offset",
    "f2-wide": "a bit map of more than 63 bits is applied to an array",
    "f2-singular": "a bit map that is not one-to-one is inverted",
    "f2-no-map": "something that is not a map of bits is composed with one",
    "f2-bases": "an F2 layout is given the wrong number of bases",
    "f2-extent": "an extent is not a power of two",
    "f2-origin": "an F2 layout that does not reach offset 0 is inverted",
    "f2-not-onto": "an F2 layout that is not a bijection is inverted",
    "f2-not-linear": "a layout is not linear over F2; the first index that departs is named",
    "f2-strides": "a layout with symbols or coordinate strides is converted to a bit map",
    "f2-reach": "an F2 layout is composed with offsets that it has no index for",
    "f2-affine": "the matrix of an F2 layout with an offset is requested",
    "f2-matrix": "a bit matrix holds something other than zeros and ones",
    "f2-names": "bases are named with the wrong number of names",
    "f2-coshape": "a codomain shape is too small",
    "f2-points": "images of bases are coordinates of different shapes",
    # -- dtypes.wordings
    "dtype-unknown": "a dtype does not exist",
    "dtype-numpy": "a NumPy dtype has no equivalent",
    "dtype-width": "there is no integer type of that width",
    "dtype-promise": "no integer satisfies the promises of an annotation, `cute.s32(min=1)`",
    "dtype-void": "values of type `void` are requested",
    "dtype-scale": "a block scale is converted like a number",
    "rounding-unknown": "a rounding mode does not exist",
    "values-type": "values to convert are not real numbers",
    "values-ragged": "lists of different lengths are nested",
    "values-mixed": "NumPy would round an integer of a mixed list",
    "values-shape": "packed values have more than one dimension",
    "values-scalar": "one element is given several values",
    "values-not-of": "a value to store is not a value of the dtype",
    "image-type": "bit images are not integers",
    "image-range": "a bit image has more bits than the dtype",
    "word-bits": "there are no packed words of that width",
    "words-type": "packed words are not a one-dimensional unsigned array",
    "words-not-whole": "words do not have a whole number of elements",
    "words-too-few": "there are too few words for the elements",
    "words-read-only": "packed words cannot be written",
    "element-straddles": "elements of that width straddle words",
    "element-index": "an index is outside the packed array",
    "count-type": "a number of elements is not a nonnegative int",
    "alignment": "a vector access would not be a power of two of bytes",
    # -- tensor.wordings
    "tensor-source": "a tensor is made of something that holds no elements",
    "tensor-layout": "a tensor is made of memory without a layout",
    "tensor-dtype": "a dtype is given for memory that already has one",
    "tensor-codomain": "a tensor of memory has a layout that yields coordinates",
    "tensor-bounds": "a layout is out of the bounds of the memory",
    "tensor-iteration": "a tensor is iterated over",
    "tensor-product": "a product needs more memory than the tensor has",
    "tensor-shape": "values for a tensor have another shape",
    "tensor-overlap": "two values are stored at one offset",
    "tensor-no-view": "an array without a copy cannot be made",
    "not-a-tensor": "something other than a tensor is given",
    "coordinates-dtype": "memory is made like a tensor of coordinates, without a dtype",
    "engine-unreadable": "elements outside host memory are read, or coordinates are written",
    "engine-arithmetic": "arithmetic is done on memory, not on registers",
    "memory-space": "a memory space does not exist",
    "pointer-address": "an address is negative or not aligned",
    "array-empty": "a tensor is made of an empty array, or a kernel is given one",
    "array-strides": "an array has strides that are not a whole number of elements",
    "array-dtype": "an array does not have the requested type",
    "words-apart": "packed words are not contiguous",
    "recast-engine": "elements without bits are recast",
    "recast-unpacked": "elements smaller than a byte that take a byte each are recast",
    "recast-origin": "a recast would begin inside an element",
    "recast-backwards": "a swizzled layout with negative strides is recast",
    "thread-range": "a thread layout does not have that thread",
    # -- host.wordings
    "tensor-shapes": "tensors of different shapes are combined",
    "tensor-divisor": "elements are divided by 0",
    "gemm-shapes": "the shapes of the operands do not match",
    "gemm-accumulate": "operands cannot be summed in that type",
    "random-range": "the bounds of random values are in the wrong order",
    "random-bits": "no value between the bounds has so few fractional bits",
    "random-stddev": "a standard deviation is negative",
    "fraction-bits": "a number of fractional bits is invalid",
    "print-rank": "a tensor has too many modes to be printed",
    # -- atoms.wordings
    "arch-name": "an architecture is not spelled like sm_90a",
    "atom-unknown": "an atom does not exist",
    "atom-parameters": "an atom is given the wrong template parameters",
    "atom-argument": "a template parameter of an atom has a value that is not allowed",
    "atom-no-ptx": "PTX text is requested for an atom that is not an instruction",
    "atom-operand": "an instruction is given the wrong number of registers",
    "copy-op": "something other than a copy instruction is given",
    "copy-unknown": "a copy instruction does not exist",
    "copy-arguments": "a copy instruction is given the wrong template arguments",
    "copy-width": "a copy instruction does not have that width",
    "copy-bulk-bits": "a bulk copy is not a multiple of 16 bytes",
    "copy-spaces": "a copy instruction does not move between these memory spaces",
    "copy-no-ptx": "PTX text is requested for a copy that is not a single instruction",
    "copy-operands": "the PTX text of a copy is given the wrong operands",
    "copy-value-type": "a copy atom would split a value between threads",
    "copy-value-bits": "a copy atom does not move a whole number of values",
    "gmma-atom": "there is no such layout atom of shared memory",
    "gmma-major": "a major is neither K nor MN",
    "gmma-canonical": "no warpgroup descriptor can describe a layout",
    "gmma-address": "an address does not fit into a descriptor",
    "smem-swizzle": "the hardware does not have a swizzle",
    "tma-op": "a bulk tensor copy does not exist",
    "tma-rank": "a tensor map would have too many dimensions",
    "tma-tile": "tile and shared memory have different sizes",
    "tma-vector": "shared memory does not step along a mode of the tensor",
    "tma-major": "the tensor and shared memory have different contiguous modes",
    "tma-stride": "a stride of the tensor is not a multiple of 16 bytes",
    "tma-box": "a box is too large",
    "tma-row": "the rows of a box are not a multiple of 16 bytes",
    "tma-span": "the rows of a box are wider than the swizzle",
    "tma-multicast": "a box cannot be split among the CTAs",
    # -- tiled.wordings
    "mma-columns": "a thread does not hold the columns as a part of its values",
    "tiled-permutation": "a permutation of a tiled MMA is not a whole number of atoms",
    "tiled-holes": "a thread-value layout is requested for threads with holes in their indices",
    "tiled-overlap": "several atoms of a tiled MMA would run on the same threads",
    "tiled-static": "threads or tiles of a tiled operation have symbols",
    "tiled-kind": "another tiled operation, or an MMA, is required",
    "mma-atom": "a tiled MMA is made of something other than an MMA atom",
    "tile-layout": (
        "the tile of a mode overlaps, has negative strides, or has gaps that its copies do not fill"
    ),
    "tiled-rank": "an atom layout or permutation has modes beyond M, N and K",
    "partition-rank": "a tensor with too few modes is partitioned",
    "partition-divides": "an extent of a tensor is not a multiple of the tile",
    "tiled-thread": "the tiled operation does not have a thread",
    "coverage-shape": "coverage of an MMA gets another shape than (M,N,K)",
    "thread-map": "something other than a thread map is transposed",
    "thread-map-pair": (
        "a tile or arrangement of a thread map has other modes than contiguous and strided"
    ),
    "copy-atom": "a copy is tiled from something other than a Copy_Atom",
    "copy-threads": "a thread layout is not a whole number of copy atoms",
    "copy-values": "a value layout is not a whole number of copy atoms",
    "copy-map": "the raked product of threads and values leaves indices out or repeats them",
    "copy-tv": "a thread-value layout has other modes than threads and values",
    "copy-outside": "a thread-value layout reaches outside its tile",
    "copy-writers": "several threads or values would write one element of memory",
    "copy-memory": "a copy is made between other memories than the instruction has",
    "copy-dtype": "a copy is made of elements of another width",
    "copy-parts": "source and destination of a copy are partitioned differently",
    "copy-vector": "the values of one access are not contiguous",
    "copy-aligned": "an access does not start at a multiple of its alignment",
    "retile-values": "a fragment is not whole tiles of the copy that retiles it",
    "copy-codomain": "a thread-value layout reaches addresses that the data does not have",
    "retile-order": (
        "a copy moves the blocks of a fragment in another order than that of their coordinates"
    ),
    "operand-dtype": (
        "an operand of a product has elements that the instruction does not compute with"
    ),
    "operand-shape": "the fragments of a product do not match each other or the atom",
    "operand-major": "a tile in shared memory has another major than the instruction reads",
    "thread-map-divides": "threads or accesses do not divide the tile",
    "thread-map-warps": "a warp arrangement does not have 32 lanes, or threads are not whole warps",
    "thread-map-transpose": "a thread map of wide accesses is transposed",
    "thread-map-atom": "a copy atom moves more than one access of the thread map",
    "suggest-major": "the contiguous mode is not a mode of the tile",
    "suggest-copy": "no tiled copy gives every thread whole accesses",
    "suggest-matrices": "ldmatrix loads another number of matrices",
    "suggest-atom": "ldmatrix cannot feed the atom",
    # -- plan.wordings
    "plan-integer": "a number among the integers of a kernel has more than 64 bits",
    "plan-count": "a number of tiles is 2**31 or more, and no `cute.spec(large=True)` allows it",
    "plan-unsigned": "a run-time number is too large for the signed integers of a kernel",
    "plan-op": "an op of a plan that was loaded or built by hand is malformed",
    "plan-text": "a file does not contain a plan",
    "plan-version": "a plan was saved by another version",
    "plan-unassigned": "a register may be read before it has a value",
    "plan-pdl": (
        "a kernel with pdl=True uses global memory, or returns, before it waits for the preceding "
        "kernels"
    ),
    "plan-twice": "one operation would write several values to a register",
    "plan-divergent": "not all threads of the block may reach a barrier",
    "plan-box": "a box of TMA begins in the middle of its swizzle's pattern",
    "plan-descriptor": "a descriptor of wgmma leads to other elements than the layout",
    "plan-setmaxnreg-part": "only a part of a warpgroup comes to setmaxnreg",
    "plan-setmaxnreg-kind": "`cute.setmaxnreg` increases a number to less, or decreases it to more",
    "plan-setmaxnreg-sum": "warpgroups ask for more registers than the launch has",
    "plan-tables": "the tables of a kernel, by `cute.make_table`, have more than 2 KB",
    "plan-shared": "a block needs more shared memory than it can have",
    # -- calls.wordings
    "argument-modes": "a kernel is given an array without modes",
    "argument-recursive": "a kernel is given a list that contains itself",
    "argument-type": "an array does not have the type of its annotation, or of `typed`",
    "argument-packed": "`typed(..., packed=True)` is given no words, or no type that packs",
    "argument-words": "words of packed elements have no contiguous mode",
    "argument-split": "a tensor of packed elements begins inside of a byte",
    "table-empty": "a `TensorArray` is made of no arrays",
    "table-array": "a member of a `TensorArray` is no array",
    "table-memory": "members of a `TensorArray` are in several memories",
    "table-library": "a `TensorArray` is made of GPU arrays of a library other than torch and CuPy",
    "table-facts": "members of a `TensorArray` do not share what it is specialized for",
    "table-range": "`TensorArray.update` is given more arrays than there are from its index on",
    "argument-spec": "`cute.spec` has entries for another number of modes",
    "argument-hidden": "an array is inside of an object that is a compile-time value",
    "argument-stride": "an array has negative strides",
    "argument-strides": "an array has no strides that can be read",
    "argument-masked": "an array has a mask, which a kernel would ignore",
    "argument-negated": (
        "a torch view whose memory holds the negated values (`z.conj().imag`) is passed to a kernel"
    ),
    "argument-gradient": "a tensor of torch is passed that autograd follows, in grad mode",
    "argument-tangent": "a tensor of torch with a tangent is passed (`torch.func.jvp`)",
    "argument-tensor": "a tensor of torch is sparse, quantized, meta, or of torch.func",
    "argument-device": (
        "an array is imported through DLPack from a device other than the host and NVIDIA GPUs"
    ),
    "argument-import": "an array supports one protocol alone, and its methods fail",
    "argument-dlpack": (
        "an array on the GPU supports DLPack alone, and no library to import it is installed"
    ),
    "argument-number": "a run-time number does not keep the promises of its annotation",
    "argument-large": "an extent is 2**31 or more, and no `cute.spec(large=True)` allows it",
    "argument-promise": "an array does not have the properties that `cute.spec` declares",
    "kernel-number": (
        "a number is out of the range of the type, or a run-time parameter is not given a number"
    ),
    # -- trace.wordings
    "trace-python": (
        "Python would need a value that is known only at run time: `if`, `while`, `and`, `range`, "
        "an index of a list"
    ),
    "trace-number": (
        "Python would turn a value that is known only at run time into a number, with int(), "
        "float() or a format"
    ),
    "trace-unreadable": ("a run-time loop or branch uses an iterator whose position nothing tells"),
    "trace-undecided": "sizes or indices leave a question open in a kernel",
    "trace-stale": (
        "a value made inside of a run-time loop or branch is used after it, or in its next "
        "iteration"
    ),
    "trace-foreign": ("a tensor, index or variable of one kernel is used in the trace of another"),
    "trace-changes": "the body of a run-time loop records different ops the second time",
    "trace-carried": (
        "the body of a run-time loop changes a Python value from iteration to iteration"
    ),
    "trace-iterated": "`cute.range` is used outside of a `for` statement",
    "trace-left": "a run-time loop or branch is left by break, return or a swallowed exception",
    "trace-interleaved": "two run-time loops or branches do not nest",
    "trace-rebound": "a Python value that a branch or a loop changes is used after it",
    "trace-leaves": "return, break or continue is inside of a run-time branch",
    "trace-no-source": "a `with cute.when` is in code whose source is not available",
    "trace-outside": "a function for kernels is called outside of a trace",
    "trace-nested": "a kernel is called inside of a kernel",
    "trace-condition": "a value that is not a condition is used as one",
    "kernel-function": "something other than a Python function is made a kernel",
    "kernel-arguments": "a kernel is called with too few, too many or unknown arguments",
    "kernel-no-launch": "a kernel does not call `cute.launch`, or calls it too late",
    "kernel-returns": "a kernel returns a value",
    "kernel-launch-twice": "`cute.launch` is called twice, or in a run-time loop or branch",
    "kernel-block": "a block or a grid has a shape that a GPU cannot launch",
    "kernel-grid": "the grid depends on a number that is computed in the kernel",
    "kernel-space": "a tensor is in another memory space than the operation needs",
    "kernel-size": "a copy or assignment of one thread has no static size",
    "kernel-layout": "a layout cannot be lowered to addresses",
    "register-index": "a run-time index selects a register",
    "register-count": "a storage would have a run-time number of elements",
    "register-range": "a register tensor exceeds its storage",
    "vector-count": "the elements are not a whole number of vectors",
    "vector-neighbours": "the elements of a vector are not contiguous",
    "vector-swizzle": "a vector would cross the chunks that a swizzle moves",
    "vector-extent": "a vector may be only partly inside of an extent",
    "vector-alignment": "a vector may be misaligned",
    "vector-byte": "packed elements are accessed that share a byte with others",
    "pointer-type": "`make_ptr` of a run-time address has a type or an alignment that no load has",
    "kernel-compare": "`cute.atomic` has compare= without cas, or cas without compare=",
    "kernel-recast": "an array of one byte per sub-byte element is recast, or one to 6 bits",
    "kernel-types": "operands have two types",
    "kernel-lack": "an op that no architecture has: its type, rounding or cache operator",
    "kernel-formula": "a function of registers does more than arithmetic of those that it is given",
    "kernel-ptx": "the text of `cute.inline_ptx` does more than compute in registers",
    "kernel-emulate": "the emulation of `cute.inline_ptx` is not a function",
    "kernel-domain": "a function is not defined for the type",
    "kernel-shapes": "the shapes of operands, or of the sides of a copy, do not match",
    "kernel-element": "an element of an element is assigned, as in C's `a[i][j] = x`",
    "kernel-print": "the text of `cute.print` has more or fewer `{}` than values",
    "kernel-barrier": "a named barrier has an id or number of threads that hardware lacks",
    "kernel-as-int": "`cute.as_int` is given something other than one integer in a register",
    "table-entry": "an entry of `cute.make_table` depends on more than the host knows",
    "table-index": "an index is outside of a table of `cute.make_table`",
    "kernel-promise": "no integer satisfies the promise of `cute.as_int` or `cute.var`",
    "kernel-choice": "a word is not one of the choices of an operation",
    "kernel-step": "`cute.range` is given a step of 0",
    "kernel-while": "the condition of `cute.while_` does not change in the loop",
    "kernel-variable": "a `cute.var` is used as if it were its value",
    "kernel-otherwise": "`cute.otherwise` does not follow a `cute.when`",
    "kernel-break": "`cute.break_if` is outside of a run-time loop",
    "kernel-always": "the condition of `cute.return_if` or `cute.break_if` is always true",
    "kernel-assert": "an assertion is always false",
    "kernel-copy": "`cute.copy` is given other arguments than (src, dst) or (atom, src, dst)",
    "kernel-atom": "`cute.copy` is given an instruction that it does not support",
    "kernel-pred": "predicates do not fit a copy",
    "kernel-fill": "the fill of cp.async is not zero",
    "kernel-matrices": "registers and row addresses of ldmatrix or stmatrix do not fit",
    "kernel-fragment": "`cute.gemm` is given something other than a fragment",
    "kernel-operand-type": "a fragment has another type than the atom multiplies",
    "tma-kernel-tile": "TMA is given something other than a tile of a tensor in coordinates",
    "tma-im2col": "TMA cannot step over the pixels of a convolution",
    "tma-bits": "elements of less than a byte are to be copied by TMA",
    "tma-kernel-box": "a tile is not a box that TMA can copy",
    "kernel-registers": "`cute.setmaxnreg` is given an impossible number",
    "mainloop-operand": "an operand of `cute.mainloop` is neither tiles nor an iterator",
    "mainloop-kind": "`cute.mainloop` is given something other than operands",
    "mainloop-tiles": "tiles of an operand lack the mode that counts them, or are elsewhere",
    "mainloop-count": "neither `cute.mainloop` nor an iterator says how many tiles there are",
    "mainloop-ring": "operands of `cute.mainloop` complete in ways that do not fit together",
    "mainloop-warpgroups": "`cute.mainloop` is to fill the ring of warpgroup products",
    "mainloop-sums": "sums of atoms along K do not fit in the stages of an operand",
    "mapa-tensor": "`cute.mapa` is given something other than shared memory of the block",
    "mapa-operand": "an instruction that reaches no other block is given its shared memory",
    "mapa-own": "mbarriers of another block are initialized or waited at",
    "role-warps": "`cute.role` is given something other than warps of the block",
    "role-overlap": "two roles share warps",
    "role-nested": "a role begins inside of another one",
    "role-name": "two roles of one name differ in warps or registers",
    "role-warpgroups": "part of a warpgroup sets registers, or issues warpgroup products",
    "role-outside": "a thread of the role is elected outside of a role",
    "pipeline-tiles": "the tiles of a TMA pipeline have another number of stages, or are elsewhere",
    "pipeline-cluster": "a TMA pipeline loads for other blocks than those of the cluster",
    "pipeline-release": "a stage is released by threads without the first one of the consumer",
    "pipeline-tma": "a ring that cp.async fills is to be filled by TMA",
    "pipeline-fill": "a TMA pipeline is filled by copies that do not complete on mbarriers",
    "pipeline-stages": "a pipeline has fewer than two stages, or A and B have different numbers",
    # -- viz.wordings
    "viz-type": "a picture is requested of something that has none",
    "viz-by": "the colours of a picture cannot tell apart what they are asked to",
    "viz-latex": "a picture has more cells than TeX can set",
    "viz-rank": "a layout has more modes than a picture can show",
    "viz-size": "a picture would have too many cells or threads",
    "viz-tv": "a layout drawn as a thread-value layout does not have two modes",
    "viz-tile": "a thread-value layout reaches outside the tile that it is drawn over",
    "viz-operand": "an operand other than A, B and C is drawn",
    "viz-link": "values shown together are to be linked by something that cells do not have",
    "viz-diff": "layouts of different sizes are compared",
    # -- explore.wordings
    "explore-state": "a link is of another version, or has entries of another type",
    "explore-limit": "an expression of a link needs more than the memory or the stack",
    "explore-package": "an expression needs a package that a browser's Python lacks",
    "explore-runtime": "a folder without the files of Pyodide is named",
    "explore-anywidget": "a notebook without anywidget is asked for the explorer",
    "explore-value": "a value that no expression gives is explored",
    "explore-slow": "an expression takes longer than a page waits",
    # -- analysis.wordings
    "suggest-dtype": "accesses and tile have elements of different width",
    "suggest-smem": "none of the candidates is free of bank conflicts",
    "solver-accesses": "a shared-memory layout is requested without accesses",
    "solver-layout": "the search starts from something other than a plain layout",
    "access-subject": "an analysis is requested of something that does not access memory",
    "access-layout": "an access is analysed without the layout of its tensor",
    "access-width": "the hardware does not have an access of that width",
    "access-bits": "plain addresses are analysed without their width",
    "access-lanes": "there are no addresses, negative ones, or more than a warp has lanes",
    "access-tile": "an access is outside the tile",
    "access-vector": "the elements of one access are not contiguous",
    "access-aligned": "a wide access does not start at a multiple of its width",
    "access-space": "the instruction does not address that memory",
    "vector-sizes": "tensors of different sizes are copied to each other",
    "vector-dtype": "a vector width is requested without an element type",
    "occupancy-arch": "the limits of an architecture are not known",
    "occupancy-range": "threads, registers or bytes are out of range",
    # -- kernels.wordings
    "config-types": "no instruction multiplies the two types",
    "config-bits": "rows of elements below a byte do not start at whole bytes",
    "gemm-config": "the parts of a configuration do not fit each other or the operands",
    "config-shared": "a configuration for Hopper takes more shared memory than a block has",
    # -- codegen.wordings
    "codegen-name": "a kernel, or an argument, has a name that no Python function can have",
    "codegen-print": "more is printed in one call than vprintf takes",
    "codegen-op": ("the plan has an op, or a function of a type, that has no PTX yet"),
    "codegen-missing": "a compiler is not installed",
    "codegen-plan": "something other than a plan is compiled",
    "codegen-arch": "the compilers do not know an architecture",
    "codegen-arch-old": "an architecture that CUDA 13 does not compile for",
    "codegen-emulated": (
        "an architecture replaces a matrix instruction by several slower ones, and the kernel does "
        "not allow it"
    ),
    "codegen-lacks": "an architecture does not have the instruction of an op",
    "codegen-parameters": "the parameters of a kernel take more memory than a launch passes",
    "codegen-smem": "a block needs more shared memory than the architecture has",
    "codegen-source": "an edited source is not a kernel of the plan, or Numba cannot compile it",
    "codegen-nvvm": "NVVM refuses the generated code",
    "codegen-disassembly": "nvdisasm cannot read a cubin",
    "codegen-debug": "`CUTE_PY_DEBUG` has an unknown value",
    "codegen-ptxas": "ptxas refuses the text, or ignores a request of the kernel",
    "codegen-stalls": "the loop of a kernel's warpgroup products stalls",
    "codegen-spills": "registers spill to local memory; the log of ptxas follows",
    "cache-folder": (
        "the cache folder cannot be used; `cute.compile` warns once and goes on without it"
    ),
    "cache-size": "the size limit of the cache is invalid",
    "launch-argument": "an array does not match what the plan was traced for",
    "launch-failed": (
        "the driver refuses a launch; with `CUTE_PY_SYNC=1` also if the kernel itself failed"
    ),
    "launch-earlier": "an earlier kernel has failed: its error surfaces at a later launch",
    "launch-grid": "a grid is negative or larger than the device allows",
    "launch-limit": "a block or cluster needs more than the device has",
    "launch-resident": "a launch with `resident=True` has more blocks than run at once",
    "launch-cluster": "a grid is not a whole number of clusters",
    "launch-device": "arrays are on several devices",
    "launch-read-only": (
        "an array's interface says that it is read-only, but the kernel writes to it"
    ),
    "launch-host": "an array is in host memory, others are on the GPU",
    "launch-map": "TMA cannot address an array",
    "launch-misaligned": "an array begins at an address that none of its elements can have",
    "launch-memory": "an array claims to be on the GPU, but CUDA does not know its address",
    "launch-stream": "`stream=` is not a stream",
    "launch-capture": "a kernel is called for the first time while a CUDA graph is captured",
    "launch-status": "the driver reports an error outside a launch",
    "launch-driver": "there is no CUDA driver",
    # -- ops.wordings
    "ops-array": "an operand or a term holds no numbers",
    "ops-rank": "an operand has fewer than two modes",
    "ops-tune-host": "arrays of the host, whose configurations cannot be measured",
    "ops-shapes": "the operands' shapes do not fit together",
    "ops-shape": "c, bias or out has another shape than the result asks for",
    "ops-empty": "a configuration is asked for of a product without elements",
    "ops-dtype": "no instruction multiplies operands of these types",
    "ops-out-dtype": "the result cannot have that type, or out has another one",
    "ops-overlap": "elements of out share memory",
    "ops-factor": "alpha or beta is not a real number",
    "ops-no-c": "beta is given without c",
    "ops-library": (
        "an operation is given device arrays of another library than torch and CuPy, and neither "
        "is installed"
    ),
    "ops-choice": "a backend or activation does not exist",
    "ops-no-gpu": "arrays are not where the product is computed",
    "ops-chip": (
        "the kernel of an architecture is asked for whose GPUs may have any number of "
        "multiprocessors"
    ),
    "ops-read-only": "out cannot be written",
    "ops-memory": "arrays and the emulator's state would not fit into free memory",
    "torch-no-backward": (
        "an operator that was registered without `backward`, or one that changes its arguments, "
        "gets a tensor that autograd follows"
    ),
    "torch-twice": "a derivative of an operator of torch is differentiated again",
    "torch-rounded": "a gradient is wanted through `dtype` of integers",
    "torch-parameter": "`register` names what is no parameter of the kernel",
    "torch-name": "the name of a registered operator does not have two parts",
    "torch-rules": "a rule of `register` is given without what it needs",
    "torch-schema": "`schema` says of the kernel's arguments or results what does not hold",
    "torch-writes": "a registered kernel writes an array that is none of its outputs",
    "torch-result": "`fake` returns something other than a new tensor for each output",
    "torch-order": "a registered kernel adds floats in any order, where torch forbids that",
    "conv2d": "a filter has more positions than a register has bits, or channels no whole vectors",
    "attention-accum": "V has more columns than a tile has keys, and `accum` is missing",
    "gemm-config-text": "changes to a configuration cannot be read",
    # -- expression
    "expression-name": "an expression names a function that the language does not have",
    "expression-limit": "an expression would take too long to answer",
    # -- cli.wordings
    "cli-arch": "`--arch` names an unknown architecture",
    "cli-layout": "an option holds no layout",
    "cli-format": "the name of a file does not say in which format a picture is written",
    "cli-memory": "memory runs out in the middle",
    "cli-matrix": "a file holds no numbers, or an operand that is no matrix",
    "cli-package": "a package that a command needs is missing or broken",
    "cli-output": "the file of `-o` cannot be written",
    "cli-npy": "a file is missing, or is no array that can be read without unpickling",
    "cli-shtab": "the completion of a shell is asked for where shtab is missing or too old for it",
    "cli-stream": "the input cannot be read or the output cannot be written",
    "cli-gemm": "a command is given no operands, or both files and sizes",
    "cli-out-dtype": "a result of a type that NumPy lacks is to be written",
    # -- emulate.wordings
    "emulate-arguments": "a plan is given too few or too many arguments",
    "emulate-argument": (
        "an argument is no array of the parameter's type, rank, sizes, or has negative strides"
    ),
    "emulate-grid": "a grid has negative extents, or parts of clusters",
    "emulate-order": "the order of running is unknown",
    "emulate-checks": "a check of the emulator is unknown",
    "emulate-report": "a report of the emulator is unknown",
    "emulate-resident": "a number of blocks that run at once is no positive integer",
    "emulate-plan": "something other than a plan or a kernel is emulated",
    "emulate-op": "the plan holds an op that the emulator has no rule for",
    "emulate-inline": "a saved plan with `cute.inline_ptx` is emulated",
    "emulate-inline-result": "the emulation of `cute.inline_ptx` returns another type or shape",
    "emulate-bounds": "a thread accesses memory outside of an array or of a shared storage",
    "emulate-split-byte": "a plan accesses packed elements that share a byte with others",
    "emulate-pointer": "a thread accesses memory through a pointer into none of the arrays",
    "emulate-pointer-alignment": "a pointer is not a multiple of the alignment that it promises",
    "emulate-mode": "a coordinate is outside of its mode, and leads to the element of another one",
    "emulate-padding": "a thread accesses the padding between the rows of a strided view",
    "emulate-alignment": "a vector access, a row of ldmatrix or an mbarrier is not aligned",
    "emulate-read-only": "a kernel writes to a read-only array",
    "emulate-smem-unwritten": "shared memory is read before anything wrote it",
    "emulate-register-unwritten": "a register is read before it is written",
    "emulate-race": (
        "two threads access shared memory, one of them writes, and nothing orders the two"
    ),
    "emulate-global-race": (
        "two threads access an element of global memory, one of them writes, and nothing orders "
        "the two"
    ),
    "emulate-copy-pending": (
        "data of cp.async is used before the wait and the barrier that make it visible"
    ),
    "emulate-async-pending": "shared memory is used while TMA or wgmma still works on it",
    "emulate-proxy-fence": "TMA or wgmma reads what threads stored, without a proxy fence between",
    "emulate-proxy-global": "TMA accesses global memory that threads of the same kernel stored",
    "emulate-wgmma-pending": "accumulators, or A in registers, are touched before warpgroup_wait",
    "emulate-wgmma-address": "threads of a warpgroup disagree on where an operand is",
    "emulate-wgmma-start": "threads of a warpgroup disagree on where sums start from zero",
    "emulate-wgmma-fence": (
        "accumulators, or A in registers, are written and then used by wgmma without a fence"
    ),
    "emulate-mbarrier-unset": "an mbarrier is used that was not initialised",
    "emulate-mbarrier-early": (
        "an mbarrier is used by who does not know of its init: a barrier, or a fence, is missing"
    ),
    "emulate-mbarrier-again": "an mbarrier is initialised again while it is valid",
    "emulate-mbarrier-busy": "an mbarrier is ended while others may use it",
    "emulate-cluster-rank": "a block arrives at, or multicasts to, a rank that its cluster lacks",
    "emulate-multicast": "a mask of a multicast that is computed at run time is 0",
    "emulate-peer-begin": "a block accesses shared memory of one that may not have begun",
    "emulate-block-end": (
        "a block ends while a TMA store reads its shared memory, or another block may reach it"
    ),
    "emulate-mbarrier-arrivals": "more threads arrive in a phase of an mbarrier than it counts",
    "emulate-mbarrier-lost": "the memory of an mbarrier is used for something else meanwhile",
    "emulate-mbarrier-phase": (
        "an arrival or a wait at an mbarrier may be of another phase in another order of threads"
    ),
    "emulate-map": "TMA is given an array that it cannot address",
    "emulate-coordinate": "TMA is given a coordinate that does not fit 32 bits",
    "emulate-mbarrier-bytes": "TMA loads bring another number of bytes than was announced",
    "emulate-lanes": "lanes of one warp write different values to one address in one instruction",
    "emulate-shuffle": "a shuffle reads from a lane that does not take part",
    "emulate-warp-divergent": (
        "an instruction of whole warps or warpgroups is executed by a part of one"
    ),
    "emulate-barrier-divergent": "a part of the block does not reach a barrier",
    "emulate-barrier-count": (
        "more threads meet at a named barrier than it counts, or they count differently"
    ),
    "emulate-barrier-id": "lanes of a warp come to different named barriers, or to none",
    "emulate-barrier-phase": (
        "threads arrive at a named barrier that may, or may not, belong to the phase before"
    ),
    "emulate-deadlock": "all threads that are left wait",
    "emulate-setmaxnreg": (
        "warps of one warpgroup do not ask for one number of registers together, or ask again "
        "before they have synchronised"
    ),
    "emulate-table": "a run-time index is outside of a table of `cute.make_table`",
    "emulate-promise": "an integer is not within the bounds that `as_int` or `var` was told",
    "emulate-assume": "a condition that `cute.assume` promises is false",
    "emulate-uniform": "threads that promise to have the same integer have different ones",
    "emulate-assert": "`cute.assert_` fails",
}


def of_parameters(*tests):
    """Return the calls in the parameters of tests: in each row of `parametrize`, "
    "what is callable."""
    rows = [row for test in tests for mark in test.pytestmark for row in mark.args[1]]
    return [next(filter(callable, row)) for row in rows]


def more():
    """Return calls that stand in no table of the tests."""
    from cute_py import analysis, atoms
    from cute_py.atoms import gmma, make_tma_atom
    from cute_py.atoms.copy_sm90 import SM90_TMA_LOAD
    from cute_py.atoms.copy_universal import move
    from cute_py.cli.main import main
    from cute_py.codegen.arch import require_known
    from cute_py.codegen.build import source
    from cute_py.expression import evaluate
    from cute_py.integers import ints
    from cute_py.integers.symbols import subs
    from cute_py.kernels import fused_attention
    from cute_py.kernels.implicit_gemm import Conv2d
    from cute_py.layout.bits.swizzle import compose_swizzles
    from cute_py.ops import gemm
    from tests.opaque import Opaque

    def strided(x):
        cute.launch(grid=1, block=1)
        Conv2d((3, 3)).table(x, 8)

    M, z = sym("M", multiple_of=8, max=4096), sym("z", min=None)
    tall, square = np.ones((3, 2), np.float32), np.ones((3, 3), np.float32)
    smem = cute.composition(cute.Swizzle(1, 0, 1), Layout((8, 8), (8, 1)))
    return [
        lambda: ints.divides(Opaque(2), sym("M")),
        lambda: abs(z),
        lambda: sym("M-1"),
        lambda: sym("M", multiple_of=0),
        lambda: sym("M", multiple_of=8, min=1, max=7),
        lambda: sym("M") + sym("M", multiple_of=8),
        lambda: subs(M, {"M": 12}),
        lambda: 8 / M,
        lambda: cute.shape_div(8, 0),
        lambda: cute.select(Layout((2, 3)), 1.5),
        lambda: cute.explain(42),
        # texts
        lambda: cute.parse_layout(Layout(4)),
        lambda: cute.parse_layout("4:1" + " " * 65536),
        lambda: cute.parse_layout("oceil_div(4, 2):1"),
        lambda: cute.parse_layout("(4,8):(8,1"),
        lambda: cute.parse_layout("(" * 1000),
        lambda: cute.parse_layout("9" * 5000 + ":1"),
        lambda: cute.parse_layout("(M,8):(8,1)"),
        lambda: evaluate("local_partition(4:1)"),
        lambda: cute.parse_layout("Layout(min(), 2)"),
        lambda: cute.parse_layout("Sw<3,4,3>_smem_ptr(0x400) o (_8,_64):(_64,_1)"),
        lambda: cute.parse_layout("ptr<f16, smem, S<3,4,3>> o (_8,_64):(_64,_1)"),
        lambda: evaluate("f16"),
        lambda: evaluate("4:1 o 18446744073709551616:1"),
        lambda: cute.from_f2_matrix([0, 1]),
        lambda: compose_swizzles(Layout(4), cute.Swizzle(1, 0, 1)),
        # atoms
        lambda: atoms.find(arch="ampere"),
        lambda: atoms.get("SM90_64x12x16_F32F16F16_SS"),
        lambda: atoms.get("SM90_64x8x16_F32F16F16_SS")("K", tnspA="K"),
        lambda: atoms.get("SM90_64x8x16_F32F16F16_SS")(scaleB=2),
        lambda: atoms.get("UniversalFMA<f32,f32,f32,f32>").instruction("d", "a", "b"),
        lambda: atoms.SM80_16x8x16_F32F16F16F32_TN.instruction(["d"] * 3, ["a"] * 4, ["b"] * 2),
        lambda: cute.Copy_Atom(3, "f16"),
        lambda: atoms.get_copy("SM75_U32x4_LDSM_M"),
        lambda: atoms.get_copy("SM80_CP_ASYNC_CACHEALWAYS"),
        lambda: atoms.get_copy("UniversalCopy", 24),
        lambda: atoms.get_copy("SM90_BULK_COPY_G2S", 200),
        lambda: move(32, "gmem", "smem"),
        lambda: atoms.get_copy("UniversalCopy", 32).instruction(),
        lambda: atoms.get_copy("SM75_U32x4_LDSM_N").instruction(dst=["a"] * 3, src=["b"]),
        lambda: cute.Copy_Atom("SM75_U32x1_MOVM_T", "u64"),
        lambda: cute.Copy_Atom("UniversalCopy<16>", "f32").require_whole_values(),
        lambda: gmma.gmma_layout_atom("M", "SW128", 16),
        lambda: gmma.make_gmma_desc(Layout((64, 16), (16, 1)), 16, "N"),
        lambda: gmma.make_gmma_desc(Layout(64), 16, "K"),
        lambda: gmma.GmmaDescriptor(1, 1, 64).encode(1 << 18),
        lambda: gmma.byte_swizzle(smem, 4),
        lambda: make_tma_atom("SM90_LOAD", Layout((8, 8)), Layout((8, 8)), "f16"),
        lambda: SM90_TMA_LOAD(128, 6),
        lambda: cute.stripmined_thread_map((8,), 8),
        lambda: cute.transposed_thread_map(None),
        lambda: analysis.coalescing(Layout(4), Layout(4)),
        lambda: analysis.suggest_smem_layout(
            (66,), "f32", "K", [analysis.Access(Layout((32, 1), (2, 0)), 32, "f32")]
        ),
        # products and commands
        lambda: gemm(square, square, config="stages=1"),
        lambda: gemm(square, square, config="tiles=3"),
        lambda: cute.trace(cute.kernel(strided), np.zeros((1, 8, 8, 12), np.float16)),
        lambda: fused_attention.choose(*[np.zeros((1, 1, 8, 256), np.float16)] * 4),
        lambda: gemm(square.astype(object), square),
        lambda: gemm(np.ones(4), square),
        lambda: gemm(tall, np.ones((5, 6), np.float32)),
        lambda: gemm(square, square, bias=np.ones(4)),
        lambda: gemm(square, square.astype(np.float16)),
        lambda: gemm(square, square, out_dtype="s64"),
        lambda: gemm(square, square, activation="cube"),
        lambda: gemm(square, square, backend="gpu"),
        lambda: gemm(square, square, alpha=1j),
        lambda: gemm(square, square, beta=2),
        lambda: gemm(square, square, out=np.broadcast_to(np.float32(0), (3, 3))),
        lambda: main(["atoms", "--arch", "sm_99"]),
        lambda: main(["mma", "SM80_16x8x16_F32F16F16F32_TN", "--perm", "Sw<2,0,3>"]),
        lambda: main(["gemm"]),
        lambda: main(["gemm", "no.npy", "file.npy"]),
        lambda: main(
            ["gemm", *["--m", "8", "--n", "8", "--k", "8", "--out-dtype", "bf16", "-o", "d.npy"]]
        ),
        lambda: main(["tv", "SM80_16x8x16_F32F16F16F32_TN", "-o", "no/such/folder.svg"]),
        lambda: main(["show", "(4,8):(8,1)", "-o", "layout.png"]),
        lambda: require_known("90"),
        lambda: require_known("sm_70"),
        lambda: source(traced),
    ]


def emulated(body, x=None, threads=64, **options):
    """Run a kernel with this body on the emulator, for an array of 64 integers."""

    def kernel(x):
        cute.launch(grid=1, block=threads)
        body(x, cute.thread_idx())

    given = np.arange(64, dtype=np.int32)
    cute.emulate(cute.trace(cute.kernel(kernel), given), given if x is None else x, **options)


def on_the_emulator():
    """Return calls that the emulator refuses."""

    def doubled(x, t):
        x[t] = 2 * x[t]

    def beyond(x, t):
        x[2 * t] = 1

    def unordered(x, t):
        s = cute.smem("s32", 64)
        s[t] = x[t]
        x[t] = s[63 - t]

    def unwritten(x, t):
        x[t] = cute.smem("s32", 64)[t]

    def at_once(x, t):
        s = cute.smem("s32", 64)
        s[t // 2] = x[t]

    def loose(x, t):
        cute.make_ptr("f32", 4 * x.shape[0] + 4, align=16)

    def promised(x, t):
        x[cute.as_int(x[t], 0, 3)] = 1

    def tabled(x, t):
        x[t] = cute.make_table([1, 2])[cute.as_int(x[t])].to("s32")

    def assumed(x, t):
        cute.assume(cute.as_int(x[t]) < 31)

    def uniform(x, t):
        x[t] = cute.as_int(x[t], uniform="block").to("s32")

    def asserted(x, t):
        cute.assert_(t < 31, "x is too small")  # noqa: PT009

    def shuffled(x, t):
        with cute.when(t % 32 < 16):
            x[t] = cute.shuffle(x[t], 20)

    def pending(x, t):
        s = cute.smem("s32", 64)
        copy = cute.Copy_Atom("SM80_CP_ASYNC_CACHEALWAYS<32>", "s32")
        cute.copy(copy, cute.local_tile(x, (1,), (t,)), cute.local_tile(s, (1,), (t,)))
        x[t] = s[t]

    def waiting(x, t):
        cute.wait_until(cute.local_tile(x, (1,), (0,)), "eq", 1)

    def counted(x, t):
        with cute.when(t < 32):
            cute.named_barrier(1, 64)
        x[t] = 1

    def inlined(x, t):
        x[t] = cute.inline_ptx("neg.s32 %0, %1;", "s32", x[t], emulate=lambda x: -1.0 * x)

    def grid(x):
        cute.launch(grid=x.shape[0] - 100, block=32)

    read_only = np.zeros(64, np.int32)
    read_only.flags.writeable = False
    return [
        partial(emulated, doubled, np.zeros(64, np.float32)),
        partial(emulated, doubled, read_only),
        partial(emulated, doubled, order="random"),
        *(
            partial(emulated, body)
            for body in (
                beyond,
                unordered,
                unwritten,
                at_once,
                promised,
                tabled,
                loose,
                assumed,
                uniform,
                asserted,
                shuffled,
                pending,
                waiting,
                counted,
                inlined,
            )
        ),
        lambda: cute.emulate(traced(lambda x: None)),
        lambda: cute.emulate(np.add, read_only),
        lambda: cute.emulate(traced(grid), read_only),
    ]


def calls():
    """Return the calls that are refused, those of which a code is shown first."""
    from tests.pure import (
        test_analysis_banks,
        test_analysis_memory,
        test_analysis_resources,
        test_classical,
        test_dtypes_refusals,
        test_errors,
        test_f2,
        test_fit,
        test_properties,
        test_suggest,
        test_tensor_refusals,
        test_tensorop,
        test_thread_maps,
        test_tiled,
        test_tiled_checks,
        test_tiled_refusals,
        test_tma_atoms,
        test_trace_refusals,
        test_trace_refusals_calls,
        test_trace_refusals_memory,
        test_viz_pictures,
    )

    of_kernels = (test_trace_refusals, test_trace_refusals_memory, test_trace_refusals_calls)
    test_trace_refusals.leave_an_index()
    return [
        *(partial(traced, body) for body in bodies(*of_kernels).values()),
        *(
            wrong
            for module in (test_trace_refusals, test_trace_refusals_calls)
            for wrong, _ in module.CALLS.values()
        ),
        *(call for call, _ in test_errors.EXAMPLES.values()),
        *(call for call, _ in test_tensor_refusals.EXAMPLES.values()),
        *(
            call
            for module in (test_tiled_refusals, test_tiled_checks, test_tiled)
            for call, *_ in module.REFUSED.values()
        ),
        *(call for call, *_ in test_dtypes_refusals.REFUSED),
        *(
            call
            for module in (test_classical, test_tensorop)
            for cases in module.REFUSED.values()
            for call in cases.values()
        ),
        *more(),
        *on_the_emulator(),
        *of_parameters(
            test_properties.test_refusals_say_what_was_given_what_is_required_and_the_fix,
            test_f2.test_refusals_say_what_was_given_what_is_required_and_the_fix,
            test_fit.test_refusals_say_what_was_given_what_is_required_and_the_fix,
            test_thread_maps.test_maps_that_would_leave_or_miss_the_tile_are_refused,
            test_suggest.test_what_cannot_be_suggested_is_refused,
            test_viz_pictures.test_what_has_no_picture_is_refused,
            test_analysis_banks.test_what_cannot_be_counted_is_refused,
            test_analysis_memory.test_what_has_no_answer_is_refused,
            test_analysis_resources.test_what_no_multiprocessor_holds_is_refused,
        ),
        *(
            partial(test_tma_atoms.refused, **call)
            for _, call in test_tma_atoms.test_what_no_tensor_map_can_say_is_refused.pytestmark[
                0
            ].args[1]
        ),
    ]


RECORDED = {
    "argument-negated": ("kernel", {"name": "x"}),
    "argument-gradient": ("cute.ops.gemm", {"name": "a"}),
    "argument-tangent": ("cute.ops.gemm", {"name": "a"}),
    "torch-no-backward": ("torch.ops.cute_kernels.scale", {}),
    "torch-twice": ("torch.ops.cute_py.gemm", {}),
    "torch-rounded": ("torch.ops.cute_py.gemm", {"dtype": "s8"}),
    "torch-parameter": (
        "cute_py.torch.register",
        {"name": "z", "place": "outputs", "signature": "scale(x, y, alpha: cute.f32)"},
    ),
    "torch-name": ("cute_py.torch.register", {"name": "scale"}),
    "torch-rules": ("cute_py.torch.register", {"names": "backward", "other": "fake"}),
    "torch-schema": (
        "cute_py.torch.register",
        {"schema": "(Tensor x, Tensor y) -> ()", "wanted": "(Tensor x, Tensor(a1!) y) -> ()"},
    ),
    "torch-writes": ("torch.ops.cute_kernels.split", {"outputs": "low", "written": "high, low"}),
    "torch-result": (
        "torch.ops.cute_kernels.split",
        {"found": "['Tensor']", "wanted": "low, high"},
    ),
    "torch-order": ("torch.ops.cute_kernels.total", {"dtype": "f32", "line": "total.py:7"}),
    "ops-overlap": ("cute.ops.gemm", {"shape": "(4,4)", "strides": "(0,4)"}),
    "argument-tensor": ("kernel", {"type": "Tensor"}),
    "argument-device": ("kernel", {"type": "Foreign", "device": "of DLPack type 10"}),
    "argument-import": ("kernel", {"type": "Foreign", "reason": "BufferError: no"}),
    "argument-dlpack": ("kernel", {"type": "Foreign"}),
    "config-types": (
        "choose_config",
        {
            "a": "f16",
            "b": "f32",
            "known": (
                "f16*f16, bf16*bf16, tf32*tf32, f64*f64, b1*b1, s8*s8, s8*u8, u8*s8, u8*u8, "
                "s4*s4, s4*u4, u4*s4, u4*u4, e4m3*e4m3, e4m3*e5m2, e5m2*e4m3, e5m2*e5m2, f32*f32"
            ),
        },
    ),
    "config-shared": (
        "config(tile=128x256x64,stages=9): GemmConfig",
        {
            "parts": "tile=128x256x64, stages=9",
            "bytes": 442512,
            "most": 232448,
            "fix": "at most stages=4, less what D takes",
        },
    ),
    "config-bits": ("choose", {"dtype": "b1", "mode": "1", "bits": "4"}),
    "codegen-name": ("cute.compile", {"name": "<lambda>"}),
    "codegen-print": ("cute.print", {"count": 33, "most": 32}),
    "codegen-op": ("cute.compile", {"name": "the init of mbarriers"}),
    "codegen-missing": ("cute.compile", {"name": "numba-cuda"}),
    "codegen-emulated": (
        "product",
        {
            "atom": "SM80_16x8x64_S32S4S4S32_TN",
            "arch": "sm_90a",
            "native": "sm_80, sm_86, sm_87, sm_88, sm_89",
        },
    ),
    "codegen-lacks": (
        "gemm_multistage",
        {
            "op": "a copy by cp.async",
            "arch": "sm_75",
            "instruction": (
                "cp.async.cg.shared.global.L2::128B of SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>"
            ),
            "first": "sm_80",
            "newer": " or newer",
            "instead": "use an atom that sm_75 has (cute.atoms.find, copy_rows)",
        },
    ),
    "codegen-parameters": ("many", {"bytes": "40968", "most": "32764"}),
    "codegen-smem": ("large", {"bytes": "122880", "arch": "sm_86", "most": "101376"}),
    "codegen-source": (
        "copy_tiles",
        {
            "log": (
                "no function copy_tiles(A, A_shape0, A_shape1, A_stride0, B, B_shape0, B_shape1, "
                "B_stride0)"
            )
        },
    ),
    "codegen-nvvm": (
        "reduce_rows",
        {
            "arch": "sm_80",
            "log": (
                "ERROR_INVALID_IR (6); <unnamed>: parse invalid type for inline asm constraint "
                "string"
            ),
        },
    ),
    "codegen-disassembly": (
        "nvdisasm",
        {"log": "nvdisasm fatal : Object file kernel.cubin appears truncated"},
    ),
    "codegen-debug": (
        "cute.compile",
        {"given": "5", "known": "time,plan,waits,counters,addresses,source,ptx,log,sass,lowered"},
    ),
    "codegen-ptxas": (
        "gemm",
        {
            "arch": "sm_75",
            "log": "Feature 'cp.async' requires .target sm_80 or higher",
            "how": "use an architecture that has the instructions of the atoms (min_arch), or "
            "smaller tiles",
        },
    ),
    "codegen-stalls": ("gemm", {"found": "2 R2UR", "arch": "sm_90a"}),
    "codegen-spills": ("gemm", {"spilled": "68", "arch": "sm_90a", "most": "0", "log": ""}),
    "cache-folder": ("cache", {"path": "cache/cute_py", "reason": "it belongs to another user"}),
    "cache-size": ("cache", {"text": "1 TB"}),
    "launch-argument": (
        "gemm",
        {
            "name": "A",
            "found": (
                "shape (100, 7), traced for sym('A_shape0'), sym('A_shape1', multiple_of=8, min=0)"
            ),
        },
    ),
    "launch-failed": (
        "touch",
        {
            "status": "CUDA_ERROR_INVALID_VALUE",
            "launch": (
                "grid (1000, 1, 1), block (32, 1, 1), 0 bytes of shared memory, sm_90a, 32 "
                "registers"
            ),
        },
    ),
    "launch-earlier": ("touch", {"status": "CUDA_ERROR_ILLEGAL_ADDRESS", "names": "rows, touch"}),
    "launch-grid": ("rows", {"grid": "(8, 65536, 1)", "most": "(2147483647, 65535, 65535)"}),
    "launch-limit": (
        "large",
        {
            "found": "120000 bytes of shared memory in a",
            "what": "block",
            "most": "101376",
            "arch": "sm_89",
        },
    ),
    "launch-resident": ("gemm_stream_k", {"blocks": "300", "room": "264"}),
    "launch-cluster": ("clustered", {"grid": "(1001, 1, 1)", "cluster": "(4, 1, 1)"}),
    "launch-device": ("rows", {"name": "y", "found": "1", "other": "x", "device": "0"}),
    "launch-read-only": ("rows", {"name": "y"}),
    "launch-host": ("rows", {"name": "y", "type": "ndarray"}),
    "launch-map": ("gemm", {"name": "A", "found": "a pitch of 270 bytes, with rows of 270 bytes"}),
    "launch-misaligned": ("touch", {"name": "x", "address": "0x1001", "size": "4", "dtype": "f32"}),
    "launch-memory": ("cute.run", {"name": "DeviceArray", "address": "0x40"}),
    "launch-stream": ("cute.run", {"stream": "default", "type": "str"}),
    "launch-capture": ("touch", {}),
    "launch-status": ("cuDevicePrimaryCtxRetain", {"status": "CUDA_ERROR_OUT_OF_MEMORY"}),
    "launch-driver": ("cute.run", {"said": "libcuda.so.1 not found"}),
    "ops-library": ("ops.gemm", {"type": "DeviceNDArray"}),
    "ops-chip": ("compile", {"arch": "sm_103a"}),
    "ops-tune-host": ("cute.tune", {}),
    "ops-empty": ("cute.ops.gemm_config", {"shape": "(0,64)", "operator": "cute.ops.gemm"}),
    "ops-memory": (
        "cute.ops.gemm",
        {"needed": "2.2 MiB", "arrays": "351.6 KiB", "state": "1.9 MiB", "available": "1.1 MiB"}
        | {"result": "product", "parts": "multiply in parts along M or N"},
    ),
    "cli-memory": ("gemm", {"what": "a product"}),
    "cli-matrix": (
        "gemm",
        {
            "found": "shape (4)",
            "name": "a",
            "path": "vector.npy",
            "wanted": "a matrix of numbers",
            "fix": "save array.reshape(1, -1), which is a row",
        },
    ),
    "cli-package": ("cute-py", {"reason": "No module named 'numpy'"}),
    "cli-shtab": ("completion", {"found": "no package shtab", "shell": "bash"}),
    "cli-stream": ("cute-py", {"reason": "the system error 'No space left on device'"}),
    "emulate-checks": (
        "emulate",
        {"name": "races", "known": "shared, global", "hint": "leave it out for all checks"},
    ),
    "explore-state": ("explore", {"name": "v", "value": 2}),
    "explore-limit": ("explore", {"reason": "MemoryError"}),
    "explore-package": ("explore", {"reason": "No module named 'sympy'"}),
    "explore-runtime": (
        "--runtime",
        {"path": "pyodide", "missing": "pyodide.mjs", "version": "314.0.7"},
    ),
    "explore-anywidget": ("explore", {"reason": "No module named 'anywidget'"}),
    "explore-value": ("explore", {"value": 2.5}),
    "explore-slow": ("explore", {"seconds": 2}),
    "emulate-report": ("emulate", {"report": "times"}),
    "emulate-resident": ("emulate", {"resident": "0"}),
    "emulate-op": ("kernel", {"name": "Teleport"}),
    "emulate-inline": ("kernel", {"name": "add_sat"}),
    "emulate-global-race": (
        "kernel",
        {
            "access": "a write",
            "offset": "0",
            "coordinate": "",
            "storage": "out",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "other": "write of other bits by block (0, 0, 0), warp 1, lane 0 (thread 32)",
            "other_line": "kernel.py:6",
            "fix": "put cute.syncthreads() between the two",
        },
    ),
    "table-memory": ("TensorArray", {"index": "1"}),
    "table-library": ("TensorArray", {"type": "DeviceNDArray"}),
    "emulate-split-byte": (
        "kernel",
        {
            "dtype": "s4",
            "offset": "1",
            "storage": "Y",
            "width": "2",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
        },
    ),
    "emulate-pointer": (
        "kernel",
        {
            "storage": "ptr0",
            "address": "0x7f0000001000",
            "nearest": "x, from 0x7f0000000000 to 0x7f0000000400",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
        },
    ),
    "emulate-mode": (
        "kernel",
        {
            "entry": "16",
            "mode": "mode 1",
            "who": "block (0, 0, 0), warp 0, lane 16 (thread 16)",
            "offset": "16",
            "space": "gmem",
            "storage": "x",
            "extent": "16",
        },
    ),
    "emulate-padding": (
        "kernel",
        {
            "offset": "4",
            "storage": "A",
            "shape": "(8, 4)",
            "strides": "(6, 1)",
            "who": "block (0, 0, 0), warp 0, lane 4 (thread 4)",
        },
    ),
    "emulate-alignment": (
        "kernel",
        {
            "bytes": "16",
            "offset": "12",
            "storage": "S",
            "remainder": "8",
            "who": "block (0, 0, 0), warp 0, lane 1 (thread 1)",
        },
    ),
    "emulate-register-unwritten": (
        "kernel",
        {"element": "a[8]", "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)"},
    ),
    "emulate-async-pending": (
        "ring",
        {
            "access": "read",
            "offset": "0",
            "storage": "S",
            "who": "block (0, 0, 0), warp 1, lane 0 (thread 32)",
            "engine": "a TMA load that completes on mbarrier full[0]",
            "since": "kernel.py:6",
            "fix": "wait for mbarrier full[0] first, with its phase",
        },
    ),
    "emulate-proxy-fence": (
        "tma_store",
        {
            "access": "read",
            "offset": "0",
            "storage": "S",
            "op_name": "cute.tma_store",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "other": "warp 0 (kernel.py:2)",
        },
    ),
    "emulate-proxy-global": (
        "kernel",
        {
            "access": "a read",
            "offset": "0",
            "coordinate": "",
            "storage": "A",
            "op_name": "cute.tma_load",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "other": "write by block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "other_line": "kernel.py:3",
        },
    ),
    "emulate-wgmma-pending": (
        "warpgroup",
        {
            "registers": "d[0,1]",
            "who": "block (0, 0, 0), warp 0",
            "fix": "put cute.warpgroup_wait(0) before this line",
        },
    ),
    "emulate-wgmma-start": (
        "warpgroup",
        {"condition": "tid < 64", "value": "False", "who": "block (0, 0, 0), warp 2, lane 0"},
    ),
    "emulate-wgmma-address": (
        "warpgroup",
        {"found": "4096", "name": "sA", "first": "0", "who": "block (0, 0, 0), warp 0, lane 1"},
    ),
    "emulate-wgmma-fence": ("warpgroup", {"registers": "a[0:8]", "who": "block (0, 0, 0), warp 0"}),
    "emulate-map": ("gemm", {"name": "A", "found": "a pitch of 270 bytes, with rows of 270 bytes"}),
    "emulate-coordinate": (
        "kernel",
        {
            "value": "4294967296",
            "mode": "0",
            "name": "x",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
        },
    ),
    "emulate-mbarrier-unset": (
        "ring",
        {
            "name": "mbarrier empty[0]",
            "state": "nothing has initialised",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
        },
    ),
    "emulate-mbarrier-early": (
        "kernel",
        {
            "name": "mbarrier bar[0]",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "missing": "a barrier after its init",
        },
    ),
    "emulate-mbarrier-again": (
        "kernel",
        {
            "name": "mbarrier bar[0]",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "other": "kernel.py:5",
        },
    ),
    "emulate-mbarrier-busy": (
        "kernel",
        {
            "name": "mbarrier bar[0]",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "use": "nothing orders its use before (kernel.py:5)",
        },
    ),
    "emulate-mbarrier-lost": (
        "kernel",
        {
            "what": "use",
            "name": "mbarrier bar[0]",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "other": "kernel.py:7",
        },
    ),
    "emulate-mbarrier-phase": (
        "kernel",
        {
            "what": "a wait",
            "name": "mbarrier bar[0]",
            "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)",
            "why": "nothing orders it after the phase before, and while that one is open, it "
            "returns at once",
            "fix": "wait for each phase in turn, or synchronise with a thread that has waited for "
            "the one before",
        },
    ),
    "emulate-multicast": (
        "kernel",
        {"mask": "mask", "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)"},
    ),
    "emulate-cluster-rank": (
        "kernel",
        {
            "rank": "2",
            "name": "bar.arrive",
            "who": "block (2, 0, 0), warp 0, lane 0 (thread 0)",
            "size": "2",
        },
    ),
    "emulate-peer-begin": (
        "kernel",
        {"block": "(1, 0, 0)", "who": "block (0, 0, 0), warp 0, lane 0 (thread 0)"},
    ),
    "emulate-block-end": (
        "kernel",
        {
            "block": "(0, 0, 0)",
            "use": "a TMA store (kernel.py:7) still reads",
            "fix": "call cute.tma_store_commit() and cute.tma_store_wait(0) before the end",
        },
    ),
    "emulate-mbarrier-arrivals": (
        "kernel",
        {
            "name": "mbarrier bar[0]",
            "who": "block (0, 0, 0), warp 0, lane 1 (thread 1)",
            "count": "1",
        },
    ),
    "emulate-mbarrier-bytes": (
        "ring",
        {
            "who": "block (0, 0, 0), warp 1",
            "name": "mbarrier full[0]",
            "what": "waits for 256 bytes more",
        },
    ),
    "emulate-warp-divergent": (
        "kernel",
        {"name": "cute.gemm", "who": "block (0, 0, 0), warp 0, lane 16 (thread 16)"},
    ),
    "emulate-setmaxnreg": (
        "kernel",
        {
            "count": "96",
            "who": "block (0, 0, 0), warp 2",
            "why": "while warp 3 of its warpgroup asked for 104",
            "fix": "branch on the warpgroup: with cute.when(cute.warp_idx() // 4 == 0): ...",
        },
    ),
    "emulate-barrier-divergent": (
        "kernel",
        {
            "who": "block (0, 0, 0), warp 1",
            "others": "lane 8 and others of the warp took another branch",
        },
    ),
    "emulate-barrier-id": (
        "kernel",
        {"id": "2", "other": "1", "who": "block (0, 0, 0), warp 0, lane 1 (thread 1)"},
    ),
    "emulate-barrier-phase": ("kernel", {"id": "1", "who": "block (0, 0, 0), warp 2"}),
    "emulate-barrier-count": (
        "handoff",
        {"given": "128 threads", "id": "2", "who": "block (0, 0, 0), warp 1", "threads": "64"},
    ),
}


@functools.cache
def made_by_calls():
    """Return code -> the first refusal with it that the calls make."""
    made, inside, seen = {}, {}, []
    real = cute.CuteError.__init__

    def note(error, *parts, **named):
        real(error, *parts, **named)
        seen.append(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cute.CuteError, "__init__", note)
        for call in calls():
            seen.clear()
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    call()
            except cute.CuteError as error:
                made.setdefault(error.code, error)
            for error in seen:
                inside.setdefault(error.code, error)
    return {**inside, **made}  # one from inside tells less than the one that is raised


@functools.cache
def messages():
    """Return code -> the first line of its example's message, as docs/errors.md has it."""
    recorded = {
        code: refusal(code, operation=operation, **facts)
        for code, (operation, facts) in RECORDED.items()
    }
    made = {**made_by_calls(), **recorded}
    return {code: message_of(error).partition("\n")[0].strip() for code, error in made.items()}
