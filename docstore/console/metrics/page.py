"""The page that Prometheus reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from docstore.console.commands import Call
from docstore.console.metrics.families import gauges
from docstore.console.metrics.gather import Figures, gather
from docstore.console.metrics.process import process_metrics
from docstore.console.metrics.replication import replication_metrics
from docstore.console.metrics.sharding import sharding_metrics

_PROCESS = ProcessCollector(registry=None)
"""Memory, processor time and open files of the process, under the names that all of Prometheus' clients have."""


async def metrics_page(call: Call, accept: str) -> tuple[str, bytes]:
    """The type and the text that suit an Accept header. Errors: NotAllowed."""
    figures = await gather(call)
    registry = CollectorRegistry()
    registry.register(_Once(figures))
    encode, kind = choose_encoder(accept)
    # A cluster of many collections makes a long text.
    return kind, await asyncio.to_thread(encode, registry)


class _Once(Collector):
    """The metrics of one reading."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def describe(self) -> list[Metric]:
        """Names are known when they are read."""
        return []

    def collect(self) -> Iterator[Metric]:
        figures = self._figures
        yield from process_metrics(figures.status)
        yield from replication_metrics(figures.status, figures.replication)
        if figures.is_router:
            yield from sharding_metrics(figures)
        failed = [((name,), 1.0) for name in dict.fromkeys(figures.failed)]
        yield gauges("docstore_scrape_failed", "Commands of this reading that had no answer.", ("command",), failed)
        yield from _PROCESS.collect()
