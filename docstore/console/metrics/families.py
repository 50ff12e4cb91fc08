"""Metrics of one name, made in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

Labelled = Iterable[tuple[tuple[str, ...], float]]


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def gauges(name: str, help_text: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for texts, value in values:
        family.add_metric(texts, value)
    return family


def counters(name: str, help_text: str, labels: tuple[str, ...], values: Labelled) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for texts, value in values:
        family.add_metric(texts, value)
    return family


def summaries(name: str, help_text: str, label: str, values: Mapping[str, tuple[int, float]]) -> Metric:
    """`values`: of each text of the label the count and the sum."""
    family = SummaryMetricFamily(name, help_text, labels=(label,))
    for text, (count, total) in values.items():
        family.add_metric((text,), count_value=count, sum_value=total)
    return family


def by_key(document: Mapping[str, Any], keys: Iterable[str]) -> Labelled:
    """Return the values of the existing keys, labelled with them."""
    return [((key,), float(document[key])) for key in keys if key in document]
