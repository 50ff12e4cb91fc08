"""Requests read by the shape of one before them: nothing may tell them from requests that were read as a whole."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.commands.arguments import Arguments
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context, RequestFields
from docstore.commands.declaration import Parameter, Role, Type
from docstore.commands.envelope import open_request
from docstore.commands.request_templates import templates_of
from docstore.errors import CommandError
from docstore.wire.message import Message
from tests.harness.dispatching import command, dispatcher_of, peer


def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    del context, arguments
    return {}


DISPATCHER = dispatcher_of(
    command("find", run, value=Type.COLLECTION, role=Role.SECONDARY_OK, read_concern=True, stable=True,
            parameters=(Parameter("filter", Type.OBJECT), Parameter("limit", Type.INT, minimum=0, maximum=50),
                        Parameter("sort", Type.OBJECT, unsupported="no sorting"), Parameter("from", Type.COLLECTION))),
    command("insert", run, value=Type.COLLECTION, role=Role.PRIMARY, retryable=True, in_transactions=True,
            parameters=(Parameter("ordered", Type.BOOL, default=True),)),
    command("hello", run, tolerant=True),
    command("say", run, value=Type.STRING,
            parameters=(Parameter("limit", Type.INT), Parameter("filter", Type.ANY))),
)  # fmt: skip

VALUES: dict[str, list[Any]] = {
    "find": ["c", "d", "a$b"],
    "insert": ["c", "d", ""],
    "hello": [1, 2],
    "say": ["a text", "another", "", 1],
    "filter": [{}, {"a": 1}, {"a": 2}, {"a": "x"}, 1, None, []],
    "limit": [1, 2, -1, 51, 1.5, None],
    "sort": [{}, {"a": 1}],
    "from": ["c", "d", ""],
    "ordered": [True, False],
    "lsid": [
        {"id": Binary(bytes(16), 4)},
        {"id": Binary(b"\1" * 16, 4)},
        {"id": Binary(b"\1" * 16, 3)},
        {"id": 1},
        {"id": Binary(bytes(16), 4), "uid": Binary(b"\2" * 32, 0)},
        {"id": Binary(b"\1" * 16, 4), "uid": Binary(b"\3" * 32, 0)},
    ],
    "txnNumber": [Int64(1), Int64(2), Int64(-1), 1],
    "$clusterTime": [{"clusterTime": Timestamp(1, 1)}, {"clusterTime": Timestamp(2, 1)}],
    "$db": ["test", "tesu", "a b"],
    "shardVersion": [{"v": Timestamp(1, 0)}, {"v": Timestamp(2, 0)}, {}, 1],
    "maxTimeMS": [0, 5, 6, -1],
    "comment": ["one", "two"],
    "readConcern": [
        {"afterClusterTime": Timestamp(1, 1)},
        {"afterClusterTime": Timestamp(2, 1)},
        {"afterClusterTime": Timestamp(3, 7)},
        {"afterClusterTime": Timestamp(2, 1), "provenance": "a"},
        {"afterClusterTime": Timestamp(1, 1), "level": "majority"},
        {"level": "local"},
        {"level": "mocal"},
        {"level": "majority"},
        {"level": "majority", "afterClusterTime": Timestamp(1, 1)},
        {"level": "linearizable", "afterClusterTime": Timestamp(1, 1)},
        {"level": "snapshot", "atClusterTime": Timestamp(1, 1)},
        {"level": "snapshot", "atClusterTime": Timestamp(4, 1)},
        {"level": "snapshot", "atClusterTime": Timestamp(0, 0)},
        {"afterClusterTime": 1},
        1,
    ],
    "writeConcern": [{"w": 1}, {"w": 2}],
    "unknown": [1, 2],
}


def some_request(rng: Random) -> list[tuple[str, Any]]:
    name = rng.choice(["find", "insert", "hello", "say"])
    others = [field for field in VALUES if field not in ("find", "insert", "hello", "say", "$db")]
    rare = {"unknown", "sort", "writeConcern", "maxTimeMS"}
    chosen = [field for field in others if rng.random() < (0.05 if field in rare else 0.3)]
    rng.shuffle(chosen)
    fields = [name, *chosen, "$db"]
    if rng.random() < 0.05:
        fields.append(rng.choice(fields))
    return [(field, VALUES[field][0] if rng.random() < 0.9 else rng.choice(VALUES[field])) for field in fields]


def altered(fields: list[tuple[str, Any]], rng: Random) -> list[tuple[str, Any]]:
    """The same request with some values, and now and then a field, changed."""
    changed = [(name, rng.choice(VALUES[name]) if rng.random() < 0.3 else value) for name, value in fields]
    if len(changed) > 1 and rng.random() < 0.1:
        changed.pop(rng.randrange(1, len(changed)))
    return changed


def encoded(fields: list[tuple[str, Any]]) -> bytes:
    body = b"".join(bson.encode({name: value})[4:-1] for name, value in fields)
    return (len(body) + 5).to_bytes(4, "little") + body + b"\0"


def opened(body: bytes, connection: ClientConnection) -> Any:
    """What came of reading: a command's context and arguments, or the error."""
    message = Message(1, 0, body)
    try:
        context, arguments = open_request(message, connection, DISPATCHER.services, 7.0)
    except CommandError as error:
        return error.code, error.message
    seen = {name: getattr(context, name) for name in (*RequestFields.__annotations__, "started", "exhaust")}
    return seen, arguments.sent_values(), arguments.value


def test_a_request_like_one_before_it_is_read_as_if_it_were_the_first() -> None:
    rng = Random(11)
    agreed = taken = 0
    for _ in range(3000):
        connection = peer()
        fields = some_request(rng)
        opened(encoded(fields), connection)
        for _ in range(3):
            fields = altered(fields, rng)
            body = encoded(fields)
            taken += templates_of(connection).bind(Message(1, 0, body), 7.0) is not None if is_sound(body) else 0
            assert opened(body, connection) == opened(body, peer()), fields
            agreed += 1
    assert taken > agreed / 10, "hardly any request was read by the shape of another"


def test_reads_that_differ_in_their_time_are_of_one_shape() -> None:
    connection = peer()
    for level in ({}, {"level": "majority"}):
        for second in (1, 2):
            concern = {**level, "afterClusterTime": Timestamp(second, 1)}
            body = encoded([("find", "c"), ("readConcern", concern), ("$db", "test")])
            assert (templates_of(connection).bind(Message(1, 0, body), 7.0) is not None) is (second == 2)
            opened(body, connection)


def test_reads_of_one_time_after_another_have_the_time_of_each() -> None:
    rng = Random(5)
    for name, level in (
        ("afterClusterTime", {}),
        ("afterClusterTime", {"level": "majority"}),
        ("afterClusterTime", {"level": "snapshot"}),
        ("atClusterTime", {"level": "snapshot"}),
    ):
        connection = peer()
        for _ in range(40):
            time = Timestamp(rng.randrange(3), rng.randrange(3))
            concern = {name: time, **level} if rng.random() < 0.2 else {**level, name: time}
            body = encoded([("find", "c"), ("readConcern", concern), ("$db", "test")])
            assert opened(body, connection) == opened(body, peer()), concern


def test_requests_that_begin_a_transaction_and_that_go_on_with_it_are_both_remembered() -> None:
    connection = peer()
    session = [("lsid", {"id": Binary(bytes(16), 4)}), ("autocommit", False)]
    for number in range(1, 4):
        for begins in (True, False, False):
            starts = [("startTransaction", True)] if begins else []
            body = encoded([("insert", "c"), *session, ("txnNumber", Int64(number)), *starts, ("$db", "test")])
            if number > 1:
                assert templates_of(connection).bind(Message(1, 0, body), 7.0) is not None
            assert opened(body, connection) == opened(body, peer())
    assert len(templates_of(connection)) == 2


def test_of_requests_with_the_same_fields_the_last_one_is_remembered() -> None:
    connection = peer()
    for limit in range(1, 30):
        body = encoded([("find", "c"), ("maxTimeMS", limit), ("$db", "test")])
        assert opened(body, connection) == opened(body, peer())
    assert len(templates_of(connection)) == 1


def is_sound(body: bytes) -> bool:
    """Whether the request is taken at all, so that nothing is raised."""
    return isinstance(opened(body, peer())[0], dict)


def test_what_is_kept_for_a_connection_is_bounded() -> None:
    connection = peer()
    for number in range(100):
        opened(encoded([("find", f"c{number}"), ("$db", "test")]), connection)
    assert len(templates_of(connection)) <= 24
    opened(encoded([("find", "c"), ("filter", {"a": "x" * 2000}), ("$db", "test")]), connection)
    assert (
        templates_of(connection).bind(Message(1, 0, encoded([("find", "c"), ("filter", {"a": "y" * 2000})])), 7.0)
        is None
    )


def test_taking_one_request_by_anothers_shape_leaves_the_other_as_it_was() -> None:
    connection = peer()
    first = encoded([("find", "c"), ("filter", {"a": 1}), ("$db", "test")])
    second = encoded([("find", "c"), ("filter", {"a": 2}), ("$db", "test")])
    seen = opened(first, connection)
    assert opened(second, connection)[1] == {"filter": bson.encode({"a": 2})}
    assert opened(first, connection) == seen
