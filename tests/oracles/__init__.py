"""Oracles: what each public function of the algebra must answer, by plain enumeration.

An oracle makes random operands, calls the library once or more through `Calls`, and asserts what
the docstring of the function says, with tables that the library has no part in. A call that a
CuteError refuses ends the oracle; any other exception is a failure, as a wrong answer is.
"""

import random

import cute_py as cute
from tests.oracles import operands

ORACLES = {}


class Refused(Exception):
    """A call was refused by a CuteError."""


class Calls:
    """Random operands, and calls of the library that are counted and remembered."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.answered = self.refused = 0
        self.last = ""

    def __call__(self, name, *arguments, **named):
        """Return the answer of a public function, or of a callable; raise Refused."""
        function = getattr(cute, name) if isinstance(name, str) else name
        self.last = f"{name}{arguments}{named or ''}"
        try:
            answer = function(*arguments, **named)
        except cute.CuteError as error:
            self.refused += 1
            raise Refused(str(error)) from None
        self.answered += 1
        return answer

    def __getattr__(self, name):
        maker = getattr(operands, name)
        return lambda *arguments, **named: maker(self.rng, *arguments, **named)


def oracle(*names):
    """Register an oracle of the public functions of these names, which it takes in turn."""

    def register(check):
        for name in names:
            known = ORACLES.setdefault(name, check)  # pytest may load a module twice
            assert known.__qualname__ == check.__qualname__, name
        return check

    return register


def judge(name, seed, calls=None):
    """Run the oracle of a function once; return what is wrong as text, or None."""
    calls = calls or Calls(seed)
    calls.rng.seed(seed)
    try:
        ORACLES[name](calls, name)
    except Refused:
        return None
    except Exception as error:
        return f"seed {seed}: {calls.last}: {type(error).__name__}: {error}"
    return None
