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
    assert (
        layout.why().splitlines()[-1].strip() == "(2,3):(1,2) is derived, too: 32 steps are shown"
    )


def test_every_operation_has_steps_or_a_definition():
    from cute_py.layout.algebra.explain import STEPS

    a, b = Layout((4, 6)), Layout(2, 1)
    one = ("flatten", "coalesce", "filter", "left_inverse", "nullspace", "right_inverse", "zip_")
    two = ("blocked_product", "flat_divide", "logical_divide", "logical_product", "append")
    for name in (*STEPS, *one, *two, "max_common_layout", "raked_product", "zipped_divide"):
        told = cute.explain(name, *((a,) if name in one else (a, b)))
        assert len(told.splitlines()) > 1, name


LD = cute.sym("ld", multiple_of=8)


@pytest.mark.parametrize(
    ("name", "operands", "assumption"),
    [
        ("right_inverse", (Layout((8, 8), (LD, 1)),), "ld == 8"),
        ("right_inverse", (Layout((4, 2, 8), (1, LD, 4)),), "ld == 32"),
        ("max_common_layout", (Layout((8, 8), (LD, 1)), Layout((8, 8), (8, 1))), "ld == 8"),
        ("max_common_vector", (Layout((8, 8), (8, 1)), Layout((8, 8), (LD, 1))), "ld == 8"),
    ],
)
def test_the_assumption_that_would_give_more_is_told_and_does(name, operands, assumption):
    told = cute.explain(name, *operands)
    assert f"not known: {assumption}, which would give more" in told
    value = {"ld": int(assumption.split()[-1])}
    more = getattr(cute, name)(*[cute.substitute(x, value) for x in operands])
    assert cute.size(more) > cute.size(getattr(cute, name)(*operands))


def test_operations_on_symbols_are_told_and_open_questions_named():
    told = cute.explain("left_inverse", Layout((4, 8), (1, cute.sym("ld"))))
    assert "refused: left_inverse" in told.splitlines()[-1]
    assert "ld >= 4" in told
    told = cute.explain("composition", Layout((6, LD), (1, 7)), Layout((3, LD), (1, 3)))
    assert "mode 0 of b, 3:1: steps of 1 stay inside digit 0 (extent 6) -> 3:1" in told
    assert "carries: digit 0 is used up to 2+3 of 5, so the modes add up" in told


def test_an_operand_that_occurs_twice_is_derived_once():
    layout = Layout((2, 2))
    for _ in range(40):
        layout = cute.flatten(cute.make_layout(cute.composition(layout, layout))[0])
    assert len(layout.why().splitlines()) < 500


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(cute.LeafTypeError, match="an operation of cute_py with its operands"):
        cute.explain(42)


def test_a_history_of_many_steps_is_kept_and_freed():
    layout = Layout((2, 3))
    for _ in range(20_000):
        layout = cute.flatten(layout)
    steps, each = 0, layout
    while each._why is not None:
        steps, each = steps + 1, each._why[1][0]
    assert steps == 20_000
    del layout, each


def test_explain_says_what_was_not_known_of_symbols():
    ld = cute.sym("ld")
    layout = Layout((8, 8), (ld, 1))
    for told in (
        cute.explain("right_inverse", layout),
        cute.explain("max_common_layout", layout, layout),
    ):
        assert "the mode 8:1 goes on: offsets below 8 are reached" in told
        assert "not known: ld == 8" in told


def test_a_public_operation_takes_names_and_records_its_operands():
    layout = Layout((8, 6))
    named = cute.zipped_divide(layout=layout, tiler=(4, 3))
    assert named == cute.zipped_divide(layout, (4, 3))
    assert named.why().startswith("zipped_divide((8,6):(1,8), (4,3)) = ((4,3),(2,2))")
    block = Layout((2, 2))
    tiled = cute.tile_to_shape(block=block, shape=(4, 6), order=(2, 1))
    assert tiled.why().startswith("tile_to_shape((2,2):(1,2), (4,6), (2,1)) = ")
    with pytest.raises(TypeError, match="missing a required argument: 'tiler'"):
        cute.zipped_divide(layout=layout)
    with pytest.raises(TypeError, match=r"zipped_divide\(\) missing 1 required"):
        cute.zipped_divide(layout)


def test_a_refusal_inside_an_operation_names_its_call_and_an_own_one_does_not():
    with pytest.raises(cute.LayoutError, match=r"^zipped_divide\(.*:\(1,1\),2\)\): complement: "):
        cute.zipped_divide(Layout((8, 6)), (Layout((2, 2), (1, 1)), 2))
    with pytest.raises(cute.LayoutError, match=r"^logical_divide: given a tiler of 3 modes"):
        cute.logical_divide(Layout((8, 6)), (2, 2, 2))
    with pytest.raises(cute.LeafTypeError, match=r"^zipped_divide: given 5"):
        cute.zipped_divide(5, 2)


def test_an_operation_that_returns_its_operand_leaves_its_history():
    layout = cute.flatten(Layout((2, (3, 4))))
    assert cute.logical_divide(layout, None) is layout
    assert layout.why().startswith("flatten")
