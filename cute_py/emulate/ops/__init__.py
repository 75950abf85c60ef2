"""The ops of a plan, compiled: a file for each kind of op, a function for each op."""

from cute_py.emulate.ops import control, debug, matrix, memory, order, registers
from cute_py.emulate.program import HANDLERS

__all__ = ["HANDLERS", "control", "debug", "matrix", "memory", "order", "registers"]
