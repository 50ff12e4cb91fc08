"""The parts of a process for its commands, each under its type; the creator of a part registers it.

A part is found under exactly the type it was registered with, not under a base class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class Parts(dict[type[Any], Any]):
    """`parts[Shard]` is the process's shard; KeyError if it has none."""

    if TYPE_CHECKING:
        # The dictionary's own methods, typed here, so that a lookup costs no extra call.
        def __getitem__(self, kind: type[T], /) -> T: ...

        def __setitem__(self, kind: type[T], part: T, /) -> None: ...

        def get(self, kind: type[T], /) -> T | None: ...  # type: ignore[override]
