"""Changes of keyspaces and column families, each in one write unit: all of it is done or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from bson.int64 import Int64

from docstore.bson import OBJECT, from_python
from docstore.collection.catalog.ddl import truncate_family
from docstore.collection.catalog.modification import modify_options
from docstore.collection.catalog.options import options_of
from docstore.collection.store import Store
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import change, check_database_case
from docstore.node.node import DataNode, node_of
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace, check_family_name, check_keyspace_name
from docstore.widecolumn.model.definition_commands import digest_of
from docstore.widecolumn.model.errors import already_exists, configuration, family_absent, keyspace_absent, stale_schema
from docstore.widecolumn.node.keyspaces import MARK, FamilyStore, WideColumns, wide_of

NO_IDENTITIES: Mapping[str, UUID] = {}


class SchemaChange:
    """Operations on the schema inside one write unit."""

    def __init__(self, node: DataNode, unit: WriteUnitOfWork, identities: Mapping[str, UUID] = NO_IDENTITIES) -> None:
        """`identities`: those that column families get which are made, by namespace; others draw their own."""
        self._store: Store = node.store
        self._wide: WideColumns = wide_of(node)
        self._unit = unit
        self._identities = identities

    def create_keyspace(self, keyspace: Keyspace) -> None:
        """NamespaceExists, also where the database holds documents."""
        name = keyspace.name
        check_keyspace_name(name)
        if self._wide.is_keyspace(name):
            raise already_exists("keyspace", name)
        if self._store.catalog.in_database(name):
            raise CommandError(Code.NamespaceExists, f"the database {name} holds documents")
        check_database_case(self._store, f"{name}.{MARK}", may_differ=self._wide.is_keyspace)
        options = options_of({"keyspace": keyspace.to_options()})
        self._store.create_collection(self._unit, f"{name}.{MARK}", options)

    def alter_keyspace(self, keyspace: Keyspace) -> None:
        """NamespaceNotFound."""
        self._redefine(f"{keyspace.name}.{MARK}", "keyspace", keyspace.to_options(), keyspace_absent(keyspace.name))

    def drop_keyspace(self, name: str) -> None:
        """NamespaceNotFound."""
        if not self._wide.is_keyspace(name):
            raise keyspace_absent(name)
        self._store.drop_database(self._unit, name)

    def create_family(self, keyspace: str, family: ColumnFamily) -> None:
        """NamespaceExists, NamespaceNotFound."""
        check_family_name(family.name)
        if not self._wide.is_keyspace(keyspace):
            raise keyspace_absent(keyspace)
        namespace = f"{keyspace}.{family.name}"
        if self._store.collection(namespace) is not None:
            raise already_exists("column family", family.name)
        options = options_of({"columnFamily": family.to_options()})
        self._store.create_collection(self._unit, namespace, options, uuid=self._identities.get(namespace))

    def alter_family(self, keyspace: str, family: ColumnFamily) -> None:
        """NamespaceNotFound."""
        namespace = f"{keyspace}.{family.name}"
        self._redefine(namespace, "columnFamily", family.to_options(), family_absent(family.name))

    def drop_family(self, keyspace: str, name: str) -> None:
        """NamespaceNotFound."""
        self._existing(keyspace, name)
        self._store.drop_collection(self._unit, f"{keyspace}.{name}")

    def truncate(self, keyspace: str, name: str, at: int | None = None) -> None:
        """Take all rows out, and note when, by which hints are judged. `at`: microseconds since 1970, the same on all
        shards; the time of this node without it. NamespaceNotFound.
        """
        collection = self._existing(keyspace, name).collection
        stamp = max(collection.options.truncated_at, self._wide.timestamp() if at is None else at)
        truncate_family(self._store.catalog, self._unit, collection)
        changes = {"truncatedAt": from_python(Int64(stamp))}
        modify_options(self._store.catalog, self._unit, collection, changes)

    def define(self, keyspaces: Sequence[Keyspace], families: Mapping[str, Sequence[ColumnFamily]]) -> list[str]:
        """Create the definitions that do not exist; return the keyspaces created. NamespaceExists for a definition
        that differs from an existing one.
        """
        created_names: list[str] = []
        for keyspace in keyspaces:
            standing = self._wide.keyspace(keyspace.name)
            if standing is None:
                self.create_keyspace(keyspace)
                for family in families[keyspace.name]:
                    self.create_family(keyspace.name, family)
                created_names.append(keyspace.name)
                continue
            definitions = {store.definition.name: store.definition for store in self._wide.families(keyspace.name)}
            if standing != keyspace or definitions != {family.name: family for family in families[keyspace.name]}:
                raise already_exists("keyspace", keyspace.name)
        return created_names

    def replace(self, keyspaces: Sequence[Keyspace], families: Mapping[str, Sequence[ColumnFamily]]) -> None:
        """Create missing definitions, change those that differ, and drop other column families.

        ConfigurationException if a type, a comparator or a partitioner would change: the stored order of rows depends
        on it.
        """
        for keyspace in keyspaces:
            standing = self._wide.keyspace(keyspace.name)
            if standing is None:
                self.define([keyspace], families)
                continue
            if standing.partitioner != keyspace.partitioner:
                raise configuration("partitioner cannot be changed")
            if standing != keyspace:
                self.alter_keyspace(keyspace)
            self._replace_families(keyspace.name, {family.name: family for family in families[keyspace.name]})

    def _replace_families(self, keyspace: str, wanted: Mapping[str, ColumnFamily]) -> None:
        definitions = {store.definition.name: store.definition for store in self._wide.families(keyspace)}
        for name in definitions.keys() - wanted.keys():
            self.drop_family(keyspace, name)
        for name, family in wanted.items():
            standing = definitions.get(name)
            if standing is None:
                self.create_family(keyspace, family)
            elif standing != family:
                if _order_of(standing) != _order_of(family):
                    raise configuration("comparator cannot be changed")
                self.alter_family(keyspace, family)

    def _existing(self, keyspace: str, name: str) -> FamilyStore:
        if not self._wide.is_keyspace(keyspace):
            raise keyspace_absent(keyspace)
        family = self._wide.find(keyspace, name)
        if family is None:
            raise family_absent(name)
        return family

    def _redefine(self, namespace: str, option: str, definition: Mapping[str, Any], absent: CommandError) -> None:
        collection = self._store.collection(namespace)
        if collection is None:
            raise absent
        code, raw = from_python(definition)
        assert code == OBJECT, "a definition is a document"
        modify_options(self._store.catalog, self._unit, collection, {option: (code, raw)})


def _order_of(family: ColumnFamily) -> tuple[Any, ...]:
    """Return the parts of the definition that cannot change while rows are on disk."""
    return family.column_type, family.comparator, family.subcomparator


def check_schema(context: Context, arguments: Arguments) -> None:
    """Raise StaleConfig if the sender uses another definition of the column family. Errors: StaleConfig,
    NamespaceNotFound.
    """
    schema_digest = arguments["schema"]
    if schema_digest is not None:
        family = wide_of(node_of(context)).existing(context.db, arguments.value, context.command.name)
        if schema_digest[1][5:] != digest_of(family.collection.uuid, family.collection.options.raw):
            raise stale_schema(family.collection.ns)


def check_change(context: Context, act: Callable[[SchemaChange], None]) -> None:
    """Raise the errors of `change_schema`, without changing anything."""
    node = node_of(context)
    unit = node.store.unit()
    try:
        act(SchemaChange(node, unit))
    finally:
        unit.abort()


async def change_schema(
    context: Context, act: Callable[[SchemaChange], None], identities: Mapping[str, UUID] = NO_IDENTITIES
) -> dict[str, Any]:
    """Change the schema in one unit; return the reply. It has a writeConcernError if the change may still be rolled
    back.
    """
    node = node_of(context)
    if not context.namespace and context.db != "admin":
        # The version of the request's routing: a keyspace is on the shard of its mark.
        context = context.about(f"{context.db}.{MARK}")
    return await change(context, {}, lambda unit: act(SchemaChange(node, unit, identities)))
