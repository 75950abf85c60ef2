"""Wordings: tables of a kernel's tensors."""

WORDINGS = {
    "see-name": """CoordinateError
        the name {name!r}
        a name of the table: {known}
        {hint}""",
    "see-line": """CoordinateError
        line {line}
        a line that makes something: {known}
        {hint}""",
    "see-memory": """LayoutError
        the memory {memory!r}
        gmem, smem, rmem or coordinates
        leave the filter out for the tensors of all memories""",
    "see-kind": """LeafTypeError
        {name}, {kind}
        a tensor
        name a partition of one; cute.show(row) draws a {kind}""",
    "see-run-time": """LayoutError
        {row}, which depends on {names}, known only when the kernel runs
        numbers for them
        pass them: owners(at={given})""",
    "see-symbol": """CoordinateError
        at={{{name!r}: {value!r}}}
        an integer for one of {known}
        {hint}""",
    "see-registers": """LayoutError
        {row}, registers that no partition made or filled
        a fragment of a partition, a view of one, or registers that a copy fills
        ask for the owners of the tensor in memory that they are loaded from or stored to""",
    "see-threads": """CoordinateError
        threads: {threads}
        integers from 0 to {last}
        leave threads= out for all of them""",
    "see-value": """CoordinateError
        value {value} of thread {thread} of {name}
        a thread of {threads} and a value of {values}
        ask for one of these""",
    "see-coordinate": """CoordinateError
        coordinate {coord} of {name}
        a coordinate inside of the shape {shape}
        count from 0""",
    "see-size": """LayoutError
        {row}, with {count} elements, or pairs of thread and value
        at most {most}
        ask for some threads, owners(threads=range(32)), for a part of the tensor, or pass smaller
            arguments""",
    "see-diff": """LeafTypeError
        a table and {value!r} ({type})
        two tables of cute.layouts
        compare layouts with layouts, and tables with tables""",
    "see-kernel": """LeafTypeError
        {type}
        a kernel, and its arguments
        put @cute.kernel above the function, and pass it first""",
    "see-picture": """LayoutError
        {row}, with {what}
        at most {most} in a picture of the page
        pass smaller arrays, or select a part in the kernel: cute.show({part})""",
}
