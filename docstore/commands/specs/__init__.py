"""Specs of commands that several kinds of process serve, each by its own handler: nodes, shards and routers.

A process serves such a command as its spec declares, except for the exceptions that its handler declares. Commands with
one handler for all are in `docstore.commands.builtin`; commands of one kind of process are declared with their handler.
"""
