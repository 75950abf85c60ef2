"""Wordings: arguments of kernels."""

WORDINGS = {
    "argument-modes": """LayoutError
        an array without modes as {name}
        an array of at least one mode
        pass array.reshape(1), or annotate the parameter with a dtype to take a number""",
    "argument-annotated": """LayoutError
        {name} annotated with {value}
        one promise next to the type, about the same type
        write it once: Annotated[cute.s32, cute.s32(min=1, multiple_of=4)]""",
    "argument-recursive": """LeafTypeError
        a {type} that contains itself
        containers whose parts are arrays, numbers and compile-time values
        pass the parts that the kernel needs""",
    "argument-type": """LeafTypeError
        an array of {given} to read as {dtype}
        an array of the storage type of {dtype}
        convert it: cute.convert(array, dtype)""",
    "argument-number": """LayoutError
        {value} as {name}
        a number {wanted}, as the kernel's annotation promises
        pass such a number, or relax the annotation""",
    "argument-large": """LayoutError
        {name} with {extent} in mode {mode}
        extents below 2**31, so that kernels compute with them in 32 bits
        annotate the parameter with cute.spec(large=True), which computes in 64 bits""",
    "argument-packed": """LeafTypeError
        an array of {given}, to read packed elements of {dtype}
        words of an integer type of at least 8 bits, and elements of 1, 2 or 4 bits
        view it as bytes: x.view(numpy.uint8); leave out packed=True for one value per element""",
    "argument-words": """LayoutError
        words with strides {strides}, to read packed elements of {dtype}
        a mode of stride 1, whose words hold the elements one after another
        copy it: numpy.ascontiguousarray(x)""",
    "argument-split": """LayoutError
        {tensor}, which begins inside a byte
        a first element of {dtype} at the start of a byte
        pass the whole tensor, and take the part in the kernel""",
    "table-empty": """LayoutError
        no arrays
        at least one array: the kernel is specialized for their type
        pass them as a list: cute.TensorArray([a, b])""",
    "table-array": """LeafTypeError
        {type} as a member
        arrays
        pass NumPy, torch or CuPy arrays, perhaps as cute.typed(...)""",
    "table-memory": """LayoutError
        arrays[{index}] in a different memory from arrays[0]
        all arrays on the host, or all on one GPU
        copy them to one device""",
    "table-library": """LeafTypeError
        arrays of {type} on a GPU
        arrays of torch or CuPy, whose library keeps the table of pointers
        view them: torch.as_tensor(x), cupy.asarray(x)""",
    "table-facts": """LayoutError
        {found} in arrays[{index}]
        {wanted}
        make a new TensorArray that includes such arrays: it is specialized for what its first
            arrays share""",
    "table-range": """LayoutError
        {count} arrays from index {first} on, in a table of {total}
        at most as many arrays as the table has
        make a new TensorArray""",
    "argument-spec": """LayoutError
        {name} of {rank} modes, with the promise {spec}
        one entry for each mode, or one number for all of them
        give cute.spec as many entries as the array has modes""",
    "argument-list": """LeafTypeError
        a {type} of numbers, for a parameter annotated as an array
        an array
        pass np.array(values, dtype), with the type of the elements""",
    "argument-hidden": """LeafTypeError
        an array inside {type}
        arrays as arguments, or in tuples, lists, dicts and dataclasses of arguments
        pass the array itself, or make the class a dataclass""",
    "argument-stride": """LayoutError
        {name} with strides {strides}
        strides of at least 0 elements
        copy it: numpy.ascontiguousarray(x)""",
    "argument-strides": """LeafTypeError
        an array of {type} without strides
        an array whose strides are known
        pass a NumPy, torch, CuPy or Numba array""",
    "argument-masked": """LayoutError
        {name}, an array with a mask
        an array without masked elements
        fill the masked elements, and pass the array without its mask: x.filled(0)""",
    "argument-negated": """LayoutError
        {name}, a view whose memory holds the negated values
        memory that holds the values of the array
        resolve it: x.resolve_neg()""",
    "argument-gradient": """LeafTypeError
        {name}, a tensor that autograd follows (requires_grad)
        tensors without a gradient: none flows back through this call
        pass {name}.detach(), or call it under torch.no_grad(); cute_py.torch.register gives a
            kernel a derivative""",
    "argument-tangent": """LeafTypeError
        {name}, a tensor with a tangent of forward-mode differentiation
        tensors without a tangent: the result would have none
        differentiate backward, or pass torch.autograd.forward_ad.unpack_dual({name}).primal""",
    "argument-tensor": """LeafTypeError
        a {type} of torch whose elements are not in memory of its own
        a dense tensor: not sparse, nested, quantized, meta, or inside torch.func
        convert it: x.to_dense(), x.dequantize(), or x.cpu()""",
    "argument-device": """LayoutError
        an array ({type}) on the device {device}
        memory of the host or of an NVIDIA GPU
        copy it to the host: numpy.asarray(x), or to the GPU with torch or CuPy""",
    "argument-import": """LeafTypeError
        an array of {type} that cannot be imported ({reason})
        an array whose memory can be shared
        copy it: numpy.array(x)""",
    "argument-dlpack": """LeafTypeError
        an array on the GPU ({type}) that supports only DLPack
        torch or CuPy, to import it
        pip install torch or cupy, or pass an array with __cuda_array_interface__""",
    "argument-promise": """LayoutError
        {name} with {extent} in mode {mode}
        {wanted}, as the kernel's annotation promises
        pad the array, or relax cute.spec(...)""",
    "kernel-number": """LeafTypeError
        {value!r}
        a number that {dtype} can represent
        use a number of that type, or a tensor of another type""",
}
