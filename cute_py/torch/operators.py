"""`define`: one helper makes an operator of torch out of an implementation and its rules.

It registers through `torch.library.Library`: the decorator `torch.library.custom_op` checks each
call, which costs 5 us (pytorch issue 177109).

A call of an operator takes this way. torch's dispatcher calls the function of the autograd key.
Plain tensors go straight from there to the implementation. Tensors of a mode (fake, functional,
traced) and of torch.func go on through the dispatcher, which finds the fake or the vmap rule.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.function import FunctionCtx

from cute_py.calls.torch_tensors import has_tangent
from cute_py.errors import CuteError, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

BACKENDS = ("CPU", "CUDA")
TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})
PLAIN = {float, int, bool, str, type(None), torch.dtype}  # values that no mode replaces
# the type in a schema. torch turns a tensor that is given for a float into a number, before anyone
# can see whether autograd follows it; for a Scalar it refuses tensors
FLOAT = re.compile(r"\bfloat\b(?=[?\[]|\s+\w)")
LAZY = frozenset({"argument-negated", "argument-tensor"})  # torch can make a dense tensor of them

_libraries: dict[str, Any] = {}  # qualified name -> the torch.library.Library that defines it


class Gradient(NamedTuple):
    """The derivative of an operator.

    Attributes:
        forward: (ctx, run, *args) -> the result, where a gradient is wanted; `run(*args)` is the
            operator without gradient.
        backward: (ctx, *gradients of the results) -> a gradient or None for each argument; ctx.run
            is the operator.
        keeps: whether `forward` returns a tuple: the results, then all that `backward` reads next
            to the inputs and the results. Autograd then knows what a derivative depends on.
        results: how many there are; several are a tuple.
        again: whether `backward` computes by operators that have derivatives themselves, so it can
            be differentiated.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    keeps: bool = False
    results: int = 1
    again: bool = False


def define(
    schema: str,
    implementation: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    gradient: Gradient | None = None,
    vmap: Callable[..., Any] | None = None,
    autocast: Callable[[tuple[Any, ...], Any], tuple[Any, ...]] | None = None,
) -> Any:  # a torch._ops.OpOverload
    """Register an operator, and return it; one of the same name is replaced.

    Args:
        schema: "space::name(Tensor x, float alpha=1) -> Tensor"; a float becomes a Scalar, and
            `implementation` gets floats for it.
        implementation: computes the result, of tensors of the host and of a GPU.
        fake: returns the empty result for tensors without memory, whose sizes may be symbols.
        gradient: the derivative; None: operands that autograd follows are refused.
        vmap: (info, in_dims, *args) -> (result, out_dims), as `torch.library.register_vmap` has it.
        autocast: (arguments, dtype of the autocast region) -> the arguments that the operator gets.

    """
    name, short, library, op = _defined(schema)
    given = torch._C.parse_schema(schema).arguments
    floats = [i for i, x in enumerate(given) if "float" in str(x.type)]
    if floats:
        implementation = _with_floats(implementation, floats)
    for key in BACKENDS:
        library.impl(short, implementation, key)
    torch.library.register_fake(name, fake, lib=library)
    library.impl(short, _by_autograd(op, name, implementation, gradient), "Autograd")
    if vmap is not None:
        torch.library.register_vmap(name, vmap, lib=library)
    if autocast is not None:
        for place in BACKENDS:
            library.impl(short, _by_autocast(op, place, autocast), f"Autocast{place}")
    return op


def compose(schema: str, function: Callable[..., Any]) -> None:
    """Register an operator that only calls others, so it has the rules that they have.

    Args:
        schema: as in `define`.
        function: (*args, **named) -> the result; arguments that are left out are filled in.

    """
    _name, short, library, op = _defined(schema)
    defaults = defaults_of(op)

    def call(*args: Any, **named: Any) -> Any:
        return function(*args, *defaults[len(args) :], **named)

    library.impl(short, call, "CompositeImplicitAutograd")


def _defined(schema: str) -> tuple[str, str, Any, Any]:
    """Declare an operator; return its name, the name within its space, its library and itself."""
    name, _, signature = schema.partition("(")
    space, _, short = name.partition("::")
    if name in _libraries:
        _libraries.pop(name)._destroy()
    library = _libraries[name] = torch.library.Library(space, "FRAGMENT")
    numbers = FLOAT.sub("Scalar", signature)
    library.define(f"{short}({numbers}", tags=(torch.Tag.pt2_compliant_tag,))
    plain, _, overload = short.partition(".")
    packet = getattr(getattr(torch.ops, space), plain)
    return name, short, library, getattr(packet, overload or "default")


def _with_floats(function: Callable[..., Any], places: list[int]) -> Callable[..., Any]:
    """Return a function that gets floats where whole numbers are given at some places."""

    def as_float(x: Any) -> Any:
        if isinstance(x, list):
            return [as_float(y) for y in x]
        return float(x) if isinstance(x, int) else x

    def call(*args: Any, **named: Any) -> Any:
        values = list(args)
        for i in places:
            if i < len(values):
                values[i] = as_float(values[i])
        return function(*values, **named)

    return call


def public(name: str) -> str:
    """Return how a user calls the operator "space::name"."""
    return f"torch.ops.{name.replace('::', '.')}"


def defaults_of(op: Any) -> tuple[Any, ...]:
    """Return the default value of each positional argument, None where there is no default."""
    return tuple([x.default_value for x in op._schema.arguments if not x.kwarg_only])


# -- autograd


def _by_autograd(
    op: Any, name: str, implementation: Callable[..., Any], gradient: Gradient | None
) -> Callable[..., Any]:
    """Return the function of the autograd key."""
    forward: Any = torch.autograd.forward_ad
    modes: Any = torch._C._len_torch_dispatch_stack
    transforms: Any = torch._C._are_functorch_transforms_active
    tensor, is_on, defaults = torch.Tensor, torch.is_grad_enabled, defaults_of(op)

    def call(*args: Any, **named: Any) -> Any:
        plain, why = True, None
        if forward._current_level >= 0:
            _require_no_tangent(op, name, (*args, *named.values()))
        for x in (*args, *named.values()) if named else args:
            kind = x.__class__
            if kind in TENSORS:
                if x.is_meta:
                    plain = False
                if x.requires_grad and is_on():
                    break
            elif kind not in PLAIN:
                plain = False
                if isinstance(x, tensor) and x.requires_grad and is_on():
                    break
        else:
            if plain and not modes() and not transforms():
                try:
                    return implementation(*args, **named) if named else implementation(*args)
                except CuteError as error:
                    if error.code not in LAZY:
                        raise
                    why = error
            with torch._C._AutoDispatchBelowAutograd():
                try:
                    return op(*args, **named)
                except NotImplementedError:
                    if why is None:
                        raise
                    raise why from None  # torch cannot make it dense
        if apply is None:
            raise refusal("torch-no-backward", operation=public(name))
        if transforms():  # torch.func.grad, vjp ...
            result = _at_one_level(function, (*args, *defaults[len(args) :]))
        else:
            result = apply(*args, *defaults[len(args) :])
        if not keeps:
            return result
        return result[0] if results == 1 else result[:results]

    function = None if gradient is None else _function(op, name, gradient, call)
    apply = None if function is None else function.apply
    keeps, results = (False, 1) if gradient is None else (gradient.keeps, gradient.results)
    return call


def _at_one_level(function: Any, args: tuple[Any, ...]) -> Any:
    """Return the results of a node of autograd at the level of torch.func that is computed now: the
    operators that it calls go on to the levels below, as those of torch do.
    """
    inner: Any = torch._C._functorch
    before = inner.get_single_level_autograd_function_allowed()
    inner.set_single_level_autograd_function_allowed(True)
    try:
        return super(torch.autograd.Function, function).apply(*args)
    finally:
        inner.set_single_level_autograd_function_allowed(before)


def _require_no_tangent(op: Any, name: str, args: tuple[Any, ...]) -> None:
    """Refuse forward-mode differentiation."""
    for x, value in zip(op._schema.arguments, args, strict=False):
        if isinstance(value, torch.Tensor) and has_tangent(value):
            raise refusal("argument-tangent", operation=public(name), name=x.name)


def _function(op: Any, name: str, gradient: Gradient, run: Callable[..., Any]) -> Any:
    """Return the torch.autograd.Function of an operator."""
    transforms: Any = torch._C._are_functorch_transforms_active

    def below(*args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args)

    def forward(ctx: Any, *args: Any) -> Any:
        if not transforms():
            return gradient.forward(ctx, run, *args)
        # of the levels of torch.func below this one
        with torch.enable_grad(), torch.autograd.forward_ad._set_fwd_grad_enabled(True):
            return gradient.forward(ctx, below, *args)

    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.run = op if transforms() else run
        if gradient.again or not torch.is_grad_enabled():
            return gradient.backward(ctx, *gradients)
        if transforms():
            _require_last(name, (*gradients, *ctx.saved_tensors), gradient.keeps)
        with torch.no_grad():
            found = gradient.backward(ctx, *gradients)
        found = found if isinstance(found, tuple) else (found,)
        read = [*gradients, *ctx.saved_tensors]
        if not gradient.keeps:  # autograd may not know all that the derivative depends on
            read.append(torch.zeros((), requires_grad=True))
        if transforms():
            return _at_one_level(_Last, (name, len(found), *found, *read))
        return _Last.apply(name, len(found), *found, *read)

    rules = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name.replace("::", "_"), (torch.autograd.Function,), rules)


def _require_last(name: str, tensors: tuple[Any, ...], are_all: bool) -> None:
    """Refuse a first derivative by torch.func that a level below would differentiate, which could
    not see how it was computed. `are_all`: whether it reads nothing but these tensors.
    """
    inner: Any = torch._C._functorch
    held, is_followed = list(tensors), False
    while held:
        below = [inner.get_unwrapped(x) for x in held
                 if x is not None and inner.is_functorch_wrapped_tensor(x)]  # fmt: skip
        is_followed |= any(x.requires_grad for x in below)
        held = below
    if not are_all:
        kinds = [x.key() for x in inner.get_interpreter_stack() or ()]
        is_followed |= kinds.count(inner.TransformType.Grad) > 1
    if is_followed:
        raise refusal("torch-twice", operation=public(name))


class _Last(torch.autograd.Function):  # type: ignore[misc]
    """First derivatives that refuse to be differentiated."""

    @staticmethod
    def forward(ctx: FunctionCtx, name: str, count: int, *tensors: Any) -> Any:
        """Return the first `count` tensors, which depend on all."""
        ctx.name = name
        if torch._C._are_functorch_transforms_active():  # whose tangents of levels below stay
            with torch.autograd.forward_ad._set_fwd_grad_enabled(True):
                return tuple([None if x is None else x.view_as(x) for x in tensors[:count]])
        return tuple([None if x is None else x.detach() for x in tensors[:count]])

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> Any:
        """Refuse."""
        raise refusal("torch-twice", operation=public(ctx.name))


# -- autocast


def _by_autocast(
    op: Any, place: str, rule: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]
) -> Callable[..., Any]:
    """Return the function of the autocast key of CPU or CUDA."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{place}"))

    def call(*args: Any, **named: Any) -> Any:
        args = rule(args, torch.get_autocast_dtype(place.lower()))
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return op(*args, **named)

    return call


def cast(args: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """Return arguments with tensors of 16 and 32 bit floats in the type of an autocast region, as
    torch.mm treats its operands.
    """
    return tuple([x.to(dtype) if _is_cast(x) else x for x in args])


def _is_cast(x: Any) -> bool:
    if not isinstance(x, torch.Tensor):
        return False
    return x.is_floating_point() and x.element_size() in (2, 4)
