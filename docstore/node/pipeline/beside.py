"""Other collections that a pipeline reads on a shard that executes the whole pipeline.

If a router believes that one shard has all the other collections, it sends that shard the whole pipeline. It names them
with their shard versions in `otherVersions`: {name: version}.

* For a router, a pipeline reads only the other collections named there, after resolving views, under these versions.
  Otherwise the router must target again.
* The versions are checked when the snapshot is taken, as for the main collection (`docstore.node.read.snapshot`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docstore.aggregation.parse import parse_pipeline
from docstore.aggregation.stage import Pipeline
from docstore.bson import elements
from docstore.collection.catalog.views import resolve_view
from docstore.collection.store import Store
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.snapshot import View, view_of
from docstore.node.shard_filter import MustWait, enter_at_once
from docstore.node.slices import Steps
from docstore.query.context import QueryContext

OTHER_VERSIONS = Exceptional(
    "a router says by which routing other collections are read too",
    Parameter("otherVersions", Type.OBJECT, internal=True),
)

FROM_MONGOS = Exceptional(
    "a router sends stages that it has written, with the marks of halves",
    Parameter("fromMongos", Type.BOOL, default=False, internal=True),
)


def check_named(context: Context, arguments: Arguments, pipeline: Pipeline) -> None:
    """Check that a router has named every collection that the pipeline reads.

    Errors: CommandOnShardedViewNotSupportedOnMongod, with the names in `alsoReads`.
    """
    if context.shard_version is None or not pipeline.other_collections:
        return
    versions = arguments["otherVersions"]
    named = set() if versions is None else {name for name, _, _ in elements(versions)}
    read = _read(node_of(context).store, context.db, pipeline.other_collections, pipeline.query_context)
    if not named.issuperset(read):
        raise CommandError(
            Code.CommandOnShardedViewNotSupportedOnMongod,
            "other collections are read than those that the request was routed by",
            extra={"alsoReads": sorted(read - named)},
        )


def _read(store: Store, database: str, names: Iterable[str], query_context: QueryContext) -> set[str]:
    """Return the collections with these names, and those that views among them are defined on and read."""
    collections: set[str] = set()
    remaining = list(names)
    while remaining:
        name = remaining.pop()
        if name in collections:
            continue
        collections.add(name)
        view = resolve_view(store, f"{database}.{name}")
        if view is not None:
            remaining.append(view.ns.partition(".")[2])
            remaining += parse_pipeline(view.pipeline, query_context=query_context).other_collections
    return collections


def may_read_others(context: Context, arguments: Arguments) -> bool:
    """Return True if the pipeline may read the other collections in this step. Errors: StaleConfig."""
    if context.shard_version is None:
        return True
    shard_filter = node_of(context).shard_filter
    return all(
        enter_at_once(shard_filter, namespace, version, write=False) == (True, None)
        for namespace, version in _versions(context, arguments)
    )


def view_with_others(context: Context, arguments: Arguments) -> Steps[View]:
    """Return the view of `view_of`, after checking the versions of the other collections too."""
    shard_filter = node_of(context).shard_filter
    versions = [] if shard_filter is None else list(_versions(context, arguments))
    if shard_filter is None or not versions:
        return (yield from view_of(context))
    while True:
        view = yield from view_of(context)
        try:
            for namespace, version in versions:
                shard_filter.check_version(namespace, version, write=False)
        except MustWait as section:
            view.release()
            yield section.wait()
        except BaseException:
            view.release()
            raise
        else:
            return view


def _versions(context: Context, arguments: Arguments) -> Iterator[tuple[str, bytes]]:
    versions = arguments["otherVersions"]
    for name, _, version in [] if versions is None else elements(versions):
        yield f"{context.db}.{name}", version
