from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.objectid import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from configsvr.catalog.changelog import Changelog
from configsvr.catalog.chunks import Chunks
from configsvr.catalog.cluster import Cluster
from configsvr.catalog.leases import Leases
from configsvr.catalog.records import CHANGELOG, CHUNKS, COLLECTIONS, ChunkRecord, CollectionRecord
from configsvr.catalog.tables import Tables
from docstore.bson import get_field
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.version import Lastmod, ShardVersion
from docstore.storage import open_engine
from tests.unit.sharding.maps import KEY, at, shown

UUID = Binary(bytes(range(16)), 4)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Catalog:
    """The parts of the catalog over one in-memory store, with two shards and a partitioned database."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = Store(open_engine("inMemory", ""), clock=self.clock)
        self.store.attach_oplog(1 << 30)
        self.tables = Tables(self.store, self.clock)
        self.tables.initialise()
        self.cluster = Cluster(self.tables)
        self.chunks = Chunks(self.tables)
        self.leases = Leases(self.tables)
        for name in ("shard1", "shard2"):
            self.cluster.add_shard(name, f"{name}/h:1", [])
        self.cluster.ensure_database("test", partitioned=True, primary="shard1")

    def shard(self, namespace: str, key: ShardKey, unique: bool, uuid: Binary, shard: str) -> ShardVersion:
        database = self.cluster.database(namespace.partition(".")[0])
        assert database is not None
        return self.chunks.shard(namespace, key, unique, uuid, shard, version=database.version)

    def sharded(self) -> CollectionRecord:
        self.shard("test.test", KEY, False, UUID, "shard1")
        record = self.chunks.collection("test.test")
        assert record is not None
        return record

    def map(self, record: CollectionRecord) -> ChunkMap:
        raws = self.chunks.changed_since(record, None, self.store.engine)
        return ChunkMap.from_catalog(KEY, record.epoch, [Chunk.from_raw(KEY, raw) for raw in raws])


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


def test_the_walk_through_as_commits(catalog: Catalog) -> None:
    record = catalog.sharded()
    assert shown(catalog.map(record))[0][1:] == ("shard1", "1|0")
    catalog.chunks.split(record, "shard1", KEY.everything, [at("1")])
    catalog.chunks.split(record, "shard1", KeyRange(at("1"), KEY.max), [at("999")])
    version = catalog.chunks.move(record, KeyRange(at("999"), KEY.max), Lastmod(1, 4), "shard1", "shard2")
    assert version.lastmod == Lastmod(2, 1)
    assert [row[1:] for row in shown(catalog.map(record))] == [
        ("shard1", "2|1"),
        ("shard1", "1|3"),
        ("shard2", "2|0"),
    ]


def test_commits_that_were_made_already_answer_the_same_and_change_nothing(catalog: Catalog) -> None:
    record = catalog.sharded()
    first = catalog.chunks.split(record, "shard1", KEY.everything, [at("1"), at("5")])
    assert catalog.chunks.split(record, "shard1", KEY.everything, [at("1"), at("5")]) == first
    top = KeyRange(at("5"), KEY.max)
    moved = catalog.chunks.move(record, top, Lastmod(1, 3), "shard1", "shard2")
    before = catalog.store.last_optime
    assert catalog.chunks.move(record, top, Lastmod(1, 3), "shard1", "shard2") == moved
    assert catalog.shard("test.test", KEY, False, UUID, "shard1") == catalog.chunks.version(record)
    assert catalog.store.last_optime == before


def refuses(code: Code) -> Any:
    return pytest.raises(CommandError, check=lambda error: error.code == code)


def test_a_move_is_refused_unless_the_chunk_has_exactly_the_version_seen(catalog: Catalog) -> None:
    record = catalog.sharded()
    catalog.chunks.split(record, "shard1", KEY.everything, [at("5")])
    top = KeyRange(at("5"), KEY.max)
    for bounds, lastmod, donor in (
        (top, Lastmod(1, 1), "shard1"),
        (top, Lastmod(1, 2), "shard2"),
        (KEY.everything, Lastmod(1, 2), "shard1"),
    ):
        with refuses(Code.ConflictingOperationInProgress):
            catalog.chunks.move(record, bounds, lastmod, donor, "shard3")


def test_raising_the_version_keeps_a_delayed_commit_from_succeeding(catalog: Catalog) -> None:
    record = catalog.sharded()
    assert catalog.chunks.raise_version(record, KEY.everything, Lastmod(1, 0)) == "shard1"
    with refuses(Code.ConflictingOperationInProgress):
        catalog.chunks.move(record, KEY.everything, Lastmod(1, 0), "shard1", "shard2")
    assert catalog.chunks.raise_version(record, KEY.everything, Lastmod(1, 0)) == "shard1"
    assert catalog.chunks.version(record).lastmod == Lastmod(2, 0)


def test_after_a_committed_move_raising_the_version_only_tells_the_owner(catalog: Catalog) -> None:
    record = catalog.sharded()
    catalog.chunks.move(record, KEY.everything, Lastmod(1, 0), "shard1", "shard2")
    assert catalog.chunks.raise_version(record, KEY.everything, Lastmod(1, 0)) == "shard2"
    assert catalog.chunks.version(record).lastmod == Lastmod(2, 0)


def test_another_incarnation_is_stale(catalog: Catalog) -> None:
    record = catalog.sharded()
    with refuses(Code.StaleEpoch):
        catalog.chunks.expect("test.test", ObjectId())
    catalog.chunks.remove(record)
    with refuses(Code.StaleEpoch):
        catalog.chunks.expect("test.test", record.epoch)
    assert not list(catalog.tables.all(CHUNKS))


def test_a_collection_is_sharded_once_and_only_where_its_database_lives(catalog: Catalog) -> None:
    catalog.sharded()
    with refuses(Code.AlreadyInitialized):
        catalog.shard("test.test", KEY, True, UUID, "shard1")
    with refuses(Code.IllegalOperation):
        catalog.shard("test.other", KEY, False, Binary(bytes(16), 4), "shard2")
    catalog.cluster.ensure_database("plain", partitioned=False, primary=None)
    with refuses(Code.IllegalOperation):
        catalog.shard("plain.c", KEY, False, Binary(bytes(16), 4), "shard1")


def test_a_database_of_another_version_takes_no_sharded_collection(catalog: Catalog) -> None:
    before = catalog.cluster.database("test")
    assert before is not None
    catalog.cluster.drop_database("test")
    catalog.cluster.ensure_database("test", partitioned=True, primary="shard1")
    with refuses(Code.StaleDbVersion):
        catalog.chunks.shard("test.test", KEY, False, UUID, "shard1", version=before.version)


def test_a_dropped_collection_is_not_sharded_by_a_delayed_request(catalog: Catalog) -> None:
    record = catalog.sharded()
    catalog.cluster.note_dropped("test.test", record.uuid)
    catalog.chunks.remove(record)
    with refuses(Code.OperationFailed):
        catalog.shard("test.test", KEY, False, UUID, "shard1")
    assert catalog.shard("test.test", KEY, False, Binary(bytes(15) + b"1", 4), "shard1").sharded


def test_incremental_reads_give_what_changed_since(catalog: Catalog) -> None:
    record = catalog.sharded()
    catalog.chunks.split(record, "shard1", KEY.everything, [at(10), at(20)])
    known, since = catalog.map(record), catalog.chunks.version(record)
    catalog.chunks.move(record, KeyRange(at(10), at(20)), Lastmod(1, 2), "shard1", "shard2")
    raws = list(catalog.chunks.changed_since(record, since, catalog.store.engine))
    assert len(raws) == 3
    assert shown(known.updated([Chunk.from_raw(KEY, raw) for raw in raws])) == shown(catalog.map(record))


def prefixes(store: Store) -> Iterator[list[bytes]]:
    """What a member has of config.chunks after each oplog entry, in the order of the oplog."""
    assert store.oplog is not None
    state: dict[bytes, bytes] = {}

    for entry in store.oplog.scan(store.engine, 0):
        body = bson.decode(entry)
        if body["ns"] != CHUNKS:
            continue
        found = get_field(entry, "o")
        assert found is not None
        if body["op"] == "i":
            state[body["o"]["_id"].binary] = found[1]
        elif body["op"] == "d":
            del state[body["o"]["_id"].binary]
        else:
            identity = body["o2"]["_id"].binary
            diff = body["o"].get("diff")
            document = body["o"] if diff is None else {**bson.decode(state[identity]), **applied(diff)}
            state[identity] = bson.encode(document)
        yield list(state.values())


def applied(diff: dict[str, dict[str, object]]) -> dict[str, object]:
    assert not set(diff) - {"u", "i"} - {name for name in diff if name.startswith("s")}
    changed = {**diff.get("u", {}), **diff.get("i", {})}
    if any(name.startswith("s") for name in diff):
        changed.pop("history", None)
    return changed


@given(st.integers(0, 2**32))
def test_a_failover_in_the_middle_of_any_commit_leaves_a_sound_map(seed: int) -> None:
    """Each commit is several oplog entries: every beginning of the oplog must read as a map, and a move that is not
    there whole must not have happened."""
    rng = random.Random(seed)
    catalog = Catalog()
    record = catalog.sharded()
    for _ in range(rng.randrange(1, 8)):
        chunk = rng.choice(list(catalog.map(record)))
        points = sorted({rng.randrange(100) for _ in range(rng.randrange(1, 4))})
        inside = [at(point) for point in points if chunk.min.key < at(point).key < chunk.max.key]
        if rng.random() < 0.6 and inside:
            catalog.chunks.split(record, chunk.shard, chunk.range, inside)
        else:
            to = "shard2" if chunk.shard == "shard1" else "shard1"
            catalog.chunks.move(record, chunk.range, chunk.lastmod, chunk.shard, to)
    before: ChunkMap | None = None
    for raws in prefixes(catalog.store):
        after = ChunkMap.from_catalog(KEY, record.epoch, [ChunkRecord.from_raw(raw, KEY).chunk for raw in raws])
        if before is not None:
            for chunk in before:
                if after.chunk_at(chunk.min.key).shard != chunk.shard:
                    assert after.shard_version(chunk.shard).major in (0, after.version.major)
        before = after
    assert before is not None
    assert shown(before) == shown(catalog.map(record))


def test_databases_get_the_shard_with_fewest(catalog: Catalog) -> None:
    assert catalog.cluster.ensure_database("a", partitioned=False, primary=None).primary == "shard2"
    assert catalog.cluster.ensure_database("b", partitioned=False, primary=None).primary == "shard1"
    assert catalog.cluster.ensure_database("a", partitioned=True, primary=None).partitioned
    with refuses(Code.NamespaceExists):
        catalog.cluster.ensure_database("a", partitioned=True, primary="shard1")
    with refuses(Code.DatabaseDifferCase):
        catalog.cluster.ensure_database("A", partitioned=False, primary=None)
    with refuses(Code.InvalidOptions):
        catalog.cluster.ensure_database("config", partitioned=True, primary=None)
    with refuses(Code.ShardNotFound):
        catalog.cluster.ensure_database("c", partitioned=False, primary="shard9")


def test_a_shard_that_brings_a_database_of_another_is_refused(catalog: Catalog) -> None:
    with refuses(Code.OperationFailed):
        catalog.cluster.add_shard("shard3", "set3/h:3", ["test"])
    catalog.cluster.add_shard("shard3", "set3/h:3", ["own"])
    database = catalog.cluster.database("own")
    assert database is not None
    assert database.primary == "shard3"


def test_the_same_shard_may_be_added_twice_but_no_host_under_two_names(catalog: Catalog) -> None:
    assert catalog.cluster.check_new_shard("shard1", "shard1", frozenset(["h:1"])) is not None
    assert catalog.cluster.check_new_shard("x", "x", frozenset(["h:9"])) is None
    with refuses(Code.IllegalOperation):
        catalog.cluster.check_new_shard("x", "x", frozenset(["h:1"]))
    with refuses(Code.IllegalOperation):
        catalog.cluster.check_new_shard("shard1", "y", frozenset(["h:9"]))


def test_a_lease_has_one_holder_until_it_expires(catalog: Catalog) -> None:
    granted, record = catalog.leases.change("balancer", "acquire", "r1", 0, 1000, "")
    assert (granted, record.fence) == (True, 1)
    granted, record = catalog.leases.change("balancer", "acquire", "r2", 0, 1000, "")
    assert (granted, record.holder) == (False, "r1")
    catalog.clock.now += 0.9
    assert catalog.leases.change("balancer", "renew", "r1", 1, 1000, "")[0]
    catalog.clock.now += 0.9
    assert not catalog.leases.change("balancer", "acquire", "r2", 0, 1000, "")[0]
    catalog.clock.now += 0.2
    granted, record = catalog.leases.change("balancer", "acquire", "r2", 0, 1000, "")
    assert (granted, record.fence) == (True, 2)
    assert not catalog.leases.change("balancer", "renew", "r1", 1, 1000, "")[0]


def test_a_released_lease_keeps_its_fence(catalog: Catalog) -> None:
    catalog.leases.change("balancer", "acquire", "r1", 0, 1000, "")
    assert catalog.leases.change("balancer", "release", "r1", 1, 1000, "")[0]
    granted, record = catalog.leases.change("balancer", "acquire", "r1", 0, 1000, "")
    assert (granted, record.fence) == (True, 2)
    with refuses(Code.FailedToParse):
        catalog.leases.change("balancer", "seize", "r1", 0, 1000, "")


def test_records_come_back_as_they_were(catalog: Catalog) -> None:
    record = catalog.sharded()
    raw = catalog.tables.document(COLLECTIONS, "test.test")
    assert raw is not None
    assert CollectionRecord.from_raw(raw) == record
    chunk = next(catalog.tables.all(CHUNKS))
    assert bson.decode(chunk)["ns"] == "test.test"
    assert bson.encode(ChunkRecord.from_raw(chunk, KEY).document()) == chunk


def test_the_catalog_is_initialised_once(catalog: Catalog) -> None:
    before = catalog.store.last_optime
    identity = catalog.cluster.id
    catalog.tables.initialise()
    assert (catalog.store.last_optime, catalog.cluster.id) == (before, identity)


def test_the_changelog_forgets_its_oldest_entries(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configsvr.catalog.changelog.MAX_ENTRIES", 10)
    monkeypatch.setattr("configsvr.catalog.changelog._REMOVED_AT_ONCE", 5)
    log = Changelog(catalog.tables, "here:1")
    for number in range(30):
        log.add("split", "test.test", {"n": number})
    kept = [bson.decode(raw)["details"]["n"] for raw in catalog.tables.all(CHANGELOG)]
    assert len(kept) <= 10
    assert 29 in kept
    assert 0 not in kept
