"""The scope of a restore: which collections of a dump it takes, by the options that choose them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from docstore.tools.dumped.files import is_oplog
from docstore.tools.dumped.namespaces import Selected
from docstore.tools.dumped.origins import Origin
from docstore.tools.dumped.restoration import Manner
from docstore.tools.dumped.users import is_of_users, is_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The collections of a dump that a restore takes."""

    database: str | None
    collection: str | None
    namespaces: Selected
    has_patterns: bool
    with_users: bool
    excluded: tuple[str, ...]
    excluded_prefixes: tuple[str, ...]

    def limited_to(self, database: str | None) -> Scope:
        """Return the scope within the database that the URI names, where no option does. Errors: click.UsageError."""
        scope = self if self.database is not None else replace(self, database=database)
        if scope.collection is not None and scope.database is None:
            raise click.UsageError("--collection needs --db")
        if (scope.excluded or scope.excluded_prefixes) and (scope.database is None or scope.collection is not None):
            raise click.UsageError("collections are left out of --db, without --collection")
        if scope.with_users and (scope.database in (None, "admin") or scope.collection is not None):
            raise click.UsageError("--restoreDbUsersAndRoles needs --db, other than admin, and no --collection")
        return scope

    def require_whole(self, manner: Manner) -> None:
        """Check that the whole dump is restored under its own names, as a log requires. Errors: click.UsageError."""
        if self.has_patterns or self.database is not None or self.collection is not None or manner.renames:
            raise click.UsageError(
                "--oplogReplay is for a whole dump: it goes with no option that chooses databases and collections or "
                "gives them other names"
            )

    def takes(self, origin: Origin) -> bool:
        if is_oplog(origin.database, origin.collection):
            return False
        if is_of_users(origin.database, origin.collection) or is_version(origin.database, origin.collection):
            return self._takes_users(origin)
        if self.database is not None and origin.database != self.database:
            return False
        if self.collection is not None and origin.collection != self.collection:
            return False
        if origin.collection in self.excluded or origin.collection.startswith(self.excluded_prefixes):
            return False
        if origin.collection.startswith("system.") and origin.collection != "system.js":
            return False
        if origin.database == "config" and self.database is None and not self.namespaces.included:
            return False
        return origin.namespace in self.namespaces

    def _takes_users(self, origin: Origin) -> bool:
        """Accept users of all databases with a whole dump, those of one database by its option."""
        if origin.collection.startswith("$"):
            return self.with_users and origin.database == self.database
        is_whole = self.database in (None, "admin") and self.collection is None
        return is_whole and origin.namespace in self.namespaces
