"""`Emit`: what the emission of one op needs: builder, symbols, addresses, registers, inline PTX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir

from cute_py.codegen.scalars import Scalars
from cute_py.codegen.storage import F32, F64, I1, I32, I64, Words
from cute_py.errors import refusal

if TYPE_CHECKING:
    from cute_py.dtypes.table import Dtype
    from cute_py.errors import CuteError
    from cute_py.trace.conditions import Scalar

    Link: TypeAlias = tuple[Scalar, Any]  # an offset (elements), and its address

# a call of PTX must not be moved into or out of branches: it is the same for all lanes of a warp
CONVERGENT = ("convergent",)


class Emit:
    """Emits one op into an LLVM function that Numba is building."""

    def __init__(
        self,
        b: Any,  # noqa: ANN401  (an llvmlite IRBuilder)
        env: dict[str, Any],
        words: dict[str, list[Any]],
        starts: dict[tuple[str, str], Any],
        where: str = "",
        loose: frozenset[str] = frozenset(),
        link: Link | None = None,
    ) -> None:
        """Keep the builder, symbol -> value of 64 bits, storage -> words, (space, storage) -> the
        address of its first element, the kernel's line, the storages of loose flags, and the
        address where an op before has got to; `reached` is where this one gets to.
        """
        self.link, self.reached = link, None
        self.b, self.starts, self.where = b, starts, where
        self.words = Words(b, words, loose)
        self.scalars = Scalars(b, env, self.words)

    def unsupported(self, what: str) -> CuteError:
        """Return the refusal of something that has no PTX here."""
        return refusal("codegen-op", operation="cute.compile", name=what, where=self.where)

    def address(self, space: str, storage: str) -> Any:  # noqa: ANN401
        """Return the address of a storage's first element."""
        return self.starts[space, storage]

    def asm(
        self,
        outs: list[Any],
        text: str,
        constraints: list[str],
        inputs: list[Any],
        side: bool = False,
    ) -> list[Any]:
        """Emit inline PTX and return its results. `side`: it reads or writes memory, or orders."""
        kind = ir.VoidType()
        if outs:
            kind = outs[0] if len(outs) == 1 else ir.LiteralStructType(outs)
        if side:
            constraints = [*constraints, "~{memory}"]
        function = ir.FunctionType(kind, [x.type for x in inputs])
        inline = ir.InlineAsm(function, text, ",".join(constraints), side_effect=side)
        found = self.b.call(inline, inputs, attrs=CONVERGENT)
        if not outs:
            return []
        if len(outs) == 1:
            return [found]
        return [self.b.extract_value(found, i) for i in range(len(outs))]

    def opaque(self, value: Any) -> Any:  # noqa: ANN401
        """Return a value of 64 bits that the compiler cannot take apart: it is not hoisted."""
        return self.asm([I64], "", ["=l", "0"], [value])[0]

    def fill_words(self, dtype: Dtype, value: float | None, count: int) -> list[Any]:
        """Return words of 32 bits, all elements of which are a number."""
        bits, width = _image(value or 0, dtype), dtype.bits
        every = sum(bits << k for k in range(0, 32 * count, width))
        return [ir.Constant(I32, every >> 32 * i & 0xFFFFFFFF) for i in range(count)]

    def constant(self, value: float, dtype: Dtype) -> Any:  # noqa: ANN401
        """Return a number as an element of a storage: its bits for types below 32 bits."""
        if dtype.name == "b1":
            return ir.Constant(I1, int(bool(value)))
        if dtype.is_float and dtype.bits >= 32:
            return ir.Constant(F64 if dtype.bits == 64 else F32, float(value))
        return ir.Constant(ir.IntType(dtype.bits), _image(value, dtype))


def _image(value: float, dtype: Dtype) -> int:
    """Return the bit image of a number."""
    from cute_py.dtypes.conversion import encode

    if dtype.is_float:
        return int(encode(value, dtype))
    return int(value) & ((1 << dtype.bits) - 1)
