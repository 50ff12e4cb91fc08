"""Operations in progress as currentOp shows them."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import to_python
from docstore.commands.operations import Operation
from docstore.commands.session import lsid_document

_KINDS = {"find": "query", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove"}


def describe(operation: Operation, *, host: str, now: float) -> dict[str, Any]:
    """One entry of `inprog`; what the command tells of its progress stands at the end.

    `host`: the process's address; `now`: on the clock of `Operation.started`.
    """
    context = operation.context
    running = max(now - operation.started, 0.0)
    entry: dict[str, Any] = {
        "type": "op",
        "host": host,
        "desc": f"conn{context.connection.id}",
        "connectionId": context.connection.id,
        "client": context.connection.remote,
        "appName": context.connection.application_name,
        "active": True,
        "opid": operation.id,
        "secs_running": Int64(int(running)),
        "microsecs_running": Int64(int(running * 1_000_000)),
        "op": _KINDS.get(context.command.name, "command"),
        "ns": context.namespace or f"{context.db}.$cmd",
        "command": RawBSONDocument(context.raw),
    }
    if context.session is not None:
        entry["lsid"] = lsid_document(context.session.lsid)
    if context.comment is not None:
        entry["comment"] = to_python(context.comment)
    if operation.killed:
        entry["killPending"] = True
    return entry | operation.progress
