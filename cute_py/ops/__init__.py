"""What a user calls on arrays: it chooses a kernel and its configuration, and runs it.

- `gemm`: products of matrices, with the epilogues of BLAS and of neural networks
- `softmax`: along one mode
- `reduce`: sums, products, extremes and bits along some modes
- `transpose`: matrices with rows and columns exchanged, in memory
- `conv2d`: convolutions of images, with the epilogues of `gemm`
- `conv2d_dgrad`: the gradient of the images
- `conv2d_wgrad`: the gradient of the filters
- `attention`: weights of values by the softmax of scores of queries and keys
- `attention_varlen`: the same of sequences of several lengths, one after the other
- `attention_with_kvcache`: the same with keys that are kept from call to call, also in pages
- `activation`: what may follow a product, alone, and its derivative

- `Gemm`: a product that is prepared once and run often, with a workspace of the caller

Each function has `explain`, which says what a call would run. `gemm_config` and `choose_config`
return the configuration of a product, a `GemmConfig`.
"""

from __future__ import annotations

from cute_py.lazy import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cute_py.ops.operator import Operator

# module -> the public names that it defines
_HOME = {
    "kernels.config": "GemmConfig choose_config",
    "ops.activations": "activation",
    "ops.attention_sequences": "attention_varlen",
    "ops.attention_cache": "attention_with_kvcache",
    "ops.attentions": "attention",
    "ops.choice": "gemm_config",
    "ops.convolution": "conv2d conv2d_dgrad conv2d_wgrad",
    "ops.prepared": "Gemm Status",
    "ops.product": "gemm",
    "ops.reductions": "reduce",
    "ops.softmaxes": "softmax",
    "ops.transposes": "transpose",
}

__getattr__, __dir__ = lazy(__name__, _HOME)


def operators() -> dict[str, Operator]:
    """Return all operators, by their names here."""
    from cute_py.ops.operator import REGISTRY

    for names in _HOME.values():
        for name in names.split():
            __getattr__(name)
    return REGISTRY
