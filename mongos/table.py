"""The table of a router's commands."""

from __future__ import annotations

from docstore.commands.builtin import COMMANDS as BUILTIN
from docstore.commands.declaration import CommandTable
from mongos.commands import (
    abort_transaction,
    add_shard,
    aggregate,
    balancer_start,
    balancer_status,
    balancer_stop,
    bulk_write,
    clear_jumbo_flag,
    clone_collection_as_capped,
    coll_mod,
    coll_stats,
    commit_transaction,
    conn_pool_stats,
    convert_to_capped,
    count,
    create,
    create_indexes,
    current_op,
    data_size,
    db_stats,
    delete,
    distinct,
    drop,
    drop_database,
    drop_indexes,
    enable_sharding,
    explain,
    file_md5,
    find,
    find_and_modify,
    flush_router_config,
    fsync,
    fsync_unlock,
    get_cluster_parameter,
    get_cmd_line_opts,
    get_default_rw_concern,
    get_more,
    get_shard_map,
    get_shard_version,
    group,
    hello,
    host_info,
    insert,
    is_db_grid,
    is_master,
    kill_op,
    list_collections,
    list_databases,
    list_indexes,
    list_shards,
    map_reduce,
    move_chunk,
    move_primary,
    plan_cache_clear,
    plan_cache_clear_filters,
    plan_cache_list_filters,
    plan_cache_set_filter,
    remove_shard,
    rename_collection,
    server_status,
    set_cluster_parameter,
    set_default_rw_concern,
    shard_collection,
    shutdown,
    split,
    split_vector,
    update,
    validate,
)  # fmt: skip
from mongos.unsupported import UNSUPPORTED
from mongos.user_commands import COMMANDS as OF_USERS
from mongos.widecolumn.commands import COMMANDS as WIDE_COLUMN

_MODULES = (
    abort_transaction, add_shard, aggregate, balancer_start, balancer_status, balancer_stop, bulk_write,
    clear_jumbo_flag, clone_collection_as_capped, coll_mod, coll_stats, commit_transaction, conn_pool_stats,
    convert_to_capped, count, create, create_indexes, current_op, data_size, db_stats, delete, distinct, drop,
    drop_database, drop_indexes, enable_sharding, explain, file_md5, find, find_and_modify, flush_router_config,
    fsync, fsync_unlock, get_cluster_parameter, get_cmd_line_opts, get_default_rw_concern, get_more, get_shard_map,
    get_shard_version, group, hello, host_info, insert, is_db_grid, is_master, kill_op, list_collections,
    list_databases, list_indexes, list_shards, map_reduce, move_chunk, move_primary, plan_cache_clear,
    plan_cache_clear_filters, plan_cache_list_filters, plan_cache_set_filter, remove_shard, rename_collection,
    server_status, set_cluster_parameter, set_default_rw_concern, shard_collection, shutdown, split, split_vector,
    update, validate,
)  # fmt: skip

_OWN = {module.COMMAND.name: module.COMMAND for module in _MODULES}

TABLE = CommandTable(
    (*(command for command in BUILTIN if command.name not in _OWN), *_OWN.values(), *OF_USERS, *WIDE_COLUMN),
    unsupported=UNSUPPORTED,
)
