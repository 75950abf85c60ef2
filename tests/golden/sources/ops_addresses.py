"""addresses: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernels_of_ops.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 256 bytes

Parameters:
    x: address of u32 (x_shape0):(1), a multiple of 16 bytes

Shared memory:
    s0: f32[64] at byte 0

Registers:
    address0: u32[1] in 1 word

Calls:
    store_*: st.global or st.shared, one for each vector
    shared_address_*: the address of an element of shared memory (bytes)
"""


def addresses(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    address0 = undefined(1)
    address0 = shared_address_0(smem, address0)  # line 52  address0[0] = &s0[0 + [0]]
    store_0(tid, x, address0)  # line 52  store x[tid + [0]] = address0[0]
