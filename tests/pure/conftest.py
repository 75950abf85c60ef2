"""Hypothesis' table of all characters is made before the first test, whose seconds are its own."""

import pytest
from hypothesis import find, settings
from hypothesis import strategies as st


@pytest.fixture(scope="session", autouse=True)
def _characters_are_known():
    find(st.text(), lambda _text: True, settings=settings(database=None))
