"""Small kernels whose order of threads matters, each with a twin that is right in every order.

`ZOO` has rows of: kernel, its arrays, what follows them for the broken one, and for the right one,
and the codes of what some order of the broken one is refused for.
"""

import numpy as np

import cute_py as cute

ZOO = {}


def s32(*sizes):
    return lambda: tuple(np.zeros(n, np.int32) for n in sizes)


def row(arrays, broken, right, *codes, **options):
    def add(kernel):
        ZOO[kernel.function.__name__] = kernel, arrays, broken, right, codes, options
        return kernel

    return add


def at(x, k=0):
    return cute.local_tile(x, (1,), (k,))


def ticket(x, k=0):
    return cute.as_int(cute.atomic("add", at(x, k), 1, old=True))


# -- tickets


@row(s32(1, 8), (0,), (3,), "bounds")
@cute.kernel
def warps_with_tickets(count, out, room):
    """Below 0 where a warp gets a ticket that is less than its number."""
    cute.launch(grid=1, block=128)
    with cute.when(cute.thread_idx() % 32 == 0):
        out[ticket(count) - cute.warp_idx() + room] = 1


@row(s32(8), (0,), (3,), "bounds")
@cute.kernel
def warps_with_shared_tickets(out, room):
    cute.launch(grid=1, block=128)
    count = cute.smem("s32", 1)
    with cute.when(cute.thread_idx() == 0):
        count[0] = 0
    cute.syncthreads()
    with cute.when(cute.thread_idx() % 32 == 0):
        out[ticket(count) - cute.warp_idx() + room] = 1


@row(s32(1, 2), (False,), (True,), "deadlock")
@cute.kernel
def the_first_tells_the_second(count, flag, always):
    """Broken, block 1 does not tell if it comes first."""
    cute.launch(grid=2, block=32)
    with cute.when(cute.thread_idx() == 0):
        mine = ticket(count)
        with cute.when((mine == 0) & ((cute.block_idx() == 0) | always)):
            cute.store_release(at(flag), 1)
        with cute.when(mine == 1):
            cute.wait_until(at(flag), "eq", 1)


@row(s32(1, 8), (3,), (4,), "bounds")
@cute.kernel
def three_tiles_in_a_row(count, out, most):
    """Wrong where one block takes the last of `most` tiles in a row."""
    cute.launch(grid=2, block=32)
    with cute.when(cute.thread_idx() == 0):
        tile, mine = cute.var(0), cute.var(0)
        tile.set(ticket(count))
        with cute.while_(lambda: tile.get() < 3):
            mine.set(mine.get() + 1)
            with cute.when(mine.get() == most):
                out[8] = 1
            tile.set(ticket(count))


# -- locks


def lock(locks, k):
    taken = cute.var(1)
    with cute.while_(lambda: taken.get() != 0):
        taken.set(cute.as_int(cute.atomic_cas(at(locks, k), 0, 1)))
    cute.threadfence()


def unlock(locks, k):
    cute.threadfence()
    cute.atomic("exch", at(locks, k), 0)


@row(s32(2, 1), (1,), (0,), "deadlock")
@cute.kernel
def two_locks(locks, total, turned):
    """Broken, block 1 takes them the other way round."""
    cute.launch(grid=2, block=32)
    with cute.when(cute.thread_idx() == 0):
        for b in range(2):
            first = b * turned
            with cute.when(cute.block_idx() == b):
                lock(locks, first)
                lock(locks, 1 - first)
                total[0] = total[0] + 1
                unlock(locks, 1 - first)
                unlock(locks, first)


@row(s32(1, 1), (False,), (True,), "global-race")
@cute.kernel
def a_lock_and_its_fence(locks, total, fenced):
    """Only some of the orders race: where one block ends before the other looks, both do."""
    cute.launch(grid=2, block=32)
    with cute.when(cute.thread_idx() == 0):
        lock(locks, 0)
        total[0] = total[0] + 1
        if fenced:
            cute.threadfence()
        cute.atomic("exch", at(locks), 0)


# -- flags


@row(s32(1, 2, 1), (1,), (2,), "global-race")
@cute.kernel
def a_flag_with_two_values(flag, x, out, wanted):
    """Broken, it waits for the first value, and reads what the second one tells of."""
    cute.launch(grid=2, block=32)
    with cute.when(cute.thread_idx() == 0):
        with cute.when(cute.block_idx() == 0):
            for n in (1, 2):
                x[n - 1] = n
                cute.store_release(at(flag), n)
        with cute.otherwise():
            cute.wait_until(at(flag), "ge", wanted)
            out[0] = x[1]


@row(s32(1), ("eq",), ("ge",), "deadlock")
@cute.kernel
def a_flag_that_may_be_missed(flag, test):
    """Who looks late finds 2, and waits for 1."""
    cute.launch(grid=1, block=64)
    with cute.when(cute.thread_idx() == 0):
        cute.store_release(at(flag), 1)
        cute.store_release(at(flag), 2)
    with cute.when(cute.thread_idx() == 32):
        cute.wait_until(at(flag), test, 1)


@row(s32(2, 1, 3), (1,), (0,), "global-race")
@cute.kernel
def a_wait_that_sees_more(flags, x, out, late):
    """Broken, the writer waits for the read before the last one: it mostly sees the last, too."""
    cute.launch(grid=2, block=32, resident=True)
    with cute.when(cute.thread_idx() == 0):
        with cute.when(cute.block_idx() == 0):
            for k in range(3):
                cute.wait_until(at(flags, 1), "ge", max(0, k - late))
                x[0] = k + 1
                cute.store_release(at(flags), k + 1)
        with cute.otherwise():
            for k in range(3):
                cute.wait_until(at(flags), "ge", k + 1)
                out[k] = x[0]
                cute.store_release(at(flags, 1), k + 1)


@row(s32(1, 2, 1), (1,), (2,), "global-race")
@cute.kernel
def a_count_of_two(count, x, out, wanted):
    """Broken, it waits for one of two blocks, and reads what both have written."""
    cute.launch(grid=3, block=32)
    b = cute.block_idx()
    with cute.when(cute.thread_idx() == 0):
        with cute.when(b < 2):
            x[b] = 3
            cute.threadfence()
            cute.atomic("add", at(count), 1)
        with cute.otherwise():
            cute.wait_until(at(count), "ge", wanted)
            cute.threadfence()
            out[0] = x[0] + x[1]


# -- mbarriers: refused in every order, or in none


@row(s32(1), (False,), (True,), "mbarrier-phase")
@cute.kernel
def a_peer_that_arrives_twice(out, waits):
    cute.launch(grid=2, block=32, cluster=2)
    bars = cute.mbarriers(1)
    with cute.when(cute.thread_idx() == 0):
        bars.init(2)
        cute.fence_mbarrier_init()
    cute.cluster_sync()
    with cute.when(cute.thread_idx() == 0):
        if waits:
            for i in range(2):
                for rank in range(2):
                    bars.arrive(0, rank)
                bars.wait(0, i)
        else:
            with cute.when(cute.cluster_rank() == 0):
                for i in range(2):
                    bars.arrive(0)
                    bars.wait(0, i)
            with cute.otherwise():
                for _ in range(2):
                    bars.arrive(0, 0)
    cute.cluster_sync()


def rows():
    return np.arange(512, dtype=np.float32).reshape(16, 32), np.zeros((2, 32), np.float32)


@row(rows, (False,), (True,), "mbarrier-phase")
@cute.kernel
def a_load_a_phase_ahead(x, out, waits):
    """Warp 0 announces the bytes of two phases, warp 1 loads both."""
    cute.launch(grid=1, block=64)
    bars, t = cute.mbarriers(1), cute.thread_idx()
    s = [cute.smem("f32", cute.Layout((8, 32), (32, 1)), 1024) for _ in range(2)]
    with cute.when(t == 0):
        bars.init(1)
        cute.fence_mbarrier_init()
    cute.syncthreads()
    with cute.when(cute.warp_idx() == 0):
        for i in range(2):
            with cute.when(t == 0):
                bars.arrive_expect_tx(0, 1024)
            bars.wait(0, i)
            out[i, t] = s[i][0, t]
    with cute.when(cute.warp_idx() == 1):
        for i in range(2):
            with cute.when(t == 32):
                tile = cute.local_tile(cute.tma_tensor(x), (8, 32), (i, 0))
                cute.tma_load(tile, s[i], bars, 0)
            if waits:
                bars.wait(0, i)


@cute.kernel
def counter(count, out, tiles, blocks):
    """Blocks take tiles from a counter until there are no more."""
    cute.launch(grid=blocks, block=32)
    with cute.when(cute.thread_idx() == 0):
        tile = cute.var(0)
        tile.set(ticket(count))
        with cute.while_(lambda: tile.get() < tiles):
            now = tile.get()
            out[now] = 1
            tile.set(ticket(count))


# -- values that were there earlier


@row(s32(1, 1, 1), (0,), (2,), "global-race")
@cute.kernel
def a_flag_that_is_set_and_reset(flag, own, x, last):
    """Who waits for 0 may go on at once."""
    cute.launch(grid=2, block=32)
    with cute.when(cute.thread_idx() == 0):
        with cute.when(cute.block_idx() == 0):
            cute.store_release(at(flag), 1)
            x[0] = 4
            cute.store_release(at(flag), last)
        with cute.otherwise():
            for _ in range(3):
                ticket(own)
            cute.wait_until(at(flag), "eq", last)
            x[0] = 5


@row(s32(1, 1, 1), (-1, 2), (1, 4), "global-race")
@cute.kernel
def a_sum_of_some(count, own, x, first, wanted):
    """Of first, 1 and 2: what block 1 adds may be enough."""
    cute.launch(grid=3, block=32)
    with cute.when(cute.thread_idx() == 0):
        with cute.when(cute.block_idx() == 0):
            cute.atomic("add", at(count), first)
            x[0] = 4
            cute.threadfence()
            cute.atomic("add", at(count), 1)
        with cute.when(cute.block_idx() == 1):
            cute.atomic("add", at(count), 2)
        with cute.when(cute.block_idx() == 2):
            for _ in range(5):
                ticket(own)
            cute.wait_until(at(count), "eq", wanted)
            x[0] = 5


@row(s32(2), (0,), (1,), "global-race")
@cute.kernel
def the_second_warp_first(x, stride):
    """In both blocks: neither sees the counter of the other."""
    cute.launch(grid=2, block=64)
    count = cute.smem("s32", 1)
    with cute.when(cute.thread_idx() == 0):
        count[0] = 0
    cute.syncthreads()
    with cute.when(cute.thread_idx() % 32 == 0):
        mine = ticket(count)
        with cute.when((mine == 0) & (cute.warp_idx() == 1)):
            x[stride * cute.block_idx()] += 1


@row(s32(1, 1, 1), ("lt", 2), ("eq", 1), "global-race")
@cute.kernel
def a_count_that_is_reset(count, own, x, test, value):
    """A plain store sets back what was added: 0, 5, 0 and 1 are below 2, but for one."""
    cute.launch(grid=1, block=64)
    with cute.when(cute.thread_idx() == 0):
        cute.atomic("add", at(count), 5)
        count[0] = 0
    cute.syncthreads()
    with cute.when(cute.thread_idx() == 0):
        x[0] = 1
        cute.threadfence()
        cute.atomic("add", at(count), 1)
    with cute.when(cute.thread_idx() == 32):
        for _ in range(5):
            ticket(own)
        cute.wait_until(at(count), test, value)
        x[0] = 2


@row(s32(1, 1, 1), (True,), (False,), "global-race")
@cute.kernel
def a_plain_store_to_a_flag(flag, own, out, reads):
    """It knows of the release, not of another one that may still look."""
    cute.launch(grid=3, block=32, resident=True)
    b = cute.block_idx()
    with cute.when(cute.thread_idx() == 0):
        with cute.when(b == 0):
            cute.store_release(at(flag), 1)
        with cute.when((b == 1) & reads):
            out[0] = cute.as_int(cute.load_acquire(at(flag)))
        with cute.when(b == 2):
            for _ in range(3):
                ticket(own)
            cute.wait_until(at(flag), "ge", 1)
            flag[0] = 7


@row(s32(1, 1, 1, 1), (0,), (1,), "global-race")
@cute.kernel
def a_sum_that_finds_nothing(count, other, x, out, wanted):
    """An atomic without its old value acquires nothing, whatever fence follows."""
    cute.launch(grid=2, block=32, resident=True)
    with cute.when(cute.thread_idx() == 0):
        with cute.when(cute.block_idx() == 0):
            x[0] = 1
            cute.threadfence()
            cute.atomic("add", at(count), 1)
            cute.store_release(at(other), 1)
        with cute.otherwise():
            cute.wait_until(at(other), "ge", wanted)
            cute.atomic("add", at(count), 1)
            cute.threadfence()
            out[0] = x[0]


@row(lambda: (np.array([2**32 - 1, 0], np.uint32), np.zeros(8, np.int32)), (0,), (1,), "bounds")
@cute.kernel
def a_carry(x, out, room):
    """A word and the two of which it is one are added to: 1 is carried, or not."""
    cute.launch(grid=1, block=64)
    wide, t = cute.recast(x, "u64"), cute.thread_idx()
    with cute.when(t == 0):
        cute.atomic("add", at(x), 1)
    with cute.when(t == 32):
        cute.atomic("add", at(wide), 1)
    cute.syncthreads()
    with cute.when(t == 0):
        out[room - cute.as_int(x[1])] = 1


# -- loops


@row(s32(1, 1, 1), (True,), (False,), "global-race")
@cute.kernel
def a_loop_that_looks_at_two(a, b, x, late):
    """Broken, x is stored to after both flags."""
    cute.launch(grid=1, block=64)
    with cute.when(cute.thread_idx() == 0):
        found = cute.var(0)
        with cute.while_(lambda: found.get() < 2):
            first = cute.as_int(cute.load_acquire(at(a)))
            found.set(first + cute.as_int(cute.load_acquire(at(b))))
        x[0] = 1
    with cute.when(cute.thread_idx() == 32):
        if not late:
            x[0] = 2
        cute.store_release(at(a), 1)
        cute.store_release(at(b), 1)
        if late:
            x[0] = 2


@row(s32(1), (2,), (1,), "deadlock")
@cute.kernel
def a_loop_that_adds(count, taken):
    """What the loop adds until it has found 1 is what the other one waits for."""
    cute.launch(grid=1, block=64)
    with cute.when(cute.thread_idx() == 0):
        found = cute.var(0)
        with cute.while_(lambda: found.get() < 1):
            found.set(ticket(count))
    with cute.when(cute.thread_idx() == 32):
        for _ in range(2):
            cute.atomic("add", at(count), -taken)
            cute.wait_until(at(count), "ge", 0)
