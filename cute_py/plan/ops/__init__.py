"""The ops of a plan: frozen records in nested blocks, each with the source line that made it.

    plan    = params, launch, shared storages, register storages, block
    block   = op*
    scalar  = int | expression over symbols         uniform text: `bid_x*128 + tid//8`
    cond    = Compare(lt|le|eq|ne, scalar, scalar) | Logic(and|or, cond...) | Not(cond) | Test(reg)
    reg     = Reg(storage, dtype, index...)          static element indices of a register storage
    value   = reg | number | scalar                  a reg of one element is broadcast
    access  = Access(space, storage, bases, inner, swizzle, table, width, guards, asserted, rank)
                                                     see `access`

    op      = a record of `control`, `registers`, `memory`, `matrix`, `order` or `debug`

An op reads all its operands before it writes. Equality and hash ignore source lines, so an edit
above a kernel does not change its plan.
"""

from __future__ import annotations

from cute_py.plan.conditions import Value as Value
from cute_py.plan.op import Block as Block
from cute_py.plan.op import Op as Op
from cute_py.plan.ops import control, debug, matrix, memory, order, registers
from cute_py.plan.ops.control import *  # noqa: F403  (the records of each file)
from cute_py.plan.ops.debug import *  # noqa: F403
from cute_py.plan.ops.matrix import *  # noqa: F403
from cute_py.plan.ops.memory import *  # noqa: F403
from cute_py.plan.ops.order import *  # noqa: F403
from cute_py.plan.ops.registers import *  # noqa: F403

OPS: tuple[type[Op], ...] = tuple(
    kind
    for module in (control, registers, memory, matrix, order, debug)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Op) and kind is not Op
)
