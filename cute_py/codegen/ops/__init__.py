"""Emission rules: one per kind of op, in files named like those of `plan.ops`."""

from cute_py.codegen.emit import RULES
from cute_py.codegen.ops import debug, matrix, memory, order, registers

__all__ = ["RULES", "debug", "matrix", "memory", "order", "registers"]
