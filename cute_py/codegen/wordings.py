"""Wordings: compiling and launching for a GPU."""

WORDINGS = {
    "codegen-name": """LayoutError
        the name {name!r} in the plan
        a Python identifier, which the printed kernel can use
        write the kernel with def name(...), not as a lambda""",
    "codegen-op": """LayoutError
        {name}, which has no PTX here
        an op, type and option that docs/kernels.md lists for a GPU
        run the kernel on the emulator: cute.emulate(plan, ...)""",
    "codegen-print": """LayoutError
        {count} elements to print in one call
        at most {most}: vprintf of a GPU takes no more
        print parts of the tensor; the emulator prints any number""",
    "codegen-nested": """LayoutError
        {loops} run-time loops inside each other, {depth} blocks deep
        at most {most} loops and {blocks} blocks: the printed kernel is Python
        join loops, for k in cute.range(n * m) with k // m and k % m; or emulate the kernel""",
    "codegen-missing": """LayoutError
        no {name} on this machine
        the packages of the extra `cuda` (Linux)
        pip install cute-py[cuda], or set CUDA_HOME to a CUDA toolkit 13.0""",
    "codegen-plan": """LeafTypeError
        a {type}
        a plan
        trace the kernel first: cute.trace(kernel, arguments ...)""",
    "codegen-arch": """LayoutError
        the architecture {arch!r}
        one of {known}
        {hint}""",
    "codegen-arch-old": """LayoutError
        {arch}
        {oldest} or newer: CUDA 13 does not compile for older ones
        run the kernel on the emulator: cute.emulate(plan, ...)""",
    "codegen-lacks": """LayoutError
        {op} for {arch}, which has no {instruction}
        {first}{newer}
        compile for {first}, or {instead}""",
    "codegen-emulated": """LayoutError
        {atom} for {arch}, where ptxas replaces it with several slower instructions
        an instruction that the architecture has; {native} have this one
        use an atom of wider types (cute.atoms.find), or allow it: cute.launch(...,
            allow_emulated=True)""",
    "codegen-smem": """LayoutError
        {bytes} bytes of shared memory for a block of {arch}
        at most {most} bytes
        use fewer stages or a smaller tile""",
    "codegen-parameters": """LayoutError
        {bytes} bytes of parameters: addresses, sizes, strides, numbers, tables and tensor maps
        at most {most} bytes
        put numbers into an array, arrays of one shape into a cute.TensorArray, and use fewer tiles
            of TMA""",
    "codegen-source": """LayoutError
        a source that Numba cannot compile: {log}
        an edited text of cute.source(plan): the same function, with calls of the plan's ops only
        start from cute.source(plan) again""",
    "codegen-nvvm": """LayoutError
        an error of NVVM for {arch}: {log}
        code that NVVM accepts
        run the kernel on the emulator: cute.emulate(plan, ...), and report the plan""",
    "codegen-disassembly": """LayoutError
        an error of nvdisasm: {log}
        a cubin that it can read
        install nvidia-cuda-nvdisasm of the same release as ptxas, or newer""",
    "codegen-debug": """LayoutError
        CUTE_PY_DEBUG={given!r}
        a number from 0 to 4, or stages among {known}
        CUTE_PY_DEBUG=1 prints the seconds of each pass""",
    "codegen-ptxas": """LayoutError
        an error of ptxas for {arch}: {log}
        PTX that assembles without serialized or ignored instructions
        {how}""",
    "codegen-spills": """LayoutError
        {spilled} bytes per thread that spill to local memory on {arch}
        at most {most} bytes
        use a smaller tile or more threads, or allow it with spill_bytes={spilled}
        {log}""",
    "codegen-stalls": """LayoutError
        {found} in the loop of warpgroup products on {arch}
        a loop that waits only for its tiles: offsets of tiles in uniform registers, no spills, no
            fence of the whole GPU
        {how}; or allow slow code with spill_bytes=65536""",
    "cache-folder": """CuteError
        the folder {path}: {reason}
        a folder that only this user can write to, with room for a few files
        set CUTE_PY_CACHE_DIR to another folder, or CUTE_PY_CACHE=0 to turn the cache off""",
    "cache-size": """CuteError
        CUTE_PY_CACHE_SIZE={text!r}
        a number of bytes, with the suffix K, M or G for 2**10, 2**20 or 2**30
        leave it unset for 1G, or set it to 500M""",
    "launch-argument": """LayoutError
        {name}: {found}
        GPU arrays that match what the plan was traced for
        call the kernel itself, which traces a plan for its arguments""",
    "launch-map": """LayoutError
        {name} with {found}
        an array that TMA can address: its address and its pitches are multiples of 16 bytes, a
            pitch is at least a row, and extents are below 2^31
        copy it into memory with such rows: a number of columns that is a multiple of 16 bytes; give
            a longer mode as two""",
    "launch-failed": """LayoutError
        {status} from the driver for {launch}
        a launch that the device can run, and addresses inside the arrays
        run cute.emulate(plan, ...) on copies of the arrays to find the line""",
    "launch-earlier": """LayoutError
        {status} from the driver, left by an earlier kernel; most recent launches: {names}
        addresses inside the arrays
        set CUTE_PY_SYNC=1, so that each launch waits and the error names its kernel; then run
            cute.emulate(plan, ...) on copies of its arrays to find the line""",
    "launch-grid": """LayoutError
        a grid of {grid} blocks
        extents of at least 0 and at most {most}
        give each block more work, or map the longest mode to x""",
    "launch-resident": """LayoutError
        {blocks} blocks, which wait for each other
        at most {room}: those that this device runs at once
        launch fewer blocks, and let each do more, or use fewer threads, fewer registers or less
            shared memory per block""",
    "launch-limit": """LayoutError
        {found} {what}
        at most {most} on this device ({arch})
        use a smaller tile, fewer stages or fewer threads""",
    "launch-cluster": """LayoutError
        a grid of {grid} blocks in clusters of {cluster}
        extents that are multiples of the cluster
        round the grid up: cute.round_up(blocks, cluster)""",
    "launch-device": """LayoutError
        {name} on device {found}, but {other} on device {device}
        all arrays on one device
        copy {name} to device {device}""",
    "launch-read-only": """LayoutError
        {name}, which is read-only, but the kernel writes to it
        writable memory
        pass your own array for the result""",
    "launch-host": """LayoutError
        {name} ({type}), which is not on the GPU
        GPU arrays that match what the plan was traced for
        copy it there: torch.as_tensor(x).cuda(), cupy.asarray(x)""",
    "launch-misaligned": """LayoutError
        {name} at address {address}, which is not a multiple of {size} bytes
        {dtype} elements at multiples of their size
        copy the array into new memory: torch.clone(x), cupy.array(x)""",
    "launch-memory": """LayoutError
        {name} at {address}, which CUDA does not know
        memory of an NVIDIA GPU, managed memory, or pinned host memory
        copy the array to the GPU""",
    "launch-stream": """LayoutError
        {stream} ({type}) as a stream
        a number, or an object with cuda_stream, ptr or __cuda_stream__
        pass torch.cuda.Stream, cupy.cuda.Stream or the number of a CUDA stream""",
    "launch-capture": """LayoutError
        the first call for these arrays, while a CUDA graph is captured
        a kernel that is already loaded: a capture cannot compile and load it
        call it once with these arrays before the capture""",
    "launch-status": """LayoutError
        {status} from the driver
        a working device with free memory
        check nvidia-smi; restart the process if a kernel failed earlier""",
    "device-modes": """LayoutError
        a device view of {layout}
        a plain layout without nested modes, whose modes are those of an array
        flatten the tensor, and group the modes again in the kernel""",
    "launch-driver": """LayoutError
        no CUDA driver: {said}
        an NVIDIA GPU with its driver, and the extra `cuda`
        run `nvidia-smi` and `pip install cute-py[cuda]`; or pass host arrays, to emulate""",
}
