"""What the node does when its disk does not do what it was told."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.commands.dispatch import Dispatcher
from docstore.node.periodic import Housekeeping
from docstore.node.process import stop_on_storage_error
from docstore.storage import StorageError
from docstore.wire.message import Message
from tests.unit.node.local import LocalNode, loop


class Broken:
    """An engine whose writes fail, over one that works."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def write(self, _batch: object) -> None:
        raise StorageError("no space left")


def test_a_write_that_the_disk_refuses_stops_the_process_instead_of_being_answered() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        node.node.store.engine = Broken(node.node.engine)
        dispatcher = Dispatcher(node.node, node.services, translate=stop_on_storage_error)
        command = bson.encode({"insert": "c", "documents": [{"_id": 2}], "$db": "test"})
        with pytest.raises(AssertionError, match="no space left"):
            dispatcher.handle(Message(1, 0, command), node.peer)

    loop(work())


def test_other_failures_are_internal_errors() -> None:
    assert stop_on_storage_error(ValueError()) is None  # type: ignore[func-returns-value]


def test_housekeeping_goes_through_its_rounds() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", *({"_id": n} for n in range(10)))
        await node.run({"drop": "c"})
        await Housekeeping(node.node).round()
        assert (await node.reply({"collStats": "c"}))["count"] == 0

    loop(work())
