"""Wordings: static analysis."""

WORDINGS = {
    "suggest-dtype": """LayoutError
        {access} with elements of {own}, for a tile of {dtype}
        accesses with elements of the tile's width
        build the copies with the dtype of the tile""",
    "suggest-smem": """LayoutError
        tile {tile} of {dtype} with these accesses
        a plain, swizzled, F2 or padded layout without bank conflicts
        print bank_conflicts of each access to see the lanes that collide, and change that copy""",
    "solver-accesses": """LayoutError
        no accesses
        at least one TiledCopy or Access to shared memory
        pass the copies that write and read the tile""",
    "solver-layout": """LeafTypeError
        {layout}
        a plain Layout to start from
        pass the layout without its swizzle""",
    "access-subject": """LeafTypeError
        {value!r} ({type})
        a TiledCopy or an Access
        build one with make_tiled_copy, or Access(tv, bits, dtype)""",
    "access-layout": """LayoutError
        {access} without a layout
        the layout of the tensor that is accessed
        pass it as the next argument""",
    "access-width": """LayoutError
        {bits} bits for elements of {dtype}
        accesses of {widths} bits
        split the access: wider vectors take several accesses""",
    "access-bits": """LayoutError
        addresses without the width of an access
        bits=, the width of each lane's access
        pass bits=32, 64 or 128""",
    "access-lanes": """LayoutError
        {count} addresses
        at least one byte address of 0 or more, and one for each of {most} lanes at most
        pass one warp at a time; None is an inactive lane""",
    "access-tile": """LayoutError
        accesses {tv} and a tile {layout}
        indices below the size of the tile
        shrink the access layout, or pass the whole tile""",
    "access-vector": """LayoutError
        {layout}: an access of {count} elements by thread {thread} starts at offset {start}, and its
            element {value} is at offset {offset}
        contiguous elements in one access
        use a narrower copy atom, a layout that is contiguous along the values, or a swizzle whose
            base keeps {count} elements together""",
    "access-aligned": """LayoutError
        {layout}: an access of {count} elements starts at offset {start}
        starts that are multiples of {count}
        pad the strides to multiples of {count}, or use a narrower copy atom""",
    "access-space": """LayoutError
        {op} for {space}
        an instruction whose lanes address {space}
        pass the copy that reads or writes it; bulk and TMA copies have no per-lane addresses""",
    "vector-sizes": """LayoutError
        {layouts}
        layouts of the same size
        pass the tiles that are copied to each other""",
    "vector-dtype": """LayoutError
        {layouts} without a dtype
        the element type
        pass dtype="f16", or a width in bits""",
    "occupancy-arch": """LayoutError
        {arch}
        one of {known}
        add a row to SPECS in atoms/devices.py for another architecture""",
    "occupancy-range": """LayoutError
        {value} {what}
        {least} to {most}
        use smaller blocks or tiles, or fewer registers""",
    "model-positive": """LayoutError
        {what}={value}
        a positive, finite number
        see the units in the docstring""",
    "model-peak": """LayoutError
        elements of {bytes} bytes
        4 or 2, or peak=
        pass the speed of the multiply-adds of that type: predict(..., peak=) in TFLOPS of 2^40""",
    "model-part": """LayoutError
        the part {part} of a tile of K
        0 to 1
        beta computes it""",
    "model-hit": """LayoutError
        a hit rate of {value}
        0 to 1
        l2_hit_rate computes one of a wave""",
    "model-forms": """LayoutError
        literal=True and exact=True
        one form at most
        leave one of them out""",
    "model-lanes": """LayoutError
        lanes {lanes}
        (rows, columns) of the 32 lanes of a warp
        pass (1, 32), (2, 16), (4, 8), (8, 4), (16, 2) or (32, 1)""",
    "model-registers": """LayoutError
        {registers} registers of a thread
        enough for a tile whose multiply-adds cover shared memory: 96 for 8x8
        allow more registers, or hide the latency by more warps""",
    "model-tiles": """LayoutError
        a tile {tile} of tiles {thread}
        (Mt, Nt, Kt) that (Mf, Nf) divides, and as many loads for each thread
        use powers of two: (128, 128, 8) of (8, 8)""",
    "model-plan": """LayoutError
        plan {name}
        a loop with multiply-adds of single threads (UniversalFMA, or fma)
        trace a kernel like gemm_04_double_buffer.sgemm_128x128""",
    "model-latency": """LayoutError
        {latency} cycles of latency, and {ffma} multiply-adds
        more multiply-adds than cycles of latency
        use larger tiles, or hide the latency by more warps; is_valid tells""",
}
