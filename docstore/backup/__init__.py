"""Backups of nodes, sets and clusters in a repository, and their restoration: `docstore backup`, `docstore restore`.

A backup is read over the wire, from checkpoints and oplogs; it is restored without a server, into data directories.
"""
