"""Random cases on a real server and on a node in this process. `DOCSTORE_RANDOM_CASES` says how many of each kind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.differential import random_stages, randomly, resent
from tests.differential.pair import OPTIONS, Command, Pair
from tests.harness.reference import reference_server

pytestmark = pytest.mark.reference

CASES = int(os.environ.get("DOCSTORE_RANDOM_CASES", "250"))
SEED = int(os.environ.get("DOCSTORE_RANDOM_SEED", "1"))
A_ROUND = 25
"""Cases over the same documents."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=30_000) as client,
    ):
        yield client.get_database("test", codec_options=OPTIONS)


def check(reference: Database[dict[str, Any]], round_of: Callable[[Pair, Random, list[str]], Awaitable[None]]) -> None:
    """Run rounds until there were enough cases; what they say differs fails the test."""
    differing: list[str] = []

    async def work() -> None:
        for number in range(max(1, CASES // A_ROUND)):
            await round_of(Pair(reference), Random(f"{SEED} {number}"), differing)

    asyncio.run(work())
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:60])


def test_filters_with_and_without_indexes(reference: Database[dict[str, Any]]) -> None:
    """An index changes no result: ours with indexes and without, and theirs without."""

    async def round_of(pair: Pair, rng: Random, differing: list[str]) -> None:
        documents = randomly.documents(rng, 20)
        await pair.fill(plain=documents)
        await pair.ours({"insert": "indexed", "documents": documents})
        for number in range(3):
            # What the documents do not allow (arrays side by side or under a hash) is refused, and left out.
            await pair.ours({"createIndexes": "indexed", "indexes": [randomly.index(rng, number)]})
        for _ in range(A_ROUND):
            command: Command = {"find": "plain", "filter": randomly.tree(rng), "sort": randomly.sort(rng)}
            if rng.random() < 0.3:
                command["projection"] = randomly.projection(rng)
            if rng.random() < 0.2:
                command["collation"] = rng.choice(randomly.COLLATIONS)
            theirs, ours = await pair.both(command)
            indexed = await pair.ours({**command, "find": "indexed"})
            if not theirs == ours == indexed:
                differing.append(f"{command}\n  reference {theirs}\n  ours      {ours}\n  indexed   {indexed}")

    check(reference, round_of)


def test_updates(reference: Database[dict[str, Any]]) -> None:
    """Replies and the documents that are left. A change that fails may have changed other documents before."""

    async def round_of(pair: Pair, rng: Random, differing: list[str]) -> None:
        await pair.fill(u=randomly.documents(rng, 12))
        await pair.both(
            {"createIndexes": "u", "indexes": [{"key": {"d": 1}, "name": "d", "unique": True, "sparse": True}]}
        )
        for _ in range(A_ROUND):
            statement = randomly.statement(rng)
            command: Command = {"update": "u", "updates": [statement]}
            if rng.random() < 0.3:
                command = {
                    "findAndModify": "u",
                    "query": statement["q"],
                    "update": statement["u"],
                    "new": rng.random() < 0.5,
                    "sort": {"_id": 1},
                    **{name: statement[name] for name in ("upsert", "arrayFilters", "collation") if name in statement},
                }
            theirs, ours = await pair.both(command)
            after, left = await pair.both({"find": "u", "sort": {"_id": 1}, "batchSize": 1000})
            if theirs != ours or after != left:
                differing.append(
                    f"{command}\n  reference {theirs}\n  ours      {ours}\n  after {after}\n  left  {left}"
                )
                break

    check(reference, round_of)


@pytest.mark.parametrize("kind", resent.KINDS)
def test_commands_that_are_sent_again_with_other_values(reference: Database[dict[str, Any]], kind: str) -> None:
    """While indexes come and go."""

    async def round_of(pair: Pair, rng: Random, differing: list[str]) -> None:
        await pair.both({"drop": "c"})
        await pair.both({"create": "c", **resent.KINDS[kind]})
        await pair.both({"insert": "c", "documents": [resent.document(rng, number) for number in range(20)]})
        commands = [resent.command_in(rng, kind) for _ in range(4)]
        others = rng.choice([0, 0.1, 0.3])
        for _ in range(3 * A_ROUND):
            if rng.random() < 0.1:
                name = f"i{rng.randint(0, 3)}"
                index = {"name": name, **resent.index_in(rng, kind)}
                made: Command = {"createIndexes": "c", "indexes": [index]}
                # On both: one that is hashed, or of two fields, refuses documents. A real server's wildcard index loses
                # some: it is asked for what is no less than null, say, and has no entries of what is missing.
                await (pair.ours(made) if "$**" in "".join(index["key"]) else pair.both(made))
                await pair.both({"dropIndexes": "c", "index": f"i{rng.randint(0, 3)}"})
            command = resent.again(rng, rng.choice(commands), others=others, rare=not kind.startswith("collated"))
            theirs, ours = await pair.both(command)
            after = {"find": "c", "sort": {"_id": 1}, "batchSize": 1000}
            became, left = await pair.both(after)
            if theirs != ours or became != left:
                differing.append(
                    f"{command}\n  reference {theirs}\n  ours      {ours}\n  after {became}\n  left  {left}"
                )
                break

    check(reference, round_of)


def compare(theirs: Any, ours: Any, command: Command, differing: list[str]) -> None:
    if theirs != ours:
        differing.append(f"{command}\n  reference {theirs}\n  ours      {ours}")


def aggregate(*stages: Command) -> Command:
    return {"aggregate": "rows", "pipeline": list(stages), "cursor": {"batchSize": 1000}}


def test_merges(reference: Database[dict[str, Any]]) -> None:
    async def round_of(pair: Pair, rng: Random, differing: list[str]) -> None:
        await pair.fill(rows=randomly.documents(rng, 6), target=[])
        await pair.both({"createIndexes": "target", "indexes": [{"key": {"k": 1}, "name": "k", "unique": True}]})
        for _ in range(A_ROUND):
            target = [{"_id": n, "k": n, "a": randomly.value(rng, 1), "s": "x"} for n in range(6)]
            await pair.both({"delete": "target", "deletes": [{"q": {}, "limit": 0}]})
            await pair.both({"insert": "target", "documents": target})
            command = aggregate({"$sort": {"_id": 1}}, *random_stages.before_merge(rng), random_stages.merge(rng))
            compare(*await pair.both(command), command, differing)
            after = {"find": "target", "sort": {"k": 1, "_id": 1}, "batchSize": 1000}
            compare(*await pair.both(after), {**after, "after": command}, differing)

    check(reference, round_of)


@pytest.mark.parametrize("kind", ["windows", "groups", "collations"])
def test_stages(reference: Database[dict[str, Any]], kind: str) -> None:
    def command(rng: Random) -> Command:
        match kind:
            case "windows":
                return aggregate(random_stages.windows(rng), {"$sort": {"_id": 1}}, {"$project": {"r": 1}})
            case "groups":
                return aggregate(*random_stages.group(rng))
            case _:
                return random_stages.collated(rng)

    async def round_of(pair: Pair, rng: Random, differing: list[str]) -> None:
        await pair.fill(rows=random_stages.rows(rng, 14))
        for _ in range(A_ROUND):
            made = command(rng)
            compare(*await pair.both(made), made, differing)

    check(reference, round_of)


@pytest.mark.parametrize("make", [random_stages.date_expression, random_stages.decimal_expression])
def test_expressions(reference: Database[dict[str, Any]], make: Callable[[Random], Any]) -> None:
    async def round_of(pair: Pair, rng: Random, differing: list[str]) -> None:
        await pair.fill(rows=[{"_id": 1}])
        for _ in range(A_ROUND):
            command = aggregate({"$project": {"r": make(rng)}})
            compare(*await pair.both(command), command, differing)

    check(reference, round_of)
