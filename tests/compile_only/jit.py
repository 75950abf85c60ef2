"""LLVM IR as machine code of this machine's CPU."""

import ctypes
from functools import cache

from llvmlite import binding


class Code:
    """Machine code of a module, as long as this object lives.

    Attributes:
        text: its IR; where it is optimized, what is left of it.
    """

    def __init__(self, module, is_optimized=False):
        """Compile a module; by -O2 first, where what has no meaning is to show."""
        machine = native().create_target_machine(opt=2 if is_optimized else 1)
        parsed = binding.parse_assembly(str(module))
        parsed.verify()
        if is_optimized:
            optimize(parsed, machine)
        self.text = str(parsed)
        self.engine = binding.create_mcjit_compiler(parsed, machine)
        self.engine.finalize_object()

    def function(self, name, count):
        """Return a function of the module that takes `count` addresses and gives nothing; it may
        call Python.
        """
        kind = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * count)
        return kind(self.engine.get_function_address(name))


@cache
def native():
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple()


def optimize(parsed, machine):
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    passes = binding.create_pass_builder(machine, tuning).getModulePassManager()
    passes.run(parsed, binding.create_pass_builder(machine, tuning))
