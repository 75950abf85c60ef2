"""The kernels that measure a GPU compile, and read the clock around the loop that they measure; the
order of the loads and stores of gemm_04.
"""

import re
from functools import cache
from itertools import groupby

import pytest

import cute_py as cute
from cute_py.ops.device_benches import SMALL, benches
from tests.compile_only.ladder import loops_of, plan_of
from tests.sampling import quick

pytest.importorskip("numba", reason="needs the extra `cuda`: pip install -e .[cuda]")

BENCHES = {bench.row: bench for bench in benches(SMALL)}
# what a turn of the loop has at least, between two readings of the clock
MEASURED = {
    "l2 latency": "LDG",
    "shared latency": "LDS",
    "shared 2-way": "LDS",
    "ffma": "FFMA",
    "ex2": "MUFU",
    "mma.sync": "HMMA",
    "wgmma": "HGMMA",
    "barrier": "BAR",
}


WITHOUT = ("wgmma", "sm_80")
OFTEN = [("dram read", "sm_80"), ("dram write", "sm_90a"), ("l2 latency", "sm_80")]


@cache
def compiled(row, arch):
    bench = BENCHES[row]
    return cute.compile(cute.trace(bench.kernel, *bench.args), arch)


def require_no_local_memory(resources):
    assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)


@pytest.mark.parametrize(("row", "arch"), quick(OFTEN, BENCHES, ["sm_80", "sm_90a"]))
def test_o22_a_kernel_compiles_without_local_memory(row, arch):
    if (row, arch) == WITHOUT:
        pytest.skip("sm_80 has no wgmma")
    require_no_local_memory(compiled(row, arch).resources)


@pytest.mark.parametrize("row", MEASURED)
def test_o22_the_clock_is_read_around_the_loop(row):
    found = compiled(row, "sm_90a")
    require_no_local_memory(found.resources)
    lines = re.findall(r"/\*[0-9a-f]{4,5}\*/\s+(\S.*;)", found.sass)
    read = [i for i, line in enumerate(lines) if "SR_CLOCKLO" in line]
    names, loops = loops_of(found.sass)
    inside = [each for each in loops if MEASURED[row] in names[slice(*each)]]
    assert len(names) == len(lines)
    assert len(read) == 2
    assert inside
    assert all(read[0] < start and end <= read[1] for start, end in inside)


def test_o21_gemm_04_loads_at_the_head_of_its_loop_and_stores_at_the_end():
    """In PTX: two loads of 16 bytes from global memory, fragments one k ahead of their products,
    and the stores to shared memory after the last product.
    """
    ptx = cute.compile(plan_of("gemm_04_double_buffer"), "sm_80").ptx
    (loop,) = re.findall(r"^(\$L__BB\w+):\n((?:(?!^\$L__).*\n)*?).*bra\s+\1;", ptx, re.MULTILINE)
    words = {"bar.sync": "B", "ld.global": "G", "ld.shared": "L", "fma.rn": "F", "st.shared": "S"}
    found = re.findall("|".join(map(re.escape, words)), loop[1])
    runs = [(word, len(list(each))) for word, each in groupby(words[x] for x in found)]
    head = [("B", 1), ("G", 2), ("L", 8), ("F", 64)]
    assert runs == [*head, *[("L", 4), ("F", 64)] * 5, ("L", 4), ("F", 128), ("S", 8)]
