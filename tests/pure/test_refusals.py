"""The rows of tests/refusals: what is wrong is refused as docs/errors.md shows it, and told by what
was given, what is required and how to fix it; what is fixed is accepted.
"""

import re

import pytest

import cute_py as cute
from cute_py.errors import WORDINGS
from tests.kernel_refusals import marked_line, raised, require_teaching
from tests.refusals.rows import LAYERS, made, messages, rows_of
from tests.sampling import check_each

CALL = r"(?:\w+\(.*\): )?"  # the call of the user, where an operation inside of it refuses
# of arrays that need another library or a GPU: test_launching.py, test_tensor_array.py,
# test_array_front.py, test_fast_path.py
OTHER_ARRAYS = {
    *("argument-device", "argument-dlpack", "argument-gradient", "argument-import"),
    *("argument-negated", "argument-tangent", "argument-tensor", "table-library", "table-memory"),
}
INSIDE = ("layout", "abs", "divides", "eval", "inverse", "subs")  # methods, and what is internal


@pytest.fixture(scope="module", autouse=True)
def examples():
    """Make all messages once, outside of the time of a test."""
    messages()


def check_wrong(row):
    """Require that each call is refused with the code, and that its message teaches."""
    for number, (call, words) in enumerate(row.wrong):
        first = number == 0 and row.when
        error = made()[row.code] if first else raised(call)
        assert (error.code, type(error)) == (row.code, WORDINGS[row.code][0])
        assert re.search(r": given .+; required: .+; fix: ", str(error), re.DOTALL), str(error)
        assert first or words
        pattern = ".*".join(map(re.escape, words.split("...")))
        assert re.search(pattern, str(error)), str(error)
    if row.body:
        require_teaching(error, row.code, marked_line(row.body))


def check_right(row):
    """Require that each fixed call is accepted."""
    for call in row.right:
        call()


def name_of(row):
    return row.code


@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_wrong_is_refused_in_words(layer):
    check_each(check_wrong, rows_of(layer), name_of)


@pytest.mark.parametrize("part", range(12))
@pytest.mark.parametrize("layer", LAYERS)
def test_what_is_fixed_is_accepted(layer, part, capsys):
    check_each(check_right, rows_of(layer)[part::12], name_of)


def test_refusals_name_an_operation_of_cute_py():
    def check(row):
        assert re.fullmatch(rf"{CALL}\w+: given .+; required: .+; fix: .+", messages()[row.code])
        operation = made()[row.code].facts["operation"]
        assert operation in INSIDE or hasattr(cute, operation)

    check_each(check, rows_of("layout"), name_of)


def test_every_refusal_of_kernels_is_provoked():
    layers = "arguments", "python", "memory", "hopper"
    rows = [row for layer in layers for row in rows_of(layer)]
    assert {row.code for row in rows if row.recorded} == OTHER_ARRAYS
    assert all(row.right or row.recorded for row in rows if row.when)
