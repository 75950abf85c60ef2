"""Launching: streams, graphs, libraries of arrays, refusals before a launch, errors after one.

The wording of the refusals is the launcher's; what is tested is that one comes, and what it names.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels.config import choose
from cute_py.kernels.copy import copy_elements
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from tests.gpu.harness import OnGpu, require_gpu, torch

require_gpu()

ROOT = Path(__file__).resolve().parents[2]


@cute.kernel
def axpy(x, y, alpha: cute.f32):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = y[i] + alpha * x[i]


@cute.kernel
def doubled(x, y):
    """In vectors as wide as the arrays allow."""
    cute.launch(grid=cute.ceil_div(x.shape[0], 512), block=128)
    here = (cute.block_idx() * 128 + cute.thread_idx(),)
    held = cute.rmem("f32", 4)
    cute.copy(cute.local_tile(x, (4,), here), held)
    cute.copy(held * 2.0, cute.local_tile(y, (4,), here))


@cute.kernel
def filled(y, blocks: cute.s32):
    cute.launch(grid=blocks, block=32)
    with cute.when((cute.block_idx() == 0) & (cute.thread_idx() < y.shape[0])):
        y[cute.thread_idx()] = 1.0


def vector(n=1000, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed)).cuda()


# -- streams and graphs


def test_two_threads_on_two_streams():
    """Each thread launches 200 times on its own stream; nothing is lost, nothing is mixed up."""
    ys, failures = [torch.zeros(100_000, device="cuda") for _ in range(2)], []
    x = torch.ones(100_000, device="cuda")
    torch.cuda.synchronize()

    def work(y, step):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(200):
                    axpy(x, y, step)
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=pair) for pair in zip(ys, (1.0, 3.0), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not failures
    assert [float(y.min()) for y in ys] == [float(y.max()) for y in ys] == [200.0, 600.0]


def test_two_threads_compile_the_same_kernel():
    @cute.kernel
    def fresh(x, y):
        cute.launch(grid=cute.ceil_div(x.shape[0], 64), block=64)
        i = cute.block_idx() * 64 + cute.thread_idx()
        with cute.when(i < x.shape[0]):
            y[i] = x[i] * 3.0 - 1.0

    x, failures = vector(), []
    ys = [torch.zeros_like(x) for _ in range(4)]

    def work(y):
        try:
            fresh(x, y)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(y,)) for y in ys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert not failures
    assert all(torch.equal(y, x * 3.0 - 1.0) for y in ys)


def test_the_current_stream_of_torch_orders_launches():
    """A kernel after a long one on the same stream reads what that one writes."""
    stream = torch.cuda.Stream()
    x, y = vector(1 << 20), torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        z = x * 2
        axpy(z, y, 1.0)
        w = y + 1
    stream.synchronize()
    assert torch.equal(w, x * 2 + 1)


def test_a_stream_can_be_given():
    stream, x, y = torch.cuda.Stream(), vector(), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    cute.run(cute.trace(axpy, x, y, 2.0), x, y, 2.0, stream=stream.cuda_stream)
    stream.synchronize()
    assert torch.equal(y, 2 * x)


def test_a_graph_replays_with_changed_data():
    a, b = (torch.randn(n, 256, device="cuda").half() for n in (128, 192))
    c = torch.zeros(128, 192, device="cuda")
    cfg = choose(a, b, (64, 64))
    gemm_multistage(a, b, c, cfg)  # compiled and loaded before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gemm_multistage(a, b, c, cfg)
        c.add_(1)
    for seed in range(3):
        a.copy_(torch.randint(-3, 4, a.shape, generator=torch.Generator().manual_seed(seed)))
        b.copy_(torch.randint(-3, 4, b.shape, generator=torch.Generator().manual_seed(seed + 9)))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(c.double(), a.double() @ b.double().T + 1)


# -- libraries


def test_arrays_of_cupy():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    x, y = cupy.arange(1000, dtype=cupy.float32), cupy.ones(1000, cupy.float32)
    axpy(x, y, 2.0)
    assert bool((y == 2 * x + 1).all())
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        z = x * 3
        axpy(z, y, -1.0)
        w = y.copy()
    stream.synchronize()
    assert bool((w == 1 - x).all())


def test_transposed_and_strided_arrays_of_cupy():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    x = cupy.arange(60, dtype=cupy.float32).reshape(6, 10)
    y = cupy.zeros((10, 12), cupy.float32)
    copy_elements(x.T, y[:, ::2])
    assert bool((y[:, ::2] == x.T).all())
    assert not bool(y[:, 1::2].any())


def test_device_arrays_of_numba():
    cuda = pytest.importorskip("numba.cuda", reason="needs numba-cuda")
    x, y = (cuda.to_device(np.full(1000, v, np.float32)) for v in (3, 1))
    axpy(x, y, 2.0)
    torch.cuda.synchronize()
    assert (y.copy_to_host() == 7).all()


@cute.kernel
def chosen(mask, x, y):
    cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
    i = cute.block_idx() * 128 + cute.thread_idx()
    with cute.when(i < x.shape[0]):
        y[i] = cute.where(mask[i], x[i], 0.0)
        mask[i] = x[i] > 0.0


@cute.kernel
def copied_flags(mask, out):
    cute.launch(grid=cute.ceil_div(mask.shape[0], 1024), block=32)
    here = (cute.block_idx() * 32 + cute.thread_idx(),)
    cute.copy(cute.local_tile(mask, (32,), here), cute.local_tile(out, (32,), here))


@pytest.mark.parametrize("n", [4096, 1001])
def test_bools_of_torch_are_bytes(n):
    """torch.bool keeps a byte for each flag, and so does a kernel."""
    x, out = vector(n), torch.ones(n, dtype=torch.bool, device="cuda")
    mask = torch.arange(n, device="cuda") % 3 == 0
    y = torch.full_like(x, torch.nan)
    copied_flags(mask, out)
    assert torch.equal(out, mask)
    chosen(mask, x, y)
    assert torch.equal(y, torch.where(out, x, 0.0))
    assert torch.equal(mask.view(torch.uint8), (x > 0).to(torch.uint8))


class OnlyDlpack:
    """What offers its memory by DLPack, and tells its shape and type."""

    def __init__(self, tensor):
        self.tensor, self.shape = tensor, tuple(tensor.shape)
        self.dtype = np.dtype(str(tensor.dtype).removeprefix("torch."))

    def __dlpack__(self, **named):
        return self.tensor.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_arrays_by_dlpack_alone():
    x, y = vector(), torch.ones(1000, device="cuda")
    axpy(OnlyDlpack(x), OnlyDlpack(y), 2.0)
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x + 1)


def test_objects_with_the_cuda_array_interface():
    x, y = OnGpu(np.arange(500, dtype=np.float32)), OnGpu(np.ones(500, np.float32))
    axpy(x, y, 2.0)
    torch.cuda.synchronize()
    assert (y.numpy() == 2 * x.numpy() + 1).all()


def test_results_are_of_the_callers_library():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    a = cupy.ones((32, 32), cupy.float16)
    d = cute.ops.gemm(a, a)
    assert isinstance(d, cupy.ndarray)
    assert bool((d == 32).all())


# -- what is found before a launch


def message(call):
    with pytest.raises(cute.CuteError) as caught:
        call()
    return str(caught.value)


def test_an_empty_grid_does_nothing_or_is_refused_by_name():
    y = torch.zeros(32, device="cuda")
    said = "grid"
    try:
        filled(y, 0)
    except cute.CuteError as error:
        said = str(error)
    assert "grid" in said
    torch.cuda.synchronize()
    assert not y.any()


@pytest.mark.parametrize("blocks", [-1, 2**31])
def test_a_grid_that_no_gpu_has_is_refused_before_launch(blocks):
    y = torch.zeros(32, device="cuda")

    @cute.kernel
    def tall(y, blocks: cute.s64):
        cute.launch(grid=blocks, block=32)
        y[cute.thread_idx()] = 1.0

    assert "grid" in message(lambda: tall(y, blocks))
    axpy(y, y, 1.0)  # nothing is broken after it
    torch.cuda.synchronize()
    assert not y.any()


def test_too_many_blocks_along_y_are_refused():
    @cute.kernel
    def tall(y, blocks: cute.s32):
        cute.launch(grid=(1, blocks), block=32)
        with cute.when(cute.block_idx()[1] == 0):
            y[cute.thread_idx()] = 1.0

    y = torch.zeros(32, device="cuda")
    tall(y, 65535)
    torch.cuda.synchronize()
    assert y.all()
    assert "grid" in message(lambda: tall(y, 65536))


def test_arrays_on_two_devices_are_refused():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x, y = vector(), torch.zeros(1000, device="cuda:1")
    assert "device" in message(lambda: axpy(x, y, 1.0))


def test_the_device_of_the_arrays_is_used():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x, y = vector().to("cuda:1"), torch.zeros(1000, device="cuda:1")
    with torch.cuda.device(0):
        axpy(x, y, 2.0)
        assert torch.cuda.current_device() == 0
    torch.cuda.synchronize(1)
    assert torch.equal(y, 2 * x)


def test_arrays_on_host_and_device_are_refused():
    assert message(lambda: axpy(np.ones(1000, np.float32), vector(), 1.0))


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_a_misaligned_pointer_gets_narrower_vectors(shift):
    x, y = vector(1024 + 4), torch.zeros(1024 + 4, device="cuda")
    doubled(x[shift : shift + 1024], y[shift : shift + 1024])
    doubled(x[shift : shift + 1024], z := torch.zeros(1024, device="cuda"))
    torch.cuda.synchronize()
    assert torch.equal(y[shift : shift + 1024], 2 * x[shift : shift + 1024])
    assert torch.equal(z, 2 * x[shift : shift + 1024])
    assert not y[:shift].any()
    assert not y[shift + 1024 :].any()


def test_a_plan_for_aligned_arrays_refuses_a_misaligned_one():
    x, y = vector(1028), torch.zeros(1028, device="cuda")
    plan = cute.trace(doubled, x[:1024], y[:1024])
    assert "x" in message(lambda: cute.run(plan, x[1:1025], y[:1024]))


# -- large arrays


def test_addresses_beyond_32_bits():
    """An int8 array of 3 GiB: a strided tile at its end is read and written."""
    free, _total = torch.cuda.mem_get_info()
    if free < 7 << 30:
        pytest.skip("needs 7 GiB of GPU memory")
    rows, columns = 3 << 14, 1 << 16
    big = torch.zeros(rows, columns, dtype=torch.int8, device="cuda")
    tail = big[rows - 100 :, columns - 200 :]
    tail.copy_(torch.randint(-99, 99, (100, 200), dtype=torch.int8))

    @cute.kernel
    def end_of(A, B):
        M, N = A.shape
        cute.launch(grid=(cute.ceil_div(N, 32), cute.ceil_div(M, 8)), block=(32, 8))
        (bx, by), (tx, ty) = cute.block_idx(), cute.thread_idx()
        m, n = by * 8 + ty, bx * 32 + tx
        with cute.when((m >= M - 100) & (m < M) & (n >= N - 200) & (n < N)):
            B[m - (M - 100), n - (N - 200)] = A[m, n]
            A[m, n] = 7

    out = torch.zeros(100, 200, dtype=torch.int8, device="cuda")
    wanted = tail.clone()
    end_of(big, out)
    torch.cuda.synchronize()
    assert torch.equal(out, wanted)
    assert bool((tail == 7).all())
    assert int(big[: rows - 100].any()) == 0
    del big


# -- errors on the GPU

HEAD = """
import torch
import cute_py as cute

@cute.kernel
def scatter(x, y, n: cute.s32):
    cute.launch(grid=4, block=32)
    i = cute.block_idx() * 32 + cute.thread_idx()
    y[i * n] = x[i]
"""


MAIN = """
from broken import *
x, y = torch.ones(128, device="cuda"), torch.ones(128, device="cuda")
{call}
print("not reached")
"""


def run_broken(tmp_path, call):
    """Run a call in a process of its own: an error of a kernel ends the context."""
    (tmp_path / "broken.py").write_text(HEAD)
    script = tmp_path / "main.py"
    script.write_text(MAIN.format(call=call))
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        timeout=300,
        check=False,
    )


def test_an_illegal_address_names_kernel_launch_and_emulator(tmp_path):
    """The error comes at the next call of cute_py, or at the launch itself where one waits."""
    call = """
scatter(x, y, 1 << 29)
try:
    torch.cuda.synchronize()
except Exception:
    pass
scatter(x, y, 1)
"""
    done = run_broken(tmp_path, call)
    assert done.returncode != 0
    assert "not reached" not in done.stdout
    for word in ("launches: scatter", "CUDA_ERROR", "cute.emulate(plan"):
        assert word in done.stderr, done.stderr[-2000:]


def test_the_emulator_finds_the_line_that_the_gpu_cannot(tmp_path):
    call = "scatter(x.cpu().numpy(), y.cpu().numpy(), 1 << 29)"
    done = run_broken(tmp_path, call)
    assert done.returncode != 0
    assert "broken.py:" in done.stderr


def test_an_assertion_that_fails_ends_the_launch(tmp_path):
    call = """
@cute.kernel
def checked(x):
    cute.launch(grid=1, block=32)
    cute.assert_(x.shape[0] < cute.thread_idx() + 5, "too many")
    x[cute.thread_idx()] = 1.0

checked(x)
torch.cuda.synchronize()
"""
    done = run_broken(tmp_path, call)
    assert done.returncode != 0
    assert "not reached" not in done.stdout
