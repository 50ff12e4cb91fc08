"""Sliced search for the documents that a statement changes, so that a long search does not hold the loop.

* The search reads the snapshot in which it began. A match found after a pause in which others wrote is rechecked
  against the current document.
* A search for one document also records concurrent changes, and checks them at the end.
* Hence a returned document matches now, and when a search for one ends empty, no document matches: an upsert may
  insert.
* The statement itself changes only documents that the search has already returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from docstore.bson import Value, get_field
from docstore.collection.changes import Commit
from docstore.collection.collection import Collection
from docstore.collection.read.matching import find_matches, plan_search
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.write.identity import Match
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Filter
from docstore.query.filter.where import evaluates, has_evaluations, weakened
from docstore.query.find import Hint
from docstore.query.pausing import OVERTAKEN, PAUSING, REFUSED, allowing
from docstore.query.sort import UNSORTED, Sort

if TYPE_CHECKING:
    from docstore.node.upkeep.execution import Execution
    from docstore.node.write.evaluated import Evaluated

_PATIENCE = 8
"""Conflicts with others after which a document is tested without interruption."""


class Search(Protocol):
    """One pass over a collection. `exhausted`: no documents remain after the last `take`."""

    exhausted: bool

    def take(self, limit: int, owned: Predicate | None, until: float) -> list[Match]:
        """Return up to `limit` documents that match now; fewer if time is up or the pass has ended (`exhausted`).

        The caller must change them before the next await and before the next call.
        """
        ...

    def take_offloaded(
        self, offloaded: Evaluated | None, limit: int, owned: Predicate | None, until: float
    ) -> list[Match]:
        """Return what `take` does, for an offloaded statement: other tasks may run meanwhile.

        Errors: Overtaken; the matches are then rechecked.
        """
        ...

    def give_back(self, matches: list[Match]) -> None:
        """Return unchanged matches of the last `take` for a recheck, after others have run since a `pause`."""
        ...

    def pause(self) -> None:
        """Prepare for other tasks to run before the next step; their changes are recorded from now on."""
        ...

    def close(self) -> None:
        """Release the iterator and the subscription."""
        ...


def open_search(
    node: DataNode,
    collection: Collection,
    tree: Filter,
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    once: bool = True,
    offloaded: Evaluated | None = None,
    execution: Execution | None = None,
) -> Search:
    """Return a search for the documents of a filter.

    `once`: one document is wanted. Otherwise many are, and changes behind the scan position are ignored. `offloaded`:
    other tasks may run during planning. `execution` receives the plan. Errors: Overtaken.
    """
    plan = partial(plan_search, collection, tree, node.engine, sort=sort, hint=hint)
    planned = allowing(REFUSED, plan) if offloaded is None else offloaded.planned(collection, plan)
    stats = None if execution is None else execution.search(planned.plan)
    matches = find_matches(collection, tree, node.engine, sort=sort, planned=planned, stats=stats, clock=node.clock)
    if planned.whole is None or (offloaded is not None and has_evaluations(tree)):
        return _WaitingSearch(node, collection, tree, matches, once)
    return _PlainSearch(node, collection, planned.whole, matches, once)


class _PlainSearch:
    """A search that never waits within `take`."""

    def __init__(
        self, node: DataNode, collection: Collection, predicate: Predicate, matches: Iterator[Match | None], once: bool
    ) -> None:
        self.exhausted = False
        self._node = node
        self._collection = collection
        self._predicate = predicate
        self._matches = matches
        self._once = once
        # The store's sequence at the last pause, and whether another writer has committed during one.
        self._paused_at: int | None = None
        self._overtaken = False
        self._missed: _MissedChanges | None = None

    def take(self, limit: int, owned: Predicate | None, until: float) -> list[Match]:
        matches: list[Match] = []
        if self._paused_at is not None:
            self._overtaken = self._overtaken or self._paused_at != self._node.store.sequence
            # Commits before the next pause are the statement's own.
            self._paused_at = None
        for match in self._matches:
            if match is not None:
                current = self._current(match) if self._overtaken else match
                if current is not None and (owned is None or owned.matches(current[1])):
                    matches.append(current)
                    if len(matches) == limit:
                        return matches
            if self._node.clock() >= until:
                return matches
        if self._missed is not None:
            self._take_missed(self._missed, matches, limit, owned)
        self.exhausted = not self._missed and len(matches) < limit
        return matches

    def take_offloaded(
        self, offloaded: Evaluated | None, limit: int, owned: Predicate | None, until: float
    ) -> list[Match]:
        if offloaded is None:
            return allowing(REFUSED, partial(self.take, limit, owned, until))
        self.pause()
        offloaded.begin()
        matches = offloaded.aside(partial(self.take, limit, owned, until))
        if offloaded.overtaken:
            self.give_back(matches)
            offloaded.check()
        return matches

    def _take_missed(self, missed: _MissedChanges, matches: list[Match], limit: int, owned: Predicate | None) -> None:
        while missed and len(matches) < limit:
            match = missed.pop()
            if match is not None and self._predicate.matches(match[1]) and (owned is None or owned.matches(match[1])):
                matches.append(match)

    def _current(self, match: Match) -> Match | None:
        raw = self._collection.record(self._node.engine, match[0])
        return (match[0], raw) if raw is not None and self._predicate.matches(raw) else None

    def give_back(self, matches: list[Match]) -> None:
        self._matches = chain(matches, self._matches)
        self._overtaken = True
        self.exhausted = False

    def pause(self) -> None:
        self._paused_at = self._node.store.sequence
        if self._once and self._missed is None:
            self._missed = _MissedChanges(self._node, self._collection, self._predicate)

    def close(self) -> None:
        self._matches = iter(())
        if self._missed is not None:
            self._missed.close()


class _WaitingSearch:
    """A search that waits for scripts within `take`; its matches are unchanged since the last wait."""

    def __init__(
        self, node: DataNode, collection: Collection, tree: Filter, matches: Iterator[Match | None], once: bool
    ) -> None:
        self.exhausted = False
        self._node = node
        self._collection = collection
        self._predicate: Predicate = compile_filter(tree)
        self._matches = matches
        # Others write while a document is tested; their commits must not wait for such a test themselves.
        self._missed = (
            _MissedChanges(node, collection, compile_filter(weakened(tree, drops=evaluates))) if once else None
        )
        self._rechecks: list[int] = []

    def take(self, limit: int, owned: Predicate | None, until: float) -> list[Match]:
        matches: list[Match] = []
        if not self._take_unchanged(matches, limit, owned, until):
            return matches
        while self._missed:
            match = self._missed.pop()
            if match is not None:
                self._rechecks.append(match[0])
        while self._rechecks and not matches:
            current = self._current(self._rechecks.pop())
            if current is not None and (owned is None or owned.matches(current[1])):
                matches.append(current)
        self.exhausted = not self._rechecks and not self._missed and len(matches) < limit
        return matches

    def take_offloaded(
        self, offloaded: Evaluated | None, limit: int, owned: Predicate | None, until: float
    ) -> list[Match]:
        """Return what `take` does, within which other tasks may run: its matches are as they were tested."""
        return allowing(REFUSED if offloaded is None else OVERTAKEN, partial(self.take, limit, owned, until))

    def _take_unchanged(self, matches: list[Match], limit: int, owned: Predicate | None, until: float) -> bool:
        """Append matches to `matches`; return True at the end of the pass."""
        for match in self._matches:
            if match is None:
                if matches or self._node.clock() >= until:
                    return False
                continue
            raw = self._collection.record(self._node.engine, match[0])
            if raw != match[1]:
                self._rechecks.append(match[0])
            elif owned is None or owned.matches(raw):
                matches.append(match)
                if len(matches) == limit:
                    return False
        return True

    def _current(self, record_id: int) -> Match | None:
        """Return the record if it matches as it is now; None if not.

        One that others have changed `_PATIENCE` times while it was tested is tested without letting them run.
        """
        raw = self._collection.record(self._node.engine, record_id)
        conflicts = 0
        while raw is not None and self._matches_record(raw, conflicts < _PATIENCE):
            current_raw = self._collection.record(self._node.engine, record_id)
            if current_raw == raw:
                return record_id, raw
            raw = current_raw
            conflicts += 1
        return None

    def _matches_record(self, raw: bytes, lets_others_run: bool) -> bool:
        level = PAUSING.level
        if not lets_others_run:
            PAUSING.level = REFUSED
        try:
            return self._predicate.matches(raw)
        finally:
            PAUSING.level = level

    def give_back(self, matches: list[Match]) -> None:
        self._matches = chain(matches, self._matches)
        self.exhausted = False

    def pause(self) -> None:
        """Do nothing: other tasks also run within `take`, so changes are recorded from the beginning."""

    def close(self) -> None:
        self._matches = iter(())
        if self._missed is not None:
            self._missed.close()


class _MissedChanges:
    """Records the documents that other writers change so that they match; false when none remain."""

    def __init__(self, node: DataNode, collection: Collection, watch: Predicate) -> None:
        self._node = node
        self._collection = collection
        self._watch = watch
        self._identities: dict[bytes, Value] = {}
        self._unsubscribe = node.store.subscribe(self._changed)

    def __bool__(self) -> bool:
        return bool(self._identities)

    def pop(self) -> Match | None:
        """Remove one of them and return its current version, or None if it was deleted."""
        _, identity = self._identities.popitem()
        return self._collection.by_id(self._node.engine, identity)

    def close(self) -> None:
        self._unsubscribe()

    def _changed(self, commit: Commit) -> None:
        for change in commit.changes:
            if change.ns == self._collection.ns and change.after is not None and change.op in ("i", "u"):
                identity = get_field(change.after, "_id")
                if identity is not None and self._watch.matches(change.after):
                    self._identities[encode_key(identity)] = identity
