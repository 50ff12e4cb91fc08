"""Targets of aggregates, and checks of their stages: process-level stages, the Stable API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docstore.aggregation.stages.sources import TARGETS
from docstore.bson import array_documents, elements, get_field
from docstore.bson.walk import ARRAY, OBJECT
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadLevel
from docstore.commands.context import Context
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.errors import Code, CommandError

_ON_THE_PROCESS = ("$currentOp", "$listLocalSessions")
"""Stages that need `{aggregate: 1}`; the first one also needs the admin database."""
_OF_SESSIONS = ("$listLocalSessions", "$listSessions")
_SESSION_OPTIONS = frozenset(("allUsers", "users"))
_SESSIONS = "config.system.sessions"
_UNSTABLE = frozenset(("$currentOp", "$fill", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats"))
"""Stages outside of version 1 of the Stable API."""


def collection_of(value: str | float) -> str | None:
    """Return the collection of an aggregate; None for `{aggregate: 1}`. Errors: FailedToParse for other numbers."""
    if isinstance(value, str):
        return value
    if value != 1:
        raise CommandError(
            Code.FailedToParse, "Invalid command format: the 'aggregate' field must specify a collection name or 1"
        )
    return None


def check_stage_places(db: str, collection: str | None, stages: Sequence[bytes]) -> None:
    """Check that the stages fit the aggregate's target, a collection or none. Call this before parsing them.

    Malformed stages are left to the parsers. Errors: InvalidNamespace.
    """
    for stage in stages:
        for name, code, options in elements(stage)[:1]:
            if code != OBJECT or (name in _OF_SESSIONS and not _SESSION_OPTIONS.issuperset(_names(options))):
                continue
            if name in _ON_THE_PROCESS:
                fits = collection is None and (name != "$currentOp" or db == "admin")
            else:
                fits = name != "$listSessions" or f"{db}.{collection}" == _SESSIONS
            if not fits:
                raise CommandError(Code.InvalidNamespace, f"{name} {TARGETS[name]}")


def _names(raw: bytes) -> set[str]:
    return {name for name, _, _ in elements(raw)}


def check_stable_stages(stages: Iterable[bytes]) -> None:
    """Refuse stages that `apiStrict` forbids, nested pipelines included. Errors: APIStrictError."""
    for stage in stages:
        for name, code, data in elements(stage)[:1]:
            if name in _UNSTABLE or (name == "$collStats" and code == OBJECT and not _counts_only(data)):
                raise CommandError(Code.APIStrictError, f"stage {name} is not allowed with apiStrict in API Version 1")
            if code == OBJECT:
                _check_nested(name, data)


def _counts_only(options: bytes) -> bool:
    return all(name == "count" for name, _, _ in elements(options))


def _check_nested(stage: str, options: bytes) -> None:
    if stage == "$facet":
        pipelines = [(code, data) for _, code, data in elements(options)]
    else:
        inner = get_field(options, "pipeline")
        pipelines = [] if inner is None else [inner]
    for code, data in pipelines:
        if code == ARRAY and all(kind == OBJECT for _, kind, _ in elements(data)):
            check_stable_stages(array_documents(data))


def check_output_concern(context: Context) -> None:
    """Refuse a read concern that an output stage does not allow. Errors: InvalidOptions."""
    if context.read_concern.level is ReadLevel.LINEARIZABLE:
        raise CommandError(Code.InvalidOptions, "an output stage cannot be used with a 'linearizable' read concern")


def check_explained(arguments: Arguments, *, has_write_concern: bool) -> None:
    """Check what an aggregate that is explained does not use. Errors: FailedToParse for a write concern; those of
    `batch_size_of`.
    """
    batch_size_of(arguments)
    if has_write_concern:
        raise CommandError(Code.FailedToParse, "Aggregation explain does not support the 'writeConcern' option")


def check_stream_concern(context: Context) -> None:
    """Refuse a read concern that a change stream does not allow. Errors: InvalidOptions."""
    level = context.read_concern.level
    concern = context.body.get("readConcern")
    if concern is not None and "level" in concern and level is not ReadLevel.MAJORITY:
        raise CommandError(
            Code.InvalidOptions,
            "Aggregation stage $changeStream cannot run with a readConcern other than 'majority'. "
            f"Current readConcern: {level.value}",
        )
