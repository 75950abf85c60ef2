"""Errors planted in the kernels of attention, one at a time: the emulator refuses each, and takes
the kernels as they are. What ptxas would say does not count: it compiles most of them.

    python -m pytest --slow tests/slow/test_planted_attention.py
"""

import pytest

import cute_py as cute
from tests.planted_attention import LEGAL, PLANTED, loaded, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("module", "name"), [(m, x) for m, found in PLANTED.items() for x in found]
)
def test_planted_errors_are_refused(module, name, tmp_path, monkeypatch):
    made = loaded(module, *PLANTED[module][name], tmp_path, monkeypatch)
    with pytest.raises(cute.CuteError) as caught:
        run(module, made)
    assert caught.value.code.startswith(("emulate-", "plan-unassigned"))


@pytest.mark.parametrize("module", PLANTED)
def test_the_kernels_as_they_are_pass(module, tmp_path, monkeypatch):
    assert run(module, loaded(module, "", "", tmp_path, monkeypatch))


@pytest.mark.parametrize("name", LEGAL)
def test_what_looks_like_an_error_passes_where_something_else_orders_it(
    name, tmp_path, monkeypatch
):
    """The ring of V orders the next load of K behind the product."""
    assert run("attention_sm90", loaded("attention_sm90", *LEGAL[name], tmp_path, monkeypatch))


def test_there_are_as_many_as_were_asked_for():
    assert sum(map(len, PLANTED.values())) >= 39
