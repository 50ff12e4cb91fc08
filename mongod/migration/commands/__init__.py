"""The commands that only a shard has, one module each."""

from __future__ import annotations

from docstore.commands.declaration import Command
from mongod.migration.commands import (
    add_shard,
    check_sharding_index,
    chunk_sizes,
    get_shard_version,
    hold_column_family,
    move_range,
    recv_chunk_commit,
    recv_chunk_documents,
    recv_chunk_resolve,
    recv_chunk_start,
    recv_chunk_statements,
    recv_chunk_status,
    recv_database_changes,
    recv_database_collections,
    recv_database_start,
    split_chunk,
    split_vector,
)

_MODULES = (
    add_shard, check_sharding_index, chunk_sizes, get_shard_version, hold_column_family, move_range, recv_chunk_commit,
    recv_chunk_documents, recv_chunk_resolve, recv_chunk_start, recv_chunk_statements, recv_chunk_status,
    recv_database_changes, recv_database_collections, recv_database_start, split_chunk, split_vector,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
