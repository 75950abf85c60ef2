"""The emulator refuses a kernel without one of its waits, fences, barriers or guards, or its result
is wrong: of 200 single edits, all but those that are listed here. The score is not to fall.

    python -m pytest --slow tests/slow/test_mutants.py
"""

import pytest

from tests.slow.mutants import COUNT, MODULES, chosen, problem, run, source_of

pytestmark = pytest.mark.slow

SCORE = 0.903  # killed, of those that are no equivalent
# edits that change nothing -> why
EQUIVALENT = {
    **dict.fromkeys(
        (
            "gemm_07_multistage.gemm_multistage.fetch: weaker tile < tiles",
            "gemm_07_multistage.gemm_multistage.fetch: always tile < tiles",
            "gemm_07_multistage.gemm_multistage.fetch: weaker tile < tiles (2)",
            "gemm_07_multistage.gemm_multistage.fetch: always tile < tiles (2)",
            "fused_attention.fused_attention.bring: always j < columns",
        ),
        "a tile past the last is loaded as zeros, and never read",
    ),
    **dict.fromkeys(
        ("gemm_gathered._index: weaker at < rows.shape[0]",),
        "the index past the last is 0, which is below every end",
    ),
    **dict.fromkeys(
        (
            "flash_attention.attend.bring: always found",
            "attention_merge.attention_merge: weaker column * WIDTH < e",
        ),
        "a tile that reaches past its array is guarded anyway",
    ),
    **dict.fromkeys(
        (
            "attention_decode._decode: weaker first == 0",
            "attention_decode._decode: weaker part == 0",
        ),
        "blocks that append the same keys write the same values",
    ),
    "flash_attention.attend: without cute.syncthreads()": (
        "each warp reads rows of Q of its own, and writes the same rows of O"
    ),
    "flash_attention.attend: without cute.cp_async_wait(0)": (
        "tiles past the last go to other places than O"
    ),
    **dict.fromkeys(
        (
            "attention_merge.merge_warps: weaker lane == 0",
            "attention_merge.attention_merge: weaker lane == 0",
        ),
        "all lanes have the result",
    ),
    **dict.fromkeys(
        (
            "fused_attention.fused_attention: weaker (n + 1) * bN > "
            "(cute.min_(keys, first + 1) if x.causal else keys)",
        ),
        "the mask changes nothing in a full tile",
    ),
    **dict.fromkeys(
        (
            "reduce.over_block: weaker cute.lane_idx() == 0",
            "reduce.row_reduce: weaker cute.lane_idx() == 0",
            "reduce.row_reduce: other half of (cute.lane_idx() == 0) & (row < M)",
        ),
        "all lanes have the result of `warp_reduce`",
    ),
    **dict.fromkeys(
        (
            "reduce.reduce_rows: weaker tid == 0",
            "reduce.row_reduce: weaker tid == 0",
            "reduce.reduce_columns: weaker warp == 0",
        ),
        "all threads have the sum of the block",
    ),
    **dict.fromkeys(
        ("stream_k.owned: next tid % threads",),
        "the order of the slots is the same where they are read",
    ),
    **dict.fromkeys(
        (
            "stream_k.owned: weaker warp_k < 1",
            "stream_k.owned: always warp_k < 1",
        ),
        "warps along K have the same sums",
    ),
    **dict.fromkeys(
        ("split_k.SplitK._arrive: next cute.lane_idx() % self.parts",),
        "the lanes arrive at the same blocks, in another order",
    ),
}
# edits that nothing sees on these problems
SILENT = {
    "attention_merge.merge_warps: other half of (query < sizes[0]) & (vector * WIDTH < end)",
    "attention_merge.merge_warps: weaker query < sizes[0]",
    "attention_merge.merge_warps: other half of (query < sizes[0]) & (lane == 0)",
    "fused_attention.fused_attention: always n > 0",
    "fused_attention.fused_attention: without cute.syncthreads() (4)",
    "gemm_10_warp_specialised.gemm_warp_specialised: without cute.warpgroup_wait(1)",
    "gemm_10_warp_specialised.gemm_warp_specialised: one more warpgroup_wait 1",
    "gemm_12_ping_pong.gemm_ping_pong: without cute.fence_mbarrier_init()",
    "split_k.SplitK.__init__: without cute.fence_mbarrier_init()",
    "split_k.SplitK.share: without self.tail()",
    "split_k.SplitK.share: without cute.named_barrier(BARRIER, self.threads)",
    "w4a16.gemm_w4a16: without cute.syncthreads()",
    "gemm_sm90.gemm_pingpong: not turned 1 - me",
    "gemm_sm90.Inputs.load: weaker first < end",
    "gemm_sm90.Inputs.load: weaker n % 2 == 1",
    "gemm_sm90.Inputs.load: weaker n < columns - 1",
}
MUTANTS = {mutant.name: mutant for mutant in chosen()}


@pytest.mark.parametrize("module", MODULES)
def test_the_kernel_as_it_is_passes(module):
    problem(module, source_of(module))


@pytest.mark.parametrize("name", MUTANTS)
def test_an_edit_is_refused_or_seen_in_the_result(name):
    verdict = run(MUTANTS[name])
    assert (verdict == "silent") == (name in SILENT or name in EQUIVALENT), verdict


def test_the_score_has_not_fallen():
    assert len(MUTANTS) == COUNT
    assert set(MUTANTS) >= SILENT | set(EQUIVALENT)
    assert not SILENT & set(EQUIVALENT)
    assert 1 - len(SILENT) / (COUNT - len(EQUIVALENT)) >= SCORE
