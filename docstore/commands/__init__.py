"""Declaration, parsing and dispatch of commands; no sockets, no storage.

Declarations: `declaration` (Spec, Command, Parameter, CommandTable), `specs` (commands that several kinds of process
serve), `builtin` (commands that all serve by the same handlers). From request to reply: `arguments`, `envelope` and
`requests` (parsing), `context` (the request as a command sees it), `dispatch`. Registries of a process: `cursors`,
`sessions`, `operations`. Clients of 2012: `legacy`.
"""
