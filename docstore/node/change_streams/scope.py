"""The scope of a change stream: the operations of a collection, a database, or the whole deployment.

Internal namespaces (`system.*` collections, the databases admin, config and local) are never reported.
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.errors import Code, CommandError
from docstore.node.change_streams.operation import INTERNAL, Operation


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a stream; empty `db` and `collection` mean all.

    `expanded`: changes of the catalog are reported too. Invariant: `Operation.names` of every operation in the scope
    contains `name`.
    """

    db: str
    collection: str
    expanded: bool

    @property
    def name(self) -> str:
        return f"{self.db}.{self.collection}" if self.collection else self.db

    def takes(self, operation: Operation) -> bool:
        """Return True if the stream reports the operation."""
        if not (self.expanded or operation.is_plain) or operation.is_internal:
            return False
        if self.collection:
            return self.name in (operation.namespace, operation.target)
        return not self.db or self.db in (operation.db, operation.target_db)

    def invalidated_by(self, operation: Operation) -> bool:
        """Return True if a reported operation ends the stream."""
        if self.collection:
            return operation.kind in ("drop", "rename") and not operation.of_view
        return bool(self.db) and operation.kind == "dropDatabase"


def scope_of(db: str, collection: str | None, *, expanded: bool, whole_cluster: bool) -> Scope:
    """Return the scope of a stream opened on this namespace. Errors: InvalidOptions, InvalidNamespace."""
    namespace = f"{db}.{collection or '$cmd.aggregate'}"
    if whole_cluster:
        if db != "admin" or collection is not None:
            raise CommandError(
                Code.InvalidOptions,
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with "
                f"no collection name; found {namespace}",
            )
        return Scope("", "", expanded)
    if db in INTERNAL:
        raise CommandError(Code.InvalidNamespace, f"$changeStream may not be opened on the internal {db} database")
    if collection is not None and collection.startswith("system."):
        raise CommandError(
            Code.InvalidNamespace, f"$changeStream may not be opened on the internal {namespace} collection"
        )
    return Scope(db, collection or "", expanded)
