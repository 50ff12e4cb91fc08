"""Sharding as pure decisions: chunk maps, targeting, split and balance policy. No sockets, clocks or disks.

A migration has a core on either side, `donor` and `recipient`: each takes what has happened and gives what to do, as
`docstore.replication` does. What is durable of it is in `migration`.
"""
