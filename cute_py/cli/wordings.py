"""Wordings: the command line."""

WORDINGS = {
    "cli-arch": """LayoutError
        the architecture {arch}
        one of {known}, with or without a suffix
        leave out --arch to list all{hint}""",
    "cli-layout": """LayoutError
        {text!r}
        integers and layouts, or a tuple of these
        write a shape such as 2,2,1 or a layout such as (32,4):(4,1)""",
    "cli-format": """LayoutError
        the file {path}
        a name that ends in {known}
        rename it, or pass --format""",
    "cli-table": """LayoutError
        {option} for a table
        text or html for a table; a picture of one tensor for the others
        add --name tCsA for a picture, or leave it out""",
    "cli-memory": """CuteError
        {what}, for which memory ran out
        more free memory
        multiply in parts along M or N, or use narrower types""",
    "cli-matrix": """CuteError
        ndarray of {found} as {name}, read from {path}
        {wanted}
        {fix}""",
    "cli-output": """LayoutError
        the file {path}: {reason}
        a file that can be written
        leave the option out to write to the terminal""",
    "cli-npy": """CuteError
        {path}: {reason}
        a file of one array of numbers, as numpy.save writes it
        write it with numpy.save(path, array), without object elements""",
    "cli-shtab": """CuteError
        {found}
        the package shtab, which writes what {shell} reads
        pip install -U "cute-py[completion]\"""",
    "cli-picture": """CuteError
        a picture as {form} without the package that makes it: {reason}
        the package cairosvg, and the library cairo
        pip install "cute-py[pictures]", or write an .svg, .html or .tex file""",
    "cli-package": """CuteError
        a package that cannot be imported: {reason}
        the packages that cute-py needs
        cute-py doctor lists what to install""",
    "cli-stream": """CuteError
        {reason}
        an input and an output that can be read and written, as UTF-8
        free some space, or send the output elsewhere; PYTHONIOENCODING=utf-8 sets the encoding""",
    "cli-gemm": """CuteError
        {given}
        two .npy files, or --m, --n and --k for generated data
        cute-py gemm a.npy b.npy -o d.npy, or cute-py gemm --m 512 --n 512 --k 512""",
    "cli-kernel": """LayoutError
        {given}
        FILE.py:NAME, where NAME is a kernel, or a function without parameters that returns a kernel
            and its arguments
        write my.py:kernel, and its arguments after it; cute-py {command} --help lists what they
            may be""",
    "cli-epilogue": """LayoutError
        {given}
        epilogues.NAME, a function of cute.epilogues, or FILE.py:FUNCTION, as text
        write cute-py show epilogues.relu, or my.py:function{hint}""",
    "cli-generated": """CuteError
        --{name} with operands that all come from files
        an operand given as a shape, for which data are generated
        leave --{name} out, or write a shape such as 64x64""",
    "cli-out-dtype": """DtypeError
        -o with {dtype} results, which numpy.load alone does not know
        {known}
        {fix}""",
}
