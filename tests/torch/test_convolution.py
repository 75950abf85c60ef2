"""`cute_py.torch.conv2d` and `Conv2d` against torch's own, on the host."""

import pytest

torch = pytest.importorskip("torch")
from cute_py.torch import Conv2d, conv2d  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
plain = torch.nn.functional.conv2d
OPTIONS = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
    {"padding": "same", "dilation": 2},
    {"padding": "valid", "groups": 2},
]


def arrays(groups=1, batch=(2,)):
    made = torch.Generator().manual_seed(0)
    shapes = (*batch, 4, 7, 6), (6, 4 // groups, 3, 2), (6,)
    return [torch.randn(x, generator=made, dtype=torch.float64) for x in shapes]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_results_and_gradients_are_those_of_torch(options):
    """Planes, and channels_last; the result has contiguous channels."""
    x, w, b = arrays(options.get("groups", 1))
    g = torch.randn(plain(x, w, b, **options).shape, dtype=torch.float64)
    for form in (torch.contiguous_format, torch.channels_last):
        ours, theirs = (
            [y.clone().to(memory_format=form if y.dim() == 4 else torch.contiguous_format)
              .requires_grad_() for y in (x, w, b)]
            for _ in range(2)
        )  # fmt: skip
        found, wanted = conv2d(*ours, **options), plain(*theirs, **options)
        assert torch.allclose(found, wanted)
        assert found.is_contiguous(memory_format=torch.channels_last)
        found.backward(g)
        wanted.backward(g)
        for y, z in zip(ours, theirs, strict=True):
            assert torch.allclose(y.grad, z.grad)


def test_one_image_has_no_mode_for_images():
    x, w, b = arrays(batch=())
    assert torch.allclose(conv2d(x, w, b), plain(x, w, b))


@pytest.mark.parametrize("padding_mode", ["zeros", "reflect"])
def test_the_module_has_the_arguments_and_the_state_of_torchs(padding_mode):
    named = {"stride": 2, "padding": 1, "bias": True, "padding_mode": padding_mode}
    ours = Conv2d(4, 6, 3, **named, dtype=torch.float64)
    theirs = torch.nn.Conv2d(4, 6, 3, **named, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict())
    x, _w, _b = arrays()
    assert torch.allclose(ours(x), theirs(x))
    assert str(ours) == str(theirs)


def test_a_graph_has_the_convolution():
    x, w, b = (y.requires_grad_() for y in arrays())
    by_graph = torch.compile(lambda *y: conv2d(*y, stride=2), backend="aot_eager", fullgraph=True)
    assert torch.allclose(by_graph(x, w, b), plain(x, w, b, stride=2))


def test_samples_of_torch():
    """OpInfo's of nn.functional.conv2d; those that are errors there are none here."""
    from torch.testing._internal.common_methods_invocations import sample_inputs_conv2d

    count = 0
    for sample in sample_inputs_conv2d(None, "cpu", torch.float64, False):
        given = (sample.input, *sample.args)
        wanted = plain(*given, **sample.kwargs)
        if 0 in wanted.shape or 0 in sample.args[0].shape:
            continue
        assert torch.allclose(conv2d(*given, **sample.kwargs), wanted), sample
        count += 1
    assert count > 5
