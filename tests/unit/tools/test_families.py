"""Column families in a dump: whatever fits into no reply or no request is taken apart, and nothing is left out."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from docstore.tools.dumped.families import FamilyReading, write_rows

MEGABYTE = 1 << 20


class Family:
    """A server with one column family, as a client and as its database; replies have at most `most` bytes."""

    name = "ks"

    def __init__(self, rows: dict[str, list[dict[str, Any]]], most: int) -> None:
        self._rows = rows
        self._most = most
        self.written: list[dict[str, Any]] = []

    def get_database(self, _name: str) -> Family:
        return self

    def command(self, command: dict[str, Any], **_options: Any) -> dict[str, Any]:
        name = next(iter(command))
        if name == "wcBatchMutate":
            assert len(bson.encode(command)) < 16 * MEGABYTE
            self.written += command["mutations"]
            return {}
        limits = command["predicate"]["sliceRange"]
        if name == "wcGetSlice":
            reply = {"columns": self._columns(command["key"], limits)}
        else:
            keys = sorted(key for key in self._rows if key >= command["range"]["startKey"])[: command["count"]]
            reply = {"rows": [{"key": key, "columns": self._columns(key, limits)} for key in keys]}
        if len(bson.encode(reply)) > self._most:
            raise OperationFailure("the reply is too large")
        return reply

    def _columns(self, key: str, limits: dict[str, Any]) -> list[dict[str, Any]]:
        columns = [column for column in self._rows[key] if column["name"] >= limits.get("start", "")]
        return columns[: limits["count"]]


def column(name: str, size: int) -> dict[str, Any]:
    return {"name": name, "value": "x" * size, "timestamp": 1}


ROWS = {
    "many small": {f"r{n:03}": [column("c", 10)] for n in range(250)},
    "large neighbours": {f"r{n}": [column(f"c{m:02}", MEGABYTE // 4) for m in range(20)] for n in range(4)},
    "one large row": {"r0": [column("c", 1)], "r1": [column(f"c{m:02}", MEGABYTE) for m in range(20)]},
    "a last row": {"r0": [column(f"c{m}", MEGABYTE) for m in range(3)]},
}


@pytest.mark.parametrize("name", ROWS)
def test_all_rows_are_read_however_little_fits_into_a_reply(name: str) -> None:
    rows = ROWS[name]
    found: dict[str, list[dict[str, Any]]] = {}
    server: Any = Family(rows, 3 * MEGABYTE)
    for raw in FamilyReading(server, "ks", "F").batches():
        assert len(raw) < 5 * MEGABYTE
        document = bson.decode(raw)
        found.setdefault(document["key"], []).extend(document["columns"])
    assert found == rows


def test_a_page_that_is_refused_whatever_its_size_ends_the_dump() -> None:
    server: Any = Family(ROWS["many small"], 10)
    with pytest.raises(OperationFailure):
        list(FamilyReading(server, "ks", "F").batches())


def test_what_lives_for_ever_is_written_so_in_requests_that_a_server_takes() -> None:
    server: Any = Family({}, 0)
    rows = [
        {"key": f"r{n}", "columns": [column("c", 5 * MEGABYTE), {**column("d", 5 * MEGABYTE), "ttl": 60}]}
        for n in range(3)
    ]
    of_super = {"key": "s", "superColumns": [{"name": "s", "columns": [column("c", 1)]}]}
    documents = [RawBSONDocument(bson.encode(row)) for row in (*rows, of_super)]
    assert write_rows(server, "F", documents).done == 4
    inserted = [mutation["insert"] for mutation in server.written[:-1]]
    assert [each["ttl"] for each in inserted] == [0, 60] * 3
    assert server.written[-1]["insertSuper"]["columns"][0]["ttl"] == 0
