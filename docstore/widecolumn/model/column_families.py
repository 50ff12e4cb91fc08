"""Keyspaces and column families: the valid definitions, and their form in a catalog.

A column family's type and comparators are fixed at its creation: they determine the order of names on disk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from docstore.sharding.partitioners import MURMUR3, Partitioner, find_partitioner
from docstore.widecolumn.model.comparator_registry import Registry
from docstore.widecolumn.model.comparators import BYTES, Comparator
from docstore.widecolumn.model.errors import configuration, invalid_request

STANDARD = "Standard"
SUPER = "Super"
TABLE = "Table"
DEFAULT_GC_GRACE_SECONDS = 864_000
DEFAULT_STRATEGY = "org.apache.cassandra.locator.RackUnawareStrategy"
DEFAULT_PARTITIONER = Partitioner(MURMUR3)
_KEYSPACE_NAME = re.compile(r"[A-Za-z0-9_]+")
_FAMILY_NAME = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyspace:
    """A database in wide-column mode. `replication_factor` None: as many as the shard has members; `datacenters`: how
    many replicas each is to have, as a strategy with names of them was given; it is shown and changes nothing.
    """

    name: str
    strategy: str = DEFAULT_STRATEGY
    replication_factor: int | None = None
    durable_writes: bool = True
    partitioner: Partitioner = DEFAULT_PARTITIONER
    end_point_snitch: str | None = None
    datacenters: Mapping[str, int] = field(default_factory=dict)

    def to_options(self) -> dict[str, Any]:
        """The definition as a document."""
        options: dict[str, Any] = {"strategy": self.strategy}
        if self.replication_factor is not None:
            options["replicationFactor"] = self.replication_factor
        options["durableWrites"] = self.durable_writes
        options["partitioner"] = self.partitioner.name
        if self.end_point_snitch is not None:
            options["endPointSnitch"] = self.end_point_snitch
        if self.datacenters:
            options["datacenters"] = dict(self.datacenters)
        return options


def keyspace_from_options(name: str, options: Mapping[str, Any]) -> Keyspace:
    """The keyspace that `Keyspace.to_options` described."""
    return Keyspace(
        name=name,
        strategy=options["strategy"],
        replication_factor=options.get("replicationFactor"),
        durable_writes=options["durableWrites"],
        partitioner=partitioner_of(options["partitioner"]),
        end_point_snitch=options.get("endPointSnitch"),
        datacenters=options.get("datacenters", {}),
    )


def partitioner_of(name: str) -> Partitioner:
    """The partitioner of that name. ConfigurationException."""
    partitioner = find_partitioner(name)
    if partitioner is None:
        raise configuration(f"Invalid partitioner class {name}")
    return partitioner


_RESERVED = frozenset(
    (
        "admin", "config", "local", "system", "system_auth", "system_distributed", "system_schema", "system_traces",
        "system_views", "system_virtual_schema",
    )
)  # fmt: skip
"""Databases of the server, and the keyspaces that a Cassandra server has of its own."""


def check_keyspace_name(name: str) -> None:
    """ConfigurationException for a name that no keyspace can have."""
    if not _KEYSPACE_NAME.fullmatch(name):
        raise configuration(f"'{name}' is not a valid keyspace name")
    if name.lower() in _RESERVED:
        raise configuration(f"{name} is a reserved keyspace name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFamily:
    """A named map from partition keys to sorted maps of columns. `subcomparator`: only for Super families."""

    name: str
    comparator: Comparator = BYTES
    subcomparator: Comparator | None = None
    comment: str = ""
    gc_grace_seconds: int = DEFAULT_GC_GRACE_SECONDS
    default_ttl: int = 0
    advisory: Mapping[str, Any] = field(default_factory=dict)
    """Options that are stored and shown but have no effect: cache sizes."""
    table: Mapping[str, Any] | None = None
    """The columns of a CQL table, as `docstore.widecolumn.cql` describes them; its rows are not in the column model."""

    @property
    def is_super(self) -> bool:
        return self.subcomparator is not None

    @property
    def column_type(self) -> str:
        if self.table is not None:
            return TABLE
        return SUPER if self.is_super else STANDARD

    def to_options(self) -> dict[str, Any]:
        """The definition as a document, in the order in which it is shown."""
        options: dict[str, Any] = {"columnType": self.column_type}
        if self.table is not None:
            options["table"] = self.table
        else:
            options["compareWith"] = self.comparator.name
        if self.subcomparator is not None:
            options["compareSubcolumnsWith"] = self.subcomparator.name
        options["comment"] = self.comment
        options["gcGraceSeconds"] = self.gc_grace_seconds
        if self.default_ttl:
            options["defaultTtl"] = self.default_ttl
        options.update(self.advisory)
        return options


ADVISORY = ("keysCached", "rowsCached")
_ALTERABLE = {"comment": "comment", "gcGraceSeconds": "gc_grace_seconds"}


def column_family(name: str, options: Mapping[str, Any], registry: Registry) -> ColumnFamily:
    """Parse a definition in document form. ConfigurationException for an invalid one."""
    check_family_name(name)
    column_type = options.get("columnType", STANDARD)
    if column_type not in (STANDARD, SUPER, TABLE) or (column_type == TABLE) != ("table" in options):
        raise configuration(f"ColumnFamily {name} has invalid type {column_type}")
    if column_type != SUPER and options.get("compareSubcolumnsWith") is not None:
        raise configuration(
            f"CompareSubcolumnsWith is only a valid attribute on super columnfamilies (not regular columnfamily {name})"
        )
    subcomparator = None
    if column_type == SUPER:
        subcomparator = registry.find(options.get("compareSubcolumnsWith") or "BytesType")
    return ColumnFamily(
        name=name,
        comparator=registry.find(options.get("compareWith") or "BytesType"),
        subcomparator=subcomparator,
        comment=options.get("comment", ""),
        gc_grace_seconds=_not_negative(name, "gcGraceSeconds", options.get("gcGraceSeconds", DEFAULT_GC_GRACE_SECONDS)),
        default_ttl=_not_negative(name, "defaultTtl", options.get("defaultTtl", 0)),
        advisory={key: options[key] for key in ADVISORY if options.get(key) is not None},
        table=options.get("table"),
    )


def altered(family: ColumnFamily, changes: Mapping[str, Any]) -> ColumnFamily:
    """The family with its comment, grace period or advisory settings changed. Nothing else can be."""
    for key in changes:
        if key in ("compareWith", "compareSubcolumnsWith"):
            raise configuration("comparator cannot be changed")
        if key not in _ALTERABLE and key not in ADVISORY:
            raise invalid_request(f"{key} cannot be changed")
    if "gcGraceSeconds" in changes:
        _not_negative(family.name, "gcGraceSeconds", changes["gcGraceSeconds"])
    advisory = {**family.advisory, **{key: changes[key] for key in ADVISORY if key in changes}}
    plain = {_ALTERABLE[key]: changes[key] for key in _ALTERABLE if key in changes}
    return replace(family, advisory=advisory, **plain)


def check_family_name(name: str) -> None:
    """ConfigurationException for a name that no column family can have."""
    if "-" in name:
        raise configuration("ColumnFamily names cannot contain hyphens")
    if not _FAMILY_NAME.fullmatch(name):
        raise configuration(f"'{name}' is not a valid column family name")


def _not_negative(name: str, option: str, value: int) -> int:
    if value < 0:
        raise configuration(f"{option} of {name} must not be negative, but is {value}")
    return value
