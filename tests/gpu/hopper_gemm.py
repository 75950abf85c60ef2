"""Products by `cute.ops.gemm` on a Hopper GPU, compared with float64: what `test_hopper_gemm.py`
runs, each group in a process of its own, so that a kernel that hangs fails alone.

`python -m tests.gpu.hopper_gemm GROUP [FIRST COUNT]` runs a group, or a part of it.
"""

import random
import sys
from itertools import islice, product

import cute_py as cute
from cute_py.ops.choice import all_for
from cute_py.ops.gemm_tiles_sm90 import ROWS
from cute_py.ops.product import Product, Request, taken
from tests.gpu.harness import require_gpu, torch

require_gpu()


RANDOM = 1000  # random products
BEHIND = 64  # elements behind each row of D, and rows behind D, that must stay as they were
KINDS = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "tf32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "s8": torch.int8,
    "u8": torch.uint8,
    "f32": torch.float32,
    "s32": torch.int32,
    "f64": torch.float64,
}
RESULTS = {
    "f16": ("f16", "f32"),
    "bf16": ("bf16", "f32"),
    "tf32": ("f32",),
    "e4m3": ("bf16", "f32"),
    "e5m2": ("f16",),
    "s8": ("s32", "f32"),
    "u8": ("s32",),
}
ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-23, "e4m3": 2.0**-4, "s32": 0.0, "f64": 0.0}
ACTIVATIONS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}
DEVICE = torch.device("cuda")


class Case:
    """A product; what is not given has the value of most of them.

    Attributes:
        shape: (M, N, K).
        kind, other: types of A and of B.
        result: type of D.
        majors: the contiguous modes of A and of B, "K" or "MN".
        gaps: elements between rows of A and of B, and their first address is that many elements in.
        batch: modes of A and of B before the last two.
        terms: "alpha", "beta", "bias" that are there.
        activation, config, fast: as `gemm` takes them.
        whole: whether operands are small integers, so that sums are exact.
        direct: whether D is a part of a larger array, given as `out`.
    """

    def __init__(self, shape, kind="bf16", **named):
        self.shape, self.kind = shape, kind
        self.other, self.result, self.majors = kind, RESULTS[kind][0], ("K", "K")
        self.gaps, self.batch, self.terms, self.activation = (0, 0), ((), ()), (), None
        self.config, self.fast, self.whole, self.direct = None, False, True, False
        for name, value in named.items():
            assert hasattr(self, name), name
            setattr(self, name, value)

    def __str__(self):
        usual = vars(Case(self.shape, self.kind))
        parts = [f"{k}={v}" for k, v in vars(self).items() if usual[k] != v or k == "shape"]
        return f"{self.kind} {' '.join(parts)}"

    def operand(self, rows, side, seed):
        """Return [..., rows, K], its values in float64 with those."""
        generator = torch.Generator(DEVICE).manual_seed(seed)
        kind, gap = (self.kind, self.other)[side], self.gaps[side]
        shape = (*self.batch[side], rows, self.shape[2])
        if self.whole:
            low = 0 if kind == "u8" else -3
            values = torch.randint(low, 4, shape, generator=generator, device=DEVICE).double()
        else:
            values = torch.randn(shape, generator=generator, device=DEVICE).double()
        if self.majors[side] == "MN":
            held = torch.zeros((*shape[:-2], shape[-1], shape[-2] + gap), device=DEVICE)
        else:
            held = torch.zeros((*shape[:-2], shape[-2], shape[-1] + gap), device=DEVICE)
        flat = torch.zeros(held.numel() + gap, device=DEVICE).to(KINDS[kind])
        strides = list(held.stride())
        if self.majors[side] == "MN":
            strides[-2:] = [1, strides[-2]]
        x = torch.as_strided(flat, shape, strides, gap)
        if kind == "tf32":  # of which no bit is lost
            values = (values.float().view(torch.int32) & -(1 << 13)).view(torch.float32).double()
        self.fill(x, values, KINDS[kind])
        return x, x.double() if x.dtype.itemsize > 1 else x.float().double()

    @staticmethod
    def fill(x, values, dtype):
        if x.numel():
            x.copy_(values.to(dtype) if dtype.itemsize > 1 else values.float().to(dtype))

    def run(self, seed=0):
        """Fail unless D is right, and all around it is as it was."""
        (M, N), (first, second) = self.shape[:2], self.batch
        (a, wide_a), (b, wide_b) = self.operand(M, 0, seed), self.operand(N, 1, seed + 1)
        batch = torch.broadcast_shapes(first, second)
        size = wide_a.abs() @ wide_b.abs().mT
        wanted = wide_a @ wide_b.mT
        named = {"out_dtype": self.result, "config": self.config, "fast_accum": self.fast}
        generator = torch.Generator(DEVICE).manual_seed(seed + 2)

        def term(shape):
            x = torch.randint(-8, 9, shape, generator=generator, device=DEVICE)
            return x.to(torch.int32 if self.result == "s32" else torch.float32)

        if "alpha" in self.terms:
            named["alpha"] = 2.0 if self.whole else 0.75
            wanted, size = wanted * named["alpha"], size * named["alpha"]
        if "beta" in self.terms:
            c = term((*batch, M, N))
            c = c if self.result in ("s32", "f32") else c.to(KINDS[self.result])
            named |= {"c": c, "beta": -1.0}
            wanted, size = wanted - c.double(), size + c.double().abs()
        if "bias" in self.terms:
            bias = term((N,))
            named["bias"] = bias
            wanted, size = wanted + bias.double(), size + bias.double().abs()
        wanted = ACTIVATIONS[self.activation](wanted)
        operands = [cute.typed(x, "tf32") if self.kind == "tf32" else x for x in (a, b.mT)]
        poison = float("nan") if KINDS[self.result].is_floating_point else -(2**31) + 1
        if self.direct:
            held = torch.full((*batch, M + 1, N + BEHIND), poison, device=DEVICE)
            held = held.to(KINDS[self.result])
            before = held.clone()
            named["out"] = held[..., :M, :N]
        else:  # so that the memory that D gets is poisoned
            torch.full((*batch, M, N), poison, device=DEVICE).to(KINDS[self.result])
        d = cute.ops.gemm(*operands, **named, activation=self.activation)
        torch.cuda.synchronize()
        self.compare(d, wanted, size)
        if self.direct:
            assert d.data_ptr() == held.data_ptr()
            before[..., :M, :N] = d
            same = before.view(torch.uint8) == held.view(torch.uint8)
            assert bool(same.all()), "wrote outside of D"
        return d

    def compare(self, d, wanted, size):
        assert d.shape == wanted.shape, (d.shape, wanted.shape)
        if not d.numel():
            return
        wide = d.double() if d.dtype.itemsize > 1 else d.float().double()
        if self.whole and self.activation in (None, "relu"):
            rounded = wanted.to(KINDS[self.result])
            rounded = rounded.double() if rounded.dtype.itemsize > 1 else rounded.float().double()
            far = (wide != rounded) | wide.isnan()
        else:
            narrow = self.kind in ("e4m3", "e5m2")  # the tensor cores sum them in about 14 bits
            steps = self.shape[2] / 32 + 8 if narrow and self.fast else self.shape[2] / 8 + 16
            unit = 2.0**-14 if narrow and self.fast else 2.0**-22
            if narrow and not self.fast:
                steps, unit = 4, 2.0**-14
            bound = 1.2 * steps * unit * (size + 1) + 2 * ULP[self.result] * wanted.abs() + 1e-6
            far = ~((wide - wanted).abs() <= bound)
        if bool(far.any()):
            at = tuple(int(i) for i in far.nonzero()[0])
            count = int(far.sum())
            said = f"{wide[at].item()} for {wanted[at].item()} at {at}, {count} wrong"
            raise SystemExit(f"{self}: {said}")


# -- groups of cases

RAGGED = [(136, 264, 200), (1, 8, 8), (300, 200, 72), (64, 1000, 40), (513, 520, 1032)]
BOTH = tuple(product(("K", "MN"), repeat=2))


def aligned(shape, kind):
    """Return a shape whose N and K are whole vectors of a type."""
    each = 16 * 8 // cute.dtype(kind).bits
    m, n, k = shape
    return m, -(-n // each) * each, -(-k // each) * each


def types():
    for kind, results in RESULTS.items():
        for i, shape in enumerate(RAGGED):
            for majors in BOTH:
                m, n, k = aligned(shape, kind)
                if majors[0] == "MN":
                    m = aligned((m, m, k), kind)[1]
                result = results[i % len(results)]
                yield Case((m, n, k), kind, majors=majors, result=result, direct=i % 2 == 0)
    yield Case((144, 272, 208), "e4m3", other="e5m2", result="f32")
    yield Case((144, 272, 208), "e5m2", other="e4m3", result="bf16")
    yield Case((144, 272, 208), "s8", other="u8", result="s32")
    yield Case((144, 272, 208), "u8", other="s8", result="s32")
    for kind in ("e4m3", "e5m2"):
        for fast in (False, True):
            yield Case((272, 400, 1040), kind, fast=fast, whole=False)
    for kind in ("f16", "bf16", "tf32"):
        yield Case((272, 400, 1040), kind, whole=False)


def epilogues():
    terms = [(), ("alpha",), ("bias",), ("beta",), ("alpha", "beta", "bias")]
    for i, (some, activation) in enumerate(product(terms, ACTIVATIONS)):
        kind = ("bf16", "f16", "tf32", "e4m3", "s8")[i % 5]
        result = RESULTS[kind][i // 5 % len(RESULTS[kind])]
        result = "f32" if kind == "s8" and activation not in (None, "relu") else result
        shape = ((272, 400, 144), (1024, 1040, 208))[i % 2]
        more = {"terms": some, "activation": activation, "result": result}
        yield Case(shape, kind, whole=activation in (None, "relu"), direct=i % 3 == 0, **more)
    for activation in ACTIVATIONS:
        more = {"terms": ("bias", "beta"), "activation": activation, "whole": False}
        yield Case((2048, 3072, 512), "bf16", **more)
        yield Case((8192, 4096, 128), "bf16", **more)


def pitches():
    """Pitches and addresses that TMA reads, and others; below and above the size for copies."""
    for shape in ((67, 75, 83), (264, 136, 72), (515, 517, 519), (640, 520, 1024), (521, 544, 528)):
        for kind in ("bf16", "tf32", "s8", "e4m3"):
            for gaps in ((0, 0), (16, 16), (3, 0), (0, 5)):
                for majors in (("K", "K"), ("MN", "MN")):
                    yield Case(shape, kind, gaps=gaps, majors=majors, direct=gaps[0] == 3)


def batches():
    for one, two in (((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 3), (1, 3)), ((2, 1), (3,))):
        for kind, majors in (("bf16", ("K", "K")), ("f16", ("MN", "MN")), ("s8", ("K", "MN"))):
            yield Case((144, 272, 80), kind, batch=(one, two), majors=majors)
        yield Case((144, 272, 80), "bf16", batch=(one, two), terms=("beta", "bias"), direct=True)
    yield Case((64, 48, 32), "bf16", batch=((300,), (300,)))


def empty():
    for kind in ("bf16", "tf32", "s8", "e4m3", "f32", "f64"):
        RESULTS.setdefault(kind, (kind,))
        yield Case((40, 56, 0), kind, terms=("beta", "bias"))
        yield Case((600, 520, 0), kind, batch=((2,), ()))
        for shape in ((0, 8, 8), (8, 0, 8), (0, 8, 0)):
            yield Case(shape, kind)
        yield Case((8, 8, 8), kind, batch=((0,), (0,)))


def text_of(row):
    return f"schedule={row.schedule},tile={row.m}x{row.n}x{{k}}"


def rows():
    """Each row of the family: K of 0, of part of a tile, of one, of more than all stages; fewer
    tiles than blocks, and more.
    """
    for row in ROWS:
        for kind in ("bf16", "tf32", "s8", "e4m3"):
            k = 1024 // cute.dtype(kind).bits
            each = k // 8
            if kind == "s8" and row.n % 16:  # wgmma has none
                continue
            for depth in (0, each, k, k + each, 9 * k):
                for m, n in ((row.m, row.n), (3 * row.m + 8, 2 * row.n + 16)):
                    n = -(-n // each) * each
                    config = text_of(row).format(k=k)
                    config = config if depth else None
                    yield Case((m, n, depth), kind, config=config, fast=True)
        for majors in BOTH[1:]:
            if all(extent % 64 == 0 for extent in (row.m, row.n)):
                config = text_of(row).format(k=64)
                yield Case((20 * row.m, 15 * row.n, 200), "bf16", majors=majors, config=config)
        yield Case((20 * row.m + 8, 15 * row.n + 8, 200), "f16", config=text_of(row).format(k=64))
        config = text_of(row).format(k=64) + ",store=0"
        yield Case((5 * row.m + 8, 5 * row.n + 8, 200), "f16", config=config, direct=True)


def clusters():
    """Rows whose blocks share tiles of A in clusters of two: ragged, an odd number of tiles of N,
    fewer tiles than blocks, and more.
    """
    for row in ROWS:
        if row.schedule == "cooperative" and row.m % 128 == 0:
            config = text_of(row).format(k=64) + ",cluster=2"
            for k in (8, 64, 72, 600):
                yield Case((row.m, row.n, k), "bf16", config=config)
                yield Case((5 * row.m + 8, 5 * row.n + 16, k), "f16", config=config, direct=True)
            if row.n % 64 == 0:
                shape = (17 * row.m + 8, 17 * row.n + 8, 200)
                yield Case(shape, "bf16", config=config, majors=("K", "MN"))


def splits():
    """Rows whose blocks share K: ragged, parts without a tile of K, fewer tiles than clusters, and
    more; each type, major, way of D and kind of epilogue.
    """
    for row in ROWS:
        for split in row.splits:
            config = text_of(row).format(k=64) + f",split={split}"
            for k in (8, 64, 200, 64 * 45):
                yield Case((row.m, row.n, k), "bf16", config=config, terms=("beta", "bias"))
                yield Case((3 * row.m + 8, 2 * row.n + 16, k), "f16", config=config, direct=True)
            shape = (9 * row.m + 8, 9 * row.n + 8, 520)
            yield Case(shape, "bf16", config=config, result="f32", activation="relu")
            yield Case(shape, "bf16", config=config + ",store=0", direct=True)
            more = {"config": config, "batch": ((5,), (5,)), "terms": ("beta",)}
            yield Case((row.m + 8, row.n + 8, 328), "bf16", **more)
            if row.n % 64 == 0:
                yield Case((row.m, row.n + 8, 1024), "bf16", config=config, majors=("MN", "MN"))
        for kind in ("tf32", "s8", "e4m3"):
            for split in row.splits[-1:]:
                config = text_of(row).format(k=1024 // cute.dtype(kind).bits) + f",split={split}"
                yield Case((row.m + 8, 2 * row.n, 2064), kind, config=config)


def few():
    """Rows of A that a tile of 64 rows has not, by the rule and by each such tile."""
    for m in (1, 8, 16, 17, 40, 63, 104):
        yield Case((m, 4096, 1024), "bf16", terms=("bias",))
        for row in ROWS:
            if row.m == 64:
                config = text_of(row).format(k=64)
                yield Case((m, 3 * row.n + 8, 328), "f16", config=config, direct=True)


def drawn(seed):
    """Return a random product."""
    rng = random.Random(seed)
    kind = rng.choice(["bf16", "bf16", "f16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"])
    most = rng.choice([40, 300, 1500])
    shape = [rng.randint(1, most) for _ in range(3)]
    if rng.random() < 0.6:
        shape = [-(-x // 16) * 16 for x in shape]
    terms = [t for t in ("alpha", "beta", "bias") if rng.random() < 0.25]
    batch = rng.choice([((), ())] * 4 + [((2,), (2,)), ((3,), ()), ((), (2,))])
    more = {
        "result": rng.choice(RESULTS[kind]),
        "majors": rng.choice(BOTH),
        "gaps": rng.choice([(0, 0), (0, 0), (8, 16), (rng.randint(0, 9), rng.randint(0, 9))]),
        "activation": rng.choice([None, None, "relu"]),
        "direct": rng.random() < 0.5,
    }
    return Case(tuple(shape), kind, terms=tuple(terms), batch=batch, **more)


def repeated():
    """Equal bits in repeated runs, in this order and in graphs; kernels that overlap."""
    shapes = ((512, 512, 512), (1000, 1048, 776), (2048, 2304, 1024), (4096, 4096, 512))
    for shape in (*shapes, (512, 512, 16384), (256, 1024, 8192)):
        case = Case(shape, "bf16", whole=False)
        first = case.run()
        for _ in range(30):
            assert torch.equal(first, case.run()), shape
        yield f"{shape} 30 times"


def chain(x, step, buffers, count=60):
    """Return x multiplied many times, the products written to some buffers in turn."""
    for i in range(count):
        x = cute.ops.gemm(x, step, out=buffers[i % len(buffers)])
    return x


def graphs():
    """Products of products, captured: each begins while the one before is running."""
    sizes = (256, 256), (1024, 1024), (2048, 2048), (64, 4096), (16, 4096)
    for (rows, size), kind in zip(sizes, (torch.bfloat16, torch.float16) * 3, strict=False):
        a = torch.randint(-1, 2, (rows, size), device=DEVICE).to(kind)
        step = torch.eye(size, device=DEVICE, dtype=kind).roll(1, 0)
        buffers = [torch.empty_like(a) for _ in range(3)]
        wanted = a
        for _ in range(60):
            wanted = wanted @ step
        assert torch.equal(chain(a, step, buffers), wanted), size
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = chain(a, step, buffers)
        for _ in range(3):
            for x in buffers:
                x.fill_(float("nan"))
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(result, wanted), size
        yield f"{rows}x{size} {kind}"


def measured():
    """Products by the configurations that `cute.tune` found."""
    for shape, kind in (((520, 776, 1032), "bf16"), ((264, 520, 136), "s8"), ((67, 75, 83), "f32")):
        RESULTS.setdefault(kind, (kind,))
        case = Case(shape, kind)
        (a, _), (b, _) = case.operand(shape[0], 0, 0), case.operand(shape[1], 1, 1)
        best = cute.tune(cute.ops.gemm, a, b.mT, out_dtype=case.result)
        assert all(x.startswith("measured: ") for x in best.reasons), best.reasons
        request, library = taken(Request(a, b.mT, out_dtype=case.result))
        assert len(best.reasons) == len(all_for(Product(request, library))) > 1, best.reasons
        case.run()
        yield str(best)


def one():
    """One product of each kernel, for compute-sanitizer."""
    yield Case((200, 264, 264), "bf16", config="schedule=cooperative,tile=128x64x64", direct=True)
    yield Case((200, 264, 264), "bf16", config="schedule=pingpong,tile=128x64x64", direct=True)
    config = "schedule=cooperative,tile=64x128x64,split=4"
    yield Case((72, 264, 520), "bf16", config=config, direct=True)


def some():
    """Random products."""
    yield from map(drawn, range(RANDOM))


GROUPS = {
    f.__name__: f
    for f in (types, epilogues, pitches, batches, empty, rows, clusters, splits, few, one, some)
}
CHECKS = {f.__name__: f for f in (repeated, graphs, measured)}


def main(name, first=0, count=None):
    """Run a part of a group, and print how many products were right."""
    end, done = None if count is None else int(first) + int(count), 0
    for case in islice(CHECKS[name]() if name in CHECKS else GROUPS[name](), int(first), end):
        try:
            if isinstance(case, Case):
                case.run(done)
        except Exception as error:
            raise SystemExit(f"{case}: {type(error).__name__}: {error}") from error
        done += 1
    print(f"{name}: {done} right", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
