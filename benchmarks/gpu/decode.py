"""`cute.ops.attention_with_kvcache` of one query a sequence, against torch's SDPA without pages.

    python -m benchmarks.gpu.decode --out benchmarks/results/decode.json [--cases WORD ...]
    python -m benchmarks.gpu.decode --dry [--cases WORD ...]     (compiles; needs no GPU)

Pages are in a random order, and all sequences have as many keys as the caches. Each answer is
checked first, twice, against float64, and bit for bit. Then all are timed in one process, in
graphs, as `benchmarks.gpu.attention` does. Figures are TB/s of keys and values, and ratios to
cuDNN. `--config` gives other configurations of ours.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cute_py as cute
from benchmarks.gpu.attention import MOST, ROUNDS, require_right, timed
from cute_py.ops import attention_with_kvcache
from cute_py.ops.without_gpu import Outline, gpu_of, outlined

if TYPE_CHECKING:
    from collections.abc import Callable


class Case(NamedTuple):
    """Sizes: `page` is 0 for caches (batch, keys, heads, dim), -1 for (batch, heads, keys, dim)."""

    batch: int
    keys: int
    page: int = 0
    heads: int = 64
    groups: int = 8
    dim: int = 128
    kind: str = "bf16"
    new: int = 0

    def __str__(self) -> str:
        how = {0: "contiguous", -1: "heads first"}.get(self.page, f"page {self.page}")
        more = f" append {self.new}" if self.new else ""
        sizes = f"b{self.batch} {self.heads}/{self.groups} heads d{self.dim} keys {self.keys}"
        return f"{sizes} {how} {self.kind}{more}"

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        return 4 * self.batch * self.keys * self.groups * self.dim

    @property
    def cache(self) -> tuple[int, ...]:
        """The shape of a cache."""
        rows = self.batch, self.keys
        if self.page > 0:
            rows = self.batch * self.keys // self.page, self.page
        return (*rows, self.groups, self.dim)


SIZES = ((64, 8192), (1, 32768), (4, 32768))
CASES = [
    *(Case(*sizes, page) for sizes in SIZES for page in (0, 16, 64)),
    *(Case(*sizes, -1) for sizes in SIZES),
    *(Case(b, n, 16, new=1) for b, n in SIZES),
    *(Case(64, 8192, page, kind="f16") for page in (256, 10)),
    Case(64, 8192, 16, heads=32, groups=32, dim=64),
    Case(16, 8192, 16, heads=128, groups=8),
    Case(16, 8192, 64, heads=32, groups=4, dim=256),
    Case(256, 1024, 16),
]


def dry(case: Case, config: str | None) -> str:
    """Compile a case for an H200, and return its resources."""
    kind, s32 = cute.dtype(case.kind), cute.dtype("s32")
    q = Outline.compact((case.batch, 1, case.heads, case.dim), kind)
    cache = Outline.compact(case.cache, kind)
    if case.page < 0:
        batch, keys, groups, dim = case.cache
        cache = Outline.compact((batch, groups, keys, dim), kind).transpose((0, 2, 1, 3))
    lengths, table = Outline.compact((case.batch,), s32), None
    if case.page > 0:
        table = Outline.compact((case.batch, case.keys // case.page), s32)
    pair = (Outline.compact((case.batch, case.new, *case.cache[2:]), kind),) * 2
    given = (q, cache, cache, lengths, table, *(pair if case.new else (None, None)))
    operator, request = attention_with_kvcache.operator.requested(
        *given, backend="gpu", config=config
    )
    call = outlined(operator, request, gpu_of("sm_90a"))
    calls = [x for x in (call.first, call) if x is not None]
    found = [str(cute.compile(x.plan(), "sm_90a").resources) for x in calls]
    return f"{case}: {call.config}; {'; '.join(found)}"


def reference(q: Any, k: Any, v: Any) -> Any:
    """Return the answer in float64, a sequence at a time; k and v (batch, heads, keys, dim)."""
    import torch

    out = torch.empty(q.shape, dtype=torch.float64, device="cuda")
    for b in range(q.shape[0]):
        for g in range(k.shape[1]):
            heads = slice(g * q.shape[2] // k.shape[1], (g + 1) * q.shape[2] // k.shape[1])
            s = q[b, 0, heads].double() @ k[b, g].double().T * q.shape[3] ** -0.5
            out[b, 0, heads] = torch.softmax(s, -1) @ v[b, g].double()
    return out


def peers(q: Any, k: Any, v: Any) -> dict[str, Callable[[], Any]]:
    """Return torch's backends that compute a case without pages, by name."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = q.transpose(1, 2)  # (batch, heads, 1, dim)

    def forced(backend: Any) -> Callable[[], Any]:
        def run() -> Any:
            with sdpa_kernel(backend):
                found = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
                return found.transpose(1, 2)

        return run

    found = {}
    for name, word in {"cuDNN": "CUDNN_ATTENTION", "FA2": "FLASH_ATTENTION"}.items():
        run = forced(getattr(SDPBackend, word))
        try:
            run()
        except RuntimeError as error:
            print(f"  no {name}: {str(error)[:80]}")
            continue
        found[name] = run
    return found


def cached(case: Case, k: Any, v: Any) -> tuple[Any, ...]:
    """Return the caches (or pools of pages in a random order) and the table of a case."""
    import torch

    if case.page < 0:
        return k.transpose(1, 2), v.transpose(1, 2), None
    rows = [x.transpose(1, 2).contiguous() for x in (k, v)]
    if case.page == 0:
        return *rows, None
    count = case.batch * case.keys // case.page
    order = torch.randperm(count, device="cuda")
    table = torch.empty_like(order)
    table[order] = torch.arange(count, device="cuda")
    pools = [x.reshape(count, case.page, *x.shape[2:])[order] for x in rows]
    return *pools, table.int().reshape(case.batch, -1)


def measured(case: Case, configs: list[str | None]) -> dict[str, Any]:
    """Return what was measured of a case."""
    import torch

    torch.manual_seed(0)
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[case.kind]
    keys = case.keys // max(case.page, 1) * max(case.page, 1)
    case = case._replace(keys=keys)
    shape = case.batch, case.groups, keys, case.dim
    k, v = (torch.randn(shape, device="cuda", dtype=kind) for _ in range(2))
    q = torch.randn(case.batch, 1, case.heads, case.dim, device="cuda", dtype=kind)
    wanted, theirs = reference(q, k, v), peers(q, k, v)
    k_cache, v_cache, table = cached(case, k, v)
    lengths = torch.full((case.batch,), keys - case.new, dtype=torch.int32, device="cuda")
    pair: tuple[Any, ...] = (None, None)
    if case.new:
        pair = tuple([x[:, :, keys - case.new :].transpose(1, 2).contiguous() for x in (k, v)])

    def ours(config: str | None) -> Callable[[], Any]:
        given = q, k_cache, v_cache, lengths, table, *pair
        return lambda: attention_with_kvcache(*given, config=config)

    errors = {x: require_right(x, run, wanted, MOST[case.kind]) for x, run in theirs.items()}
    runs = dict(theirs)
    for config in configs:
        name = f"ours {config}" if config else "ours"
        runs[name] = ours(config)
        errors[name] = require_right(name, runs[name], wanted, MOST[case.kind])
    rows = {
        name: {
            "error": errors[name],
            **{f"{way} us": x for way, x in times.items()},
            **{way: case.bytes / x / 1e6 for way, x in times.items()},
        }
        for name, times in timed(runs).items()
    }
    base = rows.get("cuDNN", rows["ours"])
    for name, row in rows.items():
        ratios = [f"{row[way]:.2f} TB/s ({row[way] / base[way]:.3f})" for way in ROUNDS]
        print(f"  {name:12} {'  '.join(ratios)}  error {row['error']:.1e}", flush=True)
    return {"case": str(case), "rows": rows}


def main() -> None:
    """Measure, or compile."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cases", nargs="*", default=[], help="words that a case's name has")
    parser.add_argument("--config", nargs="*", default=[], help="configurations to compare")
    parser.add_argument("--dry", action="store_true", help="compile alone, print resources")
    options = parser.parse_args()
    chosen = [x for x in CASES if all(word in str(x) for word in options.cases)]
    if options.dry:
        for case in chosen:
            for config in options.config or [None]:
                print(dry(case, config), flush=True)
        return
    if options.out is None:
        parser.error("--out or --dry is needed")
    from benchmarks.gpu.operators import save

    found: list[dict[str, Any]] = []
    for case in chosen:
        print(case, flush=True)
        found.append(measured(case, [None, *options.config]))
        save(options.out, found)


if __name__ == "__main__":
    main()
