"""The other collections that a pipeline reads, on a shard that is asked for all of it.

A router sends a pipeline with `$lookup` or `$unionWith` to one shard as a whole where that has all the other
collections, as far as the router knows. It says which those are, and by which routing, in `otherVersions`: {name:
version}.

Always true: on behalf of a router a pipeline reads of others only what is named there, views down to what they stand
on, and under the versions that are given; else the router is told to route anew. It is checked when the state that is
read is taken, as it is for the collection in front (`docstore.node.read.snapshot`).
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


def check_named(context: Context, arguments: Arguments, pipeline: Pipeline) -> None:
    """Errors: for a router CommandOnShardedViewNotSupportedOnMongod, with the names `alsoReads`, where the pipeline
    reads more than is named.
    """
    if context.shard_version is None or not pipeline.others:
        return
    given = arguments["otherVersions"]
    named = set() if given is None else {name for name, _, _ in elements(given)}
    read = _read(node_of(context).store, context.db, pipeline.others, pipeline.query_context)
    if not named.issuperset(read):
        raise CommandError(
            Code.CommandOnShardedViewNotSupportedOnMongod,
            "other collections are read than those that the request was routed by",
            extra={"alsoReads": sorted(read - named)},
        )


def _read(store: Store, database: str, names: Iterable[str], query_context: QueryContext) -> set[str]:
    """The collections with these names, and what views among them stand on and read."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        view = resolve_view(store, f"{database}.{name}")
        if view is not None:
            left.append(view.ns.partition(".")[2])
            left += parse_pipeline(view.pipeline, query_context=query_context).others
    return found


def may_read_others(context: Context, arguments: Arguments) -> bool:
    """Whether the pipeline may read what it reads of others in this step. Errors: StaleConfig."""
    if context.shard_version is None:
        return True
    shard_filter = node_of(context).shard_filter
    return all(
        enter_at_once(shard_filter, namespace, version, write=False) == (True, None)
        for namespace, version in _versions(context, arguments)
    )


def view_with_others(context: Context, arguments: Arguments) -> Steps[View]:
    """As `view_of`, of the other collections too."""
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
            yield section.over()
        except BaseException:
            view.release()
            raise
        else:
            return view


def _versions(context: Context, arguments: Arguments) -> Iterator[tuple[str, bytes]]:
    given = arguments["otherVersions"]
    for name, _, version in [] if given is None else elements(given):
        yield f"{context.db}.{name}", version
