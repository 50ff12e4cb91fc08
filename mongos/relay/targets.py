"""The targets of filters: from their bytes where the shape of the filter is known, else from the parsed filter.

The position of the shard key's values in a filter is found once for its shape (`docstore.kernel.match.form`). Further
filters of the shape only encode these values and look them up in the chunk map. A filter that bounds the key's first
field without fixing the key is parsed each time, and so is one without a shape: a long one, a text or geo search, one
under a collation or with variables.

Invariants:

- the target is that of `mongos.routing.targeting` under the same routing, and so are the errors of a filter that is
  parsed;
- targets prepared under one routing are not used under another.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_not
from typing import NamedTuple, Protocol

import bson

from docstore.bson import OBJECT, Value, document_from, elements, encoded_fields, get_field
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
from mongos.routing.cache import version_for
from mongos.routing.requests import other_versions, version_field
from mongos.routing.targeting import Target, delete_target, exact_shard, filter_shards, primary_of, update_target

_ENDED = b"\x12id\0" + bytes(8)
_CURSOR_AT = 4 + len(b"\x03cursor\0") + 4
"""The offset in a reply of a `cursor` whose batch comes last, and the beginning of one that is exhausted."""
_UNKEYED: tuple[int, ...] = ()
"""The positions for shapes that do not fix the shard key."""

Language = Callable[[], QueryContext]
"""Returns the context for parsing filters; called on first use."""


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
        "_beside", "_by_form", "_cache", "_first", "_last", "_only", "_places", "_targets", "_versions", "_whole_batch",
        "all_shards", "routing",
    )  # fmt: skip

    def __init__(self, routing: Routing, cache: KnownRouting) -> None:
        self.routing = routing
        self._cache = cache
        self._beside: dict[frozenset[str], _Beside] = {}
        name = routing.namespace.encode() + b"\0"
        self._whole_batch = b"\x12id\0" + bytes(8) + b"\x02ns\0" + len(name).to_bytes(4, "little") + name + b"\0"
        self._places: dict[bytes, tuple[int, ...]] = {}
        self._targets: dict[str, Target] = {}
        self._versions: dict[str, bytes] = {}
        # Keys of column families are calculated, not values of a filter.
        self._by_form = routing.collection is None or routing.collection.partitioner is None
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
            version = version_for(self.routing, shard)
            field = self._versions[shard] = b"" if version is None else version_field(version)
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

    def of_filter(self, filter_: bytes, language: Language, *, plain: bool = True) -> Target:
        """Return the shards that may have matches of the filter; none without a database.

        `plain`: the request has no collation and no variables. Errors: those of the filter.
        """
        if self.routing.primary is None:
            parse_filter(filter_, query_context=language())
            return Target(())
        formed = form_of(filter_) if plain and self._by_form else None
        if formed is None:
            return Target(tuple(filter_shards(self.routing, parse_filter(filter_, query_context=language()))))
        positions = self._places.get(formed[0])
        if positions is None:
            positions = self._prepare(formed[0], filter_, language())
        if positions is not _UNKEYED:
            return self._on(self._chunk(positions, formed[1]).shard)
        if self._only is not None:
            return self._on(self._only)
        return Target(self._bounded(formed[0], filter_, language))

    def of_one(self, filter_: bytes, language: Language, *, plain: bool = True) -> Target:
        """Return the shard of the one document that a findAndModify changes. Errors: ShardKeyNotFound; those of the
        filter, except for a collection on one shard, which reports them.
        """
        if self.routing.collection is None:
            return self._on(primary_of(self.routing))
        chunk = self._chunk_of(filter_, language) if plain else None
        if chunk is None:
            tree = parse_filter(filter_, query_context=language())
            return self._on(exact_shard(self.routing, tree, "findAndModify"))
        return self._on(chunk.shard)

    def of_update(self, statement: bytes, language: Language, *, plain: bool = True) -> Target:
        """Return the target of an update statement. Errors: those of `update_target`."""
        if self.routing.collection is None:
            return self._on(primary_of(self.routing))
        chunk = self._chunk_of_statement(statement, language) if plain else None
        if chunk is None:
            return update_target(self.routing, statement, language())
        return Target((chunk.shard,), chunk)

    def of_delete(self, statement: bytes, language: Language, *, plain: bool = True) -> Target:
        """Return the target of a delete statement. Errors: those of `delete_target`."""
        if self.routing.collection is None:
            return self._on(primary_of(self.routing))
        chunk = self._chunk_of_statement(statement, language) if plain else None
        return delete_target(self.routing, statement, language()) if chunk is None else self._on(chunk.shard)

    def _on(self, shard: str) -> Target:
        target = self._targets.get(shard)
        if target is None:
            target = self._targets[shard] = Target((shard,))
        return target

    def _bounded(self, form: bytes, filter_: bytes, language: Language) -> tuple[str, ...]:
        """The shards for a filter that does not fix the shard key, but may bound it. Errors: those of the filter."""
        if self._first not in form:
            return self.all_shards
        last_filter, shards = self._last
        if last_filter == filter_:
            return shards
        collection = self.routing.collection
        assert collection is not None, "what is not sharded is on one shard"
        shards = tuple(shards_for_filter(collection.chunks, parse_filter(filter_, query_context=language())))
        self._last = filter_, shards
        return shards

    def _chunk_of_statement(self, statement: bytes, language: Language) -> Chunk | None:
        """Return the chunk of `{q, ...}` if the bytes of its filter fix the shard key."""
        filter_value = get_field(statement, "q")
        if filter_value is None or filter_value[0] != OBJECT:
            return None
        if get_field(statement, "collation") or get_field(statement, "c"):
            # The filter means something else.
            return None
        return self._chunk_of(filter_value[1], language)

    def _chunk_of(self, filter_: bytes, language: Language) -> Chunk | None:
        """Return the chunk of a filter whose bytes fix the shard key. Errors: those of the filter."""
        formed = form_of(filter_) if self._by_form else None
        if formed is None:
            return None
        positions = self._places.get(formed[0])
        if positions is None:
            positions = self._prepare(formed[0], filter_, language())
        return None if positions is _UNKEYED else self._chunk(positions, formed[1])

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

    def known(self, namespace: str) -> NamespaceTargets | None:
        """Return the targets of a namespace; None if its routing is not cached."""
        routing = self._cache.known(namespace)
        if routing is None:
            return None
        targets = self._by_namespace.get(namespace)
        return targets if targets is not None and targets.routing is routing else self.under(routing)

    def under(self, routing: Routing) -> NamespaceTargets:
        """Return the targets of a namespace under this routing."""
        namespace = routing.namespace
        targets = self._by_namespace.get(namespace)
        if targets is None or targets.routing is not routing:
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
