"""The parts of a process that its commands reach, each by its type: who makes a part puts it there.

Always true: what stands under a type is of that type. A part is found under the very type by which it was put, not
under a base of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class Parts(dict[type[Any], Any]):
    """`parts[Shard]` is the process's shard; KeyError where it has none."""

    if TYPE_CHECKING:
        # The dictionary's own methods, so that looking a part up costs no call, with the types that they keep to here.
        def __getitem__(self, kind: type[T], /) -> T: ...

        def __setitem__(self, kind: type[T], part: T, /) -> None: ...

        def get(self, kind: type[T], /) -> T | None: ...  # type: ignore[override]
