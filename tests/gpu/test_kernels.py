"""Kernels on the GPU: bit for bit what the emulator gives on integers, close on random numbers."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.kernels import gemm_04_double_buffer as gemm_04
from cute_py.kernels import transpose
from cute_py.kernels.config import choose
from cute_py.kernels.copy import copy_any, copy_elements, copy_tiles
from cute_py.kernels.gemm_01_naive import gemm_naive
from cute_py.kernels.gemm_02_shared import gemm_shared
from cute_py.kernels.gemm_03_registers import gemm_registers
from cute_py.kernels.gemm_05_tensor_core import gemm_tensor_core
from cute_py.kernels.gemm_06_ldmatrix import gemm_ldmatrix
from cute_py.kernels.gemm_07_multistage import gemm_multistage
from cute_py.kernels.gemm_08_epilogue import gemm_epilogue
from cute_py.kernels.reduce import reduce_rows, sum_any
from cute_py.kernels.softmax import softmax, softmax_any
from cute_py.kernels.splitk_serial import gemm_splitk
from tests.test_first_screen import first_kernel

torch = pytest.importorskip("torch", reason="needs torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

SHAPES = [(1, 7, 33), (64, 64, 64), (129, 130, 257), (256, 128, 512)]
MAJORS = [(1, 1), (1, 0), (0, 1), (0, 0)]
TYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "s8": torch.int8,
    "u8": torch.uint8,
}
SUMS = {"f64": torch.float64, "s8": torch.int32, "u8": torch.int32}


# rows of single bytes need more registers than a thread has, and are refused where they spill
BYTES = (64, 64, 64)


def matrix(rows, columns, kind, mode=1, integers=True, seed=0):
    """Return a random matrix on the GPU whose mode `mode` is contiguous."""
    generator = torch.Generator().manual_seed(seed + rows * 1000 + columns)
    shape = (rows, columns) if mode else (columns, rows)
    if integers:
        low = 0 if kind == "u8" else -3
        x = torch.randint(low, 4, shape, generator=generator)
    else:
        x = torch.randn(shape, generator=generator)
    x = x.to(TYPES[kind]).cuda()
    return x if mode else x.T


def poisoned(rows, columns, kind):
    dtype = SUMS.get(kind, torch.float32)
    fill = float("nan") if dtype.is_floating_point else -(2**31) + 1
    return torch.full((rows, columns), fill, dtype=dtype, device="cuda")


def product(a, b):
    return (a.double() @ b.double().T).cpu()


RUNS = {
    "naive": lambda a, b, c: gemm_naive(a, b, c),
    "shared": lambda a, b, c: gemm_shared(a, b, c),
    "registers": lambda a, b, c: gemm_registers(a, b, c),
    "double buffer": lambda a, b, c: gemm_04.sgemm_128x128(a, b, c, gemm_04.choose(a, b)),
    "tensor core": lambda a, b, c: gemm_tensor_core(
        a, b, c, choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)
    ),
    "ldmatrix": lambda a, b, c: gemm_ldmatrix(
        a, b, c, choose(a, b, (64, 64), 2, asynchronous=False)
    ),
    "multistage": lambda a, b, c: gemm_multistage(a, b, c, choose(a, b, (64, 64))),
    "epilogue": lambda a, b, c: _epilogue(a, b, c),
}


def _epilogue(a, b, c):
    cfg = choose(a, b, (64, 64), outputs=[c])
    gemm_epilogue(a, b, c, c, None, 1.0, 0.0, cfg)


CASES = [
    *[(name, "f32", SHAPES[i % 4], MAJORS[i % 4]) for i, name in enumerate(RUNS)],
    *[
        (name, kind, BYTES, MAJORS[0])
        if "8" in kind
        else (name, kind, SHAPES[(i + j) % 4], MAJORS[(2 * i + j) % 4])
        for i, name in enumerate(("naive", "tensor core", "ldmatrix", "multistage"))
        for j, kind in enumerate(TYPES)
        if not (name == "ldmatrix" and kind == "f64")
    ],
    *[("multistage", kind, shape, (1, 1)) for kind in ("f16", "bf16") for shape in SHAPES],
    *[("multistage", "f16", (129, 130, 257), majors) for majors in MAJORS],
]


@pytest.mark.parametrize(("name", "kind", "shape", "majors"), CASES)
def test_gemm_is_exact_on_integers(name, kind, shape, majors):
    m, n, k = shape
    a, b = matrix(m, k, kind, majors[0]), matrix(n, k, kind, majors[1], seed=7)
    c = poisoned(m, n, kind)
    if name == "double buffer" and kind != "f32":
        pytest.skip("an f32 kernel")
    RUNS[name](a, b, c)
    torch.cuda.synchronize()
    assert torch.equal(c.double().cpu(), product(a, b))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_gemm_is_close_on_random_numbers(kind):
    a, b = (matrix(n, 520, kind, integers=False) for n in (300, 200))
    c = poisoned(300, 200, kind)
    RUNS["multistage"](a, b, c)
    torch.cuda.synchronize()
    wanted = product(a, b)
    assert (c.double().cpu() - wanted).norm() <= 1e-6 * wanted.norm()


def test_gemm_gives_the_same_bits_every_time():
    a, b = (matrix(n, 512, "bf16", integers=False) for n in (512, 256))
    results = []
    for _ in range(100):
        c = poisoned(512, 256, "bf16")
        RUNS["multistage"](a, b, c)
        results.append(c)
    torch.cuda.synchronize()
    assert all(torch.equal(results[0], c) for c in results)


@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (128, 256)])
@pytest.mark.parametrize("kernel", [copy_elements, copy_tiles], ids=lambda k: k.__name__)
def test_copies(kernel, shape):
    a = matrix(*shape, "f32", integers=False)
    b = torch.full_like(a, float("nan"))
    if kernel is copy_tiles:
        from cute_py.kernels.arrays import tile_copy

        kernel(a, b, tile_copy((32, 32), 128, a, b))
    else:
        kernel(a, b)
    assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (144, 80), (256, 512), (3, 9000)])
def test_vectors_move_every_bit(shape, dtype):
    high = torch.iinfo(dtype).max
    a = torch.randint(0, high, shape, dtype=dtype).cuda()
    b, t = (torch.full(s, high, dtype=dtype, device="cuda") for s in (shape, shape[::-1]))
    copy_any(a, b)
    transpose.transpose_any(a, t)
    assert torch.equal(a, b)
    assert torch.equal(a.T, t)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("columns", [1, 33, 257, 2056, 8192, 32768, 32769])
def test_rows_in_registers(columns, dtype):
    a = (torch.randn(5, columns) * 4 - 20).to(dtype).cuda()
    b, total = torch.full_like(a, float("nan")), torch.full((5,), float("nan"), device="cuda")
    softmax_any(a, b)
    sum_any(a, total)
    wanted = torch.softmax(a.double(), 1)
    within = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}.get(dtype, 0) + 1e-5
    assert ((b.double() - wanted).abs() <= within * wanted + 2.0**-24).all()
    bound = 1e-5 * a.double().abs().sum(1)
    assert ((total.double() - a.double().sum(1)).abs() <= bound).all()


def test_nan_and_infinity_stay_in_their_row():
    a = torch.zeros(6, 150, device="cuda")
    a[1, 140], a[2, 3], a[3, 5] = float("nan"), -float("inf"), float("inf")
    a[4, 7], a[4, 8], a[5] = float("inf"), -float("inf"), -float("inf")
    b, total = torch.zeros_like(a), torch.zeros(6, device="cuda")
    softmax_any(a, b)
    sum_any(a, total)
    assert b[[1, 3, 4, 5]].isnan().all()
    assert b[[0, 2]].isfinite().all()
    assert torch.equal(total.isnan(), a.sum(1).isnan())
    assert torch.equal(total.nan_to_num(), a.sum(1).nan_to_num())


@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (128, 256)])
@pytest.mark.parametrize("layout", ["", "PLAIN", "PADDED", "SWIZZLED"])
def test_transposes(layout, shape):
    a = matrix(*shape, "f32", integers=False)
    b = torch.full(shape[::-1], float("nan"), device="cuda")
    if layout:
        transpose.transpose_shared(a, b, getattr(transpose, layout))
    else:
        transpose.transpose_naive(a, b)
    assert torch.equal(a.T, b)


@pytest.mark.parametrize("integers", [True, False])
def test_kernels_are_those_of_the_emulator(integers):
    """Bit for bit on integers; on random numbers up to the order of sums within an instruction."""
    a, b = (matrix(n, 136, "f16", integers=integers) for n in (70, 90))
    c = poisoned(70, 90, "f16")
    gemm_multistage(a, b, c, choose(a, b, (64, 64)))
    host = [x.cpu().numpy() for x in (a, b)]
    wanted = np.full((70, 90), np.nan, np.float32)
    gemm_multistage(*host, wanted, choose(*host, (64, 64)))
    if integers:
        np.testing.assert_array_equal(c.cpu().numpy(), wanted)
    else:
        np.testing.assert_allclose(c.cpu().numpy(), wanted, rtol=1e-5, atol=1e-4)


def test_arithmetic_rounds_after_each_op_as_on_the_emulator():
    @cute.kernel
    def multiply_add(x, y, z):
        cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
        i = cute.block_idx() * 128 + cute.thread_idx()
        with cute.when(i < x.shape[0]):
            z[i] = x[i] * y[i] + x[i]

    x, y = (torch.randn(4000, device="cuda") for _ in range(2))
    z, wanted = torch.zeros_like(x), np.zeros(4000, np.float32)
    multiply_add(x, y, z)
    multiply_add(x.cpu().numpy(), y.cpu().numpy(), wanted)
    np.testing.assert_array_equal(z.cpu().numpy(), wanted)


def test_arrays_unlike_those_that_were_traced_are_refused():
    a = torch.zeros(64, 64, dtype=torch.float16, device="cuda")
    c = torch.zeros(64, 64, device="cuda")
    plan = cute.trace(gemm_multistage, a, a, c, choose(a, a, (64, 64)))
    cute.run(plan, a, a, c)
    for wrong in (a[:, :63], a[:, 1:], a.float(), a.cpu(), a.T, a[0]):
        with pytest.raises(cute.CuteError) as caught:
            cute.run(plan, wrong, a, c)
        assert caught.value.code == ("launch-argument" if wrong.is_cuda else "launch-host")


def test_the_current_device_stays():
    before = torch.cuda.current_device()
    copy_elements(matrix(8, 8, "f32"), matrix(8, 8, "f32"))
    assert torch.cuda.current_device() == before


def test_reductions():
    x = matrix(37, 1000, "f32", integers=False)
    y = torch.full((37,), float("nan"), device="cuda")
    reduce_rows(x, y)
    torch.testing.assert_close(y, x.sum(1), rtol=1e-4, atol=1e-3)
    z = torch.full_like(x, float("nan"))
    softmax(x, z)
    torch.testing.assert_close(z, torch.softmax(x, 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("splits", [1, 3, 8])
def test_serial_split_k_waits_for_other_blocks(splits):
    a, b = matrix(70, 1000, "f16"), matrix(40, 1000, "f16", seed=7)
    cfg = choose(a, b, (64, 64), 2, ldmatrix=False, asynchronous=False)
    turns = torch.zeros((2, 1), dtype=torch.int32, device="cuda")
    for _ in range(2):  # the turns end at 0, so a second launch works
        c = poisoned(70, 40, "f16")
        gemm_splitk(a, b, c, turns, splits, cfg)
        assert torch.equal(c.double().cpu(), product(a, b))


def test_a_launch_takes_run_time_numbers():
    @cute.kernel
    def axpy(x, y, alpha: cute.f32, n: cute.s32):
        cute.launch(grid=cute.ceil_div(x.shape[0], 128), block=128)
        i = cute.block_idx() * 128 + cute.thread_idx()
        with cute.when(i < n):
            y[i] = x[i] * alpha + y[i]

    x, y = matrix(1, 1000, "f32")[0], matrix(1, 1000, "f32", seed=1)[0]
    wanted = y.clone()
    wanted[:700] += 2 * x[:700]
    axpy(x, y, 2.0, 700)
    assert torch.equal(y, wanted)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "s8"])
@pytest.mark.parametrize("majors", MAJORS)
def test_ops_gemm_runs_where_the_arrays_are(kind, majors):
    shape = (64, 128, 96) if kind == "s8" else (130, 72, 257)
    majors = (1, 1) if kind == "s8" else majors
    a, b = matrix(shape[0], shape[2], kind, majors[0]), matrix(shape[1], shape[2], kind, majors[1])
    wide = "s32" if kind == "s8" else "f64" if kind == "f64" else "f32"
    d = cute.ops.gemm(a, b.T, out_dtype=wide)
    assert d.is_cuda
    assert torch.equal(d.double().cpu(), product(a, b))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_large_products_are_exact(kind):
    a, b = matrix(1030, 1096, kind), matrix(1048, 1096, kind, seed=7)
    assert torch.equal(cute.ops.gemm(a, b.T, out_dtype="f32").double().cpu(), product(a, b))


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_without_a_gpu_the_kernel_is_the_one_that_runs_here(monkeypatch, kind):
    from cute_py.codegen.driver.devices import arch_of
    from cute_py.ops import product
    from cute_py.ops.libraries import gpu_holding
    from cute_py.ops.without_gpu import call_on, gpu_of

    calls, call = [], product.Product.call

    def kept(self, *args):
        calls.append(call(self, *args))
        return calls[-1]

    product.KNOWN.clear()
    monkeypatch.setattr(product.Product, "call", kept)
    gpu = gpu_holding(torch.zeros(1, device="cuda"))
    assert gpu_of(arch_of(gpu.capability), gpu.multiprocessors) == gpu
    for shape in ((1024, 512, 2048), (515, 520, 513), (1, 7, 33), (40, 1, 1)):
        for majors in ((1, 1), (1, 0), (0, 1), (0, 0)):
            m, n, k = shape
            cute.ops.gemm(matrix(m, k, kind, majors[0]), matrix(n, k, kind, majors[1]).T)
            words = tuple("K" if major else "MN" for major in majors)
            mine = calls[-1].plan()
            assert call_on(gpu, shape, kind, words).plan() is mine


def test_ops_gemm_has_its_epilogue_and_batches_on_the_gpu():
    a, b = torch.randn(3, 70, 50, device="cuda"), torch.randn(50, 40, device="cuda")
    c, bias = torch.randn(3, 70, 40, device="cuda"), torch.randn(40, device="cuda")
    d = cute.ops.gemm(a, b, c, alpha=0.5, beta=2.0, bias=bias, activation="relu")
    wanted = torch.relu(0.5 * (a.double() @ b.double()) + 2 * c.double() + bias.double())
    torch.testing.assert_close(d.double(), wanted, rtol=1e-4, atol=1e-4)
    out = torch.empty_like(d)
    assert cute.ops.gemm(a, b, out=out) is out


def test_ops_gemm_writes_an_out_of_any_strides():
    a, b = matrix(64, 32, "f16"), matrix(32, 64, "f16")
    out = torch.zeros(2, 64, 128, device="cuda", dtype=torch.float16)[..., ::2]
    pair = a.expand(2, 64, 32)
    assert cute.ops.gemm(pair, b, out=out) is out
    assert torch.equal(out.double(), pair.double() @ b.double())


@pytest.mark.parametrize("n", [256, 250])
def test_ops_gemm_writes_to_out_itself_and_to_no_more(n):
    """Rows with room behind them; autograd is told. Nothing is allocated."""
    a, b = matrix(256, 64, "f16"), matrix(64, n, "f16")
    whole = torch.full((2, 300, 264), torch.nan, device="cuda", dtype=torch.float16)
    out = whole[1, 8:264, :n]
    version = out._version
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    cute.ops.gemm(a, b, out=out)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    assert out._version > version
    assert torch.equal(out.double(), a.double() @ b.double())
    out.fill_(torch.nan)
    assert whole.isnan().all()


def test_ops_gemm_may_write_over_what_it_reads():
    a, b = matrix(64, 64, "f16"), matrix(64, 64, "f16")
    wanted = a.double() @ b.double()
    for out in (a, b):
        mine = [x.clone() if x is not out else x for x in (a, b)]
        kept = out.clone()
        cute.ops.gemm(*mine, out=out)
        assert torch.equal(out.double(), wanted)
        out.copy_(kept)


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("ops-shape", {"bias": torch.zeros(63)}),
        ("ops-shape", {"c": torch.zeros(64, 65), "beta": 1}),
        ("ops-shape", {"out": torch.zeros(64, 65)}),
        ("ops-out-dtype", {"out": torch.zeros(64, 64).half(), "out_dtype": "f32"}),
        ("ops-out-dtype", {"out_dtype": "s64"}),
    ],
)
def test_ops_gemm_refuses_terms_that_do_not_fit(code, given):
    a = torch.ones(64, 64, device="cuda", dtype=torch.float16)
    given = {k: v.cuda() if hasattr(v, "cuda") else v for k, v in given.items()}
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm(a, a, **given)
    assert caught.value.code == code


def test_ops_gemm_keeps_integers_exact_through_its_epilogue():
    a = torch.full((16, 4096), 127, device="cuda", dtype=torch.int8)
    b = torch.full((16, 4096), 127, device="cuda", dtype=torch.int8).T
    bias = torch.arange(16, device="cuda", dtype=torch.int32)
    d = cute.ops.gemm(a, b, bias=bias, activation="relu")
    assert torch.equal(d, (127 * 127 * 4096 + bias).expand(16, 16))


def test_the_first_kernel_of_the_readme_takes_torch_tensors():
    x = torch.randn(64, device="cuda")
    y = torch.empty_like(x)
    first_kernel()["reverse"](x, y)
    assert torch.equal(y, x.flip(0))
