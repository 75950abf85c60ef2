"""occupancy() against cuda_occupancy.h, the toolkit's own calculator, compiled for the host."""

import os
import random
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import cute_py as cute
from cute_py.analysis import DEVICES, occupancy
from cute_py.atoms.arch import number

CASES = 2000  # for each architecture
SOURCE = r"""
#include <cstddef>
#include <cstdio>
struct cudaDeviceProp;
struct cudaFuncAttributes;
#include "cuda_occupancy.h"

int main() {
  int cc, warps, shared, optin, reserved, threads, registers, asked;
  while (scanf("%d %d %d %d %d %d %d %d", &cc, &warps, &shared, &optin, &reserved, &threads,
               &registers, &asked) == 8) {
    cudaOccDeviceProp device;
    device.computeMajor = cc / 10;
    device.computeMinor = cc % 10;
    device.maxThreadsPerBlock = 1024;
    device.maxThreadsPerMultiprocessor = 32 * warps;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.warpSize = 32;
    device.sharedMemPerBlock = 48 * 1024;
    device.sharedMemPerMultiprocessor = shared;
    device.sharedMemPerBlockOptin = optin;
    device.reservedSharedMemPerBlock = reserved;
    device.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = optin;
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads,
                                                        asked);
    printf("%d %d %d %d %d %d\n", error, result.activeBlocksPerMultiprocessor,
           result.blockLimitWarps, result.blockLimitRegs, result.blockLimitSharedMem,
           result.blockLimitBlocks);
  }
}
"""


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    """Return `ask(lines)`: the calculator's answers, or skip without header or compiler."""
    roots = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    roots += [str(path) for path in Path("/usr/local").glob("cuda-*")]
    places = [Path(root, "include") for root in roots if root]
    places += Path(sysconfig.get_path("purelib"), "nvidia").glob("*/include")
    include = next((place for place in places if (place / "cuda_occupancy.h").is_file()), None)
    compiler = shutil.which("g++") or shutil.which("clang++")
    if include is None or compiler is None:
        pytest.skip("no cuda_occupancy.h in CUDA_HOME or the packages, or no C++ compiler")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "calculator.cpp").write_text(SOURCE)
    program = folder / "calculator"
    call = [compiler, f"-I{include}", str(folder / "calculator.cpp"), "-o", str(program)]
    subprocess.run(call, check=True, capture_output=True, text=True)

    def ask(lines):
        text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
        done = subprocess.run([program], input=text, check=True, capture_output=True, text=True)
        return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]

    return ask


@pytest.mark.parametrize("arch", DEVICES)
def test_occupancy_is_that_of_the_toolkit(calculator, arch):
    row, chance = DEVICES[arch], random.Random(arch)
    shared = [0, 1, row.shared_block] + [chance.randint(0, row.shared_block) for _ in range(50)]
    kernels = [
        (chance.randint(1, 1024), chance.randint(1, 255), chance.choice(shared))
        for _ in range(CASES)
    ]
    device = (number(arch), row.warps, row.shared, row.shared_block, row.shared_reserved)
    answers = calculator([(*device, *kernel) for kernel in kernels])
    refused = 0
    for kernel, (error, blocks, *limits) in zip(kernels, answers, strict=True):
        assert error == 0
        if blocks == 0:
            refused += 1
            with pytest.raises(cute.LayoutError, match="registers of a block"):
                occupancy(arch, *kernel)
            continue
        found = occupancy(arch, *kernel)
        ours = dict(found.limits)
        if kernel[2] == 0 and row.shared_reserved == 0:  # nothing to share out: no limit there
            limits[2] = ours["shared memory"]
        assert (found.blocks, list(ours.values())) == (blocks, limits)
    assert 0 < refused < CASES
