"""Commands about users and roles, answered by a real server and by ours: the whole replies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from tests.differential.user_commands import ROLES, SESSIONS, USERS
from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pymongo.MongoClient[dict[str, Any]]]:
    directory: Path = tmp_path_factory.mktemp("reference")
    with reference_server(directory) as port, pymongo.MongoClient("127.0.0.1", port) as client:
        yield client


def comparable(value: Any, name: str = "") -> Any:
    """A reply without what differs by chance: identifiers, keys, the order of roles and privileges."""
    if isinstance(value, dict):
        made = {each: comparable(member, each) for each, member in value.items()}
        return sorted(made.items()) if name == "" else made
    if isinstance(value, list):
        members = [comparable(member) for member in value]
        return sorted(members, key=repr)
    return type(value).__name__ if name in ("userId", "salt", "storedKey", "serverKey") else value


@pytest.mark.parametrize("script", [USERS, ROLES, SESSIONS], ids=["users", "roles", "sessions"])
def test_replies_are_alike(
    reference: pymongo.MongoClient[dict[str, Any]], script: tuple[tuple[str, dict[str, Any]], ...]
) -> None:
    async def story() -> list[Any]:
        node = LocalNode()
        apart = []
        for db, command in script:
            theirs = comparable(reference[db].command(command, check=False))
            ours = comparable(await node.reply(command, db))
            if ours != theirs:
                apart.append((db, command, ours, theirs))
        return apart

    found = loop(story())
    for db, command, ours, theirs in found:
        print(f"{db} {command}\n  ours   {ours}\n  theirs {theirs}")
    assert not found
