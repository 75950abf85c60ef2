"""The rules of operations for operands that are not plain layouts: swizzled, composed, F2, tensors;
and that of int tuples for layouts.

The algebra of plain layouts is below the modules of these rules and imports none of them. Like the
public names of `cute_py`, a rule loads on first use.
"""

from __future__ import annotations

from cute_py.lazy import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "layout.algebra.complement": "tiles_over",
        "layout.composed": (
            "compose_special inverse_composed offset_composed query_composed slice_composed"
        ),
        "layout.bits.f2_convert": "compose_f2 linear_or_reason",
        "layout.bits.swizzled": (
            "alignment_of common_layout common_vector complement_of composed_after left_inverse_of "
            "product_over reach_of recast_special right_inverse_of sliced through"
        ),
    },
)
