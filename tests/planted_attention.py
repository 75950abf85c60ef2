"""Errors to plant in the kernels of attention, one at a time, and one edit that looks like one."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import cute_py as cute
from cute_py.kernels.attention import Rule, reference

FOLDER = Path(cute.__file__).parent / "kernels"

# what is wrong -> the text of the kernel, and the one in its place
WARPGROUPS = {
    # those of the first kernels on Hopper
    "weights are packed before the products that read them are done": (
        "if new is not old:",
        "if True:",
    ),
    "sums are rescaled before the products of V are done": (
        "            cute.warpgroup_wait(0, after=scores.total if cfg.holds else None)\n"
        "            ring_v.release()\n            scores.rescale(sums)\n",
        "            scores.rescale(sums)\n            cute.warpgroup_wait(0)\n"
        "            ring_v.release()\n",
    ),
    "no fence before the products of V": (
        "            stage = ring_v.wait()\n            cute.warpgroup_fence()\n",
        "            stage = ring_v.wait()\n",
    ),
    "no fence at all": ("            cute.warpgroup_fence()\n", ""),
    "V is released before it is multiplied": (
        "            cute.warpgroup_wait(0, after=scores.total if cfg.holds else None)\n"
        "            ring_v.release()\n",
        "            ring_v.release()\n            cute.warpgroup_wait(0)\n",
    ),
    "a turn does not end": (
        '            issue_values(old)\n            turn(1, "arrive")\n',
        "            issue_values(old)\n",
    ),
    "Q is loaded where O has not left": ("behind=1, stored=True", "behind=1"),
    "scores are read while they are multiplied": (
        "            cute.warpgroup_wait(1)\n            ring_k",
        "            cute.warpgroup_wait(2)\n            ring_k",
    ),
    "O is stored by TMA without an order": ("1 + me, tid % WARPGROUP", "1, tid % WARPGROUP"),
    # others
    "scores are not committed": (
        "q, k, False)\n            cute.warpgroup_commit()\n",
        "q, k, False)\n",
    ),
    "values are not committed": (
        "tOsV[_, _, _, stage])\n            cute.warpgroup_commit()\n",
        "tOsV[_, _, _, stage])\n",
    ),
    "scores begin with what the registers hold": ("q, k, False)", "q, k, True)"),
    "sums begin with what the registers hold": ("            sums.fill(0)\n", ""),
    "the first scores are not waited for": (
        "            cute.warpgroup_wait(0)\n            ring_k.release()\n",
        "            ring_k.release()\n",
    ),
    "a stage of K is not released": (
        "            cute.warpgroup_wait(1)\n            ring_k.release()\n",
        "            cute.warpgroup_wait(1)\n",
    ),
    "a stage of V is not released": (
        "            cute.warpgroup_wait(cfg.ahead - 1)\n            ring_v.release()\n",
        "            cute.warpgroup_wait(cfg.ahead - 1)\n",
    ),
    "the last values are not waited for": ("cute.warpgroup_wait(cfg.ahead - 1)", "pass"),
    "Q is never released": ("ring_q.release(behind=1, stored=True)", "pass"),
    "the stage of K is not waited for": ("stage = ring_k.wait()", "stage = 0"),
    "the stage of V is not waited for": ("stage = ring_v.wait()", "stage = 0"),
    "the stage of Q is not waited for": ("of_q.set(ring_q.wait())", "of_q.set(0)"),
    "one warpgroup releases for all": (
        'consumers="warpgroup", count=groups',
        'consumers="warpgroup", count=1',
    ),
    "a tile is not committed": ("            ring.commit()\n", ""),
    "a tile goes to the stage that is read": (
        "shared[_, _, ring.acquire()]",
        "shared[_, _, (ring.acquire() + 1) % 2]",
    ),
    "no extra block of queries is loaded": (
        "            load(ring_q, cute.local_tile(tQ[0, 0, _, _], (bM, bD), (0, 0)), sQ)\n",
        "",
    ),
    "no extra tile of keys is loaded": (
        "            load(ring_k, cute.local_tile(tK[0, 0, _, _], (bN, bD), (0, 0)), sK)",
        "            pass",
    ),
    "a tile of keys less is loaded": (
        "cute.range(tiles.end - tiles.begin)",
        "cute.range(tiles.end - 1)",
    ),
    "O goes to the place of the next Q": (
        "            done = of_q.get()\n            if cfg.ahead == 2:\n"
        "                begin()  # the next block of queries; after the last one an extra one\n",
        "            if cfg.ahead == 2:\n                begin()\n            done = of_q.get()\n",
    ),
    "the kernel ends while TMA stores": ("        store.tail()\n", ""),
    "the kernel ends while scores are multiplied": (
        "        cute.warpgroup_wait(0)\n        store.tail()\n",
        "        store.tail()\n",
    ),
    "nobody has the first turn": (
        '        with cute.when(me == groups - 1):\n            turn(1, "arrive")',
        "",
    ),
    "a turn is of one warpgroup": (
        "cute.named_barrier(turn, 2 * WARPGROUP, how)",
        "cute.named_barrier(turn, WARPGROUP, how)",
    ),
    "each lane of a warp loads": ('with cute.elect("role"):', "with cute.when(True):"),
}
LEGAL = {
    "K is released before its product is waited for": (
        "            cute.warpgroup_wait(1)\n            ring_k.release()\n",
        "            ring_k.release()\n            cute.warpgroup_wait(1)\n",
    ),
}
WARPS = {
    "tiles are not waited for": ("        cute.cp_async_wait(cfg.stages - 2)\n", ""),
    "the tile before is waited for": (
        "cute.cp_async_wait(cfg.stages - 2)",
        "cute.cp_async_wait(cfg.stages - 1)",
    ),
    "warps do not wait for each other": (
        "        cute.cp_async_wait(cfg.stages - 2)\n        cute.syncthreads()\n",
        "        cute.cp_async_wait(cfg.stages - 2)\n",
    ),
    "a tile goes to the stage that is read": ("bring(n + cfg.stages - 1)", "bring(n + cfg.stages)"),
    "K is read from the next stage": ("sK[_, _, n % cfg.stages]", "sK[_, _, (n + 1) % cfg.stages]"),
    "V is read from the next stage": (
        "sVt[_, _, n % cfg.stages]",
        "sVt[_, _, (n + 1) % cfg.stages]",
    ),
    "all tiles go to one stage": ("shared[_, _, n % cfg.stages]", "shared[_, _, 0]"),
    "copies are not committed": ("        cute.cp_async_fence()\n", ""),
    "no tile is loaded at first": ("range(cfg.stages - 1)", "range(0)"),
    "O is read before it is written": (
        "    cute.copy(out, thr.partition_C(sO))\n    cute.syncthreads()\n",
        "    cute.copy(out, thr.partition_C(sO))\n",
    ),
    "scores begin with what the registers hold": ("        acc.fill(0)\n", ""),
    "sums begin with what the registers hold": ("    sums.fill(0)\n", ""),
    "maxima begin with what the registers hold": ("    scores.most.fill(-math.inf)\n", ""),
}
ROWS = {
    "queries that are not there are computed": ("    cute.return_if(query >= sight.queries)\n", ""),
    "keys that are not there are read": (
        "with cute.when(key < N):",
        "with cute.when(key < N + 1):",
    ),
    "columns that are not there are read": (
        "with cute.when(column < e):\n                    x =",
        "with cute.when(column >= 0):\n                    x =",
    ),
    "columns that are not there are written": (
        "with cute.when(column < e):\n            O[",
        "with cute.when(column >= 0):\n            O[",
    ),
    "values that are not there are read": ("cute.min_(WARP, N - n * WARP)", "WARP"),
    "each head has keys of its own": ("head // rule.shared", "head"),
    "totals begin with what the registers hold": ("    scores.total.fill(0)\n", ""),
}
PLANTED = {"attention_sm90": WARPGROUPS, "flash_attention": WARPS, "attention_rows": ROWS}


def loaded(module, old, new, folder, monkeypatch):
    """The module with another text."""
    text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
    assert old in text
    file = folder / "planted.py"
    file.write_text(text.replace(old, new), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted", file)
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted", made)
    spec.loader.exec_module(made)
    return made


def run(module, made):
    """Compute attention of several blocks by an edited module, and return whether it is right."""
    rng, kind = np.random.default_rng(0), np.float32 if module == "attention_rows" else np.float16
    M, N = (70, 90) if module == "attention_rows" else (128, 192)
    shared = 1 if module == "attention_sm90" else 2
    dim = 80 if module == "attention_rows" else 64
    q, k, v = (
        rng.normal(0, 1, (1, *x, dim)).astype(kind)
        for x in ((4, M), (4 // shared, N), (4 // shared, N))
    )
    N = N if module == "attention_sm90" else 85
    k, v = (np.ascontiguousarray(x[:, :, :N]) for x in (k, v))
    o, lse = np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)
    rule = Rule(exact=True, shared=shared)
    more = q, k, v, None, None, o, lse, dim**-0.5, 1.0, 0, 0
    if module == "attention_sm90":
        cfg = made.WarpgroupAttention(head_dim=64, value_dim=64, keys=64, turns=1)
        made.attention_sm90(*more, 2, cfg, rule)
    elif module == "flash_attention":
        made.flash_attention(*more, made.AttentionConfig(32, 32, 64, 2), rule)
    else:
        made.attention_rows(*more, made.RowsAttention(value_dim=96), rule)
    wanted, logs = reference(q, k, v)
    return np.abs(o - wanted).max() < 2e-3 and np.abs(lse - logs).max() < 1e-4
