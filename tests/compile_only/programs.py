"""The programs of the CUDA toolkit, where they are installed."""

import pytest

from cute_py.codegen import toolchain
from cute_py.errors import CuteError


def tool(name):
    """Return the path of a CUDA tool, or skip."""
    try:
        return toolchain.tool(name)
    except CuteError as error:
        pytest.skip(str(error))
