"""A call of a kernel: its arguments, and what its plan depends on."""
