"""Documents of stages that describe a collection or the process.

These are `$collStats`, `$indexStats`, `$currentOp`, `$listLocalSessions`, `$listSessions` and `$planCacheStats`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument

from docstore.bson import get_field
from docstore.collection.catalog.views import check_no_view
from docstore.commands.arguments import declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.operations.report import in_progress, wanted_of
from docstore.commands.sessions.report import sessions_in_use
from docstore.errors import Code, CommandError
from docstore.node.explain.filter import filter_document
from docstore.node.explain.plan import find_stages, plan_hashes
from docstore.node.node import node_of
from docstore.node.shard_filter import shard_field
from docstore.node.timeseries.series import series_of
from docstore.node.upkeep.collection_stats import namespace_stats, number, stored_count
from docstore.query.find import FindQuery
from docstore.query.value.values import truncated_of

_COLLECTION = declared(
    Parameter("count", Type.OBJECT),
    Parameter("storageStats", Type.OBJECT),
    Parameter("latencyStats", Type.OBJECT),
    Parameter("queryExecStats", Type.OBJECT, unsupported="$collStats has no queryExecStats"),
)
_LATENCIES = declared(Parameter("histograms", Type.BOOL, unsupported="latencies have no histograms"))


def process_documents(context: Context, namespace: str, name: str, options: bytes) -> list[bytes]:
    """Return the documents of the stage with that name."""
    return [bson.encode(document) for document in _MAKERS[name](context, namespace, options)]


def _collection_statistics(context: Context, namespace: str, options: bytes) -> list[Mapping[str, Any]]:
    node = node_of(context)
    arguments = parse_fields("$collStats", options, _COLLECTION)
    stored = stored_count(node, namespace)
    statistics: dict[str, Any] = {
        "ns": namespace, **shard_field(node.shard_filter), "host": node.settings.address, "localTime": node.now(),
    }  # fmt: skip
    if arguments["latencyStats"] is not None:
        parse_fields("$collStats.latencyStats", arguments["latencyStats"], _LATENCIES)
        statistics["latencyStats"] = context.services.metrics.latencies(namespace)
    if arguments["storageStats"] is not None:
        if stored is None and series_of(node.store, namespace) is None:
            check_no_view(node.store, namespace)
            raise CommandError(Code.NamespaceNotFound, f"there is no collection {namespace} to measure")
        statistics["storageStats"] = namespace_stats(node, namespace, _scale(arguments["storageStats"]))
    if arguments["count"] is not None:
        if stored is None:
            check_no_view(node.store, namespace)
            raise CommandError(Code.NamespaceNotFound, f"there is no collection {namespace} to count")
        statistics["count"] = number(stored.count)
    return [statistics]


def _scale(options: bytes) -> int:
    scale = get_field(options, "scale")
    return (truncated_of(scale) or 1) if scale is not None else 1


def _index_statistics(context: Context, namespace: str, options: bytes) -> list[Mapping[str, Any]]:
    node = node_of(context)
    collection = node.store.collection(namespace)
    if collection is None:
        return []
    since = DatetimeMS(int((node.wall_clock() - node.clock() + node.started) * 1000))
    return [
        {
            "name": index.name,
            "key": RawBSONDocument(index.spec.key),
            "host": node.settings.address,
            "accesses": {"ops": Int64(index.uses), "since": since},
            **shard_field(node.shard_filter),
            "spec": RawBSONDocument(index.spec.raw),
        }
        for index in collection.counted_indexes
    ]


def _plan_cache(context: Context, namespace: str, options: bytes) -> list[Mapping[str, Any]]:
    """Return the cached plans that won a comparison; other cached plans are not shown, because they decide nothing."""
    node = node_of(context)
    collection = node.store.collection(namespace)
    if collection is None:
        raise CommandError(50933, f"collection '{namespace}' does not exist")
    documents: list[Mapping[str, Any]] = []
    for cached_plan in collection.plans.of_several():
        query = FindQuery(filter=cached_plan.tree, sort=cached_plan.sort)
        plan = cached_plan.plan.bind(cached_plan.tree)
        assert plan is not None, "it was made for this filter"
        stage = find_stages(query, plan, owned=False)
        created: dict[str, Any] = {
            "query": filter_document(cached_plan.tree),
            "sort": dict(cached_plan.sort.fields),
            "projection": {},
        }
        if cached_plan.sort.collation is not None:
            created["collation"] = RawBSONDocument(cached_plan.sort.collation.raw)
        documents.append(
            {
                "version": "1",
                **plan_hashes(query, stage),
                "isActive": True,
                "works": Int64(cached_plan.works),
                "createdFromQuery": created,
                "cachedPlan": stage.document(),
                "indexFilterSet": False,
                "host": node.settings.address,
                **shard_field(node.shard_filter),
            }
        )
    return documents


def _operations(context: Context, namespace: str, options: bytes) -> Sequence[Mapping[str, Any]]:
    return in_progress(context, wanted_of(options), host=node_of(context).settings.address)


def _sessions(context: Context, namespace: str, options: bytes) -> list[Mapping[str, Any]]:
    return list(sessions_in_use(context, options))


_MAKERS: Mapping[str, Callable[[Context, str, bytes], Sequence[Mapping[str, Any]]]] = {
    "$collStats": _collection_statistics,
    "$currentOp": _operations,
    "$indexStats": _index_statistics,
    "$listLocalSessions": _sessions,
    "$listSessions": _sessions,
    "$planCacheStats": _plan_cache,
}
