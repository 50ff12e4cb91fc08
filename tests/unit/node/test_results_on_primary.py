"""What a secondary asks the primary to write: all of it in one term, as safe as the client has said."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from docstore.bson import document_to_python
from docstore.commands.concerns import WriteConcern
from docstore.errors import CommandError
from docstore.net import NetworkError
from docstore.node.pipeline.on_primary import Primary, PrimaryTarget


class Pool:
    """Stands for the connections: the primary says that it is in `term`, or is lost where there is none."""

    def __init__(self, term: int | None) -> None:
        self.term = term
        self.asked: list[dict[str, Any]] = []

    async def command(self, address: str, _db: str, command: Any, **_options: Any) -> bytes:
        self.asked.append(document_to_python(command) if isinstance(command, bytes) else command)
        if self.term is None:
            raise NetworkError(address, "closed", sent=True)
        return bson.encode({"ok": 1.0, "n": 1, "opTime": {"t": self.term}})


def target(pool: Pool, concern: WriteConcern | None = None) -> PrimaryTarget:
    context: Any = SimpleNamespace(
        body={"aggregate": "c", "comment": "why"}, deadline=None, write_concern=concern or WriteConcern(),
        explicit_write_concern=concern is not None,
    )  # fmt: skip
    node: Any = SimpleNamespace(pool=pool, clock=lambda: 0.0)
    return PrimaryTarget(context, node, Primary("h:1", 3), "test.c")


def test_a_primary_of_another_term_ends_the_writing() -> None:
    assert asyncio.run(target(Pool(3)).insert([b""]))["n"] == 1
    for write in (target(Pool(4)).insert([b""]), target(Pool(4)).fill("tmp", [b""])):
        with pytest.raises(CommandError) as refused:
            asyncio.run(write)
        assert refused.value.code == 11602


def test_what_fills_a_collection_is_marked_for_the_primary_to_refuse() -> None:
    pool = Pool(3)
    asyncio.run(target(pool).fill("tmp", [b""]))
    asyncio.run(target(pool).rename("tmp"))
    filled, renamed = pool.asked
    assert (filled["insert"], filled["intoOutput"], renamed["fromOutput"]) == ("tmp", True, True)


def test_a_primary_that_is_lost_is_told_of_and_drops_nothing() -> None:
    lost = target(Pool(None))
    with pytest.raises(CommandError) as refused:
        asyncio.run(lost.rename("tmp"))
    assert refused.value.code == 6
    asyncio.run(lost.drop("tmp"))


@pytest.mark.parametrize(
    ("concern", "asked"),
    [(None, None), (WriteConcern(0), {"w": 1}), (WriteConcern("majority"), {"w": "majority", "wtimeout": 0})],
)
def test_the_write_concern_is_what_the_client_has_said(concern: WriteConcern | None, asked: Any) -> None:
    pool = Pool(3)
    made = target(pool, concern)
    asyncio.run(made.fill("tmp", []))
    asyncio.run(made.rename("tmp"))
    assert [each.get("writeConcern") for each in pool.asked] == [asked, asked]
    assert pool.asked[0]["comment"] == "why"
