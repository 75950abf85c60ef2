"""Operators of torch with gradients, for `torch.compile` and CUDA graphs (extra `torch`).

Importing this package registers the operators of `cute.ops`: `torch.ops.cute_py.gemm`, ...
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is not None:
    from cute_py.calls.torch_tensors import DECLARE, IN_GRAPHS
    from cute_py.torch.activation import activate, deactivate
    from cute_py.torch.attention import (
        flash_attn_func,
        flash_attn_varlen_func,
        flash_attn_with_kvcache,
        scaled_dot_product_attention,
    )
    from cute_py.torch.declared import declare_all
    from cute_py.torch.functions import declare, in_graph
    from cute_py.torch.gemm import operator as gemm
    from cute_py.torch.modules import Conv2d, Linear, conv2d, swap_linear
    from cute_py.torch.register import register

    declare_all()
    DECLARE.append(declare)
    IN_GRAPHS["gemm"] = in_graph
    __all__ = [
        "Conv2d",
        "Linear",
        "activate",
        "conv2d",
        "deactivate",
        "flash_attn_func",
        "flash_attn_varlen_func",
        "flash_attn_with_kvcache",
        "gemm",
        "register",
        "scaled_dot_product_attention",
        "swap_linear",
    ]


def __getattr__(name: str) -> object:
    """Name what is missing where torch is."""
    said = f"module {__name__!r} has no attribute {name!r}"
    if find_spec("torch") is None and not name.startswith("__"):
        said += "; it needs torch: pip install 'cute-py[torch]'"
    raise AttributeError(said)
