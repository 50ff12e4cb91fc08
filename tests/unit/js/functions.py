"""Short spellings for jobs and documents in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import bson

from docstore.bson import Value
from docstore.js.job import Counts, Limits, MapReduceJob
from docstore.js.workers import Sink

COUNT = "function(key, values) { return Array.sum(values) }"


@dataclass(frozen=True)
class Outcome:
    """What a map-reduce gave."""

    counts: Counts
    results: list[bytes]


async def outcome(operation: Callable[[Sink], Awaitable[Counts]]) -> Outcome:
    """All that an operation gives to its sink."""
    results: list[bytes] = []

    async def take(documents: list[bytes]) -> None:
        results.extend(documents)

    return Outcome(await operation(take), results)


def code(source: str) -> Value:
    text = source.encode()
    return 13, (len(text) + 1).to_bytes(4, "little") + text + b"\0"


def job(map_source: str, reduce_source: str = COUNT, finalize: str | None = None, **rest: Any) -> MapReduceJob:
    return MapReduceJob(
        map=code(map_source),
        reduce=code(reduce_source),
        finalize=None if finalize is None else code(finalize),
        limits=Limits(**rest.pop("limits", {})),
        **rest,
    )


async def stream(documents: Sequence[bytes], size: int = 100) -> AsyncIterator[list[bytes]]:
    for start in range(0, len(documents), size):
        yield list(documents[start : start + size])


def encoded(documents: Iterable[dict[str, Any]]) -> list[bytes]:
    return [bson.encode(document) for document in documents]


def decoded(results: Iterable[bytes]) -> list[tuple[Any, Any]]:
    pairs = []
    for raw in results:
        result = bson.decode(raw)
        pairs.append((result["_id"], result["value"]))
    return pairs
