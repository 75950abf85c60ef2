"""The problems of the convolutions: the arrays of a request as (N,H,W,C), and the implicit product.

`Fprop`, `Dgrad` and `Wgrad` read two arrays each, and give the third. What they share is how
strides, padding and groups are read, what is copied first, and how D is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, ClassVar

import cute_py as cute
from cute_py.calls.arrays import VECTOR_BYTES, address_of, strides_of
from cute_py.dtypes.table import f32, s32
from cute_py.errors import refusal
from cute_py.kernels.config import ATOMS
from cute_py.kernels.config_sm90 import WarpgroupConfig
from cute_py.kernels.convolution import (
    FPROP,
    ConvProblem,
)
from cute_py.kernels.epilogue import EpilogueFunction
from cute_py.kernels.splits import NO_SPLIT, workspace_of
from cute_py.layout.tuples import ceil_div
from cute_py.ops.call import Call, Output, writable
from cute_py.ops.combination import Combination, result_type
from cute_py.ops.conv_families import configured, kernel_of, numbers_of, taken_by
from cute_py.ops.conv_options import (
    BACK,
    LAYOUTS,
    TERMS,
    convolution,
    parameters_of,
    request_function,
    wrong,
)
from cute_py.ops.gemm_tiles_sm90 import MEMORY, ProductFacts
from cute_py.ops.operands import bytes_each, ready_row, shown
from cute_py.ops.problem import as_run
from cute_py.ops.product import GEMM
from cute_py.ops.tuned import winner
from cute_py.records import Text
from cute_py.trace.formulas import formula

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cute_py.dtypes.table import Dtype
    from cute_py.kernels.epilogue import Epilogue
    from cute_py.ops.libraries import Library

GRADIENTS = ("f16", "bf16", "tf32", "f32", "f64")  # types that dgrad and wgrad multiply


@dataclass(frozen=True, slots=True)
class ConvFacts(ProductFacts):
    """What the choice for a convolution depends on: a product whose rows share elements.

    Attributes:
        moved: the bytes of images, filters and output.
    """

    moved: int = 0

    @property
    def memory(self) -> float:
        """How long memory takes to move them (microseconds)."""
        return self.moved / MEMORY


class Convolution(Combination):
    """Two of images, filters and output, from which the third is computed.

    Attributes:
        of: "fprop", "dgrad" or "wgrad".
        reads: the names of the two arrays.
        shapes: of the two, as (N,H,W,C) or (K,R,S,C), by name.
        copied: the names of those that are transposed first.
        conv: the convolution, with its sizes.
        whole: the shape of the result as (N,H,W,C).
    """

    takes_more_modes, autocast = False, "lower"
    of: ClassVar[str]
    reads: ClassVar[tuple[str, str]]

    def __init__(self, request: Any, library: Library) -> None:
        """Read the arrays; refuse those that do not fit each other, or a convolution."""
        super().__init__(request, library)
        self.arrays: dict[str, Any] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.copied: list[str] = []
        first, second = (self._read(name) for name in self.reads)
        if (first.name, second.name) not in ATOMS:
            facts: dict[str, Any] = {"a": first, "b": second, "known": ", ".join(self.types)}
            raise refusal("ops-dtype", operation=self.operation, **facts)
        self.kinds = first, second
        x_shape, w_shape = self._shapes()
        self.conv = convolution(request, x_shape, w_shape, self.operation)
        self.whole = self._result(x_shape, w_shape)
        _M, _N, self.K = self.conv.implicit(self.of)
        shape = self._ordered(self.whole, BACK)
        self._read_epilogue(shape, result_type(first, self._out_type(), self.operation))
        if request_function(request) is not None and self.compute == s32:
            self.compute = f32
        library.require_room((shape, self.kind.bits))

    # -- what is read

    def _ordered(self, x: Sequence[Any], orders: dict[str, Any] = LAYOUTS) -> tuple[Any, ...]:
        return tuple([x[i] for i in orders[self.request.layout]])

    def _read(self, name: str) -> Dtype:
        """Read an array of four modes, and return its type."""
        modes = {"x": "NHWC", "dy": "NPQK", "w": "KRSC"}[name]
        x, kind = self.read(name, self.types, 4, shown(self._ordered(modes, BACK)))
        if len(x.shape) != 4:
            raise self.wrong_shape(name, tuple(x.shape), self._ordered(modes, BACK))
        self.arrays[name], shape = x, self._ordered(x.shape)
        step = self._ordered(strides_of(x))[3]
        if 0 not in shape and shape[3] > 1 and step != 1:
            if self.request.layout == "NHWC":
                facts: dict[str, Any] = {"name": name, "step": step}
                raise refusal("conv-channels", operation=self.operation, **facts)
            self.copied.append(name)
        self.shapes[name] = shape
        return kind

    @cached_property
    def given(self) -> dict[str, Any]:
        """The two arrays as (N,H,W,C) or (K,R,S,C), by name, as kernels read them."""
        order, found = LAYOUTS[self.request.layout], {}
        for name, x in self.arrays.items():
            seen = self.readable(self.library.ordered(x, order))
            found[name] = self._with_channels_last(seen) if name in self.copied else seen
        return found

    def _with_channels_last(self, x: Any) -> Any:
        """Return (N,H,W,C) with contiguous channels: of images in NCHW by one kernel."""
        if self.library.on_host:
            return self.library.contiguous(x)
        from cute_py.ops.transposes import transpose

        n, h, w, c = x.shape
        planes = self.library.contiguous(self.library.ordered(x, (0, 3, 1, 2)))
        return transpose(planes.reshape((n, c, h * w))).reshape((n, h, w, c))

    def _require_output(self, x: tuple[int, ...]) -> None:
        """Refuse a gradient of the output that is no output of images of a shape."""
        wanted = x[0], self.conv.P, self.conv.Q, self.conv.implicit(FPROP)[1] * self.conv.groups
        found = self.shapes["dy"]
        if found != wanted:
            raise self.wrong_shape("dy", self._ordered(found, BACK), self._ordered(wanted, BACK))

    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of images and filters, as (N,H,W,C) and (K,R,S,C)."""
        raise NotImplementedError

    def _result(self, x_shape: tuple[int, ...], w_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the result as (N,H,W,C)."""
        raise NotImplementedError

    # -- the epilogue

    def _row_of(self, _shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.whole[3:]

    def _term(self, name: str, shape: tuple[int, ...]) -> tuple[Any, Dtype]:
        """Return an array that is added, of a shape, and its type."""
        x, kind = self.library.read(getattr(self.request, name), name)
        if tuple(x.shape) != tuple(shape):
            raise self.wrong_shape(name, tuple(x.shape), tuple(shape))
        return x, kind

    def _reads_c(self, beta: float) -> bool:
        """Return whether the epilogue reads c."""
        return beta != 0 or request_function(self.request) is not None

    def epilogue(self) -> Epilogue:
        """Return the epilogue: that of `gemm`, or a function of the user."""
        function = request_function(self.request)
        if function is None:
            return super().epilogue()
        asked = parameters_of(function)
        if asked is None or self.request.activation is not None:
            rule = f"a function (sums, ...) of parameters among {', '.join(TERMS)}; no activation"
            name = getattr(function, "__name__", function)
            raise wrong(self.operation, "epilogue", name, rule)

        def combined(sums: Any, alpha: Any, beta: Any, C: Any = None, bias: Any = None) -> Any:
            held = {"alpha": alpha, "beta": beta, "c": C, "bias": bias}
            return function(sums, **{name: held[name] for name in asked})

        inputs = ("sums", *self.terms, "alpha", "beta")
        return EpilogueFunction(formula(combined, self.compute.name, inputs), self.spreads)

    # -- the product

    @cached_property
    def gpu(self) -> Any:
        """The facts of the GPU that has the arrays; None for the host."""
        return self.library.gpu(self.given[self.reads[0]])

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.conv.groups

    @property
    def is_scattered(self) -> bool:
        """Whether rows of the result are at no common distance in memory."""
        return False

    @cached_property
    def product(self) -> ConvFacts:
        """What the choice of a configuration depends on."""
        majors, aligned = zip(*self._sides(), strict=True)
        bits = self.kinds[0].bits, self.kinds[1].bits, self.kind.bits
        return ConvFacts(
            moved=self.conv.least_bytes(bits),
            shape=self._sizes(),
            batch=self.groups,
            kinds=self.kinds,
            majors=majors,
            pitches=aligned,
            result=self.kind,
            epilogue=self.epilogue(),
            fast_accum=False,
            gpu=self.gpu,
            addressed=aligned,
            aligned=aligned,
        )

    def _sizes(self) -> tuple[int, int, int]:
        return self.conv.implicit(self.of)

    def _sides(self) -> list[tuple[str, int]]:
        """Return how A and B are read: the contiguous mode, and the bytes of a vector."""
        raise NotImplementedError

    def _vector(self, x: Any, run: int) -> int:
        """Return the bytes of vectors of which all runs of so many elements are made."""
        size = bytes_each(x)
        steps = [n * size for n in strides_of(x)[:-1]]
        return gcd(VECTOR_BYTES, address_of(x), run * size, *steps)

    def _config(self) -> Any:
        if self.request.config is None:
            found = winner(self.facts, lambda: [x for (x,) in self.candidates()])
            if found is not None:
                return found
        return configured(self)

    def candidates(self) -> list[tuple[Any, ...]]:
        """Return the choices that `cute.tune` measures, the rule's first."""
        if self.as_gemm is not None:
            found: list[tuple[Any, ...]] = self.as_gemm.candidates()
            return found
        first = configured(self)
        others = taken_by(self).first.others(self, first)
        return [(x,) for x in dict.fromkeys([first, *others])]

    # -- the call

    def _typed(self, x: Any) -> Any:
        return cute.typed(x, "tf32") if self.kinds[0].name == "tf32" else x

    def _by_group(self, x: Any, mode: int) -> Any:
        """Return an array with the groups of a mode as the last mode; as it is, if there is one."""
        G, shape = self.groups, tuple(x.shape)
        if G == 1:
            return x
        cut = x.reshape((*shape[:mode], G, shape[mode] // G, *shape[mode + 1 :]))
        modes = [i for i in range(len(shape) + 1) if i != mode]
        return self.library.ordered(cut, (*modes, mode))

    def _rows(self, x: Any) -> Any:
        """Return (N,H,W,C) as (N*H*W,C) or (N*H*W,C/G,G): a copy where that is no view."""
        found = as_run(x, keeps_last=True)
        if found is None:
            found = as_run(self.library.contiguous(x), keeps_last=True)
        return self._by_group(found, 1)

    def _out(self, reads: Sequence[Any]) -> tuple[Output, Any]:
        """Return the output, and the result as (N,H,W,C) as kernels write it."""
        library, out, (shape, kind) = self.library, self.request.out, self.results["out"]
        modes = None if self.request.layout == "NHWC" else BACK[self.request.layout]
        direct = out is not None and library.steps(out) is not None and writable(out, reads)
        if direct:
            seen = library.ordered(out, LAYOUTS[self.request.layout])
            if self._takes(seen):
                return Output(seen, out, shape, out, True, modes), seen
        seen = library.empty(self.whole, kind)
        made = seen if modes is None else library.ordered(seen, modes)
        return Output(seen, made, shape, out, False, modes), seen

    def _takes(self, seen: Any) -> bool:
        """Return whether kernels write to an array (N,H,W,C): its rows are those of a new one."""
        if strides_of(seen)[3] != 1 and seen.shape[3] > 1:
            return False
        wanted = gcd(VECTOR_BYTES, self.whole[3] // self.groups * bytes_each(seen))
        whole = self._vector(seen, self.whole[3] // self.groups) >= wanted
        return whole and (self.is_scattered or as_run(seen, keeps_last=True) is not None)

    def call(self, choice: tuple[Any, ...] | None = None) -> Call:
        """Return the call of a kernel, by what was chosen before, if given."""
        if self.as_gemm is not None:
            return self._by_gemm(self.as_gemm.call(choice))
        config = choice[0] if choice else self._config()
        pairs = zip(self.terms.values(), self.spreads, strict=True)
        terms = self.in_places([self._added(x, spread) for x, spread in pairs])
        held = [self.given[name] for name in self.reads]
        output, seen = self._out([*held, *terms])
        made: Call | None = None
        for part in self._parts(seen, terms, isinstance(config, WarpgroupConfig)):
            made = self._call_of(config, part, output, made)
        assert made is not None
        return made

    def _call_of(
        self, chosen: Any, part: tuple[Any, ...], output: Output, first: Call | None
    ) -> Call:
        """Return the call of a kernel that computes a part of the result, after another one."""
        operands, D, added, lines, extents = part
        config, is_empty = chosen, not all(x.taps for x in lines)
        if is_empty:  # sums of nothing are not split
            config = replace(config, parts=NO_SPLIT)
        (M, N, _K), (m, n, _k) = self._sizes(), config.tile
        tiles, kind = self.groups * ceil_div(M, m) * ceil_div(N, n), config.mma_atom.c_type
        wanted = workspace_of(config.parts, config.tile, tiles)
        memory = () if wanted is None else self.library.workspace(operands[0], wanted, kind)
        return Call(
            kernel_of(self.of, config),
            self.library,
            (*map(self._typed, operands), *memory, *added),
            (output._replace(array=D),),
            numbers=tuple(self.factors.values()),
            more=(*extents, *numbers_of(config, self)),
            statics=(lines, config, self.epilogue()),
            choice=(chosen,),
            blocks=tiles,
            block_bytes=config.block_bytes if self.library.on_host else 0,
            inputs=self,
            first=first,
        )

    def _added(self, x: Any, spread: str) -> Any:
        """Return an array of the epilogue as a kernel reads it: in the form of D, or as a row."""
        if spread == "row":
            return self._by_group(ready_row(self.library, x), 0)
        x = self.readable(self.library.ordered(x, LAYOUTS[self.request.layout]))
        return self._by_group(x, 3) if self.is_scattered else self._rows(x)

    def _parts(self, seen: Any, terms: list[Any], by_tap: bool) -> list[tuple[Any, ...]]:
        """Return the operands, D, the arrays of the epilogue, the lines that are read, and P and Q
        of each kernel; `by_tap`: filters are (K,R*S,C) for it.
        """
        raise NotImplementedError

    # -- products of matrices in memory

    @cached_property
    def as_gemm(self) -> Any:
        """The same as a problem of `gemm`, where it is a product of matrices in memory: of filters
        of one position, stride 1, without padding and groups. Else None.
        """
        conv, request = self.conv, self.request
        plain = ConvProblem((1, 1), ((0, 0), (0, 0)), sizes=conv.sizes)
        fused = request_function(request) is not None
        if replace(conv, flip=False, dilation=(1, 1)) != plain or fused:
            return None
        if 0 in self.whole or conv._known.N == 0:
            return None
        matrices = {name: as_run(x, keeps_last=True) for name, x in self.given.items()}
        if any(x is None for x in matrices.values()):
            return None
        a, b = self._matrices(matrices)
        c = None
        if "C" in self.terms:
            c = self._rows(self.library.ordered(self.terms["C"], LAYOUTS[request.layout]))
        own = [x for x in ("bias", "activation") if hasattr(request, x)]
        named = {x: getattr(request, x) for x in own} | {"c": c}
        named |= {"alpha": request.alpha, "beta": request.beta, "config": request.config}
        kind = self.kinds[0].name if self.kinds[0].name == "tf32" else None
        given = GEMM.request(a=a, b=b, out_dtype=self.kind, dtype=kind, **named)
        return GEMM.problem(given, self.library)

    def _matrices(self, given: dict[str, Any]) -> tuple[Any, Any]:
        """Return A (M,K) and B (K,N) of matrices by name."""
        raise NotImplementedError

    def _by_gemm(self, call: Call) -> Call:
        """Return the call of a product with the result where it is wanted."""
        held = [self.given[name] for name in self.reads]
        output, seen = self._out([*held, *self.terms.values()])
        matrix = as_run(seen, keeps_last=True)
        if self.library.on_host:  # as `gemm` writes it there
            matrix = self.library.ordered(matrix[None], (1, 2, 0))
        return replace(call, outputs=(output._replace(array=matrix),), inputs=self)

    def explained(self) -> Text:
        """Return how it is computed, and why."""
        lines = [str(self.conv).partition("\n")[0]]
        lines += [f"{x}: transposed first, to contiguous channels" for x in self.copied]
        if self.as_gemm is not None:
            more = self.as_gemm.explained()
            lines.append("a product of matrices in memory, by cute.ops.gemm:")
        else:
            more = self.call().config.explain()
        return Text("\n".join([*lines, str(more)]))
