"""Wordings: kernels while they are traced."""

from __future__ import annotations

from cute_py.errors import (
    CoordinateError,
    CuteError,
    DtypeError,
    LayoutError,
    LeafTypeError,
    TraceError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording

WORDINGS: dict[str, Wording] = {
    "trace-python": (
        TraceError,
        "{value}, which is known only when the kernel runs, in {use}",
        "a value that Python knows while the kernel is traced",
        "use {instead}",
    ),
    "trace-number": (
        CuteError,
        "{value}, which is known only when the kernel runs, in int(), float() or a format",
        "a number that Python knows while the kernel is traced",
        "use cute.print for its value, f'{{x}}' for its text in the plan, x.to(dtype) for numbers",
    ),
    "trace-stale": (
        TraceError,
        "{value}, made inside of the {kind} that began at {made}",
        "a value that is made where it is used, or outside of run-time loops and branches",
        "keep it in a register tensor or a cute.var that is made before the {kind}, and write to "
        "that",
    ),
    "trace-foreign": (
        TraceError,
        "{value}, made while another kernel was traced, or this one for other arguments ({made})",
        "a value of the kernel that is traced now",
        "make it inside of the kernel; keep no tensor or index in an object that outlives it",
    ),
    "trace-changes": (
        TraceError,
        "a loop body that records `{first}` at first and `{second}` when it is run again",
        "a body that does the same in every iteration",
        "let no Python value change from one iteration to the next (counter, list, iterator, "
        "rebound name): use cute.var, a register tensor, or Python's range to unroll",
    ),
    "trace-carried": (
        TraceError,
        "{names}, which the body of the loop changes in each iteration",
        "Python values that stay the same from one iteration to the next",
        "use cute.var for a counter, a register tensor for a sum, Python's range to unroll",
    ),
    "trace-iterated": (
        TraceError,
        "cute.range outside of a for statement (in list, sum, zip, enumerate, a comprehension ...)",
        "for k in cute.range(n): ...",
        "count with cute.var and sum in a register tensor, or use Python's range to unroll",
    ),
    "trace-left": (
        TraceError,
        "{block}, left by break, return or an exception",
        "a body that runs to its end",
        "use cute.break_if(condition), or Python's range for a loop that unrolls; catch exceptions "
        "inside of the body, or not at all",
    ),
    "trace-interleaved": (
        TraceError,
        "a run-time loop or branch that ends inside of another one",
        "blocks that end in the order in which they began",
        "iterate over one cute.range at a time; do not keep its iterator (next, zip)",
    ),
    "trace-rebound": (
        TraceError,
        "{names}: rebound or changed inside of the {kind}, and used after it",
        "Python values that a {kind} leaves as they are: its body is traced whether it will run or "
        "not",
        "write to a register tensor or a cute.var that is made before the {kind}, or use "
        "cute.where(condition, a, b)",
    ),
    "trace-unreadable": (
        TraceError,
        "{name}, in which a {type} stands, used inside of a run-time loop or branch",
        "iterators whose position can be read before and after the block",
        "make a list of it before the block, and use its elements by number",
    ),
    "trace-leaves": (
        TraceError,
        "`{word}` inside of the branch",
        "a branch that runs to its end: it is traced once, whatever the condition",
        "use cute.return_if(condition) or cute.break_if(condition), or put the rest of the kernel "
        "under the opposite condition",
    ),
    "trace-no-source": (
        TraceError,
        "a branch in code without source",
        "source text, in which return, break and continue can be seen",
        "write the branch as a function: @cute.when(condition) above def body(): ...",
    ),
    "trace-outside": (
        TraceError,
        "a call outside of a kernel",
        "a function under @cute.kernel, while it is traced",
        "put the call into a kernel, and call the kernel or cute.trace(kernel, ...)",
    ),
    "trace-nested": (
        TraceError,
        "a kernel called inside of a kernel",
        "plain Python functions as helpers",
        "drop @cute.kernel from the inner function",
    ),
    "trace-condition": (
        TraceError,
        "{value} ({type})",
        "a comparison of run-time integers, a b1 register of one element, True or False",
        "compare: i < n, or x > 0 for registers; reduce a tensor to one element first",
    ),
    "kernel-function": (
        LeafTypeError,
        "{type}",
        "a Python function (def, without yield) under @cute.kernel",
        "decorate a function, and pass the decorated one",
    ),
    "kernel-arguments": (
        LeafTypeError,
        "arguments that do not bind: {said}",
        "the parameters of {signature}",
        "pass each parameter once",
    ),
    "kernel-no-launch": (
        TraceError,
        "a kernel that has not stated its launch shape",
        "cute.launch(grid=..., block=...) before the first thread or block index",
        "begin the kernel with cute.launch",
    ),
    "kernel-returns": (
        TraceError,
        "a kernel that returns {type}",
        "results that are written to arrays",
        "pass an output array, store to it, and return nothing",
    ),
    "kernel-launch-twice": (
        TraceError,
        "a second cute.launch, or one inside of a loop or branch",
        "one launch shape for the kernel",
        "state it once, at the top",
    ),
    "kernel-block": (
        LayoutError,
        "{block}",
        "one to three extents, at least 1, of at most 1024 threads together",
        "use fewer threads: 128 or 256 suit most kernels",
    ),
    "kernel-grid": (
        LayoutError,
        "a grid of {grid}, where {name} is made in the kernel",
        "sizes, strides and run-time numbers of the arguments, joined by + - * // % and min_",
        "compute it before the call, and pass it as a run-time number: n: cute.s32",
    ),
    "kernel-space": (
        LayoutError,
        "{tensor}",
        "a tensor in {wanted}",
        "copy it there first: cute.copy(src, dst)",
    ),
    "kernel-size": (
        LayoutError,
        "{layout}, whose size is known only when the kernel runs",
        "a static size: every thread moves the same number of elements",
        "cut a tile of static shape with cute.local_tile, and loop over the others with cute.range",
    ),
    "kernel-layout": (
        LayoutError,
        "{layout}",
        "a layout or a swizzled layout with static strides inside of the swizzle",
        "keep run-time strides outside: slice the stage first",
    ),
    "register-index": (
        LayoutError,
        "{index} as an index into registers",
        "an index that is known while the kernel is traced: registers have no addresses",
        "unroll the loop with Python's range (by 2 for double buffers), or use shared memory",
    ),
    "register-count": (
        LayoutError,
        "{count} elements",
        "a number that is known while the kernel is traced",
        "use static extents; sizes of arguments can be fixed with cute.spec(shape=...)",
    ),
    "register-range": (
        CoordinateError,
        "{tensor} of {count} registers",
        "elements inside of the storage",
        "shrink the layout",
    ),
    "vector-count": (
        LayoutError,
        "{count} elements in vectors of {width}",
        "a whole number of vectors",
        "use a narrower copy atom, or more values a thread",
    ),
    "vector-neighbours": (
        LayoutError,
        "{layout}: a vector of {width} elements at offsets {offsets}",
        "neighbouring elements, in order",
        "let the values of a thread run along the contiguous mode, or use a narrower copy atom",
    ),
    "vector-swizzle": (
        LayoutError,
        "{layout}: vectors of {width} elements, where the swizzle moves chunks of {chunk}",
        "vectors that lie inside of one chunk",
        "use a Swizzle(B, M, S) with 2**M >= {width}, or narrower vectors",
    ),
    "vector-extent": (
        LayoutError,
        "vectors of {width} elements from {start} in an extent of {extent}",
        "an extent and a start that {width} divides, so that a vector is inside or outside as a "
        "whole",
        "pad the array, declare cute.spec(divisible_by={width}), or use narrower vectors",
    ),
    "vector-alignment": (
        LayoutError,
        "vectors of {bits} bits in {storage} (aligned to {alignment} bytes) at offset {offset}",
        "offsets that {width} elements of {dtype} divide, and a storage aligned to the vector",
        "pass an array whose rows are aligned, declare cute.spec(divisible_by={width}), or use "
        "narrower vectors",
    ),
    "kernel-recast": (
        DtypeError,
        "{a} as {dtype}",
        "elements of whole bytes: in an array each narrower one lies in a byte of its own",
        "copy it to registers or shared memory, where elements are packed, and recast those",
    ),
    "kernel-types": (
        LeafTypeError,
        "{a} and {b}",
        "operands of one type",
        "convert one of them: x.to(dtype); of a condition make numbers: cute.where(c, 1, 0)",
    ),
    "kernel-domain": (
        LeafTypeError,
        "registers of {dtype}",
        "a type of the kind {domain}",
        "convert first: x.to(dtype)",
    ),
    "kernel-shapes": (
        LayoutError,
        "shapes {a} and {b}",
        "one shape, or a single element on one side",
        "slice or reshape one of them; partitions of one tiled operation fit each other",
    ),
    "kernel-element": (
        LayoutError,
        "an assignment to a copy of one element, as tensor[i][j] = value is",
        "an assignment to a tensor",
        "write tensor[i, j] = value; x.fill(value), or x += value, change a copy",
    ),
    "kernel-print": (
        LayoutError,
        "{text!r} with {count} values",
        "a value for each {{}}",
        "write one {{}} where each value goes",
    ),
    "kernel-barrier": (
        LayoutError,
        "barrier {id} of {threads} threads",
        "an id from 1 to 15 (0 is cute.syncthreads), and whole warps: a multiple of 32 threads",
        "count all threads of the warps that meet, or use cute.syncthreads",
    ),
    "kernel-as-int": (
        LeafTypeError,
        "{tensor}",
        "one element of an integer type in registers",
        "load one element: cute.as_int(tensor[i])",
    ),
    "kernel-choice": (LayoutError, "{value!r}", "one of {choices}", "choose one of them"),
    "kernel-step": (LayoutError, "a step of 0", "a step that is not zero", "use step=1"),
    "kernel-while": (
        TraceError,
        "the condition {value}, which is decided before the loop",
        "a condition that changes while the loop runs",
        "pass a function that reads a cute.var or memory: lambda: x.get() < n",
    ),
    "kernel-variable": (
        TraceError,
        "the variable {name} as a value",
        "x.get() to read a cute.var, x.set(value) to write it",
        "write x.set(x.get() + 1) for x += 1",
    ),
    "kernel-otherwise": (
        TraceError,
        "cute.otherwise without a cute.when right before it",
        "with cute.when(condition): ... and then with cute.otherwise(): ...",
        "move it there, or use cute.when with the opposite condition",
    ),
    "kernel-break": (
        TraceError,
        "cute.break_if outside of a run-time loop",
        "a cute.range or cute.while_ around it",
        "use cute.return_if to end the kernel",
    ),
    "kernel-always": (
        TraceError,
        "a condition that always holds",
        "a condition that is known only when the kernel runs",
        "leave out the code after it",
    ),
    "kernel-assert": (
        TraceError,
        "an assertion that never holds: {text}",
        "a condition that can hold",
        "look at the values that are known while the kernel is traced",
    ),
    "kernel-copy": (
        LeafTypeError,
        "{count} arguments, the first of them no atom",
        "copy(src, dst) or copy(atom, src, dst) with a Copy_Atom or TiledCopy",
        "make an atom: cute.Copy_Atom(op, dtype)",
    ),
    "kernel-atom": (
        LayoutError,
        "{atom}",
        "loads, stores, cp.async, ldmatrix or stmatrix",
        "use cute.tma_load and cute.tma_store for TMA",
    ),
    "kernel-pred": (
        LayoutError,
        "predicates {pred} for {count} vectors",
        "b1 registers, one for each vector or for equally many vectors, and a side in memory",
        "make them of the shape (CPY_M,CPY_K); a single condition goes for the whole copy",
    ),
    "kernel-fill": (
        LayoutError,
        "fill={fill} for an asynchronous copy",
        "fill=0: cp.async can only write zeros",
        "fill shared memory first, or copy through registers",
    ),
    "kernel-matrices": (
        LayoutError,
        "{rows} rows of addresses and {elements} registers for {atom}",
        "{each} registers for each row address of a lane",
        "partition both sides with the same tiled copy: partition_S for memory, retile_D for the "
        "registers",
    ),
    "kernel-fragment": (
        LayoutError,
        "{value}",
        "a fragment (V, M or N, K) in registers",
        "make it with make_fragment_A, _B or _C",
    ),
    "kernel-operand-type": (
        LeafTypeError,
        "{name} of {dtype} for {atom}",
        "{wanted}",
        "choose the atom by the types (cute.atoms.find), or convert the fragment",
    ),
    "tma-kernel-tile": (
        LayoutError,
        "{a} and {b}",
        "a tile of a tma_tensor in order of its modes, and shared memory",
        "cut the tile with cute.local_tile(cute.tma_tensor(x), ...)",
    ),
    "tma-kernel-box": (
        LayoutError,
        "a box of {box} elements, {row} bytes along the contiguous mode, with {swizzle}",
        "at most 256 elements a mode, rows of a multiple of 16 bytes within the swizzle's span "
        "(128, 64 or 32 bytes)",
        "shorten the tile along the contiguous mode, or issue several copies",
    ),
    "kernel-registers": (
        LayoutError,
        "{count} registers ({kind})",
        "a multiple of 8 from 24 to 256, inc or dec",
        "round up to a multiple of 8",
    ),
    "pipeline-stages": (
        LayoutError,
        "{stages} stages",
        "at least 2 stages, as many for A as for B",
        "give both shared tensors a last mode of 2 or more",
    ),
}
