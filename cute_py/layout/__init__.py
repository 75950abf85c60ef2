"""The layout algebra: int tuples, layouts, swizzles, symbols; `cute_py` exports its names."""
