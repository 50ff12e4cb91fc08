"""A router's cursor gives its owner no further batch once the owner may no longer do what opened it."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.commands.access.logins import log_in
from docstore.errors import Code
from docstore.security.names import UserName
from docstore.security.privileges import Privileges, collection
from docstore.security.users import NoUsers, User
from tests.unit.mongos.local import LocalCluster
from tests.unit.mongos.test_relayed_cursor import MERGED, OPENING, filled, more_of
from tests.unit.node.local import loop

ANN = UserName("ann", "test")


class OneUser(NoUsers):
    """A directory of one user who may read what `readable` names."""

    def __init__(self, *readable: str) -> None:
        self.generation = 1
        self._readable = readable

    def change(self, *readable: str) -> None:
        self._readable = readable
        self.generation += 1

    async def find(self, _name: UserName) -> User:
        privileges = Privileges({collection("test", name): ("find",) for name in self._readable})
        return User(name=ANN, credentials={}, roles=(), privileges=privileges)


async def guarded(*readable: str) -> tuple[LocalCluster, OneUser]:
    cluster = await filled()
    access, users = cluster.services.access, OneUser(*readable)
    access.directory, access.enabled = users, True
    log_in(cluster.peer, await users.find(ANN), users.generation)
    return cluster, users


@pytest.mark.parametrize("name", [*OPENING, *MERGED])
def test_who_may_not_open_it_any_more_gets_no_further_batch(name: str) -> None:
    command: dict[str, Any] = {**OPENING, **MERGED}[name]
    read = next(iter(command.values()))
    fields = {key: command[key] for key in ("lsid",) if key in command}

    async def story() -> None:
        cluster, users = await guarded(read)
        opened = await cluster.reply(command)
        assert opened["cursor"]["id"]
        assert (await more_of(cluster, opened, read, batchSize=1, **fields))["ok"]
        users.change("another")
        assert (await more_of(cluster, opened, read, batchSize=1, **fields))["code"] == Code.Unauthorized
        users.change(read)
        assert (await more_of(cluster, opened, read, batchSize=1, **fields))["ok"]

    loop(story())
