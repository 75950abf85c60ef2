"""Wordings: array functions."""

WORDINGS = {
    "ops-array": """LeafTypeError
        {value} as {name}
        an array of numbers
        pass a NumPy array; numpy.asarray makes one of nested lists""",
    "ops-rank": """LayoutError
        {name} of shape {shape}
        at least {rank} modes: {modes}
        add a mode: {name}[None, :] is one row""",
    "ops-shapes": """LayoutError
        a of shape {a} and b of shape {b}
        a (..., M, K) and b (..., K, N) with the same K, and batch modes that broadcast
        transpose the last two modes of an (N, K) operand: b.swapaxes(-1, -2)""",
    "ops-shape": """LayoutError
        {name} of shape {shape}
        shape {wanted}
        reshape or slice it{hint}""",
    "ops-mode": """LayoutError
        {name}={value!r} of an array with {rank} modes
        a mode from {least} to {most}, each once
        count modes from 0, or from the end: -1 is the last""",
    "ops-nothing": """LayoutError
        {value!r} of no elements, along a mode of extent 0
        a reduction that has a result for no elements (add, mul, and, or, xor), or elements
        leave empty arrays out, or join them with an array of one element""",
    "ops-family": """LayoutError
        {config} for these arrays
        a family whose kernel can read them; {why}
        leave config out, or name another family""",
    "config-block": """LayoutError
        {config}
        {rule}
        change one part of the configuration that `explain` of the operator shows""",
    "device-wrong": """LayoutError
        a wrong result of the kernel for "{row}"
        the result that the emulator gives
        check the driver and the GPU: `cute-py doctor`, and compute-sanitizer""",
    "attention-heads": """LayoutError
        {heads} heads of queries and {shared} of keys
        a multiple of the heads of keys, each of which that many heads of queries share
        pass k and v with such heads; layout="BMHK" or "BHMK" says which mode they are""",
    "attention-dim": """LayoutError
        {name} with {dim} columns
        1 to {most}
        multiply parts of longer rows by cute.ops.gemm""",
    "attention-rows": """LayoutError
        {name} whose last mode has the stride {step}
        rows that are contiguous
        pass {name}.contiguous() of torch, or numpy.ascontiguousarray({name})""",
    "attention-causal": """LayoutError
        causal=True for {queries} queries and {keys} keys
        as many keys as queries, or which keys queries are next to
        pass causal='top_left' (torch), or 'bottom_right', where the last ones meet (flash-attn)""",
    "attention-mask": """LayoutError
        causal={value!r}
        False, True, 'top_left', 'bottom_right'
        leave it out for the default""",
    "attention-window": """LayoutError
        window={value!r}
        two whole numbers of at least -1: keys before a query, and behind it
        pass (1024, -1), for example; -1 is no limit""",
    "attention-number": """LayoutError
        {name}={value!r}
        0, or a number from 2^-126 to 2^126 in size, as f32 holds; softcap at least 0
        leave it out for the default""",
    "attention-block-shape": """LayoutError
        a BlockMask of {found}
        one for scores of {shape}, whose first modes may be 1
        make it with create_block_mask(mask_mod, B, H, Mq, Mk)""",
    "attention-block-lists": """LayoutError
        a BlockMask whose blocks are not those of its mask_mod
        blocks as create_block_mask finds them: none hides what mask_mod sees, or shows the rest
        say in mask_mod what the blocks say, and make it with create_block_mask""",
    "attention-captured": """LayoutError
        the tensor {name!r}, which a mask_mod reads
        a function of the numbers of batch, head, query and key alone
        pass what it says as bias=, an array of bool""",
    "attention-starts": """LayoutError
        {name}[{index}] of {value}
        numbers that rise from 0 to {total}, the rows of all sequences
        pass the lengths added up: [0, *itertools.accumulate(lengths)]""",
    "attention-longest": """LayoutError
        {name}={value!r}
        None, or a whole number of at least {longest}, the longest sequence
        leave it out: no kernel needs it""",
    "attention-parts": """LayoutError
        split_kv={value!r}
        a whole number of parts of the keys, from 1 to {most}
        leave it out: the shapes say how many""",
    "attention-append": """LayoutError
        {given}
        k and v for all sequences, which fit the caches behind their keys and share no memory, and q
        pass k and v that were just computed, with queries, and caches that a kernel can write""",
    "attention-length": """LayoutError
        cache_seqlens[{at}] = {length}
        from 0 to {most} keys, which caches hold with those that are appended
        pass larger caches, or more pages a sequence""",
    "attention-page": """LayoutError
        block_table[{at}] = {page}
        a page from 0 to {last}
        entries behind the keys of a sequence may be anything; others are pages of the caches""",
    "conv-channels": """LayoutError
        {name} whose channels have the stride {step}
        channels next to each other in memory
        pass numpy.ascontiguousarray({name}), or layout="NCHW" for arrays (N, C, H, W)""",
    "conv-groups": """LayoutError
        {channels} channels and {filters} in groups={groups}
        at least one channel and one filter of each group, and the same number in each
        pass groups that divide both numbers""",
    "conv-extent": """LayoutError
        images of {image}, and {problem}
        at least one pixel, and images with their padding as large as the filter with its dilation
        pass more padding, or padding='same'""",
    "conv-option": """LayoutError
        {name}={value!r}
        {rule}
        leave it out for the default, or see the docstring""",
    "ops-empty": """LayoutError
        a result of shape {shape}
        a result with elements: no kernel computes an empty one
        call {operator}, which returns it""",
    "ops-dtype": """DtypeError
        operands of {a} and {b}
        {known}, the same for both (s8 and u8, e4m3 and e5m2 mix)
        convert them first, or pass dtype='bf16', for example""",
    "ops-out-dtype": """DtypeError
        {name} of {dtype}
        {known}
        choose one of these""",
    "ops-factor": """LeafTypeError
        {value!r} as {name}
        a real number that a float can hold
        pass one number; multiply an operand by an array first to scale its rows or columns""",
    "ops-no-c": """LayoutError
        beta={beta} without c
        the array c that beta multiplies
        pass c, or leave beta out""",
    "ops-library": """LeafTypeError
        an array of {type}
        arrays of torch or CuPy, or one of these libraries installed to view other arrays
        pip install torch or cupy; calling a kernel directly needs neither""",
    "ops-choice": """LeafTypeError
        {name}={value!r}
        {choices}
        leave it out for the default""",
    "ops-no-gpu": """CuteError
        {value}
        all arrays where the {result} is computed: on one GPU (torch, CuPy), or on the host (NumPy)
        move the arrays (x.cuda(), x.cpu(), cupy.asarray), or leave backend out""",
    "ops-stream": """CuteError
        {given}
        a stream of the GPU that has the arrays
        leave stream out, or move the arrays (x.cuda(), cupy.asarray)""",
    "gemm-workspace": """LayoutError
        {given}
        {size} bytes (u8), apart but where the operands are, in one mode, at a multiple of {bytes}
        allocate workspace_size() bytes, or leave initialize out: run makes a workspace""",
    "gemm-update": """LayoutError
        {given}
        an array of the same type, shape, strides and alignment
        make another Gemm, which chooses anew""",
    "gemm-arch": """LayoutError
        {given}
        {least}, whose instruction it is
        leave config out, or change parts of what `explain` shows on this GPU""",
    "ops-tune-host": """CuteError
        operands on the host
        arrays on a GPU, where configurations can be measured
        move the arrays (x.cuda(), cupy.asarray)""",
    "ops-chip": """LayoutError
        {arch}, for which no typical GPU is known
        the number of multiprocessors of the GPU, which decides the tile
        pass --multiprocessors N; cute-py doctor prints it on a machine with that GPU""",
    "ops-read-only": """LayoutError
        an array as {name} that is read-only
        an array that can be written
        pass a copy of it, or omit {name}""",
    "ops-overlap": """LayoutError
        {name} of shape {shape} and strides {strides} bytes, whose elements share memory
        an array whose elements do not share memory
        pass a copy of it, or omit {name}""",
    "ops-memory": """CuteError
        a {result} that needs about {needed} ({arrays} of arrays, {state} to emulate)
        at most the {available} that are free
        {parts}, or use narrower types""",
    "ops-argument": """LayoutError
        {name}, and no {function}
        an argument that the signature names; others are parameters of the function {function}
        leave {name} out, or pass {function}=..., a function that has such a parameter""",
    "epilogue-parameters": """LeafTypeError
        {function} as an epilogue
        a function of the sums, and of named parameters: def f(sums, bias, scale): ...
        write the parameters out, without * or **""",
    "epilogue-name": """LayoutError
        {name} with the epilogue {function}, though {why}
        the parameters of the function and its results, by their names
        rename it, or leave it out""",
    "epilogue-missing": """LayoutError
        no {name} for the epilogue {function}
        each parameter of the function, as an array or a number
        pass {name}=..., or give the parameter a default""",
    "epilogue-results": """LayoutError
        results {names} of the epilogue {function}
        a result, or a dict of results with D among them
        call the result of the product D, which goes to out=""",
    "epilogue-pairs": """LayoutError
        {given}, with an epilogue that combines pairs of neighbouring columns
        N even, and in each step values of N columns alone, or of N/2 as cute.pairs gives them
        pass arrays of N/2 columns, (M,1) or () for what meets pairs, and of N before that""",
    "epilogue-wraps": """DtypeError
        {name} of {dtype}, which wraps to s32 before an epilogue that does not just add and multiply
        integers that s32 has, where they are compared, divided, shifted, clamped or activated
        convert {name} to s32 if its values fit, or to f32: the epilogue computes in floats then""",
    "epilogue-overlap": """LayoutError
        {name} and {other}, which share memory
        outputs that do not share memory
        pass other arrays, or leave one out""",
}
