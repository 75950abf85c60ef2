"""Global memory against a plain model of happens-before, on random kernels of three blocks.

A kernel is a list of steps, each for the threads of one block, or of all, under a mask: they write
and read elements, meet, fence, hand a flag over and wait for it. Each flag is set once, before it
is waited for, so that no order deadlocks. The model keeps for each thread how many accesses of each
other one it knows. The emulator must refuse a kernel exactly where two accesses of one element, one
of them a write, are not ordered; in whatever order it runs. Stores of one step do not conflict if
they store a number, or the same element of an array that the kernel does not write, but do if they
store elements that are equal by chance. Lanes of one warp that store one value at once may read it.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import cute_py as cute

BLOCKS, THREADS = 3, 64
T = np.arange(THREADS)
ORDERS = ("forward", "reversed", 0, 1)
MASKS = {
    "all": lambda t: t >= 0,
    "first warp": lambda t: t < 32,
    "second warp": lambda t: t >= 32,
    "quarter": lambda t: t < 16,
    "one": lambda t: t < 1,
    "third": lambda t: (t >= 2) & (t < 3),
    "another": lambda t: (t >= 33) & (t < 34),
}
PLACES = {
    "own": lambda b, t: 64 * b + t,
    "reversed": lambda b, t: 64 * b + 63 - t,
    "in the warp": lambda b, t: 64 * b + t // 32 * 32 + 31 - t % 32,
    "of the next block": lambda b, t: 64 * ((b + 1) % 3) + t,
    "first": lambda b, t: t // 64,
}
KINDS = ("write", "read", "add", "syncthreads", "syncwarp", "release", "fence", "exchange", "wait")
# stores of equal bits: what is stored, and which element of y it is
EQUAL = {
    "number": lambda b, t: 0 * t,
    "element": lambda b, t: 0 * t,
    "of the block": lambda b, t: b + 0 * t,
    "of a pair": lambda b, t: t // 2,
    "of the thread": lambda b, t: t,
}
ACCESSES = ("write", "read", "add", *EQUAL)
EVERY = BLOCKS  # the block of a step that all blocks take


@dataclass(frozen=True)
class Step:
    """What the threads of a block do under a mask: at a place, or with a flag."""

    kind: str
    block: int
    mask: str = "all"
    place: str = "own"
    flag: int = 0


class Model:
    """What each thread knows of each thread's accesses, and all accesses of each element."""

    def __init__(self):
        n = BLOCKS * THREADS
        self.known, self.count = np.zeros((n, n), np.int64), np.zeros(n, np.int64)
        self.fences, self.flags = {}, {}
        self.touched, self.wrong, self.steps = {}, False, 0

    def run(self, step):
        """Take a step; `wrong` says whether it races."""
        blocks = range(BLOCKS) if step.block == EVERY else (step.block,)
        lanes = np.concatenate([T[MASKS[step.mask](T)] + THREADS * b for b in blocks])
        if step.kind in ACCESSES:
            b, t = lanes // THREADS, lanes % THREADS
            where, kind = PLACES[step.place](b, t), step.kind
            values = EQUAL[kind](b, t) if kind in EQUAL else -1 - lanes
            kind = "write" if kind in EQUAL else kind
            for row in zip(where.tolist(), lanes.tolist(), values.tolist(), strict=True):
                self.access(kind, *row)
            self.steps += 1
            for who in lanes:
                self.count[who] += 1
                self.known[who, who] = self.count[who]
        elif step.kind in ("syncthreads", "syncwarp"):
            size = THREADS if step.kind == "syncthreads" else 32
            first = THREADS * step.block
            for group in range(first, first + THREADS, size):
                self.known[group : group + size] = self.known[group : group + size].max(0)
        elif step.kind == "fence":
            self.fences |= {int(who): self.known[who].copy() for who in lanes}
        elif step.kind == "release":
            self.flags[step.flag] = self.known[lanes[0]].copy()
        elif step.kind == "exchange":
            self.flags[step.flag] = self.fences.get(int(lanes[0]), np.zeros_like(self.count))
        else:
            self.known[lanes] = np.maximum(self.known[lanes], self.flags[step.flag])

    def access(self, kind, element, who, value):
        """Judge and keep an access; `value`: what identifies a value that is stored."""
        before = self.touched.setdefault(element, [])
        own = {step for other, _, _, step, _ in before if other == who}
        for other, theirs, number, step, stored in before:
            conflict = "write" in (kind, theirs) or {kind, theirs} == {"read", "add"}
            if kind == theirs == "write":
                conflict = step != self.steps or value != stored
            elif kind == "read" and theirs == "write":
                conflict = step not in own or other // 32 != who // 32
            ordered = other == who or self.known[who, other] >= number
            self.wrong |= conflict and not ordered
        before.append((who, kind, int(self.count[who]) + 1, self.steps, value))


def kernel_of(steps):
    @cute.kernel
    def run(x, y, flags):
        cute.launch(grid=BLOCKS, block=THREADS, resident=True)
        b, t = cute.block_idx(), cute.thread_idx()
        for number, step in enumerate(steps):
            if step.block == EVERY:
                take(number, step, x, y, flags, b, t)
            else:
                with cute.when(b == step.block):
                    take(number, step, x, y, flags, step.block, t)

    return run


def take(number, step, x, y, flags, b, t):
    """Record a step; values differ from thread to thread and from step to step."""
    if step.kind == "syncthreads":
        cute.syncthreads()
    elif step.kind == "syncwarp":
        cute.syncwarp()
    else:
        with cute.when(MASKS[step.mask](t)):
            element = PLACES[step.place](b, t)
            flag = cute.local_tile(flags, (1,), (step.flag,))
            if step.kind == "write":
                x[element] = 1 + t + 64 * step.block + 256 * number
            elif step.kind == "number":
                x[element] = number
            elif step.kind in EQUAL:
                x[element] = 2 * y[EQUAL[step.kind](b, t)] + number
            elif step.kind == "read":
                held = cute.rmem("s32", 1)
                held[0] = x[element]
            elif step.kind == "add":
                cute.atomic("add", cute.local_tile(x, (1,), (element,)), 1 << 16)
            elif step.kind == "fence":
                cute.threadfence()
            elif step.kind == "release":
                cute.store_release(flag, 1)
            elif step.kind == "exchange":
                cute.atomic("exch", flag, 1)
            else:
                cute.wait_until(flag, "eq", 1)


@st.composite
def kernels(draw, least=3, most=9, equal=()):
    """Draw a list of steps; `equal`: the kinds of stores of equal bits among them."""
    steps, flags = [], 0
    for _ in range(draw(st.integers(least, most))):
        step = Step(
            draw(st.sampled_from((*KINDS, *equal))),
            draw(st.integers(0, BLOCKS - 1)),
            draw(st.sampled_from(sorted(MASKS))),
            draw(st.sampled_from(sorted(PLACES))),
        )
        if step.kind in (*EQUAL, "read") and draw(st.booleans()):
            step = replace(step, block=EVERY)
        elif step.kind in ("release", "exchange"):
            one = draw(st.sampled_from(("one", "another")))
            step, flags = replace(step, mask=one, flag=flags), flags + 1
        elif step.kind == "wait":
            assume(flags)
            step = replace(step, flag=draw(st.integers(0, flags - 1)))
        steps.append(step)
    return tuple(steps)


@st.composite
def chains(draw):
    """Draw a kernel of a right pattern: a block writes, meets, hands a flag to the next one, which
    waits, meets and reads; and the same with one of these steps left out, or none.
    """
    steps = []
    hands = draw(st.sampled_from(("release", "exchange")))
    for hop in range(draw(st.integers(1, 3))):
        writer, reader = hop % BLOCKS, (hop + 1) % BLOCKS
        place = "own" if hop % 2 == 0 else "reversed"
        steps.append(Step("write" if hop == 0 else "read", writer, place=place))
        steps.append(Step("syncthreads", writer))
        steps.append(Step("fence", writer, "one"))
        steps.append(Step(hands, writer, "one", flag=hop))
        steps.append(Step("wait", reader, draw(st.sampled_from(("one", "first warp"))), flag=hop))
        steps.append(Step("syncthreads", reader))
    last = (hop + 1) % BLOCKS
    place = draw(st.sampled_from(("own", "reversed")))
    steps.append(Step("write", last, place=place))
    shown = steps[0].block
    steps.append(Step("write", (shown - 1) % BLOCKS, place="of the next block"))
    out = draw(st.one_of(st.none(), st.integers(0, len(steps) - 1)))
    kept = [step for k, step in enumerate(steps) if k != out]
    set_ = {step.flag for step in kept if step.kind in ("release", "exchange")}
    return tuple(step for step in kept if step.kind != "wait" or step.flag in set_)


def code_of(plan, order, *args):
    """Run a plan; return the code of the refusal, or None."""
    try:
        cute.emulate(plan, *args, order=order)
    except cute.CuteError as error:
        return error.code
    return None


def judge(steps, orders=ORDERS):
    """Compare the verdict of the emulator with the model's; return whether the kernel is right."""
    model = Model()
    for step in steps:
        model.run(step)
    x, flags = np.zeros(192, np.int32), np.zeros(16, np.int32)
    y = np.full(THREADS, 7, np.int32)
    plan = cute.trace(kernel_of(steps), x, y, flags)
    for order in orders:
        x[:], flags[:] = 0, 0
        code = code_of(plan, order, x, y, flags)
        told = "emulate-global-race" if model.wrong else None
        assert code == told, order
    return not model.wrong


ATOMIC_AFTER_A_READ = (  # by the same thread: the read still conflicts with atomics of others
    Step("read", 0, place="in the warp"),
    Step("add", 0, place="in the warp"),
    Step("add", 0, place="first"),
)
READ_AFTER_AN_ATOMIC = (
    Step("add", 0, place="in the warp"),
    Step("read", 0, place="in the warp"),
    Step("read", 0, place="first"),
)


OTHER_LANES_LATER = (  # a read of one lane, then of another, in a later epoch of the warp
    Step("read", 0, "third", "first"),
    Step("fence", 0),
    Step("read", 0, "one", "first"),
    Step("release", 0, "third", flag=0),
    Step("wait", 0, "one", flag=0),
    Step("write", 0, "one", "first"),
)


@settings(max_examples=12)
@example(OTHER_LANES_LATER)
@example(OTHER_LANES_LATER[:4] + OTHER_LANES_LATER[5:])
@example(ATOMIC_AFTER_A_READ)
@example(READ_AFTER_AN_ATOMIC)
@given(kernels())
def test_random_kernels_are_refused_exactly_where_they_race(steps):
    judge(steps, ("forward", 0))


READ_BEFORE_ALL_STORE = (
    Step("read", 0, "one", "first"),
    Step("number", EVERY, "one", "first"),
)
READ_AFTER_ALL_STORED = READ_BEFORE_ALL_STORE[::-1]
ONE_STORES_MORE = (  # before: what all of the others store must be ordered after that
    Step("number", 0, "one", "first"),
    Step("number", EVERY, "one", "first"),
)
READ_BY_A_LANE_THAT_DID_NOT_STORE = (
    Step("element", 1, "quarter", "first"),
    Step("read", 1, "first warp", "first"),
)
STORED_TWICE_IN_TURN = (
    Step("number", 0, "one", "first"),
    Step("syncthreads", 0),
    Step("element", 0, "all", "first"),
    Step("syncthreads", 0),
    Step("number", 0, "all", "first"),
    Step("read", 0, "one", "first"),
)


@settings(max_examples=12)
@example(READ_BEFORE_ALL_STORE)
@example(READ_AFTER_ALL_STORED)
@example(ONE_STORES_MORE)
@example(READ_BY_A_LANE_THAT_DID_NOT_STORE)
@example(STORED_TWICE_IN_TURN)
@example(STORED_TWICE_IN_TURN[:-1])
@example((Step("of the block", EVERY, "all", "own"),))
@example((Step("of the block", EVERY, "all", "first"),))
@given(kernels(2, 7, (*EQUAL, *EQUAL)))
def test_stores_of_equal_bits_are_refused_exactly_where_they_may_differ(steps):
    judge(steps, ("reversed", 1))


@settings(max_examples=6)
@given(chains())
def test_a_chain_without_one_of_its_links_is_refused(steps):
    judge(steps, ("reversed", 1))


@pytest.mark.slow
@settings(max_examples=600)
@given(st.one_of(kernels(4, 14), kernels(3, 10, (*EQUAL, *EQUAL)), chains()))
def test_random_kernels_at_length(steps):
    judge(steps)


def is_right(steps):
    model = Model()
    for step in steps:
        model.run(step)
    return not model.wrong and any(step.kind in ACCESSES for step in steps)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.one_of(kernels(3, 7), kernels(2, 5, tuple(EQUAL)), chains()).filter(is_right))
def test_200_random_right_kernels_run_in_all_orders(steps):
    assert judge(steps)
