"""Declaring, parsing and dispatching commands; no sockets, no storage.

Declarations: `declaration` (Spec, Command, Parameter, CommandTable), `specs` (of commands that several kinds of process
serve), `builtin` (commands that all serve by the same handlers). From request to reply: `arguments`, `envelope` and
`requests` (reading it), `context` (what a command sees), `dispatch`. Registries of a process: `cursors`, `sessions`,
`operations`. Clients of 2012: `legacy`.
"""
