"""Shards and config servers in one process: migrations, kills in the middle of them, range deletions."""
