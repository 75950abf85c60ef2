"""From plans to kernels on a GPU: Numba source, PTX, cubin, launch."""
