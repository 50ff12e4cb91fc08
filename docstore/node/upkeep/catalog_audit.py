"""Audit messages for changes of a node's catalog, written when they are committed, regardless of their origin.

* An operation over several shards outlives its request; its changes are attributed to the process.
* Changes that a secondary applies, and those of a migration, are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from docstore.bson import document_to_python
from docstore.collection.catalog.views import SYSTEM_VIEWS
from docstore.collection.changes import Change, Commit
from docstore.collection.index.spec import IndexSpec
from docstore.collection.store import Store
from docstore.commands.audit.log import AuditLog
from docstore.commands.context import Context
from docstore.commands.supervision import SUPERVISION
from docstore.errors import Code
from docstore.namespace import split_namespace

_OF_USERS = frozenset(("admin.system.users", "admin.system.roles"))
_DIRECT = {"insert": "insert", "update": "update", "delete": "delete", "findAndModify": "update"}
"""Commands that write documents as given."""
_SECRET = "credentials"
STARTED, SUCCEEDED, ABORTED = "IndexBuildStarted", "IndexBuildSucceeded", "IndexBuildAborted"

Event = tuple[str, dict[str, Any]]


class CatalogAudit:
    """Subscriber to the commits of a store."""

    def __init__(self, store: Store, log: AuditLog) -> None:
        self._store = store
        self._log = log
        store.subscribe(self._committed)

    def _committed(self, commit: Commit) -> None:
        context = SUPERVISION.context
        if context is None and not self._store.writable:
            return
        connection = None if context is None else context.connection
        for kind, parameters in self._events(context, commit.changes):
            self._log.note(connection, kind, parameters)

    def _events(self, context: Context | None, changes: list[Change]) -> Iterator[Event]:
        new_namespaces: list[str] = []
        for change in changes:
            if change.from_migrate:
                continue
            if change.op == "c":
                yield from self._of_catalog(change, new_namespaces)
            elif change.op in "iud":
                if change.ns in _OF_USERS and context is not None:
                    yield from _of_user_document(context.command.name, change)
                elif change.ns.endswith(f".{SYSTEM_VIEWS}"):
                    yield from _of_view(change)

    def _of_catalog(self, change: Change, created: list[str]) -> Iterator[Event]:
        """Return the events of one catalog change.

        `created`: collections created earlier in the same unit; extended here.
        """
        database = split_namespace(change.ns)[0]
        command = document_to_python(change.after or b"")
        kind, value = next(iter(command.items()))
        if kind == "create":
            namespace = f"{database}.{value}"
            other_namespaces = [name for name in self._store.namespaces(database) if name not in (*created, namespace)]
            if not other_namespaces and not created:
                yield "createDatabase", {"ns": database}
            created.append(namespace)
            if not value.startswith("system."):
                yield "createCollection", {"ns": namespace}
                if "idIndex" in command:
                    yield from index_events(namespace, ((command["idIndex"]["name"], command["idIndex"]),))
        elif kind == "drop" and not value.startswith("system."):
            yield "dropCollection", {"ns": f"{database}.{value}"}
        elif kind == "dropDatabase":
            yield "dropDatabase", {"ns": database}
        elif kind == "renameCollection":
            yield "renameCollection", {"old": value, "new": command["to"]}
        elif kind == "dropIndexes":
            yield "dropIndex", {"ns": f"{database}.{value}", "indexName": command["index"]}


def index_events(namespace: str, indexes: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[Event]:
    """Return the events of indexes built in one step, given by name and specification."""
    for name, spec in indexes:
        for state in (STARTED, SUCCEEDED):
            yield "createIndex", _index(namespace, name, spec, state)


def note_index_builds(context: Context, namespace: str, specs: Iterable[IndexSpec], state: str) -> None:
    """Log that the builds of these indexes have reached `state`."""
    log = context.services.audit
    if log is None:
        return
    result = int(Code.IndexBuildAborted) if state == ABORTED else 0
    for spec in specs:
        parameters = _index(namespace, spec.name, document_to_python(spec.raw), state)
        log.note(context.connection, "createIndex", parameters, result)


def _index(namespace: str, name: str, spec: dict[str, Any], state: str) -> dict[str, Any]:
    return {"ns": namespace, "indexName": name, "indexSpec": spec, "indexBuildState": state}


def _of_view(change: Change) -> Iterator[Event]:
    raw = change.after if change.op == "i" else change.before
    if raw is None or change.op == "u":
        return
    view = document_to_python(raw)
    database = split_namespace(change.ns)[0]
    yield (
        "createCollection" if change.op == "i" else "dropCollection",
        {"ns": view["_id"], "viewOn": f"{database}.{view['viewOn']}", "pipeline": view.get("pipeline", [])},
    )


def _of_user_document(command: str, change: Change) -> Iterator[Event]:
    """Return the event of a user or role whose document was written directly, not by a user command."""
    if command not in _DIRECT:
        return
    document = document_to_python(change.after or change.before or b"\5\0\0\0\0")
    document.pop(_SECRET, None)
    operation = {"i": "insert", "u": "update", "d": "delete"}[change.op]
    yield "directAuthMutation", {"document": document, "ns": change.ns, "operation": operation}
