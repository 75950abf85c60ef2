"""Check the exercises of the lessons by law: any answer with the right meaning is right, and for a
wrong one you see a witness, the first place where the law fails.

A lesson calls `check("1.1", answer)`. The law of an exercise is the docstring of its function in
the modules here; read it after you have tried. `notebooks/solutions` has an answer to each one.
"""

import html
from ctypes import CDLL
from importlib.util import find_spec

from . import gemm, kernels, layouts, tiles
from .laws import LAWS, Wrong, said, unanswered

__all__ = ["LAWS", "check", "gemm", "gpu", "kernels", "layouts", "tiles"]


class Verdict:
    """What `check` returns: text and picture; `right` is None where there is no answer."""

    def __init__(self, right, text, picture=None):
        self.right, self.text, self.picture = right, text, picture

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        color = {None: "#767676", True: "#1a7f37", False: "#c62828"}[self.right]
        text = f'<pre style="color:{color};white-space:pre-wrap">{html.escape(self.text)}</pre>'
        picture = getattr(self.picture, "_repr_html_", lambda: None)()
        return text + (picture or "")


def check(exercise, *answer, hint=False):
    """Return the verdict on the answer to an exercise: not answered, right, or wrong and where.

    In lesson 7 the way to fix a kernel is left out of the message, unless you ask for the hint.
    """
    law = LAWS[exercise]
    if any(map(unanswered, answer)):
        return Verdict(None, f"{exercise}: no answer yet; put yours in place of `...`")
    try:
        law(*answer)
    except Wrong as wrong:
        return Verdict(False, f"{exercise}: not yet. {wrong}", wrong.picture)
    except Exception as error:  # an answer may be anything; what it raises is the witness
        hidden = exercise.startswith("7.") and not hint
        return Verdict(False, f"{exercise}: not yet. {said(error, hidden)}")
    return Verdict(True, f"{exercise}: right. {' '.join(law.__doc__.split())}")


def gpu():
    """Return whether torch finds an NVIDIA GPU; it is not imported where there is no driver."""
    try:
        CDLL("libcuda.so.1")
    except OSError:
        return False
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
