"""`Linear`: torch.nn.Linear by our product, with its bias and an activation in the same kernel;
`swap_linear`: the same in place of all layers of a model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from cute_py.errors import refusal
from cute_py.ops.product import GEMM
from cute_py.torch.affine import linear
from cute_py.torch.declared import torch_dtype

LAYER = "cute_py.torch.Linear"


class Linear(torch.nn.Linear):  # type: ignore[misc]
    """activation(x @ weight.T + bias), with the parameters and the state dict of torch.nn.Linear.

    Args:
        in_features, out_features, bias, device: as torch.nn.Linear takes them.
        dtype: the same; or one of ours, as `cute.dtype` takes it.
        activation: as `cute.ops.gemm` takes it.

    Raises CuteError for another activation, and where `cute.ops.gemm` does.
    """

    activation: str | None = None  # also of a layer that becomes one by `__class__`

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
        if dtype is not None and not isinstance(dtype, torch.dtype):
            dtype = torch_dtype(LAYER, dtype)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        """Return the result (..., out_features) for x (..., in_features)."""
        held = self._parameters  # to find an attribute there costs nine times as much
        if "weight" in held and "bias" in held:
            return linear(x, held["weight"], held["bias"], self.activation)
        return linear(x, self.weight, self.bias, self.activation)

    def __prepare_scriptable__(self) -> None:
        """Refuse torch.jit.script, which asks for this, and knows no Python of ours."""
        raise refusal("torch-script", operation="torch.jit.script", layer=LAYER)

    def extra_repr(self) -> str:
        """Return torch's text, with the activation."""
        return f"{super().extra_repr()}, activation={self.activation!r}"


class Swapped(NamedTuple):
    """What `swap_linear` did.

    Attributes:
        layers: the names of the layers that now use our product.
        left: the names of other layers derived from torch.nn.Linear -> why they are as before.
    """

    layers: tuple[str, ...]
    left: dict[str, str]


def swap_linear(model: torch.nn.Module) -> Swapped:
    """Make every torch.nn.Linear in a model a `Linear`, in place, and say which ones.

    Parameters, hooks and the state dict stay the same. Layers of a class derived from
    torch.nn.Linear are left as they are, since their `forward` may do something else.

    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    >>> swap_linear(model).layers
    ('0', '2')
    """
    layers, left = list[str](), dict[str, str]()
    for name, module in model.named_modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = Linear
            layers.append(name)
        elif isinstance(module, torch.nn.Linear) and not isinstance(module, Linear):
            left[name] = f"a {type(module).__name__}, which may compute something else"
    return Swapped(tuple(layers), left)
