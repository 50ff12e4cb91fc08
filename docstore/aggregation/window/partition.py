"""The sorted documents of one partition, with random access, and the type of functions over them.

Pieces that exceed memory are spilled; the most recently used spilled pieces are cached.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from docstore.aggregation.expressions.field_paths import walk
from docstore.aggregation.limits import MAX_CROWDED_PIECES
from docstore.aggregation.sorted_runs import RUN_BYTES
from docstore.aggregation.stage import Environment, Run, memory_exceeded
from docstore.bson.walk import OBJECT, Value
from docstore.buffers import BUFFERS
from docstore.deferred_free import free_later
from docstore.kernel.group.windows import NOT_YET
from docstore.kernel.group.windows import Placed as PlacedPairs
from docstore.kernel.scan.pairs import pair_bytes

__all__ = ["NOT_YET", "Fields", "Partition", "Placed"]

Placed = Callable[[int], Value | None]
"""Returns the value for the document at a position, requested in order. `NOT_YET`: request the same one again."""

Fields = tuple[tuple[str, int], ...]
"""The sort of a stage: (path, direction)."""

_PIECE_DOCUMENTS = 256
_PIECE_BYTES = 1024 * 1024
_AT_HAND = 32
"""Spilled pieces cached in memory."""

_PER_DOCUMENT = 200
"""Bytes of memory of a document besides its own and its key's."""

Pair = tuple[bytes, bytes]


class _Pieces:
    """The pairs of a partition by position.

    It has no reference to the partition, and readers refer only to this, so a dropped partition frees everything it
    holds.
    """

    def __init__(self, environment: Environment) -> None:
        self._buffers = environment.buffers
        self.starts: list[int] = []
        self.held: list[list[Pair] | Run] = []
        self._at_hand: OrderedDict[int, list[Pair]] = OrderedDict()

    def begin(self, start: int, piece: list[Pair]) -> None:
        """Start a piece at a position; later pairs are appended to it."""
        self.starts.append(start)
        self.held.append(piece)

    def piece_of(self, position: int) -> tuple[int, list[Pair]]:
        """Return (position of its first pair, piece) of the piece that contains a position."""
        number = bisect_right(self.starts, position) - 1
        piece = self.held[number]
        if not isinstance(piece, list):
            pairs = self._at_hand.get(number)
            if pairs is None:
                pairs = self._at_hand[number] = list(piece.records())
                most = MAX_CROWDED_PIECES if self._buffers.crowded else _AT_HAND
                while len(self._at_hand) > most:
                    self._at_hand.popitem(last=False)
            else:
                self._at_hand.move_to_end(number)
            piece = pairs
        return self.starts[number], piece

    def let_go(self) -> list[object]:
        """Return everything held, for the caller to free."""
        contents: list[object] = [self.held, self._at_hand]
        self.held, self._at_hand = [], OrderedDict()
        return contents


class Partition:
    """(key, document) pairs, added in order; the keys tell which documents tie in the sort."""

    def __init__(self, fields: Fields, environment: Environment) -> None:
        self._environment = environment
        self._path = fields[0][0].split(".") if fields else []
        self.descending = bool(fields) and fields[0][1] < 0
        self._pieces = _Pieces(environment)
        self._sizes: list[int] = []
        self._written = 0
        self._length = self._held = 0
        self._open: list[Pair] = []
        self._open_bytes = _PIECE_BYTES
        self._looked_at = self.placed()

    def __len__(self) -> int:
        return self._length

    def add(self, pairs: list[Pair]) -> None:
        """Append pairs, few enough for one piece. Errors: QueryExceededMemoryLimitNoDiskUseAllowed."""
        if self._open_bytes >= _PIECE_BYTES or len(self._open) + len(pairs) > _PIECE_DOCUMENTS:
            self._open, self._open_bytes = [], 0
            self._pieces.begin(self._length, self._open)
            self._sizes.append(0)
        size = pair_bytes(pairs) + _PER_DOCUMENT * len(pairs)
        self._open += pairs
        self._open_bytes += size
        self._sizes[-1] += size
        self._length += len(pairs)
        self._hold(size)
        crowded = self._held > RUN_BYTES and self._environment.buffers.crowded
        if (self._held > self._environment.memory_limit or crowded) and self._written < len(self._pieces.held) - 1:
            self._write()

    def _hold(self, size: int) -> None:
        self._held += size
        self._environment.buffers.change(size)

    def close(self) -> None:
        """Free everything: no more requests follow."""
        self._hold(-self._held)
        free_later(self._pieces.let_go())

    def _write(self) -> None:
        """Spill the oldest piece in memory."""
        spill = self._environment.spill
        if spill is None:
            raise memory_exceeded("$setWindowFields", min(self._environment.memory_limit, BUFFERS.limit))
        piece = self._pieces.held[self._written]
        assert isinstance(piece, list), "pieces are written one after the other"
        self._pieces.held[self._written] = spill.write(piece)
        self._hold(-self._sizes[self._written])
        self._written += 1

    def placed(self) -> PlacedPairs:
        """Return the documents and keys by position, for sequential access. No pairs may be added afterwards."""
        return PlacedPairs(self._pieces.piece_of)

    def document(self, position: int) -> bytes:
        """Return the document at a position."""
        return self._looked_at.document(position)

    def key(self, position: int) -> bytes:
        """Return the key at a position."""
        return self._looked_at.key(position)

    def sort_value(self, position: int) -> Value | None:
        """Return the value of the first sort field."""
        return walk((OBJECT, self.document(position)), self._path)
