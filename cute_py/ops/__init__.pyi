"""Public names of cute_py.ops, for type checkers; from `_HOME`."""

from cute_py.kernels.config import GemmConfig as GemmConfig
from cute_py.kernels.config import choose_config as choose_config
from cute_py.ops.choice import gemm_config as gemm_config
from cute_py.ops.prepared import Gemm as Gemm
from cute_py.ops.prepared import Status as Status
from cute_py.dtypes.table import DtypeLike
from cute_py.kernels.configuration import Config
from cute_py.ops.family import BlockConfig
from cute_py.plan.formula import Formula
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, overload
from numpy.typing import NDArray
from cute_py.ops.operator import Operator
from cute_py.records import Text
from cute_py.tensor.tensor import Tensor
_Array = TypeVar("_Array")
def operators() -> dict[str, Operator]: ...
class _Operator(Protocol):
    operator: Operator
    explain: Callable[..., Text]
class _activation(_Operator, Protocol):
    @overload
    def __call__(self, x: NDArray[Any] | Sequence[Any], name: str, g: Any = ..., *, out: Any = ..., backend: str = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, name: str, g: Any = ..., *, out: Any = ..., backend: str = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
activation: _activation
"""Return an activation of each element; or, with the gradient of the result, that of the input."""
class _attention(_Operator, Protocol):
    @overload
    def __call__(self, q: NDArray[Any] | Sequence[Any], k: Any, v: Any, *, bias: Any = ..., score: Any = ..., mask: Any = ..., causal: bool | str = ..., window: tuple[int, int] = ..., scale: float | None = ..., softcap: float = ..., alibi_slopes: Any = ..., layout: str = ..., return_lse: bool = ..., out: Any = ..., out_dtype: DtypeLike | None = ..., split_kv: int | None = ..., exact: bool = ..., backend: str = ..., config: Config | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, q: _Array, k: Any, v: Any, *, bias: Any = ..., score: Any = ..., mask: Any = ..., causal: bool | str = ..., window: tuple[int, int] = ..., scale: float | None = ..., softcap: float = ..., alibi_slopes: Any = ..., layout: str = ..., return_lse: bool = ..., out: Any = ..., out_dtype: DtypeLike | None = ..., split_kv: int | None = ..., exact: bool = ..., backend: str = ..., config: Config | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
attention: _attention
"""Return softmax(scores) v, where the scores are scale * q k^T, without a matrix of scores."""
class _attention_varlen(_Operator, Protocol):
    @overload
    def __call__(self, q: NDArray[Any] | Sequence[Any], k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int | None = ..., max_seqlen_k: int | None = ..., *, score: Any = ..., mask: Any = ..., causal: bool | str = ..., window: tuple[int, int] = ..., scale: float | None = ..., softcap: float = ..., alibi_slopes: Any = ..., return_lse: bool = ..., out: Any = ..., out_dtype: DtypeLike | None = ..., exact: bool = ..., backend: str = ..., config: Config | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, q: _Array, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: int | None = ..., max_seqlen_k: int | None = ..., *, score: Any = ..., mask: Any = ..., causal: bool | str = ..., window: tuple[int, int] = ..., scale: float | None = ..., softcap: float = ..., alibi_slopes: Any = ..., return_lse: bool = ..., out: Any = ..., out_dtype: DtypeLike | None = ..., exact: bool = ..., backend: str = ..., config: Config | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
attention_varlen: _attention_varlen
"""Return `attention` of each sequence alone, of sequences one after the other in arrays."""
class _attention_with_kvcache(_Operator, Protocol):
    @overload
    def __call__(self, q: NDArray[Any] | Sequence[Any], k_cache: Any, v_cache: Any, cache_seqlens: Any, block_table: Any = ..., k: Any = ..., v: Any = ..., *, causal: bool | str = ..., window: tuple[int, int] = ..., scale: float | None = ..., softcap: float = ..., alibi_slopes: Any = ..., split_kv: int | None = ..., return_lse: bool = ..., out: Any = ..., exact: bool = ..., backend: str = ..., config: Config | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, q: _Array, k_cache: Any, v_cache: Any, cache_seqlens: Any, block_table: Any = ..., k: Any = ..., v: Any = ..., *, causal: bool | str = ..., window: tuple[int, int] = ..., scale: float | None = ..., softcap: float = ..., alibi_slopes: Any = ..., split_kv: int | None = ..., return_lse: bool = ..., out: Any = ..., exact: bool = ..., backend: str = ..., config: Config | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
attention_with_kvcache: _attention_with_kvcache
"""Return attention to the first keys of caches, as many as each sequence has."""
class _conv2d(_Operator, Protocol):
    @overload
    def __call__(self, x: NDArray[Any] | Sequence[Any], w: Any, c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., epilogue: Callable[..., Tensor] | Formula | None = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: NDArray[Any] | Sequence[Any], w: Any, c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., epilogue: Callable[..., Any], out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> dict[str, NDArray[Any]]: ...
    @overload
    def __call__(self, x: _Array, w: Any, c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., epilogue: Callable[..., Tensor] | Formula | None = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
    @overload
    def __call__(self, x: _Array, w: Any, c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., epilogue: Callable[..., Any], out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> dict[str, _Array]: ...
conv2d: _conv2d
"""Return activation(alpha * (x convolved with w) + beta * c + bias)."""
class _conv2d_dgrad(_Operator, Protocol):
    @overload
    def __call__(self, dy: NDArray[Any] | Sequence[Any], w: Any, x_shape: Sequence[int], c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, dy: _Array, w: Any, x_shape: Sequence[int], c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
conv2d_dgrad: _conv2d_dgrad
"""Return alpha * (the gradient of the images of `conv2d`) + beta * c."""
class _conv2d_wgrad(_Operator, Protocol):
    @overload
    def __call__(self, dy: NDArray[Any] | Sequence[Any], x: Any, w_shape: Sequence[int], c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, dy: _Array, x: Any, w_shape: Sequence[int], c: Any = ..., *, stride: int | tuple[int, int] = ..., padding: int | str | tuple[Any, Any] = ..., dilation: int | tuple[int, int] = ..., groups: int = ..., mode: str = ..., alpha: float = ..., beta: float = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., layout: str = ..., backend: str = ..., config: GemmConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
conv2d_wgrad: _conv2d_wgrad
"""Return alpha * (the gradient of the filters of `conv2d`) + beta * c."""
class _gemm(_Operator, Protocol):
    @overload
    def __call__(self, a: NDArray[Any] | Sequence[Any], b: Any, c: Any = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., out_dtype: DtypeLike | None = ..., backend: str = ..., config: GemmConfig | str | None = ..., *, dtype: DtypeLike | None = ..., out: Any = ..., checks: bool | str = ..., stream: Any = ..., fast_accum: bool = ..., epilogue: Callable[..., Tensor] | Formula | None = ..., **terms: Any) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: NDArray[Any] | Sequence[Any], b: Any, c: Any = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., out_dtype: DtypeLike | None = ..., backend: str = ..., config: GemmConfig | str | None = ..., *, dtype: DtypeLike | None = ..., out: Any = ..., checks: bool | str = ..., stream: Any = ..., fast_accum: bool = ..., epilogue: Callable[..., Any], **terms: Any) -> dict[str, NDArray[Any]]: ...
    @overload
    def __call__(self, a: _Array, b: Any, c: Any = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., out_dtype: DtypeLike | None = ..., backend: str = ..., config: GemmConfig | str | None = ..., *, dtype: DtypeLike | None = ..., out: Any = ..., checks: bool | str = ..., stream: Any = ..., fast_accum: bool = ..., epilogue: Callable[..., Tensor] | Formula | None = ..., **terms: Any) -> _Array: ...
    @overload
    def __call__(self, a: _Array, b: Any, c: Any = ..., alpha: float = ..., beta: float = ..., bias: Any = ..., activation: str | None = ..., out_dtype: DtypeLike | None = ..., backend: str = ..., config: GemmConfig | str | None = ..., *, dtype: DtypeLike | None = ..., out: Any = ..., checks: bool | str = ..., stream: Any = ..., fast_accum: bool = ..., epilogue: Callable[..., Any], **terms: Any) -> dict[str, _Array]: ...
gemm: _gemm
"""Return activation(alpha * a @ b + beta * c + bias), as `numpy.matmul` counts the modes; or what a function gives for a @ b."""
class _reduce(_Operator, Protocol):
    @overload
    def __call__(self, x: NDArray[Any] | Sequence[Any], op: str = ..., dim: int | Sequence[int] | None = ..., *, keepdim: bool = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., backend: str = ..., config: BlockConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, op: str = ..., dim: int | Sequence[int] | None = ..., *, keepdim: bool = ..., out_dtype: DtypeLike | None = ..., out: Any = ..., backend: str = ..., config: BlockConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
reduce: _reduce
"""Return the elements of an array combined along some of its modes."""
class _softmax(_Operator, Protocol):
    @overload
    def __call__(self, x: NDArray[Any] | Sequence[Any], dim: int = ..., *, out: Any = ..., backend: str = ..., config: BlockConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, x: _Array, dim: int = ..., *, out: Any = ..., backend: str = ..., config: BlockConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
softmax: _softmax
"""Return exp(x - m) / sum(exp(x - m)) along one mode, where m is its maximum."""
class _transpose(_Operator, Protocol):
    @overload
    def __call__(self, a: NDArray[Any] | Sequence[Any], *, out: Any = ..., backend: str = ..., config: BlockConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> NDArray[Any]: ...
    @overload
    def __call__(self, a: _Array, *, out: Any = ..., backend: str = ..., config: BlockConfig | str | None = ..., checks: bool | str = ..., stream: Any = ...) -> _Array: ...
transpose: _transpose
"""Return the matrices of `a` (..., M, N) transposed, (..., N, M), in memory."""
