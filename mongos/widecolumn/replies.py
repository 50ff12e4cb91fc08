"""Replies of several shards put together to one, as the client of one node would get it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from docstore.bson import (
    ARRAY,
    array_documents,
    document_from,
    document_to_python,
    documents_array,
    from_python,
    get_field,
)
from docstore.widecolumn.model.replies import check_reply_size
from mongos.routing.requests import ShardReply

_ADDED = ("shards", "partitionsRead", "keysExamined", "tombstones")


def rows_of(answer: ShardReply) -> list[bytes]:
    """The rows that a shard has given, as documents."""
    listed = get_field(answer.body, "rows")
    assert listed is not None, "the reply lists rows"
    return array_documents(listed[1])


def joined(rows: Sequence[bytes], answers: Sequence[ShardReply]) -> bytes:
    """Return one reply from several: the rows, and the shards' warnings and explanations."""
    check_reply_size(sum(map(len, rows)))
    fields: list[tuple[str, int, bytes]] = [("rows", ARRAY, documents_array(rows))]
    warnings = warnings_of(answers)
    if warnings:
        fields.append(("warnings", *from_python(warnings)))
    explained = [document_to_python(value[1]) for answer in answers if (value := get_field(answer.body, "explain"))]
    if explained:
        fields.append(("explain", *from_python(_added(explained, answers))))
    return document_from(fields)


def _added(explained: Sequence[dict[str, Any]], answers: Sequence[ShardReply]) -> dict[str, Any]:
    totals = dict(explained[0])
    totals.update((name, sum(explanation[name] for explanation in explained)) for name in _ADDED)
    return {**totals, "shards": len({answer.shard for answer in answers})}


def warnings_of(answers: Iterable[ShardReply]) -> list[str]:
    """The warnings of all shards."""
    arrays = [get_field(answer.body, "warnings") for answer in answers]
    return [text for value in arrays if value is not None for text in document_to_python(value[1]).values()]
