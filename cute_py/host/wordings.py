"""Wordings: functions on host tensors."""

WORDINGS = {
    "tensor-shapes": """LayoutError
        tensors of shapes {shapes}
        the same shape, mode by mode
        group modes, or slice the parts that match""",
    "tensor-divisor": """LayoutError
        the integer divisor 0 at {coord}
        divisors other than 0
        divide as floats, or fill the zeros first""",
    "gemm-shapes": """LayoutError
        operands of shapes {shapes}
        A (M,K), B (N,K), C and D (M,N)
        swap the modes of a (K,N) tensor with select(b, [1, 0])""",
    "gemm-accumulate": """DtypeError
        {given} operands summed in {to}
        a floating-point type for floats
        pass accumulate='f32'""",
    "random-range": """LayoutError
        values from {low} to {high}
        low < high
        swap the bounds: the upper one comes first, as in CUTLASS""",
    "random-bits": """LayoutError
        values from {low} to {high} with {bits} fractional bits: there is no such value
        bounds with a multiple of 2**-{bits} between them
        keep more fractional bits, or widen the bounds""",
    "random-stddev": """LayoutError
        the standard deviation {value}
        a number of at least 0
        pass its square root, if it is a variance""",
    "random-finite": """LayoutError
        the parameters {first} and {second} for {dtype}
        finite numbers from -{most:.5g} to {most:.5g}
        use smaller numbers, or a tensor of a wider type""",
    "random-seed": """LeafTypeError
        the seed {value!r}
        an int of 64 bits
        pass an int; hash what else tells tensors apart""",
    "fraction-bits": """LeafTypeError
        {value!r} fractional bits
        an int from 0 to {most}, or None for all
        pass None to keep all bits""",
    "print-rank": """LayoutError
        {tensor}
        a tensor of 1 to {most} modes
        group modes, or print the slices""",
}
