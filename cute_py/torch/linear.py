"""`Linear`: torch.nn.Linear by our product, with its bias and an activation in the same kernel."""

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
