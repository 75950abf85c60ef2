"""Dtypes: the element types of tensors, their conversions, and the packing of sub-byte types.

`table` has the rows and the look-up, `rounding` the arithmetic on bit images, `conversion` convert,
encode and decode, `packing` the packed storage of sub-byte types. Names load on first use, as do
NumPy and ml_dtypes.

>>> import cute_py.dtypes as cute
>>> float(cute.convert(3.14159, cute.bf16)), cute.dtype("float8_e4m3fn"), cute.s4.bits
(3.140625, cute.e4m3, 4)
"""

from __future__ import annotations

import cute_py
from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.dtypes.conversion import *  # noqa: F403
    from cute_py.dtypes.packing import *  # noqa: F403
    from cute_py.dtypes.rounding import *  # noqa: F403
    from cute_py.dtypes.table import *  # noqa: F403

# module -> the public names that it defines
_HOME = {x: names for x, names in cute_py._HOME.items() if x.startswith("dtypes.")}

__getattr__, __dir__ = lazy(__name__, _HOME)
