"""The data as a transaction sees it: its own writes over the snapshot it began with.

- Nobody else sees its writes.
- A snapshot of it, or an iterator, shows the state at its creation, whatever the transaction writes meanwhile.
- The snapshot below is closed with its last reader.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from docstore.collection.read.overlay import overlaid
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.storage import Snapshot

_Changes = dict[bytes, "bytes | None"]


class _Layer:
    """The writes in one family. Keys are sorted only when a range is read."""

    __slots__ = ("_added", "_ordered", "changes")

    def __init__(self, changes: _Changes, ordered: list[bytes], added: list[bytes]) -> None:
        self.changes = changes
        self._ordered = ordered
        self._added = added

    def merge(self, changes: _Changes) -> None:
        mine = self.changes
        self._added += [key for key in changes if key not in mine]
        mine.update(changes)

    def copy(self) -> _Layer:
        return _Layer(self.changes.copy(), self._ordered.copy(), self._added.copy())

    def with_changes(self, changes: _Changes) -> _Layer:
        """Return the layer with these changes merged: this one, or a new one if this is the shared empty layer."""
        layer = _Layer({}, [], []) if self is _UNTOUCHED else self
        layer.merge(changes)
        return layer

    def changes_in(self, start: bytes, end: bytes) -> _Changes:
        """Return the changes in `[start, end)`."""
        ordered = self._ordered
        if self._added:
            ordered += self._added
            ordered.sort()
            self._added.clear()
        changes = self.changes
        return {key: changes[key] for key in ordered[bisect_left(ordered, start) : bisect_left(ordered, end)]}


_UNTOUCHED = _Layer({}, [], [])
"""The shared layer of families without writes."""
_NO_LAYERS = tuple(_UNTOUCHED for _ in Family)


class _View:
    """Reads of one state: layers over a snapshot."""

    __slots__ = ("_below", "_layers")

    def __init__(self, below: Snapshot, layers: tuple[_Layer, ...]) -> None:
        self._below = below
        self._layers = layers

    def get(self, family: Family, key: bytes) -> bytes | None:
        changes = self._layers[family].changes
        return changes[key] if key in changes else self._below.get(family, key)

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        layer = self._layers[family]
        stored = self._below.items(family, start, end, reverse)
        return overlaid(layer.changes_in(start, end), stored, start, end, reverse) if layer.changes else stored

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self._layers[family].changes:
            return self._below.keys(family, start, end, reverse)
        return (key for key, _ in self.items(family, start, end, reverse))

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        if not self._layers[family].changes:
            return self._below.values(family, start, end, reverse)
        return (value for _, value in self.items(family, start, end, reverse))


class TransactionSnapshot(_View):
    """One state of a transaction; implements `Snapshot`."""

    __slots__ = ("_close",)

    def __init__(self, below: Snapshot, layers: tuple[_Layer, ...], close: Callable[[], None]) -> None:
        super().__init__(below, layers)
        self._close: Callable[[], None] | None = close

    def close(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close()


class TransactionState(_View):
    """The newest state of a transaction: a `Reader` that accepts batches. It owns the snapshot `below`."""

    __slots__ = ("_ended", "_held", "_readers", "_shared")

    def __init__(self, below: Snapshot) -> None:
        super().__init__(below, _NO_LAYERS)
        self._readers = 0
        self._held = False
        self._shared = False
        self._ended = False

    @property
    def below(self) -> Snapshot:
        """The snapshot that the transaction began with."""
        return self._below

    def changes(self, family: Family) -> _Changes:
        """Return the writes in a family. Do not modify them."""
        return self._layers[family].changes

    def write(self, batch: Batch) -> None:
        """Apply a batch. It must not remove ranges."""
        assert not batch.ranges, "a transaction removes no ranges"
        if self._shared:
            # A reader uses the current layers: copy on write.
            self._layers = tuple([layer if layer is _UNTOUCHED else layer.copy() for layer in self._layers])
            self._shared = False
        self._layers = tuple(
            [
                layer.with_changes(changes) if changes else layer
                for layer, changes in zip(self._layers, batch.changes, strict=True)
            ]
        )

    def snapshot(self) -> TransactionSnapshot:
        self._readers += 1
        self._shared = True
        return TransactionSnapshot(self._below, self._layers, self._closed)

    def _closed(self) -> None:
        self._readers -= 1
        if not self._readers:
            self._shared = False
            self._close_below()

    def hold(self) -> None:
        """Keep the state readable until `let_go`, even if the transaction ends."""
        self._held = True

    def let_go(self) -> None:
        if self._held:
            self._held = False
            self._close_below()

    def end(self) -> None:
        """End the writes. The snapshot below is closed with its last reader."""
        self._ended = True
        self._close_below()

    def _close_below(self) -> None:
        if self._ended and not self._readers and not self._held:
            self._below.close()
