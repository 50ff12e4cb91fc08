"""The specs of commands that several kinds of process serve, each by a handler of its own: nodes, shards and routers.

Always true: a process serves such a command as its spec says, but for the exceptions that its handler states. What one
handler serves for all is in `docstore.commands.builtin`; what one kind of process has is declared beside its handler.
"""
