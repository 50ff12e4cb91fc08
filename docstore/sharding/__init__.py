"""Sharding as pure decisions: chunk maps, targeting, split and balance policy, migrations. No sockets, clocks or
disks."""
