"""Kernels of TMA, mbarriers and wgmma: their machine code, and gates that refuse what stalls."""

import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cute_py as cute
from cute_py import _
from cute_py.plan import ops
from cute_py.plan.walk import every
from tests.hopper_kernels import (
    CASES,
    WARPGROUP,
    ordered,
    ordered_by_peers,
    persistent,
    plan_of,
    tma_copy,
)

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

from cute_py.codegen import frontend, sass, toolchain
from cute_py.codegen.sass import (
    OPCODES,
    PRODUCTS,
    SUSPECTS,
    decoded,
    may_stall,
    product_loops,
    read,
    stalls,
)
from cute_py.codegen.tensor_maps import TensorMaps
from cute_py.codegen.toolchain import FORBIDDEN


def halves(*shape):
    return np.zeros(shape, np.float16)


def first_of(name):
    """Return the plan of the first case of a name."""
    return plan_of(*next(iter(CASES[name]())))


def compiled(plan):
    return cute.compile(plan, "sm_90a")


def persistent_plan(tile=(128, 128, 64), **options):
    return cute.trace(
        persistent, halves(512, 512), halves(512, 512), halves(512, 512), tile, **options
    )


# -- machine code


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gemm_09", {"HGMMA": 8, "UTMASTG": 0, "USETMAXREG": 0, "MEMBAR": 0, "R2UR": 0}),
        ("gemm_10", {"HGMMA": 4, "UTMASTG": 0, "USETMAXREG": 2, "MEMBAR": 0, "CALL": 0}),
        ("gemm_11", {"HGMMA": 4, "UTMASTG": 4, "USETMAXREG": 2, "STSM": 16, "CALL": 0}),
        pytest.param(  # that of `test_ladder` is not slow: it has source and plan
            "gemm_12",
            {"HGMMA": 4, "UTMASTG": 3, "USETMAXREG": 2, "STSM": 12, "CALL": 0},
            marks=pytest.mark.slow,
        ),
        ("persistent", {"HGMMA": 4, "UTMASTG": 2, "USETMAXREG": 2}),
        ("products", {"HGMMA": 8, "UTMALDG": 2}),
        ("weights", {"HGMMA": 4, "MEMBAR": 0}),
        ("tma_copy", {"UTMALDG": 1, "UTMASTG": 1}),
        ("tma_add", {"UTMASTG": 0, "UTMAREDG": 1}),
        ("cluster", {"UTMALDG": 1, "UTMASTG": 1, "UCGABAR_ARV": 2, "UCGABAR_WAIT": 2}),
    ],
)
def test_machine_code_has_the_instructions_of_the_plan(name, wanted):
    made = compiled(first_of(name))
    found = made.resources.instructions
    assert {each: found[each] for each in wanted} == wanted
    assert found["SYNCS"] > 0 or name == "tma_add"
    assert (found["UTMALDG"] > 0) == (name != "tma_add")
    assert [found[each] for each in ("LDL", "STL")] == [0, 0]
    assert "BRA.U.ANY" not in made.sass  # one lane issues TMA: no loop over lanes
    assert not FORBIDDEN.search(made.log)
    assert not stalls(made.sass)


LOOPS = {"gemm_09": 59, "gemm_10": 52, "gemm_11": 53, "gemm_12": 61}  # instructions, at most


@pytest.mark.parametrize(
    "name", [*[x for x in LOOPS if x != "gemm_12"], pytest.param("gemm_12", marks=pytest.mark.slow)]
)
def test_the_loop_over_k_is_short(name):
    """From the wait for a stage to the jump back; that of the prototype had 73."""
    (loop,) = product_loops(compiled(first_of(name)).sass)
    assert len([x for x in loop if x.name != "NOP"]) <= LOOPS[name]


STALL = (
    *("R2UR UR4, R2 ;", "MEMBAR.ALL.GPU ;", "MEMBAR.SC.SYS ;", "CALL.REL.NOINC `(f) ;"),
    *("LDL R1, [R2] ;", "STL [R2], R1 ;"),
)


@pytest.mark.parametrize("name", ["gemm_09", "gemm_11", "persistent"])
def test_the_loop_over_k_is_found(name, monkeypatch):
    """What stalls there is counted: planted in its middle, and behind it. So it is in what the
    machine code is asked for first.
    """
    lines = compiled(first_of(name)).sass.splitlines()
    inside = max(i for i, line in enumerate(lines) if "HGMMA" in line)
    monkeypatch.setattr(sass, "decoded", read)  # from the text: the names are the same
    for planted in STALL:
        planted = f"        /*0000*/                   {planted}"
        text = "\n".join([*lines[:inside], planted, *lines[inside:]])
        assert sum(map(len, stalls(text).values())) == 1
        assert may_stall(text)
        behind = "\n".join([*lines, planted])
        assert not stalls(behind)
        assert not may_stall(behind)


def from_machine_code(made):
    """What `decoded` says of a kernel, and what nvdisasm says of the same instructions."""
    known = set(OPCODES.values())
    (code, labels), (text, places) = decoded(made.cubin), read(made.sass)
    return (
        [(x.at, x.name, labels.get(x.target)) for x in code],
        [(x.at, x.name if x.name in known else "", places.get(x.target)) for x in text],
    )


@pytest.mark.parametrize("name", ["gemm_09", "gemm_11", "products", "weights", "cluster", -2, -1])
def test_machine_code_is_decoded_as_nvdisasm_does(name):
    """Of all types: the last cases of operands in registers are of s8 and e4m3."""
    plan = plan_of(*list(CASES["weights"]())[name]) if name.__class__ is int else first_of(name)
    made = compiled(plan)
    ours, theirs = from_machine_code(made)
    assert ours == theirs
    if name.__class__ is str:  # the others fill shared memory in their loops: with a fence
        assert may_stall(made.cubin) == bool(not product_loops(made.sass))


def named_by_nvdisasm(folder, opcodes):
    """Return the names of instructions with these low 12 bits, up to the first that is none."""
    raw = folder / "code"
    raw.write_bytes(b"".join(struct.pack("<QQ", x | 7 << 12, 0xFC0 << 40) for x in opcodes))
    command = [toolchain.tool("nvdisasm"), "-b", "SM90", str(raw)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.findall(r"/\*\w{4}\*/ +(\w+)", done.stdout)


ALONE = {x: name for x, name in OPCODES.items() if name not in PRODUCTS}  # of 12 bits alone


def test_opcodes_are_those_of_nvdisasm(tmp_path):
    assert named_by_nvdisasm(tmp_path, ALONE) == list(ALONE.values())
    assert {"BRA", "EXIT", *SUSPECTS} == set(ALONE.values())


@pytest.mark.slow
@pytest.mark.parametrize("low", sorted({x & 0x1FF for x in ALONE}))
def test_no_form_of_an_opcode_is_missing(low, tmp_path):
    """The form of the operands: in registers, in memory for constants, in the instruction."""
    for opcode in range(low, 0x1000, 0x200):
        found = named_by_nvdisasm(tmp_path, [opcode])
        assert found == [ALONE[x] for x in (opcode,) if x in ALONE]


def test_what_stalls_is_found_in_machine_code():
    """Local memory, a call and a fence next to each other; and operands in vector registers."""

    @cute.kernel
    def local(x, y):
        cute.launch(grid=1, block=32)
        i = cute.thread_idx()
        cute.print("{}", x[i])
        cute.threadfence()
        y[i] = cute.sin(x[i])

    x = np.zeros(32)
    made = cute.compile(cute.trace(local, x, x), "sm_90a", 1 << 16)
    ours, theirs = from_machine_code(made)
    assert ours == theirs
    assert {"CALL", "MEMBAR", "STL", "LDL"} <= {name for _at, name, _to in ours}
    a, d = halves(64, 64), np.zeros((64, 64), np.float32)
    plan = cute.trace(by_registers, a, a, d, np.zeros(8, np.int32))
    assert may_stall(cute.compile(plan, "sm_90a", 1 << 16).cubin)


def test_waits_behind_the_exit_close_no_loop():
    """Their jumps back would make a loop of the epilogue, which may stall."""
    product = "HGMMA.64x8x16.F32 R24, gdesc[UR8], R24 ;"
    lines = [".L_x_0:", "@!P0 BRA `(.L_x_2) ;", ".L_x_1:", product, "@P1 BRA `(.L_x_1) ;", product]
    lines += ["R2UR UR4, R2 ;", "@P2 BRA `(.L_x_0) ;", "EXIT ;"]
    lines += [".L_x_2:", "@!P0 BRA `(.L_x_2) ;", "BRA `(.L_x_1) ;"]

    def text_of(lines):
        return "\n".join(x if x[-1] == ":" else f"/*{i:04x}*/ {x}" for i, x in enumerate(lines))

    def stalled(lines):
        return {name: len(each) for name, each in stalls(text_of(lines)).items()}

    assert len(product_loops(text_of(lines))) == 1
    assert not stalled(lines)
    planted = [*lines[:3], "R2UR UR5, R3 ;", *lines[3:]]
    assert stalled(planted) == {"R2UR": 1}
    before = [".L_x_3:", product, "@P3 BRA `(.L_x_3) ;"]  # of the other majors, say
    assert stalled([*before, *planted]) == {"R2UR": 1}
    more = [*planted[:-3], *before[:2], "STL [R2], R1 ;", *before[2:]]
    assert stalled(more) == {"R2UR": 1, "STL": 1}


@cute.kernel
def by_registers(A, B, D, choice, stages=2):
    """The stage that is multiplied is read from memory by each thread."""
    cute.launch(grid=1, block=WARPGROUP)
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom(A.dtype)
    sA, sB = (cute.smem(A.dtype, cute.tile_to_shape(atom, (64, 64, stages)), 1024) for _x in "ab")
    thr = mma.get_slice(cute.thread_idx())
    part = thr.partition_C(cute.local_tile(D, (64, 64), (0, 0)))
    acc = thr.make_fragment_C(part)
    acc.fill(0)
    for k in cute.range(choice.shape[0]):
        stage = cute.as_int(choice[k]) % stages
        cute.warpgroup_fence()
        cute.warpgroup_gemm(
            mma, acc, thr.partition_A(sA)[_, _, _, stage], thr.partition_B(sB)[_, _, _, stage]
        )
        cute.warpgroup_commit()
        cute.warpgroup_wait(0)
    cute.copy(acc, part)


def test_descriptors_in_vector_registers_are_refused():
    a, d = halves(64, 64), np.zeros((64, 64), np.float32)
    plan = cute.trace(by_registers, a, a, d, np.zeros(8, np.int32))
    with pytest.raises(cute.CuteError, match=r"R2UR \(line \d+\) in the loop of") as caught:
        compiled(plan)
    assert caught.value.code == "codegen-stalls"
    assert cute.compile(plan, "sm_90a", 1 << 16).cubin  # right, if slower


@pytest.mark.parametrize(("first", "groups"), [(0, 2), (4, 2), (4, 3), (8, 2)])
def test_roles_of_any_warps_have_uniform_descriptors(first, groups):
    """Also where the warps before load: which rows are a warpgroup's is computed from tid // 32."""

    @cute.kernel
    def multiplied(D, depth: cute.s32):
        cute.launch(grid=1, block=4 * WARPGROUP)
        mma = cute.make_tiled_mma("SM90_64x8x16_F32F16F16_SS", (groups, 1, 1))
        atom, rows = cute.atoms.Layout_K_SW128_Atom("f16"), 64 * groups
        sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (n, 64, 2)), 1024) for n in (rows, 8))
        with cute.role("multiply", warps=range(first, first + 4 * groups)) as me:
            thr = mma.get_slice(me.thread)
            part = thr.partition_C(cute.local_tile(D, (rows, 8), (0, 0)))
            acc = thr.make_fragment_C(part)
            acc.fill(0)
            tCsA, tCsB = thr.partition_A(sA), thr.partition_B(sB)
            for k in cute.range(depth):
                cute.warpgroup_fence()
                cute.warpgroup_gemm(mma, acc, tCsA[_, _, _, k % 2], tCsB[_, _, _, k % 2])
                cute.warpgroup_commit()
                cute.warpgroup_wait(0)
            cute.copy(acc, part)

    made = compiled(cute.trace(multiplied, np.zeros((192, 8), np.float32), 3))
    assert product_loops(made.sass)
    assert not stalls(made.sass)


def test_products_that_ptxas_serializes_are_refused():
    """Sums that are read while products are in flight."""

    @cute.kernel
    def read_early(D):
        cute.launch(grid=1, block=WARPGROUP)
        mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
        atom = cute.atoms.Layout_K_SW128_Atom("f16")
        sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), 1024) for _x in "ab")
        thr = mma.get_slice(cute.thread_idx())
        part = thr.partition_C(cute.local_tile(D, (64, 64), (0, 0)))
        acc = thr.make_fragment_C(part)
        acc.fill(0)
        for _k in cute.range(D.shape[0]):
            cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB))
            cute.warpgroup_commit()
            acc += 1.0
        cute.copy(acc, part)

    with pytest.raises(cute.CuteError) as caught:
        compiled(cute.trace(read_early, np.zeros((64, 64), np.float32)))
    assert caught.value.code == "codegen-ptxas"
    assert FORBIDDEN.search(str(caught.value))
    assert "fix: put only products between cute.warpgroup_fence" in str(caught.value)


@pytest.mark.parametrize(
    "note",
    [
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are ...",
        "ptxas info    : (C7602) a request of this family",
        "ptxas warning : setmaxnreg will be ignored to maintain minimum register requirements",
    ],
)
def test_notes_of_what_ptxas_ignores_are_refused(note, monkeypatch):
    """The cubin is there and the status is 0: only the note says that the code is another one."""

    def assembles(command, **_options):
        Path(command[-1]).write_bytes(b"cubin")
        return subprocess.CompletedProcess(command, 0, "", f"ptxas info    : 0 bytes gmem\n{log}")

    monkeypatch.setattr(toolchain.subprocess, "run", assembles)
    log = "ptxas info    : Used 168 registers, used 5 barriers"
    assert toolchain.assembled("kernel", "", "sm_90a")[0] == b"cubin"
    log = note
    with pytest.raises(cute.CuteError) as caught:
        toolchain.assembled("kernel", "", "sm_90a")
    assert caught.value.code == "codegen-ptxas"
    assert note in str(caught.value)


# -- PTX


def test_who_a_warp_is_is_known_to_the_compiler():
    """Block indices are no inline PTX, and the index of the warp is one shfl: both are uniform."""
    plan = first_of("gemm_10")
    ptx = compiled(plan).ptx
    own = re.sub(r"// begin inline asm.*?// end inline asm", "", ptx, flags=re.DOTALL)
    registers = set(re.findall(r"%n?ctaid\.\w", own))
    assert registers == {f"%ctaid.{x}" for x in "xy"}
    assert len(re.findall(r"%n?ctaid", ptx)) == len(re.findall(r"%ctaid", own))
    assert ptx.count("shfl.sync") == 1


@cute.kernel
def in_turn(x, warpgroups):
    """Each warpgroup has a barrier of its own."""
    cute.launch(grid=1, block=128 * warpgroups)
    cute.named_barrier(1 + cute.warp_idx() // 4, 128)
    x[cute.thread_idx()] = 1


@pytest.mark.parametrize(("warpgroups", "barriers"), [(1, 2), (2, 3), (4, 5), (5, 16)])
def test_a_few_ids_of_named_barriers_are_static(warpgroups, barriers):
    """One in a register reserves all 16 barriers."""
    made = compiled(cute.trace(in_turn, np.zeros(640, np.int32), warpgroups))
    assert f"used {barriers} barriers" in made.log
    assert bool(re.search(r"BAR\.\w+\S* R\d", made.sass)) == (barriers == 16)


@cute.kernel
def in_roles(x):
    """Of four warpgroups, two have a barrier each; so has one of the others."""
    cute.launch(grid=1, block=512)
    with cute.role("multiply", range(4, 12)):
        cute.named_barrier(cute.warp_idx() // 4, 128)
        with cute.when(cute.thread_idx() >= 256):
            cute.named_barrier(1 + cute.warp_idx() // 4, 128)
        x[cute.thread_idx()] = 1


def test_ids_of_named_barriers_are_those_of_the_role():
    """And of the branches within: three barriers, and the block's."""
    plan, x = cute.trace(in_roles, np.zeros(512, np.int32)), np.zeros(512, np.int32)
    cute.emulate(plan, x)
    assert (x == np.repeat([0, 1, 0], [128, 256, 128])).all()
    barriers = [op for op in every(plan.body) if isinstance(op, ops.Barrier)]
    assert [op.ids for op in barriers] == [(1, 2), (3, 3)]
    assert "used 4 barriers" in compiled(plan).log


def test_maps_are_parameters_by_value():
    ptx = compiled(first_of("gemm_09")).ptx
    head = ptx[ptx.index(".entry") : ptx.index("{", ptx.index(".entry"))]
    assert re.findall(r"\.param \.align 128 \.b8 \w+_param_(\d+)\[128\]", head) == ["12", "13"]
    assert len(re.findall(r"cvta\.param\.u64", ptx)) >= 2
    assert not re.search(r"ld\.param\S* \S+, \[\w+_param_1[23]", ptx)


def test_maps_in_ptx_of_another_form_are_refused():
    """Else the kernel would take the first word of the map for its address."""
    loaded = ".param .u64 k_param_12, .param .u64 k_param_13) ld.param.b64 %rd1, [k_param_12];"
    for ptx in ("", loaded):
        with pytest.raises(cute.CuteError) as caught:
            frontend._by_value(first_of("gemm_09"), ptx, "k", "sm_90a")
        assert caught.value.code == "codegen-nvvm"


@pytest.mark.parametrize("word", ["first", "last", "normal"])
def test_copies_of_boxes_have_a_policy_for_the_cache(word):
    x = halves(64, 96)
    ptx = compiled(cute.trace(tma_copy, x, x, (32, 32), cache=f"L2::evict_{word}")).ptx
    assert f"createpolicy.fractional.L2::evict_{word}.b64" in ptx
    hinted = re.findall(r"cp\.async\.bulk\.tensor\S*\.L2::cache_hint [^;]*, %rd\d+;", ptx)
    assert len(hinted) == 2


def test_a_cluster_is_explicit_and_its_arrivals_are_not_of_the_cluster():
    made = compiled(first_of("cluster"))
    assert ".explicitcluster\n.reqnctapercluster 2, 1, 1\n{" in made.ptx
    assert made.ptx.count("mapa.shared::cluster") == 2
    assert "release.cluster.shared" not in made.ptx


def test_mbarriers_are_of_the_cluster_where_threads_store_to_peers():
    """ld and st of other blocks are generic in machine code; their order is that of the cluster."""
    halo = first_of("halo")
    made = compiled(halo)
    assert "mbarrier.arrive.release.cluster.shared::cluster.b64" in made.ptx
    assert "mbarrier.try_wait.parity.acquire.cluster.shared.b64" in made.ptx
    assert "st.shared::cluster.b32" in made.ptx
    assert " ST.E " in made.sass
    with pytest.raises(cute.CuteError, match="sm_90 or newer"):
        cute.compile(halo, "sm_80")


def test_mbarriers_are_of_the_cluster_where_an_array_is_read_and_written():
    """Where it is not, the emulator orders nothing by them: see tests/emulated/test_roles.py."""
    x = np.zeros(64, np.int32)
    for kernel, given, scope in (
        (ordered_by_peers, (x,), (".release.cluster", ".acquire.cluster")),
        (cute.kernel(ordered), (x, x, x), ("", "")),
    ):
        ptx = compiled(cute.trace(kernel, *given)).ptx
        assert f"mbarrier.arrive{scope[0]}.shared::cluster.b64" in ptx
        assert f"mbarrier.try_wait.parity{scope[1]}.shared.b64" in ptx


def test_vectors_of_peers_have_up_to_16_bytes_and_atomics_are_of_the_cluster():
    cases = list(CASES["peers"]())
    made = compiled(plan_of(*cases[1]))
    assert {"ld.shared::cluster.v4.b32", "st.shared::cluster.v4.b32"} <= set(made.ptx.split())
    assert " LD.E.128 " in made.sass
    assert " ST.E.128 " in made.sass
    (histogram,) = (case for case in cases if case[0].__name__ == "histogram")
    assert "atom.shared::cluster.add.s32" in compiled(plan_of(*histogram)).ptx


@cute.kernel
def behind(A, D, held):
    """Sums of exponentials while a product is in flight, and the wait for that."""
    cute.launch(grid=1, block=WARPGROUP)
    mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    atom = cute.atoms.Layout_K_SW128_Atom("f16")
    sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), 1024) for _x in "ab")
    thr = mma.get_slice(cute.thread_idx())
    part, x = thr.partition_C(cute.local_tile(D, (64, 64), (0, 0))), cute.rmem("f32", 16)
    acc = thr.make_fragment_C(part)
    cute.copy(cute.local_tile(A, (16,), (cute.thread_idx(),)), x)
    cute.warpgroup_fence()
    cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB), False)
    cute.warpgroup_commit()
    total = cute.reduce("add", cute.exp2(x))
    cute.warpgroup_wait(0, after=total if held else None)
    acc[...] = acc * total
    cute.copy(acc, part)


@pytest.fixture(scope="module", params=[False, True], ids=["free", "held"])
def behind_in_sass(request):
    given = np.zeros(2048, np.float32), np.zeros((64, 64), np.float32)
    return request.param, compiled(cute.trace(behind, *given, request.param)).sass


def test_a_wait_after_registers_stays_behind_what_computes_them(behind_in_sass):
    """ptxas moves a plain one up to the products: the exponentials then wait, too."""
    held, sass = behind_in_sass
    names = re.findall(r"\b(HGMMA|MUFU\.EX2|WARPGROUP\.DEPBAR)\b", sass)
    before = names[: names.index("WARPGROUP.DEPBAR")].count("MUFU.EX2")
    assert names.count("MUFU.EX2") == 16
    assert (before == 16) is held


def test_sums_of_the_other_branch_are_not_tied():
    """Two warpgroups with accumulators of their own: each waits for its own."""
    from cute_py.codegen.storage import in_flight

    @cute.kernel
    def two(D):
        cute.launch(grid=1, block=2 * WARPGROUP)
        mma = cute.make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
        atom = cute.atoms.Layout_K_SW128_Atom("f16")
        sA, sB = (cute.smem("f16", cute.tile_to_shape(atom, (64, 64)), 1024) for _x in "ab")
        thr = mma.get_slice(cute.thread_idx() % WARPGROUP)
        part = thr.partition_C(cute.local_tile(D, (64, 64), (0, 0)))
        for side in (cute.when(cute.warp_idx() // 4 == 0), cute.otherwise()):
            with side:
                acc = thr.make_fragment_C(part)
                cute.warpgroup_gemm(mma, acc, thr.partition_A(sA), thr.partition_B(sB), False)
                cute.warpgroup_wait(0)

    plan = cute.trace(two, np.zeros((64, 64), np.float32))
    waits = [op for op in plan.ops if isinstance(op, ops.WgWait)]
    sums = [op.d.storage for op in plan.ops if isinstance(op, ops.Wgmma)]
    found = in_flight(plan)
    assert [[reg.storage for reg in found[id(op)]] for op in waits] == [[name] for name in sums]
    assert len(set(sums)) == 2


# -- boxes


def test_one_map_for_each_box():
    found = TensorMaps(persistent_plan())
    assert list(found.names.values()) == ["A_map", "B_map", "D_map"]
    assert [x.box for x in found.names] == [(64, 128), (64, 128), (64, 64)]
    assert [x.swizzle for x in found.names] == [3, 3, 3]
    columns = cute.trace(
        tma_copy, halves(64, 96).T, halves(64, 96).T, (32, 8), major=cute.LayoutLeft
    )
    assert [x.modes for x in TensorMaps(columns).names] == [(0, 1), (0, 1)]


@pytest.mark.parametrize(("swizzle", "number"), [("", 0), ("SW32", 1), ("SW64", 2), ("SW128", 3)])
def test_a_map_has_the_number_of_its_swizzle_in_the_driver(swizzle, number):
    """CU_TENSOR_MAP_SWIZZLE_NONE, _32B, _64B and _128B are 0 to 3."""
    plan = cute.trace(tma_copy, halves(64, 64), halves(64, 64), (8, 64), swizzle)
    assert {x.swizzle for x in TensorMaps(plan).names} == {number}


# -- descriptors: what the hardware reads is what the plan says


def swizzled(x, element):
    """The byte of an element of an access in shared memory, without its bases."""
    bits, base, shift = x.swizzle or (0, 0, 0)
    active = element & ((1 << bits) - 1) << (base + shift)
    return (element ^ active >> shift) * x.dtype.bits // 8


def read_by_hardware(tile, major, start, row, k):
    """The byte of (row, k) of the fragment at a start address. Source: PTX ISA, "Strides" and
    "Matrix descriptor"; the pattern of a swizzle is one of address bits.
    """
    size = tile.access.dtype.bits // 8
    units, each = {"SW128": 8, "SW64": 4, "SW32": 2, "INTER": 1}[tile.mode], 16 // size
    if major == "K":
        at = row % 8 * 16 * units + row // 8 * tile.sbo + k * size
        if units == 1:
            at = row % 8 * 16 + row // 8 * tile.sbo + k // each * tile.lbo + k % each * size
    else:
        at = row % each * size + row // each % units * 16 + row // (each * units) * tile.lbo
        at += k % 8 * 16 * units + k // 8 * tile.sbo
        if units == 1:
            at = row % each * size + row // each * tile.sbo + k % 8 * 16 + k // 8 * tile.lbo
    pattern = {8: 7, 4: 3, 2: 1, 1: 0}[units]
    return start + at ^ ((start + at) >> 7 & pattern) << 4


def differences(plan):
    for op in plan.ops:
        if not isinstance(op, ops.Wgmma):
            continue
        (M, N, K), atom = op.atom.shape_mnk, op.atom
        for tile, rows, which, major in ((op.a, M, 1, atom.major_a), (op.b, N, 2, atom.major_b)):
            x = tile.access
            for fragment in sorted({step[which] for step in op.steps}):
                held = [s for _b, s in x.table[fragment * rows * K : (fragment + 1) * rows * K]]
                start = swizzled(x, held[0])
                for at, element in enumerate(held):
                    found = read_by_hardware(tile, major, start, at % rows, at // rows)
                    yield found != swizzled(x, element)


@pytest.mark.parametrize(
    "name", ["products", "swizzles", "gemm_09", "gemm_11", "gemm_12", "starts", "by_columns"]
)
def test_descriptors_read_the_elements_of_the_plan(name):
    seen = {}
    for case in CASES[name]():
        seen.setdefault((str(case[4].get("name")), case[1][0].dtype, str(case[4])), case)
    cases = [case for case in seen.values() if case[3].shape[1] < 200]
    assert cases
    for case in cases[::2]:
        found = list(differences(plan_of(*case)))
        assert found
        assert not any(found)


def test_a_wrong_descriptor_would_be_seen():
    plan = first_of("gemm_09")
    (product,) = [op for op in plan.ops if isinstance(op, ops.Wgmma)]
    for wrong in (replace(product.b, sbo=512), replace(product.b, mode="SW64")):
        assert any(differences(replace(plan, body=(replace(product, b=wrong),))))
