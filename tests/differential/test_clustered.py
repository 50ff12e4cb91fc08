"""Clustered collections on a real server and on a node in this process: made, refused, written, read, planned alike."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.differential import clustered
from tests.differential.pair import OPTIONS, Pair
from tests.harness.reference import reference_server

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=30_000) as client,
    ):
        yield client.get_database("test", codec_options=OPTIONS)


def test_everything_is_answered_alike(reference: Database[dict[str, Any]]) -> None:
    differing: list[str] = []

    async def work() -> None:
        pair = Pair(reference)
        for command in (*clustered.CREATED, *clustered.DEFINED, *clustered.SHOWN, *clustered.WRITTEN, *clustered.READ):
            theirs, ours = await pair.both(command)
            if _without_identity(theirs) != _without_identity(ours):
                differing.append(f"{command}\n  reference {theirs}\n  ours      {ours}")
        for command in clustered.EXPLAINED:
            theirs, ours = await pair.plans(command)
            if theirs != ours:
                differing.append(f"plan of {command}\n  reference {theirs}\n  ours      {ours}")

    asyncio.run(work())
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:5])


def _without_identity(found: Any) -> Any:
    """What `outcome` gives; a UUID is each server's own."""
    if not isinstance(found, str) or '"uuid"' not in found:
        return found
    start = found.index('"uuid"')
    return found[:start] + found[found.index("}}", start) :]
