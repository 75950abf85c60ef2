"""The layouts of CUTLASS 2.x by their names."""
