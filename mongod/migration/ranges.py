"""Walking a range of shard keys in a collection by an index that begins with the key."""

from __future__ import annotations

from collections.abc import Iterator

from docstore.bson import Value, get_field
from docstore.collection.collection import Collection, Index
from docstore.collection.read.fetch import fetching
from docstore.errors import Code, CommandError
from docstore.kernel.scan.fetch import Examined
from docstore.key_layout import long_of
from docstore.node.ddl.shard_key_rules import serves
from docstore.node.node import DataNode
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.storage import Family, Reader


def key_index(collection: Collection, key: ShardKey) -> Index:
    """An index that begins with the shard key. IndexNotFound when there is none that holds every document once."""
    for index in collection.indexes.values():
        if serves(index, key):
            return index
    raise CommandError(Code.IndexNotFound, f"{collection.ns} has no index that begins with the shard key {key}")


def entries(
    reader: Reader, index: Index, low: bytes, high: bytes, *, reverse: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Yield (encoded index key, record id) of the documents with shard keys in `[low, high)`, in key order.

    If the index has further fields, its keys are longer, and begin with the shard key.
    """
    prefix = len(index.prefix)
    for entry, value in reader.items(Family.INDEXES, index.prefix + low, index.prefix + high, reverse):
        end = len(entry) if index.is_id else -8
        yield entry[prefix:end], long_of(index.record_id(entry, value))


def documents(reader: Reader, collection: Collection, index: Index, bounds: KeyRange) -> Iterator[bytes]:
    """The documents of the range, in key order."""
    read = reader.values if index.is_id else reader.keys
    index_entries = read(Family.INDEXES, index.prefix + bounds.min.key, index.prefix + bounds.max.key)
    examined = Examined()
    yield from fetching(collection, index_entries, reader, examined, None, bare=True)
    assert examined.keys == examined.documents, f"{collection.ns}: an index entry leads to no record"


def shard_keys(
    reader: Reader, collection: Collection, key: ShardKey, bounds: KeyRange, *, reverse: bool = False
) -> Iterator[bytes]:
    """The encoded shard keys of the range's documents, in their order. IndexNotFound."""
    index = key_index(collection, key)
    longer = len(index.fields) > len(key.fields)
    for encoded, record_id in entries(reader, index, bounds.min.key, bounds.max.key, reverse=reverse):
        yield key.key_of(collection.record(reader, record_id) or b"") if longer else encoded


def bound_at(node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange, point: bytes) -> Bound:
    """The bound whose encoding is `point`, read from the first document there. ConflictingOperationInProgress."""
    for _, record_id in entries(node.engine, key_index(collection, key), point, bounds.max.key):
        raw = collection.record(node.engine, record_id)
        assert raw is not None, f"{collection.ns}: an index entry leads to no record"
        return key.bound_of(raw)
    raise CommandError(Code.ConflictingOperationInProgress, "the documents at a split point have just gone")


def in_range(key: ShardKey, bounds: KeyRange, document: bytes) -> bool:
    """True if the document's shard key is in the range; false for a document that cannot have a shard key."""
    try:
        return bounds.holds(key.key_of(document))
    except CommandError as error:
        if error.code == Code.ShardKeyNotFound:
            return False
        raise


def id_of(document: bytes) -> Value:
    """The `_id` of a stored document."""
    value = get_field(document, "_id")
    assert value is not None, "a stored document has an _id"
    return value
