"""Answers to lesson 9; after each, a wrong one that many write first."""

import cute_py as cute


# -- 9.1
def part_of(C, bx, by, t):
    gC = cute.local_tile(C, (64, 64), (bx, by))  # (64,64)
    return MMA.get_slice(t).partition_C(gC)  # (MMA,MMA_M,MMA_N)


# -- 9.1 wrong: the tile of the instruction, not of the block
def part_of(C, bx, by, t):
    gC = cute.local_tile(C, (32, 32), (bx, by))
    return MMA.get_slice(t).partition_C(gC)


# -- 9.2
def zeros(tCgC, t):
    acc = MMA.get_slice(t).make_fragment_C(tCgC)
    acc.fill(0)
    return acc


def multiply(acc, a, b, t):
    thr = MMA.get_slice(t)
    tCgA, tCgB = thr.partition_A(a), thr.partition_B(b)  # (MMA,MMA_M,MMA_K), (MMA,MMA_N,MMA_K)
    tCrA, tCrB = thr.make_fragment_A(tCgA), thr.make_fragment_B(tCgB)
    cute.copy(tCgA, tCrA)
    cute.copy(tCgB, tCrB)
    cute.gemm(MMA, acc, tCrA, tCrB)


# -- 9.2 wrong: nothing was written to the sums
def zeros(tCgC, t):
    return MMA.get_slice(t).make_fragment_C(tCgC)


def multiply(acc, a, b, t):
    thr = MMA.get_slice(t)
    tCgA, tCgB = thr.partition_A(a), thr.partition_B(b)
    tCrA, tCrB = thr.make_fragment_A(tCgA), thr.make_fragment_B(tCgB)
    cute.copy(tCgA, tCrA)
    cute.copy(tCgB, tCrB)
    cute.gemm(MMA, acc, tCrA, tCrB)


# -- 9.3
def fetch(g, s, t):
    thr = LOAD.get_slice(t)
    cute.copy(LOAD, thr.partition_S(g), thr.partition_D(s))


def arrive():
    cute.cp_async_fence()
    cute.cp_async_wait(0)
    cute.syncthreads()


# -- 9.3 wrong: each thread waits for its own copies, and reads those of others
def fetch(g, s, t):
    thr = LOAD.get_slice(t)
    cute.copy(LOAD, thr.partition_S(g), thr.partition_D(s))


def arrive():
    cute.cp_async_fence()
    cute.cp_async_wait(0)


# -- 9.4
def multiply(acc, a, b, t):
    thr = MMA.get_slice(t)
    tCrA, tCrB = thr.partition_fragment_A(a), thr.partition_fragment_B(b)
    copy_a, copy_b = cute.make_tiled_copy_A(LDMATRIX, MMA), cute.make_tiled_copy_B(LDMATRIX, MMA)
    read_a, read_b = copy_a.get_slice(t), copy_b.get_slice(t)
    cute.copy(copy_a, read_a.partition_S(a), read_a.retile_D(tCrA))
    cute.copy(copy_b, read_b.partition_S(b), read_b.retile_D(tCrB))
    cute.gemm(MMA, acc, tCrA, tCrB)


# -- 9.4 wrong: B is read as A is
def multiply(acc, a, b, t):
    thr = MMA.get_slice(t)
    tCrA, tCrB = thr.partition_fragment_A(a), thr.partition_fragment_B(b)
    copy_a, copy_b = cute.make_tiled_copy_A(LDMATRIX, MMA), cute.make_tiled_copy_A(LDMATRIX, MMA)
    read_a, read_b = copy_a.get_slice(t), copy_b.get_slice(t)
    cute.copy(copy_a, read_a.partition_S(a), read_a.retile_D(tCrA))
    cute.copy(copy_b, read_b.partition_S(b), read_b.retile_D(tCrB))
    cute.gemm(MMA, acc, tCrA, tCrB)


# -- 9.5
swizzled = cute.composition(cute.Swizzle(2, 3, 3), ROWS)
# -- 9.5 wrong: single elements move, and vectors are torn apart
swizzled = cute.composition(cute.Swizzle(2, 0, 5), ROWS)


# -- 9.6
def start(tile, gA, gB, sA, sB, t):
    fetch(gA[_, _, tile], sA[_, _, tile % STAGES], t)
    fetch(gB[_, _, tile], sB[_, _, tile % STAGES], t)
    cute.cp_async_fence()


def main_loop(acc, gA, gB, sA, sB, t):
    for tile in range(STAGES - 1):
        start(tile, gA, gB, sA, sB, t)
    for tile in cute.range(cute.size(gA, 2)):
        cute.cp_async_wait(STAGES - 2)
        cute.syncthreads()
        start(tile + STAGES - 1, gA, gB, sA, sB, t)
        multiply(acc, sA[_, _, tile % STAGES], sB[_, _, tile % STAGES], t)


# -- 9.6 wrong: the newest tile is waited for, but the others still read its stage
def start(tile, gA, gB, sA, sB, t):
    fetch(gA[_, _, tile], sA[_, _, tile % STAGES], t)
    fetch(gB[_, _, tile], sB[_, _, tile % STAGES], t)
    cute.cp_async_fence()


def main_loop(acc, gA, gB, sA, sB, t):
    for tile in range(STAGES - 1):
        start(tile, gA, gB, sA, sB, t)
    for tile in cute.range(cute.size(gA, 2)):
        start(tile + STAGES - 1, gA, gB, sA, sB, t)
        cute.cp_async_wait(STAGES - 1)
        cute.syncthreads()
        multiply(acc, sA[_, _, tile % STAGES], sB[_, _, tile % STAGES], t)


# -- 9.7
ZFILL = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f16")
LOAD = cute.make_tiled_copy(ZFILL, THREADS, VECTOR)


def start(tile, gA, gB, sA, sB, t):
    with cute.when(tile < cute.size(gA, 2)):
        fetch(gA[_, _, tile], sA[_, _, tile % STAGES], t)
        fetch(gB[_, _, tile], sB[_, _, tile % STAGES], t)
    cute.cp_async_fence()


# -- 9.7 wrong: groups are counted, and these are missing at the end
ZFILL = cute.Copy_Atom("SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<128>", "f16")
LOAD = cute.make_tiled_copy(ZFILL, THREADS, VECTOR)


def start(tile, gA, gB, sA, sB, t):
    with cute.when(tile < cute.size(gA, 2)):
        fetch(gA[_, _, tile], sA[_, _, tile % STAGES], t)
        fetch(gB[_, _, tile], sB[_, _, tile % STAGES], t)
        cute.cp_async_fence()


# -- 9.8
def store(acc, bias, C, bx, by, t):
    across = cute.make_tensor(bias.data, cute.Layout(C.shape, (0, 1)))  # (M,N): rows repeat
    tCgC, tCgBias = part_of(C, bx, by, t), part_of(across, bx, by, t)
    tCrBias = cute.make_fragment_like(tCgBias)
    cute.copy(tCgBias, tCrBias)
    cute.copy(cute.maximum(acc + tCrBias, 0).to(C.dtype), tCgC)


# -- 9.8 wrong: the bias of a row
def store(acc, bias, C, bx, by, t):
    across = cute.make_tensor(bias.data, cute.Layout(C.shape, (1, 0)))
    tCgC, tCgBias = part_of(C, bx, by, t), part_of(across, bx, by, t)
    tCrBias = cute.make_fragment_like(tCgBias)
    cute.copy(tCgBias, tCrBias)
    cute.copy(cute.maximum(acc + tCrBias, 0).to(C.dtype), tCgC)
