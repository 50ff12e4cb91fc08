"""The commands of DDL on a shard, one module each."""

from __future__ import annotations

from docstore.commands.declaration import Command
from mongod.ddl.commands import (
    change_collection,
    drop_collection,
    drop_database,
    move_primary,
    participant_act,
    participant_block,
    rename_collection,
    shard_collection,
)

_MODULES = (
    change_collection, drop_collection, drop_database, move_primary, participant_act,
    participant_block, rename_collection, shard_collection,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
