"""Every refusal: one table a layer, of which docs/errors.md is made.

A row says for what a code is raised, then calls that are refused with it, and the first one fixed:

    not-congruent: shape and stride have different profiles
        - Layout((4, 8), (1,))
        + Layout((4, 8), (1, 4))

The page shows the message of the first call, word for word. That of another call contains what
stands after its ` # `, in which `...` is any text. What goes on in the next line is indented
further. A row without `when` has more calls for a code of another layer. Where a call needs a GPU,
its compilers, another package or a whole test, `* operation` has the facts that it gave there.

In a kernel a row is a function with a line `# wrong` (tests/kernel_refusals.py), named by its code;
its docstring says for what it is raised.
"""

import functools
import importlib
import re
from dataclasses import dataclass
from functools import partial

from cute_py.errors import refusal
from tests.kernel_refusals import bodies, corrected, message_of, raised

# the modules of this folder
LAYERS = (
    *("layout", "dtypes", "tensors", "tiled", "arguments", "python", "memory", "hopper"),
    *("pictures", "see", "operators", "launches", "emulator"),
)


@dataclass(frozen=True)
class Row:
    """When a code is raised; refused calls, each with words of its message; fixed calls."""

    code: str
    when: str
    wrong: tuple = ()
    right: tuple = ()
    recorded: tuple = ()  # the operation, and the facts
    body: object = None  # of a kernel


def read(text, names):
    """Yield the rows of a table in text; its calls use the names."""
    for block in re.split(r"\n(?=\S)", text.strip("\n")):
        head, *parts = re.split(r"\n    (?=[-+*] )", block)
        code, _, when = " ".join(head.split()).partition(":")
        wrong, right, recorded = [], [], ()
        for part in parts:
            call, _, words = " ".join(part[2:].split("\n        ")).partition(" # ")
            if part[0] == "*":
                operation, facts = re.fullmatch(r"(.*?)(?: (\w+=.*))?", call).groups()
                recorded = operation, eval(f"dict({facts or ''})", dict(names))
            elif part[0] == "-":
                wrong.append((partial(eval, call.strip(), names), words))
            else:
                right.append(partial(eval, call.strip(), names))
        yield Row(code, when.strip(), tuple(wrong), tuple(right), recorded)


def of_body(code, body, run):
    """Return the row of a body of a kernel."""
    wrong, right = (partial(run, body), ""), lambda: run(corrected(body))
    return Row(code, " ".join(body.__doc__.split()), (wrong,), (right,), body=body)


@functools.cache
def rows_of(layer):
    """Return the rows of a layer."""
    module = importlib.import_module(f"tests.refusals.{layer}")
    found = [of_body(code, body, module.run) for code, body in bodies(module).items()]
    return [*read(module.ROWS, vars(module)), *found]


@functools.cache
def rows():
    """Return code -> its row."""
    found = [row for layer in LAYERS for row in rows_of(layer) if row.when]
    assert len({row.code for row in found}) == len(found)
    return {row.code: row for row in found}


@functools.cache
def made():
    """Return code -> the refusal that the first call of its row makes."""
    return {code: raised(row.wrong[0][0]) for code, row in rows().items() if row.wrong}


@functools.cache
def messages():
    """Return code -> the first line of its example's message, as docs/errors.md has it."""
    recorded = {
        code: refusal(code, operation=row.recorded[0], **row.recorded[1])
        for code, row in rows().items()
        if row.recorded
    }
    found = {**made(), **recorded}
    return {code: message_of(error).partition("\n")[0].strip() for code, error in found.items()}
