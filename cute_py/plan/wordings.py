"""Wordings: plans."""

WORDINGS = {
    "plan-integer": """LayoutError
        the integer {number}
        numbers from -2**63 to 2**63 - 1: the integers of a kernel are signed, of 64 bits
        compute in registers of an unsigned type: n.to('u64')""",
    "plan-unsigned": """LayoutError
        {value} as {name}, an integer that the kernel computes with
        less than 2**63: the integers of a kernel are signed, of 64 bits
        compute in registers: {name}.to('u64')""",
    "plan-requirement": """LayoutError
        arguments for which {cond} is false: {values}
        what the kernel states about them with cute.assume
        pass arrays and numbers that agree, or correct the kernel's cute.assume""",
    "plan-op": """LayoutError
        an op with {problem}
        fields that match each other, and storages of the plan
        trace the kernel again; plans built by hand must follow plan/ops""",
    "plan-launch": """LayoutError
        {found} {what}
        {least} to {most}: no GPU launches others
        {fix}""",
    "plan-clusters": """LayoutError
        {grid} blocks of the grid along {axis}, in clusters of {cluster}
        a multiple of {cluster}: a grid is a whole number of clusters
        round up: cute.round_up(blocks, {cluster})""",
    "plan-tables": """LayoutError
        tables of {bytes} bytes
        at most {most} bytes in all tables of a kernel: entries are parameters of 8 bytes
        pass an array, or keep repeated entries once, and compute the rest from the index""",
    "plan-text": """LayoutError
        text that is not a plan: {said}
        text that Plan.save wrote
        save the plan again""",
    "plan-foreign": """LayoutError
        a plan from a file, which fails with {said}
        a plan that cute.trace made, as it was saved
        save the plan again; if that does not help, report it as a bug of cute_py""",
    "plan-version": """LayoutError
        a plan of version {version}
        version {known}
        trace the kernel again with this version of cute_py""",
    "plan-unassigned": """LayoutError
        a read of register {storage}[{element}], which may be unassigned there
        registers that are assigned on every path to the read
        fill the tensor first (x.fill(0)); a loop may run zero times""",
    "plan-pdl": """LayoutError
        an access to global memory, or a return, before a wait for the preceding kernels, with
            pdl=True
        a wait first, in the thread, or in one with which it synchronises after that: the results of
            these kernels may not be visible yet
        call cute.griddepcontrol_wait() before the first access, outside loops, in all threads or in
            each role; a role that waits for stages of another one needs none""",
    "plan-twice": """LayoutError
        {reg}, where one operation writes several values to one register
        registers that an operation writes once, or with one value
        use a tensor without modes of stride 0; sum along a mode with cute.reduce(fn, x, mode)""",
    "plan-box": """LayoutError
        {box}, in a storage at byte {start} of shared memory
        a box of TMA that starts at a multiple of {period} bytes: 8 rows of its swizzle, or 128
            bytes without one
        allocate it with cute.smem(dtype, layout, {period}), and cut parts of whole atoms""",
    "plan-descriptor": """LayoutError
        {side} in {tile.access.storage}, which begins at byte {start} of shared memory: a descriptor
            ({tile.mode}, steps of {tile.lbo} and {tile.sbo} bytes) does not lead to {wrong}
        a tile that wgmma reads as the layout says: a swizzle permutes the bits of absolute
            addresses, and begins at a multiple of {period} bytes
        allocate it with cute.smem(dtype, layout, {period}), and cut parts of whole atoms""",
    "plan-setmaxnreg-part": """LayoutError
        setmaxnreg that warp {warp} of warpgroup {group} does not reach with the others
        all four warps of a warpgroup at one setmaxnreg
        branch on the warpgroup: with cute.when(cute.warp_idx() // 4 == 0): ...""",
    "plan-setmaxnreg-kind": """LayoutError
        {kind} to {count} registers per thread of warpgroup {group}, which has {held}
        inc to more registers, dec to fewer
        use the other one, "inc" or "dec"; cute.role(..., registers=) chooses it""",
    "plan-setmaxnreg-sum": """LayoutError
        {counts} registers per thread of the warpgroups, {total} in all
        at most {most}: the 64 K of a multiprocessor are distributed when a block begins, {first}
            per thread
        ask for fewer, or let other warpgroups give more back""",
    "plan-divergent": """LayoutError
        a block barrier inside the branch or loop at {branch}, where threads diverge
        all threads of the block at the barrier
        move it out of the branch, use cute.named_barrier with the number of threads, or, if the
            threads read one value from memory, promise it: cute.as_int(x, uniform='block'),
            cute.var(x, uniform='block')""",
    "plan-count": """LayoutError
        {count} = {value}
        numbers of tiles below 2**31, so that kernels compute with them in 32 bits
        annotate an array with cute.spec(large=True), which computes in 64 bits""",
    "plan-shared": """LayoutError
        {bytes} bytes of shared memory
        at most {most} bytes per block
        use smaller tiles or fewer stages, or cute.union for storages with disjoint live ranges""",
}
