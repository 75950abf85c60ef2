"""The backends of a kernel call: the emulator, the launcher of the GPU, and what shows its tensors.

All are layers above this one, so they are looked up when they are needed: the launcher registers
itself here when it is loaded, and the public names of cute_py load it.
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
            """The same, as a plain function."""

        def __call__(self, values: Sequence[Any], stream: int | None = None) -> None:
            """Launch."""

    # (plan, leaves) -> (prepared launch, the addresses and numbers to pass to it)
    Prepare = Callable[[Any, list[Any]], tuple[Launch, list[Any]]]

prepare: list[Prepare] = []  # one entry, once `cute.run` is loaded


def emulator() -> Callable[..., object]:
    """Return the function that runs a plan on host arrays."""
    import cute_py

    emulate: Callable[..., object] = cute_py.emulate
    return emulate


def shower() -> Callable[..., None]:
    """Return the function that writes what a kernel prints and shows of its tensors."""
    from importlib import import_module

    show: Callable[..., None] = import_module("cute_py.see.shown").show_all
    return show


def gpu() -> Prepare:
    """Return the function that prepares the launch of a plan on device arrays."""
    if not prepare:
        import cute_py

        assert callable(cute_py.run)  # loads the launcher, which registers itself in `prepare`
    return prepare[-1]
