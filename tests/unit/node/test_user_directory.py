"""How a node finds users: what is remembered of one holds as long as its document and all roles."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.security.names import UserName
from tests.unit.node.local import LocalNode, loop

ANN, NOBODY = UserName("ann", "d"), UserName("nobody", "d")
GRANT = {"resource": {"db": "d", "collection": "c"}, "actions": ["find"]}


async def with_ann() -> LocalNode:
    node = LocalNode()
    await node.run({"createRole": "r", "privileges": [GRANT], "roles": []}, "d")
    await node.run({"createUser": "ann", "pwd": "p", "roles": ["r"], "mechanisms": ["SCRAM-SHA-1"]}, "d")
    return node


def test_a_user_is_made_of_its_document_once() -> None:
    async def story() -> None:
        node = await with_ann()
        first = await node.node.users.find(ANN)
        assert first is not None
        assert await node.node.users.find(ANN) is first

    loop(story())


@pytest.mark.parametrize(
    ("command", "actions"),
    [
        ({"grantPrivilegesToRole": "r", "privileges": [{**GRANT, "actions": ["insert"]}]}, {"find", "insert"}),
        ({"dropRole": "r"}, set()),
        ({"updateUser": "ann", "roles": []}, set()),
        ({"dropDatabase": 1}, {"find"}),
    ],
)
def test_a_change_of_users_or_roles_is_seen_at_once(command: dict[str, Any], actions: set[str]) -> None:
    async def story() -> set[str]:
        node = await with_ann()
        assert await node.node.users.find(ANN) is not None
        await node.run(command, "d")
        found = await node.node.users.find(ANN)
        assert found is not None
        return {action for _, granted in found.privileges.items() for action in granted}

    assert loop(story()) == actions


def test_a_user_who_is_not_there_is_looked_for_as_long_as_one_who_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> list[int]:
        node = await with_ann()
        users, engine = node.node.users, node.node.engine
        reads: list[bytes] = []
        real = engine.get

        def counted(family: Any, key: bytes) -> bytes | None:
            reads.append(key)
            return real(family, key)

        monkeypatch.setattr(engine, "get", counted)
        counts = []
        await users.known_by(NOBODY, b"secret")
        for name in (ANN, NOBODY, UserName("another", "d"), ANN):
            reads.clear()
            await users.known_by(name, b"secret")
            counts.append(len(reads))
        return counts

    assert len(set(loop(story()))) == 1
