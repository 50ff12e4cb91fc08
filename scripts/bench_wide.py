"""Speed of the wide-column mode beside that of documents, on one data node in one alternating run.

There is no reference server for wide columns: each workload stands beside what documents do for the same purpose. Rates
are units a second, and beside them is the processor time that the server took for a unit, in microseconds.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymongo
from bson.int64 import Int64

from scripts.measuring import processor_seconds, server_pid

Database = pymongo.database.Database[dict[str, Any]]
LARGE = 1_000_000
"""Columns of the large partition, and documents of the collection beside it."""
_BATCH = 5_000
_TEXT = "data for content"


@dataclass(frozen=True, slots=True)
class Pair:
    """The same work in both models: `units` units each. `target`: the rate wished for, or the ratio to documents."""

    name: str
    units: int
    columns: Callable[[Database], object]
    documents: Callable[[Database], object]
    target: str = ""


class Fresh:
    """Row keys and `_id`s that have not been used before."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> range:
        start = self._next
        self._next += count
        return range(start, start + count)


KEYS = Fresh()


def column_insert(wide: Database) -> None:
    for number in KEYS.take(2000):
        wide.command({"wcInsert": "rows", "key": f"r{number}", "column": "content", "value": _TEXT})


def document_insert(documents: Database) -> None:
    for number in KEYS.take(2000):
        documents.rows.insert_one({"_id": f"r{number}", "content": _TEXT})


def column_get(wide: Database) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        wide.command({"wcGet": "known", "key": f"r{rng.randrange(2000)}", "column": "content"})


def document_get(documents: Database) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        assert documents.known.find_one({"_id": f"r{rng.randrange(2000)}"})


def column_batch(wide: Database) -> None:
    for start in range(0, 20_000, 1000):
        key = f"b{KEYS.take(1)[0]}"
        wide.command({"wcBatchMutate": 1, "mutations": [mutation(key, n) for n in range(start, start + 1000)]})


def document_batch(documents: Database) -> None:
    for _ in range(20):
        documents.rows.insert_many([{"_id": number, "content": _TEXT} for number in KEYS.take(1000)])


def column_slice(wide: Database) -> None:
    for page in range(20):
        sliced = {"start": Int64(page * 1000), "count": 1000}
        found = wide.command({"wcGetSlice": "lines", "key": "large", "predicate": {"sliceRange": sliced}})
        assert len(found["columns"]) == 1000


def document_slice(documents: Database) -> None:
    for page in range(20):
        found = documents.lines.find({"_id": {"$gte": page * 1000}}, sort=[("_id", 1)]).limit(1000)
        assert len(list(found)) == 1000


def newest_columns(wide: Database) -> None:
    for _ in range(500):
        sliced = {"reversed": True, "count": 10}
        found = wide.command({"wcGetSlice": "lines", "key": "large", "predicate": {"sliceRange": sliced}})
        assert found["columns"][0]["name"] == LARGE - 1


def newest_documents(documents: Database) -> None:
    for _ in range(500):
        found = list(documents.lines.find(sort=[("_id", -1)]).limit(10))
        assert found[0]["_id"] == LARGE - 1


def page_columns(wide: Database) -> None:
    met, sliced = 0, {"count": 10_000}
    while met < LARGE:
        found = wide.command({"wcGetSlice": "lines", "key": "large", "predicate": {"sliceRange": sliced}})["columns"]
        met += len(found)
        sliced["start"] = Int64(found[-1]["name"] + 1)


def page_documents(documents: Database) -> None:
    assert sum(1 for _ in documents.lines.find(sort=[("_id", 1)], batch_size=10_000)) == LARGE


def cql_insert(wide: Database) -> None:
    for number in KEYS.take(2000):
        wide.command({"cql": f"INSERT INTO posts (id, content) VALUES ('c{number}', '{_TEXT}')"})


def cql_bound_insert(wide: Database) -> None:
    for number in KEYS.take(2000):
        wide.command({"cql": "INSERT INTO posts (id, content) VALUES (?, ?)", "params": [f"c{number}", _TEXT]})


def cql_select(wide: Database) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        found = wide.command({"cql": f"SELECT content FROM read WHERE id = 'r{rng.randrange(2000)}'"})
        assert found["rows"]


def cql_bound_select(wide: Database) -> None:
    rng = random.Random(1)
    for _ in range(2000):
        found = wide.command({"cql": "SELECT content FROM read WHERE id = ?", "params": [f"r{rng.randrange(2000)}"]})
        assert found["rows"]


def mutation(key: str, number: int) -> dict[str, Any]:
    return {"key": key, "columnFamily": "lines", "insert": {"name": Int64(number), "value": _TEXT}}


PAIRS = [
    Pair("insert of a column", 2000, column_insert, document_insert, "0.9 of it"),
    Pair("get of a column", 2000, column_get, document_get, "0.9 of it"),
    Pair("batch of 1,000 columns", 20_000, column_batch, document_batch, "60,000"),
    Pair("slice of 1,000 columns", 20_000, column_slice, document_slice, "300,000"),
    Pair("last 10 of 1,000,000", 500, newest_columns, newest_documents, "200"),
    Pair("paging through 1,000,000", LARGE, page_columns, page_documents),
    Pair("CQL INSERT", 2000, cql_insert, document_insert),
    Pair("CQL INSERT, bound values", 2000, cql_bound_insert, document_insert),
    Pair("CQL SELECT of a row", 2000, cql_select, document_get),
    Pair("CQL SELECT, bound values", 2000, cql_bound_select, document_get),
]


def fill(wide: Database, documents: Database) -> None:
    """The column families, tables and collections that the workloads read."""
    admin = wide.client.admin
    admin.command({"createKeyspace": wide.name})
    for name, compare in (("rows", "UTF8Type"), ("known", "UTF8Type"), ("lines", "LongType")):
        wide.command({"createColumnFamily": name, "compareWith": compare})
    for table in ("posts", "read"):
        wide.command({"cql": f"CREATE TABLE {table} (id text PRIMARY KEY, content text)"})
    for number in range(2000):
        wide.command({"wcInsert": "known", "key": f"r{number}", "column": "content", "value": _TEXT})
        wide.command({"cql": "INSERT INTO read (id, content) VALUES (?, ?)", "params": [f"r{number}", _TEXT]})
    documents.known.insert_many([{"_id": f"r{number}", "content": _TEXT} for number in range(2000)])
    for start in range(0, LARGE, _BATCH):
        numbers = range(start, start + _BATCH)
        wide.command({"wcBatchMutate": 1, "mutations": [mutation("large", number) for number in numbers]})
        documents.lines.insert_many([{"_id": number, "content": _TEXT} for number in numbers])


def measure(run: Callable[[Database], object], database: Database, units: int, pid: int) -> tuple[float, float]:
    """(units a second, processor seconds a unit)."""
    spent = processor_seconds(pid)
    began = time.perf_counter()
    run(database)
    seconds = time.perf_counter() - began
    return units / seconds, (processor_seconds(pid) - spent) / units


def compare(client: pymongo.MongoClient[dict[str, Any]], only: str, rounds: int) -> None:
    """Run the pairs on a data node and print a line for each."""
    wide, documents = client.wide_bench, client.bench
    fill(wide, documents)
    pid = server_pid(client)
    print(f"{'':28}{'columns /s':>12}{'documents /s':>14}{'ratio':>8}{'target':>12}{'cols us':>10}{'docs us':>10}")
    for pair in PAIRS:
        if only not in pair.name:
            continue
        results = [
            (measure(pair.columns, wide, pair.units, pid), measure(pair.documents, documents, pair.units, pid))
            for _ in range(rounds)
        ]
        rates = [statistics.median(result[side][0] for result in results) for side in (0, 1)]
        spent = [statistics.median(result[side][1] for result in results) * 1e6 for side in (0, 1)]
        print(
            f"{pair.name:28}{rates[0]:12.0f}{rates[1]:14.0f}{rates[0] / rates[1]:8.2f}{pair.target:>12}"
            f"{spent[0]:10.1f}{spent[1]:10.1f}",
            flush=True,
        )
