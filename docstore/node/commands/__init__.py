"""The commands of every data node, one module each."""

from __future__ import annotations

from collections.abc import Iterator

from docstore.commands.builtin import COMMANDS as BUILTIN
from docstore.commands.declaration import Command
from docstore.node.commands import (
    abort_transaction,
    aggregate,
    backup,
    backup_close,
    backup_open,
    backup_read,
    bulk_write,
    clone_collection_as_capped,
    coll_mod,
    coll_stats,
    commit_transaction,
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
    file_md5,
    find,
    find_and_modify,
    fsync,
    fsync_unlock,
    get_cluster_parameter,
    get_cmd_line_opts,
    get_default_rw_concern,
    get_more,
    hello,
    host_info,
    insert,
    is_master,
    kill_op,
    list_collections,
    list_databases,
    list_indexes,
    plan_cache_clear,
    plan_cache_clear_filters,
    plan_cache_list_filters,
    plan_cache_set_filter,
    profile,
    re_index,
    rename_collection,
    repl_set_resize_oplog,
    server_status,
    set_cluster_parameter,
    set_default_rw_concern,
    set_index_commit_quorum,
    shutdown,
    top,
    update,
    validate,
    validate_db_metadata,
)
from docstore.node.namespace_guard import for_documents
from docstore.node.users.info_commands import COMMANDS as INFO_OF_USERS
from docstore.node.users.role_commands import COMMANDS as OF_ROLES
from docstore.node.users.user_commands import COMMANDS as OF_USERS

_MODULES = (
    abort_transaction, aggregate, backup, backup_close, backup_open, backup_read, bulk_write,
    clone_collection_as_capped, coll_mod, coll_stats,
    commit_transaction, compact, conn_pool_stats, convert_to_capped, count, create, create_indexes, current_op,
    data_size, db_hash, db_stats, delete, distinct, drop, drop_database, drop_indexes, explain, file_md5, find,
    find_and_modify,
    fsync, fsync_unlock, get_cmd_line_opts, get_cluster_parameter, get_default_rw_concern, get_more, hello, host_info,
    insert, is_master, kill_op, list_collections, list_databases, list_indexes, plan_cache_clear,
    plan_cache_clear_filters, plan_cache_list_filters, plan_cache_set_filter, profile, re_index,
    rename_collection, repl_set_resize_oplog, server_status, set_cluster_parameter, set_default_rw_concern,
    set_index_commit_quorum, shutdown, top, update, validate, validate_db_metadata,
)  # fmt: skip

_OF_DOCUMENTS = frozenset(
    (
        aggregate, clone_collection_as_capped, coll_mod, compact, convert_to_capped, count, create, create_indexes,
        data_size, delete, distinct, drop, drop_indexes, explain, file_md5, find, find_and_modify, insert, list_indexes,
        re_index, update,
    )
)  # fmt: skip
"""Commands that apply to document collections only."""


def _commands() -> Iterator[Command]:
    for module in _MODULES:
        yield for_documents(module.COMMAND) if module in _OF_DOCUMENTS else module.COMMAND


COMMANDS: tuple[Command, ...] = (*BUILTIN, *_commands(), *OF_USERS, *OF_ROLES, *INFO_OF_USERS)
