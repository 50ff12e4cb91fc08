"""Prepared targets: the shard that a request is for, found from its bytes.

The position of the shard key's values in a filter is found once for its shape (`docstore.kernel.match.form`). Further
filters of the shape only encode these values and look them up in the chunk map. A filter that bounds the key's first
field without fixing the key is parsed each time.

Invariants:

- the target is that of `mongos.routing.targeting` under the same routing;
- there is none for filters too long to have a shape, nor for text and geo searches;
- targets prepared under one routing are not used under another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_not
from typing import NamedTuple, Protocol

import bson

from docstore.bson import OBJECT, Value, append_fields, document_from, elements, encoded_fields, get_field
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.form import form_of
from docstore.namespace import split_namespace
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Comparison, Filter, Op
from docstore.query.plan.bounds import conditions
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import Routing
from docstore.sharding.targeting import shards_for_filter
from mongos.limits import MAX_TARGET_FORMS, MAX_TARGET_NAMESPACES
from mongos.routing.requests import other_versions, version_field

_ENDED = b"\x12id\0" + bytes(8)
_CURSOR_AT = 4 + len(b"\x03cursor\0") + 4
"""The offset in a reply of a `cursor` whose batch comes last, and the beginning of one that is exhausted."""
_UNKEYED: tuple[int, ...] = ()
"""The positions for shapes that do not fix the shard key."""

Language = Callable[[], QueryContext]
"""Returns the context for parsing filters; called on first use."""


class Aim(NamedTuple):
    """The target shard of a request. `chunk`: the chunk to which it writes `size` bytes; None if they are not
    counted. `more`: encoded fields to add for the shard.
    """

    shard: str
    chunk: Chunk | None = None
    size: int = 0
    more: bytes = b""


class KnownRouting(Protocol):
    """The cached routing of namespaces."""

    def known(self, namespace: str) -> Routing | None:
        """Return the cached routing; None if there is none."""

    def read_with(self, db: str, names: frozenset[str]) -> frozenset[str]:
        """Return the names that a read of `names` in the database involves, as far as is known."""


class _Beside(NamedTuple):
    """Collections that are read beside another: their names, their routing, and the field that says it. `shard`: where
    all of them are, whole.
    """

    names: frozenset[str]
    routing: list[Routing]
    shard: str
    field: bytes


class NamespaceTargets:
    """The prepared targets of one namespace under one routing."""

    __slots__ = (
        "_beside", "_cache", "_first", "_last", "_only", "_places", "_versions", "_whole_batch", "all_shards", "routing"
    )  # fmt: skip

    def __init__(self, routing: Routing, cache: KnownRouting) -> None:
        self.routing = routing
        self._cache = cache
        self._beside: dict[frozenset[str], _Beside] = {}
        name = routing.namespace.encode() + b"\0"
        self._whole_batch = b"\x12id\0" + bytes(8) + b"\x02ns\0" + len(name).to_bytes(4, "little") + name + b"\0"
        self._places: dict[bytes, tuple[int, ...]] = {}
        self._versions: dict[str, bytes] = {}
        self._first = b""
        # The shards of the last filter that was read for them.
        self._last: tuple[bytes, tuple[str, ...]] = (b"", ())
        self.all_shards: tuple[str, ...] = ()
        """The shards that have some of the collection if they are several."""
        # The shard that every filter leads to.
        self._only = routing.primary
        if routing.collection is not None:
            shards = routing.collection.chunks.counts
            self._only = next(iter(shards)) if len(shards) == 1 else None
            if self._only is None:
                self._first = routing.collection.key.fields[0].partition(".")[0].encode()
                self.all_shards = tuple(sorted(shards))

    def version(self, shard: str) -> bytes:
        """Return the field with the shard version of a request."""
        field = self._versions.get(shard)
        if field is None:
            field = self._versions[shard] = version_field(self.routing.shard_version(shard))
        return field

    def beside(self, names: frozenset[str], shard: str) -> bytes | None:
        """Return the field that tells the shard the routing of the other collections that are read in the database.

        None if the shard does not have all of them whole, or their routing is not cached.
        """
        cache, db = self._cache, split_namespace(self.routing.namespace)[0]
        read = cache.read_with(db, names)
        candidates = [cache.known(f"{db}.{name}") for name in read]
        entry = self._beside.get(names)
        if entry is None or entry.names != read or any(map(is_not, entry.routing, candidates)):
            routing = [candidate for candidate in candidates if candidate is not None and candidate.collection is None]
            primaries = {candidate.primary for candidate in routing}
            (primary,) = primaries if len(primaries) == 1 else (None,)
            if primary is None or len(routing) < len(read):
                return None
            if len(self._beside) >= MAX_TARGET_FORMS:
                self._beside.clear()
            fields = other_versions(dict(zip(read, routing, strict=True)))
            entry = self._beside[names] = _Beside(read, routing, primary, encoded_fields(bson.encode(fields)))
        return entry.field if entry.shard == shard else None

    def is_whole(self, reply: bytes, end: int) -> bool:
        """True if the cursor in a reply, whose own fields end at `end`, is exhausted."""
        suffix = self._whole_batch
        return reply.startswith(suffix, end - len(suffix)) or reply.startswith(_ENDED, _CURSOR_AT)

    def of_any(self) -> Aim | None:
        """Return a shard that has some of the collection."""
        collection = self.routing.collection
        name = self._only if collection is None else min(collection.chunks.counts)
        return None if name is None else Aim(name)

    def of_filter(self, filter_: bytes, language: Language) -> Aim | None:
        """Return the target of a filter if all matches are on one shard."""
        formed = form_of(filter_)
        if formed is None:
            return None
        positions = self._known_places(formed[0], filter_, language)
        if positions is None:
            return None
        if positions is not _UNKEYED:
            return Aim(self._chunk(positions, formed[1]).shard)
        if self._only is not None:
            return Aim(self._only)
        shards = self._bounded(formed[0], filter_, language)
        return Aim(shards[0]) if len(shards) == 1 else None

    def of_several(self, filter_: bytes, language: Language) -> tuple[str, ...]:
        """Return the shards that may have matches of the filter if they are several; else none."""
        formed = form_of(filter_) if self.all_shards else None
        if formed is None or self._known_places(formed[0], filter_, language) is not _UNKEYED:
            return ()
        shards = self._bounded(formed[0], filter_, language)
        return shards if len(shards) > 1 else ()

    def _bounded(self, form: bytes, filter_: bytes, language: Language) -> tuple[str, ...]:
        """The shards for a filter that does not fix the shard key, but may bound it."""
        if self._first not in form:
            return self.all_shards
        last_filter, shards = self._last
        if last_filter == filter_:
            return shards
        collection = self.routing.collection
        assert collection is not None, "what is not sharded is on one shard"
        try:
            tree = parse_filter(filter_, query_context=language())
        except CommandError:
            # The full routing reports the error.
            return ()
        shards = tuple(shards_for_filter(collection.chunks, tree))
        self._last = filter_, shards
        return shards

    def versioned(self, body: bytes, shard: str) -> bytes:
        """Return the request with the shard version."""
        return append_fields(body, self.version(shard))

    def of_one(self, filter_: bytes, language: Language, size: int = 0) -> Aim | None:
        """Return the target of a write whose filter fixes the shard key; it writes `size` bytes to the chunk."""
        if self.routing.collection is None:
            return None if self._only is None else Aim(self._only)
        key_parts = self._formed(filter_, language)
        if key_parts is None or key_parts[0] is _UNKEYED:
            return None
        chunk = self._chunk(*key_parts)
        return Aim(chunk.shard, chunk if size else None, size)

    def of_statements(
        self, statements: Sequence[bytes], language: Language, size: Callable[[bytes], int]
    ) -> Aim | None:
        """Return the target of the only statement of an update or delete, `{q, ...}`."""
        if len(statements) != 1:
            return None
        statement = statements[0]
        filter_value = get_field(statement, "q")
        if filter_value is None or filter_value[0] != OBJECT:
            return None
        if self.routing.collection is not None and (get_field(statement, "collation") or get_field(statement, "c")):
            # The filter means something else.
            return None
        return self.of_one(filter_value[1], language, size(statement))

    def of_documents(self, documents: Sequence[bytes]) -> Aim | None:
        """Return the target of the only new document if it has its `_id` and a shard key."""
        if len(documents) != 1:
            return None
        document = documents[0]
        if get_field(document, "_id") is None:
            return None
        collection = self.routing.collection
        if collection is None:
            return None if self._only is None else Aim(self._only)
        try:
            chunk = collection.chunks.chunk_at(collection.key.key_of(document))
        except CommandError:
            return None
        return Aim(chunk.shard, chunk, len(document))

    def _formed(self, filter_: bytes, language: Language) -> tuple[tuple[int, ...], list[Value]] | None:
        """Return (positions of the shard key's values, values) of a filter; None if it cannot be prepared."""
        formed = form_of(filter_)
        if formed is None:
            return None
        positions = self._known_places(formed[0], filter_, language)
        return None if positions is None else (positions, formed[1])

    def _known_places(self, form: bytes, filter_: bytes, language: Language) -> tuple[int, ...] | None:
        """Return the positions of the shard key's values in a shape; None if the filter is refused."""
        positions = self._places.get(form)
        if positions is None:
            try:
                positions = self._prepare(form, filter_, language())
            except CommandError:
                # The full routing reports the error.
                return None
        return positions

    def _chunk(self, places: tuple[int, ...], values: list[Value]) -> Chunk:
        collection = self.routing.collection
        assert collection is not None, "what is not sharded has no key"
        if len(places) == 1:
            return collection.chunks.chunk_at(encode_key(values[places[0]]))
        return collection.chunks.chunk_at(b"".join([encode_key(values[position]) for position in places]))

    def _prepare(self, form: bytes, filter_: bytes, language: QueryContext) -> tuple[int, ...]:
        """Find the positions of the shard key's values. Errors: those of the filter."""
        tree = parse_filter(filter_, query_context=language)
        collection = self.routing.collection
        positions = _UNKEYED if collection is None else _places(filter_, tree, collection.key.fields)
        if len(self._places) >= MAX_TARGET_FORMS:
            self._places.clear()
        self._places[form] = positions
        return positions


class PreparedTargets:
    """The prepared targets of all namespaces of a router."""

    def __init__(self, cache: KnownRouting) -> None:
        self._cache = cache
        self._by_namespace: dict[str, NamespaceTargets] = {}

    def of(self, namespace: str) -> NamespaceTargets | None:
        """Return the targets of a namespace; None if its routing is not cached, or is of a column family."""
        routing = self._cache.known(namespace)
        if routing is None:
            return None
        targets = self._by_namespace.get(namespace)
        if targets is None or targets.routing is not routing:
            if routing.collection is not None and routing.collection.partitioner is not None:
                return None
            if len(self._by_namespace) >= MAX_TARGET_NAMESPACES:
                self._by_namespace.clear()
            targets = self._by_namespace[namespace] = NamespaceTargets(routing, self._cache)
        return targets


def _places(filter_: bytes, tree: Filter, key: tuple[str, ...]) -> tuple[int, ...]:
    """Return the positions of the shard key's values in the filter's shape."""
    conditions_by_path = conditions(tree)
    positions: list[int] = []
    for path in key:
        if any(other.startswith(f"{path}.") or path.startswith(f"{other}.") for other in conditions_by_path):
            return _UNKEYED
        condition = conditions_by_path.get(path)
        if condition is None or condition.groups or len(condition.single) != 1:
            return _UNKEYED
        only = condition.single[0]
        position = _place(filter_, path) if isinstance(only, Comparison) and only.op is Op.EQ else None
        if position is None:
            return _UNKEYED
        positions.append(position)
    return tuple(positions)


def _place(filter_: bytes, path: str) -> int | None:
    """Return the position of the value that the path is compared with, among the values of the filter's shape."""
    fields = elements(filter_)
    at = [index for index, (name, _, _) in enumerate(fields) if name == path]
    if len(at) != 1:
        return None
    before, after = (form_of(document_from(fields[: at[0] + extra])) for extra in (0, 1))
    if before is None or after is None or len(after[1]) != len(before[1]) + 1:
        return None
    return len(before[1])
