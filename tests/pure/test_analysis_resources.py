"""registers(), occupancy() and wave(): published figures and laws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cute_py as cute
from cute_py import atoms
from cute_py.analysis import DEVICES, occupancy, registers, wave
from cute_py.tiled.tiled_mma import make_tiled_mma
from tests.sampling import each

KIB = 1024


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90a"])
def test_128_registers_leave_16_warps_a_quarter(arch):
    found = occupancy(arch, threads=256, registers=128)
    assert (found.blocks, found.warps, found.fraction) == (2, 16, 0.25)
    assert found.limiter == "registers"
    assert found.warps / 4 == 4  # for each scheduler


@pytest.mark.parametrize(
    ("arguments", "blocks", "limiter"),
    [
        (("sm_70", 1024, 32, 0), 2, "warps"),
        (("sm_75", 1024, 32, 0), 1, "warps"),
        (("sm_86", 1024, 32, 0), 1, "warps"),
        (("sm_80", 32, 16, 0), 32, "blocks"),
        (("sm_89", 32, 16, 0), 24, "blocks"),
        (("sm_80", 128, 32, 48 * KIB), 3, "shared memory"),
        (("sm_80", 128, 32, 163 * KIB), 1, "shared memory"),
        (("sm_90", 384, 168, 227 * KIB), 1, "registers"),
        (("sm_90", 128, 32, 113 * KIB), 2, "shared memory"),
        (("sm_90", 128, 32, 114 * KIB), 1, "shared memory"),
        (("sm_88", 32, 16, 0), 16, "blocks"),
        (("sm_100a", 128, 32, 113 * KIB), 2, "shared memory"),
        (("sm_103", 1024, 32, 0), 2, "warps"),
        (("sm_110", 32, 16, 0), 24, "blocks"),
        (("sm_120", 1024, 32, 0), 1, "warps"),
        (("sm_121a", 128, 32, 99 * KIB), 1, "shared memory"),
        (("sm_80", 256, 65, 0), 3, "registers"),  # 72 registers: 28 warps, 7 for each scheduler
    ],
)
def test_occupancy_by_hand(arguments, blocks, limiter):
    found = occupancy(*arguments)
    assert (found.blocks, found.limiter) == (blocks, limiter)
    assert str(blocks) + " blocks" in str(found)


@given(
    st.sampled_from(sorted(DEVICES)),
    st.integers(1, 32),
    st.integers(1, 255),
    st.integers(0, 96 * KIB),
)
def test_resident_blocks_fit_and_one_more_does_not(arch, warps, count, shared):
    device = DEVICES[arch]
    if shared > device.shared_block:
        shared = device.shared_block
    if -(-warps // 4) * 4 * -(-count * 32 // 256) * 256 > 65536:
        with pytest.raises(cute.LayoutError, match="registers of a block, as allocated"):
            occupancy(arch, 32 * warps, count, shared)
        return
    found = occupancy(arch, 32 * warps, count, shared)
    assert found.blocks >= 1
    assert found.blocks * warps <= device.warps
    assert found.blocks * warps * 32 * count <= device.registers
    assert found.blocks * (shared + device.shared_reserved) <= device.shared
    assert found.blocks == min(blocks for _, blocks in found.limits)
    assert occupancy(arch, 32 * warps, max(1, count - 8), shared).blocks >= found.blocks


def test_waves_of_160_blocks():
    resident = occupancy("sm_70", 256, 128).blocks
    found = wave(80, resident, 4096, 128)
    assert (found.blocks, found.columns, found.rows, found.rest) == (160, 32, 5, 0)


@given(
    st.integers(1, 200), st.integers(1, 32), st.integers(1, 9999), st.sampled_from((64, 128, 256))
)
def test_a_wave_is_whole_rows_and_a_rest(processors, each, n, tile):
    found = wave(processors, each, n, tile)
    assert found.rows * found.columns + found.rest == processors * each
    assert (found.columns - 1) * tile < n <= found.columns * tile


@each([a for a in atoms.rows() if a.ptx and a.runnable and not a.min_arch.startswith("sm_1")][::7])
def test_an_atom_takes_the_registers_of_its_instruction(atom):
    found = registers(make_tiled_mma(atom))
    _, a, b, c = atom.registers
    expected = [
        0 if x.is_descriptor and m == "smem" else -(-x.bits // 32)
        for x, m in ((a, atom.a_memory), (b, atom.b_memory))
    ]
    assert [found.a, found.b] == expected
    assert found.c == -(-c.bits // 32)


def test_fragments_of_a_block_tile():
    mma = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 4, 1), (32, 64, 16))
    found = registers(mma, (128, 128, 64))
    assert found.c * mma.size() * 32 == 128 * 128 * 32
    assert found.a * mma.size() * 32 == 128 * 64 * 16 * 4  # four groups along N
    assert found.b * mma.size() * 32 == 128 * 64 * 16 * 2
    assert found.total == found.a + found.b + found.c
