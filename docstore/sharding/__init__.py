"""Sharding as pure decisions: chunk maps, targeting, split and balance policy. No sockets, clocks or disks.

A migration has a core on either side, `donor` and `recipient`: each takes events and returns effects, as
`docstore.replication` does. Its durable documents are in `migration`.
"""
