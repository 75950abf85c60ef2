"""Refusals of tracing: further cases of what tests/refusals has a row of."""

import dataclasses

import numpy as np
import pytest

import cute_py as cute
from cute_py.plan.verify import verify
from tests.kernel_refusals import ARRAYS, marked_line, raised, traced
from tests.kernel_refusals import require_teaching as teaches
from tests.refusals.arguments import number
from tests.refusals.memory import ASYNC
from tests.sampling import each

X = ARRAYS["x"]
WARPGROUP = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS")

LEFT = {}  # values of a kernel that is over


@cute.kernel
def leaving(x):
    cute.launch(grid=1, block=32)
    LEFT["i"] = cute.thread_idx()
    LEFT["condition"] = LEFT["i"] < 3
    LEFT["tensor"] = cute.rmem("f32", 4)


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("Int", lambda i, condition, tensor: i + 1),
        ("Int", lambda i, condition, tensor: 1 - i),
        ("Int", lambda i, condition, tensor: i ^ 5),
        ("Int", lambda i, condition, tensor: i < 1),
        ("Condition", lambda i, condition, tensor: condition & condition),
        ("Tensor", lambda i, condition, tensor: tensor + tensor),
        ("Tensor", lambda i, condition, tensor: -tensor),
        ("Tensor", lambda i, condition, tensor: tensor.__iadd__(1)),
        ("sqrt", lambda i, condition, tensor: cute.sqrt(tensor)),
        ("where", lambda i, condition, tensor: cute.where(condition, tensor, tensor)),
        ("syncthreads", lambda i, condition, tensor: cute.syncthreads()),
    ],
)
def test_a_call_outside_of_a_kernel_is_named_as_the_user_knows_it(operation, call):
    cute.trace(leaving, ARRAYS["x"])
    error = raised(lambda: call(**LEFT))
    assert (error.code, error.facts["operation"]) == ("trace-outside", operation)


def test_functions_with_yield_and_async_functions_are_no_kernels():
    def steps_of(x):
        yield x

    async def waiting(x):
        x[0] = 1

    for function in (steps_of, waiting):
        assert raised(lambda function=function: cute.kernel(function)).code == "kernel-function"


def test_a_lambda_may_return_what_it_computes():
    kernel = cute.kernel(lambda x: (cute.launch(grid=1, block=32), x[0]))
    assert cute.trace(kernel, ARRAYS["x"]).body


def test_an_asynchronous_copy_does_not_fill_in_a_negative_zero():
    def filled(h):
        tile = cute.local_tile(h, (1, 64), (0, 0))
        cute.copy(ASYNC, tile, cute.smem("f16", (1, 64)), fill=-0.0)

    assert raised(lambda: traced(filled)).code == "kernel-fill"


def test_what_fills_registers_is_a_number_of_their_type():
    """Whether the copy can leave out loads or not; a zero is one of every type."""
    wrong = {np.int32: (-np.inf, np.nan, 1.5, 2**40), bool: (-np.inf, 2), np.uint8: (-1, 300)}
    of_any = (None, "0", np.zeros(2), 1j)

    def filled(x, fill, first):
        cute.launch(grid=1, block=1)
        held = cute.make_rmem_tensor(8, x.dtype)
        cute.copy(cute.local_tile(x, (8,), (first,)), held, fill=fill)
        cute.copy(held, cute.make_rmem_tensor(8, x.dtype), fill=fill)
        cute.copy(held, cute.local_tile(x, (8,), (0,)))

    kernel = cute.kernel(filled)
    for kind in (*wrong, np.float32):
        x = np.ones(11, kind)
        for fill in (*wrong.get(kind, ()), *of_any):
            for first in (0, 1):
                error = raised(lambda fill=fill, x=x, first=first: kernel(x, fill, first))
                assert error.code == "kernel-number", (kind, fill)
        for fill in (0, 0.0, -0.0, x[0].item()):
            x[8:] = 1
            kernel(x, fill, 1)
            assert x[:8].tolist() == [1] * 3 + [fill] * 5


@pytest.mark.parametrize("fn", ["and", "or", "xor"])
def test_floats_have_no_bits_to_combine(fn):
    def combined(f):
        cute.atomic(fn, cute.local_tile(f, (1,), (0,)), 1.0)

    def reduced(f):
        held = cute.rmem("f32", 4)
        held.fill(1)
        f[0] = cute.reduce(fn, held)

    for body in (combined, reduced):
        assert raised(lambda body=body: traced(body)).code == "kernel-domain"


@pytest.mark.parametrize("wait", ["cp_async_wait", "tma_store_wait", "warpgroup_wait"])
def test_groups_that_may_be_pending_are_counted_from_zero(wait):
    for groups, code in ((-1, "kernel-choice"), (1.5, "leaf-type")):
        error = raised(lambda groups=groups: traced(lambda x: getattr(cute, wait)(groups)))
        assert error.code == code
        assert error.facts["operation"] == f"cute.{wait}"
    assert traced(lambda x: getattr(cute, wait)(0)).ops


@pytest.mark.parametrize(
    ("value", "code"), [(0, "kernel-choice"), (2**20, "kernel-choice"), (1.5, "leaf-type")]
)
def test_what_an_mbarrier_counts_fits_20_bits(value, code):
    assert raised(lambda: traced(lambda x: cute.mbarriers(1).init(value))).code == code
    if value:
        body = lambda x: cute.mbarriers(1).arrive_expect_tx(0, value)  # noqa: E731
        assert raised(lambda: traced(body)).code == code


@pytest.mark.parametrize("value", [0, 3, 2048])
def test_an_alignment_is_a_power_of_two_that_a_block_has(value):
    assert raised(lambda: traced(lambda x: cute.smem("f32", 32, value))).code == "kernel-choice"


def launching(shape):
    """Return the plan of a kernel that launches so; a shape is text."""

    @cute.kernel
    def empty(n: cute.s32, many: cute.s32(min=2**16), few: cute.s32(max=-1)):
        eval(f"cute.launch({shape})", globals(), {"n": n, "many": many, "few": few})

    return cute.trace(empty, 1, 2**16, -1)


# what no GPU launches: the words of what is too large or too small, and the launch
BEYOND = """
70000 blocks of the grid along y; required: 0 to 65535: grid=(1, 70000), block=32
65536 blocks of the grid along z; required: 0 to 65535: grid=(1, 1, 65536), block=32
2147483648 blocks of the grid along x; required: 0 to 2147483647: grid=2**31, block=32
-1 blocks of the grid along x: grid=-1, block=32
many blocks of the grid along y: grid=(n, many), block=32
few blocks of the grid along x: grid=few, block=32
1025 threads of a block along x; required: 1 to 1024: grid=1, block=1025
65 threads of a block along z; required: 1 to 64: grid=1, block=(1, 1, 65)
2048 threads of a block; required: 1 to 1024: grid=1, block=(64, 32)
0 threads of a block along y: grid=1, block=(32, 0)
17 blocks of a cluster along x; required: 1 to 16: grid=17, block=32, cluster=17
32 blocks of a cluster; required: 1 to 16: grid=(4, 8), block=32, cluster=(4, 8)
0 blocks of a cluster along x: grid=4, block=32, cluster=0
7 blocks of the grid along x, in clusters of 2: grid=7, block=32, cluster=2
2*n+1 blocks of the grid along y, in clusters of 2: grid=(1, 2 * n + 1), block=32, cluster=(1, 2)
0 min_blocks; required: 1 to 32: grid=1, block=32, min_blocks=0
33 min_blocks: grid=1, block=32, min_blocks=33
3072 threads of min_blocks blocks on a multiprocessor: grid=1, block=1024, min_blocks=3
-1 spill_bytes: grid=1, block=32, spill_bytes=-1
524289 spill_bytes; required: 0 to 524288: grid=1, block=32, spill_bytes=2**19 + 1
"""
WITHIN = """
grid=2**31 - 1, block=32
grid=(1, 65535, 65535), block=32
grid=0, block=32
grid=(many, n, n - 100), block=32
grid=1, block=(1, 16, 64)
grid=1, block=(1, 1024)
grid=(4, 8), block=32, cluster=(4, 4)
grid=(n, 2 * n), block=32, cluster=(3, 2)
grid=1, block=64, min_blocks=32
grid=1, block=32, spill_bytes=2**19
"""


@each(BEYOND.strip().splitlines())
def test_what_no_gpu_launches_is_refused_when_it_is_traced(row):
    words, _, shape = row.rpartition(": grid=")
    error = raised(lambda: launching(f"grid={shape}"))
    assert error.code in ("plan-launch", "plan-clusters")
    assert f"given {words}" in str(error)
    assert "(<string>:1)" in str(error)


@each(WITHIN.strip().splitlines())
def test_what_some_gpu_launches_is_traced(row):
    assert launching(row).launch


def test_a_plan_is_verified_by_the_limits_of_launches():
    plan = launching("grid=8, block=32, cluster=2")
    for change in ({"block": (0, 1, 1)}, {"grid": (1, 1 << 16, 1)}, {"cluster": (3, 1, 1)}):
        wrong = dataclasses.replace(plan, launch=dataclasses.replace(plan.launch, **change))
        assert raised(lambda wrong=wrong: verify(wrong)).code in ("plan-launch", "plan-clusters")


def ring_of(stages=3, **options):
    tile = cute.smem("f32", cute.Layout((128, 3)))
    return cute.pipeline(stages, **{"tiles": [tile]} | options)


@each(
    [
        (lambda x: cute.pipeline(2, bytes=16).skip(-1), "kernel-choice"),
        (lambda x: cute.pipeline(2, bytes=16).advance(-1), "kernel-choice"),
        (lambda x: cute.pipeline(2, bytes=16, consumers=0), "kernel-choice"),
        (lambda x: cute.PipelineTmaStore().commit((x,)), "kernel-choice"),
        (lambda x: cute.tma_tensor(3), "not-a-tensor"),
        (lambda x: cute.tma_load(x, x, 3, 0), "kernel-choice"),
        (lambda x: cute.mbarriers(0), "kernel-choice"),
        (lambda x: cute.mbarriers(1).wait(0, 2), "kernel-choice"),
        (lambda x: cute.mbarriers(1).wait(0, cute.thread_idx() // 3), "kernel-choice"),
        (lambda x: list(cute.tiles(-1, 2)), "kernel-choice"),
        (lambda x: list(cute.tiles(2, 2, group=0)), "kernel-choice"),
        (lambda x: list(cute.tiles(2, 2, step=-1)), "kernel-choice"),
        (lambda x: list(cute.tiles(2, 2, depth=0)), "kernel-choice"),
        (lambda x: cute.fewest_blocks(10, 0), "kernel-choice"),
        (lambda x: ring_of(stages=3.0), "leaf-type"),
        (lambda x: ring_of(consumers=128.0), "kernel-choice"),
        (lambda x: ring_of(consumers="block"), "kernel-choice"),
        (lambda x: ring_of(count=0), "kernel-choice"),
        (lambda x: ring_of(tiles=(), bytes=2**20), "kernel-choice"),
        (lambda x: ring_of(bytes=256), "kernel-choice"),
        (lambda x: ring_of(cluster=(1, 1)), "pipeline-cluster"),
        (lambda x: ring_of().release(behind=None), "kernel-choice"),
        (lambda x: cute.pipeline(3).release(behind=1), "pipeline-tma"),
        (lambda x: cute.pipeline(3).tail(), "pipeline-tma"),
        (lambda x: cute.PipelineTmaStore(2.0), "leaf-type"),
        (lambda x: cute.PipelineTmaStore(1, 0), "kernel-choice"),
        (lambda x: cute.PipelineTmaStore(1, 64), "kernel-choice"),
        (lambda x: cute.PipelineTmaStore(1, 32, thread=3), "kernel-choice"),
        (lambda x: cute.mbarriers(1).arrive(1), "kernel-choice"),
        (lambda x: cute.mapa(cute.mbarriers(1), 1), "kernel-choice"),
        (lambda x: cute.mapa(cute.mapa(cute.mbarriers(1), 0), 0), "mapa-tensor"),
        (lambda x: cute.role(["load"], warps=0), "kernel-choice"),
        (lambda x: cute.role("load", warps=None), "role-warps"),
        (lambda x: cute.atomic("add", x[0], 1), "kernel-space"),
    ]
)
def test_what_rings_barriers_and_schedules_are_given_is_judged(call, code):
    assert raised(lambda: traced(call)).code == code


def test_integers_of_numpy_are_numbers_of_rings_roles_and_registers():
    def right(x):
        cute.launch(grid=1, block=128)
        ring_of(stages=np.int64(3), count=np.int32(2), cluster=np.int64(1), bytes=np.int64(512))
        ring_of(consumers=np.int64(128))
        cute.PipelineTmaStore(np.int64(2), np.int64(64))
        cute.setmaxnreg(np.int64(40), "dec")
        with cute.role("load", warps=np.int64(1)):
            x[0] = 1

    assert traced(right).ops


def test_wgmma_leaves_at_most_seven_groups_in_flight():
    assert raised(lambda: traced(lambda x: cute.warpgroup_wait(8))).code == "kernel-choice"


def test_a_rounding_is_one_of_the_host():
    error = raised(lambda: traced(lambda x: x[0].to("f16", rounding="up")))
    assert error.code == "rounding-unknown"
    assert traced(lambda x: x[0].to("f16", rounding="ru")).ops


def test_the_fragments_of_a_warpgroup_must_fit_each_other():
    def body(h):
        acc, a = cute.rmem("f32", (4, 1, 1)), cute.smem("f16", (1024, 2, 1))
        cute.warpgroup_gemm(WARPGROUP, acc, a, cute.smem("f16", (128, 1, 1)))  # here

    error = raised(lambda: traced(body))
    teaches(error, "operand-shape", marked_line(body))
    assert "C (4,1,1):(1,0,0), A (1024,2,1)" in str(error)
    assert "with 4, 1024, 128 values V of C, A and B" in str(error)


@pytest.mark.parametrize("value", [3.5, "3", None, 2**40, True, (1, 2)])
def test_a_run_time_number_is_checked(value):
    assert raised(lambda: cute.trace(number, X, value)).code == "kernel-number"
