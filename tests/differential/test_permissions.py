"""Which requests users of the built-in roles may send: a real server with --auth and ours decide alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from docstore.commands.specs.reads import MAP_REDUCE
from docstore.errors import Code
from docstore.replicaset.commands import COMMANDS as OF_SETS
from tests.differential.permission_differences import explanation
from tests.differential.permission_page import Deciding
from tests.differential.permissions import AMONG_PROCESSES, OF_ADMIN, ON_A_DATABASE, ON_ADMIN, ON_OTHERS, ROLES
from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

pytestmark = pytest.mark.reference
Client = pymongo.MongoClient[dict[str, Any]]
EXTRA = (MAP_REDUCE.command(lambda _context, _arguments: {}), *OF_SETS)
"""Map-reduce needs workers, and only who may ask for one is compared."""
REQUESTS = sorted(
    (
        *((db, command) for db in ("own", "other") for command in ON_A_DATABASE),
        *(("admin", command) for command in ON_ADMIN),
        *ON_OTHERS,
    ),
    key=lambda request: "dropAllUsersFromDatabase" in request[1],
)
"""What may drop who asks comes last."""
WITHHELD = ("shutdown",)
"""Commands that would end the real server: it is asked of those whom ours refuses."""
DIFFERENT = {
    "replSetStepDown": "a standalone has no set to ask about, and ours says that first",
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("reference")
    with reference_server(directory, "--auth") as found:
        with pymongo.MongoClient("127.0.0.1", found) as client:
            client.admin.command("createUser", "first", pwd="p", roles=["root"], mechanisms=["SCRAM-SHA-1"])
        yield found


def user_of(role: str) -> tuple[str, dict[str, Any]]:
    """(database, command that makes the user) of a role."""
    db = "admin" if role in OF_ADMIN else "own"
    return db, {"createUser": role, "pwd": "p", "roles": [role], "mechanisms": ["SCRAM-SHA-1"]}


def decision(reply: dict[str, Any]) -> str:
    """What a reply says of whether the request was let in."""
    if reply["ok"] or reply.get("code") != Code.Unauthorized:
        return "in"
    return "out"


@pytest.mark.parametrize("role", [None, *ROLES])
def test_a_role_may_do_what_it_may_on_a_real_server(port: int, role: str | None) -> None:
    async def story() -> list[Any]:
        node = LocalNode(extra=EXTRA)
        access = node.services.access
        db, create = ("admin", None) if role is None else user_of(role)
        await node.run({"createUser": "first", "pwd": "p", "roles": ["root"], "mechanisms": ["SCRAM-SHA-1"]}, "admin")
        if create is not None:
            await node.run(create, db)
        access.enabled = True
        credentials: dict[str, Any] = {}
        root: Client
        client: Client
        another_client(node)
        if role is not None:
            credentials = {"username": role, "password": "p", "authSource": db, "authMechanism": "SCRAM-SHA-1"}
            assert (await log_in(node, role, "p", db, mechanism="SCRAM-SHA-1"))["ok"]
        with pymongo.MongoClient("127.0.0.1", port, username="first", password="p") as root:
            if create is not None:
                root[db].command({"dropAllUsersFromDatabase": 1} if db != "admin" else {"ping": 1})
                root[db].command(create, check=False)
        apart = []
        deciding = Deciding()
        with pymongo.MongoClient("127.0.0.1", port, **credentials) as client:
            for where, command in REQUESTS:
                if (
                    role in ("root", "__system")
                    and next(iter(command)) in ("dropAllUsersFromDatabase",)
                    and where == db
                ):
                    continue
                name = next(iter(command))
                admitted = deciding.admits(role, where, command)
                if name in WITHHELD and admitted:
                    continue
                theirs = client[where].command(command, check=False)
                if name in node.services.table and name not in WITHHELD:
                    ours = await node.reply(command, where)
                else:
                    ours = {"ok": 1} if admitted else {"ok": 0, "code": Code.Unauthorized}
                if decision(ours) != decision(theirs):
                    apart.append((where, command, ours.get("errmsg"), theirs.get("errmsg")))
        return apart

    found = [each for each in loop(story()) if next(iter(each[1])) not in DIFFERENT]
    for where, command, ours, theirs in found:
        print(f"{role}: {where} {command}\n    ours   {ours}\n    theirs {theirs}")
    assert not found


LOGGING_IN = ("authenticate", "logout", "saslContinue", "saslStart")


@pytest.mark.parametrize("role", [None, "read", "dbAdmin", "clusterMonitor", "backup"])
def test_every_command_of_a_real_server_is_decided_alike(port: int, role: str | None) -> None:
    """Each by its name alone, also those that are not served here."""

    async def story() -> list[Any]:
        node = LocalNode(extra=EXTRA)
        db, create = ("admin", None) if role is None else user_of(role)
        await node.run({"createUser": "first", "pwd": "p", "roles": ["root"], "mechanisms": ["SCRAM-SHA-1"]}, "admin")
        if create is not None:
            await node.run(create, db)
        node.services.access.enabled = True
        another_client(node, "10.0.0.1:9")
        credentials: dict[str, Any] = {}
        root: Client
        client: Client
        if role is not None:
            credentials = {"username": role, "password": "p", "authSource": db, "authMechanism": "SCRAM-SHA-1"}
            assert (await log_in(node, role, "p", db, mechanism="SCRAM-SHA-1"))["ok"]
        with pymongo.MongoClient("127.0.0.1", port, username="first", password="p") as root:
            if create is not None:
                root[db].command(create, check=False)
            names = sorted(root.admin.command("listCommands")["commands"])
        apart = []
        with pymongo.MongoClient("127.0.0.1", port, **credentials) as client:
            for name in names:
                if explanation({name: 1}) or name in LOGGING_IN or node.services.table.find(name) is None:
                    continue
                for where in ("own", "admin"):
                    for value in (1, "c"):
                        ours = await node.reply({name: value}, where)
                        theirs = client[where].command({name: value}, check=False)
                        if decision(ours) != decision(theirs):
                            apart.append((where, name, value, ours.get("errmsg"), theirs.get("errmsg")))
        return apart

    found = loop(story())
    print(*found, sep="\n")
    assert not found


@pytest.mark.parametrize("command", AMONG_PROCESSES, ids=lambda command: str(next(iter(command))))
def test_what_processes_send_each_other_is_for_them_alone(port: int, command: dict[str, Any]) -> None:
    """As it is here: `tests/layout/test_permissions.py`."""
    make = {"pwd": "p", "mechanisms": ["SCRAM-SHA-1"]}
    with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", port, username="first", password="p") as root:
        root.admin.command("createUser", "member", roles=["__system"], check=False, **make)
        assert decision(root.admin.command(command, check=False)) == "out"
    with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", port, username="member", password="p") as member:
        assert decision(member.admin.command(command, check=False)) == "in"
