"""Wordings: the tracing of kernels."""

WORDINGS = {
    "trace-python": """TraceError
        {value}, which is known only at run time, in {use}
        a value that is known at trace time
        use {instead}""",
    "trace-number": """CuteError
        {value}, which is known only when the kernel runs, in int(), float() or a format
        a number that Python knows while the kernel is traced
        use cute.print("{{}}", x) for its value, repr(x) for its text in the plan, x.to(dtype) for
            numbers""",
    "trace-text": """TraceError
        {text}, which is known only at run time, in str(), print(), an f-string or another text
        text that is known while the kernel is traced
        use cute.print("x = {{}}", x), which writes the value from each thread; repr(x) is the
            text in the plan""",
    "trace-number-to": """TraceError
        `to` of {value} ({type}), which is known while the kernel is traced
        a run-time integer, or registers
        use the number itself: a store, and arithmetic with registers, convert it; or fill
            registers: r = cute.rmem(dtype, 1), and r.fill(number)""",
    "trace-one-number": """TraceError
        {use} of {value}, which is one integer
        an operation of integers: an operator, or to(dtype) for registers
        use {instead}""",
    "trace-undecided": """UndecidedError
        sizes and indices that leave open whether {question}
        the same answer for every value that they can take
        {promise}""",
    "trace-stale": """TraceError
        {value}, made inside the {kind} that began at {made}
        a value made in the same block, or outside run-time loops and branches
        make a register tensor or a cute.var before the {kind}, and store the value there""",
    "trace-foreign": """TraceError
        {value}, made while another kernel was traced, or this one for other arguments ({made})
        a value of the current trace
        make it inside the kernel; do not keep tensors or indices in an object that outlives it""",
    "trace-changes": """TraceError
        a loop that records `{first}` at first and `{second}` the second time
        a body that records the same ops in every iteration
        keep Python values the same in every iteration (counter, list, iterator, rebound name): use
            cute.var, a register tensor, or Python's range to unroll""",
    "trace-carried": """TraceError
        {names}, which the loop changes in each iteration
        Python values that do not change from one iteration to the next
        use cute.var for a counter, a register tensor for a sum, Python's range to unroll""",
    "trace-iterated": """TraceError
        cute.range outside a for statement (in list, sum, zip, enumerate, a comprehension ...)
        for k in cute.range(n): ...
        count with cute.var and sum in a register tensor, or use Python's range to unroll""",
    "trace-asked": """TraceError
        values that a generator yields from inside it, consumed by list, sum, next, zip, unpacking,
            a comprehension or the like
        a for statement, or a with statement over a context manager: its body is a part of the block
        write for x in generator: ... , count with cute.var and sum in a register tensor; or use
            Python's range in the generator""",
    "trace-left": """TraceError
        {block}, left by break, return or an exception
        a body that runs to its end
        use cute.break_if(condition), or Python's range for a loop that unrolls; catch exceptions
            inside the body, or not at all""",
    "trace-interleaved": """TraceError
        a run-time loop or branch that ends inside another one
        blocks that end in the order in which they began
        iterate over one cute.range at a time; do not keep its iterator (next, zip)""",
    "trace-rebound": """TraceError
        {names}: rebound or changed inside the {kind}, and used after it
        Python values that the {kind} does not change: its body is traced whether it will run or not
        write to a register tensor or a cute.var made before the {kind}, or use
            cute.where(condition, a, b)""",
    "trace-unreadable": """TraceError
        {name}, which holds a {type}, used inside a run-time loop or branch
        iterators whose position can be read before and after the block
        make a list of it before the block, and use its elements by number""",
    "trace-recursion": """TraceError
        {names}, which calls itself without end
        a recursion that ends while the kernel is traced: on numbers that Python knows then
        end it with a condition that is known at trace time; use cute.range or cute.while_ for a
            loop that runs in the kernel""",
    "argument-changed": """TraceError
        {name}, a {type} that the kernel changes
        a compile-time value, which stays as it is: it is read once, while the kernel is traced
        pass np.array(values), which a kernel can write to; or change a copy of it""",
    "trace-leaves": """TraceError
        `{word}` inside the branch
        a branch that runs to its end: it is traced once, whatever the condition
        use cute.return_if(condition) or cute.break_if(condition), or move the rest of the kernel
            under the negated condition""",
    "trace-no-source": """TraceError
        a branch in code without source
        source text, in which return, break and continue can be seen
        write the branch as a function: @cute.when(condition) above def body(): ...""",
    "trace-outside": """TraceError
        a call outside a kernel
        a function under @cute.kernel, while it is traced
        move the call into a kernel, and call the kernel or cute.trace(kernel, ...)""",
    "trace-nested": """TraceError
        a kernel called inside a kernel
        plain Python functions as helpers
        drop @cute.kernel from the inner function""",
    "trace-condition": """TraceError
        {value} ({type})
        a comparison of run-time integers, a b1 register of one element, True or False
        compare: i < n, or x > 0 for registers; reduce a tensor to one element first""",
    "kernel-function": """LeafTypeError
        {type}
        a Python function (def, without yield) under @cute.kernel
        decorate a function, and pass the decorated one""",
    "kernel-arguments": """LeafTypeError
        arguments that do not bind: {said}
        the parameters of {signature}
        pass each parameter once""",
    "kernel-no-launch": """TraceError
        a kernel without a launch shape
        cute.launch(grid=..., block=...) before the first thread or block index
        begin the kernel with cute.launch""",
    "kernel-returns": """TraceError
        a kernel that returns {type}
        results that are written to arrays
        pass an output array, store to it, and return nothing""",
    "kernel-launch-twice": """TraceError
        a second cute.launch, or one inside a loop or branch
        one launch shape for the kernel
        call it once, at the top""",
    "kernel-block": """LayoutError
        {block}
        one to three extents: x, y and z
        count the tiles of several modes in one extent, and recover them with // and %""",
    "kernel-grid": """LayoutError
        a grid of {grid}, where {name} is computed in the kernel
        an expression of the arguments' sizes, strides and run-time numbers, with + - * // % and
            min_
        compute it before the call, and pass it as a run-time number: n: cute.s32""",
    "kernel-space": """LayoutError
        {tensor}
        a tensor in {wanted}
        {how}""",
    "kernel-size": """LayoutError
        {layout}, whose size is known only at run time
        a static size: every thread moves the same number of elements
        take tiles of static shape with cute.local_tile, and loop over them with cute.range""",
    "kernel-layout": """LayoutError
        {layout}
        a layout or a swizzled layout with static strides inside the swizzle
        keep run-time strides outside: slice the stage first""",
    "register-index": """LayoutError
        {index} as an index into registers
        an index that is known at trace time: registers have no addresses
        unroll the loop with Python's range (by 2 for double buffers), or use shared memory""",
    "register-count": """LayoutError
        {count} elements
        a number that is known at trace time
        use static extents; sizes of arguments can be fixed with cute.spec(shape=...)""",
    "register-range": """CoordinateError
        {tensor} of {count} registers
        elements inside the storage
        shrink the layout""",
    "vector-count": """LayoutError
        {count} elements in vectors of {width}
        a whole number of vectors
        use a narrower copy atom, or more values per thread""",
    "vector-neighbours": """LayoutError
        {layout}: a vector of {width} elements at offsets {offsets}
        contiguous elements, in order
        order the values of a thread along the contiguous mode, or use a narrower copy atom""",
    "vector-swizzle": """LayoutError
        {layout}: vectors of {width} elements, where the swizzle moves chunks of {chunk}
        vectors inside one chunk
        use a Swizzle(B, M, S) with 2**M >= {width}, or narrower vectors""",
    "vector-extent": """LayoutError
        vectors of {width} elements from {start} in an extent of {extent}
        an extent and a start that are multiples of {width}, so that no vector is partly outside
        pad the array, declare cute.spec(divisible_by={width}), or use narrower vectors""",
    "vector-alignment": """LayoutError
        vectors of {bits} bits in {storage} (aligned to {alignment} bytes) at offset {offset}
        offsets that are multiples of {width} elements of {dtype}, and a storage aligned to the
            vector
        pass an array whose rows are aligned, declare cute.spec(divisible_by={width}), or use
            narrower vectors""",
    "pointer-type": """LayoutError
        a pointer to {dtype} with align={align}
        elements of 1, 2, 4, 8, 16, 32 or 64 bits, and an alignment (bytes) that is a power of two
            and no less than an element
        make_ptr('f16', address, align=16)""",
    "vector-byte": """LayoutError
        an access to {width} packed element(s) of {dtype}, less than a byte
        whole bytes, contiguous: threads that share a byte would overwrite each other's elements
        copy neighbours together: cute.copy of a part of contiguous elements, then use registers""",
    "kernel-recast": """DtypeError
        {a} as {dtype}
        an array of elements of whole bytes, or of packed ones of 1, 2 or 4 bits
        pass it packed: cute.typed(words, dtype, packed=True); or copy it to registers or shared
            memory, where elements are packed, and recast that""",
    "kernel-fit": """LeafTypeError
        {value} as an element of {dtype}, where it is {found}
        an integer from {low} to {high}
        use a type that holds it, as in x.to({wide}); {keep}x.to("{dtype}", saturate=True)
            clamps""",
    "kernel-wrap": """LeafTypeError
        wrap=True{more} for a conversion from {a} to {b}
        integers that become integers and keep their low bits
        leave wrap out: floats are rounded, and saturate=True clamps""",
    "kernel-types": """LeafTypeError
        {a} and {b}
        operands of one type
        convert one of them: x.to(dtype); for a condition: cute.where(c, 1, 0)""",
    "kernel-lack": """LayoutError
        {what}, for which no architecture has an instruction
        {wanted}
        {instead}""",
    "kernel-formula": """LayoutError
        {op} in a function of registers
        arithmetic of the registers that it is given, numbers, cute.math and conversions
        read memory and other registers first, and pass their elements""",
    "formula-pairs": """LayoutError
        a call outside the function of an epilogue
        the function of `cute.ops.gemm(a, b, epilogue=...)`
        in a kernel, slice the accumulators: x[(0, _), _, _] and x[(1, _), _, _]""",
    "formula-combined": """LayoutError
        arithmetic with the {fn} over all elements, which is known only when all are stored
        a separate result: return {{"D": x, "most": cute.reduce("max", x, mode=1)}}
        compute with it after the product, or pass the result of an earlier product as an array""",
    "formula-result": """LayoutError
        {value!r} as the result of a function of registers
        registers, a number, or a dict of these by name
        return one value; several as {{"D": x, "aux": y}}""",
    "kernel-ptx": """LayoutError
        PTX with {token!r}: {why}
        instructions on registers: operands %0, %1 ... (outputs, then inputs), registers that `.reg`
            declares, numbers and special registers (%%laneid)
        use operations of cute for memory, branches and barriers; keep values in registers""",
    "kernel-emulate": """LeafTypeError
        a {type} as the emulation
        a Python function of NumPy arrays
        write def or lambda: emulate=lambda a, b: a + b""",
    "kernel-domain": """LeafTypeError
        registers of {dtype}
        a type of the kind {domain}
        convert first: x.to(dtype)""",
    "kernel-shapes": """LayoutError
        shapes {a} and {b}
        one shape, modes of extent 1 against any extent, or a single element on one side
        slice or reshape one of them; partitions of one tiled operation match""",
    "kernel-element": """LayoutError
        an assignment to a copy of one element, as in tensor[i][j] = value
        an assignment to a tensor
        write tensor[i, j] = value, or pass the element: cute.local_tile(x, (1,), (i,));
            x.fill(value) and x += value change the copy only""",
    "kernel-print": """LayoutError
        {text!r} with {count} values
        a text with plain {{}}, and a value for each
        write one {{}} for each value, cute.print("t = {{}}", t), and {{{{ }}}} for braces""",
    "kernel-barrier": """LayoutError
        barrier {id} of {threads} threads
        an id from 1 to 15 (0 is cute.syncthreads), and whole warps: a multiple of 32 threads
        count all threads of the participating warps, or use cute.syncthreads""",
    "table-entry": """LayoutError
        {entry}, which depends on {names}
        at least one entry, and only what the host knows: numbers, sizes, strides, integer
            arguments, and their sums, products, quotients, remainders and minima
        add what depends on a thread or a loop where the entry is used: table[i] + n""",
    "table-index": """CoordinateError
        the index {index}, in a table of {count} integers
        0 <= index < {count}
        take an index in the table, or make the table longer""",
    "kernel-as-int": """LeafTypeError
        {tensor}
        one element of an integer type in registers
        load one element: cute.as_int(tensor[i])""",
    "kernel-promise": """LayoutError
        bounds {low} to {high} and multiple_of={multiple_of}
        an integer that satisfies them, and a positive multiple_of
        give true bounds, with the lower one first, or none""",
    "kernel-choice": """LayoutError
        {value!r}
        one of {choices}
        choose one of them""",
    "kernel-compare": """LayoutError
        the atomic {fn} with compare= where it does not belong, or without it
        compare= for cas, and for no other operation
        cute.atomic_cas(target, compare, value)""",
    "kernel-step": """LayoutError
        a step of 0
        a step that is not zero
        use step=1""",
    "kernel-while": """TraceError
        the condition {value}, which is known before the loop
        a condition that changes while the loop runs
        pass a function that reads a cute.var or memory: lambda: x.get() < n""",
    "kernel-variable": """TraceError
        the variable {name} as a value
        x.get() to read a cute.var, x.set(value) to write it
        write x.set(x.get() + 1) for x += 1""",
    "argument-class": """LeafTypeError
        {value!r:.60} as {name}
        {kind}, as the kernel's annotation says
        pass a {kind}, or correct the annotation""",
    "kernel-blockless": """TraceError
        a statement without a block
        a block, to which it applies
        write with in front of it, and its block below: with cute.when(i < n): ...""",
    "kernel-otherwise": """TraceError
        cute.otherwise without a cute.when right before it
        with cute.when(condition): ... directly followed by with cute.otherwise(): ...
        move it there, or use cute.when with the negated condition""",
    "kernel-break": """TraceError
        cute.break_if outside a run-time loop
        a cute.range or cute.while_ around it
        use cute.return_if to end the kernel""",
    "kernel-always": """TraceError
        a condition that is always true
        a condition that is known only at run time
        leave out the code after it""",
    "kernel-assert": """TraceError
        an assertion that is always false: {text}
        a condition that can be true
        check the values that are known at trace time""",
    "operand-order": """LayoutError
        fragments made for {found}, in this order
        acc, a, b; or CuTe's A, B, C, or D, A, B, C, of fragments that were all made for these
        write cute.gemm(mma, acc, a, b); another order needs fragments from partition_fragment_A,
            _B and _C, or make_fragment_A, _B and _C; to use a fragment as another operand, make a
            tensor of it: cute.make_tensor(x.data, layout)""",
    "kernel-modes": """LayoutError
        {name} of {rank} modes
        an array of {count}: ({modes})
        reshape or index it before the call""",
    "kernel-none": """LayoutError
        None in place of an array ({modes})
        an array: the kernel needs this one
        pass it""",
    "kernel-letters": """LayoutError
        {modes!r} for {count} arrays
        a word for each array, with a letter for each of its modes
        separate them by blanks: cute.assume_shapes('MK NK MN', A, B, C)""",
    "kernel-copy": """LeafTypeError
        {count} arguments, without an atom as the first
        copy(src, dst) or copy(atom, src, dst) with a Copy_Atom or TiledCopy
        make an atom: cute.Copy_Atom(op, dtype)""",
    "kernel-atom": """LayoutError
        {atom}
        loads, stores, cp.async, ldmatrix or stmatrix
        use cute.tma_load and cute.tma_store for TMA""",
    "kernel-pred": """LayoutError
        predicates {pred} for {count} vectors
        b1 registers, each for the same number of vectors, and a side in memory
        make them of the shape (CPY_M,CPY_K); a single condition applies to the whole copy""",
    "kernel-fill": """LayoutError
        fill={fill} for an asynchronous copy
        fill=0: cp.async can only write zeros
        fill shared memory first, or copy through registers""",
    "kernel-matrices": """LayoutError
        {rows} rows of addresses and {elements} registers for {atom}
        {each} registers per row address of a lane
        partition both sides with the same tiled copy: partition_S for memory, retile_D for the
            registers""",
    "kernel-fragment": """LayoutError
        {value}
        a fragment (V, M or N, K), in registers or, of warpgroups, in shared memory
        make it with make_fragment_A, _B or _C, or partition_A, _B""",
    "kernel-operand-type": """LeafTypeError
        {name} of {dtype} for {atom}
        {wanted}
        choose an atom of these types (cute.atoms.find), or convert the fragment""",
    "tma-kernel-tile": """LayoutError
        {a} and {b}
        a tile of a tma_tensor in order of its modes, and shared memory
        cut the tile with cute.local_tile(cute.tma_tensor(x), ...)""",
    "tma-bits": """LeafTypeError
        a tensor of {dtype}
        elements of whole bytes, which have the same width in shared memory as in the array
        pass the packed bytes as u8, and recast the tile in shared memory: cute.recast(tile,
            '{dtype}')""",
    "tma-im2col": """LayoutError
        {found}
        an argument (N,W,C), (N,H,W,C) or (N,D,H,W,C) with C contiguous, numbers for each of its
            spatial modes, strides of 1 to 8, and corners of the bounding box (minus the padding,
            and the padding minus the reach of the filter) that fit 16, 8 or 5 signed bits
        for other convolutions, gather the pixels with an iterator operand (cute.Operand)""",
    "tma-kernel-box": """LayoutError
        {found}, for a tile of {tile} in shared memory {layout}
        boxes: rows of a multiple of 16 bytes along the contiguous mode of the tensor, as wide as
            the swizzle if there is one, one after another in shared memory, from a multiple of 8
            rows of the swizzle on (128 bytes without one)
        {how}""",
    "kernel-registers": """LayoutError
        {count} registers ({kind})
        a multiple of 8 from 24 to 256, inc or dec
        round up to a multiple of 8""",
    "mapa-tensor": """LayoutError
        {value}
        mbarriers, or a tensor in shared memory of this block
        pass what cute.smem or cute.mbarriers returned; global memory needs no cute.mapa""",
    "mapa-operand": """LayoutError
        {value}, in another block of the cluster
        shared memory of this block; only loads, stores and atomics access that of other blocks
        {instead}""",
    "mapa-own": """LayoutError
        {what} of the mbarriers of another block
        an arrival: a block initializes its own mbarriers, and waits only at these
        wait at bars, and arrive at cute.mapa(bars, rank)""",
    "role-warps": """LayoutError
        warps={warps}, in a block of {most} warps
        a range of warps of the block, without gaps, or the number of one
        count warps, not threads: warps=range(4, 8) are the threads 128 to 255""",
    "role-overlap": """LayoutError
        role {name!r} of warps {warps}, and {other!r} of warps {others}
        roles that share no warp
        start the later role at the warp after the earlier one""",
    "role-nested": """LayoutError
        role {name!r} inside role {outer!r}
        roles side by side: a warp has only one
        end role {outer!r} first, or branch on its threads: cute.when(me.thread < 64)""",
    "role-name": """LayoutError
        a second role {name!r}, of warps {warps}; the first is of warps {others}
        one set of warps, with one number of registers, for each name
        give the second role its own name""",
    "role-warpgroups": """LayoutError
        role {name!r} of warps {warps}, with {what}
        whole warpgroups: 4 warps that begin at a multiple of 4
        make it warps=range(4, 8) or the like; warps without work may end""",
    "role-outside": """LayoutError
        scope='role' outside a role
        a with cute.role(...) around it
        move it into the role, or elect a thread of the block: cute.elect('block')""",
    "pipeline-stages": """LayoutError
        {stages} stages
        at least {least}, an integer, the same number for all tiles of the ring
        give the shared tensors a last mode of so many stages""",
    "pipeline-tiles": """LayoutError
        tiles={tile}, for {stages} stages
        tensors in shared memory whose last mode is the {stages} stages, or operands of them
        pass the storages that the loads fill, tiles=(sA, sB), or bytes=""",
    "pipeline-cluster": """LayoutError
        cluster={given}, in clusters of {shape} blocks
        all blocks of a cluster, or 1
        pass cute.launch(..., cluster=n) and cluster=n""",
    "pipeline-tma": """LayoutError
        a ring that cp.async fills: cute.pipeline was given neither tiles nor bytes
        a ring of TMA, with mbarriers
        pass cute.pipeline(stages, tiles=(sA, sB), consumers=...)""",
    "pipeline-release": """LayoutError
        a release that none of these threads makes: the first thread of the {who} is not among them
        consumers whose first thread comes here, which releases the stage for all of them
        let roles begin at a multiple of 4 warps, or pass consumers='warp', count=the warps""",
    "pipeline-fill": """LayoutError
        an operand whose copies complete by {kind}
        an operand whose copies complete on mbarriers
        take cute.TmaTiles(tiles of cute.tma_tensor(x), shared), or an iterator with completion =
            'mbarrier'""",
    "mainloop-operand": """LayoutError
        {value}
        a tensor of tiles with g2s, or an iterator with begin and fill, such as cute.TmaTiles,
            without g2s
        see cute.Operand for the methods of an iterator and its completion""",
    "mainloop-kind": """LayoutError
        an operand of class {kind}
        an operand, with its stages in shared memory
        pass cute.Operand(source, shared, ...); source may be cute.TmaTiles""",
    "mainloop-tiles": """LayoutError
        {tensor}
        tiles (BLK_MN, BLK_K, k) in global memory, and stages (BLK_MN, BLK_K, stages) in shared
            memory
        keep the last mode: cute.local_tile(x, (128, 64), (i, _)), and one tile for each stage""",
    "mainloop-clear": """LayoutError
        clear="none" with {atom}, which never fills with zeros
        an instruction with ZFILL: the first tiles and the last one are filled
        load with SM80_CP_ASYNC_CACHEALWAYS_ZFILL, or leave clear out where all tiles are whole""",
    "mainloop-count": """LayoutError
        iterators without a count
        the number of tiles
        pass count=, or give an iterator the attribute count""",
    "mainloop-ring": """LayoutError
        operands that complete by {kinds}, of {bytes} bytes, in {stages} stages
        both on mbarriers, and a pipeline of as many stages and bytes
        pass ring=cute.pipeline(stages, tiles=(sA, sB), consumers=...)""",
    "mainloop-warpgroups": """LayoutError
        {atom}, whose operands are in shared memory
        a ring that another role fills, without transform and clear
        pass ring= and fill=False, and call ring.fill(k, a, b) in the role that loads""",
    "wmma-fragment": """LayoutError
        {what}, of {shape}
        (16,16,16), (32,8,16) or (8,32,16) of f16 with sums of f32 or f16, and tiles (M,K), (N,K)
            and (M,N) of shared memory with one contiguous mode and lines of whole 16 bytes
        copy tiles to shared memory first, or use cute.gemm with an MMA atom""",
    "smem-address": """LayoutError
        {tensor}
        a tensor in shared memory
        copy it to shared memory first; the address of global memory is that of the array""",
    "semaphore-lock": """LayoutError
        {tensor}
        elements of s32 in global memory
        take one of an array of zeros: cute.local_tile(locks, (1,), (i,))""",
    "mainloop-sums": """LayoutError
        several atoms along K, on {threads} threads
        stages with room for one accumulator of each thread
        use larger tiles, more stages, or fewer atoms along K""",
}
