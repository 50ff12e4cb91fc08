"""Keyspaces and column families between commands and their definitions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from bson.binary import Binary, UuidRepresentation

from docstore.bson import NULL, STRING, UNDEFINED, Value, document_to_python
from docstore.query.value.values import text_of
from docstore.widecolumn.model.column_families import Keyspace, check_keyspace_name, partitioner_of
from docstore.widecolumn.model.errors import configuration
from docstore.widecolumn.model.executor import StoredFamily
from docstore.widecolumn.model.storage_conf import Configuration

_REPLICATION = ("strategy", "replicationFactor")


def keyspace_of(name: str, options: Mapping[str, Any]) -> Keyspace:
    """The keyspace that createKeyspace describes. ConfigurationException."""
    check_keyspace_name(name)
    keyspace = Keyspace(name=name)
    if options.get("durableWrites") is not None:
        keyspace = replace(keyspace, durable_writes=options["durableWrites"])
    if options.get("partitioner") is not None:
        keyspace = replace(keyspace, partitioner=partitioner_of(options["partitioner"]))
    raw = options.get("replication")
    if raw is None:
        return keyspace
    replication = document_to_python(raw)
    for field in replication:
        if field not in _REPLICATION:
            raise configuration(f"replication has an unknown field '{field}'")
    factor = replication.get("replicationFactor")
    if factor is not None:
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or factor != int(factor) or factor < 1:
            raise configuration("replicationFactor must be a whole number of at least 1")
        keyspace = replace(keyspace, replication_factor=int(factor))
    strategy = replication.get("strategy")
    if strategy is not None:
        if not isinstance(strategy, str):
            raise configuration("strategy must be the name of a class")
        keyspace = replace(keyspace, strategy=strategy)
    return keyspace


def family_options(options: Mapping[str, Any], comment: Value | None) -> dict[str, Any]:
    """The options that a command gives. `comment` is a field that every command may have. ConfigurationException."""
    if comment is None or comment[0] in (NULL, UNDEFINED):
        return dict(options)
    if comment[0] != STRING:
        raise configuration("comment must be a string")
    return {**options, "comment": text_of(comment)}


def keyspace_document(keyspace: Keyspace, families: Sequence[StoredFamily]) -> dict[str, Any]:
    """Return the reply's form of a keyspace."""
    replication: dict[str, Any] = {"strategy": keyspace.strategy}
    if keyspace.replication_factor is not None:
        replication["replicationFactor"] = keyspace.replication_factor
    return {
        "keyspace": keyspace.name,
        "replication": replication,
        "durableWrites": keyspace.durable_writes,
        "partitioner": keyspace.partitioner.name,
        "columnFamilies": [family_document(family) for family in families],
    }


def family_document(family: StoredFamily) -> dict[str, Any]:
    """Return the reply's form of a column family."""
    identity = Binary.from_uuid(family.id, UuidRepresentation.STANDARD)
    return {"name": family.definition.name, **family.definition.to_options(), "id": identity}


def digest_of(identity: UUID, options: bytes) -> bytes:
    """Return a digest that identifies a definition of a column family; `options` as they are stored."""
    return hashlib.md5(identity.bytes + options, usedforsecurity=False).digest()[:8]


def loaded_document(loaded: Configuration) -> dict[str, Any]:
    """Return the reply that lists the definitions loaded from a configuration."""
    return {
        "keyspaces": [keyspace.name for keyspace in loaded.keyspaces],
        "columnFamilies": [
            f"{keyspace}.{family.name}" for keyspace, families in loaded.families.items() for family in families
        ],
        "warnings": list(loaded.warnings),
    }
