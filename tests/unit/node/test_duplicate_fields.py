"""A field that stands twice in a request or in its options is refused: there is one value that counts."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.bson import document_from, elements
from docstore.commands.dispatch import Pending
from docstore.errors import Code
from docstore.wire.message import Message
from mongod.document.commands.map_reduce import COMMAND as MAP_REDUCE
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

Fields = list[tuple[str, Any]]


def document(*fields: tuple[str, Any]) -> bytes:
    """A document with these fields in order, whatever their names; a list of pairs is a document of them."""
    encoded = [
        (name, 3, document(*value)) if _is_fields(value) else
        (name, 4, document(*((str(n), each) for n, each in enumerate(value)))) if isinstance(value, list) else
        elements(bson.encode({name: value}))[0]
        for name, value in fields
    ]  # fmt: skip
    return document_from(encoded)


def _is_fields(value: Any) -> bool:
    return isinstance(value, tuple)


async def send(node: LocalNode, *fields: tuple[str, Any]) -> dict[str, Any]:
    answered = node.dispatcher.handle(Message(1, 0, document(*fields)), node.peer)
    if isinstance(answered, Pending):
        answered = await answered.finish()
    assert isinstance(answered, bytes)
    return bson.decode(answered)


async def guarded() -> LocalNode:
    """A node with secrets in the database `other`, and a client who may write to `own` alone."""
    node = LocalNode(replicated=True, extra=(MAP_REDUCE,))
    await node.run({"createUser": "root", "pwd": "p", "roles": ["root"]}, "admin")
    await node.run({"createUser": "writer", "pwd": "p", "roles": [{"role": "readWrite", "db": "own"}]}, "admin")
    granted = {"resource": {"db": "own", "collection": "open"}, "actions": ["find", "update"]}
    await node.run({"createRole": "reads", "privileges": [granted], "roles": []}, "own")
    await node.run({"createUser": "reader", "pwd": "p", "roles": ["reads"]}, "own")
    for db, name in (("own", "open"), ("own", "secret"), ("other", "secret")):
        await node.run({"insert": name, "documents": [{"_id": 1, "db": db}]}, db)
    node.services.access.enabled = True
    another_client(node)
    return node


EMPTY: tuple[tuple[str, Any], ...] = ()
GRAPH = (("startWith", "$x"), ("connectFromField", "x"), ("connectToField", "_id"), ("as", "y"))
TO_OTHER = (("db", "other"), ("coll", "x"))
STAGES: dict[str, tuple[str, tuple[tuple[str, Any], ...]]] = {
    "lookup": ("$lookup", (("from", "open"), ("from", "secret"), ("pipeline", []), ("as", "y"))),
    "lookup pipeline": (
        "$lookup",
        (("from", "open"), ("as", "y"), ("pipeline", []), ("pipeline", [(("$unionWith", "secret"),)])),
    ),
    "graphLookup": ("$graphLookup", (("from", "open"), ("from", "secret"), *GRAPH)),
    "unionWith": ("$unionWith", (("coll", "open"), ("coll", "secret"))),
    "unionWith pipeline": (
        "$unionWith", (("coll", "open"), ("pipeline", []), ("pipeline", [(("$unionWith", "secret"),)]))
    ),
    "facet": (
        "$facet", (("a", [(("$lookup", (("from", "open"), ("from", "secret"), ("pipeline", []), ("as", "y"))),)]),)
    ),
    "merge": ("$merge", (("into", "open"), ("into", TO_OTHER))),
    "merge db": ("$merge", (("into", (("db", "own"), ("db", "other"), ("coll", "x"))),)),
    "merge actions": ("$merge", (("into", "open"), ("whenMatched", "fail"), ("whenMatched", "replace"))),
    "out": ("$out", (("db", "own"), ("db", "other"), ("coll", "x"))),
    "changeStream": ("$changeStream", (("allChangesForCluster", False), ("allChangesForCluster", True))),
}  # fmt: skip


@pytest.mark.parametrize("case", STAGES)
def test_a_stage_whose_options_say_two_things_is_refused(case: str) -> None:
    name, options = STAGES[case]

    async def story() -> None:
        node = await guarded()
        assert (await log_in(node, "reader", "p", "own"))["ok"]
        request = [("aggregate", "open"), ("pipeline", [((name, options),)]), ("cursor", EMPTY), ("$db", "own")]
        for explained in (False, True):
            sent = [("explain", tuple(request[:-1])), request[-1]] if explained else request
            reply = await send(node, *sent)
            assert reply.get("code") in (40413, 16994), reply
        assert (await log_in(node, "root", "p"))["ok"] == 0
        another_client(node)
        assert (await log_in(node, "root", "p"))["ok"]
        assert "x" not in str(await node.run({"listCollections": 1, "nameOnly": True}, "other"))

    loop(story())


REQUESTS: dict[str, list[tuple[str, Any]]] = {
    "the command's name": [("find", "open"), ("find", "secret"), ("$db", "own")],
    "its database": [("find", "open"), ("$db", "own"), ("$db", "other")],
    "a parameter": [("find", "open"), ("filter", EMPTY), ("filter", EMPTY), ("$db", "own")],
    "a pipeline": [
        ("aggregate", "open"), ("pipeline", []), ("pipeline", [(("$unionWith", "secret"),)]), ("cursor", EMPTY),
        ("$db", "own"),
    ],
    "ownOps": [("currentOp", 1), ("$ownOps", True), ("$ownOps", False), ("$db", "admin")],
    "op": [("killOp", 1), ("op", 1), ("op", 2), ("$db", "admin")],
    "an unknown field": [("hello", 1), ("x", 1), ("x", 1), ("$db", "own")],
    "a comment": [("ping", 1), ("comment", 1), ("comment", 2), ("$db", "own")],
    "a session": [("ping", 1), ("lsid", (("id", 1), ("id", 2))), ("$db", "own")],
    "a write concern": [("insert", "open"), ("documents", []), ("writeConcern", (("w", 1), ("w", 0))), ("$db", "own")],
    "an upsert": [
        ("update", "open"),
        ("updates", [(("q", (("_id", 7),)), ("u", EMPTY), ("upsert", False), ("upsert", True))]), ("$db", "own"),
    ],
    "a query": [
        ("update", "open"), ("updates", [(("q", EMPTY), ("u", EMPTY), ("q", (("_id", 7),)))]), ("$db", "own"),
    ],
    "a deletion": [("delete", "open"), ("deletes", [(("q", EMPTY), ("q", EMPTY), ("limit", 0))]), ("$db", "own")],
    "the database of a role": [
        ("createUser", "u"), ("pwd", "p"), ("roles", [(("role", "read"), ("db", "own"), ("db", "admin"))]),
        ("$db", "own"),
    ],
    "the resource of a privilege": [
        ("createRole", "r"), ("roles", []),
        ("privileges", [(("resource", (("db", "own"), ("collection", "c"), ("db", ""))), ("actions", ["find"]))]),
        ("$db", "own"),
    ],
    "a restriction": [
        ("createUser", "u"), ("pwd", "p"), ("roles", []),
        ("authenticationRestrictions", [(("clientSource", ["10.0.0.1"]), ("clientSource", ["127.0.0.1"]))]),
        ("$db", "own"),
    ],
    "an explained command": [("explain", (("find", "open"), ("filter", EMPTY), ("filter", EMPTY))), ("$db", "own")],
    "the database of an explained command": [("explain", (("find", "open"), ("$db", "own"))), ("$db", "own")],
    "the cursor of an explained command": [
        ("explain", (("aggregate", "open"), ("pipeline", []), ("cursor", (("batchSize", 1), ("batchSize", 2))))),
        ("$db", "own"),
    ],
    "the cursor of a pipeline that is explained": [
        ("aggregate", "open"), ("pipeline", []), ("cursor", (("batchSize", 1), ("batchSize", 2))), ("explain", True),
        ("$db", "own"),
    ],
    "a namespace of bulkWrite": [
        ("bulkWrite", 1), ("nsInfo", [(("ns", "own.open"), ("ns", "own.secret"))]),
        ("ops", [(("insert", 0), ("document", EMPTY))]), ("$db", "admin"),
    ],
    "a cursor's options": [
        ("aggregate", "open"), ("pipeline", []), ("cursor", (("batchSize", 1), ("batchSize", 2))), ("$db", "own"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_that_says_two_things_is_refused(case: str) -> None:
    async def story() -> None:
        node = await guarded()
        assert (await log_in(node, "root", "p"))["ok"]
        reply = await send(node, *REQUESTS[case])
        assert reply.get("code") == 40413, reply
        assert await node.documents("open") == []

    loop(story())


OUTPUTS: dict[str, tuple[tuple[tuple[str, Any], ...], Code]] = {
    "two targets": ((("replace", "a"), ("replace", "b")), Code.BadValue),
    "two databases": ((("merge", "a"), ("db", "own"), ("db", "other")), Code.BadValue),
    "an option twice": ((("merge", "a"), ("sharded", True), ("sharded", True)), Code.BadValue),
    "inline twice": ((("inline", 1), ("inline", 1)), Code.InvalidOptions),
    "inline and a target": ((("inline", 1), ("merge", "a")), Code.InvalidOptions),
    "inline and an unknown option": ((("inline", 1), ("x", 1)), Code.InvalidOptions),
}
"""Outputs of a map-reduce, with the codes of a real server."""


@pytest.mark.parametrize("case", OUTPUTS)
def test_a_map_reduce_with_two_outputs_is_refused(case: str) -> None:
    out, code = OUTPUTS[case]

    async def story() -> None:
        node = await guarded()
        assert (await log_in(node, "root", "p"))["ok"]
        function = "function() {}"
        reply = await send(
            node, ("mapReduce", "open"), ("map", function), ("reduce", function), ("out", out), ("$db", "own")
        )
        assert reply.get("code") == code, reply

    loop(story())


@pytest.mark.parametrize(("command", "kind"), [("usersInfo", "user"), ("rolesInfo", "role")])
def test_a_name_of_two_databases_is_refused(command: str, kind: str) -> None:
    name = ((kind, "root"), ("db", "admin"), ("db", "own"))

    async def story() -> None:
        node = await guarded()
        assert (await log_in(node, "root", "p"))["ok"]
        for argument in (name, ["x", name]):
            reply = await send(node, (command, argument), ("$db", "own"))
            assert reply.get("code") == Code.BadValue, reply

    loop(story())


def test_listing_others_sessions_and_operations_takes_one_word() -> None:
    async def story() -> None:
        node = await guarded()
        assert (await log_in(node, "writer", "p"))["ok"]
        for stage in ("$currentOp", "$listLocalSessions"):
            for both in ((False, True), (True, False)):
                options = tuple(("allUsers", value) for value in both)
                reply = await send(
                    node, ("aggregate", 1), ("pipeline", [((stage, options),)]), ("cursor", EMPTY), ("$db", "admin")
                )
                assert reply.get("code") == 40413, reply

    loop(story())


LOCALES = (("locale", "en"), ("locale", "fr"))
BAD_VALUE, FAILED_TO_PARSE = 2, 9


def _pipeline(name: str, options: Any) -> Fields:
    return [("aggregate", "c"), ("pipeline", [((name, options),)]), ("cursor", EMPTY), ("$db", "test")]


def _update(change: Any, *more: tuple[str, Any]) -> Fields:
    statement = (("q", (("_id", 1),)), ("u", change), *more)
    return [("update", "c"), ("updates", [statement]), ("$db", "test")]


def _find(*options: tuple[str, Any]) -> Fields:
    return [("find", "c"), *options, ("$db", "test")]


def _indexes(*fields: tuple[str, Any]) -> Fields:
    return [("createIndexes", "c"), ("indexes", [fields]), ("$db", "test")]


def _push(*clauses: tuple[str, Any]) -> Fields:
    return _update((("$push", (("a", (("$each", [1]), *clauses)),)),))


_LITERAL = (("a", 1), ("a", "$x"))
_WINDOW = (("documents", [0, 1]), ("documents", [0, 0]))
_FILLED = (("sortBy", (("x", 1),)), ("output", (("z", (("method", "linear"), ("method", "locf"))),)))
_WINDOWED = (("sortBy", (("x", 1),)), ("output", (("z", (("$sum", "$x"), ("window", _WINDOW))),)))
_DELETED = (("q", EMPTY), ("limit", 0), ("collation", LOCALES))
DOUBLED: dict[str, tuple[int, Fields]] = {
    "locale": (40413, _find(("collation", LOCALES))),
    "simple locale": (40413, _find(("collation", (("locale", "simple"), ("locale", "en"))))),
    "strength": (40413, _find(("collation", (("locale", "en"), ("strength", 1), ("strength", 2))))),
    "locale of a collection": (40413, [("create", "d"), ("collation", LOCALES), ("$db", "test")]),
    "locale of an index": (40413, _indexes(("key", (("x", 1),)), ("name", "x1"), ("collation", LOCALES))),
    "locale of an update": (40413, _update((("$set", (("a", 1),)),), ("collation", LOCALES))),
    "locale of a delete": (40413, [("delete", "c"), ("deletes", [_DELETED]), ("$db", "test")]),
    "hedge": (
        40413,
        _find(("$readPreference", (("mode", "secondary"), ("hedge", (("enabled", True), ("enabled", False)))))),
    ),
    "index defaults": (
        40413,
        [
            ("create", "d"), ("indexOptionDefaults", (("storageEngine", EMPTY), ("storageEngine", EMPTY))),
            ("$db", "test"),
        ],
    ),
    "path of an index": (BAD_VALUE, _indexes(("key", (("x", 1), ("x", 1))), ("name", "x2"))),
    "method": (40413, _pipeline("$fill", _FILLED)),
    "bounds": (FAILED_TO_PARSE, _pipeline("$setWindowFields", _WINDOWED)),
    "field of a literal": (16406, _pipeline("$replaceWith", _LITERAL)),
    "field of a constant literal": (16406, _find(("filter", (("$expr", (("a", 1), ("a", 1))),)))),
    "options of a pattern": (
        51075, _find(("filter", (("x", (("$regex", "a"), ("$options", "i"), ("$options", "s"))),)))
    ),
    "search": (BAD_VALUE, _find(("filter", (("$text", (("$search", "a"), ("$search", "b"))),)))),
    "each": (BAD_VALUE, _push(("$each", [2]))),
    "slice": (BAD_VALUE, _push(("$slice", 1), ("$slice", 2))),
    "position": (BAD_VALUE, _push(("$position", 1), ("$position", 2))),
    "order of a push": (BAD_VALUE, _push(("$sort", 1), ("$sort", -1))),
    "each of a set": (BAD_VALUE, _update((("$addToSet", (("a", (("$each", [1]), ("$each", [2]))),)),))),
}  # fmt: skip
"""Requests whose options say something twice, with the code of a real server."""


def code_of(reply: dict[str, Any]) -> int | None:
    """The code of a refusal, of the request or its first statement."""
    found: int | None = reply["writeErrors"][0]["code"] if reply.get("writeErrors") else reply.get("code")
    return found


@pytest.mark.parametrize("case", DOUBLED)
def test_an_option_that_stands_twice_is_refused_as_a_real_server_does(case: str) -> None:
    code, request = DOUBLED[case]

    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "x": 1, "a": []})
        assert code_of(await send(node, *request)) == code

    loop(story())
