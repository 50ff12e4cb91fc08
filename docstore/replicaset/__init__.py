"""A member of a replica set at work.

`replicaset` is what a node composes (`standalone` where there is no set); `membership` runs the core of
`docstore.replication` through `driver` and follows a source through `sync`; `commands` are the administrator's
and the other members' ways in.
"""
