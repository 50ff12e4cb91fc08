"""The commands that every process serves, one module each: they need nothing but the process's registries."""

from __future__ import annotations

from docstore.commands.builtin import (
    build_info,
    connection_status,
    end_sessions,
    features,
    get_log,
    kill_all_sessions,
    kill_cursors,
    kill_op,
    kill_sessions,
    list_commands,
    ping,
    refresh_sessions,
    start_session,
    whatsmyuri,
)
from docstore.commands.declaration import Command

_MODULES = (
    build_info, connection_status, end_sessions, features, get_log, kill_all_sessions, kill_cursors,
    kill_op, kill_sessions, list_commands, ping, refresh_sessions, start_session, whatsmyuri,
)  # fmt: skip

COMMANDS: tuple[Command, ...] = tuple(module.COMMAND for module in _MODULES)
