"""A refusal of a kernel or its arguments: provoked, placed, taught as docs/errors.md shows it; and
what is right is accepted.

The cases are in the files of their subjects: bodies of kernels that say what is wrong in them, and
`CALLS`, a refused call and a right one for each code.
"""

import pytest

from cute_py.calls.wordings import WORDINGS as OF_CALLS
from cute_py.plan.wordings import WORDINGS as OF_PLANS
from cute_py.trace.wordings import WORDINGS as OF_TRACING
from tests.kernel_refusals import bodies, corrected, marked_line, message_of, raised, traced
from tests.kernel_refusals import require_teaching as teaches
from tests.pure import test_trace_refusals as of_python
from tests.pure import test_trace_refusals_calls as of_calls
from tests.pure import test_trace_refusals_memory as of_memory
from tests.refusal_examples import messages

BODIES = bodies(of_python, of_memory, of_calls)
CALLS = of_python.CALLS | of_calls.CALLS
OTHER_ARRAYS = (  # test_launching.py, test_tensor_array.py, test_array_front.py, test_fast_path.py
    "argument-device", "argument-dlpack", "argument-gradient", "argument-import",
    "argument-negated", "argument-tangent", "argument-tensor", "table-library", "table-memory",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def examples():
    """Make all messages once, outside of the time of a test."""
    messages()


@pytest.fixture(autouse=True)
def leftovers():
    """Begin with an index that another kernel left."""
    of_python.leave_an_index()


def require_shown(error, code):
    """Assert that docs/errors.md shows this refusal of the code."""
    assert error.code == code
    assert message_of(error).partition("\n")[0].strip() == messages()[code]


@pytest.mark.parametrize("code", BODIES)
def test_a_wrong_body_is_refused_where_it_stands_and_the_right_one_is_traced(code):
    body = BODIES[code]
    error = raised(lambda: traced(body))
    teaches(error, code, marked_line(body))
    require_shown(error, code)
    assert traced(corrected(body)).name == body.__name__


@pytest.mark.parametrize("code", CALLS)
def test_a_wrong_call_is_refused_and_the_right_one_is_not(code):
    wrong, right = CALLS[code]
    require_shown(raised(wrong), code)
    assert right().body


def test_every_refusal_of_kernels_is_provoked():
    codes = {*OF_TRACING, *OF_CALLS, *OF_PLANS}
    assert codes - {*BODIES, *CALLS} == {*OTHER_ARRAYS}
