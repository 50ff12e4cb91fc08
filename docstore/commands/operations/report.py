"""Operations in progress, connections and cursors, as shown by currentOp and `$currentOp`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import get_field, to_python
from docstore.bson.walk import Value
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context, Services
from docstore.commands.cursors import ClientCursor
from docstore.commands.operations.registry import Operation
from docstore.commands.sessions.activity import TransactionActivity
from docstore.query.value.notation import display, display_document
from docstore.security.names import UserName

_WHOLE_BYTES = 1000
"""The length up to which commands are never shortened."""
_KINDS = {"find": "query", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove"}


class Wanted(NamedTuple):
    """The options of `$currentOp`: what it lists beside the operations in progress, and how.

    `all_users`: not only what the requesting user does. `local`: only this process's. `shorten`: long commands are
    shown by the beginning of their text.
    """

    connections: bool = False
    cursors: bool = False
    sessions: bool = True
    all_users: bool = False
    local: bool = False
    shorten: bool = False


def wanted_of(options: bytes) -> Wanted:
    """Return the options of a `$currentOp` stage."""

    def flag(name: str, *, default: bool = False) -> bool:
        value = get_field(options, name)
        return default if value is None else value[1] != b"\0"

    return Wanted(
        flag("idleConnections"), flag("idleCursors"), flag("idleSessions", default=True), flag("allUsers"),
        flag("localOps"), flag("truncateOps"),
    )  # fmt: skip


def in_progress(context: Context, wanted: Wanted, *, host: str) -> list[dict[str, Any]]:
    """Return all operations of this process, that of the request last; idle connections, cursors and open transactions
    if they are wanted. `host`: the process's address.
    """
    services, own = context.services, context.operation
    owner = None if wanted.all_users else context.owner
    shorten = wanted.shorten
    other_operations = [
        operation
        for operation in services.operations
        if operation is not own and owner in (None, operation.context.owner)
    ]
    activities = () if services.transactions is None else list(services.transactions.activities())
    active = {activity.lsid: activity for activity in activities if activity.is_active}
    descriptions = [
        describe(operation, active, host=host, services=services, shorten=shorten)
        for operation in (*other_operations, own)
    ]
    if wanted.connections:
        busy = {operation.context.connection for operation in services.operations}
        idle = sorted(services.peers - busy, key=lambda peer: peer.id)
        if owner is not None:
            idle = [peer for peer in idle if peer.identity is not None and peer.identity.user.name == owner]
        descriptions += [describe_connection(peer, host=host, services=services) for peer in idle]
    if wanted.cursors:
        descriptions += [
            describe_cursor(cursor, host=host, services=services, shorten=shorten)
            for cursor in services.cursors
            if not cursor.pinned and owner in (None, cursor.owner)
        ]
    if wanted.sessions:
        descriptions += [
            describe_idle_transaction(activity, host=host, services=services)
            for activity in activities
            if not activity.is_active and owner in (None, _user(activity.connection))
        ]
    return descriptions


def describe(
    operation: Operation,
    active: Mapping[bytes, TransactionActivity],
    *,
    host: str,
    services: Services,
    shorten: bool,
) -> dict[str, Any]:
    """Return one operation; the command's progress fields come last.

    `active`: by session, the transactions that execute a statement. `host`: the process's address.
    """
    context = operation.context
    running = max(services.clock() - operation.started, 0.0)
    entry = _connection(context.connection, host, services, active=True)
    entry["opid"] = operation.id
    if context.session is not None:
        entry["lsid"] = _lsid(context.session.lsid)
    entry |= {
        "secs_running": Int64(int(running)),
        "microsecs_running": Int64(int(running * 1_000_000)),
        "op": _KINDS.get(context.command.name, "command"),
        "ns": context.reported_namespace or f"{context.db}.$cmd",
        "command": _document(context.redacted_request, shorten),
    }
    if context.comment is not None:
        entry["comment"] = _comment(context.comment, shorten)
    session = context.session
    if session is not None and session.in_transaction and session.lsid in active:
        entry["transaction"] = active[session.lsid].document(services.clock(), services.wall_clock())
    if operation.killed:
        entry["killPending"] = True
    return {**entry, "numYields": 0, "locks": {}, "waitingForLock": False, "lockStats": {}, **operation.progress}


def describe_connection(peer: ClientConnection, *, host: str, services: Services) -> dict[str, Any]:
    """Return a connection without a request in progress."""
    return _connection(peer, host, services, active=False)


def describe_cursor(cursor: ClientCursor, *, host: str, services: Services, shorten: bool) -> dict[str, Any]:
    """Return an open cursor that no command is using."""
    entry: dict[str, Any] = {"type": "idleCursor", "host": host, "ns": cursor.namespace}
    if cursor.lsid is not None:
        entry["lsid"] = _lsid(cursor.lsid)
    epoch = services.wall_clock() - services.clock()
    metrics: dict[str, Any] = {
        "cursorId": Int64(cursor.id),
        "createdDate": DatetimeMS(int((epoch + cursor.created) * 1000)),
        "lastAccessDate": DatetimeMS(int((epoch + cursor.last_used) * 1000)),
        "nDocsReturned": Int64(cursor.returned),
        "nBatchesReturned": Int64(cursor.batches),
        "noCursorTimeout": cursor.no_timeout,
    }
    if cursor.origin:
        metrics["originatingCommand"] = _document(cursor.origin, shorten)
    return entry | {"cursor": metrics}


def describe_idle_transaction(activity: TransactionActivity, *, host: str, services: Services) -> dict[str, Any]:
    """Return an open transaction that executes no statement."""
    peer = activity.connection
    return {
        "type": "idleSession",
        "host": host,
        "desc": "inactive transaction",
        **({} if peer is None else _client(peer)),
        "lsid": _lsid(activity.lsid),
        "transaction": activity.document(services.clock(), services.wall_clock()),
        "waitingForLock": False,
        "active": False,
        "locks": {},
        "lockStats": {},
    }


def _user(peer: ClientConnection | None) -> UserName | None:
    return None if peer is None or peer.identity is None else peer.identity.user.name


def _client(peer: ClientConnection) -> dict[str, Any]:
    entry: dict[str, Any] = {"connectionId": peer.id, "client": peer.remote}
    if peer.application_name:
        entry["appName"] = peer.application_name
    if peer.metadata is not None:
        entry["clientMetadata"] = RawBSONDocument(peer.metadata)
    if peer.identity is not None:
        entry["effectiveUsers"] = [peer.identity.user.name.document()]
    return entry


def _connection(peer: ClientConnection, host: str, services: Services, *, active: bool) -> dict[str, Any]:
    now = datetime.fromtimestamp(services.wall_clock(), UTC)
    return {
        "type": "op",
        "host": host,
        "desc": f"conn{peer.id}",
        **_client(peer),
        "active": active,
        "currentOpTime": now.isoformat(timespec="milliseconds"),
        "threaded": True,
    }


def _document(raw: bytes, shorten: bool) -> Mapping[str, Any]:
    """Return a command as it is shown; a long one that is to be shortened as `{$truncated, comment}`."""
    if not shorten or len(raw) <= _WHOLE_BYTES:
        return RawBSONDocument(raw)
    document: dict[str, Any] = {"$truncated": display_document(raw)}
    comment = get_field(raw, "comment")
    if comment is not None:
        document["comment"] = _comment(comment, shorten)
    return document


def _comment(comment: Value, shorten: bool) -> Any:
    return display(comment) if shorten and len(comment[1]) > _WHOLE_BYTES else to_python(comment)


def _lsid(lsid: bytes) -> dict[str, Any]:
    return {"id": Binary(lsid[:16], 4), "uid": lsid[16:]}
