"""The plan of a kernel: ops in nested blocks, their verifier, and functions that walk them."""
