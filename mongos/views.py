"""Reading a view through a router.

Shards do not read views for a router: they answer with the view's source collection and pipeline. The router then
runs the request as an aggregation over that collection, which may be sharded. The cursor has the view's namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, elements, get_field
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.arguments import Arguments, take
from docstore.commands.context import Context
from docstore.commands.declaration import RESULTS, Result, encoded
from docstore.errors import Code, CommandError
from docstore.query.value.collation import Collation, parse_collation

_CARRIED = ("hint", "let", "maxTimeMS", "readConcern", "lsid", "comment", "$clusterTime")
"""Fields of the request that the aggregation takes over."""


async def read_below(
    context: Context,
    error: CommandError,
    stages: Sequence[bytes],
    *,
    batch_size: int | None = None,
    natural: bytes | None = None,
) -> Result:
    """The reply of the aggregation that stands for a request whose shard answered with `error`.

    `natural`: the sort of a find by the natural order.

    Raises `error` when it says anything else than that the request was for a view.
    """
    if error.code != Code.CommandOnShardedViewNotSupportedOnMongod:
        raise error
    resolved: dict[str, Any] = error.extra["resolvedView"]
    _check_collation(context, parse_collation(bson.encode(resolved["collation"])))
    command = context.services.table.get("aggregate")
    raw = _aggregation(context, resolved, stages, batch_size, natural)
    below = context.derived(command=command, raw=raw, sequences={}, view=context.view or context.namespace)
    values: dict[str, Any] = {}
    for field, code, data in elements(raw)[1:]:
        if field in command.by_name:
            take(command.name, command.by_name[field], code, data, context.db, values)
    name = resolved["ns"].partition(".")[2]
    reply = command.run(below, Arguments(command.by_name, values, name))
    return reply if isinstance(reply, RESULTS) else await reply


def _aggregation(
    context: Context, resolved: dict[str, Any], stages: Sequence[bytes], batch_size: int | None, natural: bytes | None
) -> bytes:
    """Return the aggregation over the source collection, with the fields taken over from the request."""
    database, _, name = resolved["ns"].partition(".")
    assert database == context.db, "a view stands on a collection of its own database"
    body: dict[str, Any] = {
        "aggregate": name,
        "pipeline": [*resolved["pipeline"], *(RawBSONDocument(stage) for stage in stages)],
        "cursor": {} if batch_size is None else {"batchSize": batch_size},
        "collation": resolved["collation"],
    }
    if natural is not None:
        body["hint"] = RawBSONDocument(natural)
    carried = [field for field in elements(context.raw) if field[0] in _CARRIED and field[0] not in body]
    return document_from([*elements(bson.encode(body)), *carried])


def _check_collation(context: Context, rules: Collation | None) -> None:
    """Errors: OptionNotSupportedOnView where the request asks for another collation than the view's."""
    collation = get_field(context.raw, "collation")
    if collation is not None and collation[1] != EMPTY_DOCUMENT and parse_collation(collation[1]) != rules:
        raise CommandError(
            Code.OptionNotSupportedOnView, f"Cannot override the default collation of the view {context.namespace}"
        )


def first_document(reply: Result) -> bytes | None:
    """The first document of an aggregation's reply."""
    cursor = get_field(encoded(reply), "cursor")
    batch = None if cursor is None else get_field(cursor[1], "firstBatch")
    assert batch is not None, "an aggregation answers with a cursor"
    documents = [data for _, _, data in elements(batch[1])]
    return documents[0] if documents else None
