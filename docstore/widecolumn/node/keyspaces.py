"""The keyspaces and column families of a node, as its catalog holds them.

A keyspace is a database with the collection `system.keyspace`; the option `keyspace` of that collection is its
definition. A column family is a collection of the database with the option `columnFamily`. Definitions replicate,
roll back and are cloned like all options of collections. The parsed form is cached while the options are the same
object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from docstore.bson import document_to_python
from docstore.namespace import wrong_mode
from docstore.sharding.partitioners import MURMUR3
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.model.column_families import ColumnFamily, Keyspace, column_family, keyspace_from_options
from docstore.widecolumn.model.errors import family_absent, keyspace_absent
from docstore.widecolumn.model.executor import StoredFamily
from docstore.widecolumn.model.requests import plain_form
from docstore.widecolumn.node.settings import Settings

if TYPE_CHECKING:
    from docstore.collection.catalog.options import CollectionOptions
    from docstore.collection.collection import Collection
    from docstore.collection.store import Store
    from docstore.kernel.columns.encoding import ColumnForm
    from docstore.node.node import DataNode

MARK = "system.keyspace"


def wide_of(node: DataNode) -> WideColumns:
    """The keyspaces of a node that serves the mode."""
    return node.parts[WideColumns]


def attach(node: DataNode) -> WideColumns:
    """Make a node serve the mode; its store must have been made with `WideColumnMode`."""
    wide = node.parts[WideColumns] = WideColumns(node.store, node.wall_clock)
    node.parameters.add(wide.settings.parameters())
    node.status["wideColumn"] = wide.settings.metrics.document
    return wide


def is_keyspace(store: Store, database: str) -> bool:
    """True if the database is in wide-column mode."""
    return f"{database}.{MARK}" in store.catalog.collections


class KernelForms(NamedTuple):
    """The kernel's forms of a family's columns: one shows bytes as binary data, one shows text as strings."""

    binary: ColumnForm
    text: ColumnForm


class FamilyStore(NamedTuple):
    """A column family and the collection that holds it. `kernel_forms`: None if the kernel does not know such
    columns.
    """

    collection: Collection
    keyspace: Keyspace
    definition: ColumnFamily
    kernel_forms: KernelForms | None


class WideColumns:
    """See the module. `wall_clock` gives seconds since 1970."""

    def __init__(self, store: Store, wall_clock: Callable[[], float]) -> None:
        self.settings = Settings()
        self.statements = PreparedCache()
        """Prepared CQL statements."""
        self._store = store
        self._wall_clock = wall_clock
        self._keyspaces: dict[str, tuple[CollectionOptions, Keyspace]] = {}
        self._families: dict[str, tuple[str, CollectionOptions, CollectionOptions, FamilyStore]] = {}
        self._last_timestamp = 0

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self._wall_clock())

    def timestamp(self) -> int:
        """Microseconds since 1970, above every one given before."""
        self._last_timestamp = max(self._last_timestamp + 1, int(self._wall_clock() * 1_000_000))
        return self._last_timestamp

    def is_keyspace(self, database: str) -> bool:
        return is_keyspace(self._store, database)

    def keyspace(self, name: str) -> Keyspace | None:
        """The keyspace of that name."""
        mark = self._store.catalog.collections.get(f"{name}.{MARK}")
        if mark is None or mark.options.keyspace is None:
            return None
        cache_entry = self._keyspaces.get(name)
        if cache_entry is None or cache_entry[0] is not mark.options:
            keyspace = keyspace_from_options(name, document_to_python(mark.options.keyspace))
            cache_entry = self._keyspaces[name] = (mark.options, keyspace)
        return cache_entry[1]

    def keyspaces(self) -> list[Keyspace]:
        """All keyspaces, in the order of their names."""
        return [keyspace for name in self._store.databases() if (keyspace := self.keyspace(name)) is not None]

    def existing_keyspace(self, name: str, command: str) -> Keyspace:
        """The keyspace that a command is sent to. Errors: NamespaceNotFound; CommandNotSupported on a database of
        documents.
        """
        keyspace = self.keyspace(name)
        if keyspace is not None:
            return keyspace
        if self._store.catalog.in_database(name):
            raise wrong_mode(name, command, wide=False)
        raise keyspace_absent(name)

    def find(self, keyspace: str, name: str) -> FamilyStore | None:
        """The column family with its collection."""
        namespace = f"{keyspace}.{name}"
        cached_family = self.known(namespace)
        if cached_family is not None:
            return cached_family
        collections = self._store.catalog.collections
        marked = f"{keyspace}.{MARK}"
        collection, mark = collections.get(namespace), collections.get(marked)
        if collection is None or mark is None or collection.options.family is None:
            return None
        of = self.keyspace(keyspace)
        assert of is not None, "the keyspace has a mark"
        definition = column_family(name, document_to_python(collection.options.family), self.settings.registry)
        family = FamilyStore(collection, of, definition, _kernel_forms(of, definition))
        self._families[namespace] = (marked, collection.options, mark.options, family)
        return family

    def known(self, namespace: str) -> FamilyStore | None:
        """Return the column family if it is cached and nothing has changed since."""
        cache_entry = self._families.get(namespace)
        if cache_entry is None:
            return None
        marked, options, mark_options, family = cache_entry
        collections = self._store.catalog.collections
        mark = collections.get(marked)
        if collections.get(namespace) is not family.collection or mark is None:
            return None
        return family if family.collection.options is options and mark.options is mark_options else None

    def existing(self, keyspace: str, name: str, command: str) -> FamilyStore:
        """The column family that a command names. Errors: NamespaceNotFound, CommandNotSupported."""
        family = self.find(keyspace, name)
        if family is None:
            self.existing_keyspace(keyspace, command)
            raise family_absent(name)
        return family

    def families(self, keyspace: str) -> list[FamilyStore]:
        """The column families of a keyspace, in the order of their names."""
        collections = sorted(self._store.catalog.in_database(keyspace), key=lambda collection: collection.name)
        return [family for collection in collections if (family := self.find(keyspace, collection.name)) is not None]


def _kernel_forms(keyspace: Keyspace, definition: ColumnFamily) -> KernelForms | None:
    if keyspace.partitioner.name != MURMUR3 or definition.table is not None:
        return None
    binary, text = plain_form(definition), plain_form(definition, as_text=True)
    if binary is None or text is None:
        return None
    return KernelForms(binary, text)


def stored(found: FamilyStore) -> StoredFamily:
    """Return the column family in an executor's form."""
    return StoredFamily(found.keyspace, found.definition, found.collection.uuid)
