"""The colours of cells, by index modulo 8: light enough for black text, neighbours well apart."""

from __future__ import annotations

# (red green blue) for SVG and LaTeX, and the nearest background of a 256-colour terminal
COLOURS = (
    ("a6cee3", 153),
    ("fdd49e", 223),
    ("b2df8a", 150),
    ("fbb4c4", 218),
    ("d9d0f0", 189),
    ("f5f08b", 228),
    ("9fe3d6", 122),
    ("d4d4d4", 252),
)
RGB = tuple(rgb for rgb, _ in COLOURS)
TERMINAL = tuple(number for _, number in COLOURS)
