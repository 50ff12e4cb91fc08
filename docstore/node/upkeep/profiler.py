"""The profiler: records requests in the `system.profile` of their database.

* Levels per database: 0 records nothing, 1 slow requests (or those matching the filter), 2 all (matching the filter).
* `sample_rate` applies to the process; so does the duration from which requests are slow (`Switches.slow_ms`).
* The collection is capped, is created with the first level above 0, and does not replicate.
* Without profiling a request costs one list lookup.
* Entries have MongoDB's fields, as far as this server has them, in their order, and an `_id`. Figures of plans come
  from `docstore.node.upkeep.execution`, exact for profiled databases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, elements, get_field, to_python
from docstore.bson.walk import ARRAY, BOOL, Value
from docstore.collection.catalog.options import options_of
from docstore.collection.store import Store
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.upkeep.execution import Execution
from docstore.query.value.values import string_value

SYSTEM_PROFILE = "system.profile"
CAPPED_BYTES = 1 << 20
_OPERATIONS = {
    "delete": "remove",
    "find": "query",
    "getMore": "getmore",
    "insert": "insert",
    "update": "update",
}
"""Operation names in entries; all other commands are "command"."""
_FINDING = frozenset(("aggregate", "find", "getMore"))
"""Commands whose cursors are over documents."""
_COUNTS = {"insert": "ninserted", "delete": "ndeleted"}
_STATEMENTS = {"delete": "deletes", "update": "updates"}
_ERROR_FIELDS = (("errName", "codeName"), ("errCode", "code"))
_LONG_FIELDS = frozenset(("documents", "updates", "deletes"))


@dataclass(slots=True)
class Profile:
    """The profiling of one database. `filter` is raw, `predicate` is its compiled form."""

    level: int = 0
    filter: bytes | None = None
    predicate: Predicate | None = None


@dataclass(slots=True)
class Profiler:
    """The profiles of a process, by database.

    `clock`: monotonic seconds; `rng`: numbers in [0, 1); `now`: the wall clock as a BSON date.
    """

    store: Store = field(repr=False)
    clock: Callable[[], float] = field(repr=False)
    rng: Callable[[], float] = field(repr=False)
    now: Callable[[], DatetimeMS] = field(repr=False)
    sample_rate: float = 1.0
    profiles: dict[str, Profile] = field(default_factory=dict)

    def of(self, database: str) -> Profile:
        """Return the database's profile, at level 0 by default."""
        return self.profiles.setdefault(database, Profile())

    @property
    def databases(self) -> frozenset[str]:
        """The databases with a level above 0."""
        return frozenset(name for name, profile in self.profiles.items() if profile.level > 0)

    @property
    def active(self) -> bool:
        return bool(self.databases)

    def observe(self, context: Context, reply: bytes) -> None:
        """Record an answered request if its profile selects it."""
        profile = self.profiles.get(context.db)
        namespace = _namespace(context)
        if profile is None or profile.level <= 0 or not namespace:
            return
        millis = round((self.clock() - context.started) * 1000)
        if profile.predicate is None:
            if profile.level == 1 and (millis < context.services.switches.slow_ms or self.rng() >= self.sample_rate):
                return
            entry = _entry(context, namespace, reply, millis, self.now())
        else:
            entry = _entry(context, namespace, reply, millis, self.now())
            if not profile.predicate.matches(entry):
                return
        store = self.store
        with store.unit(replicated=False) as unit:
            collection = store.collection(f"{context.db}.{SYSTEM_PROFILE}")
            if collection is not None:
                unit.insert(collection, entry)
                unit.commit()

    def prepare(self, database: str) -> None:
        """Create the collection if it does not exist."""
        namespace = f"{database}.{SYSTEM_PROFILE}"
        store = self.store
        if store.collection(namespace) is None:
            with store.unit(replicated=False) as unit:
                store.create_collection(unit, namespace, options_of({"capped": True, "size": CAPPED_BYTES}))
                unit.commit()


def _namespace(context: Context) -> str:
    """Return the namespace of a request; empty for none."""
    if context.command.name == "getMore":
        named = get_field(context.raw, "collection")
        return f"{context.db}.{to_python(named)}" if named is not None else ""
    namespace = context.reported_namespace
    return "" if ".$cmd" in namespace else namespace


def _entry(context: Context, namespace: str, reply: bytes, millis: int, now: DatetimeMS) -> bytes:
    name = context.command.name
    reply_fields = {field_name: (code, data) for field_name, code, data in elements(reply)}
    entry: dict[str, Any] = {
        "_id": ObjectId(),
        "op": _OPERATIONS.get(name, "command"),
        "ns": namespace,
    }
    statement = _statement(context) if to_python(reply_fields["ok"]) == 1 else None
    shown_command = [element for element in elements(context.redacted_request) if element[0] not in _LONG_FIELDS]
    entry["command"] = RawBSONDocument(document_from(_commented(context, statement or shown_command)))
    failure = reply_fields
    if statement is not None and "writeErrors" in reply_fields:
        # The error of a failed statement is recorded as the request's.
        ((_, _, refused),) = elements(reply_fields["writeErrors"][1])
        failure = {field_name: (code, data) for field_name, code, data in elements(refused)}
        failure["codeName"] = string_value(CommandError(to_python(failure["code"]), "").code_name)
    cursor = _cursor(reply_fields["cursor"]) if name in _FINDING and "cursor" in reply_fields else {}
    execution = None if context.begun_progress is None else context.begun_progress.execution
    figures = {} if execution is None else execution.figures()
    failed = failure is not reply_fields or to_python(reply_fields["ok"]) != 1
    summary = {"planSummary": figures.pop("planSummary")} if figures else {}
    entry |= _opened(context)
    entry |= {entry_field: cursor.pop(entry_field) for entry_field in ("cursorid",) if entry_field in cursor}
    entry |= {} if failed else figures
    entry |= {entry_field: cursor.pop(entry_field) for entry_field in ("cursorExhausted",) if entry_field in cursor}
    entry |= {} if failed else _written(context, name, reply_fields)
    entry["numYield"] = 0
    entry |= cursor
    if failed:
        entry |= {"ok": 0.0, "errMsg": to_python(failure["errmsg"])}
        # Some errors have no code.
        entry |= {entry_field: to_python(failure[name]) for entry_field, name in _ERROR_FIELDS if name in failure}
    remote = context.connection.remote.rpartition(":")[0]
    if statement is None:
        entry |= {"responseLength": len(reply), "protocol": "op_msg"}
    entry |= {"millis": millis, **summary, "ts": now}
    entry["client"] = remote
    if context.connection.application_name:
        entry["appName"] = context.connection.application_name
    return bson.encode(entry | {"allUsers": [], "user": ""})


def _statement(context: Context) -> list[tuple[str, int, bytes]] | None:
    """Return the statement of an update or delete with exactly one, unless it is redacted."""
    name = context.command.name
    if name not in _STATEMENTS or context.redacted_request is not context.raw:
        return None
    statements = context.documents(_STATEMENTS[name])
    if len(statements) != 1:
        return None
    fields = elements(statements[0])
    if name == "update":
        names = {option[0] for option in fields}
        fields += [(option, BOOL, b"\0") for option in ("multi", "upsert") if option not in names]
    return fields


def _commented(context: Context, fields: list[tuple[str, int, bytes]]) -> list[tuple[str, int, bytes]]:
    """Return a command's fields, with a comment added at the end that they lack.

    It is the comment of the request, or else of the command that opened its cursor. To a redacted request nothing is
    added.
    """
    if context.redacted_request is not context.raw or any(name == "comment" for name, _, _ in fields):
        return fields
    comment = context.comment
    execution = None if context.begun_progress is None else context.begun_progress.execution
    if comment is None and isinstance(execution, Execution) and execution.origin:
        comment = get_field(execution.origin, "comment")
    return fields if comment is None else [*fields, ("comment", *comment)]


def _written(context: Context, name: str, reply: dict[str, Value]) -> dict[str, Any]:
    """Return the counts of a write."""
    if name == "findAndModify" and "lastErrorObject" in reply:
        last = {field_name: (code, data) for field_name, code, data in elements(reply["lastErrorObject"][1])}
        n, upserted = to_python(last["n"]), int("upserted" in last)
        if "updatedExisting" not in last:
            return {"ndeleted": n}
        execution = None if context.begun_progress is None else context.begun_progress.execution
        modified = execution.modified if isinstance(execution, Execution) else 0
        return {"nMatched": n - upserted, "nModified": modified, "nUpserted": upserted}
    if "n" not in reply:
        return {}
    n = to_python(reply["n"])
    if name == "update" and "nModified" in reply:
        upserted = len(elements(reply["upserted"][1])) if "upserted" in reply else 0
        return {"nMatched": n - upserted, "nModified": to_python(reply["nModified"]), "nUpserted": upserted}
    return {_COUNTS[name]: n} if name in _COUNTS else {}


def _opened(context: Context) -> dict[str, Any]:
    """Return the originating command and cursor id of a batch."""
    execution = None if context.begun_progress is None else context.begun_progress.execution
    if not isinstance(execution, Execution) or not execution.origin:
        return {}
    return {"originatingCommand": RawBSONDocument(execution.origin), "cursorid": execution.cursor}


def _cursor(value: Value) -> dict[str, Any]:
    fields = {name: (code, data) for name, code, data in elements(value[1])}
    identity = to_python(fields["id"])
    cursor: dict[str, Any] = {"cursorid": identity} if identity else {"cursorExhausted": True}
    for name in ("firstBatch", "nextBatch"):
        if name in fields and fields[name][0] == ARRAY:
            cursor["nreturned"] = len(elements(fields[name][1]))
    return cursor
