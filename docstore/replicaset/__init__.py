"""A running member of a replica set.

* `replicaset` is the part of a node (`standalone` without a set).
* `membership` runs the core of `docstore.replication` through `driver`, and follows a source through `sync`.
* `commands` serve administrators and other members.
"""
