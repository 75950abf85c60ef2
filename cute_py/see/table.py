"""`layouts`: a table of all tensors of a traced kernel, in the order of its lines."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from html import escape

from cute_py.errors import file_text, refusal, suggestion
from cute_py.records import SWITCH, Shown
from cute_py.see.rows import rows_of
from cute_py.tensor.tensor import Tensor
from cute_py.trace.kernel import Kernel
