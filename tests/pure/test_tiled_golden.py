"""Tiled operations against CuTe C++: TV layouts, thrfrg/tidfrg and each thread's partition, case by
case."""

import pytest

import cute_py as cute
from cute_py import Layout, atoms
from cute_py.atoms.copy import Copy_Atom
from cute_py.atoms.registry import get_copy
from cute_py.layout.tuples import show
from cute_py.tiled import tiled_copy
from cute_py.tiled.tiled_mma import make_tiled_mma
from tests.notation import golden_cases, read, text
from tests.sampling import each

MMA_CASES = golden_cases("tiled_mma")
COPY_CASES = golden_cases("tiled_copy")
CPP_TYPES = {"float": "f32", "half_t": "f16", "double": "f64", "bfloat16_t": "bf16", "int": "s32"}
LATER = ("SM100", "SM120")  # data rows of later architectures


def mma_atom(config):
    arguments = [CPP_TYPES.get(x, x) for x in config["atom_args"]]
    atom = atoms.get(config["atom"])
    return atom(*arguments) if arguments else atom


def tiled_mma(config):
    permutation = config["permutation"]
    perm = (cute._,) * 3 if permutation is None else read(permutation)
    return make_tiled_mma(mma_atom(config), read(config["atom_layout"]), perm)


def known(config):
    return not config["atom"].startswith(LATER)


def name(case):
    config = case["config"]
    return "-".join(
        str(config.get(key, "")) for key in ("atom", "copy_op", "atom_layout", "permutation")
    )


ADMITTED = [c for c in MMA_CASES if known(c["config"])]


@each(ADMITTED)
def test_tiled_mma_is_tiled_as_by_cute(case):
    mma = tiled_mma(case["config"])
    assert str(mma.thr_layout_vmnk) == case["thr_layout_vmnk"]
    assert mma.size() == case["num_threads"]
    assert show(mma.tile_shape) == case["tile_shape"]
    m, n, k = read(case["identity_shape_mnk"])
    shapes = {"A": (m, k), "B": (n, k), "C": (m, n)}
    for operand, shape in shapes.items():
        low = operand.lower()
        if operand != "C" or case.get("layout_c_tv_onto_tile") is not False:
            tv = getattr(mma, f"get_layout{operand}_TV")()
            assert str(tv) == case[f"layout_{low}_tv"]
        thrfrg = getattr(mma, f"thrfrg_{operand}")
        identity = cute.make_identity_layout(shape)
        assert str(thrfrg(read(case["tensors"][operand]))) == case["thrfrg"][f"thrfrg_{low}"]
        assert str(thrfrg(identity)) == case["thrfrg_identity"][f"thrfrg_{low}"]
    for key, shape in case["partition_shapes"].items():
        operand = key[-1].upper()
        assert show(getattr(mma, f"partition_shape_{operand}")(shapes[operand])) == shape


@each(ADMITTED)
def test_every_thread_gets_the_elements_that_cute_gives_it(case):
    mma = tiled_mma(case["config"])
    for part in case["partitions"]:
        try:
            thread = mma.get_slice(part["thr"])
        except cute.CoordinateError:
            # CuTe folds a lane outside of a quad pair onto one inside: see docs/differences.md
            assert case["config"]["atom"].startswith("SM70")
            continue
        for operand in "ABC":
            layout, offset = getattr(thread, f"partition_{operand}")(read(case["tensors"][operand]))
            assert [str(layout), offset] == part[operand]


def test_c_of_atoms_along_k_stays_on_its_tile():
    """Where CuTe's own layout leaves the tile, threads along K hold partial sums of the same
    elements."""
    cases = [c for c in ADMITTED if c.get("layout_c_tv_onto_tile") is False]
    assert cases
    for case in cases:
        mma = tiled_mma(case["config"])
        m, n, _ = mma.tile_shape
        tv = mma.get_layoutC_TV()
        counts = [0] * (m * n)
        for thread in range(mma.size()):
            for value in range(cute.size(tv, 1)):
                counts[tv(thread, value)] += 1
        assert set(counts) == {cute.size(mma.thr_layout_vmnk, 3)}


def tiled_copy_of(case):
    config, kind = case["config"], case["kind"]
    atom = Copy_Atom(get_copy(config["copy_op"], *config["copy_args"]), config["value_bits"])
    if kind == "make_tiled_copy":
        layouts = read(config["thr_layout"]), read(config["val_layout"])
        return tiled_copy.make_tiled_copy(atom, *layouts)
    if kind == "make_cotiled_copy":
        layouts = read(config["atom_tv_layout"]), read(config["data_layout"])
        return tiled_copy.make_cotiled_copy(atom, *layouts)
    if kind in ("make_tiled_copy_S", "make_tiled_copy_D"):
        return getattr(tiled_copy, kind)(
            atom, tiled_copy_of({"config": config["of"], "kind": config["of"]["kind"]})
        )
    return getattr(tiled_copy, kind)(atom, tiled_mma(config["mma"]))


COPIES = [c for c in COPY_CASES if known(c["config"].get("mma") or {"atom": ""})]


@pytest.mark.parametrize("case", [c for c in COPIES if c.get("inadmissible")], ids=name)
def test_what_cute_refuses_is_refused(case):
    with pytest.raises(cute.CuteError):
        tiled_copy_of(case)


@each([c for c in COPIES if not c.get("inadmissible")])
def test_tiled_copy_is_tiled_as_by_cute(case):
    copy = tiled_copy_of(case)
    tiler = case["tiler_mn"]
    assert show(copy.tiler_mn) == (
        tiler if isinstance(tiler, str) else f"({','.join(map(str, tiler))})"
    )
    assert copy.size() == case["num_threads"]
    assert str(copy.layout_tv) == case["layout_tv"]
    assert str(copy.get_layoutS_TV()) == case["layout_s_tv"]
    assert str(copy.get_layoutD_TV()) == case["layout_d_tv"]
    for side in "SD" if "tensors" in case else "":
        tensor = read(case["tensors"][side])
        assert (
            str(getattr(copy, f"tidfrg_{side}")(tensor)) == case["tidfrg"][f"tidfrg_{side.lower()}"]
        )
        for part in case["partitions"]:
            layout, offset = getattr(copy.get_slice(part["thr"]), f"partition_{side}")(tensor)
            assert [str(layout), offset] == part[side]


@pytest.mark.parametrize("case", [c for c in COPIES if "partitions_swizzled" in c], ids=name)
def test_partitions_of_a_swizzled_tensor_have_the_offsets_that_cute_gives(case):
    copy, config = tiled_copy_of(case), case["config"]
    tensor = read(config["swizzled_tensor"])
    for part in case["partitions_swizzled"]:
        layout, offset = getattr(copy.get_slice(part["thr"]), f"partition_{config['side']}")(tensor)
        assert cute.compatible(layout, read(part["shape"]))  # a decayed slice may be coarser
        assert [layout(i) + offset for i in range(cute.size(layout))] == part["values"]


@each([c for c in COPIES if "retile" in c])
def test_a_fragment_is_retiled_as_by_cute(case):
    copy = tiled_copy_of(case)
    fragment = read(case["retile"]["fragment"])
    assert str(copy.retile(fragment)) == case["retile"]["retile"]
    assert isinstance(fragment, Layout)


IDENTITY_PARTITIONS = [
    case for case in golden_cases("tensor_ops") if case["op"].startswith("identity_partition")
]


def coordinates(part):
    values = [text(part[i]) for i in range(cute.size(part))]
    return {"layout": str(part.layout), "base": text(part.engine.offset), "values": values}


@pytest.mark.parametrize("case", IDENTITY_PARTITIONS, ids=lambda case: case["op"])
def test_partitions_of_identity_tensors_are_the_coordinates_that_cute_gives(case):
    config, shape = case["args"]
    if not known(config.get("mma") or {"atom": "", **config}):
        pytest.skip("an atom of a later architecture, kept as data")
    kind = case["op"].rpartition("_")[2]
    if case.get("inadmissible"):
        with pytest.raises(cute.LayoutError, match="make_tiled_copy"):
            tiled_copy_of({"config": config, **config})
        return
    tiled = tiled_mma(config) if kind == "mma" else tiled_copy_of({"config": config, **config})
    for expected in case["result"]:
        try:
            thread = tiled.get_slice(expected["thr"])
        except cute.CoordinateError:
            assert config["atom"].startswith("SM70")  # as above: a lane outside of a quad pair
            continue
        for name_, part in expected.items():
            if name_ != "thr":
                modes = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}.get(name_, (0, 1, 2))
                extents = read(shape)
                of = tuple(extents[i] for i in modes if i < len(extents))
                tensor = cute.make_identity_tensor(of)
                assert coordinates(getattr(thread, f"partition_{name_}")(tensor)) == part
