"""The launcher on a GPU: arrays of every library, streams, threads, devices, graphs, errors."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls import arrays
from cute_py.codegen.launch import run as running
from cute_py.trace.kernel import Kernel

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


def adder():
    @cute.kernel
    def add(a, b, c):
        cute.launch(grid=cute.ceil_div(a.shape[0], 128), block=128)
        i = cute.block_idx() * 128 + cute.thread_idx()
        with cute.when(i < a.shape[0]):
            c[i] = a[i] + b[i]

    return add


@pytest.fixture
def no_slow_path(monkeypatch):
    """Return a function after which only known calls are allowed."""

    def forbid():
        monkeypatch.setattr(Kernel, "_run", lambda *_a: pytest.fail("went the whole way"))

    return forbid


KINDS = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
]


def changed(name, x):
    """Change what an array is, in place."""
    if name == "shape":
        x.resize_(700)
    elif name == "stride":
        x.as_strided_((500,), (2,))
    elif name == "memory":
        x.set_(torch.arange(1000.0, device="cuda"))


def test_a_gradient_that_is_asked_for_in_place_is_seen():
    add = adder()
    a, b, c = (torch.rand(1000, device="cuda") for _ in range(3))
    for _ in range(3):
        add(a, b, c)
    a.requires_grad_()
    with pytest.raises(cute.CuteError, match="autograd follows"):
        add(a, b, c)
    with torch.no_grad():
        add(a, b, c)
    assert torch.equal(c, a.detach() + b)


@pytest.mark.parametrize("name", ["shape", "stride", "memory"])
def test_an_array_that_was_changed_in_place_is_read_anew(name):
    add = adder()
    a, b, c = (torch.rand(1000, device="cuda") for _ in range(3))
    for _ in range(3):
        add(a, b, c)
    changed(name, a)
    n = len(a)
    c.zero_()
    for _ in range(3):
        add(a, b, c)
    found = a.detach() + b[:n]
    assert torch.equal(c[:n], found.to(c.dtype))
    assert not c[n:].any()


def test_guards_tell_arrays_by_every_fact():
    """`torch.compile`'s guards are there in this torch, and know what the launch depends on."""
    library = arrays.library_of(torch.zeros(1, device="cuda"))
    x = torch.rand((8, 4), device="cuda")
    whole = torch.zeros((8, 4), dtype=torch.complex64, device="cuda")
    others = [x.T, x[:, :2], x[::2], x.double(), x.cpu(), torch.nn.Parameter(x), x[None], x.int()]
    others += [whole.imag, x.to(torch.bfloat16), None, 3]
    others += [x.to(f"cuda:{n}") for n in range(1, torch.cuda.device_count())]
    same = library.guard([x])
    assert all(map(same, [x, x.clone(), torch.zeros_like(x)]))
    assert not any(map(same, others))
    assert library.guard([whole.imag])(whole.imag)
    assert not library.guard([whole.imag])(whole.conj().imag)
    assert library.guard([x, x])(x, x)
    assert library.guard([x, x])(x, x.clone())
    assert arrays._distinguishes(library.guard)
    assert not arrays._distinguishes(lambda _arrays: lambda *_others: True)
    assert not arrays._distinguishes(lambda _arrays: lambda *_others: False)
    shapes = lambda given: lambda other: other.shape == given[0].shape  # noqa: E731
    assert not arrays._distinguishes(shapes)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["grad", "inference"])
def test_known_calls_are_known_in_every_mode_of_torch(mode, no_slow_path):
    add = adder()
    a, b = (torch.rand(1000, device="cuda") for _ in range(2))
    c = torch.zeros_like(a)
    add(a, b, c)
    no_slow_path()
    for _ in range(3):
        with mode():
            add(a, b, c)
        add(a, b, c)
    assert torch.equal(c, a + b)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_known_calls_compute_what_first_calls_do(kind, no_slow_path):
    add = adder()
    a, b = (torch.randint(0, 9, (1000,), device="cuda").to(kind) for _ in range(2))
    c = torch.zeros_like(a)
    add(a, b, c)
    assert torch.equal(c, a + b)
    no_slow_path()
    for _ in range(3):
        a, b = (torch.randint(0, 9, (1000,), device="cuda").to(kind) for _ in range(2))
        c = torch.zeros_like(a)
        add(a, b, c)
        assert torch.equal(c, a + b)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_fp8_arrays_are_copied(kind):
    @cute.kernel
    def copy(a, b):
        cute.launch(grid=1, block=128)
        b[cute.thread_idx()] = a[cute.thread_idx()]

    a = torch.randn(128, device="cuda").to(kind)
    b = torch.zeros(128, device="cuda").to(kind)
    for _ in range(2):
        copy(a, b)
    assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def test_run_time_numbers_of_known_calls(no_slow_path):
    @cute.kernel
    def axpy(x, y, alpha: cute.f32, n: cute.s32):
        cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
        i = cute.block_idx() * 128 + cute.thread_idx()
        with cute.when(i < n):
            y[i] = x[i] * alpha

    x, y = torch.ones(500, device="cuda"), torch.zeros(500, device="cuda")
    axpy(x, y, 1.0, 1)
    no_slow_path()
    axpy(x, y, -0.25, 300)
    assert torch.equal(y, torch.where(torch.arange(500, device="cuda") < 300, -0.25, 0.0))


@pytest.mark.parametrize("step", [2, 3])
def test_innermost_strides_other_than_one(step):
    add = adder()
    a = torch.arange(1000, device="cuda", dtype=torch.float32)[::step]
    c = torch.zeros(1000, device="cuda")[::step]
    for _ in range(2):
        add(a, a, c)
    assert torch.equal(c, 2 * a)


def test_offsets_beyond_32_bits():
    @cute.kernel
    def ends(x):
        cute.launch(grid=1, block=32)
        with cute.when(cute.thread_idx() < x.shape[0]):
            x[cute.thread_idx()] = 7.0

    if torch.cuda.mem_get_info()[0] < 20 << 30:
        pytest.skip("needs 20 GB of free memory")
    memory = torch.zeros((3 << 30) + 1, device="cuda")  # 12 GB: more than 2^31 elements
    ends(memory[:: 3 << 29])
    assert memory[:: 3 << 29].tolist() == [7.0, 7.0, 7.0]
    assert memory.sum().item() == 21.0


def test_numba_arrays_and_their_streams():
    numba = pytest.importorskip("numba.cuda", reason="needs numba-cuda")
    from cute_py.codegen.frontend import patch_numba

    patch_numba()
    add = adder()
    a, b = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    for stream in (0, numba.stream()):
        x, y = (numba.to_device(v, stream=stream) for v in (a, b))
        z = numba.device_array(1000, np.float32, stream=stream)
        for _ in range(2):
            add(x, y, z)
        np.testing.assert_array_equal(z.copy_to_host(), a + b)


def test_ops_gemm_gives_numba_arrays_back():
    numba = pytest.importorskip("numba.cuda", reason="needs numba-cuda")
    from cute_py.codegen.frontend import patch_numba

    patch_numba()
    a = np.random.default_rng(0).integers(-3, 4, (64, 32)).astype(np.float16)
    x = numba.to_device(a)
    d = cute.ops.gemm(x, x.T, out_dtype="f32")
    assert type(d).__module__.startswith("numba")
    wanted = a.astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_array_equal(d.copy_to_host(), wanted)
    out = numba.device_array((64, 64), np.float32)
    assert cute.ops.gemm(x, x.T, out=out) is out
    np.testing.assert_array_equal(out.copy_to_host(), wanted)


def test_cupy_arrays_and_streams(no_slow_path):
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    add = adder()
    a, b = cupy.arange(1000, dtype="f4"), cupy.ones(1000, "f4")
    c = cupy.zeros_like(a)
    add(a, b, c)
    no_slow_path()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a, c = cupy.arange(1000, dtype="f4") * 3, cupy.zeros(1000, "f4")
        add(a, b, c)
        stream.synchronize()
    cupy.testing.assert_array_equal(c, a + b)


class Capsule:
    """An array that tells about its memory through DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_arrays():
    add = adder()
    a, c = torch.arange(1000, device="cuda", dtype=torch.float32), torch.zeros(1000, device="cuda")
    for _ in range(2):
        add(Capsule(a), a, Capsule(c))
    assert torch.equal(c, 2 * a)
    m = torch.eye(32, device="cuda", dtype=torch.float16)
    assert torch.equal(cute.ops.gemm(Capsule(m), m), m)


def test_typed_arrays():
    @cute.kernel
    def copy(a, b):
        cute.launch(grid=1, block=128)
        b[cute.thread_idx()] = a[cute.thread_idx()]

    a, b = torch.randn(128, device="cuda"), torch.zeros(128, device="cuda")
    for _ in range(2):
        copy(cute.typed(a, "tf32"), cute.typed(b, "tf32"))
    assert torch.equal(a, b)


def test_views_of_negated_values_are_refused():
    add = adder()
    z = torch.randn(1000, device="cuda", dtype=torch.complex64)
    plain, negated = z.imag, z.conj().imag
    c = torch.zeros(1000, device="cuda")
    add(plain, plain, c)
    with pytest.raises(cute.CuteError) as caught:
        add(negated, negated, c)
    assert caught.value.code == "argument-negated"


# -- streams, graphs, threads, devices


def test_launches_go_to_the_current_stream():
    add = adder()
    a = torch.ones(1 << 20, device="cuda")
    c = torch.zeros_like(a)
    add(a, a, c)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(50):  # each depends on the one before, and on torch's own work between
            add(a, c, c)
            c.add_(1)
    stream.synchronize()
    assert torch.equal(c, torch.full_like(c, 102.0))


def test_a_stream_may_be_given():
    add = adder()
    a, c = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    plan = cute.trace(add, a, a, c)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for given in (stream, stream.cuda_stream):
        c.zero_()
        torch.cuda.synchronize()
        cute.run(plan, a, a, c, stream=given)
        stream.synchronize()
        assert torch.equal(c, 2 * a)


def test_known_calls_are_captured_into_a_graph(no_slow_path):
    add = adder()
    a, b, c = (torch.ones(1000, device="cuda") for _ in range(3))
    add(a, b, c)
    no_slow_path()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(5):
            add(a, c, c)
    c.zero_()
    graph.replay()
    assert torch.equal(c, 5 * a)
    a.fill_(2)
    graph.replay()
    assert torch.equal(c, torch.full_like(c, 15.0))


def test_a_first_call_in_a_capture_is_refused_and_the_capture_lives_on():
    add, other = adder(), adder()
    a, c = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    add(a, a, c)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(cute.CuteError) as caught:
            other(a, a, c)
        add(a, a, c)
    assert caught.value.code == "launch-capture"
    c.zero_()
    graph.replay()
    assert torch.equal(c, 2 * a)


def test_threads_launch_on_their_own_streams():
    """A new thread has no context; both launch one prepared kernel at the same time."""
    add = adder()
    failed = []

    def work(seed):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(200):
                a = torch.full((1000,), float(seed + i), device="cuda")
                c = torch.zeros_like(a)
                add(a, a, c)
                if not torch.equal(c, 2 * a):
                    failed.append((seed, i))

    before = len(running._compiled)
    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(running._compiled) == before + 1


def test_a_thread_that_has_used_no_gpu_can_launch():
    add = adder()
    a, c = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    add(a, a, c)
    c.zero_()
    torch.cuda.synchronize()
    errors = []

    def work():
        try:
            add(a, a, c)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
    assert torch.equal(c, 2 * a)


def test_every_device_is_used_and_the_current_one_stays():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    add = adder()
    for _ in range(2):
        for device in (1, 0):
            a, c = (torch.ones(1000, device=f"cuda:{device}") for _ in range(2))
            add(a, a, c)
            assert torch.equal(c, 2 * a)
            assert torch.cuda.current_device() == 0
    with pytest.raises(cute.CuteError) as caught:
        add(a, a, c.to("cuda:1"))
    assert caught.value.code == "launch-device"


# -- limits and errors


def test_too_large_a_grid_is_refused():
    @cute.kernel
    def tall(x, n: cute.s64):
        cute.launch(grid=(1, n), block=32)

    x = torch.zeros(8, device="cuda")
    tall(x, 65535)
    for n in (65536, -1):
        with pytest.raises(cute.CuteError) as caught:
            tall(x, n)
        assert caught.value.code == "launch-grid"
    tall(x, 0)
    torch.cuda.synchronize()


BROKEN = """
import sys
import torch
import cute_py as cute

@cute.kernel
def wild(x, address: cute.s64):
    cute.launch(grid=1, block=32)
    place = cute.make_tensor(cute.make_ptr("f32", address, align=4), cute.Layout(32))
    place[cute.thread_idx()] = x[cute.thread_idx()]

x = torch.zeros(64, device="cuda")
wild(x, x.data_ptr())
try:
    wild(x, x.data_ptr() + (1 << 42))
    if sys.argv[1] == "later":
        torch.cuda.synchronize()
except cute.CuteError as error:
    print(error.code, error)
    sys.exit()
except Exception:
    pass
try:
    wild(x, x.data_ptr())
except cute.CuteError as error:
    print(error.code, error)
"""


@pytest.mark.parametrize(("when", "code"), [("later", "launch-earlier"), ("now", "launch-failed")])
def test_an_illegal_address_is_reported_with_the_name_of_the_kernel(tmp_path, when, code):
    script = tmp_path / "broken.py"
    script.write_text(BROKEN)
    env = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),  # where the package is not installed
        "CUTE_PY_SYNC": "1" if when == "now" else "0",
    }
    done = subprocess.run(
        [sys.executable, str(script), when], capture_output=True, text=True, env=env, check=False
    )
    assert done.stdout.startswith(code), done.stdout + done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "wild" in done.stdout
    assert "cute.emulate(plan, ...)" in done.stdout
