# cython: annotation_typing=False
"""A collection and its indexes as they stand in memory; the rows on disk are the catalog's.

Invariants, all checked by `docstore.collection.validate`:

* every document has one entry in the `_id` index, from the encoded `_id` to its record id, and in each other index
  one entry for each of its keys there; an index holds nothing else;
* record ids grow with each insert and are not given again while the process runs: natural order is insertion order,
  but that of `_id` where the collection is clustered;
* `count` and `size` (bytes of BSON) are those of the committed records; a write unit stores the counters in its own
  batch;
* an index whose `multikey` is false has at most one entry for each document.
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
"""(count, size in bytes) as the counters row holds them."""

unpack_counters = struct.Struct(">qq").unpack

_MOST_KEPT = 256
"""Changes of which a collection keeps the indexes that they concern."""

AFTER_RECORD_ID = b"\xff" * 9
"""Appended to a key without its record id, this is above all entries of that key."""


class Index:
    """One index. `places` are where arrays have been met, in bits as those of `KeyPattern.keys`; they only grow.
    `multikey`: there are any.

    Entries of the `_id` index are key -> marks + record id; of others key + record id -> marks, the unique ones too:
    uniqueness is checked, not built in, so that a clone that is not yet consistent can be stored. The marks, mostly
    none, are what the key does not say of the values (`docstore.kernel.scan.covered`). `collisions` holds the unique
    entries (without record id) that were met twice while the index was not `ready`.

    What the planner asks of every index stands here beside the specification, of which it never changes: `fields`
    (dotted path, and 1 or -1, or 0 for a hashed or a wildcard field), the filter of a `partial` index, what an
    index of `wildcard` paths, of `geometry` or of `text` holds, and the top-level `fields_read` of a document on which
    its entries depend (None: it may be any).
    """

    __slots__ = (
        "__weakref__", "_arrays", "_covered", "_keys_of", "_reads", "collation", "collisions", "fields", "fields_read",
        "geometry", "ident", "is_id", "key_id", "key_pattern", "partial", "places", "prefix", "ready", "spec", "text",
        "unique", "uses", "wildcard",
    )  # fmt: skip

    def __init__(self, spec: IndexSpec, ident: int, *, places: int = 0, ready: bool = True) -> None:
        self.spec = spec
        self.ident = ident
        self.places = places
        self._arrays = (0, frozenset[str]())
        self.ready = ready
        self.unique = spec.unique
        self.fields = spec.fields
        self.partial = spec.partial
        self.wildcard = spec.wildcard
        self.geometry = spec.geometry
        self.text = spec.text
        self.uses = 0
        self.collisions: set[bytes] = set()
        self.prefix = ident_bytes(ident)
        self.collation = spec.collation
        # What a hash or a wildcard index holds is made from folded documents.
        plain = spec.collation is not None and spec.wildcard is None and not spec.hashed
        self.key_pattern = KeyPattern(spec.fields, spec.collation.fold if plain and spec.collation else None)
        self.key_id = encode_key((OBJECT, spec.key))
        self.is_id = spec.is_id
        self._keys_of = keys_of(spec, self.key_pattern)
        self._covered: Predicate | None = coverage_of(spec)
        self._reads = places_read(spec)
        self.fields_read = None if self._reads is None else frozenset(map(first_name, self._reads))

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def holds_every_document(self) -> bool:
        """Whether each document has an entry with a key of its values."""
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
        """The end of the range of this index's entries in the `indexes` family."""
        return ident_end(self.ident)

    @property
    def multikey(self) -> bool:
        """Whether a document can have more than one entry."""
        return self.places != 0

    @property
    def arrays(self) -> frozenset[str]:
        """The paths, each the beginning of a field's or the whole of one, at which arrays have been met.

        Those of a wildcard index are not kept apart: of a compound one there is "$**" where it has met any.
        """
        if self._arrays[0] != self.places:
            paths = () if self.spec.wildcard is not None else [path for path, _ in self.fields]
            arrays = array_places(paths, self.places)
            if self.spec.wildcard is not None and len(self.fields) > 1 and self.places & ARRAYS_MET:
                arrays = frozenset(("$**",))
            self._arrays = (self.places, arrays)
        return self._arrays[1]

    def keys(self, raw: bytes, *, tolerant: bool = False) -> tuple[list[bytes], int]:
        """(the document's encoded keys, distinct and in order; where arrays were expanded), as `marked_keys`."""
        found = self.marked_keys(raw, tolerant=tolerant)
        return found[0], found[1]

    def marked_keys(self, raw: bytes, *, tolerant: bool = False) -> tuple[list[bytes], int, bytes]:
        """(the document's encoded keys, distinct and in order; where arrays were expanded; the marks that its
        entries hold: `docstore.kernel.scan.covered`).

        Errors for a document that the index cannot hold: `REFUSALS`; where that is tolerated it has no keys.
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
        """A function of (prefix, document, record id, entries, marked), which appends the document's entries, puts
        those that hold marks into `marked`, and gives where arrays were expanded. Errors: as `marked_keys`.
        """
        if not tolerant and self.is_of_values:
            return self.key_pattern.add_entries

        def add(prefix: bytes, raw: bytes, rid: bytes, entries: list[bytes], marked: dict[bytes, bytes]) -> int:
            keys, places, marks = self.marked_keys(raw, tolerant=tolerant)
            added = [prefix + key + rid for key in keys]
            entries += added
            if marks:
                marked.update(dict.fromkeys(added, marks))
            return places

        return add

    @property
    def is_of_values(self) -> bool:
        """Whether its pattern alone says which keys a document has."""
        return self._covered is None and self._keys_of == self.key_pattern.marked_keys

    def may_change(self, changed: frozenset[bytes]) -> bool:
        """Whether the entries of a document may be others after a change of these places."""
        return self._reads is None or meet(self._reads, changed)

    def covers(self, raw: bytes) -> bool:
        """Whether the index holds the document."""
        return self._covered is None or self._covered.matches(raw)

    def calculation(self) -> KeysOf:
        """What gives the keys of a document that the index covers, and shares nothing with other requests: these may
        run in the middle of it.
        """
        pattern = KeyPattern(self.key_pattern.fields, self.key_pattern.fold)
        spec = self.spec
        return partial(keys_in_pieces, pattern) if spec.over_values and not spec.hashed else keys_of(spec, pattern)

    def grow(self, places: int) -> Callable[[], None]:
        """Note where arrays have been met; what takes that back, if the write that did it is aborted."""
        before = self.places
        self.places |= places

        def shrink() -> None:
            self.places = before

        return shrink

    def unready(self) -> None:
        """Take back that the index is ready: the write that ended its build is aborted."""
        self.ready = False

    def record_id(self, key: bytes, value: bytes) -> bytes:
        """The 8 bytes of the record id in an entry."""
        return value[-8:] if self.is_id else key[-8:]


class Collection:
    """One collection. Reads take a `Reader`; writes go through a `WriteUnitOfWork`.

    `indexes` are ready for use, `building` are kept up to date by writes but not yet complete. `heads` are the encoded
    beginnings of the oplog entries, by operation. `guards`: what it holds says who may do what.
    `oldest`: no record that stands has a lower id. `newest_id`: no entry
    of the `_id` index has a higher key; None while that is not known.
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

    def __init__(self, ns: str, uuid: UUID, options: CollectionOptions, ident: int, id_index: Index) -> None:
        self.ns = ns
        self.uuid = uuid
        self.options = options
        self.plant(ident)
        self.replicates = replicates(ns)
        self.guards = ns in REMEMBERED_NAMESPACES
        self.id_index = id_index
        self.id_prefix = id_index.prefix
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
        """Replace the sets of indexes; `secondary` is what each write keeps up to date besides the `_id` index."""
        self.indexes = ready
        self.building = building
        self.plans.clear()
        self._changing.clear()
        self.secondary = tuple(index for index in (*ready.values(), *building.values()) if not index.is_id)
        self.has_unique = any(index.unique for index in self.secondary)

    def indexes_of(self, changed: frozenset[bytes] | None) -> tuple[Index, ...]:
        """Those besides the `_id` index whose entries may change where these places do; None: any place."""
        if changed is None:
            return self.secondary
        found = self._changing.get(changed)
        if found is None:
            found = tuple(index for index in self.secondary if index.may_change(changed))
            if len(self._changing) < _MOST_KEPT:
                self._changing[changed] = found
        return found

    def plant(self, ident: int) -> None:
        """Keep what the collection holds under another ident from now on; the catalog keeps the row."""
        self.ident = ident
        self.prefix = ident_bytes(ident)
        self.end = ident_end(ident)
        self.counters_key = COUNTERS_PREFIX + self.prefix
        # What its keys begin with where it holds rows.
        self.rows_prefix = family_prefix(ident)

    def rename(self, ns: str) -> None:
        """Take another name; the catalog keeps the row."""
        self.ns = ns
        self.replicates = replicates(ns)
        self.guards = ns in REMEMBERED_NAMESPACES
        self.heads = {op: entry_head(op, ns, self.uuid) for op in "iudm"}

    def look_up(self, reader: Reader, id_value: Value) -> tuple[int, bytes] | None:
        """`by_id` for a request, which counts as a use of the index."""
        self.id_index.uses += 1
        return self.by_id(reader, id_value)

    def by_id(self, reader: Reader, id_value: Value) -> tuple[int, bytes] | None:
        """(record id, document) of the document with that `_id`."""
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
        """The key of a document in the `_id` index."""
        collation = self.id_index.collation
        if collation is None:
            return identity_key(self.id_prefix, raw)
        id_value = get_field(raw, "_id")
        assert id_value is not None, "a stored document has an _id"
        return self.id_prefix + encode_key(collation.fold(id_value))

    def id_entry(self, raw: bytes, rid: bytes) -> bytes:
        """What the `_id` index holds for a document behind its key: the marks and the record id."""
        return rid if self.id_index.collation is not None else identity_marks(raw) + rid

    def id_entries(self, documents: list[bytes], rids: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        """`id_key` and `id_entry` of many documents."""
        if self.id_index.collation is not None:
            return [self.id_key(raw) for raw in documents], rids
        return identity_entries(self.id_prefix, documents, rids)

    @property
    def collation(self) -> Collation | None:
        """That of requests which name none."""
        return self.id_index.collation

    def record(self, reader: Reader, record_id: int) -> bytes | None:
        """The document with that record id."""
        return reader.get(_RECORDS, self.prefix + record_id_bytes(record_id))

    @property
    def counted_indexes(self) -> list[Index]:
        """Those that are something besides the documents: what a clustered collection is ordered by is not."""
        return [index for index in self.indexes.values() if not index.spec.clustered]

    def documents(self, reader: Reader, *, reverse: bool = False) -> Iterator[bytes]:
        """All documents in natural order."""
        if self.options.clustered is None:
            yield from reader.values(_RECORDS, self.prefix, self.end, reverse)
            return
        for entry in reader.values(_INDEXES, self.id_prefix, self.id_index.end, reverse):
            raw = reader.get(_RECORDS, self.prefix + entry[-RECORD_ID_BYTES:])
            assert raw is not None, f"{self.ns}: the _id index leads to no record"
            yield raw

    def records(self, reader: Reader, *, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """(record id, document) in the order of record ids, from the first record id above `after`."""
        start = self.prefix + record_id_bytes(after + 1)
        for key, raw in reader.items(_RECORDS, start, self.end):
            yield long_of(key, 4), raw

    def find_last_record_id(self, reader: Reader) -> int:
        """The highest record id in use, 0 when there is none."""
        return next(map(last_long, reader.keys(_RECORDS, self.prefix, self.end, True)), 0)

    def find_newest_id(self, reader: Reader) -> bytes:
        """The highest key in the `_id` index, or one below all where there is none; kept as `newest_id`."""
        self.newest_id = next(iter(reader.keys(_INDEXES, self.id_prefix, self.id_index.end, True)), self.id_prefix)
        return self.newest_id

    def __repr__(self) -> str:
        return f"Collection({self.ns!r}, ident={self.ident}, count={self.count})"
