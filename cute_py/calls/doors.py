"""The ways out of a kernel's call: to the emulator, and to the GPU.

Both are layers above this one. They say here what is to be called, when they are loaded; the public
names load them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    class Launch(Protocol):
        """A prepared launch: a function of addresses and numbers."""

        @property
        def go(self) -> Callable[[Sequence[Any]], None]:
            """The same as a plain function."""

        def __call__(self, values: Sequence[Any], stream: int | None = None) -> None:
            """Launch."""

    # (plan, leaves) -> (prepared launch, the addresses and numbers to call it with)
    Prepare = Callable[[Any, list[Any]], tuple[Launch, list[Any]]]

prepare: list[Prepare] = []  # one, once `cute.run` was loaded


def emulator() -> Callable[..., object]:
    """Return the function that runs a plan on host arrays."""
    import cute_py

    door: Callable[..., object] = cute_py.emulate
    return door


def gpu() -> Prepare:
    """Return the function that prepares the launch of a plan on device arrays."""
    if not prepare:
        import cute_py

        assert callable(cute_py.run)  # loads the launcher, which then stands in `prepare`
    return prepare[-1]
