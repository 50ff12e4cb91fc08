"""Bombs of long arguments: for every command, requests whose declared lists and documents are as long as a size says.

The commands come from the command table of an executable, so that a new command is tried without a change here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import bson
import pymongo
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from docstore.commands.declaration import Command, CommandTable, Parameter, Type
from docstore.commands.limits import MAX_WRITE_BATCH

Request = dict[str, Any]
Client = pymongo.MongoClient[Request]

ENDING = frozenset(
    ("shutdown", "replSetStepDown", "fsync", "fsyncUnlock", "replSetFreeze", "replSetAbortPrimaryCatchUp")
)
"""Commands that end the process, or keep it from its work."""
_MAX_TIME_MS = 20_000
_LISTS = (Type.ARRAY, Type.DOCUMENTS, Type.STRINGS, Type.LONGS)
_DOCUMENTS = (Type.OBJECT, Type.STRICT_OBJECT, Type.HINT)


class ArgumentBomb(NamedTuple):
    """A request to `database`, of which `argument` is long."""

    command: str
    argument: str
    database: str
    request: Request


def argument_bombs(table: CommandTable, entries: int) -> Iterator[ArgumentBomb]:
    """Yield the bombs of every command that is not refused; `entries`: the length of a list, fields of a document."""
    for command in table:
        if not command.refuses and command.name not in ENDING:
            yield from _bombs_of(command, entries)


def send(client: Client, bomb: ArgumentBomb) -> int:
    """Send a bomb and return the code of its answer: 0 if it is carried out. Errors: AutoReconnect if it is not
    answered.
    """
    try:
        client[bomb.database].command({**bomb.request, "maxTimeMS": _MAX_TIME_MS})
    except OperationFailure as error:
        return error.code or 0
    return 0


def _bombs_of(command: Command, entries: int) -> Iterator[ArgumentBomb]:
    database = "admin" if command.admin_only else "bombs"
    required = {parameter.name: _small(parameter) for parameter in command.parameters if parameter.required}
    # A long validator would be what all later writes are about.
    value = "changed" if command.name == "collMod" else _small(Parameter(command.name, command.value))
    for label, argument in _long(command.value, entries):
        yield ArgumentBomb(command.name, label, database, {command.name: argument, **required})
    for parameter in command.parameters:
        for label, argument in _long(parameter.type, entries):
            request = {command.name: value, **required, parameter.name: argument}
            yield ArgumentBomb(command.name, f"{parameter.name}: {label}", database, request)


def _small(parameter: Parameter) -> Any:
    values: dict[Type, Any] = {
        Type.STRING: "x", Type.COLLECTION: "one", Type.NAMESPACE: "bombs.one", Type.BOOL: True, Type.STRICT_BOOL: True,
        Type.SAFE_BOOL: True, Type.LONG: Int64(1), Type.OBJECT: {}, Type.STRICT_OBJECT: {}, Type.HINT: {"_id": 1},
        Type.ARRAY: [], Type.DOCUMENTS: [], Type.STRINGS: [], Type.LONGS: [], Type.OBJECT_ID: bson.ObjectId(),
        Type.UUID: bson.Binary.from_uuid(uuid.uuid4()), Type.TIMESTAMP: bson.Timestamp(1, 1),
    }  # fmt: skip
    return values.get(parameter.types[0], 1)


def _long(kind: Type | tuple[Type, ...], entries: int) -> Iterator[tuple[str, Any]]:
    """Yield the long arguments of a type, with what they consist of."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    for listed in _LISTS:
        if listed in kinds:
            yield from _long_lists(listed, entries)
    if any(each in kinds for each in _DOCUMENTS):
        yield from _long_documents(entries)
    if Type.ANY in kinds:
        yield from _long_lists(Type.ARRAY, entries)
        yield from _long_documents(entries)
    if Type.STRING in kinds or Type.COLLECTION in kinds:
        yield "a string", "x" * (entries * 20)


def _long_lists(kind: Type, entries: int) -> Iterator[tuple[str, Any]]:
    numbers = range(entries)
    if kind in (Type.LONGS, Type.ARRAY):
        yield "numbers", [Int64(number) for number in numbers]
    if kind is Type.STRINGS:
        yield "strings", [f"n{number}" for number in numbers]
    if kind in (Type.DOCUMENTS, Type.ARRAY):
        yield "names", [{"user": f"n{number}", "db": f"d{number}"} for number in numbers]
    if kind is Type.DOCUMENTS:
        yield "sessions", [{"id": _uuid(number)} for number in numbers]
    if kind is Type.ARRAY:
        yield "roles", [{"role": f"n{number}", "db": f"d{number}"} for number in numbers]


def _long_documents(entries: int) -> Iterator[tuple[str, Any]]:
    numbers = range(entries)
    yield "fields", {f"n{number}": 1 for number in numbers}
    yield "$or", {"$or": [{"name": f"n{number}"} for number in numbers]}


def _uuid(number: int) -> bson.Binary:
    return bson.Binary(number.to_bytes(16, "big"), 4)


def handmade_bombs(entries: int) -> Iterator[ArgumentBomb]:
    """Yield requests whose lists must be what their command expects, or it ends at the first entry."""
    names = [f"n{number}" for number in range(entries)]
    for label, database, make in (
        *((label, "bombs", make) for label, make in _of_documents(names).items()),
        *((label, "bombs", make) for label, make in _of_cql(names).items()),
        *((label, "admin", make) for label, make in _of_users(names).items()),
        *((label, "admin", make) for label, make in _of_envelopes(names).items()),
    ):
        request = make()
        yield ArgumentBomb(next(iter(request))[:20], label, database, request)


def _of_users(names: list[str]) -> dict[str, Callable[[], Request]]:
    roles = [{"role": name, "db": f"d{name}"} for name in names]
    actions = {"resource": {"db": "bombs", "collection": ""}, "actions": ["find"] * len(names)}
    privileges = [{"resource": {"db": "bombs", "collection": name}, "actions": ["find"]} for name in names]
    restriction = {"clientSource": ["127.0.0.1"] * len(names)}
    return {
        "users of one database": lambda: {"usersInfo": names},
        "roles of one database": lambda: {"rolesInfo": names},
        "grantRolesToUser": lambda: {"grantRolesToUser": "root", "roles": roles},
        "createUser": lambda: {"createUser": "u", "pwd": "p", "roles": roles},
        "createRole": lambda: {"createRole": "r", "roles": roles, "privileges": []},
        "privileges": lambda: {"createRole": "r2", "roles": [], "privileges": privileges},
        "actions": lambda: {"createRole": "r3", "roles": [], "privileges": [actions]},
        "restrictions": lambda: {
            "createUser": "v", "pwd": "p", "roles": [], "authenticationRestrictions": [restriction],
        },
    }  # fmt: skip


def _of_documents(names: list[str]) -> dict[str, Callable[[], Request]]:
    entries = len(names)
    few = min(entries, MAX_WRITE_BATCH)
    fields = dict.fromkeys(names, 1)
    either = {"$or": [{"a": number} for number in range(entries)]}
    among = {"a": {"$in": list(range(entries))}}
    indexes = [{"key": {name: 1}, "name": name} for name in names]
    update = {"q": {"_id": 0}, "u": {"$set": {"a": 1}}}
    documents = [{"a": number} for number in range(entries)]
    schema = {"$jsonSchema": {"properties": {"a": {"enum": list(range(entries))}}}}
    return {
        "cursors": lambda: {"killCursors": "one", "cursors": [Int64(number) for number in range(entries)]},
        "indexes": lambda: {"createIndexes": "one", "indexes": indexes},
        "an index of many fields": lambda: {"createIndexes": "one", "indexes": [{"key": fields, "name": "x"}]},
        "names of indexes": lambda: {"dropIndexes": "one", "index": names},
        "inserts": lambda: {"insert": "inserts", "documents": [{"a": 1}] * few},
        "updates": lambda: {"update": "one", "updates": [update] * few},
        "deletes": lambda: {"delete": "one", "deletes": [{"q": {"_id": 0}, "limit": 1}] * few},
        "a find of $or": lambda: {"find": "one", "filter": either},
        "$documents": lambda: {"aggregate": 1, "pipeline": [{"$documents": documents}, {"$limit": 1}], "cursor": {}},
        "$match": lambda: {"aggregate": "one", "pipeline": [{"$match": among}], "cursor": {}},
        "$jsonSchema": lambda: {"find": "one", "filter": schema},
        "a validator": lambda: {"create": "v", "validator": among},
        "a validator of $or": lambda: {"create": "v2", "validator": either},
        "a view": lambda: {"create": "v3", "viewOn": "one", "pipeline": [{"$match": among}]},
        "many stages": lambda: {"create": "v4", "viewOn": "one", "pipeline": [{"$limit": 1}] * entries},
        "a collation": lambda: {"find": "one", "collation": {"locale": "en", **fields}},
        "a hint": lambda: {"find": "one", "hint": fields},
        "a sort": lambda: {"find": "one", "sort": fields},
        "min": lambda: {"find": "one", "hint": {"_id": 1}, "min": fields},
        "a comment": lambda: {"find": "one", "comment": names},
    }


def _of_envelopes(names: list[str]) -> dict[str, Callable[[], Request]]:
    entries = len(names)
    fields = dict.fromkeys(names, 1)
    long_name = "x" * (entries * 20)
    tags = {"mode": "nearest", "tags": [{"a": "b"}] * entries}
    session = {"lsid": {"id": _uuid(1)}, "txnNumber": Int64(1), "stmtIds": list(range(entries))}
    one = {"insert": "one", "documents": [{"a": 1}]}
    insert = {"insert": 0, "document": {"a": 1}}
    spaces = [{"ns": f"bombs.{name}"} for name in names]
    return {
        "a long name": lambda: {long_name: 1},
        "a long field": lambda: {"ping": 1, long_name: 1},
        "many unknown fields": lambda: {"ping": 1, **fields},
        "compressors": lambda: {"hello": 1, "compression": names},
        "many statement ids": lambda: {**one, **session},
        "a cluster time": lambda: {"ping": 1, "$clusterTime": fields},
        "a read preference": lambda: {"ping": 1, "$readPreference": tags},
        "a write concern": lambda: {**one, "writeConcern": fields},
        "operations": lambda: {
            "bulkWrite": 1, "ops": [insert] * min(entries, MAX_WRITE_BATCH), "nsInfo": [{"ns": "bombs.one"}],
        },
        "namespaces": lambda: {"bulkWrite": 1, "ops": [insert], "nsInfo": spaces},
    }  # fmt: skip


def _of_cql(names: list[str]) -> dict[str, Callable[[], Request]]:
    entries = len(names)
    numbers = ", ".join(map(str, range(entries)))
    columns = ", ".join(f"{name} int" for name in names)
    texts = {
        "a CQL list": f"SELECT * FROM t WHERE a IN ({numbers})",
        "a CQL string": f"SELECT '{'x' * (entries * 20)}' FROM t",
        "CQL blanks": " " * (entries * 20) + "SELECT a FROM t",
        "CQL names": f"SELECT {', '.join(names)} FROM t",
        "CQL columns": f"CREATE TABLE t (k int PRIMARY KEY, {columns})",
        "a CQL batch": f"BEGIN BATCH {'INSERT INTO t (k) VALUES (1); ' * entries} APPLY BATCH",
        "a CQL name": f"SELECT {'x' * (entries * 20)} FROM t",
        "CQL of roles": f"GRANT {'x' * (entries * 20)} TO x",
        "CQL quotation marks": "SELECT " + "'" * (entries * 20 + 1),
        "CQL digits": "SELECT a FROM t WHERE a = " + "9" * (entries * 20),
        "CQL comments": "/**/" * (entries * 5) + "SELECT a FROM t",
        "a CQL comment": "/*" + "*" * (entries * 20) + "*/ SELECT a FROM t",
    }
    return {label: partial(dict, cql=text) for label, text in texts.items()}
