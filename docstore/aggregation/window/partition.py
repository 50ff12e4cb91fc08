"""The documents of one partition in their order, of which every one can be looked at; and what functions of them are.

What does not fit in memory is written outside in pieces, and the pieces that were looked at last are kept at hand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from docstore.aggregation.expressions.field_paths import walk
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
"""The value for the document at a place of a partition; asked for in order. `NOT_YET`: ask again for the same place."""

Fields = tuple[tuple[str, int], ...]
"""What a stage sorts by: (path, direction)."""

_PIECE_DOCUMENTS = 256
_PIECE_BYTES = 1024 * 1024
_AT_HAND = 32
"""Pieces from outside that are kept in memory."""
_FEW_AT_HAND = 2
"""As many where the process has too much in memory."""

_PER_DOCUMENT = 200
"""Bytes of memory that a document costs besides its own and its key's."""

Pair = tuple[bytes, bytes]


class _Pieces:
    """The pairs of a partition by their places. It does not know the partition: what looks at places refers to this
    alone, so that a partition that is let go goes with all that it holds.
    """

    def __init__(self, environment: Environment) -> None:
        self._buffers = environment.buffers
        self.starts: list[int] = []
        self.held: list[list[Pair] | Run] = []
        self._at_hand: OrderedDict[int, list[Pair]] = OrderedDict()

    def begin(self, start: int, piece: list[Pair]) -> None:
        """A piece that begins at a place, and is added to from now on."""
        self.starts.append(start)
        self.held.append(piece)

    def piece_of(self, place: int) -> tuple[int, list[Pair]]:
        """(the place of its first pair, the piece) that a place is in."""
        number = bisect_right(self.starts, place) - 1
        piece = self.held[number]
        if not isinstance(piece, list):
            found = self._at_hand.get(number)
            if found is None:
                found = self._at_hand[number] = list(piece.records())
                most = _FEW_AT_HAND if self._buffers.crowded else _AT_HAND
                while len(self._at_hand) > most:
                    self._at_hand.popitem(last=False)
            else:
                self._at_hand.move_to_end(number)
            piece = found
        return self.starts[number], piece

    def let_go(self) -> list[object]:
        """All that there was."""
        gone: list[object] = [self.held, self._at_hand]
        self.held, self._at_hand = [], OrderedDict()
        return gone


class Partition:
    """(key, document) pairs, added in order; the keys tell places in the order apart."""

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
        """Some more at the end, few enough for a piece. Errors: QueryExceededMemoryLimitNoDiskUseAllowed."""
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
        """Nothing is asked for any more."""
        self._hold(-self._held)
        free_later(self._pieces.let_go())

    def _write(self) -> None:
        """Write the oldest piece that is in memory."""
        spill = self._environment.spill
        if spill is None:
            raise memory_exceeded("$setWindowFields", min(self._environment.memory_limit, BUFFERS.limit))
        piece = self._pieces.held[self._written]
        assert isinstance(piece, list), "pieces are written one after the other"
        self._pieces.held[self._written] = spill.write(piece)
        self._hold(-self._sizes[self._written])
        self._written += 1

    def placed(self) -> PlacedPairs:
        """The documents and their keys by their places, for one who asks for them in order. Nothing may be added
        afterwards.
        """
        return PlacedPairs(self._pieces.piece_of)

    def document(self, place: int) -> bytes:
        """The document at a place."""
        return self._looked_at.document(place)

    def key(self, place: int) -> bytes:
        """The key at a place."""
        return self._looked_at.key(place)

    def sort_value(self, place: int) -> Value | None:
        """The value of the first field that is sorted by."""
        return walk((OBJECT, self.document(place)), self._path)
