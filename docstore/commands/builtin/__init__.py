"""The commands that every process serves, one module each: they need nothing but the process's registries."""

from __future__ import annotations

from docstore.commands.builtin import (
    abort_transaction,
    build_info,
    commit_transaction,
    configure_fail_point,
    connection_status,
    create_user,
    drop_user,
    end_sessions,
    features,
    get_last_error,
    get_log,
    get_parameter,
    getnonce,
    grant_roles_to_user,
    kill_all_sessions,
    kill_all_sessions_by_pattern,
    kill_cursors,
    kill_op,
    kill_sessions,
    list_commands,
    lock_info,
    log_rotate,
    logout,
    ping,
    plan_cache_clear,
    plan_cache_clear_filters,
    plan_cache_list_filters,
    refresh_sessions,
    revoke_roles_from_user,
    roles_info,
    sasl_continue,
    sasl_start,
    set_feature_compatibility_version,
    set_parameter,
    start_session,
    test_versions,
    update_user,
    users_info,
    whatsmyuri,
)
from docstore.commands.declaration import Command

_MODULES = (
    abort_transaction, build_info, commit_transaction, connection_status, create_user, drop_user, end_sessions,
    features, get_last_error, get_log, get_parameter, getnonce, grant_roles_to_user, kill_all_sessions,
    kill_all_sessions_by_pattern, kill_cursors, kill_op, kill_sessions, list_commands, lock_info, log_rotate,
    logout, ping, plan_cache_clear, plan_cache_clear_filters, plan_cache_list_filters, refresh_sessions,
    revoke_roles_from_user, roles_info, sasl_continue, sasl_start, set_feature_compatibility_version,
    set_parameter, start_session, update_user, users_info, whatsmyuri,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
TEST_COMMANDS: tuple[Command, ...] = (configure_fail_point.COMMAND, *test_versions.COMMANDS)
"""What a process serves besides, when it was started for tests."""
