"""Asking the config servers whether a migration has happened: the one place where it is decided.

A definite no is given with the error that it was.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.sharding import requests
from docstore.sharding.donor import CommitOutcome, ConfigAnswered
from docstore.sharding.migration import AnyMigration, DatabaseMigration
from docstore.sharding.version import DatabaseVersion, Lastmod
from mongod.migration.config_servers import ConfigServers

LOG = component("MIGRATE")
_REFUSED = frozenset(
    (
        Code.StaleEpoch, Code.StaleDbVersion, Code.ConflictingOperationInProgress, Code.ShardNotFound, Code.BadValue,
    )
)  # fmt: skip
"""The config servers' definite no."""


async def commit(config: ConfigServers, migration: AnyMigration) -> ConfigAnswered:
    """Ask the config servers to make the recipient the owner."""
    if isinstance(migration, DatabaseMigration):
        command = requests.commit_move_primary(migration.namespace, migration.version, migration.recipient)
    else:
        command = requests.commit_chunk_migration(
            migration.namespace, migration.epoch, migration.range, migration.lastmod,
            migration.donor, migration.recipient,
        )  # fmt: skip
    reply = await _ask(config, migration, command)
    if isinstance(reply, ConfigAnswered):
        return reply
    return ConfigAnswered(CommitOutcome.DONE, _version(migration, reply, committed=True))


async def find_out(config: ConfigServers, migration: AnyMigration) -> ConfigAnswered:
    """Ask whether the recipient owns the migrated range or database.

    Afterwards it can no longer become the owner by this migration.
    """
    if isinstance(migration, DatabaseMigration):
        command = requests.ensure_database_version_greater(migration.namespace, migration.version)
    else:
        command = requests.ensure_chunk_version_greater(
            migration.namespace, migration.epoch, migration.range, migration.lastmod
        )
    reply = await _ask(config, migration, command)
    if isinstance(reply, ConfigAnswered):
        return reply
    committed = reply["shard"] != migration.donor
    outcome = CommitOutcome.DONE if committed else CommitOutcome.NOT_DONE
    return ConfigAnswered(outcome, _version(migration, reply, committed=committed))


async def _ask(
    config: ConfigServers, migration: AnyMigration, command: dict[str, Any]
) -> dict[str, Any] | ConfigAnswered:
    try:
        return document_to_python(await config.command(command))
    except CommandError as error:
        if error.code in _REFUSED:
            return ConfigAnswered(CommitOutcome.NOT_DONE, refusal=error)
        LOG.info("No answer from the config servers", ns=migration.namespace, reason=error.message)
        return ConfigAnswered(CommitOutcome.UNKNOWN)


def _version(migration: AnyMigration, reply: dict[str, Any], *, committed: bool) -> Lastmod | DatabaseVersion | None:
    """Return the version below which the donor may no longer use a routing. For a database: the version that has
    ended.
    """
    if isinstance(migration, DatabaseMigration):
        return migration.version if committed else None
    return Lastmod.from_timestamp(reply["collectionVersion"]["v"])
