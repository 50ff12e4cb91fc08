"""Telling people, in config.changelog, what happens to chunks on this shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docstore.errors import CommandError
from docstore.log import component
from docstore.sharding import requests
from docstore.sharding.migration import Migration

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

LOG = component("MIGRATE")
_SECONDS = 2.0


async def log_change(shard: Shard, migration: Migration, what: str, details: Mapping[str, Any]) -> None:
    """Add an entry about a migration; that it fails changes nothing."""
    bounds = {"min": migration.range.min.document(), "max": migration.range.max.document()}
    await log(shard, what, migration.namespace, {**bounds, **details, "to": migration.recipient})


async def log(shard: Shard, what: str, namespace: str, details: Mapping[str, Any]) -> None:
    """Add an entry; that it fails changes nothing."""
    try:
        command = requests.log_change(what, namespace, details, server=shard.node.settings.address, shard=shard.name)
        await shard.config_servers().command(command, timeout=_SECONDS)
    except CommandError as error:
        LOG.info("Changelog entry not written", what=what, reason=error.message)
