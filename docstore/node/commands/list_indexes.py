"""listIndexes: list the indexes of a collection, as a cursor."""

from __future__ import annotations

from docstore.collection.catalog.views import check_no_view
from docstore.collection.collection import Collection
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.specs.catalog import LIST_INDEXES
from docstore.errors import Code, CommandError
from docstore.node.entry import enter_read
from docstore.node.node import node_of
from docstore.node.read.cursors import first_batch
from docstore.node.read.sources import ListSource
from docstore.node.slices import Steps, run_steps
from docstore.node.timeseries.indexes import measured_specs
from docstore.node.timeseries.series import series_of
from docstore.node.upkeep.collection_stats import stored_count


def run(context: Context, arguments: Arguments) -> Response:
    return run_steps(context, _listed(context, batch_size_of(arguments)))


def _listed(context: Context, batch_size: int | None) -> Steps[Result]:
    yield from enter_read(context)
    store = node_of(context).store
    series = series_of(store, context.namespace)
    if series is not None:
        return (yield from _first(context, measured_specs(series), batch_size))
    collection = store.collection(context.namespace)
    if stored_count(node_of(context), context.namespace) is None:
        check_no_view(store, context.namespace)
        raise CommandError(Code.NamespaceNotFound, f"ns does not exist: {context.namespace}")
    return (yield from _first(context, [] if collection is None else _specs(collection), batch_size))


def _first(context: Context, specs: list[bytes], batch_size: int | None) -> Steps[Result]:
    return (yield from first_batch(context, ListSource(specs), batch_size=batch_size, catalog=True))


def _specs(collection: Collection) -> list[bytes]:
    """Return the index specifications; the clustered order of buckets is not listed."""
    of_buckets = collection.options.timeseries is not None
    listed = collection.counted_indexes if of_buckets else collection.indexes.values()
    return [index.spec.raw for index in listed]


COMMAND = LIST_INDEXES.command(run)
