"""`Linear`, `conv2d` and `Conv2d`: modules and functions of torch by our operators."""

from __future__ import annotations

from typing import Any

import torch

from cute_py.ops.product import GEMM
from cute_py.torch.gemm import operator


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """activation(x @ weight.T + bias), with the parameters and the state dict of torch.nn.Linear.

    Args:
        in_features, out_features, bias, device, dtype: as torch.nn.Linear takes them.
        activation: as `cute.ops.gemm` takes it.

    Raises CuteError for another activation, and where `cute.ops.gemm` does.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        activation: str | None = None,
    ) -> None:
        """Make the parameters, initialised as torch does."""
        GEMM.require_choice("activation", activation)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        """Return the result (..., out_features) for x (..., in_features)."""
        rows = x[None] if x.dim() == 1 else x
        result = operator(rows, self.weight.t(), None, 1.0, 0.0, self.bias, self.activation)
        return result[0] if x.dim() == 1 else result

    def extra_repr(self) -> str:
        """Return torch's text, with the activation."""
        return f"{super().extra_repr()}, activation={self.activation!r}"


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
