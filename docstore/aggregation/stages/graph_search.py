"""Breadth-first searches of a `$graphLookup`, and their shared cache.

- One step queries many values at once, in several queries if needed.
- Every document is reached once, at its minimum depth.
- `NodeCache` caches the documents that values lead to, within a memory bound.
- If an index serves these queries, the cache is filled for many documents together before the searches (`Prefetcher`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from docstore.aggregation.expressions.field_paths import walk
from docstore.aggregation.expressions.model import Evaluate, Scope
from docstore.aggregation.limits import MAX_KEY_SET_ENTRIES
from docstore.aggregation.stage import Environment, Equality, Pipeline, Stage, memory_exceeded
from docstore.aggregation.stages.foreign import equal_to_any, other_collections
from docstore.aggregation.stages.join import BATCH, Table
from docstore.aggregation.stages.unwind import replaced
from docstore.aggregation.streams import Stream
from docstore.bson.walk import ARRAY, OBJECT, Value, get_field, values
from docstore.errors import CommandError
from docstore.kernel.group.partners import ASKED_ALONE, Node, reached
from docstore.query.filter.tree import Filter
from docstore.query.value.values import int64_value

_AT_ONCE = 64
"""Documents reached between two checks of the clock."""

_PARTS = 64

_ASKED_AT_ONCE = 8192
"""Maximum values per query: planning more would take long."""

_KNOWN_BYTES = 64 * 1024 * 1024
_PER_NODE = 250
"""Bytes of memory of a cached document besides its own, and again for each value that it leads to."""


@dataclass(frozen=True, slots=True)
class GraphRelation(Stage):
    """The relation of a `$graphLookup`. `connect_from`: the parts of a path. `most`: the maximum depth; None:
    unlimited.
    """

    raw: bytes
    collection: str
    start: Evaluate
    connect_from: list[str]
    connect_to: str
    as_path: str
    most: int | None
    depth_field: str | None
    conditions: list[tuple[bytes, Filter]]
    """Filters, raw and parsed, for every document reached."""
    everything: Pipeline


class NodeCache:
    """A bounded cache of the documents that values lead to. `nodes`: by value key, in the order of a query for that
    value.
    """

    def __init__(self, stage: GraphRelation, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._collation = stage.everything.query_context.collation
        self.key_of = stage.everything.query_context.ordering.key
        self.clock = environment.clock
        self.nodes: dict[bytes, list[Node]] = {}
        self._held = 0

    @cached_property
    def served(self) -> Equality | None:
        """The index by which one query finds the documents of many values in value order; None if there is none.

        It has one entry per document.
        """
        stage = self._stage
        if len(stage.conditions) > 1:
            return None
        equality = other_collections(self._environment).equality(stage.collection, stage.connect_to, self._collation)
        return equality if equality is not None and equality.query is None and equality.ascending else None

    def query(self, values_asked: list[Value]) -> Stream:
        """Return the documents that the values lead to."""
        stage = self._stage
        match = equal_to_any(stage.connect_to, values_asked, self._collation, besides=stage.conditions)
        return other_collections(self._environment).open(stage.collection, stage.everything.starting_with(match))

    def query_by_keys(self, keyed_values: list[tuple[bytes, Value]]) -> Stream:
        """Return the documents that the values lead to, given with their keys. Value equality must be key equality."""
        if self.served is not None and self.served.by_keys is not None:
            return self.served.by_keys(sorted(key for key, _ in keyed_values))
        return self.query([value for _, value in keyed_values])

    def node(self, document: bytes) -> Node:
        identity = get_field(document, "_id")
        key = self.key_of(identity) if identity is not None else document
        return key, document, self.leads(walk((OBJECT, document), self._stage.connect_from))

    def leads(self, value: Value | None) -> list[tuple[bytes, Value]]:
        """Return the values to search for, with their keys, given the value at the path."""
        if value is None:
            return []
        if value[0] != ARRAY:
            return [(self.key_of(value), value)]
        return [(self.key_of(member), member) for member in values(value[1])]

    def reached(self, document: bytes) -> list[bytes] | None:
        """Return the result of a search from a document, if it is small and entirely cached; else None."""
        stage = self._stage
        if stage.depth_field is not None or not self.nodes:
            return None
        leads = self.leads(stage.start(Scope(document)))
        return reached(leads, self.nodes, -1 if stage.most is None else stage.most, in_order=self.served is not None)

    @property
    def has_room(self) -> bool:
        """True if the cache has room."""
        return self._held <= _KNOWN_BYTES and not self._environment.buffers.crowded

    def keep(self, key: bytes, nodes: list[Node]) -> None:
        """Cache the documents of a value, unless they are very large. Without room, everything else is evicted."""
        self.make_room()
        self.keep_beside(key, nodes)

    def keep_beside(self, key: bytes, nodes: list[Node]) -> bool:
        """Cache the documents of a value without evicting others. False if there is no room, and nothing was cached."""
        size = len(key) + _PER_NODE + sum(len(node[1]) + _PER_NODE * (1 + len(node[2])) for node in nodes)
        if not self.has_room or size > _KNOWN_BYTES:
            return False
        self.nodes[key] = nodes
        self.hold(size)
        return True

    def make_room(self) -> None:
        """Clear the cache if it is full."""
        if not self.has_room:
            self.nodes = {}
            self.hold(-self._held)

    def hold(self, size: int) -> None:
        """Account for `size` more bytes of memory."""
        self._held += size
        self._environment.buffers.change(size)


class Prefetcher:
    """Prefetches the documents reachable from some documents: level by level, by few queries, while the cache has
    room.
    """

    def __init__(self, stage: GraphRelation, documents: list[bytes], cache: NodeCache) -> None:
        self._stage = stage
        self._cache = cache
        self._depth = -1
        self._wanted: dict[bytes, Value] = {}
        self._asking: list[tuple[bytes, Value]] = []
        self._asked: list[tuple[bytes, Value]] = []
        self._reading: Stream | None = None
        self._table = Table(stage.connect_to, stage.everything.query_context)
        self._sorting: Iterator[None] = iter(())
        self.was_too_much = False
        """True if it ended for lack of room."""
        for document in documents:
            try:
                value = stage.start(Scope(document))
            except CommandError:
                # The search from this document raises it again, if requested.
                return
            self._want(cache.leads(value))

    def _want(self, leads: list[tuple[bytes, Value]]) -> None:
        nodes = self._cache.nodes
        for key, value in leads:
            if key not in nodes and value[0] not in ASKED_ALONE:
                self._wanted[key] = value

    def advance(self, deadline: float) -> bool:
        """Continue until `deadline`; True at the end."""
        cache = self._cache
        while True:
            for _ in self._sorting:
                if cache.clock() >= deadline:
                    return False
            if self.was_too_much or (self._reading is None and not self._ask()):
                return True
            assert self._reading is not None, "a query has begun"
            documents, last = self._reading.next_batch(deadline)
            before = self._table.size
            self._table.add(documents)
            cache.hold(self._table.size - before)
            self.was_too_much = not cache.has_room
            if last or self.was_too_much:
                self._reading = None
                self._sorting = self._sorted_out(self._table, complete=last)
            elif not documents or cache.clock() >= deadline:
                return False

    def _ask(self) -> bool:
        """Start the next query; False if there is none."""
        if not self._asking and not self._go_deeper():
            return False
        self._asked = self._asking[:BATCH]
        del self._asking[:BATCH]
        self._table = Table(self._stage.connect_to, self._stage.everything.query_context)
        self._reading = self._cache.query_by_keys(self._asked)
        return True

    def _go_deeper(self) -> bool:
        if not self._wanted or self._depth == self._stage.most:
            return False
        self._depth += 1
        self._asking, self._wanted = list(self._wanted.items()), {}
        return True

    def _sorted_out(self, table: Table, *, complete: bool) -> Iterator[None]:
        """Cache the documents of each queried value, if the query is complete; yield every few documents."""
        cache = self._cache
        cache.hold(-table.size)
        for key, value in self._asked if complete else ():
            nodes: list[Node] = []
            for count, document in enumerate(table.find([value]), 1):
                nodes.append(cache.node(document))
                if count % _AT_ONCE == 0:
                    yield
            # Evicting would cause repeated queries at each level.
            if not cache.keep_beside(key, nodes):
                self.was_too_much = True
                return
            for node in nodes:
                self._want(node[2])
            yield


class Search:
    """The search from one document. `found`: the documents reached."""

    def __init__(self, stage: GraphRelation, document: bytes, cache: NodeCache, environment: Environment) -> None:
        self._stage = stage
        self._environment = environment
        self._cache = cache
        self._depth_path = None if stage.depth_field is None else stage.depth_field.split(".")
        self._depth = -1
        self._asked: set[bytes] = set()
        self._frontier: list[tuple[bytes, Value]] = []
        self._asking: list[tuple[bytes, Value]] = []
        self._reading: Stream | None = None
        self._single: tuple[bytes, list[Node]] | None = None
        """The key of the only value being queried, and its documents so far."""
        self._nodes: list[Node] = []
        self._at = 0
        self._held = 0
        self._reached = _Keys()
        self.found: list[bytes] = []
        self._lead_to(cache.leads(stage.start(Scope(document))))

    def _lead_to(self, leads: list[tuple[bytes, Value]]) -> None:
        keys = self._asked
        for lead in leads:
            if lead[0] not in keys:
                keys.add(lead[0])
                self._frontier.append(lead)

    def advance(self, deadline: float) -> bool:
        """Continue until `deadline`; True at the end."""
        while True:
            while self._at < len(self._nodes):
                some = self._nodes[self._at : self._at + _AT_ONCE] if len(self._nodes) > _AT_ONCE else self._nodes
                self._at += len(some)
                for node in some:
                    self._reach(node)
                if self._environment.clock() >= deadline:
                    return False
            if self._reading is None:
                if not self._asking and not self._go_deeper():
                    return True
                if not self._take_known():
                    self._ask()
                continue
            documents, last = self._reading.next_batch(deadline)
            self._nodes, self._at = list(map(self._cache.node, documents)), 0
            if self._single is not None:
                self._single[1].extend(self._nodes)
            if last:
                self._reading = None
                if self._single is not None:
                    self._cache.keep(*self._single)
            elif not documents:
                return False

    def _go_deeper(self) -> bool:
        """Start the next level; False if it is empty or exceeds the maximum depth."""
        if not self._frontier or self._depth == self._stage.most:
            return False
        self._depth += 1
        self._asking, self._frontier = self._frontier, []
        return True

    def _take_known(self) -> bool:
        """Take the cached documents of the values, in the order of a query for all of them."""
        nodes = self._cache.nodes
        if len(self._asking) == 1:
            matches = nodes.get(self._asking[0][0])
            if matches is None:
                return False
            self._nodes, self._at = matches, 0
            self._asking = []
            return True
        leads = self._asking[:_ASKED_AT_ONCE]
        if self._cache.served is None or any(key not in nodes or value[0] in ASKED_ALONE for key, value in leads):
            return False
        self._nodes, self._at = [node for key in sorted(key for key, _ in leads) for node in nodes[key]], 0
        del self._asking[:_ASKED_AT_ONCE]
        return True

    def _ask(self) -> None:
        leads = self._asking[:_ASKED_AT_ONCE]
        del self._asking[:_ASKED_AT_ONCE]
        self._single = (leads[0][0], []) if len(leads) == 1 else None
        self._reading = self._cache.query([value for _, value in leads])

    def _reach(self, node: Node) -> None:
        key, document, leads = node
        if not self._reached.add(key):
            return
        self._lead_to(leads)
        if self._depth_path is not None:
            document = replaced(document, self._depth_path, int64_value(self._depth))
        self.found.append(document)
        self._held += len(key) + len(document)
        if self._held > self._environment.memory_limit:
            raise memory_exceeded("$graphLookup", self._environment.memory_limit)


class _Keys:
    """A set of keys, partitioned into several sets if large: resizing one large set would take long."""

    def __init__(self) -> None:
        self._first: set[bytes] = set()
        self._parts: list[set[bytes]] = []

    def add(self, key: bytes) -> bool:
        """Add a key; True if it was absent."""
        keys = self._parts[hash(key) % _PARTS] if self._parts else self._first
        if key in keys:
            return False
        keys.add(key)
        if not self._parts and len(keys) > MAX_KEY_SET_ENTRIES:
            self._parts = [set() for _ in range(_PARTS)]
            for member in self._first:
                self._parts[hash(member) % _PARTS].add(member)
        return True
