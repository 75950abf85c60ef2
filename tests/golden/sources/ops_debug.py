"""debug: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernels_of_ops.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 0 bytes

Parameters:
    x: address of f32 (x_shape0):(1), a multiple of 16 bytes

Registers:
    x0: f32[1] in 1 word

Calls:
    load_*: ld.global or ld.shared, one for each vector
    print_*: vprintf of a text
    assert_*: trap where a condition fails
"""


def debug(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    x0 = undefined(1)
    x0 = load_0(tid, x, x0)  # line 80  x0[0] = load x[tid + [0]]
    print_0(tid, x0)  # line 80  print {}: {} (tid, x0[0])
    assert_0(tid, x_shape0)  # line 81  assert tid < x_shape0 x is too short
