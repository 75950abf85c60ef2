"""Wordings: the emulator."""

WORDINGS = {
    "emulate-arguments": """LayoutError
        {count} arguments
        {wanted}, one for each parameter: {names}
        pass arrays and numbers in the order of plan.params""",
    "emulate-argument": """LayoutError
        {value} as {name}
        {wanted}
        convert the array first, or trace the kernel with this one""",
    "emulate-large": """EmulationError
        {found}
        at most {most}: the emulator is for small sizes
        pass smaller arrays, or run it on a GPU; memory= sets the limit for the state of blocks""",
    "emulate-order": """LayoutError
        the order {order!r}
        "forward", "reversed" or a seed (int), or a witness of cute.check_orders
        leave it out for the forward order""",
    "orders-bound": """LayoutError
        {name}={value!r}
        a number above 0
        leave it out for most=1000 runs and seconds=60""",
    "emulate-checks": """LayoutError
        the check {name!r}
        True, False, or names among {known}
        {hint}""",
    "emulate-resident": """LayoutError
        {resident!r} blocks at once
        an integer of at least 1
        leave it out for as many as fit on an H100""",
    "emulate-report": """LayoutError
        report={report!r}
        True, False or "timeline"
        pass True for counts by line""",
    "emulate-plan": """LeafTypeError
        {given}
        a plan and its arrays and numbers, or a kernel and its arguments
        cute.emulate(kernel, x, n=2), or cute.emulate(cute.trace(kernel, x, n=2), x)""",
    "emulate-op": """EmulationError
        {name}, which is not emulated yet
        ops with a rule in cute_py.emulate
        run this kernel on a GPU""",
    "emulate-inline": """EmulationError
        a plan from a file, which has the PTX of {name} but not the function that emulates it
        a plan that was traced in this process
        trace the kernel, or compile this plan: cute.compile(plan, arch)""",
    "emulate-inline-result": """EmulationError
        {given} from {name}
        {wanted}
        return a NumPy array for each output, in its type: x.astype(...)""",
    "emulate-fit": """EmulationError
        {value} as an element of {dtype}, where it is {found}, by {who}
        an integer from {low} to {high}
        use a type that holds it, as in x.to("s64"), or guard it; x.to("{dtype}", wrap=True) keeps
            the low bits, and x.to("{dtype}", saturate=True) clamps""",
    "emulate-unsigned": """EmulationError
        an element of u64 that is {value}, as an integer, by {who}
        less than 2**63: the integers of a kernel are signed, of 64 bits
        compute with the element in registers, without cute.as_int""",
    "emulate-bounds": """EmulationError
        {elements} of {space} storage {storage}{coordinate}, by {who}
        0 <= element < {limit}
        guard the access at the ragged edge: with cute.when(i < n): ... (cute.where computes both of
            its values, with their loads), or round the storage up to whole tiles""",
    "emulate-split-byte": """EmulationError
        packed elements of {dtype} from element {offset} of {storage} on, in vectors of {width}, by
            {who}
        vectors that begin and end at whole bytes
        let one thread access all elements of a byte""",
    "emulate-pointer": """EmulationError
        {storage}, a pointer to {address}, which is in no array; the nearest is {nearest}; by {who}
        an address in an argument, in an array of a cute.TensorArray, or in arrays= of cute.emulate
        pass the array: cute.emulate(plan, ..., arrays=[x])""",
    "emulate-pointer-alignment": """EmulationError
        a pointer to {address}, by {who}
        a multiple of {alignment} bytes, as make_ptr promises
        state the actual alignment of the address: make_ptr(dtype, address, align=...)""",
    "emulate-mode": """EmulationError
        entry {entry} of {mode}, by {who}: element {offset} of {space} storage {storage}, which
            belongs to another coordinate
        0 <= entry < {extent}
        guard that coordinate, or make a tensor with its own layout: make_tensor(x.data, layout)""",
    "emulate-padding": """EmulationError
        element {offset} of {storage} (shape {shape}, strides {strides}), by {who}
        an element of the array; this one is between two of its rows
        check the strides from which the address is computed, and guard the last columns""",
    "emulate-alignment": """EmulationError
        an access of {bytes} bytes to element {offset} of {storage}, {remainder} bytes past a
            multiple of {bytes}, by {who}
        addresses that are multiples of {bytes} bytes
        use narrower vectors, pad the strides, or pass an array that is aligned""",
    "emulate-read-only": """EmulationError
        a write to {storage}, which is read-only
        an array that can be written
        pass a copy: numpy.array(x)""",
    "emulate-smem-unwritten": """EmulationError
        a read of element {offset} of {storage}, which nothing has written{since}, by {who}
        shared memory to be written before it is read
        store to it first, or check the addresses of both sides""",
    "emulate-register-unwritten": """EmulationError
        a read of register {element}, which nothing has written, by {who}
        registers to be written before they are read
        fill or load the fragment first: x.fill(0)""",
    "emulate-race": """EmulationError
        a {access} of element {offset} of {storage} by {who}, after {other} that nothing orders
            before it
        a barrier between accesses of different threads, if one of them writes
        {fix}""",
    "emulate-global-race": """EmulationError
        {access} of element {offset}{coordinate} of {storage} by {who}, which nothing orders with
            the {other} ({other_line})
        accesses of global memory that are ordered, if one of them writes
        {fix}""",
    "emulate-copy-pending": """EmulationError
        a {access} of element {offset} of {storage} by {who}, which cp.async of warp {owner}
            ({since}) writes in its group {group}
        a wait for the data of cp.async, and for the use by other warps a barrier after it
        {fix}""",
    "emulate-async-pending": """EmulationError
        a {access} of element {offset} of {storage} by {who}, which {engine} uses ({since})
        a wait until the engine is done with shared memory
        {fix}""",
    "emulate-proxy-fence": """EmulationError
        a {access} of element {offset} of {storage} by {op_name} of {who}, after a write by {other}
            without a proxy fence
        a fence of the async proxy between ordinary stores and TMA or wgmma
        call cute.fence_proxy_async() after the stores, before the barrier""",
    "emulate-proxy-global": """EmulationError
        {access} of element {offset}{coordinate} of {storage} by {op_name} of {who}, after the
            {other} ({other_line}): TMA may still see what was there before
        elements of global memory that threads of the same kernel do not store
        store them with cute.tma_store, access them without TMA, or launch a second kernel""",
    "emulate-wgmma-pending": """EmulationError
        an access to {registers} by {who}, which wgmma still uses
        no access to accumulators, and to A in registers, before cute.warpgroup_wait
        {fix}""",
    "emulate-wgmma-start": """EmulationError
        accumulate={condition}, which is {value} in {who} and not in the first thread of its
            warpgroup
        one value in all threads of a warpgroup
        compute it from block indices, loop variables, cute.warp_idx() // 4, or memory that all of
            its threads read""",
    "emulate-wgmma-address": """EmulationError
        an operand at element {found} of {name} in {who}, and at {first} in the first thread of its
            warpgroup
        one descriptor in all threads of a warpgroup
        index stages by loop variables, block indices or cute.warp_idx() // 4, not by lanes""",
    "emulate-wgmma-fence": """EmulationError
        wgmma on {registers} by {who}, without a fence since other instructions wrote them, or since
            the kernel began
        cute.warpgroup_fence() before the first wgmma, and after writes to registers that it uses
        call cute.warpgroup_fence() before the wgmma""",
    "emulate-mbarrier-unset": """EmulationError
        {name}, which {state}, by {who}
        an init, and a barrier, before an mbarrier is used
        let one thread initialise it, then fence and cute.syncthreads()""",
    "emulate-mbarrier-early": """EmulationError
        the use of {name} by {who}, without {missing}
        an init, a fence after it, and a barrier, before other threads, TMA or other blocks use it
        call cute.fence_mbarrier_init() after the init, then cute.syncthreads() or
            cute.cluster_sync()""",
    "emulate-mbarrier-again": """EmulationError
        a second init of {name} by {who}, whose memory holds a valid mbarrier since {other}
        memory without a valid mbarrier: PTX leaves a second mbarrier.init undefined
        let one thread initialise it once, outside loops; for other arrivals use another mbarrier,
            or call its inval() first""",
    "emulate-mbarrier-busy": """EmulationError
        the inval of {name} by {who}, where {use}
        an mbarrier that no thread uses any more
        put a barrier between its last use and its inval()""",
    "emulate-cluster-rank": """EmulationError
        rank {rank} for {name} of {who}, in a cluster of {size}
        a rank within the cluster: 0 <= rank < {size}
        count the blocks of the cluster, not those of the grid: cute.block_idx() % {size}""",
    "emulate-multicast": """EmulationError
        multicast={mask}, which is 0 in {who}: the copy reaches no block, and its bytes no mbarrier
        a mask with a bit for each block that gets the tile
        compute a mask that is not 0, such as 1 << rank of the blocks; a plain multicast=0 is a copy
            for this block alone""",
    "emulate-peer-begin": """EmulationError
        an access to shared memory of block {block} by {who}, which does not know that the block has
            begun
        every block of the cluster to begin before others access its shared memory
        call cute.cluster_sync() before the first access""",
    "emulate-block-end": """EmulationError
        the end of block {block}, whose shared memory {use}
        shared memory that is no longer used when the last thread of its block ends
        {fix}""",
    "emulate-mbarrier-arrivals": """EmulationError
        one more arrival at {name} by {who}, after all {count} arrivals of the phase
        as many arrivals in a phase as the init says
        raise the count, or let fewer threads arrive""",
    "emulate-mbarrier-lost": """EmulationError
        the {what} of {name} by {who}, whose memory was written since its init ({other})
        8 bytes that belong to the mbarrier alone, from its init to its inval()
        allocate it outside cute.union(), or call its inval() before the memory is written, and
            initialise it again when it gets the memory back""",
    "emulate-mbarrier-phase": """EmulationError
        {what} at {name} by {who}, where {why}
        arrivals after the end of the previous phase, and waits between the end of the previous
            phase and the end of the next one: a parity does not tell other phases apart
        {fix}""",
    "emulate-map": """EmulationError
        {name} with {found}
        an array that TMA can address: its address and its pitches are multiples of 16 bytes, a
            pitch is at least a row, and extents are below 2^31
        copy it into memory with such rows: a number of columns that is a multiple of 16 bytes; give
            a longer mode as two""",
    "emulate-coordinate": """EmulationError
        the coordinate {value} along mode {mode} of {name}, by {who}
        coordinates of TMA within 32 signed bits: larger ones would wrap around
        guard the copy, or bound the coordinate: cute.min_(i, n)""",
    "emulate-mbarrier-bytes": """EmulationError
        a wait of {who} for {name}, at which all threads have arrived, but which {what} than
            announced
        as many announced bytes as the TMA loads bring
        announce the bytes of all boxes of the phase: elements * bits // 8""",
    "emulate-lanes": """EmulationError
        {values} that {who} and lane {other} of the same warp write to element {offset} of {storage}
            at once
        one value for each address in one instruction, computed from numbers, arguments, and the
            same elements of arrays that the kernel does not write
        let one lane write, or use an atomic""",
    "emulate-table": """EmulationError
        the index {index}, in a table of {count} integers, by {who}
        0 <= index < {count}
        make the table longer, or bound the index: cute.min_(i, len(table) - 1)""",
    "emulate-shuffle": """EmulationError
        a shuffle by {who} from lane {source}, which does not take part
        a source lane that executes the same shuffle
        shuffle outside the branch""",
    "emulate-warp-divergent": """EmulationError
        {name} that {who} does not reach with its warp
        all lanes of the warp together
        move it out of the branch, or branch on a condition that whole warps share""",
    "emulate-barrier-divergent": """EmulationError
        a barrier reached by {who}, while {others}
        all threads of the block at the same barrier
        move the barrier out of the branch, or use a named barrier for part of the block""",
    "emulate-barrier-count": """EmulationError
        {given} at barrier {id}, with {who}
        exactly {threads} threads
        count the threads that arrive and those that wait, or use another id""",
    "emulate-setmaxnreg": """EmulationError
        setmaxnreg of {count} by {who}, {why}
        all four warps of a warpgroup at setmaxnreg, with one number: more registers than they have
            for inc, fewer for dec; and a synchronisation of these warps between two of them
        {fix}""",
    "emulate-barrier-id": """EmulationError
        barrier {id} by {who}, and barrier {other} by lane 0 of its warp
        one barrier from 1 to 15 for all lanes of a warp: barrier 0 belongs to syncthreads
        compute the id from cute.warp_idx(), or from numbers that all lanes have in common""",
    "emulate-barrier-phase": """EmulationError
        an arrival at barrier {id} by {who}, which nothing orders after the previous phase
        arrivals that are ordered after all arrivals of the previous phase
        count the threads that arrive and those that wait, use another id, or synchronise first""",
    "emulate-deadlock": """EmulationError
        threads that wait forever: {waits}
        a thread that ends each wait
        arrive, or store the value, on a path that does not wait for the same threads""",
    "emulate-not-resident": """EmulationError
        a wait that no block of a lower number ends: {waits}
        blocks that can end without blocks of higher numbers, which may begin later
        let blocks wait only for those of lower numbers; or use cute.launch(..., resident=True),
            which requires that all blocks run at once""",
    "emulate-pdl": """EmulationError
        {name} by {who} before any wait for the preceding kernels, with pdl=True
        a wait first, of this thread or of one that it has synchronised with: the results of these
            kernels may not be visible yet
        call cute.griddepcontrol_wait() in this role, too, or synchronise it with one that did: by a
            barrier, or through the stages that that one fills""",
    "emulate-promise": """EmulationError
        {value} as {name}, by {who}
        {what}, as declared by as_int or var
        give true bounds, or none, and guard what needs them""",
    "emulate-assume": """EmulationError
        {cond}, which is false, by {who}
        a condition that is true, as cute.assume promises
        correct the promise, or test the condition with cute.when""",
    "emulate-uniform": """EmulationError
        {name} = {value} by {who}, and {other} by {others}
        the same value in all threads of the {scope}, as uniform='{scope}' promises
        promise a narrower scope, or let all its threads read the same element; if another thread
            changes it in between, let one thread read it and pass it on through shared memory""",
    "emulate-assert": """EmulationError
        the failed assertion {text!r} ({cond}), by {who}
        a condition that is true
        look at the values with cute.print""",
    "follow-device": """LayoutError
        {value} on a GPU
        arrays of the host: the emulator runs the kernel
        pass x.cpu() or numpy.asarray(x), of a small size""",
    "follow-element": """LayoutError
        the element {value!r}
        the name of an array and a coordinate
        write element=("A", (5, 17)) or element="A[5,17]\"""",
    "follow-name": """LayoutError
        an element of {name!r}
        one of the arrays: {known}
        {hint}""",
    "follow-outside": """LayoutError
        the coordinate {coord} of {name}
        an integer for each mode, inside of the shape {shape}
        count from 0: the last element is one less than the extent""",
}
