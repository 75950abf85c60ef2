"""Wordings: operators of torch."""

WORDINGS = {
    "torch-no-backward": """LeafTypeError
        a tensor that autograd follows, in grad mode
        an operator with a derivative
        register it with backward=..., detach the tensor, or call it under torch.no_grad()""",
    "torch-twice": """CuteError
        a second derivative
        first derivatives only
        compute it with torch's own operators, or detach the first derivative""",
    "torch-rounded": """LeafTypeError
        dtype={dtype!r}, with an operand that autograd follows
        a type of floats: rounding to integers has no derivative
        detach the operand, or choose dtype='bf16', for example""",
    "torch-parameter": """LeafTypeError
        {name!r} in {place}
        names of parameters of {signature}
        name the arrays that the kernel writes, and values of its other parameters""",
    "torch-name": """LeafTypeError
        the name {name!r}
        text of two parts
        write name="space::name\"""",
    "torch-rules": """CuteError
        {names} without {other}
        all rules of an operator that allocates its outputs and has a derivative
        give {other}=... too, or leave {names} out""",
    "torch-schema": """LeafTypeError
        the schema {schema}
        arguments and results like those of {wanted}
        mark with (a!) what the kernel writes, and nothing else, or leave schema out""",
    "torch-writes": """CuteError
        the outputs {outputs}, but the kernel writes {written}
        every array that the kernel writes among its outputs
        name all of them, in the order in which `fake` returns them""",
    "torch-result": """LeafTypeError
        {found} from fake
        {wanted}
        return one new tensor for each name in outputs: torch.empty_like(x)""",
    "torch-script": """CuteError
        a {layer}
        a model that TorchScript can compile
        use torch.compile or torch.export, or record the model with torch.jit.trace""",
    "torch-order": """CuteError
        an atomic addition of {dtype} ({line}), under torch.use_deterministic_algorithms(True)
        sums whose order is fixed
        reduce in shared memory or in a second launch, or allow it with warn_only=True""",
    "torch-vmap": """CuteError
        {name} under torch.vmap, which is written to {written}
        a call that changes no array: elements of a batch may be copies
        call it for each element, or append to {written} by torch's own operators before""",
    "torch-function": """LeafTypeError
        {value!r} as {name}
        no function of the user: torch's operators have no type for one
        call cute.ops outside of graphs, with tensors that autograd does not follow""",
    "torch-attention-lacks": """CuteError
        {name}={value}
        {name}={only}: no kernel here computes {what}
        leave {name} out, or call torch's or flash-attn's own function""",
    "torch-attention-masks": """CuteError
        attn_mask and is_causal=True
        one of them, as torch has it
        leave is_causal out, and attn_mask & torch.ones(L, S, dtype=torch.bool).tril()""",
    "torch-attention-heads": """CuteError
        {heads} heads of queries over {shared} of keys, with enable_gqa=False
        equal numbers of heads, or one
        give enable_gqa=True, if heads of queries share those of keys""",
    "torch-activate": """CuteError
        device={given!r}
        one of {known}
        write activate() for GPUs; "cpu" lets the emulator compute""",
}
