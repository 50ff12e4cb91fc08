"""Asking the config servers whether a migration has happened: the one place where it is decided."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.sharding import requests
from docstore.sharding.donor import CommitOutcome, ConfigAnswered
from docstore.sharding.migration import Migration
from docstore.sharding.version import Lastmod
from mongod.migration.config_servers import ConfigServers

LOG = component("MIGRATE")
_REFUSED = frozenset((Code.StaleEpoch, Code.ConflictingOperationInProgress, Code.ShardNotFound, Code.BadValue))
"""The config servers' definite no."""


async def commit(config: ConfigServers, migration: Migration) -> ConfigAnswered:
    """Have the chunk given to the recipient."""
    command = requests.commit_chunk_migration(
        migration.namespace, migration.epoch, migration.range, migration.lastmod, migration.donor, migration.recipient
    )
    reply = await _ask(config, migration, command)
    return reply if isinstance(reply, ConfigAnswered) else ConfigAnswered(CommitOutcome.DONE, _version(reply))


async def find_out(config: ConfigServers, migration: Migration) -> ConfigAnswered:
    """Whether the chunk was given to the recipient; afterwards it can no longer be, by this migration."""
    command = requests.ensure_chunk_version_greater(
        migration.namespace, migration.epoch, migration.range, migration.lastmod
    )
    reply = await _ask(config, migration, command)
    if isinstance(reply, ConfigAnswered):
        return reply
    return ConfigAnswered(
        CommitOutcome.NOT_DONE if reply["shard"] == migration.donor else CommitOutcome.DONE, _version(reply)
    )


async def _ask(config: ConfigServers, migration: Migration, command: dict[str, Any]) -> dict[str, Any] | ConfigAnswered:
    try:
        return document_to_python(await config.command(command))
    except CommandError as error:
        if error.code in _REFUSED:
            return ConfigAnswered(CommitOutcome.NOT_DONE)
        LOG.info("No answer from the config servers", ns=migration.namespace, reason=error.message)
        return ConfigAnswered(CommitOutcome.UNKNOWN)


def _version(reply: dict[str, Any]) -> Lastmod:
    return Lastmod.from_timestamp(reply["collectionVersion"]["v"])
