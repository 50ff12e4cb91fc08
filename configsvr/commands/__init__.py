"""The commands that only a config server has, one module each; their wire forms are in `docstore.sharding.requests`."""

from __future__ import annotations

from configsvr.commands import (
    add_shard,
    commit_chunk_migration,
    commit_chunk_split,
    commit_move_primary,
    commit_rename,
    create_database,
    enable_sharding,
    ensure_chunk_version,
    ensure_database_version,
    get_balancing_settings,
    get_credentials,
    get_routing,
    lease,
    log_change,
    mongos_ping,
    remove_collection,
    remove_database,
    remove_shard,
    set_jumbo,
    shard_collection,
    user_changes,
)
from docstore.commands.declaration import Command

_MODULES = (
    add_shard, commit_chunk_migration, commit_chunk_split, commit_move_primary, commit_rename, create_database,
    enable_sharding, ensure_chunk_version, ensure_database_version, get_balancing_settings, get_credentials,
    get_routing, lease, log_change, mongos_ping, remove_collection, remove_database, remove_shard, set_jumbo,
    shard_collection, user_changes,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
