"""The native protocol of CQL on a port of a process: connections, logins, and statements as commands.

A request that reads or writes is the command `cql` of a table of its own, run by a dispatcher in process: so currentOp,
killOp, the log of slow queries, fail points, the audit log and access control treat it as any other command. What
does not fit into a document, bound values and rows, goes by a `NativeCall` that the command names.
"""
