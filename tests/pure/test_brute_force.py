"""A few thousand random operands of each operation against the brute-force model: none wrong, none
refused without need. tests/slow runs the same judges on hundreds of thousands.
"""

import random

import pytest

import cute_py as cute
from tests import judges, model
from tests.judges import (
    NEEDLESS,
    POWER_STRIDES,
    POWERS,
    REFUSED,
    RIGHT,
    WRONG,
    any_layout,
    count,
    mixed_layout,
    nested,
)

PAIRS = 2_000


def general_pairs(rng, n, negative=0.0):
    """Yield pairs of the kind on which other implementations were measured: rank 1-3 and 1-2."""
    for _ in range(n):
        a = any_layout(rng, rng.randint(1, 3), negative=negative)
        b = any_layout(rng, rng.randint(1, 2), negative=negative)
        yield nested(rng, a), nested(rng, b)


def power_pairs(rng, n):
    for _ in range(n):
        a = any_layout(rng, rng.randint(1, 3), POWERS, POWER_STRIDES)
        b = any_layout(rng, rng.randint(1, 3), POWERS, POWER_STRIDES)
        yield nested(rng, a), nested(rng, b)


def past_the_end_pairs(rng, n):
    """Yield pairs in which b mostly reaches far past a."""
    for _ in range(n):
        a = any_layout(rng, rng.randint(1, 2), (1, 2, 3, 4))
        b = any_layout(rng, rng.randint(1, 3), strides=(0, 1, 5, 24, 96, 100))
        yield a, nested(rng, b)


def inside_pairs(rng, n):
    """Yield pairs in which b stays in a: strides are products of a's extents."""
    for _ in range(n):
        a = any_layout(rng, rng.randint(2, 4))
        steps = [1]
        for extent, _ in model.modes(a):
            steps.append(steps[-1] * extent)
        yield a, any_layout(rng, rng.randint(1, 2), (1, 2, 3, 4), [*steps[:-1], 0])


def unary(rng, n):
    for _ in range(n):
        yield (mixed_layout(rng),)


def with_target(rng, n):
    for _ in range(n):
        yield mixed_layout(rng), rng.choice((None, 1, 24, 64, rng.randint(1, 300)))


def with_tiler(rng, n):
    for _ in range(n):
        yield mixed_layout(rng), mixed_layout(rng, 2)


@pytest.mark.parametrize("pairs", [general_pairs, power_pairs, past_the_end_pairs, inside_pairs])
def test_composition_is_exact_or_rightly_refused(pairs):
    verdicts = count(judges.judge_composition, pairs(random.Random(1), PAIRS))
    assert verdicts[RIGHT] > PAIRS / 5
    assert verdicts[REFUSED] > PAIRS / 100


def test_composition_is_exact_or_rightly_refused_with_negative_strides():
    verdicts = count(judges.judge_composition, general_pairs(random.Random(2), PAIRS, 0.3))
    assert verdicts[RIGHT] > PAIRS / 2


@pytest.mark.parametrize(
    ("judge", "operands"),
    [
        (judges.judge_complement, with_target),
        (judges.judge_left_inverse, unary),
        (judges.judge_divide, with_tiler),
        (judges.judge_product, with_tiler),
    ],
)
def test_operation_is_right_or_rightly_refused(judge, operands):
    verdicts = count(judge, operands(random.Random(3), PAIRS))
    assert verdicts[RIGHT] > PAIRS / 3
    assert verdicts[REFUSED] > PAIRS / 20


def test_right_inverse_is_right_and_maximal():
    verdicts = count(judges.judge_right_inverse, unary(random.Random(4), PAIRS))
    assert verdicts == {RIGHT: PAIRS}


# -- the judges judge


def answering(monkeypatch, name, answer):
    """Let cute_py's operation `name` give `answer`, or refuse where it is None."""

    def operation(*_operands):
        if answer is None:
            raise cute.LayoutError("refused")
        return answer

    monkeypatch.setattr(cute, name, operation)


@pytest.mark.parametrize(
    ("name", "judge", "operands", "false_answer"),
    [
        # what CuTe C++ answers, cutlass issue 3177
        (
            "composition",
            judges.judge_composition,
            (cute.Layout((4, 6, 8), (2, 3, 5)), cute.Layout(6, 3)),
            cute.Layout((2, 3), (6, 3)),
        ),
        # right offsets, but the shape does not refine that of b
        (
            "composition",
            judges.judge_composition,
            (cute.Layout(8), cute.Layout((2, 3), (1, 2))),
            cute.Layout(6),
        ),
        ("complement", judges.judge_complement, (cute.Layout(4, 2), 16), cute.Layout(4, 2)),
        ("complement", judges.judge_complement, (cute.Layout(4, 2), 16), cute.Layout(2, 1)),
        ("right_inverse", judges.judge_right_inverse, (cute.Layout(4),), cute.Layout(2)),
        ("left_inverse", judges.judge_left_inverse, (cute.Layout(4, 2),), cute.Layout(8)),
        (
            "logical_divide",
            judges.judge_divide,
            (cute.Layout(8), cute.Layout(2)),
            cute.Layout((2, 4), (4, 1)),
        ),
        (
            "logical_product",
            judges.judge_product,
            (cute.Layout(2), cute.Layout(4)),
            cute.Layout((2, 4), (1, 1)),
        ),
    ],
)
def test_judge_finds_the_false_answer(monkeypatch, name, judge, operands, false_answer):
    assert judge(*operands) in (RIGHT, REFUSED)
    answering(monkeypatch, name, false_answer)
    assert judge(*operands) == WRONG


@pytest.mark.parametrize(
    ("name", "judge", "operands"),
    [
        ("composition", judges.judge_composition, (cute.Layout(8), cute.Layout(2, 3))),
        ("complement", judges.judge_complement, (cute.Layout(4, 2), 16)),
        ("left_inverse", judges.judge_left_inverse, (cute.Layout(4, 2),)),
        ("logical_divide", judges.judge_divide, (cute.Layout(8), cute.Layout(2))),
        ("logical_product", judges.judge_product, (cute.Layout(2), cute.Layout(4))),
    ],
)
def test_judge_finds_the_needless_refusal(monkeypatch, name, judge, operands):
    answering(monkeypatch, name, None)
    assert judge(*operands) == NEEDLESS


def test_fit_is_the_inverse_of_table():
    rng = random.Random(5)
    for _ in range(PAIRS):
        layout = mixed_layout(rng)
        fitted = model.fit(model.table(layout))
        assert model.sums(fitted) == model.table(layout)
        assert len(fitted) <= len(model.modes(layout))
    assert model.fit([0, 1, 2, 4]) == (3, 4, 3)
    assert model.fit([0, 1, 5, 6, 11, 12]) == (4, 11, 10)
