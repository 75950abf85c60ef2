"""`activate`: torch's own scaled_dot_product_attention is computed by `cute.ops.attention`.

torch has a place for other implementations of flash attention (`torch.nn.attention`); where it has,
ours is there as "cute_py". It takes `aten::scaled_dot_product_attention` over, above the choice of
torch's backends, so masks and groups of heads arrive as the user gave them. What it does not
compute goes on to torch's own.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from cute_py.calls.torch_tensors import is_dual_level
from cute_py.errors import CuteError, refusal
from cute_py.torch.attention import SPACE, scaled_dot_product_attention
from cute_py.torch.operators import TENSORS

if TYPE_CHECKING:
    from types import TracebackType

OPERATOR = torch.ops.aten.scaled_dot_product_attention.default
DEVICES = {"cuda": "cute_py", "cpu": "cute_py_emulator"}  # and the names that torch lists
LEAST = (8, 0)  # compute capability from which kernels use matrix instructions
_active: list[Activation] = []  # the only one


class Activation:
    """Calls of torch's scaled_dot_product_attention on a device that are computed by us, until
    `remove()`, or the end of a `with` block.

    Attributes:
        device: "cuda" or "cpu".
        said: why calls went to torch's own; each reason is a warning once.
    """

    def __init__(self, device: str) -> None:
        """Take the operator over."""
        self.device, self.said = device, set[str]()
        self.library: Any = torch.library.Library("aten", "IMPL")
        for key in (device.upper(), f"Autograd{device.upper()}"):
            self.library.impl("scaled_dot_product_attention", self.computed, key)
        _active.append(self)

    def remove(self) -> None:
        """Give it back to torch."""
        if self in _active:
            _active.remove(self)
            self.library._destroy()

    def __enter__(self) -> Activation:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self in _active:
            deactivate()

    def computed(self, *args: Any, **named: Any) -> Any:
        """Return the result of a call, by us or by torch."""
        why = _obstacle(*args, **named)
        if why is None:
            try:
                return scaled_dot_product_attention(*args, **named)
            except CuteError as error:
                why = str(error)
        if why not in self.said:
            self.said.add(why)
            warnings.warn(f"torch computes scaled_dot_product_attention: {why}", stacklevel=2)
        return OPERATOR.decompose(*args, **named)


def _obstacle(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    *_flags: Any,
    **_named: Any,
) -> str | None:
    """Return why torch should compute a call, as far as that is cheap to see."""
    given = [query, key, value] if attn_mask is None else [query, key, value, attn_mask]
    if dropout_p != 0.0:
        return "dropout"
    transformed = torch._C._are_functorch_transforms_active() or is_dual_level()
    if transformed or not all(map(_is_plain, given)):
        return "an operand of a transformation of torch.func, or of a subclass of Tensor"
    if torch.is_grad_enabled() and any(x.requires_grad for x in given):
        return "an operand needs a gradient, which cute_py does not compute yet"
    if query.dtype not in (torch.float16, torch.bfloat16):
        return f"{query.dtype}; kernels with matrix instructions read float16 and bfloat16"
    if not torch.backends.cuda.flash_sdp_enabled():
        return "flash attention is switched off"
    if query.is_cuda and torch.cuda.get_device_capability(query.device) < LEAST:
        return "a GPU before sm_80"
    return None


def _is_plain(x: Any) -> bool:
    """Return whether a tensor is one of torch's own, or stands for one while a graph is made."""
    kind = type(x)
    return kind in TENSORS or kind.__module__.startswith("torch._subclasses.")


def activate(device: str = "cuda") -> Activation:
    """Let torch.nn.functional.scaled_dot_product_attention be computed by `cute.ops.attention`.

    Args:
        device: whose tensors: "cuda", or "cpu", where the emulator computes, for tests.

    Calls that we do not compute, or not faster, go on to torch's own: with dropout, with operands
    that need a gradient, in f32 and f64, with columns above 256, on GPUs before sm_80, and where
    `torch.nn.attention.sdpa_kernel` switches flash attention off. Each reason is a warning once.
    `torch.compile` takes what is active when it makes a graph.

    Where torch has `torch.nn.attention.activate_flash_attention_impl`, it knows us as "cute_py".
    Returns what ends it: `deactivate()`, `.remove()`, or the end of a `with` block.

    >>> q = torch.ones(1, 1, 2, 8, dtype=torch.float16)
    >>> with activate("cpu") as active:
    ...     o = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    >>> o.shape, active.said
    (torch.Size([1, 1, 2, 8]), set())
    """
    if device not in DEVICES:
        known = ", ".join(map(repr, DEVICES))
        raise refusal("torch-activate", operation=f"{SPACE}.activate", given=device, known=known)
    deactivate()
    if _registry is None:
        return Activation(device)
    _registry.activate_flash_attention_impl(DEVICES[device])
    return _active[0]


def deactivate() -> None:
    """Let torch compute its scaled_dot_product_attention again; does nothing where it does.

    >>> deactivate()
    """
    if _registry is not None and _registry.current_flash_attention_impl() in DEVICES.values():
        _registry.restore_flash_attention_impl()
    for found in tuple(_active):
        found.remove()


def _registered() -> Any:
    """Return torch's module of implementations, with ours; None where torch has none."""
    found: Any = torch.nn.attention
    if not hasattr(found, "restore_flash_attention_impl"):
        return None
    for device, name in DEVICES.items():
        found.register_flash_attention_impl(name, register_fn=partial(Activation, device))
    return found


_registry = _registered()
