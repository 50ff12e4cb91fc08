"""What is dumped is restored the same: documents, options, indexes, views."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import DBRef, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from click import Command
from click.testing import CliRunner, Result
from pymongo import MongoClient
from pymongo.database import Database

from docstore.testing import Standalone
from docstore.tools import bsondump, dump, restore

pytestmark = pytest.mark.cluster

DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "long": Int64(5), "decimal": Decimal128("1.50"), "far": DatetimeMS(1 << 60), "n": None},
    {"_id": ObjectId("0" * 24), "link": DBRef("c", 1), "re": Regex("a", "i"), "ts": Timestamp(1, 2), "max": MaxKey()},
    {"_id": "x", "nested": [{"": 1}, [], {}], "double": -0.0, "raw": b"\0\xff"},
]
EXACT: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)


@pytest.fixture(scope="module")
def server() -> Iterator[Standalone]:
    with Standalone() as node:
        yield node


@pytest.fixture
def database(server: Standalone) -> Iterator[Database[dict[str, Any]]]:
    with MongoClient(server.uri) as client:
        client.drop_database("shop")
        made = client.get_database("shop", codec_options=EXACT)
        made.create_collection("sold", capped=True, size=8192)
        made["sold"].insert_many({"_id": n} for n in range(3))
        made["things/all"].insert_many(DOCUMENTS)
        made["things/all"].create_index([("long", 1), ("n", -1)], name="both", unique=True, sparse=True)
        made["many"].insert_many({"_id": n, "half": n // 2} for n in range(2500))
        made.create_collection("seen", viewOn="many", pipeline=[{"$match": {"half": 7}}])
        yield made


def run(command: Command, *arguments: object, input: bytes | None = None, fails: int = 0) -> Result:
    result = CliRunner().invoke(command, list(map(str, arguments)), input=input)
    assert result.exit_code == fails, result.output
    return result


def contents(database: Database[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in database.list_collections():
        name = each["name"]
        documents = [bson.encode(document, codec_options=EXACT) for document in database[name].find()]
        indexes = [] if each["type"] == "view" else [dict(index) for index in database[name].list_indexes()]
        if not name.startswith("system."):
            found[name] = (each["type"], each["options"], sorted(documents), indexes)
    return found


@pytest.mark.parametrize("compression", [(), ("--gzip",)])
def test_a_round_trip(
    server: Standalone, database: Database[dict[str, Any]], tmp_path: Path, compression: tuple[str, ...]
) -> None:
    before = contents(database)
    assert set(before) == {"sold", "things/all", "many", "seen"}
    run(dump.main, "--uri", server.uri, "--db", "shop", "--out", tmp_path, *compression)
    ending = ".gz" if compression else ""
    names = {path.name for path in (tmp_path / "shop").iterdir()}
    assert names == {
        *(f"{name}.metadata.json{ending}" for name in ("sold", "things%2Fall", "many", "seen")),
        *(f"{name}.bson{ending}" for name in ("sold", "things%2Fall", "many")),
    }
    database.client.drop_database("shop")
    run(restore.main, "--uri", server.uri, *compression, tmp_path)
    assert contents(database) == before

    again = run(restore.main, "--uri", server.uri, "--nsInclude", "shop.m*", *compression, tmp_path)
    assert "0 document(s) restored successfully. 2500 document(s) failed to restore." in again.output
    database["many"].insert_one({"_id": "new"})
    run(restore.main, "--uri", server.uri, "--drop", *compression, tmp_path)
    assert contents(database) == before


def test_a_part_of_a_collection(server: Standalone, database: Database[dict[str, Any]], tmp_path: Path) -> None:
    chosen = ("--db", "shop", "--collection", "many", "--query", '{"_id": {"$lt": {"$numberLong": "2"}}}')
    run(dump.main, "--uri", server.uri, *chosen, "--out", tmp_path)
    assert bson.decode_all((tmp_path / "shop" / "many.bson").read_bytes()) == [
        {"_id": 0, "half": 0},
        {"_id": 1, "half": 0},
    ]
    metadata = json.loads((tmp_path / "shop" / "many.metadata.json").read_text())
    assert metadata["collectionName"] == "many"
    assert metadata["indexes"] == [{"v": {"$numberInt": "2"}, "key": {"_id": {"$numberInt": "1"}}, "name": "_id_"}]


def test_a_file_as_json(tmp_path: Path) -> None:
    written = b"".join(bson.encode(document) for document in DOCUMENTS)
    lines = run(bsondump.main, input=written).stdout.splitlines()
    assert json.loads(lines[0])["far"] == {"$date": {"$numberLong": str(1 << 60)}}
    assert json.loads(lines[1])["link"] == {"$ref": "c", "$id": {"$numberInt": "1"}}
    file = tmp_path / "cut.bson"
    file.write_bytes(written[:-1])
    assert "after 2 documents" in run(bsondump.main, file, fails=1).output


def test_refusals(server: Standalone, tmp_path: Path) -> None:
    assert "--collection needs --db" in run(dump.main, "--collection", "c", fails=1).output
    assert "--query needs --collection" in run(dump.main, "--query", "{}", fails=1).output
    wrong = run(dump.main, "--db", "d", "--collection", "c", "--query", "{a", fails=1)
    assert "--query is no extended JSON" in wrong.output
    missing = run(dump.main, "--uri", server.uri, "--db", "none", "--collection", "c", "--out", tmp_path, fails=1)
    assert "there is no collection none.c" in missing.output
    assert "no wanted collection" in run(restore.main, tmp_path, fails=1).output
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "c.metadata.json.gz").write_bytes(gzip.compress(b"[1]"))
    assert "no document" in run(restore.main, "--uri", server.uri, "--gzip", tmp_path, fails=1).output
