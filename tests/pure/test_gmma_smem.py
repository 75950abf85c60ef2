"""Shared-memory layouts and descriptors of warpgroup matrix instructions, against CuTe C++."""

import zlib
from collections import Counter

import numpy as np
import pytest

import cute_py as cute
from cute_py.atoms import gmma
from cute_py.atoms.gmma import (
    SWIZZLES,
    GmmaDescriptor,
    byte_swizzle,
    gmma_fragment,
    gmma_layout_atom,
    make_gmma_desc,
)
from tests.notation import golden_cases, plain, read_text
from tests.sampling import each

ATOMS = [case for case in golden_cases("swizzle") if case["op"] == "gmma_layout_atom"]
TILES = [case for case in golden_cases("swizzle") if case["op"] == "gmma_tile_to_shape"]
DESCRIPTORS = [case for case in golden_cases("gmma_desc") if case["op"] == "make_gmma_desc"]
FRAGMENTS = [case for case in golden_cases("gmma_desc") if case["op"] == "gmma_fragments"]


def text_of(case):
    """Return the arguments of a case, as a test's name."""
    args = case["args"]
    parts = args.values() if isinstance(args, dict) else args
    return "-".join(str(part) for part in parts)


def named_atom(name, bits):
    return getattr(gmma, name)(bits)


def check_layout(layout, bits, expected):
    """Compare the form and every offset."""
    assert plain(layout) == expected["element_form"]
    assert plain(byte_swizzle(layout, bits)) == {"swizzle": expected["byte_swizzle"]}
    offsets = layout.offsets()
    if "table" in expected:
        assert offsets.tolist() == expected["table"]
    else:
        assert zlib.crc32(offsets.astype("<u4").tobytes()) == expected["crc32"]
        assert [[list(c), layout(*c)] for c, _ in expected["samples"]] == expected["samples"]


@pytest.mark.parametrize("case", ATOMS, ids=text_of)
def test_layout_atom_is_cutes(case):
    name, bits = case["args"]
    check_layout(named_atom(name, bits), bits, case["result"])


@each(TILES, name=text_of)
def test_tile_of_a_layout_atom_is_cutes(case):
    name, bits, shape, *order = case["args"]
    arguments = (named_atom(name, bits), read_text(shape), *map(read_text, order))
    if case.get("inadmissible"):
        with pytest.raises(cute.LayoutError):
            cute.tile_to_shape(*arguments)
    else:
        check_layout(cute.tile_to_shape(*arguments), bits, case["result"])


def test_golden_data_is_complete():
    counts = [len(cases) for cases in (ATOMS, TILES, DESCRIPTORS, FRAGMENTS)]
    assert counts == [17, 117, 298, 80]


# -- laws


@each(["K", "MN"], SWIZZLES, [4, 8, 16, 32, 64])
def test_element_form_is_the_byte_form(major, swizzle, bits):
    """Scaled to bits, the element layout is Sw<B,4,3> on byte addresses of the plain layout."""
    layout = gmma_layout_atom(major, swizzle, bits)
    inner = getattr(layout, "inner", layout)
    on_bytes = cute.Swizzle(SWIZZLES[swizzle], 4, 3)
    assert byte_swizzle(layout, bits) == on_bytes
    for i in range(cute.size(layout)):
        address, rest = divmod(inner(i) * bits, 8)
        assert layout(i) * bits == on_bytes(address) * 8 + rest


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_layout_atom_is_a_bijection_that_keeps_16_bytes_together(major, swizzle):
    layout = gmma_layout_atom(major, swizzle, 16)
    assert cute.is_bijective(layout)
    rows = layout.offsets().reshape(layout.shape, order="F")
    chunks = (rows.T if major == "MN" else rows).reshape(8, -1, 8)
    assert (np.diff(chunks, axis=2) == 1).all()
    assert (chunks[:, :, 0] % 8 == 0).all()


@pytest.mark.parametrize(
    ("swizzle", "banks"), [("INTER", 8), ("SW32", 8), ("SW64", 8), ("SW128", 8)]
)
def test_a_column_of_16_byte_chunks_is_free_of_bank_conflicts(swizzle, banks):
    """The 8 rows of one 16-byte column lie in 8 different groups of 4 banks, with any swizzle."""
    layout = gmma_layout_atom("K", swizzle, 16)
    row = layout.shape[1]
    for column in range(0, row, 8):
        groups = {layout(r, column) * 2 // 16 % 8 for r in range(8)}
        assert len(groups) == banks


@pytest.mark.parametrize("dtype", ["bf16", "e4m3", "f32", cute.s8, np.float16])
def test_layout_atom_takes_dtypes(dtype):
    assert gmma.Layout_K_SW128_Atom(dtype) == gmma_layout_atom("K", "SW128", cute.dtype(dtype).bits)


# -- descriptors


def first_tile(args):
    order = [read_text(args["order"])] if args["order"] else []
    atom = named_atom(args["smem_atom"], args["bits"])
    smem = cute.tile_to_shape(atom, read_text(args["smem_shape"]), *order)
    return smem.compose(*read_text(args["tile"]))


@each(DESCRIPTORS, name=text_of)
def test_descriptor_of_the_first_tile_is_cutes(case):
    args = case["args"]
    if case.get("inadmissible"):
        with pytest.raises(cute.LayoutError):
            make_gmma_desc(first_tile(args), args["bits"], args["major"])
        return
    tile = first_tile(args)
    assert str(getattr(tile, "inner", tile)) == case["result"]["tile_layout"]
    given = make_gmma_desc(tile, args["bits"], args["major"])
    assert given == GmmaDescriptor(**case["result"]["desc"])


@each(FRAGMENTS, name=text_of)
def test_fragment_of_a_partition_is_cutes(case):
    """From CuTe's partition; that the partition itself is right is a matter of tiled operations."""
    args = case["args"]
    swizzle = args["smem_atom"].split("_")[2]
    major = args["smem_atom"].split("_")[1]
    bits = args["bits"]
    on_elements = gmma_layout_atom(major, swizzle, bits)
    if case.get("inadmissible"):
        with pytest.raises(cute.LayoutError):
            cute.tile_to_shape(on_elements, read_text(args["smem_shape_a"]))
        return
    for operand in case["result"].values():
        layout = read_text(operand["partition"])
        if swizzle != "INTER":
            layout = cute.make_composed_layout(on_elements.outer, 0, layout)
        descriptor, fragment = gmma_fragment(layout, bits, major)
        assert descriptor == GmmaDescriptor(**operand["desc"])
        assert str(fragment) == operand["fragment"]


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_k_major_descriptor_addresses_the_tile(swizzle, bits):
    """Rows 8 apart lie SBO apart, 16-byte chunks along K LBO apart, before the swizzle."""
    layout = cute.tile_to_shape(gmma_layout_atom("K", swizzle, bits), (128, 1024 // bits))
    tile = layout.compose(64, 256 // bits)
    descriptor = make_gmma_desc(tile, bits, "K")
    inner = getattr(tile, "inner", tile)
    per_unit = 128 // bits
    assert inner(8, 0) == descriptor.stride_byte_offset * per_unit
    assert inner(0, per_unit) == descriptor.leading_byte_offset * per_unit
    types = {"INTER": 0, "SW128": 1, "SW64": 2, "SW32": 3}
    assert descriptor.layout_type == types[swizzle]


def test_encoded_descriptor_has_its_fields_in_place():
    """PTX ISA, wgmma: matrix-descriptor."""
    code = GmmaDescriptor(2, 0x123, 0x2ABC, 5).encode(0x1230)
    fields = [(0, 14, 0x123), (16, 14, 0x123), (32, 14, 0x2ABC), (49, 3, 5), (62, 2, 2)]
    assert all(code >> at & (1 << width) - 1 == value for at, width, value in fields)
    assert code.bit_length() == 64
    assert Counter(code >> at & 1 for at in (14, 15, 30, 31, 46, 47, 48)) == {0: 7}


# -- refusals


@pytest.mark.parametrize("address", [8, -16, 1 << 18])
def test_address_that_does_not_fit_is_refused(address):
    with pytest.raises(cute.LayoutError, match="required: a multiple of 16 bytes below 256 KiB"):
        GmmaDescriptor(1, 1, 64).encode(address)


@pytest.mark.parametrize(("major", "swizzle"), [("M", "SW128"), ("K", "SW16")])
def test_atom_of_another_major_or_swizzle_is_refused(major, swizzle):
    with pytest.raises(
        cute.LayoutError, match=f"given major '{major}' and swizzle '{swizzle}'"
    ) as caught:
        gmma_layout_atom(major, swizzle, 16)
    assert caught.value.code == "gmma-atom"


@pytest.mark.parametrize(
    ("tile", "found"),
    [
        (cute.Layout((64, 16), (64, 1)), r"strides"),  # rows of 128 bytes without swizzle
        (cute.Layout((64, 32), (8, 512)), r"runs shorter|extents|modes"),
        (cute.Layout((60, 16), (16, 1)), r"extents 60 and 2"),
        (cute.Layout(64, 1), r"rank 1"),
        (cute.Layout((64, (8, 2)), (8, (1, 1 << 20))), r"an offset of 2097152 bytes"),
        (cute.Layout((64, 16), (17, 1)), r"runs shorter than 16 bytes"),
    ],
)
def test_tile_that_no_descriptor_describes_is_refused(tile, found):
    with pytest.raises(
        cute.LayoutError, match=rf"given .* of 16-bit elements as K-major tile: .*({found}).*; requ"
    ):
        make_gmma_desc(tile, 16, "K")


def test_tile_with_an_offset_inside_of_the_swizzle_is_refused():
    tile = cute.make_composed_layout(cute.Swizzle(3, 3, 3), 8, cute.Layout((64, 16), (64, 1)))
    with pytest.raises(cute.LayoutError, match="offset 8 inside the swizzle"):
        make_gmma_desc(tile, 16, "K")


def test_swizzle_that_no_descriptor_has_is_refused():
    tile = cute.make_composed_layout(cute.Swizzle(2, 4, 3), 0, cute.Layout((64, 16), (64, 1)))
    with pytest.raises(cute.LayoutError, match=r"required: Sw<0,4,3>, Sw<1,4,3>, .* on byte add"):
        make_gmma_desc(tile, 16, "K")


def test_swizzle_that_divides_bytes_is_refused():
    layout = cute.make_composed_layout(cute.Swizzle(1, 0, 1), 0, cute.Layout((8, 8), (8, 1)))
    with pytest.raises(cute.LayoutError, match="byte addresses"):
        byte_swizzle(layout, 4)


def test_unknown_major_of_a_descriptor_is_refused():
    with pytest.raises(
        cute.LayoutError, match=r"given major 'N'; required: \"K\" or \"MN\""
    ) as caught:
        make_gmma_desc(cute.Layout((64, 16), (16, 1)), 16, "N")
    assert caught.value.code == "gmma-major"
