"""Every mma.sync row that codegen lowers: one product of integers, bit for bit the emulator's.

Fragments come packed as the instruction takes them: words of 32 bits (or f64), lane by lane, laid
out by the atom's own thread-value layouts; so a wrong layout gives a wrong product.
"""

from dataclasses import replace

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms import rows
from cute_py.atoms.arch import number
from cute_py.layout.offsets import offset_grid, offsets
from tests.coverage import covers
from tests.emulated.plans import tid
from tests.gpu.harness import DRY, Maker, assert_same, at, both, ops, read_as, require_any, torch

require_any()

ARCH = 90
if not DRY:
    major, minor = torch.cuda.get_device_capability()
    ARCH = major * 10 + minor
WARP = [
    atom
    for atom in rows()
    if atom.runnable and atom.ptx is not None and atom.ptx.startswith(("mma.", "dp4a"))
]
RUN = [atom for atom in WARP if number(atom.min_arch) <= ARCH]
GROUPS = sorted({(atom.name.split("_")[0], atom.a_type.name) for atom in RUN})


def groups_of(atom):
    """Return the lanes of each group of threads that executes the atom."""
    threads, free, found = offsets(atom.thr_id), set(range(32)), []
    while free:
        found.append(min(free) + threads)
        free -= set(found[-1].tolist())
    return found


def drawn(rng, kind, shape):
    if kind.bits == 1:
        return rng.integers(0, 2, shape)
    top = 4 if kind.bits > 4 else 2
    low = -top if kind.is_signed or kind.is_float else 0
    return rng.integers(low, top, shape)


def fragment(atom, matrices, tv, kind):
    """Return matrices, one for each group of lanes, as values [lane, value]."""
    grid = offset_grid(tv).reshape(atom.num_threads, -1)
    held = np.zeros((32, grid.shape[1]), np.int64)
    for lanes, matrix in zip(groups_of(atom), matrices, strict=True):
        held[lanes] = matrix.T.reshape(-1)[grid]
    return held


def packed(values, kind):
    """Return values [lane, value] as words of 32 bits, lowest bits first."""
    image = cute.encode(values.astype(np.float64) if kind.is_float else values, kind)
    image = np.asarray(image).astype(np.uint64)
    bits = (image[..., None] >> np.arange(kind.bits, dtype=np.uint64)) & np.uint64(1)
    flat = bits.reshape(32, -1).astype(np.uint8)
    flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 32)))
    return np.packbits(flat, axis=1, bitorder="little").view("<u4")


class Products:
    """A plan with the product of each atom of a group; operands and results are words."""

    def __init__(self, atoms):
        self.m, self.body, self.inputs = Maker("products", threads=32), [], []
        self.m.launch = replace(self.m.launch, allow_emulated=True)
        self.places, self.results, self.wanted = 0, [], []
        self.words = {"I": 0, "O": 0}
        self.X, self.R = self.m.tensor("X", "u32"), self.m.tensor("R", "u32")
        for atom in atoms:
            self._product(atom)

    def _load(self, words):
        n = words.shape[1]
        reg = self.m.reg(f"r{len(self.m.registers)}", "u32", n)
        place = at(self.X, tid * n + self.words["I"], step=(n, 1))
        self.body.append(self.m.op(ops.Load, reg, place))
        self.words["I"] += words.size
        self.inputs.append(words.reshape(-1))
        return reg

    def _product(self, atom):
        (M, N, K), count = atom.shape_mnk, len(groups_of(atom))
        rng = np.random.default_rng(0)
        A, B, C = (
            drawn(rng, kind, (count, *shape))
            for kind, shape in (
                (atom.a_type, (M, K)),
                (atom.b_type, (N, K)),
                (atom.c_type, (M, N)),
            )
        )
        operands = []
        for matrix, tv, kind in (
            (A, atom.a_tv, atom.a_type),
            (B, atom.b_tv, atom.b_type),
            (C, atom.c_tv, atom.c_type),
        ):
            values = fragment(atom, matrix, tv, kind)
            reg = self._load(packed(values, kind))
            operands.append(read_as(reg, kind.name, values.shape[1]))
        a, b, c = operands
        self.body.append(self.m.op(ops.Mma, atom, c, a, b, ((0, 0, 0),)))
        n = len(c) * atom.c_type.bits // 32
        out = read_as(c, "u32", n)
        place = at(self.R, tid * n + self.words["O"], step=(n, 1))
        self.body.append(self.m.op(ops.Store, place, out))
        products = A @ B.swapaxes(1, 2)
        if atom.operation == "xor.popc":
            products = (A[:, :, None] ^ B[:, None]).sum(-1)
        self.wanted.append(
            packed(fragment(atom, C + products, atom.c_tv, atom.d_type), atom.d_type)
        )
        self.results.append(slice(self.words["O"], self.words["O"] + 32 * n))
        self.words["O"] += 32 * n

    def run(self):
        """Return (of the GPU, of the emulator, of NumPy) for each atom."""
        result = np.zeros(self.words["O"], np.uint32)
        _x, (got, emulated) = both(self.m.plan(*self.body), np.concatenate(self.inputs), result)
        return [
            (got[rows], emulated[rows], wanted.reshape(-1))
            for rows, wanted in zip(self.results, self.wanted, strict=True)
        ]


@pytest.mark.parametrize("group", GROUPS, ids="-".join)
def test_products_of_integers_are_exact(group):
    atoms = [a for a in RUN if (a.name.split("_")[0], a.a_type.name) == group]
    for atom, (got, emulated, wanted) in zip(atoms, Products(atoms).run(), strict=True):
        assert_same(emulated, wanted, f"emulator and NumPy: {atom}")
        assert_same(got, emulated, str(atom))


def test_integer_accumulators_wrap_or_saturate():
    names = ("SM80_16x8x32_S32S8S8S32_TN", "SM80_16x8x32_S32S8S8S32_TN_SATURATE")
    m = Maker("overflow", threads=32)
    R, body = m.tensor("R", "s32"), []
    for i, name in enumerate(names):
        atom = cute.atoms.get(name)
        a, b, c = m.reg(f"a{i}", "s8", 16), m.reg(f"b{i}", "s8", 8), m.reg(f"c{i}", "s32", 4)
        body += [m.op(ops.Fill, a, 127), m.op(ops.Fill, b, 127), m.op(ops.Fill, c, 2**31 - 1)]
        body.append(m.op(ops.Mma, atom, c, a, b, ((0, 0, 0),)))
        body.append(m.op(ops.Store, at(R, tid * 4 + 128 * i, step=(4, 1)), c))
    ((got, wanted),) = both(m.plan(*body), np.zeros(256, np.int32))
    assert_same(got, wanted)


@covers(ops.Mma)
def test_what_an_instruction_sums_is_near_the_exact_sum():
    """Random operands: within the rounding of K products and of the accumulator (see docs)."""
    rng = np.random.default_rng(0)
    names = [
        "SM80_16x8x16_F32F16F16F32_TN",
        "SM80_16x8x16_F32BF16BF16F32_TN",
        "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM80_16x8x16_F16F16F16F16_TN",
        "SM80_8x8x4_F64F64F64F64_TN",
    ]
    m = Maker("random", threads=32)
    body, arrays, counts = [], [], []
    for i, name in enumerate(names):
        atom = cute.atoms.get(name)
        regs = []
        for letter, tv, kind in (
            ("A", atom.a_tv, atom.a_type),
            ("B", atom.b_tv, atom.b_type),
            ("C", atom.c_tv, atom.c_type),
        ):
            n = int(cute.size(tv, 1))
            T, reg = (
                m.tensor(f"{letter}{i}", kind.name),
                m.reg(f"{letter.lower()}{i}", kind.name, n),
            )
            body.append(m.op(ops.Load, reg, at(T, tid * n, step=(n, 1))))
            values = np.asarray(cute.convert(rng.standard_normal(32 * n), kind))
            arrays.append(values.astype(kind.numpy))
            regs.append((T, reg, n))
        (_a, a, _), (_b, b, _), (C, c, n) = regs
        body.append(m.op(ops.Mma, atom, c, a, b, ((0, 0, 0),)))
        body.append(m.op(ops.Store, at(C, tid * n, step=(n, 1)), c))
        counts.append(atom)
    found = both(m.plan(*body), *arrays)
    for i, atom in enumerate(counts):
        got, wanted = (x.astype(np.float64) for x in found[3 * i + 2])
        u = {"f16": 2.0**-10, "f32": 2.0**-22, "f64": 2.0**-52}[atom.d_type.name]
        most = 16.0 * atom.shape_mnk[2]  # no product of these numbers is above 16
        assert np.abs(got - wanted).max() <= u * most, atom
