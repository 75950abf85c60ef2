"""Whatever traces compiles for some architecture: every op, for every type and every option.

A kernel of one op is traced; the code of each op is emitted, which picks rows of the table of
instructions. `test_instructions` assembles every form of every row, so no compiler runs here.
"""

import pytest

import cute_py as cute

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from llvmlite import ir

from cute_py.codegen.frontend import printed
from cute_py.codegen.passes.strength import Chains
from tests.compile_only.on_host import Context, llvm_type, typed

KINDS = tuple(name for name in cute.dtypes.table.NAMES if name != "void")


def emit_code(plan):
    """Emit the code of each op of a plan."""
    made = printed(plan, Chains(plan))
    helpers = set(made.helpers.values())
    for name, function in made.calls.items():
        if name not in helpers:
            signature, codegen = typed(function)
            kinds = [llvm_type(kind) for kind in signature.args]
            f = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), kinds), "f")
            arguments = [ir.Constant(kind, ir.Undefined) for kind in kinds]
            codegen(Context(), ir.IRBuilder(f.append_basic_block()), signature, arguments)
