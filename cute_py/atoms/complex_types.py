"""The complex value types of CuTe's complex f64 atoms, and the builder of those rows.

These atoms are no instruction: C64 is four f64 ones on real and imaginary parts, GC64 three by
Gauss's rule with sums t0 = Re Re, t1 = Im Im, t2 = (Re + Im)(Re + Im). Source: cutlass
include/cute/arch/mma_sm80.hpp (`SM80_8x8x4_C64C64C64C64_TN`, `GaussComplex`).
"""

from __future__ import annotations

from cute_py.atoms.mma import MMA_Atom
from cute_py.dtypes.table import Dtype

_NONE = (0, 0, "")
complex_f64 = Dtype(
    "c128", "complex", 128, _NONE, ("complex128", "complex128", "", "complex<double>")
)
gauss_f64 = Dtype("gc192", "complex", 192, _NONE, ("", "", "", "GaussComplex"))


def complex_row(real: MMA_Atom, gauss: bool = False) -> MMA_Atom:
    """Return the complex row with the layouts of a real f64 row, as data.

    Args:
        real: the f64 row that does the parts.
        gauss: accumulators of Gauss's three sums.

    >>> import cute_py.atoms
    >>> print(complex_row(cute_py.atoms.SM80_8x8x4_F64F64F64F64_TN))
    SM80_8x8x4_C64C64C64C64_TN
    """
    accumulator, code = (gauss_f64, "GC64") if gauss else (complex_f64, "C64")
    return MMA_Atom(
        real.name.replace("F64F64F64F64", f"{code}C64C64{code}"),
        real.shape_mnk,
        real.thr_id,
        (real.a_tv, real.b_tv, real.c_tv),
        (accumulator, complex_f64, complex_f64, accumulator),
        min_arch=real.min_arch,
        native=(),
        source=real.source.rpartition("; ")[2],
        runnable=False,
    )
