"""The ops of a plan: frozen records in nested blocks, each with the source line that made it.

    plan    = params, launch, shared storages, register storages, block
    block   = op*
    scalar  = int | expression over symbols         uniform text: `bid_x*128 + tid//8`
    cond    = Compare(lt|le|eq|ne, scalar, scalar) | Logic(and|or, cond...) | Not(cond) | Test(reg)
    reg     = Reg(storage, dtype, index...)          static element indices of a register storage
    value   = reg | number | scalar                  a reg of one element is given to all
    access  = Access(space, storage, bases, inner, swizzle, table, width, guards)   see `access`

    op = Loop(var, start, stop, step, body) | While(test, cond, body) | If(cond, scope, then, other)
       | Leave(cond, target) | Let(var, kind, operands) | Set(var, scalar)                  control
       | Fill(reg, number) | Map(fn, reg, value...) | Convert(reg, reg, rounding, saturate)
       | Reduce(fn, reg, reg) | Shuffle(kind, reg, reg, scalar, width) | Vote(kind, reg, reg) regs
       | Load(reg, access) | Store(access, reg) | LdMatrix(atom, reg, access)
       | StMatrix(atom, access, reg) | Atomic(fn, access, reg, old)
       | CpAsync(atom, access, access) | CpCommit | CpWait(n)
       | TmaLoad(...) | TmaStore(...) | BulkCommit | BulkWait(n) | Prefetch(access)         memory
       | Mma(atom, d, a, b, c, steps) | Wgmma(atom, d, a, b, accumulate)
       | WgFence | WgCommit | WgWait(n)                                                     matrix
       | Barrier(scope, kind, id, threads) | Fence(kind) | GridDep(kind) | MbarInit(access, count)
       | MbarArrive(access, bytes) | CpArrive(access) | MbarWait(access, phase)
       | WaitUntil(access, test) | SetMaxNReg(n)                                            order
       | Print(text, value...) | Assert(cond, text)                                          debug

An op reads all that it reads before it writes. Lines are no part of equality or hash, so that an
edit above a kernel leaves its plan the same.
"""

from __future__ import annotations

from cute_py.plan.op import Block as Block
from cute_py.plan.op import Op as Op
from cute_py.plan.op import Value as Value
from cute_py.plan.ops.control import If as If
from cute_py.plan.ops.control import Leave as Leave
from cute_py.plan.ops.control import Let as Let
from cute_py.plan.ops.control import Loop as Loop
from cute_py.plan.ops.control import Set as Set
from cute_py.plan.ops.control import While as While
from cute_py.plan.ops.debug import Assert as Assert
from cute_py.plan.ops.debug import Print as Print
from cute_py.plan.ops.matrix import Mma as Mma
from cute_py.plan.ops.matrix import Tile as Tile
from cute_py.plan.ops.matrix import WgCommit as WgCommit
from cute_py.plan.ops.matrix import WgFence as WgFence
from cute_py.plan.ops.matrix import Wgmma as Wgmma
from cute_py.plan.ops.matrix import WgWait as WgWait
from cute_py.plan.ops.memory import Atomic as Atomic
from cute_py.plan.ops.memory import BulkCommit as BulkCommit
from cute_py.plan.ops.memory import BulkWait as BulkWait
from cute_py.plan.ops.memory import CpAsync as CpAsync
from cute_py.plan.ops.memory import CpCommit as CpCommit
from cute_py.plan.ops.memory import CpWait as CpWait
from cute_py.plan.ops.memory import LdMatrix as LdMatrix
from cute_py.plan.ops.memory import Load as Load
from cute_py.plan.ops.memory import Prefetch as Prefetch
from cute_py.plan.ops.memory import StMatrix as StMatrix
from cute_py.plan.ops.memory import Store as Store
from cute_py.plan.ops.memory import TmaLoad as TmaLoad
from cute_py.plan.ops.memory import TmaStore as TmaStore
from cute_py.plan.ops.order import Barrier as Barrier
from cute_py.plan.ops.order import CpArrive as CpArrive
from cute_py.plan.ops.order import Fence as Fence
from cute_py.plan.ops.order import GridDep as GridDep
from cute_py.plan.ops.order import MbarArrive as MbarArrive
from cute_py.plan.ops.order import MbarInit as MbarInit
from cute_py.plan.ops.order import MbarWait as MbarWait
from cute_py.plan.ops.order import SetMaxNReg as SetMaxNReg
from cute_py.plan.ops.order import WaitUntil as WaitUntil
from cute_py.plan.ops.registers import Convert as Convert
from cute_py.plan.ops.registers import Fill as Fill
from cute_py.plan.ops.registers import Map as Map
from cute_py.plan.ops.registers import Reduce as Reduce
from cute_py.plan.ops.registers import Shuffle as Shuffle
from cute_py.plan.ops.registers import Vote as Vote

OPS: tuple[type[Op], ...] = (
    *(Loop, While, If, Leave, Let, Set),
    *(Fill, Map, Convert, Reduce, Shuffle, Vote),
    *(
        Load,
        Store,
        CpAsync,
        CpCommit,
        CpWait,
        LdMatrix,
        StMatrix,
        Atomic,
        TmaLoad,
        TmaStore,
        BulkCommit,
        BulkWait,
        Prefetch,
    ),
    *(Mma, Wgmma, WgFence, WgCommit, WgWait),
    *(Barrier, Fence, GridDep, MbarInit, MbarArrive, CpArrive, MbarWait, WaitUntil, SetMaxNReg),
    *(Print, Assert),
)
