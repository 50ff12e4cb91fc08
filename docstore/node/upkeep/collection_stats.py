"""Statistics of collections and databases for collStats, dbStats and `$collStats`."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from bson.int64 import Int64

from docstore.collection.catalog.views import check_no_view, views_of
from docstore.collection.collection import Collection
from docstore.collection.oplog.oplog import OPLOG_NS, Oplog
from docstore.commands.context import Context
from docstore.node.node import DataNode, node_of
from docstore.node.slices import Slices
from docstore.node.timeseries.series import Series, series_of
from docstore.node.timeseries.statistics import series_section
from docstore.node.upkeep.sizes import CollectionSizes, collection_sizes
from docstore.storage.engine import Engine

_INT32_MAX = 0x7FFFFFFF


def number(value: int) -> int:
    """Return an integer as the reference sends it: 32 bits wide if possible."""
    return Int64(value) if value > _INT32_MAX else value


def storage_stats(engine: Engine, collection: Collection | None, scale: int = 1) -> dict[str, Any]:
    """Return the storage statistics of a collection in units of `scale` bytes; None: of a nonexistent one."""
    if collection is None:
        return {
            "size": 0, "count": 0, "numOrphanDocs": 0, "storageSize": 0, "totalSize": 0, "nindexes": 0,
            "totalIndexSize": 0, "indexDetails": {}, "indexSizes": {}, "scaleFactor": scale,
        }  # fmt: skip
    sizes = collection_sizes(engine, collection)
    metrics: dict[str, Any] = {"size": number(collection.size // scale), "count": number(collection.count)}
    if collection.count:
        metrics["avgObjSize"] = collection.size // collection.count
    metrics.update(
        numOrphanDocs=0,
        storageSize=number(sizes.storage // scale),
        freeStorageSize=0,
        capped=collection.options.capped,
        **_limits(collection, scale),
        nindexes=len(collection.counted_indexes),
        indexDetails={},
        indexBuilds=list(collection.building),
        totalIndexSize=number(sum(sizes.indexes.values()) // scale),
        totalSize=number(sizes.total // scale),
        indexSizes={name: number(size // scale) for name, size in sizes.indexes.items()},
        scaleFactor=scale,
    )
    return metrics


def _limits(collection: Collection, scale: int) -> dict[str, Any]:
    options = collection.options
    if not options.capped:
        return {}
    return {"max": options.max_documents, "maxSize": number(options.max_bytes // scale)}


def oplog_stats(oplog: Oplog, scale: int = 1) -> dict[str, Any]:
    """Return the statistics of `local.oplog.rs`, as of a capped collection."""
    metrics: dict[str, Any] = {"size": number(oplog.size // scale), "count": number(oplog.count)}
    if oplog.count:
        metrics["avgObjSize"] = oplog.size // oplog.count
    storage = number(oplog.size // scale)
    return metrics | {
        "numOrphanDocs": 0, "storageSize": storage, "freeStorageSize": 0, "capped": True, "max": 0,
        "maxSize": number(oplog.max_bytes // scale), "nindexes": 0, "indexDetails": {}, "indexBuilds": [],
        "totalIndexSize": 0, "totalSize": storage, "indexSizes": {}, "scaleFactor": scale,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredCount:
    """Documents and their bytes, as counted by writes."""

    count: int
    size: int


def stored_count(node: DataNode, namespace: str) -> StoredCount | None:
    """Return the counts of the collection or oplog of that name, or None if it does not exist."""
    oplog = node.store.oplog
    source = oplog if namespace == OPLOG_NS and oplog is not None else node.store.collection(namespace)
    return None if source is None else StoredCount(source.count, source.size)


def namespace_stats(node: DataNode, namespace: str, scale: int = 1) -> dict[str, Any]:
    """Return the storage statistics of a collection, time series or oplog. Errors: CommandNotSupportedOnView."""
    series = series_of(node.store, namespace)
    if series is not None:
        return _series_stats(node, series, scale)
    check_no_view(node.store, namespace)
    if namespace == OPLOG_NS and node.store.oplog is not None:
        return oplog_stats(node.store.oplog, scale)
    return storage_stats(node.engine, node.store.collection(namespace), scale)


def _series_stats(node: DataNode, series: Series, scale: int) -> dict[str, Any]:
    """Return the statistics of the buckets, whose counters have a section of their own."""
    metrics = storage_stats(node.engine, series.buckets, scale)
    size = metrics.pop("size")
    for name in ("count", "avgObjSize"):
        metrics.pop(name, None)
    return {"size": size, "timeseries": series_section(node, series, scale), **metrics}


async def database_stats(context: Context, scale: int, *, free: bool = False) -> dict[str, Any]:
    """Return the sums over the collections of the request's database in units of `scale` bytes.

    `free`: include space kept for reuse, which is always 0, because freed space returns to the file system.
    """
    node, database = node_of(context), context.db
    collections = [coll for name in node.store.namespaces(database) if (coll := node.store.collection(name))]
    sizes: list[CollectionSizes] = []
    slices = Slices(context)
    for collection in collections:
        sizes.append(collection_sizes(node.engine, collection))
        await slices.pause_when_due()
    objects = sum(collection.count for collection in collections)
    data = sum(collection.size for collection in collections)
    storage = sum(size.storage for size in sizes)
    index_bytes = sum(sum(size.indexes.values()) for size in sizes)
    usage = shutil.disk_usage(node.settings.dbpath) if collections else None
    # For a nonexistent database the zeros are integers.
    number_of = float if collections else int
    metrics: dict[str, Any] = {
        "db": database,
        "collections": len(collections),
        "views": len(views_of(node.store, database)),
        "objects": number(objects),
        "avgObjSize": data / objects if objects else number_of(0),
        "dataSize": number_of(data / scale),
        "storageSize": number_of(storage / scale),
    }
    if free:
        metrics["freeStorageSize"] = number_of(0)
    metrics["indexes"] = sum(len(collection.counted_indexes) for collection in collections)
    metrics["indexSize"] = number_of(index_bytes / scale)
    if free:
        metrics["indexFreeStorageSize"] = number_of(0)
    metrics["totalSize"] = number_of((storage + index_bytes) / scale)
    if free:
        metrics["totalFreeStorageSize"] = number_of(0)
    return metrics | {
        "scaleFactor": number_of(scale),
        "fsUsedSize": number_of(usage.used / scale if usage else 0),
        "fsTotalSize": number_of(usage.total / scale if usage else 0),
    }
