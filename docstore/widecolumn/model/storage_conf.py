"""Keyspaces and column families from the XML of a `storage-conf.xml`: the whole file, or a fragment of it.

The whole text is validated before anything is returned. Every element or attribute is either mapped, advisory, or
listed in `warnings` because it has no meaning here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, fromstring

from docstore.errors import Code, CommandError
from docstore.query.value.values import INT_MAX
from docstore.sharding.partitioners import Partitioner
from docstore.widecolumn.model.column_families import (
    DEFAULT_GC_GRACE_SECONDS,
    DEFAULT_PARTITIONER,
    DEFAULT_STRATEGY,
    STANDARD,
    ColumnFamily,
    Keyspace,
    check_family_name,
    check_keyspace_name,
    column_family,
    partitioner_of,
)
from docstore.widecolumn.model.comparator_registry import Registry
from docstore.widecolumn.model.errors import configuration

_SAVE_PERIODS = ("RowCacheSavePeriodInSeconds", "KeyCacheSavePeriodInSeconds")
_KEYSPACE_ELEMENTS = ("ColumnFamily", "ReplicaPlacementStrategy", "ReplicationFactor", "EndPointSnitch")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The definitions of a text. `families[keyspace]` in the order of the text."""

    keyspaces: tuple[Keyspace, ...]
    families: dict[str, tuple[ColumnFamily, ...]]
    warnings: tuple[str, ...]
    rpc_timeout_ms: int | None = None


def parse_storage_conf(text: str, registry: Registry) -> Configuration:
    """Return the definitions of a text. FailedToParse for malformed XML, ConfigurationException for invalid
    definitions.
    """
    root = _root(text)
    if root.tag not in ("Storage", "Keyspaces", "Keyspace"):
        raise configuration(f"the root element must be Storage, Keyspaces or Keyspace, not {root.tag}")
    reading = _ConfigReader(registry)
    if root.tag == "Storage":
        reading.settings(root)
    elements = [root] if root.tag == "Keyspace" else list(root.iter("Keyspace"))
    for element in elements:
        reading.keyspace(element)
    return Configuration(tuple(reading.keyspaces), reading.families, tuple(reading.warnings), reading.rpc_timeout_ms)


def _root(text: str) -> Element:
    try:
        root: Element = fromstring(text.strip(), forbid_dtd=True)
    except ParseError as error:
        line, column = error.position
        raise CommandError(
            Code.FailedToParse,
            f"line {line}, column {column}: the text is not well-formed XML",
            extra={"wcException": "ConfigurationException"},
        ) from None
    except DefusedXmlException as error:
        raise configuration(f"document types and entities are refused: {error}", Code.FailedToParse) from None
    return root


class _ConfigReader:
    """The parse state of one text."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._partitioner: Partitioner = DEFAULT_PARTITIONER
        self._gc_grace_seconds = DEFAULT_GC_GRACE_SECONDS
        self.keyspaces: list[Keyspace] = []
        self.families: dict[str, tuple[ColumnFamily, ...]] = {}
        self.warnings: list[str] = []
        self.rpc_timeout_ms: int | None = None

    def settings(self, root: Element) -> None:
        """Read the settings beside the keyspaces of a whole file."""
        for element in root:
            if element.tag == "Keyspaces":
                continue
            text = _text(element)
            if element.tag == "Partitioner":
                self._partitioner = partitioner_of(text)
            elif element.tag == "GCGraceSeconds":
                self._gc_grace_seconds = _number(element.tag, text)
            elif element.tag == "RpcTimeoutInMillis":
                self.rpc_timeout_ms = _number(element.tag, text)
            else:
                self.warnings.append(f"{element.tag} is ignored: {text}")

    def keyspace(self, element: Element) -> None:
        name = element.get("Name")
        if not name:
            raise configuration("a Keyspace needs a Name")
        check_keyspace_name(name)
        if name in self.families:
            raise configuration(f"the keyspace {name} is defined twice")
        keyspace = self._replicated(element, Keyspace(name=name, partitioner=self._partitioner))
        families: dict[str, ColumnFamily] = {}
        for definition in element.iter("ColumnFamily"):
            family = self._family(definition)
            if family.name in families:
                raise configuration(f"the column family {family.name} of {name} is defined twice")
            families[family.name] = family
        for other in element:
            if other.tag not in _KEYSPACE_ELEMENTS:
                self.warnings.append(f"{other.tag} of keyspace {name} is ignored: {_text(other)}")
        self.keyspaces.append(keyspace)
        self.families[name] = tuple(families.values())

    def _replicated(self, element: Element, keyspace: Keyspace) -> Keyspace:
        strategy = _child(element, "ReplicaPlacementStrategy")
        factor = _child(element, "ReplicationFactor")
        snitch = _child(element, "EndPointSnitch")
        for name, value, used in (
            ("ReplicaPlacementStrategy", strategy, DEFAULT_STRATEGY),
            ("ReplicationFactor", factor, "the number of the shard's members"),
            ("EndPointSnitch", snitch, "none"),
        ):
            if value is None:
                self.warnings.append(f"keyspace {keyspace.name} has no {name}: {used} is used")
        return replace(
            keyspace,
            strategy=strategy or DEFAULT_STRATEGY,
            replication_factor=None if factor is None else _number("ReplicationFactor", factor),
            end_point_snitch=snitch,
        )

    def _family(self, element: Element) -> ColumnFamily:
        name = element.get("Name")
        if not name:
            raise configuration("a ColumnFamily needs a Name")
        check_family_name(name)
        if element.get("ColumnSort") is not None:
            raise configuration("ColumnSort is no longer an accepted attribute.  Use CompareWith instead.")
        options = {
            "columnType": element.get("ColumnType") or STANDARD,
            "compareWith": element.get("CompareWith"),
            "compareSubcolumnsWith": element.get("CompareSubcolumnsWith"),
            "comment": element.get("Comment") or _child(element, "Comment") or "",
            "gcGraceSeconds": self._gc_grace_seconds,
            "keysCached": element.get("KeysCached"),
            "rowsCached": element.get("RowsCached"),
        }
        mapped = {"Name", "ColumnType", "CompareWith", "CompareSubcolumnsWith", "Comment", "KeysCached", "RowsCached"}
        for attribute in sorted(element.attrib.keys() - mapped):
            text = "stored, but nothing saves caches" if attribute in _SAVE_PERIODS else element.attrib[attribute]
            self.warnings.append(f"{attribute} of column family {name} is ignored: {text}")
        return column_family(name, options, self._registry)


def _text(element: Element) -> str:
    return " ".join(_texts(element))


def _texts(element: Element) -> Iterator[str]:
    for text in element.itertext():
        if text.strip():
            yield text.strip()


def _child(element: Element, tag: str) -> str | None:
    child = element.find(tag)
    return None if child is None else _text(child)


def _number(name: str, text: str) -> int:
    """Return what the element `name` says. Errors: ConfigurationException if it is none from 0 to 2147483647."""
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > INT_MAX:
        raise configuration(f"{name} must be a whole number from 0 to {INT_MAX}, not '{text}'")
    return int(text)
