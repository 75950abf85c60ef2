"""One harness for kernels on a GPU: `python -m benchmarks.gpu.run --help`."""
