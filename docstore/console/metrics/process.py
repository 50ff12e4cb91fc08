"""Metrics of a single process, from `serverStatus`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric

import docstore
from docstore.console.metrics.families import by_key, counter, counters, gauge, gauges, summaries

_MICRO = 1e-6
_ENGINE = {
    "cacheBytes": "In the cache of blocks that were read from disk.",
    "memtableBytes": "Written and not yet in a file of their own.",
    "fileBytes": "In the files of the storage engine.",
    "pendingCompactionBytes": "Estimated to be rewritten before files are in order.",
    "diskFreeBytes": "Free on the disk of the data directory.",
    "diskTotalBytes": "Size of the disk of the data directory.",
}


def process_metrics(status: dict[str, Any]) -> Iterator[Metric]:
    set_name = status.get("repl", {}).get("setName", "")
    labels = (docstore.__version__, status["version"], status["process"], set_name)
    yield gauges(
        "docstore_build_info", "What this process is.", ("version", "compatible", "process", "set"), [(labels, 1)]
    )
    yield gauge("docstore_uptime_seconds", "Since the start of the process.", float(status["uptime"]))
    yield from _connections(status)
    yield from _operations(status)
    yield from _cursors(status["metrics"]["cursor"])
    yield from _sessions(status)
    yield from _storage(status)
    yield from _scheduler(status.get("scheduler"))


def _connections(status: dict[str, Any]) -> Iterator[Metric]:
    connections, network = status.get("connections"), status.get("network")
    if connections is not None:
        states = by_key(connections, ("current", "active", "available"))
        yield gauges("docstore_connections", "Connections of clients, and how many more are taken.", ("state",), states)
        total = float(connections["totalCreated"])
        yield counter("docstore_connections_created", "Connections that clients have made.", total)
    if network is not None:
        directions = [(("in",), float(network["bytesIn"])), (("out",), float(network["bytesOut"]))]
        yield counters("docstore_network_bytes", "Bytes from and to clients.", ("direction",), directions)
        yield counter("docstore_network_requests", "Requests of clients.", float(network["numRequests"]))


def _scheduler(scheduler: dict[str, Any] | None) -> Iterator[Metric]:
    if scheduler is None:
        return
    yield counter("docstore_scheduler_slices", "Slices of long work.", float(scheduler["slices"]))
    deferrals = float(scheduler["deferrals"])
    yield counter("docstore_scheduler_deferrals", "Slices that were put off because a socket was ready.", deferrals)
    yield counter("docstore_scheduler_seconds", "Time that slices have taken.", float(scheduler["micros"]) * _MICRO)
    yield gauge("docstore_scheduler_waiting", "Long work that waits for a slice.", float(scheduler["waiting"]))
    for key, name, help_text in (
        ("longest", "docstore_scheduler_longest_slice_seconds", "The longest slice since the start."),
        ("longestStep", "docstore_scheduler_longest_step_seconds", "The longest step of a slice since the start."),
    ):
        yield gauge(name, help_text, float(scheduler[key]["micros"]) * _MICRO)


def _operations(status: dict[str, Any]) -> Iterator[Metric]:
    counts = status.get("opcounters")
    if counts is not None:
        yield counters(
            "docstore_operations", "Operations by their type; documents, of inserts.", ("type",), by_key(counts, counts)
        )
    commands = {name: figures for name, figures in status["metrics"]["commands"].items() if isinstance(figures, dict)}
    for name, help_text, key in (
        ("docstore_commands", "Commands, by name.", "total"),
        ("docstore_command_failures", "Commands that were refused or failed, by name.", "failed"),
    ):
        used = [((command,), float(figures[key])) for command, figures in commands.items() if figures[key]]
        yield counters(name, help_text, ("command",), used)
    latencies = {
        kind: (int(figures["ops"]), int(figures["latency"]) * _MICRO) for kind, figures in status["opLatencies"].items()
    }
    yield summaries(
        "docstore_operation_latency_seconds", "How long operations took here, by their kind.", "kind", latencies
    )
    yield counter("docstore_errors", "Requests that were answered with an error.", float(status["asserts"]["user"]))
    clients = status.get("globalLock", {}).get("activeClients")
    if clients is not None:
        yield gauges(
            "docstore_operations_active", "Operations in progress.", ("kind",), by_key(clients, ("readers", "writers"))
        )


def _cursors(cursor: dict[str, Any]) -> Iterator[Metric]:
    yield gauge("docstore_cursors_open", "Open cursors.", float(cursor["open"]["total"]))
    yield counter("docstore_cursors_opened", "Cursors that were opened.", float(cursor["totalOpened"]))
    yield counter("docstore_cursors_timed_out", "Cursors that nobody went on reading.", float(cursor["timedOut"]))
    memory = cursor["memory"]
    sizes = [(("held",), float(memory["heldBytes"])), (("limit",), float(memory["limitBytes"]))]
    yield gauges("docstore_operation_memory_bytes", "What cursors and other operations hold.", ("kind",), sizes)
    yield counter(
        "docstore_operation_spilled_bytes", "Written to disk by operations without room.", float(memory["spilledBytes"])
    )


def _sessions(status: dict[str, Any]) -> Iterator[Metric]:
    sessions, transactions = status.get("logicalSessionRecordCache"), status.get("transactions")
    if sessions is not None:
        active = float(sessions["activeSessionsCount"])
        yield gauge("docstore_sessions_active", "Sessions of clients.", active)
    if transactions is not None:
        states = [(("active",), float(transactions["currentActive"]))]
        states.append((("inactive",), float(transactions["currentInactive"])))
        yield gauges("docstore_transactions_open", "Transactions under way.", ("state",), states)
        ends = [
            ((end,), float(transactions[f"total{end.capitalize()}"])) for end in ("started", "committed", "aborted")
        ]
        yield counters("docstore_transactions", "Transactions by what became of them.", ("event",), ends)


def _storage(status: dict[str, Any]) -> Iterator[Metric]:
    engine, metrics = status.get("storageEngine"), status["metrics"]
    if engine is None:
        return
    labels = [((engine["name"],), 1.0)]
    yield gauges("docstore_storage_engine_info", "The storage engine.", ("engine",), labels)
    for key, help_text in _ENGINE.items():
        if key in engine:
            yield gauge(f"docstore_storage_{_snake(key)}", help_text, float(engine[key]))
    if "batches" in engine:
        yield counter("docstore_storage_batches", "Batches that were written.", float(engine["batches"]))
    yield counter("docstore_storage_flushes", "Writes of the log to disk.", float(metrics["flushes"]))
    expired = metrics["ttl"]["deletedDocuments"]
    yield counter("docstore_ttl_deleted_documents", "Documents that had expired.", float(expired))
    catalog = status.get("catalogStats")
    if catalog is not None:
        yield gauge("docstore_collections", "Collections of users.", float(catalog["collections"]))


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
