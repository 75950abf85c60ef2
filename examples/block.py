"""Train a transformer block with our Linear, eager and compiled, next to the same with torch's.

Attention and norms are torch's. The task is to return the sequence of random vectors backwards.

    python examples/block.py            # on a GPU, in bf16
    python examples/block.py --device cpu --width 32 --length 8 --batch 2    # on the emulator
"""

from __future__ import annotations

import argparse

import torch
from torch.nn import functional

import cute_py.torch

HEADS = 4


class Block(torch.nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), of (batch, length, width)."""

    def __init__(self, width: int, ours: bool) -> None:
        """Make the layers; `ours`: with our Linear, else with torch's."""
        super().__init__()
        linear = cute_py.torch.Linear if ours else torch.nn.Linear
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.ours, self.down = ours, linear(4 * width, width)
        if ours:
            self.up = cute_py.torch.Linear(width, 4 * width, activation="gelu")
        else:
            self.up = torch.nn.Linear(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result, of the shape of x."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        held = self.up(self.second(x))
        return x + self.down(held if self.ours else functional.gelu(held))


def losses(
    ours: bool,
    compiled: bool,
    *,
    device: str = "cuda",
    steps: int = 50,
    width: int = 256,
    length: int = 64,
    batch: int = 8,
    backend: str = "inductor",
) -> list[float]:
    """Return the loss of each step of the training."""
    torch.manual_seed(0)
    block = Block(width, ours).to(device, torch.bfloat16)
    made = torch.Generator().manual_seed(1)
    x = torch.randn(batch, length, width, generator=made).to(device, torch.bfloat16)
    forward = torch.compile(block, fullgraph=True, backend=backend) if compiled else block
    optimizer = torch.optim.AdamW(block.parameters(), lr=1e-3)
    found = []
    for _ in range(steps):
        loss = functional.mse_loss(forward(x).float(), x.flip(1).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def main() -> None:
    """Print the losses side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    for name, value in (("steps", 50), ("width", 256), ("length", 64), ("batch", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = vars(parser.parse_args())
    columns = [losses(ours, compiled, **given) for ours in (False, True) for compiled in (0, 1)]
    print("step    torch   compiled       ours   compiled")
    for i, row in enumerate(zip(*columns, strict=True)):
        if i % 7 == 0:
            print(f"{i:4}", *[f"{x:10.5f}" for x in row])


if __name__ == "__main__":
    main()
