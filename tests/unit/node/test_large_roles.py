"""Roles are dropped without decoding their privileges, which may be many, nor those of others."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.node.users import records
from tests.unit.node.local import LocalNode, loop

PRIVILEGES = [{"resource": {"db": "d", "collection": f"c{number}"}, "actions": ["find"]} for number in range(2_000)]
BIG = {"role": "big", "db": "d"}


@pytest.mark.parametrize(
    ("command", "db", "gone"),
    [
        ({"dropAllRolesFromDatabase": 1}, "d", {"big", "small"}),
        ({"dropRole": "small"}, "d", {"small"}),
        ({"dropRole": "big"}, "d", {"big"}),
        ({"dropAllUsersFromDatabase": 1}, "e", set()),
    ],
    ids=["all roles", "a small role", "a big role", "all users"],
)
def test_the_privileges_of_roles_are_not_decoded(
    monkeypatch: pytest.MonkeyPatch, command: dict[str, Any], db: str, gone: set[str]
) -> None:
    async def story() -> None:
        node = LocalNode(replicated=True)
        roles = [BIG, {"role": "small", "db": "d"}, {"role": "read", "db": "e"}]
        await node.run({"createRole": "big", "privileges": PRIVILEGES, "roles": []}, "d")
        await node.run({"createRole": "small", "privileges": [], "roles": []}, "d")
        await node.run({"createRole": "above", "privileges": PRIVILEGES, "roles": roles}, "admin")
        await node.run({"createUser": "ann", "pwd": "p", "roles": roles}, "d")
        with monkeypatch.context() as patched:
            patched.setattr(records, "document_to_python", _refuse)
            reply = await node.run(command, db)
        if "dropAllRolesFromDatabase" in command:
            assert reply["n"] == 2
        kept = {role["role"] for role in roles} - gone
        (above,) = (await node.run({"rolesInfo": "above", "showPrivileges": True}, "admin"))["roles"]
        assert {role["role"] for role in above["roles"]} == kept
        assert len(above["privileges"]) == len(PRIVILEGES)
        (ann,) = (await node.run({"usersInfo": "ann"}, "d"))["users"]
        assert {role["role"] for role in ann["roles"]} == kept
        assert {role["role"] for role in (await node.run({"rolesInfo": 1}, "d"))["roles"]} == {"big", "small"} - gone

    loop(story())


def _refuse(_raw: bytes) -> dict[str, Any]:
    raise AssertionError("a whole document is decoded")
