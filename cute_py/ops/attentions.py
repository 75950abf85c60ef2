"""`attention`: weights of values by the softmax of scores of queries and keys, in one pass."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from inspect import signature
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cute_py.calls.arrays import dtype_of, strides_of
from cute_py.dtypes.table import dtype as as_dtype
from cute_py.dtypes.table import f32, u8
from cute_py.errors import CuteError, refusal
from cute_py.kernels.attention import Rule, reference
from cute_py.kernels.attention_decode import DecodeAttention
from cute_py.kernels.config_attention import WarpgroupAttention
from cute_py.kernels.configuration import changed
from cute_py.layout.tuples import ceil_div
from cute_py.ops import block_masks
from cute_py.ops.attention_families import CONFIGS, FAMILIES, configured
from cute_py.ops.attention_parts import Sizes, asked_parts, decode_call
from cute_py.ops.call import Call
from cute_py.ops.family import asked_by
from cute_py.ops.libraries import Words
from cute_py.ops.operands import shown
from cute_py.ops.operator import Operator, Variants, operator
from cute_py.ops.problem import Problem
from cute_py.ops.tuned import winner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.dtypes.table import Dtype, DtypeLike
    from cute_py.kernels.configuration import Config
    from cute_py.ops.family import Family
    from cute_py.ops.libraries import Library

TYPES = ("f16", "bf16", "f32")
ORDERS = {"BMHK": (0, 2, 1, 3), "BHMK": (0, 1, 2, 3)}  # of (batch, heads, rows, dim), both ways
CAUSAL = ("top_left", "bottom_right")  # by which ends queries and keys are next to each other
OPTIONS = tuple(signature(reference).parameters)[3:]
MOST = 256  # columns of Q, K and V
SMALLEST, LARGEST = 2.0**-126, 2.0**126  # of a number x: f32 holds x and 1 / x as normal numbers
BLOCK_BYTES = 1 << 19  # about what the emulator keeps of a block


def _reference(
    q: Any, k: Any, v: Any, *, layout: str = "BMHK", **named: Any
) -> tuple[Any, Any]:  # arrays of float64
    """Return what `attention_lse` should."""
    options = {x: y for x, y in named.items() if x in OPTIONS}
    o, lse = reference(*[x.transpose(ORDERS[layout]) for x in (q, k, v)], **options)
    return o.transpose(ORDERS[layout]), lse


class Attention(Problem):
    """Queries, keys and values, and what kernels make of them.

    Attributes:
        given: the arrays of the request by name; None for those left out.
        sizes: theirs.
        rule: what is done to scores.
        numbers: of the rule, run-time numbers of the kernels.
        parts: of the keys, as the call asks for; 0: by the rule.
        lengths_vary: whether sequences have lengths that are in memory; True as `causal` means then
            that the last query is next to the last key.
        names: the modes of the arrays of rows.
    """

    types: ClassVar[Sequence[str]] = TYPES
    families: ClassVar[Sequence[Family]] = FAMILIES
    names: ClassVar[dict[str, str]] = {"q": "BHMD", "k": "BHND", "v": "BHNE"}
    autocast, with_lse = "lower", False
    takes_more_modes, lengths_vary = False, False
    reference = staticmethod(lambda *arrays, **named: _reference(*arrays, **named)[0])

    def __init__(self, request: Any, library: Library) -> None:
        """Read the arrays; refuse those that do not fit each other, and what no kernel does."""
        super().__init__(request, library)
        self.parts = asked_parts(self, self.option("split_kv"))
        self.given: dict[str, Any] = {}
        kind, self.sizes = self.read_all()
        asked = self.option("out_dtype")
        made = kind if asked is None else as_dtype(asked)
        self.require_type("out_dtype", made, TYPES)
        B, H, _g, M, N, _d, E = self.sizes
        self._read_bias((B, H, M, N))
        self._read_slopes((B, H))
        self.rule, self.numbers = self._ruled()
        shape = (B, H, M, E)[-len(self.order) :]
        self.gives(self._in_layout(shape), made)
        if self.with_lse:
            self.gives(shape[:-1], f32, "out_lse")
        self.value = 0.0 if N == 0 else None

    # -- what is read

    def option(self, name: str) -> Any:
        """Return an argument of the request, None where the operator has none of that name."""
        return getattr(self.request, name, None)

    def read_all(self) -> tuple[Dtype, Sizes]:
        """Read q, k and v, and return their type and sizes."""
        kind = self.read_alike(self.names)
        return kind, self._sized()

    def read_alike(self, named: dict[str, str]) -> Dtype:
        """Read arrays of rows, by their names and modes, of the type of the first."""
        kind, *others = (self.read_rows(name, modes) for name, modes in named.items())
        for name, other in zip([*named][1:], others, strict=True):
            self.require_type(name, other, (kind.name,))
        return kind

    def _in_layout(self, x: Sequence[Any]) -> tuple[Any, ...]:
        """Return what belongs to (batch, heads, rows, dim) in the order of the request's layout."""
        return tuple([x[i] for i in self.order])

    def read_rows(self, name: str, modes: str) -> Dtype:
        """Read an array of rows by its modes, of which rows and dim are the last, and return its
        type.
        """
        wanted = self._in_layout(modes)
        x, kind = self.read(name, self.types, len(modes), shown(wanted))
        if len(x.shape) != len(modes):
            raise self.wrong_shape(name, tuple(x.shape), wanted)
        if 0 not in x.shape and x.shape[-1] > 1 and strides_of(x)[-1] != 1:
            facts: dict[str, Any] = {"name": name, "step": strides_of(x)[-1]}
            raise refusal("attention-rows", operation=self.operation, **facts)
        self.given[name] = x
        return kind

    def _sized(self) -> Sizes:
        """Return the sizes; refuse shapes that do not fit each other."""
        q, k, v = (self._in_layout(tuple(self.given[x].shape)) for x in "qkv")
        (*batch, H, M, D), (G, N), E = q, k[-3:-1], v[-1]
        for name, shape, wanted in (("k", k, (*batch, G, N, D)), ("v", v, (*batch, G, N, E))):
            if shape != wanted:
                raise self.wrong_shape(name, self._in_layout(shape), self._in_layout(wanted))
        sizes = Sizes(self.count(batch), H, G, M, N, D, E)
        self.require_sizes(sizes)
        return sizes

    def count(self, batch: list[int]) -> int:
        """Return how many sequences there are, by the modes before those of heads."""
        return batch[0]

    def require_sizes(self, sizes: Sizes) -> None:
        """Refuse heads that do not divide, and rows that are too long."""
        (_b, H, G, _m, _n, D, E), facts = sizes, dict[str, Any]()
        if (H % G if G else H) != 0:
            facts = {"heads": H, "shared": G}
            raise refusal("attention-heads", operation=self.operation, **facts)
        for name, dim in (("q", D), ("v", E)):
            if not 1 <= dim <= MOST:
                facts = {"name": name, "dim": dim, "most": MOST}
                raise refusal("attention-dim", operation=self.operation, **facts)

    def _read_bias(self, shape: tuple[int, ...]) -> None:
        """Read what is added to each score, or a mask."""
        self.given["bias"] = None
        if self.option("bias") is not None:
            x, _kind = self.read("bias", ("f16", "bf16", "f32", "b1"))
            found = tuple(x.shape)
            sides = zip(reversed(found), reversed(shape), strict=False)
            if len(found) > 4 or not all(n in (1, m) for n, m in sides):
                raise self.wrong_shape("bias", found, shape)
            self.given["bias"] = x

    def _read_slopes(self, shape: tuple[int, ...]) -> None:
        """Read the slope of each head, or of each head of the batch."""
        self.given["slopes"] = None
        if self.request.alibi_slopes is not None:
            x, _kind = self.read("alibi_slopes", ("f32",))
            if tuple(x.shape) not in (shape[1:], shape):
                raise self.wrong_shape("alibi_slopes", tuple(x.shape), shape)
            self.given["slopes"] = x

    def _ruled(self) -> tuple[Rule, tuple[Any, ...]]:
        """Return what is done to scores, and its numbers."""
        (_b, H, G, M, N, D, _e) = self.sizes
        request, causal = self.request, self.causal()
        (left, right), top_left = self._window(), causal == "top_left"
        scale = int(D) ** -0.5 if request.scale is None else request.scale  # a symbol in graphs
        scale, cap = self._finite("scale", scale), self._finite("softcap", request.softcap)
        if cap < 0:
            raise self._wrong_number("softcap", cap)
        if causal:
            right = 0
        more = (self.given["bias"], request.alibi_slopes, self.option("score"))
        rule = Rule(
            begins=left >= 0,
            ends=right >= 0,
            top_left=top_left and (self.lengths_vary or M != N),
            capped=cap > 0,
            scaled=scale <= 0 or cap > 0 or any(x is not None for x in more),
            precise=cap > 0 and (bool(request.exact) or dtype_of(self.given["q"]) == f32),
            exact=bool(request.exact),
            shared=H // max(G, 1),
            score=self.option("score"),
            mask=self.option("mask") if self.blocks is None else self.blocks.mask,
        )
        return rule, (scale, cap, *[min(max(n, 0), M + N) for n in (left, right)])

    def causal(self) -> Any:
        """Return False, or which ends are next to each other; refuse True where that differs."""
        causal, (_b, _h, _g, M, N, _d, _e) = self.request.causal, self.sizes
        if not isinstance(causal, (bool, np.bool_)) and causal not in CAUSAL:
            raise refusal("attention-mask", operation=self.operation, value=causal)
        if not isinstance(causal, str) and causal and self.lengths_vary:
            return "bottom_right"
        if not isinstance(causal, str) and causal and M != N:
            facts: dict[str, Any] = {"queries": M, "keys": N}
            raise refusal("attention-causal", operation=self.operation, **facts)
        return causal

    def _window(self) -> tuple[int, int]:
        """Return how far before and behind it a query sees keys; -1: as far as there are any."""
        found = self.request.window
        whole = isinstance(found, (tuple, list)) and len(found) == 2
        if not whole or not all(is_whole(n) and n >= -1 for n in found):
            raise refusal("attention-window", operation=self.operation, value=found)
        if self.blocks is None:
            return int(found[0]), int(found[1])
        M, N = self.sizes.M, self.sizes.N
        shift = 0 if self.request.causal == "top_left" else N - M
        return self.blocks.window((int(found[0]), int(found[1])), shift, (M, N))

    @cached_property
    def blocks(self) -> block_masks.Diagonals | None:
        """What kernels take of a BlockMask of torch; None for another mask."""
        mask: Any = getattr(self.request, "mask", None)
        B, H, _g, M, N, _d, _e = self.sizes
        if not block_masks.is_block_mask(mask):
            return None
        if len(self.given["q"].shape) != 4:
            facts: dict[str, Any] = {"found": tuple(mask.shape), "shape": "equal lengths"}
            raise refusal("attention-block-shape", operation=self.operation, **facts)
        return block_masks.diagonals(mask, (B, H, M, N), self.operation)

    def _finite(self, name: str, given: Any) -> float:
        found = self.number(name, given)
        size = abs(found)
        if not isfinite(found) or size > LARGEST or 0 < size < SMALLEST:
            raise self._wrong_number(name, given)
        return found

    def _wrong_number(self, name: str, value: Any) -> CuteError:
        return refusal("attention-number", operation=self.operation, name=name, value=value)

    # -- how it is computed

    @property
    def order(self) -> tuple[int, ...]:
        """The modes of the request's arrays as (batch, heads, rows, dim), and back."""
        return ORDERS[self.option("layout") or "BMHK"]

    @cached_property
    def gpu(self) -> Any:
        """The facts of the GPU that has the arrays; None for the host."""
        return self.library.gpu(self.given["q"])

    @cached_property
    def sides(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """What kernels read, Q, K, V, bias and slopes, and the outputs."""
        library, (B, H, _g, M, N, *_dims), bias = self.library, self.sizes, self.given["bias"]
        if bias is not None:
            flags = dtype_of(bias).name == "b1"
            bias = self.readable(library.seen_as(bias, u8) if flags else bias)
            bias = library.spread(bias, (B, H, M, N))
        return self.with_outputs((*self.read_as_rows(), bias, self.slopes()))

    def read_as_rows(self) -> tuple[Any, ...]:
        """Return Q, K and V as kernels read them."""
        found = (self.readable(self.given[x]) for x in "qkv")
        return tuple([self.library.ordered(x, self.order) for x in found])

    def slopes(self) -> Any:  # an array
        """Return the slopes as kernels read them, or None."""
        slopes, (B, H, *_sizes) = self.given["slopes"], self.sizes
        return None if slopes is None else self.library.spread(self.readable(slopes), (B, H))

    def with_outputs(self, reads: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return what kernels read, and the outputs."""
        out, E = self.writes(reads, self.order), self.sizes.E
        if strides_of(out.array)[-1] != 1 and E > 1:
            made = self.library.empty(self.shape, self.kind)
            array = self.ordered(made, self.order)
            out = out._replace(array=array, made=made, direct=False)
        if not self.with_lse:
            return reads, (out,)
        modes = tuple(range(len(self.order) - 1))
        return reads, (out, self.writes(reads, modes, name="out_lse"))

    @cached_property
    def rows(self) -> tuple[Any, ...]:
        """Q, K, V and O."""
        reads, outputs = self.sides
        return *reads[:3], outputs[0].array

    @classmethod
    def require_config(cls, config: Any) -> None:
        """Refuse text that is no configuration."""
        if isinstance(config, str):
            kind = asked_by(cls.families, config) or cls.families[0].config
            changed(kind(), config, [x.config for x in cls.families], kind)

    def _config(self) -> Any:
        if self.request.config is None:
            found = winner(self.facts, lambda: [x for (x,) in self.candidates()])
            if found is not None:
                return found
        return configured(self)

    def require_parts(self, config: Any) -> None:
        """Refuse a configuration with other parts of the keys than the call asks for."""
        if self.parts and getattr(config, "parts", 1) != self.parts:
            rule = f"parts={self.parts}, as split_kv says"
            raise refusal("config-attention", operation=self.operation, config=config, rule=rule)

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of a kernel, by what was chosen before, if given."""
        family, config = self.chosen(choice)
        if isinstance(config, DecodeAttention):
            return decode_call(self, family.kernel, config, *self.sides)
        reads, outputs = self.sides
        return Call(
            family.kernel,
            self.library,
            reads,
            outputs,
            more=(*self.numbers, *family.numbers(config, self)),
            workspace=() if self.with_lse else (None,),
            statics=(config, replace(self.rule, ragged=self.is_ragged(config))),
            choice=(config,),
            blocks=self.sizes.B * self.sizes.H * ceil_div(self.sizes.M, config.queries),
            block_bytes=BLOCK_BYTES,
            inputs=self,
        )

    def is_ragged(self, config: Any) -> bool:
        """Return whether the last tile of keys may be a part of one."""
        return not isinstance(config, WarpgroupAttention) or self.sizes.N % config.keys > 0

    def filled_with(self, name: str) -> float | None:
        """Return what an output holds that no kernel computes."""
        return -inf if name == "out_lse" else self.value


class AttentionLse(Attention):
    """The same, which also gives the log of the sum of exponentials of each query."""

    with_lse = True
    reference = staticmethod(_reference)


def is_whole(x: Any) -> bool:
    """Tell whether an argument is a whole number."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


# -- what a user calls


def _by_lse(flag: Any, _more: Any, given: dict[str, Any]) -> tuple[Operator, dict[str, Any]]:
    """Return the operator that gives the logs, too, and its arguments."""
    return WITH_LSE if flag else attention.operator, given


def _with_lse(flag: Any, _more: Any, given: tuple[Any, ...]) -> Any:
    """Return the result, and the logs if `flag` says so."""
    named = dict(zip(attention.operator.parameters, given, strict=True))
    return (WITH_LSE.public if flag else attention)(**named)


ARRAYS = ("q", "k", "v", "bias", "alibi_slopes", "out")
WORDS = Words("attention", "call it for some heads at a time", "what `explain` shows, or its text")


def attention_lse(
    q: Any,
    k: Any,
    v: Any,
    *,
    bias: Any = None,
    score: Any = None,
    mask: Any = None,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    layout: str = "BMHK",
    out: Any = None,
    out_lse: Any = None,
    out_dtype: DtypeLike | None = None,
    split_kv: int | None = None,
    exact: bool = False,
    backend: str = "auto",
    config: Config | str | None = None,
    checks: bool | str = False,
) -> Any:  # two arrays of the operand's library
    """Return what `attention` returns with return_lse=True; `out_lse`: where the logs go."""


CHOICES = {"layout": tuple(ORDERS)}
WITH_LSE = Operator(
    attention_lse,
    AttentionLse,
    (*ARRAYS, "out_lse"),
    {},
    CHOICES,
    CONFIGS,
    WORDS,
    "cute.ops.attention",
)


@operator(
    Attention,
    arrays=ARRAYS,
    choices=CHOICES,
    configs=CONFIGS,
    words=WORDS,
    variants=Variants("return_lse", "", _by_lse, _with_lse, (WITH_LSE,)),
)
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    bias: Any = None,
    score: Any = None,
    mask: Any = None,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    layout: str = "BMHK",
    return_lse: bool = False,
    out: Any = None,
    out_dtype: DtypeLike | None = None,
    split_kv: int | None = None,
    exact: bool = False,
    backend: str = "auto",
    config: Config | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return softmax(scores) v, where the scores are scale * q k^T, without a matrix of scores.

    Args:
        q: queries (B, Mq, H, D), of f16, bf16 or f32, D contiguous. D and E are at most 256.
        k: keys (B, Mk, Hk, D); H / Hk heads of queries share one of k and v: h reads h // (H / Hk).
        v: values (B, Mk, Hk, E).
        bias: is added to scores, or of bool: True is seen. It broadcasts to (B, H, Mq, Mk).
        score: f(s, b, h, i, j) of registers, with the numbers of batch, head, query and key.
        mask: f(b, h, i, j), whether query i sees key j, or a BlockMask of torch.
        causal: whether a query sees no key behind it: True where Mq == Mk, "top_left" (query i is
            next to key i, torch) or "bottom_right" (the last ones are, flash-attn).
        window: how many keys before and behind the one next to it a query sees; -1: all.
        scale: of the products; None: D ** -0.5.
        softcap: c above 0 makes a score c * tanh(score / c).
        alibi_slopes: (H) or (B, H), f32: times the distance of query and key it is subtracted.
        layout: "BMHK", as above, or "BHMK", with heads before rows.
        return_lse: whether it is (result, lse): f32 (B, H, Mq), the natural logarithm of the sum
            of exponentials of a query's scores, -infinity for one that sees no key.
        out: where the result (B, Mq, H, E) goes; None: a new array.
        out_dtype: of the result, f16, bf16 or f32; None: that of q.
        split_kv: parts of the keys, merged in a fixed order: 1 to 256; None: as shapes suggest.
        exact: whether sums are rescaled whenever the greatest score of a row grows, not only where
            it does by more than a factor of 2^8, and tanh of softcap is not the approximation.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what cute.ops.attention.explain shows, or text: "family=warps".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    It is computed in f32, with weights in the type of v; equal calls give equal bits. A query that
    sees no key gives 0. Operands that need a gradient are an error. Raises CuteError.

    >>> q = np.zeros((1, 4, 2, 8), np.float16)
    >>> v = np.arange(64, dtype=np.float16).reshape(1, 4, 2, 8)
    >>> attention(q, q, v, causal=True)[0, :, 0, 0]
    array([ 0.,  8., 16., 24.], dtype=float16)
    """
