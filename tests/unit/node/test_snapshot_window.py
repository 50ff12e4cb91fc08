"""The parameter for reads of the past."""

from __future__ import annotations

from docstore.node.upkeep.snapshot_window import snapshot_window
from tests.unit.node.local import LocalNode, loop


def test_the_window_is_a_parameter() -> None:
    async def work() -> None:
        node = LocalNode()
        history = node.node.store.undo_history
        node.node.parameters.add([snapshot_window(history)])
        name = "minSnapshotHistoryWindowInSeconds"
        assert (await node.run({"getParameter": 1, name: 1}, "admin"))[name] == 300
        await node.run({"setParameter": 1, name: 5}, "admin")
        assert history.window == 5
        assert (await node.reply({"setParameter": 1, name: -1}, "admin"))["code"] == 2
        assert history.window == 5

    loop(work())
