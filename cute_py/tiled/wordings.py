"""Wordings: tiled operations, thread maps and suggestions."""

WORDINGS = {
    "mma-columns": """LayoutError
        columns {first} to {last} of a part {part} of {atom}
        columns of the tile, a multiple of {unit} from a multiple of {unit} on, of one instruction,
            or of several whole ones that follow each other along N
        choose such columns; warps along N or a permutation hold others""",
    "mma-views": """LayoutError
        {given}
        {wanted}
        pass the thread's accumulators as make_fragment_C or partition_C returns them""",
    "tiled-permutation": """LayoutError
        {atom} with permutation {permutation} in {mode}
        a tile that is a multiple of the {atoms} elements of all atoms
        use {atoms} or a multiple of it, or _ for exactly that""",
    "tiled-holes": """LayoutError
        thread layout {layout}, which skips thread indices
        threads without holes, or holes that repeat evenly
        use 1, 2 or a multiple of 4 quad pairs; get_slice and partition_A work for any number""",
    "tiled-overlap": """LayoutError
        atom layout {atoms}
        an atom layout that gives every atom its own threads, from 0 up, one mode after another
        omit the stride for threads in order, or shrink the mode of stride 0""",
    "tiled-static": """LayoutError
        {layout}, with symbols or coordinate strides
        integers: threads and tiles are fixed when a tiled operation is built
        use numbers here, and symbols only in the shapes of tensors""",
    "tiled-kind": """LeafTypeError
        {value!r} ({type})
        a {kind}
        build one with make_tiled_mma or make_tiled_copy""",
    "mma-atom": """LeafTypeError
        {value!r} ({type})
        an MMA_Atom, or its name as text
        pass a row of cute.atoms, such as SM80_16x8x16_F32F16F16F32_TN, or atoms.get(name)""",
    "tile-layout": """LayoutError
        {tile} as the tile in {mode}
        a layout that takes every element of the mode at most once, in ascending strides, with gaps
            that its own copies fill
        write n for n:1, or a bijection such as (4,4,2):(1,8,4)""",
    "tiled-rank": """LayoutError
        atom layout {layout} and permutation {permutation}
        at most three modes each: M, N and K
        group modes, or drop the ones beyond K""",
    "partition-rank": """LayoutError
        {layout}
        at least the two modes of the operand: (M,K), (N,K) or (M,N), or the modes of the tiler
        append modes of extent 1, or group the others""",
    "partition-divides": """LayoutError
        extent {extent} in {mode} for a tile of {tile}
        an extent that the tile divides
        pad it to {padded}, or tile it with local_tile and predicates first""",
    "tiled-thread": """CoordinateError
        thread {thread} of {layout}
        one of the {threads} threads of the tiled operation
        launch size() threads, or let the others skip the operation""",
    "coverage-shape": """LayoutError
        shape {shape}
        the (M,N,K) of all operands of an MMA
        omit it for one tile, or pass three extents that the tile divides""",
    "thread-map": """LeafTypeError
        {value!r} ({type})
        a ThreadMap
        build one with stripmined_thread_map or warp_raked_thread_map""",
    "thread-map-pair": """LayoutError
        {value!r}
        two numbers: (contiguous, strided)
        name both extents of the tile, or both of the lanes of a warp""",
    "copy-atom": """LeafTypeError
        {value!r} ({type})
        a Copy_Atom: an instruction and the type of its values
        wrap the instruction: Copy_Atom(op, dtype)""",
    "copy-threads": """LayoutError
        {threads} threads for {atom}, which needs {needed}
        a multiple of the threads of the copy atom
        use a thread layout of a multiple of {needed} threads""",
    "copy-values": """LayoutError
        {values} values per thread for {atom}, which moves {needed}
        a multiple of the values that the copy atom moves per thread
        use a value layout of a multiple of {needed} values, or a narrower copy atom""",
    "copy-map": """LayoutError
        {name} layout {layout}
        a layout that gives every index from 0 to {last} to one element
        omit the stride, or pass the modes in one order, such as (32,4):(4,1)""",
    "copy-tv": """LayoutError
        thread-value layout {tv}
        two modes: threads and values
        group the value modes to one, or append a mode 1:0 for one value""",
    "copy-outside": """LayoutError
        thread-value layout {tv} for tile {tile}: it reaches index {index}
        indices from 0 to {last} of the tile
        enlarge the tile, or shrink the thread-value layout""",
    "copy-writers": """LayoutError
        {atom} with thread-value layout {tv}, in which elements have several writers
        one writer of each element that is written to memory
        give every thread different elements (make_tiled_copy does), or copy to registers""",
    "copy-memory": """LayoutError
        {atom} with a {side} in {space}
        a {side} in {needed}, as the instruction has it
        use an instruction between these memories, or UniversalCopy""",
    "copy-dtype": """DtypeError
        {atom} with a {side} of {dtype}
        elements of {bits} bits on both sides
        build the Copy_Atom with that dtype, or convert in registers""",
    "copy-parts": """LayoutError
        {atom} from {src} to {dst}
        partitions (CPY,CPY_M,CPY_N,...) of equal modes: {num_src} values of the source for every
            {num_dst} of the destination in the first
        partition both by the same TiledCopy, registers by retile_S or retile_D""",
    "copy-vector": """LayoutError
        {atom} with {side} {layout}: value {value} of an access is {step} elements after the first
        {count} contiguous values in memory for an access
        let threads run along the contiguous mode (suggest_tiled_copy does), use a narrower
            instruction, or the transposed ldmatrix""",
    "copy-aligned": """LayoutError
        {atom} with {side} {layout}, in which an access starts at element {start}
        accesses that start at multiples of {bits} bits, here {count} elements
        pad strides and offsets to multiples of {count}, or use a narrower instruction""",
    "retile-values": """LayoutError
        fragment {layout} for {atom}
        at least {rank} modes (V,RestM,RestN,...): V a divisor or multiple of the {held} values that
            a thread moves, the others whole tiles of the copy
        pass the fragment as partition_fragment_C returns it, or retile by a copy made from its
            MMA""",
    "copy-codomain": """LayoutError
        thread-value layout {tv} and data {data}
        addresses that exist in the data layout
        shrink the thread-value layout, or extend the data layout""",
    "retile-order": """LayoutError
        fragment {layout} for thread-value layout {tv}, which does not ascend through the blocks of
            the tile
        values whose blocks (V) ascend along each mode, as those of a fragment do
        copy with the atom of one block, or permute the MMA so that a thread's rows and columns
            ascend""",
    "operand-dtype": """DtypeError
        {held} as operand {operand} of {atom}
        elements of {dtype}, or their bits as unsigned words of that width
        convert in registers: copy to a fragment of {held}, then to one of {dtype}; or use another
            atom""",
    "operand-shape": """LayoutError
        C {c}, A {a} and B {b} for {atom}
        C (V,M,N), A (V,M,K) and B (V,N,K), with {values} values V of C, A and B
        slice all to the same K and one stage; partition_fragment_C, _A and _B of one TiledMMA make
            them""",
    "operand-major": """LayoutError
        {layout}, which is {given}-major, as operand {operand} of {atom}
        a {major}-major tile
        use the atom with tnsp{operand}="{given}", or build the tile from a
            Layout_{major}_..._Atom""",
    "thread-map-divides": """LayoutError
        {part} ({a}) and {whole} ({b})
        that the first divides the second, so that every thread makes an access and none leaves the
            tile
        use fewer threads or a larger tile, or extents that are multiples""",
    "thread-map-warps": """LayoutError
        {threads} threads and {arrangement} lanes in a warp
        whole warps of 32 threads, and 32 lanes in a warp
        use a multiple of 32 threads, and an arrangement such as (8, 4)""",
    "thread-map-transpose": """LayoutError
        accesses of {elements} elements
        accesses of one element, which stay whole when the tile is transposed
        transpose a map with elements=1""",
    "thread-map-atom": """LayoutError
        {atom}, which moves {values} values, for accesses of {elements} elements
        an atom whose values fit into one access
        use UniversalCopy of elements * bits, or build the map with elements={values}""",
    "predicate-bits": """LayoutError
        {per_byte} predicates of a byte, from bit {first} on
        at least one, and none past bit 7
        use 4 of a byte from bit 0 on, as CUTLASS does""",
    "predicate-words": """LayoutError
        the words {given} for {count} predicates
        {words} numbers of 32 bits
        leave words out, and use set, clear and enable""",
    "predicate-index": """CoordinateError
        predicate {i}
        0 to {last}
        make the vector longer, or count accesses from 0""",
    "iterator-layout": """LayoutError
        layout {layout!r}, advance rank {rank!r}
        one of {layouts}, and rank 0 or 1
        name the mode along which tiles follow each other: 0 or 1""",
    "no-instruction": """LayoutError
        {types} of {shape} by {tags}
        types, shape and tags of a row; tags are {known}
        list the rows with cute.atoms.find(a=..., c=...), or pass operator=\"OpMultiplyAdd\"""",
    "warp-instruction": """LayoutError
        {atom}
        an instruction of a whole warp
        use default_instruction and make_tiled_mma for quad pairs""",
    "core-major": """LayoutError
        major {major!r}
        K or MN
        pass major="K" where K is contiguous in memory""",
    "suggest-major": """LayoutError
        major {major!r} for tile {tile}
        the index of a mode, "K" for the last or "MN" for the first
        name the mode of the tile that is contiguous in memory""",
    "suggest-copy": """LayoutError
        tile {tile} of {dtype} for {threads} threads with accesses of {widths} bits
        the same number of accesses for each thread, in whole rows
        use fewer threads, a narrower vector_bits, or a larger tile""",
    "suggest-matrices": """LayoutError
        {matrices} matrices
        1, 2 or 4 matrices in one ldmatrix
        pass matrices=4 for the widest""",
    "suggest-atom": """LayoutError
        {atom}
        an atom of one warp whose A and B are whole 8x8 matrices of 16-bit rows in registers
        ldmatrix does not feed this atom; use plain loads, or descriptors""",
    "threadblock-choice": """LayoutError
        {given!r}
        one of {known}
        take the largest that D has tiles for, or the class of the instructions""",
    "threadblock-range": """LayoutError
        {name}={value}
        {rule}
        pass sizes from 1 on, and blocks, slices and products that count from 0""",
}
