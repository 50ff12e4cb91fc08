"""This router's cache of the definitions of keyspaces and CQL tables.

Definitions are read from the keyspace's shard; cached ones may be old. Every request that relies on a definition
therefore names it, and a shard with another one refuses the request
(`docstore.widecolumn.model.errors.stale_schema`). A definition missing from the cache is looked up again before it
counts as absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bson.raw_bson import RawBSONDocument

from docstore.bson import document_to_python
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace, column_family, keyspace_from_options
from docstore.widecolumn.model.comparator_registry import Registry, Unordered, full_name
from docstore.widecolumn.model.comparators import Comparator
from docstore.widecolumn.model.definition_commands import digest_of
from docstore.widecolumn.model.errors import MarshalError
from docstore.widecolumn.model.executor import StoredFamily

if TYPE_CHECKING:
    from mongos.router_parts import RouterParts

_OWN_DATABASES = ("admin", "config", "local")


class _NamedComparator:
    """A class that only has a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def validate(self, value: bytes) -> None:
        raise MarshalError(f"{self.name} is not known here")

    def compare(self, a: bytes, b: bytes) -> int:
        raise MarshalError(f"{self.name} is not known here")


class _AnyComparator(Registry):
    """Returns a comparator for every name. The router compares nothing, and shards refuse unknown names."""

    def find(self, name: str) -> Comparator:
        return Unordered(_NamedComparator(full_name(name)))


COMPARATORS = _AnyComparator()


@dataclass(frozen=True, slots=True)
class Definition:
    """A column family with the digest of its definition."""

    stored: StoredFamily
    digest: bytes


@dataclass(frozen=True, slots=True)
class Schema:
    """A keyspace and its column families, by name."""

    keyspace: Keyspace
    families: dict[str, Definition]


class Definitions:
    """The cached keyspaces, by name."""

    def __init__(self) -> None:
        self.statements = PreparedCache()
        """Prepared CQL statements."""
        self._known: dict[str, Schema] = {}

    def known(self, keyspace: str) -> Schema | None:
        """Return the cached schema, which may be old."""
        return self._known.get(keyspace)

    def forget(self, keyspace: str) -> None:
        self._known.pop(keyspace, None)

    async def read(self, router: RouterParts, keyspace: str) -> Schema | None:
        """Read the keyspace from its shard; None if there is none."""
        self.forget(keyspace)
        schema = await _read_schema(router, keyspace)
        if schema is not None:
            self._known[keyspace] = schema
        return schema


async def _read_schema(router: RouterParts, keyspace: str) -> Schema | None:
    if keyspace in _OWN_DATABASES:
        return None
    namespace = f"{keyspace}.system.keyspace"
    home = (await router.cache.get(namespace)).primary
    while home is not None:
        definitions = await stored_schema(router, keyspace, home)
        if "keyspace" in definitions:
            return schema_from(keyspace, definitions)
        # It may have been dropped and made again on another shard.
        tried, home = home, (await router.cache.refresh(namespace)).primary
        if home == tried:
            break
    return None


async def database_names(router: RouterParts) -> list[str]:
    """Return the names of all databases, keyspaces among them, in order."""
    command = {"find": "databases", "projection": {"_id": 1}, "batchSize": 100_000}
    answer = await router.config.command("config", command, repeatable=True)
    return sorted(row["_id"] for row in answer.decoded()["cursor"]["firstBatch"])


async def stored_schema(router: RouterParts, keyspace: str, home: str) -> RawBSONDocument:
    """Read the stored definitions from their shard."""
    answer = await (await router.shards.get(home)).command(keyspace, {"_wcSchema": 1}, repeatable=True)
    return RawBSONDocument(answer.body)


def schema_from(name: str, shown: RawBSONDocument) -> Schema:
    """The keyspace that a shard has shown."""
    keyspace = keyspace_from_options(name, document_to_python(shown["keyspace"].raw)["keyspace"])
    return Schema(
        keyspace, {definition["name"]: _definition_of(keyspace, definition) for definition in shown["families"]}
    )


def _definition_of(keyspace: Keyspace, shown: Any) -> Definition:
    identity = shown["uuid"].as_uuid()
    raw: bytes = shown["options"].raw
    family: ColumnFamily = column_family(shown["name"], document_to_python(raw)["columnFamily"], COMPARATORS)
    return Definition(StoredFamily(keyspace, family, identity), digest_of(identity, raw))
