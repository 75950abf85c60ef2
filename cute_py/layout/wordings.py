"""Wordings: layouts, their algebra and their notations."""

WORDINGS = {
    "extent-not-positive": """LayoutError
        extent {value} in mode {mode}
        extents of at least 1
        leave the mode out, or give it extent 1 and stride 0""",
    "layout-text": """LeafTypeError
        the text {value!r}
        a shape, or a shape and a stride: integers (Python or NumPy), symbols, or tuples of these
        parse the text: parse_layout({value!r})""",
    "layout-list": """LeafTypeError
        the list {value!r}
        integers (Python or NumPy) or symbols, or a tuple of these
        write tuple({value!r}); lists inside it must be tuples, too""",
    "not-congruent": """LayoutError
        shape {shape} with stride {stride}{at}
        shape and stride of the same profile
        nest the stride like the shape, or leave it out for a compact layout""",
    "too-deep": """LayoutError
        tuples nested deeper than {limit} levels
        at most {limit} levels
        flatten the tuple, or group fewer modes""",
    "not-a-layout": """LeafTypeError
        {value!r} ({type})
        a layout here
        build one with Layout(shape, stride)""",
    "wrong-argument": """LeafTypeError
        {value!r} ({type})
        {wanted}
        {remedy}""",
    "basis-path": """LeafTypeError
        path {path!r}
        mode indices: ints of at least 0
        E(1) is mode 1, E(1, 0) is mode 0 of mode 1""",
    "mixed-strides": """LayoutError
        integer stride {value} next to coordinate strides {basis}
        strides that all have the same codomain
        give every mode a coordinate stride, or every mode an integer""",
    "profile-mismatch": """LayoutError
        {a} paired with {b}
        profiles that match, tuple to tuple of the same rank
        group or flatten one of them, or append modes of extent 1""",
    "not-divisible": """LayoutError
        {a} and {b}
        one that divides the other
        round up with ceil_div, or pad {a} to a multiple of {b}""",
    "coordinate-profile": """LayoutError
        coordinate {coord} for shape {shape}
        an index, or a tuple with the profile of the shape or a coarser one
        pass one entry per mode; an integer may index a nested mode""",
    "coordinate-range": """CoordinateError
        coordinate {coord} for shape {shape}: {value} in mode {mode}
        0 <= entry < {size}
        {how}""",
    "mode-range": """CoordinateError
        mode {mode} of {layout}
        a mode of rank {rank}: 0 to {last}
        count modes from 0; group_modes and flatten change the rank""",
    "mode-list": """LeafTypeError
        {value!r} ({type})
        a list of mode indices
        write [0, 2] for modes 0 and 2""",
    "mode-interval": """CoordinateError
        modes {begin} to {end} of {layout} (rank {rank})
        0 <= begin < end <= {rank}
        leave at least one mode in the interval""",
    "rank-target": """LayoutError
        rank {rank} for {layout}, which has rank {has}
        a target rank of at least {has}
        group modes first, or ask for a larger rank""",
    "profile-rank": """LayoutError
        profile {profile} for {layout}
        a profile with at most as many modes as the layout
        drop modes of the profile, or append modes to the layout""",
    "tiler-rank": """LayoutError
        a tiler of {tiler} modes for {layout} (rank {rank})
        at most one tiler entry per mode
        drop entries, or append(layout, rank) first""",
    "tiler-type": """LeafTypeError
        {value!r} ({type})
        a layout, an integer, _ or a tuple of these as tiler
        write n for n:1, or build a Layout""",
    "composition-departs": """LayoutError
        a={a} and b={b}: at coordinate number {index}, {place} reaches index {visited} of a, which
            is {got}, but the layout that fits all earlier coordinates gives {fitted}
        a layout, with a shape that refines b's, that gives a(b(c)) for every c
        {repairs}""",
    "composition-too-large": """LayoutError
        a={a} and b={b}, whose carries may cancel or whose strides differ in sign
        at most {limit} coordinates, each of which must be tried
        compose smaller parts, or keep the pair with make_composed_layout""",
    "composition-diagonal": """LayoutError
        a={a}, composed so that one step would be {strides}
        steps along one mode of the codomain at a time
        compose mode by mode with a tuple of tilers""",
    "composition-symbols": """UndecidedError
        {step} and {size}, of which neither is known to divide the other
        extents and strides that divide
        declare the symbol with multiple_of=, or use numbers""",
    "composition-carry": """UndecidedError
        a={a} and b={b}: the modes of b add up to {used} in a digit of a of extent {size}
        modes of b whose sum stays below the extent
        shrink a mode of b, or use numbers, for which every carry is checked""",
    "complement-overlap": """LayoutError
        {layout}: mode {mode} (stride {stride}) steps within the {filled} offsets that the modes of
            smaller stride fill
        modes that do not overlap
        give that mode stride {filled} or a multiple of it""",
    "complement-gap": """LayoutError
        {layout}: mode {mode} has stride {stride}, which is not a multiple of the {filled} offsets
            that the modes of smaller stride fill
        strides that are each a multiple of extent*stride of the next smaller mode
        use stride {lower} or {upper} there, or change the extent below""",
    "coordinate-strides": """LayoutError
        {layout} with coordinate stride {stride}
        integer strides
        apply it to one mode at a time""",
    "left-inverse": """LayoutError
        {layout}: stride {stride} after a mode of stride {below} that fills {filled} offsets
        strides that are multiples of the next smaller one and exceed the filled offsets, or strides
            that some layout inverts
        use a stride of {filled} or more that {below} divides, or filter the layout first""",
    "tile-to-shape": """LayoutError
        block {block} for shape {shape}
        a shape that the block divides mode by mode
        pad the shape to {rounded}""",
    "not-compact": """LayoutError
        {layout}, in which dividing offset {index} by the strides gives no coordinate
        a compact layout: every offset of 0 to size - 1 once
        use left_inverse, or coalesce a layout without gaps""",
    "upcast-stride": """LayoutError
        {layout} by {n}: stride {stride} in mode {mode}
        strides that divide {n} or are multiples of it
        upcast by {alignment}, or pad that stride to a multiple of {n}""",
    "upcast-overlap": """LayoutError
        {layout} by {n}: modes with strides below {n} together reach offset {used} within an element
        modes within an element that only reach offsets below {n}
        coalesce the layout, or upcast by a smaller factor""",
    "downcast-unit": """LayoutError
        {layout} by {n}: {count} modes have stride 1
        exactly one mode of more than one element with stride 1 or -1, to be split
        append a mode 1:1 for single elements, or coalesce first""",
    "swizzle-parameters": """LayoutError
        Swizzle({bits}, {base}, {shift})
        B >= 0, M >= 0 and |S| >= B, so that the bits read and the bits changed do not overlap; M +
            B + |S| is at most 4096
        use fewer bits, or a larger shift""",
    "swizzle-masks": """LayoutError
        Y mask {y} and Z mask {z}
        two runs of equally many bits that do not overlap
        give each mask as one run of 1 bits""",
    "swizzle-factor": """LayoutError
        {swizzle} by {n}
        a power of two as factor
        recast by a power of two, or remove the swizzle first""",
    "swizzle-through": """LayoutError
        block {block} at {tiler}
        a block whose copies the swizzle moves as a unit: the bits of the block and the swizzled
            bits are disjoint
        use a block of a power of two of elements, or take the product with tiler.inner""",
    "upcast-swizzle": """LayoutError
        {swizzle} by {n}: bits below an element would drive bits that stay
        a factor of at most {largest} for a swizzle of negative shift
        upcast by at most {largest}""",
    "upcast-offset": """LayoutError
        offset {offset} by {n}
        an offset that {n} divides
        move the origin to a whole element first""",
    "composed-outer": """LeafTypeError
        {value!r} ({type}) as outer map
        a Swizzle, a Layout or an F2 map
        build one with Swizzle(B, M, S)""",
    "no-stride": """LayoutError
        {layout}
        a plain layout: outer o offset o inner is not linear and has no strides
        take layout.inner.stride, or layout.offsets()""",
    "complement-swizzle": """LayoutError
        {layout}, whose swizzle moves offsets into the gaps of its inner layout
        a swizzle that permutes the offsets that the inner layout fills
        take the complement of layout.inner, or tile to whole swizzle periods first""",
    "inverse-offset": """LayoutError
        {layout}
        a map that is one-to-one, with offset 0
        invert outer and inner separately""",
    "explain-subject": """LeafTypeError
        {value!r}
        an operation of cute_py with its operands, a layout, or a caught CuteError
        call explain("composition", a, b), explain(layout) or explain(error)""",
    "size-mismatch": """LayoutError
        {a} of size {left} and {b} of size {right}
        layouts of the same size
        repeat the smaller one with a stride-0 mode""",
    "tv-map": """LayoutError
        threads {thr} with values {val}, of which {count} of {size} elements follow each other
        each element of the tile in one place: thread and value layouts that fill 0, 1, 2, ... once
        omit the stride, or pass the modes in one order, such as (32,4):(4,1)""",
    "layout-add": """LayoutError
        {a} and {b}: at index {index} the sum is {got}, but the layout that fits before it gives
            {fitted}
        a sum that some layout computes
        regroup both to a common shape, or add the offsets as arrays""",
    "composition-cancels": """LayoutError
        a step of {step} in b through digits ({digits}) of a, whose carries cancel for more than
            {limit} coordinates
        carries that can be checked one by one
        compose smaller parts, or keep the pair with make_composed_layout""",
    "composition-codomain": """LayoutError
        a={a} and b={b}: coordinate stride {stride} names mode {mode}
        coordinate strides that name modes of a
        use strides E(i) with i < {rank}, or append modes to a""",
    "classical-shape": """LayoutError
        {shape}
        one integer for each of {names}
        give whole extents, and split modes afterwards with zipped_divide or with_shape""",
    "pitch": """LayoutError
        {what} = {value}, where one step spans {least} elements
        at least {least}, so that lines do not overlap, or 0 to repeat one line
        leave it out for the packed layout, or pass {least} plus the padding""",
    "permutation": """LayoutError
        order {order} for {layout}
        each mode of 0 to {last} once
        name every mode, or use select to keep some of them""",
    "capacity": """LayoutError
        {layout}
        strides of 0 or more, alone or under a swizzle of whole lines
        use cosize, the reach of the offsets""",
    "tensor-op-bits": """LayoutError
        elements of {bits} bits
        a power of two of at most 32 bits
        f64 and complex operands have other layouts in CUTLASS: build one with Swizzle and
            ComposedLayout""",
    "tensor-op-crosswise": """LayoutError
        crosswise {crosswise} for elements of {bits} bits
        {choices}: a line of 128 bytes, a half or a quarter of it
        cut the tile along its contiguous mode, or widen it to a line""",
    "tensor-op-tile": """LayoutError
        {contiguous} x {strided} elements with ld {ld}
        contiguous and ld multiples of crosswise ({crosswise}), strided a multiple of the {rows}
            rows in a line, ld >= contiguous
        pad the tile to whole lines, or choose a smaller crosswise""",
    "tensor-op-tiles": """LayoutError
        {tiles} tiles of {crosswise} elements side by side
        a power of two: at {tiles} the XOR needs the row, which is not a bit field of the offset, so
            no Swizzle fits
        put the tiles outermost (contiguous={crosswise}, stages={tiles}){also}""",
    "tensor-op-period": """LayoutError
        strided extent {strided}
        a multiple of {period}, the rows after which the XOR pattern repeats, so that stacked tiles
            have the same swizzle
        pad it to {padded}""",
    "text-type": """LeafTypeError
        {value!r} ({type})
        a text
        pass a str; decode bytes, and leave a layout as it is""",
    "text-too-long": """ParseError
        a text of {count} characters
        at most {limit}
        read one layout at a time, without the data of its tensor""",
    "text-unexpected": """ParseError
        {found} at position {position}
        {expected}
        correct the text at the mark
        {marked}""",
    "text-unclosed": """ParseError
        {found} at position {position}, inside the {bracket!r} at position {opened}
        {expected}
        close the bracket, or remove it
        {marked}""",
    "text-too-deep": """ParseError
        tuples nested deeper than {limit} levels at position {position}
        at most {limit} levels
        flatten the tuple, or group fewer modes
        {marked}""",
    "text-number": """ParseError
        a number of {count} digits at position {position}
        at most {limit} digits
        shorten it: CuTe's integers have 64 bits
        {marked}""",
    "text-symbol": """ParseError
        the name {name!r} at position {position}, which is not defined
        numbers, and symbols that were declared
        declare it, symbols={{{name!r}: sym({name!r})}}, or remove a label that is not part of the
            layout
        {marked}""",
    "text-arguments": """ParseError
        {name} at position {position}: {problem}
        {name}{form}
        pass these arguments, in this order
        {marked}""",
    "text-operands": """ParseError
        {name} at position {position} applied to ({operands})
        operands of the kinds that {form} takes
        compare the operands with the documentation of {name}
        {marked}""",
    "text-pointer-width": """ParseError
        a pointer at position {position} that does not give the width of its elements, under
            {swizzle}
        the width, as in smem_ptr[16b] or ptr<f16, smem>: a swizzle of a pointer maps bytes
        add the width, or give the layout alone and compose it with a swizzle of elements
        {marked}""",
    "text-pointer-address": """ParseError
        a pointer at position {position} whose distance from a multiple of {period} bytes, the
            period of {swizzle}, is unknown or not a whole number of elements
        an address such as (0x400), (unset), or align<{period}>
        add it, or give the layout alone and compose it with a swizzle of elements
        {marked}""",
    "fit-no-form": """LayoutError
        {count} offsets, which match {layout} up to index {index}, where the table has {got} and
            that layout has {fitted}
        offsets of a Layout, of Swizzle o offset o Layout, or linear over F2 ({tried})
        {repair}""",
    "fit-function": """LayoutError
        the function {function!r} without a shape
        a shape, whose coordinates it is called with
        pass shape=..., one argument of the function for each mode""",
    "fit-empty": """LayoutError
        a table without entries
        at least one entry, in a list, array or dict
        pass a list even for a single offset""",
    "fit-ragged": """LayoutError
        rows of different lengths
        a table that fills its shape
        pad the rows, or fit them one by one""",
    "fit-key": """LayoutError
        coordinate {key} together with {first}
        coordinates of at least 0 with the same profile
        write all keys as int tuples of one profile""",
    "fit-incomplete": """LayoutError
        {count} coordinates that span {shape}, but not {missing}
        an offset for every coordinate of the shape
        add that coordinate, or fit a part that is complete""",
    "fit-shape": """LayoutError
        {count} entries for shape {shape}
        one entry for each coordinate
        pass a shape of that size""",
    "fit-coordinates": """LayoutError
        entries that are coordinates, such as {entry}
        offsets
        pass coshape=..., the shape that they are coordinates of""",
    "fit-entry": """LayoutError
        entry {entry} for coshape {coshape}
        coordinates inside coshape
        pass the coshape that contains them all; without one, entries are offsets""",
    "fit-size": """LayoutError
        a table of {count} entries
        at most {limit}
        fit a part of it that shows the pattern""",
    "fit-range": """LayoutError
        entry {value}
        entries below 2**61 in magnitude
        subtract the first entry, or count in larger elements""",
    "table-offsets": """LayoutError
        a text with {count} tables of offsets: {text!r}
        one table, or numbers alone, with blanks or commas between them and a line for each row
        paste one table, without other words""",
    "table-title": """LayoutError
        a table with {got} at {coord} below {layout}, which has {wanted} there
        a table of the offsets of the layout above it
        paste the layout without the table, or the table without the layout: fit reads that""",
    "tools-symbols": """LayoutError
        {layout}, whose offsets depend on symbols
        numbers as sizes and strides
        put numbers in for the symbols: substitute(layout, {{"M": 128}}); or ask
            prove_equal, prove_bijective or formula""",
    "tools-size": """LayoutError
        {layout}, for which {size} offsets would have to be tabulated
        at most {limit}
        take a mode or a tile of it""",
    "tools-range": """LayoutError
        {layout}, which reaches {reach} in magnitude
        offsets that fit in int64
        take a part of it, or evaluate index by index""",
    "tools-basis": """LayoutError
        {layout}, which yields coordinates
        a layout that yields offsets
        compose a layout of the codomain with it, or evaluate one coordinate at a time""",
    "f2-negative": """LayoutError
        the image {value}
        offsets of at least 0, which have finitely many bits
        reverse the mode: count from its other end, and add the offset of that end""",
    "f2-wide": """LayoutError
        {map}, which acts on {bits} bits, applied to an array
        at most {limit} bits, which fit in int64
        apply it to Python ints one by one""",
    "f2-singular": """LayoutError
        {map}, which takes 0 and {other} to the same offset
        a map that is one-to-one
        leave out what f2_kernel lists""",
    "f2-no-map": """LeafTypeError
        {value!r} ({type})
        a Swizzle or an F2Map
        turn a layout of powers of two into an F2Layout with to_f2, and use compose_f2""",
    "f2-bases": """LayoutError
        {count} bases for shape {shape}
        one for each bit of the index: {bits}
        list the images of 1, 2, 4, ... mode by mode""",
    "f2-extent": """LayoutError
        extent {extent} in shape {shape}
        extents that are powers of two
        pad the mode to a power of two, or stay with Layout""",
    "f2-origin": """LayoutError
        {layout}, which no index takes to offset 0
        a layout that reaches offset 0
        leave out the offset {offset}""",
    "f2-not-onto": """LayoutError
        {layout} of size {size}, whose offsets are below {reach}
        a bijection of the offsets below the size
        use left_inverse, or right_inverse""",
    "f2-not-linear": """LayoutError
        {layout}, whose index {index} has offset {got} where the XOR of its bits' offsets is
            {fitted}
        a map that is linear over F2: modes that share no bit of the offset
        use strides that reach past the modes below, or stay with offsets()""",
    "f2-strides": """LayoutError
        {layout} with strides {stride}
        integer strides
        put in numbers for symbols; compose a layout of the codomain with one that yields
            coordinates""",
    "f2-reach": """LayoutError
        a={a} and b={b}, whose offsets are below {reach}
        offsets of b that are indices of a
        give a as many index bits as b has offset bits""",
    "f2-affine": """LayoutError
        {layout}, whose index 0 has offset {offset}
        offset 0 there, because a matrix maps 0 to 0
        take the matrix of F2Layout(shape, bases), and keep the offset separately""",
    "f2-matrix": """LayoutError
        {value}
        rows of zeros and ones
        pass one row for each offset bit and one column for each index bit, the lowest first""",
    "f2-names": """LayoutError
        {count} names for {layout}
        one for each top-level mode: {rank}
        group or split modes, or leave the names out""",
    "f2-coshape": """LayoutError
        {layout}, which reaches offset {offset}, and coshape {coshape}
        a coshape that contains every offset
        make its last mode larger""",
    "f2-points": """LayoutError
        the images {points}
        coordinates of one coshape
        pass flat tuples of one length, or the coshape that they are coordinates of""",
}
