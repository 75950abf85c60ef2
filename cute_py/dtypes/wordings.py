"""Wordings: dtypes, conversions and packed words."""

WORDINGS = {
    "dtype-unknown": """DtypeError
        {value!r} ({type}) as a dtype
        a cute_py dtype, its name, or a NumPy or ml_dtypes dtype
        {fix}""",
    "dtype-numpy": """DtypeError
        NumPy's {value!r}
        a real number type in native byte order that cute_py has
        convert with x.astype(...) to one that it has, such as float32 or int32""",
    "dtype-width": """DtypeError
        an integer type of {bits!r} bits
        1 to 8, 16, 32 or 64 bits
        use {fix}""",
    "dtype-promise": """DtypeError
        {given}
        an integer type, min and max with a multiple of multiple_of between them, and a positive
            multiple_of
        give true bounds, or none""",
    "dtype-void": """DtypeError
        void, which has no values
        a dtype of at least 1 bit
        name the type of the elements""",
    "dtype-scale": """DtypeError
        ue8m0, a block scale without sign or zero
        a dtype that converts value by value
        keep scales as decoded powers of two in f32""",
    "rounding-unknown": """DtypeError
        rounding {value!r}
        indeterminate, toward_zero (rz), to_nearest (rn), to_nearest_satfinite, toward_infinity
            (rp), toward_neg_infinity (rm), half_ulp_truncate (rna) or half_ulp_trunc_dntz
        {fix}""",
    "values-type": """LeafTypeError
        values of NumPy dtype {dtype}
        real numbers of a dtype that cute_py has
        convert with x.astype(...) to one that it has, such as float32 or int32""",
    "values-ragged": """LeafTypeError
        {value!r}
        numbers, or lists of equal length
        convert the rows one by one""",
    "values-mixed": """LeafTypeError
        a list in which NumPy rounds the integer {value} to float64
        numbers that one NumPy dtype holds exactly
        pass an array of int64 or uint64, or convert the numbers one by one""",
    "values-shape": """DtypeError
        values of shape {shape}
        one dimension, in storage order
        put them in order with x.reshape(-1), or with order='F' for CuTe's""",
    "values-scalar": """DtypeError
        values of shape {shape} for one element
        one number
        write them one by one, or pack a whole array""",
    "values-not-of": """DtypeError
        {value}
        values that {to} holds; storing neither rounds nor clamps
        store convert(x, {to!r}), with the rounding""",
    "image-type": """LeafTypeError
        bit images of NumPy dtype {dtype}
        integers
        pass x.view of an unsigned type, or encode values first""",
    "image-range": """DtypeError
        the bit image {value}
        0 to {top}, the {bits} bits of {to}
        mask it with & {top:#x}""",
    "word-bits": """DtypeError
        words of {value!r} bits
        8, 16 or 32 bits
        pack into 32-bit words and view them""",
    "words-type": """DtypeError
        words of type {given}
        a one-dimensional array of uint8, uint16 or uint32
        use x.reshape(-1).view('uint32'), or make the words with pack""",
    "words-not-whole": """DtypeError
        {words} words of {word_bits} bits
        a whole number of {to} elements
        pass the count of elements, or add words up to a whole number of elements""",
    "words-too-few": """DtypeError
        {words} words of {word_bits} bits, room for {holds} elements of {to}
        at least {need} words for {count} elements
        pass count={holds}, or all the words""",
    "words-read-only": """DtypeError
        read-only words
        writable words
        write to a copy, words.copy()""",
    "element-straddles": """DtypeError
        {to}, {bits} bits, in words of {word_bits} bits
        a width that divides the word's, so that no element straddles two words
        unpack, change and pack the whole array""",
    "element-index": """CoordinateError
        element {index} of {size}
        an index from 0 to {size} - 1
        check the offset, which counts elements, not words""",
    "count-type": """LeafTypeError
        {value!r} ({type}) as a number of elements
        an int of at least 0
        pass len(x), or the size of the layout""",
    "alignment": """DtypeError
        {count} elements of {dtype}, {size} bytes
        a power of two of bytes, as vector accesses have
        split the vector into powers of two""",
}
