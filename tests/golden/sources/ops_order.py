"""order: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernels_of_ops.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (4, 1, 1)
    block: (32, 1, 1)
    shared memory: 0 bytes

Parameters:
    x: address of s32 (x_shape0):(1), a multiple of 16 bytes

Calls:
    fence_*: order of memory
    griddepcontrol_*: waits for the kernels before, or lets the next one begin
    wait_until_*: reads with acquire order until the element compares
"""


def order(x, x_shape0):
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    griddepcontrol_0()  # line 71  griddepcontrol wait
    wait_until_0(bid_x, x)  # line 72  wait_until x[0 + [0]] eq bid_x
    fence_0()  # line 73  fence gpu
    griddepcontrol_1()  # line 74  griddepcontrol launch_dependents
