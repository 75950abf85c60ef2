"""Refusals of tables of a kernel's tensors."""

import numpy as np

import cute_py as cute
from cute_py import Layout


@cute.kernel
def scaled(A: cute.Tensor, sizes: cute.Tensor):
    """Add 1 to rows of A, of which the first is in memory."""
    cute.launch(grid=1, block=32)
    copy = cute.make_tiled_copy(cute.Copy_Atom("UniversalCopy<32>", "f32"), Layout(32), Layout(1))
    thread = copy.get_slice(cute.thread_idx())
    row = cute.as_int(sizes[0], low=0, high=3)
    gA = cute.local_tile(A, (1, 32), (row, 0))[0, cute._]
    part = thread.partition_S(gA)
    held = cute.make_fragment_like(part)
    cute.copy(part, held)
    sums = held + 1.0
    cute.copy(sums, part)


LARGE = np.broadcast_to(np.float32(0), (1 << 12, 1 << 12))
TABLE = cute.layouts(scaled, np.zeros((4, 32), np.float32), np.zeros(1, np.int32))
WIDE = cute.layouts(scaled, np.lib.stride_tricks.as_strided(LARGE, strides=(1 << 14, 4)),
                    np.zeros(1, np.int32))  # fmt: skip

ROWS = """
see-name: a table has no row of a name
    - TABLE["parts"]  # did you mean part?
    + TABLE["part"]
see-line: a line of a kernel makes nothing that the table lists
    - TABLE.at(1)
    - TABLE.at("A")  # given line A
    + TABLE.at(TABLE["part"].line)
see-memory: a table is filtered by a memory that no tensor is in
    - TABLE.memory("shared")
    + TABLE.memory("rmem")
see-kind: the owners of something that is no tensor are asked for
    - TABLE["copy"].owners()
    + TABLE["held"].owners(at={"m0": 0})
see-run-time: where elements are depends on integers that are known only when the kernel runs
    - TABLE["part"].owners()
    + TABLE["part"].owners(at={"m0": 1})
see-symbol: a value is given for a symbol that no tensor of the kernel depends on
    - TABLE["part"].owners(at={"m0": 1, "block": 1})  # given at={'block': 1}
    - TABLE["part"].owners(at={"m0": 1.5})  # given at={'m0': 1.5}
    + TABLE["part"].owners(at={"m0": 1, "bid_x": 0})
see-registers: registers are the result of arithmetic, or come from other threads
    - TABLE["sums"].owners()
    + TABLE["held"].owners(at={"m0": 0})
see-threads: the owners are asked for threads that the block does not have
    - TABLE["part"].owners(threads=range(64))
    - TABLE["part"].owners(threads=[0.5])  # given threads: 0.5
    + TABLE["part"].owners(threads=range(16), at={"m0": 0})
see-value: a thread or a value is asked for that owners do not list
    - TABLE["part"].owners(at={"m0": 0})(32, 0)
    + TABLE["part"].owners(at={"m0": 0})(31, 0)
see-coordinate: a coordinate is outside of the whole whose owners are asked for
    - TABLE["A"].owners().holders(128)
    - TABLE["A"].owners()[128]  # given coordinate (128,)
    + TABLE["A"].owners().holders(3, 31)
see-size: owners would have more elements, or pairs of thread and value, than are computed
    - WIDE["A"].owners()
    + TABLE["A"].owners()
see-diff: a table is compared with something else
    - cute.diff(TABLE, Layout(4))
    - cute.diff(Layout(4), TABLE)  # given a table and Layout(4, 1)
    + cute.diff(TABLE, TABLE)
see-picture: the page of a kernel leaves out the picture of a large tensor, and says so
    * see row="A", what="16777216 elements", most=65536, part="A[_, _]"
see-kernel: the tensors of something that is no kernel are asked for
    - cute.layouts(print)
    + cute.layouts(scaled, np.zeros((4, 32), np.float32), np.zeros(1, np.int32))
"""
