"""Many documents of one insert are completed in slices, so that a router gives its loop to others."""

from __future__ import annotations

from typing import Any

import pytest
from bson.objectid import ObjectId

import mongos.statements
from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import loop

MANY = 5_000
PARTLY = 256
"""How many documents are completed at a time, of each of the two shards."""


@pytest.mark.parametrize(
    ("command", "db"),
    [
        ({"insert": "c", "documents": [{"k": number} for number in range(MANY)]}, "test"),
        (
            {
                "bulkWrite": 1, "ops": [{"insert": 0, "document": {"k": number}} for number in range(MANY)],
                "nsInfo": [{"ns": "test.c"}],
            },
            "admin",
        ),
    ],
    ids=["insert", "bulkWrite"],
)  # fmt: skip
def test_others_run_while_many_documents_get_their_identities(
    monkeypatch: pytest.MonkeyPatch, command: dict[str, Any], db: str
) -> None:
    async def story() -> None:
        cluster = LocalCluster()
        made, at_pauses = 0, [0]

        def identity() -> ObjectId:
            nonlocal made
            made += 1
            return ObjectId()

        async def pause() -> None:
            at_pauses.append(made)

        monkeypatch.setattr(mongos.statements, "ObjectId", identity)
        monkeypatch.setattr(cluster.router.scheduler, "pause", pause)
        reply = await cluster.reply(command, db)
        assert reply.get("n", reply.get("nInserted")) == made == MANY
        steps = [after - before for before, after in zip(at_pauses, [*at_pauses[1:], made], strict=True)]
        assert max(steps) <= 2 * PARTLY
        found = (await cluster.reply({"find": "c", "batchSize": MANY + 1}))["cursor"]["firstBatch"]
        assert len({row["_id"] for row in found}) == MANY
        assert all(next(iter(row)) == "_id" for row in found)

    loop(story())
