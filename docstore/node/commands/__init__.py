"""The commands that every data node serves, one module each."""

from __future__ import annotations

from docstore.commands.builtin import COMMANDS as BUILTIN
from docstore.commands.declaration import Command
from docstore.node.commands import (
    aggregate,
    backup,
    clone_collection_as_capped,
    coll_mod,
    coll_stats,
    compact,
    conn_pool_stats,
    convert_to_capped,
    count,
    create,
    create_indexes,
    current_op,
    data_size,
    db_hash,
    db_stats,
    delete,
    distinct,
    drop,
    drop_database,
    drop_indexes,
    explain,
    find,
    find_and_modify,
    fsync,
    fsync_unlock,
    get_cmd_line_opts,
    get_default_rw_concern,
    get_more,
    hello,
    host_info,
    insert,
    is_master,
    list_collections,
    list_databases,
    list_indexes,
    profile,
    re_index,
    rename_collection,
    server_status,
    set_index_commit_quorum,
    shutdown,
    top,
    update,
    validate,
    validate_db_metadata,
)

_MODULES = (
    aggregate, backup, clone_collection_as_capped, coll_mod, coll_stats, compact, conn_pool_stats, convert_to_capped,
    count, create, create_indexes, current_op, data_size, db_hash, db_stats, delete, distinct, drop, drop_database,
    drop_indexes, explain, find, find_and_modify, fsync, fsync_unlock, get_cmd_line_opts,
    get_default_rw_concern, get_more, hello, host_info, insert, is_master, list_collections, list_databases,
    list_indexes, profile, re_index, rename_collection, server_status, set_index_commit_quorum,
    shutdown, top, update, validate, validate_db_metadata,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = (*BUILTIN, *(module.COMMAND for module in _MODULES))
