"""The plan of a kernel: ops in nested blocks, what must hold of them, and how they are read."""
