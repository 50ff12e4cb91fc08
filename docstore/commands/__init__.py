"""Declaring, parsing and dispatching commands; no sockets, no storage.

Modules: `declaration` (Command, Parameter, CommandTable), `arguments` and `envelope` (reading a request), `context`
(what a command sees), `dispatch` (from request to reply), `concerns` (values of the envelope), `cursors`, `sessions`
and `operations` (registries of a process), `builtin` (commands of every process), `shared` (what commands of nodes and
routers have in common), `legacy` (clients of 2012).
"""
