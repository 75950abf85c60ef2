"""Train a small GPT on the bytes of its own source, with torch's products or with ours.

python -m examples.gpt --linear torch|cute --mode eager|compile|graphs     # on a GPU, in bf16
python -m examples.gpt --device cpu --width 32 --length 8 --batch 2 --depth 1 --steps 3
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.common import arguments, prepared, seconds_each

BYTES, HEAD = 256, 64


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), of (batch, length, width)."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        self.heads = max(1, width // HEAD)
        self.first, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.second = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.gelu, self.down = (
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result, of the shape of x."""
        mixed = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(self.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """Logits of the byte after each of (batch, length) bytes."""

    def __init__(self, width: int = 384, depth: int = 6, length: int = 256) -> None:
        """Make the layers for texts of at most `length` bytes."""
        super().__init__()
        self.tokens, self.places = nn.Embedding(BYTES, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, BYTES, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return logits (batch, length, 256)."""
        x = self.tokens(text) + self.places.weight[: text.shape[1]]
        return self.head(self.norm(self.blocks(x)))

    def fuse_gelu(self) -> None:
        """Let the first product of each block apply the gelu, once the layers are ours."""
        for block in self.blocks:
            block.up.activation, block.gelu = "gelu", nn.Identity()


def texts(device: str, batch: int, length: int) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    """Return a function that returns random pieces of this file, and what follows each byte."""
    held = torch.tensor(list(Path(__file__).read_bytes()), device=device)
    places, made = torch.arange(length + 1, device=device), torch.Generator(device).manual_seed(1)

    def batch_of() -> tuple[torch.Tensor, torch.Tensor]:
        first = torch.randint(len(held) - length, (batch, 1), generator=made, device=device)
        pieces = held[first + places]
        return pieces[:, :-1].contiguous(), pieces[:, 1:]

    return batch_of


def training(
    linear: str,
    mode: str,
    device: str = "cuda",
    *,
    width: int = 384,
    depth: int = 6,
    length: int = 256,
    batch: int = 64,
    autocast: bool = False,
    gelu: bool = False,
) -> Callable[[], torch.Tensor]:
    """Return a function that makes a step of the training, and returns its loss.

    With `autocast`, parameters are f32, and products bf16; else all is bf16. With `gelu`, our
    products apply it.
    """
    torch.manual_seed(0)
    model = GPT(width, depth, length).to(device, None if autocast else torch.bfloat16)
    batch_of = texts(device, batch, length)
    if gelu:
        model.fuse_gelu()
    forward: Any = prepared(model, linear, mode, batch_of()[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device == "cuda")

    def step() -> torch.Tensor:
        text, wanted = batch_of()
        with torch.autocast(device, torch.bfloat16, autocast):
            logits = forward(text)
            loss = functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def main() -> None:
    """Train, and print losses and steps per second."""
    given = vars(arguments(__doc__, width=384, depth=6, length=256, batch=64, steps=100))
    steps = given.pop("steps")
    step = training(**given)
    for _ in range(3):
        print(f"loss {float(step()):.4f}")
        seconds = seconds_each(step, given["device"], max(1, steps // 3))
        print(f"{1 / seconds:.2f} steps per second")


if __name__ == "__main__":
    main()
