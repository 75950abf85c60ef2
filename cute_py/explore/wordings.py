"""Wordings: the explorer."""

WORDINGS = {
    "explore-state": """ParseError
        {name}={value!r}
        v=1, texts e, by, cells, sel and was, and bits from 1 to 1024
        open the link with the version that made it, or begin with #v1&e=(4,8):(8,1)""",
    "explore-limit": """ParseError
        an expression that ends in a {reason}
        values that fit into memory
        use smaller shapes, or cute_py from Python""",
    "explore-package": """ParseError
        an expression for which a package is missing: {reason}
        what a page can do with the standard library alone
        use smaller shapes, or cute_py from Python""",
    "explore-anywidget": """CuteError
        a notebook without a package: {reason}
        the package anywidget
        pip install "cute-py[notebook]", or cute-py explore -o page.html for a page""",
    "explore-value": """LayoutError
        {value!r} ({type})
        a layout, an atom, an expression or a link
        pass an expression as text, such as 'mma(SM61_DP4A,(2,2,1))', or use cute.show""",
    "explore-slow": """ParseError
        an expression that had no answer after {seconds} s, and was stopped
        an expression that takes less time
        use smaller shapes, or cute_py from Python""",
    "explore-runtime": """CuteError
        the folder {path}, which has no {missing}
        the files of the package pyodide
        unpack the npm package pyodide {version} and name its folder, or leave --runtime out""",
    "interact-values": """LayoutError
        {name}={value!r}
        a list or range of values, or an expression with integers
        write values in a list: tile=[(4, 2), (8, 8)], bits=range(4)""",
    "interact-name": """LayoutError
        the choice {name!r}, which is not a name in {text!r}
        choices whose names are in the expression
        write the name where its values belong, as in 'composition(Sw<b,0,3>, (8,8):(8,1))'""",
    "interact-many": """LayoutError
        {given}
        at most {pictures} pictures, with {cells} cells in all, since a notebook keeps them
        name the integers that should change, give fewer values, or use cute.explore, which asks the
            kernel""",
}
