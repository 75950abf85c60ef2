"""`Recorder`: what Python's operators on the values of a kernel record.

Engines and integers have the operators, and stand below the modules that record; they reach them
through `current().record`.
"""

from __future__ import annotations

from cute_py.trace import arithmetic, copying, memory


class Recorder:
    """The recording functions, by what an operator asks for."""

    apply = staticmethod(arithmetic.apply)
    apply_in_place = staticmethod(arithmetic.apply_in_place)
    assign = staticmethod(arithmetic.assign)
    convert = staticmethod(arithmetic.convert_registers)
    as_test = staticmethod(arithmetic.test_register)
    integer = staticmethod(arithmetic.integer_register)
    load_element = staticmethod(memory.load_element)
    store_element = staticmethod(memory.store_element)
    store_all = staticmethod(copying.store_all)
