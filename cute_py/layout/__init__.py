"""The layout algebra: int tuples, layouts, swizzles, symbols. Public names are exported by `cute_py`."""
