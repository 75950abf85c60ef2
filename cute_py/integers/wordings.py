"""Wordings: integers and symbols."""

WORDINGS = {
    "leaf-slice": """LeafTypeError
        {given} as an index
        integers or symbols{also}
        write _ for all of a mode: x[i, _] (from cute_py import _); take a part as a tile:
            cute.local_tile(x, (size,), (i,)), or all from an element on: cute.domain_offset((i,),
            x)""",
    "leaf-type": """LeafTypeError
        {value!r} ({type})
        integers (Python or NumPy) or symbols{also}; bool and float are not sizes
        pass an int; if the value comes from a division, use // or ceil_div""",
    "leaf-operands": """LeafTypeError
        {a!r} and {b!r}
        operands of classes that work together
        use one kind of symbol in one layout""",
    "undecided": """UndecidedError
        symbols that leave open whether {question}
        the same answer for every value that the symbols can take
        assume that {assumption}: declare it, sym(name, multiple_of=..., min=..., max=...), or
            substitute numbers (subs)""",
    "symbol-name": """LayoutError
        the name {name!r}
        a Python identifier
        use letters, digits and _, not starting with a digit""",
    "symbol-multiple": """LayoutError
        multiple_of={multiple_of} for {name}
        a positive number
        leave multiple_of out if nothing is known""",
    "symbol-range": """LayoutError
        {name} with multiple_of={multiple_of}, min={min} and max={max}
        at least one multiple of {multiple_of} from min to max
        lower min, raise max or weaken multiple_of""",
    "symbol-conflict": """LayoutError
        {first!r} and {second!r} in one expression
        one declaration for each name
        declare {name} once and use that value, or rename one of them""",
    "symbol-value": """LayoutError
        {name} = {value}
        a value that {symbol!r} admits
        use {admissible}, or declare {name} with weaker assumptions""",
    "symbol-true-division": """LeafTypeError
        {a} / {b}
        integer division
        use // to round down, ceil_div to round up""",
    "divide-by-zero": """LayoutError
        {a} // {b}
        a divisor other than 0
        check the extent or stride that became 0""",
}
