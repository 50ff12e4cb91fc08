"""What is exported as text is imported the same; what text says is written as its options say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from click import Command
from click.testing import CliRunner, Result
from pymongo import MongoClient
from pymongo.collection import Collection

from docstore.testing import Standalone
from docstore.tools import export, load

pytestmark = pytest.mark.cluster

EXACT: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
OID = ObjectId("0123456789abcdef01234567")
DOCUMENTS: list[dict[str, Any]] = [
    {"_id": 1, "long": Int64(5), "decimal": Decimal128("1.50"), "far": DatetimeMS(1 << 60), "n": None},
    {"_id": OID, "re": Regex("a", "i"), "ts": Timestamp(1, 2), "max": MaxKey(), "at": DatetimeMS(1_500)},
    {"_id": "x", "nested": [{"": 1}, [], {}], "double": -0.0, "whole": 2.0, "raw": b"\0\xff", "text": 'ä "q", z'},
]


@pytest.fixture(scope="module")
def server() -> Iterator[Standalone]:
    with Standalone() as node:
        yield node


@pytest.fixture
def things(server: Standalone) -> Iterator[Collection[dict[str, Any]]]:
    with MongoClient(server.uri) as client:
        client.drop_database("shop")
        collection = client.get_database("shop", codec_options=EXACT)["things"]
        collection.insert_many(DOCUMENTS)
        yield collection


def run(server: Standalone, command: Command, *arguments: object, input: str = "", fails: int = 0) -> Result:
    given = ["--uri", server.uri, "--db", "shop", *map(str, arguments)]
    result = CliRunner().invoke(command, given, input=input.encode())
    assert result.exit_code == fails, result.output
    return result


@pytest.mark.parametrize("array", [(), ("--jsonArray",), ("--jsonArray", "--pretty"), ("--pretty",)])
def test_a_round_trip(
    server: Standalone, things: Collection[dict[str, Any]], tmp_path: Path, array: tuple[str, ...]
) -> None:
    file = tmp_path / "copy.json"
    exported = run(server, export.main, "-c", "things", "--jsonFormat", "canonical", *array, "-o", file)
    assert exported.stdout == ""
    assert "exported 3 records" in exported.stderr
    imported = run(server, load.main, *(option for option in array if option != "--pretty"), file)
    assert "3 document(s) imported successfully. 0 document(s) failed to import." in imported.stderr
    assert list(things.database["copy"].find()) == DOCUMENTS
    things.delete_many({})
    again = run(server, load.main, "-c", "things", "--drop", *array[:1][: array[:1] == ("--jsonArray",)],
                input=file.read_text("utf-8"))  # fmt: skip
    assert "dropping: shop.things" in again.stderr
    assert list(things.find()) == DOCUMENTS


def test_which_documents_are_exported(server: Standalone, things: Collection[dict[str, Any]], tmp_path: Path) -> None:
    things.database["many"].insert_many({"_id": n, "half": n // 2, "in": {"a": n, "b": n}} for n in range(20))
    chosen = ("-c", "many", "-q", '{"_id": {"$gte": {"$numberLong": "4"}}}', "--sort", '{"half": -1, "_id": 1}')
    lines = run(server, export.main, *chosen, "--skip", "1", "--limit", "2", "-f", "half,in.b,in").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_id": 19, "half": 9, "in": {"a": 19, "b": 19}},
        {"_id": 16, "half": 8, "in": {"a": 16, "b": 16}},
    ]
    file = tmp_path / "filter.json"
    file.write_text('{"half": 3}')
    assert len(run(server, export.main, "-c", "many", "--queryFile", file).stdout.splitlines()) == 2
    assert run(server, export.main, "-c", "none", "--jsonArray").stdout == "[]\n"
    missing = run(server, export.main, "-c", "none", "--assertExists", fails=1)
    assert "Failed: collection 'none' does not exist" in missing.stderr


def test_export_as_csv(server: Standalone, things: Collection[dict[str, Any]], tmp_path: Path) -> None:
    fields = tmp_path / "fields.txt"
    fields.write_text("_id\nlong\ndecimal\nat\nnested.1\ntext\nwhole\nn\n")
    given = ("-c", "things", "--type", "csv", "--fieldFile", fields)
    header, *rows = run(server, export.main, *given).stdout.splitlines()
    assert header == "_id,long,decimal,at,nested.1,text,whole,n"
    assert rows == [
        "1,5,1.50,,,,,",
        f"ObjectId({OID}),,,1970-01-01T00:00:01.500Z,,,,",
        'x,,,,[],"ä ""q"", z",2,',
    ]
    assert run(server, export.main, *given, "--noHeaderLine").stdout.splitlines() == rows


def test_import_of_columns(server: Standalone, things: Collection[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("\ufeff_id,name,address.city,born\n1,Ann,,2026\n2,Bob,Rome,x\n", "utf-8")
    run(server, load.main, "--type", "csv", "--headerline", "--ignoreBlanks", "--file", file)
    assert list(things.database["people"].find()) == [
        {"_id": 1, "name": "Ann", "born": 2026},
        {"_id": 2, "name": "Bob", "address": {"city": "Rome"}, "born": "x"},
    ]
    typed = ("-c", "t", "--type", "tsv", "--columnsHaveTypes", "-f", "_id.int32(),at.date(2006-01-02)")
    wrong = run(server, load.main, *typed, input="1\t2026-01-01\n2\tnever\n", fails=1)
    assert "Failed: row 2, field at" in wrong.stderr
    assert "1 document(s) imported successfully." in wrong.stderr
    run(server, load.main, *typed, "--parseGrace", "skipField", input="3\tnever\n")
    assert things.database["t"].find_one({"_id": 3}) == {"_id": 3}


def test_documents_that_are_refused(server: Standalone, things: Collection[dict[str, Any]]) -> None:
    text = '{"_id":1}\n{"_id":7}\n{"_id":7}\n{"_id":8}\n'
    all_but_some = run(server, load.main, "-c", "things", input=text)
    assert "continuing through error: E11000" in all_but_some.stderr
    assert "2 document(s) imported successfully. 2 document(s) failed to import." in all_but_some.stderr
    for option in ("--stopOnError", "--maintainInsertionOrder"):
        text = "\n".join(json.dumps({"_id": each}) for each in (option, 1, "behind"))
        stopped = run(server, load.main, "-c", "things", option, input=text, fails=1)
        assert "Failed: E11000" in stopped.stderr
        assert "1 document(s) imported successfully. 1 document(s) failed to import." in stopped.stderr
    assert things.count_documents({"_id": "behind"}) == 0
    several = run(server, load.main, "-c", "many", "-j", "3", input="".join(f'{{"_id":{n}}}\n' for n in range(5000)))
    assert "5000 document(s) imported" in several.stderr
    assert things.database["many"].count_documents({}) == 5000


def test_unreadable_text(server: Standalone, things: Collection[dict[str, Any]]) -> None:
    wrong = run(server, load.main, "-c", "new", input='{"_id":1}\n{"_id":2}\n{"_id":\n', fails=1)
    assert "Failed: error processing document #3" in wrong.stderr
    assert "2 document(s) imported successfully. 0 document(s) failed to import." in wrong.stderr
    large = run(server, load.main, "-c", "new", input='{"_id":3,"n":99999999999999999999}', fails=1)
    assert "error processing document #1" in large.stderr


def test_modes(server: Standalone, things: Collection[dict[str, Any]]) -> None:
    things.database["m"].insert_many([{"_id": 1, "k": "a", "x": 1}, {"_id": 2, "k": "b", "x": 2}])
    found = things.database["m"]
    text = '{"k":"a","y":5}\n{"k":"c","y":6}\n{"z":7}\n'
    merged = run(server, load.main, "-c", "m", "--mode", "merge", "--upsertFields", "k", input=text)
    assert "3 document(s) imported successfully. 0 document(s) failed to import." in merged.stderr
    assert found.find_one({"k": "a"}) == {"_id": 1, "k": "a", "x": 1, "y": 5}
    assert found.count_documents({}) == 4
    run(server, load.main, "-c", "m", "--upsertFields", "k", input='{"k":"a","w":1}')
    assert found.find_one({"k": "a"}) == {"_id": 1, "k": "a", "w": 1}
    run(server, load.main, "-c", "m", "--mode", "upsert", input='{"_id":2,"new":1}')
    assert found.find_one({"_id": 2}) == {"_id": 2, "new": 1}
    deleted = run(server, load.main, "-c", "m", "--mode", "delete", "--upsertFields", "k", input=text)
    assert "2 document(s) deleted successfully. 1 document(s) failed to delete." in deleted.stderr
    assert found.count_documents({}) == 2


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (export.main, ("-c", "c", "--type", "csv")),
        (export.main, ("-c", "c", "--type", "csv", "-f", "a", "--pretty")),
        (export.main, ("-c", "c", "--noHeaderLine")),
        (export.main, ("-c", "c", "-q", "{a")),
        (export.main, ("-c", "c", "--slaveOk")),
        (load.main, ()),
        (load.main, ("-c", "c", "--headerline")),
        (load.main, ("-c", "c", "--type", "csv")),
        (load.main, ("-c", "c", "--type", "csv", "--headerline", "-f", "a")),
        (load.main, ("-c", "c", "--mode", "insert", "--upsertFields", "a")),
        (load.main, ("-c", "c", "--stopOnError", "-j", "2")),
        (load.main, ("-c", "c", "--writeConcern", "0")),
        (load.main, ("-c", "c", "--host", "127.0.0.1")),
    ],
)
def test_refusals(server: Standalone, command: Command, arguments: tuple[str, ...]) -> None:
    assert "error parsing command line options" in run(server, command, *arguments, fails=1).stderr
