"""Rounds in which a donor sends what has changed meanwhile."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.errors import Code
from docstore.sharding.migration import DatabaseMigration
from docstore.sharding.recipient_messages import CollectionChanges
from docstore.sharding.version import DatabaseVersion
from mongod.migration.donor.cloning import Cloning
from tests.unit.ddl.test_drops import code_of, run
from tests.unit.ddl.test_primary_moves import cluster

COLLECTIONS = 40


def _identity() -> Binary:
    return Binary.from_uuid(uuid.uuid4())


class Recipient:
    """Notes the messages: the collections with how many documents of each, and whether a majority is waited for."""

    def __init__(self) -> None:
        self.pushed: list[tuple[list[tuple[str, int]], bool]] = []

    async def push_collections(self, definitions: list[Any]) -> None:
        """Definitions are of no concern here."""

    async def push_statements(self, statements: Any) -> None:
        """Nor is history."""

    async def push_database_changes(self, changes: Sequence[CollectionChanges], *, majority: bool) -> None:
        self.pushed.append(([(each.namespace, len(each.documents)) for each in changes], majority))


def test_one_round_sends_the_changes_of_many_collections_in_one_message() -> None:
    async def body() -> None:
        async with cluster() as made:
            version = DatabaseVersion(_identity(), Timestamp(1, 1), 1)
            migration = DatabaseMigration(
                id=_identity(), operation=_identity(), namespace="test", version=version,
                sharded=frozenset(), donor="shard1", recipient="shard2",
            )  # fmt: skip
            recipient = Recipient()
            cloning = Cloning(made.members["shard1"].node, migration, recipient)  # type: ignore[arg-type]
            cloning.start_capture()
            names = [f"many{number:02}" for number in range(COLLECTIONS)]
            for name in names:
                await made.ask("shard1", {"insert": name, "documents": [{"_id": 1}, {"_id": 2}]}, "test")
            assert await cloning.send_changes(majority=True) == 0
            assert recipient.pushed == [([(f"test.{name}", 2) for name in names], True)]
            assert await cloning.send_changes(majority=False) == 0
            assert await cloning.send_changes(majority=True) == 0
            assert recipient.pushed[1:] == [([], True)]
            cloning.stop_capture()

    run(body)


def test_changes_that_do_not_fit_are_refused() -> None:
    async def body() -> None:
        async with cluster() as made:
            for listed, documents, code in (
                ({"ns": 1, "documents": 0, "deleted": []}, [], Code.TypeMismatch),
                ({"ns": "test.a", "documents": 0}, [], Code.TypeMismatch),
                ({"ns": "test.a", "documents": "1", "deleted": []}, [{"_id": 1}], Code.BadValue),
                ({"ns": "test.a", "documents": 2, "deleted": []}, [{"_id": 1}], Code.BadValue),
                ({"ns": "test.a", "documents": -1, "deleted": []}, [{"_id": 1}], Code.BadValue),
                ({"ns": "test.a", "documents": 1, "deleted": []}, [{"_id": 1}], Code.OperationFailed),
            ):
                command = {
                    "_recvDatabaseChanges": 1, "migrationId": _identity(), "number": Int64(1), "collections": [listed],
                    "documents": documents,
                }  # fmt: skip
                assert await code_of(made.ask("shard2", command)) == code, listed

    run(body)
