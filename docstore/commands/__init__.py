"""Declaring, parsing and dispatching commands; no sockets, no storage.

Modules: `declaration` (Command, Parameter, CommandTable), `arguments` and `envelope` (reading a request), `context`
(what a command sees), `dispatch` (from request to reply), `concerns` and `session` (values of the envelope), `cursors`,
`client_sessions` and `operations` (registries of a process), `shared` (commands that every executable serves alike).
"""
