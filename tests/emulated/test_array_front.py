"""Any object given as an array of `cute.ops.gemm`: multiplied as NumPy reads it, or refused."""

import array
import datetime
import decimal

import ml_dtypes
import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.arrays import CudaArray, imported
from tests.sampling import each

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")
F4 = np.dtype("f4")
A, B = np.arange(12, dtype=F4).reshape(3, 4), np.arange(20, dtype=F4).reshape(4, 5)
RECORDS = np.zeros((3, 4), [("x", "f4"), ("y", "f4")])
RECORDS["x"] = A


class Sub(np.ndarray):
    pass


class Given:
    """An array-like with these attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Converted:
    def __init__(self, make):
        self.make = make

    def __array__(self, dtype=None, copy=None):
        return self.make()


class Broken:
    """Has an interface that fails."""

    def __getattr__(self, name):
        if name in ("shape", "dtype", "__array_interface__", "__cuda_array_interface__"):
            raise RuntimeError(name)
        raise AttributeError(name)


class Lent:
    """Supports DLPack alone, which fails."""

    shape, dtype = (3, 4), F4

    def __init__(self, device=lambda: (1, 0)):
        self.device = device

    def __dlpack__(self, **_named):
        raise BufferError("no")

    def __dlpack_device__(self):
        return self.device()


def unaligned(x):
    made = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def interface(**more):
    return {"shape": (3, 4), "typestr": "<f4", "data": (4096, False), "version": 3} | more


TAKEN = {
    "nested tuples": lambda x: tuple(map(tuple, x)),
    "a list of rows": list,
    "a memoryview": memoryview,
    "a copy backwards": lambda x: x[::-1].copy()[::-1],
    "both modes backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "column-major": np.asfortranarray,
    "every second column": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "every third row": lambda x: np.repeat(x, 3, 0)[::3],
    "read-only": read_only,
    "unaligned": unaligned,
    "big-endian": lambda x: x.astype(">f4"),
    "a field of records": lambda x: np.stack([x, x], -1).view([("p", "f4"), ("q", "f4")])["p"][
        ..., 0
    ],
    "a matrix": lambda x: x.view(np.matrix),
    "a subclass": lambda x: x.view(Sub),
    "a record array": lambda x: x.view(np.recarray),
    "an interface": lambda x: Given(
        __array_interface__=x.__array_interface__, shape=x.shape, dtype=x.dtype, keep=x
    ),
    "__array__": lambda x: Converted(lambda: x),
    "more modes": lambda x: x[None, None],
}


@pytest.mark.parametrize("name", TAKEN)
def test_arrays_that_numpy_reads_are_multiplied(name):
    wanted, make = A @ B, TAKEN[name]
    for a, b in ((make(A), B), (A, make(B)), (make(A), make(B))):
        result = cute.ops.gemm(a, b)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result.reshape(wanted.shape), wanted)


REFUSED = {
    "a ragged list": ("ops-array", [[1, 2], [3]]),
    "lists of integers": ("ops-dtype", [[1, 2, 3, 4]]),
    "a flat array.array": ("ops-rank", array.array("f", [1, 2, 3, 4])),
    "bytes": ("ops-array", b"abc"),
    "text": ("ops-array", "abc"),
    "None": ("ops-array", None),
    "a number": ("ops-rank", 3.0),
    "0-d": ("ops-rank", np.array(3.0, F4)),
    "a dict": ("ops-array", {}),
    "a generator": ("ops-array", (x for x in A)),
    "a class": ("ops-array", np.ndarray),
    "objects": ("ops-array", A.astype(object)),
    "decimals": ("ops-array", [[decimal.Decimal(1)] * 4]),
    "dates": ("ops-array", [[datetime.date(2020, 1, 1)] * 4]),
    "datetime64": ("ops-array", np.zeros((3, 4), "M8[D]")),
    "timedelta64": ("ops-array", np.zeros((3, 4), "m8[s]")),
    "records": ("ops-array", RECORDS),
    "void": ("ops-array", np.zeros((3, 4), "V4")),
    "complex": ("ops-array", A.astype("c8")),
    "longdouble": ("ops-array", A.astype(np.longdouble)),
    "bools": ("ops-dtype", A > 2),
    "another type": ("ops-dtype", A.astype(ml_dtypes.bfloat16)),
    "f8 without a type of ours": ("ops-array", A.astype(ml_dtypes.float8_e4m3fnuz)),
    "six bits": ("ops-dtype", A.astype(ml_dtypes.float6_e3m2fn)),
    "four bits": ("ops-dtype", A.astype(ml_dtypes.float4_e2m1fn)),
    "masked": ("argument-masked", np.ma.array(A, mask=A > 2)),
    "a list of masked": ("argument-masked", [np.ma.array([1.0, 2, 3, 4], mask=[1, 0, 0, 0])]),
    "half an interface": ("ops-array", Given(__array_interface__={"shape": (3, 4)})),
    "no interface": ("ops-array", Given(__array_interface__=5)),
    "__array__ fails": ("ops-array", Converted(lambda: 1 / 0)),
    "__array__ gives None": ("ops-array", Converted(lambda: None)),
    "broken": ("argument-import", Broken()),
    "DLPack fails": ("argument-import", Lent()),
    "DLPack has no device": ("argument-import", Lent(lambda: 1 / 0)),
    "DLPack of another device": ("argument-device", Lent(lambda: (7, 0))),
    "CUDA's interface, mixed": ("ops-no-gpu", Given(__cuda_array_interface__=interface())),
    "CUDA's interface, broken": ("argument-import", Given(__cuda_array_interface__=5)),
}


@each(REFUSED)
def test_others_are_refused_by_name(name):
    code, value = REFUSED[name]
    for named in ({"a": value, "b": B}, {"a": B.T[:3, :4].copy(), "b": value}):
        with pytest.raises(cute.CuteError) as caught:
            cute.ops.gemm(**named)
        assert caught.value.code in (code, "ops-shapes")
        assert "\n" not in str(caught.value)
        if "a" in named and named["a"] is value:
            assert caught.value.code == code


OUT = {
    "a list": ("ops-shape", []),
    "a memoryview": ("ops-array", memoryview(np.zeros((3, 5), F4))),
    "an interface": ("ops-array", Given(shape=(3, 5), dtype=F4, keep=0)),
    "big-endian": ("dtype-numpy", np.zeros((3, 5), ">f4")),
    "objects": ("dtype-numpy", np.zeros((3, 5), object)),
    "masked": ("argument-masked", np.ma.zeros((3, 5), F4)),
    "more modes": ("ops-shape", np.zeros((1, 3, 5), F4)),
    "read-only": ("ops-read-only", read_only(np.zeros((3, 5), F4))),
    "one row for all": (
        "ops-overlap",
        np.lib.stride_tricks.as_strided(np.zeros(5, F4), (3, 5), (0, 4)),
    ),
    "rows that overlap": (
        "ops-overlap",
        np.lib.stride_tricks.as_strided(np.zeros(20, F4), (3, 5), (8, 4)),
    ),
}


@pytest.mark.parametrize("name", OUT)
def test_results_go_to_no_other_places(name):
    code, out = OUT[name]
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm(A, B, out=out)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((3, 5), F4)[::-1],
        np.zeros((3, 10), F4)[:, ::2],
        np.zeros((5, 3), F4).T,
        np.zeros((3, 5), F4)[:, ::-1],
        unaligned(np.zeros((3, 5), F4)),
        np.zeros((3, 5), F4).view(np.matrix),
        np.zeros((3, 5), np.float64),
    ],
)
def test_results_go_to_any_other_array(out):
    assert cute.ops.gemm(A, B, out=out) is out
    np.testing.assert_array_equal(np.asarray(out), A @ B)


def test_an_out_may_overlap_the_operands():
    memory = np.arange(40, dtype=F4)
    for start in range(0, 24, 4):
        x = memory.copy()
        a, b = x[:16].reshape(4, 4), x[8:24].reshape(4, 4)
        out, wanted = x[start : start + 16].reshape(4, 4), a @ b
        cute.ops.gemm(a, b, out=out)
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"activation": np.ones(2)}, "ops-choice"),
        ({"activation": []}, "ops-choice"),
        ({"backend": np.ones(3)}, "ops-choice"),
        ({"checks": "x"}, "ops-choice"),
        ({"checks": np.ones(2)}, "ops-choice"),
        ({"alpha": np.array(1j)}, "ops-factor"),
        ({"alpha": np.array("x")}, "ops-factor"),
        ({"alpha": np.datetime64(1, "D")}, "ops-factor"),
        ({"alpha": decimal.Decimal(1)}, "ops-factor"),
    ],
)
def test_options_of_any_type_are_refused_by_name(named, code):
    with pytest.raises(cute.CuteError) as caught:
        cute.ops.gemm(A, B, **named)
    assert caught.value.code == code


def test_a_huge_factor_is_refused_by_a_cached_call_too():
    for alpha in (2, 10**400, 3, 10**400):
        if alpha < 10:
            np.testing.assert_array_equal(cute.ops.gemm(A, B, alpha=alpha), alpha * (A @ B))
            continue
        with pytest.raises(cute.CuteError) as caught:
            cute.ops.gemm(A, B, alpha=alpha)
        assert caught.value.code == "ops-factor"


def test_the_cuda_interface_alone_is_enough():
    for strides in (None, (32, 8)):
        owner = Given(__cuda_array_interface__=interface(strides=strides))
        x = imported(owner)
        assert (type(x), x.shape, x.dtype, x.strides) == (CudaArray, (3, 4), F4, strides)
        assert x.__cuda_array_interface__ is owner.__cuda_array_interface__
        assert cute.calls.arrays.strides_of(x) == ((8, 2) if strides else (4, 1))
        assert cute.calls.arrays.on_device(x)
        assert imported(x) is x


@pytest.mark.parametrize("value", [np.float32(1).reshape(()), np.int64(3), np.bool_(True)])
def test_a_scalar_of_numpy_that_a_kernel_takes_for_an_array_is_refused(value):
    @cute.kernel
    def sized(a, out):
        cute.launch(grid=1, block=a.shape[0])
        out[cute.thread_idx()] = 1.0

    with pytest.raises(cute.CuteError) as caught:
        sized(value, np.zeros(32, np.float32))
    assert caught.value.code == "argument-modes"
