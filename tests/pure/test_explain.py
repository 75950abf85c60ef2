"""The derivation of a layout and of a refusal, as text."""

import copy
import pickle

import pytest

import cute_py as cute
from cute_py import Layout


def test_composition_is_told_digit_by_digit():
    told = cute.explain("composition", Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
    assert told.splitlines()[0].endswith("= ((2,2),3):((24,2),8)")
    assert "steps of 3 cross digit 0 (extent 6) in runs of 2; then digit 1 -> (2,2):(24,2)" in told
    assert "digit 0 is used up to 3+2 of 5, so the modes add up" in told


def test_a_refused_composition_shows_the_table_up_to_the_witness():
    told = cute.explain(cute.composition, Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    rows = {
        line.split()[0]: line.split()[1:] for line in told.splitlines() if line.startswith("  ")
    }
    assert rows["b(c)"] == ["0", "2", "4", "3", "5", "7"]
    assert rows["a(b(c))"][-1] == "8"
    assert rows["fits"][-1] == "7"
    assert told.splitlines()[-1].startswith("refused: composition: given a=(6,2):(1,7)")


def test_a_caught_error_is_explained_with_its_operands():
    with pytest.raises(cute.LayoutError) as caught:
        cute.complement(Layout((4, 2), (1, 2)))
    told = cute.explain(caught.value)
    assert "4 offsets are filled, past stride 2: the modes overlap" in told
    assert told.splitlines()[-1] == f"refused: {caught.value}"


def test_why_follows_the_operands_back_to_what_was_given():
    tile = cute.flatten(Layout((2, (2, 3))))
    told = cute.coalesce(cute.group_modes(tile, 0, 2)).why()
    names = [line.strip().split("(")[0] for line in told.splitlines() if " = " in line]
    assert names == ["coalesce", "group_modes", "flatten"]
    assert Layout(4, 2).why() == "4:2 is given"


def test_provenance_is_no_part_of_equality_hash_pickle_or_copy():
    made, given = cute.coalesce(Layout((2, 4))), Layout(8, 1)
    assert made == given
    assert hash(made) == hash(given)
    assert made.why() != given.why()
    assert pickle.loads(pickle.dumps(made)).why() == given.why()
    assert copy.deepcopy(made) == given


def test_long_histories_are_cut():
    layout = Layout((2, 3))
    for _ in range(500):
        layout = cute.flatten(layout)
    assert layout.why().count("flatten") <= 33


def test_every_operation_has_steps_or_a_definition():
    from cute_py.layout.algebra.explain import DEFINITIONS, STEPS

    a, b = Layout((4, 6)), Layout(2, 1)
    for name in (*STEPS, *DEFINITIONS):
        assert callable(getattr(cute, name)), name
    for name in ("zipped_divide", "logical_product", "blocked_product", "right_inverse"):
        told = cute.explain(name, *((a,) if name == "right_inverse" else (a, b)))
        assert len(told.splitlines()) > 1, name


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(cute.LeafTypeError, match="an operation of cute_py with its operands"):
        cute.explain(42)


def test_explain_says_what_was_not_known_of_symbols():
    ld = cute.sym("ld")
    layout = Layout((8, 8), (ld, 1))
    for told in (
        cute.explain("right_inverse", layout),
        cute.explain("max_common_layout", layout, layout),
    ):
        assert "stride 1 is mode 1: offsets up to 7 are reached" in told
        assert "it is not known whether stride ld of mode 0 is 8" in told
