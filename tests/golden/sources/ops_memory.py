"""memory: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernels_of_ops.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 0 bytes

Parameters:
    x: address of s32 (x_shape0):(1), a multiple of 16 bytes

Registers:
    x0: s32[1] in 1 word

Calls:
    fill_*: all elements become a number
    atomic_*: atom, one for each element
    prefetch_*: prefetch.global.L2
"""


def memory(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    x0 = undefined(1)
    prefetch_0(tid, x_shape0, x)  # line 37  prefetch x[tid + [0]] if tid < x_shape0
    x0 = fill_0(x0)  # line 38  x0[0] = 3
    atomic_0(tid, x_shape0, x, x0)  # line 38  atomic max x[tid + [0]] if tid < x_shape0 x0[0]
