"""Entries of config.changelog about chunks and databases of this shard, for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docstore.errors import CommandError
from docstore.log import component
from docstore.sharding import requests
from docstore.sharding.migration import AnyMigration, Migration

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

LOG = component("MIGRATE")
_SECONDS = 2.0


async def log_change(shard: ShardParts, migration: AnyMigration, step: str, details: Mapping[str, Any]) -> None:
    """Add an entry about a step of a migration: start, from or to; that it fails changes nothing."""
    details = {**details, "to": migration.recipient}
    if isinstance(migration, Migration):
        bounds = {"min": migration.range.min.document(), "max": migration.range.max.document()}
        await log(shard, f"moveChunk.{step}", migration.namespace, {**bounds, **details})
    elif step != "start":
        # The DDL operation has logged its own beginning.
        await log(shard, f"movePrimary.{step}", migration.namespace, details)


async def log(shard: ShardParts, event: str, namespace: str, details: Mapping[str, Any]) -> None:
    """Add an entry; that it fails changes nothing."""
    try:
        command = requests.log_change(event, namespace, details, server=shard.node.settings.address, shard=shard.name)
        await shard.config_servers().command(command, timeout=_SECONDS)
    except CommandError as error:
        LOG.info("Changelog entry not written", what=event, reason=error.message)
