"""Arrays are filled by kernels with the values that host tensors get."""

import numpy as np
import pytest

import cute_py as cute
from cute_py import host
from cute_py.kernels import fill as kernels
from tests.sampling import in_turn, quick

FILLS = {
    "d07": (host.tensor_fill, (3,)),
    "d08 kept": (host.tensor_fill_random_uniform, (7, 4, -4, 2)),
    "d08 wide": (host.tensor_fill_random_uniform, (3 << 40, 300.0, -300.0)),
    "d09 kept": (host.tensor_fill_random_gaussian, (9, 0.5, 2.0, 2)),
    "d09 wide": (host.tensor_fill_random_gaussian, (9, 0.5, 200.0)),
}


KINDS = ("f32", "f16", "bf16", "f64", "s8", "u8", "s32")


@pytest.mark.parametrize(("name", "kind"), quick(in_turn(FILLS, KINDS), FILLS, KINDS))
def test_d07_d08_d09_a_kernel_fills_with_the_values_of_the_host(name, kind):
    fill, args = FILLS[name]
    tensor = fill(cute.make_host_tensor((13, 70), kind), *args)
    whole = np.zeros((26, 75), cute.dtype(kind).numpy)
    inside = whole[::2, 2:72]
    assert fill(inside, *args) is inside
    np.testing.assert_array_equal(inside, tensor.to_numpy())
    assert not whole[1::2].any()
    assert not whole[:, :2].any()
    assert not whole[:, 72:].any()


def test_d07_a_third_of_pi():
    x = host.tensor_fill(np.zeros((9, 5), np.float32), 3.14159)
    assert (x == np.float32(3.14159)).all()
    with pytest.raises(cute.CuteError):
        host.tensor_fill(np.zeros(4, np.int8), 300)


@pytest.mark.parametrize("kind", ["u64", "s64", "b1", "u8", "s16"])
def test_d07_all_integers_of_a_type(kind):
    dtype = cute.dtype(kind)
    for value in (dtype.min, dtype.max):
        x = host.tensor_fill(np.zeros(3, dtype.numpy), value)
        tensor = host.tensor_fill(cute.make_host_tensor(3, kind), value)
        assert x.tolist() == tensor.to_numpy().tolist() == [value] * 3
    with pytest.raises(cute.CuteError):
        host.tensor_fill(np.zeros(3, dtype.numpy), int(dtype.max) + 1)


def test_d08_bounds_and_bits_are_checked_for_arrays_too():
    for args in ((0, 0.0, 1.0), (0, 0.4, 0.1, 1), (0, 1.0, 0.0, 99)):
        with pytest.raises(cute.CuteError):
            host.tensor_fill_random_uniform(np.zeros(4, np.float32), *args)


def test_the_check_of_the_kernels():
    kernels.check()
