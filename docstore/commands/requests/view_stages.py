"""Read commands as pipeline stages, for execution on a view."""

from __future__ import annotations

from docstore.bson import EMPTY_DOCUMENT, document_from, elements, from_python
from docstore.bson.walk import OBJECT
from docstore.commands.arguments import Arguments
from docstore.errors import Code, CommandError

_NOT_IN_PIPELINES = (
    "min", "max", "returnKey", "showRecordId", "noCursorTimeout", "allowPartialResults",
)  # fmt: skip
"""Options of find that have no pipeline equivalent."""


def find_stages(arguments: Arguments) -> list[bytes]:
    """Return a find as stages. Errors: InvalidPipelineOperator for options without an equivalent."""
    if arguments["tailable"]:
        raise CommandError(Code.InvalidPipelineOperator, "Tailable cursors are not supported in aggregation.")
    for name in _NOT_IN_PIPELINES:
        if name in arguments and arguments[name] not in (False, EMPTY_DOCUMENT):
            raise _unsupported(name)
    if arguments["singleBatch"] and arguments["limit"] != 1:
        raise _unsupported("singleBatch")
    stages: list[bytes] = []
    sort = arguments["sort"] or EMPTY_DOCUMENT
    if natural_sort(arguments) is not None:
        sort = EMPTY_DOCUMENT
    for name, raw in (("$match", arguments["filter"]), ("$sort", sort)):
        if raw is not None and raw != EMPTY_DOCUMENT:
            stages.append(_stage(name, raw))
    stages += range_stages(arguments["skip"], arguments["limit"])
    if arguments["projection"] not in (None, EMPTY_DOCUMENT):
        stages.append(_stage("$project", arguments["projection"]))
    return stages


def batch_size_on_view(arguments: Arguments) -> int | None:
    """Return the batch size of the aggregation that stands for a find.

    A single batch of one document, as drivers send for findOne, must end the cursor: the batch has room for more than
    `limit` returns.
    """
    size: int | None = arguments["batchSize"]
    return None if size and arguments["singleBatch"] else size


def _unsupported(name: str) -> CommandError:
    return CommandError(Code.InvalidPipelineOperator, f"Option {name} not supported in aggregation.")


def natural_sort(arguments: Arguments) -> bytes | None:
    """Return a find's natural sort, which pipelines take as a hint; None for another sort."""
    sort: bytes | None = arguments["sort"]
    names = [] if sort is None else [name for name, _, _ in elements(sort)]
    return sort if names == ["$natural"] else None


def filter_stages(raw: bytes | None) -> list[bytes]:
    """Return a filter as stages."""
    return [] if raw is None or raw == EMPTY_DOCUMENT else [_stage("$match", raw)]


def range_stages(skip: int, limit: int) -> list[bytes]:
    """Return skip and limit as stages; 0 is none."""
    stage_values = (("$skip", skip), ("$limit", limit))
    return [document_from([(name, *from_python(number))]) for name, number in stage_values if number]


def _stage(name: str, raw: bytes) -> bytes:
    return document_from([(name, OBJECT, raw)])
