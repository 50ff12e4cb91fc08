# cython: annotation_typing=False
"""A collection and its indexes in memory; the catalog owns the rows on disk.

Invariants, all checked by `docstore.collection.validate`:

* Each document has one entry in the `_id` index, from the encoded `_id` to its record id, and one entry per key in each
  other index. An index holds nothing else.
* Record ids increase with each insert and are not reused while the process runs. Natural order is insertion order, or
  `_id` order in a clustered collection.
* `count` and `size` (bytes of BSON) are those of the committed records. A write unit stores the counters in its batch.
* An index whose `multikey` is false has at most one entry per document.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from docstore.bson import OBJECT, Value, get_field
from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.index.geo_keys import KeysOf
from docstore.collection.index.keys import REFUSALS, coverage_of, keys_of
from docstore.collection.index.pieces import keys_in_pieces
from docstore.collection.index.reads import places_read
from docstore.collection.index.spec import IndexSpec
from docstore.collection.limits import MAX_CACHED_FIELD_SETS
from docstore.collection.oplog.entry import entry_head
from docstore.collection.read.index_filters import IndexFilters
from docstore.collection.read.plan_cache import PlanCache
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key, identity_key
from docstore.kernel.keys.new_documents import identity_entries
from docstore.kernel.keys.pattern import KeyPattern, array_places
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.scan.covered import identity_marks
from docstore.key_layout import (
    COUNTERS_PREFIX,
    RECORD_ID_BYTES,
    family_prefix,
    ident_bytes,
    ident_end,
    last_long,
    long_of,
    record_id_bytes,
)
from docstore.namespace import REMEMBERED_NAMESPACES, replicates, split_namespace
from docstore.query.plan.wildcard import ARRAYS_MET
from docstore.query.value.collation import Collation
from docstore.query.value.places import first_name, meet
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.storage import Reader

_INDEXES, _RECORDS = Family.INDEXES, Family.RECORDS

pack_counters = struct.Struct(">qq").pack
"""Encode (count, size in bytes) as the counters row."""

unpack_counters = struct.Struct(">qq").unpack


AFTER_RECORD_ID = b"\xff" * 9
"""Appended to a key without record id, this is above all entries of that key."""


class Index:
    """One index. `array_bits`: the multikey positions, a bit mask as in `KeyPattern.keys`, which only grows.

    Entries of the `_id` index are key -> marks + record id. Others are key + record id -> marks, also in unique
    indexes: uniqueness is checked, not built in, so that an inconsistent clone can be stored. The marks, mostly empty,
    record what the key does not preserve of the values (`docstore.kernel.scan.covered`). `collisions`: the unique
    entries (without record id) that occurred twice while the index was not `ready`.

    For speed, the attributes that the planner needs are copied from the immutable specification: `fields` (dotted path,
    and 1 or -1, or 0 for a hashed or wildcard field), the `partial` filter, and the `wildcard`, `geometry` or `text`
    key generator. `fields_read`: the top-level fields that determine a document's entries (None: any).
    """

    __slots__ = (
        "__weakref__", "_arrays", "_covered", "_keys_of", "_reads", "array_bits", "collation", "collisions", "fields",
        "fields_read", "geometry", "ident", "is_id", "key_id", "key_pattern", "partial", "prefix", "ready", "spec",
        "text", "unique", "uses", "wildcard",
    )  # fmt: skip

    def __init__(self, spec: IndexSpec, ident: int, *, array_bits: int = 0, ready: bool = True) -> None:
        self.spec = spec
        self.ident = ident
        self.array_bits = array_bits
        self._arrays = (0, frozenset[str]())
        self.ready = ready
        self.unique: bool = spec.unique
        self.fields = spec.fields
        self.partial = spec.partial
        self.wildcard = spec.wildcard
        self.geometry = spec.geometry
        self.text = spec.text
        self.uses = 0
        self.collisions: set[bytes] = set()
        self.prefix: bytes = ident_bytes(ident)
        self.collation = spec.collation
        # Hashed and wildcard indexes fold the documents, not the keys.
        plain = spec.collation is not None and spec.wildcard is None and not spec.hashed
        self.key_pattern = KeyPattern(spec.fields, spec.collation.fold if plain and spec.collation else None)
        self.key_id: bytes = encode_key((OBJECT, spec.key))
        self.is_id: bool = spec.is_id
        self._keys_of = keys_of(spec, self.key_pattern)
        self._covered: Predicate | None = coverage_of(spec)
        self._reads = places_read(spec)
        self.fields_read = None if self._reads is None else frozenset(map(first_name, self._reads))

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def holds_every_document(self) -> bool:
        """True if each document has an entry whose key holds its values."""
        spec = self.spec
        return spec.over_values and not spec.hashed and not spec.sparse and spec.partial is None

    @property
    def sparse(self) -> bool:
        return self.spec.sparse

    @property
    def hidden(self) -> bool:
        return self.spec.hidden

    @property
    def end(self) -> bytes:
        """The end of this index's key range in the `indexes` family."""
        return ident_end(self.ident)

    @property
    def multikey(self) -> bool:
        """True if a document may have more than one entry."""
        return self.array_bits != 0

    @property
    def arrays(self) -> frozenset[str]:
        """The multikey paths: index field paths, or prefixes of them, at which documents have arrays.

        A wildcard index does not distinguish paths: a compound one has "$**" if any document has an array.
        """
        if self._arrays[0] != self.array_bits:
            paths = () if self.spec.wildcard is not None else [path for path, _ in self.fields]
            arrays = array_places(paths, self.array_bits)
            if self.spec.wildcard is not None and len(self.fields) > 1 and self.array_bits & ARRAYS_MET:
                arrays = frozenset(("$**",))
            self._arrays = (self.array_bits, arrays)
        return self._arrays[1]

    def keys(self, raw: bytes, *, tolerant: bool = False) -> tuple[list[bytes], int]:
        """Return (the document's encoded keys, distinct and sorted; positions of expanded arrays), as `marked_keys`."""
        marked = self.marked_keys(raw, tolerant=tolerant)
        return marked[0], marked[1]

    def marked_keys(self, raw: bytes, *, tolerant: bool = False) -> tuple[list[bytes], int, bytes]:
        """Return (the document's encoded keys, distinct and sorted; positions of expanded arrays; the marks of its
        entries).

        Marks: `docstore.kernel.scan.covered`. Errors: `REFUSALS` for a document that the index cannot hold; with
        `tolerant` it has no keys.
        """
        if self._covered is not None and not self._covered.matches(raw):
            return [], 0, b""
        try:
            return self._keys_of(raw)
        except CommandError as error:
            if tolerant and error.code in REFUSALS:
                return [], 0, b""
            raise

    def adder(self, *, tolerant: bool) -> Callable[[bytes, bytes, bytes, list[bytes], dict[bytes, bytes]], int]:
        """Return a function of (prefix, document, record id, entries, marked) that appends the document's entries.

        It adds entries with marks to `marked`, and returns the positions of expanded arrays. Errors: as `marked_keys`.
        """
        if not tolerant and self.is_of_values:
            return self.key_pattern.add_entries

        def add(prefix: bytes, raw: bytes, rid: bytes, entries: list[bytes], marked: dict[bytes, bytes]) -> int:
            keys, array_bits, marks = self.marked_keys(raw, tolerant=tolerant)
            added = [prefix + key + rid for key in keys]
            entries += added
            if marks:
                marked.update(dict.fromkeys(added, marks))
            return array_bits

        return add

    @property
    def is_of_values(self) -> bool:
        """True if the key pattern alone determines a document's keys: no filter, hash or other kind."""
        return self._covered is None and self._keys_of == self.key_pattern.marked_keys

    def may_change(self, changed: frozenset[bytes]) -> bool:
        """True if a change of these fields may change a document's entries."""
        return self._reads is None or meet(self._reads, changed)

    def covers(self, raw: bytes) -> bool:
        """True if the index holds the document."""
        return self._covered is None or self._covered.matches(raw)

    def calculation(self) -> KeysOf:
        """Return a function from a covered document to its keys, which may yield: it shares no state with other
        requests.
        """
        pattern = KeyPattern(self.key_pattern.fields, self.key_pattern.fold)
        spec = self.spec
        return partial(keys_in_pieces, pattern) if spec.over_values and not spec.hashed else keys_of(spec, pattern)

    def grow(self, array_bits: int) -> Callable[[], None]:
        """Add multikey positions; return the undo, for an aborted write."""
        before = self.array_bits
        self.array_bits |= array_bits

        def shrink() -> None:
            self.array_bits = before

        return shrink

    def unready(self) -> None:
        """Mark the index as not ready: the unit that finished its build aborted."""
        self.ready = False

    def record_id(self, key: bytes, value: bytes) -> bytes:
        """Return the 8 bytes of the record id of an entry."""
        return value[-8:] if self.is_id else key[-8:]


class Collection:
    """One collection. Reads take a `Reader`; writes go through a `WriteUnitOfWork`.

    `indexes` are ready for use; `building` are maintained by writes but incomplete. `heads`: the encoded first fields
    of oplog entries, by operation. `guards`: the collection determines privileges (users, roles).
    `oldest`: a lower bound of the record ids. `newest_id`: an upper bound of the keys in the `_id` index; None:
    unknown.
    """

    __slots__ = (
        "_changing",
        "building",
        "count",
        "counters_key",
        "end",
        "guards",
        "has_unique",
        "heads",
        "id_index",
        "id_prefix",
        "ident",
        "index_filters",
        "indexes",
        "newest_id",
        "next_record_id",
        "ns",
        "oldest",
        "options",
        "plans",
        "prefix",
        "replicates",
        "rows_prefix",
        "secondary",
        "size",
        "uuid",
    )
    counters_key: bytes
    end: bytes
    prefix: bytes
    rows_prefix: bytes

    def __init__(self, ns: str, uuid: UUID, options: CollectionOptions, ident: int, id_index: Index) -> None:
        self.ns = ns
        self.uuid = uuid
        self.options = options
        self.plant(ident)
        self.replicates: bool = replicates(ns)
        self.guards = ns in REMEMBERED_NAMESPACES
        self.id_index = id_index
        self.id_prefix: bytes = id_index.prefix
        self.indexes: dict[str, Index] = {id_index.name: id_index}
        self.building: dict[str, Index] = {}
        self.secondary: tuple[Index, ...] = ()
        self._changing: dict[frozenset[bytes], tuple[Index, ...]] = {}
        self.has_unique = False
        self.plans = PlanCache()
        self.index_filters = IndexFilters()
        self.heads = {op: entry_head(op, ns, uuid) for op in "iudm"}
        self.count = 0
        self.size = 0
        self.next_record_id = 1
        self.newest_id: bytes | None = None
        self.oldest = 0

    @property
    def database(self) -> str:
        return split_namespace(self.ns)[0]

    @property
    def name(self) -> str:
        """The namespace without the database."""
        return split_namespace(self.ns)[1]

    def set_indexes(self, ready: dict[str, Index], building: dict[str, Index]) -> None:
        """Replace the indexes. `secondary`: those that each write maintains besides the `_id` index."""
        self.indexes = ready
        self.building = building
        self.plans.clear()
        self._changing.clear()
        self.secondary = tuple(index for index in (*ready.values(), *building.values()) if not index.is_id)
        self.has_unique = any(index.unique for index in self.secondary)

    def indexes_of(self, changed: frozenset[bytes] | None) -> tuple[Index, ...]:
        """Return the secondary indexes whose entries may change with these fields; None: any field."""
        if changed is None:
            return self.secondary
        indexes = self._changing.get(changed)
        if indexes is None:
            indexes = tuple(index for index in self.secondary if index.may_change(changed))
            if len(self._changing) < MAX_CACHED_FIELD_SETS:
                self._changing[changed] = indexes
        return indexes

    def plant(self, ident: int) -> None:
        """Set the ident of the collection's tree. The catalog writes the row."""
        self.ident = ident
        self.prefix = ident_bytes(ident)
        self.end = ident_end(ident)
        self.counters_key = COUNTERS_PREFIX + self.prefix
        # The key prefix of the rows of a column family.
        self.rows_prefix = family_prefix(ident)

    def rename(self, ns: str) -> None:
        """Set the name. The catalog writes the row."""
        self.ns = ns
        self.replicates = replicates(ns)
        self.guards = ns in REMEMBERED_NAMESPACES
        self.heads = {op: entry_head(op, ns, self.uuid) for op in "iudm"}

    def look_up(self, reader: Reader, id_value: Value) -> tuple[int, bytes] | None:
        """Return as `by_id`, counting a use of the index, for a request."""
        self.id_index.uses += 1
        return self.by_id(reader, id_value)

    def by_id(self, reader: Reader, id_value: Value) -> tuple[int, bytes] | None:
        """Return (record id, document) of the document with that `_id`."""
        if self.id_index.collation is not None:
            id_value = self.id_index.collation.fold(id_value)
        rid = reader.get(_INDEXES, self.id_prefix + encode_key(id_value))
        if rid is None:
            return None
        if len(rid) > RECORD_ID_BYTES:
            rid = rid[-RECORD_ID_BYTES:]
        raw = reader.get(_RECORDS, self.prefix + rid)
        assert raw is not None, f"{self.ns}: the _id index leads to no record"
        return long_of(rid), raw

    def id_key(self, raw: bytes) -> bytes:
        """Return the key of a document in the `_id` index."""
        collation = self.id_index.collation
        if collation is None:
            return identity_key(self.id_prefix, raw)
        id_value = get_field(raw, "_id")
        assert id_value is not None, "a stored document has an _id"
        return self.id_prefix + encode_key(collation.fold(id_value))

    def id_entry(self, raw: bytes, rid: bytes) -> bytes:
        """Return the value of a document's entry in the `_id` index: the marks and the record id."""
        return rid if self.id_index.collation is not None else identity_marks(raw) + rid

    def id_entries(self, documents: list[bytes], rids: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return `id_key` and `id_entry` of many documents."""
        if self.id_index.collation is not None:
            return [self.id_key(raw) for raw in documents], rids
        return identity_entries(self.id_prefix, documents, rids)

    @property
    def collation(self) -> Collation | None:
        """The default collation of requests."""
        return self.id_index.collation

    def record(self, reader: Reader, record_id: int) -> bytes | None:
        """Return the document with that record id."""
        return reader.get(_RECORDS, self.prefix + record_id_bytes(record_id))

    @property
    def counted_indexes(self) -> list[Index]:
        """Return the indexes with a tree of their own: all but the cluster key."""
        return [index for index in self.indexes.values() if not index.spec.clustered]

    def documents(self, reader: Reader, *, reverse: bool = False) -> Iterator[bytes]:
        """Yield all documents in natural order."""
        if self.options.clustered is None:
            yield from reader.values(_RECORDS, self.prefix, self.end, reverse)
            return
        for entry in reader.values(_INDEXES, self.id_prefix, self.id_index.end, reverse):
            raw = reader.get(_RECORDS, self.prefix + entry[-RECORD_ID_BYTES:])
            assert raw is not None, f"{self.ns}: the _id index leads to no record"
            yield raw

    def records(self, reader: Reader, *, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (record id, document) in record id order, starting above `after`."""
        start = self.prefix + record_id_bytes(after + 1)
        for key, raw in reader.items(_RECORDS, start, self.end):
            yield long_of(key, 4), raw

    def find_last_record_id(self, reader: Reader) -> int:
        """Return the highest record id in use; 0 if there is none."""
        return next(map(last_long, reader.keys(_RECORDS, self.prefix, self.end, True)), 0)

    def find_newest_id(self, reader: Reader) -> bytes:
        """Return the highest key of the `_id` index, or one below all keys if it is empty; cache it as `newest_id`."""
        self.newest_id = next(iter(reader.keys(_INDEXES, self.id_prefix, self.id_index.end, True)), self.id_prefix)
        return self.newest_id

    def __repr__(self) -> str:
        return f"Collection({self.ns!r}, ident={self.ident}, count={self.count})"
