"""Failures that fail points cause in requests."""

from __future__ import annotations

from typing import Any

from docstore.bson import get_field, get_path
from docstore.bson.walk import STRING
from docstore.commands.context import Context
from docstore.commands.fail_points.registry import CONFIGURE, GET_MORE, FailPoint, FailPoints, Failure, InducedError
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError


def failure_of(points: FailPoints, context: Context) -> Failure | None:
    """Return the failure for a command; None for none. Errors: InvalidOptions, MaxTimeMSExpired."""
    if context.max_time_ms and points.times_out():
        raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
    if points.command.active and _meets(context, points.command.data) and points.command.fires():
        return _command_failure(context, points.command)
    retryable = context.session is not None and context.session.txn_number is not None
    if points.write.active and retryable and points.write.data.get("closeConnection", True):
        return Failure(watched=(points.write, points.write.times_entered))
    return None


def check_get_more(points: FailPoints, context: Context) -> None:
    """Errors: the one with which a client's getMore must fail."""
    point = points.by_name[GET_MORE]
    if point.active and not _internal(context) and point.fires():
        raise CommandError(int(point.data["errorCode"]), f"Hit the '{GET_MORE}' failpoint")


def hang_up_after(context: Context) -> None:
    """Close the connection instead of replying, if a fail point requests it."""
    induced = None if context.begun_progress is None else context.begun_progress.induced
    if induced is not None and induced.watched is not None:
        point, entered_before = induced.watched
        if point.times_entered > entered_before:
            context.connection.hang_up()


def _command_failure(context: Context, point: FailPoint) -> Failure:
    data = point.data
    labels = tuple(data["errorLabels"]) if "errorLabels" in data else None
    seconds = None
    if data.get("blockConnection"):
        if "blockTimeMS" not in data:
            raise CommandError(Code.InvalidOptions, "must specify 'blockTimeMS' when 'blockConnection' is true")
        seconds = data["blockTimeMS"] / 1000
    concern = get_field(point.raw, "writeConcernError") if context.command.takes_write_concern else None
    return Failure(
        error=InducedError(int(data["errorCode"]), labels) if "errorCode" in data else None,
        hang_up=bool(data.get("closeConnection")),
        seconds=seconds,
        write_concern_error=None if concern is None else concern[1],
        labels=labels,
    )


def _meets(context: Context, data: dict[str, Any]) -> bool:
    command = context.command
    names = data.get("failCommands", ())
    if command.name == CONFIGURE or not (command.name in names or any(alias in names for alias in command.aliases)):
        return False
    if "appName" in data and data["appName"] != _application(context):
        return False
    if "namespace" in data and data["namespace"] != context.namespace:
        return False
    return bool(data.get("failInternalCommands")) or not _internal(context)


def _application(context: Context) -> str:
    """Return the client's application name, from its first hello."""
    application_name = get_path(context.raw, "client.application.name")
    if not context.connection.greeted and application_name is not None and application_name[0] == STRING:
        return text_of(application_name[1])
    return context.connection.application_name


def _internal(context: Context) -> bool:
    metadata = context.connection.metadata
    name = None if metadata is None else get_path(metadata, "driver.name")
    return name is not None and name[0] == STRING and text_of(name[1]) == "docstore"
