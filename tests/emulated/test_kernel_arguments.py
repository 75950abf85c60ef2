"""Each kernel of `cute_py.kernels` with arguments that contradict each other: refused, or right."""

import numpy as np
import pytest

import cute_py as cute
from cute_py.calls.arrays import TypedArray
from cute_py.emulate.arguments import Arguments
from cute_py.plan.requirements import Requirements
from tests.hopper_family import row
from tests.kernel_calls import CALLS, KERNELS, copied, plain
from tests.sampling import check_each, each

LONG = (
    "gemm_05_tensor_core.gemm_tensor_core",
    "gemm_06_ldmatrix.gemm_ldmatrix",
    "gemm_08_epilogue.gemm_epilogue",
    "gemm_10_warp_specialised.gemm_warp_specialised",
    "gemm_11_persistent.gemm_persistent",
    "gemm_12_ping_pong.gemm_ping_pong",
    "conv_gathered.conv_gathered_split",
    "conv_gathered.conv_wgrad_split",
    "conv_sm90.conv_cooperative",
    "conv_sm90.conv_pingpong",
    "gemm_sm90.gemm_cooperative",
    "gemm_sm90.gemm_pingpong",
    "stream_k.gemm_stream_k",
    "w4a16.gemm_w4a16",
    "conv2d_s4.conv2d_s4",
    "fused_attention.accumulated",
    "fused_attention.sequences",
)  # to trace
HALVES = (np.float16, cute.dtype("bf16").numpy)
KINDS = ("f16", "bf16", "f32", "f64", "s8", "u8", "s32", "s64", "b1")


def is_array(x):
    return isinstance(x, (np.ndarray, TypedArray))


def strides(x):
    return [n // x.itemsize for n in x.strides]


def resized(x, mode, extent):
    """Return an array with another extent of a mode: elements repeated, or left out."""
    return np.take(x, np.arange(extent) % x.shape[mode], mode)


def of_words(change):
    """Return a change of arrays as one of typed arrays, by their words."""

    def changed(x):
        if not isinstance(x, TypedArray):
            return change(x)
        words = change(x.array)
        return cute.typed(words, x.dtype, x.packed) if 1 in strides(words) else None

    return changed


def gapped(x, mode):
    """Return the same numbers with gaps along a mode."""
    wide = np.zeros([2 * n if i == mode else n for i, n in enumerate(x.shape)], x.dtype)
    view = wide[tuple(slice(None, None, 2) if i == mode else slice(None) for i in range(x.ndim))]
    view[...] = x
    return view


def array_changes(x):
    """Yield (words, changed array) for each way in which an array may not fit."""
    array = x.array if isinstance(x, TypedArray) else x
    for mode, extent in enumerate(array.shape):
        for other in (extent + 1, extent - 1):
            if other:
                change = of_words(lambda a, m=mode, n=other: resized(a, m, n))
                yield f"extent {mode} {other - extent:+}", change(x)
        yield f"gaps along {mode}", of_words(lambda a, m=mode: gapped(a, m))(x)
    yield "one mode more", of_words(lambda a: a[..., None].copy())(x)
    yield "one mode more in front", of_words(lambda a: a[None].copy())(x)
    yield "one mode less", of_words(lambda a: a[0].copy())(x)
    if array.ndim > 1:
        yield "the other order", of_words(lambda a: a.T.copy().T)(x)
        yield "row-major", of_words(np.ascontiguousarray)(x)
    if not isinstance(x, TypedArray):
        for kind in KINDS:
            with np.errstate(all="ignore"):
                new = x.astype(cute.dtype(kind).numpy)
            yield f"of {kind}", new
    yield "None", None


def number_changes(x):
    """Yield (words, changed number)."""
    if isinstance(x, float):
        yield from ((str(other), other) for other in (0.0, -x))
    if isinstance(x, int):
        for other in (x + 1, x - 1, 0, -1, 3 * x, 2**31):
            if other != x:
                yield str(other), other


def changes(call):
    """Yield (words, the argument, its new value) for each change of one argument."""
    for name, x in call.arguments.items():
        if is_array(x):
            yield from ((f"{name} {words}", name, new) for words, new in array_changes(x))
        elif isinstance(x, bool):
            yield f"{name} not {x}", name, not x
        elif isinstance(x, (int, float)):
            yield from ((f"{name} {words}", name, new) for words, new in number_changes(x))
        elif isinstance(x, str):
            yield f"{name} nonsense", name, "nonsense"
            yield f"{name} sub", name, "sub"
        elif isinstance(x, tuple) and all(isinstance(n, int) for n in x):
            for i, n in enumerate(x):
                for other in (n + 1, n - 1, 2 * n, n // 2):
                    yield f"{name}[{i}] = {other}", name, (*x[:i], other, *x[i + 1 :])
    for name, most in call.values.items():
        for value in (most, most + 1, -1):
            for place in (0, -1):
                new = call.arguments[name].copy()
                if np.iinfo(new.dtype).min <= value:
                    new.reshape(-1)[place] = value
                    yield f"{name} has {value} at {place}", name, new


def contradicts(call, arguments):
    """Return why arguments contradict each other, and what they give."""
    try:
        with np.errstate(all="ignore"):
            return "", call.wanted(**{name: copied(x) for name, x in arguments.items()})
    except Exception as error:  # whatever NumPy says of arrays that do not fit
        return f"{type(error).__name__}: {error}", {}


def problem(call, name, new):
    """Return what is wrong with a call of which an argument has changed, or ""."""
    try:
        found = call.run(**{name: new})
    except cute.CuteError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    why, wanted = contradicts(call, {**call.arguments, name: new})
    if why:
        return f"accepted, though {why}"
    return next(filter(None, (off(call, found[out], x) for out, x in wanted.items())), "")


def off(call, result, wanted):
    """Return how a result differs from what is wanted, or ""; integers round."""
    got, kind = plain(result), getattr(result, "dtype", None)
    if got.shape != wanted.shape:
        return f"a result of {got.shape}, right is {wanted.shape}"
    if isinstance(kind, np.dtype) and kind.kind in "iub" and (wanted != np.rint(wanted)).any():
        return ""
    most = np.abs(wanted).max(initial=0, where=~np.isnan(wanted))
    error = max(call.error, 1e-2 * most * (kind in HALVES))
    wraps = isinstance(kind, np.dtype) and (kind.kind in "ub" or kind.name in ("int8", "int16"))
    error = np.inf if wraps else error
    far = np.isnan(got) != np.isnan(wanted)
    far |= np.abs(got - wanted) > error
    return f"{far.sum()} elements are wrong" if far.any() else ""


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_one_argument_changed_is_refused_or_right(name):
    call = CALLS[name]()
    check_each(lambda x: require_none(problem(call, *x[1:])), changes(call), name=lambda x: x[0])


def require_none(problem):
    assert not problem, problem


def test_every_kernel_has_a_call():
    assert {make().kernel for make in CALLS.values()} == set(KERNELS)


@each(CALLS)
def test_what_is_no_such_thing_is_refused_by_the_name_of_the_argument(name):
    """Also a configuration of another kernel."""
    call = CALLS[name]()
    free = "kind", "causal", "chosen"  # a word, a truth, and a record of arrays
    for argument, x in call.arguments.items():
        for other in (object(), row("f16", 64, 64, 1), cute.Layout(32)):
            if is_array(x) or x is None or argument in free or isinstance(other, type(x)):
                continue
            with pytest.raises(cute.CuteError) as caught:
                call.run(**{argument: other})
            assert argument in str(caught.value)


def _quick(names):
    """Mark the kernels as slow whose trace takes long."""
    return [pytest.param(x, marks=pytest.mark.slow if x in LONG else ()) for x in names]


@pytest.mark.parametrize("name", _quick(CALLS))
def test_every_extent_is_tied_to_others(name):
    """Each launch tests it on the host: a plan refuses every extent that contradicts the others."""
    call = CALLS[name]()
    given = call.given(call.arguments)
    plan = cute.trace(KERNELS[call.kernel], *given)
    sizes = Arguments(plan, KERNELS[call.kernel].leaves(*given)).symbols
    required = Requirements(plan)
    required.test(sizes)
    for p in plan.params:
        array = call.arguments.get(p.name.removeprefix("x_"))
        modes = len(p.shape) if is_array(array) else 0
        for mode in range(modes if getattr(p, "members", None) is None else 0):
            extent = f"{p.name}_shape{mode}"
            changed = of_words(lambda x, m=mode: resized(x, m, 2 * x.shape[m]))(array)
            arguments = {**call.arguments, p.name.removeprefix("x_"): changed}
            if contradicts(call, arguments)[0]:
                with pytest.raises(cute.LayoutError, match=r"is false"):
                    required.test({**sizes, extent: 2 * sizes[extent]})
