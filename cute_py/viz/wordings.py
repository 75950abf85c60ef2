"""Wordings: pictures."""

WORDINGS = {
    "viz-type": """LeafTypeError
        {value!r} ({type})
        a layout, tensor, swizzle, MMA or copy atom, tiled operation, or a tuple of these
        {reason}""",
    "viz-by": """LayoutError
        by={by!r} for {value}
        {allowed}
        choose one of these, or leave `by` out""",
    "viz-bits": """LayoutError
        bits={bits!r}
        an integer of at least 1
        pass the bits of an element: 16 for f16""",
    "viz-latex": """LayoutError
        {title}, with {count} cells
        at most {most} cells, since TeX runs out of memory
        write SVG with to_svg""",
    "viz-rank": """LayoutError
        {value}, of {rank} modes
        at most {most} modes in a picture
        group modes with group_modes, or draw slices""",
    "viz-size": """LayoutError
        {value}, with {count} {what}
        at most {most} {what} in a picture
        draw a slice or one tile of it""",
    "viz-tv": """LayoutError
        {layout}, of {rank} modes
        a thread-value layout: mode 0 counts threads, mode 1 values
        group the modes into these two""",
    "viz-tile": """LayoutError
        {layout} over the tile {shape}, where value {value} of thread {thread} is at {index}
        indices or coordinates inside the tile
        pass the tile that the thread-value layout was made for""",
    "viz-operand": """LayoutError
        operand {operand!r}
        A, B or C
        print_mma draws all three""",
    "viz-link": """LayoutError
        link={link!r}
        thread, element or offset
        leave it out for the first that the values share""",
    "viz-diff": """LayoutError
        {a} of {m} elements and {b} of {n}
        two layouts with the same number of elements
        compare the part that both have, or draw both with show""",
}
