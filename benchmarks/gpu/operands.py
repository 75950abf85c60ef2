"""Arrays, right answers and peers of a row, in torch on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu.building import shapes_of
from benchmarks.gpu.cases import Row
from benchmarks.gpu.harness import sets_needed

NAMES = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "tf32": "float32",
    "f64": "float64",
    "s8": "int8",
    "s32": "int32",
}
TF32_MASK = ~0x1FFF  # the bits of an f32 that TF32 has


def make(torch: Any, shape: Any, strides: Any, dtype: str) -> Any:
    """Return a random normal array; integers are uniform over all values."""
    kind = getattr(torch, NAMES[dtype])
    flat = (shape[1], shape[0]) if len(shape) == 2 and strides[0] == 1 != strides[1] else shape
    if dtype == "s8":
        x = torch.randint(-128, 128, flat, device="cuda", dtype=torch.int8)
    elif dtype == "s32":
        x = torch.empty(flat, device="cuda", dtype=kind)
    else:
        x = torch.randn(flat, device="cuda", dtype=kind)
    if dtype == "tf32":
        x.view(torch.int32).bitwise_and_(TF32_MASK)
    return x if flat is shape else x.T


def sets_of(torch: Any, row: Row) -> list[list[Any]]:
    """Return sets of arrays, inputs first, that exceed the caches together."""
    shapes = shapes_of(row)

    def one() -> list[Any]:
        return [make(torch, *each) for each in shapes]

    first = one()
    size = sum(x.numel() * x.element_size() for x in first)
    count = 1 if size > 1 << 30 else sets_needed(size)
    return [first, *[one() for _ in range(count - 1)]]


def wanted(torch: Any, row: Row, operands: list[Any]) -> Any:
    """Return the right answer of one set: computed in f64, kept in the type it is compared in."""
    if row.kind in ("copy", "transpose"):
        return operands[0] if row.kind == "copy" else operands[0].T
    kept = torch.float64 if row.dtype == "f64" else torch.float32
    if row.kind == "softmax":
        return torch.softmax(operands[0].double(), 1).to(kept)
    if row.kind == "sum":
        return operands[0].double().sum(1).to(kept)
    product = operands[0].double() @ operands[1].double().T
    return product.to(torch.int32) if row.dtype == "s8" else product.to(kept)


def tolerance_of(row: Row) -> str:
    """Return which tolerances hold for a row."""
    if row.kind in ("copy", "transpose"):
        return "exact"
    if row.kind == "softmax":
        return f"softmax-{row.dtype}"
    if row.kind == "sum":
        return "f32"
    return "tf32" if row.dtype == "tf32" else row.result


def peer(torch: Any, row: Row) -> Callable[..., None]:
    """Return what torch does for a row, as a launch."""
    if row.kind == "copy":
        return lambda a, b: b.copy_(a)
    if row.kind == "transpose":
        return lambda a, b: b.copy_(a.T)
    if row.kind == "softmax":
        return lambda a, b: torch.softmax(a, 1, out=b)
    if row.kind == "sum":
        return lambda a, b: torch.sum(a, 1, dtype=torch.float32, out=b)
    if row.dtype == "s8":
        return lambda a, b, c: torch._int_mm(a, b.T, out=c)
    return lambda a, b, c: torch.mm(a, b.T, out=c)


def settings(torch: Any, row: Row) -> None:
    """Allow TF32 for the rows of TF32 alone, and refuse sums of half precision."""
    torch.backends.cuda.matmul.allow_tf32 = row.dtype == "tf32"
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
