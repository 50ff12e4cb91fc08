"""setDefaultRWConcern: set the default read and write concerns of a set or, on config servers, of a cluster."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadLevel, WriteConcern, parse_read_concern, parse_write_concern
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.concerns import SET_DEFAULT_RW_CONCERN
from docstore.errors import Code, CommandError
from docstore.node.concern_defaults import shown_defaults
from docstore.node.ddl.catalog_changes import change
from docstore.node.node import node_of
from docstore.node.process.settings import ClusterRole
from docstore.replicaset.standalone import Standalone


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    replication = node.replication
    if isinstance(replication, Standalone):
        raise CommandError(51300, "'setDefaultRWConcern' is not supported on standalone nodes.")
    if node.settings.role is ClusterRole.SHARD:
        raise CommandError(51301, "'setDefaultRWConcern' is not supported on shard nodes.")
    write, read = arguments["defaultWriteConcern"], arguments["defaultReadConcern"]
    if write is None and read is None:
        raise CommandError(
            Code.BadValue, 'At least one of the "defaultReadConcern" or "defaultWriteConcern" fields must be present'
        )
    changes: dict[str, Any] = {}
    if write is not None:
        concern = _checked_write(write, replication.concern_defaults.write)
        if concern is not None:
            of_set = node.settings.role is not ClusterRole.CONFIG
            if of_set and not isinstance(concern.w, int) and concern.w != "majority":
                replication.check_satisfiable(concern)
            changes["defaultWriteConcern"] = concern.document()
    if read is not None:
        changes["defaultReadConcern"] = _checked_read(read)
    outcome = await change(context, {}, lambda unit: replication.concern_defaults.update(unit, changes, node.now()))
    return {**shown_defaults(node), **outcome}


def _checked_write(raw: bytes, present: WriteConcern | None) -> WriteConcern | None:
    if raw == EMPTY_DOCUMENT:
        if present is not None:
            raise CommandError(
                Code.IllegalOperation, "The global default write concern cannot be unset once it is set."
            )
        return None
    concern = parse_write_concern(OBJECT, raw)
    if concern.w == 0:
        raise CommandError(Code.BadValue, "Unacknowledged write concern is not suitable for the default write concern")
    return concern


def _checked_read(raw: bytes) -> dict[str, Any] | None:
    """Return the default read concern; None removes it. Only level `local` is allowed."""
    if raw == EMPTY_DOCUMENT:
        return None
    level = parse_read_concern(OBJECT, raw).level
    if level in (ReadLevel.LINEARIZABLE, ReadLevel.SNAPSHOT):
        raise CommandError(Code.BadValue, f"level: '{level.value}' is not suitable for the default read concern")
    if document_to_python(raw).keys() != {"level"}:
        raise CommandError(Code.BadValue, "a default read concern has a level and nothing else")
    if level is not ReadLevel.LOCAL:
        raise CommandError(Code.NotImplemented, f"level '{level.value}' is not supported as the default read concern")
    return {"level": level.value}


COMMAND = SET_DEFAULT_RW_CONCERN.command(run)
