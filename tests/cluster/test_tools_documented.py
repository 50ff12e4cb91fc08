"""The commands of docs/tools.md do their work, one after the other, as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId, encode
from click import Command
from click.testing import CliRunner
from gridfs import GridFSBucket
from pymongo import MongoClient

from docstore.testing import ReplicaSet
from docstore.tools import bsondump, dump, export, grid_files, load, restore, stat, top

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tools.md"
COMMANDS: dict[str, Command] = {
    "mongodump": dump.main,
    "mongorestore": restore.main,
    "bsondump": bsondump.main,
    "mongoexport": export.main,
    "mongoimport": load.main,
    "mongofiles": grid_files.main,
    "mongostat": stat.main,
    "mongotop": top.main,
}
ENDLESS = ("mongostat", "mongotop")
LINES = re.findall(r"^    ((?:mongo\w+|bsondump)\b.*)$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=1) as nodes:
        yield nodes


@pytest.fixture
def client(replica_set: ReplicaSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MongoClient[Any]]:
    """What the commands name is there: in the database, and in the directory that they are run in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.bson").write_bytes(encode({"_id": 100}))
    (tmp_path / "people.csv").write_text("_id.int32(),born.date(2006-01-02)\n1,2026-11-25\n")
    (tmp_path / "prices.json").write_text('{"item": 1, "store": 2, "price": 3}')
    (tmp_path / "picture.png").write_bytes(b"png")
    with MongoClient(replica_set.uri) as made:
        made["shop"]["orders"].insert_many({"_id": n, "open": n % 2 == 0} for n in range(10))
        made["shop"]["orders"].create_index("open")
        named = ObjectId("64b7f0c2a1b2c3d4e5f60718")
        GridFSBucket(made["shop"]).upload_from_stream_with_id(named, "old.png", b"old")
        yield made


def test_every_command_of_the_page(replica_set: ReplicaSet, client: MongoClient[Any], tmp_path: Path) -> None:
    assert {line.split()[0] for line in LINES} == COMMANDS.keys()
    for line in LINES:
        words = shlex.split(line, comments=True)
        given: bytes | None = None
        while words:
            end = words.index("|") if "|" in words else len(words)
            given = run(replica_set.uri, words[:end], given)
            words = words[end + 1 :]
    database = client["shop"]
    assert database["orders"].count_documents({}) == database["orders"].count_documents({"open": True}) == 5
    assert database["people"].count_documents({}) == 1
    assert database["prices"].count_documents({"item": 1, "store": 2, "price": 3}) == 1
    assert client["copy"]["orders"].count_documents({}) == 10
    assert (tmp_path / "copy.png").read_bytes() == b"png"
    assert [each.filename for each in GridFSBucket(database).find({})] == ["picture.png"]
    assert not (tmp_path / "progress").exists()


def run(uri: str, words: list[str], given: bytes | None) -> bytes:
    name, *arguments = words
    if "--port" in arguments:
        place = arguments.index("--port")
        del arguments[place : place + 2]
    if name in ENDLESS and "--rowcount" not in arguments:
        arguments += ["--rowcount", "1"]
    if name != "bsondump":
        arguments = ["--uri", uri, *arguments]
    result = CliRunner().invoke(COMMANDS[name], arguments, input=given)
    assert result.exit_code == 0, (words, result.output)
    return result.stdout_bytes
