"""listCollections: list the collections and views of a database, as a cursor.

Its filter applies to the listed entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from operator import itemgetter

from bson.int64 import Int64

from docstore.bson import document_from, elements, from_python
from docstore.bson.walk import BINARY, OBJECT, STRING
from docstore.collection.catalog.views import ViewDefinition, find_view, views_of
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
from docstore.node.limits import MAX_CACHED_DESCRIPTION_BYTES
from docstore.node.node import node_of
from docstore.node.read.cursors import first_batch
from docstore.node.read.sources import MadeSource
from docstore.node.slices import Steps, run_steps
from docstore.node.timeseries.series import series_of
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from docstore.query.plan.bounds import equalities
from docstore.query.value.values import FALSE, TRUE, string_value, text_of

_OF_SERIES = frozenset(("collation", "expireAfterSeconds", "timeseries"))
"""Options of the bucket collection that the time-series collection shows."""
_OPLOG_NAME = split_namespace(OPLOG_NS)[1]


_Entry = tuple[str, str, Callable[[], bytes]]
"""(Name, type, function that returns the full entry.)"""


def run(context: Context, arguments: Arguments) -> Response:
    batch_size = batch_size_of(arguments)
    return run_steps(context, _listed(context, arguments, batch_size))


def _listed(context: Context, arguments: Arguments, batch_size: int | None) -> Steps[Result]:
    namespace = f"{context.db}.$cmd.listCollections"
    yield from enter_read(context, namespace)
    store = node_of(context).store
    raw_filter = collections_filter(context, arguments)
    tree = None if raw_filter is None else parse_filter(raw_filter)
    predicate = None if tree is None else compile_filter(tree)
    entries = _entries(store, context.db, None if tree is None else _name_in(tree))
    source = MadeSource(_describe_entries(entries, predicate, name_only=arguments["nameOnly"]), node_of(context).clock)
    return (yield from first_batch(context, source, batch_size=batch_size, catalog=True, namespace=namespace))


def _entries(store: Store, database: str, name: str | None) -> list[_Entry]:
    """Return the entries of a database, ordered by name; if `name` is given, only that one."""
    if name is None:
        collections, views = store.catalog.in_database(database), views_of(store, database)
    else:
        own, view = store.collection(f"{database}.{name}"), find_view(store, f"{database}.{name}")
        collections, views = [] if own is None else [own], [] if view is None else [view]
    entries: list[_Entry] = [(coll.name, "collection", partial(describe, coll)) for coll in collections]
    entries += [(view.name, _kind_of(store, view), partial(describe_view, store, view)) for view in views]
    if database == "local" and store.oplog is not None and name in (None, _OPLOG_NAME):
        entries.append((_OPLOG_NAME, "collection", partial(describe_oplog, store.oplog)))
    entries.sort(key=itemgetter(0))
    return entries


def _name_in(condition: Filter) -> str | None:
    """Return the name that the filter requires, or None."""
    name_value = equalities(condition).get("name")
    return text_of(name_value) if name_value is not None and name_value[0] == STRING else None


def _describe_entries(entries: list[_Entry], predicate: Predicate | None, *, name_only: bool) -> Iterator[bytes | None]:
    for name, kind, describing in entries:
        raw = _named(name, kind) if name_only else describing()
        yield raw if predicate is None or predicate.matches(raw) else None


@lru_cache(maxsize=256)
def _named(name: str, kind: str) -> bytes:
    return document_from([("name", *string_value(name)), ("type", *string_value(kind))])


def _kind_of(store: Store, view: ViewDefinition) -> str:
    return "view" if series_of(store, view.ns) is None else "timeseries"


def describe(collection: Collection) -> bytes:
    """Return the entry of a collection; as every entry it begins with name and type."""
    options, index = collection.options, collection.id_index.spec.raw
    make = _known_description if len(options.raw) + len(index) <= MAX_CACHED_DESCRIPTION_BYTES else _description
    uuid = collection.uuid.bytes
    return make(collection.name, "collection", options.raw, uuid, None if options.clustered is not None else index)


def _description(
    name: str, kind: str, options: bytes, uuid: bytes | None = None, id_index: bytes | None = None
) -> bytes:
    info = [("readOnly", *(TRUE if kind == "view" else FALSE))]
    if uuid is not None:
        info.append(("uuid", BINARY, b"\x10\0\0\0\x04" + uuid))
    described = [
        ("name", *string_value(name)),
        ("type", *string_value(kind)),
        ("options", OBJECT, options),
        ("info", OBJECT, document_from(info)),
    ]
    if id_index is not None:
        described.append(("idIndex", OBJECT, id_index))
    return document_from(described)


_known_description = lru_cache(maxsize=256)(_description)


def describe_view(store: Store, view: ViewDefinition) -> bytes:
    """Return the entry of a view or of a time-series collection."""
    series = series_of(store, view.ns)
    if series is None:
        return _description(view.name, "view", view.options())
    fields = [field for field in elements(series.buckets.options.raw) if field[0] in _OF_SERIES]
    return _description(view.name, "timeseries", document_from(fields))


def describe_oplog(oplog: Oplog) -> bytes:
    """Return the oplog's entry: it has no `_id` index, and is truncated at its size."""
    described = {
        "name": _OPLOG_NAME,
        "type": "collection",
        "options": {"capped": True, "size": Int64(oplog.max_bytes), "autoIndexId": False},
        "info": {"readOnly": False},
    }
    return from_python(described)[1]


COMMAND = LIST_COLLECTIONS.command(run)
