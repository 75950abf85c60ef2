"""`conv2d` and `Conv2d`: torch's convolution of images by ours, with gradients by ours, too."""

from __future__ import annotations

from typing import Any

import torch


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return torch.nn.functional.conv2d(input, weight, bias, ...) by `cute.ops.conv2d`.

    Args:
        input: (N, C, H, W), or (C, H, W). Channels that are contiguous (torch.channels_last) are
            read as they are; others are transposed first.
        weight: (K, C / groups, R, S), alike.
        bias: (K), or None.
        stride: a number, or two.
        padding: a number, two, "valid" or "same".
        dilation: a number, or two.
        groups: of channels and of filters.

    The result has contiguous channels. It works with autograd, `torch.compile` and autocast. Raises
    CuteError.
    """
    images = input if input.dim() != 3 else input[None]
    words = {"valid": [0], "same": [-1]}
    pads = words.get(padding, [-2]) if isinstance(padding, str) else padding
    result = torch.ops.cute_py.conv2d(
        images,
        weight,
        stride=stride,
        padding=pads,
        dilation=dilation,
        groups=groups,
        bias=bias,
        layout="NCHW",
    )
    return result if input.dim() != 3 else result[0]


class Conv2d(torch.nn.Conv2d):  # type: ignore[misc]
    """torch.nn.Conv2d, with its arguments, parameters and state dict, by `cute.ops.conv2d`."""

    def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
        """Return the result; other modes of padding than zeros are torch's."""
        padding = self.padding
        if self.padding_mode != "zeros":
            sides = self._reversed_padding_repeated_twice
            input = torch.nn.functional.pad(input, sides, mode=self.padding_mode)
            padding = 0
        return conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)
