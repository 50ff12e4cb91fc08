"""The progress of a statement on several shards, while chunks move between them.

Shards answer under the version of the request, and some call it stale. Invariants:

- a statement about one document that no shard has found is sent to all shards again after a stale answer: shards may
  have answered before the document arrived. A document that was found is not looked for again: the shard of the stale
  answer may have the same document, moved;
- a statement with a likely shard goes to that one first; if the document is not found there, to all under one
  routing;
- a statement over many documents covers each range of shard keys once. An answer covers the ranges that the shard
  owned under the version of the request; the rest goes to its owners of then. This holds for documents that keep
  their shard key: one whose key changes meanwhile may be missed, or met twice;
- a moved document may let one shard remember a statement that another has executed or also remembers. Only the first
  answer counts, because the document may also have moved before this attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.sharding.routing import Routing
from docstore.sharding.targeting import KeyRanges, intersection, joined, without
from mongos.routing.targeting import Reach, Target


@dataclass(frozen=True, slots=True)
class Part:
    """A request to one shard. `keys`: only these ranges; None for all that the shard owns."""

    shard: str
    keys: KeyRanges | None = None


@dataclass(slots=True)
class Progress:
    """The progress of one statement. A round sends `parts`, notes what was `answered`, and ends with `end_round`."""

    found: bool = False
    narrow: bool = False
    """Only the likely shard is asked."""
    _widened: bool = False
    _remembered: bool = False
    _reach: Reach = Reach.ONE
    _answered: list[Part] = field(default_factory=list)
    _seen_to: list[tuple[bytes, bytes]] = field(default_factory=list)
    _epoch: Any = None

    def parts(self, routing: Routing, target: Target) -> list[Part]:
        """Return the requests to send under this routing; none when all ranges are covered."""
        self._reach = target.reach
        self.narrow = target.likely is not None and not self._widened
        if target.likely is not None and self.narrow:
            return [Part(target.likely)]
        collection = routing.collection
        if collection is None or collection.epoch != self._epoch:
            # Another incarnation has other documents.
            self._seen_to.clear()
            self._epoch = None if collection is None else collection.epoch
        if collection is None or not self._seen_to:
            return [Part(shard) for shard in target.shards]
        remaining = without(joined(target.keys), self._seen_to)
        owned = collection.chunks.owned
        parts = [Part(shard, intersection(owned(shard), remaining)) for shard in sorted(collection.chunks.shards)]
        return [part for part in parts if part.keys]

    def answered(self, part: Part, count: int, *, retried: bool) -> bool:
        """Note a shard's answer: `count` documents, or `retried` if it remembers the statement. Return whether the
        count applies.
        """
        self._answered.append(part)
        is_repeat = self.found and (retried or self._remembered)
        self.found = self.found or count > 0
        self._remembered = self._remembered or retried
        return not is_repeat

    def end_round(self, routing: Routing, stale: Sequence[Part]) -> bool:
        """Return whether more remains to be sent, after all parts were answered or called stale."""
        answered, self._answered = self._answered, []
        if not stale:
            self._widened = self.narrow and not self.found
            return self._widened
        if self._reach is Reach.ONE:
            return not self.found
        if routing.collection is not None:
            owned = routing.collection.chunks.owned
            done = [keys for part in answered for keys in (owned(part.shard) if part.keys is None else part.keys)]
            self._seen_to = joined([*self._seen_to, *done])
        return True
