"""Run a vision transformer, ViT-B/16, forward and backward, with torch's products or with ours.

python -m examples.vit --linear torch|cute --mode eager|compile|graphs     # on a GPU, in bf16
python -m examples.vit --device cpu --width 64 --depth 1 --batch 1 --steps 3
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.common import arguments, prepared, seconds_each

PATCH, PIXELS, CLASSES, HEAD = 16, 224, 1000, 64


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), of (batch, patches, width)."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        self.heads = width // HEAD
        self.first, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.second = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result, of the shape of x."""
        mixed = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class ViT(nn.Module):
    """Logits of 1000 classes of (batch, 3, 224, 224) images."""

    def __init__(self, width: int = 768, depth: int = 12) -> None:
        """Make the layers."""
        super().__init__()
        self.patches = nn.Conv2d(3, width, PATCH, PATCH)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (PIXELS // PATCH) ** 2 + 1, width) / 50)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, 1000)."""
        x = self.patches(images).flatten(2).mT
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x)[:, 0]))


def running(
    linear: str,
    mode: str,
    device: str = "cuda",
    *,
    width: int = 768,
    depth: int = 12,
    batch: int = 64,
    backward: bool = True,
) -> Callable[[], torch.Tensor]:
    """Return a function that runs the model on random images, and returns the logits; `backward`:
    it computes the gradients of all parameters too.
    """
    torch.manual_seed(0)
    model = ViT(width, depth).to(device, torch.bfloat16)
    images = torch.randn(batch, 3, PIXELS, PIXELS, device=device).bfloat16()
    model.requires_grad_(backward)
    forward: Any = prepared(model, linear, mode, images)

    def step() -> torch.Tensor:
        logits = forward(images)
        if backward:
            model.zero_grad()
            logits.float().logsumexp(1).sum().backward()
        return logits.detach()

    return step


def main() -> None:
    """Run it, and print images per second."""
    given = vars(arguments(__doc__, width=768, depth=12, batch=64, steps=30))
    steps = given.pop("steps")
    for backward in (False, True):
        step = running(**given, backward=backward)
        step()
        seconds = seconds_each(step, given["device"], steps)
        name = "forward and backward" if backward else "forward"
        print(f"{name}: {given['batch'] / seconds:.1f} images per second")


if __name__ == "__main__":
    main()
