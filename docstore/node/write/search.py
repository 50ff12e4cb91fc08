"""Finding the documents that a statement changes, in slices, so that a long search does not hold the loop.

The search goes through the state in which it began. What it finds after a pause in which others wrote is looked at
again as it stands now; where one document is wanted, changes made meanwhile are remembered and looked at in the end.
So a document that a search gives matches at that moment, and when a search for one document ends without, no document
matches: an upsert may insert. Its own writer changes only what the search has already given.
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
from docstore.query.filter.where import weakened
from docstore.query.find import Hint
from docstore.query.pausing import REFUSED, allowing
from docstore.query.sort import UNSORTED, Sort

if TYPE_CHECKING:
    from docstore.node.upkeep.execution import Execution
    from docstore.node.write.evaluated import Evaluated


class Search(Protocol):
    """One pass over a collection. `exhausted`: there is nothing left behind what the last `take` gave."""

    exhausted: bool

    def take(self, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        """Up to `wanted` documents that match now; fewer when time is up or nothing is left (`exhausted`).

        They are to be changed before the next await and before the next call.
        """
        ...

    def take_apart(self, apart: Evaluated | None, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        """As `take`, for a statement that is carried out apart: others may run meanwhile. Errors: Overtaken, and what
        was taken is looked at again.
        """
        ...

    def give_back(self, matches: list[Match]) -> None:
        """What the last `take` gave was not changed, and others have run since a `pause`: look at it again."""
        ...

    def pause(self) -> None:
        """The loop will serve others before the next step: from now on what they change is remembered."""
        ...

    def close(self) -> None:
        """Let go of the iterator and of the subscription."""
        ...


def open_search(
    node: DataNode,
    collection: Collection,
    tree: Filter,
    *,
    sort: Sort = UNSORTED,
    hint: Hint | None = None,
    once: bool = True,
    apart: Evaluated | None = None,
    execution: Execution | None = None,
) -> Search:
    """A search for the documents of a filter.

    Without `once` many documents are wanted, and what others change after it was passed does not count.
    `apart`: others may run while it is planned. `execution`: where its plan is noted. Errors: Overtaken.
    """
    plan = partial(plan_search, collection, tree, node.engine, sort=sort, hint=hint)
    planned = allowing(REFUSED, plan) if apart is None else apart.planned(collection, plan)
    stats = None if execution is None else execution.search(planned.plan)
    found = find_matches(collection, tree, node.engine, sort=sort, planned=planned, stats=stats, clock=node.clock)
    if planned.whole is None:
        return _ScriptedSearch(node, collection, tree, found, once)
    return _PlainSearch(node, collection, planned.whole, found, once)


class _PlainSearch:
    """Waits for nothing while it takes."""

    def __init__(
        self, node: DataNode, collection: Collection, predicate: Predicate, found: Iterator[Match | None], once: bool
    ) -> None:
        self.exhausted = False
        self._node = node
        self._collection = collection
        self._predicate = predicate
        self._found = found
        self._once = once
        # The store's sequence at the pause that the next step ends, and whether another's unit has committed in one.
        self._paused_at: int | None = None
        self._overtaken = False
        self._missed: _MissedChanges | None = None

    def take(self, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        taken: list[Match] = []
        if self._paused_at is not None:
            self._overtaken = self._overtaken or self._paused_at != self._node.store.sequence
            # What commits until the next pause is the writer's own.
            self._paused_at = None
        for match in self._found:
            if match is not None:
                current = self._current(match) if self._overtaken else match
                if current is not None and (owned is None or owned.matches(current[1])):
                    taken.append(current)
                    if len(taken) == wanted:
                        return taken
            if self._node.clock() >= until:
                return taken
        if self._missed is not None:
            self._take_missed(self._missed, taken, wanted, owned)
        self.exhausted = not self._missed and len(taken) < wanted
        return taken

    def take_apart(self, apart: Evaluated | None, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        if apart is None:
            return allowing(REFUSED, partial(self.take, wanted, owned, until))
        self.pause()
        apart.begin()
        taken = apart.aside(partial(self.take, wanted, owned, until))
        if apart.overtaken:
            self.give_back(taken)
            apart.check()
        return taken

    def _take_missed(self, missed: _MissedChanges, taken: list[Match], wanted: int, owned: Predicate | None) -> None:
        while missed and len(taken) < wanted:
            again = missed.pop()
            if again is not None and self._predicate.matches(again[1]) and (owned is None or owned.matches(again[1])):
                taken.append(again)

    def _current(self, match: Match) -> Match | None:
        raw = self._collection.record(self._node.engine, match[0])
        return (match[0], raw) if raw is not None and self._predicate.matches(raw) else None

    def give_back(self, matches: list[Match]) -> None:
        self._found = chain(matches, self._found)
        self._overtaken = True
        self.exhausted = False

    def pause(self) -> None:
        self._paused_at = self._node.store.sequence
        if self._once and self._missed is None:
            self._missed = _MissedChanges(self._node, self._collection, self._predicate)

    def close(self) -> None:
        self._found = iter(())
        if self._missed is not None:
            self._missed.close()


class _ScriptedSearch:
    """Waits for scripts while it takes: what is given has been as it is since the last of the waits."""

    def __init__(
        self, node: DataNode, collection: Collection, tree: Filter, found: Iterator[Match | None], once: bool
    ) -> None:
        self.exhausted = False
        self._node = node
        self._collection = collection
        self._predicate: Predicate = compile_filter(tree)
        self._found = found
        # Others write while scripts are waited for; their writes must not wait for scripts themselves.
        self._missed = _MissedChanges(node, collection, compile_filter(weakened(tree))) if once else None
        self._again: list[int] = []

    def take(self, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        taken: list[Match] = []
        if not self._take_found(taken, wanted, owned, until):
            return taken
        while self._missed:
            found = self._missed.pop()
            if found is not None:
                self._again.append(found[0])
        while self._again and not taken:
            current = self._current(self._again.pop())
            if current is not None and (owned is None or owned.matches(current[1])):
                taken.append(current)
        self.exhausted = not self._again and not self._missed and len(taken) < wanted
        return taken

    def take_apart(self, apart: Evaluated | None, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        """Scripts are waited for in `take` itself."""
        return allowing(REFUSED, partial(self.take, wanted, owned, until))

    def _take_found(self, taken: list[Match], wanted: int, owned: Predicate | None, until: float) -> bool:
        """Whether the pass has come to its end."""
        for match in self._found:
            if match is None:
                if taken or self._node.clock() >= until:
                    return False
                continue
            raw = self._collection.record(self._node.engine, match[0])
            if raw != match[1]:
                self._again.append(match[0])
            elif owned is None or owned.matches(raw):
                taken.append(match)
                if len(taken) == wanted:
                    return False
        return True

    def _current(self, record_id: int) -> Match | None:
        raw = self._collection.record(self._node.engine, record_id)
        while raw is not None and self._predicate.matches(raw):
            again = self._collection.record(self._node.engine, record_id)
            if again == raw:
                return record_id, raw
            raw = again
        return None

    def give_back(self, matches: list[Match]) -> None:
        self._found = chain(matches, self._found)
        self.exhausted = False

    def pause(self) -> None:
        """Others are served within `take` too, so what they change is remembered from the beginning."""

    def close(self) -> None:
        self._found = iter(())
        if self._missed is not None:
            self._missed.close()


class _MissedChanges:
    """Remembers the documents that others change so that they match; false when there are none left."""

    def __init__(self, node: DataNode, collection: Collection, watch: Predicate) -> None:
        self._node = node
        self._collection = collection
        self._watch = watch
        self._identities: dict[bytes, Value] = {}
        self._unsubscribe = node.store.subscribe(self._changed)

    def __bool__(self) -> bool:
        return bool(self._identities)

    def pop(self) -> Match | None:
        """One of them as it stands now; None when it has gone."""
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
