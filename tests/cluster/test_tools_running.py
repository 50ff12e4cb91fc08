"""Files in GridFS by command, and what a running server is seen to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Command
from click.testing import CliRunner, Result
from gridfs import GridFSBucket
from pymongo import MongoClient

from docstore.testing import Cluster, Standalone
from docstore.tools import grid_files, stat, top

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server() -> Iterator[Standalone]:
    with Standalone() as node:
        yield node


@pytest.fixture
def bucket(server: Standalone) -> Iterator[GridFSBucket]:
    with MongoClient(server.uri) as client:
        client.drop_database("shop")
        yield GridFSBucket(client["shop"])


def run(uri: str, command: Command, *arguments: object, input: bytes = b"", fails: int = 0) -> Result:
    result = CliRunner().invoke(command, ["--uri", uri, *map(str, arguments)], input=input)
    assert result.exit_code == fails, result.output
    return result


def files(server: Standalone, *arguments: object, **options: Any) -> Result:
    return run(server.uri, grid_files.main, "--db", "shop", *arguments, **options)


def test_columns_that_are_named(server: Standalone) -> None:
    named = "insert,mem.resident=MB,network.numRequests.diff()=more,network.numRequests.rate(),version,no.such"
    shown = run(server.uri, stat.main, "-n", 1, "--json", "-o", named).stdout
    [row] = json.loads(shown).values()
    assert list(row) == ["insert", "MB", "more", "network.numRequests.rate()", "version"]
    assert int(row["MB"]) > 0
    assert float(row["more"]) >= 1
    [row] = json.loads(
        run(server.uri, stat.main, "-n", 1, "--json", "-O", "pid", "--humanReadable", "false").stdout
    ).values()
    assert list(row)[-1] == "pid"
    assert int(row["net_in"]) >= 0
    for wrong in (("-o", "a.b.sum()"), ("-o", "insert", "-O", "uptime")):
        assert "error parsing" in run(server.uri, stat.main, *wrong, fails=1).stderr


def test_files_are_put_and_got(
    server: Standalone, bucket: GridFSBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"0123456789" * 100_000
    (tmp_path / "a.bin").write_bytes(content)
    (tmp_path / "b.txt").write_bytes(b"b")
    monkeypatch.chdir(tmp_path)
    assert "added gridFile: b.txt" in files(server, "put", "a.bin", "b.txt").stderr
    assert files(server, "list").stdout == "a.bin\t1000000\nb.txt\t1\n"
    assert files(server, "list", "b").stdout == "b.txt\t1\n"
    files(server, "get_regex", "--regexOptions", "i", "^B")
    assert "--regexOptions is for get_regex" in files(server, "list", "--regexOptions", "i", fails=1).stderr
    assert files(server, "search", ".bi").stdout == "a.bin\t1000000\n"
    assert files(server, "get", "--local", "-", "a.bin").stdout_bytes == content
    (tmp_path / "a.bin").unlink()
    assert "finished writing to a.bin" in files(server, "get", "a.bin").stderr
    assert (tmp_path / "a.bin").read_bytes() == content
    files(server, "put", "--local", "-", "--replace", "--type", "text/plain", "b.txt", input=b"new")
    found = list(bucket.find({"filename": "b.txt"}))
    assert [(each.read(), each.metadata) for each in found] == [(b"new", {"contentType": "text/plain"})]
    (tmp_path / "b.txt").unlink()
    files(server, "get_regex", "^b")
    assert (tmp_path / "b.txt").read_bytes() == b"new"
    assert "successfully deleted all instances of 'a.bin'" in files(server, "delete", "a.bin").stderr
    assert files(server, "list").stdout == "b.txt\t3\n"


def test_files_by_identifier(server: Standalone, bucket: GridFSBucket, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    identity = '{"$oid": "0123456789abcdef01234567"}'
    files(server, "put_id", "--prefix", "docs", "--local", tmp_path / "x", "named", identity)
    assert files(server, "--prefix", "docs", "list").stdout == "named\t1\n"
    files(server, "get_id", "--prefix", "docs", "--local", tmp_path / "y", identity)
    assert (tmp_path / "y").read_bytes() == b"x"
    files(server, "delete_id", "--prefix", "docs", identity)
    assert "Failed: no file" in files(server, "get_id", "--prefix", "docs", identity, fails=1).stderr


def test_refusals(server: Standalone, bucket: GridFSBucket) -> None:
    assert "Failed: no such file with name: none" in files(server, "get", "none", fails=1).stderr
    for arguments in (
        ("rename", "x"),
        ("get",),
        ("get", "--local", "x", "a", "b"),
        ("list", "--replace"),
        ("put_id", "x"),
        ("get_id", "{"),
        ("get_regex", "--local", "x", "a"),
    ):
        assert "error parsing command line options" in files(server, *arguments, fails=1).stderr


def test_what_a_server_does(server: Standalone) -> None:
    header, *rows = run(server.uri, stat.main, "-n", "2").stdout.splitlines()
    columns = ["insert", "query", "update", "delete", "getmore", "command"]
    assert header.split()[:6] == columns
    assert len(rows) == 2
    assert all(len(row.split()) == len(header.split()) + 2 for row in rows), "the time has three parts"
    (line,) = run(server.uri, stat.main, "-n", "1", "--json", "1").stdout.splitlines()
    (row,) = json.loads(line).values()
    assert list(row)[:6] == columns
    assert row["insert"] == "*0"
    assert int(row["conn"]) > 0
    bare = run(server.uri, stat.main, "-n", "1", "--noheaders").stdout
    assert len(bare.splitlines()) == 1


def test_where_a_server_spends_its_time(server: Standalone) -> None:
    with MongoClient(server.uri) as client:
        client["shop"]["seen"].insert_one({})
    table = run(server.uri, top.main, "-n", "1").stdout.splitlines()
    assert table[0].split()[:4] == ["ns", "total", "read", "write"]
    (line,) = run(server.uri, top.main, "--json", "--rowcount", "1", "1").stdout.splitlines()
    found = json.loads(line)
    assert found["totals"]["shop.seen"].keys() == {"total", "read", "write"}
    assert found["totals"]["shop.seen"]["total"].keys() == {"time", "count"}


def test_routers() -> None:
    with Cluster(shards=1) as cluster:
        refused = run(cluster.uri, top.main, "-n", "1", fails=1)
        assert "cannot run mongotop against a mongos" in refused.stderr
        assert "net_out" in run(cluster.uri, stat.main, "-n", "1").stdout
