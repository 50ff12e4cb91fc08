"""A request that names far more indexes than a collection can have is refused after little work."""

from __future__ import annotations

import pytest

from docstore.collection.index.spec import IndexSpec, parse_index_spec
from docstore.errors import Code
from docstore.node.commands import create_indexes
from tests.unit.node.local import LocalNode, loop


def test_too_many_indexes_are_refused_before_any_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def counted(raw: bytes, **options: object) -> IndexSpec:
        parsed.append(raw)
        return parse_index_spec(raw)

    async def create(node: LocalNode, count: int) -> object:
        indexes = [{"key": {f"a{number}": 1}, "name": f"a{number}"} for number in range(count)]
        return (await node.reply({"createIndexes": "c", "indexes": indexes})).get("code")

    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        assert await create(node, 65) == Code.CannotCreateIndex
        assert not parsed
        assert await create(node, 64) == Code.CannotCreateIndex
        assert await create(node, 63) is None
        assert parsed

    monkeypatch.setattr(create_indexes, "_known_spec", counted)
    loop(work())
