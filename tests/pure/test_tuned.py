"""`cute.tune`: the fastest configuration is used by later calls, in other processes too; damaged
files, other facts and other versions are not. Times are a test's: nothing is measured here.
"""

from functools import partial

import numpy as np
import pytest

import cute_py as cute
from cute_py.codegen.cache import files
from cute_py.kernels.config import GemmConfig
from cute_py.ops import gemm_families, measurement, product, tuned
from cute_py.ops.libraries import Gpu
from tests import gpu_arrays
from tests.gpu_arrays import on_gpu

H200, A100 = Gpu(232448, 132, (9, 0)), Gpu(166912, 108, (8, 0))
SHAPE = (512, 384, 256)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUTE_PY_CACHE", raising=False)
    monkeypatch.setattr(files, "_warned", set())
    tmp_path.chmod(0o700)
    yield tmp_path
    tuned.forget()


@pytest.fixture(params=[H200, A100], ids=["sm_90a", "sm_80"])
def launched(request, place, monkeypatch):
    """The plans that are launched; the last configuration that is measured is the fastest."""
    found = gpu_arrays.install(monkeypatch, request.param)
    monkeypatch.setattr(measurement, "measured", slowest_first)
    gpu_arrays.small_tiles(monkeypatch)  # all are traced
    return found


def slowest_first(calls):
    assert len({call.config for call in calls}) == len(calls) > 1
    return [float(len(calls) - i) for i in range(len(calls))]


def operands(kind="bf16", shape=SHAPE):
    m, n, k = shape
    return on_gpu(m, k, kind, "K"), on_gpu(n, k, kind, "K").swapaxes(0, 1)


def used(*args, **named):
    """Return the configuration that the operator chooses for a call."""
    seen, real = [], product.Product.call

    def call(self, choice=None):
        made = real(self, choice)
        seen.append(made.config)
        return made

    product.KNOWN.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(product.Product, "call", call)
        cute.ops.gemm(*args, **named)
    return seen[-1]


def again():
    """Do as a new process would: nothing is known but files."""
    tuned.forget()
    product.KNOWN.clear()


def test_later_calls_use_the_fastest(launched):
    a, b = operands()
    rule = used(a, b)
    best = cute.tune(cute.ops.gemm, a, b)
    assert isinstance(best, GemmConfig)
    assert best != rule
    assert used(a, b) == used(*operands()) == best
    again()
    assert used(a, b) == best
    stored = cute.ops.gemm_config(a, b)
    assert stored == best
    assert [x[:5] for x in stored.reasons] == ["path:", "measu", "store"]
    lines = best.reasons
    assert lines[0].startswith("measured: 1 us, ")
    assert [float(x.split()[1]) for x in lines] == sorted(float(x.split()[1]) for x in lines)
    assert str(rule) in " ".join(lines)


@pytest.mark.parametrize("launched", [H200], indirect=True)
def test_k_in_parts_is_measured_stored_and_explained(launched, monkeypatch):
    monkeypatch.setattr(
        measurement, "measured", lambda calls: ["split=6" not in str(x.config) for x in calls]
    )
    a, b = operands(shape=(192, 128, 16384))
    best = cute.tune(cute.ops.gemm, a, b)
    assert best.split == 6
    assert "split=6" in best.explain().partition("measured")[2].splitlines()[0]
    again()
    assert used(a, b) == best


def test_without_k_the_rule_decides_and_nothing_is_measured(launched, place):
    a, b = operands(shape=(512, 384, 0))
    assert cute.tune(cute.ops.gemm, a, b) == cute.ops.gemm_config(a, b) == used(a, b)
    assert not list(place.glob("tuned/*"))


@pytest.mark.parametrize("launched", [H200], indirect=True)
def test_candidates_read_the_operands_where_they_are(launched, monkeypatch):
    """No other kernel that would have them copied: its results differ, and copies are not timed."""
    seen = []
    monkeypatch.setattr(gemm_families, "WORTH", 2.0)  # so that there are several tiles
    monkeypatch.setattr(
        measurement, "measured", lambda calls: seen.extend(calls) or slowest_first(calls)
    )
    for columns, kernels in ((528, 2), (524, 1)):  # rows of whole 16 bytes, and others
        a, b = (on_gpu(520, 528, "bf16", "K")[:, :columns] for _ in range(2))
        cute.tune(cute.ops.gemm, a, b.swapaxes(0, 1))
        assert len({type(call.config) for call in seen}) == kernels
        places = [[x.__array_interface__["data"][0] for x in call.reads[:2]] for call in seen]
        assert places == [[x.__array_interface__["data"][0] for x in (a, b)]] * len(seen)
        seen.clear()


def test_what_was_known_before_is_measured_now(launched):
    a, b = operands()
    cute.ops.gemm(a, b)
    before = launched[-1]
    cute.ops.gemm(a, b)
    cute.tune(cute.ops.gemm, a, b)
    cute.ops.gemm(a, b)
    assert launched[-1] is not before


def test_other_facts_are_left_to_the_rule(launched):
    a, b = operands()
    others = [
        (operands("f16"), {}),
        (operands(shape=(512, 384, 264)), {}),
        ((a, on_gpu(256, 384, "bf16", "K")), {}),
        ((a, b), {"alpha": 2.0}),
        ((a, b), {"bias": on_gpu(1, 384, "f32", "K")[0]}),
    ]
    rules = [used(*args, **named) for args, named in others]
    best = cute.tune(cute.ops.gemm, a, b)
    for rule, (args, named) in zip(rules, others, strict=True):
        assert used(*args, **named) == rule
    assert used(a, b, alpha=1, activation=None) == best
    assert used(a, b, config=rules[-1]) == rules[-1]


def test_a_device_and_a_version_have_their_own(launched, monkeypatch):
    a, b = operands()
    rule, best = used(a, b), cute.tune(cute.ops.gemm, a, b)
    again()
    monkeypatch.setattr(cute, "__version__", "0.0.0")
    assert used(a, b) == rule
    monkeypatch.undo()
    assert best != rule


# what a file may say in place of a text
WRONG = [("stages=", "stages=9"), (" A=Kx8", " A=MNx8"), ("SM", "XM"), (" warps", "")]


@pytest.mark.parametrize("launched", [H200], indirect=True)
def test_a_configuration_that_there_is_not_is_removed(launched, place):
    """Of another version of the same number, say."""
    a, b = operands()
    rule = used(a, b)
    cute.tune(cute.ops.gemm, a, b)
    (path,) = place.glob("tuned/*")
    key = path.name.split(".")[0]
    right = tuned.unpack(key, path.read_bytes())
    for wrong in WRONG:
        text = right["config"].replace(*wrong)
        assert text != right["config"]
        path.write_bytes(tuned.pack(key, right | {"config": text}))
        again()
        assert cute.ops.gemm_config(a, b) == rule, wrong
        assert not path.exists()


@pytest.mark.parametrize(
    "damage", ["", "one bit", "half", "another key", "other parts", "numbers", "lines", "more"]
)
def test_a_damaged_file_is_removed_and_measured_anew(launched, place, damage):
    a, b = operands()
    rule, best = used(a, b), cute.tune(cute.ops.gemm, a, b)
    (path,) = place.glob("tuned/*")
    data = path.read_bytes()
    key = path.name.split(".")[0]
    path.write_bytes(
        {
            "": b"",
            "one bit": data[:-1] + bytes([data[-1] ^ 1]),
            "half": data[: len(data) // 2],
            "another key": tuned.pack("0" * 64, {"config": "{}"}),
            "other parts": tuned.pack(key, {"config": '{"atom": "none"}'}),
            "numbers": tuned.pack(key, {"config": str(best), "why": {"n": 1}}),
            "lines": tuned.pack(key, {"config": str(best), "why": "a\n\x1b[2Jb"}),
            "more": tuned.pack(key, {"config": str(best), "why": "w", "then": "x"}),
        }[damage]
    )
    again()
    assert used(a, b) == rule
    assert not path.exists()
    assert cute.tune(cute.ops.gemm, a, b) == best
    again()
    assert used(a, b) == best


def test_without_a_cache_the_process_alone_knows(launched, place, monkeypatch):
    monkeypatch.setenv("CUTE_PY_CACHE", "0")
    a, b = operands()
    rule, best = used(a, b), cute.tune(cute.ops.gemm, a, b)
    assert used(a, b) == best
    again()
    assert used(a, b) == rule
    assert not list(place.glob("tuned/*"))


def test_a_folder_that_cannot_be_used_is_no_obstacle(launched, place):
    a, b = operands()
    place.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="others can write"):
        best = cute.tune(cute.ops.gemm, a, b)
    assert used(a, b) == best


def test_the_cache_counts_and_clears_what_was_tuned(launched, place):
    cute.tune(cute.ops.gemm, *operands())
    (path,) = place.glob("tuned/*")
    assert path in [kept.path for kept in files.kept()]
    files.clear()
    assert not path.exists()


def test_out_is_written_and_does_not_matter(launched):
    a, b = operands()
    out = np.zeros((512, 384), a.dtype).view(gpu_arrays.OnGpu)
    assert cute.tune(cute.ops.gemm, a, b, out=out) == used(a, b)


@pytest.mark.parametrize(
    ("operator", "named", "code"),
    [
        (cute.gemm, {}, "ops-choice"),
        (cute.ops.gemm, {"config": "stages=3"}, "ops-choice"),
        (cute.ops.gemm, {"activation": "swish"}, "ops-choice"),
        (cute.ops.gemm, {"beta": 1}, "ops-no-c"),
    ],
)
def test_what_cannot_be_tuned_is_refused(launched, place, operator, named, code):
    with pytest.raises(cute.CuteError) as caught:
        cute.tune(operator, *operands(), **named)
    assert caught.value.code == code
    assert not list(place.glob("tuned/*"))


def test_the_refusal_is_said_if_every_configuration_is_refused(launched, place, monkeypatch):
    def refuse(*_args):
        raise cute.CuteError("no plan", code="codegen-op")

    a, b = operands()
    monkeypatch.setattr(product.Product, "call", refuse)
    with pytest.raises(cute.CuteError, match="no plan"):
        cute.tune(cute.ops.gemm, a, b)
    assert not list(place.glob("tuned/*"))


@pytest.mark.parametrize("ask", [partial(cute.tune, cute.ops.gemm), cute.ops.gemm_config])
def test_an_empty_product_has_no_configuration(launched, ask):
    with pytest.raises(cute.CuteError) as caught:
        ask(*operands(shape=(0, 64, 64)))
    assert caught.value.code == "ops-empty"


def test_arrays_of_the_host_are_refused():
    a = np.ones((2, 2), np.float32)
    with pytest.raises(cute.CuteError) as caught:
        cute.tune(cute.ops.gemm, a, a)
    assert caught.value.code == "ops-tune-host"
