"""The promise in numbers: at least 100,000 random pairs for composition and 50,000 layouts for each
other operation against the brute-force model, 0 wrong and 0 refused without need. Prints counts.

    python -m pytest --slow -rP tests/slow
"""

import random

import pytest

from tests import judges, model
from tests.judges import (
    POWER_STRIDES,
    POWERS,
    REFUSED,
    RIGHT,
    any_layout,
    count,
    mixed_layout,
    nested,
)

pytestmark = pytest.mark.slow

SEED = 2026
COMPOSITIONS = 25_000  # of each of six kinds
LAYOUTS = 50_000


def report(what, verdicts):
    total = sum(verdicts.values())
    print(f"{what}: {total:,}, right {verdicts[RIGHT]:,}, rightly refused {verdicts[REFUSED]:,}")
    return total


# -- composition: general, powers of two, b past a, b inside of a, nested, some strides negative


def general(rng):
    return any_layout(rng, rng.randint(1, 3)), any_layout(rng, rng.randint(1, 2))


def powers_of_two(rng):
    a = any_layout(rng, rng.randint(1, 3), POWERS, POWER_STRIDES)
    return a, any_layout(rng, rng.randint(1, 3), POWERS, POWER_STRIDES)


def past_the_end(rng):
    a = any_layout(rng, rng.randint(1, 2), (1, 2, 3, 4))
    return a, any_layout(rng, rng.randint(1, 3), strides=(0, 1, 5, 24, 96, 100))


def inside(rng):
    a = any_layout(rng, rng.randint(2, 4))
    steps = [1]
    for extent, _ in model.modes(a):
        steps.append(steps[-1] * extent)
    return a, any_layout(rng, rng.randint(1, 2), (1, 2, 3, 4), [*steps[:-1], 0])


def nested_pairs(rng):
    a, b = any_layout(rng, rng.randint(2, 3)), any_layout(rng, 3, (1, 2, 3, 4, 6))
    return nested(rng, a), nested(rng, b)


def negative(rng):
    a = any_layout(rng, rng.randint(1, 3), negative=0.2)
    return a, any_layout(rng, rng.randint(1, 2), negative=0.4)


@pytest.mark.parametrize(
    "pair", [general, powers_of_two, past_the_end, inside, nested_pairs, negative]
)
def test_composition_is_exact_or_rightly_refused(pair):
    rng = random.Random(SEED)
    verdicts = count(judges.judge_composition, (pair(rng) for _ in range(COMPOSITIONS)))
    assert report(f"composition, {pair.__name__}", verdicts) == COMPOSITIONS


# -- the other operations


def with_target(rng):
    return mixed_layout(rng), rng.choice((None, 1, 24, 64, rng.randint(1, 300)))


def alone(rng):
    return (mixed_layout(rng, 4),)


def with_tiler(rng):
    return mixed_layout(rng), mixed_layout(rng, 2)


@pytest.mark.parametrize(
    ("judge", "operands"),
    [
        (judges.judge_complement, with_target),
        (judges.judge_right_inverse, alone),
        (judges.judge_left_inverse, alone),
        (judges.judge_divide, with_tiler),
        (judges.judge_product, with_tiler),
    ],
    ids=lambda each: each.__name__,
)
def test_operation_is_right_or_rightly_refused(judge, operands):
    rng = random.Random(SEED)
    verdicts = count(judge, (operands(rng) for _ in range(LAYOUTS)))
    assert report(judge.__name__.removeprefix("judge_"), verdicts) == LAYOUTS
