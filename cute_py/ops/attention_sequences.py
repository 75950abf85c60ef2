"""`attention_varlen`: attention of sequences of several lengths, one after the other in arrays."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cute_py.dtypes.table import s32
from cute_py.errors import refusal
from cute_py.kernels.attention import reference
from cute_py.kernels.config_attention import WarpgroupAttention
from cute_py.kernels.splits import Workspace
from cute_py.ops.attention_families import CONFIGS, VARLEN
from cute_py.ops.attentions import OPTIONS, WORDS, Attention, is_whole
from cute_py.ops.operands import shown
from cute_py.ops.operator import Operator, Variants, operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import DtypeLike
    from cute_py.kernels.configuration import Config
    from cute_py.ops.call import Call
    from cute_py.ops.family import Family

STARTS = {"cu_seqlens_q": "max_seqlen_q", "cu_seqlens_k": "max_seqlen_k"}


def _reference(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, **named: Any
) -> tuple[Any, Any]:  # arrays of float64
    """Return what `attention_varlen_lse` should."""
    named = {x: y for x, y in named.items() if x in OPTIONS and y is not None}
    if named.get("causal") is True:
        named["causal"] = "bottom_right"
    slopes, count = named.pop("alibi_slopes", np.zeros(())), len(cu_seqlens_q) - 1
    slopes = np.broadcast_to(slopes, (count, q.shape[1]))
    o, lse = np.zeros((*q.shape[:2], v.shape[2])), np.zeros(q.shape[1::-1])
    for b in range(count):
        mine, theirs = (slice(*map(int, x[b : b + 2])) for x in (cu_seqlens_q, cu_seqlens_k))
        parts = [x[y].swapaxes(0, 1)[None] for x, y in ((q, mine), (k, theirs), (v, theirs))]
        own = {**named, "alibi_slopes": slopes[b : b + 1]}
        own |= {x: _of_sequence(named[x], x, b) for x in ("score", "mask") if x in named}
        found, logs = reference(*parts, **own)
        o[mine], lse[:, mine] = found[0].swapaxes(0, 1), logs[0]
    return o, lse


def _of_sequence(function: Any, name: str, b: int) -> Any:
    """Return a function of the user that is given the number of its sequence."""
    if name == "mask":
        return lambda _b, *place: function(b, *place)
    return lambda s, _b, *place: function(s, b, *place)


class AttentionVarlen(Attention):
    """Queries, keys and values of several sequences, and where each starts."""

    families: ClassVar[Sequence[Family]] = VARLEN
    indices: ClassVar[Sequence[str]] = tuple(STARTS)
    lengths_vary = True
    names: ClassVar[dict[str, str]] = {"q": "HMD", "k": "HND", "v": "HNE"}
    order = (1, 0, 2)
    reference = staticmethod(lambda *arrays, **named: _reference(*arrays, **named)[0])

    def is_ragged(self, _config: Any) -> bool:
        """Return whether the last tile of keys may be a part of one."""
        return True

    def count(self, _batch: list[int]) -> int:
        """Return how many sequences there are; read where they start."""
        rows = self.given["q"].shape[0], self.given["k"].shape[0]
        count = 0
        for (name, most), total in zip(STARTS.items(), rows, strict=True):
            x, _kind = self.read(name, ("s32",), 1, "(sequences + 1)")
            found: tuple[int, ...] = tuple(x.shape)
            count = count or found[0]
            if found != (count,) or count < (2 if total else 1):
                wanted = f"({count})" if count > 1 else "(sequences + 1)"
                facts = {"name": name, "shape": shown(found), "wanted": wanted, "hint": ""}
                raise refusal("ops-shape", operation=self.operation, **facts)
            self.given[name] = x
            longest = self._longest(most)
            if isinstance(x, np.ndarray):
                self._require_rising(name, x, total, most, longest)
        return count - 1

    def _longest(self, name: str) -> int | None:
        """Return the length that the longest sequence is said to have at most."""
        found: Any = getattr(self.request, name)
        if found is not None and not (is_whole(found) and found >= 0):
            facts: dict[str, Any] = {"name": name, "value": found}
            raise refusal("attention-longest", operation=self.operation, **facts, longest=0)
        return None if found is None else int(found)

    def _require_rising(
        self, name: str, x: Any, total: int, most: str, longest: int | None
    ) -> None:
        """Refuse starts that are no partition of the rows, or a sequence that is too long."""
        facts: dict[str, Any] = {"operation": self.operation, "name": name}
        lengths = np.diff(x.astype(np.int64))
        if x[0] != 0 or x[-1] != total or (lengths < 0).any():
            wrong = np.flatnonzero(lengths < 0)
            at = int(wrong[0]) + 1 if len(wrong) else 0 if x[0] != 0 else len(x) - 1
            raise refusal("attention-starts", index=at, value=int(x[at]), total=total, **facts)
        if longest is not None and lengths.max(initial=0) > longest:
            facts |= {"name": most, "value": longest, "longest": int(lengths.max())}
            raise refusal("attention-longest", **facts)

    def guarded(self, answer: Answer) -> Answer:
        """Return the answer on a GPU; on the host, starts are read each time."""
        return (lambda *_call: None) if self.library.on_host else answer

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of a kernel: for warpgroups, with the counter of its blocks."""
        call = super().call(choice)
        if isinstance(call.config, WarpgroupAttention):
            _none, counter = self.library.workspace(self.given["q"], Workspace(1, 1), s32)
            call.workspace = *call.workspace, counter
        return call

    @cached_property
    def sides(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """What kernels read, Q, K, V, where sequences start and slopes, and the outputs."""
        starts = [self.readable(self.given[x]) for x in STARTS]
        rows = [x[None] for x in self.read_as_rows()]
        reads, outputs = self.with_outputs((*rows, *starts, self.slopes()))
        return reads, tuple([x._replace(array=x.array[None]) for x in outputs])


class AttentionVarlenLse(AttentionVarlen):
    """The same, which also gives the log of the sum of exponentials of each query."""

    with_lse = True
    reference = staticmethod(_reference)


# -- what a user calls


def _by_lse(flag: Any, _more: Any, given: dict[str, Any]) -> tuple[Operator, dict[str, Any]]:
    """Return the operator that gives the logs, too, and its arguments."""
    return WITH_LSE if flag else attention_varlen.operator, given


def _with_lse(flag: Any, _more: Any, given: tuple[Any, ...]) -> Any:
    """Return the result, and the logs if `flag` says so."""
    named = dict(zip(attention_varlen.operator.parameters, given, strict=True))
    return (WITH_LSE.public if flag else attention_varlen)(**named)


ARRAYS = ("q", "k", "v", *STARTS, "alibi_slopes", "out")


def attention_varlen_lse(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    *,
    score: Any = None,
    mask: Any = None,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    out: Any = None,
    out_lse: Any = None,
    out_dtype: DtypeLike | None = None,
    exact: bool = False,
    backend: str = "auto",
    config: Config | str | None = None,
    checks: bool | str = False,
) -> Any:  # two arrays of the operand's library
    """Return what `attention_varlen` returns with return_lse=True; `out_lse`: where the logs go."""


WITH_LSE = Operator(
    attention_varlen_lse,
    AttentionVarlenLse,
    (*ARRAYS, "out_lse"),
    {},
    {},
    CONFIGS,
    WORDS,
    "cute.ops.attention_varlen",
)


@operator(
    AttentionVarlen,
    arrays=ARRAYS,
    configs=CONFIGS,
    words=WORDS,
    variants=Variants("return_lse", "", _by_lse, _with_lse, (WITH_LSE,)),
)
def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    *,
    score: Any = None,
    mask: Any = None,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    return_lse: bool = False,
    out: Any = None,
    out_dtype: DtypeLike | None = None,
    exact: bool = False,
    backend: str = "auto",
    config: Config | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return `attention` of each sequence alone, of sequences one after the other in arrays.

    Args:
        q: queries (total_q, H, D), of f16, bf16 or f32, D contiguous. D and E are at most 256.
        k: keys (total_k, Hk, D); H / Hk heads of queries share one of k and v.
        v: values (total_k, Hk, E).
        cu_seqlens_q: s32 (sequences + 1), from 0 to total_q: where sequences start, and end.
        cu_seqlens_k: the same of keys and values.
        max_seqlen_q: the most queries of a sequence; no kernel needs it.
        max_seqlen_k: the same of keys.
        score: f(s, b, h, i, j) as in `attention`; i and j count in sequence b.
        mask: f(b, h, i, j), whether query i sees key j.
        causal: whether a query sees no key behind it: True is "bottom_right", or "top_left".
        window: as in `attention`, and so are `scale`, `softcap` and `exact`.
        scale: of the products; None: D ** -0.5.
        softcap: c above 0 makes a score c * tanh(score / c).
        alibi_slopes: (H) or (sequences, H), f32: times the distance it is subtracted.
        return_lse: whether it is (result, lse), f32 (H, total_q), as in `attention`.
        out: where the result (total_q, H, E) goes; None: a new array.
        out_dtype: of the result, f16, bf16 or f32; None: that of q.
        exact: whether sums are rescaled whenever the greatest score of a row grows.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what cute.ops.attention_varlen.explain shows, or text: "family=rows".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    Law: rows of a sequence are those of `attention` of it alone, whatever the others hold. On a GPU
    the host reads no length; starts that do not rise are cut to the arrays. Raises CuteError.

    >>> q = np.zeros((5, 1, 8), np.float16)
    >>> v = np.arange(40, dtype=np.float16).reshape(5, 1, 8)
    >>> starts = np.array([0, 2, 5], np.int32)
    >>> attention_varlen(q, q, v, starts, starts, causal=True)[:, 0, 0]
    array([ 0.,  4., 16., 20., 24.], dtype=float16)
    """
