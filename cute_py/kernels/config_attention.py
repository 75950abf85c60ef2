"""The tiles of a block of `attention_sm90`, the attention of warpgroups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cute_py.kernels.attention import FAMILIES
from cute_py.kernels.configuration import Config, part

WARPGROUP_ROWS = 64  # of Q


@dataclass(frozen=True, slots=True)
class WarpgroupAttention(Config):
    """The tiles of a block.

    Attributes:
        family: the name.
        head_dim: columns of Q and K in shared memory, at least those of the arrays.
        value_dim: the same of V; at most `head_dim`.
        keys: rows of K and V of a step.
        groups: the warpgroups that multiply.
        stages: of K and of V.
        ahead: blocks of queries in shared memory: of 2, one is computed ahead.
        buffers: copies of the weights in registers: of 2, one is written before the products of the
            other are complete.
        turns: whether the warpgroups issue products in turn.
        holds: whether they wait for products of V after the exponentials, not where ptxas would.
        heads: how many heads run together.
        reasons: why; not compared.
    """

    family: str = part("warpgroups", choices=FAMILIES, is_shown=True)
    head_dim: int = part(128)
    value_dim: int = part(128)
    keys: int = part(128)
    groups: int = part(2)
    stages: int = part(2)
    ahead: int = part(2)
    buffers: int = part(1)
    turns: int = part(0)
    holds: int = part(1)
    heads: int = part(1)
    reasons: tuple[str, ...] = field(default=(), compare=False, repr=False)

    CODE, OPERATION = "config-attention", "config"

    @property
    def queries(self) -> int:
        """Rows of Q of a block."""
        return WARPGROUP_ROWS * self.groups

    def rules(self, has_others: bool) -> Iterable[tuple[str, bool]]:
        """Return what must hold of the parts, and whether it does not."""
        other = has_others or self.family != "warpgroups"
        yield "parts of the family warpgroups alone", other
        dims = self.head_dim, self.value_dim
        yield "dims of 32 to 256, multiples of 32", any(n % 32 or not 32 <= n <= 256 for n in dims)
        yield "value_dim of at most head_dim", self.value_dim > self.head_dim
        yield (
            "keys of 16 to 256, a multiple of 16",
            self.keys % 16 > 0 or not 16 <= self.keys <= 256,
        )
        yield "2 or 3 groups", self.groups not in (2, 3)
        yield "1 to 8 stages", not 1 <= self.stages <= 8
        flags = self.turns, self.holds
        yield "turns and holds of 0 or 1", any(x not in (0, 1) for x in flags)
        yield (
            "ahead and buffers of 1 or 2",
            any(x not in (1, 2) for x in (self.ahead, self.buffers)),
        )
        yield "heads of at least 1", self.heads < 1
