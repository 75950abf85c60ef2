"""The emission of ops: a rule for each kind, in files that are named as those of `plan.ops`."""

from cute_py.codegen.emit import RULES
from cute_py.codegen.ops import debug, matrix, memory, order, registers

__all__ = ["RULES", "debug", "matrix", "memory", "order", "registers"]
