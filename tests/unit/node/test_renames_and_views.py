"""Who may give a collection another name or redefine a view, and what no client may do to users and roles."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.commands.access.control import AccessControl
from docstore.errors import Code
from docstore.node.users.directory import LocalUsers
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

Resources = dict[str, list[str]]
OUT, IN = Code.Unauthorized, 0


async def guarded(*roles: str, **resources: Any) -> LocalNode:
    """A node whose client is a user with these roles, and these actions on collections of `own` ("" for the database,
    `other_x` for `other.x`).
    """
    node = LocalNode(replicated=True)
    await node.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
    privileges = []
    for name, actions in resources.items():
        db, collection = ("other", name[6:]) if name.startswith("other_") else ("own", "" if name == "db" else name)
        privileges.append({"resource": {"db": db, "collection": collection}, "actions": actions})
    await node.run({"createRole": "custom", "privileges": privileges, "roles": []}, "admin")
    await node.run({"createUser": "user", "pwd": "p", "roles": ["custom", *roles]}, "admin")
    for db in ("own", "admin"):
        await node.run({"insert": "src", "documents": [{"_id": 1}]}, db)
    node.services.access.enabled = True
    another_client(node)
    assert (await log_in(node, "user", "p"))["ok"]
    return node


COPYING = {"src": ["find", "dropCollection"], "dst": ["insert", "createIndex"]}
WITHIN = {"db": ["renameCollectionSameDB"]}
RENAMES: dict[str, tuple[Resources, dict[str, Any], int]] = {
    "the right to rename": (WITHIN, {"to": "own.dst"}, IN),
    "what may be read already": (WITHIN | {"src": ["find"], "dst": ["find"]}, {"to": "own.dst"}, IN),
    "over what may be read, unread": (WITHIN | {"dst": ["find"]}, {"to": "own.dst"}, OUT),
    "over another": (WITHIN, {"to": "own.dst", "dropTarget": True}, OUT),
    "over another that may go": (WITHIN | {"dst": ["dropCollection"]}, {"to": "own.dst", "dropTarget": True}, IN),
    "as a copy": (COPYING, {"to": "own.dst"}, IN),
    "as a copy of what may not be read": (COPYING | {"src": ["dropCollection"]}, {"to": "own.dst"}, OUT),
    "as a copy that stays": (COPYING | {"src": ["find"]}, {"to": "own.dst"}, OUT),
    "as a copy without indexes": (COPYING | {"dst": ["insert"]}, {"to": "own.dst"}, OUT),
    "to another database": ({**WITHIN, "src": ["find", "dropCollection"]}, {"to": "other.dst"}, OUT),
    "to another database as a copy": (
        {"src": COPYING["src"], "other_dst": COPYING["dst"]}, {"to": "other.dst"}, IN
    ),
    "to a collection of the system": (WITHIN, {"to": "own.system.js"}, OUT),
    "the right on two collections": (
        {"src": ["renameCollectionSameDB"], "dst": ["renameCollectionSameDB"]}, {"to": "own.dst"}, OUT
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RENAMES)
def test_a_rename_asks_for_what_a_copy_would(case: str) -> None:
    """As on a real server (`tests.differential.test_narrow_users`)."""
    resources, request, expected = RENAMES[case]

    async def story() -> None:
        node = await guarded(**resources)
        reply = await node.reply({"renameCollection": "own.src", **request}, "admin")
        assert reply.get("code", IN) == expected, reply

    loop(story())


KEPT = ("system.users", "system.roles", "system.version")


@pytest.mark.parametrize("role", ["readWrite", "dbAdmin", "dbOwner", "readWriteAnyDatabase", "root", "__system"])
@pytest.mark.parametrize("name", KEPT)
def test_no_client_puts_another_collection_in_the_place_of_the_users(role: str, name: str) -> None:
    async def story() -> None:
        node = await guarded(role)
        kept = f"admin.{name}"
        before = {each: node.node.store.collection(f"admin.{each}") for each in KEPT}
        for command in (
            {"renameCollection": "admin.src", "to": kept, "dropTarget": True},
            {"renameCollection": "admin.src", "to": kept},
            {"renameCollection": kept, "to": "admin.gone"},
            {"renameCollection": kept, "to": "own.gone"},
            {"drop": name},
            {"convertToCapped": name, "size": 4096},
            {"dropDatabase": 1},
        ):
            reply = await node.reply(command, "admin")
            assert reply.get("code") in (Code.Unauthorized, Code.IllegalOperation), (command, reply)
        assert before == {each: node.node.store.collection(f"admin.{each}") for each in KEPT}

    loop(story())


def restarted(node: LocalNode) -> LocalNode:
    """The node as it begins anew with access control, over the same documents, with a client of this machine."""
    again = LocalNode(replicated=True, engine=node.node.engine)
    again.services.access.enabled = True
    return again


@pytest.mark.parametrize("made", ["a user", "a role"])
def test_the_localhost_exception_never_comes_back(made: str) -> None:
    async def story() -> None:
        node = LocalNode(replicated=True)
        assert not await LocalUsers(node.node.store).was_used()
        if made == "a user":
            await node.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
            await node.run({"dropUser": "root"}, "admin")
        else:
            await node.run({"createRole": "r", "privileges": [], "roles": []}, "admin")
        again = restarted(node)
        reply = await again.reply({"createUser": "stranger", "pwd": "p", "roles": ["root"]}, "admin")
        assert reply.get("code") == Code.Unauthorized, reply
        assert (await again.reply({"createUser": "x", "pwd": "p", "roles": []}, "admin"))["code"] == Code.Unauthorized

    loop(story())


def test_the_localhost_exception_stands_while_there_was_nobody() -> None:
    async def story() -> None:
        again = restarted(LocalNode(replicated=True))
        assert isinstance(again.services.access, AccessControl)
        await again.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
        assert (await again.reply({"createUser": "x", "pwd": "p", "roles": []}, "admin"))["code"] == Code.Unauthorized

    loop(story())


def test_a_view_is_redefined_as_a_whole_by_who_may_read_what_it_shows() -> None:
    async def story() -> None:
        node = await guarded(shown=["collMod", "createCollection", "find"], src=["find"])
        await node.run({"create": "shown", "viewOn": "src", "pipeline": []}, "own")
        secret = [{"$unionWith": "secret"}]
        for half in ({"pipeline": secret}, {"pipeline": []}, {"viewOn": "secret"}):
            assert (await node.reply({"collMod": "shown", **half}, "own"))["code"] == Code.InvalidOptions
        for pipeline, on in ((secret, "src"), ([], "secret")):
            reply = await node.reply({"collMod": "shown", "viewOn": on, "pipeline": pipeline}, "own")
            assert reply["code"] == Code.Unauthorized
        await node.run({"collMod": "shown", "viewOn": "src", "pipeline": [{"$match": {"_id": 1}}]}, "own")

    loop(story())
