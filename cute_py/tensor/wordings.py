"""Wordings: tensors and their engines."""

WORDINGS = {
    "tensor-source": """LeafTypeError
        a {type}
        a NumPy array, an engine (Pointer, Memory, another tensor's data), or a coordinate
        pass numpy.asarray(x), or make_ptr(dtype, address) for a device address""",
    "tensor-layout": """LeafTypeError
        {engine} without a layout
        a layout for an engine, which has no shape
        pass a Layout, or a shape for the compact layout""",
    "tensor-dtype": """DtypeError
        a dtype for {engine}, which already has one
        a dtype only with NumPy arrays
        use recast(tensor, dtype) to view the memory in another dtype""",
    "tensor-codomain": """LayoutError
        {layout}, which yields coordinates, over {engine}
        a layout that yields offsets
        use make_coord_tensor(layout), whose elements are coordinates""",
    "tensor-bounds": """CoordinateError
        {layout} over {engine}: coordinate {coord} has offset {offset}
        offsets from {low} to {high}, the elements of the memory
        shrink the layout; for a tile that over-covers, check elem_less(coordinate, shape) first""",
    "tensor-iteration": """LeafTypeError
        {tensor} to iterate over
        a coordinate or an index for each element
        use tensor[c] for c in coordinates(tensor.shape); in a kernel tensor[i] for i in
            cute.range(n), on the host to_numpy()""",
    "tensor-length": """LeafTypeError
        len of {tensor}
        a function that says what to count: modes, elements, or the extent of a mode
        use cute.size(x, 0) for the extent of mode 0, x.size() for all elements, cute.rank(x) for
            the number of modes""",
    "tensor-product": """LayoutError
        {tensor}
        a layout: a product needs more memory than the tensor has
        take the product of tensor.layout, and call make_tensor with it over larger memory""",
    "tensor-shape": """LayoutError
        values of shape {given} for a tensor of {shape}
        one value, or an array with one axis for each top-level mode
        reshape the array, or group the modes of the tensor""",
    "tensor-overlap": """LayoutError
        two values for offset {offset} of {layout}, to which it maps the coordinates {a} and {b}
        one value for each element of the memory
        write to filter_zeros(tensor), or give both coordinates the same value""",
    "tensor-no-view": """LayoutError
        {tensor} without a copy
        a copy: elements are gathered in the order of the coordinates
        leave copy=False out, or take tensor.data.memory, which is shared""",
    "not-a-tensor": """LeafTypeError
        {value!r} ({type})
        a tensor here
        build one with make_tensor(array, layout)""",
    "coordinates-dtype": """DtypeError
        {tensor}, whose elements are coordinates
        a dtype for the elements of the new tensor
        pass dtype=, such as b1 for predicates""",
    "engine-unreadable": """LayoutError
        {engine}, whose elements are not in host memory
        elements in host memory, and no coordinates to write
        use make_tensor(array, layout) on the host; a kernel reads device memory""",
    "engine-arithmetic": """LeafTypeError
        arithmetic on {engine}
        registers of a kernel, which compute element by element
        load the elements first (cute.copy, or tensor[coord]); on the host use to_numpy()""",
    "memory-space": """LayoutError
        {value!r} as a memory space
        gmem, smem or rmem
        name the space of the elements; for host memory pass a NumPy array""",
    "pointer-address": """LayoutError
        the address {value} for elements of {to}
        a multiple of {size} bytes, at least 0
        align the address, or recast to a smaller type""",
    "array-empty": """LayoutError
        {name} of shape {shape}
        at least one element
        skip the call, or pass extents that may be 0 to the kernel as numbers, as kernels/grouped.py
            does: a layout has no extent 0""",
    "array-strides": """LayoutError
        an array with a stride of {step} bytes in axis {axis}
        strides that are multiples of the {size} bytes of an element
        copy it: numpy.ascontiguousarray(x), cupy.ascontiguousarray(x)""",
    "array-dtype": """DtypeError
        an array of {given} as {to}
        an array of the dtype of {to}, unsigned words of its size, or packed words for a sub-byte
            type
        use make_host_tensor(shape, {to!r}, values), which converts and packs""",
    "words-apart": """LayoutError
        packed words with a stride of {step} bytes
        contiguous words of {size} bytes
        copy them with numpy.ascontiguousarray(words)""",
    "recast-engine": """DtypeError
        {engine}, which has no bits
        elements in memory
        recast the tensor of the data, and partition coordinates by the new layout""",
    "recast-unpacked": """DtypeError
        {to} elements that take a byte each
        packed elements
        copy them to make_host_tensor(shape, {to!r}), which packs""",
    "recast-origin": """LayoutError
        {tensor}: its lowest bits begin at element {offset} of the memory
        a multiple of {n}, so that the new elements are aligned
        move the origin with domain_offset, or recast before slicing""",
    "recast-backwards": """LayoutError
        {layout} by {n}: a swizzle above negative strides
        nonnegative strides below a swizzle
        reverse the mode first, or recast the tensor without the swizzle""",
    "host-only": """LayoutError
        {tensor}
        a tensor in the memory of this process
        make one with make_host_tensor, or make_tensor of a NumPy array""",
    "thread-range": """CoordinateError
        thread {index} of {layout}
        0 <= thread < {count}
        use thread % {count}, or a larger thread layout""",
}
