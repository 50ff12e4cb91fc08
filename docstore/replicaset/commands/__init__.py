"""The commands of replica sets, one module each, sorted."""

from __future__ import annotations

from docstore.commands.declaration import Command
from docstore.replicaset.commands import (
    repl_set_abort_primary_catch_up,
    repl_set_fetch_sessions,
    repl_set_freeze,
    repl_set_get_config,
    repl_set_get_rbid,
    repl_set_get_status,
    repl_set_heartbeat,
    repl_set_initiate,
    repl_set_maintenance,
    repl_set_reconfig,
    repl_set_request_votes,
    repl_set_step_down,
    repl_set_step_up,
    repl_set_sync_from,
    repl_set_update_position,
)

COMMANDS: tuple[Command, ...] = (
    repl_set_abort_primary_catch_up.COMMAND,
    repl_set_fetch_sessions.COMMAND,
    repl_set_freeze.COMMAND,
    repl_set_get_config.COMMAND,
    repl_set_get_rbid.COMMAND,
    repl_set_get_status.COMMAND,
    repl_set_heartbeat.COMMAND,
    repl_set_initiate.COMMAND,
    repl_set_maintenance.COMMAND,
    repl_set_reconfig.COMMAND,
    repl_set_request_votes.COMMAND,
    repl_set_step_down.COMMAND,
    repl_set_step_up.COMMAND,
    repl_set_sync_from.COMMAND,
    repl_set_update_position.COMMAND,
)
