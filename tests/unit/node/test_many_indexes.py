"""A request that names far more indexes than a collection can have is refused after little work."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from docstore.collection.index.conflicts import is_among
from docstore.collection.index.spec import IndexSpec
from docstore.errors import Code
from docstore.node.commands import create_indexes
from tests.unit.node.local import LocalNode, loop


def test_too_many_indexes_are_refused_after_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    comparisons = 0

    def counted(spec: IndexSpec, others: Iterable[IndexSpec]) -> bool:
        nonlocal comparisons
        comparisons += 1
        return is_among(spec, others)

    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        indexes = [{"key": {f"a{number}": 1}, "name": f"a{number}"} for number in range(1_000)]
        reply = await node.reply({"createIndexes": "c", "indexes": indexes})
        assert reply["code"] == Code.CannotCreateIndex

    monkeypatch.setattr(create_indexes, "is_among", counted)
    loop(work())
    assert comparisons < 200
