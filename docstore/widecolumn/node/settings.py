"""Limits of the wide-column mode, which operators may change, and its metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any

from bson.int64 import Int64

from docstore.commands.parameters import ServerParameter
from docstore.errors import Code, CommandError
from docstore.widecolumn.model.comparator_registry import Registry, plugins_of

_MIB = 1 << 20


@dataclass(slots=True)
class WideColumnMetrics:
    """Counters since the start, for serverStatus."""

    reads: int = 0
    writes: int = 0
    columns_written: int = 0
    keys_examined: int = 0
    tombstones: int = 0
    wide_partitions: int = 0
    large_values: int = 0
    collected: int = 0

    def document(self) -> dict[str, Any]:
        """Return the counters as a document."""
        return {
            "reads": Int64(self.reads),
            "writes": Int64(self.writes),
            "columnsWritten": Int64(self.columns_written),
            "keysExamined": Int64(self.keys_examined),
            "tombstones": Int64(self.tombstones),
            "widePartitions": Int64(self.wide_partitions),
            "largeValues": Int64(self.large_values),
            "collected": Int64(self.collected),
        }


@dataclass(slots=True)
class Settings:
    """Sizes in bytes, times in milliseconds unless they say otherwise.

    `warn_rows` and `warn_bytes` are of one partition, `warn_value` and `max_value` of one value; a read warns of more
    than `warn_tombstones` and fails above `fail_tombstones`.
    """

    max_value: int = 16 * _MIB
    warn_value: int = _MIB
    warn_rows: int = 100_000
    warn_bytes: int = 100 * _MIB
    warn_tombstones: int = 1_000
    fail_tombstones: int = 100_000
    write_timeout: int = 2_000
    read_timeout: int = 5_000
    collection_seconds: int = 60
    """The interval of tombstone collection; 0: never."""
    comparator_modules: tuple[str, ...] = ()
    registry: Registry = field(default_factory=Registry)
    metrics: WideColumnMetrics = field(default_factory=WideColumnMetrics)

    def parameters(self) -> Iterable[ServerParameter]:
        """Yield the parameters for getParameter and setParameter."""
        for name, attribute in _NUMBERS.items():
            yield ServerParameter(
                name=f"wideColumn.{name}",
                get=partial(getattr, self, attribute),
                assign=partial(self._put, f"wideColumn.{name}", attribute),
            )
        yield ServerParameter(
            name="wideColumn.comparatorModules",
            get=lambda: ",".join(self.comparator_modules),
            assign=self._load,
            startup_only=True,
        )

    def _put(self, name: str, attribute: str, value: Any) -> None:
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
            raise CommandError(Code.BadValue, f"{name} must be a whole number from 0 to 2147483647")
        setattr(self, attribute, value)

    def _load(self, value: Any) -> None:
        modules = tuple(name.strip() for name in str(value).split(",") if name.strip())
        plugins: list[Any] = []
        for name in modules:
            try:
                plugins += plugins_of(import_module(name)).values()
            except (ImportError, AttributeError) as error:
                raise CommandError(Code.BadValue, f"wideColumn.comparatorModules: {name}: {error}") from None
        self.comparator_modules = modules
        self.registry.add(plugins)


_NUMBERS = {
    "maxValueSize": "max_value",
    "warnValueSize": "warn_value",
    "warnPartitionRows": "warn_rows",
    "warnPartitionBytes": "warn_bytes",
    "warnTombstones": "warn_tombstones",
    "failTombstones": "fail_tombstones",
    "writeTimeoutMS": "write_timeout",
    "readTimeoutMS": "read_timeout",
    "collectionSecs": "collection_seconds",
}
