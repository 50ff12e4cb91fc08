"""How large chunks are, and what becomes of those that are too large to move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.key import KeyRange
from docstore.sharding.move_request import Extent
from tests.unit.migration.local_cluster import NAMESPACE, Cluster

DOCUMENT_BYTES = 1000


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """100 documents of a kilobyte on shard1, cut at "050"."""
    made = await Cluster().build()
    try:
        rows: list[dict[str, Any]] = [{"_id": f"{n:03}", "id": f"{n:03}", "pad": ""} for n in range(100)]
        for row in rows:
            row["pad"] = "x" * (DOCUMENT_BYTES - 42)
        await made.write({"insert": "test", "documents": rows}, "0")
        await made.split("050")
        yield made
    finally:
        await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


async def sizes(made: Cluster, shard: str, *ranges: KeyRange) -> tuple[int, list[int]]:
    reply = await made.ask(shard, requests.chunk_sizes(NAMESPACE, made.key.document(), ranges))
    return reply["size"], reply["sizes"]


def test_what_a_shard_owns_counts_and_not_what_it_is_to_delete() -> None:
    async def test() -> None:
        async with cluster() as made:
            low, high = made.chunk("0").range, made.chunk("9").range
            total, parts = await sizes(made, "shard1", low, high)
            assert parts == [total // 2, total // 2]
            assert await sizes(made, "shard2", low) == (0, [0])
            made.members["shard1"].tunables.orphan_delay = 1000.0
            await made.move("9", "shard2")
            assert len(await made.stored("shard1")) == 100
            while (await sizes(made, "shard1"))[0] != total // 2:
                await asyncio.sleep(0)
            assert (await sizes(made, "shard2"))[0] == total // 2

    run(test)


def test_a_chunk_much_larger_than_chunks_are_does_not_move_unless_it_is_let() -> None:
    async def test() -> None:
        async with cluster() as made:
            chunk = made.chunk("0")
            assert made.routing is not None
            version = made.routing.version()
            _, (size,) = await sizes(made, "shard1", chunk.range)
            tight = requests.move_range(NAMESPACE, chunk.range, version, "shard2", Extent(most_bytes=size * 100 // 131))
            with pytest.raises(CommandError) as caught:
                await made.ask("shard1", tight)
            assert caught.value.code == Code.ChunkTooBig
            loose = requests.move_range(NAMESPACE, chunk.range, version, "shard2", Extent(most_bytes=size * 100 // 129))
            await made.ask("shard1", loose)
            await made.refresh()
            assert made.chunk("0").shard == "shard2"

    run(test)


@pytest.mark.parametrize("upper", [False, True])
def test_a_part_of_a_chunk_moves_alone(upper: bool) -> None:
    async def test() -> None:
        async with cluster() as made:
            chunk = made.chunk("0")
            assert made.routing is not None
            part = Extent(part_bytes=20 * DOCUMENT_BYTES, upper=upper)
            command = requests.move_range(NAMESPACE, chunk.range, made.routing.version(), "shard2", part)
            for _ in range(2):
                await made.ask("shard1", command)
            await made.refresh()
            assert [made.chunk(f"{n:03}").shard for n in (0, 19, 20, 29, 30, 49, 50)] == (
                ["shard1"] * 4 + ["shard2"] * 2 + ["shard1"] if upper else ["shard2"] * 2 + ["shard1"] * 5
            )
            assert len(await made.stored("shard2")) == 20

    run(test)


def test_a_chunk_of_which_no_part_is_small_enough_stays_whole() -> None:
    async def test() -> None:
        async with cluster() as made:
            chunk = made.chunk("0")
            assert made.routing is not None
            part = Extent(part_bytes=DOCUMENT_BYTES // 2)
            command = requests.move_range(NAMESPACE, chunk.range, made.routing.version(), "shard2", part)
            with pytest.raises(CommandError) as caught:
                await made.ask("shard1", command)
            assert caught.value.code == Code.ChunkTooBig
            await made.refresh()
            assert made.chunk("0").range.same(chunk.range)

    run(test)


def test_sizes_end_with_the_first_range_that_has_enough() -> None:
    async def test() -> None:
        async with cluster() as made:
            low, high = made.chunk("0").range, made.chunk("9").range
            command = requests.chunk_sizes(NAMESPACE, made.key.document(), [low, high], enough=DOCUMENT_BYTES)
            assert len((await made.ask("shard1", command))["sizes"]) == 1

    run(test)


def test_routers_hear_of_a_flag_with_the_next_increment_and_a_move_takes_it_away() -> None:
    async def test() -> None:
        async with cluster() as made:
            chunk = made.chunk("0")
            before = made.routing
            assert before is not None
            for _ in range(2):
                await made.ask("config", requests.set_jumbo(NAMESPACE, made.epoch, chunk.range, jumbo=True))
            after = await made.refresh()
            assert made.chunk("0").jumbo
            assert not made.chunk("9").jumbo
            assert after.version().minor == before.version().minor + 1
            assert after.version().routes_like(before.version())
            await made.ask("config", requests.set_jumbo(NAMESPACE, made.epoch, chunk.range, jumbo=False))
            await made.refresh()
            assert not made.chunk("0").jumbo
            await made.ask("config", requests.set_jumbo(NAMESPACE, made.epoch, chunk.range, jumbo=True))
            await made.move("0", "shard2")
            assert not made.chunk("0").jumbo
            wrong = KeyRange(chunk.min, made.key.max)
            with pytest.raises(CommandError) as caught:
                await made.ask("config", requests.set_jumbo(NAMESPACE, made.epoch, wrong, jumbo=True))
            assert caught.value.code == Code.ConflictingOperationInProgress

    run(test)
