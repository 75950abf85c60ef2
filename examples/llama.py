"""Run layers of Llama 3 8B on random weights, and decode greedily, with torch's products or ours.

python -m examples.llama --linear torch|cute --mode eager|compile|graphs     # on a GPU, in bf16
python -m examples.llama --device cpu --width 128 --depth 1 --words 64 --steps 3
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.common import arguments, prepared, seconds_each

HEAD, GROUP, BASE = 128, 4, 500000.0  # width of a head; heads that share keys; of the rotations
Cache = list[tuple[torch.Tensor, torch.Tensor]]  # the keys and the values of each layer


def rotated(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return heads (batch, heads, length, 128) turned by their places (length)."""
    steps = torch.arange(0, HEAD, 2, device=x.device) / HEAD
    angles = places[:, None] * BASE**-steps
    first, second = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), of (batch, length, width)."""

    def __init__(self, width: int) -> None:
        """Make the layers."""
        super().__init__()
        keys, wide = max(HEAD, width // GROUP), width * 7 // 2
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (
            nn.Linear(m, n, bias=False)
            for m, n in ((width, width), (width, keys), (width, keys), (width, width))
        )
        self.gate, self.up, self.down = (
            nn.Linear(m, n, bias=False) for m, n in ((width, wide), (width, wide), (wide, width))
        )

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, held: tuple[torch.Tensor, torch.Tensor] | None
    ) -> torch.Tensor:
        """Return the block's result; `held`: keys and values of all places, which it extends."""
        y = self.first(x)
        q, k, v = (f(y).unflatten(-1, (-1, HEAD)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k, mask = rotated(q, places), rotated(k, places), None
        if held is not None:
            k, v = held[0].index_copy_(2, places, k), held[1].index_copy_(2, places, v)
            mask = torch.arange(k.shape[2], device=x.device) <= places[:, None]
        k, v = (z.repeat_interleave(q.shape[1] // k.shape[1], 1) for z in (k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=held is None)
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Logits of the word after each of (batch, length) words."""

    def __init__(self, width: int = 4096, depth: int = 4, words: int = 128256) -> None:
        """Make the layers."""
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)

    def forward(
        self, text: torch.Tensor, places: torch.Tensor, cache: Cache | None = None
    ) -> torch.Tensor:
        """Return logits (batch, length, words)."""
        x = self.words(text)
        for i, block in enumerate(self.blocks):
            x = block(x, places, None if cache is None else cache[i])
        return self.head(self.norm(x))

    def cache(self, batch: int, length: int) -> Cache:
        """Return room for the keys and values of texts."""
        found = []
        for block in self.blocks:
            shape = batch, block.k.out_features // HEAD, length, HEAD
            found.append((block.k.weight.new_zeros(shape), block.k.weight.new_zeros(shape)))
        return found


def made(
    linear: str, device: str = "cuda", *, width: int = 4096, depth: int = 4, words: int = 128256
) -> Llama:
    """Return a model of bf16 with random weights, of torch's products or ours."""
    torch.manual_seed(0)
    with torch.device(device):
        model = Llama(width, depth, words).bfloat16().requires_grad_(False)
    return prepared(model, linear, "eager")


def running(model: Llama, mode: str, batch: int = 1, length: int = 1) -> Callable[[], torch.Tensor]:
    """Return a function that returns the logits of random texts."""
    device = model.words.weight.device
    words = model.words.num_embeddings
    made = torch.Generator().manual_seed(1)
    text = torch.randint(words, (batch, length), generator=made).to(device)
    places = torch.arange(length, device=device)
    forward: Any = prepared(model, "torch", mode, text, places)  # it has its products

    def step() -> torch.Tensor:
        with torch.no_grad():
            return forward(text, places)

    return step


def decoding(model: Llama, mode: str, length: int = 128) -> Callable[[], torch.Tensor]:
    """Return a function that decodes so many words after one, each the likeliest, and returns
    them.
    """
    device = model.words.weight.device
    cache = model.cache(1, length + 1)
    forward: Any = prepared(model, "torch", mode)

    def step() -> torch.Tensor:
        text, found = torch.ones(1, 1, dtype=torch.long, device=device), []
        places = torch.zeros(1, dtype=torch.long, device=device)
        with torch.no_grad():
            for _ in range(length):
                text = forward(text, places, cache)[:, -1].argmax(-1, keepdim=True)
                found.append(text)
                places = places + 1
        return torch.cat(found, 1)

    return step


def main() -> None:
    """Run it, and print words per second."""
    given = vars(arguments(__doc__, width=4096, depth=4, words=128256, length=128, steps=10))
    steps, mode, length = (given.pop(x) for x in ("steps", "mode", "length"))
    model = made(**given)
    decode = "eager" if mode == "graphs" else mode  # a graph has no cache that grows
    for name, step in (
        (f"{length} words at once", running(model, mode, 1, length)),
        (f"{length} words, each after the other", decoding(model, decode, length)),
    ):
        step()
        seconds = seconds_each(step, given["device"], steps)
        print(f"{name}: {length / seconds:.1f} words per second")


if __name__ == "__main__":
    main()
