"""serverStatus: report the process's activity and counters. Sections can be excluded or requested by name."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import Any

from bson.int64 import Int64

import docstore
from docstore.collection.catalog.views import views_of
from docstore.commands.access.transport_security import accepted_document, certificate_document
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.metrics import READS, WRITES, buffers_document
from docstore.commands.specs.processes import SERVER_STATUS
from docstore.node.node import DataNode, node_of
from docstore.node.transactions.registry import transactions_of
from docstore.node.upkeep.collection_stats import number
from docstore.optime import unpack_timestamp
from docstore.replicaset.election_metrics import election_metrics
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replicaset.sync.sync_counts import SyncCounts

MEBIBYTE = 1024 * 1024
_INTERNAL = frozenset(("admin", "config", "local"))
_TRANSACTIONS = (
    "currentActive", "currentInactive", "currentOpen", "totalAborted", "totalCommitted", "totalStarted",
    "totalPrepared", "totalPreparedThenCommitted", "totalPreparedThenAborted", "currentPrepared",
)  # fmt: skip
"""Counters of transactions; the prepared ones are always 0."""


def _of_transactions(node: DataNode) -> dict[str, Int64]:
    transactions = transactions_of(node)
    settings, are_open = transactions.settings, transactions.sessions.open
    active = sum(transaction.busy for transaction in are_open)
    metrics = dict.fromkeys(_TRANSACTIONS, Int64(0))
    metrics |= {
        "currentActive": Int64(active),
        "currentInactive": Int64(len(are_open) - active),
        "currentOpen": Int64(len(are_open)),
        "totalAborted": Int64(settings.aborted),
        "totalCommitted": Int64(settings.committed),
        "totalStarted": Int64(settings.started),
    }
    return metrics


def run(context: Context, _arguments: Arguments) -> Result:
    node = node_of(context)
    uptime = node.clock() - node.started
    reply: dict[str, Any] = {
        "host": node.settings.address,
        "version": context.services.switches.face.version,
        "process": node.settings.process,
        "pid": Int64(os.getpid()),
        "uptime": float(int(uptime)),
        "uptimeMillis": Int64(int(uptime * 1000)),
        "uptimeEstimate": Int64(int(uptime)),
        "localTime": node.now(),
    }
    body = context.body
    for name, section in SECTIONS.items():
        if body.get(name, 1):
            document = section(context, node)
            if document is not None:
                reply[name] = document
    return reply


def _refusals(context: Context, _node: DataNode) -> dict[str, Any]:
    return {
        "regular": 0,
        "warning": 0,
        "msg": 0,
        "user": number(context.services.metrics.refused),
        "tripwire": 0,
        "rollovers": 0,
    }


def _catalog(_context: Context, node: DataNode) -> dict[str, Any]:
    databases = list(node.store.databases())
    namespaces = [name for database in databases for name in node.store.namespaces(database)]
    internal = sum(name.partition(".")[0] in _INTERNAL for name in namespaces)
    kinds = [collection.options for name in namespaces if (collection := node.store.collection(name))]
    views = {database: len(views_of(node.store, database)) for database in databases}
    internal_views = sum(count for database, count in views.items() if database in _INTERNAL)
    return {
        "collections": len(namespaces) - internal,
        "capped": sum(options.capped for options in kinds),
        "clustered": sum(options.clustered is not None and options.timeseries is None for options in kinds),
        "timeseries": sum(options.timeseries is not None for options in kinds),
        "views": sum(views.values()) - internal_views,
        "internalCollections": internal,
        "internalViews": internal_views,
    }


def _connections(context: Context, node: DataNode) -> dict[str, Any] | None:
    if node.network is None:
        return None
    metrics = node.network()
    return {
        "current": metrics.current,
        "available": metrics.max_connections - metrics.current,
        "totalCreated": metrics.total_created,
        "active": metrics.active,
        "threaded": metrics.current,
        "awaitingTopologyChanges": sum(
            operation.context.command.name in ("hello", "isMaster") for operation in context.services.operations
        ),
        **metrics.rate_limiter.connections_document(),
    }


def _queues(_context: Context, node: DataNode) -> dict[str, Any] | None:
    if node.network is None:
        return None
    return {"ingressSessionEstablishment": node.network().rate_limiter.queue_document()}


def _locks(context: Context, node: DataNode) -> dict[str, Any]:
    """Return the lock section: there are no locks, as one thread runs all requests in slices."""
    names = [operation.context.command.name for operation in context.services.operations]
    readers, writers = (sum(name in kind for name in names) for kind in (READS, WRITES))
    return {
        "totalTime": Int64(int((node.clock() - node.started) * 1_000_000)),
        "currentQueue": {"total": 0, "readers": 0, "writers": 0},
        "activeClients": {"total": readers + writers, "readers": readers, "writers": writers},
    }


def _network(_context: Context, node: DataNode) -> dict[str, Any] | None:
    if node.network is None:
        return None
    metrics = node.network()
    return {
        "bytesIn": Int64(metrics.bytes_in),
        "bytesOut": Int64(metrics.bytes_out),
        "numRequests": Int64(metrics.requests),
    }


def _operations(_context: Context, node: DataNode) -> dict[str, Any]:
    return node.counters.document(0 if node.network is None else node.network().requests)


def _memory(_context: Context, _node: DataNode) -> dict[str, Any]:
    pages = _status_pages()
    size = os.sysconf("SC_PAGE_SIZE")
    virtual, resident = (count * size // MEBIBYTE for count in pages[:2])
    return {"bits": 64, "resident": resident, "virtual": virtual, "supported": True}


def _status_pages() -> list[int]:
    with open("/proc/self/statm", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def _usage(_context: Context, _node: DataNode) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "note": "fields vary by platform",
        "user_time_us": Int64(int(used.ru_utime * 1_000_000)),
        "system_time_us": Int64(int(used.ru_stime * 1_000_000)),
        "maximum_resident_set_kb": Int64(used.ru_maxrss),
        "page_faults": Int64(used.ru_majflt),
        "voluntary_context_switches": Int64(used.ru_nvcsw),
        "involuntary_context_switches": Int64(used.ru_nivcsw),
    }


def _engine(_context: Context, node: DataNode) -> dict[str, Any]:
    return {
        "name": node.settings.engine,
        "supportsCommittedReads": True,
        "supportsSnapshotReadConcern": True,
        "readOnly": False,
        "persistent": node.settings.engine != "inMemory",
        **node.engine.stats(),
    }


def _replication(_context: Context, node: DataNode) -> dict[str, Any] | None:
    replication = node.replication
    if replication.set_name is None:
        return None
    rollbacks = {"rbid": replication.membership.local.rollback_id} if isinstance(replication, ReplicaSet) else {}
    return {**replication.hello(), **rollbacks}


def _oplog(context: Context, node: DataNode) -> dict[str, Any] | None:
    """Return the ends of the oplog, a section shown on request only."""
    oplog = node.store.oplog
    if oplog is None or not context.body.get("oplog"):
        return None
    first, last = oplog.first, oplog.last
    return {"latestOptime": unpack_timestamp(last.timestamp), "earliestOptime": unpack_timestamp(first.timestamp)}


def _oplog_truncation(_context: Context, node: DataNode) -> dict[str, Any] | None:
    limits = node.replication.oplog_limits
    return None if limits is None else limits.document()


def _metrics(context: Context, node: DataNode) -> dict[str, Any]:
    cursors = context.services.cursors
    return {
        "cursor": {
            "timedOut": Int64(cursors.timed_out),
            "totalOpened": Int64(cursors.opened),
            "open": {
                "noTimeout": Int64(sum(cursor.no_timeout for cursor in cursors)),
                "pinned": Int64(sum(cursor.pinned for cursor in cursors)),
                "total": Int64(len(cursors)),
            },
            "memory": buffers_document(),
        },
        "commands": context.services.metrics.by_command([command.name for command in context.services.table]),
        "flushes": Int64(node.replication.flusher.flushes),
        **_repl_metrics(node),
        **{name: section() for name, section in node.status.items()},
        "ttl": {"deletedDocuments": Int64(node.expiry.deleted), "passes": Int64(node.expiry.passes)},
    }


def _elections(_context: Context, node: DataNode) -> dict[str, Any] | None:
    replication = node.replication
    return election_metrics(replication.membership.state.counts) if isinstance(replication, ReplicaSet) else None


def _applied_operations(_context: Context, node: DataNode) -> dict[str, Any]:
    replication = node.replication
    counts = replication.membership.syncing.counts if isinstance(replication, ReplicaSet) else SyncCounts()
    return counts.opcounters()


def _repl_metrics(node: DataNode) -> dict[str, Any]:
    replication = node.replication
    if not isinstance(replication, ReplicaSet):
        return {}
    syncing = replication.membership.syncing
    return {"repl": syncing.counts.metrics(syncing.progress.failures)}


SECTIONS: dict[str, Callable[[Context, DataNode], dict[str, Any] | None]] = {
    "asserts": _refusals,
    "catalogStats": _catalog,
    "connections": _connections,
    "electionMetrics": _elections,
    "extra_info": _usage,
    "globalLock": _locks,
    "logicalSessionRecordCache": lambda context, _node: {"activeSessionsCount": len(context.services.sessions)},
    "network": _network,
    "opLatencies": lambda context, _node: context.services.metrics.latencies(),
    "opcounters": _operations,
    "opcountersRepl": _applied_operations,
    "oplog": _oplog,
    "oplogTruncation": _oplog_truncation,
    "queues": _queues,
    "repl": _replication,
    "scheduler": lambda _context, node: node.scheduler.status(),
    "security": lambda context, _node: certificate_document(context.services.transport_security),
    "storageEngine": _engine,
    "transactions": lambda _context, node: _of_transactions(node),
    "transportSecurity": lambda context, _node: accepted_document(context.services.transport_security),
    "mem": _memory,
    "metrics": _metrics,
    "docstore": lambda _context, _node: {"version": docstore.__version__},
}


COMMAND = SERVER_STATUS.command(run)
