"""`Tensor`: an engine and a layout; the memory of this process as engines."""
