"""Dumps of whole servers: users, archives, the log, one time of all collections, restores that go on."""

from __future__ import annotations

import errno
import gzip
import io
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from click import Command
from click.testing import CliRunner, Result
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

from docstore.testing import Cluster, ReplicaSet, Standalone
from docstore.tools import dump, insertion, restore
from docstore.tools.dumped import oplog, restoration, sessions
from docstore.tools.dumped.archive import ArchiveWriter, Described

pytestmark = pytest.mark.cluster

Client = MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=1) as nodes:
        yield nodes


@pytest.fixture
def client(replica_set: ReplicaSet) -> Iterator[Client]:
    with MongoClient(replica_set.uri) as made:
        for name in set(made.list_database_names()) - {"admin", "config", "local"}:
            made.drop_database(name)
        made["shop"]["many"].insert_many({"_id": n, "half": n // 2} for n in range(3000))
        made["shop"]["many"].create_index("half", name="by_half")
        made["shop"].create_collection("seen", viewOn="many", pipeline=[{"$match": {"half": 7}}])
        made["other"]["log"].insert_one({"_id": 1})
        yield made


def run(uri: str, command: Command, *arguments: object, input: bytes | None = None, fails: int = 0) -> Result:
    result = CliRunner().invoke(command, ["--uri", uri, *map(str, arguments)], input=input)
    assert result.exit_code == fails, result.output
    return result


def test_an_archive(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    archive, packed = tmp_path / "all.archive", tmp_path / "all.archive.gz"
    run(replica_set.uri, dump.main, f"--archive={archive}")
    run(replica_set.uri, dump.main, "--archive", packed, "--gzip")
    assert archive.read_bytes()[:4] == gzip.decompress(packed.read_bytes())[:4] == b"\x6d\xe2\x99\x81"
    client.drop_database("shop")
    run(replica_set.uri, restore.main, f"--archive={archive}", "--nsInclude", "shop.*")
    assert client["shop"]["many"].count_documents({}) == 3000
    assert "by_half" in client["shop"]["many"].index_information()
    assert client["shop"]["seen"].count_documents({}) == 2
    renamed = ("--nsFrom", "shop.*", "--nsTo", "store.*", "--nsExclude", "other.*")
    told = run(replica_set.uri, restore.main, "--archive", "--gzip", *renamed, input=packed.read_bytes())
    assert "3000 document(s) restored successfully. 0 document(s) failed to restore." in told.stderr
    assert client["store"]["many"].count_documents({}) == 3000
    streamed = run(replica_set.uri, dump.main, "-d", "shop", "-c", "many", "--archive").stdout_bytes
    told = run(replica_set.uri, restore.main, "--archive", "--drop", input=streamed[:-1], fails=1)
    assert "Failed: the archive ends in the middle" in told.stderr


def test_an_archive_with_an_oplog(replica_set: ReplicaSet, client: Client) -> None:
    file = io.BytesIO()
    described = [Described("", "oplog", {}, 0), Described("shop", "new", {"type": "collection"}, 0)]
    writer = ArchiveWriter(file, described, server="6.0.5", tool="1", parallel=1)
    writer.write("", "oplog", bson.encode({"op": "n"}))
    writer.write("shop", "new", bson.encode({"_id": 1}))
    writer.end("shop", "new")
    writer.end("", "oplog")
    told = run(replica_set.uri, restore.main, "--archive", input=file.getvalue())
    assert "leaving out the oplog of the archive" in told.stderr
    assert list(client["shop"]["new"].find()) == [{"_id": 1}]


def test_the_documents_alone(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    scanned = run(replica_set.uri, dump.main, "-vv", "--forceTableScan", "-d", "shop", "-c", "many", "--out", "-")
    alone = scanned.stdout_bytes
    assert "the server is a member of the set rs0" in scanned.stderr
    assert " shop find: ok, " in scanned.stderr
    assert bson.decode_all(alone) == list(client["shop"]["many"].find())
    without = run(replica_set.uri, dump.main, "-d", "shop", "-c", "many", "--archive").stdout_bytes
    refused = run(replica_set.uri, restore.main, "--archive", "--oplogReplay", input=without, fails=1)
    assert "the archive has no oplog to replay" in refused.stderr
    file = tmp_path / "anything.bson"
    file.write_bytes(alone)
    run(replica_set.uri, restore.main, "-d", "copy", "-c", "of_many", file)
    assert client["copy"]["of_many"].count_documents({}) == 3000


def test_documents_from_the_standard_input(replica_set: ReplicaSet, client: Client) -> None:
    given = b"".join(bson.encode({"_id": n}) for n in range(10))
    run(replica_set.uri, restore.main, "-d", "copy", "-c", "given", "-", input=given)
    run(replica_set.uri, restore.main, "-d", "copy", "-c", "packed", "--gzip", "-", input=gzip.compress(given))
    assert client["copy"]["given"].count_documents({}) == client["copy"]["packed"].count_documents({}) == 10
    refused = run(replica_set.uri, restore.main, "-", input=given, fails=1)
    assert "the standard input has no name" in refused.stderr
    broken = bson.encode({"_id": 10, "text": "abc"}).replace(b"abc", b"a\xffc")
    refused = run(replica_set.uri, restore.main, "-d", "copy", "-c", "given", "--objcheck", "-", input=broken, fails=1)
    assert "a document of copy.given is malformed" in refused.stderr
    assert client["copy"]["given"].count_documents({}) == 10


def test_indexes_of_old_servers(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "c.bson").write_bytes(bson.encode({"_id": 1}))
    indexes = [
        {"v": 1, "key": {"a": 1}, "name": "of_version_1"},
        {"v": 1, "key": {"b": True}, "name": "legacy", "dropDups": True},
    ]
    text = json.dumps({"options": {}, "indexes": [{"v": 2, "key": {"_id": 1}, "name": "_id_"}, *indexes]})
    (tmp_path / "old" / "c.metadata.json").write_text(text)
    run(replica_set.uri, restore.main, "--drop", tmp_path, fails=1)
    run(replica_set.uri, restore.main, "--drop", "--convertLegacyIndexes", tmp_path)
    found = client["old"]["c"].index_information()
    assert (found["of_version_1"]["v"], found["legacy"]["key"]) == (2, [("b", 1)])
    run(replica_set.uri, restore.main, "--drop", "--convertLegacyIndexes", "--keepIndexVersion", tmp_path)
    assert client["old"]["c"].index_information()["legacy"]["v"] == 1


def test_what_is_left_out(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client["shop"]["tmp_1"].insert_one({})
    client["shop"]["old"].insert_one({})
    without = ("--excludeCollection", "old", "--excludeCollectionsWithPrefix", "tmp_")
    run(replica_set.uri, dump.main, "-d", "shop", *without, "-o", tmp_path)
    assert {path.name.partition(".")[0] for path in (tmp_path / "shop").iterdir()} == {"many", "seen"}
    run(replica_set.uri, dump.main, "-d", "shop", "--viewsAsCollections", "-o", tmp_path / "views")
    assert {path.name for path in (tmp_path / "views" / "shop").iterdir()} == {"seen.bson", "seen.metadata.json"}
    left_out = ("-d", "shop", "--excludeCollection", "many", "--excludeCollectionsWithPrefix", "see")
    run(replica_set.uri, restore.main, *left_out, "--dryRun", tmp_path / "shop")
    client.drop_database("shop")
    said = run(replica_set.uri, restore.main, "--dryRun", tmp_path)
    assert "would restore shop.many as shop.many" in said.stderr
    assert "shop" not in client.list_database_names()
    run(replica_set.uri, restore.main, "-d", "shop", "--noIndexRestore", tmp_path / "shop")
    assert set(client["shop"]["many"].index_information()) == {"_id_"}


def test_options_of_restored_collections(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client["shop"].create_collection("checked", validator={"n": {"$gt": 0}})
    client["shop"]["checked"].insert_one({"_id": 1, "n": 0}, bypass_document_validation=True)
    run(replica_set.uri, dump.main, "-d", "shop", "-c", "checked", "-o", tmp_path)
    refused = run(replica_set.uri, restore.main, "--drop", tmp_path)
    assert "0 document(s) restored successfully. 1 document(s) failed to restore." in refused.stderr
    stopped = run(replica_set.uri, restore.main, "--drop", "--stopOnError", tmp_path, fails=1)
    assert "0 document(s) restored successfully. 1 document(s) failed to restore." in stopped.stderr
    run(replica_set.uri, restore.main, "--drop", "--bypassDocumentValidation", tmp_path)
    assert client["shop"]["checked"].count_documents({}) == 1
    run(replica_set.uri, restore.main, "--drop", "--noOptionsRestore", tmp_path)
    assert client["shop"]["checked"].options() == {}


def log_in(uri: str, database: str, password: str) -> None:
    with MongoClient(uri, username="ann", password=password, authSource=database) as client:
        client[database].command("ping")


def users_of(client: Client, database: str) -> Any:
    command = {"usersInfo": 1, "showCredentials": True}
    return client[database].command(command)["users"], client[database].command("rolesInfo", 1)["roles"]


def test_users_and_roles(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    for name in ("shop", "other"):
        client[name].command("dropAllUsersFromDatabase")
        client[name].command("dropAllRolesFromDatabase")
        own = [{"resource": {"db": name, "collection": "c"}, "actions": ["insert"]}]
        client[name].command("createRole", "writer", privileges=own, roles=[])
        client[name].command("createRole", "reader", privileges=[], roles=["read", "writer"])
        client[name].command("createUser", "ann", pwd=name, roles=["reader"])
    before = {name: users_of(client, name) for name in ("shop", "other")}
    run(replica_set.uri, dump.main, "-d", "shop", "--dumpDbUsersAndRoles", "-o", tmp_path / "one")
    run(replica_set.uri, dump.main, "-o", tmp_path / "all")
    for name in before:
        client[name].command("dropAllUsersFromDatabase")
        client[name].command("dropAllRolesFromDatabase")
    run(replica_set.uri, restore.main, "-d", "shop", "--drop", tmp_path / "one")
    assert users_of(client, "shop") == ([], [])
    run(replica_set.uri, restore.main, "-d", "shop", "--restoreDbUsersAndRoles", "--drop", tmp_path / "one")
    assert users_of(client, "shop") == before["shop"]
    assert users_of(client, "other") == ([], [])
    log_in(replica_set.uri, "shop", "shop")
    named = ("-u", "ann", "--authenticationDatabase", "shop", "--authenticationMechanism", "SCRAM-SHA-256")
    run(replica_set.uri, dump.main, *named, "-p", "shop", "-d", "other", "-o", tmp_path / "more")
    run(replica_set.uri, dump.main, *named, "-d", "other", "-o", tmp_path / "more", input=b"shop\n")
    wrong = run(replica_set.uri, dump.main, *named, "-p", "other", "-d", "other", "-o", tmp_path / "more", fails=1)
    assert "Failed: Authentication failed" in wrong.stderr
    client["shop"].command("createUser", "late", pwd="x", roles=[])
    run(replica_set.uri, restore.main, "--drop", tmp_path / "all")
    assert {name: users_of(client, name) for name in before} == before
    log_in(replica_set.uri, "other", "other")
    with pytest.raises(OperationFailure):
        log_in(replica_set.uri, "shop", "other")


@pytest.mark.parametrize("place", ["--dir={}", "--archive={}/all.archive"])
def test_the_log_of_the_time_of_a_dump(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Everything is written between the beginning of the dump and its collections, and again behind them."""
    found = dump.sources_of

    def while_dumped(*arguments: Any) -> Any:
        sources = found(*arguments)
        change(client)
        return sources

    monkeypatch.setattr(dump, "sources_of", while_dumped)
    place = place.format(tmp_path)
    run(replica_set.uri, dump.main, "--oplog", place.replace("--dir", "--out"), "--gzip")
    expected = state(client)
    for name in ("shop", "other", "later"):
        client.drop_database(name)
    replaying = ("--oplogReplay", "--drop", "--gzip", place)
    run(replica_set.uri, restore.main, *replaying)
    assert state(client) == expected
    run(replica_set.uri, restore.main, *replaying)
    assert state(client) == expected
    refused = run(replica_set.uri, restore.main, "--oplogLimit", "x", *replaying, fails=1)
    assert "--oplogLimit" in refused.stderr
    client.drop_database("later")
    run(replica_set.uri, restore.main, "--oplogLimit", "1:1", *replaying)
    assert client["later"]["made"].count_documents({}) == 0


def test_a_log_with_rows_of_column_families(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns and super columns are written, deleted and truncated between the beginning of the dump and its rows, and
    a table of CQL, which a dump does not hold.
    """
    keyspace = client["ks"]
    client.admin.command({"createKeyspace": "ks"})
    for family, columns in (("F", {"compareWith": "LongType"}), ("C", {}), ("S", {"columnType": "Super"})):
        keyspace.command({"createColumnFamily": family, **columns})
    keyspace.command({"cql": "CREATE TABLE t (a int PRIMARY KEY, v int)"})

    def write(family: str, key: str, column: Any, value: str, **more: Any) -> None:
        keyspace.command({"wcInsert": family, "key": key, "column": column, "value": value, **more})

    def rows() -> dict[str, Any]:
        command = {"predicate": {"sliceRange": {}}, "range": {"startKey": "", "endKey": ""}, "excludeEmpty": True}
        return {family: keyspace.command({"wcGetRangeSlices": family, **command})["rows"] for family in ("F", "C", "S")}

    for name in range(4):
        write("F", "before", Int64(name), "old")
        write("C", "before", f"c{name}", "old")
    found = dump.sources_of

    def while_dumped(*arguments: Any) -> Any:
        write("F", "before", Int64(1), "new", ttl=50000)
        write("F", "later", Int64(9), "new")
        keyspace.command({"wcRemove": "F", "key": "before", "column": Int64(2)})
        write("S", "row", "sub", "new", superColumn="one")
        write("S", "row", "sub", "new", superColumn="two")
        keyspace.command({"wcRemove": "S", "key": "row", "superColumn": "two"})
        keyspace.command({"wcTruncate": "C"})
        write("C", "after", "c", "new")
        keyspace.command({"cql": "INSERT INTO t (a, v) VALUES (1, 2)"})
        sources = found(*arguments)
        keyspace.command({"wcRemove": "C", "key": "after"})
        write("C", "after", "d", "newest")
        return sources

    monkeypatch.setattr(dump, "sources_of", while_dumped)
    run(replica_set.uri, dump.main, "--oplog", f"--out={tmp_path}")
    expected = rows()
    assert expected["F"]
    assert [row["key"] for row in expected["C"]] == ["after"]
    keyspace.command({"dropKeyspace": 1})
    for _ in range(2):
        run(replica_set.uri, restore.main, "--oplogReplay", f"--dir={tmp_path}")
        assert _without_ttl(rows()) == _without_ttl(expected)
    keyspace.command({"dropKeyspace": 1})


def _without_ttl(value: Any) -> Any:
    """Without what is left of times to live, which differs from second to second."""
    if isinstance(value, list):
        return [_without_ttl(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_ttl(item) for name, item in value.items() if name != "ttl"}
    return value


def test_a_log_with_a_new_name_of_a_collection(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dump.sources_of

    def while_dumped(*arguments: Any) -> Any:
        client["shop"]["many"].rename("renamed")
        return found(*arguments)

    monkeypatch.setattr(dump, "sources_of", while_dumped)
    refused = run(replica_set.uri, dump.main, "--oplog", "-o", tmp_path, fails=1)
    assert "a collection was renamed during the dump" in refused.stderr


def change(client: Client) -> None:
    """One of each kind of entry."""
    many = client["shop"]["many"]
    many.update_one({"_id": 5}, {"$set": {"a.b": [1, {"c": 2}], "half": 50}, "$unset": {"nothing": 1}})
    many.update_one({"_id": 5}, {"$set": {"a.b.1.c": 3, "a.b.3": 4}, "$unset": {"half": 1}})
    many.update_one({"_id": 5}, {"$push": {"a.b": {"$each": [], "$slice": 2}}, "$set": {"z": {"$ref": "x", "$id": 1}}})
    many.replace_one({"_id": 6}, {"replaced": True})
    many.delete_one({"_id": 7})
    many.insert_many([{"_id": n} for n in range(9000, 9010)])
    with client.start_session() as session, session.start_transaction():
        many.insert_one({"_id": "in"}, session=session)
        many.delete_one({"_id": 8}, session=session)
    many.drop_index("by_half")
    many.create_index("late", unique=True, sparse=True)
    client["shop"]["new"].insert_one({"_id": 1})
    client["shop"]["new"].create_index("x")
    client["shop"].create_collection("new_view", viewOn="many", pipeline=[])
    client["later"].create_collection("made", capped=True, size=4096)
    client["later"]["made"].insert_one({"_id": 1})
    client["other"]["log"].drop()


def state(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("shop", "other", "later"):
        for each in client[name].list_collections():
            collection = client[name][each["name"]]
            indexes = {} if each["type"] == "view" else collection.index_information()
            if not each["name"].startswith("system."):
                found[f"{name}.{each['name']}"] = (each["options"], list(collection.find().sort("_id", 1)), indexes)
    return found


def test_a_dump_shows_one_time(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written once the time has been chosen is in no collection of the dump."""
    chosen = dump._time_of

    def then_written(*arguments: Any) -> Any:
        time = chosen(*arguments)
        client["other"]["log"].insert_one({"_id": "late"})
        client["shop"]["many"].delete_many({})
        return time

    monkeypatch.setattr(dump, "_time_of", then_written)
    run(replica_set.uri, dump.main, "-o", tmp_path)
    assert len(bson.decode_all((tmp_path / "shop" / "many.bson").read_bytes())) == 3000
    assert bson.decode_all((tmp_path / "other" / "log.bson").read_bytes()) == [{"_id": 1}]
    run(replica_set.uri, dump.main, "--noSnapshot", "-o", tmp_path)
    assert (tmp_path / "shop" / "many.bson").read_bytes() == b""


def test_sessions_of_cursors_that_wait_are_refreshed(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first collection is not dumped before the sessions of all have been refreshed."""
    refreshed, refresh = threading.Event(), sessions.KeptSessions.refresh

    def noted(kept: sessions.KeptSessions) -> None:
        refresh(kept)
        refreshed.set()

    dump_one = dump._dump_one

    def later(*arguments: Any) -> None:
        assert refreshed.wait(60)
        dump_one(*arguments)

    monkeypatch.setattr(sessions, "EVERY", 0.01)
    monkeypatch.setattr(sessions.KeptSessions, "refresh", noted)
    monkeypatch.setattr(dump, "_dump_one", later)
    run(replica_set.uri, dump.main, "-d", "shop", "-o", tmp_path)
    assert len(bson.decode_all((tmp_path / "shop" / "many.bson").read_bytes())) == 3000


def test_a_restore_goes_on(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = list(client["shop"]["many"].find())
    run(replica_set.uri, dump.main, "-d", "shop", "-o", tmp_path / "dump")
    client["shop"].drop_collection("many")
    inserted = restoration.insert
    lock, calls = threading.Lock(), 0

    def failing(collection: Any, batch: list[RawBSONDocument], *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
        if calls == 3:
            inserted(collection, batch[:500], *arguments, **named)
            raise OSError("the power is gone")
        return inserted(collection, batch, *arguments, **named)

    monkeypatch.setattr(restoration, "insert", failing)
    monkeypatch.setattr(insertion, "MOST_DOCUMENTS", 1000)
    going_on = ("--resumeFile", tmp_path / "progress", "--drop", tmp_path / "dump")
    run(replica_set.uri, restore.main, *going_on, fails=1)
    assert (tmp_path / "progress").read_text().count("\n") > 1
    again = run(replica_set.uri, restore.main, *going_on)
    assert "0 document(s) failed to restore." in again.stderr
    assert not (tmp_path / "progress").exists()
    assert list(client["shop"]["many"].find().sort("_id", 1)) == documents
    assert "by_half" in client["shop"]["many"].index_information()
    (tmp_path / "progress").write_text('{"dump": "/elsewhere"}\n')
    other = run(replica_set.uri, restore.main, *going_on, fails=1)
    assert "is the record of a restore of /elsewhere" in other.stderr


def test_refusals(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    for arguments in (
        ("--oplog", "-d", "shop"),
        ("--out", "x", "--archive"),
        ("--out", "-"),
        ("--dumpDbUsersAndRoles",),
        ("--excludeCollection", "x"),
        ("--collection", "c"),
    ):
        assert "error parsing" in run(replica_set.uri, dump.main, *arguments, fails=1).stderr
    for arguments in (
        ("--preserveUUID",),
        ("--oplogReplay",),
        ("--oplogLimit", "1"),
        ("--restoreDbUsersAndRoles",),
        ("--nsFrom", "a.*"),
        ("--stopOnError", "--numInsertionWorkersPerCollection", "2"),
    ):
        assert "error parsing" in run(replica_set.uri, restore.main, *arguments, fails=1).stderr


def test_a_cluster(tmp_path: Path) -> None:
    with Cluster(shards=2) as cluster, MongoClient(cluster.uri) as client:
        client.admin.command("enableSharding", "shop")
        client.admin.command("shardCollection", "shop.many", key={"_id": 1})
        client.admin.command("split", "shop.many", middle={"_id": 500})
        primary = client["config"]["databases"].find_one({"_id": "shop"}, {"primary": 1})
        other = "shard1" if primary and primary["primary"] == "shard0" else "shard0"
        client.admin.command("moveChunk", "shop.many", find={"_id": 600}, to=other)
        client["shop"]["many"].insert_many({"_id": n} for n in range(1000))
        client["shop"].command("createUser", "ann", pwd="shop", roles=["read"])
        client.admin.command({"createKeyspace": "ks"})
        client["ks"].command("createColumnFamily", "wide", compareWith="BytesType")
        mutations = [
            {"columnFamily": "wide", "key": f"{n}", "insert": {"name": b"x", "value": b"y"}} for n in range(300)
        ]
        client["ks"].command({"wcBatchMutate": 1, "mutations": mutations})
        rows = rows_of(client, "ks", "wide")
        run(cluster.uri, dump.main, "-o", tmp_path)
        client.drop_database("shop")
        client["shop"].command("dropAllUsersFromDatabase")
        client["ks"].command("dropKeyspace")
        run(cluster.uri, restore.main, tmp_path)
        assert rows_of(client, "ks", "wide") == rows
        assert len(rows) == 300
        assert client["shop"]["many"].count_documents({}) == 1000
        log_in(cluster.uri, "shop", "shop")
        assert "--oplog needs a member" in run(cluster.uri, dump.main, "--oplog", "-o", tmp_path, fails=1).stderr


@pytest.mark.parametrize("place", ["directory", "archive"])
def test_a_time_series(replica_set: ReplicaSet, client: Client, tmp_path: Path, place: str) -> None:
    database, begin = client["shop"], datetime(2026, 1, 1)
    options = {"timeField": "at", "metaField": "of", "granularity": "minutes"}
    database.create_collection("heat", timeseries=options, expireAfterSeconds=10**9)
    rows = [{"at": begin + timedelta(minutes=n), "of": {"room": n % 3}, "degrees": n / 7} for n in range(500)]
    database["heat"].insert_many(rows)
    database["heat"].create_index([("of.room", 1), ("at", 1)], name="by_room")
    found = list(database["heat"].find().sort([("at", 1)]))
    buckets = list(database["system.buckets.heat"].find().sort("_id"))
    to = ("--archive", tmp_path / "all") if place == "archive" else ("-o", tmp_path)
    run(replica_set.uri, dump.main, *to)
    if place == "directory":
        names = sorted(path.name for path in (tmp_path / "shop").iterdir() if "heat" in path.name)
        assert names == ["heat.metadata.json", "system.buckets.heat.bson"]
    refused = run(replica_set.uri, dump.main, "-d", "shop", "-c", "heat", "-q", "{}", "-o", tmp_path / "x", fails=1)
    assert "shop.heat is a time series: --query is for collections" in refused.stderr
    origin = ("--archive", tmp_path / "all") if place == "archive" else (tmp_path,)
    for changes in (("--drop",), ("--nsFrom", "shop.heat", "--nsTo", "other.warmth")):
        run(replica_set.uri, restore.main, *origin, "--nsInclude", "shop.heat", *changes)
    for collection in (database["heat"], client["other"]["warmth"]):
        assert list(collection.find().sort([("at", 1)])) == found
        assert list(collection.database[f"system.buckets.{collection.name}"].find().sort("_id")) == buckets
        (described,) = collection.database.list_collections(filter={"name": collection.name})
        assert (described["type"], described["options"]["expireAfterSeconds"]) == ("timeseries", 10**9)
        assert "by_room" in collection.index_information()
    database["heat"].insert_one({"at": begin, "of": {"room": 0}, "degrees": 0})
    assert database["heat"].count_documents({}) == 501


def rows_of(client: Client, keyspace: str, family: str) -> Any:
    """The rows of a family, but for what passes of the time that columns have to live."""
    command = {
        "wcGetRangeSlices": family, "predicate": {"sliceRange": {"count": 5000}},
        "range": {"startKey": "", "endKey": ""}, "count": 5000,
    }  # fmt: skip
    rows = client[keyspace].command(command)["rows"]
    for column in (column for row in rows for column in row.get("columns", ())):
        column["ttl"] = column.get("ttl", 0) > 0
    return rows


@pytest.fixture
def keyspace(client: Client) -> Iterator[str]:
    client.admin.command({"createKeyspace": "ks"})
    database = client["ks"]
    database.command("createColumnFamily", "wide", compareWith="BytesType", gcGraceSeconds=60)
    database.command("createColumnFamily", "super", columnType="Super", compareWith="LongType")
    columns = [{"name": b"c%05d" % n, "value": b"\xff"} for n in range(2500)]
    mutations: list[dict[str, Any]] = [{"columnFamily": "wide", "key": "long", "insert": each} for each in columns]
    mutations += [{"columnFamily": "wide", "key": f"row {n}", "insert": columns[0] | {"ttl": 5000}} for n in range(230)]
    inner = [{"name": b"x", "value": b"y", "timestamp": 5}]
    mutations += [
        {"columnFamily": "super", "key": b"\xfe", "insertSuper": {"name": n, "columns": inner}} for n in range(3)
    ]
    database.command({"wcBatchMutate": 1, "mutations": mutations})
    database.command("cql", "CREATE TABLE ks.t (k int PRIMARY KEY, v text)")
    yield "ks"
    for name in ("ks", "ks2"):
        client[name].command("dropKeyspace")


def test_column_families(replica_set: ReplicaSet, client: Client, keyspace: str, tmp_path: Path) -> None:
    before = {family: rows_of(client, keyspace, family) for family in ("wide", "super")}
    assert sum(len(row["columns"]) for row in before["wide"]) == 2730
    dumped = run(replica_set.uri, dump.main, "-o", tmp_path)
    assert "skipping ks.t, a table of CQL" in dumped.stderr
    assert (tmp_path / "shop" / "many.bson").exists()
    renamed = ("--nsInclude", "ks.*", "--nsFrom", "ks.*", "--nsTo", "ks2.*")
    run(replica_set.uri, restore.main, *renamed, tmp_path)
    assert {family: rows_of(client, "ks2", family) for family in before} == before
    described = client["ks2"].command("describeKeyspace")["columnFamilies"]
    assert {each["name"]: each["gcGraceSeconds"] for each in described}["wide"] == 60
    client["ks"].command({"wcInsert": "wide", "key": "late", "column": b"x", "value": b"y"})
    archive = run(replica_set.uri, dump.main, "-d", "ks2", "-c", "wide", "--archive").stdout_bytes
    back = ("--nsFrom", "ks2.*", "--nsTo", "ks.*", "--drop")
    run(replica_set.uri, restore.main, "--archive", *back, input=archive)
    assert rows_of(client, keyspace, "wide") == before["wide"]
    assert "Failed" in run(replica_set.uri, dump.main, "-d", "ks", "-c", "t", "-o", tmp_path, fails=1).stderr
    query = ("-d", "ks", "-c", "wide", "-q", "{}")
    assert "is a column family" in run(replica_set.uri, dump.main, *query, "-o", tmp_path, fails=1).stderr


READING = {"find", "listCollections", "listIndexes", "serverStatus", "getMore"}


def ports_of(said: str, *commands: str) -> set[str]:
    """The ports of the servers that were sent one of some commands."""
    found = re.findall(r"127\.0\.0\.1:(\d+) \S+ (\S+): ", said)
    return {port for port, command in found if command in (commands or READING)}


@pytest.fixture(scope="module")
def three_members() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=3) as nodes:
        yield nodes


@pytest.mark.parametrize("mode", ["nearest", "secondary"])
def test_a_dump_with_its_log_is_that_of_one_member(three_members: ReplicaSet, tmp_path: Path, mode: str) -> None:
    """It has what the primary had when it began, which members were not waited for."""
    rows = three_members.client()["shop"].get_collection("rows", write_concern=WriteConcern(1))
    for number in range(3):
        for _ in range(50):
            rows.insert_one({"round": number})
        options = ("--oplog", "--readPreference", mode, "-vv", "-o", tmp_path / str(number))
        said = run(three_members.uri, dump.main, *options).stderr
        assert len(ports_of(said)) == 1, said
        documents = bson.decode_all((tmp_path / str(number) / "shop" / "rows.bson").read_bytes())
        entries = bson.decode_all((tmp_path / str(number) / "oplog.bson").read_bytes())
        inserted = [each["o"]["_id"] for each in entries if each.get("ns") == "shop.rows"]
        assert {each["_id"] for each in documents} | set(inserted) == set(rows.distinct("_id"))


def test_a_dump_has_what_was_acknowledged_before(three_members: ReplicaSet, tmp_path: Path) -> None:
    """By whichever member it is read, and whatever the write concern was."""
    rows = three_members.client()["shop"].get_collection("acknowledged", write_concern=WriteConcern(1))
    for number in range(5):
        rows.insert_many([{} for _ in range(2000)])
        options = ("-d", "shop", "-c", "acknowledged", "--readPreference", "secondary", "-o", tmp_path)
        run(three_members.uri, dump.main, *options)
        found = bson.decode_all((tmp_path / "shop" / "acknowledged.bson").read_bytes())
        assert len(found) == 2000 * (number + 1)


@pytest.mark.parametrize("change", ["rollbacks", "process"])
def test_a_member_that_rolls_back_or_is_restarted_ends_a_dump_with_its_log(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    status = client.admin.command("serverStatus")["repl"]
    assert status["rbid"] == client.admin.command("replSetGetRBID")["rbid"]
    identity_of, looks = oplog._identity_of, iter(range(10))

    def later(server: Any) -> oplog.Identity:
        return replace(identity_of(server), **{change: next(looks)})

    monkeypatch.setattr(oplog, "_identity_of", later)
    for place in (("-o", tmp_path), (f"--archive={tmp_path / 'archive'}",)):
        said = run(replica_set.uri, dump.main, "--oplog", *place, fails=1).stderr
        assert "has rolled back, was restarted or is another server now" in said
    client.drop_database("shop")
    for given in (tmp_path, f"--archive={tmp_path / 'archive'}"):
        run(replica_set.uri, restore.main, given, fails=1)
    assert "shop" not in client.list_database_names()


def test_validators_are_not_asked_in_a_replay_either(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = client["shop"].create_collection("checked", validator={"n": {"$gt": 0}})
    checked.create_index("n")
    found = dump.sources_of

    def while_dumped(*arguments: Any) -> Any:
        sources = found(*arguments)
        for number in (1, 2):
            checked.insert_one({"_id": number, "n": 0}, bypass_document_validation=True)
        checked.update_one({"_id": 2}, {"$set": {"x": 1}}, bypass_document_validation=True)
        return sources

    monkeypatch.setattr(dump, "sources_of", while_dumped)
    run(replica_set.uri, dump.main, "--oplog", "-o", tmp_path)
    client["shop"].drop_collection("checked")
    run(replica_set.uri, restore.main, "--oplogReplay", "--drop", tmp_path, fails=1)
    run(replica_set.uri, restore.main, "--oplogReplay", "--drop", "--bypassDocumentValidation", tmp_path)
    assert list(checked.find()) == [{"_id": 1, "n": 0}, {"_id": 2, "n": 0, "x": 1}]
    assert "n_1" in checked.index_information()
    run(
        replica_set.uri,
        restore.main,
        "--oplogReplay",
        "--drop",
        "--bypassDocumentValidation",
        "--noIndexRestore",
        tmp_path,
    )
    assert set(checked.index_information()) == {"_id_"}


def test_a_log_goes_with_all_collections_under_their_names(
    replica_set: ReplicaSet, client: Client, tmp_path: Path
) -> None:
    run(replica_set.uri, dump.main, "--oplog", "-o", tmp_path)
    for options in (
        ("--nsInclude", "shop.*"), ("--nsExclude", "shop.*"), ("-d", "shop"), ("--nsFrom", "a.*", "--nsTo", "b.*"),
    ):  # fmt: skip
        refused = run(replica_set.uri, restore.main, "--oplogReplay", *options, tmp_path, fails=1)
        assert "--oplogReplay is for a whole dump" in refused.stderr
    said = run(replica_set.uri, restore.main, tmp_path)
    assert "leaving out the oplog of the dump" in said.stderr


def test_two_collections_do_not_become_one(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    client["other"]["many"].insert_one({"_id": 1})
    run(replica_set.uri, dump.main, "-o", tmp_path)
    run(replica_set.uri, dump.main, f"--archive={tmp_path / 'archive'}")
    joined = (
        "--nsFrom",
        "$any$.many",
        "--nsTo",
        "shop.$any$",
        "--nsFrom",
        "other.log",
        "--nsTo",
        "shop.other",
        "--drop",
    )
    for given in (tmp_path, f"--archive={tmp_path / 'archive'}"):
        refused = run(replica_set.uri, restore.main, *joined, given, fails=1)
        assert "would both be restored as shop.other" in refused.stderr


def test_a_record_is_that_of_one_dump_and_one_server(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        client["shop"].drop_collection("many")
        client["shop"]["many"].insert_many({"_id": n} for n in range(3000))
        run(replica_set.uri, dump.main, "-d", "shop", "-o", tmp_path / "dump")
        going_on = ("--resumeFile", tmp_path / "progress", "--drop", tmp_path / "dump")
        if number:
            other = run(replica_set.uri, restore.main, *going_on, fails=1)
            assert "as it was before" in other.stderr
            (tmp_path / "progress").unlink()
        with monkeypatch.context() as patch:
            patch.setattr(restoration, "insert", refuse)
            run(replica_set.uri, restore.main, *going_on, fails=1)
    with Standalone() as node:
        other = run(node.uri, restore.main, *going_on, fails=1)
        assert "is the record of a restore into rs0" in other.stderr
    run(replica_set.uri, restore.main, *going_on)
    assert client["shop"]["many"].count_documents({}) == 3000


def refuse(*_arguments: Any, **_named: Any) -> Any:
    raise OSError("the power is gone")


def test_names_that_readers_would_take_for_others(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    names = ["a+b", "a b", "100%", "x" * 200, "y" * 230, "Ünïcode/" * 15]
    for name in names:
        client["shop"][name].insert_one({"_id": name})
    run(replica_set.uri, dump.main, "-d", "shop", "--gzip", "-o", tmp_path)
    client.drop_database("shop")
    run(replica_set.uri, restore.main, "--gzip", tmp_path)
    assert {*names, "many", "seen", "system.views"} == set(client["shop"].list_collection_names())
    assert [client["shop"][name].find_one() for name in names] == [{"_id": name} for name in names]


@pytest.mark.parametrize("place", ["directory", "archive", "pipe"])
def test_a_dump_that_is_interrupted_is_not_taken_for_a_whole_one(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Whichever of its writes is the last; nothing is restored of it, nor dropped."""
    to: tuple[object, ...] = {"directory": ("-o", tmp_path / "dump"), "archive": (f"--archive={tmp_path / 'a'}",)}.get(
        place, ("--archive",)
    )
    given = {"directory": (tmp_path / "dump",), "archive": (f"--archive={tmp_path / 'a'}",)}.get(place, ("--archive",))
    dump_one, allowed = dump._dump_one, 0

    def interrupted(*arguments: Any) -> None:
        nonlocal allowed
        allowed -= 1
        if allowed < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        dump_one(*arguments)

    monkeypatch.setattr(dump, "_dump_one", interrupted)
    for number in range(10):
        allowed = number
        outcome = CliRunner().invoke(dump.main, ["--uri", replica_set.uri, "-j", "1", *map(str, to)])
        client["shop"]["many"].update_one({"_id": 0}, {"$set": {"round": number}})
        piped = outcome.stdout_bytes if place == "pipe" else None
        if outcome.exit_code == 0:
            break
        assert "No space left on device" in outcome.stderr
        run(replica_set.uri, restore.main, *given, *(() if place == "pipe" else ("--drop",)), input=piped, fails=1)
        assert client["shop"]["many"].find_one({"_id": 0}) == {"_id": 0, "half": 0, "round": number}
    assert number > 1
    run(replica_set.uri, restore.main, "--drop", *given, input=piped)
    assert client["shop"]["many"].count_documents({}) == 3000


def test_a_full_disk_ends_a_dump(replica_set: ReplicaSet, client: Client, tmp_path: Path) -> None:
    """In processes of their own: what is written at the end fails too."""
    (tmp_path / "one.bson").write_bytes(bson.encode({"_id": 1}))
    server, one = ("--uri", replica_set.uri), ("-d", "other", "-c", "log")
    cases: list[tuple[object, ...]] = [
        ("dump", *server, "--archive", "--gzip"), ("dump", *server, *one, "-o", "-"), ("export", *server, *one),
        ("bsondump", tmp_path / "one.bson"),
    ]  # fmt: skip
    with open("/dev/full", "wb") as full:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", f"from docstore.tools.{tool} import main; main()", *map(str, options)],
                stdout=full, stderr=subprocess.PIPE, text=True,
            )
            for tool, *options in cases
        ]  # fmt: skip
        for case, process in zip(cases, processes, strict=True):
            said = process.communicate()[1]
            assert process.returncode == 1, (case, said)
            assert "Failed: " in said
            assert "No space left on device" in said
            assert "Traceback" not in said


def test_a_collection_that_is_renamed_ends_a_dump(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the dump under neither name; at one time another attempt finds it."""
    found, names = dump.sources_of, ["many", "renamed", "again"]

    def then_renamed(*arguments: Any) -> Any:
        sources = found(*arguments)
        if len(names) > 1:
            client["shop"][names.pop(0)].rename(names[0])
        return sources

    monkeypatch.setattr(dump, "sources_of", then_renamed)
    said = run(replica_set.uri, dump.main, "-o", tmp_path / "one")
    assert "once more: the collections changed while they were dumped: shop.many is shop.renamed now" in said.stderr
    assert len(bson.decode_all((tmp_path / "one" / "shop" / "again.bson").read_bytes())) == 3000
    replaced = [1]

    def then_replaced(*arguments: Any) -> Any:
        sources = found(*arguments)
        if replaced and replaced.pop():
            client["shop"]["again"].aggregate([{"$limit": 10}, {"$out": "again"}])
        return sources

    with monkeypatch.context() as patch:
        patch.setattr(dump, "sources_of", then_replaced)
        said = run(replica_set.uri, dump.main, "-o", tmp_path / "one")
    assert "shop.again is another one now" in said.stderr
    assert len(bson.decode_all((tmp_path / "one" / "shop" / "again.bson").read_bytes())) == 10
    names[:] = ["again", "many"]
    said = run(replica_set.uri, dump.main, "--noSnapshot", "-o", tmp_path / "two", fails=1)
    assert "shop.again is shop.many now" in said.stderr


def test_a_log_has_the_beginning_of_transactions_that_go_on(
    replica_set: ReplicaSet, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several entries, of which the last is the newest when the dump begins."""
    with client.start_session() as session, session.start_transaction():
        for number in range(3):
            client["shop"]["large"].insert_one({"_id": number, "x": "x" * (7 << 20)}, session=session)
    entries = client["local"]["oplog.rs"].find({"o.applyOps": {"$exists": True}}, {"ts": 1, "t": 1})
    last = next(iter(entries.sort("$natural", -1).limit(1)))
    newest, looks = oplog.LogReading._newest, [oplog.Entry(last["ts"], last["t"])]
    monkeypatch.setattr(oplog.LogReading, "_newest", lambda log: looks.pop() if looks else newest(log))
    run(replica_set.uri, dump.main, "--oplog", "-o", tmp_path)
    client["shop"].drop_collection("large")
    run(replica_set.uri, restore.main, "--oplogReplay", "--drop", tmp_path)
    assert client["shop"]["large"].count_documents({}) == 3
