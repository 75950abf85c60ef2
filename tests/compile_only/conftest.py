"""Compilation writes its sources to a cache folder of the tests."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("CUTE_PY_DEBUG", raising=False)
        yield
