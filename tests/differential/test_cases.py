"""Every case on a real server and on a node in this process: the same replies, the same documents left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from random import Random
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.differential import (
    documents,
    expressions,
    filters,
    geometry,
    misshapen,
    nearness,
    pipelines,
    references,
    text_search,
    updates,
)
from tests.differential.pair import OPTIONS, Command, Pair
from tests.harness.reference import reference_server

pytestmark = pytest.mark.reference

SORTED = pipelines.SORTED
WITHOUT_COLLECTION = ("$documents", "$currentOp", "$planCacheStats")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=30_000) as client,
    ):
        yield client.get_database("test", codec_options=OPTIONS)


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


def test_paths_of_references(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        await pair.fill(linked=references.LINKED)
        for indexed in (False, True):
            for path in references.PATHS:
                if indexed:
                    yield "index", {"createIndexes": "linked", "indexes": [{"key": {path: 1}, "name": path}]}
                for fields in references.finds(path):
                    yield path, {"find": "linked", "sort": {"_id": 1}, **fields}
                for stages in references.pipelines(path):
                    yield path, aggregate("linked", *stages)

    check(reference, cases)


def test_geometry(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        await pair.fill(places=geometry.PLACES)
        for name, made in geometry.GEOMETRY.items():
            for condition in made:
                for collection in ("places", "nosuch"):
                    yield name, {"find": collection, "filter": condition, "projection": {"_id": 1}, "batchSize": 1000}
        rng = Random(1)
        await pair.fill(places=[{"_id": n, "g": geometry.random_shape(rng)} for n in range(60)])
        for _ in range(60):
            yield "random", {"find": "places", "filter": geometry.random_filter(rng), "sort": {"_id": 1}}

    check(reference, cases)


def test_indexes_of_geometry(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for specification in nearness.SPECIFICATIONS:
            await pair.fill(made=[])
            yield "made", {"createIndexes": "made", "indexes": [specification]}
            yield f"listed after {specification}", {"listIndexes": "made"}
        for one, other in nearness.AGAIN:
            await pair.fill(made=[])
            yield "made", {"createIndexes": "made", "indexes": [one]}
            yield f"again after {one}", {"createIndexes": "made", "indexes": [other]}
            yield "listed", {"listIndexes": "made"}
        for specification in nearness.HOLDING:
            await pair.fill(made=[])
            await pair.both({"createIndexes": "made", "indexes": [specification]})
            for number, value in enumerate(nearness.STORED):
                document = {"_id": number, "g": value, "a": 1}
                yield f"stored under {specification}", {"insert": "made", "documents": [document]}
                await pair.fill(built=[document])
                yield f"built over {value}", {"createIndexes": "built", "indexes": [specification]}
            yield "held", {"find": "made", "projection": {"_id": 1}, "batchSize": 1000}

    check(reference, cases)


def test_nearness(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        yield "without a collection", aggregate("nosuch", *nearness.GEO_NEAR[0])
        await pair.fill(places=nearness.places())
        yield "without an index", aggregate("places", {"$geoNear": {"near": [1, 1], "distanceField": "d"}})
        indexes = [nearness.SPHERE, nearness.PLANE, {"key": {"a": 1, "l.g": "2dsphere"}, "name": "l"}]
        for number, index in enumerate(indexes):
            yield "index", {"createIndexes": "places", "indexes": [index]}
            for stage in ({"near": [1, 1]}, {"near": geometry.point(1, 1)}):
                found = aggregate("places", {"$geoNear": {**stage, "distanceField": "d", "spherical": True}})
                yield f"with {number + 1} indexes", found
        for condition in [each for conditions in nearness.NEAR.values() for each in conditions]:
            for asked in nearness.FINDS:
                yield f"{condition}", {"find": "places", "filter": condition, "batchSize": 1000, **asked}
            yield f"count {condition}", {"count": "places", "query": condition}
        for stages in nearness.GEO_NEAR:
            yield "stage", aggregate("places", *stages)
        for filters_of in geometry.GEOMETRY.values():
            for condition in filters_of:
                if not any(name in str(condition) for name in ("$near", "$geoNear")):
                    yield "with an index", {"find": "places", "filter": condition, "sort": {"_id": 1}}

    check(reference, cases)


def test_text_search(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for specification in text_search.SPECIFICATIONS:
            await pair.fill(made=[])
            yield "made", {"createIndexes": "made", "indexes": [{"name": "n", **specification}]}
            yield f"listed after {specification}", {"listIndexes": "made"}
        for one, other in text_search.AGAIN:
            await pair.fill(made=[])
            yield "made", {"createIndexes": "made", "indexes": [{"name": "n", **one}]}
            yield f"again after {one}", {"createIndexes": "made", "indexes": [{"name": "n", **other}]}
        await pair.fill(made=[])
        await pair.both({"createIndexes": "made", "indexes": [{"key": {"t": "text", "a": 1}, "name": "n"}]})
        for number, document in enumerate(text_search.STORED):
            yield "stored", {"insert": "made", "documents": [{"_id": number, **document}]}
        await pair.fill(texts=text_search.TEXTS)
        yield "without an index", {"find": "texts", "filter": {"$text": {"$search": "fox"}}}
        for specification in text_search.OVER:
            await pair.fill(texts=text_search.TEXTS)
            yield "index", {"createIndexes": "texts", "indexes": [{"name": "n", **specification}]}
            for condition in text_search.QUERIES["$text"]:
                for asked in text_search.FINDS:
                    yield f"over {specification}", {"find": "texts", "filter": condition, "batchSize": 100, **asked}
            for command in text_search.OTHERS:
                yield f"over {specification}", command
        await pair.fill(texts=text_search.TEXTS[:2])
        await pair.both({"createIndexes": "texts", "indexes": [{"key": {"a": 1, "t": "text"}, "name": "n"}]})
        for beside in ({}, {"a": 0}, {"a": {"$gt": -1}}, {"a": {"$in": [0]}}, {"a": {"$in": [0, 1]}}, {"a": None}):
            yield "beside", {"find": "texts", "filter": {"$text": {"$search": "fox"}, **beside}}

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


def test_misshapen_pipelines(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for pipeline in misshapen.pipelines():
            yield next(iter(pipeline[-1])), aggregate("sales", *pipeline)

    check(reference, cases)


def test_misshapen_commands(reference: Database[dict[str, Any]]) -> None:
    async def cases(pair: Pair) -> AsyncIterator[tuple[str, Command]]:
        for command in misshapen.commands():
            yield next(iter(command)), command

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
