"""Layouts as text, read from the output of CuTe and its relatives, and as tables."""
