"""All commands of a router."""

from __future__ import annotations

from docstore.commands.builtin import COMMANDS as BUILTIN
from docstore.commands.declaration import CommandTable
from mongos.commands import (
    add_shard,
    aggregate,
    balancer_start,
    balancer_status,
    balancer_stop,
    clone_collection_as_capped,
    coll_mod,
    coll_stats,
    convert_to_capped,
    count,
    create,
    create_indexes,
    current_op,
    db_stats,
    delete,
    distinct,
    drop,
    drop_database,
    drop_indexes,
    enable_sharding,
    explain,
    find,
    find_and_modify,
    flush_router_config,
    get_cmd_line_opts,
    get_more,
    get_shard_version,
    hello,
    insert,
    is_db_grid,
    is_master,
    list_collections,
    list_databases,
    list_indexes,
    list_shards,
    map_reduce,
    move_chunk,
    remove_shard,
    rename_collection,
    server_status,
    shard_collection,
    shutdown,
    split,
    update,
)  # fmt: skip

_MODULES = (
    add_shard, aggregate, balancer_start, balancer_status, balancer_stop, clone_collection_as_capped, coll_mod,
    coll_stats, convert_to_capped, count, create, create_indexes, current_op, db_stats, delete, distinct, drop,
    drop_database, drop_indexes, enable_sharding, explain, find, find_and_modify, flush_router_config,
    get_cmd_line_opts, get_more, get_shard_version, hello, insert, is_db_grid, is_master, list_collections,
    list_databases, list_indexes, list_shards, map_reduce, move_chunk, remove_shard, rename_collection, server_status,
    shard_collection, shutdown, split, update,
)  # fmt: skip

TABLE = CommandTable(
    (*BUILTIN, *(module.COMMAND for module in _MODULES)),
    unsupported={
        "movePrimary": "movePrimary is not supported yet",
        "reshardCollection": "resharding is not supported yet",
        "refineCollectionShardKey": "refining a shard key is not supported yet",
        "replSetGetStatus": "a router is not a member of a replica set: ask a shard's member",
        "replSetInitiate": "a router is not a member of a replica set: ask the future member",
    },
)
