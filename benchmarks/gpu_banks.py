"""Shared memory on an NVIDIA GPU: wavefronts of one warp, against `analysis.bank_conflicts`.

One warp repeats a pair of accesses: a store of 32 wavefronts, so that the banks and not the issue
of instructions set the pace (and no load is left out as redundant), and the access in question.
What a pattern takes longer than the one without conflicts, in units of a wavefront, is compared
with the prediction; the unit comes from pairs whose store has 16 wavefronts. Both sides use one
list of addresses: the kernel hands back those that it used, and loads hand back the words there.
Where lanes of wide accesses share words, hardware may merge phases: the prediction is a bound.

    python benchmarks/gpu_banks.py [--out banks.json] [--loops 256]
"""

import argparse
import importlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from cute_py.analysis.banks import bank_conflicts

MEMORY = 32768  # bytes
PAIRS = 8  # of one turn of the loop
ROW = 128  # bytes: 32 banks
SOURCE = r"""
extern "C" __global__ void measure(const int* given, const int* heavy, int loops, long long* cycles,
                                   unsigned* seen) {
  __shared__ __align__(1024) unsigned words[8192];
  const int lane = threadIdx.x;
  for (int i = lane; i < 8192; i += 32) words[i] = i;
  __syncwarp();
  const unsigned base = (unsigned)__cvta_generic_to_shared(words);
  const unsigned a = base + given[lane], h = base + heavy[lane];
  const unsigned held = heavy[lane] / 4;  // what is there already
  unsigned r[PAIRS][4] = {}, sum = 0;
  long long best = 1LL << 62;
  for (int turn = 0; turn < 5; ++turn) {
    const long long start = clock64();
    for (int i = 0; i < loops; ++i) {
#pragma unroll
      for (int u = 0; u < PAIRS; ++u) {
        asm volatile("st.volatile.shared.b32 [%0], %1;" :: "r"(h), "r"(held) : "memory");
        ACCESS
      }
#pragma unroll
      for (int u = 0; u < PAIRS; ++u) sum ^= r[u][0] ^ r[u][1] ^ r[u][2] ^ r[u][3];
    }
    const long long taken = clock64() - start;
    best = taken < best ? taken : best;
  }
  if (lane == 0) cycles[0] = best;
  seen[lane] = a - base;
  seen[32 + lane] = r[PAIRS - 1][0];
  seen[64 + lane] = sum;
}
"""


def load(mnemonic: str, count: int) -> str:
    """Return the statement that loads `count` registers from address a."""
    names = ", ".join(f"%{i}" for i in range(count))
    group = "{" + names + "}" if count > 1 or "ldmatrix" in mnemonic else names
    outputs = ", ".join(f'"=r"(r[u][{i}])' for i in range(count))
    return f'asm volatile("{mnemonic} {group}, [%{count}];" : {outputs} : "r"(a) : "memory");'


def store(mnemonic: str, count: int) -> str:
    """Return the statement that stores `count` registers to address a."""
    names = ", ".join(["%1"] * count)
    group = "{" + names + "}" if count > 1 else names
    return f'asm volatile("{mnemonic} [%0], {group};" :: "r"(a), "r"(lane) : "memory");'


def instructions() -> dict[str, tuple[str, int, int]]:
    """Return name -> (access, bits of a lane, lanes with an address)."""
    found = {}
    for count, vector in ((1, ""), (2, ".v2"), (4, ".v4")):
        for name, make in (("ld", load), ("st", store)):
            mnemonic = f"{name}.shared{vector}.b32"
            found[mnemonic] = (make(mnemonic, count), 32 * count, 32)
        for trans in ("", ".trans"):
            mnemonic = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
            found[mnemonic] = (load(mnemonic, count), 128, 8 * count)
    return found


def patterns(width: int) -> dict[str, list[int]]:
    """Return name -> the byte address of each lane, for accesses of `width` bytes."""
    group = ROW // width  # lanes that are served together
    chance = random.Random(width)

    def ways(k: int) -> Callable[[int], int]:
        each = group // k
        return lambda i: i % each * width + i // each * ROW

    makers: dict[str, Callable[[int], int]] = {
        "free": lambda i: i * width,
        "reversed": lambda i: (31 - i) * width,
        "rotated in phases": lambda i: (i // group * group + (5 * i + 3) % group) * width,
        "2-way": ways(2),
        "4-way": ways(4),
        "8-way": ways(8),
        "one bank": ways(group),
        "broadcast": lambda i: 0,
        "pairs": lambda i: i // 2 * width,
        "halves alike": lambda i: i % 16 * width + i // 16 * 8 * ROW,
        "quarters alike": lambda i: i % 8 * width + i // 8 * 8 * ROW,
        "quarters permuted": lambda i: (i % 4 * 8 + i // 4) * width,
        "random": lambda i: chance.randrange(MEMORY // width) * width,
    }
    return {name: [make(i) for i in range(32)] for name, make in makers.items()}


class Device:
    """Kernels on the GPU, through CuPy."""

    def __init__(self, cupy: Any, loops: int) -> None:
        self.cupy, self.loops = cupy, loops
        self.heavy = {
            32: [lane * ROW for lane in range(32)],
            16: [lane % 16 * ROW + lane // 16 * 4 for lane in range(32)],
        }
        assert all(bank_conflicts(x, bits=32).wavefronts == n for n, x in self.heavy.items())

    def kernel(self, access: str) -> Any:
        """Return the compiled kernel of one instruction."""
        text = SOURCE.replace("ACCESS", access).replace("PAIRS", str(PAIRS))
        return self.cupy.RawKernel(text, "measure")

    def run(self, kernel: Any, addresses: list[int], heavy: int = 32) -> tuple[float, list[int]]:
        """Return the cycles of a pair, and the words that the lanes found at their addresses."""
        cp = self.cupy
        given = cp.asarray(addresses, dtype=cp.int32)
        other = cp.asarray(self.heavy[heavy], dtype=cp.int32)
        cycles, seen = cp.zeros(1, dtype=cp.int64), cp.zeros(96, dtype=cp.uint32)
        kernel((1,), (32,), (given, other, cp.int32(self.loops), cycles, seen))
        back = seen.get().tolist()
        if back[:32] != addresses:
            raise RuntimeError("the kernel did not use the addresses that were predicted")
        return int(cycles.get()[0]) / (self.loops * PAIRS), back[32:64]


def judged(device: Device, name: str) -> list[dict[str, Any]]:
    """Return one record for each pattern of an instruction."""
    access, bits, lanes = instructions()[name]
    width, kernel = bits // 8, device.kernel(access)
    cases = patterns(width)
    base, _ = device.run(kernel, cases["free"])
    unit = (base - device.run(kernel, cases["free"], 16)[0]) / 16
    ideal = bank_conflicts(cases["free"][:lanes], bits=bits).wavefronts
    records = []
    for pattern, addresses in cases.items():
        cycles, words = device.run(kernel, addresses)
        if name.startswith("ld.") and words != [address // 4 for address in addresses]:
            raise RuntimeError(f"{name}, {pattern}: the words are not those at the addresses")
        predicted = bank_conflicts(addresses[:lanes], bits=bits).wavefronts
        measured = ideal + (cycles - base) / unit
        slack = 0.25 + 0.02 * predicted
        bound = width > 4 and len(set(addresses[:lanes])) < lanes
        low = 0.0 if bound else predicted - slack
        records.append(
            {"instruction": name, "pattern": pattern, "addresses": addresses, "cycles": cycles}
            | {"unit": unit, "predicted": predicted, "measured": measured, "upper_bound": bound}
            | {"agrees": unit > 0 and low <= measured <= predicted + slack}
        )
    return records


def main() -> int:
    """Measure, print a table, and return 1 if a pattern disagrees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write the records to this file, as JSON")
    parser.add_argument("--loops", type=int, default=256, help="turns of the timed loop")
    options = parser.parse_args()
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        print("skipped: CuPy is not installed")
        return 0
    device = Device(cupy, options.loops)
    records = [record for name in instructions() for record in judged(device, name)]
    print(f"{'instruction':<44}{'pattern':<19}{'predicted':>9}{'measured':>10}")
    for x in records:
        sign, verdict = "<=" * x["upper_bound"], "  DISAGREES" * (not x["agrees"])
        row = f"{x['instruction']:<44}{x['pattern']:<19}{sign:>3}{x['predicted']:>6}"
        print(f"{row}{x['measured']:>10.2f}{verdict}")
    if options.out:
        Path(options.out).write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    wrong = sum(not x["agrees"] for x in records)
    print(f"{len(records)} patterns, {wrong} disagree")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
