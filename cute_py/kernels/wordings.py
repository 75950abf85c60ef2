"""Wordings: configurations of kernels."""

WORDINGS = {
    "config-types": """DtypeError
        A of {a} and B of {b}
        types that one matrix instruction multiplies: {known}
        convert one of them, or read f32 as tf32: cute.typed(array, 'tf32')""",
    "config-bits": """LayoutError
        {dtype} elements, contiguous along mode {mode}, in rows aligned to {bits} bits only
        elements of less than a byte along K (mode 1), in rows that start at whole bytes
        transpose the array, or pad its rows to whole bytes""",
    "kernel-argument": """LayoutError
        {given} as {name}
        {rule}
        convert it, or pass what the kernel's docstring says about {name}""",
    "gemm-config": """LayoutError
        {config}
        {rule}
        let cute.ops.choose_config choose, and change one part of what it returns""",
    "config-shared": """LayoutError
        {parts}, which take {bytes} bytes of shared memory
        at most {most} bytes per block
        {fix}""",
    "gemm-config-text": """LayoutError
        {text!r}
        parts like tile=64x64x32, warps=2x2, stages=3, separated by commas, each once
        leave out what you do not want to change""",
    "conv-problem": """LayoutError
        a convolution with {problem}
        {rule}
        change that number; padding is a number, or (before, behind), along H and along W""",
    "conv2d": """LayoutError
        a filter of {filter}, and activations {layout}, in vectors of {vector}
        at most 31 filter positions, contiguous channels and other strides in whole vectors
        pad the channels with zeros, split the filter, or copy the activations""",
    "config-attention": """LayoutError
        {config}
        {rule}
        change one part of what cute.ops.attention.explain shows""",
    "attention-accum": """LayoutError
        V with {dim} columns, without accum
        at most {keys} columns, as many as a tile has keys; or accum, an f32 array like O
        pass accum=torch.empty_like(o, dtype=torch.float32), or the same in NumPy""",
}
