"""The CUDA driver: its calls, its devices, and the streams of arrays."""
