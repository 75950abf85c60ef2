"""Wordings: the explorer."""

WORDINGS = {
    "explore-state": """ParseError
        {name}={value!r}
        v=1, texts e, by, cells and sel, and bits from 1 to 1024
        open the link with the version that made it, or begin with #v1&e=(4,8):(8,1)""",
    "explore-limit": """ParseError
        an expression that ends in a {reason}
        values that fit into memory
        use smaller shapes, or cute_py from Python""",
    "explore-package": """ParseError
        an expression for which a package is missing: {reason}
        what the standard library does, in a page
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
        an expression without an answer after {seconds} s, which was stopped
        values that take less time
        use smaller shapes, or cute_py from Python""",
    "explore-runtime": """CuteError
        the folder {path}, which has no {missing}
        the files of the package pyodide
        unpack the npm package pyodide {version} and name its folder, or leave --runtime out""",
}
