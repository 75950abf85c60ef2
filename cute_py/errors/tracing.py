"""Wordings: what may not be done while a kernel is traced."""

from __future__ import annotations

from cute_py.errors import TraceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.errors import Wording


WORDINGS: dict[str, Wording] = {
    "trace-python": (
        TraceError,
        "{value}, which is known only when the kernel runs, in {use}",
        "a value that Python knows while the kernel is traced",
        "use {instead}",
    ),
    "trace-stale": (
        TraceError,
        "{value}, made inside of the {kind} that began at {made}",
        "a value that is made where it is used, or outside of run-time loops and branches",
        "keep it in a register tensor or a cute.var that is made before the {kind}, and write to "
        "that",
    ),
    "trace-foreign": (
        TraceError,
        "{value}, made while another kernel was traced, or this one for other arguments ({made})",
        "a value of the kernel that is traced now",
        "make it inside of the kernel; keep no tensor or index in an object that outlives it",
    ),
    "trace-changes": (
        TraceError,
        "a loop body that records `{first}` at first and `{second}` when it is run again",
        "a body that does the same in every iteration",
        "let no Python value change from one iteration to the next (counter, list, iterator, "
        "rebound name): use cute.var, a register tensor, or Python's range to unroll",
    ),
    "trace-carried": (
        TraceError,
        "{names}, which the body of the loop changes in each iteration",
        "Python values that stay the same from one iteration to the next",
        "use cute.var for a counter, a register tensor for a sum, Python's range to unroll",
    ),
    "trace-iterated": (
        TraceError,
        "cute.range outside of a for statement (in list, sum, zip, enumerate, a comprehension ...)",
        "for k in cute.range(n): ...",
        "count with cute.var and sum in a register tensor, or use Python's range to unroll",
    ),
    "trace-left": (
        TraceError,
        "{block}, left by break, return or an exception",
        "a body that runs to its end",
        "use cute.break_if(condition), or Python's range for a loop that unrolls; catch exceptions "
        "inside of the body, or not at all",
    ),
    "trace-interleaved": (
        TraceError,
        "a run-time loop or branch that ends inside of another one",
        "blocks that end in the order in which they began",
        "iterate over one cute.range at a time; do not keep its iterator (next, zip)",
    ),
    "trace-rebound": (
        TraceError,
        "{names}: rebound or changed inside of the {kind}, and used after it",
        "Python values that a {kind} leaves as they are: its body is traced whether it will run or "
        "not",
        "write to a register tensor or a cute.var that is made before the {kind}, or use "
        "cute.where(condition, a, b)",
    ),
    "trace-leaves": (
        TraceError,
        "`{word}` inside of the branch",
        "a branch that runs to its end: it is traced once, whatever the condition",
        "use cute.return_if(condition) or cute.break_if(condition), or put the rest of the kernel "
        "under the opposite condition",
    ),
    "trace-no-source": (
        TraceError,
        "a branch in code without source",
        "source text, in which return, break and continue can be seen",
        "write the branch as a function: @cute.when(condition) above def body(): ...",
    ),
    "trace-outside": (
        TraceError,
        "a call outside of a kernel",
        "a function under @cute.kernel, while it is traced",
        "put the call into a kernel, and call the kernel or cute.trace(kernel, ...)",
    ),
    "trace-nested": (
        TraceError,
        "a kernel called inside of a kernel",
        "plain Python functions as helpers",
        "drop @cute.kernel from the inner function",
    ),
    "trace-condition": (
        TraceError,
        "{value} ({type})",
        "a comparison of run-time integers, a b1 register of one element, True or False",
        "compare: i < n, or x > 0 for registers; reduce a tensor to one element first",
    ),
}
