"""listCollections: the collections and views of a database, as a cursor. A filter sees what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from bson.binary import Binary, UuidRepresentation
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, document_to_python, elements, from_python
from docstore.collection.catalog.views import ViewDefinition, views_of
from docstore.collection.collection import Collection
from docstore.collection.oplog.oplog import OPLOG_NS, Oplog
from docstore.collection.store import Store
from docstore.commands.access.visibility import collections_filter
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.specs.catalog import LIST_COLLECTIONS
from docstore.kernel.match.predicate import Predicate
from docstore.namespace import split_namespace
from docstore.node.entry import enter_read
from docstore.node.node import node_of
from docstore.node.read.cursors import first_batch
from docstore.node.read.sources import MadeSource
from docstore.node.slices import Steps, run_steps
from docstore.node.timeseries.series import series_of
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter

_OF_SERIES = frozenset(("collation", "expireAfterSeconds", "timeseries"))
"""The options of buckets that are those of the time-series collection."""


def run(context: Context, arguments: Arguments) -> Response:
    batch_size = batch_size_of(arguments)
    return run_steps(context, _listed(context, arguments, batch_size))


def _listed(context: Context, arguments: Arguments, batch_size: int | None) -> Steps[dict[str, Any] | bytes]:
    shown = f"{context.db}.$cmd.listCollections"
    yield from enter_read(context, shown)
    store = node_of(context).store
    given = collections_filter(context, arguments)
    wanted = compile_filter(parse_filter(given)) if given is not None else None
    entries: list[tuple[str, Callable[[], dict[str, Any]]]] = [
        (collection.name, partial(describe, collection)) for collection in store.catalog.in_database(context.db)
    ]
    entries += [(view.name, partial(describe_view, store, view)) for view in views_of(store, context.db)]
    if context.db == "local" and store.oplog is not None:
        entries.append((split_namespace(OPLOG_NS)[1], partial(describe_oplog, store.oplog)))
    entries.sort(key=itemgetter(0))
    source = MadeSource(_shown(entries, wanted, name_only=arguments["nameOnly"]), node_of(context).clock)
    return (yield from first_batch(context, source, batch_size=batch_size, catalog=True, namespace=shown))


def _shown(
    entries: list[tuple[str, Callable[[], dict[str, Any]]]], wanted: Predicate | None, *, name_only: bool
) -> Iterator[bytes | None]:
    for _, describing in entries:
        entry = describing()
        raw = from_python({"name": entry["name"], "type": entry["type"]} if name_only else entry)[1]
        yield raw if wanted is None or wanted.matches(raw) else None


def describe(collection: Collection) -> dict[str, Any]:
    """One entry of the list."""
    described = {
        "name": collection.name,
        "type": "collection",
        "options": RawBSONDocument(collection.options.raw),
        "info": {
            "readOnly": False,
            "uuid": Binary.from_uuid(collection.uuid, UuidRepresentation.STANDARD),
        },
    }
    if collection.options.clustered is None:
        described["idIndex"] = document_to_python(collection.id_index.spec.raw)
    return described


def describe_view(store: Store, view: ViewDefinition) -> dict[str, Any]:
    """The entry of a view, or of a time-series collection."""
    series = series_of(store, view.ns)
    if series is not None:
        kept = [field for field in elements(series.buckets.options.raw) if field[0] in _OF_SERIES]
        options = RawBSONDocument(document_from(kept))
        return {"name": view.name, "type": "timeseries", "options": options, "info": {"readOnly": False}}
    options = RawBSONDocument(view.options())
    return {"name": view.name, "type": "view", "options": options, "info": {"readOnly": True}}


def describe_oplog(oplog: Oplog) -> dict[str, Any]:
    """The oplog's entry: it has no `_id` index, and is cut at its size."""
    return {
        "name": split_namespace(OPLOG_NS)[1],
        "type": "collection",
        "options": {"capped": True, "size": Int64(oplog.max_bytes), "autoIndexId": False},
        "info": {"readOnly": False},
    }


COMMAND = LIST_COLLECTIONS.command(run)
