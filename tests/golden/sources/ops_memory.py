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
    x0, x1, x2: s32[1] in 1 word

Calls:
    let_*: an integer that no sum of products describes
    fill_*: all elements become a number
    pointer_*: an address that was read from memory or computed
    load_*: ld.global or ld.shared, one for each vector
    store_*: st.global or st.shared, one for each vector
    atomic_*: atom, or red of vectors; one for each vector
    prefetch_*: prefetch.global.L2
"""


def memory(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    x0 = undefined(1)
    x1 = undefined(1)
    x2 = undefined(1)
    prefetch_0(tid, x_shape0, x)  # line 43  prefetch x[tid + [0]] if tid < x_shape0
    x0 = fill_0(x0)  # line 44  x0[0] = 3
    atomic_0(tid, x_shape0, x, x0)  # line 44  atomic max x[tid + [0]] if tid < x_shape0 x0[0]
    x1 = load_0(x, x1)  # line 45  x1[0] = load x[0 + [0]]
    m0 = let_reg_0(x1)  # line 45  m0 = reg(x1[0])
    ptr0 = pointer_0(m0)  # line 45  ptr0 = pointer to s32 at m0, 16 bytes
    x2 = fill_1(x2)  # line 46  x2[0] = 3
    store_0(tid, ptr0, x2)  # line 46  store ptr0[tid + [0]] = x2[0]
