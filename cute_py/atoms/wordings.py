"""Wordings: atoms, shared memory of warpgroup instructions and tensor maps."""

WORDINGS = {
    "arch-name": """LayoutError
        architecture {arch!r}
        sm_ and a number, such as sm_80 or sm_90a
        compute capability 9.0 is sm_90, with wgmma, sm_90a""",
    "atom-unknown": """LayoutError
        {name}
        the name of an atom, spelled as in CuTe
        {hint}""",
    "atom-parameters": """LayoutError
        {given}
        template parameters of the atom: {parameters}
        pass them in this order or by name, or use another atom""",
    "atom-argument": """LayoutError
        {parameter}={value}
        {parameter} of {allowed}
        A in registers is K-major, as are all inputs except 16-bit ones; a scale is 1 or -1; spsel
            selects the lanes with metadata""",
    "atom-no-ptx": """LayoutError
        {atom}, which has no PTX text
        an atom with an instruction
        UniversalFMA is arithmetic; rows that are not runnable are data""",
    "atom-operand": """LayoutError
        {given} registers for an operand of {count}
        {count} registers of type {ptx_type}
        pass one name for each register; MMA_Atom.registers has the counts""",
    "copy-op": """LeafTypeError
        {value!r} ({type})
        a copy instruction: a Copy_Op, or its name as text
        pass a row, such as SM75_U32x4_LDSM_N, or get_copy("UniversalCopy", 128)""",
    "copy-unknown": """LayoutError
        {name!r}
        the name of a copy instruction
        {nearest}""",
    "copy-arguments": """LayoutError
        {name} with arguments {given}
        the template arguments of the instruction, in bits
        write {example}, or pass the numbers after the name""",
    "copy-width": """LayoutError
        {bits} bits
        {widths} bits
        copy with one of these widths, several times if necessary""",
    "copy-bulk-bits": """LayoutError
        {bits} bits
        a multiple of 128 bits (16 bytes)
        round the copy up, or move the rest with UniversalCopy""",
    "copy-spaces": """LayoutError
        a move from {src} to {dst}
        registers (rmem) on one side, gmem or smem on the other
        go through registers, or use cp.async from gmem to smem""",
    "copy-no-ptx": """LayoutError
        {op}, which is not a single instruction
        a row with PTX text
        move(bits, src_space, dst_space) is a load or store; auto-vectorizing copies choose one""",
    "copy-operands": """LayoutError
        {op} with operands {given}
        {wanted}
        pass one list for each operand, with all of its registers""",
    "copy-value-type": """LayoutError
        {op} with values of {bits} bits ({dtype}); its {side} is {layout} in bits
        values that stay whole in one thread: at most {most} bits
        copy as values of {most} bits or less, or use another instruction""",
    "copy-value-bits": """LayoutError
        {op}, which moves {moved} bits of the {side}, with values of {bits} bits ({dtype})
        a whole number of values
        use a wider instruction, or narrower values""",
    "gmma-atom": """LayoutError
        major {major!r} and swizzle {swizzle!r}
        major "K" or "MN" and swizzle "INTER", "SW32", "SW64" or "SW128"
        name the contiguous mode, and a row of 16, 32, 64 or 128 bytes""",
    "gmma-major": """LayoutError
        major {major!r}
        "K" or "MN"
        name the mode of the tile that is contiguous in shared memory""",
    "gmma-canonical": """LayoutError
        {layout} of {bits}-bit elements as {major}-major tile: {found}
        rows of 16, 32, 64 or 128 bytes in groups of 8, and 32 bytes of K in all (MN-major: 256 /
            bits rows)
        build the tile with tile_to_shape of a Layout_{major}_..._Atom, and cut it to the (MN, K) of
            one instruction""",
    "gmma-address": """LayoutError
        address {address}
        a multiple of 16 bytes below 256 KiB
        align the tile in shared memory""",
    "smem-swizzle": """LayoutError
        {layout}
        Sw<0,4,3>, Sw<1,4,3>, Sw<2,4,3> or Sw<3,4,3> on byte addresses
        build the layout from a Layout_K_..._Atom or Layout_MN_..._Atom of the element type""",
    "tma-op": """LayoutError
        {op!r}
        one of {known}
        pass the function or its name, without rank""",
    "tma-rank": """LayoutError
        {rank} dimensions
        1 to 5
        merge modes of the tensor that are contiguous, or fix one of them""",
    "tma-tile": """LayoutError
        tile {tile} for shared memory {layout}, which has {size} elements
        the same number of elements on both sides
        pass cta_tile as the extents of the shared-memory layout, mode by mode""",
    "tma-vector": """LayoutError
        tensor {gmem} and shared memory {smem} of tile {tile}
        shared memory that steps along a mode of the tensor, one element at a time
        let the contiguous mode of the shared-memory layout start at the beginning of a mode""",
    "tma-major": """LayoutError
        tensor {gmem}, whose mode {mode} is contiguous in shared memory and has stride {stride}
        stride 1 in that mode
        make shared memory contiguous along the mode of the tensor that has stride 1""",
    "tma-stride": """LayoutError
        tensor {gmem} of {dtype}, stride {stride} in mode {mode}
        strides that are multiples of 16 bytes, here {multiple} elements
        pad the rows of the tensor, or copy with cp.async""",
    "tma-box": """LayoutError
        a box {box} of {dtype}
        at most {most} elements in each dimension
        use a smaller tile, or split the mode in the shared-memory layout""",
    "tma-row": """LayoutError
        a box {box} of {dtype}, whose rows have {bits} bits
        rows of a multiple of 16 bytes
        widen the tile along its contiguous mode""",
    "tma-span": """LayoutError
        a box {box} of {dtype}, whose rows have {bytes} bytes, with swizzle {swizzle}
        rows within the swizzle's span of {span} bytes, here {most} elements
        build the shared-memory layout from atoms of that width with tile_to_shape""",
    "tma-multicast": """LayoutError
        a box {box} over {multicast} CTAs
        extents, from the outermost on, that the CTAs divide
        use a tile that is a multiple of the number of CTAs""",
    "device-rate": """LayoutError
        {what} of {name} as {value}
        a positive number, or None
        leave out what is not known""",
    "device-unknown": """LayoutError
        {name}, of which {what} is not known
        a device with that number
        measure it with cute.analysis.model.measure(), or set it by dataclasses.replace""",
}
