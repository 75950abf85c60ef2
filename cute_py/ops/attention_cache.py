"""`attention_with_kvcache`: attention to keys that are kept from call to call, often in pages."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cute_py.calls.arrays import address_of, unwrapped
from cute_py.calls.torch_tensors import is_tensor, note_written
from cute_py.errors import refusal
from cute_py.kernels.attention import reference
from cute_py.kernels.attention_decode import DecodeAttention, attention_cached
from cute_py.layout.tuples import ceil_div
from cute_py.ops.attention_families import vector_of
from cute_py.ops.attention_parts import Sizes, by_mma, decode_configs
from cute_py.ops.attentions import WORDS, Attention
from cute_py.ops.call import apart, overlap
from cute_py.ops.family import Estimate, Family
from cute_py.ops.operands import shown
from cute_py.ops.operator import Operator, Variants, operator

if TYPE_CHECKING:
    from cute_py.calls.memo import Answer
    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.configuration import Config

TYPES = ("f16", "bf16")
APPENDED = {"k_cache": "k", "v_cache": "v"}  # by the cache that they are written to


def _configs(problem: Any) -> list[Estimate]:
    caches = problem.sides[0][:3]
    return decode_configs(problem, vector_of(caches), problem.page)


FAMILIES = (
    Family(
        "decode",
        attention_cached,
        DecodeAttention,
        _configs,
        by_mma,
        "warps have keys of their own, for all heads that share them",
    ),
)


def _reference(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    cache_seqlens: Any,
    block_table: Any = None,
    k: Any = None,
    v: Any = None,
    *,
    causal: bool | str = False,
    alibi_slopes: Any = None,
    **named: Any,
) -> tuple[Any, Any]:  # arrays of float64
    """Return what `attention_with_kvcache_lse` should."""
    found = []
    for b, n in enumerate(np.asarray(cache_seqlens)):
        rows = []
        for cache, more in ((k_cache, k), (v_cache, v)):
            x = cache[b] if block_table is None else np.concatenate([*cache[block_table[b]]])
            x = x[:n] if more is None else np.concatenate([x[:n], more[b]])
            rows.append(x[None].swapaxes(1, 2))
        options = {x: y for x, y in named.items() if x in ("window", "scale", "softcap")}
        if alibi_slopes is not None:
            options["alibi_slopes"] = np.atleast_2d(alibi_slopes)[
                b % len(np.atleast_2d(alibi_slopes))
            ]
        last = "bottom_right" if causal is True else causal
        found.append(reference(q[b : b + 1].swapaxes(1, 2), *rows, causal=last, **options))
    o, lse = (np.concatenate(x) for x in zip(*found, strict=True))
    return o.swapaxes(1, 2), lse


class AttentionCache(Attention):
    """Queries, caches of keys and values, and what is appended to these.

    Attributes:
        page: rows of a page; 0: the caches are not in pages.
        new: how many rows are appended.
        limits: of the values of lengths and pages, for `require_values`.
    """

    types, families, mutates, indices = TYPES, FAMILIES, APPENDED, ("cache_seqlens", "block_table")
    lengths_vary = True
    reference = staticmethod(lambda *arrays, **named: _reference(*arrays, **named)[0])

    def read_all(self) -> tuple[Dtype, Sizes]:
        """Read all arrays but the slopes, and return the type of queries and the sizes."""
        request, given = self.request, self.given
        paged, appended = request.block_table is not None, request.k is not None
        if appended is (request.v is None):
            why = "k without v" if appended else "v without k"
            raise refusal("attention-append", operation=self.operation, given=why)
        caches = ("PRHD", "PRHE") if paged else ("BNHD", "BNHE")
        named = {"q": "BMHD", **dict(zip(APPENDED, caches, strict=True))}
        kind = self.read_alike(named | ({"k": "BnHD", "v": "BnHE"} if appended else {}))
        for name, modes in {"cache_seqlens": "B", "block_table": "Bp"}.items():
            if name != "block_table" or paged:
                given[name], _kind = self.read(name, ("s32",), len(modes), shown(modes))
        sizes = self._required()
        self.require_sizes(sizes)
        if appended:
            self._require_room(sizes)
        self.limits = self.page, sizes.N - self.new, given["k_cache"].shape[0]
        if self.library.on_host and self.library.has_memory:
            require_values(self.operation, self.limits, request)
        return kind, sizes

    def _required(self) -> Sizes:
        """Return the sizes; refuse shapes that do not fit each other."""
        given, table = self.given, self.given.get("block_table")
        (B, M, H, D), (P, R, G, _d) = given["q"].shape, given["k_cache"].shape
        E, count = given["v_cache"].shape[3], 0 if table is None else table.shape[-1]
        self.page: int = 0 if table is None else R
        N = R if table is None else count * R
        first, self.new = B if table is None else P, given["k"].shape[1] if "k" in given else 0
        wanted = {"k_cache": (first, R, G, D), "v_cache": (first, R, G, E), "cache_seqlens": (B,)}
        wanted |= {"block_table": (B, count), "k": (B, self.new, G, D), "v": (B, self.new, G, E)}
        for name, shape in wanted.items():
            if name in given and tuple(given[name].shape) != shape:
                raise self.wrong_shape(name, tuple(given[name].shape), shape)
        return Sizes(B, H, G, M, N, D, E)

    def _require_room(self, sizes: Sizes) -> None:
        """Refuse what cannot be appended in place."""
        why = ""
        if self.new > sizes.N:
            why = f"{self.new} rows in k, for caches of {sizes.N} rows"
        elif 0 in (sizes.M, sizes.H):
            why = f"{self.new} rows in k, and no queries"
        for name in APPENDED:
            x = self.given[name]
            self.require_memory(name, x, tuple(x.shape))
            why = why or self._why_not_written(name, x)
        if why:
            raise refusal("attention-append", operation=self.operation, given=why)

    def _why_not_written(self, name: str, x: Any) -> str:
        """Return why a kernel does not write to the memory of a cache; "" where it does."""
        asked = unwrapped(getattr(self.request, name))
        if not self.library.has_memory:
            return ""
        if not hasattr(asked, "shape"):
            return f"{name} of {type(asked).__name__}"
        if address_of(x) != address_of(asked) or self.library.steps(x) is None:
            return f"{name} of bytes in another order, or with a stride below 0"
        others = [(y, z) for y, z in self.given.items() if y != name]
        shared = [y for y, z in others if overlap(unwrapped(x), unwrapped(z))]
        return f"{name} and {shared[0]}, which share memory" if shared else ""

    @cached_property
    def sides(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """What the kernel reads, and the outputs."""
        library, given = self.library, self.given

        def rows(name: str) -> Any:
            return library.ordered(self.readable(given[name]), self.order)

        lengths, table = (self.readable(given[x]) if x in given else None for x in self.indices)
        more = [rows(x) if x in given else None for x in APPENDED.values()]
        caches = [rows(x) for x in ("q", *APPENDED)]
        return self.with_outputs((*caches, lengths, table, *more, self.slopes()))

    def guarded(self, answer: Answer) -> Answer:
        """Return an answer that looks at values of the host again, refuses appended rows that share
        memory with caches, and says what was written.
        """
        request, check = self.request, None
        if self.library.on_host:
            check = partial(require_values, self.operation, self.limits)
        given = {x: y for x in ARRAYS if (y := getattr(request, x)) is not None}
        caches = [(i, x) for i, x in enumerate(given) if x in APPENDED and self.new]
        near = [
            (i, j, *apart(given[x], y), address_of(y) - address_of(given[x]))
            for i, x in caches
            for j, y in enumerate(map(unwrapped, given.values()))
            if i != j
        ]
        make, places = type(request), [request._fields.index(x) for _i, x in caches]

        def guarded(args: Any, values: Any) -> Any:
            if check is not None:
                check(make(*args))
            for i, j, low, high, known in near:
                far = values[j] - values[i]
                if far != known and low < far < high:
                    return None
            found = answer(args, values)
            for place in places:
                if found is not None and is_tensor(args[place]):
                    note_written(args[place])
            return found

        return guarded


class AttentionCacheLse(AttentionCache):
    """The same, which also gives the log of the sum of exponentials of each query."""

    with_lse = True
    reference = staticmethod(_reference)


def require_values(operation: str, limits: tuple[int, int, int], request: Any) -> None:
    """Refuse lengths and pages outside of the caches, in arrays of the host.

    Args:
        operation: the operator.
        limits: rows of a page or 0, how many keys a sequence may have before the call, pages.
        request: with the arrays.

    """
    (page, room, pool), facts = limits, dict[str, Any]()
    new = 0 if request.k is None else request.k.shape[1]
    for b, length in enumerate(np.asarray(unwrapped(request.cache_seqlens)).tolist()):
        if not 0 <= length <= room:
            facts = {"at": b, "length": length, "most": room}
            raise refusal("attention-length", operation=operation, **facts)
        if request.block_table is not None:
            row = np.asarray(unwrapped(request.block_table))[b, : ceil_div(length + new, page)]
            for i, found in enumerate(row.tolist()):
                if not 0 <= found < pool:
                    facts = {"at": f"{b}, {i}", "page": found, "last": pool - 1}
                    raise refusal("attention-page", operation=operation, **facts)


# -- what a user calls


def _by_lse(flag: Any, _more: Any, given: dict[str, Any]) -> tuple[Operator, dict[str, Any]]:
    """Return the operator that gives the logs, too, and its arguments."""
    return WITH_LSE if flag else attention_with_kvcache.operator, given


def _with_lse(flag: Any, _more: Any, given: tuple[Any, ...]) -> Any:
    """Return the result, and the logs if `flag` says so."""
    named = dict(zip(attention_with_kvcache.operator.parameters, given, strict=True))
    return (WITH_LSE.public if flag else attention_with_kvcache)(**named)


ARRAYS = (
    *("q", "k_cache", "v_cache", "cache_seqlens", "block_table", "k", "v", "alibi_slopes"),
    "out",
)


def attention_with_kvcache_lse(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    cache_seqlens: Any,
    block_table: Any = None,
    k: Any = None,
    v: Any = None,
    *,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    split_kv: int | None = None,
    out: Any = None,
    out_lse: Any = None,
    exact: bool = False,
    backend: str = "auto",
    config: Config | str | None = None,
    checks: bool | str = False,
) -> Any:  # two arrays of the operand's library
    """Return what `attention_with_kvcache` returns with return_lse=True; `out_lse`: where the logs
    go.
    """


WITH_LSE = Operator(
    attention_with_kvcache_lse,
    AttentionCacheLse,
    (*ARRAYS, "out_lse"),
    {},
    {},
    DecodeAttention,
    WORDS,
    "cute.ops.attention_with_kvcache",
)


@operator(
    AttentionCache,
    arrays=ARRAYS,
    configs=DecodeAttention,
    words=WORDS,
    variants=Variants("return_lse", "", _by_lse, _with_lse, (WITH_LSE,)),
)
def attention_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    cache_seqlens: Any,
    block_table: Any = None,
    k: Any = None,
    v: Any = None,
    *,
    causal: bool | str = False,
    window: tuple[int, int] = (-1, -1),
    scale: float | None = None,
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    split_kv: int | None = None,
    return_lse: bool = False,
    out: Any = None,
    exact: bool = False,
    backend: str = "auto",
    config: Config | str | None = None,
    checks: bool | str = False,
    stream: Any = None,
) -> Any:  # an array of the operand's library
    """Return attention to the first keys of caches, as many as each sequence has.

    Args:
        q: queries (B, Mq, H, D), of f16 or bf16, D contiguous: the last ones of each sequence.
        k_cache: keys (B, N, Hk, D), or pages of them (P, page, Hk, D). D and E are at most 256.
        v_cache: values (B, N, Hk, E), or (P, page, Hk, E).
        cache_seqlens: how many keys each sequence has (B), s32, before k is appended.
        block_table: (B, pages), s32: key j of sequence b is row j % page of page
            block_table[b, j // page]. Entries behind the keys of a sequence are not used.
        k: keys (B, new, Hk, D) that are written to k_cache behind those of each sequence, in place.
        v: their values (B, new, Hk, E), for v_cache.
        causal: whether a query sees no key behind it: True or "bottom_right", or "top_left"; with
            the former the last query of a sequence is next to its last key.
        window: how many keys before and behind the one next to it a query sees; -1: all.
        scale: of the products; None: D ** -0.5.
        softcap: c above 0 makes a score c * tanh(score / c).
        alibi_slopes: (H) or (B, H), f32: times the distance of query and key it is subtracted.
        split_kv: parts of the keys, merged in a fixed order: 1 to 256; None: as shapes suggest.
        return_lse: whether it is (result, lse): f32 (B, H, Mq), as `cute.ops.attention` gives it.
        out: where the result (B, Mq, H, E) goes; None: a new array.
        exact: as in `cute.ops.attention`.
        backend: "gpu" or "emulator", with arrays that are there; "auto" takes what fits them.
        config: what cute.ops.attention_with_kvcache.explain shows, or text: "stages=4".
        checks: those of the emulator, as in `cute.emulate`.
        stream: of the GPU, of any library or as a number, for the work; None: the current one.

    Lengths and pages of a GPU are read there alone, so that a captured graph may be replayed with
    others; outside of the caches they are clamped to them. On the host they are an error, as other
    wrong arguments: CuteError. Equal calls give equal bits, and so do equal keys in other pages.

    >>> k, v = (np.arange(n, n + 24, dtype=np.float16).reshape(3, 4, 2, 1) for n in (0, 40))
    >>> q, lengths = np.zeros((2, 1, 2, 1), np.float16), np.array([1, 6], np.int32)
    >>> table = np.array([[2, 0], [1, 0]], np.int32)  # pages of 4 keys, two sequences
    >>> attention_with_kvcache(q, k, v, lengths, table)[:, 0, :, 0]
    array([[56.  , 57.  ],
           [47.66, 48.66]], dtype=float16)
    """
