"""Every case on a real server and on a node in this process: the same replies, the same documents left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import pymongo
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import dumps
from pymongo.database import Database

from tests.differential import documents, expressions, filters, pipelines, updates
from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode

pytestmark = pytest.mark.reference

Command = dict[str, Any]
Run = Callable[[Command], Awaitable[dict[str, Any]]]
OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
FAILURE = ("code", "codeName", "index", "keyPattern", "keyValue")
SORTED = pipelines.SORTED
WITHOUT_COLLECTION = ("$documents", "$currentOp", "$planCacheStats")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=30_000) as client,
    ):
        yield client.get_database("test", codec_options=OPTIONS)


class Pair:
    """A real server and a node of ours that are told the same."""

    def __init__(self, reference: Database[dict[str, Any]]) -> None:
        self._reference = reference
        self._node = LocalNode()

    async def both(self, command: Command) -> tuple[Any, Any]:
        """What is compared of both replies."""
        theirs = self._reference.command(command, check=False, codec_options=OPTIONS)
        ours = await self._node.reply(command, options=OPTIONS)
        return outcome(theirs), outcome(ours)

    async def fill(self, **collections: list[dict[str, Any]]) -> None:
        for name, contents in collections.items():
            for command in ({"drop": name}, {"create": name}, {"insert": name, "documents": contents}):
                await self.both(command)


def outcome(reply: Mapping[str, Any]) -> Any:
    """The documents of a reply, or its counts, or what distinguishes its errors; text of errors left out."""
    if not reply["ok"]:
        return {name: reply.get(name) for name in FAILURE}
    if "cursor" in reply:
        return dumps(approximate(reply["cursor"]["firstBatch"]))
    failures = [{name: error.get(name) for name in FAILURE} for error in reply.get("writeErrors", ())]
    return dumps([failures, reply.get("n"), reply.get("nModified"), reply.get("upserted")])


def approximate(value: Any) -> Any:
    """Doubles without their last digits, which depend on the order of the steps of a calculation."""
    if isinstance(value, dict):
        return {name: approximate(member) for name, member in value.items()}
    if isinstance(value, list):
        return [approximate(member) for member in value]
    return float(f"{value:.13g}") if type(value) is float else value


def check(
    reference: Database[dict[str, Any]],
    cases: Callable[[Pair], AsyncIterator[tuple[str, Command]]],
) -> None:
    """Run the commands of all cases on both; the differing ones fail the test, by name."""
    differing: list[str] = []

    async def work() -> None:
        pair = Pair(reference)
        await pair.fill(types=documents.TYPES, sales=documents.SALES, k=documents.OTHERS)
        async for name, command in cases(pair):
            theirs, ours = await pair.both(command)
            if theirs != ours:
                differing.append(f"{name}: {command}\n  reference {theirs}\n  ours      {ours}")

    asyncio.run(work())
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:5])


def aggregate(collection: str, *stages: dict[str, Any]) -> Command:
    return {"aggregate": collection, "pipeline": list(stages), "cursor": {"batchSize": 1000}}


def test_filters_and_projections(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for name, made in filters.FILTERS.items():
            for condition in made:
                yield name, {"find": "types", "filter": condition, "sort": {"_id": 1}, "batchSize": 1000}
        for name, made in filters.FINDS.items():
            for fields in made:
                yield name, {"find": "sales", "batchSize": 1000, **fields}

    check(reference, cases)


def test_updates(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for name, made in updates.UPDATES.items():
            for statement in made:
                await pair.fill(u=updates.DOCUMENTS)
                yield name, {"update": "u", "updates": [statement]}
                yield f"{name}, documents after {statement}", {"find": "u", "sort": {"_id": 1}, "batchSize": 1000}

    check(reference, cases)


def test_stages(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for name, made in pipelines.STAGES.items():
            writes = name in ("$out", "$merge")
            for stages in made:
                if writes:
                    await pair.fill(out=documents.OTHERS)
                yield name, aggregate("sales", *stages)
                if name in WITHOUT_COLLECTION:
                    yield name, {**aggregate("sales", *stages), "aggregate": 1}
                if writes:
                    yield f"{name}, documents after {stages}", aggregate("out", SORTED)

    check(reference, cases)


def test_accumulators_and_window_functions(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for name, made in pipelines.ACCUMULATORS.items():
            for field in made:
                if name != "$addToSet":
                    yield name, aggregate("sales", SORTED, {"$group": {"_id": "$n", "r": field}}, SORTED)
                for window in pipelines.WINDOWS:
                    output = field if window is None else {**field, "window": window}
                    if name == "$addToSet":
                        yield name, aggregate("sales", *over(output), {"$project": {"r": {"$size": "$r"}}})
                    else:
                        yield name, aggregate("sales", *over(output), {"$project": {"r": 1}})
        for name, made in pipelines.WINDOW_FUNCTIONS.items():
            for output in made:
                yield name, aggregate("sales", *over(output), {"$project": {"r": 1}})
                yield name, aggregate("sales", *over(output, partitionBy="$n"), {"$project": {"r": 1}})
        for output in pipelines.BY_DATE:
            yield "by date", aggregate("sales", *over(output, sortBy={"when": 1}), {"$project": {"r": 1}})

    check(reference, cases)


def over(output: Any, **fields: Any) -> list[dict[str, Any]]:
    return [{"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": output}, **fields}}, SORTED]


def test_expressions(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for name, made in expressions.EXPRESSIONS.items():
            for expression in made:
                collection = "types" if "$v" in str(expression) else "sales"
                yield name, aggregate(collection, SORTED, {"$project": {"_id": 0, "r": expression}})

    check(reference, cases)
