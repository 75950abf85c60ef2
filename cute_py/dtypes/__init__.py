"""Dtypes: the element types of tensors, their conversions, and the packing of sub-byte types.

`table` has the rows and the look-up, `rounding` the arithmetic on bit images, `conversion` convert,
encode and decode, `packing` the packed storage of sub-byte types. NumPy and ml_dtypes load on first
use.

>>> import cute_py.dtypes as cute
>>> float(cute.convert(3.14159, cute.bf16)), cute.dtype("float8_e4m3fn"), cute.s4.bits
(3.140625, cute.e4m3, 4)
"""

from cute_py.dtypes.conversion import convert, decode, encode
from cute_py.dtypes.packing import (
    SubbyteReference,
    alignment_bytes,
    pack,
    predicate_storage,
    sizeof_bits,
    storage_bytes,
    unpack,
)
from cute_py.dtypes.rounding import ROUNDINGS
from cute_py.dtypes.table import (
    DTYPES,
    Dtype,
    b1,
    bf16,
    dtype,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    from_numpy,
    int_type,
    s2,
    s4,
    s8,
    s16,
    s32,
    s64,
    tf32,
    u2,
    u4,
    u8,
    u16,
    u32,
    u64,
    ue8m0,
    void,
)

__all__ = [
    "DTYPES",
    "ROUNDINGS",
    "Dtype",
    "SubbyteReference",
    "alignment_bytes",
    "b1",
    "bf16",
    "convert",
    "decode",
    "dtype",
    "e2m1",
    "e2m3",
    "e3m2",
    "e4m3",
    "e5m2",
    "encode",
    "f16",
    "f32",
    "f64",
    "from_numpy",
    "int_type",
    "pack",
    "predicate_storage",
    "s2",
    "s4",
    "s8",
    "s16",
    "s32",
    "s64",
    "sizeof_bits",
    "storage_bytes",
    "tf32",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "ue8m0",
    "unpack",
    "void",
]
