"""Lanes that run apart and come together, against a plain model, on random kernels of two warps.

A kernel is a list of branches: what the lanes of a mask do, and what the others do meanwhile. They
read, write and add to elements of shared memory, set flags and wait for them, arrive at mbarriers
and wait for a phase of these, though who sets, or arrives, may be a lane of the same warp, in the
other branch or further down; at syncwarp, and at an instruction of a whole warp, they meet again.
The model runs each lane alone, as far as it comes, and keeps what it knows of all others. It says
`race` where nothing orders two accesses, `phase` where a wait may be for another phase, `stuck`
where lanes wait for ever, and else what each lane holds at the end. The emulator must say the same,
in whatever order it runs.
"""

from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cute_py as cute
from cute_py.emulate.clocks import Clocks
from cute_py.emulate.phases import Phases
from cute_py.emulate.releases import Releases
from cute_py.emulate.shadow import Shadow
from cute_py.plan import ops
from tests.sampling import fewer

LANES, WARP = 64, 32
T = np.arange(LANES)
ORDERS = ("forward", "reversed", 0, 1)
CODES = {
    "race": "emulate-race",
    "stuck": "emulate-deadlock",
    "phase": "emulate-mbarrier-phase",
}
MASKS = {
    "all": lambda t: t >= 0,
    "first warp": lambda t: t < 32,
    "half": lambda t: t % 32 < 16,
    "one and a half": lambda t: t < 48,
    "half of one": lambda t: t < 16,
    "odd": lambda t: t % 2 > 0,
    "one": lambda t: t < 1,
    "another": lambda t: (t >= 9) & (t < 10),
    "one above": lambda t: (t >= 40) & (t < 41),
}
PLACES = {
    "own": lambda t: t,
    "swapped": lambda t: t + 1 - t % 2 * 2,
    "other half": lambda t: t // 32 * 32 + (t + 16) % 32,
    "other warp": lambda t: (t + 32) % 64,
    "one": lambda t: t * 0,
}
WHOLE = ("shuffle", "redux", "vote", "inline")  # by whole warps


@dataclass(frozen=True)
class Step:
    """What a lane does: at a place, or with the flag, mbarrier or phase of these numbers."""

    kind: str
    place: str = "own"
    number: int = 0
    phase: int = 0


@dataclass(frozen=True)
class Branch:
    """What the lanes of a mask do, and the others."""

    mask: str
    steps: tuple
    others: tuple = ()

    @property
    def first(self):
        """The first lane of the mask."""
        return int(T[MASKS[self.mask](T)][0])


# -- the model


def swapped(values):
    """Return the values of the lanes next to each: the emulation of `inline`, and its model."""
    return values[..., np.arange(values.shape[-1]) ^ 1]


def of_a_warp(kind, number, values):
    """Return what an instruction gives each lane of a warp."""
    if kind == "shuffle":
        return values[np.arange(WARP) ^ (1 << number % 5)]
    if kind == "redux":
        return np.full(WARP, values.sum(dtype=np.uint32))
    if kind == "vote":
        return values + np.uint32((values % 7 == 3).any())
    return swapped(values)


class Model:
    """Each lane's place, what it holds, and how many events of each lane it knows."""

    def __init__(self, program):
        self.todo = [[*steps_of(program, lane)] for lane in T]
        self.known = np.zeros((LANES, LANES), np.int64)
        self.held = 100 + T.astype(np.uint32)
        self.memory = T.astype(np.uint32)
        self.touched = [[] for _ in T]
        self.flags, self.phases, self.arrived, self.waited = {}, {}, {}, []
        self.counts = counts_of(program)
        self.faults = set()
        while any([self.goes(lane) for lane in T]) or self.meets():  # noqa: C419  # each lane
            pass
        if any(self.todo):
            self.faults.add("stuck")

    def goes(self, lane):
        """Run a lane as far as it comes alone; return whether it came further."""
        moved = False
        while self.todo[lane] and self.takes(lane, self.todo[lane][0][1]):
            self.todo[lane].pop(0)
            self.known[lane, lane] += 1
            moved = True
        return moved

    def takes(self, lane, step):
        """Take a step; return False if the lane must wait."""
        kind, known = step.kind, self.known[lane]
        if kind in ("read", "write", "add"):
            self.touch(lane, kind, PLACES[step.place](lane))
        elif kind == "release":
            self.flags[step.number] = known.copy()
        elif kind == "wait":
            if step.number not in self.flags:
                return False
            np.maximum(known, self.flags[step.number], out=known)
        elif kind == "arrive":
            self.arrives(lane, step)
        elif kind == "await":
            return self.awaits(lane, step)
        else:
            return False
        return True

    def touch(self, lane, kind, element):
        for other, theirs, number in self.touched[element]:
            alike = kind == theirs and kind != "write"
            if other != lane and not alike and self.known[lane, other] < number:
                self.faults.add("race")
        self.touched[element].append((lane, kind, self.known[lane, lane] + 1))
        if kind == "read":
            self.held[lane] = self.held[lane] * np.uint32(5) + self.memory[element]
        elif kind == "write":
            self.memory[element] = self.held[lane]
        else:
            self.memory[element] += np.uint32(1)

    def arrives(self, lane, step):
        done = self.phases.setdefault(step.number, [])
        here = self.arrived.setdefault(step.number, [])
        if done and (self.known[lane] < done[-1]).any():
            self.faults.add("phase")
        here.append(self.known[lane].copy())
        if len(here) == self.counts[step.number]:
            told = np.max(here, axis=0)
            early = [x for x in self.waited if x[:2] == (step.number, len(done) - 1)]
            if any(told[who] < number for _, _, who, number in early):
                self.faults.add("phase")
            done.append(told)
            self.arrived[step.number] = []

    def awaits(self, lane, step):
        done, known = self.phases.get(step.number, []), self.known[lane]
        if len(done) <= step.phase:
            return False
        late = len(done) > step.phase + 1
        if late or (step.phase and (known < done[step.phase - 1]).any()):
            self.faults.add("phase")
        np.maximum(known, done[step.phase], out=known)
        self.waited.append((step.number, step.phase, lane, known[lane] + 1))
        return True

    def meets(self):
        """Let a warp, or the block, go on where all of its lanes are; return whether one did."""
        groups = [(T[:WARP], WHOLE), (T[WARP:], WHOLE), (T[:WARP], ("syncwarp",))]
        groups += [(T[WARP:], ("syncwarp",)), (T, ("syncthreads",))]
        for lanes, kinds in groups:
            lanes = [lane for lane in lanes if self.todo[lane]]
            fronts = [self.todo[lane][0] for lane in lanes]
            if not fronts or any(step.kind not in kinds for _, step in fronts):
                continue
            step = fronts[0][1]
            if kinds is WHOLE and (len(set(fronts)) > 1 or len(lanes) < WARP):
                continue
            if kinds is WHOLE:
                self.held[lanes] = of_a_warp(step.kind, step.number, self.held[lanes])
            else:
                self.known[lanes] = self.known[lanes].max(0)
            for lane in lanes:
                self.todo[lane].pop(0)
                self.known[lane, lane] += 1
            return True
        return False


def steps_of(program, lane):
    """Yield (where, step) of what a lane does."""
    for place, branch in enumerate(program):
        inside = MASKS[branch.mask](lane)
        for k, step in enumerate(branch.steps if inside else branch.others):
            if step.kind != "release" or lane == branch.first:
                yield (place, bool(inside), k), step


def counts_of(program):
    """Return how many lanes arrive in each phase of each mbarrier."""
    return {
        step.number: int(MASKS[branch.mask](T).sum())
        for branch in program
        for step in branch.steps
        if step.kind == "arrive"
    }


# -- the kernel


def kernel_of(program):
    counts = counts_of(program)

    @cute.kernel
    def run(flags, out):
        cute.launch(grid=1, block=LANES)
        t, s, held = cute.thread_idx(), cute.smem("u32", LANES), cute.rmem("u32", 1)
        bars = {number: cute.mbarriers(1) for number in counts}
        s[t] = cute.where(t >= 0, t, 0).to("u32")
        held[0] = cute.where(t >= 0, t + 100, 0).to("u32")
        with cute.when(t == 0):
            for number, count in counts.items():
                bars[number].init(count)
        cute.syncthreads()
        for branch in program:
            record(branch, flags, s, bars, held, t)
        out[t] = held[0]

    return run


def record(branch, flags, s, bars, held, t):
    """Record a branch; what all lanes do stands in none."""

    def body(steps):
        for step in steps:
            if step.kind == "release":
                with cute.when(t == branch.first):
                    take(step, flags, s, bars, held, t)
            else:
                take(step, flags, s, bars, held, t)

    if branch.mask == "all":
        body(branch.steps)
        return
    with cute.when(MASKS[branch.mask](t)):
        body(branch.steps)
    if branch.others:
        with cute.otherwise():
            body(branch.others)


def take(step, flags, s, bars, held, t):
    """Record a step."""
    place, flag = PLACES[step.place](t), cute.local_tile(flags, (1,), (step.number,))
    if step.kind == "read":
        held[0] = held[0] * 5 + s[place]
    elif step.kind == "write":
        s[place] = held[0]
    elif step.kind == "add":
        cute.atomic("add", cute.local_tile(s, (1,), (place,)), 1)
    elif step.kind == "release":
        cute.store_release(flag, 1)
    elif step.kind == "wait":
        cute.wait_until(flag, "eq", 1)
    elif step.kind == "arrive":
        bars[step.number].arrive(0)
    elif step.kind == "await":
        bars[step.number].wait(0, step.phase % 2)
    elif step.kind in ("syncwarp", "syncthreads"):
        getattr(cute, step.kind)()
    elif step.kind == "shuffle":
        held[0] = cute.shuffle(held, 1 << step.number % 5, "bfly")[0]
    elif step.kind == "redux":
        held[0] = cute.redux("add", held)[0]
    elif step.kind == "vote":
        held[0] = held[0] + cute.where(cute.vote("any", held[0] % 7 == 3)[0], 1, 0).to("u32")
    else:
        text = "shfl.sync.bfly.b32 %0, %1, 1, 31, -1;"
        held[0] = cute.inline_ptx(text, "u32", held, emulate=swapped)[0]


# -- programs


def touches(most, kinds=("read", "write", "add")):
    """Draw accesses; of one element by all lanes only such that do not conflict among them."""
    places = {"read": sorted(PLACES), "write": sorted(set(PLACES) - {"one"}), "add": ["one", "own"]}
    one = st.sampled_from(kinds).flatmap(
        lambda kind: st.sampled_from(places[kind]).map(lambda place: Step(kind, place))
    )
    return st.lists(one, max_size=most).map(tuple)


@st.composite
def programs(draw):
    """Draw branches. A flag is set by one lane, before or after the waits for it; a phase of an
    mbarrier has one branch that arrives, and waits before or after it.
    """
    masks, program = sorted(MASKS), []
    arriving, phases = [draw(st.sampled_from(masks)) for _ in range(2)], [0, 0]
    flags = draw(st.permutations(range(3)))
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=2, max_size=8)):
        mask, number = draw(st.sampled_from(masks)), draw(st.integers(0, 1))
        before, after = draw(touches(1)), draw(touches(2))
        if kind in (*WHOLE, "syncwarp"):
            mask = draw(st.sampled_from(("all", "all", "first warp")))
            program.append(Branch(mask, (*before, Step(kind, number=draw(st.integers(0, 4))))))
        elif kind == "syncthreads":
            program.append(Branch("all", (*before, Step(kind))))
        elif kind == "in both":
            meet = (Step("syncwarp"),)
            mask = draw(st.sampled_from(("half", "odd", "first warp")))
            others = draw(touches(1)) + meet + draw(touches(1))
            program.append(Branch(mask, before + meet + after, others))
        elif kind == "touch":
            program.append(Branch(mask, before + after, draw(touches(1)) if mask != "all" else ()))
        elif kind == "release" and flags:
            program.append(Branch(mask, (*before, Step("release", number=flags.pop()))))
        elif kind == "wait":
            program.append(Branch(mask, (Step("wait", number=draw(st.integers(0, 2))), *after)))
        elif kind == "arrive":
            step = Step("arrive", number=number)
            program.append(Branch(arriving[number], (*before, step)))
            phases[number] += 1
        elif kind == "await":
            step = Step("await", number=number, phase=draw(st.integers(0, phases[number])))
            program.append(Branch(mask, (step, *after)))
    set_ = {step.number for branch in program for step in branch.steps if step.kind == "release"}
    return tuple(branch for branch in program if usable(branch, set_, phases))


KINDS = (*WHOLE, "syncwarp", "syncthreads", "in both", "touch")
KINDS += ("release", "release", "wait", "wait", "arrive", "arrive", "await", "await")


def usable(branch, flags, phases):
    """Return whether the flag, or the phase, that a branch waits for comes at all."""
    return all(
        (step.kind != "wait" or step.number in flags)
        and (step.kind != "await" or step.phase < phases[step.number])
        for step in branch.steps
    )


# -- the comparison


def told(program, order):
    """Return the code of the emulator's refusal, or what the lanes hold."""
    flags, out = np.zeros(3, np.int32), np.zeros(LANES, np.uint32)
    try:
        cute.emulate(cute.trace(kernel_of(program), flags, out), flags, out, order=order)
    except cute.EmulationError as error:
        return error.code
    return out.tolist()


def agrees(program, orders=ORDERS):
    """Return whether the emulator says what the model says."""
    model = Model(program)
    found = [told(program, order) for order in orders]
    if model.faults:
        return {*map(str, found)} <= {CODES[fault] for fault in model.faults}
    return all(each == model.held.tolist() for each in found)


APART = Branch("one", (Step("wait"),)), Branch("another", (Step("release"),))
# what is planted -> a program that shows it
PLANTED = {
    **{
        f"{step} is of a lane": (
            patch.object(*to, "thread"),
            (*APART, Branch("all", (Step(step),))),
        )
        for step, to in {
            "inline": (ops.InlinePtx, "group"),
            "redux": (ops.Redux, "together"),
            "vote": (ops.Vote, "together"),
            "shuffle": (ops.Shuffle, "together"),
        }.items()
    },
    "syncwarp orders nothing": (
        patch.object(Clocks, "meet_warps", lambda *_: None),
        (Branch("all", (Step("write"), Step("syncwarp"), Step("read", "swapped"))),),
    ),
    "a wait for an mbarrier orders nothing": (
        patch.object(Clocks, "acquire", lambda *_: None),
        (
            Branch("one above", (Step("await"), Step("read", "one"))),
            Branch("first warp", (Step("write"), Step("arrive"))),
        ),
    ),
    "a wait for a flag orders nothing": (
        patch.object(Releases, "acquire", lambda *_: None),
        (
            Branch("one above", (Step("wait"), Step("read", "one"))),
            Branch("one", (Step("write"), Step("release"))),
        ),
    ),
    "a lane may miss a phase": (
        patch.object(Phases, "_follows", lambda *_: True),
        (Branch("all", (Step("arrive"), Step("arrive"))),),
    ),
    "reads are forgotten": (
        patch.object(Shadow, "_remember", lambda *_: None),
        (Branch("all", (Step("read", "swapped"), Step("shuffle"), Step("write"))),),
    ),
}
IN_BOTH = Branch(
    "half",
    (Step("write"), Step("syncwarp"), Step("read", "other half")),
    (Step("write"), Step("syncwarp"), Step("read", "other half")),
)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_noticed(name):
    planted, program = PLANTED[name]
    assert agrees(program)
    with planted:
        assert not agrees(program, ("forward",))


def met_before(mask):
    """A warp that is whole in a branch of some goes on to what the other one waits for."""
    met = Branch(mask, (Step("syncwarp"),), (Step("syncwarp"),))
    return met, Branch("one", (Step("release"),)), Branch("half", (Step("wait"),))


@fewer(8)
@example((IN_BOTH,))
@example(met_before("first warp"))
@example(met_before("one and a half"))
@example((Branch("all", (Step("write"), Step("shuffle"), Step("read", "swapped"))),))
@given(programs())
def test_lanes_that_run_apart_agree_with_the_model(program):
    assert agrees(program, ("forward", 0))


@pytest.mark.slow
@given(programs())
def test_lanes_that_run_apart_agree_with_the_model_on_many_kernels(program):
    assert agrees(program)
