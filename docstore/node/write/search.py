"""Finding the documents that a statement changes, in slices, so that a long search does not hold the loop.

The search goes through the state in which it began. What it finds after a pause in which others wrote is looked at
again as it stands now; where one document is wanted, changes made meanwhile are kept note of and looked at in the end.
So a document that a search gives matches at that moment, and when a search for one document ends without, no document
matches: an upsert may insert. Its own writer changes only what the search has already given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docstore.bson import Value, elements, get_field
from docstore.bson.walk import ARRAY, NULL, OBJECT, REGEX, STRING, UNDEFINED
from docstore.collection.collection import Collection
from docstore.collection.read.matching import find_matches
from docstore.collection.read.script_filter import has_scripts
from docstore.collection.unit_of_work import Commit
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Comparison, Filter, Op
from docstore.query.filter.where import weakened
from docstore.query.find import Hint
from docstore.query.sort import UNSORTED, Sort
from docstore.query.value.collation import Collation

_NO_IDENTITY = frozenset((ARRAY, NULL, OBJECT, REGEX, UNDEFINED))
"""Types that mean something else than equality in a filter on `_id`, or may do so."""

Match = tuple[int, bytes]
"""(record id, document)."""


def identity_of(tree: Filter, collation: Collation | None = None) -> Value | None:
    """The `_id` that the whole filter asks for; None when it asks for more or for something else.

    `collation`: that of the collection.
    """
    if not isinstance(tree, Comparison) or tree.path != "_id" or tree.op is not Op.EQ:
        return None
    compared_alike = tree.collation == collation or tree.value[0] != STRING
    return tree.value if compared_alike and tree.value[0] not in _NO_IDENTITY else None


def identity_filter(raw: bytes, collation: Collation | None = None) -> Filter | None:
    """The tree of a filter that asks for an `_id` and nothing else, as `parse_filter` gives it; None for others."""
    value = identity_in(raw)
    if value is None:
        return None
    return Comparison("_id", Op.EQ, value, collation if value[0] == STRING else None)


def identity_in(raw: bytes) -> Value | None:
    """The `_id` of a filter that asks for one and nothing else; None for others."""
    if raw[5:9] != b"_id\0":
        return None
    fields = elements(raw)
    if len(fields) != 1 or fields[0][1] in _NO_IDENTITY:
        return None
    return fields[0][1:]


class Search:
    """One pass over a collection. `exhausted`: there is nothing left behind what the last `take` gave.

    Without `once` many documents are wanted, and what others change after it was passed does not count.
    """

    def __init__(
        self,
        node: DataNode,
        collection: Collection,
        tree: Filter,
        *,
        sort: Sort = UNSORTED,
        hint: Hint | None = None,
        once: bool = True,
    ) -> None:
        self.exhausted = False
        self._node = node
        self._collection = collection
        self._predicate: Predicate = compile_filter(tree)
        self._scripted = has_scripts(tree)
        # Others write while scripts are waited for; their writes must not wait for scripts themselves.
        self._watch: Predicate = compile_filter(weakened(tree)) if self._scripted else self._predicate
        self._again: list[int] = []
        self._once = once
        # The store's sequence at the last pause, and whether another's unit has committed in one of them.
        self._paused_at: int | None = None
        self._overtaken = False
        self._found: Iterator[Match | None] = find_matches(
            collection, tree, node.engine, sort=sort, hint=hint, clock=node.clock
        )
        self._missed: dict[bytes, Value] | None = None
        self._unsubscribe: Callable[[], None] | None = None

    def take(self, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        """Up to `wanted` documents that match now; fewer when time is up or nothing is left (`exhausted`).

        They are to be changed before the next await and before the next call.
        """
        if self._scripted:
            return self._take_scripted(wanted, owned, until)
        taken: list[Match] = []
        if self._paused_at is not None and self._paused_at != self._node.store.sequence:
            self._overtaken = True
        for match in self._found:
            if match is not None:
                current = self._current(match) if self._overtaken else match
                if current is not None and (owned is None or owned.matches(current[1])):
                    taken.append(current)
                    if len(taken) == wanted:
                        return taken
            if self._node.clock() >= until:
                return taken
        self._take_missed(taken, wanted, owned)
        self.exhausted = not self._missed and len(taken) < wanted
        return taken

    def _take_scripted(self, wanted: int, owned: Predicate | None, until: float) -> list[Match]:
        """The same with waits in it: what is given has been as it is since the last of them."""
        if self._once and self._missed is None:
            self.pause()
        taken: list[Match] = []
        for match in self._found:
            if match is None:
                if taken or self._node.clock() >= until:
                    return taken
                continue
            raw = self._collection.record(self._node.engine, match[0])
            if raw != match[1]:
                self._again.append(match[0])
            elif owned is None or owned.matches(raw):
                taken.append(match)
                if len(taken) == wanted:
                    return taken
        while self._missed:
            _, identity = self._missed.popitem()
            found = self._collection.by_id(self._node.engine, identity)
            if found is not None:
                self._again.append(found[0])
        while self._again and not taken:
            current = self._current((self._again.pop(), b""))
            if current is not None and (owned is None or owned.matches(current[1])):
                taken.append(current)
        self.exhausted = not self._again and not self._missed and len(taken) < wanted
        return taken

    def _take_missed(self, taken: list[Match], wanted: int, owned: Predicate | None) -> None:
        while self._missed and len(taken) < wanted:
            _, identity = self._missed.popitem()
            again = self._collection.by_id(self._node.engine, identity)
            if again is not None and self._predicate.matches(again[1]) and (owned is None or owned.matches(again[1])):
                taken.append(again)

    def close(self) -> None:
        """Let go of the iterator and of the subscription."""
        self._found = iter(())
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def pause(self) -> None:
        """The loop will serve others before the next step: from now on what they change is kept note of."""
        self._paused_at = self._node.store.sequence
        if self._once and self._missed is None:
            self._missed = {}
            self._unsubscribe = self._node.store.subscribe(self._changed)

    def _changed(self, commit: Commit) -> None:
        assert self._missed is not None, "changes are kept note of after the first pause"
        for change in commit.changes:
            if change.ns == self._collection.ns and change.after is not None and change.op in ("i", "u"):
                identity = get_field(change.after, "_id")
                if identity is not None and self._watch.matches(change.after):
                    self._missed[encode_key(identity)] = identity

    def _current(self, match: Match) -> Match | None:
        raw = self._collection.record(self._node.engine, match[0])
        if not self._scripted:
            return (match[0], raw) if raw is not None and self._predicate.matches(raw) else None
        while raw is not None and self._predicate.matches(raw):
            again = self._collection.record(self._node.engine, match[0])
            if again == raw:
                return match[0], raw
            raw = again
        return None
