"""Refusals of compiling, of the cache and of launches."""

from cute_py.codegen.arch import require_known
from cute_py.codegen.build import source
from tests.kernel_refusals import traced


def empty(x):
    pass


ROWS = """
codegen-name: a kernel, or an argument, has a name that no Python function can have
    * cute.compile name="<lambda>"
codegen-op: the plan has an op, or a function of a type, that has no PTX yet
    * cute.compile name="the init of mbarriers"
codegen-print: more is printed in one call than vprintf takes
    * cute.print count=33, most=32
codegen-nested: loops or branches are nested deeper than a kernel that is compiled can have them
    * cute.compile loops=21, depth=21, most=20, blocks=96
codegen-missing: a compiler is not installed
    * cute.compile name="numba-cuda"
codegen-plan: something other than a plan is compiled
    - source(traced)
    + source(traced(empty))
codegen-arch: the compilers do not know an architecture
    - require_known("90")
    + require_known("sm_90")
codegen-arch-old: an architecture that CUDA 13 does not compile for
    - require_known("sm_70")
    + require_known("sm_75")
codegen-lacks: an architecture does not have the instruction of an op
    * gemm_multistage op="a copy by cp.async", arch="sm_75",
        instruction="cp.async.cg.shared.global.L2::128B of SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>",
        first="sm_80", newer=" or newer", instead="use an atom that sm_75 has (cute.atoms.find,
        copy_rows)"
codegen-emulated: an architecture replaces a matrix instruction by several slower ones, and the
        kernel does not allow it
    * product atom="SM80_16x8x64_S32S4S4S32_TN", arch="sm_90a", native="sm_80, sm_86, sm_87, sm_88,
        sm_89"
codegen-smem: a block needs more shared memory than the architecture has
    * large bytes="122880", arch="sm_86", most="101376"
codegen-parameters: the parameters of a kernel take more memory than a launch passes
    * many bytes="40968", most="32764"
codegen-source: an edited source is not a kernel of the plan, or Numba cannot compile it
    * copy_tiles log="no function copy_tiles(A, A_shape0, A_shape1, A_stride0, B, B_shape0,
        B_shape1, B_stride0)"
codegen-nvvm: NVVM refuses the generated code
    * reduce_rows arch="sm_80", log="ERROR_INVALID_IR (6); <unnamed>: parse invalid type for inline
        asm constraint string"
codegen-disassembly: nvdisasm cannot read a cubin
    * nvdisasm log="nvdisasm fatal : Object file kernel.cubin appears truncated"
codegen-debug: `CUTE_PY_DEBUG` has an unknown value
    * cute.compile given="5", known="time,plan,waits,counters,addresses,source,ptx,log,sass,lowered"
codegen-ptxas: ptxas refuses the text, or ignores a request of the kernel
    * gemm arch="sm_75", log="Feature 'cp.async' requires .target sm_80 or higher", how="use an
        architecture that has the instructions of the atoms (min_arch), or smaller tiles"
codegen-spills: registers spill to local memory; the log of ptxas follows
    * gemm spilled="68", arch="sm_90a", most="0", log=""
codegen-stalls: the loop of a kernel's warpgroup products stalls
    * gemm found="2 R2UR (line 31)", arch="sm_90a", how="compute the offsets of tiles from block
        indices, loop variables and tid // 32, let a separate role issue the loads"
cache-folder: the cache folder cannot be used; `cute.compile` warns once and goes on without it
    * cache path="cache/cute_py", reason="it belongs to another user"
cache-size: the size limit of the cache is invalid
    * cache text="1 TB"
launch-argument: an array does not match what the plan was traced for
    * gemm name="A", found="shape (100, 7), traced for sym('A_shape0'), sym('A_shape1',
        multiple_of=8, min=0)"
launch-map: TMA cannot address an array
    * gemm name="A", found="a pitch of 270 bytes, with rows of 270 bytes"
launch-failed: the driver refuses a launch; with `CUTE_PY_SYNC=1` also if the kernel itself failed
    * touch status="CUDA_ERROR_INVALID_VALUE", launch="grid (1000, 1, 1), block (32, 1, 1), 0 bytes
        of shared memory, sm_90a, 32 registers"
launch-earlier: an earlier kernel has failed: its error surfaces at a later launch
    * touch status="CUDA_ERROR_ILLEGAL_ADDRESS", names="rows, touch"
launch-grid: a grid is negative or larger than the device allows
    * rows grid="(8, 65536, 1)", most="(2147483647, 65535, 65535)"
launch-resident: a launch with `resident=True` has more blocks than run at once
    * gemm_stream_k blocks="300", room="264"
launch-limit: a block or cluster needs more than the device has
    * large found="120000 bytes of shared memory in a", what="block", most="101376", arch="sm_89"
launch-cluster: a grid is not a whole number of clusters
    * clustered grid="(1001, 1, 1)", cluster="(4, 1, 1)"
launch-device: arrays are on several devices
    * rows name="y", found="1", other="x", device="0"
launch-read-only: an array's interface says that it is read-only, but the kernel writes to it
    * rows name="y"
launch-host: an array is in host memory, others are on the GPU
    * rows name="y", type="ndarray"
launch-misaligned: an array begins at an address that none of its elements can have
    * touch name="x", address="0x1001", size="4", dtype="f32"
launch-memory: an array claims to be on the GPU, but CUDA does not know its address
    * cute.run name="DeviceArray", address="0x40"
launch-stream: `stream=` is not a stream
    * cute.run stream="default", type="str"
launch-capture: a kernel is called for the first time while a CUDA graph is captured
    * touch
launch-status: the driver reports an error outside a launch
    * cuDevicePrimaryCtxRetain status="CUDA_ERROR_OUT_OF_MEMORY"
device-modes: a tensor with nested modes is asked for its view on a GPU
    * device_view layout="((2,2),3):((1,2),4)"
launch-driver: there is no CUDA driver
    * cute.run said="libcuda.so.1 not found"
"""
