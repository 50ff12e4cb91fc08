"""Rows that stored writes concern: their column families, identities and owners."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from docstore.bson import STRING, array_documents, elements, get_field
from docstore.errors import CommandError
from docstore.query.value.values import text_of
from docstore.widecolumn.model.errors import family_absent, invalid_request
from docstore.widecolumn.model.values import partition_key_of
from mongos.router import Router
from mongos.widecolumn.hints.handoff import Targets
from mongos.widecolumn.owners import owner_of
from mongos.widecolumn.schema_executor import RouterSchema

_CONFIG_SECONDS = 1.0
"""The time limit for reading a column family's current identity from the config servers."""

Keyed = list[tuple[bytes | None, bytes]]
"""(row key, mutation); None for a key that is none."""


def mutations_by_family(mutations: Sequence[bytes]) -> dict[str, Keyed] | None:
    """Return the mutations by column family; None if one does not name its family, so that a shard refuses them."""
    families: dict[str, Keyed] = {}
    for raw in mutations:
        family, key = get_field(raw, "columnFamily"), get_field(raw, "key")
        if family is None or family[0] != STRING or key is None:
            return None
        try:
            families.setdefault(text_of(family), []).append((partition_key_of(key), raw))
        except CommandError:
            return None
    return families or None


def rows_of_command(command: bytes) -> list[tuple[str, bytes | None]]:
    """Return (column family, row key) of the rows that a stored command writes. InvalidRequest for a batch without
    them.
    """
    name, code, value = next(iter(elements(command)))
    if name == "wcBatchMutate":
        listed = get_field(command, "mutations")
        families = None if listed is None else mutations_by_family(array_documents(listed[1]))
        if families is None:
            raise invalid_request("a mutation does not say which row of which column family it is of")
        return [(family, key) for family, rows in families.items() for key, _ in rows]
    family = text_of((code, value))
    listed = get_field(command, "writes")
    if listed is None:
        return [(family, _key_of(command))]
    return [(family, _key_of(raw)) for raw in array_documents(listed[1])]


def _key_of(document: bytes) -> bytes | None:
    key = get_field(document, "key")
    try:
        return None if key is None else partition_key_of(key)
    except CommandError:
        return None


async def targets_of_command(router: Router, keyspace: str, command: bytes) -> Targets:
    """Return (namespace, shard) of the rows that a stored command writes. Errors: CommandError."""
    targets: set[tuple[str, str]] = set()
    for family, key in rows_of_command(command):
        namespace = f"{keyspace}.{family}"
        routing = await router.cache.get(namespace)
        targets.update((namespace, shard) for shard in owner_of(routing, key).shards)
    return frozenset(targets)


async def family_identity(schema: RouterSchema, keyspace: str, name: str) -> UUID:
    """Return the identity of the column family that has the name now.

    The config servers know sharded families; if they do not answer, the cached routing is used. Errors:
    NamespaceNotFound, those of the shard with the definitions.
    """
    namespace = f"{keyspace}.{name}"
    cache = schema.router.cache
    try:
        async with asyncio.timeout(_CONFIG_SECONDS):
            routing = await cache.refresh(namespace)
    except (CommandError, TimeoutError):
        routing = await cache.get(namespace)
    if routing.collection is not None:
        return UUID(bytes=bytes(routing.collection.uuid))
    family = await schema.family(keyspace, name)
    if family is None:
        raise family_absent(name)
    return family.id
