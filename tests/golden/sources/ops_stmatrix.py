"""stmatrix: a Numba kernel, printed by cute_py from a plan.

Each call is one op of the plan and emits its PTX. Its comment has the line of kernel.py and the op.
Registers are tuples of 32-bit words, addresses numbers of bytes.
cute.compile(plan, arch, source=text) compiles an edited copy of this text.

Launch:
    grid: (1, 1, 1)
    block: (32, 1, 1)
    shared memory: 128 bytes

Shared memory:
    S: f16[64] at byte 0

Registers:
    a: f16[2] in 1 word

Calls:
    fill_*: all elements become a number
    stmatrix_*: 8x8 matrices to shared memory, one for each row address
"""


def stmatrix():
    tid = thread_index()
    bid_x, bid_y, bid_z = block_index()
    smem = shared_memory()
    a = undefined(1)
    a = fill_0(a)  # line 1  a[0,1] = 1.0
    stmatrix_0(tid, smem, a)  # line 2  stmatrix S[8*(tid%8) + [0]] x8 = a[0,1] SM90_U32x1_STSM_N
