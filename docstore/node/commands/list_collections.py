"""listCollections: the collections and views of a database, as a cursor. A filter sees what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import document_from, elements, from_python
from docstore.bson.walk import BINARY, BOOL, OBJECT, STRING
from docstore.collection.catalog.views import ViewDefinition, views_of
from docstore.collection.collection import Collection
from docstore.collection.oplog.oplog import OPLOG_NS, Oplog
from docstore.collection.store import Store
from docstore.commands.access.visibility import collections_filter
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
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
from docstore.query.filter.tree import Filter
from docstore.query.plan.bounds import equalities
from docstore.query.value.values import string_value, text_of

_OF_SERIES = frozenset(("collation", "expireAfterSeconds", "timeseries"))
"""The options of buckets that are those of the time-series collection."""
_COLLECTION = string_value("collection")

_MOST_KNOWN_BYTES = 1024
"""What is longer is described anew each time."""

_Entry = tuple[str, str, Callable[[], bytes]]
"""(name, type, what makes the whole entry)."""


def run(context: Context, arguments: Arguments) -> Response:
    batch_size = batch_size_of(arguments)
    return run_steps(context, _listed(context, arguments, batch_size))


def _listed(context: Context, arguments: Arguments, batch_size: int | None) -> Steps[Result]:
    shown = f"{context.db}.$cmd.listCollections"
    yield from enter_read(context, shown)
    store = node_of(context).store
    given = collections_filter(context, arguments)
    asked = None if given is None else parse_filter(given)
    wanted = None if asked is None else compile_filter(asked)
    entries: list[_Entry] = [
        (collection.name, "collection", partial(describe, collection))
        for collection in store.catalog.in_database(context.db)
    ]
    entries += [
        (view.name, _kind_of(store, view), partial(describe_view, store, view)) for view in views_of(store, context.db)
    ]
    if context.db == "local" and store.oplog is not None:
        entries.append((split_namespace(OPLOG_NS)[1], "collection", partial(describe_oplog, store.oplog)))
    name = None if asked is None else _name_in(asked)
    if name is not None:
        entries = [entry for entry in entries if entry[0] == name]
    entries.sort(key=itemgetter(0))
    source = MadeSource(_shown(entries, wanted, name_only=arguments["nameOnly"]), node_of(context).clock)
    return (yield from first_batch(context, source, batch_size=batch_size, catalog=True, namespace=shown))


def _name_in(asked: Filter) -> str | None:
    """The name that the filter asks for, where it asks for one."""
    wanted = equalities(asked).get("name")
    return text_of(wanted) if wanted is not None and wanted[0] == STRING else None


def _shown(entries: list[_Entry], wanted: Predicate | None, *, name_only: bool) -> Iterator[bytes | None]:
    for name, kind, describing in entries:
        raw = _named(name, kind) if name_only else describing()
        yield raw if wanted is None or wanted.matches(raw) else None


def _named(name: str, kind: str) -> bytes:
    return document_from([("name", *string_value(name)), ("type", *string_value(kind))])


def _kind_of(store: Store, view: ViewDefinition) -> str:
    return "view" if series_of(store, view.ns) is None else "timeseries"


def describe(collection: Collection) -> bytes:
    """One entry of the list, a document that begins with name and type as all of them do."""
    options, index = collection.options, collection.id_index.spec.raw
    make = _known_description if len(options.raw) + len(index) <= _MOST_KNOWN_BYTES else _description
    return make(collection.name, options.raw, collection.uuid.bytes, None if options.clustered is not None else index)


def _description(name: str, options: bytes, uuid: bytes, id_index: bytes | None) -> bytes:
    described = [
        ("name", *string_value(name)),
        ("type", *_COLLECTION),
        ("options", OBJECT, options),
        ("info", OBJECT, document_from((("readOnly", BOOL, b"\0"), ("uuid", BINARY, b"\x10\0\0\0\x04" + uuid)))),
    ]
    if id_index is not None:
        described.append(("idIndex", OBJECT, id_index))
    return document_from(described)


_known_description = lru_cache(maxsize=256)(_description)


def describe_view(store: Store, view: ViewDefinition) -> bytes:
    """The entry of a view, or of a time-series collection."""
    return from_python(_described_view(store, view))[1]


def _described_view(store: Store, view: ViewDefinition) -> dict[str, Any]:
    series = series_of(store, view.ns)
    if series is not None:
        kept = [field for field in elements(series.buckets.options.raw) if field[0] in _OF_SERIES]
        options = RawBSONDocument(document_from(kept))
        return {"name": view.name, "type": "timeseries", "options": options, "info": {"readOnly": False}}
    options = RawBSONDocument(view.options())
    return {"name": view.name, "type": "view", "options": options, "info": {"readOnly": True}}


def describe_oplog(oplog: Oplog) -> bytes:
    """The oplog's entry: it has no `_id` index, and is cut at its size."""
    described = {
        "name": split_namespace(OPLOG_NS)[1],
        "type": "collection",
        "options": {"capped": True, "size": Int64(oplog.max_bytes), "autoIndexId": False},
        "info": {"readOnly": False},
    }
    return from_python(described)[1]


COMMAND = LIST_COLLECTIONS.command(run)
