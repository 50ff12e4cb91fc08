"""Which operations a change stream tells of: those of a collection, of a database, or of the whole deployment.

What is between the server and itself (`system.*` collections, the databases admin, config and local) is told of to
nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.errors import Code, CommandError
from docstore.node.change_streams.operation import INTERNAL, Operation


@dataclass(frozen=True, slots=True)
class Scope:
    """`db` and `collection` are empty where all of them are meant; `expanded`: changes of the catalog are told of too.

    `name` is what `Operation.names` has an equal of, for each operation in the scope.
    """

    db: str
    collection: str
    expanded: bool

    @property
    def name(self) -> str:
        return f"{self.db}.{self.collection}" if self.collection else self.db

    def takes(self, operation: Operation) -> bool:
        """Whether the stream tells of the operation."""
        if not (self.expanded or operation.is_plain) or operation.is_internal:
            return False
        if self.collection:
            return self.name in (operation.namespace, operation.target)
        return not self.db or self.db in (operation.db, operation.target_db)

    def invalidated_by(self, operation: Operation) -> bool:
        """Whether the stream ends with an operation that it tells of."""
        if self.collection:
            return operation.kind in ("drop", "rename") and not operation.of_view
        return bool(self.db) and operation.kind == "dropDatabase"


def scope_of(db: str, collection: str | None, *, expanded: bool, whole_cluster: bool) -> Scope:
    """What a stream is about that is opened on this namespace. Errors: InvalidOptions, InvalidNamespace."""
    shown = f"{db}.{collection or '$cmd.aggregate'}"
    if whole_cluster:
        if db != "admin" or collection is not None:
            raise CommandError(
                Code.InvalidOptions,
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with "
                f"no collection name; found {shown}",
            )
        return Scope("", "", expanded)
    if db in INTERNAL:
        raise CommandError(Code.InvalidNamespace, f"$changeStream may not be opened on the internal {db} database")
    if collection is not None and collection.startswith("system."):
        raise CommandError(Code.InvalidNamespace, f"$changeStream may not be opened on the internal {shown} collection")
    return Scope(db, collection or "", expanded)
