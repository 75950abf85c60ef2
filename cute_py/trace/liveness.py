"""Which names code reads later, and where its loops are: read from bytecode, without source."""

from __future__ import annotations

import dis
from bisect import bisect_right
from functools import lru_cache
from types import CodeType

from cute_py.calls.fingerprint.names import accesses, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def used_after(code: CodeType, offset: int, names: list[str]) -> set[str]:
    """Return the names that are live after an instruction: some path reads them before writing.

    Args:
        code: of the function.
        offset: of the instruction (bytes).
        names: candidates. A cell is read where a closure takes it; what a closure that exists
            already reads, its own contents tell.

    """
    return used_from(code, number_at(code, offset) + 1, names)


def used_from(code: CodeType, start: int, names: list[str]) -> set[str]:
    """Return those of the names that some path from instruction number `start` on reads before it
    writes them; see `used_after`.
    """
    if not (code.co_flags & 0x1):  # a module, or text that is executed: globals stay readable
        return {n for n in names if n in code.co_names and _reads(code, start, n, _TEXT)}
    cells, found = {*code.co_cellvars, *code.co_freevars}, set()
    for name in names:
        kind = _CELL if name in cells else _FAST if name in code.co_varnames else _GLOBAL
        if _reads(code, start, name, kind) or (kind is _GLOBAL and _inner_reads(code, name)):
            found.add(name)
    return found


def _inner_reads(code: CodeType, name: str) -> bool:
    """Tell whether a function inside of another one reads a global."""
    return any(name in names_in(x).globals for x in code.co_consts if isinstance(x, CodeType))


def loaded_between(code: CodeType, first: int, last: int) -> set[object]:
    """Return the names that code loads between the instructions at two offsets (bytes); equal: in
    the loop that begins there.
    """
    instructions, start, end = _block(code, first, last)
    return {
        word
        for x in instructions[start:end]
        if "AND_CLEAR" not in x.opname
        for verb, word in _accesses(x, _ANY)
        if verb == "LOAD"
    }


def _block(code: CodeType, first: int, last: int) -> tuple[list[dis.Instruction], int, int]:
    """Return the instructions of code, and the numbers of those at two offsets (bytes); if they are
    equal, of the ends of the loop that begins there.
    """
    start, end = number_at(code, first), number_at(code, last)
    if start == end:
        body, after = loop_ends(code, first)
        start, end = (start, start) if body is None or after is None else (body, after)
    return _instructions(code)[0], start, end


def loop_ends(code: CodeType, offset: int) -> tuple[int | None, int | None]:
    """Return the numbers of the first instruction of an iteration of the `for` statement at an
    offset (bytes), and of the first one after the loop; None if it is not a `for` statement.
    """
    instructions, position = _instructions(code)
    start = number_at(code, offset)
    if instructions[start].opname != "FOR_ITER":
        return None, None
    return start, position.get(instructions[start].argval)


def in_for_statement(frame: FrameType) -> bool:
    """Return whether a frame requests an iterator for a `for` statement or `yield from`, not for a
    function (list, zip, sum ...) or a comprehension.
    """
    instructions, _position = _instructions(frame.f_code)
    start = number_at(frame.f_code, frame.f_lasti)
    name = instructions[start].opname
    return name == "GET_YIELD_FROM_ITER" or (
        name == "GET_ITER" and not _comprehends(frame.f_code, start)
    )


def asks_by_statement(frame: FrameType) -> bool:
    """Return whether a frame is asking an iterator for its next value by a `for` statement."""
    instructions, _position = _instructions(frame.f_code)
    number = number_at(frame.f_code, frame.f_lasti)
    return instructions[number].opname == "FOR_ITER" and number not in _collecting(frame.f_code)


def delegates(frame: FrameType) -> bool:
    """Return whether a frame is asking an iterator for its next value by `yield from`."""
    instructions, _position = _instructions(frame.f_code)
    return instructions[number_at(frame.f_code, frame.f_lasti)].opname == "SEND"


def yields_between(code: CodeType, first: int, last: int) -> bool:
    """Return whether code has a `yield` between the instructions at two offsets (bytes); equal: in
    the loop that begins there, or by `yield from` there.
    """
    instructions, start, end = _block(code, first, last)
    return any(x.opname in ("YIELD_VALUE", "SEND") for x in instructions[start : end + 1])


_COLLECTS = ("LIST_APPEND", "SET_ADD", "MAP_ADD")


def _comprehends(code: CodeType, start: int) -> bool:
    """Return whether the iterator of GET_ITER is for a comprehension or a generator expression."""
    instructions, _position = _instructions(code)
    after = [x.opname for x in instructions[start + 1 : start + 4]]
    if any(name.startswith(("CALL", "PRECALL")) for name in after[:2]):
        return True  # compiled to a function, which is called immediately
    return _next_loop(code, start) in _collecting(code)


def _next_loop(code: CodeType, start: int) -> int | None:
    """Return the number of the first FOR_ITER from an instruction on."""
    instructions, _position = _instructions(code)
    numbers = range(start, len(instructions))
    return next((k for k in numbers if instructions[k].opname == "FOR_ITER"), None)


@lru_cache(maxsize=256)
def _collecting(code: CodeType) -> frozenset[int]:
    """Return the numbers of the FOR_ITER of comprehensions, which Python 3.12 and later have inside
    of the function: what collects a value says below how many iterators its collection lies.
    """
    instructions, position = _instructions(code)
    loops = {k: position[x.argval] for k, x in enumerate(instructions) if x.opname == "FOR_ITER"}
    found: set[int] = set()
    for k, x in enumerate(instructions):
        if x.opname in _COLLECTS and x.arg and x.arg > 1:
            around = [head for head, end in loops.items() if head < k < end]
            found.update(around[1 - x.arg :])
    return frozenset(found)


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    found = list(dis.get_instructions(code))
    return found, {x.offset: k for k, x in enumerate(found)}


def number_at(code: CodeType, offset: int) -> int:
    """Return the number of the instruction at an offset (bytes). The offset may be in its inline
    cache, if the interpreter has specialized the instruction.
    """
    instructions, _position = _instructions(code)
    return max(bisect_right(instructions, offset, key=lambda x: x.offset) - 1, 0)


def _reads(code: CodeType, start: int, name: str, kinds: tuple[str, ...]) -> bool:
    """Return whether some path from an instruction reads a name before writing it."""
    instructions, position = _instructions(code)
    seen: set[int] = set()
    todo = [start]
    while todo:
        k = todo.pop()
        if k in seen or k >= len(instructions):
            continue
        seen.add(k)
        x = instructions[k]
        verbs = [verb for verb, word in _accesses(x, kinds) if word == name]
        if verbs and "AND_CLEAR" in x.opname:
            k, verbs = _given_back(code, k, name)
        if verbs[:1] == ["LOAD"]:
            return True
        if verbs or x.opname.startswith(("RETURN", "RAISE", "RERAISE")):
            continue
        jumps = isinstance(x.argval, int) and x.opcode in _JUMPS and x.argval in position
        if jumps:
            todo.append(position[x.argval])
        if not (jumps and x.opname in _ALWAYS):
            todo.append(k + 1)
    return False


def _given_back(code: CodeType, start: int, name: str) -> tuple[int, list[str]]:
    """Return the number of the instruction that gives a name back what it had before a
    comprehension with a variable of this name, which has set it aside by an instruction; and what
    else that instruction does with the name.
    """
    instructions, position = _instructions(code)
    loop = _next_loop(code, start)
    first = len(instructions) if loop is None else position[instructions[loop].argval]
    for k in range(first, len(instructions)):
        verbs = [verb for verb, word in _accesses(instructions[k], _FAST) if word == name]
        if verbs:
            return k, verbs[1:]
    return start, ["LOAD"]


_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_ALWAYS = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "JUMP_ABSOLUTE")
_VERBS = ("LOAD", "STORE", "DELETE")
# what instructions are called that access names of a kind
_FAST = ("FAST",)
_CELL = ("DEREF", "CLOSURE", "FAST")
_GLOBAL = ("GLOBAL",)
_TEXT = ("NAME", "GLOBAL")
_ANY = (*_CELL, *_TEXT)


def _accesses(x: dis.Instruction, kinds: tuple[str, ...]) -> list[tuple[str, object]]:
    """Return what an instruction does, in turn, with names of a kind: (verb, name)."""
    named = [step for step in accesses(x) if any(kind in step[0] for kind in kinds)]
    found = [(op.partition("_")[0], name) for op, name in named]
    return [(verb, name) for verb, name in found if verb in _VERBS]
